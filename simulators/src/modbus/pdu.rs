//! Whether a request PDU has the shape that the specification asks for, and the bytes of an answer's PDU.
//!
//! The library's decoder panics on FC 15 with a wrong byte count and on FC 16 with a quantity of 32768 or more (debug
//! builds), where a device answers an exception. So requests are looked at before it sees them. Its encoder of answers
//! is not public. Knows no unit and no table.

use std::ops::RangeInclusive;

use tokio_modbus::{ExceptionCode, Response};

/// Quantities of bits in a read: application protocol V1.1b3, sections 6.1 and 6.2.
const READ_BITS: RangeInclusive<u16> = 1..=2000;
/// Quantities of registers in a read: sections 6.3 and 6.4.
const READ_WORDS: RangeInclusive<u16> = 1..=125;
/// Quantities of coils in a write: section 6.11.
const WRITE_BITS: RangeInclusive<u16> = 1..=0x07B0;
/// Quantities of registers in a write: section 6.12.
const WRITE_WORDS: RangeInclusive<u16> = 1..=0x007B;
/// Quantities of registers that are written in one request with a read: section 6.17.
const EXCHANGE_WORDS: RangeInclusive<u16> = 1..=0x0079;
/// MEI type of Read Device Identification: section 6.21.
const DEVICE_IDENTIFICATION: u8 = 0x0E;

/// The exception that a device answers before it looks at any address: 0x01 for a function that no unit here has,
/// 0x03 for a wrong length, quantity, byte count or coil value.
pub(super) fn check(function: u8, body: &[u8]) -> Result<(), ExceptionCode> {
    let ok = match (function, body) {
        (1 | 2, &[_, _, high, low]) => READ_BITS.contains(&u16::from_be_bytes([high, low])),
        (3 | 4, &[_, _, high, low]) => READ_WORDS.contains(&u16::from_be_bytes([high, low])),
        (5, &[_, _, high, low]) => low == 0 && matches!(high, 0x00 | 0xFF),
        (6, &[_, _, _, _]) | (22, &[_, _, _, _, _, _]) => true,
        (15, &[_, _, high, low, count, ref data @ ..]) => {
            let quantity = u16::from_be_bytes([high, low]);
            WRITE_BITS.contains(&quantity)
                && u16::from(count) == quantity.div_ceil(8)
                && data.len() == usize::from(count)
        }
        (16, &[_, _, high, low, count, ref data @ ..]) => {
            let quantity = u16::from_be_bytes([high, low]);
            WRITE_WORDS.contains(&quantity)
                && u16::from(count) == quantity * 2
                && data.len() == usize::from(count)
        }
        (23, &[_, _, r1, r2, _, _, w1, w2, count, ref data @ ..]) => {
            let quantity = u16::from_be_bytes([w1, w2]);
            READ_WORDS.contains(&u16::from_be_bytes([r1, r2]))
                && EXCHANGE_WORDS.contains(&quantity)
                && u16::from(count) == quantity * 2
                && data.len() == usize::from(count)
        }
        (43, &[DEVICE_IDENTIFICATION, code, _]) => (1..=4).contains(&code),
        (43, &[DEVICE_IDENTIFICATION, ..]) | (1..=6 | 15 | 16 | 22 | 23, _) => false,
        _ => return Err(ExceptionCode::IllegalFunction),
    };
    if ok { Ok(()) } else { Err(ExceptionCode::IllegalDataValue) }
}

/// The PDU of an answer to a request with this function code.
pub(super) fn encode(function: u8, answer: &Result<Response, ExceptionCode>) -> Vec<u8> {
    let two = |a: u16, b: u16| {
        let ([a1, a2], [b1, b2]) = (a.to_be_bytes(), b.to_be_bytes());
        vec![a1, a2, b1, b2]
    };
    let body = match answer {
        Err(code) => return vec![function | 0x80, u8::from(*code)],
        Ok(Response::ReadCoils(bits) | Response::ReadDiscreteInputs(bits)) => counted(packed(bits)),
        Ok(
            Response::ReadInputRegisters(words)
            | Response::ReadHoldingRegisters(words)
            | Response::ReadWriteMultipleRegisters(words),
        ) => counted(words.iter().flat_map(|word| word.to_be_bytes()).collect()),
        Ok(Response::WriteSingleCoil(address, on)) => two(*address, if *on { 0xFF00 } else { 0 }),
        Ok(
            Response::WriteSingleRegister(address, value)
            | Response::WriteMultipleCoils(address, value)
            | Response::WriteMultipleRegisters(address, value),
        ) => two(*address, *value),
        Ok(Response::MaskWriteRegister(address, and, or)) => {
            [two(*address, *and), or.to_be_bytes().to_vec()].concat()
        }
        Ok(Response::Custom(_, body)) => body.to_vec(),
        // Nothing here makes any other.
        Ok(_) => return vec![function | 0x80, u8::from(ExceptionCode::ServerDeviceFailure)],
    };
    [vec![function], body].concat()
}

