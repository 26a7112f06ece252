//! Registers ↔ values: types, byte order, scaling, exact in decimal.
//!
//! Owns what a tag's registers mean. Must not know where they stand, who reads them or over what.

#![warn(clippy::as_conversions)]

mod decode;
mod encode;
mod number;
mod scaling;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use rust_decimal::Decimal;
use scaling::Scaling;

use crate::model::{Accepted, Kind, Labels, Refusal, Setpoint, Value};

/// How the cells of one tag, registers or bits, hold its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    pub kind: Kind,
    pub order: Order,
    /// Which part of a register holds it.
    pub part: Part,
    /// Number of elements of an array; `None` for a single value.
    pub count: Option<u16>,
    /// How a text lies in its registers; only for [`Kind::Text`].
    pub text: Text,
    pub scale: Scale,
    /// Bit patterns, after byte order and before scaling, that stand for `not available`.
    pub not_available: Vec<u64>,
    /// Words for raw numbers.
    pub labels: Option<Arc<Labels>>,
}

/// Order in which the bytes of a value arrive, as exchanges against the plain big-endian order.
///
/// The four names with letters for 32 bits hold for every width: `CDAB` turns the words of a value around, `BADC` the
/// bytes in each word, `DCBA` both. So 64-bit values are ABCDEFGH, GHEFCDAB, BADCFEHG, HGFEDCBA; with `words` or `dwords`
/// alone they are CDABGHEF and EFGHABCD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Order {
    /// The bytes of each word are exchanged.
    pub bytes: bool,
    /// The words of each double word are exchanged; of a 48-bit value the first and the last.
    pub words: bool,
    /// The double words of a 64-bit value are exchanged.
    pub dwords: bool,
}

/// The part of a register that holds a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Part {
    /// All of it, or as many registers as the type takes.
    #[default]
    Whole,
    /// One bit, 0 being the least significant; only for [`Kind::Bool`].
    Bit(u8),
    /// The bits from `low` to `high` as an unsigned number; only for [`Kind::Uint16`].
    Bits { low: u8, high: u8 },
    /// The byte that comes first; only for 8-bit types.
    High,
    /// The byte that comes second.
    Low,
}

/// How a text lies in its registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Text {
    /// Bytes; an odd number leaves half of the last register unused.
    pub length: u16,
    pub encoding: Encoding,
    pub padding: Padding,
}

/// What the bytes of a text mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Encoding {
    #[default]
    Ascii,
    Latin1,
    Utf8,
    /// One 16-bit unit a register.
    Utf16,
}

/// What fills a text up to its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Padding {
    #[default]
    Nul,
    Space,
}

/// How raw numbers become engineering values, computed in decimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Engineering value = raw × factor + offset; 1 and 0 where nothing is scaled.
    Linear { factor: Decimal, offset: Decimal },
    /// The straight line on which the first raw number stands for the first value and the second for the second.
    Ranges {
        raw: (Decimal, Decimal),
        value: (Decimal, Decimal),
        /// Whether readings beyond the ends become the ends; writes beyond them are refused.
        clamp: bool,
    },
}

/// A [`Format`] made ready for work: what can be computed once is computed.
#[derive(Debug, Clone, PartialEq)]
pub struct Codec {
    kind: Kind,
    order: Order,
    part: Part,
    count: Option<u16>,
    scale: Scaled,
    labels: Option<Arc<Labels>>,
}

/// What scaling does.
#[derive(Debug, Clone, PartialEq)]
enum Scaled {
    /// Nothing.
    Not,
    By(Box<Scaling>),
    /// It needs more digits than exact arithmetic here has.
    TooWide,
}

/// What a write sends, in the order in which it goes over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Raw {
    Bits(Vec<bool>),
    Words(Vec<u16>),
    /// The bits of `mask` in one register become those of `bits`; all others stay.
    Masked {
        mask: u16,
        bits: u16,
    },
}

/// Why registers are no value of the tag's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("{got} registers where the type has {expected}")]
    Length { expected: u16, got: usize },
    #[error("the registers hold NaN")]
    NotANumber,
    #[error("the registers hold an infinity")]
    Infinite,
    #[error("the register holds {0}, neither 0 nor 1")]
    NotBool(u16),
    #[error("the scaled value has more digits than can be computed exactly")]
    TooWide,
}

impl Format {
    /// A single unscaled value over whole registers, or over one bit.
    #[must_use]
    pub fn plain(kind: Kind) -> Self {
        Self {
            kind,
            order: Order::ABCD,
            part: Part::Whole,
            count: None,
            text: Text::default(),
            scale: Scale::NONE,
            not_available: Vec::new(),
            labels: None,
        }
    }

