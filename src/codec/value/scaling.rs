//! Scale and offset, or two ranges, computed exactly as the decimals that a person wrote.

use rust_decimal::Decimal;

use super::number::{Number, plain};

/// raw ↔ value on a straight line: value = (raw × `factor` + `shift`) / (`divisor` × 10^`places`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scaling {
    factor: i128,
    shift: i128,
    /// Above 0; 1 where every value is a decimal.
    divisor: i128,
    places: u32,
    /// Further decimal places that `factor` and `shift` have room for.
    spare: u32,
    /// Slope and offset as doubles, for floats that no exact arithmetic here can hold.
    approximate: (f64, f64),
    /// The same line for machine words, where it fits these.
    quick: Option<Quick>,
    /// Beyond these no value is read or written.
    ends: Option<Ends>,
}

/// value = (raw × `factor` + `shift`) / `power`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Quick {
    factor: i64,
    shift: i64,
    power: f64,
}

/// The lowest and the highest value.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ends {
    exact: (Decimal, Decimal),
    doubles: (f64, f64),
}

/// `digits` / (`divisor` × 10^`places`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exact {
    pub(super) digits: i128,
    pub(super) divisor: i128,
    pub(super) places: u32,
}

/// Powers of ten that a double holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// Up to here every integer is a double.
const DOUBLE_INTEGERS: u64 = 1 << 53;

/// Digits that a quotient gets: more than a double can tell apart.
const QUOTIENT: u128 = 10_u128.pow(24);

impl Scaling {
    /// Nothing is scaled.
    pub(super) const NONE: Self = Self {
        factor: 1,
        shift: 0,
        divisor: 1,
        places: 0,
        spare: 18,
        approximate: (1.0, 0.0),
        quick: None,
        ends: None,
    };

    /// Value = raw × `scale` + `offset`; `None` where these have no common exponent within 38 digits.
    pub(super) fn linear(scale: Decimal, offset: Decimal) -> Option<Self> {
        let ([factor, shift], places) = integers([scale, offset])?;
        let approximate = (scale.to_string().parse().ok()?, offset.to_string().parse().ok()?);
        Some(Self { factor, shift, places, approximate, ..Self::NONE }.ready())
    }

    /// The line through two points; with `clamp` no value lies beyond them. `None` where that takes more than 38 digits.
    pub(super) fn ranges(raw: (Decimal, Decimal), value: (Decimal, Decimal), clamp: bool) -> Option<Self> {
        let ([raw0, raw1], raw_places) = integers([raw.0, raw.1])?;
        let ([value0, value1], places) = integers([value.0, value.1])?;
        let (run, rise) = (raw1.checked_sub(raw0)?, value1.checked_sub(value0)?);
        let factor = rise.checked_mul(10_i128.checked_pow(raw_places)?)?;
        let shift = value0.checked_mul(run)?.checked_sub(raw0.checked_mul(rise)?)?;
        if run == 0 {
            return None;
        }
        let common = common_divisor(common_divisor(factor, shift), run) * run.signum();
        let (factor, shift, divisor) = (factor / common, shift / common, run / common);
        let double = |decimal: Decimal| decimal.to_string().parse::<f64>().ok();
        // From exact differences: those of doubles that are near one another have few digits left.
        let unit: f64 = format!("{divisor}e{places}").parse().ok()?;
        let part = |part: i128| part.to_string().parse::<f64>().ok().map(|part| part / unit);
        let approximate = (part(factor)?, part(shift)?);
        let (low, high) = (value.0.min(value.1), value.0.max(value.1));
        let doubles = (double(low)?, double(high)?);
        // What is read at an end of many digits is its double, and that may be written as well.
        let shown = |double: f64, end: Decimal| Decimal::from_str_exact(&double.to_string()).unwrap_or(end);
        let exact = (low.min(shown(doubles.0, low)), high.max(shown(doubles.1, high)));
        let ends = Ends { exact, doubles };
        let ends = clamp.then_some(ends);
        Some(Self { factor, shift, divisor, places, approximate, ends, ..Self::NONE }.ready())
    }

    fn ready(mut self) -> Self {
        let fits = |spare: &u32| {
            10_i128.checked_pow(*spare).is_some_and(|power| {
                self.factor.checked_mul(power).is_some() && self.shift.checked_mul(power).is_some()
            })
        };
        self.spare = (0..=18).rev().find(fits).unwrap_or(0);
        self.quick = self.quick();
        self
    }

    fn quick(&self) -> Option<Quick> {
        let (factor, shift) = (i64::try_from(self.factor).ok()?, i64::try_from(self.shift).ok()?);
        let power = *POWERS.get(usize::try_from(self.places).ok()?)?;
        (self.divisor == 1).then_some(Quick { factor, shift, power })
    }

