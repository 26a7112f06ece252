#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use proptest::prelude::*;
use rust_decimal::Decimal;

use super::*;
use crate::model::Rule;

mod arrays;
mod cases;
mod labels;
mod parts;
mod ranges;
mod sentinels;
mod texts;
mod types;

fn format(kind: Kind, order: Order, scale: &str, offset: &str) -> Format {
    let decimal =
        |text: &str| Decimal::from_str_exact(text).or_else(|_| Decimal::from_scientific(text)).unwrap();
    let scale = Scale::Linear { factor: decimal(scale), offset: decimal(offset) };
    Format { order, scale, ..Format::plain(kind) }
}

fn plain(kind: Kind) -> Format {
    format(kind, Order::ABCD, "1", "0")
}

fn scaled(kind: Kind, scale: &str) -> Format {
    format(kind, Order::ABCD, scale, "0")
}

const KINDS: [Kind; 17] = [
    Kind::Bool,
    Kind::Int8,
    Kind::Uint8,
    Kind::Int16,
    Kind::Uint16,
    Kind::Int32,
    Kind::Uint32,
    Kind::Int48,
    Kind::Uint48,
    Kind::Int64,
    Kind::Uint64,
    Kind::Float16,
    Kind::Float32,
    Kind::Float64,
    Kind::Bcd16,
    Kind::Bcd32,
    Kind::Text,
];

#[test]
fn wide_values_in_every_order() {
    let words =
        |order| format(Kind::Uint64, order, "1", "0").encode(&Value::U64(0x0102_0304_0506_0708)).unwrap();
    assert_eq!(words(Order::ABCD).words(), [0x0102, 0x0304, 0x0506, 0x0708]);
    assert_eq!(words(Order::CDAB).words(), [0x0708, 0x0506, 0x0304, 0x0102]);
    assert_eq!(words(Order::BADC).words(), [0x0201, 0x0403, 0x0605, 0x0807]);
    assert_eq!(words(Order::DCBA).words(), [0x0807, 0x0605, 0x0403, 0x0201]);
}

#[test]
fn wide_integers_keep_every_digit() {
    let max = scaled(Kind::Uint64, "0.1").decode(&[0xFFFF; 4]).unwrap();
    assert_eq!(max, Value::Text("1844674407370955161.5".into()));
    let min = scaled(Kind::Int64, "0.001").decode(&[0x8000, 0, 0, 0]).unwrap();
    assert_eq!(min, Value::Text("-9223372036854775.808".into()));
    let whole = scaled(Kind::Int64, "0.01").decode(&[0, 0, 0, 1000]).unwrap();
    assert_eq!(whole, Value::Text("10".into()));
    // 38 digits are exact, more are no value.
    let many = scaled(Kind::Uint64, "0.333333333333333333");
    assert_eq!(
        many.decode(&[0xFFFF; 4]).unwrap(),
        Value::Text("6148914691236517198.851085308763482795".into())
    );
    let more = scaled(Kind::Uint64, "0.3333333333333333333333333333");
    assert_eq!(more.decode(&[0xFFFF; 4]), Err(Fault::TooWide));
}

#[test]
fn many_digits_are_the_nearest_double() {
    let format = format(Kind::Uint32, Order::ABCD, "0.3333333333333333333333333333", "0");
    let value = format.decode(&[0xFFFF, 0xFFFF]).unwrap();
    let nearest: f64 = "1431655764.9999999999999999998568348".parse().unwrap();
    assert_eq!(value, Value::F64(nearest));
}

