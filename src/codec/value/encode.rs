//! Text or value → registers or bits.

use std::borrow::Cow;

use half::f16;
use serde_json::value::RawValue;

use super::{
    Codec, Part, Raw, is_byte,
    number::{Number, plain},
    shown,
};
use crate::model::{Accepted, Kind, Refusal, Value};

const A_BOOL: &str = "one of true, false, on, off, 1, 0";
const A_NUMBER: &str = "a number such as 72.5 or -1e2";
const A_TEXT: &str = "a text";
const AN_ARRAY: &str = "a JSON array such as [1, 2.5]";
const TOO_WIDE: &str =
    "writable here: scale and offset of the tag have more digits than can be computed exactly";

impl Codec {
    /// Reads `text` by the tag's type, a label before a number, and rounds it to the nearest raw step, halves away from
    /// zero. An array is written as JSON, with exactly as many elements as the tag has.
    ///
    /// The effective value is what decoding gives of what would be sent.
    pub fn accept(&self, text: &str) -> Result<Accepted, Refusal> {
        let Some(count) = self.count else { return self.accept_one(text) };
        let (mut requested, mut effective) = (Vec::new(), Vec::new());
        for (index, element) in elements(text, count)?.iter().enumerate() {
            let accepted = self.accept_one(element).map_err(|refusal| at(index, refusal))?;
            requested.push(accepted.requested);
            effective.push(accepted.effective);
        }
        Ok(Accepted { requested: Value::Array(requested.into()), effective: Value::Array(effective.into()) })
    }

    /// What is sent so that the device holds `value`, or the nearest to it that the raw type can.
    pub fn encode(&self, value: &Value) -> Result<Raw, Refusal> {
        let mut words = Vec::with_capacity(self.registers().into());
        match self.count {
            None if self.kind == Kind::Text => self.put_text(value, &mut words)?,
            None if self.part == Part::Whole => self.layout.scatter(self.bits_of(value)?, &mut words),
            None => {
                let (mask, bits) = self.layout.masked(self.bits_of(value)?);
                return Ok(Raw::Masked { mask, bits });
            }
            Some(count) => {
                let values = list(value, count)?.iter().enumerate();
                if is_byte(self.kind) {
                    let bytes = values.map(|(index, value)| self.bits_of(value).map_err(|no| at(index, no)));
                    self.put_bytes(&bytes.collect::<Result<Vec<_>, _>>()?, &mut words);
                } else {
                    for (index, value) in values {
                        self.put(value, &mut words).map_err(|refusal| at(index, refusal))?;
                    }
                }
            }
        }
        Ok(Raw::Words(words))
    }

    /// The cells of a table of bits that hold `value`.
    pub fn encode_bits(&self, value: &Value) -> Result<Raw, Refusal> {
        let bit = |value: &Value| match value {
            Value::Bool(on) => Ok(*on),
            other => Err(refusal(&other.to_string(), A_BOOL)),
        };
        match self.count {
            None => Ok(Raw::Bits(vec![bit(value)?])),
            Some(count) => {
                let bits = list(value, count)?.iter().enumerate();
                let bits = bits.map(|(index, value)| bit(value).map_err(|refusal| at(index, refusal)));
                Ok(Raw::Bits(bits.collect::<Result<_, _>>()?))
            }
        }
    }

    fn put(&self, value: &Value, words: &mut Vec<u16>) -> Result<(), Refusal> {
        if self.kind == Kind::Text {
            return self.put_text(value, words);
        }
        self.layout.scatter(self.bits_of(value)?, words);
        Ok(())
    }

    fn put_text(&self, value: &Value, words: &mut Vec<u16>) -> Result<(), Refusal> {
        match value {
            Value::Text(text) => self.text.encode(self.layout.order, text, words),
            other => Err(refusal(&other.to_string(), A_TEXT)),
        }
    }

    /// Two a register, the first in the high byte.
    fn put_bytes(&self, bytes: &[u64], words: &mut Vec<u16>) {
        for pair in bytes.chunks(2) {
            let (high, low) = match pair {
                [high, low] => (*high, *low),
                [high] => (*high, 0),
                _ => continue,
            };
            self.layout.scatter(high << 8 | low, words);
        }
    }

    fn accept_one(&self, text: &str) -> Result<Accepted, Refusal> {
        if self.kind == Kind::Text {
            let requested = Value::Text(text.into());
            let mut words = Vec::new();
            self.text.encode(self.layout.order, text, &mut words)?;
            let held = self.text.decode(self.layout.order, &words);
            let held = held.map_err(|_fault| refusal(text, A_TEXT))?;
            return Ok(Accepted { requested, effective: Value::Text(held) });
        }
        let number = self.labels.as_ref().and_then(|labels| labels.number(text));
        let number = number.map_or(Cow::Borrowed(text), |number| number.to_string().into());
        let bits = self.pattern(&number).map_err(|refusal| self.explain(refusal))?;
        let effective = self.value(bits).map_err(|_fault| self.out_of_range(text))?;
        Ok(Accepted { requested: self.requested(&number), effective })
    }

