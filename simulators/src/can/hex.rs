//! Hexadecimal digits as adapters write them.

use std::fmt::Write as _;

/// Upper case, two digits for each byte.
pub(super) fn encode(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a text does not fail.
        let _written = write!(out, "{byte:02X}");
    }
}

/// Two digits of either case for each byte, and nothing else.
pub(super) fn decode(digits: &[u8]) -> Option<Vec<u8>> {
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    });
    pairs.collect()
}

/// A number of one to eight digits of either case.
pub(super) fn number(digits: &[u8]) -> Option<u32> {
    if !(1..=8).contains(&digits.len()) {
        return None;
    }
    digits.iter().try_fold(0_u32, |number, next| Some(number << 4 | u32::from(digit(*next)?)))
}

/// One digit of either case.
pub(super) fn digit(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}
