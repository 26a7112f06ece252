//! Cases C02, C04, C06, C08, C10 and C12.

use serde_json::Value as Json;

use super::*;

fn file(name: &str) -> Dbc {
    Dbc::parse(bytes(name)).unwrap()
}

pub(super) fn bytes(name: &str) -> &'static [u8] {
    FILES.iter().find(|(file, _)| *file == name).unwrap().1
}

pub(super) const FILES: [(&str, &[u8]); 8] = [
    ("files/C02_extmux.dbc", include_bytes!("../../../../tests/cases/files/C02_extmux.dbc")),
    ("files/C04_float.dbc", include_bytes!("../../../../tests/cases/files/C04_float.dbc")),
    ("files/C06_odd_lines.dbc", include_bytes!("../../../../tests/cases/files/C06_odd_lines.dbc")),
    ("files/C06_values.dbc", include_bytes!("../../../../tests/cases/files/C06_values.dbc")),
    ("files/C08_independent.dbc", include_bytes!("../../../../tests/cases/files/C08_independent.dbc")),
    ("files/C10_factors.dbc", include_bytes!("../../../../tests/cases/files/C10_factors.dbc")),
    ("files/C10_zero_factor.dbc", include_bytes!("../../../../tests/cases/files/C10_zero_factor.dbc")),
    ("files/C12_duplicates.dbc", include_bytes!("../../../../tests/cases/files/C12_duplicates.dbc")),
];

/// How a vector names a signal: with its page or its message where the name alone is not enough.
fn key(dbc: &Dbc, message: &Message, signal: &Signal) -> String {
    let name = &signal.name;
    if dbc.messages.iter().filter(|other| other.name == message.name).count() > 1 {
        return format!("{}({}).{name}", message.name, message.id.number());
    }
    match &signal.selection {
        Some(selection) if message.signals.iter().filter(|other| other.name == *name).count() > 1 => {
            format!("{name}[m{}]", selection.ranges[0].0)
        }
        _ => name.clone(),
    }
}

/// Decodes the frames of a case; returns how many there were.
fn check_frames(case: &str) -> usize {
    let cases: Json = serde_json::from_str(include_str!("../../../../tests/cases/cases.json")).unwrap();
    let vectors = cases["vectors"].as_array().unwrap().iter();
    let vectors = vectors.filter(|vector| vector["case"] == case && vector["op"] == "decode-frame");
    vectors.map(check_frame).count()
}

fn check_frame(vector: &Json) {
    let dbc = file(vector["dbc"].as_str().unwrap());
    let number = u32::from_str_radix(vector["frame_id"].as_str().unwrap(), 16).unwrap();
    let id = if vector["extended"] == true { Id::extended(number) } else { Id::standard(number) };
    let Some(message) = dbc.messages.iter().find(|message| Some(message.id) == id) else {
        assert!(vector["expected"].as_str().unwrap().starts_with("unknown frame"), "{vector}");
        return;
    };
    let payload = payload(vector["data_hex"].as_str().unwrap());
    let expected = vector["expected"].as_object().unwrap();
    let mut seen = 0;
    for signal in message.signals.iter().filter(|signal| is_there(message, signal, &payload)) {
        let value = value(signal, &payload).unwrap();
        match expected.get(&key(&dbc, message, signal)) {
            Some(Json::Null) => assert!(value.is_nan(), "{vector}: {value}"),
            Some(expected) => assert!(is_near(value, expected.as_f64().unwrap()), "{vector}: {value}"),
            None => {
                assert!(signal.factor.is_zero(), "{vector}: {}", signal.name);
                continue;
            }
        }
        seen += 1;
    }
    assert_eq!(seen, expected.len(), "{vector}");
    let labels = vector["expected_labels"].as_object();
    for (name, label) in labels.into_iter().flatten() {
        let signal = message.signals.iter().find(|signal| signal.name == *name).unwrap();
        let bits = signal.place.read(&payload).unwrap();
        let raw = match signal.number {
            Number::Signed => i64::from(u8::try_from(bits).unwrap().cast_signed()),
            _ => i64::try_from(bits).unwrap(),
        };
        let found = signal.labels.iter().find(|(number, _)| *number == raw);
        assert_eq!(found.map(|(_, label)| &**label), label.as_str(), "{vector}");
    }
}

