//! Numbers without rounding, to judge those with.

use fieldbridge::codec::value::Scale;
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed, Zero};
use rust_decimal::Decimal;

/// The number that a text in JSON's grammar stands for; `None` for one that is none, or beyond 400 digits.
#[must_use]
pub fn number(text: &str) -> Option<BigRational> {
    let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let power: i32 = power.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if power.unsigned_abs() > 400 || text.len() > 400 {
        return None;
    }
    let digits: BigInt = format!("{whole}{fraction}").parse().ok()?;
    let places = power - i32::try_from(fraction.len()).ok()?;
    let unit = BigRational::from(BigInt::from(10)).pow(places);
    Some(BigRational::from(digits) * unit)
}

#[must_use]
pub fn decimal(decimal: Decimal) -> BigRational {
    let unit = BigRational::from(BigInt::from(10)).pow(i32::try_from(decimal.scale()).expect("28 at most"));
    BigRational::from(BigInt::from(decimal.mantissa())) / unit
}

/// The double, exactly; `None` where it is no number.
#[must_use]
pub fn double(value: f64) -> Option<BigRational> {
    BigRational::from_float(value)
}

/// A straight line from raw numbers to values.
#[derive(Debug)]
pub struct Line {
    pub slope: BigRational,
    pub offset: BigRational,
    /// Lowest and highest value that is read.
    pub ends: Option<(BigRational, BigRational)>,
}

impl Line {
    #[must_use]
    pub fn new(scale: Scale) -> Self {
        match scale {
            Scale::Linear { factor, offset } => {
                Self { slope: decimal(factor), offset: decimal(offset), ends: None }
            }
            Scale::Ranges { raw, value, clamp } => {
                let (low, high) = (decimal(value.0), decimal(value.1));
                let slope = (&high - &low) / (decimal(raw.1) - decimal(raw.0));
                let offset = &low - decimal(raw.0) * &slope;
                let ends = if low < high { (low, high) } else { (high, low) };
                Self { slope, offset, ends: clamp.then_some(ends) }
            }
        }
    }

    #[must_use]
    pub fn unclamped(&self, raw: &BigRational) -> BigRational {
        raw * &self.slope + &self.offset
    }

    #[must_use]
    pub fn value(&self, raw: &BigRational) -> BigRational {
        let value = self.unclamped(raw);
        match &self.ends {
            Some((low, high)) => value.max(low.clone()).min(high.clone()),
            None => value,
        }
    }
}

/// Whether no double is nearer to `exact` than `value`.
#[must_use]
pub fn is_nearest(value: f64, exact: &BigRational) -> bool {
    let Some(own) = double(value) else { return false };
    let error = (&own - exact).abs();
    let beside = [value.next_up(), value.next_down()];
    error.is_zero() || beside.into_iter().filter_map(double).all(|other| error <= (other - exact).abs())
}