#[test]
fn floats_that_are_no_numbers_are_faults() {
    let narrow = plain(Kind::Float32);
    assert_eq!(narrow.decode(&[0x7FC0, 0]), Err(Fault::NotANumber));
    assert_eq!(narrow.decode(&[0x7FBF, 0xFF80]), Err(Fault::NotANumber));
    assert_eq!(narrow.decode(&[0x7F80, 0]), Err(Fault::Infinite));
    assert_eq!(narrow.decode(&[0xFF80, 0]), Err(Fault::Infinite));
    assert_eq!(plain(Kind::Float64).decode(&[0x7FF8, 0, 0, 0]), Err(Fault::NotANumber));
    // Finite on the wire, infinite when scaled.
    assert_eq!(scaled(Kind::Float64, "1e10").decode(&[0x7FEF, 0xFFFF, 0xFFFF, 0xFFFF]), Err(Fault::Infinite));
    assert_eq!(narrow.decode(&[1, 2, 3]), Err(Fault::Length { expected: 2, got: 3 }));
    assert_eq!(Fault::NotANumber.to_string(), "the registers hold NaN");
}

#[test]
fn scaled_floats_have_no_dust() {
    let value = |scale, number: f32| {
        let bits = number.to_bits();
        let words = [u16::try_from(bits >> 16).unwrap(), u16::try_from(bits & 0xFFFF).unwrap()];
        scaled(Kind::Float32, scale).decode(&words).unwrap()
    };
    assert_eq!(value("0.1", 49.98), Value::F64(4.998));
    assert_eq!(value("1000", 0.001), Value::F64(1.0));
    assert_eq!(value("10", f32::MAX), Value::F64(f64::from(f32::MAX) * 10.0), "falls back to doubles");
}

#[test]
fn writes_round_to_the_raw_step() {
    let cases = [
        (Kind::Uint16, "0.1", "0", "21.37", "21.4"),
        (Kind::Uint16, "0.1", "0", "21.35", "21.4"),
        (Kind::Int16, "0.1", "0", "-21.35", "-21.4"),
        (Kind::Uint16, "0.1", "0", "1e2", "100"),
        (Kind::Uint16, "0.1", "-40", "83.44", "83.4"),
        (Kind::Int16, "-0.1", "0", "2.5", "2.5"),
        (Kind::Int16, "1", "0", "72.5", "73"),
        (Kind::Int16, "1", "0", "-72.5", "-73"),
        (Kind::Int16, "1", "0", "72.4999999999999999999999999999999999999999999", "72"),
        (Kind::Int16, "1", "0", "72.5000000000000000000000000000000000000000001", "73"),
        (Kind::Uint64, "1", "0", "18446744073709551615", "18446744073709551615"),
        (Kind::Uint64, "0.1", "0", "1844674407370955161.5", "1844674407370955161.5"),
        (Kind::Int64, "1", "0", "-9223372036854775808", "-9223372036854775808"),
        (Kind::Float32, "1", "0", "49.98", "49.98"),
        (Kind::Float32, "1", "0", "16777217", "16777216"),
        (Kind::Float32, "0.1", "0", "2.3", "2.3"),
        (Kind::Float64, "0.1", "0", "2.3", "2.3"),
        (Kind::Float32, "1", "0", "1e-60", "0"),
    ];
    for (kind, scale, offset, asked, held) in cases {
        let accepted = format(kind, Order::ABCD, scale, offset).accept(asked).unwrap();
        assert_eq!(accepted.effective.to_string(), held, "{asked} as {kind} × {scale} + {offset}");
    }
    let accepted = scaled(Kind::Uint16, "0.1").accept("21.37").unwrap();
    assert_eq!(accepted, Accepted { requested: Value::F64(21.37), effective: Value::F64(21.4) });
    let accepted = plain(Kind::Uint64).accept("18446744073709551615").unwrap();
    assert_eq!(accepted.requested, Value::U64(u64::MAX));
}

