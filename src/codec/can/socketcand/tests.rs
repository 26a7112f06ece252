#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::codec::can::{Fd, Payload, held, samples};

/// What is told when bytes come at once.
fn told(bytes: &[u8]) -> Vec<Told> {
    let mut reader = Reader::new();
    reader.push(bytes);
    reader.collect()
}

fn standard(id: u32, bytes: &[u8]) -> Frame {
    Frame::Data(Data::new(Id::standard(id).unwrap(), bytes, None).unwrap())
}

fn extended(id: u32, bytes: &[u8]) -> Frame {
    Frame::Data(Data::new(Id::extended(id).unwrap(), bytes, None).unwrap())
}

fn garbled(text: &str) -> Told {
    Told::Garbled(text.to_owned())
}

fn sent(frame: &Frame) -> String {
    let mut out = Vec::new();
    assert!(put(&mut out, frame), "{frame:?}");
    String::from_utf8(out).unwrap()
}

/// A frame as the server tells it.
fn received(frame: &Frame, time: Duration) -> String {
    let time = format!("{}.{:06}", time.as_secs(), time.subsec_micros());
    match frame {
        Frame::Data(data) => format!("< frame {} {time} {} >", data.id, data.payload),
        Frame::Remote { id, len } => format!("< rtr {id} {time} {len} >"),
        Frame::Error(error) => format!("< error {:03X} {time} >", error.class),
    }
}

#[test]
fn a_session() {
    assert_eq!(told(b"< hi >"), [Told::Hi]);
    assert_eq!(open("vcan0"), b"< open vcan0 >");
    assert_eq!(told(b"< ok >< ok >"), [Told::Ok, Told::Ok]);
    let time = Some(Duration::new(23, 424_242_000));
    assert_eq!(
        told(b"< frame 123 23.424242 01ABFF >< frame 1FFFFFFF 23.424242  >"),
        [Told::Frame(standard(0x123, &[1, 0xAB, 0xFF]), time), Told::Frame(extended(0x1FFF_FFFF, &[]), time)]
    );
}

#[test]
fn frames_of_every_spelling_are_read() {
    let time = Some(Duration::new(23, 424_242_000));
    for (text, frame, time) in [
        ("frame 123 23.424242 11 22 33 44", standard(0x123, &[0x11, 0x22, 0x33, 0x44]), time),
        ("frame 123 23.424242 11 22 ", standard(0x123, &[0x11, 0x22]), time),
        ("frame 123 23.424242 1 f1", standard(0x123, &[1, 0xF1]), time),
        ("frame 123 23.424242", standard(0x123, &[]), time),
        ("frame 00000123 23.424242 ab", extended(0x123, &[0xAB]), time),
        ("frame 123 23 01", standard(0x123, &[1]), Some(Duration::from_secs(23))),
        ("frame 123 -1.000000 01", standard(0x123, &[1]), None),
        ("rtr 123 23.424242 4", Frame::Remote { id: Id::standard(0x123).unwrap(), len: 4 }, time),
    ] {
        for message in [format!("< {text} >"), format!("<{text}>"), format!("<\t{text}\r\n>")] {
            assert_eq!(told(message.as_bytes()), [Told::Frame(frame, time)], "{message}");
        }
    }
}

#[test]
fn errors_are_told_from_texts() {
    let error = |class, data| Told::BusError(BusError { class, data });
    let text = |text: &str| Told::Error(text.to_owned());
    for (message, expected) in [
        ("< error 040 1767225600.123456 >", error(BusError::BUS_OFF, [0; 8])),
        ("< error 1FFFFFFF 0.000000 >", error(0x1FFF_FFFF, [0; 8])),
        (
            "< error 20000004 1.000000 00 20 00 00 00 00 60 7F  >",
            error(BusError::CONTROLLER, [0, 0x20, 0, 0, 0, 0, 0x60, 0x7F]),
        ),
        ("< error could not open bus >", text("could not open bus")),
        ("< error could not start interface can0 > \n", text("could not start interface can0")),
        ("< error unknown command >", text("unknown command")),
        ("< error bad >", text("bad")),
        ("< error 004 1.0 000000000000000000 >", text("004 1.0 000000000000000000")),
        ("< error >", text("")),
    ] {
        assert_eq!(told(message.as_bytes()), [expected], "{message}");
    }
}

