#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use serde_json::Value as Json;

use super::*;
use crate::codec::can::samples;

/// Where the cases and their files lie, from the root of the package.
const CASES: &str = "tests/cases";

fn file(name: &str) -> String {
    std::fs::read_to_string(format!("{}/{CASES}/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn vectors() -> Vec<Json> {
    let cases: Json = serde_json::from_str(&file("cases.json")).unwrap();
    let vectors = cases.get("vectors").unwrap().as_array().unwrap().iter();
    vectors.filter(|vector| vector.get("op").is_some_and(|op| op == "candump")).cloned().collect()
}

fn entry(line: &str) -> Entry<'_> {
    parse(line).unwrap().unwrap()
}

fn frame(line: &str) -> Frame {
    entry(line).frame
}

fn skip(line: &str) -> Skip {
    parse(line).unwrap_err()
}

fn standard(id: u32, bytes: &[u8], fd: Option<Fd>) -> Frame {
    Frame::Data(Data::new(Id::standard(id).unwrap(), bytes, fd).unwrap())
}

fn error(class: u32, data: [u8; 8]) -> Frame {
    Frame::Error(BusError { class, data })
}

/// What an entry has under the name that vectors give it.
fn part(entry: &Entry<'_>, name: &str) -> Json {
    let data = if let Frame::Data(data) = entry.frame { Some(data) } else { None };
    match (name, entry.frame) {
        // Vectors write the time as the line does: `expects` compares it.
        ("t" | "note", _) => Json::Null,
        ("ch", _) => entry.channel.into(),
        ("dir", _) => match entry.direction {
            Some(Direction::Rx) => "rx".into(),
            Some(Direction::Tx) => "tx".into(),
            None => Json::Null,
        },
        ("kind", Frame::Remote { .. }) => "remote".into(),
        ("kind", Frame::Error(_)) => "error".into(),
        ("dlc", Frame::Remote { len, .. }) => len.into(),
        ("error", Frame::Error(error)) => error.to_string().into(),
        ("id", frame) => frame.id().map(|id| id.to_string()).into(),
        ("ext", frame) => frame.id().map(Id::is_extended).into(),
        ("data", _) => data.map(|data| data.payload.to_string()).into(),
        ("len", _) => data.map(|data| data.payload.len()).into(),
        ("fd", _) => data.map(|data| data.fd.is_some()).into(),
        ("brs", _) => data.and_then(|data| data.fd).map(|fd| fd.brs).into(),
        ("esi", _) => data.and_then(|data| data.fd).map(|fd| fd.esi).into(),
        _ => Json::from(format!("no {name}")),
    }
}

/// Whether a line is read as its vector says; what differs is named.
fn expects(id: &str, line: &str, expected: &Json) {
    let Some(expected) = expected.as_object() else {
        let skip = match expected.as_str().unwrap() {
            "skip" => return assert_eq!(parse(line), Ok(None), "{id}"),
            "skip: odd number of digits" => Skip::OddDigits,
            "skip: id of 5 digits" => Skip::IdDigits(5),
            "skip: 9 bytes in a classic frame" => Skip::TooLong(9),
            "skip: id too long" => Skip::IdDigits(9),
            "skip or 1 byte, documented" => Skip::Trailing,
            other => return assert_eq!(other, "", "{id}"),
        };
        return assert_eq!(parse(line), Err(skip), "{id}");
    };
    let entry = entry(line);
    for (name, value) in expected.iter().filter(|(name, _)| !matches!(name.as_str(), "t" | "note")) {
        assert_eq!(part(&entry, name), *value, "{id}: {name}");
    }
    match expected.get("t") {
        Some(Json::Null) => assert_eq!(entry.time, None, "{id}"),
        Some(time) => assert_eq!(entry.time, seconds(time.as_str().unwrap()), "{id}"),
        None => {}
    }
}

#[test]
fn vectors_are_read() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 25);
    for vector in &vectors {
        let text = |name| vector.get(name).and_then(Json::as_str).unwrap();
        expects(text("id"), text("line"), vector.get("expected").unwrap());
        // Ends of lines change nothing.
        for end in ["\n", "\r\n"] {
            expects(text("id"), &format!("{}{end}", text("line")), vector.get("expected").unwrap());
        }
    }
}

