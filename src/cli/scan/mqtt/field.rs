//! What a payload holds, as far as it shows by itself.

use serde_json::Value;

use crate::codec::payload::{Path, Step};

/// So many values of a payload are looked at.
const MOST: usize = 200;

/// How a payload is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// JSON of more than one value, or of a text.
    Json(Vec<Field>),
    /// One value in plain text.
    Text(Field),
    /// Something else, of so many bytes.
    Binary(usize),
}

/// One value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) path: Path,
    pub(super) kind: Shape,
    /// The value, as people read it.
    pub(super) shown: String,
}

/// What a value can be taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Number,
    Bool,
    /// One of these two words, which mean true and false.
    Switch(&'static str, &'static str),
    Text,
    Null,
}

const SWITCHES: [(&str, &str); 3] = [("ON", "OFF"), ("on", "off"), ("On", "Off")];

impl Content {
    pub(super) fn of(payload: &[u8], size: usize) -> Self {
        match serde_json::from_slice(payload) {
            Ok(value @ (Value::Array(_) | Value::Object(_) | Value::String(_))) => {
                let mut fields = Vec::new();
                walk(&value, &mut Vec::new(), &mut fields);
                Self::Json(fields)
            }
            Ok(value) => {
                Self::Text(Field { path: Path::default(), kind: shape(&value), shown: value.to_string() })
            }
            Err(_) => match str::from_utf8(payload) {
                Ok(text) if size == payload.len() && !text.contains(is_odd) => {
                    let (kind, shown) = (word(text.trim()), text.trim().to_owned());
                    Self::Text(Field { path: Path::default(), kind, shown })
                }
                _ => Self::Binary(size),
            },
        }
    }

    pub(super) fn fields(&self) -> &[Field] {
        match self {
            Self::Json(fields) => fields,
            Self::Text(field) => std::slice::from_ref(field),
            Self::Binary(_) => &[],
        }
    }
}

fn walk(value: &Value, steps: &mut Vec<Step>, fields: &mut Vec<Field>) {
    if fields.len() == MOST {
        return;
    }
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                steps.push(Step::Key(key.as_str().into()));
                walk(value, steps, fields);
                steps.pop();
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                steps.push(Step::Index(index));
                walk(value, steps, fields);
                steps.pop();
            }
        }
        value => {
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            fields.push(Field { path: Path::new(steps.clone()), kind: shape(value), shown });
        }
    }
}

fn shape(value: &Value) -> Shape {
    match value {
        Value::Null => Shape::Null,
        Value::Bool(_) => Shape::Bool,
        Value::Number(_) => Shape::Number,
        Value::String(text) => word(text),
        Value::Array(_) | Value::Object(_) => Shape::Text,
    }
}

/// What no text has.
fn is_odd(c: char) -> bool {
    c.is_control() && !c.is_whitespace()
}

/// A number in a text stays one: readings take it.
fn word(text: &str) -> Shape {
    if let Some((on, off)) = SWITCHES.into_iter().find(|(on, off)| [*on, *off].contains(&text)) {
        return Shape::Switch(on, off);
    }
    match serde_json::from_str(text) {
        Ok(Value::Number(_)) => Shape::Number,
        _ => Shape::Text,
    }
}