#[test]
fn other_messages_are_passed_on() {
    let other = |text: &str| Told::Other(text.to_owned());
    for text in
        ["stat 1 2 3 4", "echo", "pdu 1417687245.814579 0011", "configuration operation not supported x"]
    {
        assert_eq!(told(format!("< {text} >").as_bytes()), [other(text)]);
    }
}

#[test]
fn messages_that_cannot_be_read_are_told() {
    for text in [
        "",
        "frame",
        "frame 123",
        "frame 12 1.0 00",
        "frame 1234 1.0 00",
        "frame 800 1.0 00",
        "frame 20000000 1.0",
        "frame xyz 1.0 00",
        "frame 123 now 00",
        "frame 123 1.0 0x",
        "frame 123 1.0 000",
        "frame 123 1.0 +1",
        "frame 123 1.0 001122334455667788",
        "rtr 123 1.0",
        "rtr 123 1.0 9",
        "rtr 123 1.0 1 1",
    ] {
        assert_eq!(told(format!("< {text} >< ok >").as_bytes()), [garbled(text), Told::Ok], "{text}");
    }
    assert_eq!(told(b"< \xFF >< ok >"), [garbled("\\xff"), Told::Ok]);
}

#[test]
fn what_stands_between_messages_is_told_once() {
    assert_eq!(told(b" \r\n< ok > \n\t< ok >"), [Told::Ok, Told::Ok]);
    assert_eq!(told(b"noise< ok >"), [garbled("noise"), Told::Ok]);
    assert_eq!(told(b">> < ok >x< ok >"), [garbled(">>"), Told::Ok, garbled("x"), Told::Ok]);
    // A message that was cut by another is noise as well.
    assert_eq!(told(b"noise< frame 123 1.0< fra<< ok >"), [garbled("noise"), Told::Ok]);
    assert_eq!(told(b"< frame 123 1.0 00< ok >"), [garbled("< frame 123 1.0 00"), Told::Ok]);
}

#[test]
fn a_message_without_end_is_passed_over() {
    for length in [LONGEST - 1, LONGEST, LONGEST + 1, 1000] {
        let bytes = format!("<{}< ok >", "a".repeat(length));
        let shown = garbled(&format!("<{}...", "a".repeat(59)));
        assert_eq!(told(bytes.as_bytes()), [shown, Told::Ok], "{length}");
    }
    let mut reader = Reader::new();
    reader.push(format!("<{}", "a".repeat(LONGEST)).as_bytes());
    assert!(matches!(reader.next(), Some(Told::Garbled(_))));
    reader.push(b"aaa > < ok >");
    assert_eq!(reader.collect::<Vec<_>>(), [Told::Ok]);
}

#[test]
fn what_is_not_taken_is_bounded_and_told() {
    let mut reader = Reader::new();
    for _ in 0..10_000 {
        reader.push(b"< frame 123 23.424242 01ABFF >");
        assert!(reader.held.capacity() <= 2 * held::MOST);
    }
    let told = reader.by_ref().collect::<Vec<_>>();
    let (first, rest) = told.split_first().unwrap();
    assert_eq!(*first, garbled("more than could be held"));
    assert!(rest.len() > 2_000);
    assert!(rest.iter().all(|told| matches!(told, Told::Frame(..))));
    reader.push(b"< ok >");
    assert_eq!(reader.collect::<Vec<_>>(), [Told::Ok]);
}

