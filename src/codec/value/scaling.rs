//! Scale and offset, computed exactly as the decimals that a person wrote.

use rust_decimal::Decimal;

use super::number::Number;

/// raw × scale + offset = (raw × `factor` + `shift`) / 10^`places`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scaling {
    factor: i128,
    shift: i128,
    places: u32,
    /// Further decimal places that `factor` and `shift` have room for.
    spare: u32,
    /// Scale and offset as doubles, for floats that no exact arithmetic here can hold.
    approximate: (f64, f64),
}

/// A decimal: `digits` / 10^`places`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exact {
    pub(super) digits: i128,
    pub(super) places: u32,
}

/// Powers of ten that a double holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// Up to here every integer is a double.
const DOUBLE_INTEGERS: u128 = 1 << 53;

/// Digits that a quotient gets: more than a double can tell apart.
const QUOTIENT: u128 = 10_u128.pow(24);

impl Scaling {
    /// Nothing is scaled.
    pub(super) const NONE: Self = Self { factor: 1, shift: 0, places: 0, spare: 18, approximate: (1.0, 0.0) };

    /// `None` where scale and offset have no common exponent within 38 digits.
    pub(super) fn new(scale: Decimal, offset: Decimal) -> Option<Self> {
        let (scale, offset) = (scale.normalize(), offset.normalize());
        let places = scale.scale().max(offset.scale());
        let widen =
            |decimal: Decimal| 10_i128.checked_pow(places - decimal.scale())?.checked_mul(decimal.mantissa());
        let (factor, shift) = (widen(scale)?, widen(offset)?);
        let fits = |spare: &u32| {
            10_i128.checked_pow(*spare).is_some_and(|power| {
                factor.checked_mul(power).is_some() && shift.checked_mul(power).is_some()
            })
        };
        let spare = (0..=18).rev().find(fits).unwrap_or(0);
        let approximate = (scale.to_string().parse().ok()?, offset.to_string().parse().ok()?);
        Some(Self { factor, shift, places, spare, approximate })
    }

    /// The engineering value of an integer; `None` beyond 38 digits.
    pub(super) fn apply(&self, raw: i128) -> Option<Exact> {
        let digits = raw.checked_mul(self.factor)?.checked_add(self.shift)?;
        Some(Exact { digits, places: self.places })
    }

    /// The engineering value of a decimal; `None` beyond 38 digits.
    pub(super) fn apply_number(&self, raw: Number) -> Option<Exact> {
        let product = raw.digits.checked_mul(self.factor)?;
        if let Ok(power) = u32::try_from(raw.exponent) {
            let digits = product.checked_mul(10_i128.checked_pow(power)?)?.checked_add(self.shift)?;
            return Some(Exact { digits, places: self.places });
        }
        let more = raw.exponent.unsigned_abs();
        let shift = if self.shift == 0 { 0 } else { self.shift.checked_mul(10_i128.checked_pow(more)?)? };
        Some(Exact { digits: product.checked_add(shift)?, places: self.places.checked_add(more)? })
    }

    /// The engineering value in the arithmetic of doubles.
    pub(super) fn approximate(&self, raw: f64) -> f64 {
        raw * self.approximate.0 + self.approximate.1
    }

    /// The nearest integer whose engineering value is `value`, halves away from zero; `None` beyond 38 digits.
    pub(super) fn invert(&self, value: Number) -> Option<i128> {
        let (numerator, denominator) = self.ratio(value)?;
        let quotient = numerator.unsigned_abs() / denominator.unsigned_abs();
        let rest = numerator.unsigned_abs() % denominator.unsigned_abs();
        let up = rest >= denominator.unsigned_abs() - rest;
        let magnitude = i128::try_from(quotient + u128::from(up)).ok()?;
        Some(if (numerator < 0) == (denominator < 0) { magnitude } else { -magnitude })
    }

    /// The text of the raw value whose engineering value is `value`, with more digits than a double has.
    pub(super) fn invert_text(&self, value: Number) -> Option<String> {
        let (numerator, denominator) = self.ratio(value)?;
        let divisor = denominator.unsigned_abs();
        let mut quotient = numerator.unsigned_abs() / divisor;
        let mut rest = numerator.unsigned_abs() % divisor;
        let mut exponent = 0;
        while rest != 0 && quotient < QUOTIENT {
            let ten = rest.checked_mul(10)?;
            quotient = quotient.checked_mul(10)?.checked_add(ten / divisor)?;
            rest = ten % divisor;
            exponent -= 1;
        }
        if rest != 0 && quotient % 5 == 0 {
            quotient += 1;
        }
        let sign = if (numerator < 0) == (denominator < 0) { "" } else { "-" };
        Some(format!("{sign}{quotient}e{exponent}"))
    }

    /// The raw value in the arithmetic of doubles.
    pub(super) fn invert_approximate(&self, value: f64) -> f64 {
        (value - self.approximate.1) / self.approximate.0
    }

    /// raw = (value × 10^places − shift) / factor as one fraction.
    fn ratio(&self, value: Number) -> Option<(i128, i128)> {
        if self.factor == 0 {
            return None;
        }
        let exponent = i64::from(value.exponent) + i64::from(self.places);
        if let Ok(power) = u32::try_from(exponent) {
            let digits = match value.digits {
                0 => 0,
                digits => digits.checked_mul(10_i128.checked_pow(power)?)?,
            };
            return Some((digits.checked_sub(self.shift)?, self.factor));
        }
        let needed = u32::try_from(exponent.unsigned_abs()).unwrap_or(u32::MAX);
        let kept = needed.min(self.spare);
        let power = 10_i128.checked_pow(kept)?;
        let digits = shorten(value.digits, needed - kept);
        Some((digits.checked_sub(self.shift.checked_mul(power)?)?, self.factor.checked_mul(power)?))
    }
}

/// Drops `places` digits; where they were not zeros the last kept one tells so.
fn shorten(digits: i128, places: u32) -> i128 {
    if places == 0 {
        return digits;
    }
    let Some(unit) = 10_i128.checked_pow(places) else { return digits.signum() };
    let kept = digits / unit;
    if digits % unit != 0 && kept % 5 == 0 { kept + digits.signum() } else { kept }
}

impl Exact {
    /// The nearest double.
    pub(super) fn to_f64(self) -> Option<f64> {
        let power = usize::try_from(self.places).ok().and_then(|places| POWERS.get(places));
        match (small(self.digits), power) {
            // Both are exact, so the one rounding of the division is the nearest double.
            (Some(digits), Some(power)) => Some(digits / power),
            _ => format!("{}e-{}", self.digits, self.places).parse().ok(),
        }
    }
}

/// An integer as the double that it is.
fn small(value: i128) -> Option<f64> {
    if value.unsigned_abs() > DOUBLE_INTEGERS {
        return None;
    }
    let high = i32::try_from(value >> 32).ok()?;
    let low = u32::try_from(value & 0xFFFF_FFFF).ok()?;
    Some(f64::from(high) * 4_294_967_296.0 + f64::from(low))
}