#[test]
fn bad_lines_of_a_log_cost_no_others() {
    let log = file("files/C14_candump_mixed.log");
    let read = log.lines().map(parse).collect::<Vec<_>>();
    assert_eq!(read.len(), 25);
    assert_eq!(read.iter().filter(|line| matches!(line, Ok(Some(_)))).count(), 18);
    assert_eq!(read.iter().filter(|line| matches!(line, Ok(None))).count(), 2);
    assert_eq!(
        read.iter().filter_map(|line| line.err()).collect::<Vec<_>>(),
        [Skip::OddDigits, Skip::IdDigits(5), Skip::TooLong(9), Skip::IdDigits(9), Skip::Trailing]
    );
}

#[test]
fn a_log_of_windows_is_read() {
    let log = file("files/C14_candump_crlf.log");
    let read = log.split_terminator('\n').map(frame).collect::<Vec<_>>();
    let extended = Data::new(Id::extended(0x123).unwrap(), &[1], None).unwrap();
    assert_eq!(
        read,
        [standard(0x123, &[0xDE, 0xAD, 0xBE, 0xEF], None), Frame::Data(extended), standard(0x7FF, &[], None)]
    );
}

#[test]
fn every_form_of_time_is_read() {
    for (text, nanoseconds) in [
        ("1767225600.123456", 1_767_225_600_123_456_000),
        ("1767225600.123456789", 1_767_225_600_123_456_789),
        ("1767225600.2", 1_767_225_600_200_000_000),
        ("0000000023.000001", 23_000_001_000),
        ("000.000000", 0),
        ("7", 7_000_000_000),
        ("18446744073709551615.999999999", 18_446_744_073_709_551_615_999_999_999),
        ("2026-01-01 00:00:00.123456", 1_767_225_600_123_456_000),
        ("2024-02-29 23:59:59.999999999", 1_709_251_199_999_999_999),
        ("1970-01-01 00:00:00.000000", 0),
    ] {
        let line = format!("({text}) can0 123#01");
        assert_eq!(entry(&line).time.unwrap().as_nanos(), nanoseconds, "{text}");
    }
    for text in [
        "",
        ".5",
        "1.",
        "-1.0",
        "+1.0",
        "1.-5",
        "1.0000000000",
        "1e3",
        "1,5",
        "18446744073709551616.0",
        "2025-02-29 00:00:00.0",
        "2026-01-01 24:00:00.0",
        "2026-01-01 00:00:00",
        "1969-12-31 23:59:59.0",
        "2026-01-01",
    ] {
        assert_eq!(skip(&format!("({text}) can0 123#01")), Skip::Time, "{text}");
    }
    assert_eq!(skip("(1767225600.0 can0 123#01"), Skip::Time);
    assert_eq!(entry("can0 123#01").time, None);
}

