//! MBAP: the header that Modbus TCP puts before a PDU (Modbus Messaging on TCP/IP V1.0b, section 3.1.3).

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Transaction id, protocol id, length.
const PREFIX: usize = 6;
/// What the length may say: the unit id and a PDU of 1 to 253 bytes.
const LENGTHS: std::ops::RangeInclusive<u16> = 2..=254;

/// One frame as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub transaction: u16,
    pub unit_id: u8,
    pub pdu: Bytes,
}

/// The stream holds something else than Modbus TCP; where the next frame begins is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    #[error("an HTTP server answers here, no Modbus TCP device")]
    Http,
    #[error("not Modbus TCP: the protocol id is 0x{0:04X}, not 0")]
    Protocol(u16),
    #[error("not Modbus TCP: a frame claims a length of {0}, allowed is 2 to 254")]
    Length(u16),
}

/// Takes the first frame out of `buffer`; `None` where it is not whole yet.
///
/// A wrong header is told as soon as its bytes are there: nothing waits for a length that cannot be.
pub fn take_frame(buffer: &mut BytesMut) -> Result<Option<Frame>, StreamError> {
    let Some((transaction, rest)) = buffer.split_first_chunk() else { return Ok(None) };
    let transaction = u16::from_be_bytes(*transaction);
    let Some((protocol, rest)) = rest.split_first_chunk() else { return Ok(None) };
    let protocol = u16::from_be_bytes(*protocol);
    if buffer.starts_with(b"HTTP") {
        return Err(StreamError::Http);
    }
    if protocol != 0 {
        return Err(StreamError::Protocol(protocol));
    }
    let Some((length, body)) = rest.split_first_chunk() else { return Ok(None) };
    let length = u16::from_be_bytes(*length);
    if !LENGTHS.contains(&length) {
        return Err(StreamError::Length(length));
    }
    let length = usize::from(length);
    let (true, Some(unit_id)) = (body.len() >= length, body.first().copied()) else { return Ok(None) };
    buffer.advance(PREFIX + 1);
    Ok(Some(Frame { transaction, unit_id, pdu: buffer.split_to(length - 1).freeze() }))
}

/// Appends the frame of `pdu`, which [`encode_request`](super::encode_request) made and so is 253 bytes at most.
pub fn put_frame(transaction: u16, unit_id: u8, pdu: &[u8], out: &mut BytesMut) {
    out.reserve(PREFIX + 1 + pdu.len());
    out.put_u16(transaction);
    out.put_u16(0);
    out.put_u16(u16::try_from(pdu.len() + 1).unwrap_or(u16::MAX));
    out.put_u8(unit_id);
    out.put_slice(pdu);
}
