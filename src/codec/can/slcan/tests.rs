#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::codec::can::{BusError, Payload, held, samples};

/// What is told when bytes come at once.
fn told(bytes: &[u8]) -> Vec<Told> {
    let mut reader = Reader::new();
    reader.push(bytes);
    reader.collect()
}

fn data(id: Id, bytes: &[u8], fd: Option<Fd>) -> Frame {
    Frame::Data(Data::new(id, bytes, fd).unwrap())
}

fn standard(id: u32) -> Id {
    Id::standard(id).unwrap()
}

fn extended(id: u32) -> Id {
    Id::extended(id).unwrap()
}

fn garbled(text: &str) -> Told {
    Told::Garbled(text.to_owned())
}

fn line(frame: &Frame) -> String {
    let mut out = Vec::new();
    assert!(put(&mut out, frame), "{frame:?}");
    String::from_utf8(out).unwrap()
}

const FD: Option<Fd> = Some(Fd { brs: false, esi: false });
const BRS: Option<Fd> = Some(Fd { brs: true, esi: false });

#[test]
fn frames_of_every_kind_are_read() {
    let long = (0..64).collect::<Vec<u8>>();
    let digits = Payload::new(&long).unwrap().to_string();
    for (text, frame, time) in [
        ("t1232DEAD", data(standard(0x123), &[0xDE, 0xAD], None), None),
        ("t1232dead", data(standard(0x123), &[0xDE, 0xAD], None), None),
        ("t1230", data(standard(0x123), &[], None), None),
        ("t1232DEADEA5F", data(standard(0x123), &[0xDE, 0xAD], None), Some(59_999)),
        ("t12300001", data(standard(0x123), &[], None), Some(1)),
        ("t7FF80102030405060708ffff", data(standard(0x7FF), &[1, 2, 3, 4, 5, 6, 7, 8], None), Some(65_535)),
        ("T1FFFFFFF1AB", data(extended(0x1FFF_FFFF), &[0xAB], None), None),
        ("T000001231AB0010", data(extended(0x123), &[0xAB], None), Some(16)),
        ("x000001231AB", data(extended(0x123), &[0xAB], None), None),
        ("r1238", Frame::Remote { id: standard(0x123), len: 8 }, None),
        ("r1232ABCD", Frame::Remote { id: standard(0x123), len: 2 }, Some(0xABCD)),
        ("r12310000", Frame::Remote { id: standard(0x123), len: 1 }, Some(0)),
        ("r123100", Frame::Remote { id: standard(0x123), len: 1 }, None),
        ("r1233000000", Frame::Remote { id: standard(0x123), len: 3 }, None),
        ("r12330000000001", Frame::Remote { id: standard(0x123), len: 3 }, Some(1)),
        ("R000001230", Frame::Remote { id: extended(0x123), len: 0 }, None),
        ("d12310A", data(standard(0x123), &[10], FD), None),
        ("D000001239000102030405060708090a0b", data(extended(0x123), long.get(..12).unwrap(), FD), None),
        ("b1230", data(standard(0x123), &[], BRS), None),
        ("b1238000102030405060700FF", data(standard(0x123), long.get(..8).unwrap(), BRS), Some(255)),
        (&format!("B1FFFFFFFF{digits}EA5F"), data(extended(0x1FFF_FFFF), &long, BRS), Some(59_999)),
        (&format!("B1FFFFFFFf{digits}"), data(extended(0x1FFF_FFFF), &long, BRS), None),
    ] {
        assert_eq!(told(format!("{text}\r").as_bytes()), [Told::Frame(frame, time)], "{text}");
    }
}

#[test]
fn answers_are_read() {
    assert_eq!(told(b"\rz\rZ\r\x07"), [Told::Accepted, Told::Accepted, Told::Accepted, Told::Refused]);
    assert_eq!(told(b"V1013\rNA123\r"), [Told::Version("1013".into()), Told::Serial("A123".into())]);
    assert_eq!(told(b"vSTRING\r"), [Told::Version("STRING".into())]);
    assert_eq!(told(b"F00\rFa4\rFFF\r"), [Told::Flags(0), Told::Flags(0xA4), Told::Flags(0xFF)]);
    // Some adapters send a line feed behind each line.
    assert_eq!(told(b"\r\nz\r\nt1230\r\n").len(), 3);
}

