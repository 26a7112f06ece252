//! Types and orders by hand-computed vectors, and both ways for arbitrary registers.

use super::*;

/// Every order that a kind can have.
fn orders(kind: Kind) -> Vec<Order> {
    let mut orders: Vec<Order> = Vec::new();
    for at in 0..8 {
        let order = Order { bytes: at & 1 > 0, words: at & 2 > 0, dwords: at & 4 > 0 }.of(kind);
        if !orders.contains(&order) {
            orders.push(order);
        }
    }
    orders
}

fn sent(kind: Kind, order: Order, value: &Value) -> Vec<u16> {
    Format { order, ..plain(kind) }.encode(value).unwrap().words().to_vec()
}

fn named(name: &str, kind: Kind) -> Order {
    orders(kind).into_iter().find(|order| order.name(kind) == name).unwrap_or_else(|| panic!("{name}"))
}

/// Letters of a name stand for the bytes 0xA1, 0xB2 and so on, as they arrive.
fn bytes_of(name: &str) -> Vec<u16> {
    let byte = |letter: u8| u16::from(letter - b'A' + 1) * 0x11 + 0x90;
    name.as_bytes().chunks(2).map(|pair| byte(pair[0]) << 8 | byte(pair[1])).collect()
}

#[test]
fn every_order_has_the_name_of_its_bytes() {
    let expected = [
        (Kind::Uint16, 0xA1B2, vec!["AB", "BA"]),
        (Kind::Uint32, 0xA1B2_C3D4, vec!["ABCD", "CDAB", "BADC", "DCBA"]),
        (Kind::Uint48, 0xA1B2_C3D4_E5F6, vec!["ABCDEF", "EFCDAB", "BADCFE", "FEDCBA"]),
        (
            Kind::Uint64,
            0xA1B2_C3D4_E5F6_0718,
            vec![
                "ABCDEFGH", "GHEFCDAB", "BADCFEHG", "HGFEDCBA", "CDABGHEF", "EFGHABCD", "DCBAHGFE",
                "FEHGBADC",
            ],
        ),
    ];
    for (kind, number, names) in expected {
        assert_eq!(orders(kind).len(), names.len(), "{kind}");
        for name in names {
            let order = named(name, kind);
            let words = bytes_of(name);
            let words: Vec<u16> = match kind {
                // The letters G and H would be bytes beyond 0xFF.
                Kind::Uint64 => words_of_eight(name),
                _ => words,
            };
            assert_eq!(sent(kind, order, &Value::U64(number)), words, "{name}");
            assert_eq!(Format { order, ..plain(kind) }.decode(&words), Ok(Value::U64(number)), "{name}");
        }
    }
}

fn words_of_eight(name: &str) -> Vec<u16> {
    let bytes = [0xA1, 0xB2, 0xC3, 0xD4, 0xE5, 0xF6, 0x07, 0x18];
    let byte = |letter: u8| bytes[usize::from(letter - b'A')];
    name.as_bytes().chunks(2).map(|pair| byte(pair[0]) << 8 | byte(pair[1])).collect()
}

#[test]
fn values_of_48_bits() {
    let value = |kind, words: [u16; 3]| plain(kind).decode(&words).unwrap();
    assert_eq!(value(Kind::Uint48, [0x0001, 0x0000, 0x0000]), Value::U64(4_294_967_296));
    assert_eq!(value(Kind::Uint48, [0xFFFF; 3]), Value::U64(281_474_976_710_655));
    assert_eq!(value(Kind::Int48, [0xFFFF; 3]), Value::I64(-1));
    assert_eq!(value(Kind::Int48, [0x8000, 0, 0]), Value::I64(-140_737_488_355_328));
    assert_eq!(value(Kind::Int48, [0x7FFF, 0xFFFF, 0xFFFF]), Value::I64(140_737_488_355_327));
    assert_eq!(sent(Kind::Int48, Order::CDAB, &Value::I64(-2)), [0xFFFE, 0xFFFF, 0xFFFF]);
    let scaled = scaled(Kind::Uint48, "0.001").decode(&[0xFFFF; 3]).unwrap();
    assert_eq!(scaled, Value::F64(281_474_976_710.655), "fits a JSON number");
    plain(Kind::Uint48).accept("281474976710656").unwrap_err();
    plain(Kind::Int48).accept("-140737488355329").unwrap_err();
}

