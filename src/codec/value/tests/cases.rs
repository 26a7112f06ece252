//! Cases A01, A03, A07 and A09, vector by vector, both ways.

use serde_json::Value as Json;

use super::*;

/// The vectors of one shared case that have this operation.
fn vectors(case: &str, operation: &str) -> Vec<Json> {
    let cases: Json = serde_json::from_str(include_str!("../../../../tests/cases/cases.json")).unwrap();
    let vectors = cases["vectors"].as_array().unwrap().iter();
    vectors.filter(|vector| vector["case"] == case && vector["op"] == operation).cloned().collect()
}

fn text<'a>(vector: &'a Json, key: &str) -> &'a str {
    vector[key].as_str().unwrap_or_else(|| panic!("{vector}: {key}"))
}

fn words(vector: &Json, key: &str) -> Vec<u16> {
    let words = vector[key].as_array().unwrap().iter();
    words.map(|word| u16::from_str_radix(word.as_str().unwrap(), 16).unwrap()).collect()
}

/// The order whose name for this kind it is; names of 32 bits are for every kind.
fn order(name: &str, kind: Kind) -> Order {
    let all = [false, true]
        .into_iter()
        .flat_map(|bytes| [Order { bytes, ..Order::ABCD }, Order { bytes, ..Order::CDAB }]);
    all.into_iter().find(|order| order.of(kind).name(kind) == name).unwrap()
}

fn format_of(vector: &Json) -> Format {
    let kind = *KINDS.iter().find(|kind| kind.name() == text(vector, "type")).unwrap();
    let field = |key: &str, otherwise: &'static str| {
        vector.get(key).map_or_else(|| otherwise.to_owned(), |value| value.as_str().unwrap().to_owned())
    };
    let order = order(text(vector, "order"), kind);
    let sentinel = vector.get("not_available_raw").map(|raw| u64::from_str_radix(raw.as_str().unwrap(), 16));
    Format {
        not_available: sentinel.into_iter().map(Result::unwrap).collect(),
        ..format(kind, order, &field("scale", "1"), &field("offset", "0"))
    }
}

/// As a JSON writer shows it.
fn shown(value: &Value) -> String {
    match value {
        Value::F64(value) => serde_json::to_string(value).unwrap(),
        other => other.to_string(),
    }
}

fn decimal(text: &str) -> Decimal {
    Decimal::from_str_exact(text).or_else(|_| Decimal::from_scientific(text)).unwrap().normalize()
}

fn check(case: &str, expected_count: usize) {
    let vectors = vectors(case, "decode");
    assert_eq!(vectors.len(), expected_count);
    for vector in vectors {
        let id = text(&vector, "id");
        let (format, words) = (format_of(&vector), words(&vector, "registers"));
        if vector["expected"].is_null() {
            let fault = format.decode(&words).unwrap_err();
            match text(&vector, "expected_quality") {
                "not available" => assert_eq!(fault.reason(), Reason::NotAvailable, "{id}"),
                "bad" => assert!(fault.to_string().contains(text(&vector, "error")), "{id}: {fault}"),
                _ => assert!(matches!(fault, Fault::NotANumber | Fault::Infinite), "{id}: {fault}"),
            }
            continue;
        }
        let value = format.decode(&words).unwrap();
        let expected = text(&vector, "expected_text");
        if text(&vector, "compare") == "f32-nearest" {
            assert_eq!(value.to_string(), expected, "{id}: shown without widening noise");
            assert_eq!(value, Value::F32(expected.parse().unwrap()), "{id}");
        } else {
            assert_eq!(decimal(&shown(&value)), decimal(expected), "{id}: {value:?}");
        }
        assert_eq!(format.encode(&value).unwrap().words(), words, "{id}: and back");
    }
}

#[test]
fn byte_orders_of_a01() {
    check("A01", 22);
}

#[test]
fn digits_of_a03() {
    check("A03", 10);
    let written = vectors("A03", "encode");
    assert_eq!(written.len(), 5);
    for vector in written {
        let (id, format) = (text(&vector, "id"), format_of(&vector));
        let accepted = format.accept(text(&vector, "value"));
        if vector["expect_error"].is_null() {
            let sent = format.encode(&accepted.unwrap().effective).unwrap();
            assert_eq!(sent.words(), words(&vector, "expected_registers"), "{id}");
        } else {
            let refusal = accepted.unwrap_err();
            assert!(refusal.to_string().ends_with("allowed is 0 to 9999"), "{id}: {refusal}");
            assert_eq!(refusal.rule(), Rule::RawRange, "{id}");
        }
    }
}

#[test]
fn scaling_of_a07() {
    check("A07", 22);
}

#[test]
fn values_that_are_none_of_a09() {
    check("A09", 14);
}
