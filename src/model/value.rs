//! Typed values, and the text that people and assistants write them as.

use std::{fmt, sync::Arc};

use rust_decimal::Decimal;

/// One value of a tag.
///
/// Scaled 64-bit integers are [`Value::Text`]: the decimal text that no JSON number can hold safely.
/// `NaN` and infinities are not values: a decoder reports them as a bad quality with [`Value::Null`].
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    /// No value.
    #[default]
    Null,
    Bool(bool),
    I64(i64),
    U64(u64),
    F32(f32),
    F64(f64),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    Array(Arc<[Value]>),
}

impl Value {
    /// The value as a number, for limits and deadbands; `None` for what has no numeric meaning.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            #[expect(
                clippy::cast_precision_loss,
                clippy::as_conversions,
                reason = "limits are f64 themselves"
            )]
            Value::I64(number) => Some(*number as f64),
            #[expect(
                clippy::cast_precision_loss,
                clippy::as_conversions,
                reason = "limits are f64 themselves"
            )]
            Value::U64(number) => Some(*number as f64),
            Value::F32(number) => Some(f64::from(*number)),
            Value::F64(number) => Some(*number),
            Value::Text(text) => text.parse().ok(),
            Value::Null | Value::Bool(_) | Value::Bytes(_) | Value::Array(_) => None,
        }
    }

    /// Whether it, or an element of it, is a number below `low` or above `high`.
    #[must_use]
    pub fn exceeds(&self, low: f64, high: f64) -> bool {
        match self {
            Self::Array(values) => values.iter().any(|value| value.exceeds(low, high)),
            value => value.as_f64().is_some_and(|value| value < low || value > high),
        }
    }

    /// Whether two values say the same, however they are written: 1.50 is 1.5.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Array(one), Self::Array(other)) => {
                one.len() == other.len()
                    && one.iter().zip(other.iter()).all(|(one, other)| one.is_same(other))
            }
            _ => self == other || self.as_decimal().is_some_and(|one| other.as_decimal() == Some(one)),
        }
    }

    /// How far two numbers are apart, however wide they are; of two arrays the elements that are farthest. `None` where
    /// one of them is no number.
    #[must_use]
    pub fn distance(&self, other: &Self) -> Option<f64> {
        if let (Self::Array(one), Self::Array(other)) = (self, other) {
            let mut apart = one.iter().zip(other.iter()).map(|(one, other)| one.distance(other));
            return apart.try_fold(0.0, |most: f64, apart| Some(most.max(apart?)));
        }
        match (self.as_i128(), other.as_i128()) {
            #[expect(
                clippy::cast_precision_loss,
                clippy::as_conversions,
                reason = "a deadband is an f64 itself"
            )]
            (Some(one), Some(two)) => Some(one.abs_diff(two) as f64),
            _ => match (self, other) {
                (Self::Text(_), Self::Text(_)) => {
                    let step = self.as_decimal()?.checked_sub(other.as_decimal()?)?.abs();
                    step.to_string().parse().ok()
                }
                _ => Some((self.as_f64()? - other.as_f64()?).abs()),
            },
        }
    }

    fn as_i128(&self) -> Option<i128> {
        match self {
            Self::I64(number) => Some((*number).into()),
            Self::U64(number) => Some((*number).into()),
            _ => None,
        }
    }

    /// The value as the decimal that its text shows; `None` where it is no number or does not fit 28 digits.
    #[must_use]
    pub fn as_decimal(&self) -> Option<Decimal> {
        match self {
            Value::I64(number) => Some(Decimal::from(*number)),
            Value::U64(number) => Some(Decimal::from(*number)),
            Value::F32(_) | Value::F64(_) | Value::Text(_) => Decimal::from_str_exact(&self.to_string()).ok(),
            Value::Null | Value::Bool(_) | Value::Bytes(_) | Value::Array(_) => None,
        }
    }
}

impl fmt::Display for Value {
    /// Numbers print as the shortest text that reads back as the same value of their own width.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(value) => value.fmt(f),
            Value::I64(value) => value.fmt(f),
            Value::U64(value) => value.fmt(f),
            Value::F32(value) => value.fmt(f),
            Value::F64(value) => value.fmt(f),
            Value::Text(value) => value.fmt(f),
            Value::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02X}")),
            Value::Array(values) => {
                f.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    value.fmt(f)?;
                }
                f.write_str("]")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_numbers_are_apart_even_where_their_doubles_are_not() {
        let far = 1_u64 << 53;
        assert_eq!(Value::U64(far).distance(&Value::U64(far + 1)), Some(1.0));
        assert_eq!(
            Value::I64(i64::MIN).distance(&Value::U64(u64::MAX)),
            Some(2_f64.powi(63) + 2_f64.powi(64))
        );
        let text = |text: &str| Value::Text(text.into());
        assert_eq!(text("9007199254740993.1").distance(&text("9007199254740993.0")), Some(0.1));
        assert_eq!(Value::F64(20.5).distance(&Value::F64(20.0)), Some(0.5));
        assert_eq!(Value::Null.distance(&Value::F64(20.0)), None);
        let array = |values: [Value; 2]| Value::Array(values.into());
        let one = array([Value::U64(1), Value::U64(5)]);
        assert_eq!(one.distance(&array([Value::U64(2), Value::U64(2)])), Some(3.0));
        assert_eq!(one.distance(&array([Value::U64(2), Value::Null])), None);
    }

    #[test]
    fn a_range_holds_for_every_element() {
        let array = |last: f64| Value::Array([Value::F64(1.0), Value::F64(last)].into());
        assert!(array(10.5).exceeds(0.0, 10.0) && !array(10.0).exceeds(0.0, 10.0));
        assert!(Value::I64(-1).exceeds(0.0, 10.0) && !Value::Null.exceeds(0.0, 10.0));
    }

    #[test]
    fn values_are_the_same_by_what_they_say() {
        let text = |text: &str| Value::Text(text.into());
        assert!(text("1.50").is_same(&text("1.5")) && Value::F64(2.0).is_same(&Value::U64(2)));
        assert!(!text("a").is_same(&text("b")) && !Value::F64(1e-40).is_same(&Value::F64(0.0)));
        let array = |value: Value| Value::Array([value].into());
        assert!(
            array(text("1.50")).is_same(&array(text("1.5"))) && !array(text("a")).is_same(&array(text("b")))
        );
    }
}
