//! What a tag and a device are, apart from the protocol that carries them.

use std::{fmt, sync::Arc, time::Duration};

use rust_decimal::Decimal;

use super::{Rule, TagPath, Value};

/// One tag: where it stands, and what it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Tag {
    pub path: TagPath,
    /// Kept once for all devices of a profile.
    pub definition: Arc<Definition>,
}

/// What a tag is, whichever device has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    pub description: String,
    pub kind: Kind,
    /// Number of elements of an array; `None` for a single value.
    pub count: Option<u16>,
    /// Words for its numbers.
    pub labels: Option<Arc<Labels>>,
    /// Whether raw numbers are scaled on their way: integers then leave as decimals.
    pub scaled: bool,
    /// Engineering unit, as written.
    pub unit: Option<String>,
    /// Lowest and highest value that the process can have; outside it a sample is bad (`out_of_range`).
    pub range: Option<(f64, f64)>,
    /// Changes up to this size are stored but not announced.
    pub deadband: Option<f64>,
    /// Age at which a good sample becomes uncertain.
    pub stale_after: Option<Duration>,
    pub access: Access,
    pub limits: Limits,
}

/// Data type of a tag on its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Bool,
    Int8,
    Uint8,
    Int16,
    Uint16,
    Int32,
    Uint32,
    Int48,
    Uint48,
    Int64,
    Uint64,
    Float16,
    Float32,
    Float64,
    /// Four decimal digits in a register, one a nibble.
    Bcd16,
    /// Eight decimal digits in two registers.
    Bcd32,
    Text,
}

/// Words for numbers of a tag, such as 1 = `auto`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Labels(Vec<(i64, Arc<str>)>);

/// Whether a tag may be written at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Access {
    #[default]
    ReadOnly,
    ReadWrite,
}

/// What a write to a tag must keep, in engineering units.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits {
    pub min: Option<Decimal>,
    pub max: Option<Decimal>,
    /// Deadline of a write, counted from its arrival; `None` takes the site's.
    pub timeout: Option<Duration>,
}

/// One unit on a connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Device {
    pub name: String,
    pub description: String,
    pub vendor: String,
    pub model: String,
    /// Name of its connection.
    pub connection: String,
    /// Name of the driver, such as `modbus-tcp`.
    pub driver: &'static str,
    /// Where it hangs, as people write it, such as `127.0.0.1:5020 unit 1`.
    pub address: String,
}

/// What a tag's source makes of a value that somebody wants to write.
pub trait Setpoint: fmt::Debug + Send + Sync {
    /// Reads `text` by the tag's type and rounds it to what the device can hold.
    fn accept(&self, text: &str) -> Result<Accepted, Refusal>;
}

/// A value that the device can hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    /// As it was asked for.
    pub requested: Value,
    /// As the device will hold it, after rounding to its raw type.
    pub effective: Value,
}

/// Why a text cannot be written to a tag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("`{text}` is not {allowed}")]
    Type { text: String, allowed: &'static str },
    /// The tag's numbers have words.
    #[error("`{text}` is none of {labels}, and not {allowed}")]
    Label { text: String, labels: String, allowed: &'static str },
    #[error("{text} does not fit the device's {kind}: allowed is {min} to {max}")]
    RawRange { text: String, kind: Kind, min: String, max: String },
    #[error("{text} is what the device says when it has no value, so it cannot be written")]
    Reserved { text: String },
    #[error("`{text}` takes {bytes} bytes: the device has room for {most}")]
    Length { text: String, bytes: usize, most: u16 },
    #[error("`{text}` has {character:?}, which a text in {encoding} cannot hold")]
    Character { text: String, character: char, encoding: &'static str },
    #[error("an array of {got} elements: the tag has {expected}")]
    Count { got: usize, expected: u16 },
    /// Elements are counted from 0.
    #[error("element [{index}]: {refusal}")]
    Element { index: usize, refusal: Box<Refusal> },
}

impl Refusal {
    /// The rule that it is.
    #[must_use]
    pub fn rule(&self) -> Rule {
        match self {
            Self::Type { .. } | Self::Label { .. } | Self::Character { .. } | Self::Count { .. } => {
                Rule::Type
            }
            Self::RawRange { .. } | Self::Reserved { .. } | Self::Length { .. } => Rule::RawRange,
            Self::Element { refusal, .. } => refusal.rule(),
        }
    }
}

impl Labels {
    /// Words by number; of two words for one number, or two numbers for one word, the first counts.
    #[must_use]
    pub fn new(pairs: impl IntoIterator<Item = (i64, Arc<str>)>) -> Self {
        Self(pairs.into_iter().collect())
    }

    #[must_use]
    pub fn word(&self, number: i64) -> Option<&Arc<str>> {
        self.0.iter().find(|(own, _)| *own == number).map(|(_, word)| word)
    }

    /// The number of a word, in upper or lower case. A text that is a number stands for itself, whatever words there are, and
    /// a word of two numbers stands for none.
    #[must_use]
    pub fn number(&self, word: &str) -> Option<i64> {
        let is_number = word.starts_with(|first: char| first.is_ascii_digit() || first == '-');
        if is_number && word.parse::<f64>().is_ok() {
            return None;
        }
        let found = |same: fn(&str, &str) -> bool| {
            let mut all = self.0.iter().filter(|(_, own)| same(own, word)).map(|(number, _)| *number);
            let first = all.next()?;
            Some(Some(first).filter(|first| all.all(|other| other == *first)))
        };
        found(|own, word| own == word).or_else(|| found(str::eq_ignore_ascii_case))?
    }

    /// The word of a value, where it is a number that has one.
    #[must_use]
    pub fn of(&self, value: &Value) -> Option<&Arc<str>> {
        match value {
            Value::Bool(on) => self.word((*on).into()),
            Value::I64(number) => self.word(*number),
            Value::U64(number) => self.word(i64::try_from(*number).ok()?),
            _ => None,
        }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (i64, &Arc<str>)> {
        self.0.iter().map(|(number, word)| (*number, word))
    }
}

impl fmt::Display for Labels {
    /// `0 = off, 1 = auto`, the first of them where there are many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 20;
        for (index, (number, word)) in self.iter().take(MOST).enumerate() {
            write!(f, "{}{number} = {word}", if index > 0 { ", " } else { "" })?;
        }
        match self.len().saturating_sub(MOST) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl Kind {
    /// The name in profiles, such as `uint16`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int8 => "int8",
            Self::Uint8 => "uint8",
            Self::Int16 => "int16",
            Self::Uint16 => "uint16",
            Self::Int32 => "int32",
            Self::Uint32 => "uint32",
            Self::Int48 => "int48",
            Self::Uint48 => "uint48",
            Self::Int64 => "int64",
            Self::Uint64 => "uint64",
            Self::Float16 => "float16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Bcd16 => "bcd16",
            Self::Bcd32 => "bcd32",
            Self::Text => "text",
        }
    }

    /// Whether it rounds as floating point does.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, Self::Float16 | Self::Float32 | Self::Float64)
    }

    /// Whether its values leave as strings, since JSON numbers lose digits above 2⁵³.
    #[must_use]
    pub fn is_wide(self) -> bool {
        matches!(self, Self::Int64 | Self::Uint64)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
