//! Requests → bytes, and bytes → the answer to exactly that request.

use bytes::{BufMut, Bytes, BytesMut};
use tokio_modbus::{ExceptionCode, Request, Response};

use super::{READ_BITS, READ_REGISTERS, WRITE_COILS, WRITE_REGISTERS};

/// What a device answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Holds exactly what was asked for: bits are cut to the number of the request.
    Response(Response),
    Exception(ExceptionCode),
}

/// A request that no frame can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("{count} values where one request holds 1 to {most}")]
    Quantity { count: usize, most: u16 },
    #[error("{count} values from address {address} end past address 65535")]
    Address { address: u16, count: usize },
    #[error("function 0x{0:02X} is not encoded here")]
    Function(u8),
}

/// A PDU that is not the answer to the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// It answers something else: whoever asked should wait on.
    #[error("an answer of function 0x{got:02X} to a request of function 0x{asked:02X}")]
    Function { asked: u8, got: u8 },
    /// It has the function asked for, but not its form.
    #[error("an answer of {got} bytes where {expected} are due")]
    Size { expected: usize, got: usize },
    #[error("an answer that counts {got} data bytes where {expected} are due")]
    ByteCount { expected: u8, got: u8 },
    #[error("an answer that contradicts itself")]
    Content,
    /// A write was acknowledged, but not the one that was sent.
    #[error("the device echoed {got} where {sent} was sent")]
    Echo { sent: String, got: String },
}

/// MEI type of Read Device Identification (section 6.21).
const IDENTIFICATION: u8 = 0x0E;

/// How many bytes the PDU of an answer has that begins with `head` and has the function that was asked for; `None` while
/// too little of it is there to tell.
///
/// The length follows from what the answer says of itself, so that one of a wrong length is still found whole.
pub(super) fn answer_length(asked: u8, head: &[u8]) -> Option<usize> {
    match asked {
        1..=4 => head.get(1).map(|count| 2 + usize::from(*count)),
        22 => Some(7),
        43 => {
            let objects = *head.get(6)?;
            (0..objects).try_fold(7_usize, |at, _| Some(at + 2 + usize::from(*head.get(at + 1)?)))
        }
        _ => Some(5),
    }
}

/// Appends the PDU of a request (Modbus Application Protocol V1.1b3, section 6); nothing where it is unfit.
pub fn encode_request(request: &Request<'_>, out: &mut BytesMut) -> Result<(), Unfit> {
    let function = request.function_code().value();
    if let Request::ReadDeviceIdentification(code, object) = request {
        out.put_slice(&[function, IDENTIFICATION, code.value(), *object]);
        return Ok(());
    }
    let (address, count, most) = extent(request).ok_or(Unfit::Function(function))?;
    let Some(quantity) = u16::try_from(count).ok().filter(|count| (1..=most).contains(count)) else {
        return Err(Unfit::Quantity { count, most });
    };
    if u32::from(address) + u32::from(quantity) > 0x1_0000 {
        return Err(Unfit::Address { address, count });
    }
    out.put_u8(function);
    out.put_u16(address);
    match request {
        Request::WriteSingleCoil(_, on) => out.put_u16(coil_word(*on)),
        Request::WriteSingleRegister(_, word) => out.put_u16(*word),
        Request::MaskWriteRegister(_, and, or) => {
            out.put_u16(*and);
            out.put_u16(*or);
        }
        Request::WriteMultipleCoils(_, coils) => {
            out.put_u16(quantity);
            out.put_u8(bit_bytes(quantity));
            for eight in coils.chunks(8) {
                out.put_u8(eight.iter().rev().fold(0, |byte, on| byte << 1 | u8::from(*on)));
            }
        }
        Request::WriteMultipleRegisters(_, words) => {
            out.put_u16(quantity);
            out.put_u8(word_bytes(quantity));
            words.iter().for_each(|word| out.put_u16(*word));
        }
        _ => out.put_u16(quantity),
    }
    Ok(())
}

/// Reads `pdu` as the answer to `request`, and takes nothing that is not exactly that.
pub fn decode_answer(request: &Request<'_>, pdu: &Bytes) -> Result<Answer, Misfit> {
    let asked = request.function_code().value();
    match pdu.as_ref() {
        [] => Err(Misfit::Size { expected: 2, got: 0 }),
        [function, exception] if *function == asked | 0x80 => {
            Ok(Answer::Exception(ExceptionCode::new(*exception)))
        }
        [function, ..] if *function == asked | 0x80 => Err(Misfit::Size { expected: 2, got: pdu.len() }),
        [function, rest @ ..] if *function == asked => {
            check(request, rest)?;
            response(request, pdu)
        }
        [function, ..] => Err(Misfit::Function { asked, got: *function }),
    }
}

