//! Places of bits against a bit-by-bit reading, and signals by vectors.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use proptest::prelude::*;
use rust_decimal::Decimal;

use super::{j1939::Header, *};
use crate::model::{Kind, Labels, Refusal, Setpoint, Value};

/// The bits of a place, the least significant first, each as byte and bit: by the definition of DBC files.
fn bits(start: u16, length: u8, order: ByteOrder) -> Vec<(usize, u8)> {
    let mut at = (usize::from(start / 8), u8::try_from(start % 8).unwrap());
    let mut found = Vec::new();
    for _ in 0..length {
        found.push(at);
        at = match (order, at) {
            (ByteOrder::Intel, (byte, 7)) => (byte + 1, 0),
            (ByteOrder::Intel, (byte, bit)) => (byte, bit + 1),
            (ByteOrder::Motorola, (byte, 0)) => (byte + 1, 7),
            (ByteOrder::Motorola, (byte, bit)) => (byte, bit - 1),
        };
    }
    if order == ByteOrder::Motorola {
        found.reverse();
    }
    found
}

fn places() -> impl Strategy<Value = (u16, u8, ByteOrder)> {
    (0..512_u16, 1..=64_u8, prop_oneof![Just(ByteOrder::Intel), Just(ByteOrder::Motorola)])
}

proptest! {
    #[test]
    fn a_place_is_read_and_written_bit_by_bit(
        (start, length, order) in places(), payload in proptest::collection::vec(any::<u8>(), 0..=64), value: u64,
    ) {
        let place = Place::new(start, length, order).unwrap();
        let bits = bits(start, length, order);
        let fits = bits.iter().all(|(byte, _)| *byte < payload.len());
        let expected = bits.iter().rev().try_fold(0_u64, |number, (byte, bit)| {
            Some(number << 1 | u64::from(payload.get(*byte)? >> bit & 1))
        });
        prop_assert_eq!(place.read(&payload), expected);
        prop_assert_eq!(place.end() <= payload.len(), fits);

        let mut written = payload.clone();
        prop_assert_eq!(place.write(&mut written, value), fits);
        let mut by_bits = payload.clone();
        if fits {
            for (at, (byte, bit)) in bits.iter().enumerate() {
                let on = u8::from(value >> at & 1 == 1);
                let byte = by_bits.get_mut(*byte).unwrap();
                *byte = *byte & !(1 << bit) | on << bit;
            }
        }
        prop_assert_eq!(written, by_bits);

        let mut masks = std::collections::BTreeMap::<usize, u8>::new();
        for (byte, bit) in bits {
            *masks.entry(byte).or_default() |= 1 << bit;
        }
        prop_assert_eq!(place.masks().collect::<Vec<_>>(), masks.into_iter().collect::<Vec<_>>());
    }
}

fn signal(start: u16, length: u8, number: Number, factor: &str, offset: &str) -> Signal {
    let spec = Spec {
        place: Place::new(start, length, ByteOrder::Intel).unwrap(),
        kind: number.kind(length).unwrap(),
        factor: Decimal::from_str_exact(factor).unwrap(),
        offset: Decimal::from_str_exact(offset).unwrap(),
        labels: None,
        not_available: Vec::new(),
        has_indicators: false,
    };
    Signal::new(spec).unwrap()
}

fn value(value: Value) -> Reading {
    Reading::Value(value, None)
}

#[test]
fn narrow_numbers_have_their_own_sign_and_range() {
    let signed = signal(4, 12, Number::Signed, "1", "0");
    assert_eq!(signed.read(&[0x0F, 0x80]), value(Value::I64(-2048)));
    assert_eq!(signed.read(&[0xF0, 0xFF]), value(Value::I64(-1)));
    assert_eq!(signed.bits(&Value::I64(-1)), Ok(0xFFF));
    let refused = signed.accept("2048").unwrap_err();
    assert_eq!(refused.to_string(), "2048 does not fit the device's int16: allowed is -2048 to 2047");
    let unsigned = signal(0, 3, Number::Unsigned, "0.5", "-1");
    assert_eq!(unsigned.read(&[0xFF]), value(Value::F64(2.5)));
    let refused = unsigned.accept("2.76").unwrap_err();
    assert_eq!(refused.to_string(), "2.76 does not fit the device's uint8: allowed is -1 to 2.5");
    assert_eq!(unsigned.bits(&Value::F64(0.0)), Ok(2));
    assert_eq!(signed.read(&[0xFF]), Reading::Short);
    // A single bit with a sign is 0 or -1.
    assert_eq!(signal(7, 1, Number::Signed, "1", "0").read(&[0x80]), value(Value::I64(-1)));
    let wide = signal(0, 64, Number::Unsigned, "0.1", "0");
    assert_eq!(wide.read(&[0xFF; 8]), value(Value::Text("1844674407370955161.5".into())));
}

