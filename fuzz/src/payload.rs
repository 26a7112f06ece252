//! Payloads of MQTT messages, paths in them, and topics.
//!
//! JSON is read a second time by `serde_json`, topics are matched a second time by section 4.7 of the standard.

use arbitrary::Arbitrary;
use fieldbridge::{
    codec::{
        payload::{Bounds, Encoding, Field, Path, Reading, Spec},
        topic::{Index, Pattern, check_topic},
    },
    model::{Kind, Value},
};
use serde_json::Value as Json;

pub const PATHS: [&str; 6] = ["", "v", "a.v", "[1]", "a[0].v", "[\"switch:0\"].v"];
pub const ENCODINGS: [Encoding; 4] = [Encoding::Text, Encoding::Json, Encoding::Cbor, Encoding::MessagePack];
const KINDS: [Kind; 4] = [Kind::Float64, Kind::Int64, Kind::Bool, Kind::Text];
const BOUNDS: Bounds = Bounds { size: 4096, depth: 32 };

#[derive(Debug, PartialEq, Arbitrary)]
pub struct Input<'a> {
    pub encoding: u8,
    pub path: u8,
    /// A payload, and as far as it is UTF-8 a path, a pattern and a topic.
    pub data: &'a [u8],
}

pub fn check(input: &Input<'_>) {
    let encoding = ENCODINGS[usize::from(input.encoding) % ENCODINGS.len()];
    let path = PATHS[usize::from(input.path) % PATHS.len()];
    for kind in KINDS {
        let Ok(field) = Field::new(Spec::new(Path::parse(path).expect("a path"), kind)) else { continue };
        let Ok(document) = encoding.parse(input.data, BOUNDS) else { continue };
        let reading = field.read(&document);
        if let Reading::Value(Value::F64(number)) = &reading {
            assert!(number.is_finite(), "{reading:?}");
        }
        if kind == Kind::Float64 && encoding == Encoding::Json {
            agrees(input.data, path, &reading);
        }
    }
    if let Ok(text) = str::from_utf8(input.data) {
        if let Ok(path) = Path::parse(text) {
            assert_eq!(Path::parse(&path.to_string()).as_ref(), Ok(&path), "{text:?}");
        }
        if let Some((pattern, topic)) = text.split_once('\n') {
            topics(pattern, topic);
        }
    }
}

/// What strict JSON says is what we read: its numbers, and nothing where there is none.
fn agrees(data: &[u8], path: &str, reading: &Reading) {
    let Ok(json) = serde_json::from_slice::<Json>(data) else { return };
    match find(&json, path) {
        // Below a null there is no value either.
        None if is_below_null(&json, pointer(path)) => assert_eq!(*reading, Reading::NotAvailable),
        None => assert!(matches!(reading, Reading::Absent | Reading::Bad(_)), "{reading:?}"),
        Some(Json::Null) => assert_eq!(*reading, Reading::NotAvailable),
        Some(Json::Number(number)) => {
            let Reading::Value(Value::F64(own)) = reading else { panic!("{number}: {reading:?}") };
            assert_eq!(Some(*own), number.as_f64(), "{number}");
        }
        Some(Json::Array(_) | Json::Object(_)) => assert!(matches!(reading, Reading::Bad(_)), "{reading:?}"),
        Some(Json::Bool(_) | Json::String(_)) => {}
    }
}

fn find<'a>(json: &'a Json, path: &str) -> Option<&'a Json> {
    json.pointer(pointer(path))
}

fn is_below_null(json: &Json, pointer: &str) -> bool {
    let mut above = pointer;
    while let Some((shorter, _)) = above.rsplit_once('/') {
        above = shorter;
        if json.pointer(above).is_some_and(Json::is_null) {
            return true;
        }
    }
    false
}

/// The same as a JSON Pointer.
fn pointer(path: &str) -> &'static str {
    match path {
        "" => "",
        "v" => "/v",
        "a.v" => "/a/v",
        "[1]" => "/1",
        "a[0].v" => "/a/0/v",
        _ => "/switch:0/v",
    }
}

fn topics(text: &str, topic: &str) {
    let Ok(pattern) = Pattern::parse(text) else { return };
    assert_eq!(Pattern::parse(&pattern.to_string()).as_ref(), Ok(&pattern), "{text:?}");
    // No broker delivers a message on what is no topic.
    if check_topic(topic).is_err() {
        return;
    }
    let mut index = Index::new();
    index.insert(pattern.clone(), ());
    let found = index.find(topic).len();
    assert_eq!(found == 1, pattern.matches(topic).is_some(), "{text:?} {topic:?}");
    if !text.contains(['{', '}']) {
        let levels = |text: &str| text.split('/').map(str::to_owned).collect::<Vec<_>>();
        let system = topic.starts_with('$') && text.starts_with(['+', '#']);
        assert_eq!(found == 1, !system && fits(&levels(text), &levels(topic)), "{text:?} {topic:?}");
    }
}

/// Section 4.7 of MQTT 5.0, level by level.
fn fits(filter: &[String], topic: &[String]) -> bool {
    match (filter.split_first(), topic.split_first()) {
        (Some((level, [])), _) if level == "#" => true,
        (Some((level, filter)), Some((own, topic))) => (level == "+" || level == own) && fits(filter, topic),
        (None, None) => true,
        _ => false,
    }
}