    /// How many registers the whole of it takes, where it lies in registers.
    #[must_use]
    pub fn registers(&self) -> u16 {
        registers(self.kind)
    }

    /// How many bits it takes, where it lies in a table of bits.
    #[must_use]
    pub fn bits(&self) -> u16 {
        self.count.unwrap_or(1)
    }

    /// The format made ready for work, for whoever decodes more than once.
    #[must_use]
    pub fn codec(&self) -> Codec {
        let scale = match self.scale {
            Scale::Linear { factor, offset } if self.kind != Kind::Bool && self.scale != Scale::NONE => {
                Scaling::new(factor, offset).map_or(Scaled::TooWide, |scaling| Scaled::By(Box::new(scaling)))
            }
            _ => Scaled::Not,
        };
        Codec {
            kind: self.kind,
            order: self.order,
            part: self.part,
            count: self.count,
            scale,
            labels: self.labels.clone(),
        }
    }

    /// See [`Codec::decode`].
    pub fn decode(&self, registers: &[u16]) -> Result<Value, Fault> {
        self.codec().decode(registers)
    }

    /// See [`Codec::encode`].
    pub fn encode(&self, value: &Value) -> Result<Raw, Refusal> {
        self.codec().encode(value)
    }
}

impl Setpoint for Format {
    fn accept(&self, text: &str) -> Result<Accepted, Refusal> {
        self.codec().accept(text)
    }
}

impl Codec {
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// How many registers the whole of it takes.
    #[must_use]
    pub fn registers(&self) -> u16 {
        registers(self.kind)
    }

    /// How many bits it takes, where it lies in a table of bits.
    #[must_use]
    pub fn bits(&self) -> u16 {
        self.count.unwrap_or(1)
    }

    /// Reads the value that cells of a table of bits hold.
    pub fn decode_bits(&self, bits: &[bool]) -> Result<Value, Fault> {
        match bits {
            [bit] => Ok(Value::Bool(*bit)),
            _ => Err(Fault::Length { expected: 1, got: bits.len() }),
        }
    }

    /// The cells of a table of bits that hold `value`.
    pub fn encode_bits(&self, value: &Value) -> Result<Raw, Refusal> {
        match value {
            Value::Bool(on) => Ok(Raw::Bits(vec![*on])),
            other => Err(Refusal::Type { text: other.to_string(), allowed: "true or false" }),
        }
    }

    /// The word that the tag has for a decoded value.
    #[must_use]
    pub fn label(&self, value: &Value) -> Option<Arc<str>> {
        let labels = self.labels.as_ref()?;
        let number = match value {
            Value::Bool(on) => i64::from(*on),
            Value::I64(number) => *number,
            Value::U64(number) => i64::try_from(*number).ok()?,
            _ => return None,
        };
        labels.word(number).cloned()
    }

    fn is_scaled(&self) -> bool {
        self.scale != Scaled::Not
    }

    /// `None` where nothing can be computed.
    fn scaling(&self) -> Option<&Scaling> {
        match &self.scale {
            Scaled::Not => Some(&Scaling::NONE),
            Scaled::By(scaling) => Some(scaling),
            Scaled::TooWide => None,
        }
    }
}

impl Order {
    /// Plain Modbus.
    pub const ABCD: Self = Self { bytes: false, words: false, dwords: false };
    /// Words turned around.
    pub const CDAB: Self = Self { bytes: false, words: true, dwords: true };
    /// Bytes exchanged in each word.
    pub const BADC: Self = Self { bytes: true, words: false, dwords: false };
    /// Both.
    pub const DCBA: Self = Self { bytes: true, words: true, dwords: true };
}

impl Scale {
    /// Nothing is scaled.
    pub const NONE: Self = Self::Linear { factor: Decimal::ONE, offset: Decimal::ZERO };
}

impl Raw {
    /// The registers; none for anything else.
    #[must_use]
    pub fn words(&self) -> &[u16] {
        match self {
            Self::Words(words) => words,
            Self::Bits(_) | Self::Masked { .. } => &[],
        }
    }
}

fn registers(kind: Kind) -> u16 {
    match kind {
        Kind::Bool
        | Kind::Int8
        | Kind::Uint8
        | Kind::Int16
        | Kind::Uint16
        | Kind::Float16
        | Kind::Bcd16
        | Kind::Text => 1,
        Kind::Int32 | Kind::Uint32 | Kind::Float32 | Kind::Bcd32 => 2,
        Kind::Int48 | Kind::Uint48 => 3,
        Kind::Int64 | Kind::Uint64 | Kind::Float64 => 4,
    }
}
