//! Faults against the field cases, by the bytes that reach the client.

use serde_json::Value;

use super::*;
use crate::modbus::rtu::crc;

/// The field cases that the whole repository shares.
fn cases() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/cases/cases.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn case(id: &str, step: usize) -> Value {
    let cases = cases();
    let cases = cases["cases"].as_array().unwrap();
    cases.iter().find(|case| case["id"] == id).unwrap()["steps"][step].clone()
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn hexes(value: &Value) -> Vec<Vec<u8>> {
    match value {
        Value::Array(texts) => texts.iter().map(|text| hex(text.as_str().unwrap())).collect(),
        text => vec![hex(text.as_str().unwrap())],
    }
}

fn steps(fault: &str, framing: Framing, request: &[u8], answer: &[u8]) -> Vec<Step> {
    let fault: Fault = fault.parse().unwrap();
    let exchange = Exchange { framing, request, answer, count: 1 };
    fault.apply(&exchange, &mut |least, _| least, vec![Step::Send(answer.to_vec())])
}

/// What is sent, segment by segment.
fn segments(steps: &[Step]) -> Vec<Vec<u8>> {
    let sent = |step: &Step| if let Step::Send(bytes) = step { Some(bytes.clone()) } else { None };
    steps.iter().filter_map(sent).collect()
}

#[test]
fn lines_disturb_as_case_a19_says() {
    let faults = [
        ("A19-02", "echo"),
        ("A19-03", "echo-tail=3"),
        ("A19-04", "garbage-before=00"),
        ("A19-05", "garbage-before=FF"),
        ("A19-06", "garbage-after=00"),
        ("A19-07", "exception=2+garbage-before=00+garbage-after=00"),
        ("A19-08", "bit-flip"),
        ("A19-09", "drop-answers+echo"),
        ("A19-10", "second-answer=1111"),
        ("A19-12", "swapped-crc"),
        ("A19-13", "noise=FE80FE00"),
    ];
    let cases = cases();
    let vector = |id: &str| {
        cases["vectors"].as_array().unwrap().iter().find(|vector| vector["id"] == id).unwrap().clone()
    };
    let (tx, clean) =
        (hex(vector("A19-01")["tx"].as_str().unwrap()), hexes(&vector("A19-01")["rx"])[0].clone());
    for (id, fault) in faults {
        let sent = segments(&steps(fault, Framing::Rtu, &tx, &clean)).concat();
        assert_eq!(sent, hexes(&vector(id)["rx"]).concat(), "{id}: {fault}");
    }
    let bursts = steps("split-answers=3:20ms", Framing::Rtu, &tx, &clean);
    assert_eq!(segments(&bursts), hexes(&vector("A19-11")["rx"]));
    assert_eq!(bursts[1], Step::Pause(Duration::from_millis(20)));
}

#[test]
fn segments_are_cut_as_case_a15_says() {
    let request = hex("002100000006010300000004");
    let whole = hex("00210000000B01030801020304050607 08".replace(' ', "").as_str());
    let of = |step: usize| hexes(&case("A15", step)["server_sends_segments"]);
    let plain = [
        (0, "single-bytes=5ms", &whole),
        (1, "late-byte=80ms", &whole),
        (2, "split-answers=7", &whole),
        (3, "split-answers=3", &whole),
        (4, "half-answer", &whole),
        (8, "http", &whole),
    ];
    // These cases answer one register, 0001.
    let short = hex("0021000000050103020001");
    let headers = [(5, "protocol-id=1", &short), (6, "length=0", &short), (7, "length=65535", &short)];
    for (step, fault, answer) in plain.into_iter().chain(headers) {
        let done = steps(fault, Framing::Tcp, &request, answer);
        assert_eq!(segments(&done), of(step), "{fault}");
        assert_eq!(done.last() == Some(&Step::Close), step == 4, "{fault}");
    }
    let single = steps("single-bytes=5ms", Framing::Tcp, &request, &whole);
    assert_eq!(single.iter().filter(|step| **step == Step::Pause(Duration::from_millis(5))).count(), 16);
}

#[test]
fn other_units_answer_as_case_a13_says() {
    let request = hex(case("A13", 0)["client_sends"].as_str().unwrap());
    let right = hex("00010000000503030200BB");
    let both = steps("wrong-unit-first=1", Framing::Tcp, &request, &right);
    assert_eq!(segments(&both), hexes(&case("A13", 0)["server_sends"]));

    let request = hex(case("A13", 1)["client_sends"].as_str().unwrap());
    let right = hex("00020000000503030200BB");
    let wrong = steps("wrong-unit=1", Framing::Tcp, &request, &right);
    assert_eq!(segments(&wrong), hexes(&case("A13", 1)["server_sends"]));

    let request = hex(case("A13", 2)["client_sends"].as_str().unwrap());
    let foreign = steps("answer=2103020001/2003020002", Framing::Rtu, &request, &hex("20030200028582"));
    assert_eq!(segments(&foreign), hexes(&case("A13", 2)["server_sends"]));
}

#[test]
fn writes_are_answered_as_case_a17_says() {
    for (step, fault) in [(0, "exception=1"), (1, "exception=2"), (4, "bit-flip")] {
        let case = case("A17", step);
        let request = hex(case["client_sends"].as_str().unwrap());
        // A single write is answered by itself; of the multiple one only its transaction matters here.
        let sent = segments(&steps(fault, Framing::Tcp, &request, &request));
        assert_eq!(sent, hexes(&case["server_sends"]), "{fault}");
    }
}

#[test]
fn an_answer_is_late_as_case_a11_says() {
    let (request, answer) = (hex("001400000006010300640001"), hex("0014000000050103021111"));
    let late = steps("delay-answers=700ms", Framing::Tcp, &request, &answer);
    assert_eq!(late, [Step::Wait(Duration::from_millis(700)), Step::Send(answer)]);
}

#[test]
fn answers_are_changed_where_the_fault_says() {
    let (request, answer) = (hex("000700000006010300000002"), hex("000700000007010304000A000B"));
    let cases = [
        ("drop-answers", vec![]),
        ("wrong-transaction", vec!["000800000007010304000A000B"]),
        ("wrong-transaction=0", vec!["000000000007010304000A000B"]),
        ("wrong-function", vec!["000700000007010404000A000B"]),
        ("short-count", vec!["000700000007010302000A000B"]),
        ("long-count", vec!["000700000007010306000A000B"]),
        ("fewer-data", vec!["000700000005010302000A"]),
        ("more-data", vec!["000700000009010306000A000B5AA5"]),
        ("duplicate-answers", vec!["000700000007010304000A000B"; 2]),
        ("garbage-before=DEAD", vec!["DEAD000700000007010304000A000B"]),
        ("exception", vec!["00070000000301830B"]),
        ("second-answer", vec!["000700000007010304000A000B", "000700000007010304FFF5FFF4"]),
        (
            "foreign-traffic",
            vec!["000700000006020300000001000700000005020302 5AA5", "000700000007010304000A000B"],
        ),
        ("send=0102/03", vec!["0102", "03"]),
        ("swapped-crc", vec!["000700000007010304000A000B"]),
    ];
    for (fault, expected) in cases {
        let expected: Vec<_> = expected.iter().map(|text| hex(&text.replace(' ', ""))).collect();
        assert_eq!(segments(&steps(fault, Framing::Tcp, &request, &answer)), expected, "{fault}");
    }
    assert_eq!(steps("reset", Framing::Tcp, &request, &answer), [Step::Reset]);
    assert_eq!(steps("hang", Framing::Tcp, &request, &answer), [Step::Hang]);
    assert_eq!(steps("after-next", Framing::Tcp, &request, &answer), [Step::Hold, Step::Send(answer)]);
}

#[test]
fn changed_rtu_frames_have_a_right_check_sum() {
    let sealed = |body: &[u8]| [body, &crc(body)].concat();
    let (request, answer) = (sealed(&[1, 3, 0, 0, 0, 2]), sealed(&[1, 3, 4, 0, 10, 0, 11]));
    for (fault, body) in [
        ("wrong-function", &[1, 4, 4, 0, 10, 0, 11][..]),
        ("short-count", &[1, 3, 2, 0, 10, 0, 11]),
        ("fewer-data", &[1, 3, 2, 0, 10]),
        ("wrong-unit=9", &[9, 3, 4, 0, 10, 0, 0x1A]),
        ("wrong-transaction", &[1, 3, 4, 0, 10, 0, 11]),
        ("length=0", &[1, 3, 4, 0, 10, 0, 11]),
    ] {
        assert_eq!(segments(&steps(fault, Framing::Rtu, &request, &answer)), [sealed(body)], "{fault}");
    }
}

#[test]
fn a_connection_closes_after_its_count() {
    let fault: Fault = "close-after=2".parse().unwrap();
    let closes = |count| {
        let exchange = Exchange { framing: Framing::Tcp, request: &[], answer: &[1], count };
        fault.apply(&exchange, &mut |least, _| least, vec![Step::Send(vec![1])]).contains(&Step::Close)
    };
    assert_eq!([1, 2].map(closes), [false, true]);
}

#[test]
fn every_fault_is_read_back_as_it_is_written() {
    let arguments = ["", "=800ms", "=7", "=0A0B", "=10ms..90ms:7", "=7:3ms", "=010302/0304"];
    for (name, form, _) in FAULTS {
        let texts = arguments.iter().map(|argument| format!("{name}{argument}"));
        let read: Vec<(String, Fault)> =
            texts.filter_map(|text| text.parse().ok().map(|fault| (text, fault))).collect();
        assert!(!read.is_empty(), "{name}{form} cannot be written");
        for (text, fault) in read {
            assert_eq!(fault.to_string().parse(), Ok(fault), "{text}");
        }
    }
    let joined: Fault = "echo+delay-answers=2s".parse().unwrap();
    assert_eq!(joined, Fault::All(vec![Fault::Echo(None), Fault::Delay(Duration::from_secs(2))]));
    assert_eq!(joined.to_string(), "echo+delay-answers=2000ms");
}

#[test]
fn what_is_no_fault_is_told_with_what_is() {
    let error = |text: &str| text.parse::<Fault>().unwrap_err().to_string();
    let unknown = error("delay-answer=800ms");
    assert!(
        unknown.starts_with("there is no fault `delay-answer`; there are drop-answers, delay-answers=TIME")
    );
    assert!(FAULTS.iter().all(|(name, ..)| unknown.contains(name)));
    for (text, expected) in [
        ("delay-answers", "delay-answers=TIME"),
        ("delay-answers=800", "delay-answers=TIME"),
        ("delay-randomly=90ms..10ms", "delay-randomly=TIME..TIME[:SEED]"),
        ("wrong-unit=256", "wrong-unit[=UNIT]"),
        ("exception=0x100", "exception[=CODE]"),
        ("noise=F", "noise[=HEX]"),
        ("http=1", "http"),
        ("echo+length", "length=LENGTH"),
    ] {
        let bad = text.rsplit('+').next().unwrap();
        assert_eq!(error(text), format!("`{bad}`: wrong argument, expected {expected}"));
    }
}
