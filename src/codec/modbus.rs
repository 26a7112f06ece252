//! Modbus PDUs, and MBAP and RTU framing, over tokio-modbus's types.
//!
//! Owns the bytes of requests and answers and every check on them. Must not know sockets, time or tags.

#![warn(clippy::as_conversions)]

mod mbap;
mod pdu;
mod rtu;

#[cfg(test)]
mod tests;

pub use mbap::{Frame, StreamError, put_frame, take_frame};
pub use pdu::{Answer, Misfit, Unfit, decode_answer, encode_request};
pub use rtu::{Found, asks, find_answer, find_frame, is_spoilt, put_rtu, usual_length};
use tokio_modbus::ExceptionCode;

/// Most registers that one read may ask for (Modbus Application Protocol V1.1b3, sections 6.3 and 6.4).
pub const READ_REGISTERS: u16 = 125;
/// Most coils or discrete inputs that one read may ask for (sections 6.1 and 6.2).
pub const READ_BITS: u16 = 2000;
/// Most registers that one write may carry (section 6.12).
pub const WRITE_REGISTERS: u16 = 123;
/// Most coils that one write may carry (section 6.11).
pub const WRITE_COILS: u16 = 1968;

/// An exception as people look it up, such as `exception 0x02 (illegal data address)` (section 7).
#[must_use]
pub fn exception_text(exception: ExceptionCode) -> String {
    let label = match exception {
        ExceptionCode::IllegalFunction => "illegal function",
        ExceptionCode::IllegalDataAddress => "illegal data address",
        ExceptionCode::IllegalDataValue => "illegal data value",
        ExceptionCode::ServerDeviceFailure => "server device failure",
        ExceptionCode::Acknowledge => "acknowledge",
        ExceptionCode::ServerDeviceBusy => "server device busy",
        ExceptionCode::MemoryParityError => "memory parity error",
        ExceptionCode::GatewayPathUnavailable => "gateway path unavailable",
        ExceptionCode::GatewayTargetDevice => "gateway target device failed to respond",
        ExceptionCode::Custom(_) => "not in the specification",
    };
    format!("exception 0x{:02X} ({label})", u8::from(exception))
}
