//! Public files against what cantools makes of them.

use std::path::PathBuf;

use serde_json::Value as Json;

use super::*;

/// The folder that `FIELDBRIDGE_DBC` names: `real_dbc.json`, and the files below the names of their repositories.
fn folder() -> PathBuf {
    std::env::var_os("FIELDBRIDGE_DBC").expect("FIELDBRIDGE_DBC names no folder").into()
}

fn text<'j>(json: &'j Json, key: &str) -> &'j str {
    json[key].as_str().unwrap_or_else(|| panic!("{json}: {key}"))
}

/// `None` for a file that is not there.
fn file(of: &Json) -> Option<Dbc> {
    let bytes = std::fs::read(folder().join(text(of, "repo")).join(text(of, "path"))).ok()?;
    Some(Dbc::parse(&bytes).unwrap_or_else(|error| panic!("{}: {error}", text(of, "path"))))
}

#[test]
#[ignore = "needs public files: FIELDBRIDGE_DBC=folder"]
fn public_files_load_and_decode_alike() {
    let facts = std::fs::read(folder().join("real_dbc.json")).unwrap();
    let facts: Json = serde_json::from_slice(&facts).unwrap();
    let mut count = 0;
    for of in facts["files"].as_array().unwrap() {
        let Some(dbc) = file(of) else { continue };
        count += 1;
        if let (Some(messages), Some(signals)) = (of["messages"].as_u64(), of["signals"].as_u64()) {
            let found = (dbc.messages.len().to_u64().unwrap(), names(&dbc).len().to_u64().unwrap());
            assert_eq!(found, (messages, signals), "{of}: {:?}", dbc.warnings);
        }
    }
    assert_ne!(count, 0, "none of the files is there");
    for vector in facts["vectors"].as_array().unwrap() {
        if let Some(dbc) = file(vector) {
            check_vector(vector, &dbc);
        }
    }
}

fn check_vector(vector: &Json, dbc: &Dbc) {
    let number = u32::from_str_radix(text(vector, "frame_id"), 16).unwrap();
    let id = if vector["extended"] == true { Id::extended(number) } else { Id::standard(number) };
    let message = dbc.messages.iter().find(|message| Some(message.id) == id).unwrap();
    let payload = payload(text(vector, "data_hex"));
    let there = message.signals.iter().filter(|signal| is_there(message, signal, &payload));
    let values =
        there.filter_map(|signal| Some((&signal.name, value(signal, &payload)?))).collect::<Vec<_>>();
    let expected = vector["expected"].as_object().unwrap();
    assert_eq!(values.len(), expected.len(), "{vector}: {values:?}");
    for (name, value) in values {
        let expected = expected.get(name).unwrap_or_else(|| panic!("{vector}: {name}"))["value"].as_f64();
        let is_alike = expected.map_or(value.is_nan(), |expected| is_near(value, expected));
        assert!(is_alike, "{vector}: {name} is {value}");
    }
}