    /// Whether values of all integers from `low` to `high` can be computed, and read back to a thousandth of a step.
    pub(super) fn has_room(&self, low: i128, high: i128) -> bool {
        let fine = |power: &i128| {
            let (factor, divisor) = (self.factor.checked_mul(*power), self.divisor.checked_mul(1000));
            factor.zip(divisor).is_some_and(|(factor, divisor)| factor.abs() >= divisor)
        };
        let Some(power) = (0..=self.spare).filter_map(|places| 10_i128.checked_pow(places)).find(fine) else {
            return false;
        };
        // A number that is read from a text has 34 digits, of which its steps may not begin behind the last.
        let most = self.factor.unsigned_abs().saturating_mul(10_u128.pow(30));
        let fits = |raw: i128| {
            let value = self.apply(raw).filter(|value| value.digits.unsigned_abs() <= most);
            value.is_some_and(|value| value.digits.checked_mul(power).is_some())
        };
        let divisor = 10_i128.checked_pow(self.places).and_then(|power| self.divisor.checked_mul(power));
        // Beyond the ends, where values are refused, it is still to be known that they are.
        divisor.is_some() && fits(low - 1) && fits(high + 1)
    }

    /// The engineering value of an integer; `None` beyond 38 digits.
    #[inline]
    pub(super) fn apply(&self, raw: i128) -> Option<Exact> {
        let digits = raw.checked_mul(self.factor)?.checked_add(self.shift)?;
        Some(Exact { digits, divisor: self.divisor, places: self.places })
    }

    /// The double nearest to the engineering value of an integer, as [`Self::apply`] would have it; `None` where machine words
    /// do not tell.
    #[inline]
    pub(super) fn apply_quick(&self, raw: i64) -> Option<f64> {
        let Quick { factor, shift, power } = self.quick?;
        let digits = raw.checked_mul(factor)?.checked_add(shift)?;
        if digits.unsigned_abs() > DOUBLE_INTEGERS {
            return None;
        }
        // Both are exact, so the one rounding of the division is the nearest double.
        halves(digits >> 32, digits & 0xFFFF_FFFF).map(|digits| digits / power)
    }

    /// The engineering value of a decimal; `None` beyond 38 digits.
    pub(super) fn apply_number(&self, raw: Number) -> Option<Exact> {
        let product = raw.digits.checked_mul(self.factor)?;
        let divisor = self.divisor;
        if let Ok(power) = u32::try_from(raw.exponent) {
            let digits = product.checked_mul(10_i128.checked_pow(power)?)?.checked_add(self.shift)?;
            return Some(Exact { digits, divisor, places: self.places });
        }
        let more = raw.exponent.unsigned_abs();
        let shift = if self.shift == 0 { 0 } else { self.shift.checked_mul(10_i128.checked_pow(more)?)? };
        Some(Exact { digits: product.checked_add(shift)?, divisor, places: self.places.checked_add(more)? })
    }

    /// The engineering value in the arithmetic of doubles.
    pub(super) fn approximate(&self, raw: f64) -> f64 {
        raw * self.approximate.0 + self.approximate.1
    }

    /// The value, or the end that it lies beyond.
    #[inline]
    pub(super) fn clamp(&self, value: f64) -> f64 {
        self.ends.map_or(value, |Ends { doubles: (low, high), .. }| value.max(low).min(high))
    }

    /// The ends beyond which nothing is written, where `value` lies beyond them.
    pub(super) fn beyond(&self, value: Number) -> Option<(String, String)> {
        let Ends { exact: (low, high), doubles } = self.ends?;
        let outside = match value.as_decimal() {
            Some(value) => value < low || value > high,
            None => value.as_f64() < doubles.0 || value.as_f64() > doubles.1,
        };
        outside.then(|| (low.normalize().to_string(), high.normalize().to_string()))
    }

    /// The nearest integer whose engineering value is `value`, halves away from zero; `None` beyond 38 digits.
    pub(super) fn invert(&self, value: Number) -> Option<i128> {
        let needed = self.needed(value);
        // Digits that have no room only tell where to round.
        let shortened = |kept| self.ratio(value, kept);
        let (numerator, denominator) = (0..=needed.min(self.spare)).rev().find_map(shortened)?;
        let quotient = numerator.unsigned_abs() / denominator.unsigned_abs();
        let rest = numerator.unsigned_abs() % denominator.unsigned_abs();
        let up = rest >= denominator.unsigned_abs() - rest;
        let magnitude = i128::try_from(quotient + u128::from(up)).ok()?;
        Some(if (numerator < 0) == (denominator < 0) { magnitude } else { -magnitude })
    }

