//! Why a part of a payload is no value, and why a field cannot be.

use std::{fmt, sync::Arc};

use super::{Path, Shape};
use crate::{
    codec::value,
    model::{Kind, Reason},
};

/// Why a part of a payload is no value.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}: {problem}", place(.path))]
pub struct Fault {
    pub path: Path,
    pub problem: Problem,
}

/// What is wrong with a part of a payload.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Problem {
    /// What people read as [`Reading::NotAvailable`], where it is one element of several.
    #[error("the device says that it has no value")]
    NotAvailable,
    #[error("index {index} in an array of {length}")]
    Index { index: usize, length: usize },
    #[error("{found} where {expected} was expected")]
    Shape { found: Shape, expected: Shape },
    #[error("an array of {got} elements where {expected} were expected")]
    Count { got: usize, expected: u16 },
    #[error("an empty text where {expected} was expected")]
    Empty { expected: Shape },
    #[error("`{0}` is not a decimal number")]
    Number(String),
    #[error("`{0}` has a decimal comma: numbers have a dot")]
    Comma(String),
    #[error("`{0}` is not finite")]
    NotFinite(String),
    #[error("`{text}` is not a whole number, as {kind} needs")]
    Fraction { text: String, kind: Kind },
    #[error("{text} does not fit {kind}: {min} to {max}")]
    Range { text: String, kind: Kind, min: String, max: String },
    #[error("`{text}` is neither true nor false{words}")]
    Bool { text: String, words: Words },
    #[error("the scaled value is beyond what can be computed")]
    Scale,
    /// Bytes are counted from 0.
    #[error("bytes {first} to {} of a payload of {length}", .end.saturating_sub(1))]
    Short { first: usize, end: usize, length: usize },
    #[error(transparent)]
    Binary(value::Fault),
    #[error("element [{index}]: {problem}")]
    Element { index: usize, problem: Box<Problem> },
    #[error("`{text}` is no time: {allowed}")]
    Time { text: String, allowed: &'static str },
}

/// The words that would have been taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words(pub(super) Vec<Arc<str>>);

/// Why a field cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("{0} is a type of registers: payloads have bool, text, int8 to uint64, float32 and float64")]
    Kind(Kind),
    #[error("arrays of {0} cannot be read from a payload")]
    Array(Kind),
    #[error("{0} cannot be scaled")]
    Scaled(Kind),
    #[error("scale and offset have more digits than can be computed exactly")]
    Scale,
    #[error(
        "{0} cannot be that part of bytes: allowed are whole types, bits 0 to 7 of a bool, and bits of uint16"
    )]
    Part(Kind),
    #[error("the word `{word}` means {value}, which is no value of {kind}")]
    Word { word: Arc<str>, value: String, kind: Kind },
    #[error("the word `{0}` is given twice")]
    Twice(Arc<str>),
}

impl Fault {
    /// What it makes of a tag's quality.
    #[must_use]
    pub fn reason(&self) -> Reason {
        Reason::DecodeError
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 20;
        let last = self.0.len().min(MOST).saturating_sub(1);
        for (index, word) in self.0.iter().take(MOST).enumerate() {
            let part = match index {
                0 => ", nor one of ",
                _ if index == last => " and ",
                _ => ", ",
            };
            write!(f, "{part}`{word}`")?;
        }
        Ok(())
    }
}

fn place(path: &Path) -> String {
    if path.is_whole() { "the payload".to_owned() } else { format!("`{path}`") }
}

/// A text as messages repeat it: of a long one, how it begins.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 100;
    match text.char_indices().nth(MOST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}
