//! One signal: its bits in a payload ↔ its value.

use std::sync::Arc;

use rust_decimal::Decimal;

use super::{Place, j1939};
use crate::{
    codec::value::{Codec, Fault, Format, Part, Scale},
    model::{Accepted, Kind, Labels, Refusal, Setpoint, Value},
};

/// How the bits of a signal are a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Number {
    Unsigned,
    Signed,
    /// IEEE 754 of 32 or 64 bits, as long as the signal is.
    Float,
}

/// What a signal is.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    pub place: Place,
    pub kind: Kind,
    /// Value = raw × factor + offset.
    pub factor: Decimal,
    pub offset: Decimal,
    /// Words for raw numbers, also of scaled signals.
    pub labels: Option<Arc<Labels>>,
    /// Raw bits that stand for no value.
    pub not_available: Vec<u64>,
    /// Whether the highest raw numbers stand for no value and for an error, as in J1939.
    pub has_indicators: bool,
}

/// A [`Spec`] made ready for work.
#[derive(Debug, Clone, PartialEq)]
pub struct Signal {
    spec: Spec,
    codec: Codec,
}

/// Why a signal cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("a {kind} of {length} bits: allowed is {allowed}")]
    Length { kind: Kind, length: u8, allowed: &'static str },
    #[error("factor and offset have more digits than can be computed exactly")]
    TooWide,
}

/// What a payload says of a signal.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    /// The payload ends before it.
    Short,
    /// Its sender has no value for it.
    NotAvailable,
    /// Its sender says that the value is in error.
    Error,
    Fault(Fault),
    /// A value, and the word for its raw number.
    Value(Value, Option<Arc<str>>),
}

impl Number {
    /// The type of values of so many bits; `None` for floats of other lengths than 32 and 64.
    #[must_use]
    pub fn kind(self, length: u8) -> Option<Kind> {
        Some(match (self, length) {
            (Self::Unsigned, ..=8) => Kind::Uint8,
            (Self::Unsigned, ..=16) => Kind::Uint16,
            (Self::Unsigned, ..=32) => Kind::Uint32,
            (Self::Unsigned, ..=48) => Kind::Uint48,
            (Self::Unsigned, _) => Kind::Uint64,
            (Self::Signed, ..=8) => Kind::Int8,
            (Self::Signed, ..=16) => Kind::Int16,
            (Self::Signed, ..=32) => Kind::Int32,
            (Self::Signed, ..=48) => Kind::Int48,
            (Self::Signed, _) => Kind::Int64,
            (Self::Float, 32) => Kind::Float32,
            (Self::Float, 64) => Kind::Float64,
            (Self::Float, _) => return None,
        })
    }
}

impl Signal {
    pub fn new(spec: Spec) -> Result<Self, Unfit> {
        let (kind, length) = (spec.kind, spec.place.length());
        let refuse = |allowed| Err(Unfit::Length { kind, length, allowed });
        let part = match kind {
            Kind::Bool if length != 1 => return refuse("1 bit"),
            Kind::Bool => Part::Narrow(1),
            Kind::Float32 if length != 32 => return refuse("32 bits"),
            Kind::Float64 if length != 64 => return refuse("64 bits"),
            Kind::Float32 | Kind::Float64 => Part::Whole,
            Kind::Int8 | Kind::Uint8 if length > 8 => return refuse("1 to 8 bits"),
            Kind::Int16 | Kind::Uint16 if length > 16 => return refuse("1 to 16 bits"),
            Kind::Int32 | Kind::Uint32 if length > 32 => return refuse("1 to 32 bits"),
            Kind::Int48 | Kind::Uint48 if length > 48 => return refuse("1 to 48 bits"),
            Kind::Float16 | Kind::Bcd16 | Kind::Bcd32 | Kind::Text => {
                return refuse("none: signals are whole numbers, bits, float32 and float64");
            }
            _ => Part::Narrow(length),
        };
        // Where all raw numbers stand for one value, the codec is for these themselves.
        let scale = if spec.factor.is_zero() {
            Scale::NONE
        } else {
            Scale::Linear { factor: spec.factor, offset: spec.offset }
        };
        let format = Format { part, scale, not_available: spec.not_available.clone(), ..Format::plain(kind) };
        let codec = format.codec();
        if codec.is_exact() { Ok(Self { spec, codec }) } else { Err(Unfit::TooWide) }
    }

    #[must_use]
    pub fn place(&self) -> Place {
        self.spec.place
    }