    /// The words that would have been taken, where a text is neither one of them nor a value.
    fn explain(&self, refusal: Refusal) -> Refusal {
        match (refusal, &self.labels) {
            (Refusal::Type { text, allowed }, Some(labels)) => {
                Refusal::Label { text, labels: labels.to_string(), allowed }
            }
            (refusal, _) => refusal,
        }
    }

    /// The bits of one element that hold `value`, the least significant one lowest.
    pub fn bits_of(&self, value: &Value) -> Result<u64, Refusal> {
        match (self.kind, value) {
            (Kind::Bool, Value::Bool(value)) => Ok(u64::from(*value)),
            (Kind::Bool, _) | (_, Value::Bool(_) | Value::Null | Value::Bytes(_) | Value::Array(_)) => {
                Err(self.refused(&value.to_string()))
            }
            // The bits as they are: minus zero stays what it is.
            (Kind::Float32, Value::F32(value)) if !self.is_scaled() && value.is_finite() => {
                self.sendable(value.to_bits().into(), || value.to_string())
            }
            (Kind::Float64, Value::F64(value)) if !self.is_scaled() && value.is_finite() => {
                self.sendable(value.to_bits(), || value.to_string())
            }
            (_, Value::F32(value)) => self.pattern(&format!("{value:e}")),
            (_, Value::F64(value)) => self.pattern(&format!("{value:e}")),
            (_, value) => self.pattern(&value.to_string()),
        }
    }

    /// The bits of one element that hold the value written as `text`.
    fn pattern(&self, text: &str) -> Result<u64, Refusal> {
        if self.kind == Kind::Bool {
            return parse_bool(text).map(u64::from).ok_or_else(|| self.refused(text));
        }
        let number = Number::parse(text).ok_or_else(|| self.refused(text))?;
        let scaling = self.scaling().ok_or_else(|| refusal(text, TOO_WIDE))?;
        if let Some((min, max)) = scaling.beyond(number) {
            return Err(Refusal::RawRange { text: shown(text), kind: self.kind, min, max });
        }
        let bits = if self.kind.is_float() {
            self.float_bits(text, number)
        } else {
            scaling.invert(number).and_then(|raw| self.integer_bits(raw))
        };
        self.sendable(bits.ok_or_else(|| self.out_of_range(text))?, || text.to_owned())
    }

    /// Refuses bits that the device would take for something else.
    fn sendable(&self, bits: u64, text: impl Fn() -> String) -> Result<u64, Refusal> {
        if self.sentinels.contains(&bits) {
            Err(Refusal::Reserved { text: shown(&text()) })
        } else {
            Ok(bits)
        }
    }

    fn integer_bits(&self, raw: i128) -> Option<u64> {
        let (low, high) = self.raw_range();
        if raw < low || raw > high {
            return None;
        }
        match self.kind {
            Kind::Bcd16 | Kind::Bcd32 => u64::from_str_radix(&raw.to_string(), 16).ok(),
            _ if low < 0 => {
                let width = u64::try_from(high - low).ok()?;
                Some(i64::try_from(raw).ok()?.cast_unsigned() & width)
            }
            _ => u64::try_from(raw).ok(),
        }
    }

    fn float_bits(&self, text: &str, number: Number) -> Option<u64> {
        let raw = if self.is_scaled() {
            let scaling = self.scaling()?;
            let approximate = || format!("{:e}", scaling.invert_approximate(number.as_f64()));
            Cow::Owned(scaling.invert_text(number).unwrap_or_else(approximate))
        } else {
            Cow::Borrowed(text)
        };
        // The text goes to the raw type at once: rounding to a double first could round twice.
        match self.kind {
            Kind::Float16 => {
                let value = f16::from_f64(raw.parse().ok()?);
                value.is_finite().then(|| value.to_bits().into())
            }
            Kind::Float32 => {
                raw.parse().ok().filter(|value: &f32| value.is_finite()).map(|f| f.to_bits().into())
            }
            _ => raw.parse().ok().filter(|value: &f64| value.is_finite()).map(f64::to_bits),
        }
    }

    /// The value as it was asked for; `text` is known to be one.
    fn requested(&self, text: &str) -> Value {
        if self.kind == Kind::Bool {
            return parse_bool(text).map_or(Value::Null, Value::Bool);
        }
        let Some(number) = Number::parse(text) else { return Value::Null };
        if !self.is_scaled()
            && !self.kind.is_float()
            && let Some(value) = number.as_integer()
        {
            let signed = self.raw_range().0 < 0;
            match (i64::try_from(value), u64::try_from(value)) {
                (_, Ok(value)) if !signed => return Value::U64(value),
                (Ok(value), _) => return Value::I64(value),
                (_, Ok(value)) => return Value::U64(value),
                _ => {}
            }
        }
        if self.kind.is_wide() {
            return Value::Text(number_text(number, text).into());
        }
        text.parse().map_or(Value::Null, Value::F64)
    }

