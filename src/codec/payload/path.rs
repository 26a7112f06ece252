//! Where in a payload a value stands.

use std::fmt;

/// Steps from the whole payload to one part of it; none of them means the whole.
///
/// Written `BME280.Temperature`, `ENERGY.Power[0]`, `["switch:0"].apower`, `[1]`: keys are parted by dots, elements of
/// arrays are counted from 0, and a key in brackets is a JSON text, for keys that have dots, brackets or quotes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Path(Box<[Step]>);

/// One step into an object or an array.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    /// A member of an object.
    Key(Box<str>),
    /// An element of an array, counted from 0; where there is an object, its member of that name.
    Index(usize),
}

/// A text that is not a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a path: at character {at} {problem}, as in `a.b[0]` or `[\"a.b\"].c`")]
pub struct InvalidPath {
    pub text: String,
    /// Counted from 1.
    pub at: usize,
    pub problem: &'static str,
}

const NEEDS_KEY: &str = "a key is missing";
const NEEDS_STEP: &str = "there must be `.` or `[`";
const NEEDS_INDEX: &str = "brackets must hold a number or a key in double quotes";
const NEEDS_BRACKET: &str = "`]` is missing";
const NEEDS_QUOTES: &str = "a key with `]` or `\"` must stand in brackets and double quotes";

impl Path {
    /// Reads a path; the empty text is the whole payload.
    pub fn parse(text: &str) -> Result<Self, InvalidPath> {
        let mut rest = text;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let start = rest;
            let step = match rest.strip_prefix('[') {
                Some(inner) => bracket(inner),
                None if steps.is_empty() => key(rest),
                None => match rest.strip_prefix('.') {
                    Some(inner) => key(inner),
                    None => Err((rest, NEEDS_STEP)),
                },
            };
            let (step, left) = step.map_err(|(left, problem)| invalid(text, left, problem))?;
            debug_assert!(left.len() < start.len(), "each step takes some of the text");
            steps.push(step);
            rest = left;
        }
        Ok(Self(steps.into()))
    }

    #[must_use]
    pub fn new(steps: Vec<Step>) -> Self {
        Self(steps.into())
    }

    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Whether it is the whole payload.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.0.is_empty()
    }
}

/// A step and what is left behind it; or what is left at the place of a problem.
type Parsed<'a> = Result<(Step, &'a str), (&'a str, &'static str)>;

fn key(text: &str) -> Parsed<'_> {
    let end = text.find(['.', '[', ']', '"']).unwrap_or(text.len());
    let (key, left) = text.split_at(end);
    if left.starts_with([']', '"']) {
        return Err((left, NEEDS_QUOTES));
    }
    if key.is_empty() { Err((left, NEEDS_KEY)) } else { Ok((Step::Key(key.into()), left)) }
}

/// What stands behind an opening bracket.
fn bracket(text: &str) -> Parsed<'_> {
    let (step, left) = if text.starts_with('"') {
        let end = quoted(text).ok_or((text, NEEDS_INDEX))?;
        let (quoted, left) = text.split_at(end);
        let key: String = serde_json::from_str(quoted).map_err(|_no_text| (text, NEEDS_INDEX))?;
        (Step::Key(key.into()), left)
    } else {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, left) = text.split_at(end);
        (Step::Index(digits.parse().map_err(|_no_number| (text, NEEDS_INDEX))?), left)
    };
    match left.strip_prefix(']') {
        Some(left) => Ok((step, left)),
        None => Err((left, NEEDS_BRACKET)),
    }
}

/// Length of the JSON text that `text` begins with.
fn quoted(text: &str) -> Option<usize> {
    let mut escaped = false;
    let close = |(_, byte): &(usize, u8)| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    };
    text.bytes().enumerate().skip(1).find(close).map(|(at, _)| at + 1)
}

fn invalid(text: &str, left: &str, problem: &'static str) -> InvalidPath {
    let before = text.get(..text.len().saturating_sub(left.len())).unwrap_or(text);
    InvalidPath { text: text.to_owned(), at: before.chars().count() + 1, problem }
}

impl fmt::Display for Path {
    /// As it is parsed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(number) => write!(f, "[{number}]")?,
                Step::Key(key) if key.is_empty() || key.contains(is_special) => {
                    write!(f, "[{}]", serde_json::Value::from(&**key))?;
                }
                Step::Key(key) => write!(f, "{}{key}", if index > 0 { "." } else { "" })?,
            }
        }
        Ok(())
    }
}

fn is_special(c: char) -> bool {
    matches!(c, '.' | '[' | ']' | '"') || c.is_whitespace() || c.is_control()
}
