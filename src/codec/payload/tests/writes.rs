//! Payloads that are written.

use super::*;

fn template(text: &str, form: Form) -> Template {
    Template::parse(text, form, &[("device", "plug \"3\"")]).unwrap()
}

fn payload(field: &Field, template: &Template, value: &Value) -> String {
    String::from_utf8(field.encode(value, template, 7).unwrap()).unwrap()
}

#[test]
fn templates_are_filled() {
    let number = field("", Kind::Float64);
    let word = field("", Kind::Text);
    let quoted = text("a \"b\"\n{id}");
    let plain = |text: &str| template(text, Form::Text);
    let json = |text: &str| template(text, Form::Json);
    assert_eq!(
        payload(&number, &plain("SET {value};{value} {device}"), &Value::F64(21.5)),
        "SET 21.5;21.5 plug \"3\""
    );
    assert_eq!(payload(&word, &plain("{value}{}"), &quoted), "a \"b\"\n{id}{}");
    assert_eq!(payload(&on_off(""), &plain(r#"{"s":"{value}"}"#), &Value::Bool(true)), r#"{"s":"ON"}"#);
    assert_eq!(
        payload(&number, &json(r#"{ "t" : "{value}", "n": 1.10 }"#), &Value::F64(21.0)),
        r#"{ "t" : 21, "n": 1.10 }"#
    );
    assert_eq!(payload(&on_off(""), &json(r#"{"s":"{value}"}"#), &Value::Bool(false)), r#"{"s":"OFF"}"#);
    assert_eq!(
        payload(&field("", Kind::Bool), &json(r#"["{value}","{id}"]"#), &Value::Bool(true)),
        "[true,7]"
    );
    assert_eq!(
        payload(&word, &json(r#"{"{device}":"{value}"}"#), &quoted),
        r#"{"plug \"3\"":"a \"b\"\n{id}"}"#
    );
    assert_eq!(payload(&word, &json(r#"["<{value}> #{id}"]"#), &quoted), r#"["<a \"b\"\n{id}> #7"]"#);
    assert_eq!(payload(&number, &json(r#"{"{value}" :"{value}"}"#), &Value::F64(1.5)), r#"{"1.5" :1.5}"#);
    assert_eq!(payload(&number, &Template::bare(Form::Json), &Value::F64(0.1)), "0.1");
    let array = Field::new(Spec { count: Some(2), ..spec("", Kind::Uint8) }).unwrap();
    let values = Value::Array([Value::U64(1), Value::U64(2)].into());
    assert_eq!(payload(&array, &json(r#"{"a":"{value}"}"#), &values), r#"{"a":[1,2]}"#);
    assert!(json(r#"["{value}","{id}"]"#).has_id() && !json(r#"["{value}"]"#).has_id());
}

#[test]
fn what_is_no_template_is_named() {
    let bad = [
        ("ON", Form::Text),
        ("{vlaue}", Form::Text),
        (r#"{"a":"{name}"}"#, Form::Json),
        (r#"{"a":{value}}"#, Form::Json),
        (r#"{"a":1}"#, Form::Json),
    ];
    let errors =
        bad.map(|(text, form)| Template::parse(text, form, &[("device", "x")]).unwrap_err().to_string());
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn scales_are_inverted_and_rounded_to_the_type() {
    let scale = Scale::Linear { factor: Decimal::new(1, 1), offset: Decimal::ZERO };
    let field = Field::new(Spec { scale, ..spec("", Kind::Int16) }).unwrap();
    let accepted = field.accept("21.37").unwrap();
    assert_eq!((accepted.requested, &accepted.effective), (Value::F64(21.37), &Value::F64(21.4)));
    assert_eq!(payload(&field, &Template::bare(Form::Text), &accepted.effective), "214");
    assert!(matches!(field.accept("3276.8"), Err(Refusal::RawRange { .. })));
    assert_eq!(
        payload(
            &self::field("", Kind::Int64),
            &Template::bare(Form::Json),
            &Value::I64(9_007_199_254_740_993)
        ),
        "9007199254740993"
    );
}

#[test]
fn words_are_written_as_they_are_read() {
    let number = |number: i64| Word::Number(number.into());
    let words = vec![("off".into(), number(0)), ("AUS".into(), number(0)), ("auto".into(), number(2))];
    let mode = Field::new(Spec { words, ..spec("", Kind::Uint8) }).unwrap();
    let bare = Template::bare(Form::Json);
    for (asked, written) in
        [("auto", "\"auto\""), ("2", "\"auto\""), ("AUS", "\"off\""), ("OFF", "\"off\""), ("7", "7")]
    {
        assert_eq!(payload(&mode, &bare, &mode.accept(asked).unwrap().effective), written, "{asked}");
    }
    let refusal = mode.accept("heat").unwrap_err().to_string();
    assert_eq!(
        refusal,
        "`heat` is none of 0 = off, 0 = AUS, 2 = auto, and not a number such as 72.5 or -1e2"
    );
    // Words that are literals of JSON stand for these.
    let digits = Spec {
        words: vec![("1".into(), Word::Bool(true)), ("0".into(), Word::Bool(false))],
        ..spec("", Kind::Bool)
    };
    assert_eq!(payload(&Field::new(digits).unwrap(), &bare, &Value::Bool(true)), "1");
}

#[test]
fn what_stands_for_no_value_is_not_written() {
    let not_available = vec!["unknown".into(), "-127".into()];
    let number =
        Field::new(Spec { not_available: not_available.clone(), ..spec("", Kind::Float32) }).unwrap();
    assert!(matches!(number.accept("-127.0"), Err(Refusal::Reserved { .. })));
    let word = Field::new(Spec { not_available, ..spec("", Kind::Text) }).unwrap();
    assert!(matches!(word.accept("unknown"), Err(Refusal::Reserved { .. })));
    assert!(matches!(word.accept(&"x".repeat(65_536)), Err(Refusal::Length { .. })));
}

fn any_value() -> impl Strategy<Value = (Kind, String)> {
    prop_oneof![
        any::<i64>().prop_map(|number| (Kind::Int64, number.to_string())),
        any::<u64>().prop_map(|number| (Kind::Uint64, number.to_string())),
        any::<i16>().prop_map(|number| (Kind::Int16, number.to_string())),
        any::<f32>()
            .prop_filter("finite", |f| f.is_finite())
            .prop_map(|number| (Kind::Float32, format!("{number:e}"))),
        any::<f64>()
            .prop_filter("finite", |f| f.is_finite())
            .prop_map(|number| (Kind::Float64, format!("{number:e}"))),
        any::<bool>().prop_map(|on| (Kind::Bool, on.to_string())),
        any::<String>().prop_map(|text| (Kind::Text, text)),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read_back((kind, asked) in any_value(), places in 0_u32..4, is_scaled in any::<bool>()) {
        let is_scaled = is_scaled && !matches!(kind, Kind::Bool | Kind::Text);
        let scale = if is_scaled {
            Scale::Linear { factor: Decimal::new(1, places), offset: Decimal::from(-40) }
        } else {
            Scale::NONE
        };
        let field = Field::new(Spec { scale, ..spec("a[0].b", kind) }).unwrap();
        let template = template(r#"{"a":[{"b":"{value}"}]}"#, Form::Json);
        if let Ok(accepted) = field.accept(&asked) {
            let payload = payload(&field, &template, &accepted.effective);
            let reading = field.read(&json(&payload));
            if is_scaled && kind.is_float() {
                // Two doubles can stand for one scaled double: the last digit may move.
                let Reading::Value(value) = reading else { panic!("{reading:?}") };
                let (value, effective) = (value.as_f64().unwrap(), accepted.effective.as_f64().unwrap());
                prop_assert!((value - effective).abs() <= effective.abs() * 1e-7 + 1e-5);
            } else {
                prop_assert_eq!(reading, Reading::Value(accepted.effective));
            }
        }
    }

    #[test]
    fn any_text_is_a_template_or_not(text in r#"[{}"\\:,a-z\[\] 1]{0,30}"#) {
        for form in [Form::Text, Form::Json] {
            let with_value = text.replace('a', "{value}");
            if let Ok(template) = Template::parse(&with_value, form, &[]) {
                let written = payload(&field("", Kind::Text), &template, &super::text("\"\\\n"));
                if form == Form::Json {
                    prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&written).is_ok(), "{}", written);
                }
            }
        }
    }
}
