//! JSON → tree. RFC 8259, with one thing more: `NaN` and infinities of whoever prints floats unchecked.

use hifijson::num::LexWrite;
use hifijson::{Error, Expect, SliceLexer, str::LexAlloc, token::Lex};

use super::document::{Malformed, Node};

/// What may stand bare where a number is due, in any case and with a sign: as C, JavaScript and Python print it.
const NOT_FINITE: [&str; 3] = ["nan", "inf", "infinity"];

enum Stop {
    Depth,
    Lexer(Error),
}

/// Reads `text`, the end of a payload of `length` bytes.
pub(super) fn parse(text: &[u8], length: usize, depth: usize) -> Result<Node<'_>, Malformed> {
    let mut lexer = SliceLexer::new(text);
    let whole = lexer.exactly_one(Lex::ws_peek, |next, lexer| value(next, lexer, depth));
    whole.map_err(|stop| match stop {
        Stop::Depth => Malformed::Depth { most: depth },
        Stop::Lexer(error) => {
            let at = length.saturating_sub(lexer.as_slice().len());
            Malformed::Json { at, problem: problem(&error) }
        }
    })
}

fn value<'a>(next: u8, lexer: &mut SliceLexer<'a>, depth: usize) -> Result<Node<'a>, Stop> {
    match next {
        b'"' => Ok(Node::Text(lexer.discarded().str_string().map_err(Error::Str)?)),
        b'[' => {
            let depth = depth.checked_sub(1).ok_or(Stop::Depth)?;
            let mut elements = Vec::new();
            lexer.discarded().seq(b']', Lex::ws_peek, |next, lexer| {
                elements.push(value(next, lexer, depth)?);
                Ok::<_, Stop>(())
            })?;
            Ok(Node::Array(elements))
        }
        b'{' => {
            let depth = depth.checked_sub(1).ok_or(Stop::Depth)?;
            let mut members = Vec::new();
            lexer.discarded().seq(b'}', Lex::ws_peek, |next, lexer| {
                lexer.expect(|_| Some(next), b'"').ok_or(Expect::String)?;
                let key = lexer.str_string().map_err(Error::Str)?;
                lexer.expect(Lex::ws_peek, b':').ok_or(Expect::Colon)?;
                let next = lexer.ws_peek().ok_or(Expect::Value)?;
                members.push((key, value(next, lexer, depth)?));
                Ok::<_, Stop>(())
            })?;
            Ok(Node::Object(members))
        }
        b'0'..=b'9' => number(lexer),
        b'-' | b'+' => bare(lexer).map_or_else(|| number(lexer), Ok),
        _ => bare(lexer).ok_or_else(|| Expect::Value.into()),
    }
}

fn number<'a>(lexer: &mut SliceLexer<'a>) -> Result<Node<'a>, Stop> {
    let (number, _parts) = lexer.num_string().validated().map_err(Error::Num)?;
    Ok(Node::Number(number))
}

/// A word without quotes, where it is one that stands for a value.
fn bare<'a>(lexer: &mut SliceLexer<'a>) -> Option<Node<'a>> {
    let rest = lexer.as_slice();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'_' | b'.');
    let end = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
    let (word, left) = rest.split_at_checked(end)?;
    let word = std::str::from_utf8(word).ok()?;
    let node = match word {
        "null" => Node::Null,
        "true" => Node::Bool(true),
        "false" => Node::Bool(false),
        word if is_not_finite(word) => Node::NotFinite(word),
        _ => return None,
    };
    *lexer = SliceLexer::new(left);
    Some(node)
}

/// Whether a text stands for `NaN` or an infinity.
pub(super) fn is_not_finite(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    NOT_FINITE.iter().any(|word| word.eq_ignore_ascii_case(unsigned))
}

fn problem(error: &Error) -> String {
    match error {
        Error::Token(expected) => format!("there must be {}", expected_text(expected)),
        other => other.to_string(),
    }
}

fn expected_text(expected: &Expect) -> &'static str {
    match expected {
        Expect::Value => "a value",
        Expect::ValueOrEnd => "a value or the end of an array or object",
        Expect::CommaOrEnd => "a comma or the end of an array or object",
        Expect::String => "a key in double quotes",
        Expect::Colon => "a colon",
        Expect::Eof => "the end of the payload",
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Lexer(error)
    }
}

impl From<Expect> for Stop {
    fn from(expected: Expect) -> Self {
        Self::Lexer(expected.into())
    }
}