#[test]
fn log_spellings() {
    let deadbeef = standard(0x123, &[0xDE, 0xAD, 0xBE, 0xEF], None);
    for body in ["123#DEADBEEF", "123#deadbeef", "123#DE.AD.BE.EF", "123#.DEAD.BEEF."] {
        assert_eq!(frame(&format!("(1.0) can0 {body}")), deadbeef, "{body}");
    }
    // Names of interfaces are brought to one width.
    assert_eq!(entry("(1.0)   can0 123#DEADBEEF   T").channel, "can0");

    let fd = |brs, esi| Some(Fd { brs, esi });
    for (body, flags) in [
        ("123##0", fd(false, false)),
        ("123##1", fd(true, false)),
        ("123##2", fd(false, true)),
        ("123##4", fd(false, false)),
        ("123##5", fd(true, false)),
        ("123##7", fd(true, true)),
    ] {
        assert_eq!(frame(&format!("(1.0) can0 {body}0102")), standard(0x123, &[1, 2], flags), "{body}");
        assert_eq!(frame(&format!("(1.0) can0 {body}")), standard(0x123, &[], flags), "{body}");
    }

    let remote = |id, len| Frame::Remote { id, len };
    let (id, extended) = (Id::standard(0x7A1).unwrap(), Id::extended(0x1FFF_FFFF).unwrap());
    assert_eq!(frame("(1.0) can0 7A1#r"), remote(id, 0));
    assert_eq!(frame("(1.0) can0 7A1#R0"), remote(id, 0));
    assert_eq!(frame("(1.0) can0 7A1#R7 R"), remote(id, 7));
    assert_eq!(frame("(1.0) can0 1FFFFFFF#R"), remote(extended, 0));

    assert_eq!(frame("(1.0) can0 20000040#0000000000000000"), error(BusError::BUS_OFF, [0; 8]));
    assert_eq!(frame("(1.0) can0 3FFFFFFF#010203"), error(0x1FFF_FFFF, [1, 2, 3, 0, 0, 0, 0, 0]));
}

#[test]
fn log_lines_that_are_passed_over() {
    for (body, reason) in [
        ("123#1122_9", Skip::RawDlc),
        ("123#1122334455667788_E", Skip::RawDlc),
        ("123#R8_9", Skip::RawDlc),
        ("45123#81:00:12345678#11223344.556677", Skip::Xl),
        ("123#R9", Skip::RemoteLength),
        ("123#R12", Skip::RemoteLength),
        ("123#Rx", Skip::RemoteLength),
        ("123##", Skip::Flags),
        ("123##x00", Skip::Flags),
        ("123##0112233445566778899", Skip::FdLength(9)),
        ("123##00", Skip::OddDigits),
        ("#00", Skip::IdDigits(0)),
        ("12G#00", Skip::Id),
        ("+12#00", Skip::Id),
        ("800#00", Skip::IdRange),
        ("40000000#00", Skip::IdRange),
        ("A0000001#00", Skip::IdRange),
        ("123#0G", Skip::Digits),
        ("123#0..1", Skip::Digits),
        ("123#+1", Skip::Digits),
        ("123#1é", Skip::Digits),
        ("123#é", Skip::Digits),
        ("20000004#R", Skip::ErrorForm),
        ("20000004##0", Skip::ErrorForm),
        ("20000004#112233445566778899", Skip::TooLong(9)),
        ("123#00 X", Skip::Trailing),
        ("123#00 T T", Skip::Trailing),
    ] {
        assert_eq!(skip(&format!("(1.0) can0 {body}")), reason, "{body}");
    }
    let long = format!("(1.0) can0 123##1{}", "00".repeat(65));
    assert_eq!(skip(&long), Skip::FdLength(65));
    assert_eq!(skip(&format!("can0 123#{}", "00".repeat(100_000))), Skip::TooLong(100_000));
}

