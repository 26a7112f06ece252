//! What one tag wants of a payload, and what it finds there.

use std::{borrow::Cow, sync::Arc};

use rust_decimal::Decimal;

use super::{
    Binary, Document, Fault, Path, Problem, Shape, Unfit,
    document::{Found, Node},
    json::is_not_finite,
    number::{decimal, is_space},
    problem::{Words, shown},
};
use crate::{
    codec::value::{Codec, Format, Scale},
    model::{Accepted, Kind, Labels, Refusal, Value},
};

/// What a tag wants of a payload in text, JSON, CBOR or `MessagePack`.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    pub path: Path,
    /// Type of the payload's value, before it is scaled.
    pub kind: Kind,
    /// Number of elements of an array; `None` for a single value.
    pub count: Option<u16>,
    pub scale: Scale,
    /// What words of the payload mean, compared as they are written; numbers and booleans have their text as their
    /// word. Numbers are engineering values. A value that has a word is written as its first word.
    pub words: Vec<(Arc<str>, Word)>,
    /// Words for numbers of the tag, for people: payloads have `words`.
    pub labels: Option<Arc<Labels>>,
    /// Words or numbers, before scaling, with which the device says that it has no value.
    pub not_available: Vec<Arc<str>>,
}

/// What a word means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    Bool(bool),
    Number(Decimal),
}

/// A [`Spec`], or a place in bytes, made ready for work.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub(super) path: Path,
    pub(super) part: Place,
    labels: Option<Arc<Labels>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Place {
    Leaf(Leaf),
    Bytes(Binary),
}

/// How single values, or the elements of an array, are read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Leaf {
    pub(super) kind: Kind,
    pub(super) count: Option<u16>,
    /// Type of the payload's numbers, one at a time.
    pub(super) plain: Codec,
    /// The same with scale, where there is one.
    pub(super) scaled: Option<Codec>,
    /// For what people write: the tag's values with all their words.
    pub(super) whole: Codec,
    pub(super) words: Vec<Meaning>,
    pub(super) not_available: Box<[Arc<str>]>,
    /// Those of them that are numbers.
    pub(super) sentinels: Box<[Value]>,
}

/// A word and the value that it means.
type Meaning = (Arc<str>, Value);

/// What a payload says about a tag.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    Value(Value),
    /// Nothing: the last value stands, with its age.
    Absent,
    /// That the device has no value.
    NotAvailable,
    /// Something that is no value of the tag.
    Bad(Fault),
}

impl Spec {
    /// The value at `path` as it is, without words.
    #[must_use]
    pub fn new(path: Path, kind: Kind) -> Self {
        Self {
            path,
            kind,
            count: None,
            scale: Scale::NONE,
            words: Vec::new(),
            labels: None,
            not_available: Vec::new(),
        }
    }
}

impl Field {
    /// Makes ready what `spec` says, or says why it cannot be.
    pub fn new(spec: Spec) -> Result<Self, Unfit> {
        let leaf = Leaf::new(&spec)?;
        Ok(Self { path: spec.path, part: Place::Leaf(leaf), labels: spec.labels })
    }

