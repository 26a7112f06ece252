//! Text or value → registers.

use super::{
    Codec, Raw,
    number::{Number, plain},
};
use crate::model::{Accepted, Kind, Refusal, Value};

const A_BOOL: &str = "one of true, false, on, off, 1, 0";
const A_NUMBER: &str = "a number such as 72.5 or -1e2";
const TOO_WIDE: &str =
    "writable here: scale and offset of the tag have more digits than can be computed exactly";

impl Codec {
    /// Reads `text` by the tag's type and rounds it to the nearest raw step, halves away from zero.
    ///
    /// The effective value is what decoding gives of the registers that would be sent.
    pub fn accept(&self, text: &str) -> Result<Accepted, Refusal> {
        let raw = self.encode_text(text)?;
        let effective = self.decode(raw.words()).map_err(|_fault| self.refused(text))?;
        Ok(Accepted { requested: self.requested(text), effective })
    }

    /// The registers that hold `value`, or the nearest that the raw type can.
    pub fn encode(&self, value: &Value) -> Result<Raw, Refusal> {
        match (self.kind, value) {
            (Kind::Bool, Value::Bool(value)) => Ok(self.order_words([u16::from(*value)])),
            (Kind::Bool, _) | (_, Value::Bool(_) | Value::Null | Value::Bytes(_) | Value::Array(_)) => {
                Err(Refusal::Type { text: value.to_string(), allowed: self.allowed() })
            }
            // The bits as they are: minus zero stays what it is.
            (Kind::Float32, Value::F32(value)) if !self.is_scaled() && value.is_finite() => {
                Ok(self.double_words(value.to_bits()))
            }
            (Kind::Float64, Value::F64(value)) if !self.is_scaled() && value.is_finite() => {
                Ok(self.quad_words(value.to_bits()))
            }
            (_, Value::F32(value)) => self.encode_text(&format!("{value:e}")),
            (_, Value::F64(value)) => self.encode_text(&format!("{value:e}")),
            (_, value) => self.encode_text(&value.to_string()),
        }
    }

    fn encode_text(&self, text: &str) -> Result<Raw, Refusal> {
        if self.kind == Kind::Bool {
            return parse_bool(text)
                .map(|value| self.order_words([u16::from(value)]))
                .ok_or_else(|| self.refused(text));
        }
        let number = Number::parse(text).ok_or_else(|| self.refused(text))?;
        match self.kind {
            Kind::Bool | Kind::Float32 | Kind::Float64 => self.float_words(text, number),
            _ => self.integer_words(text, number),
        }
    }

    fn integer_words(&self, text: &str, number: Number) -> Result<Raw, Refusal> {
        let scaling = self.scaling().ok_or(Refusal::Type { text: text.to_owned(), allowed: TOO_WIDE })?;
        let raw = scaling.invert(number).ok_or_else(|| self.out_of_range(text))?;
        let words = match self.kind {
            Kind::Int16 => i16::try_from(raw).ok().map(|value| self.order_words([value.cast_unsigned()])),
            Kind::Uint16 => u16::try_from(raw).ok().map(|value| self.order_words([value])),
            Kind::Int32 => i32::try_from(raw).ok().map(|value| self.double_words(value.cast_unsigned())),
            Kind::Uint32 => u32::try_from(raw).ok().map(|value| self.double_words(value)),
            Kind::Int64 => i64::try_from(raw).ok().map(|value| self.quad_words(value.cast_unsigned())),
            Kind::Uint64 => u64::try_from(raw).ok().map(|value| self.quad_words(value)),
            _ => None,
        };
        words.ok_or_else(|| self.out_of_range(text))
    }