#[test]
fn only_json_numbers_are_numbers() {
    let format = plain(Kind::Float64);
    for text in [
        "+1", " 1", "1 ", "0x10", "NaN", "Infinity", "1,5", "", ".5", "1.", "01", "-", "1e", "1e+", "--1",
        "1_0", "٣",
    ] {
        assert_eq!(
            format.accept(text),
            Err(Refusal::Type { text: text.to_owned(), allowed: "a number such as 72.5 or -1e2" })
        );
    }
    for text in ["0", "-0", "72.5", "1e2", "1E+2", "-0.5e-3"] {
        assert_eq!(format.accept(text).unwrap().effective, Value::F64(text.parse().unwrap()), "{text}");
    }
}

#[test]
fn words_for_coils() {
    let format = plain(Kind::Bool);
    for (text, value) in
        [("true", true), ("ON", true), ("1", true), ("False", false), ("off", false), ("0", false)]
    {
        assert_eq!(format.accept(text).unwrap().effective, Value::Bool(value), "{text}");
    }
    for text in ["yes", "2", "1.0", " on", ""] {
        format.accept(text).unwrap_err();
    }
    assert_eq!(format.decode(&[2]), Err(Fault::NotBool(2)));
}

#[test]
fn what_the_raw_type_cannot_hold_is_refused_in_engineering_units() {
    let range = |format: Format, text: &str| match format.accept(text) {
        Err(Refusal::RawRange { min, max, .. }) => format!("{min} to {max}"),
        other => panic!("{other:?}"),
    };
    assert_eq!(range(scaled(Kind::Uint16, "0.1"), "6553.6"), "0 to 6553.5");
    assert_eq!(range(scaled(Kind::Uint16, "0.1"), "-0.1"), "0 to 6553.5");
    assert_eq!(range(scaled(Kind::Int16, "-0.1"), "3276.9"), "-3276.7 to 3276.8");
    assert_eq!(range(format(Kind::Uint16, Order::ABCD, "0.1", "-40"), "-41"), "-40 to 6513.5");
    assert_eq!(range(plain(Kind::Uint64), "18446744073709551616"), "0 to 18446744073709551615");
    assert_eq!(range(plain(Kind::Int16), "1e300"), "-32768 to 32767");
    assert_eq!(range(plain(Kind::Int16), "1e999999999999"), "-32768 to 32767");
    assert_eq!(range(plain(Kind::Float32), "3.5e38"), "-3.4028235e38 to 3.4028235e38");
    assert_eq!(range(plain(Kind::Float64), "1e309"), "-1.7976931348623157e308 to 1.7976931348623157e308");
    // The edge still rounds inwards.
    assert_eq!(scaled(Kind::Uint16, "0.1").accept("6553.54").unwrap().effective, Value::F64(6553.5));
    assert_eq!(plain(Kind::Float32).accept("3.4028235e38").unwrap().effective, Value::F32(f32::MAX));
}

#[test]
fn a_bool_is_no_number() {
    plain(Kind::Int16).encode(&Value::Bool(true)).unwrap_err();
    plain(Kind::Bool).encode(&Value::I64(1)).unwrap_err();
    plain(Kind::Int16).encode(&Value::Null).unwrap_err();
    plain(Kind::Float64).encode(&Value::F64(f64::NAN)).unwrap_err();
}

fn any_order() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::ABCD), Just(Order::CDAB), Just(Order::BADC), Just(Order::DCBA)]
}

fn any_integer() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Int16),
        Just(Kind::Uint16),
        Just(Kind::Int32),
        Just(Kind::Uint32),
        Just(Kind::Int64),
        Just(Kind::Uint64)
    ]
}