    /// A field in bytes: those of a binary payload where `path` is the whole, or bytes within CBOR or `MessagePack`.
    #[must_use]
    pub fn binary(path: Path, binary: Binary) -> Self {
        Self { path, part: Place::Bytes(binary), labels: None }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The word that the tag has for a value that was read.
    #[must_use]
    pub fn label(&self, value: &Value) -> Option<Arc<str>> {
        match &self.part {
            Place::Leaf(_) => self.labels.as_ref()?.of(value).cloned(),
            Place::Bytes(binary) => binary.codec().label(value),
        }
    }

    /// What `document` says about the tag.
    ///
    /// Texts of numbers are numbers, without the spaces around them; `true` is 1 and `false` 0 where a number is
    /// expected. Whole types take no fractions. What has no value of the type is bad, never 0.
    #[must_use]
    pub fn read(&self, document: &Document<'_>) -> Reading {
        let read = match document.find(&self.path) {
            Found::Absent => return Reading::Absent,
            Found::Null => return Reading::NotAvailable,
            Found::Index { index, length } => Err(Problem::Index { index, length }),
            Found::Wrong { found, expected } => Err(Problem::Shape { found, expected }),
            Found::Node(node) => match (&self.part, node) {
                (Place::Leaf(leaf), node) => leaf.read(node),
                (Place::Bytes(binary), Node::Bytes(bytes)) => binary.read(bytes),
                (Place::Bytes(_), node) => {
                    Err(Problem::Shape { found: node.shape(), expected: Shape::Bytes })
                }
            },
        };
        match read {
            Ok(value) => Reading::Value(value),
            Err(Problem::NotAvailable) => Reading::NotAvailable,
            Err(problem) => Reading::Bad(Fault { path: self.path.clone(), problem }),
        }
    }
}

impl Leaf {
    fn new(spec: &Spec) -> Result<Self, Unfit> {
        let kind = spec.kind;
        if matches!(kind, Kind::Bcd16 | Kind::Bcd32 | Kind::Float16 | Kind::Int48 | Kind::Uint48) {
            return Err(Unfit::Kind(kind));
        }
        if kind == Kind::Text && spec.count.is_some() {
            return Err(Unfit::Array(kind));
        }
        let is_scaled = spec.scale != Scale::NONE;
        if is_scaled && matches!(kind, Kind::Bool | Kind::Text) {
            return Err(Unfit::Scaled(kind));
        }
        let plain = Format::plain(kind).codec();
        let scaled = Format { scale: spec.scale, ..Format::plain(kind) }.codec();
        if !scaled.is_exact() {
            return Err(Unfit::Scale);
        }
        let words = words(spec, &scaled)?;
        let labels = spec.labels.iter().flat_map(|labels| labels.iter());
        let labels = labels.map(|(number, word)| (number, Arc::clone(word)));
        let named = words.iter().filter_map(|(word, value)| Some((whole(value)?, Arc::clone(word))));
        let labels = Labels::new(named.chain(labels));
        let labels = (!labels.is_empty()).then(|| Arc::new(labels));
        let whole = Format { count: spec.count, scale: spec.scale, labels, ..Format::plain(kind) }.codec();
        let sentinel = |word: &Arc<str>| Some(plain.accept(&decimal(word)?).ok()?.effective);
        Ok(Self {
            kind,
            count: spec.count,
            sentinels: spec.not_available.iter().filter_map(sentinel).collect(),
            scaled: is_scaled.then_some(scaled),
            plain,
            whole,
            words,
            not_available: spec.not_available.clone().into(),
        })
    }

    fn read(&self, node: &Node<'_>) -> Result<Value, Problem> {
        let Some(count) = self.count else { return self.single(node) };
        let elements = match node {
            Node::Null => return Err(Problem::NotAvailable),
            Node::Array(elements) => elements,
            other => return Err(Problem::Shape { found: other.shape(), expected: Shape::Array }),
        };
        if elements.len() != usize::from(count) {
            return Err(Problem::Count { got: elements.len(), expected: count });
        }
        let element = |(index, node)| {
            self.single(node).map_err(|problem| match problem {
                Problem::NotAvailable => Problem::NotAvailable,
                problem => Problem::Element { index, problem: Box::new(problem) },
            })
        };
        let values: Result<Arc<[Value]>, _> = elements.iter().enumerate().map(element).collect();
        values.map(Value::Array)
    }

    fn single(&self, node: &Node<'_>) -> Result<Value, Problem> {
        let text: Cow<'_, str> = match node {
            Node::Null => return Err(Problem::NotAvailable),
            Node::NotFinite(word) => return Err(Problem::NotFinite((*word).to_owned())),
            Node::Float(value) if !value.is_finite() => return Err(Problem::NotFinite(value.to_string())),
            Node::Bool(true) => "true".into(),
            Node::Bool(false) => "false".into(),
            Node::Number(text) => (*text).into(),
            Node::Integer(number) => number.to_string().into(),
            Node::Float(value) => value.to_string().into(),
            Node::Text(text) => (&**text).into(),
            Node::Bytes(_) | Node::Array(_) | Node::Object(_) => {
                return Err(Problem::Shape { found: node.shape(), expected: self.expected() });
            }
        };
        let trimmed = text.trim_matches(is_space);
        if self.not_available.iter().any(|word| **word == *trimmed) {
            return Err(Problem::NotAvailable);
        }
        if let Some(value) = self.meaning(trimmed) {
            return Ok(value);
        }
        match (self.kind, node) {
            (Kind::Text, _) => Ok(Value::Text(text.into())),
            (Kind::Bool, _) => self.boolean(trimmed),
            (_, Node::Bool(on)) => self.number(if *on { "1" } else { "0" }),
            _ => self.number(trimmed),
        }
    }