#[test]
fn frames_are_sent_as_the_protocol_says() {
    assert_eq!(sent(&standard(0x123, &[1, 0xAB, 0xFF])), "< send 123 3 1 ab ff >");
    assert_eq!(sent(&standard(0x1, &[])), "< send 001 0 >");
    assert_eq!(sent(&extended(0x1AAA_AAAA, &[1, 0xF1])), "< send 1AAAAAAA 2 1 f1 >");
    assert_eq!(sent(&Frame::Remote { id: Id::standard(0x123).unwrap(), len: 2 }), "< sendrtr 123 2 >");
}

#[test]
fn what_cannot_be_sent_leaves_nothing() {
    let id = Id::standard(1).unwrap();
    for frame in [
        Frame::Error(BusError { class: 1, data: [0; 8] }),
        Frame::Remote { id, len: 9 },
        Frame::Data(Data { id, payload: Payload::new(&[0; 9]).unwrap(), fd: None }),
        Frame::Data(Data::new(id, &[0], Some(Fd::default())).unwrap()),
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
    fn what_the_server_tells_is_read(
        frames in vec((samples::classic(), any::<u32>(), 0..1_000_000_u32), 0..8),
        between in prop_oneof![Just(""), Just(" "), Just("\r\n")],
        cuts in vec(any::<usize>(), 0..8),
    ) {
        let (mut text, mut expected) = (String::new(), Vec::new());
        for (frame, seconds, micros) in frames {
            let time = Duration::new(seconds.into(), micros * 1000);
            text.extend([received(&frame, time), between.to_owned()]);
            expected.push(Told::Frame(frame, Some(time)));
        }
        prop_assert_eq!(in_pieces(text.as_bytes(), cuts), expected);
    }

    #[test]
    fn what_is_sent_says_what_the_frame_says(frame in samples::classic()) {
        let text = sent(&frame);
        let text = text.strip_prefix("< ").and_then(|text| text.strip_suffix(" >")).unwrap();
        let words = text.split(' ').collect::<Vec<_>>();
        let (head, data) = words.split_at(3);
        let len = head.get(2).unwrap().parse::<u8>().unwrap();
        let bytes = data.iter().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect::<Vec<_>>();
        let id = id(head.get(1).unwrap()).unwrap();
        let said = match *head.first().unwrap() {
            "sendrtr" => Frame::Remote { id, len },
            _ => Frame::Data(Data::new(id, &bytes, None).unwrap()),
        };
        prop_assert_eq!(said, frame);
        prop_assert!(bytes.is_empty() || bytes.len() == usize::from(len));
    }

    #[test]
    fn a_message_behind_any_garbage_is_read(
        garbage in vec(any::<u8>(), 0..1000),
        frame in samples::classic(),
        cuts in vec(any::<usize>(), 0..4),
    ) {
        let mut bytes = garbage;
        bytes.extend_from_slice(received(&frame, Duration::ZERO).as_bytes());
        prop_assert_eq!(in_pieces(&bytes, cuts).pop(), Some(Told::Frame(frame, Some(Duration::ZERO))));
    }

    #[test]
    fn cuts_change_no_message(
        bytes in vec(prop_oneof![any::<u8>(), Just(b'<'), Just(b'>'), Just(b' '), b'a'..=b'z'], 0..900),
        cuts in vec(any::<usize>(), 0..8),
    ) {
        // Only how much of some noise came when it was told depends on the cuts.
        let messages = |told: Vec<Told>| {
            told.into_iter().map(|told| if let Told::Garbled(_) = told { garbled("") } else { told }).collect::<Vec<_>>()
        };
        prop_assert_eq!(messages(in_pieces(&bytes, cuts)), messages(told(&bytes)));
    }

    #[test]
    fn memory_is_bounded(chunks in vec(vec(any::<u8>(), 0..2000), 0..20)) {
        let mut reader = Reader::new();
        for chunk in chunks {
            reader.push(&chunk);
            reader.by_ref().for_each(drop);
            // A message that is not yet whole is all that is left.
            prop_assert!(reader.held.rest().len() <= LONGEST);
        }
    }
}
