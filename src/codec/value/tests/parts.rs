//! Bits, bit ranges and bytes of a register.

use super::*;

fn part(kind: Kind, part: Part, order: Order) -> Format {
    Format { order, part, ..plain(kind) }
}

fn masked(format: &Format, text: &str) -> (u16, u16) {
    let value = format.accept(text).unwrap().effective;
    match format.encode(&value).unwrap() {
        Raw::Masked { mask, bits } => (mask, bits),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bit_is_counted_from_the_least_significant() {
    let bit = part(Kind::Bool, Part::Bit(3), Order::ABCD);
    assert_eq!(bit.decode(&[0x0008]), Ok(Value::Bool(true)));
    assert_eq!(bit.decode(&[0xFFF7]), Ok(Value::Bool(false)));
    assert_eq!((masked(&bit, "on"), masked(&bit, "off")), ((0x0008, 0x0008), (0x0008, 0)));
    let top = part(Kind::Bool, Part::Bit(15), Order::ABCD);
    assert_eq!((top.decode(&[0x8000]), masked(&top, "1")), (Ok(Value::Bool(true)), (0x8000, 0x8000)));
}

/// The bit is counted after the bytes were brought in order; what is sent is as it is on the wire.
#[test]
fn a_bit_of_a_register_whose_bytes_are_exchanged() {
    let bit = part(Kind::Bool, Part::Bit(3), Order::BADC);
    assert_eq!(bit.decode(&[0x0800]), Ok(Value::Bool(true)));
    assert_eq!(bit.decode(&[0x0008]), Ok(Value::Bool(false)));
    assert_eq!(masked(&bit, "on"), (0x0800, 0x0800));
}

#[test]
fn a_range_of_bits_is_a_number() {
    let bits = part(Kind::Uint16, Part::Bits { low: 4, high: 6 }, Order::ABCD);
    assert_eq!(bits.decode(&[0x0050]), Ok(Value::U64(5)));
    assert_eq!(bits.decode(&[0xFF8F]), Ok(Value::U64(0)));
    assert_eq!(masked(&bits, "6"), (0x0070, 0x0060));
    let refusal = bits.accept("8").unwrap_err().to_string();
    assert_eq!(refusal, "8 does not fit the device's uint16: allowed is 0 to 7");
    let all = part(Kind::Uint16, Part::Bits { low: 0, high: 15 }, Order::ABCD);
    assert_eq!((all.decode(&[0xFFFF]), masked(&all, "65535")), (Ok(Value::U64(65535)), (0xFFFF, 0xFFFF)));
    let swapped = part(Kind::Uint16, Part::Bits { low: 6, high: 9 }, Order::BADC);
    assert_eq!((swapped.decode(&[0x8001]), masked(&swapped, "6")), (Ok(Value::U64(6)), (0xC003, 0x8001)));
    let tenths = Format { scale: scaled(Kind::Uint16, "0.5").scale, ..bits };
    assert_eq!((tenths.decode(&[0x0050]), masked(&tenths, "3.5")), (Ok(Value::F64(2.5)), (0x70, 0x70)));
}

#[test]
fn a_byte_is_the_high_or_the_low_one() {
    let high = part(Kind::Int8, Part::High, Order::ABCD);
    let low = part(Kind::Uint8, Part::Low, Order::ABCD);
    assert_eq!((high.decode(&[0xFE12]), low.decode(&[0xFE12])), (Ok(Value::I64(-2)), Ok(Value::U64(0x12))));
    assert_eq!((masked(&high, "-1"), masked(&low, "200")), ((0xFF00, 0xFF00), (0x00FF, 200)));
    let swapped = part(Kind::Int8, Part::High, Order::BADC);
    assert_eq!((swapped.decode(&[0x12FE]), masked(&swapped, "-128")), (Ok(Value::I64(-2)), (0x00FF, 0x80)));
    let refusal = high.accept("128").unwrap_err().to_string();
    assert_eq!(refusal, "128 does not fit the device's int8: allowed is -128 to 127");
    low.accept("-1").unwrap_err();
}

#[test]
fn a_whole_register_can_be_a_bool() {
    let whole = plain(Kind::Bool);
    assert_eq!(whole.decode(&[1]), Ok(Value::Bool(true)));
    assert_eq!(whole.decode(&[2]), Err(Fault::NotBool(2)));
    assert_eq!(whole.encode(&Value::Bool(true)).unwrap().words(), [1]);
    let swapped = Format { order: Order::BADC, ..whole };
    assert_eq!(swapped.decode(&[0x0100]), Ok(Value::Bool(true)));
    assert_eq!(swapped.encode(&Value::Bool(true)).unwrap().words(), [0x0100]);
}

proptest! {
    /// What is written into a register is what is read from it, and nothing else of it changes.
    #[test]
    fn a_part_changes_nothing_beside_it(
        register in any::<u16>(), low in 0_u8..16, width in 0_u8..16, value in any::<u16>(), bytes in any::<bool>(),
    ) {
        let high = (low + width).min(15);
        let order = Order { bytes, ..Order::ABCD };
        let bits = part(Kind::Uint16, Part::Bits { low, high }, order);
        let value = u64::from(value) & ((2_u64 << (high - low)) - 1);
        let (mask, sent) = masked(&bits, &value.to_string());
        prop_assert_eq!(sent & !mask, 0);
        let after = register & !mask | sent;
        prop_assert_eq!(bits.decode(&[after]), Ok(Value::U64(value)));
        for other in (0..16).filter(|bit| !(low..=high).contains(bit)) {
            let other = part(Kind::Bool, Part::Bit(other), order);
            prop_assert_eq!(other.decode(&[after]), other.decode(&[register]));
        }
    }
}