#[test]
fn lines_that_are_no_frames_are_told() {
    for text in [
        "t",
        "t12",
        "t123",
        "t12g0",
        "t8000",
        "t1231",
        "t1231A",
        "t1231ABC",
        "t1231ABCDE",
        "t1231ABCDEF12",
        "t1239",
        "t+120",
        "T123",
        "T200000000",
        "T000001231",
        "r1239",
        "r123212",
        "R00000123",
        "d1239",
        "dFFF0",
        "b123A00",
        "F",
        "F0",
        "F+1",
        "F000",
        "q",
        "zz",
        "t123\u{e9}",
        "1230",
    ] {
        let told = told(format!("{text}\rz\r").as_bytes());
        assert!(matches!(told.as_slice(), [Told::Garbled(_), Told::Accepted]), "{text}: {told:?}");
    }
    // CANable's firmware tells where it comes from, and may begin as a frame does.
    let version = "b158aa7 github.com/normaldotcom/canable2-fw";
    assert_eq!(told(format!("{version}\r").as_bytes()), [garbled(version)]);
    assert_eq!(told(b"\x00\xFFt1230\r"), [garbled("\\x00\\xfft1230")]);
}

#[test]
fn a_bell_ends_a_line() {
    assert_eq!(
        told(b"t12\x07t1230\r"),
        [garbled("t12"), Told::Refused, Told::Frame(data(standard(0x123), &[], None), None)]
    );
    assert_eq!(told(b"t1230\x07"), [Told::Frame(data(standard(0x123), &[], None), None), Told::Refused]);
    assert_eq!(told(b"\x07\x07\r"), [Told::Refused, Told::Refused, Told::Accepted]);
}

#[test]
fn a_long_line_is_told_once_and_ends_at_its_end() {
    let frame = Told::Frame(data(standard(0x123), &[], None), None);
    for length in [LONGEST + 1, LONGEST + 2, 2 * LONGEST + 2, 2 * LONGEST + 3, 1000] {
        let junk = "A".repeat(length);
        let shown = garbled(&format!("{}...", "A".repeat(60)));
        assert_eq!(told(format!("{junk}\rt1230\r").as_bytes()), [shown.clone(), frame.clone()], "{length}");
        assert_eq!(
            told(format!("{junk}\x07t1230\r").as_bytes()),
            [shown, Told::Refused, frame.clone()],
            "{length}"
        );
    }
    assert_eq!(told(format!("{}\rz\r", "A".repeat(LONGEST)).as_bytes()).len(), 2);
}

#[test]
fn the_longest_line_may_lack_its_end_for_long() {
    let mut bytes = Vec::new();
    let frame = data(extended(1), &[0xAB; 64], BRS);
    assert!(put(&mut bytes, &frame));
    bytes.pop();
    bytes.extend_from_slice(b"1234");
    assert_eq!(bytes.len(), LONGEST);
    let mut reader = Reader::new();
    reader.push(&bytes);
    assert_eq!(reader.next(), None);
    reader.push(b"\r");
    assert_eq!(reader.next(), Some(Told::Frame(frame, Some(0x1234))));
}

#[test]
fn what_is_not_taken_is_bounded_and_told() {
    let mut reader = Reader::new();
    for _ in 0..10_000 {
        reader.push(b"t1232DEAD\rT000001231AB\r");
        assert!(reader.held.capacity() <= 2 * held::MOST);
    }
    let told = reader.by_ref().collect::<Vec<_>>();
    let (first, rest) = told.split_first().unwrap();
    assert_eq!(*first, garbled("more than could be held"));
    assert!(rest.len() > 5_000);
    assert!(rest.iter().all(|told| matches!(told, Told::Frame(..))));
    reader.push(b"z\r");
    assert_eq!(reader.collect::<Vec<_>>(), [Told::Accepted]);
}

#[test]
fn a_line_that_was_left_unfinished_becomes_no_frame() {
    let reset = reset();
    assert!(reset.ends_with(b"?\rC\r"));
    let spoilt = reset.strip_suffix(b"\rC\r").unwrap();
    assert!(spoilt.iter().all(|byte| *byte == b'?'), "no digit of any kind");
    assert!(spoilt.len() > LONGEST);
}

#[test]
fn commands() {
    let rate = |bits| Bitrate::from_bits(bits).unwrap();
    assert_eq!(open(rate(500_000), None, false), b"S6\rO\r");
    assert_eq!(open(rate(1_000_000), DataBitrate::from_bits(5_000_000), false), b"S8\rY5\rO\r");
    assert_eq!(open(rate(10_000), DataBitrate::from_bits(2_000_000), true), b"S0\rY2\rL\r");
    let digits = [20_000, 50_000, 83_300, 83_333, 100_000, 125_000, 250_000, 750_000, 800_000]
        .map(|bits| rate(bits).0);
    assert_eq!(digits, ['1', '2', '9', '9', '3', '4', '5', '7', '7']);
    assert_eq!(Bitrate::from_bits(500_001), None);
    assert_eq!(DataBitrate::from_bits(6_000_000), None);
    assert!(Bitrate::allowed().all(|bits| Bitrate::from_bits(bits).is_some()));
    assert!(DataBitrate::allowed().all(|bits| DataBitrate::from_bits(bits).is_some()));
}