#[test]
fn screen_spellings() {
    let deadbeef = standard(0x123, &[0xDE, 0xAD, 0xBE, 0xEF], None);
    for line in [
        " can0  123   [4]  DE AD BE EF",
        " can0       123   [4]  DE AD BE EF",
        " can0  123   [4]  DE AD BE EF               '....'",
        " can0  123   [4]  DE AD BE EF               ' 'x '",
        " can0  123   {4}  DE AD BE EF",
        " can0  123   [4]  EF`BE`AD`DE",
        " can0  123   [4]  EF`BE`AD`DE               `....`",
        " can0  123   [4]  11011110 10101101 10111110 11101111",
        " can0  123   [4]  11101111`10111110`10101101`11011110",
        " \x1B[1m\x1B[34mcan0\x1B[0m  123   [4]  DE AD BE EF",
        " \x1B[1m\x1B[31mcan0  123   [4]  DE AD BE EF\x1B[0m",
        " \x1B[1m\x1B[34m(1.0)  can0  123   [4]  DE AD BE EF\x1B[0m",
    ] {
        assert_eq!((entry(line).channel, frame(line)), ("can0", deadbeef), "{line}");
    }
    assert_eq!(frame("can0  123   [0]"), standard(0x123, &[], None));
    assert_eq!(frame("can0  123   [0]    ''"), standard(0x123, &[], None));
    assert_eq!(frame("can0  123   [1]  41   `A`"), standard(0x123, &[0x41], None));
    let id = Id::extended(0x123).unwrap();
    assert_eq!(frame("can0  00000123   [7]  remote request"), Frame::Remote { id, len: 7 });
    assert_eq!(
        frame("can0  20000004   [8]  00 01 00 00 00 00 00 00   ERRORFRAME"),
        error(BusError::CONTROLLER, [0, 1, 0, 0, 0, 0, 0, 0])
    );
}

#[test]
fn two_digits_of_length_stand_for_can_fd() {
    let fd = Some(Fd::default());
    assert_eq!(frame("can0  123  [02]  01 02"), standard(0x123, &[1, 2], fd));
    assert_eq!(frame("can0  123  [00]"), standard(0x123, &[], fd));
    assert_eq!(frame("can0  123   [2]  01 02"), standard(0x123, &[1, 2], None));
    assert_eq!(frame(&format!("can0  123  [64] {}", " AA".repeat(64))), standard(0x123, &[0xAA; 64], fd));
}

#[test]
fn the_screen_tells_direction_and_flags() {
    let line = " (1.0)  can0  RX - -  123   [1]  01";
    assert_eq!(entry(line).direction, Some(Direction::Rx));
    assert_eq!(frame(line), standard(0x123, &[1], None));
    for (flags, brs, esi) in
        [("- -", false, false), ("B -", true, false), ("- E", false, true), ("B E", true, true)]
    {
        let line = format!(" (1.0)  can0  TX {flags}  123  [01]  01");
        assert_eq!(entry(&line).direction, Some(Direction::Tx), "{flags}");
        assert_eq!(frame(&line), standard(0x123, &[1], Some(Fd { brs, esi })), "{flags}");
    }
}

#[test]
fn screen_lines_that_are_passed_over() {
    for (line, reason) in [
        ("can0  123   [4]  DE AD BE", Skip::Length(4)),
        ("can0  123   [4]  DE AD BE EF 00", Skip::Length(4)),
        ("can0  123   [4]  DE AD BE   'abc'", Skip::Length(4)),
        ("can0  123   [3]  EF`BE`AD`DE", Skip::Length(3)),
        ("can0  123   [2]  EF`BE`", Skip::Length(2)),
        ("can0  20000004   [8]  00 00   ERRORFRAME", Skip::Length(8)),
        ("can0  123   [2]  DE AG", Skip::Digits),
        ("can0  123   [1]  01201010", Skip::Digits),
        ("can0  123   [9]  00 01 02 03 04 05 06 07 08", Skip::TooLong(9)),
        ("can0  123  [09]  00 01 02 03 04 05 06 07 08", Skip::FdLength(9)),
        ("can0  123   [9]  remote request", Skip::RemoteLength),
        ("can0  123  [08]  remote request", Skip::Length(8)),
        ("can0  20000004   [8]  remote request", Skip::ErrorForm),
        ("can0  123   {B}  11 22 33 44 55 66 77 88", Skip::RawDlc),
        ("can0       123 [0003] (45|81:00:12345678) 11 22 33", Skip::Xl),
        ("can0  RX S -       123 [0003] (45|81:00:12345678) 11 22 33", Skip::Xl),
        ("can0  1234   [0]", Skip::IdDigits(4)),
        ("can0  FFF   [0]", Skip::IdRange),
        ("can0  TX x -  123   [0]", Skip::NoFrame),
        ("can0  123   [ 4]  DE AD BE EF", Skip::NoFrame),
        ("can0  123   []", Skip::NoFrame),
        ("can0  123   [+1]  00", Skip::NoFrame),
        ("DROPCOUNT: dropped 3 CAN frames on 'can0' socket (total drops 5)", Skip::NoFrame),
        ("\tcontroller-problem{rx-overflow}", Skip::NoFrame),
        ("(1.0) can0", Skip::NoFrame),
        ("(1.0)", Skip::NoFrame),
    ] {
        assert_eq!(skip(line), reason, "{line}");
    }
}

