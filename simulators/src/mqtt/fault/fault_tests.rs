//! Faults by the payloads that come out of them.

use super::*;

fn payload(fault: &Fault, publication: Publication) -> String {
    let message = fault.apply(publication).map(|publication| publication.message);
    message.map_or_else(|| "nothing".to_owned(), |message| message.text().to_owned())
}

#[test]
fn values_are_spoilt_as_told() {
    let json = r#"{"t":-2.5e3,"list":[1,{"h":40}],"name":"a1 \" 2","h":41.0}"#;
    for (fault, expected) in [
        ("cut-json", r#"{"t":-2.5e3,"list":[1,{"h":40"#),
        ("nan", r#"{"t":nan,"list":[nan,{"h":nan}],"name":"a1 \" 2","h":nan}"#),
        ("nan=h", r#"{"t":-2.5e3,"list":[1,{"h":nan}],"name":"a1 \" 2","h":nan}"#),
        ("pad=12", r#"{"t":-2.5e3,"list":[1,{"h":40}],"name":"a1 \" 2","h":41.0,"pad":"xxx"}"#),
        ("silence", "nothing"),
        ("slow-confirm=1s", json),
    ] {
        let fault: Fault = fault.parse().unwrap();
        assert_eq!(payload(&fault, Publication::value("a", json)), expected, "{fault}");
    }
}

#[test]
fn bare_values_are_spoilt_too() {
    for (fault, expected) in [("cut-json", "48"), ("nan", "nan"), ("nan=h", "48.25"), ("pad=2", "48.25  ")] {
        let fault: Fault = fault.parse().unwrap();
        assert_eq!(payload(&fault, Publication::value("a", "48.25")), expected, "{fault}");
    }
}

#[test]
fn a_status_is_right_or_not_there() {
    for fault in ["cut-json", "nan", "pad=9", "retained-garbage"] {
        let fault: Fault = fault.parse().unwrap();
        let status = Publication::status("a", r#"{"v":1}"#);
        assert_eq!(fault.apply(status.clone()), Some(status), "{fault}");
    }
    assert_eq!(Fault::Silence.apply(Publication::status("a", "online")), None);
}

#[test]
fn garbage_takes_the_place_of_what_is_retained() {
    let value = Fault::Garbage.apply(Publication::value("a", "1").retained()).unwrap();
    assert_eq!((value.message.text(), value.message.retain), ("1", false));
    assert!(garbage("a").retain && std::str::from_utf8(&garbage("a").payload).is_err());
}

#[test]
fn every_fault_has_a_text_that_makes_it() {
    for text in [
        "silence",
        "offline",
        "cut-json",
        "nan",
        "nan=power",
        "pad=65535",
        "flood=2000",
        "retained-garbage",
        "slow-confirm=1500ms",
        "ignore-commands",
    ] {
        assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        let name = text.split('=').next().unwrap();
        assert!(FAULTS.iter().any(|(known, ..)| *known == name), "{name}");
    }
    assert_eq!("slow-confirm=2s".parse(), Ok(Fault::Slow(Duration::from_secs(2))));
}

#[test]
fn what_is_no_fault_says_what_would_be() {
    let error = |text: &str| text.parse::<Fault>().unwrap_err().to_string();
    assert_eq!(error("flood"), "`flood` is no fault, the form is `flood=COUNT`");
    assert_eq!(error("flood=0"), "`flood=0` is no fault, the form is `flood=COUNT`");
    assert_eq!(error("silence=1"), "`silence=1` is no fault, the form is `silence`");
    assert_eq!(error("slow-confirm=3"), "`slow-confirm=3` is no fault, the form is `slow-confirm=TIME`");
    assert!(
        error("noise")
            .starts_with("unknown fault `noise`, allowed are silence, offline, cut-json, nan[=KEY]")
    );
}