proptest! {
    #[test]
    fn machine_words_say_what_exact_arithmetic_says(
        mantissa in prop_oneof![Just(1_i64), -1000_i64..1000, any::<i64>()], places in 0_u32..24,
        offset in prop_oneof![Just(0_i64), -1_000_000_i64..1_000_000, any::<i64>()], raw in prop_oneof![-70_000_i64..70_000, any::<i64>()],
    ) {
        let scaling = Scaling::linear(Decimal::new(mantissa, places), Decimal::new(offset, 2));
        let quick = scaling.and_then(|scaling| Some((scaling, scaling.apply_quick(raw)?)));
        if let Some((scaling, quick)) = quick {
            let exact = scaling.apply(raw.into()).unwrap().to_f64().unwrap();
            prop_assert_eq!(quick.to_bits(), exact.to_bits());
        }
    }

    #[test]
    fn integers_come_back_as_the_same_registers(
        kind in any_integer(),
        order in any_order(),
        words in proptest::array::uniform4(any::<u16>()),
        mantissa in prop_oneof![1_i64..100_000, -100_000_i64..-1],
        places in 0_u32..6,
        offset in -1_000_000_i64..1_000_000,
        plain in any::<bool>(),
    ) {
        let (scale, offset) = if plain {
            (Decimal::ONE, Decimal::ZERO)
        } else {
            (Decimal::new(mantissa, places), Decimal::new(offset, 2))
        };
        let format = Format { order, scale: Scale::Linear { factor: scale, offset }, ..Format::plain(kind) };
        let words = words.get(..usize::from(format.registers())).unwrap();
        let value = format.decode(words).unwrap();
        let encoded = format.encode(&value).unwrap();
        prop_assert_eq!(encoded.words(), words);
        let accepted = format.accept(&value.to_string()).unwrap();
        prop_assert_eq!(accepted.effective, value);
    }

    #[test]
    fn scaled_integers_are_the_exact_decimal(raw in any::<i32>(), mantissa in 1_i64..10_000, places in 0_u32..5) {
        let scale = Decimal::new(mantissa, places);
        let format = Format { scale: Scale::Linear { factor: scale, offset: Decimal::ZERO }, ..Format::plain(Kind::Int32) };
        let encoded = plain(Kind::Int32).encode(&Value::I64(raw.into())).unwrap();
        let value = format.decode(encoded.words()).unwrap();
        let exact: f64 = (Decimal::from(raw) * scale).to_string().parse().unwrap();
        prop_assert_eq!(value.as_f64(), Some(exact));
    }

    #[test]
    fn floats_come_back_as_the_same_bits(order in any_order(), bits in any::<u64>()) {
        for kind in [Kind::Float32, Kind::Float64] {
            let format = Format { order, ..plain(kind) };
            let words: Vec<u16> =
                (0..format.registers()).map(|at| u16::try_from(bits >> (16 * at) & 0xFFFF).unwrap()).collect();
            if let Ok(value) = format.decode(&words) {
                let encoded = format.encode(&value).unwrap();
                prop_assert_eq!(encoded.words(), words.as_slice());
                prop_assert_eq!(format.accept(&value.to_string()).unwrap().effective, value);
            }
        }
    }

    #[test]
    fn accepting_never_panics_and_settles(
        kind in any_integer(),
        text in r"-?[0-9]{1,30}(\.[0-9]{1,45})?([eE][+-]?[0-9]{1,4})?",
        places in 0_u32..28,
    ) {
        for kind in [kind, Kind::Float32, Kind::Float64] {
            let format = Format { scale: Scale::Linear { factor: Decimal::new(25, places), offset: Decimal::ZERO }, ..plain(kind) };
            if let Ok(accepted) = format.accept(&text) {
                let again = format.encode(&accepted.effective).unwrap();
                let again = format.decode(again.words()).unwrap();
                if kind == Kind::Float64 {
                    // Two doubles can stand for one scaled double: the last digit may move.
                    let (again, first) = (again.as_f64().unwrap(), accepted.effective.as_f64().unwrap());
                    prop_assert!((again - first).abs() <= first.abs() * 1e-15);
                } else {
                    prop_assert_eq!(again, accepted.effective);
                }
            }
        }
    }

    #[test]
    fn any_text_is_taken_or_refused(text in ".{0,20}") {
        for kind in [Kind::Bool, Kind::Int16, Kind::Uint64, Kind::Float32] {
            drop(scaled(kind, "0.1").accept(&text));
        }
    }
}