/// IEEE 754 binary16: 1 bit of sign, 5 of exponent, 10 of fraction.
#[test]
fn half_precision() {
    for (word, value, text) in [
        (0x3C00, 1.0, "1"),
        (0xC000, -2.0, "-2"),
        (0x2E66, 0.1, "0.1"),
        (0x3555, 0.3333, "0.3333"),
        (0x7BFF, 65504.0, "65504"),
        (0x7002, 8208.0, "8208"),
        (0x0001, 6e-8, "0.00000006"),
        (0x0400, 0.000_061_04, "0.00006104"),
        (0x5640, 100.0, "100"),
        (0x4D0A, 20.16, "20.16"),
    ] {
        let held = plain(Kind::Float16).decode(&[word]).unwrap();
        assert_eq!((&held, held.to_string().as_str()), (&Value::F32(value), text));
        assert_eq!(sent(Kind::Float16, Order::ABCD, &held), [word], "{text}");
        assert_eq!(plain(Kind::Float16).accept(text).unwrap().effective, held);
    }
    assert_eq!(plain(Kind::Float16).decode(&[0x7E00]), Err(Fault::NotANumber));
    assert_eq!(plain(Kind::Float16).decode(&[0xFC00]), Err(Fault::Infinite));
    assert_eq!(sent(Kind::Float16, Order::BADC, &Value::F32(1.0)), [0x003C]);
    let refusal = plain(Kind::Float16).accept("65520").unwrap_err().to_string();
    assert_eq!(refusal, "65520 does not fit the device's float16: allowed is -6.5504e4 to 6.5504e4");
    assert_eq!(plain(Kind::Float16).accept("65519").unwrap().effective, Value::F32(65504.0));
    assert_eq!(scaled(Kind::Float16, "10").decode(&[0x2E66]), Ok(Value::F64(1.0)));
}

#[test]
fn digits_are_digits() {
    assert_eq!(plain(Kind::Bcd32).decode(&[0x9999, 0x9999]), Ok(Value::U64(99_999_999)));
    assert_eq!(
        plain(Kind::Bcd32).decode(&[0x0A00, 0x000F]),
        Err(Fault::Digit(0xA)),
        "the first one is named"
    );
    let refusal = plain(Kind::Bcd32).accept("100000000").unwrap_err().to_string();
    assert_eq!(refusal, "100000000 does not fit the device's bcd32: allowed is 0 to 99999999");
    assert_eq!(plain(Kind::Bcd16).accept("12.5").unwrap().effective, Value::U64(13));
    let refusal = scaled(Kind::Bcd16, "0.01").accept("100").unwrap_err().to_string();
    assert_eq!(refusal, "100 does not fit the device's bcd16: allowed is 0 to 99.99");
}

proptest! {
    #[test]
    fn registers_come_back_as_they_were(bits in any::<[u16; 4]>()) {
        for kind in KINDS.into_iter().filter(|kind| *kind != Kind::Text) {
            for order in orders(kind) {
                let format = Format { order, ..plain(kind) };
                let words = &bits[..usize::from(format.registers())];
                if let Ok(value) = format.decode(words) {
                    let encoded = format.encode(&value).unwrap();
                    // A value of 8 bits says nothing of the rest of its register.
                    let mask = if is_byte(kind) { 0xFF } else { 0xFFFF };
                    let held = encoded.words().iter().map(|word| order.word(*word) & mask);
                    prop_assert!(held.eq(words.iter().map(|word| order.word(*word) & mask)), "{} {:?}", kind, order);
                    prop_assert_eq!(&format.accept(&value.to_string()).unwrap().effective, &value);
                }
            }
        }
    }

    /// The short way of the commonest kinds is that of all others.
    #[test]
    fn both_ways_to_decode_say_the_same(words in any::<[u16; 4]>(), bytes in any::<bool>(), turned in any::<bool>()) {
        for kind in KINDS.into_iter().filter(|kind| !is_byte(*kind) && *kind != Kind::Text) {
            for scale in ["1", "0.1"] {
                let order = Order { bytes, words: turned, dwords: turned };
                let simple = format(kind, order, scale, "0");
                let general = Format { count: Some(1), ..simple.clone() };
                for length in 0..=words.len() {
                    let expected = match general.decode(&words[..length]) {
                        Ok(Value::Array(values)) => Ok(values[0].clone()),
                        Err(Fault::Element { fault, .. }) => Err(*fault),
                        other => other,
                    };
                    prop_assert_eq!(simple.decode(&words[..length]), expected, "{} {}", kind, length);
                }
            }
        }
    }

    #[test]
    fn any_registers_are_a_value_or_a_fault(
        kind in proptest::sample::select(&KINDS[..]),
        count in proptest::option::of(0_u16..9),
        length in 0_u16..9,
        encoding in proptest::sample::select(&[Encoding::Ascii, Encoding::Latin1, Encoding::Utf8, Encoding::Utf16][..]),
        part in proptest::sample::select(
            &[Part::Whole, Part::Bit(15), Part::Bits { low: 3, high: 15 }, Part::High, Part::Low, Part::Bit(99)][..]
        ),
        words in proptest::collection::vec(any::<u16>(), 0..40),
        exact in any::<bool>(),
    ) {
        let text = Text { length, encoding, padding: Padding::Space };
        let format = Format { count, text, part, not_available: vec![0, 0xFFFF], ..plain(kind) };
        let fits = if exact { usize::from(format.registers()).min(words.len()) } else { words.len() };
        if let Ok(value) = format.decode(&words[..fits]) {
            drop(format.encode(&value));
            drop(format.accept(&value.to_string()));
        }
    }
}
