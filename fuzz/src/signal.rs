//! Signals: places read bit by bit by the definition, and values that go both ways.

use arbitrary::Arbitrary;
use fieldbridge::{
    codec::can::{ByteOrder, Number, Place, Reading, Signal, Spec},
    model::Setpoint,
};
use rust_decimal::Decimal;

const FACTORS: [&str; 8] = ["1", "0.1", "0.5", "-0.01", "2", "0.3333333333", "1000", "0.0009765625"];
const OFFSETS: [&str; 4] = ["0", "-40", "0.5", "273.15"];

#[derive(Debug, PartialEq, Arbitrary)]
pub struct Input<'a> {
    pub start: u16,
    pub length: u8,
    pub is_motorola: bool,
    pub number: u8,
    pub factor: u8,
    pub offset: u8,
    pub payload: &'a [u8],
}

pub fn check(input: &Input<'_>) {
    let order = if input.is_motorola { ByteOrder::Motorola } else { ByteOrder::Intel };
    let start = input.start % 512;
    let length = input.length % 65;
    let Some(place) = Place::new(start, length, order) else {
        assert_eq!(length, 0);
        return;
    };
    let bits = by_bits(start, length, order, input.payload);
    assert_eq!(place.read(input.payload), bits);
    let number = [Number::Unsigned, Number::Signed, Number::Float][usize::from(input.number % 3)];
    let decimal = |list: &[&str], at: u8| {
        Decimal::from_str_exact(list[usize::from(at) % list.len()]).expect("a decimal")
    };
    let Some(kind) = number.kind(length) else { return };
    let spec = Spec {
        place,
        kind,
        factor: decimal(&FACTORS, input.factor),
        offset: decimal(&OFFSETS, input.offset),
        labels: None,
        not_available: Vec::new(),
        has_indicators: false,
    };
    let Ok(signal) = Signal::new(spec) else { return };
    let Reading::Value(value, None) = signal.read(input.payload) else { return };
    let bits = bits.expect("a value");
    if number == Number::Float {
        return;
    }
    // Every raw number has a value of its own as long as doubles tell them apart.
    if length <= 48 {
        assert_eq!(signal.bits(&value), Ok(bits), "{value:?}");
        let accepted = signal.accept(&value.to_string()).expect("what was read");
        assert!(accepted.effective.is_same(&value), "{accepted:?}");
    }
    let mut written = input.payload.to_vec();
    assert!(place.write(&mut written, bits));
    assert_eq!(written, input.payload);
    assert!(place.write(&mut written, !bits));
    assert!(place.write(&mut written, bits));
    assert_eq!(written, input.payload, "nothing else was touched");
}

fn by_bits(start: u16, length: u8, order: ByteOrder, payload: &[u8]) -> Option<u64> {
    let mut at = (usize::from(start / 8), start % 8);
    let mut bits = Vec::new();
    for _ in 0..length {
        bits.push(u64::from(payload.get(at.0)? >> at.1 & 1));
        at = match (order, at) {
            (ByteOrder::Intel, (byte, 7)) => (byte + 1, 0),
            (ByteOrder::Intel, (byte, bit)) => (byte, bit + 1),
            (ByteOrder::Motorola, (byte, 0)) => (byte + 1, 7),
            (ByteOrder::Motorola, (byte, bit)) => (byte, bit - 1),
        };
    }
    if order == ByteOrder::Intel {
        bits.reverse();
    }
    Some(bits.into_iter().fold(0, |number, bit| number << 1 | bit))
}
