//! Arrays: of registers, of bytes, of bits, of texts.

use super::*;

fn array(kind: Kind, count: u16) -> Format {
    Format { count: Some(count), ..plain(kind) }
}

fn list<const N: usize>(values: [Value; N]) -> Value {
    Value::Array(values.into())
}

#[test]
fn elements_follow_one_another() {
    let floats = Format { order: Order::CDAB, ..array(Kind::Float32, 2) };
    assert_eq!(floats.registers(), 4);
    let words = [0xEB85, 0x4247, 0x0000, 0xC18E];
    let values = list([Value::F32(49.98), Value::F32(-17.75)]);
    assert_eq!(floats.decode(&words), Ok(values.clone()));
    assert_eq!(floats.encode(&values).unwrap().words(), words);
    assert_eq!(values.to_string(), "[49.98, -17.75]");
    let accepted = floats.accept("[49.98, \"-17.75\"]").unwrap();
    assert_eq!(accepted.effective, values);
    assert_eq!(accepted.requested, list([Value::F64(49.98), Value::F64(-17.75)]));
}

#[test]
fn bytes_are_packed_the_first_in_the_high_one() {
    let bytes = array(Kind::Int8, 3);
    assert_eq!((bytes.registers(), array(Kind::Uint8, 4).registers()), (2, 2));
    let values = list([Value::I64(-1), Value::I64(2), Value::I64(3)]);
    assert_eq!(bytes.decode(&[0xFF02, 0x03EE]), Ok(values.clone()));
    assert_eq!(bytes.encode(&values).unwrap().words(), [0xFF02, 0x0300]);
    let swapped = Format { order: Order::BADC, ..bytes };
    assert_eq!(swapped.decode(&[0x02FF, 0xEE03]), Ok(values.clone()));
    assert_eq!(swapped.encode(&values).unwrap().words(), [0x02FF, 0x0003]);
}

#[test]
fn one_bad_element_makes_the_whole_bad() {
    let fault = array(Kind::Bcd16, 3).decode(&[0x1234, 0x12A4, 0xFFFF]).unwrap_err();
    assert_eq!(fault.to_string(), "element [1]: invalid BCD digit A");
    assert_eq!(fault.reason(), Reason::DecodeError);
    let missing = Format { not_available: vec![0xFFFF], ..array(Kind::Uint16, 2) };
    let fault = missing.decode(&[1, 0xFFFF]).unwrap_err();
    assert_eq!(fault.to_string(), "element [1]: the device says that it has no value");
    assert_eq!(fault.reason(), Reason::NotAvailable);
    assert_eq!(missing.decode(&[1]), Err(Fault::Length { expected: 2, got: 1 }));
}

#[test]
fn bits_of_a_table() {
    let one = plain(Kind::Bool).codec();
    assert_eq!((one.bits(), one.decode_bits(&[true])), (1, Ok(Value::Bool(true))));
    assert_eq!(one.decode_bits(&[true, true]), Err(Fault::Length { expected: 1, got: 2 }));
    assert_eq!(one.encode_bits(&Value::Bool(true)), Ok(Raw::Bits(vec![true])));
    one.encode_bits(&Value::U64(1)).unwrap_err();
    let three = array(Kind::Bool, 3).codec();
    let values = list([Value::Bool(true), Value::Bool(false), Value::Bool(true)]);
    assert_eq!((three.bits(), three.decode_bits(&[true, false, true])), (3, Ok(values.clone())));
    assert_eq!(three.encode_bits(&values), Ok(Raw::Bits(vec![true, false, true])));
    assert_eq!(three.accept("[true, \"off\", 1]").unwrap().effective, values);
    assert_eq!(three.decode_bits(&[true]), Err(Fault::Length { expected: 3, got: 1 }));
    three.encode_bits(&Value::Bool(true)).unwrap_err();
}

#[test]
fn elements_are_written_as_json_and_exactly_as_many() {
    let tariff = array(Kind::Uint16, 2);
    for (text, refusal) in [
        ("5", "`5` is not a JSON array such as [1, 2.5]"),
        ("[1, 2", "`[1, 2` is not a JSON array such as [1, 2.5]"),
        ("[1]", "an array of 1 elements: the tag has 2"),
        ("[1, 2, 3]", "an array of 3 elements: the tag has 2"),
        ("[1, 65536]", "element [1]: 65536 does not fit the device's uint16: allowed is 0 to 65535"),
        ("[1, null]", "element [1]: `null` is not a number such as 72.5 or -1e2"),
        ("[[1], 2]", "element [0]: `[1]` is not a number such as 72.5 or -1e2"),
        ("[true, 2]", "element [0]: `true` is not a number such as 72.5 or -1e2"),
    ] {
        assert_eq!(tariff.accept(text).unwrap_err().to_string(), refusal, "{text}");
    }
    tariff.encode(&Value::U64(1)).unwrap_err();
    tariff.encode(&list([Value::U64(1)])).unwrap_err();
    let long = format!("[{}]", "1,".repeat(1000));
    assert!(tariff.accept(&long).unwrap_err().to_string().len() < 600);
}

/// Numbers keep all their digits on the way through JSON.
#[test]
fn wide_elements_lose_nothing() {
    let wide = array(Kind::Uint64, 1);
    let accepted = wide.accept("[18446744073709551615]").unwrap();
    assert_eq!(accepted.effective, list([Value::U64(u64::MAX)]));
    let scaled = Format { scale: scaled(Kind::Int64, "0.001").scale, ..array(Kind::Int64, 1) };
    let accepted = scaled.accept("[-9223372036854775.808]").unwrap();
    assert_eq!(accepted.effective, list([Value::Text("-9223372036854775.808".into())]));
}

#[test]
fn texts_take_whole_registers_each() {
    let names = Format { text: Text { length: 3, ..Text::default() }, ..array(Kind::Text, 2) };
    assert_eq!(names.registers(), 4);
    let values = list([Value::Text("abc".into()), Value::Text("d".into())]);
    let words = [0x6162, 0x6300, 0x6400, 0x0000];
    assert_eq!(names.decode(&words), Ok(values.clone()));
    assert_eq!(names.encode(&values).unwrap().words(), words);
    assert_eq!(names.accept("[\"abc\", \"d\"]").unwrap().effective, values);
}

proptest! {
    #[test]
    fn arrays_come_back_as_they_were(kind in proptest::sample::select(&KINDS[..16]), words in any::<[u16; 8]>()) {
        let count = if is_byte(kind) { 16 } else { 8 / plain(kind).registers() };
        let format = array(kind, count);
        if let Ok(value) = format.decode(&words[..usize::from(format.registers())]) {
            let encoded = format.encode(&value).unwrap();
            prop_assert_eq!(encoded.words(), &words[..encoded.words().len()]);
            prop_assert_eq!(format.accept(&value.to_string()).unwrap().effective, value);
        }
    }
}
