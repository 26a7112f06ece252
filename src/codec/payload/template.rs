//! The shape of a payload that is written.

use std::fmt::Write as _;

use super::write::Token;

/// Whether a template is JSON or any text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Form {
    #[default]
    Text,
    Json,
}

/// A payload with places for the value.
///
/// In text `{value}` is replaced where it stands. In JSON a text that is `"{value}"` as a whole is replaced by the
/// value with its type, number, boolean or text; within a longer text its characters are put in, escaped. `{id}` is the
/// number of the write, in the same way; other names are those that the template was made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Box<[Piece]>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Fixed(String),
    Slot { what: Slot, how: Way },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Value,
    Id,
}

/// How a slot is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// As plain text.
    Text,
    /// As a JSON value.
    Typed,
    /// Within a JSON text.
    Escaped,
}

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTemplate {
    #[error("the template `{0}` has no `{{value}}`, so all values would be written alike")]
    NoValue(String),
    #[error("the template `{text}` has `{{{name}}}`: allowed are {allowed}")]
    Unknown { text: String, name: String, allowed: String },
    #[error("the template `{text}` is not JSON: {problem}")]
    Json { text: String, problem: String },
}

impl Template {
    /// Reads a template; `names` are placeholders that are filled in for good.
    pub fn parse(text: &str, form: Form, names: &[(&str, &str)]) -> Result<Self, InvalidTemplate> {
        if form == Form::Json {
            serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|error| InvalidTemplate::Json {
                text: text.to_owned(),
                problem: error.to_string(),
            })?;
        }
        let mut pieces = Pieces { whole: text, names, list: Vec::new() };
        match form {
            Form::Text => pieces.replace(text, Way::Text)?,
            Form::Json => pieces.json(text)?,
        }
        if pieces.list.iter().any(|piece| matches!(piece, Piece::Slot { what: Slot::Value, .. })) {
            Ok(Self(pieces.list.into()))
        } else {
            Err(InvalidTemplate::NoValue(text.to_owned()))
        }
    }

    /// The value alone.
    #[must_use]
    pub fn bare(form: Form) -> Self {
        let how = if form == Form::Json { Way::Typed } else { Way::Text };
        Self([Piece::Slot { what: Slot::Value, how }].into())
    }

    /// Whether it has a place for the number of the write.
    #[must_use]
    pub fn has_id(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Slot { what: Slot::Id, .. }))
    }

    pub(super) fn fill(&self, value: &Token, id: u64) -> String {
        let mut payload = String::new();
        let number = Token::Bare(id.to_string());
        for piece in &self.0 {
            match piece {
                Piece::Fixed(text) => payload.push_str(text),
                Piece::Slot { what, how } => {
                    let token = if *what == Slot::Id { &number } else { value };
                    match how {
                        Way::Text => token.push_text(&mut payload),
                        Way::Typed => token.push_json(&mut payload),
                        Way::Escaped => {
                            let mut text = String::new();
                            token.push_text(&mut text);
                            payload.push_str(inner(&escaped(&text)));
                        }
                    }
                }
            }
        }
        payload
    }
}

struct Pieces<'a> {
    whole: &'a str,
    names: &'a [(&'a str, &'a str)],
    list: Vec<Piece>,
}

impl Pieces<'_> {
    /// Takes a JSON text apart; it is known to be JSON, so that quotes outside of texts only begin them.
    fn json(&mut self, mut text: &str) -> Result<(), InvalidTemplate> {
        while let Some((before, rest)) = text.split_once('"') {
            let end = closing(rest);
            let (content, behind) = rest.split_at(end);
            let behind = behind.strip_prefix('"').unwrap_or(behind);
            self.fixed(before);
            let is_key = behind.trim_start().starts_with(':');
            match content.strip_prefix('{').and_then(|name| name.strip_suffix('}')).and_then(slot) {
                Some(what) if !is_key => self.list.push(Piece::Slot { what, how: Way::Typed }),
                _ => {
                    self.fixed("\"");
                    self.replace(content, Way::Escaped)?;
                    self.fixed("\"");
                }
            }
            text = behind;
        }
        self.fixed(text);
        Ok(())
    }

    /// Replaces all placeholders of one text.
    fn replace(&mut self, mut text: &str, how: Way) -> Result<(), InvalidTemplate> {
        while let Some(start) = text.find('{') {
            let (before, rest) = text.split_at(start);
            let inside = rest.get(1..).unwrap_or_default();
            let name = inside.split_once('}').map(|(name, _)| name).filter(|name| is_name(name));
            self.fixed(before);
            let Some(name) = name else {
                self.fixed("{");
                text = inside;
                continue;
            };
            if let Some(what) = slot(name) {
                self.list.push(Piece::Slot { what, how });
            } else {
                let Some((_, known)) = self.names.iter().find(|(own, _)| *own == name) else {
                    return Err(self.unknown(name));
                };
                match how {
                    Way::Escaped => self.fixed(inner(&escaped(known))),
                    Way::Text | Way::Typed => self.fixed(known),
                }
            }
            text = inside.get(name.len() + 1..).unwrap_or_default();
        }
        self.fixed(text);
        Ok(())
    }

    fn fixed(&mut self, text: &str) {
        match self.list.last_mut() {
            _ if text.is_empty() => {}
            Some(Piece::Fixed(last)) => last.push_str(text),
            _ => self.list.push(Piece::Fixed(text.to_owned())),
        }
    }

    fn unknown(&self, name: &str) -> InvalidTemplate {
        let mut allowed = "`{value}`, `{id}`".to_owned();
        for (own, _) in self.names {
            // Writing to a text cannot fail.
            write!(allowed, ", `{{{own}}}`").ok();
        }
        InvalidTemplate::Unknown { text: self.whole.to_owned(), name: name.to_owned(), allowed }
    }
}

fn slot(name: &str) -> Option<Slot> {
    match name {
        "value" => Some(Slot::Value),
        "id" => Some(Slot::Id),
        _ => None,
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Where the JSON text ends whose content `text` begins with.
fn closing(text: &str) -> usize {
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.unwrap_or(text.len())
}

/// A JSON text, with its quotes.
pub(super) fn escaped(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn inner(quoted: &str) -> &str {
    quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(quoted)
}
