//! Formats of every kind, with the rules by which a configuration admits them.

use std::{fmt, sync::Arc};

use arbitrary::{Arbitrary, Result, Unstructured};
use fieldbridge::{
    codec::value::{Encoding, Format, Order, Padding, Part, Scale, Text},
    model::{Kind, Labels},
};
use rust_decimal::Decimal;

pub const KINDS: [Kind; 17] = [
    Kind::Bool,
    Kind::Int8,
    Kind::Uint8,
    Kind::Int16,
    Kind::Uint16,
    Kind::Int32,
    Kind::Uint32,
    Kind::Int48,
    Kind::Uint48,
    Kind::Int64,
    Kind::Uint64,
    Kind::Float16,
    Kind::Float32,
    Kind::Float64,
    Kind::Bcd16,
    Kind::Bcd32,
    Kind::Text,
];

const ENCODINGS: [Encoding; 4] = [Encoding::Ascii, Encoding::Latin1, Encoding::Utf8, Encoding::Utf16];

/// A format, in little.
#[derive(Debug, Clone, PartialEq, Arbitrary)]
pub struct Shape {
    #[arbitrary(with = kind)]
    pub kind: Kind,
    /// Exchanges of bytes, words, double words: one bit each.
    pub order: u8,
    /// Its form, and two numbers of bits.
    pub part: (u8, u8, u8),
    pub is_array: bool,
    pub count: u16,
    /// Bytes of a text.
    pub length: u8,
    #[arbitrary(with = encoding)]
    pub encoding: Encoding,
    pub is_padded: bool,
    pub scale: Form,
    /// Factor and offset, or raw and other ends.
    pub numbers: [Number; 4],
    /// Patterns that stand for no value, as many as `sentinel_count` says.
    pub sentinels: [u64; 2],
    pub sentinel_count: u8,
    /// Which words of [`WORDS`] it has, one bit each.
    pub labels: u8,
}

/// How it is scaled; all other numbers are [`Form::Not`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Not,
    Linear,
    Ranges { clamp: bool },
}

/// A decimal: a mantissa of which `size` bytes count, and its places.
#[derive(Clone, Copy, PartialEq, Arbitrary)]
pub struct Number {
    pub mantissa: [u8; 12],
    pub size: u8,
    pub places: u8,
    pub is_negative: bool,
}

/// Words that a tag may have for numbers.
pub const WORDS: [(i64, &str); 8] = [
    (0, "off"),
    (1, "on"),
    (2, "Auto"),
    (-1, "minus"),
    (7, "8"),
    (65535, "none"),
    (0, "aus"),
    (4_294_967_296, "far"),
];

fn kind(u: &mut Unstructured<'_>) -> Result<Kind> {
    u.choose(&KINDS).copied()
}

fn encoding(u: &mut Unstructured<'_>) -> Result<Encoding> {
    u.choose(&ENCODINGS).copied()
}

impl Arbitrary<'_> for Form {
    fn arbitrary(u: &mut Unstructured<'_>) -> Result<Self> {
        Ok(match u.int_in_range(0..=3)? {
            0 => Self::Not,
            1 => Self::Linear,
            form => Self::Ranges { clamp: form == 3 },
        })
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.decimal().fmt(f)
    }
}

impl Number {
    #[must_use]
    pub fn decimal(&self) -> Decimal {
        let size = usize::from(self.size) % 13;
        let bytes = self.mantissa.iter().take(size).rev();
        let mantissa = bytes.fold(0, |sum: i128, byte| sum << 8 | i128::from(*byte));
        let mantissa = if self.is_negative { -mantissa } else { mantissa };
        Decimal::try_from_i128_with_scale(mantissa, u32::from(self.places) % 29)
            .expect("96 bits and 28 places")
    }
}

impl Shape {
    #[must_use]
    pub fn format(&self) -> Format {
        let order =
            Order { bytes: self.order & 1 > 0, words: self.order & 2 > 0, dwords: self.order & 4 > 0 };
        let [one, two, three, four] = self.numbers.map(|number| number.decimal());
        let padding = if self.is_padded { Padding::Space } else { Padding::Nul };
        Format {
            kind: self.kind,
            order,
            part: match self.part {
                (1, bit, _) => Part::Bit(bit),
                (2, low, high) => Part::Bits { low, high },
                (3, ..) => Part::High,
                (4, ..) => Part::Low,
                _ => Part::Whole,
            },
            count: self.is_array.then_some(self.count),
            text: Text { length: self.length.into(), encoding: self.encoding, padding },
            scale: match self.scale {
                Form::Not => Scale::NONE,
                Form::Linear => Scale::Linear { factor: one, offset: two },
                Form::Ranges { clamp } => Scale::Ranges { raw: (one, two), value: (three, four), clamp },
            },
            not_available: self.sentinels.into_iter().take(self.sentinel_count.into()).collect(),
            labels: (self.labels != 0).then(|| Arc::new(self.words())),
        }
    }

    fn words(&self) -> Labels {
        let chosen = WORDS.iter().enumerate().filter(|(at, _)| self.labels >> at & 1 == 1);
        Labels::new(chosen.map(|(_, (number, word))| (*number, (*word).into())))
    }
}

/// Whether a configuration can have this format: what it refuses need only not panic.
#[must_use]
pub fn is_admitted(format: &Format) -> bool {
    let part = match format.part {
        Part::Whole => format.count.is_some() || !matches!(format.kind, Kind::Int8 | Kind::Uint8),
        Part::Bit(bit) => format.kind == Kind::Bool && bit < 16,
        Part::Bits { low, high } => format.kind == Kind::Uint16 && low <= high && high < 16,
        Part::High | Part::Low => matches!(format.kind, Kind::Int8 | Kind::Uint8),
        Part::Narrow(_) => false,
    };
    let is_array = format.count.is_some();
    let count = match format.count {
        None => true,
        Some(count) => format.part == Part::Whole && count > 0 && format.registers() <= 123,
    };
    let text = match format.kind {
        Kind::Text => {
            (1..=246).contains(&format.text.length)
                && (format.text.encoding != Encoding::Utf16 || format.text.length.is_multiple_of(2))
        }
        _ => true,
    };
    let is_number = !matches!(format.kind, Kind::Bool | Kind::Text);
    let scale = match format.scale {
        scale if scale == Scale::NONE => true,
        Scale::Linear { factor, .. } => is_number && !factor.is_zero(),
        Scale::Ranges { raw, value, clamp } => {
            // A configuration admits readings that are all beyond an end, of which there is nothing to say.
            let (low, high) = match format.kind {
                Kind::Float16 => (-65504, 65504),
                Kind::Float32 => (i128::from(i64::MIN), i128::from(i64::MAX)),
                _ => format.codec().raw_range(),
            };
            let within = |raw: Decimal| (Decimal::from(low)..=Decimal::from(high)).contains(&raw);
            is_number
                && (!clamp || within(raw.0) && within(raw.1))
                && !matches!(format.kind, Kind::Int64 | Kind::Uint64 | Kind::Float64)
                && raw.0 < raw.1
                && value.0 != value.1
        }
    };
    let labels = format.labels.is_none()
        || (!is_array && !format.kind.is_float() && format.kind != Kind::Text && format.scale == Scale::NONE);
    let sentinels = format.not_available.is_empty() || is_number;
    part && count && text && scale && labels && sentinels && format.codec().is_exact()
}
