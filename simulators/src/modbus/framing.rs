//! Frames on a stream of bytes: MBAP (messaging on TCP/IP V1.0b, section 3.1) or RTU.
//!
//! Knows where a frame ends and what surrounds its PDU; no functions, no units.

use std::{io, ops::RangeInclusive};

use bytes::{Bytes, BytesMut};

use super::rtu::{self, Side};

/// Transaction, protocol and length, before the bytes that the length counts.
const PREFIX: usize = 6;
/// Lengths that are read: from unit and function code alone to a write of 255 bytes. The specification ends at 254, but a
/// write of too many values is worth an exception; with any other length the stream is not Modbus.
const LENGTHS: RangeInclusive<u16> = 2..=262;

/// How frames stand on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// MBAP header and PDU: Modbus TCP, also within TLS.
    Tcp,
    /// Unit, PDU and check sum: serial lines, also through TCP.
    Rtu,
}

impl Framing {
    /// Takes the first whole frame off, and the noise before it, which comes first; only RTU has noise.
    ///
    /// # Errors
    /// What cannot be an MBAP header: nothing after it can be trusted.
    pub(super) fn take(self, side: Side, inbox: &mut BytesMut) -> io::Result<Option<(Bytes, Bytes)>> {
        if self == Self::Rtu {
            return Ok(rtu::take(side, inbox));
        }
        let Some(&[_, _, p1, p2, l1, l2]) = inbox.first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let length = u16::from_be_bytes([l1, l2]);
        if [p1, p2] != [0, 0] || !LENGTHS.contains(&length) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a Modbus TCP header"));
        }
        let size = PREFIX + usize::from(length);
        Ok((inbox.len() >= size).then(|| (Bytes::new(), inbox.split_to(size).freeze())))
    }

    /// Unit and PDU of a whole frame.
    pub(super) fn open(self, frame: &[u8]) -> Option<(u8, &[u8])> {
        match self {
            Self::Tcp => frame.get(PREFIX..)?.split_first(),
            Self::Rtu => frame.split_last_chunk::<2>()?.0.split_first(),
        }
        .map(|(unit, pdu)| (*unit, pdu))
    }

    /// A frame with this unit and PDU, and the transaction of `model`, which is a frame as well.
    pub(super) fn seal(self, model: &[u8], unit: u8, pdu: &[u8]) -> Vec<u8> {
        match self {
            Self::Tcp => {
                let length = u16::try_from(pdu.len() + 1).unwrap_or(u16::MAX).to_be_bytes();
                let transaction = model.first_chunk::<2>().copied().unwrap_or_default();
                [&transaction[..], &[0, 0], &length, &[unit], pdu].concat()
            }
            Self::Rtu => {
                let body = [&[unit], pdu].concat();
                let sum = rtu::crc(&body);
                [&body[..], &sum].concat()
            }
        }
    }
}
