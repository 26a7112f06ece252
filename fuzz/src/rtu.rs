//! What is heard on a serial line after a request, and the answer in it.

use arbitrary::Arbitrary;
use bytes::BytesMut;
use fieldbridge::codec::modbus::{Found, find_answer, find_frame, is_spoilt, put_rtu, usual_length};

use crate::ask::Ask;

#[derive(Debug, PartialEq, Arbitrary)]
pub struct Input<'a> {
    pub unit_id: u8,
    pub ask: Ask,
    /// Where to begin to look.
    pub from: u16,
    /// Length of what stands before the answer, of `noise`.
    pub before: u8,
    /// The byte of the answer that a fault of the line changes, and how.
    pub at: u8,
    pub flip: u8,
    /// Where an answer is put in, also what it holds.
    pub noise: &'a [u8],
}

pub fn check(input: &Input<'_>) {
    let request = input.ask.request();
    check_heard(input, input.noise, 0);
    check_heard(input, input.noise, input.from.into());
    if !input.ask.is_fit() {
        return;
    }
    let (before, after) = input.noise.split_at(input.noise.len().min(input.before.into()));
    let pdu = input.ask.owed(after);
    let mut heard = BytesMut::from(before);
    put_rtu(input.unit_id, &pdu, &mut heard);
    let end = heard.len();
    let frame = &heard[before.len()..];
    assert_eq!(frame[0], input.unit_id);
    assert_eq!(frame[1..frame.len() - 2], pdu[..]);
    assert_eq!(frame[frame.len() - 2..], crc(&frame[..frame.len() - 2]).to_le_bytes());
    if input.ask.function == 43 {
        assert!(usual_length(&request) >= frame.len());
    } else {
        assert_eq!(usual_length(&request), frame.len());
    }
    check_spoilt(input, frame);
    heard.extend_from_slice(after);
    check_heard(input, &heard, 0);
    check_heard(input, &heard, before.len());
    let own = Found { pdu, start: before.len(), end };
    assert_eq!(find_answer(input.unit_id, &request, &heard, before.len()), Some(own.clone()));
    // Noise that looks like an answer, or like the beginning of one, comes first; all other noise is passed over.
    if (0..before.len()).all(|start| !is_word(input, &heard, start)) {
        assert_eq!(find_answer(input.unit_id, &request, &heard, 0), Some(own));
    }
}

/// What is found is what a search by the book finds, and nothing where that finds nothing.
fn check_heard(input: &Input<'_>, heard: &[u8], from: usize) {
    let request = input.ask.request();
    let found = find_answer(input.unit_id, &request, heard, from);
    let expected = (from..heard.len()).find(|start| is_word(input, heard, *start));
    assert_eq!(
        found.as_ref().map(|found| found.start),
        expected.filter(|start| is_answer(input, heard, *start))
    );
    check_frames(heard, from);
    if let Some(Found { pdu, start, end }) = &found {
        assert!(*start >= from && *end <= heard.len() && end - start <= 256);
        let frame = &heard[*start..*end];
        assert_eq!(frame[0], input.unit_id);
        assert_eq!(frame[1] & 0x7F, input.ask.function);
        assert_eq!(frame[frame.len() - 2..], crc(&frame[..frame.len() - 2]).to_le_bytes());
        assert_eq!(pdu[..], frame[1..frame.len() - 2]);
    }
    if found.is_none() && from == 0 {
        let lengths = || (0..heard.len()).filter_map(|start| Some((start, length(input, &heard[start..])?)));
        let open = lengths().any(|(start, length)| start + length > heard.len());
        let usual =
            lengths().any(|(start, length)| length == usual_length(&request) || heard[start + 1] & 0x80 != 0);
        assert_eq!(is_spoilt(input.unit_id, &request, heard), usual && !open);
    }
}

/// What is found as a frame of any unit is one.
fn check_frames(heard: &[u8], from: usize) {
    if let Some((unit_id, Found { pdu, start, end }, _)) = find_frame(heard, from) {
        let frame = &heard[start..end];
        assert!(start >= from && frame.len() <= 256);
        assert_eq!((frame[0], &frame[1..frame.len() - 2]), (unit_id, &pdu[..]));
        assert_eq!(frame[frame.len() - 2..], crc(&frame[..frame.len() - 2]).to_le_bytes());
    }
}

/// A changed byte is noticed: the frame is no answer, and where it still looks like one it is told to be spoilt.
fn check_spoilt(input: &Input<'_>, frame: &[u8]) {
    let at = usize::from(input.at) % frame.len();
    if input.flip == 0 {
        return;
    }
    let mut spoilt = frame.to_vec();
    spoilt[at] ^= input.flip;
    let request = input.ask.request();
    // A burst of 8 bits is always noticed, but a changed length moves the checksum.
    if length(input, &spoilt) == Some(frame.len()) {
        assert!(!is_answer(input, &spoilt, 0));
        let alone = (1..spoilt.len()).all(|start| length(input, &spoilt[start..]).is_none());
        if alone && frame.len() == usual_length(&request) {
            assert!(is_spoilt(input.unit_id, &request, &spoilt));
            assert!(!is_spoilt(input.unit_id, &request, &spoilt[..spoilt.len() - 1]), "its end may come yet");
        }
    }
}

/// Whether an answer to the request begins at `start`.
fn is_answer(input: &Input<'_>, heard: &[u8], start: usize) -> bool {
    let rest = &heard[start..];
    match length(input, rest) {
        Some(length) if length <= rest.len() => {
            crc(&rest[..length - 2]).to_le_bytes() == rest[length - 2..length]
        }
        _ => false,
    }
}

/// Whether an answer begins at `start`, or the beginning of the usual one lies there, whose data is not to be looked into.
fn is_word(input: &Input<'_>, heard: &[u8], start: usize) -> bool {
    let rest = &heard[start..];
    let usual = usual_length(&input.ask.request());
    let comes = length(input, rest).is_some_and(|length| length > rest.len() && length == usual);
    is_answer(input, heard, start) || (comes && rest[1] & 0x80 == 0)
}

/// How long the frame is that begins like an answer, 256 bytes at most.
fn length(input: &Input<'_>, rest: &[u8]) -> Option<usize> {
    if *rest.first()? != input.unit_id {
        return None;
    }
    let function = *rest.get(1)?;
    if function == input.ask.function | 0x80 {
        return Some(5);
    }
    if function != input.ask.function {
        return None;
    }
    let length = match function {
        1..=4 => 5 + usize::from(*rest.get(2)?),
        22 => 10,
        43 => {
            let mut length = 8;
            for _ in 0..*rest.get(7)? {
                length += 2 + usize::from(*rest.get(length + 1)?);
            }
            length + 2
        }
        _ => 8,
    };
    (length <= 256).then_some(length)
}

/// CRC-16/MODBUS bit by bit (Modbus over serial line V1.02, section 6.2.2).
#[must_use]
pub fn crc(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xFFFF, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xA001 } else { crc >> 1 })
    })
}