#[test]
fn words_are_for_raw_numbers_also_of_scaled_signals() {
    let mut spec = signal(0, 16, Number::Unsigned, "0.1", "-50").spec().clone();
    spec.labels = Some(Arc::new(Labels::new([(65535, "sensor open".into()), (70_000, "never".into())])));
    let temperature = Signal::new(spec).unwrap();
    let open = Reading::Value(Value::F64(6503.5), Some("sensor open".into()));
    assert_eq!(temperature.read(&[0xFF, 0xFF]), open);
    assert_eq!(temperature.read(&[0xF4, 0x01]), value(Value::F64(0.0)));
    let accepted = temperature.accept("Sensor Open").unwrap();
    assert_eq!(temperature.bits(&accepted.effective), Ok(0xFFFF));
    assert!(
        matches!(temperature.accept("shut"), Err(Refusal::Label { labels, .. }) if labels.contains("65535 = sensor open"))
    );
    assert!(temperature.accept("never").is_err(), "a word of a number that it cannot hold");
    let mut spec = signal(0, 8, Number::Signed, "1", "0").spec().clone();
    spec.labels = Some(Arc::new(Labels::new([(-1, "Reverse".into())])));
    let gear = Signal::new(spec).unwrap();
    assert_eq!(gear.read(&[0xFF]), Reading::Value(Value::I64(-1), Some("Reverse".into())));
    assert_eq!(gear.bits(&gear.accept("Reverse").unwrap().effective), Ok(0xFF));
}

#[test]
fn a_factor_of_nothing_reads_as_its_offset_and_takes_nothing() {
    let constant = signal(0, 8, Number::Unsigned, "0", "5");
    assert_eq!(constant.read(&[21]), value(Value::F64(5.0)));
    assert!(constant.is_constant() && constant.accept("5").is_err());
}

#[test]
fn floats_are_as_long_as_they_are() {
    assert_eq!(Number::Float.kind(16), None);
    let gain = signal(0, 32, Number::Float, "0.001", "5");
    assert_eq!(gain.read(&1500_f32.to_le_bytes()), value(Value::F64(6.5)));
    assert!(matches!(gain.read(&f32::NAN.to_le_bytes()), Reading::Fault(_)));
    let energy = signal(0, 64, Number::Float, "1", "0");
    let accepted = energy.accept("0.5").unwrap();
    assert_eq!(energy.bits(&accepted.effective), Ok(0x3FE0_0000_0000_0000));
    assert!(Signal::new(Spec { kind: Kind::Text, ..energy.spec().clone() }).is_err());
}

#[test]
fn identifiers_of_j1939_have_groups_sources_and_destinations() {
    let header = |id: u32| Header::of(Id::extended(id).unwrap()).unwrap();
    // EEC1 of the engine, to all.
    let eec1 = header(0x0CF0_0400);
    assert_eq!(eec1, Header { pgn: 61444, source: 0, destination: None, priority: 3 });
    // TSC1 from 0x21 to the engine.
    let tsc1 = header(0x0C00_0021);
    assert_eq!(tsc1, Header { pgn: 0, source: 0x21, destination: Some(0), priority: 3 });
    assert_eq!(header(0x18EA_FF21).pgn, 59904, "the destination is no part of the group");
    assert_eq!(header(0x19FE_CA05).pgn, 0x1FECA, "with its data page");
    assert_eq!(Header::of(Id::standard(0x100).unwrap()), None);
}

proptest! {
    #[test]
    fn identifiers_of_j1939_are_made_of_their_parts(number in 0..=0x1FFF_FFFF_u32) {
        let id = Id::extended(number).unwrap();
        prop_assert_eq!(Header::of(id).unwrap().id(), Some(id));
    }
}

#[test]
fn the_highest_raw_numbers_of_j1939_are_no_values() {
    use j1939::{
        Indicator::{Error, NotAvailable},
        indicator,
    };
    for (bits, length, expected) in [
        (3, 2, Some(NotAvailable)),
        (2, 2, Some(Error)),
        (1, 2, None),
        (1, 1, None),
        (15, 4, Some(NotAvailable)),
        (14, 4, Some(Error)),
        (0xFA, 8, None),
        (0xFE, 8, Some(Error)),
        (0xFF, 8, Some(NotAvailable)),
        (0xFAFF, 16, None),
        (0xFE00, 16, Some(Error)),
        (0xFEFF, 16, Some(Error)),
        (0xFF00, 16, Some(NotAvailable)),
        (0xFFFF, 16, Some(NotAvailable)),
        (0xFF_FFFF, 24, Some(NotAvailable)),
        (0xFE00_0001, 32, Some(Error)),
        (0xFFFF_FFFF, 32, Some(NotAvailable)),
        (u64::MAX, 64, None),
    ] {
        assert_eq!(indicator(bits, length), expected, "{bits:X} of {length} bits");
    }
}

#[test]
fn indicators_of_j1939_that_have_a_word_of_their_own_are_values() {
    let labels =
        [(1, "speed"), (2, "torque"), (3, "Not Available")].map(|(number, word)| (number, word.into()));
    let plain = signal(0, 2, Number::Unsigned, "1", "0").spec().clone();
    let labels = Some(Arc::new(Labels::new(labels)));
    let signal = Signal::new(Spec { labels, has_indicators: true, ..plain }).unwrap();
    assert_eq!(signal.value(2), Reading::Value(Value::U64(2), Some("torque".into())));
    assert_eq!(signal.value(3), Reading::NotAvailable);
    assert_eq!(signal.accept("torque").unwrap().effective, Value::U64(2));
    assert!(signal.accept("not available").is_err());
    for word in [
        "Error",
        "error indicator",
        "N/A",
        "SNA",
        "Don't care / take no action",
        "Not_available",
        "invalid data",
    ] {
        assert!(j1939::is_word_of_indicator(word), "{word}");
    }
    for word in ["limit", "Other", "Speed/Torque Limit Control", "reserved", "snap", "fault"] {
        assert!(!j1939::is_word_of_indicator(word), "{word}");
    }
}
