//! Bit patterns that stand for `not available`.

use super::*;

fn with(format: Format, not_available: &[u64]) -> Format {
    Format { not_available: not_available.to_vec(), ..format }
}

#[test]
fn patterns_are_compared_after_byte_order_and_before_scaling() {
    let tenths = with(scaled(Kind::Int16, "0.1"), &[0x8000, 0x7FFF]);
    assert_eq!(tenths.decode(&[0x8000]), Err(Fault::NotAvailable));
    assert_eq!(tenths.decode(&[0x7FFF]), Err(Fault::NotAvailable));
    assert_eq!(tenths.decode(&[0x0080]), Ok(Value::F64(12.8)));
    let swapped = Format { order: Order::BADC, ..tenths };
    assert_eq!(swapped.decode(&[0x0080]), Err(Fault::NotAvailable));
    assert_eq!(swapped.decode(&[0x8000]), Ok(Value::F64(12.8)));
    let empty = with(plain(Kind::Bcd16), &[0xFFFF]);
    assert_eq!(empty.decode(&[0xFFFF]), Err(Fault::NotAvailable), "before its digits are looked at");
    let nan = with(plain(Kind::Float32), &[0x7FC0_0000]);
    assert_eq!(nan.decode(&[0x7FC0, 0]), Err(Fault::NotAvailable));
    assert_eq!(nan.decode(&[0x7FC0, 1]), Err(Fault::NotANumber));
    let field = with(Format { part: Part::Bits { low: 4, high: 7 }, ..plain(Kind::Uint16) }, &[0xF]);
    assert_eq!(
        (field.decode(&[0x00F0]), field.decode(&[0xFF0F])),
        (Err(Fault::NotAvailable), Ok(Value::U64(0)))
    );
}

#[test]
fn what_would_be_read_as_no_value_is_not_written() {
    let tenths = with(scaled(Kind::Uint16, "0.1"), &[0xFFFF]);
    for text in ["6553.5", "6553.54"] {
        let refusal = tenths.accept(text).unwrap_err();
        let expected =
            format!("{text} is what the device says when it has no value, so it cannot be written");
        assert_eq!((refusal.to_string(), refusal.rule()), (expected, Rule::RawRange));
    }
    assert_eq!(tenths.accept("6553.4").unwrap().effective, Value::F64(6553.4));
    tenths.encode(&Value::F64(6553.5)).unwrap_err();
    with(plain(Kind::Float32), &[0]).encode(&Value::F32(0.0)).unwrap_err();
    with(plain(Kind::Float64), &[0]).encode(&Value::F64(0.0)).unwrap_err();
}
