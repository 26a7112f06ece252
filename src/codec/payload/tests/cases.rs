//! Cases B01, B03, B05 and B15, as far as they are about payloads.

use serde_json::Value as Json;

use super::*;

fn vectors(case: &str) -> Vec<Json> {
    let cases: Json = serde_json::from_str(include_str!("../../../../tests/cases/cases.json")).unwrap();
    let vectors = cases["vectors"].as_array().unwrap().iter();
    vectors.filter(|vector| vector["case"] == case).cloned().collect()
}

fn kind(vector: &Json) -> Kind {
    match vector["type"].as_str().unwrap() {
        "float" => Kind::Float64,
        "int" => Kind::Int64,
        "string" => Kind::Text,
        other => panic!("{other}"),
    }
}

/// A profile says `text` for topics of bare words and numbers.
fn encoding(vector: &Json) -> Encoding {
    let payload = vector["payload_utf8"].as_str().unwrap().trim_start_matches('\u{FEFF}');
    if payload.starts_with(['{', '[']) { Encoding::Json } else { Encoding::Text }
}

fn read(vector: &Json, encoding: Encoding, field: &Field) -> Result<Reading, Malformed> {
    let payload = vector["payload_utf8"].as_str().unwrap();
    let payload = payload.replace("\\uFEFF", "\u{FEFF}");
    encoding.parse(payload.as_bytes(), BOUNDS).map(|document| field.read(&document))
}

/// Whether a value says what the vector expects.
fn is_same(value: &Value, expected: &Json) -> bool {
    match expected {
        Json::Bool(on) => *value == Value::Bool(*on),
        Json::Number(number) => value.as_f64() == number.as_f64(),
        Json::String(word) => *value == text(word),
        other => panic!("{other}"),
    }
}

#[test]
fn paths_and_numbers() {
    let mut seen = 0;
    for vector in vectors("B01") {
        let id = vector["id"].as_str().unwrap();
        let field = field(vector["path"].as_str().unwrap(), kind(&vector));
        let reading = read(&vector, encoding(&vector), &field);
        match (id, reading) {
            ("B01-27", reading) => {
                reading.unwrap_err();
            }
            ("B01-05", reading) => assert_eq!(reading.unwrap(), Reading::Absent),
            (_, Ok(Reading::Value(value))) => {
                assert!(vector.get("expect_error").is_none(), "{id}: {value}");
                match vector["expected_text"].as_str() {
                    Some(digits) => assert_eq!(value.to_string(), digits, "{id}"),
                    None => assert!(is_same(&value, &vector["expected"]), "{id}: {value}"),
                }
            }
            (_, Ok(Reading::Bad(fault))) => assert!(vector.get("expect_error").is_some(), "{id}: {fault}"),
            (_, other) => panic!("{id}: {other:?}"),
        }
        seen += 1;
    }
    assert_eq!(seen, 27);
}

#[test]
fn bare_numbers_are_json_as_well() {
    for vector in vectors("B01").iter().filter(|vector| vector["path"] == "" && kind(vector) == Kind::Float64)
    {
        let reading = read(vector, Encoding::Json, &field("", Kind::Float64));
        assert_eq!(reading.unwrap(), Reading::Value(Value::F64(21.7)));
    }
}

#[test]
fn one_bad_field_harms_no_other() {
    let mut seen = 0;
    for vector in vectors("B03") {
        let id = vector["id"].as_str().unwrap();
        seen += 1;
        if let Some(payloads) = vector["payloads_utf8"].as_array() {
            let last = json(payloads[2].as_str().unwrap());
            assert_eq!(field("t", Kind::Float64).read(&last), Reading::Value(Value::F64(20.3)));
            assert_eq!(field("h", Kind::Float64).read(&last), Reading::Value(Value::F64(42.0)));
            continue;
        }
        let Some(tags) = vector["tags"].as_object() else {
            let whole = Spec { not_available: vec!["unavailable".into()], ..spec("", Kind::Float64) };
            let reading = read(&vector, Encoding::Text, &Field::new(whole).unwrap()).unwrap();
            assert!(matches!(reading, Reading::NotAvailable | Reading::Bad(_)), "{id}: {reading:?}");
            continue;
        };
        for (name, tag) in tags {
            let spec = Spec {
                not_available: vec!["unavailable".into()],
                ..spec(tag["path"].as_str().unwrap(), Kind::Float64)
            };
            let reading = read(&vector, Encoding::Json, &Field::new(spec).unwrap()).unwrap();
            let expected = &vector["expected"][name];
            match (expected["quality"].as_str().unwrap(), reading) {
                ("good", Reading::Value(value)) => assert!(is_same(&value, &expected["value"]), "{id}"),
                ("bad: out of range", Reading::Value(value)) => {
                    let limit = |key: &str| tag[key].as_f64().unwrap();
                    assert!(value.exceeds(limit("min"), limit("max")), "{id}");
                }
                ("bad or not available", Reading::NotAvailable | Reading::Bad(_)) => {}
                (_, other) => panic!("{id} {name}: {other:?}"),
            }
        }
    }
    assert_eq!(seen, 16);
}

