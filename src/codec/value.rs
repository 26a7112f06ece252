//! Registers ↔ values: types, byte order, scaling, exact in decimal.
//!
//! Owns what a tag's registers mean. Must not know where they stand, who reads them or over what.

#![warn(clippy::as_conversions)]

mod decode;
mod encode;
mod number;
mod order;
mod scaling;
mod text;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use rust_decimal::Decimal;

use crate::model::{Accepted, Kind, Labels, Reason, Refusal, Setpoint, Value};
use order::Layout;
pub use order::Order;
use scaling::Scaling;
pub use text::{Encoding, Padding, Text};

/// How the cells of one tag, registers or bits, hold its value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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

/// The part of a register that holds a value, counted after its bytes were brought in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Part {
    /// All of it, or as many registers as the type takes.
    #[default]
    Whole,
    /// One bit, 0 being the least significant; only for [`Kind::Bool`].
    Bit(u8),
    /// The bits from `low` to `high` as an unsigned number; only for [`Kind::Uint16`].
    Bits { low: u8, high: u8 },
    /// The more significant byte; only for 8-bit types.
    High,
    /// The less significant byte.
    Low,
    /// The low bits of a number that is narrower than its type, as signals of CAN are.
    Narrow(u8),
}

/// How raw numbers become engineering values, computed in decimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    layout: Layout,
    part: Part,
    count: Option<u16>,
    text: Text,
    scale: Scaled,
    sentinels: Box<[u64]>,
    labels: Option<Arc<Labels>>,
    /// Whether it is a single value of whole registers without bit patterns that stand for none.
    is_simple: bool,
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
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("{got} registers where the type has {expected}")]
    Length { expected: u16, got: usize },
    #[error("the device says that it has no value")]
    NotAvailable,
    #[error("the registers hold NaN")]
    NotANumber,
    #[error("the registers hold an infinity")]
    Infinite,
    #[error("the register holds {0}, neither 0 nor 1")]
    NotBool(u16),
    #[error("invalid BCD digit {0:X}")]
    Digit(u8),
    #[error("the registers hold no {0} text")]
    Text(Encoding),
    #[error("the scaled value has more digits than can be computed exactly")]
    TooWide,
    /// Elements are counted from 0.
    #[error("element [{index}]: {fault}")]
    Element { index: u16, fault: Box<Fault> },
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
        registers_of(self.kind, self.text, self.count)
    }

    /// How many bits it takes, where it lies in a table of bits.
    #[must_use]
    pub fn bits(&self) -> u16 {
        self.count.unwrap_or(1)
    }

    /// The bits of its register that it takes, as they are on the wire; `None` where it takes all of them.
    #[must_use]
    pub fn mask(&self) -> Option<u16> {
        let layout = Layout::new(self.kind, self.order, self.part);
        (self.part != Part::Whole).then(|| layout.masked(0).0)
    }

    /// The format made ready for work, for whoever decodes more than once.
    #[must_use]
    pub fn codec(&self) -> Codec {
        let scaling = match self.scale {
            _ if matches!(self.kind, Kind::Bool | Kind::Text) || self.scale == Scale::NONE => None,
            Scale::Linear { factor, offset } => Some(Scaling::linear(factor, offset)),
            Scale::Ranges { raw, value, clamp } => Some(Scaling::ranges(raw, value, clamp)),
        };
        let scale = match scaling {
            None => Scaled::Not,
            Some(scaling) => scaling.map_or(Scaled::TooWide, |scaling| Scaled::By(Box::new(scaling))),
        };
        let mut codec = Codec {
            kind: self.kind,
            layout: Layout::new(self.kind, self.order, self.part),
            part: self.part,
            count: self.count,
            text: self.text,
            scale,
            sentinels: self.not_available.clone().into(),
            labels: self.labels.clone(),
            is_simple: self.count.is_none() && self.part == Part::Whole && self.not_available.is_empty(),
        };
        let (low, high) = codec.raw_range();
        if matches!(&codec.scale, Scaled::By(scaling) if !self.kind.is_float() && !scaling.has_room(low, high))
        {
            codec.scale = Scaled::TooWide;
        }
        codec
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
        registers_of(self.kind, self.text, self.count)
    }

    /// How many bits it takes, where it lies in a table of bits.
    #[must_use]
    pub fn bits(&self) -> u16 {
        self.count.unwrap_or(1)
    }

    /// The word that the tag has for a decoded value.
    #[must_use]
    pub fn label(&self, value: &Value) -> Option<Arc<str>> {
        self.labels.as_ref()?.of(value).cloned()
    }

    /// Whether the digits of its scale leave room to compute exactly.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.scale != Scaled::TooWide
    }

    /// How many bits one value takes.
    #[must_use]
    pub fn width(&self) -> u32 {
        match (self.part, self.layout.width) {
            (Part::Narrow(bits), _) => bits.clamp(1, 64).into(),
            (_, 1) => self.layout.mask.count_ones(),
            (_, registers) => u32::from(registers) * 16,
        }
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

impl Fault {
    /// What it makes of a tag's quality.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::NotAvailable => Reason::NotAvailable,
            Self::Element { fault, .. } => fault.reason(),
            _ => Reason::DecodeError,
        }
    }
}

/// Registers of one value; for a text, of what it takes at least.
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

fn registers_of(kind: Kind, text: Text, count: Option<u16>) -> u16 {
    let one = if kind == Kind::Text { text.registers() } else { registers(kind) };
    match count {
        None => one,
        Some(count) if is_byte(kind) => count.div_ceil(2),
        Some(count) => one.saturating_mul(count),
    }
}

/// Whether two elements of an array share a register, the first in the high byte.
fn is_byte(kind: Kind) -> bool {
    matches!(kind, Kind::Int8 | Kind::Uint8)
}

/// A text as refusals repeat it: of a long one, how it begins.
fn shown(text: &str) -> String {
    const MOST: usize = 100;
    match text.char_indices().nth(MOST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}