    fn float_words(&self, text: &str, number: Number) -> Result<Raw, Refusal> {
        let raw = if self.is_scaled() {
            let scaling = self.scaling().ok_or(Refusal::Type { text: text.to_owned(), allowed: TOO_WIDE })?;
            scaling.invert_text(number).unwrap_or_else(|| {
                format!("{:e}", scaling.invert_approximate(text.parse().unwrap_or(f64::NAN)))
            })
        } else {
            text.to_owned()
        };
        // The text goes to the raw type at once: rounding to a double first could round twice.
        let words = if self.kind == Kind::Float32 {
            raw.parse().ok().filter(|value: &f32| value.is_finite()).map(|f| self.double_words(f.to_bits()))
        } else {
            raw.parse().ok().filter(|value: &f64| value.is_finite()).map(|f| self.quad_words(f.to_bits()))
        };
        words.ok_or_else(|| self.out_of_range(text))
    }

    /// The value as it was asked for; `text` is known to be one.
    fn requested(&self, text: &str) -> Value {
        if self.kind == Kind::Bool {
            return parse_bool(text).map_or(Value::Null, Value::Bool);
        }
        let Some(number) = Number::parse(text) else { return Value::Null };
        let float = matches!(self.kind, Kind::Float32 | Kind::Float64);
        if !self.is_scaled()
            && !float
            && let Some(value) = number.as_integer()
        {
            let signed = matches!(self.kind, Kind::Int16 | Kind::Int32 | Kind::Int64);
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

    fn allowed(&self) -> &'static str {
        if self.kind == Kind::Bool { A_BOOL } else { A_NUMBER }
    }

    fn refused(&self, text: &str) -> Refusal {
        Refusal::Type { text: text.to_owned(), allowed: self.allowed() }
    }

    fn out_of_range(&self, text: &str) -> Refusal {
        let (low, high) = self.extremes();
        // A negative scale turns the range around.
        let turned =
            self.scaling().is_some_and(|scaling| scaling.approximate(1.0) < scaling.approximate(0.0));
        let (min, max) = if turned { (high, low) } else { (low, high) };
        Refusal::RawRange { text: text.to_owned(), kind: self.kind, min, max }
    }

    /// What the lowest and the highest raw value stand for.
    fn extremes(&self) -> (String, String) {
        let integer = |raw: i128| {
            self.scaling()
                .and_then(|scaling| scaling.apply(raw))
                .map_or_else(|| raw.to_string(), |exact| plain(exact.digits, exact.places))
        };
        let float = |raw: f64| {
            let value = self.scaling().map_or(raw, |scaling| scaling.approximate(raw));
            format!("{:e}", value.clamp(f64::MIN, f64::MAX))
        };
        match self.kind {
            Kind::Bool => (integer(0), integer(1)),
            Kind::Int16 => (integer(i16::MIN.into()), integer(i16::MAX.into())),
            Kind::Uint16 => (integer(0), integer(u16::MAX.into())),
            Kind::Int32 => (integer(i32::MIN.into()), integer(i32::MAX.into())),
            Kind::Uint32 => (integer(0), integer(u32::MAX.into())),
            Kind::Int64 => (integer(i64::MIN.into()), integer(i64::MAX.into())),
            Kind::Uint64 => (integer(0), integer(u64::MAX.into())),
            Kind::Float32 if !self.is_scaled() => (format!("{:e}", f32::MIN), format!("{:e}", f32::MAX)),
            Kind::Float32 => (float(f32::MIN.into()), float(f32::MAX.into())),
            Kind::Float64 => (float(f64::MIN), float(f64::MAX)),
            _ => (integer(0), integer(0)),
        }
    }

    fn double_words(&self, bits: u32) -> Raw {
        self.order_words([16, 0].map(|shift| low_word(u64::from(bits) >> shift)))
    }

    fn quad_words(&self, bits: u64) -> Raw {
        self.order_words([48, 32, 16, 0].map(|shift| low_word(bits >> shift)))
    }

    fn order_words<const N: usize>(&self, mut words: [u16; N]) -> Raw {
        if self.order.words {
            words.reverse();
        }
        let swap = |word: u16| if self.order.bytes { word.swap_bytes() } else { word };
        Raw::Words(words.into_iter().map(swap).collect())
    }
}

fn low_word(bits: u64) -> u16 {
    u16::try_from(bits & 0xFFFF).unwrap_or_default()
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
