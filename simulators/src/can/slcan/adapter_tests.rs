//! The adapter's commands and frames.

use proptest::prelude::*;

use super::*;

fn say(adapter: &mut Adapter, text: &[u8]) -> Vec<Action> {
    text.iter().flat_map(|byte| adapter.take(*byte)).collect()
}

/// What is replied, with frames in between.
fn replies(adapter: &mut Adapter, text: &str) -> String {
    let replies = say(adapter, text.as_bytes()).into_iter().map(|action| match action {
        Action::Reply(reply) => String::from_utf8(reply).unwrap(),
        Action::Channel(channel) => format!("<{channel:?}>"),
        Action::Send(frame, reply) => format!("<{frame}>{}", String::from_utf8_lossy(reply)),
    });
    replies.collect()
}

fn open() -> Adapter {
    let mut adapter = Adapter::new();
    assert_eq!(replies(&mut adapter, "S6\rO\r"), "\r<Open>\r");
    adapter
}

#[test]
fn commands_are_done_when_they_may() {
    let mut adapter = Adapter::new();
    let cases = [
        ("\r", "\r"),
        ("C\r", "\x07"),
        ("S6\r", "\r"),
        ("SA\r", "\x07"),
        ("S\r", "\x07"),
        ("S66\r", "\x07"),
        ("Y2\r", "\r"),
        ("s031C\r", "\r"),
        ("s031\r", "\x07"),
        ("F\r", "\x07"),
        ("t1230\r", "\x07"),
        ("Z1\r", "\r"),
        ("Z2\r", "\x07"),
        ("O\r", "<Open>\r"),
        ("O\r", "\x07"),
        ("L\r", "\x07"),
        ("S6\r", "\x07"),
        ("Z0\r", "\x07"),
        ("F\r", "F00\r"),
        ("V\r", "V1013\r"),
        ("N\r", "NF1B1\r"),
        ("M00000000\r", "\x07"),
        ("q\r", "\x07"),
        ("C\r", "<Closed>\r"),
        ("L\r", "<ListenOnly>\r"),
        ("t1230\r", "\x07"),
        ("\nC\r\n", "<Closed>\r"),
    ];
    for (text, reply) in cases {
        assert_eq!(replies(&mut adapter, text), reply, "{text:?}");
    }
}

#[test]
fn frames_of_all_kinds_are_taken() {
    let mut adapter = open();
    let cases = [
        ("t123301aBff\r", "<123   [3]  01 AB FF>z\r"),
        ("T18feEE0010A\r", "<18FEEE00   [1]  0A>Z\r"),
        ("t7FF0\r", "<7FF   [0] >z\r"),
        ("r1234\r", "<123   [4]  remote request>z\r"),
        ("R000001238\r", "<00000123   [8]  remote request>Z\r"),
        ("d1239000102030405060708090A0B\r", "<123  [12]  00 01 02 03 04 05 06 07 08 09 0A 0B>z\r"),
        ("B1234567811F\r", "<12345678  [01]  1F>Z\r"),
    ];
    for (text, reply) in cases {
        assert_eq!(replies(&mut adapter, text), reply, "{text:?}");
    }
    let actions = say(&mut adapter, b"b1230\rd1230\r");
    let flags: Vec<_> = actions
        .iter()
        .filter_map(|action| match action {
            Action::Send(frame, _) => frame.fd.map(|fd| fd.brs),
            _ => None,
        })
        .collect();
    assert_eq!(flags, [true, false]);
}

#[test]
fn frames_that_are_none_are_refused() {
    let mut adapter = open();
    let wrong = [
        "t",
        "t12",
        "t123",
        "t1239",
        "t12310",
        "t1231012",
        "t123101Z",
        "t12310",
        "t8000",
        "T200000000",
        "T1231",
        "r12341",
        "r1239",
        "d123F00",
        "d12390011",
        "tX230",
        "t123g",
        "\u{7f}",
        "t 230",
        "t1232 1 2",
    ];
    for text in wrong {
        assert_eq!(replies(&mut adapter, &format!("{text}\r")), "\x07", "{text:?}");
    }
    assert_eq!(replies(&mut adapter, "t1230\r"), "<123   [0] >z\r");
}