/// Checks all that the request settles beforehand: sizes, counts, echoes.
fn check(request: &Request<'_>, rest: &[u8]) -> Result<(), Misfit> {
    let data = match request {
        Request::ReadCoils(_, count) | Request::ReadDiscreteInputs(_, count) => Some(bit_bytes(*count)),
        Request::ReadHoldingRegisters(_, count) | Request::ReadInputRegisters(_, count) => {
            Some(word_bytes(*count))
        }
        _ => None,
    };
    if let Some(expected) = data {
        if let Some(got) = rest.first().copied().filter(|got| *got != expected) {
            return Err(Misfit::ByteCount { expected, got });
        }
        return size(rest, 1 + usize::from(expected));
    }
    if let Request::MaskWriteRegister(address, and, or) = request {
        return check_mask(rest, [*address, *and, *or]);
    }
    let Some((address, word)) = echo(request) else { return Ok(()) };
    let [a, b, c, d] = rest else { return size(rest, 4) };
    let got = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
    if got == (address, word) {
        return Ok(());
    }
    let show = |address: u16, word: u16| format!("0x{word:04X} at address {address}");
    Err(Misfit::Echo { sent: show(address, word), got: show(got.0, got.1) })
}

/// Section 6.16: the answer to a mask write is its echo.
fn check_mask(rest: &[u8], sent: [u16; 3]) -> Result<(), Misfit> {
    let (&[address, and, or], []) = rest.as_chunks::<2>() else { return size(rest, 6) };
    let got = [address, and, or].map(u16::from_be_bytes);
    if got == sent {
        return Ok(());
    }
    let show = |[address, and, or]: [u16; 3]| format!("and 0x{and:04X} or 0x{or:04X} at address {address}");
    Err(Misfit::Echo { sent: show(sent), got: show(got) })
}

fn response(request: &Request<'_>, pdu: &Bytes) -> Result<Answer, Misfit> {
    // Whatever else was asked was checked above, so the library finds nothing left to object to.
    let mut response = Response::try_from(pdu.clone()).map_err(|_invalid| Misfit::Content)?;
    if let (
        Response::ReadCoils(bits) | Response::ReadDiscreteInputs(bits),
        Request::ReadCoils(_, count) | Request::ReadDiscreteInputs(_, count),
    ) = (&mut response, request)
    {
        bits.truncate(usize::from(*count));
    }
    Ok(Answer::Response(response))
}

/// Address, number of values, and the most that the function can carry.
fn extent(request: &Request<'_>) -> Option<(u16, usize, u16)> {
    Some(match request {
        Request::ReadCoils(address, count) | Request::ReadDiscreteInputs(address, count) => {
            (*address, usize::from(*count), READ_BITS)
        }
        Request::ReadHoldingRegisters(address, count) | Request::ReadInputRegisters(address, count) => {
            (*address, usize::from(*count), READ_REGISTERS)
        }
        Request::WriteSingleCoil(address, _)
        | Request::WriteSingleRegister(address, _)
        | Request::MaskWriteRegister(address, ..) => (*address, 1, 1),
        Request::WriteMultipleCoils(address, coils) => (*address, coils.len(), WRITE_COILS),
        Request::WriteMultipleRegisters(address, words) => (*address, words.len(), WRITE_REGISTERS),
        _ => return None,
    })
}

/// What a device that took the write says back: address, and value or quantity.
fn echo(request: &Request<'_>) -> Option<(u16, u16)> {
    match request {
        Request::WriteSingleCoil(address, on) => Some((*address, coil_word(*on))),
        Request::WriteSingleRegister(address, word) => Some((*address, *word)),
        Request::WriteMultipleCoils(address, coils) => Some((*address, u16::try_from(coils.len()).ok()?)),
        Request::WriteMultipleRegisters(address, words) => Some((*address, u16::try_from(words.len()).ok()?)),
        _ => None,
    }
}

fn size(rest: &[u8], expected: usize) -> Result<(), Misfit> {
    if rest.len() == expected {
        Ok(())
    } else {
        Err(Misfit::Size { expected: expected + 1, got: rest.len() + 1 })
    }
}

/// Section 6.5: `0xFF00` is on, `0x0000` is off.
fn coil_word(on: bool) -> u16 {
    if on { 0xFF00 } else { 0 }
}

fn bit_bytes(count: u16) -> u8 {
    u8::try_from(count.div_ceil(8)).unwrap_or(u8::MAX)
}

fn word_bytes(count: u16) -> u8 {
    u8::try_from(count.saturating_mul(2)).unwrap_or(u8::MAX)
}
