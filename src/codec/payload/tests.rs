#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;

use proptest::prelude::*;
use rust_decimal::Decimal;

use super::*;
use crate::{
    codec::value::{Format, Order, Part, Scale},
    model::{Kind, Labels, Refusal, Setpoint, Value},
};

mod binaries;
mod cases;
mod documents;
mod fields;
mod stamps;
mod writes;

const BOUNDS: Bounds = Bounds { size: 1 << 20, depth: 64 };

fn path(text: &str) -> Path {
    Path::parse(text).unwrap()
}

fn spec(at: &str, kind: Kind) -> Spec {
    Spec::new(path(at), kind)
}

fn field(at: &str, kind: Kind) -> Field {
    Field::new(spec(at, kind)).unwrap()
}

fn on_off(at: &str) -> Field {
    let words = vec![("ON".into(), Word::Bool(true)), ("OFF".into(), Word::Bool(false))];
    Field::new(Spec { words, ..spec(at, Kind::Bool) }).unwrap()
}

fn json(payload: &str) -> Document<'_> {
    Encoding::Json.parse(payload.as_bytes(), BOUNDS).unwrap()
}

fn text(value: &str) -> Value {
    Value::Text(value.into())
}

/// What a field says of a JSON payload, as a person would note it.
fn told(field: &Field, payload: &str) -> String {
    tell(&field.read(&json(payload)))
}

fn tell(reading: &Reading) -> String {
    match reading {
        Reading::Value(value) => value.to_string(),
        Reading::Absent => "absent".to_owned(),
        Reading::NotAvailable => "not available".to_owned(),
        Reading::Bad(fault) => fault.to_string(),
    }
}

#[test]
fn paths_are_read_and_shown() {
    let key = |key: &str| Step::Key(key.into());
    let cases = [
        ("", vec![]),
        ("a", vec![key("a")]),
        ("DS18B20-1.Temperature", vec![key("DS18B20-1"), key("Temperature")]),
        ("ENERGY.Power[0]", vec![key("ENERGY"), key("Power"), Step::Index(0)]),
        ("params[\"switch:0\"].apower", vec![key("params"), key("switch:0"), key("apower")]),
        ("[\"a.b\"].c", vec![key("a.b"), key("c")]),
        ("[1]", vec![Step::Index(1)]),
        ("[1][2].ä", vec![Step::Index(1), Step::Index(2), key("ä")]),
        (r#"["a\"]\\"][""]"#, vec![key("a\"]\\"), key("")]),
        ("a b", vec![key("a b")]),
    ];
    for (text, steps) in cases {
        assert_eq!(path(text).steps(), steps, "{text}");
        assert_eq!(path(&path(text).to_string()).steps(), steps, "{text} shown");
    }
    assert_eq!(path("[\"switch:0\"].apower[\"b\"]").to_string(), "switch:0.apower.b");
    assert_eq!(path("a[\"x.y\"][0]").to_string(), "a[\"x.y\"][0]");
}

#[test]
fn what_is_no_path_is_refused() {
    let bad = [
        ".a",
        "a.",
        "a..b",
        "a[",
        "a[]",
        "a[x]",
        "a[-1]",
        "a[\"b]",
        "a[\"b\"",
        "a[0",
        "a[0]b",
        "a]",
        "a\"b",
        "a[99999999999999999999999]",
        "[\"\\x\"]",
    ];
    let errors = bad.map(|text| Path::parse(text).unwrap_err().to_string());
    insta::assert_snapshot!(errors.join("\n"));
}

proptest! {
    #[test]
    fn any_path_is_read_as_it_is_shown(keys in proptest::collection::vec(any::<String>(), 0..5), index in 0_usize..1000) {
        let mut steps: Vec<Step> = keys.into_iter().map(|key| Step::Key(key.into())).collect();
        steps.push(Step::Index(index));
        let path = Path::new(steps);
        prop_assert_eq!(Path::parse(&path.to_string()).unwrap(), path);
    }

    #[test]
    fn any_text_is_a_path_or_not(text in ".{0,20}") {
        if let Ok(path) = Path::parse(&text) {
            prop_assert_eq!(Path::parse(&path.to_string()).unwrap(), path);
        }
    }
}
