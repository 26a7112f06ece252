//! One TOML file: its text, its tree of values, and the line of every key.

use std::{collections::HashMap, fmt::Write as _, ops::Range, sync::OnceLock};

use config::{Map, Value, ValueKind};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::problem::{Origin, Problem, What};

/// A file by the name under which people know it.
#[derive(Debug)]
pub(crate) struct Document {
    name: String,
    text: String,
    places: OnceLock<HashMap<String, Place>>,
    /// Offsets of the line feeds.
    line_ends: OnceLock<Vec<usize>>,
}

/// Where a key's value stands.
#[derive(Debug)]
struct Place {
    span: Range<usize>,
    /// Whether the span is a value, not the header of a table.
    is_value: bool,
}

impl Document {
    pub(crate) fn new(name: String, text: String) -> Self {
        Self { name, text, places: OnceLock::new(), line_ends: OnceLock::new() }
    }

    /// The tree of values, or every error of syntax.
    ///
    /// What no key of ours takes (dates, integers beyond 64 bits, decimals that a double does not tell) becomes
    /// [`ValueKind::Nil`], which every reader refuses.
    pub(crate) fn tree(&self) -> Result<Map<String, Value>, Vec<Problem>> {
        let (table, errors) = DeTable::parse_recoverable(&self.text);
        if errors.is_empty() { Ok(tree_of(table.get_ref())) } else { Err(self.syntax(&errors)) }
    }

    /// Where `key` stands, or the nearest key above it.
    pub(crate) fn origin(&self, key: &str) -> Origin {
        let places = self.places();
        let mut at = Some(key);
        while let Some(key) = at {
            if let Some(place) = places.get(key) {
                return self.file(Some(self.line(place.span.start)), None);
            }
            at = parent(key);
        }
        self.file(None, None)
    }

    /// The value of `key` as it was written, on one line and cut where it is long.
    pub(crate) fn written(&self, key: &str) -> Option<String> {
        const MOST: usize = 60;
        let place = self.places().get(key).filter(|place| place.is_value)?;
        let mut text = self.text.get(place.span.clone())?.to_owned();
        if text.contains('\n') {
            text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        }
        match text.char_indices().nth(MOST) {
            None => Some(text),
            Some((end, _)) => text.get(..end).map(|start| format!("{start}…")),
        }
    }

    /// This file as the place of a problem.
    pub(crate) fn file(&self, line: Option<usize>, column: Option<usize>) -> Origin {
        Origin::File { path: self.name.clone(), line, column }
    }

    fn line(&self, offset: usize) -> usize {
        let ends = self.line_ends.get_or_init(|| self.text.match_indices('\n').map(|(at, _)| at).collect());
        ends.partition_point(|end| *end < offset) + 1
    }

    /// One problem a line: what follows on the same line is mostly the parser finding its feet again.
    fn syntax(&self, errors: &[toml::de::Error]) -> Vec<Problem> {
        let mut problems: Vec<Problem> = Vec::new();
        let mut starts: Vec<(usize, &str)> =
            errors.iter().map(|error| (error.span().map_or(0, |span| span.start), error.message())).collect();
        starts.sort_by_key(|(start, _)| *start);
        for (start, message) in starts {
            let line_start = self.text.get(..start).and_then(|text| text.rfind('\n')).map_or(0, |at| at + 1);
            let column = self.text.get(line_start..start).map_or(0, |text| text.chars().count()) + 1;
            let line = self.line(start);
            let seen = problems.last().map(|problem| &problem.origin);
            if matches!(seen, Some(Origin::File { line: Some(last), .. }) if *last == line) {
                continue;
            }
            problems.push(Problem {
                origin: self.file(Some(line), Some(column)),
                key: String::new(),
                value: None,
                what: What::Syntax(message.replace('\n', ", ")),
            });
        }
        problems
    }

    fn places(&self) -> &HashMap<String, Place> {
        self.places.get_or_init(|| {
            let mut places = HashMap::new();
            let (table, _) = DeTable::parse_recoverable(&self.text);
            collect_table("", table.get_ref(), &self.text, &mut places);
            places
        })
    }
}

/// The path of `key` inside the table at `parent`.
pub(crate) fn child(parent: &str, key: &str) -> String {
    let mut path = parent.to_owned();
    if !path.is_empty() {
        path.push('.');
    }
    if is_bare(key) {
        path.push_str(key);
    } else if write!(path, "{key:?}").is_err() {
        path.push('?');
    }
    path
}

/// The path of the item `index` of the array at `parent`.
pub(crate) fn item(parent: &str, index: usize) -> String {
    format!("{parent}[{index}]")
}

/// Whether TOML takes `key` without quotes.
pub(crate) fn is_bare(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

fn parent(path: &str) -> Option<&str> {
    path.rfind(['.', '[']).and_then(|end| path.get(..end))
}

fn collect_table(path: &str, table: &DeTable<'_>, text: &str, places: &mut HashMap<String, Place>) {
    for (key, value) in table {
        collect_value(child(path, key.get_ref()), value, text, places);
    }
}

fn collect_value(
    path: String,
    value: &Spanned<DeValue<'_>>,
    text: &str,
    places: &mut HashMap<String, Place>,
) {
    let span = value.span();
    let is_value = match value.get_ref() {
        DeValue::Table(table) => {
            collect_table(&path, table, text, places);
            text.get(span.clone()).is_some_and(|text| text.starts_with('{'))
        }
        DeValue::Array(array) => {
            for (index, value) in array.iter().enumerate() {
                collect_value(item(&path, index), value, text, places);
            }
            // An array of tables has the span of its first header.
            array.iter().next().is_none_or(|first| first.span() != span)
        }
        _ => true,
    };
    places.insert(path, Place { span, is_value });
}

fn tree_of(table: &DeTable<'_>) -> Map<String, Value> {
    table.iter().map(|(key, value)| (key.get_ref().to_string(), value_of(value.get_ref()))).collect()
}

fn value_of(value: &DeValue<'_>) -> Value {
    let kind = match value {
        DeValue::String(text) => ValueKind::String(text.to_string()),
        DeValue::Boolean(value) => ValueKind::Boolean(*value),
        DeValue::Integer(digits) => {
            i64::from_str_radix(digits.as_str(), digits.radix()).map_or(ValueKind::Nil, ValueKind::I64)
        }
        DeValue::Float(digits) => float(digits.as_str()).map_or(ValueKind::Nil, ValueKind::Float),
        DeValue::Datetime(_) => ValueKind::Nil,
        DeValue::Array(items) => {
            ValueKind::Array(items.iter().map(|item| value_of(item.get_ref())).collect())
        }
        DeValue::Table(table) => ValueKind::Table(tree_of(table)),
    };
    Value::new(None, kind)
}

/// The double that stands for a number; `None` where the double's own text reads as another one.
fn float(text: &str) -> Option<f64> {
    let number = text.parse::<f64>().ok()?;
    (significant(text)? == significant(&number.to_string())?).then_some(number)
}

/// Whether a number is below zero, its digits without zeros at either end, and the power of ten of the last one.
fn significant(text: &str) -> Option<(bool, String, i64)> {
    let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = [whole.trim_start_matches(['+', '-']), fraction].concat();
    let digits = all.trim_end_matches('0');
    let skipped = i64::try_from(all.len() - digits.len()).ok()? - i64::try_from(fraction.len()).ok()?;
    let power = if digits.is_empty() { 0 } else { power.parse::<i64>().ok()?.checked_add(skipped)? };
    Some((whole.starts_with('-'), digits.trim_start_matches('0').to_owned(), power))
}
