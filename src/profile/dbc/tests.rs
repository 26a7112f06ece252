#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod cases;
mod damage;
mod real;

use rust_decimal::prelude::ToPrimitive;

use super::*;
use crate::codec::can::ByteOrder;

fn load(text: &str) -> Dbc {
    Dbc::parse(text.as_bytes()).unwrap()
}

/// One message of 8 bytes with these signals, and statements about it.
fn message(signals: &[&str], about: &str) -> Dbc {
    let signals =
        signals.iter().map(|signal| format!(" SG_ {signal} [0|0] \"\" HMI\n")).collect::<Vec<_>>().concat();
    load(&format!("BO_ 640 Drive: 8 PLC\n{signals}\n{about}"))
}

fn names(dbc: &Dbc) -> Vec<&str> {
    let signals = dbc.messages.iter().flat_map(|message| &message.signals);
    signals.map(|signal| signal.name.as_str()).collect()
}

fn signal<'d>(dbc: &'d Dbc, name: &str) -> &'d Signal {
    let mut signals = dbc.messages.iter().flat_map(|message| &message.signals);
    signals.find(|signal| signal.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// Warnings with the numbers of their lines.
fn warnings(dbc: &Dbc) -> Vec<(usize, &str)> {
    dbc.warnings.iter().map(|warning| (warning.line.unwrap_or(0), warning.text.as_str())).collect()
}

fn is_there(message: &Message, signal: &Signal, payload: &[u8]) -> bool {
    signal.selection.as_ref().is_none_or(|selection| {
        let by = &message.signals[selection.by];
        let raw = by.place.read(payload).unwrap();
        is_there(message, by, payload)
            && selection.ranges.iter().any(|(from, to)| (*from..=*to).contains(&raw))
    })
}

/// The value that a signal has in a payload.
fn value(signal: &Signal, payload: &[u8]) -> Option<f64> {
    let bits = signal.place.read(payload)?;
    let length = u32::from(signal.place.length());
    let raw = match signal.number {
        Number::Unsigned => bits.to_f64()?,
        Number::Signed => {
            (i64::from_ne_bytes((bits << (64 - length)).to_ne_bytes()) >> (64 - length)).to_f64()?
        }
        Number::Float if length == 32 => f32::from_bits(u32::try_from(bits).ok()?).into(),
        Number::Float => f64::from_bits(bits),
    };
    Some(raw * signal.factor.to_f64()? + signal.offset.to_f64()?)
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs())
}

