//! Digits, as logs and adapters write numbers, bytes and times.
//!
//! Must not know of what protocol they are a part.

use std::time::Duration;

/// How many bytes of a text are quoted.
const QUOTED: usize = 60;

/// Bytes as they are read: the first 64 and how many there were.
pub(super) struct Gathered {
    bytes: [u8; 64],
    count: usize,
}

impl Gathered {
    pub(super) const fn new() -> Self {
        Self { bytes: [0; 64], count: 0 }
    }

    pub(super) fn push(&mut self, byte: u8) {
        if let Some(free) = self.bytes.get_mut(self.count) {
            *free = byte;
        }
        self.count += 1;
    }

    /// How many were read, be it more than are kept.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// `None` where there were more than 64.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        self.bytes.get(..self.count)
    }

    /// Puts the last one first.
    pub(super) fn reverse(&mut self) {
        if let Some(bytes) = self.bytes.get_mut(..self.count) {
            bytes.reverse();
        }
    }
}

/// The value of one hexadecimal digit.
pub(super) fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// A hexadecimal number of 1 to 8 digits, without sign and prefix.
pub(super) fn hex(digits: &[u8]) -> Option<u32> {
    if !(1..=8).contains(&digits.len()) {
        return None;
    }
    digits.iter().try_fold(0, |number, digit| Some(number << 4 | u32::from(nibble(*digit)?)))
}

/// A byte of two hexadecimal digits.
pub(super) fn pair(high: u8, low: u8) -> Option<u8> {
    Some(nibble(high)? << 4 | nibble(low)?)
}

/// Reads bytes of two hexadecimal digits each; `None` for an odd number of digits, or others.
pub(super) fn pairs(digits: &[u8], into: &mut Gathered) -> Option<()> {
    let (pairs, rest) = digits.as_chunks::<2>();
    for &[high, low] in pairs {
        into.push(pair(high, low)?);
    }
    rest.is_empty().then_some(())
}

/// Seconds with up to nine decimals, exactly; `None` for what is not such a number, as a negative one.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    if !is_decimal(whole) {
        return None;
    }
    Some(Duration::new(whole.parse().ok()?, nanoseconds(decimals)?))
}

/// One to nine decimals of a second.
pub(super) fn nanoseconds(decimals: &str) -> Option<u32> {
    let missing = 9_usize.checked_sub(decimals.len())?;
    if !is_decimal(decimals) {
        return None;
    }
    Some(decimals.parse::<u32>().ok()? * 10_u32.pow(u32::try_from(missing).ok()?))
}

fn is_decimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The beginning of what came, as it may be shown: printable ASCII, and all else as in Rust's literals.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let mut text = String::new();
    for &byte in bytes.iter().take(QUOTED) {
        match byte {
            b' '..=b'~' => text.push(byte.into()),
            _ => text.extend(byte.escape_ascii().map(char::from)),
        }
    }
    if bytes.len() > QUOTED {
        text.push_str("...");
    }
    text
}
