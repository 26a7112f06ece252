//! Times of payloads.

use std::time::{Duration, SystemTime};

use super::*;

fn read(clock: Clock, payload: &str) -> Result<Option<Duration>, String> {
    let stamp = Stamp { path: path("ts"), clock };
    let time = stamp.read(&json(payload)).map_err(|fault| fault.to_string())?;
    Ok(time.map(|time| time.duration_since(SystemTime::UNIX_EPOCH).unwrap()))
}

#[test]
fn moments() {
    let at = Duration::from_millis;
    for (clock, payload, time) in [
        (Clock::Rfc3339, r#"{"ts":"2026-01-01T00:00:00Z"}"#, at(1_767_225_600_000)),
        (Clock::Rfc3339, r#"{"ts":"2026-01-01T01:30:00.25+01:30"}"#, at(1_767_225_600_250)),
        (Clock::Rfc3339, r#"{"ts":"2016-12-31T23:59:60Z"}"#, at(1_483_228_800_000)),
        (Clock::UnixSeconds, r#"{"ts":1767225601.88}"#, at(1_767_225_601_880)),
        (Clock::UnixSeconds, r#"{"ts":"1767225601"}"#, at(1_767_225_601_000)),
        (Clock::UnixSeconds, r#"{"ts":1.767225601e9}"#, at(1_767_225_601_000)),
        (Clock::UnixMillis, r#"{"ts":1767225601880}"#, at(1_767_225_601_880)),
        (Clock::UnixSeconds, r#"{"ts":0}"#, at(0)),
    ] {
        assert_eq!(read(clock, payload), Ok(Some(time)), "{payload}");
    }
    for payload in ["{}", r#"{"ts":null}"#, "null"] {
        assert_eq!(read(Clock::Rfc3339, payload), Ok(None));
    }
}

#[test]
fn what_is_no_moment_is_named() {
    let bad = [
        (Clock::Rfc3339, r#"{"ts":"2026-03-04T10:20:30"}"#),
        (Clock::Rfc3339, r#"{"ts":"2026-02-30T10:20:30Z"}"#),
        (Clock::Rfc3339, r#"{"ts":"1969-12-31T23:59:59Z"}"#),
        (Clock::Rfc3339, r#"{"ts":1767225601}"#),
        (Clock::UnixSeconds, r#"{"ts":1767225601880}"#),
        (Clock::UnixSeconds, r#"{"ts":-1}"#),
        (Clock::UnixSeconds, r#"{"ts":1e300}"#),
        (Clock::UnixSeconds, r#"{"ts":nan}"#),
        (Clock::UnixMillis, r#"{"ts":"soon"}"#),
        (Clock::UnixMillis, r#"{"ts":true}"#),
    ];
    let errors = bad.map(|(clock, payload)| read(clock, payload).unwrap_err());
    insta::assert_snapshot!(errors.join("\n"));
}

proptest! {
    #[test]
    fn any_text_is_a_moment_or_not(text in ".{0,40}", number in any::<f64>()) {
        for clock in [Clock::Rfc3339, Clock::UnixSeconds, Clock::UnixMillis] {
            drop(read(clock, &serde_json::json!({ "ts": text }).to_string()));
            drop(read(clock, &serde_json::json!({ "ts": number }).to_string()));
        }
    }
}