#[test]
fn nesting_and_size_are_bounded() {
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(Encoding::Json.parse(deep.as_bytes(), BOUNDS).unwrap_err(), Malformed::Depth { most: 64 });
    for size in [10_200, 10_240, 10_241, 11_409, 65_535, 1_048_576] {
        let empty = r#"{"v":1,"pad":""}"#.len();
        let payload = format!(r#"{{"v":1,"pad":"{}"}}"#, "x".repeat(size - empty));
        assert_eq!(payload.len(), size);
        assert_eq!(field("v", Kind::Int64).read(&json(&payload)), Reading::Value(Value::I64(1)));
    }
    let payload = vec![b' '; 1_048_615];
    let error = Encoding::Json.parse(&payload, BOUNDS).unwrap_err();
    assert_eq!(error, Malformed::Size { bytes: 1_048_615, most: 1_048_576 });
}

/// What the shipped profiles of a family say of its words.
fn words(pairs: &[(&str, bool)]) -> Vec<(Arc<str>, Word)> {
    pairs.iter().map(|(word, on)| (Arc::from(*word), Word::Bool(*on))).collect()
}

#[test]
fn families() {
    let states = words(&[("ON", true), ("OFF", false), ("on", true), ("off", false)]);
    let alive = words(&[
        ("Online", true),
        ("Offline", false),
        ("online", true),
        ("offline", false),
        ("ready", true),
        ("sleeping", true),
        ("alert", true),
        ("lost", false),
        ("true", true),
        ("false", false),
    ]);
    let (mut read_values, mut written) = (0, 0);
    for vector in vectors("B15") {
        let id = vector["id"].as_str().unwrap();
        if vector["topic"].as_str().unwrap().ends_with("(write)") {
            written += 1;
            continue;
        }
        for (name, expected) in vector["expected"].as_object().unwrap() {
            let at = match (name.as_str(), encoding(&vector)) {
                (_, Encoding::Text) => "",
                ("available", _) => "state",
                (name, _) => name,
            };
            let (kind, words) = match expected {
                Json::Bool(_) if name == "available" => (Kind::Bool, alive.clone()),
                Json::Bool(_) => (Kind::Bool, states.clone()),
                Json::String(_) | Json::Array(_) => (Kind::Text, Vec::new()),
                _ => (Kind::Float64, Vec::new()),
            };
            let field = Field::new(Spec { words, ..spec(at, kind) }).unwrap();
            match (read(&vector, encoding(&vector), &field).unwrap(), expected) {
                (Reading::NotAvailable, Json::Null) => {}
                (Reading::Value(value), Json::Array(_)) => assert_eq!(value, text("0:80"), "{id}"),
                (Reading::Value(value), expected) => {
                    assert!(is_same(&value, expected), "{id} {name}: {value}");
                }
                (other, _) => panic!("{id} {name}: {other:?}"),
            }
            read_values += 1;
        }
    }
    assert_eq!((read_values, written), (27, 4));
}

#[test]
fn watt_minutes_are_a_sixtieth_of_watt_hours() {
    let range = (Decimal::ZERO, Decimal::from(60));
    let scale = Scale::Ranges { raw: range, value: (Decimal::ZERO, Decimal::ONE), clamp: false };
    let field = Field::new(Spec { scale, ..spec("", Kind::Uint32) }).unwrap();
    assert_eq!(field.read(&json("123456")), Reading::Value(Value::F64(2057.6)));
}

#[test]
fn families_are_written_to() {
    let payload = |id: &str| {
        let vectors = vectors("B15");
        let vector = vectors.iter().find(|vector| vector["id"] == id).unwrap();
        vector["payload_utf8"].as_str().unwrap().to_owned()
    };
    let write = |field: &Field, template: &Template, value: &str| {
        let value = field.accept(value).unwrap().effective;
        String::from_utf8(field.encode(&value, template, 1).unwrap()).unwrap()
    };
    let json = |text: &str| Template::parse(text, Form::Json, &[("reply", "bridge-7")]).unwrap();
    assert_eq!(write(&on_off(""), &Template::bare(Form::Text), "false"), payload("B15-04"));
    assert_eq!(write(&on_off("state"), &json(r#"{"state":"{value}"}"#), "on"), payload("B15-08"));
    let shelly =
        json(r#"{"id":"{id}","src":"{reply}","method":"Switch.Set","params":{"id":0,"on":"{value}"}}"#);
    assert_eq!(write(&field("output", Kind::Bool), &shelly, "true"), payload("B15-16"));
    assert_eq!(write(&field("", Kind::Float64), &Template::bare(Form::Text), "50"), payload("B15-22"));
}
