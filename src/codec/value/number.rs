//! Decimal numbers as text: the JSON grammar, and nothing wider.

use rust_decimal::Decimal;

/// A decimal number: digits × 10^exponent.
///
/// At most 34 digits are kept. Where more were written the last one is made odd to both 2 and 5, so that no rounding
/// to fewer digits takes the number for a tie that it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) digits: i128,
    pub(super) exponent: i32,
}

/// From here on further digits only tell that there are some.
const FULL: i128 = 10_i128.pow(33);

/// Beyond this no exponent makes a difference to any type.
const EXPONENT_CAP: i32 = 100_000;

impl Number {
    /// Reads a JSON number (RFC 8259, section 6): `72.5`, `-1e2`; not `+1`, `.5`, `01`, `1.`, ` 1`, `0x10`, `NaN`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, power) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, power)) => (mantissa, exponent(power)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (mantissa, None),
        };
        if !is_digits(whole)
            || (whole.len() > 1 && whole.starts_with('0'))
            || fraction.is_some_and(|f| !is_digits(f))
        {
            return None;
        }
        let mut digits = Digits { value: 0, exponent: 0, more: false };
        whole.bytes().for_each(|byte| digits.push(byte, false));
        fraction.unwrap_or_default().bytes().for_each(|byte| digits.push(byte, true));
        let value = digits.finish();
        Some(Self {
            digits: if negative { -value } else { value },
            exponent: digits.exponent.saturating_add(power),
        })
    }

    /// The number as an integer, where it is one.
    pub(super) fn as_integer(self) -> Option<i128> {
        if self.digits == 0 {
            return Some(0);
        }
        if let Ok(power) = u32::try_from(self.exponent) {
            return self.digits.checked_mul(10_i128.checked_pow(power)?);
        }
        let unit = 10_i128.checked_pow(self.exponent.unsigned_abs())?;
        (self.digits % unit == 0).then(|| self.digits / unit)
    }
}

impl Number {
    /// The number as a decimal of 28 digits, where it is one.
    pub(super) fn as_decimal(self) -> Option<Decimal> {
        match u32::try_from(self.exponent.saturating_neg()) {
            Ok(places) => Decimal::try_from_i128_with_scale(self.digits, places).ok(),
            Err(_negative) => Decimal::try_from_i128_with_scale(self.as_integer()?, 0).ok(),
        }
    }

    /// The nearest double, which may be an infinity.
    pub(super) fn as_f64(self) -> f64 {
        format!("{}e{}", self.digits, self.exponent).parse().unwrap_or(f64::NAN)
    }
}

struct Digits {
    value: i128,
    exponent: i32,
    more: bool,
}

impl Digits {
    fn push(&mut self, byte: u8, fraction: bool) {
        let digit = i128::from(byte - b'0');
        if self.value < FULL {
            self.value = self.value * 10 + digit;
            self.exponent = self.exponent.saturating_sub(i32::from(fraction));
        } else {
            self.more |= digit != 0;
            self.exponent = self.exponent.saturating_add(i32::from(!fraction));
        }
    }

    fn finish(&self) -> i128 {
        self.value + i128::from(self.more && self.value % 5 == 0)
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn exponent(text: &str) -> Option<i32> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    if !is_digits(digits) {
        return None;
    }
    let value =
        digits.bytes().fold(0, |sum: i32, byte| (sum * 10 + i32::from(byte - b'0')).min(EXPONENT_CAP));
    Some(if negative { -value } else { value })
}

/// The plain text of `digits` × 10^-`places`, without an exponent or trailing zeros.
pub(super) fn plain(mut digits: i128, mut places: u32) -> String {
    while places > 0 && digits % 10 == 0 {
        digits /= 10;
        places -= 1;
    }
    let places = usize::try_from(places).unwrap_or(usize::MAX);
    let mut text = format!("{:0>width$}", digits.unsigned_abs(), width = places.saturating_add(1));
    if places > 0 {
        text.insert(text.len().saturating_sub(places), '.');
    }
    if digits < 0 {
        text.insert(0, '-');
    }
    text
}
