//! Walks the merged tree of values, so that nothing is coerced and every problem is found in one pass.

use std::{sync::Arc, time::Duration};

use config::{Map, Value, ValueKind};
use rust_decimal::Decimal;
use schemars::{JsonSchema, Schema};

use super::{
    document::{Document, child, item},
    problem::{Findings, Origin, Problem, What, nearest},
};

/// Where a value was written: a file and key, or an environment variable.
#[derive(Debug, Clone)]
pub(crate) struct Spot {
    document: Arc<Document>,
    key: String,
    /// Name and text of the environment variable that set it.
    variable: Option<(String, Option<String>)>,
    written: bool,
}

/// A value and where it was written.
#[derive(Debug, Clone)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) spot: Spot,
}

/// An array, with the place of every item.
#[derive(Debug, Clone)]
pub(crate) struct List<T>(pub(crate) Vec<At<T>>);

/// One value of the tree.
#[derive(Debug)]
pub(crate) struct Node<'a> {
    value: &'a Value,
    pub(crate) spot: Spot,
}

/// What a value of the tree can be read as.
pub(crate) trait Read: Sized + JsonSchema {
    /// What is allowed, as the end of a sentence.
    fn allowed() -> String;

    /// Reads `node`, or says why not; a part that cannot be read leaves the rest standing.
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self>;
}

impl Spot {
    /// A problem with the value here, quoting it.
    pub(crate) fn problem(&self, what: What) -> Problem {
        let (origin, value) = match &self.variable {
            Some((name, text)) => {
                (Origin::Variable(name.clone()), text.as_ref().map(|text| format!("{text:?}")))
            }
            None => (self.document.origin(&self.key), self.document.written(&self.key)),
        };
        Problem { origin, key: self.key.clone(), value, what }
    }

    /// Where this is, for a problem elsewhere that refers to it: `at line 12 (devices[0].name)`.
    pub(crate) fn reference(&self) -> String {
        match (&self.variable, self.document.origin(&self.key)) {
            (Some((name, _)), _) => format!("by {name}"),
            (None, Origin::File { line: Some(line), .. }) => format!("at line {line} ({})", self.key),
            (None, _) => format!("at {}", self.key),
        }
    }

    /// The place of a key of the table here that was not written.
    pub(crate) fn absent(&self, key: &str) -> Self {
        Self { document: self.document.clone(), key: child(&self.key, key), variable: None, written: false }
    }

    /// The place of a key of the same table that was not written.
    pub(crate) fn beside(&self, key: &str) -> Self {
        let table = self.key.rfind('.').and_then(|end| self.key.get(..end)).unwrap_or_default();
        Self { document: self.document.clone(), key: child(table, key), variable: None, written: false }
    }

    /// Whether a value was written here, rather than left to its default.
    pub(crate) fn is_written(&self) -> bool {
        self.written
    }

    /// Whether a problem with the value here, or a part of it, was noted.
    pub(crate) fn is_refused(&self, found: &Findings) -> bool {
        found.problems.iter().any(|problem| problem.key == self.key) || self.has_problem(found)
    }

    /// Whether a problem with a part of the value here was noted.
    pub(crate) fn has_problem(&self, found: &Findings) -> bool {
        found.problems.iter().any(|problem| {
            problem.key.strip_prefix(&self.key).is_some_and(|rest| rest.starts_with(['.', '[']))
        })
    }
}

impl<T> At<T> {
    /// Notes that this value does not go with another one.
    pub(crate) fn conflict(&self, found: &mut Findings, with: impl Into<String>, allowed: impl Into<String>) {
        found.problems.push(self.spot.problem(What::Conflict { with: with.into(), allowed: allowed.into() }));
    }

    /// Notes something that is worth a second look.
    pub(crate) fn warn(&self, found: &mut Findings, note: impl Into<String>) {
        found.warnings.push(self.spot.problem(What::Note(note.into())));
    }
}

impl<'a> Node<'a> {
    /// The root of a document.
    pub(crate) fn root(value: &'a Value, document: &Arc<Document>) -> Self {
        Self {
            value,
            spot: Spot { document: document.clone(), key: String::new(), variable: None, written: true },
        }
    }

    fn at(&self, value: &'a Value, key: String) -> Self {
        let variable = variable(value).map(|name| {
            let text = match &value.kind {
                ValueKind::String(text) => Some(text.clone()),
                _ => None,
            };
            (name.to_owned(), text)
        });
        Node { value, spot: Spot { document: self.spot.document.clone(), key, variable, written: true } }
    }

    /// An integer; from the environment, the text of one.
    pub(crate) fn integer(&self) -> Option<i64> {
        match &self.value.kind {
            ValueKind::I64(number) => Some(*number),
            ValueKind::String(text) if self.spot.variable.is_some() => text.trim().parse().ok(),
            _ => None,
        }
    }

