//! RTU: unit id, PDU and CRC, with nothing that tells where a frame begins or ends (Modbus over serial line V1.02, section
//! 2.5.1).
//!
//! So an answer is looked for at every byte: the unit and function that were asked, the length that follows from them, and
//! a CRC that fits. What stands before it, be it noise, an echo or another station's answer, is passed over.

use bytes::{BufMut, Bytes, BytesMut};
use crc::{CRC_16_MODBUS, Crc, Table};
use tokio_modbus::Request;

use super::pdu::answer_length;

static CRC: Crc<u16, Table<1>> = Crc::<u16, Table<1>>::new(&CRC_16_MODBUS);

/// Unit id and CRC around a PDU.
const AROUND: usize = 3;
/// Bytes of the frame of an exception.
const EXCEPTION: usize = 5;
/// Bytes of the frame that asks to read.
const READ: usize = 8;
/// Bytes of the longest frame (section 2.5.1.1).
const LONGEST: usize = 256;

/// A frame with a good CRC, of the unit and function that were asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub pdu: Bytes,
    /// Where it begins in what was heard.
    pub start: usize,
    /// Behind its last byte.
    pub end: usize,
}

/// Appends the frame of `pdu`.
pub fn put_rtu(unit_id: u8, pdu: &[u8], out: &mut BytesMut) {
    let start = out.len();
    out.put_u8(unit_id);
    out.put_slice(pdu);
    let crc = CRC.checksum(out.get(start..).unwrap_or_default());
    // The low byte goes first, unlike all else in Modbus.
    out.put_u16_le(crc);
}

/// The first frame from `from` on that can be the unit's answer to `request`.
#[must_use]
pub fn find_answer(unit_id: u8, request: &Request<'_>, heard: &[u8], from: usize) -> Option<Found> {
    for start in from..heard.len() {
        let rest = heard.get(start..)?;
        let Some(length) = candidate(unit_id, request, rest) else { continue };
        match rest.get(..length) {
            Some(frame) if is_whole(frame) => {
                let pdu = Bytes::copy_from_slice(frame.get(1..length - 2).unwrap_or_default());
                return Some(Found { pdu, start, end: start + length });
            }
            // The answer is still coming in: what lies within it is its data.
            None if length == usual_length(request) && !is_exception(rest) => return None,
            _ => {}
        }
    }
    None
}

/// The first frame from `from` on of any unit, be it an answer or what another master asks, and which of these.
#[must_use]
pub fn find_frame(heard: &[u8], from: usize) -> Option<(u8, Found, bool)> {
    (from..heard.len()).find_map(|start| {
        let rest = heard.get(start..)?;
        let (unit_id, [answer, request]) = match rest {
            [unit_id @ 1..=247, function @ (1..=6 | 15 | 16 | 22 | 43), ..] => {
                let answer = rest.get(1..).and_then(|pdu| answer_length(*function, pdu));
                (*unit_id, [answer.map(|length| length + AROUND), request_length(*function, rest)])
            }
            [unit_id @ 1..=247, function, ..] if matches!(function & 0x7F, 1..=6 | 15 | 16 | 22 | 43) => {
                (*unit_id, [Some(EXCEPTION), None])
            }
            _ => return None,
        };
        let whole = |length: Option<usize>| {
            let length = length.filter(|length| *length <= LONGEST)?;
            rest.get(..length).filter(|frame| is_whole(frame))
        };
        let (frame, is_answer) =
            whole(answer).map(|frame| (frame, true)).or_else(|| Some((whole(request)?, false)))?;
        let pdu = Bytes::copy_from_slice(frame.get(1..frame.len() - 2).unwrap_or_default());
        Some((unit_id, Found { pdu, start, end: start + frame.len() }, is_answer))
    })
}

/// How long a request is that begins so; `None` where too little is there.
fn request_length(function: u8, frame: &[u8]) -> Option<usize> {
    match function {
        1..=6 => Some(READ),
        15 | 16 => frame.get(6).map(|count| 9 + usize::from(*count)),
        _ => None,
    }
}

/// Whether a unit was asked to read something.
#[must_use]
pub fn asks(heard: &[u8], unit_id: u8) -> bool {
    heard.windows(READ).any(|frame| matches!(frame, [unit, 1..=4, ..] if *unit == unit_id) && is_whole(frame))
}

/// Whether a whole answer of the unit was heard, spoilt: its CRC does not fit. `false` while an answer may still be on its
/// way.
#[must_use]
pub fn is_spoilt(unit_id: u8, request: &Request<'_>, heard: &[u8]) -> bool {
    let mut spoilt = false;
    for start in 0..heard.len() {
        let rest = heard.get(start..).unwrap_or_default();
        match candidate(unit_id, request, rest) {
            Some(length) if rest.len() < length => return false,
            Some(length) if length == usual_length(request) || is_exception(rest) => {
                spoilt |= !rest.get(..length).is_some_and(is_whole);
            }
            Some(_) | None => {}
        }
    }
    spoilt
}

/// Bytes of the frame of an answer, from unit id to CRC; what comes back where the device says nothing unusual.
#[must_use]
pub fn usual_length(request: &Request<'_>) -> usize {
    let pdu = match request {
        Request::ReadCoils(_, count) | Request::ReadDiscreteInputs(_, count) => {
            2 + usize::from(count.div_ceil(8))
        }
        Request::ReadHoldingRegisters(_, count) | Request::ReadInputRegisters(_, count) => {
            2 + 2 * usize::from(*count)
        }
        Request::MaskWriteRegister(..) => 7,
        Request::ReadDeviceIdentification(..) => LONGEST - AROUND,
        _ => 5,
    };
    pdu + AROUND
}

/// Whether a frame that begins so is an exception.
fn is_exception(frame: &[u8]) -> bool {
    frame.get(1).is_some_and(|function| function & 0x80 != 0)
}

/// Whether the CRC of a frame fits.
fn is_whole(frame: &[u8]) -> bool {
    frame.split_last_chunk::<2>().is_some_and(|(body, crc)| CRC.checksum(body) == u16::from_le_bytes(*crc))
}

/// How long a frame is that begins like an answer to `request`; `None` where it does not, or too little is there.
fn candidate(unit_id: u8, request: &Request<'_>, bytes: &[u8]) -> Option<usize> {
    let asked = request.function_code().value();
    let pdu = match bytes {
        [unit, function, ..] if *unit == unit_id && *function == asked => {
            answer_length(asked, bytes.get(1..)?)?
        }
        [unit, function, ..] if *unit == unit_id && *function == asked | 0x80 => 2,
        _ => return None,
    };
    Some(pdu + AROUND).filter(|length| *length <= LONGEST)
}
