//! Fields in bytes.

use super::*;

fn binary(offset: usize, format: &Format) -> Field {
    Field::binary(Path::default(), Binary::new(offset, format).unwrap())
}

fn read(field: &Field, payload: &[u8]) -> String {
    tell(&field.read(&Encoding::Binary.parse(payload, BOUNDS).unwrap()))
}

#[test]
fn values_in_bytes() {
    let payload = [0x01, 0xFF, 0x01, 0x2F, 0xCD, 0xCC, 0xAD, 0x41, 0xFE, b'h', b'i', 0];
    let plain = Format::plain;
    assert_eq!(read(&binary(0, &plain(Kind::Bool)), &payload), "true");
    assert_eq!(read(&binary(1, &plain(Kind::Int8)), &payload), "-1");
    assert_eq!(read(&binary(1, &plain(Kind::Uint8)), &payload), "255");
    let scale = Scale::Linear { factor: Decimal::new(1, 1), offset: Decimal::ZERO };
    assert_eq!(read(&binary(2, &Format { scale, ..plain(Kind::Int16) }), &payload), "30.3");
    assert_eq!(read(&binary(2, &Format { order: Order::BADC, ..plain(Kind::Uint16) }), &payload), "12033");
    assert_eq!(read(&binary(4, &Format { order: Order::DCBA, ..plain(Kind::Float32) }), &payload), "21.725");
    for (bit, expected) in [(0, "false"), (1, "true"), (7, "true")] {
        assert_eq!(
            read(&binary(8, &Format { part: Part::Bit(bit), ..plain(Kind::Bool) }), &payload),
            expected
        );
    }
    let bits = Part::Bits { low: 4, high: 7 };
    assert_eq!(read(&binary(2, &Format { part: bits, ..plain(Kind::Uint16) }), &payload), "2");
    let text = crate::codec::value::Text { length: 3, ..Default::default() };
    assert_eq!(read(&binary(9, &Format { text, ..plain(Kind::Text) }), &payload), "hi");
    assert_eq!(read(&binary(1, &Format { count: Some(3), ..plain(Kind::Uint8) }), &payload), "[255, 1, 47]");
    assert_eq!(read(&binary(0, &Format { count: Some(2), ..plain(Kind::Uint16) }), &payload), "[511, 303]");
    assert_eq!(
        read(&binary(1, &Format { not_available: vec![0xFF], ..plain(Kind::Uint8) }), &payload),
        "not available"
    );
    assert_eq!(
        read(&binary(10, &plain(Kind::Uint32)), &payload),
        "the payload: bytes 10 to 13 of a payload of 12"
    );
    assert_eq!(read(&binary(usize::MAX, &plain(Kind::Uint32)), b"").get(..12), Some("the payload:"));
}

#[test]
fn bytes_within_message_pack() {
    let field = Field::binary(path("raw"), Binary::new(1, &Format::plain(Kind::Uint16)).unwrap());
    let document = Encoding::MessagePack.parse(b"\x82\xA3raw\xC4\x03\x00\x01\x02\xA1x\x01", BOUNDS).unwrap();
    assert_eq!(tell(&field.read(&document)), "258");
    let document = Encoding::MessagePack.parse(b"\x81\xA3raw\x05", BOUNDS).unwrap();
    assert_eq!(tell(&field.read(&document)), "`raw`: a number where bytes was expected");
}

#[test]
fn parts_that_bytes_do_not_have() {
    for format in [
        Format { part: Part::High, ..Format::plain(Kind::Uint8) },
        Format { part: Part::Bit(8), ..Format::plain(Kind::Bool) },
        Format { part: Part::Bits { low: 0, high: 3 }, ..Format::plain(Kind::Uint32) },
        Format { count: Some(4), ..Format::plain(Kind::Bool) },
    ] {
        assert_eq!(Binary::new(0, &format), Err(Unfit::Part(format.kind)));
    }
}

#[test]
fn bytes_are_written_alone() {
    let write = |format: &Format, text: &str| {
        let field = binary(4, format);
        let value = field.accept(text).unwrap().effective;
        field.encode(&value, &Template::bare(Form::Text), 0)
    };
    assert_eq!(write(&Format::plain(Kind::Int8), "-2").unwrap(), [0xFE]);
    assert_eq!(write(&Format::plain(Kind::Bool), "on").unwrap(), [1]);
    assert_eq!(
        write(&Format { order: Order::DCBA, ..Format::plain(Kind::Uint32) }, "1").unwrap(),
        [1, 0, 0, 0]
    );
    assert_eq!(
        write(&Format { count: Some(3), ..Format::plain(Kind::Uint8) }, "[1,2,3]").unwrap(),
        [1, 2, 3]
    );
    write(&Format { part: Part::Bit(2), ..Format::plain(Kind::Bool) }, "on").unwrap_err();
}