#[test]
fn frames_are_sent_as_python_can_does() {
    for (frame, text) in [
        (data(standard(0x1A), &[0xAB, 1], None), "t01A2AB01\r"),
        (data(extended(0x1A), &[], None), "T0000001A0\r"),
        (Frame::Remote { id: standard(0x7FF), len: 8 }, "r7FF8\r"),
        (Frame::Remote { id: extended(0x1FFF_FFFF), len: 0 }, "R1FFFFFFF0\r"),
        (data(standard(0x123), &[0xCD; 12], FD), "d1239CDCDCDCDCDCDCDCDCDCDCDCD\r"),
        (data(extended(0x123), &[1], FD), "D00000123101\r"),
        (data(standard(0x123), &[1], BRS), "b123101\r"),
        (data(extended(0x123), &[], Some(Fd { brs: true, esi: true })), "B000001230\r"),
    ] {
        assert_eq!(line(&frame), text);
    }
    assert!(line(&data(standard(1), &[0; 64], BRS)).starts_with("b001F0000"));
}

#[test]
fn what_cannot_be_sent_leaves_nothing() {
    let payload = Payload::new(&[0; 9]).unwrap();
    for frame in [
        Frame::Error(BusError { class: 1, data: [0; 8] }),
        Frame::Remote { id: standard(1), len: 9 },
        Frame::Data(Data { id: standard(1), payload, fd: None }),
        Frame::Data(Data { id: standard(1), payload, fd: FD }),
    ] {
        let mut out = Vec::new();
        assert!(!put(&mut out, &frame), "{frame:?}");
        assert_eq!(out, b"");
    }
}

/// Pushes bytes cut at the given places, and takes all after each.
fn in_pieces(bytes: &[u8], mut cuts: Vec<usize>) -> Vec<Told> {
    for cut in &mut cuts {
        *cut %= bytes.len() + 1;
    }
    cuts.push(bytes.len());
    cuts.sort_unstable();
    let (mut reader, mut told, mut from) = (Reader::new(), Vec::new(), 0);
    for cut in cuts {
        reader.push(bytes.get(from..cut).unwrap());
        told.extend(reader.by_ref());
        from = cut;
    }
    told
}

proptest! {
    #[test]
    fn what_is_sent_is_read(
        frames in vec(prop_oneof![samples::classic(), samples::fd(Just(false))], 0..8),
        times in vec(proptest::option::of(any::<u16>()), 8),
        cuts in vec(any::<usize>(), 0..8),
    ) {
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for (frame, time) in frames.into_iter().zip(times) {
            prop_assert!(put(&mut bytes, &frame));
            if let Some(time) = time {
                prop_assert_eq!(bytes.pop(), Some(b'\r'));
                bytes.extend_from_slice(format!("{time:04X}\r").as_bytes());
            }
            expected.push(Told::Frame(frame, time));
        }
        prop_assert_eq!(in_pieces(&bytes, cuts), expected);
    }

    #[test]
    fn cuts_change_nothing(
        bytes in vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(7), Just(b'\n'), b'0'..=b'9', Just(b't')], 0..600),
        cuts in vec(any::<usize>(), 0..8),
    ) {
        prop_assert_eq!(in_pieces(&bytes, cuts), told(&bytes));
    }

    #[test]
    fn a_frame_behind_any_garbage_is_read(
        garbage in vec(any::<u8>(), 0..600),
        end in prop_oneof![Just(CR), Just(BEL)],
        frame in samples::classic(),
        cuts in vec(any::<usize>(), 0..4),
    ) {
        let mut bytes = garbage;
        bytes.push(end);
        prop_assert!(put(&mut bytes, &frame));
        prop_assert_eq!(in_pieces(&bytes, cuts).pop(), Some(Told::Frame(frame, None)));
    }

    #[test]
    fn memory_is_bounded(chunks in vec(vec(any::<u8>(), 0..2000), 0..20)) {
        let mut reader = Reader::new();
        for chunk in chunks {
            reader.push(&chunk);
            reader.by_ref().for_each(drop);
            // A line that is not yet whole is all that is left.
            prop_assert!(reader.held.rest().len() <= LONGEST);
        }
    }
}
