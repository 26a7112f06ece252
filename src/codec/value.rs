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

use rust_decimal::Decimal;
use scaling::Scaling;

use crate::model::{Accepted, Kind, Refusal, Setpoint, Value};

/// How the registers of one tag hold its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    pub kind: Kind,
    pub order: Order,
    /// Engineering value = raw × scale + offset; 1 and 0 where nothing is scaled.
    pub scale: Decimal,
    pub offset: Decimal,
}

/// Order in which the bytes of a value arrive; letters name the bytes of the big-endian value.
///
/// 64-bit values follow suit: ABCDEFGH, GHEFCDAB, BADCFEHG, HGFEDCBA. Of 16-bit values only the exchange of bytes
/// matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// ABCD: plain Modbus.
    #[default]
    Abcd,
    /// CDAB: words exchanged.
    Cdab,
    /// BADC: bytes exchanged in each word.
    Badc,
    /// DCBA: both.
    Dcba,
}

/// A [`Format`] made ready for work: what can be computed once is computed.
#[derive(Debug, Clone, PartialEq)]
pub struct Codec {
    kind: Kind,
    order: Order,
    scale: Scale,
}

/// What scale and offset do.
#[derive(Debug, Clone, PartialEq)]
enum Scale {
    /// Nothing.
    One,
    By(Box<Scaling>),
    /// Together they need more digits than exact arithmetic here has.
    TooWide,
}

/// The registers of one value, in the order in which they go over the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raw {
    words: [u16; 4],
    length: usize,
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
    /// How many registers a value takes; a coil or discrete input takes one bit instead.
    #[must_use]
    pub fn registers(&self) -> u16 {
        registers(self.kind)
    }

    /// The format made ready for work, for whoever decodes more than once.
    #[must_use]
    pub fn codec(&self) -> Codec {
        let scaled = self.kind != Kind::Bool && (self.scale != Decimal::ONE || self.offset != Decimal::ZERO);
        let scale = if scaled {
            Scaling::new(self.scale, self.offset)
                .map_or(Scale::TooWide, |scaling| Scale::By(Box::new(scaling)))
        } else {
            Scale::One
        };
        Codec { kind: self.kind, order: self.order, scale }
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

    /// How many registers a value takes.
    #[must_use]
    pub fn registers(&self) -> u16 {
        registers(self.kind)
    }

    fn is_scaled(&self) -> bool {
        self.scale != Scale::One
    }

    /// `None` where nothing can be computed.
    fn scaling(&self) -> Option<&Scaling> {
        match &self.scale {
            Scale::One => Some(&Scaling::NONE),
            Scale::By(scaling) => Some(scaling),
            Scale::TooWide => None,
        }
    }
}

impl Order {
    fn swaps_words(self) -> bool {
        matches!(self, Self::Cdab | Self::Dcba)
    }

    fn swaps_bytes(self) -> bool {
        matches!(self, Self::Badc | Self::Dcba)
    }
}

impl Raw {
    #[must_use]
    pub fn as_slice(&self) -> &[u16] {
        self.words.get(..self.length).unwrap_or(&self.words)
    }
}

fn registers(kind: Kind) -> u16 {
    match kind {
        Kind::Bool | Kind::Int16 | Kind::Uint16 => 1,
        Kind::Int32 | Kind::Uint32 | Kind::Float32 => 2,
        Kind::Int64 | Kind::Uint64 | Kind::Float64 => 4,
    }
}