    pub(crate) fn boolean(&self) -> Option<bool> {
        match self.value.kind {
            ValueKind::Boolean(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&'a str> {
        match &self.value.kind {
            ValueKind::String(text) => Some(text),
            _ => None,
        }
    }

    /// A number as the decimal that was written; `None` also for one of more than 28 digits.
    pub(crate) fn number(&self) -> Option<Decimal> {
        match &self.value.kind {
            ValueKind::I64(number) => Some(Decimal::from(*number)),
            // The shortest text of the double is what was written: the tree holds no other.
            ValueKind::Float(number) => {
                Decimal::from_str_exact(&number.to_string()).ok().map(|d| d.normalize())
            }
            _ => None,
        }
    }

    /// A number whose limits are compared as doubles; `None` also where its double reads as another number.
    pub(crate) fn limit(&self) -> Option<Decimal> {
        let number = self.number()?;
        let double: f64 = number.to_string().parse().ok()?;
        (Decimal::from_str_exact(&double.to_string()).ok()? == number).then_some(number)
    }

    /// A number with a point or an exponent, as a double.
    pub(crate) fn float(&self) -> Option<f64> {
        match self.value.kind {
            ValueKind::Float(number) => Some(number).filter(|number| number.is_finite()),
            _ => None,
        }
    }

    pub(crate) fn is_table(&self) -> bool {
        matches!(self.value.kind, ValueKind::Table(_))
    }

    /// Whether it is a table in which `key` was written.
    pub(crate) fn has(&self, key: &str) -> bool {
        matches!(&self.value.kind, ValueKind::Table(map) if map.contains_key(key))
    }

    /// What a table holds whose keys are not known beforehand, by key.
    pub(crate) fn entries(&self) -> Option<Vec<(&'a str, Self)>> {
        let ValueKind::Table(map) = &self.value.kind else { return None };
        let mut entries: Vec<(&str, Self)> = map
            .iter()
            .map(|(key, value)| (key.as_str(), self.at(value, child(&self.spot.key, key))))
            .collect();
        entries.sort_by_key(|(key, _)| *key);
        Some(entries)
    }

    /// The items of an array.
    pub(crate) fn items(&self) -> Option<Vec<Self>> {
        match &self.value.kind {
            ValueKind::Array(items) => Some(
                items
                    .iter()
                    .enumerate()
                    .map(|(index, value)| self.at(value, item(&self.spot.key, index)))
                    .collect(),
            ),
            _ => None,
        }
    }

    /// The keys of a table; notes those that are not among `known`.
    pub(crate) fn keys(&self, known: &[&str], found: &mut Findings) -> Option<&'a Map<String, Value>> {
        let ValueKind::Table(map) = &self.value.kind else {
            return None;
        };
        let mut unknown: Vec<(&String, &Value)> =
            map.iter().filter(|(key, _)| !known.contains(&key.as_str())).collect();
        unknown.sort_by_key(|(key, _)| *key);
        for (key, value) in unknown {
            let spot = self.at(value, child(&self.spot.key, key)).spot;
            found.problems.push(spot.problem(unknown_key(key, known)));
        }
        Some(map)
    }

    /// `value`, or the problem that this node is none of what is allowed.
    pub(crate) fn accept<T: Read>(&self, value: Option<T>, found: &mut Findings) -> Option<T> {
        if value.is_none() {
            self.refuse(found, T::allowed());
        }
        value
    }

    pub(crate) fn refuse(&self, found: &mut Findings, allowed: impl Into<String>) {
        found.problems.push(self.spot.problem(What::NotAllowed { allowed: allowed.into() }));
    }

    /// Reads a key that may be left out.
    pub(crate) fn optional<T: Read>(
        &self,
        map: &'a Map<String, Value>,
        key: &str,
        found: &mut Findings,
    ) -> Option<At<T>> {
        let node = self.at(map.get(key)?, child(&self.spot.key, key));
        T::read(&node, found).map(|value| At { value, spot: node.spot })
    }

    /// Reads a key that must be there.
    pub(crate) fn required<T: Read>(
        &self,
        map: &'a Map<String, Value>,
        key: &str,
        found: &mut Findings,
    ) -> Option<At<T>> {
        if !map.contains_key(key) {
            let what = What::Missing { allowed: T::allowed() };
            found.problems.push(self.spot.absent(key).problem(what));
        }
        self.optional(map, key, found)
    }

    /// Reads a key that stands for `default` where it is left out.
    pub(crate) fn defaulted<T: Read>(
        &self,
        map: &'a Map<String, Value>,
        key: &str,
        default: &Value,
        found: &mut Findings,
    ) -> Option<At<T>> {
        if map.contains_key(key) {
            return self.optional(map, key, found);
        }
        let node = Node { value: default, spot: self.spot.absent(key) };
        T::read(&node, found).map(|value| At { value, spot: node.spot })
    }
}

impl<T: Read> Read for List<T> {
    fn allowed() -> String {
        format!("a list, each item {}", T::allowed())
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let Some(items) = node.items() else {
            node.refuse(found, Self::allowed());
            return None;
        };
        let read = |item: Node<'_>| T::read(&item, found).map(|value| At { value, spot: item.spot });
        Some(Self(items.into_iter().filter_map(read).collect()))
    }
}

impl<T: JsonSchema> JsonSchema for List<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("List_of_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> Schema {
        schemars::json_schema!({ "type": "array", "items": generator.subschema_for::<T>() })
    }
}

/// The environment variable that set `value`, or all parts of it.
fn variable(value: &Value) -> Option<&str> {
    match (&value.kind, value.origin()) {
        (_, Some(name)) => Some(name),
        (ValueKind::Table(map), None) => {
            let mut names = map.values().map(variable);
            let first = names.next()??;
            names.all(|name| name.is_some()).then_some(first)
        }
        _ => None,
    }
}

/// The problem with a key that is not among `known`.
pub(crate) fn unknown_key(key: &str, known: &[&str]) -> What {
    What::UnknownKey {
        nearest: nearest(key, known.iter().copied()),
        known: known.iter().map(|key| (*key).to_owned()).collect(),
    }
}

/// A number of milliseconds that was checked to be in bounds.
pub(crate) fn millis(number: i64) -> Duration {
    Duration::from_millis(number.unsigned_abs())
}