#[test]
fn a_line_that_never_ends_is_forgotten() {
    let mut adapter = open();
    for _ in 0..100_000 {
        assert!(adapter.take(b't').is_empty());
    }
    assert!(adapter.line.len() <= LONGEST + 1);
    assert_eq!(replies(&mut adapter, "\rt1230\r"), "\x07<123   [0] >z\r");
}

#[test]
fn frames_are_told_in_upper_case_while_the_channel_is_open() {
    let frame = Frame::standard(0x1AB, [0xCD, 0x0E]);
    let now = Duration::from_millis(61_234);
    let mut adapter = Adapter::new();
    assert_eq!(adapter.tell(&frame, now), None);
    adapter = open();
    let long = Frame::full(0x4A0, [0; 64], Fd { brs: true, esi: false });
    let remote = Frame::remote(Id { value: 0x10, extended: true }, 3).unwrap();
    let mut tell = |frame: &Frame| adapter.tell(frame, now).unwrap();
    assert_eq!(tell(&frame), "t1AB2CD0E\r");
    assert_eq!(tell(&Frame::extended(0x18FE_EE00, [])), "T18FEEE000\r");
    assert_eq!(tell(&remote), "R000000103\r");
    assert_eq!(tell(&long), format!("b4A0F{}\r", "00".repeat(64)));
    let flexible = Frame { fd: Some(Fd::default()), ..frame.clone() };
    assert_eq!(tell(&flexible), "d1AB2CD0E\r");
    assert_eq!(replies(&mut adapter, "C\rZ1\rO\r"), "<Closed>\r\r<Open>\r");
    // 1234 ms are 0x04D2.
    assert_eq!(adapter.tell(&frame, now), Some("t1AB2CD0E04D2\r".to_owned()));
}

#[test]
fn troubles_are_flags_until_they_are_read() {
    let mut adapter = open();
    adapter.lost();
    adapter.full();
    assert_eq!(adapter.tell(&Frame::error(class::PROTOCOL, [0; 8]), Duration::ZERO), None);
    assert_eq!(replies(&mut adapter, "F\rF\r"), "F83\rF00\r");
    assert_eq!(adapter.tell(&Frame::error(class::BUS_OFF, [0; 8]), Duration::ZERO), None);
    assert_eq!(replies(&mut adapter, "F\r"), "F20\r");
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let fd = any::<(bool, prop::sample::Index, [u8; 32], bool)>();
    (any::<u32>(), any::<bool>(), fd, 0..3_u8).prop_map(|(id, extended, (brs, length, bytes, _), kind)| {
        let id = Id { value: id & if extended { 0x1FFF_FFFF } else { 0x7FF }, extended };
        match kind {
            0 => Frame::data(id, bytes.get(..length.index(9)).unwrap()),
            1 => Frame::remote(id, u8::try_from(length.index(9)).unwrap()),
            _ => {
                let length = FD_LENGTHS.get(length.index(14)).copied().unwrap();
                Frame::flexible(id, bytes.get(..length.into()).unwrap(), Fd { brs, esi: false })
            }
        }
        .unwrap()
    })
}

proptest! {
    #[test]
    fn what_one_adapter_tells_another_one_takes(frame in any_frame()) {
        let text = open().tell(&frame, Duration::ZERO).unwrap();
        let actions = say(&mut open(), text.as_bytes());
        prop_assert!(matches!(actions.as_slice(), [Action::Send(taken, _)] if *taken == frame), "{actions:?}");
    }

    #[test]
    fn any_bytes_leave_it_able_to_work(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut adapter = Adapter::new();
        for action in say(&mut adapter, &bytes) {
            if let Action::Send(frame, _) = action {
                prop_assert_eq!(frame.check(), Ok(()));
            }
        }
        say(&mut adapter, b"\rC\rO\r");
        prop_assert_eq!(replies(&mut adapter, "t1230\r"), "<123   [0] >z\r");
    }
}