fn payload(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|digits| u8::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn everything_that_a_signal_says() {
    let dbc = load(
        "VERSION \"1\"\nBU_: PLC HMI\nBO_ 2566844705 Pump: 8 PLC\n \
         SG_ Speed : 7|16@0- (0.25,-5) [-100|+200.5] \"1/min\" HMI,PLC\n\
         CM_ BO_ 2566844705 \"main \\\"pump\\\"\";\nCM_ SG_ 2566844705 Speed \"of the\r\nshaft\";\n\
         VAL_ 2566844705 Speed -1 \"off\" 2 \"a; b\" ;\n\
         BA_DEF_ SG_ \"SPN\" INT 0 524287;\n\
         BA_ \"SPN\" SG_ 2566844705 Speed 190;\nBA_ \"GenSigStartValue\" SG_ 2566844705 Speed 12.5;\n\
         BA_ \"GenMsgCycleTime\" BO_ 2566844705 100;\n",
    );
    assert_eq!(warnings(&dbc), []);
    let signal = Signal {
        name: "Speed".into(),
        place: Place::new(7, 16, ByteOrder::Motorola).unwrap(),
        number: Number::Signed,
        factor: Decimal::new(25, 2),
        offset: Decimal::new(-5, 0),
        range: Some((-100.0, 200.5)),
        unit: "1/min".into(),
        comment: "of the\nshaft".into(),
        labels: vec![(-1, "off".into()), (2, "a; b".into())],
        is_multiplexer: false,
        selection: None,
        initial: Some(12.5),
        spn: Some(190),
        line: 4,
    };
    let message = Message {
        name: "Pump".into(),
        id: Id::extended(0x18FE_F121).unwrap(),
        length: 8,
        sender: Some("PLC".into()),
        comment: "main \"pump\"".into(),
        cycle: Some(Duration::from_millis(100)),
        is_j1939: false,
        is_fd: None,
        signals: vec![signal],
        line: 3,
    };
    assert_eq!(dbc.messages, [message]);
}

#[test]
fn character_sets() {
    let text = "BO_ 1 Ofen: 8 Vector__XXX\n SG_ Wärme : 0|8@1+ (1,0) [0|0] \"°C\" X\n";
    let latin = text.chars().map(|char| u8::try_from(u32::from(char)).unwrap()).collect::<Vec<_>>();
    let utf16 = |bytes: fn(u16) -> [u8; 2]| {
        format!("\u{FEFF}{text}").encode_utf16().flat_map(bytes).collect::<Vec<_>>()
    };
    let marked = format!("\u{FEFF}{text}").into_bytes();
    for bytes in [text.as_bytes().to_vec(), latin, marked, utf16(u16::to_le_bytes), utf16(u16::to_be_bytes)] {
        let dbc = Dbc::parse(&bytes).unwrap();
        assert_eq!((signal(&dbc, "Wärme").unit.as_str(), warnings(&dbc)), ("°C", vec![]));
        assert_eq!(dbc.messages[0].sender, None);
    }
    let dbc = Dbc::parse(b"BO_ 1 A: 8 X\n SG_ S : 0|8@1+ (1,0) [0|0] \"\x80\x81\x9F\xFF\" X\n").unwrap();
    assert_eq!(signal(&dbc, "S").unit, "€\u{81}Ÿÿ");
}

#[test]
fn other_files_are_refused() {
    assert_eq!(Dbc::parse(b"\x89PNG\r\n\x1A\n\0\0\0\rIHDR"), Err(DbcError::NotText));
    assert_eq!(Dbc::parse(b"\xFF\xFEB\0O"), Err(DbcError::NotText));
    assert_eq!(Dbc::parse(b"\xFF\xFE\0\xD8B\0"), Err(DbcError::NotText));
    let error = Dbc::parse(b"\n<?xml version=\"1.0\"?>\n<NetworkDefinition/>\n").unwrap_err();
    assert_eq!(error.to_string(), "line 2: `<?xml version=` is no DBC file");
}

#[test]
fn empty_files_load_with_a_warning() {
    for text in ["", "\r\n \n", "// nothing\n", "VERSION \"\"\n\nNS_ :\n\tCM_\n\tBA_DEF_\n\nBS_:\n\nBU_:\n"] {
        let dbc = load(text);
        assert_eq!(warnings(&dbc), [(0, "the file has no messages")], "{text:?}");
    }
}

#[test]
fn identifiers() {
    let head =
        |id: &str| format!("BO_ {id} A: 8 X\n SG_ S : 0|8@1+ (1,0) [0|0] \"\" X\nVAL_ {id} S 1 \"x\";\n");
    let id = |number: &str| load(&head(number)).messages.first().map(|message| message.id);
    assert_eq!(id("2047"), Id::standard(2047));
    assert_eq!(id("2147483648"), Id::extended(0));
    assert_eq!(id("2684354559"), Id::extended(0x1FFF_FFFF));
    let refused = |number: &str| {
        let dbc = load(&head(number));
        assert_eq!(dbc.messages, []);
        dbc.warnings.into_iter().map(|warning| warning.text).collect::<Vec<_>>()
    };
    let none = "the file has no messages";
    assert_eq!(
        refused("70000"),
        [
            none,
            "message A has the identifier 70000, which is more than 11 bits hold; one of 29 bits is written \
             2147553648; it is left out"
        ]
    );
    for number in ["536870912", "2684354560", "4294967295", "4294967296", "99999999999999999999"] {
        let warnings = refused(number);
        assert_eq!((warnings.len(), warnings[0].as_str()), (2, none), "{number}");
        assert!(
            warnings[1].starts_with("message A ") && warnings[1].contains("; it is left out"),
            "{warnings:?}"
        );
    }
    // The pseudo message of unused signals.
    assert_eq!(refused("3221225472"), [none]);
}

#[test]
fn numbers_as_files_write_them() {
    let dbc = message(
        &[
            "A : 0|8@1+ (.25,-0)",
            "B : 8|8@1+ (1E-3,+0.5)",
            "C : 16|8@1+ (1.,-.5)",
            "D : 24|8@1+ ( 5e2 , 1.50 )",
        ],
        "",
    );
    let shown = |name: &str| {
        let signal = signal(&dbc, name);
        (signal.factor.to_string(), signal.offset.to_string())
    };
    let pair = |factor: &str, offset: &str| (factor.to_owned(), offset.to_owned());
    assert_eq!(shown("A"), pair("0.25", "0"));
    assert_eq!(shown("B"), pair("0.001", "0.5"));
    assert_eq!(shown("C"), pair("1", "-0.5"));
    assert_eq!(shown("D"), pair("500", "1.5"));
    assert_eq!(warnings(&dbc), []);

    let dbc = message(&["A : 0|8@1+ (1e-30,0)", "B : 8|8@1+ (1,1e30)", "C : 16|8@1+ (1e-28,0)"], "");
    assert_eq!(names(&dbc), ["C"]);
    assert_eq!(
        warnings(&dbc),
        [
            (2, "signal Drive.A has the factor 1e-30, which takes more than 28 digits; it is left out"),
            (3, "signal Drive.B has the offset 1e30, which takes more than 28 digits; it is left out"),
        ]
    );
}

#[test]
fn ranges() {
    let range = |range: &str| {
        let dbc = load(&format!("BO_ 640 Drive: 8 PLC\n SG_ S : 0|8@1+ (1,0) [{range}] \"\" X\n"));
        (signal(&dbc, "S").range, dbc.warnings.into_iter().map(|warning| warning.text).collect::<Vec<_>>())
    };
    assert_eq!(range("0.|1.5"), (Some((0.0, 1.5)), vec![]));
    assert_eq!(range("0|0"), (None, vec![]));
    assert_eq!(range("-0|0.0"), (None, vec![]));
    assert_eq!(
        range("3|3"),
        (None, vec!["signal Drive.S has a range from 3 to 3; it has none now".to_owned()])
    );
    assert_eq!(
        range("5|-1"),
        (None, vec!["signal Drive.S has a range from 5 to -1; it has none now".to_owned()])
    );
    assert_eq!(
        range("nan|1"),
        (None, vec!["signal Drive.S has a range that cannot be read; it has none now".to_owned()])
    );
}

#[test]
fn places() {
    let dbc = message(
        &[
            "None : 0|0@1+ (1,0)",
            "Long : 0|65@1+ (1,0)",
            "Far : 70000|8@1+ (1,0)",
            "Late : 60|8@1+ (1,0)",
            "Lost : -1|8@1+ (1,0)",
            "All : 7|64@0- (1,0)",
        ],
        "",
    );
    assert_eq!(names(&dbc), ["Late", "All"]);
    assert_eq!(
        warnings(&dbc),
        [
            (2, "signal Drive.None is 0 bits long, allowed is 1 to 64; it is left out"),
            (3, "signal Drive.Long is 65 bits long, allowed is 1 to 64; it is left out"),
            (4, "signal Drive.Far starts at bit 70000, which no message has; it is left out"),
            (5, "signal Drive.Late ends after the 8 bytes of its message"),
            (
                6,
                "signal Drive.Lost is not written as `start|length@order sign (factor,offset) [lowest|highest]`: \
                 `-1|8@1+ (1 , 0) [0|0]`; it is left out"
            ),
            (7, "signal Drive.All overlaps Late in line 5"),
        ]
    );
}

#[test]
fn overlaps_count_where_both_can_be_there() {
    let dbc = message(
        &[
            "Page M : 0|8@1+ (1,0)",
            "A m0 : 8|8@1+ (1,0)",
            "B m1 : 8|16@1+ (1,0)",
            "C m1 : 16|8@1+ (1,0)",
            "D : 23|8@0+ (1,0)",
            "E m2 : 7|4@0+ (1,0)",
        ],
        "",
    );
    assert_eq!(names(&dbc), ["Page", "A", "B", "C", "D", "E"]);
    assert_eq!(
        warnings(&dbc),
        [
            (5, "signal Drive.C overlaps B in line 4"),
            (6, "signal Drive.D overlaps B in line 4"),
            (7, "signal Drive.E overlaps Page in line 2"),
        ]
    );
}

#[test]
fn names_that_come_twice() {
    let dbc = message(
        &["Page M : 0|8@1+ (1,0)", "A m0 : 8|8@1+ (1,0)", "A m1 : 8|8@1- (1,0)", "A m1 : 16|8@1+ (1,0)"],
        "VAL_ 640 A 1 \"on\";\n",
    );
    assert_eq!(names(&dbc), ["Page", "A", "A"]);
    assert_eq!(warnings(&dbc), [(5, "signal Drive.A has the name of the one in line 4; it is left out")]);
    assert!(dbc.messages[0].signals[1..].iter().all(|signal| signal.labels == [(1, "on".into())]));
    let selected = dbc.messages[0].signals[1..].iter().map(|signal| signal.selection.clone().unwrap());
    let page = |number| Selection { by: 0, ranges: vec![(number, number)] };
    assert_eq!(selected.collect::<Vec<_>>(), [page(0), page(1)]);
}

#[test]
fn ranges_of_multiplexers() {
    let dbc = message(
        &["Page M : 0|4@1+ (1,0)", "A m0 : 8|8@1+ (1,0)", "A m1 : 8|8@1+ (1,0)", "B : 16|8@1+ (1,0)"],
        "SG_MUL_VAL_ 640 A Page 0-0, 7-9;\nSG_MUL_VAL_ 640 A Page 1-2;\nSG_MUL_VAL_ 640 B Page 5-3,3-4,6-20;\n\
         SG_MUL_VAL_ 640 B Gone 1-1;\nSG_MUL_VAL_ 640 B A 1-1;\n",
    );
    let ranges = |place: usize| dbc.messages[0].signals[place].selection.clone().unwrap().ranges;
    assert_eq!([ranges(1), ranges(2), ranges(3)], [vec![(0, 0), (7, 9)], vec![(1, 2)], vec![(3, 20)]]);
    assert_eq!(
        warnings(&dbc),
        [
            (5, "signal Drive.B is selected by 20, which the 4 bits of Page cannot hold"),
            (9, "signal Drive.B is selected by Page from 5 to 3; read as 3 to 5"),
            (10, "signal Drive.B is selected by Gone, which its message does not have"),
            (11, "signal Drive.B is selected by a second multiplexer; this one is left out"),
        ]
    );
}

#[test]
fn signals_of_which_nobody_can_tell_when_they_are_there() {
    let dbc = message(&["A m0 : 0|8@1+ (1,0)", "B : 8|8@1+ (1,0)"], "");
    assert_eq!(names(&dbc), ["B"]);
    assert_eq!(
        warnings(&dbc),
        [(2, "signal Drive.A is selected by a multiplexer, of which its message has none; it is left out")]
    );

    let several = "is selected by one of several multiplexers, and nothing tells by which; it is left out";
    let dbc = message(
        &["P M : 0|8@1+ (1,0)", "Q m1M : 8|8@1+ (1,0)", "A m0 : 16|8@1+ (1,0)", "B m0 : 24|8@1+ (1,0)"],
        "SG_MUL_VAL_ 640 A Q 0-0;",
    );
    assert_eq!(names(&dbc), ["P", "Q", "A"]);
    assert_eq!(signal(&dbc, "Q").selection, Some(Selection { by: 0, ranges: vec![(1, 1)] }));
    assert_eq!(warnings(&dbc), [(5, format!("signal Drive.B {several}").as_str())]);

    // One of two multiplexers cannot be read: the other may not take its signals.
    let dbc = message(&["P M : 0|8@1+ (1,0)", "Q M : 8|8@2+ (1,0)", "A m0 : 16|8@1+ (1,0)"], "");
    assert_eq!(names(&dbc), ["P"]);
    assert_eq!(warnings(&dbc)[1], (4, format!("signal Drive.A {several}").as_str()));

    let dbc = message(&["A m : 0|8@1+ (1,0)", "P m : 8|8@1+ (1,0)", "B m1 : 16|8@1+ (1,0)"], "");
    assert_eq!(names(&dbc), Vec::<&str>::new());
    let dbc = message(&["P m : 8|8@1+ (1,0)", "B m1 : 16|8@1+ (1,0)"], "SG_MUL_VAL_ 640 B P 1-1;");
    assert_eq!(names(&dbc), ["P", "B"]);
    assert!(signal(&dbc, "P").is_multiplexer);
    assert_eq!(warnings(&dbc), [(2, "signal Drive.P selects others, but is not marked M")]);
}

#[test]
fn circles_of_multiplexers() {
    let circle = "is selected in a circle, or through more than 16 multiplexers; it is left out";
    let dbc = message(
        &["A m1M : 0|8@1+ (1,0)", "B m1M : 8|8@1+ (1,0)", "C m1 : 16|8@1+ (1,0)", "D M : 24|8@1+ (1,0)"],
        "SG_MUL_VAL_ 640 A B 1-1;\nSG_MUL_VAL_ 640 B A 1-1;\nSG_MUL_VAL_ 640 C A 1-1;\nSG_MUL_VAL_ 640 D D 1-1;\n",
    );
    assert_eq!(names(&dbc), Vec::<&str>::new());
    let expected = [(2, "A"), (3, "B"), (4, "C"), (5, "D")]
        .map(|(line, name)| (line, format!("signal Drive.{name} {circle}")));
    assert_eq!(warnings(&dbc), expected.each_ref().map(|(line, text)| (*line, text.as_str())));
}

#[test]
fn what_a_lost_multiplexer_selects_is_lost() {
    let dbc = message(
        &["P M : 0|16@1+ (1,0)", "Q m1M : 16|8@1+ (1,0)", "A m0 : 24|8@1+ (1,0)", "B : 32|8@1+ (1,0)"],
        "SG_MUL_VAL_ 640 Q P 1-1;\nSG_MUL_VAL_ 640 A Q 0-0;\nSIG_VALTYPE_ 640 P : 1;\n",
    );
    assert_eq!(names(&dbc), ["B"]);
    let lost = "is selected by a signal that is left out; it is left out";
    assert_eq!(
        warnings(&dbc),
        [
            (3, format!("signal Drive.Q {lost}").as_str()),
            (4, format!("signal Drive.A {lost}").as_str()),
            (9, "signal Drive.P is a float of 32 bits in a place of 16; it is left out"),
        ]
    );
}

#[test]
fn number_types() {
    let dbc = message(
        &["A : 0|32@1- (1,0)", "B : 32|16@1+ (1,0)", "C : 48|16@1+ (1,0)"],
        "SIG_VALTYPE_ 640 A:1;\nSIG_VALTYPE_ 640 B : 0 ;\nSIG_VALTYPE_ 640 C : 3;\nSIG_VALTYPE_ 640 D : 1;\n",
    );
    assert_eq!(names(&dbc), ["A", "B"]);
    assert_eq!((signal(&dbc, "A").number, signal(&dbc, "B").number), (Number::Float, Number::Unsigned));
    assert_eq!(
        warnings(&dbc),
        [
            (
                8,
                "signal Drive.C has a number type that cannot be read, allowed are 0, 1 and 2; it is left out"
            ),
            (9, "number type: message Drive has no signal D"),
        ]
    );
}

#[test]
fn labels() {
    let dbc = message(
        &["A : 0|8@1+ (1,0)", "B : 8|8@1+ (1,0)", "C : 16|8@1+ (1,0)", "D : 24|8@1+ (1,0)"],
        "VAL_TABLE_ OnOff 1 \"On\" 0 \"Off\";\nVAL_ 640 A OnOff ;\nVAL_ 640 B 1 \"x\" 1 \"y\" 1.5 \"z\" 2 \"\";\n\
         VAL_ 640 C Gone;\nVAL_ 640 C 1 \"no end\"\nVAL_ 640 C 2 \"again\";\nVAL_ 640 D 1 2 ;\nVAL_ Variable 1 \"x\";\n",
    );
    let labels = |name: &str| {
        signal(&dbc, name).labels.iter().map(|(number, label)| (*number, &**label)).collect::<Vec<_>>()
    };
    assert_eq!(labels("A"), [(1, "On"), (0, "Off")]);
    assert_eq!(labels("B"), [(1, "x"), (2, "")]);
    assert_eq!(labels("C"), [(1, "no end")]);
    assert_eq!(labels("D"), []);
    assert_eq!(
        warnings(&dbc),
        [
            (9, "`VAL_ 640 B 1` has a label for `1.5`, which is no integer; it is left out"),
            (9, "labels of Drive.B have a second one for 1; it is left out"),
            (10, "labels of Drive.C are of value table Gone, which does not exist"),
            (11, "`VAL_ 640 C 1` has no ; at its end; read as if it had"),
            (12, "labels of Drive.C: there is one already; left out"),
            (
                13,
                "`VAL_ 640 D 1` has labels that are not numbers, each with a text in quotes; it is left out"
            ),
        ]
    );
}

#[test]
fn long_names() {
    let long = "A".repeat(129);
    let dbc = message(
        &["Page M : 0|8@1+ (1,0)", "Short_0 m0 : 8|8@1+ (1,0)", "Short_1 m1 : 8|8@1+ (1,0)"],
        &format!(
            "VAL_ 640 Short_0 1 \"on\";\nBA_ \"SystemMessageLongSymbol\" BO_ 640 \"{long}\";\n\
             BA_ \"SystemSignalLongSymbol\" SG_ 640 Short_0 \"ALongerName\";\n\
             BA_ \"SystemSignalLongSymbol\" SG_ 640 Short_1 \"ALongerName\";\n\
             BA_ \"SystemNodeLongSymbol\" BU_ PLC \"Controller\";\nSG_MUL_VAL_ 640 Short_1 Page 1-3;\n"
        ),
    );
    assert_eq!(dbc.messages[0].name, long);
    assert_eq!(dbc.messages[0].sender.as_deref(), Some("Controller"));
    assert_eq!(names(&dbc), ["Page", "ALongerName", "ALongerName"]);
    assert_eq!(dbc.messages[0].signals[1].labels.len(), 1);
    assert_eq!(dbc.messages[0].signals[2].selection.as_ref().unwrap().ranges, [(1, 3)]);
    let text = format!("message {long} has a name of 129 characters, at most 128 are usual");
    assert_eq!(warnings(&dbc), [(1, text.as_str())]);
}

#[test]
fn kinds_of_frames() {
    let formats = "BA_DEF_ BO_ \"VFrameFormat\" ENUM \"StandardCAN\",\"ExtendedCAN\",\"reserved\",\"J1939PG\",\"a\",\
                   \"ExtendedCAN_FD\";\n";
    let told = |attributes: &str| {
        let dbc = load(&format!("BO_ 2147483649 A: 8 X\nBO_ 1 B: 64 X\n{attributes}"));
        assert_eq!(warnings(&dbc), []);
        dbc.messages.iter().map(|message| (message.is_j1939, message.is_fd)).collect::<Vec<_>>()
    };
    let own = |value: &str| told(&format!("{formats}BA_ \"VFrameFormat\" BO_ 2147483649 {value};\n"))[0];
    assert_eq!(own("0"), (false, Some(false)));
    assert_eq!(own("3"), (true, Some(false)));
    assert_eq!(own("5"), (false, Some(true)));
    assert_eq!(own("\"ExtendedCAN_FD\""), (false, Some(true)));
    assert_eq!(told("BA_ \"VFrameFormat\" BO_ 1 14;\n"), [(false, None), (false, Some(true))]);
    // A default that does not fit a message of 64 bytes says nothing of it, nor one of 29 bits of one of 11.
    let by_default = format!("{formats}BA_DEF_DEF_ \"VFrameFormat\" \"J1939PG\";\n");
    assert_eq!(told(&by_default), [(true, Some(false)), (false, None)]);
    assert_eq!(told("BA_DEF_DEF_ \"ProtocolType\" \"J1939\";\n"), [(true, None), (false, None)]);
    assert_eq!(
        told("BA_ \"ProtocolType\" \"J1939\";\nBA_ \"VFrameFormat\" BO_ 2147483649 1;\n"),
        [(false, Some(false)), (false, None)]
    );
    assert_eq!(told("BA_DEF_DEF_ \"BusType\" \"CAN\";\n"), [(false, Some(false)), (false, None)]);
    assert_eq!(told("BA_ \"BusType\" \"CAN FD\";\n"), [(false, None), (false, None)]);

    let dbc = load("BO_ 1 B: 8 X\nBA_ \"VFrameFormat\" BO_ 1 7;\n");
    assert_eq!(warnings(&dbc), [(2, "message B has a VFrameFormat that does not exist; it is ignored")]);
}

#[test]
fn cycle_times() {
    let cycle = |attributes: &str| {
        let dbc = load(&format!("BO_ 1 A: 8 X\n{attributes}"));
        (dbc.messages[0].cycle, dbc.warnings.len())
    };
    let own = |value: &str| cycle(&format!("BA_ \"GenMsgCycleTime\" BO_ 1 {value};"));
    assert_eq!(own("100"), (Some(Duration::from_millis(100)), 0));
    assert_eq!(own("12.5"), (Some(Duration::from_micros(12_500)), 0));
    assert_eq!(own("\"20\""), (Some(Duration::from_millis(20)), 0));
    assert_eq!(own("0"), (None, 0));
    assert_eq!(own("-1"), (None, 1));
    assert_eq!(own("1e300"), (None, 1));
    assert_eq!(own("\"soon\""), (None, 1));
    let default = "BA_DEF_DEF_ \"GenMsgCycleTime\" 50;\n";
    assert_eq!(cycle(default), (Some(Duration::from_millis(50)), 0));
    assert_eq!(cycle(&format!("{default}BA_ \"GenMsgCycleTime\" BO_ 1 0;")), (None, 0));
}

#[test]
fn odd_names() {
    let dbc = load(
        "BO_ 1 2017-6.a: 8 1PLC\n SG_ 0_Tür[1] m0 : 8|8@1+ (1,0) [0|0] \"\" X\n \
         SG_ m M : 0|8@1+ (1,0) [0|0] \"\" 1X,\nCM_ SG_ 1 0_Tür[1] \"door\";\n\
         VAL_ 1 0_Tür[1] 1 \"open\";\nBA_ \"SPN\" SG_ 1 0_Tür[1] 5;\nSG_MUL_VAL_ 1 0_Tür[1] m 0-1;\n\
         SIG_VALTYPE_ 1 m: 0;\n",
    );
    assert_eq!(warnings(&dbc), []);
    assert_eq!(dbc.messages[0].name, "2017-6.a");
    assert_eq!(dbc.messages[0].sender.as_deref(), Some("1PLC"));
    let door = &dbc.messages[0].signals[0];
    assert_eq!((door.name.as_str(), door.comment.as_str(), door.spn), ("0_Tür[1]", "door", Some(5)));
    assert_eq!((door.labels.len(), door.selection.as_ref().unwrap().by), (1, 1));
}

#[test]
fn layouts_of_text() {
    // Line ends of DOS and old Macs, statements over several lines and several in one, comments.
    for end in ["\n", "\r\n", "\r"] {
        let text = "NS_ : CM_\n\tBA_DEF_\n\nBU_: PLC\n HMI // x\n// BO_ 9 No: 8 X\n\
                    BO_ 1 A: 8 PLC SG_ S : 0|8@1+ (1,0) [0|0] \"\" HMI;\n\n // y\n SG_ T:8|8@1+(1,0)[0|0]\"u\"HMI,\n\
                    CM_ SG_ 1\n S\n\"text\"; VAL_ 1 S 1 \"on\"\n 2 \"off\" ;;VAL_ 1 T 1\"x\";\n";
        let dbc = load(&text.replace('\n', end));
        assert_eq!(warnings(&dbc), []);
        assert_eq!(names(&dbc), ["S", "T"]);
        let (first, second) = (signal(&dbc, "S"), signal(&dbc, "T"));
        assert_eq!((first.comment.as_str(), first.labels.len(), first.line), ("text", 2, 7));
        assert_eq!((second.unit.as_str(), second.labels.len(), second.line), ("u", 1, 10));
    }
}

#[test]
fn warnings_are_limited() {
    let signals = "BO_ 1 A: 8 X\n SG_ Gone : 0|0@1+ (1,0) [0|0] \"\" X\n".to_owned();
    let dbc = load(&(signals + &"VAL_ 2 S 1 \"x\";\n".repeat(6000)));
    assert_eq!(dbc.warnings.len(), 1001);
    assert_eq!(dbc.warnings[0].line, Some(2));
    assert_eq!(dbc.warnings[999].line, Some(1001));
    assert_eq!(dbc.warnings[1000], Warning { line: None, text: "5001 more warnings are not shown".into() });
}