#[test]
fn c02_extended_multiplexing() {
    assert_eq!(check_frames("C02"), 7);
    let dbc = file("files/C02_extmux.dbc");
    assert_eq!(warnings(&dbc), []);
    let signals = dbc.messages[0].signals.iter();
    let shown = signals.map(|signal| (signal.name.as_str(), signal.is_multiplexer, signal.selection.clone()));
    let by = |by, ranges: &[(u64, u64)]| Some(Selection { by, ranges: ranges.to_vec() });
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            ("Unit", true, None),
            ("Chan", true, by(0, &[(1, 1)])),
            ("PressA", false, by(1, &[(0, 0)])),
            ("PressB", false, by(1, &[(1, 1), (4, 6)])),
            ("Flow", false, by(0, &[(2, 3), (8, 10)])),
            ("Health", false, None),
        ]
    );
}

#[test]
fn c04_floats() {
    assert_eq!(check_frames("C04"), 5);
    assert_eq!(warnings(&file("files/C04_float.dbc")), []);

    let text = str::from_utf8(bytes("files/C04_float.dbc")).unwrap();
    let (head, tail) = text.split_once(" SG_ CountBE").unwrap();
    let dbc = load(&format!("{head} SG_ Wheel : 39|32@2- (1,0) [0|1] \"\" HMI\n SG_ CountBE{tail}"));
    assert_eq!(
        warnings(&dbc),
        [(
            15,
            "signal FloatBE.Wheel has byte order 2, which does not exist, allowed are 0 (Motorola) and 1 (Intel); \
             it is left out"
        )]
    );
    assert_eq!(names(&dbc), names(&file("files/C04_float.dbc")));
}

#[test]
fn c06_value_tables_and_odd_lines() {
    assert_eq!(check_frames("C06"), 5);
    assert_eq!(warnings(&file("files/C06_values.dbc")), []);

    let dbc = file("files/C06_odd_lines.dbc");
    let messages = dbc.messages.iter().map(|message| (message.id.number(), message.name.as_str()));
    assert_eq!(messages.collect::<Vec<_>>(), [(640, "Drive"), (642, "After")]);
    assert_eq!(signal(&dbc, "Gear").comment, "text with ; and a\nnew line and BO_ 1 Fake: 8 X");
    assert_eq!(
        warnings(&dbc),
        [
            (20, "labels: message Drive has no signal Gone"),
            (21, "labels: there is no message 641"),
            (22, "`CM_ SG_ 640` is a comment on a signal that it does not name; it is left out"),
            (26, "`SOMETHING_NEW_ 1 2 3` is no statement of the format; it is left out"),
        ]
    );
}

#[test]
fn c08_pseudo_message() {
    assert_eq!(check_frames("C08"), 3);
    let dbc = file("files/C08_independent.dbc");
    assert_eq!((names(&dbc), warnings(&dbc)), (vec!["Level"], vec![]));
    let messages = dbc.messages.iter().map(|message| (message.name.as_str(), message.length));
    assert_eq!(messages.collect::<Vec<_>>(), [("Beat", 0), ("Real", 2)]);
}

#[test]
fn c10_factors() {
    assert_eq!(check_frames("C10"), 4);
    let dbc = file("files/C10_factors.dbc");
    assert_eq!(warnings(&dbc), []);
    let scale = |name: &str| (signal(&dbc, name).factor.to_string(), signal(&dbc, name).offset.to_string());
    assert_eq!(scale("Neg"), ("-0.01".to_owned(), "41".to_owned()));
    assert_eq!(scale("Plus"), ("0.5".to_owned(), "0".to_owned()));
    assert_eq!(scale("Third").0, "0.3333333333");
    assert_eq!(signal(&dbc, "Plus").range, Some((-64.0, 63.5)));
    assert_eq!(
        warnings(&file("files/C10_zero_factor.dbc")),
        [
            (10, "signal Zero.Z0 has factor 0: it always reads as 0 and cannot be written"),
            (11, "signal Zero.Z5 has factor 0: it always reads as 5 and cannot be written"),
        ]
    );
}

#[test]
fn c12_duplicates() {
    assert_eq!(check_frames("C12"), 6);
    let dbc = file("files/C12_duplicates.dbc");
    assert_eq!(names(&dbc), ["Sel", "Value", "Value", "X", "X", "0_COUNTER", "Ok", "Y"]);
    assert_eq!(
        warnings(&dbc),
        [(27, "message Late2 has the identifier 904, as Late in line 24 has; it is left out")]
    );
}
