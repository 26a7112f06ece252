//! What a tag finds in a payload.

use super::*;

#[test]
fn what_is_no_number_is_named() {
    let number = field("v", Kind::Float64);
    let whole = field("v", Kind::Int16);
    let payloads = [
        r#"{"v":"0x1F"}"#,
        r#"{"v":"21,7"}"#,
        r#"{"v":"1,234.5"}"#,
        r#"{"v":"21.7 C"}"#,
        r#"{"v":""}"#,
        r#"{"v":"  "}"#,
        r#"{"v":{"x":1}}"#,
        r#"{"v":[1]}"#,
        r#"{"v":nan}"#,
        r#"{"v":-Infinity}"#,
        r#"{"v":"NAN"}"#,
        r#"{"v":1e999}"#,
        r#"{"v":"1e"}"#,
        r#"{"v":"."}"#,
        r#"{"v":"1_000"}"#,
        r#"{"v":"٣"}"#,
        r#"{"v":null}"#,
        r#"{"v":"null"}"#,
        r"{}",
        r"[]",
        "5",
        "null",
    ];
    let mut lines: Vec<String> =
        payloads.map(|payload| format!("{payload}: {}", told(&number, payload))).into();
    for payload in [r#"{"v":21.7}"#, r#"{"v":32768}"#, r#"{"v":-32769}"#, r#"{"v":1e-1}"#] {
        lines.push(format!("{payload}: {}", told(&whole, payload)));
    }
    lines.push(told(&field("a.b", Kind::Float64), r#"{"a":5}"#));
    lines.push(told(&field("a[3]", Kind::Float64), r#"{"a":[1,2,3]}"#));
    lines.push(told(&field("a[0]", Kind::Float64), r#"{"a":"x"}"#));
    lines.push(told(&on_off("v"), r#"{"v":"on"}"#));
    lines.push(told(&field("v", Kind::Bool), r#"{"v":1}"#));
    lines.push(told(&field("v", Kind::Text), r#"{"v":{}}"#));
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn numbers_as_devices_print_them() {
    let number = field("v", Kind::Float64);
    for (payload, value) in [
        (r#"{"v":" 21.7\r\n"}"#, 21.7),
        (r#"{"v":"+21.7"}"#, 21.7),
        (r#"{"v":"007.50"}"#, 7.5),
        (r#"{"v":"-.5"}"#, -0.5),
        (r#"{"v":"5."}"#, 5.0),
        (r#"{"v":"+05.e1"}"#, 50.0),
        (r#"{"v":"1e3"}"#, 1000.0),
        (r#"{"v":"21.7\u0000"}"#, 21.7),
        (r#"{"v":1e-999}"#, 0.0),
        (r#"{"v":true}"#, 1.0),
        (r#"{"v":false}"#, 0.0),
    ] {
        assert_eq!(number.read(&json(payload)), Reading::Value(Value::F64(value)), "{payload}");
    }
    assert_eq!(told(&field("v", Kind::Int64), r#"{"v":"-0021.0"}"#), "-21");
}

#[test]
fn whole_numbers_keep_every_digit() {
    for (kind, digits) in [
        (Kind::Int64, "9007199254740993"),
        (Kind::Int64, "-9223372036854775808"),
        (Kind::Int64, "9223372036854775807"),
        (Kind::Uint64, "18446744073709551615"),
    ] {
        for payload in [format!("[{digits}]"), format!("[\"{digits}\"]"), format!("[{digits}.0]")] {
            assert_eq!(told(&field("[0]", kind), &payload), digits);
        }
    }
    for (kind, digits) in
        [(Kind::Int64, "-9223372036854775809"), (Kind::Uint64, "18446744073709551616"), (Kind::Uint64, "-1")]
    {
        assert!(told(&field("", kind), digits).starts_with(&format!("the payload: {digits} does not fit")));
    }
}

#[test]
fn scales_are_exact() {
    let scaled = |kind, factor, offset| {
        let scale = Scale::Linear {
            factor: Decimal::from_str_exact(factor).unwrap(),
            offset: Decimal::from_str_exact(offset).unwrap(),
        };
        Field::new(Spec { scale, ..spec("v", kind) }).unwrap()
    };
    assert_eq!(told(&scaled(Kind::Int16, "0.1", "0"), r#"{"v":303}"#), "30.3");
    assert_eq!(told(&scaled(Kind::Float64, "0.1", "-40"), r#"{"v":"49.98"}"#), "-35.002");
    assert_eq!(told(&scaled(Kind::Float32, "1000", "0"), r#"{"v":0.001}"#), "1");
    assert_eq!(
        told(&scaled(Kind::Int64, "0.001", "0"), r#"{"v":-9223372036854775808}"#),
        "-9223372036854775.808"
    );
    assert_eq!(
        told(&scaled(Kind::Float64, "10", "0"), r#"{"v":1e308}"#),
        "`v`: the scaled value is beyond what can be computed"
    );
}

#[test]
fn words_are_values() {
    let switch = on_off("v");
    for (payload, expected) in [
        (r#"{"v":"ON"}"#, "true"),
        (r#"{"v":" OFF\n"}"#, "false"),
        (r#"{"v":true}"#, "true"),
        (r#"{"v":"false"}"#, "false"),
    ] {
        assert_eq!(told(&switch, payload), expected);
    }
    let digits = Spec {
        words: vec![("1".into(), Word::Bool(true)), ("0".into(), Word::Bool(false))],
        ..spec("v", Kind::Bool)
    };
    let digits = Field::new(digits).unwrap();
    assert_eq!(told(&digits, r#"{"v":1}"#), "true");
    assert_eq!(told(&digits, r#"{"v":"0"}"#), "false");
    let speeds = Spec {
        words: vec![
            ("low".into(), Word::Number(Decimal::new(5, 1))),
            ("off".into(), Word::Number(Decimal::ZERO)),
        ],
        ..spec("v", Kind::Float32)
    };
    let speeds = Field::new(speeds).unwrap();
    assert_eq!(told(&speeds, r#"{"v":"low"}"#), "0.5");
    assert_eq!(told(&speeds, r#"{"v":0.75}"#), "0.75");
}

#[test]
fn labels_are_for_people_alone() {
    let labels = Arc::new(Labels::new([(0, "off".into()), (1, "auto".into())]));
    let field = Field::new(Spec { labels: Some(labels), ..spec("mode", Kind::Uint8) }).unwrap();
    assert_eq!(told(&field, r#"{"mode":1}"#), "1");
    assert!(told(&field, r#"{"mode":"auto"}"#).contains("not a decimal number"));
    assert_eq!(field.label(&Value::U64(1)).as_deref(), Some("auto"));
    let value = field.accept("Auto").unwrap().effective;
    assert_eq!(field.encode(&value, &Template::bare(Form::Json), 0).unwrap(), b"1");
}

#[test]
fn words_and_numbers_for_no_value() {
    let not_available = vec!["unavailable".into(), "-127".into(), "1e3".into()];
    let sensor =
        Field::new(Spec { not_available: not_available.clone(), ..spec("v", Kind::Float32) }).unwrap();
    for payload in
        [r#"{"v":"unavailable"}"#, r#"{"v":-127}"#, r#"{"v":-127.00}"#, r#"{"v":"-127.0 "}"#, r#"{"v":1000}"#]
    {
        assert_eq!(told(&sensor, payload), "not available", "{payload}");
    }
    assert_eq!(told(&sensor, r#"{"v":-126.9}"#), "-126.9");
    assert!(told(&sensor, r#"{"v":"Unavailable"}"#).contains("not a decimal number"));
    let word = Field::new(Spec { not_available, ..spec("v", Kind::Text) }).unwrap();
    assert_eq!(told(&word, r#"{"v":"unavailable"}"#), "not available");
}

#[test]
fn texts_stay_as_they_are() {
    let word = field("v", Kind::Text);
    assert_eq!(told(&word, r#"{"v":" a b\n"}"#), " a b\n");
    assert_eq!(told(&word, r#"{"v":0.80}"#), "0.80");
    assert_eq!(told(&word, r#"{"v":false}"#), "false");
    assert_eq!(told(&word, r#"{"v":""}"#), "");
    let bare =
        |payload: &[u8]| tell(&field("", Kind::Text).read(&Encoding::Text.parse(payload, BOUNDS).unwrap()));
    assert_eq!(bare(b"OPEN\r\n"), "OPEN");
    assert_eq!(bare(b" OPEN"), " OPEN");
    assert_eq!(bare(b""), "");
}

#[test]
fn arrays() {
    let currents = Field::new(Spec { count: Some(3), ..spec("I", Kind::Float32) }).unwrap();
    assert_eq!(told(&currents, r#"{"I":[1.5,"2",3]}"#), "[1.5, 2, 3]");
    assert_eq!(told(&currents, r#"{"I":[1.5,2]}"#), "`I`: an array of 2 elements where 3 were expected");
    assert_eq!(told(&currents, r#"{"I":[1,nan,3]}"#), "`I`: element [1]: `nan` is not finite");
    assert_eq!(told(&currents, r#"{"I":[1,null,3]}"#), "not available");
    assert_eq!(told(&currents, r#"{"I":1}"#), "`I`: a number where an array was expected");
}

#[test]
fn what_cannot_be_is_refused() {
    let scale = Scale::Linear { factor: Decimal::TEN, offset: Decimal::ZERO };
    let word = |word: &str, meaning| vec![(Arc::from(word), meaning)];
    let bad = [
        spec("v", Kind::Bcd16),
        spec("v", Kind::Float16),
        Spec { count: Some(2), ..spec("v", Kind::Text) },
        Spec { scale, ..spec("v", Kind::Text) },
        Spec { words: word("ON", Word::Bool(true)), ..spec("v", Kind::Uint8) },
        Spec { words: word("ON", Word::Number(Decimal::ONE)), ..spec("v", Kind::Bool) },
        Spec { words: word("low", Word::Number(Decimal::new(5, 1))), ..spec("v", Kind::Uint8) },
        Spec { words: word("many", Word::Number(Decimal::from(256))), ..spec("v", Kind::Uint8) },
        Spec {
            words: [word("ON", Word::Bool(true)), word("ON", Word::Bool(false))].concat(),
            ..spec("v", Kind::Bool)
        },
    ];
    let errors = bad.map(|spec| Field::new(spec).unwrap_err().to_string());
    insta::assert_snapshot!(errors.join("\n"));
}