    #[must_use]
    pub fn kind(&self) -> Kind {
        self.spec.kind
    }

    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Whether raw numbers are scaled on their way.
    #[must_use]
    pub fn is_scaled(&self) -> bool {
        self.spec.factor != Decimal::ONE || !self.spec.offset.is_zero()
    }

    /// Whether all raw numbers stand for one value, so that none can be written.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        self.spec.factor.is_zero()
    }

    /// The one value of a signal that has no other.
    fn constant(&self) -> Value {
        self.spec.offset.to_string().parse().map_or(Value::Null, Value::F64)
    }

    /// What a payload says of it.
    #[must_use]
    pub fn read(&self, payload: &[u8]) -> Reading {
        match self.spec.place.read(payload) {
            Some(bits) => self.value(bits),
            None => Reading::Short,
        }
    }

    /// What its bits say.
    #[must_use]
    pub fn value(&self, bits: u64) -> Reading {
        match self.indicator(bits) {
            Some(j1939::Indicator::NotAvailable) => return Reading::NotAvailable,
            Some(j1939::Indicator::Error) => return Reading::Error,
            None => {}
        }
        match self.codec.value(bits) {
            Ok(_) if self.is_constant() => Reading::Value(self.constant(), self.word(bits).cloned()),
            Ok(value) => Reading::Value(value, self.word(bits).cloned()),
            Err(Fault::NotAvailable) => Reading::NotAvailable,
            Err(fault) => Reading::Fault(fault),
        }
    }

    fn indicator(&self, bits: u64) -> Option<j1939::Indicator> {
        let indicator =
            j1939::indicator(bits, self.spec.place.length()).filter(|_| self.spec.has_indicators)?;
        let is_value = self.word(bits).is_some_and(|word| !j1939::is_word_of_indicator(word));
        (!is_value).then_some(indicator)
    }

    /// The bits that hold a value, or the nearest to it that they can.
    pub fn bits(&self, value: &Value) -> Result<u64, Refusal> {
        if self.is_constant() {
            return Err(constant(&value.to_string()));
        }
        self.codec.bits_of(value)
    }

    /// The bits of a raw number; `None` where they cannot hold it.
    #[must_use]
    pub fn raw(&self, number: i64) -> Option<u64> {
        let text = number.to_string();
        match self.spec.kind {
            Kind::Float32 => {
                let float = text.parse::<f32>().ok()?;
                return (float.to_string() == text).then(|| float.to_bits().into());
            }
            Kind::Float64 => {
                let float = text.parse::<f64>().ok()?;
                return (float.to_string() == text).then(|| float.to_bits());
            }
            _ => {}
        }
        let (low, high) = self.codec.raw_range();
        let fits = (low..=high).contains(&number.into());
        fits.then(|| number.cast_unsigned() & u64::MAX >> (64 - self.spec.place.length()))
    }

    fn word(&self, bits: u64) -> Option<&Arc<str>> {
        let labels = self.spec.labels.as_ref()?;
        let unused = 64 - self.spec.place.length();
        let number = match self.spec.kind {
            // Only whole numbers have words.
            Kind::Float32 => f32::from_bits(u32::try_from(bits).ok()?).to_string().parse().ok()?,
            Kind::Float64 => f64::from_bits(bits).to_string().parse().ok()?,
            _ if self.codec.raw_range().0 < 0 => (bits << unused).cast_signed() >> unused,
            _ => i64::try_from(bits).ok()?,
        };
        labels.word(number)
    }
}

impl Setpoint for Signal {
    fn accept(&self, text: &str) -> Result<Accepted, Refusal> {
        if self.is_constant() {
            return Err(constant(text));
        }
        let labels = self.spec.labels.as_ref();
        let accepted = match labels.and_then(|labels| labels.number(text)).and_then(|number| self.raw(number))
        {
            // A word stands for a raw number, which is not scaled.
            Some(bits) => match self.codec.value(bits) {
                Ok(value) => Accepted { requested: value.clone(), effective: value },
                Err(_) => return Err(Refusal::Reserved { text: text.to_owned() }),
            },
            None => self.codec.accept(text).map_err(|refusal| match (refusal, labels) {
                (Refusal::Type { text, allowed }, Some(labels)) => {
                    Refusal::Label { text, labels: labels.to_string(), allowed }
                }
                (refusal, _) => refusal,
            })?,
        };
        match self.value(self.bits(&accepted.effective)?) {
            Reading::NotAvailable | Reading::Error => Err(Refusal::Reserved { text: text.to_owned() }),
            _ => Ok(accepted),
        }
    }
}

fn constant(text: &str) -> Refusal {
    Refusal::Type { text: text.to_owned(), allowed: "writable here: the signal has factor 0" }
}
