//! What a person reads of a scan.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::{codec::topic::Pattern, drivers::mqtt::scan::Topic};

/// Topics of several devices, some of them odd.
pub(in crate::cli::scan::mqtt) fn heard() -> Heard {
    let mut heard = Heard { messages: 31, left_out: 2, ..Heard::default() };
    let state = r#"{"state":"OFF","power":0,"energy":5.31,"child_lock":null,"update":{"state":"idle"}}"#;
    for (topic, payload) in [
        ("zigbee2mqtt/plug_3", state),
        ("zigbee2mqtt/plug_3/availability", r#"{"state":"online"}"#),
        ("zigbee2mqtt/plug_4", state),
        ("zigbee2mqtt/plug_4/availability", r#"{"state":"offline"}"#),
        ("zigbee2mqtt/thermo", r#"{"temperature":21.5,"a.b":[1,2],"switch:0":true}"#),
        ("zigbee2mqtt/thermo/odd{level}", "1"),
        ("stat/shed/POWER", "ON"),
        ("\u{1b}[2Jhidden", "\u{7}"),
        ("plain/number", "21.50"),
        ("plain/text", "an open door"),
        ("plain/json", "[]"),
    ] {
        let topic_of = Topic {
            messages: 3,
            retained: 1,
            payload: payload.as_bytes().to_vec().into(),
            size: payload.len(),
        };
        heard.topics.insert(topic.to_owned(), topic_of);
    }
    heard
}

#[test]
fn what_was_heard() {
    let heard = heard();
    let filters = [Pattern::parse("zigbee2mqtt/{device}/#").unwrap(), Pattern::parse("#").unwrap()];
    let mut readers = Readers::new();
    readers.insert(Pattern::parse("zigbee2mqtt/plug_3").unwrap(), "plug".to_owned());
    let time = Duration::from_millis(9_980);
    let named = render(&heard, &Devices::of(&heard, &filters), Some(&readers), time);
    let plain = render(&heard, &Devices::of(&heard, &filters[1..]), None, time);
    let none = render(&Heard::default(), &Devices(Vec::new()), None, time);
    insta::assert_snapshot!("heard", [named, plain, none].join("---\n"));
}

#[test]
fn a_cell_that_is_far_too_long_widens_no_other_and_ends_nothing() {
    let long = "x".repeat(70_000);
    let rows = [["TOPIC", "N"], [&long, "1"], ["a", "2"]].map(|row| row.map(str::to_owned).to_vec());
    let text = aligned(&rows);
    let lengths = text.lines().map(str::len).collect::<Vec<_>>();
    assert_eq!(lengths, [123, 70_003, 123]);
}