#[test]
fn comments_and_blanks_are_nothing() {
    for line in ["", "   ", "\r\n", "# a", "  # (1.0) can0 123#00", "\x1B[0m", "\x1B["] {
        assert_eq!(parse(line), Ok(None), "{line:?}");
    }
}

#[test]
fn lines_are_written_as_candump_does() {
    let written = |seconds, nanoseconds, frame: &Frame| {
        let mut out = String::new();
        write(&mut out, Duration::new(seconds, nanoseconds), "vcan0", frame);
        out
    };
    let id = Id::standard(0x12).unwrap();
    let extended = Id::extended(0x12).unwrap();
    let fd = |brs, esi| standard(0x12, &[0xAB], Some(Fd { brs, esi }));
    for (frame, line) in [
        (standard(0x12, &[0xAB, 0xC], None), "012#AB0C"),
        (standard(0x12, &[], None), "012#"),
        (Frame::Data(Data::new(extended, &[1], None).unwrap()), "00000012#01"),
        (Frame::Remote { id, len: 0 }, "012#R"),
        (Frame::Remote { id, len: 8 }, "012#R8"),
        (fd(false, false), "012##0AB"),
        (fd(true, false), "012##1AB"),
        (fd(false, true), "012##2AB"),
        (fd(true, true), "012##3AB"),
        (error(0x40, [0, 1, 2, 3, 4, 5, 6, 0xFF]), "20000040#00010203040506FF"),
    ] {
        assert_eq!(
            written(1_767_225_600, 123_456_789, &frame),
            format!("(1767225600.123456) vcan0 {line}\n")
        );
    }
    assert_eq!(written(23, 1_999, &fd(false, false)), "(0000000023.000001) vcan0 012##0AB\n");
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        frame in prop_oneof![samples::classic(), samples::fd(any::<bool>()), samples::errors()],
        seconds in any::<u64>(),
        micros in 0..1_000_000_u32,
        channel in "[a-z]{1,8}[0-9]{0,2}",
    ) {
        let time = Duration::new(seconds, micros * 1000);
        let mut line = String::new();
        write(&mut line, time, &channel, &frame);
        let entry = Entry { time: Some(time), channel: &channel, frame, direction: None };
        prop_assert_eq!(parse(&line), Ok(Some(entry)));
    }

    #[test]
    fn any_text_is_a_possible_frame_or_passed_over(
        line in prop_oneof![
            any::<String>(),
            "(\\([0-9.: -]{0,12}\\) )?can0 +[0-9A-F]{2,8}( +[\\[{][0-9A-F]{1,4}[\\]}] +|#{1,2})\
             (([0-9A-F]{2}[ .`]?){0,10}|R[0-9]?(_9)?|remote request)( [TR'])?.{0,3}",
        ],
    ) {
        if let Ok(Some(entry)) = parse(&line) {
            prop_assert!(line.contains(entry.channel));
            match entry.frame {
                Frame::Data(data) => {
                    prop_assert_eq!(Data::new(data.id, data.payload.bytes(), data.fd), Some(data));
                }
                Frame::Remote { len, .. } => prop_assert!(len <= 8),
                Frame::Error(error) => prop_assert!(error.class <= ERROR_MASK),
            }
        }
    }
}
