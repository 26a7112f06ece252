//! Words for numbers, both ways.

use super::*;

fn labelled(format: Format, labels: &[(i64, &str)]) -> Format {
    let labels = Labels::new(labels.iter().map(|(number, word)| (*number, (*word).into())));
    Format { labels: Some(Arc::new(labels)), ..format }
}

#[test]
fn a_word_is_read_before_a_number() {
    let mode = labelled(plain(Kind::Int16), &[(0, "off"), (1, "auto"), (-1, "fault")]);
    for (text, number) in [("auto", 1), ("AUTO", 1), ("fault", -1), ("1", 1), ("7", 7)] {
        let accepted = mode.accept(text).unwrap();
        let value = Value::I64(number);
        assert_eq!(accepted, Accepted { requested: value.clone(), effective: value }, "{text}");
    }
    let codec = mode.codec();
    assert_eq!(codec.label(&Value::I64(-1)).as_deref(), Some("fault"));
    assert_eq!(codec.label(&Value::I64(7)), None);
    assert_eq!(plain(Kind::Int16).codec().label(&Value::I64(1)), None);
    assert_eq!(
        mode.accept("on").unwrap_err().to_string(),
        "`on` is none of 0 = off, 1 = auto, -1 = fault, and not a number such as 72.5 or -1e2"
    );
    assert_eq!(mode.accept("40000").unwrap_err().rule(), Rule::RawRange);
}

#[test]
fn a_word_that_may_be_two_numbers_is_refused() {
    let mode = labelled(plain(Kind::Uint16), &[(0, "On"), (1, "on"), (2, "hot"), (3, "hot")]);
    assert_eq!(mode.accept("on").unwrap().effective, Value::U64(1));
    assert_eq!(mode.accept("On").unwrap().effective, Value::U64(0));
    for word in ["ON", "hot"] {
        assert_eq!(mode.accept(word).unwrap_err().rule(), Rule::Type, "{word}");
    }
}

#[test]
fn a_number_is_a_number_whatever_words_there_are() {
    let gear = labelled(plain(Kind::Uint16), &[(0, "P"), (2, "N"), (3, "1"), (4, "2"), (5, "+3")]);
    for (text, number) in [("2", 2), ("1", 1), ("-0", 0), ("+3", 5), ("n", 2)] {
        assert_eq!(gear.accept(text).unwrap().effective, Value::U64(number), "{text}");
    }
}

/// A contact that opens: what it is called says the opposite of the bit.
#[test]
fn words_of_a_bit_win_over_on_and_off() {
    let contact = labelled(Format { part: Part::Bit(2), ..plain(Kind::Bool) }, &[(0, "on"), (1, "off")]);
    assert_eq!(contact.accept("on").unwrap().effective, Value::Bool(false));
    assert_eq!(contact.accept("true").unwrap().effective, Value::Bool(true));
    assert_eq!(contact.codec().label(&Value::Bool(false)).as_deref(), Some("on"));
    let refusal = contact.accept("open").unwrap_err().to_string();
    assert_eq!(refusal, "`open` is none of 0 = on, 1 = off, and not one of true, false, on, off, 1, 0");
}

#[test]
fn many_words_are_not_all_listed() {
    let labels: Vec<(i64, String)> = (0..30).map(|number| (number, format!("w{number}"))).collect();
    let labels: Vec<(i64, &str)> = labels.iter().map(|(number, word)| (*number, word.as_str())).collect();
    let refusal = labelled(plain(Kind::Uint16), &labels).accept("x").unwrap_err().to_string();
    assert!(refusal.contains("19 = w19 and 10 more"), "{refusal}");
}
