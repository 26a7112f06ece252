//! RTU frames: the check sum, and where a frame ends (Modbus over serial line V1.02, section 2.5.1).
//!
//! Frames are found by their expected length and their check sum, not by silence: neither a pseudo-terminal nor TCP
//! keeps silence. What belongs to no frame is noise. Knows bytes only.

use bytes::{Buf, Bytes, BytesMut};

/// The longest frame: unit, a PDU of 253 bytes, check sum.
const LONGEST: usize = 256;

/// Whose frames are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Request,
    Answer,
}

/// CRC-16/MODBUS, in the order of the wire.
pub(super) fn crc(bytes: &[u8]) -> [u8; 2] {
    let shift = |crc: u16| if crc & 1 == 1 { crc >> 1 ^ 0xA001 } else { crc >> 1 };
    bytes
        .iter()
        .fold(0xFFFF_u16, |crc, byte| (0..8).fold(crc ^ u16::from(*byte), |crc, _| shift(crc)))
        .to_le_bytes()
}

/// Takes the first whole frame off, and the noise before it, which comes first.
pub(super) fn take(side: Side, inbox: &mut BytesMut) -> Option<(Bytes, Bytes)> {
    let found = (0..inbox.len()).find_map(|start| {
        let rest = inbox.get(start..)?;
        let size = size(side, rest).filter(|size| *size <= LONGEST)?;
        is_whole(rest.get(..size)?).then_some((start, size))
    });
    let Some((start, size)) = found else {
        // The frame that ends last may have begun so far back.
        inbox.advance(inbox.len().saturating_sub(LONGEST - 1));
        return None;
    };
    Some((inbox.split_to(start).freeze(), inbox.split_to(size).freeze()))
}

fn is_whole(frame: &[u8]) -> bool {
    frame.split_last_chunk::<2>().is_some_and(|(body, sum)| body.len() >= 2 && crc(body) == *sum)
}

/// Length of the frame that begins here; of one with an unknown function code, all that is there.
fn size(side: Side, bytes: &[u8]) -> Option<usize> {
    let at = |index: usize| bytes.get(index).copied().map(usize::from);
    let size = match (side, *bytes.get(1)?) {
        (Side::Request, 1..=6 | 8) | (Side::Answer, 5 | 6 | 8 | 11 | 15 | 16) => 8,
        (Side::Request, 7 | 11 | 12 | 17) => 4,
        (Side::Request, 15 | 16) => 9 + at(6)?,
        (_, 22) => 10,
        (Side::Request, 23) => 13 + at(10)?,
        (Side::Request, 43) if at(2)? == 0x0E => 7,
        (Side::Answer, 1..=4 | 12 | 17 | 23) => 5 + at(2)?,
        (Side::Answer, 7 | 0x80..) => 5,
        // Device identification: a head of 8 bytes, then as many objects as the last of them says.
        (Side::Answer, 43) if at(2)? == 0x0E => {
            let objects = (0..at(7)?).try_fold(8, |end, _| Some(end + 2 + at(end + 1)?));
            objects? + 2
        }
        _ => bytes.len(),
    };
    Some(size)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail by a panic")]
mod tests {
    use super::*;

    fn taken(side: Side, bytes: &[u8]) -> (Vec<(usize, Vec<u8>)>, usize) {
        let mut inbox = BytesMut::from(bytes);
        let frames =
            std::iter::from_fn(|| take(side, &mut inbox)).map(|(noise, frame)| (noise.len(), frame.to_vec()));
        (frames.collect(), inbox.len())
    }

    fn sealed(body: &[u8]) -> Vec<u8> {
        [body, &crc(body)].concat()
    }

    #[test]
    fn sums_as_the_catalogue_says() {
        assert_eq!(crc(b"123456789"), [0x37, 0x4B]);
    }

    #[test]
    fn finds_requests_of_every_length_one_byte_after_the_other() {
        for body in [
            &[11, 3, 1, 2, 0, 1][..],
            &[1, 15, 0, 0x13, 0, 10, 2, 0xCD, 1],
            &[1, 16, 0, 1, 0, 2, 4, 0, 10, 1, 2],
            &[1, 22, 0, 4, 0, 0xF2, 0, 0x25],
            &[1, 23, 0, 3, 0, 6, 0, 14, 0, 1, 2, 0, 0xFF],
            &[1, 43, 14, 1, 0],
            &[1, 17],
            &[1, 0x41, 1, 2, 3],
        ] {
            let frame = sealed(body);
            let mut inbox = BytesMut::new();
            for (index, byte) in frame.iter().enumerate() {
                inbox.extend_from_slice(&[*byte]);
                let whole = take(Side::Request, &mut inbox);
                assert_eq!(whole.is_some(), index + 1 == frame.len(), "{frame:02X?} at {index}");
            }
            assert!(inbox.is_empty());
        }
    }

    #[test]
    fn finds_answers_of_every_length() {
        for body in [
            &[11, 3, 2, 0x0A, 0x5D][..],
            &[1, 6, 0, 1, 0, 3],
            &[1, 22, 0, 4, 0, 0xF2, 0, 0x25],
            &[1, 0x83, 2],
            &[1, 43, 14, 1, 0x81, 0, 0, 2, 0, 2, b'a', b'b', 1, 1, b'c'],
        ] {
            let frame = sealed(body);
            let twice = [&frame[..], &frame].concat();
            assert_eq!(taken(Side::Answer, &twice), (vec![(0, frame.clone()), (0, frame)], 0));
        }
    }

    #[test]
    fn passes_over_noise_and_keeps_a_begun_frame() {
        let frame = sealed(&[1, 3, 0, 0, 0, 1]);
        let noise = [0, 0xFF, 1, 16, 0, 0, 0, 60, 120];
        let bytes = [&noise[..], &frame, &[1, 3, 0]].concat();
        assert_eq!(taken(Side::Request, &bytes), (vec![(9, frame)], 3));
    }

    #[test]
    fn drops_a_frame_with_a_wrong_sum_and_endless_noise() {
        let mut frame = sealed(&[1, 3, 0, 0, 0, 1]);
        *frame.last_mut().unwrap() ^= 1;
        assert!(taken(Side::Request, &frame).0.is_empty());
        assert_eq!(taken(Side::Request, &[0xFE; 5000]), (vec![], LONGEST - 1));
    }
}
