//! The committed seeds: field cases in the bytes that the targets read inputs from.
//!
//! `UPDATE_SEEDS=1 cargo test` writes them; without it they must be what the cases say, and pass every check.

use std::{collections::BTreeMap, fmt::Debug, fs, path::Path};

use arbitrary::{Arbitrary, Unstructured};
use fieldbridge::{
    codec::value::{Encoding, Order},
    model::Kind,
};
use rust_decimal::Decimal;
use serde_json::Value as Json;

use crate::{
    ask::{Ask, FUNCTIONS},
    dbc, frames, mbap, payload, pdu, rtu,
    shape::{Form, KINDS, Number, Shape},
    signal, value,
};

/// Writes what `Arbitrary` reads.
trait Put {
    fn put(&self, out: &mut Vec<u8>);
}

macro_rules! put_number {
    ($($number:ty),*) => {$(
        impl Put for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }
        }
    )*};
}
put_number!(u8, u16, u64);

impl Put for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push((*self).into());
    }
}

impl<T: Put, const N: usize> Put for [T; N] {
    fn put(&self, out: &mut Vec<u8>) {
        for item in self {
            item.put(out);
        }
    }
}

macro_rules! put_fields {
    ($struct:ty: $($field:ident),*) => {
        impl Put for $struct {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }
        }
    };
}
put_fields!(Number: mantissa, size, places, is_negative);
put_fields!(mbap::Input<'_>: transaction, unit_id, cuts, stream);
put_fields!(rtu::Input<'_>: unit_id, ask, from, before, at, flip, noise);
put_fields!(pdu::Input<'_>: ask, at, flip, bytes);
put_fields!(value::Input<'_>: shape, data);
put_fields!(payload::Input<'_>: encoding, path, data);
put_fields!(frames::Input<'_>: kind, cut, data);
put_fields!(dbc::Input<'_>: data);
put_fields!(signal::Input<'_>: start, length, is_motorola, number, factor, offset, payload);

impl Put for &[u8] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend(*self);
    }
}

/// A choice is its number, in one byte.
fn put_choice<T: PartialEq>(choices: &[T], choice: &T, out: &mut Vec<u8>) {
    let at = choices.iter().position(|other| other == choice).expect("one of them");
    out.push(u8::try_from(at).expect("few"));
}

impl Put for Ask {
    fn put(&self, out: &mut Vec<u8>) {
        put_choice(&FUNCTIONS, &self.function, out);
        self.address.put(out);
        self.count.put(out);
        self.content.put(out);
    }
}

impl Put for Shape {
    fn put(&self, out: &mut Vec<u8>) {
        put_choice(&KINDS, &self.kind, out);
        [self.order, self.part.0, self.part.1, self.part.2].put(out);
        self.is_array.put(out);
        self.count.put(out);
        self.length.put(out);
        put_choice(
            &[Encoding::Ascii, Encoding::Latin1, Encoding::Utf8, Encoding::Utf16],
            &self.encoding,
            out,
        );
        self.is_padded.put(out);
        let forms = [Form::Not, Form::Linear, Form::Ranges { clamp: false }, Form::Ranges { clamp: true }];
        put_choice(&forms, &self.scale, out);
        self.numbers.put(out);
        self.sentinels.put(out);
        [self.sentinel_count, self.labels].put(out);
    }
}

/// Seeds by target and name.
#[derive(Default)]
struct Seeds(BTreeMap<(&'static str, String), Vec<u8>>);

impl Seeds {
    fn add<'a, T>(&mut self, target: &'static str, name: &str, input: &T, check: impl Fn(&T))
    where
        T: Put + PartialEq + Debug,
        T: Arbitrary<'a>,
    {
        let mut bytes = Vec::new();
        input.put(&mut bytes);
        let read: &'a [u8] = bytes.clone().leak();
        assert_eq!(&T::arbitrary_take_rest(Unstructured::new(read)).expect("enough"), input, "{name}");
        check(input);
        let name: String =
            name.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        self.0.insert((target, name), bytes);
    }
}

fn cases() -> Json {
    serde_json::from_str(include_str!("../../tests/cases/cases.json")).expect("JSON")
}

fn vectors(cases: &Json, case: &str) -> Vec<Json> {
    let vectors = cases["vectors"].as_array().expect("vectors").iter();
    vectors.filter(|vector| vector["case"] == case).cloned().collect()
}

fn steps(cases: &Json, id: &str) -> Vec<Json> {
    let case = cases["cases"].as_array().expect("cases").iter().find(|case| case["id"] == id);
    case.expect("the case")["steps"].as_array().expect("steps").clone()
}

fn text<'a>(json: &'a Json, key: &str) -> &'a str {
    json[key].as_str().unwrap_or_default()
}

fn hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    digits.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect()
}

/// One text, or several one after the other.
fn joined(json: &Json) -> Vec<u8> {
    match json {
        Json::Array(parts) => parts.iter().flat_map(joined).collect(),
        other => hex(other.as_str().unwrap_or_default()),
    }
}

/// The request of a PDU of functions 1 to 6 and 16.
fn ask(pdu: &[u8]) -> Ask {
    let word = |at: usize| u16::from_be_bytes([pdu[at], pdu[at + 1]]);
    let (function, address) = (pdu[0], word(1));
    match function {
        6 => Ask { function, address, count: 0, content: [word(3), 0] },
        16 => Ask { function, address, count: word(3), content: [word(6), 0] },
        _ => Ask { function, address, count: word(3), content: [0, 0] },
    }
}

#[test]
fn the_seeds_are_the_field_cases() {
    let cases = cases();
    let mut seeds = Seeds::default();
    add_frames(&mut seeds, &cases);
    add_lines(&mut seeds, &cases);
    add_requests(&mut seeds, &cases);
    add_values(&mut seeds, &cases);
    add_shapes(&mut seeds);
    add_payloads(&mut seeds, &cases);
    add_buses(&mut seeds, &cases);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let update = std::env::var_os("UPDATE_SEEDS").is_some();
    for ((target, name), bytes) in &seeds.0 {
        let file = folder.join(target).join(name);
        if update {
            fs::create_dir_all(folder.join(target)).expect("a folder");
            fs::write(&file, bytes).expect("a file");
        }
        assert_eq!(&fs::read(&file).unwrap_or_default(), bytes, "{}", file.display());
    }
}

fn add_frames(seeds: &mut Seeds, cases: &Json) {
    for step in steps(cases, "A15") {
        let segments = step["server_sends_segments"].as_array().expect("segments");
        let size = segments.iter().map(|segment| joined(segment).len()).max().expect("a segment");
        let stream = joined(&step["server_sends_segments"]);
        let cuts = [u8::try_from(size - 1).expect("short"); 8];
        let input = mbap::Input { transaction: 0x21, unit_id: 1, cuts, stream: &stream };
        seeds.add("mbap", &format!("a15 {}", text(&step, "name")), &input, mbap::check);
    }
    let late: Vec<u8> = steps(cases, "A11").iter().flat_map(|step| joined(&step["server_sends"])).collect();
    let input = mbap::Input { transaction: 0x15, unit_id: 1, cuts: [3, 0, 7, 1, 0, 0, 20, 0], stream: &late };
    seeds.add("mbap", "a11 late", &input, mbap::check);
}

fn add_lines(seeds: &mut Seeds, cases: &Json) {
    for vector in vectors(cases, "A19") {
        if text(&vector, "op") != "rtu-exchange" {
            continue;
        }
        let (sent, heard) = (hex(text(&vector, "tx")), joined(&vector["rx"]));
        let input = rtu::Input {
            unit_id: sent[0],
            ask: ask(&sent[1..]),
            from: 0,
            before: 2,
            at: 4,
            flip: 1,
            noise: &heard,
        };
        seeds.add("rtu", &format!("a19 {}", text(&vector, "name")), &input, rtu::check);
    }
    for function in [1, 5, 15, 16, 22, 43] {
        let ask = Ask { function, address: 3, count: 10, content: [0x1235, 7] };
        let input = rtu::Input {
            unit_id: 7,
            ask,
            from: 1,
            before: 3,
            at: 5,
            flip: 0x80,
            noise: b"\x07\x2B\x0E\x02\x01abc",
        };
        seeds.add("rtu", &format!("function {function}"), &input, rtu::check);
    }
}

fn add_requests(seeds: &mut Seeds, cases: &Json) {
    for vector in vectors(cases, "A05") {
        if text(&vector, "op") == "request" {
            let ask = ask(&hex(text(&vector, "expected_pdu")));
            let input = pdu::Input { ask, at: 1, flip: 1, bytes: &[0x83, 2] };
            seeds.add("pdu", text(&vector, "id"), &input, pdu::check);
        }
    }
    for (at, step) in steps(cases, "A17").iter().enumerate() {
        let (sent, answer) = (hex(text(step, "client_sends")), hex(text(step, "server_sends")));
        if let (Some(sent), Some(answer)) = (sent.get(7..), answer.get(7..)) {
            let input = pdu::Input { ask: ask(sent), at: 3, flip: 1, bytes: answer };
            seeds.add("pdu", &format!("a17 {at}"), &input, pdu::check);
        }
    }
    for function in [2, 5, 15, 22, 43, 17] {
        let ask = Ask { function, address: 3, count: 10, content: [0x1235, 7] };
        let input = pdu::Input { ask, at: 0, flip: 0, bytes: b"\x02\x05vendor\x03model" };
        seeds.add("pdu", &format!("function {function}"), &input, pdu::check);
    }
}

fn plain(kind: Kind) -> Shape {
    Shape {
        kind,
        order: 0,
        part: (0, 0, 0),
        is_array: false,
        count: 0,
        length: 0,
        encoding: Encoding::Ascii,
        is_padded: false,
        scale: Form::Not,
        numbers: [number("0"); 4],
        sentinels: [0; 2],
        sentinel_count: 0,
        labels: 0,
    }
}

fn number(text: &str) -> Number {
    let decimal =
        Decimal::from_str_exact(text).or_else(|_| Decimal::from_scientific(text)).expect("a decimal");
    let bytes = decimal.mantissa().unsigned_abs().to_le_bytes();
    let size = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    let number = Number {
        mantissa: std::array::from_fn(|at| bytes[at]),
        size: u8::try_from(size).expect("12 at most"),
        places: u8::try_from(decimal.scale()).expect("28 at most"),
        is_negative: decimal.is_sign_negative(),
    };
    assert_eq!(number.decimal(), decimal);
    number
}

/// Of vectors of the same format the first one.
fn add_values(seeds: &mut Seeds, cases: &Json) {
    let mut known = Vec::new();
    for vector in ["A01", "A03", "A07", "A09"].into_iter().flat_map(|case| vectors(cases, case)) {
        let Some(kind) = KINDS.into_iter().find(|kind| kind.name() == text(&vector, "type")) else {
            continue;
        };
        let named = |order: &u8| {
            Order { bytes: order & 1 > 0, words: order & 2 > 0, dwords: order & 4 > 0 }.of(kind).name(kind)
                == text(&vector, "order")
        };
        let (factor, offset) = (number(text(&vector, "scale")), number(text(&vector, "offset")));
        let is_scaled = factor.decimal() != Decimal::ONE || !offset.decimal().is_zero();
        let sentinel = u64::from_str_radix(text(&vector, "not_available_raw"), 16).ok();
        let shape = Shape {
            order: (0..8).find(named).expect("an order"),
            scale: if is_scaled { Form::Linear } else { Form::Not },
            numbers: [factor, offset, number("0"), number("0")],
            sentinels: [sentinel.unwrap_or_default(), 0],
            sentinel_count: sentinel.is_some().into(),
            ..plain(kind)
        };
        if known.contains(&shape) {
            continue;
        }
        known.push(shape.clone());
        let written = text(&vector, "value");
        let data =
            if written.is_empty() { joined(&vector["registers"]) } else { written.as_bytes().to_vec() };
        seeds.add("value", text(&vector, "id"), &value::Input { shape, data: &data }, value::check);
    }
}

/// The payloads of B01 and B03, and topics.
fn add_payloads(seeds: &mut Seeds, cases: &Json) {
    for vector in ["B01", "B03"].into_iter().flat_map(|case| vectors(cases, case)) {
        let payload = text(&vector, "payload_utf8");
        if payload.is_empty() {
            continue;
        }
        let encoding = u8::from(payload.starts_with(['{', '[']));
        let path = payload::PATHS.iter().position(|path| *path == text(&vector, "path")).unwrap_or(1);
        let path = u8::try_from(path).expect("few");
        let input = payload::Input { encoding, path, data: payload.as_bytes() };
        seeds.add("payload", text(&vector, "id"), &input, payload::check);
    }
    for (name, data) in [
        ("topic-names", "tele/{device}/SENSOR\ntele/shed/SENSOR"),
        ("topic-wildcards", "+/a/#\nx/a"),
        ("topic-system", "#\n$SYS/broker"),
        ("path", "a[0][\"b.c\"].d"),
    ] {
        let input = payload::Input { encoding: 0, path: 0, data: data.as_bytes() };
        seeds.add("payload", name, &input, payload::check);
    }
    for (name, encoding, data) in [
        ("cbor", 2, &b"\xa1\x61v\xfb\x40\x35\xb3\x33\x33\x33\x33\x33"[..]),
        ("messagepack", 3, &b"\x81\xa1v\xcb\x40\x35\xb3\x33\x33\x33\x33\x33"[..]),
    ] {
        seeds.add("payload", name, &payload::Input { encoding, path: 1, data }, payload::check);
    }
}

/// The files and lines of group C, and frames as adapters write them.
fn add_buses(seeds: &mut Seeds, cases: &Json) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases/files");
    for name in [
        "C02_extmux",
        "C04_float",
        "C06_odd_lines",
        "C08_independent",
        "C10_factors",
        "C10_zero_factor",
        "C12_duplicates",
    ] {
        let bytes = fs::read(folder.join(format!("{name}.dbc"))).expect("a file");
        seeds.add("dbc", name, &dbc::Input { data: &bytes }, dbc::check);
    }
    for vector in vectors(cases, "C14") {
        let line = text(&vector, "line");
        seeds.add(
            "frames",
            text(&vector, "id"),
            &frames::Input { kind: 2, cut: 0, data: line.as_bytes() },
            frames::check,
        );
    }
    for (name, kind, data) in [
        (
            "slcan",
            0,
            "V1013\rt1234DEADBEEF\rT18FEF1218001122334455667701A2\rr1238\rd4569112233445566778899AABBCC\r\x07z\r",
        ),
        (
            "socketcand",
            1,
            "< hi >< ok >< frame 123 23.424242 01ABFF >< frame 18FEF121 1.000001  >< error 080 1.5 >",
        ),
    ] {
        seeds.add("frames", name, &frames::Input { kind, cut: 4, data: data.as_bytes() }, frames::check);
    }
    for (name, start, length, is_motorola, number, factor) in [
        ("intel", 4, 12, false, 1, 1),
        ("motorola", 7, 12, true, 0, 3),
        ("float", 0, 32, false, 2, 0),
        ("wide", 0, 64, true, 0, 0),
        ("third", 56, 8, false, 0, 5),
    ] {
        let payload = &[0xFF, 0xF0, 0xFF, 0x1F, 0x10, 0x27, 0xFF, 0x03];
        let input = signal::Input { start, length, is_motorola, number, factor, offset: 1, payload };
        seeds.add("signal", name, &input, signal::check);
    }
}

/// What no vector has: parts, arrays, texts, words, ranges.
fn add_shapes(seeds: &mut Seeds) {
    let ranges = |clamp: bool, numbers: [&str; 4]| (Form::Ranges { clamp }, numbers.map(number));
    let text = |length: u8, encoding: Encoding, is_padded: bool| Shape {
        length,
        encoding,
        is_padded,
        ..plain(Kind::Text)
    };
    let array = |kind: Kind, count: u16| Shape { is_array: true, count, ..plain(kind) };
    let (scale, numbers) = ranges(false, ["4000", "20000", "0", "100"]);
    let level = Shape { scale, numbers, ..plain(Kind::Uint16) };
    let (scale, numbers) = ranges(true, ["-1000", "1000", "10.5", "-10.5"]);
    let room = Shape { scale, numbers, ..plain(Kind::Int16) };
    let (scale, numbers) = ranges(false, ["0", "3", "0", "1"]);
    let thirds = Shape { scale, numbers, ..plain(Kind::Float32) };
    let shapes: [(&str, Shape, &[u8]); 20] = [
        ("bit", Shape { part: (1, 3, 0), order: 1, ..plain(Kind::Bool) }, &[8, 0]),
        ("bits", Shape { part: (2, 4, 6), labels: 0x17, ..plain(Kind::Uint16) }, b"Auto"),
        ("high", Shape { part: (3, 0, 0), ..plain(Kind::Int8) }, &[0xFE, 0x12]),
        ("low", Shape { part: (4, 0, 0), ..plain(Kind::Uint8) }, b"200"),
        ("words", Shape { labels: 0xFF, ..plain(Kind::Int16) }, b"off"),
        ("bools", array(Kind::Bool, 3), b"[true, \"off\", 1]"),
        ("bytes", array(Kind::Int8, 3), b"[-1, 2.5, 3]"),
        ("numbers", array(Kind::Float32, 2), b"[1.5, -1e2]"),
        (
            "texts",
            Shape { is_array: true, count: 2, ..text(4, Encoding::Utf8, false) },
            b"[\"ab\", \"c\\n\"]",
        ),
        ("ascii", text(8, Encoding::Ascii, false), b"pump"),
        ("latin1", text(7, Encoding::Latin1, true), "für".as_bytes()),
        ("utf-8", text(12, Encoding::Utf8, true), "für  ".as_bytes()),
        ("utf-16", text(12, Encoding::Utf16, true), "für😀".as_bytes()),
        ("level", level.clone(), b"50.009"),
        ("level beyond", level, &[0x0E, 0x10]),
        ("room", room, b"-10.5"),
        ("thirds", thirds, b"0.3333"),
        ("half", plain(Kind::Float16), b"0.1"),
        ("six bytes", plain(Kind::Int48), b"-140737488355328"),
        ("eight bytes", Shape { order: 2, ..plain(Kind::Float64) }, b"-1.7976931348623157e308"),
    ];
    for (name, shape, data) in shapes {
        seeds.add("value", name, &value::Input { shape, data }, value::check);
    }
}