    /// The text of the raw value whose engineering value is `value`, with more digits than a double has; `None` where
    /// `value` has more digits than can be computed exactly.
    pub(super) fn invert_text(&self, value: Number) -> Option<String> {
        let (numerator, denominator) = self.ratio(value, self.needed(value))?;
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

    /// Decimal places of `value` beyond those that `divisor` × 10^`places` makes whole.
    fn needed(&self, value: Number) -> u32 {
        let places = i64::from(value.exponent) + i64::from(self.places);
        u32::try_from(places.min(0).unsigned_abs()).unwrap_or(u32::MAX)
    }

    /// raw = (value × `divisor` × 10^`places` − `shift`) / `factor` as one fraction, with `kept` of the needed places.
    fn ratio(&self, value: Number, kept: u32) -> Option<(i128, i128)> {
        let needed = self.needed(value);
        let power = 10_i128.checked_pow(kept)?;
        let digits = match value.digits {
            0 => 0,
            digits if needed > 0 => shorten(digits, needed - kept),
            digits => {
                let places = i64::from(value.exponent) + i64::from(self.places);
                digits.checked_mul(10_i128.checked_pow(u32::try_from(places).ok()?)?)?
            }
        };
        let numerator = digits.checked_mul(self.divisor)?.checked_sub(self.shift.checked_mul(power)?)?;
        Some((numerator, self.factor.checked_mul(power)?)).filter(|(_, denominator)| *denominator != 0)
    }
}

/// Two decimals as integers over a common power of ten.
fn integers(decimals: [Decimal; 2]) -> Option<([i128; 2], u32)> {
    let [one, other] = decimals.map(|decimal| decimal.normalize());
    let places = one.scale().max(other.scale());
    let widen =
        |decimal: Decimal| 10_i128.checked_pow(places - decimal.scale())?.checked_mul(decimal.mantissa());
    Some(([widen(one)?, widen(other)?], places))
}

/// The greatest common divisor, at least 1.
fn common_divisor(one: i128, other: i128) -> i128 {
    let (mut one, mut other) = (one.unsigned_abs(), other.unsigned_abs());
    while other != 0 {
        (one, other) = (other, one % other);
    }
    i128::try_from(one).unwrap_or(1).max(1)
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
    /// The nearest double; `None` where the divisor has more than 38 digits.
    #[inline]
    pub(super) fn to_f64(self) -> Option<f64> {
        if self.divisor != 1 {
            let divisor = self.divisor.checked_mul(10_i128.checked_pow(self.places)?)?;
            return match (small(self.digits), small(divisor)) {
                // Both are exact, so the one rounding of the division is the nearest double.
                (Some(digits), Some(divisor)) => Some(digits / divisor),
                _ => divide(self.digits, divisor.unsigned_abs()),
            };
        }
        let power = usize::try_from(self.places).ok().and_then(|places| POWERS.get(places));
        match (small(self.digits), power) {
            (Some(digits), Some(power)) => Some(digits / power),
            _ => format!("{}e-{}", self.digits, self.places).parse().ok(),
        }
    }

    /// The decimal, or the shortest text of the nearest double where there is none.
    pub(super) fn text(self) -> Option<String> {
        if self.divisor == 1 {
            return Some(plain(self.digits, self.places));
        }
        self.to_f64().map(|value| value.to_string())
    }
}

/// The double nearest to a fraction, by long division.
pub(super) fn divide(numerator: i128, divisor: u128) -> Option<f64> {
    /// Bits of a double, and one to round by.
    const BITS: u32 = 54;
    let mut quotient = numerator.unsigned_abs().checked_div(divisor)?;
    let mut rest = numerator.unsigned_abs() % divisor;
    let mut exponent = 0_i32;
    let mut lost = false;
    while quotient >= 1 << BITS {
        lost |= quotient & 1 == 1;
        quotient >>= 1;
        exponent += 1;
    }
    while quotient < 1 << (BITS - 1) && exponent > -1000 && (quotient != 0 || rest != 0) {
        rest = rest.checked_mul(2)?;
        quotient = quotient << 1 | u128::from(rest >= divisor);
        rest %= divisor;
        exponent -= 1;
    }
    lost |= rest != 0;
    let (half, odd) = (quotient & 1 == 1, quotient >> 1 & 1 == 1);
    let rounded = (quotient >> 1) + u128::from(half && (lost || odd));
    let magnitude = small(i128::try_from(rounded).ok()?)? * 2_f64.powi(exponent + 1);
    Some(if numerator < 0 { -magnitude } else { magnitude })
}

/// An integer as the double that it is.
fn small(value: i128) -> Option<f64> {
    if value.unsigned_abs() > DOUBLE_INTEGERS.into() {
        return None;
    }
    let value = i64::try_from(value).ok()?;
    halves(value >> 32, value & 0xFFFF_FFFF)
}

/// The double of a number of which these are the high and the low 32 bits.
#[inline]
fn halves(high: i64, low: i64) -> Option<f64> {
    let (high, low) = (i32::try_from(high).ok()?, u32::try_from(low).ok()?);
    Some(f64::from(high) * 4_294_967_296.0 + f64::from(low))
}