/// With the byte count in front.
fn counted(bytes: Vec<u8>) -> Vec<u8> {
    let count = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
    [vec![count], bytes].concat()
}

/// The first bit is the lowest of the first byte; what is left of the last byte is 0.
fn packed(bits: &[bool]) -> Vec<u8> {
    bits.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: Result<(), ExceptionCode> = Err(ExceptionCode::IllegalDataValue);

    #[test]
    fn passes_the_examples_of_the_specification() {
        for (function, body) in [
            (1, &[0x00, 0x13, 0x00, 0x13][..]),
            (2, &[0x00, 0xC4, 0x00, 0x16]),
            (3, &[0x00, 0x6B, 0x00, 0x03]),
            (4, &[0x00, 0x08, 0x00, 0x01]),
            (5, &[0x00, 0xAC, 0xFF, 0x00]),
            (6, &[0x00, 0x01, 0x00, 0x03]),
            (15, &[0x00, 0x13, 0x00, 0x0A, 0x02, 0xCD, 0x01]),
            (16, &[0x00, 0x01, 0x00, 0x02, 0x04, 0x00, 0x0A, 0x01, 0x02]),
            (22, &[0x00, 0x04, 0x00, 0xF2, 0x00, 0x25]),
            (23, &[0, 3, 0, 6, 0, 0x0E, 0, 3, 6, 0, 0xFF, 0, 0xFF, 0, 0xFF]),
            (43, &[0x0E, 0x01, 0x00]),
        ] {
            assert_eq!(check(function, body), Ok(()), "function {function}");
        }
    }

    #[test]
    fn holds_the_limits_of_quantities() {
        for (function, most) in [(1, 2000_u16), (2, 2000), (3, 125), (4, 125)] {
            let of = |quantity: u16| {
                let [high, low] = quantity.to_be_bytes();
                check(function, &[0, 0, high, low])
            };
            assert_eq!(of(0), VALUE);
            assert_eq!(of(1), Ok(()));
            assert_eq!(of(most), Ok(()));
            assert_eq!(of(most + 1), VALUE);
        }
        let write = |function, quantity: u16, count: u8| {
            let [high, low] = quantity.to_be_bytes();
            let mut body = vec![0, 0, high, low, count];
            body.extend(vec![0; usize::from(count)]);
            check(function, &body)
        };
        assert_eq!(write(15, 0, 0), VALUE);
        assert_eq!(write(15, 1968, 246), Ok(()));
        assert_eq!(write(15, 1969, 247), VALUE);
        assert_eq!(write(16, 0, 0), VALUE);
        assert_eq!(write(16, 123, 246), Ok(()));
        assert_eq!(write(16, 124, 248), VALUE);
    }

    #[test]
    fn refuses_what_would_make_the_library_panic() {
        assert_eq!(check(15, &[0, 0, 0x00, 0x0A, 1, 0xCD]), VALUE);
        assert_eq!(check(16, &[0, 0, 0x80, 0x01, 2, 0, 0]), VALUE);
    }

    #[test]
    fn tells_wrong_shapes_from_unknown_functions() {
        assert_eq!(check(3, &[0, 0, 0, 1, 0]), VALUE);
        assert_eq!(check(6, &[0, 0, 0]), VALUE);
        assert_eq!(check(5, &[0, 0, 0xFF, 0x01]), VALUE);
        assert_eq!(check(16, &[0, 0, 0, 1, 2, 0]), VALUE);
        assert_eq!(check(23, &[0, 0, 0, 1]), VALUE);
        assert_eq!(check(43, &[0x0E, 5, 0]), VALUE);
        for function in [0, 7, 8, 17, 24, 43, 0x83] {
            assert_eq!(
                check(function, &[0, 0, 0, 1]),
                Err(ExceptionCode::IllegalFunction),
                "function {function}"
            );
        }
    }
}