    fn refused(&self, text: &str) -> Refusal {
        refusal(text, if self.kind == Kind::Bool { A_BOOL } else { A_NUMBER })
    }

    fn out_of_range(&self, text: &str) -> Refusal {
        let (low, high) = self.extremes();
        // A negative scale turns the range around.
        let turned =
            self.scaling().is_some_and(|scaling| scaling.approximate(1.0) < scaling.approximate(0.0));
        let (min, max) = if turned { (high, low) } else { (low, high) };
        Refusal::RawRange { text: shown(text), kind: self.kind, min, max }
    }

    /// The bits that hold an unscaled number; `None` where the type cannot hold it.
    #[must_use]
    pub fn pattern_of(&self, number: &str) -> Option<u64> {
        self.pattern(number).ok()
    }

    /// The lowest and the highest number that the raw type holds; nothing for floats and texts.
    #[must_use]
    pub fn raw_range(&self) -> (i128, i128) {
        match self.kind {
            Kind::Bool => (0, 1),
            Kind::Int8 | Kind::Int16 | Kind::Int32 | Kind::Int48 | Kind::Int64 => {
                let half = 1_i128 << (self.width() - 1);
                (-half, half - 1)
            }
            Kind::Uint8 | Kind::Uint16 | Kind::Uint32 | Kind::Uint48 | Kind::Uint64 => {
                (0, (1_i128 << self.width()) - 1)
            }
            Kind::Bcd16 => (0, 9999),
            Kind::Bcd32 => (0, 99_999_999),
            Kind::Float16 | Kind::Float32 | Kind::Float64 | Kind::Text => (0, 0),
        }
    }

    /// What the lowest and the highest raw value stand for.
    fn extremes(&self) -> (String, String) {
        let integer = |raw: i128| {
            let exact = self.scaling().and_then(|scaling| scaling.apply(raw));
            exact.and_then(super::scaling::Exact::text).unwrap_or_else(|| raw.to_string())
        };
        let float = |raw: f64| {
            let value = self.scaling().map_or(raw, |scaling| scaling.approximate(raw));
            format!("{:e}", value.clamp(f64::MIN, f64::MAX))
        };
        match self.kind {
            Kind::Float16 => (float(f16::MIN.to_f64()), float(f16::MAX.to_f64())),
            Kind::Float32 if !self.is_scaled() => (format!("{:e}", f32::MIN), format!("{:e}", f32::MAX)),
            Kind::Float32 => (float(f32::MIN.into()), float(f32::MAX.into())),
            Kind::Float64 => (float(f64::MIN), float(f64::MAX)),
            _ => {
                let (low, high) = self.raw_range();
                (integer(low), integer(high))
            }
        }
    }
}

fn list(value: &Value, count: u16) -> Result<&[Value], Refusal> {
    match value {
        Value::Array(values) if values.len() == usize::from(count) => Ok(values),
        Value::Array(values) => Err(Refusal::Count { got: values.len(), expected: count }),
        other => Err(refusal(&other.to_string(), AN_ARRAY)),
    }
}

/// The elements of a JSON array, each as its own text: numbers keep their digits.
fn elements(text: &str, count: u16) -> Result<Vec<Cow<'_, str>>, Refusal> {
    let items: Vec<&RawValue> =
        serde_json::from_str(text).map_err(|_not_an_array| refusal(text, AN_ARRAY))?;
    if items.len() != usize::from(count) {
        return Err(Refusal::Count { got: items.len(), expected: count });
    }
    let plain = |item: &&'_ RawValue| serde_json::from_str::<String>(item.get()).ok().map(Cow::Owned);
    Ok(items.iter().map(|item| plain(item).unwrap_or(Cow::Borrowed(item.get()))).collect())
}

fn at(index: usize, refusal: Refusal) -> Refusal {
    Refusal::Element { index, refusal: Box::new(refusal) }
}

fn refusal(text: &str, allowed: &'static str) -> Refusal {
    Refusal::Type { text: shown(text), allowed }
}

fn parse_bool(text: &str) -> Option<bool> {
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    if is("true") || is("on") || text == "1" {
        Some(true)
    } else if is("false") || is("off") || text == "0" {
        Some(false)
    } else {
        None
    }
}

/// The number without an exponent where that is reasonably short.
fn number_text(number: Number, text: &str) -> String {
    match (number.as_integer(), u32::try_from(number.exponent.saturating_neg())) {
        (Some(integer), _) => integer.to_string(),
        (None, Ok(places @ ..=64)) => plain(number.digits, places),
        _ => text.to_owned(),
    }
}
