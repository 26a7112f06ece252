//! Fields at fixed offsets in bytes: the value codec of registers, over bytes.

use crate::{
    codec::value::{self, Codec, Format, Order, Part, Raw},
    model::{Kind, Refusal, Value},
};

use super::{Problem, Unfit};

/// A value in the bytes of a payload, big-endian unless the format's order says otherwise.
///
/// All of a [`Format`] means what it means in registers, two bytes a register, with these differences: 8-bit types and
/// single bits take one byte, arrays of 8-bit types as many as they have elements, and texts as many as their length.
#[derive(Debug, Clone, PartialEq)]
pub struct Binary {
    /// Bytes before it.
    offset: usize,
    length: usize,
    codec: Codec,
    /// Whether it is one byte, which the codec finds in the lower half of a register.
    is_byte: bool,
}

impl Binary {
    /// A value at `offset`.
    pub fn new(offset: usize, format: &Format) -> Result<Self, Unfit> {
        let is_small = matches!(format.kind, Kind::Int8 | Kind::Uint8 | Kind::Bool);
        let is_byte = is_small && format.count.is_none();
        let fits = match format.part {
            Part::Whole => format.kind != Kind::Bool || format.count.is_none(),
            Part::Bit(bit) => format.kind == Kind::Bool && bit < 8 && format.count.is_none(),
            Part::Bits { .. } => format.kind == Kind::Uint16 && format.count.is_none(),
            Part::High | Part::Low | Part::Narrow(_) => false,
        };
        if !fits {
            return Err(Unfit::Part(format.kind));
        }
        let length = match (format.kind, format.count) {
            (Kind::Int8 | Kind::Uint8 | Kind::Bool, count) => count.unwrap_or(1),
            (Kind::Text, None) => format.text.length,
            _ => format.registers().saturating_mul(2),
        };
        // One byte has no order.
        let order = if is_byte { Order::ABCD } else { format.order };
        let codec = Format { order, ..format.clone() }.codec();
        if !codec.is_exact() {
            return Err(Unfit::Scale);
        }
        Ok(Self { offset, length: length.into(), codec, is_byte })
    }

    /// The first byte and the one behind the last.
    #[must_use]
    pub fn span(&self) -> (usize, usize) {
        (self.offset, self.offset.saturating_add(self.length))
    }

    pub(super) fn codec(&self) -> &Codec {
        &self.codec
    }

    pub(super) fn read(&self, payload: &[u8]) -> Result<Value, Problem> {
        let (first, end) = self.span();
        let Some(bytes) = payload.get(first..end) else {
            return Err(Problem::Short { first, end, length: payload.len() });
        };
        let words: Vec<u16> = match bytes {
            [byte] if self.is_byte => vec![u16::from(*byte)],
            bytes => bytes.chunks(2).map(word).collect(),
        };
        self.codec.decode(&words).map_err(|fault| match fault {
            value::Fault::NotAvailable => Problem::NotAvailable,
            fault => Problem::Binary(fault),
        })
    }

    /// The bytes of the field alone.
    pub(super) fn write(&self, value: &Value) -> Result<Vec<u8>, Refusal> {
        match self.codec.encode(value)? {
            Raw::Words(words) if self.is_byte => Ok(words.iter().map(|word| word.to_be_bytes()[1]).collect()),
            Raw::Words(words) => Ok(words.into_iter().flat_map(u16::to_be_bytes).take(self.length).collect()),
            Raw::Bits(_) | Raw::Masked { .. } => {
                Err(Refusal::Type { text: value.to_string(), allowed: "writable: it is a part of a byte" })
            }
        }
    }
}

fn word(pair: &[u8]) -> u16 {
    match pair {
        [high, low] => u16::from_be_bytes([*high, *low]),
        [high] => u16::from_be_bytes([*high, 0]),
        _ => 0,
    }
}
