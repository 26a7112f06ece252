//! Values → payloads.

use std::sync::Arc;

use super::{
    Field, Template,
    field::{Leaf, Place},
    problem::shown,
    template::escaped,
};
use crate::model::{Accepted, Kind, Refusal, Setpoint, Value};

/// What stands in a payload for a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A number or boolean.
    Bare(String),
    Text(Arc<str>),
    Array(Vec<Token>),
}

/// Longest text that is written: what MQTT allows for a text of its own.
const LONGEST: u16 = u16::MAX;

const A_TEXT: &str = "a text";
const AN_ARRAY: &str = "an array";

impl Field {
    /// The payload that tells a device to hold `value`: `template` with its places filled, `id` being the number of
    /// the write; of a field in bytes, its bytes alone.
    ///
    /// A value that has a word is written as that word, the first one where there are several.
    pub fn encode(&self, value: &Value, template: &Template, id: u64) -> Result<Vec<u8>, Refusal> {
        match &self.part {
            Place::Leaf(leaf) => Ok(template.fill(&leaf.token(value)?, id).into_bytes()),
            Place::Bytes(binary) => binary.write(value),
        }
    }
}

impl Setpoint for Field {
    fn accept(&self, text: &str) -> Result<Accepted, Refusal> {
        match &self.part {
            Place::Leaf(leaf) => leaf.accept(text),
            Place::Bytes(binary) => binary.codec().accept(text),
        }
    }
}

impl Leaf {
    fn accept(&self, text: &str) -> Result<Accepted, Refusal> {
        let accepted = match self.meaning(text) {
            Some(value) if self.count.is_none() => Accepted { requested: value.clone(), effective: value },
            _ if self.kind == Kind::Text => {
                let value = Value::Text(text.into());
                Accepted { requested: value.clone(), effective: value }
            }
            _ => self.whole.accept(text)?,
        };
        // Whatever cannot be sent is refused now.
        self.token(&accepted.effective)?;
        Ok(accepted)
    }

    fn token(&self, value: &Value) -> Result<Token, Refusal> {
        match (self.count, value) {
            (None, value) => self.single_token(value),
            (Some(count), Value::Array(values)) if values.len() == usize::from(count) => {
                let element = |(index, value)| {
                    let at = |refusal| Refusal::Element { index, refusal: Box::new(refusal) };
                    self.single_token(value).map_err(at)
                };
                Ok(Token::Array(values.iter().enumerate().map(element).collect::<Result<_, _>>()?))
            }
            (Some(count), Value::Array(values)) => Err(Refusal::Count { got: values.len(), expected: count }),
            (Some(_), other) => Err(refused(other, AN_ARRAY)),
        }
    }

    fn single_token(&self, value: &Value) -> Result<Token, Refusal> {
        if let Some((word, _)) = self.words.iter().find(|(_, own)| own.is_same(value)) {
            return Ok(if is_literal(word) {
                Token::Bare(word.to_string())
            } else {
                Token::Text(word.clone())
            });
        }
        let (token, text) = match (self.kind, value) {
            (Kind::Text, Value::Text(text)) => {
                if text.len() > usize::from(LONGEST) {
                    return Err(Refusal::Length { text: shown(text), bytes: text.len(), most: LONGEST });
                }
                (Token::Text(Arc::clone(text)), text.to_string())
            }
            (Kind::Text, other) => return Err(refused(other, A_TEXT)),
            (_, value) => {
                let raw = self.raw(value)?;
                if self.sentinels.iter().any(|sentinel| sentinel.is_same(&raw)) {
                    return Err(Refusal::Reserved { text: raw.to_string() });
                }
                (Token::Bare(raw.to_string()), raw.to_string())
            }
        };
        if self.not_available.iter().any(|word| **word == *text) {
            return Err(Refusal::Reserved { text: shown(&text) });
        }
        Ok(token)
    }

    /// The payload's value for an engineering value.
    fn raw(&self, value: &Value) -> Result<Value, Refusal> {
        let words = self.scaled.as_ref().unwrap_or(&self.plain).encode(value)?;
        self.plain.decode(words.words()).map_err(|_fault| refused(value, "a value of the tag"))
    }
}

impl Token {
    /// Appends it as people read it.
    pub(super) fn push_text(&self, payload: &mut String) {
        match self {
            Self::Bare(text) => payload.push_str(text),
            Self::Text(text) => payload.push_str(text),
            Self::Array(_) => self.push_json(payload),
        }
    }

    /// Appends it as a JSON value.
    pub(super) fn push_json(&self, payload: &mut String) {
        match self {
            Self::Bare(text) => payload.push_str(text),
            Self::Text(text) => payload.push_str(&escaped(text)),
            Self::Array(tokens) => {
                payload.push('[');
                for (index, token) in tokens.iter().enumerate() {
                    if index > 0 {
                        payload.push(',');
                    }
                    token.push_json(payload);
                }
                payload.push(']');
            }
        }
    }
}

/// Whether a word is a number or boolean of JSON, and so stands for one.
fn is_literal(word: &str) -> bool {
    matches!(word, "true" | "false") || word.parse::<serde_json::Number>().is_ok()
}

fn refused(value: &Value, allowed: &'static str) -> Refusal {
    Refusal::Type { text: shown(&value.to_string()), allowed }
}