    /// What a word means, where it is one.
    pub(super) fn meaning(&self, word: &str) -> Option<Value> {
        self.words.iter().find(|(own, _)| **own == *word).map(|(_, value)| value.clone())
    }

    fn expected(&self) -> Shape {
        match self.kind {
            Kind::Text => Shape::Text,
            Kind::Bool => Shape::Bool,
            _ => Shape::Number,
        }
    }

    fn boolean(&self, text: &str) -> Result<Value, Problem> {
        match text {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            "null" => Err(Problem::NotAvailable),
            "" => Err(Problem::Empty { expected: Shape::Bool }),
            other => {
                let words = Words(self.words.iter().map(|(word, _)| Arc::clone(word)).collect());
                Err(Problem::Bool { text: shown(other), words })
            }
        }
    }

    fn number(&self, text: &str) -> Result<Value, Problem> {
        match text {
            "" => return Err(Problem::Empty { expected: Shape::Number }),
            "null" => return Err(Problem::NotAvailable),
            text if is_not_finite(text) => return Err(Problem::NotFinite(text.to_owned())),
            _ => {}
        }
        let Some(number) = decimal(text) else {
            let is_comma = decimal(&text.replacen(',', ".", 1)).is_some();
            return Err(if is_comma { Problem::Comma } else { Problem::Number }(shown(text)));
        };
        let Accepted { requested, effective: raw } =
            self.plain.accept(&number).map_err(|refusal| match refusal {
                Refusal::RawRange { text, kind, min, max } => Problem::Range { text, kind, min, max },
                _ => Problem::Number(shown(text)),
            })?;
        if !self.kind.is_float() && !matches!(requested, Value::I64(_) | Value::U64(_)) {
            return Err(Problem::Fraction { text: shown(text), kind: self.kind });
        }
        if self.sentinels.iter().any(|sentinel| sentinel.is_same(&raw)) {
            return Err(Problem::NotAvailable);
        }
        let Some(scaled) = &self.scaled else { return Ok(raw) };
        let words = self.plain.encode(&raw).map_err(|_refusal| Problem::Scale)?;
        scaled.decode(words.words()).map_err(|_fault| Problem::Scale)
    }
}

/// The words of a field with the values that they mean.
fn words(spec: &Spec, codec: &Codec) -> Result<Vec<Meaning>, Unfit> {
    let mut words: Vec<Meaning> = Vec::new();
    for (word, meaning) in &spec.words {
        if words.iter().any(|(earlier, _)| earlier == word) {
            return Err(Unfit::Twice(Arc::clone(word)));
        }
        let value = match meaning {
            Word::Bool(value) if spec.kind == Kind::Bool => Some(Value::Bool(*value)),
            Word::Number(number) if !matches!(spec.kind, Kind::Bool | Kind::Text) => {
                let held = codec.accept(&number.normalize().to_string()).ok();
                held.map(|held| held.effective).filter(|value| {
                    spec.kind.is_float() || value.as_decimal().is_none_or(|held| held == *number)
                })
            }
            Word::Bool(_) | Word::Number(_) => None,
        };
        let unfit = || Unfit::Word { word: Arc::clone(word), value: meaning.to_string(), kind: spec.kind };
        words.push((Arc::clone(word), value.ok_or_else(unfit)?));
    }
    Ok(words)
}

impl std::fmt::Display for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Number(number) => number.fmt(f),
        }
    }
}

/// The number that a boolean, or a whole number, is for labels.
fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Bool(on) => Some((*on).into()),
        other => {
            let number = other.as_decimal()?.normalize();
            (number.scale() == 0).then(|| i64::try_from(number.mantissa()).ok()).flatten()
        }
    }
}
