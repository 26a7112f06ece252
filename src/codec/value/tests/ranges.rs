//! Scaling by a raw range and a range of values.

use super::*;

fn ranges(kind: Kind, raw: [&str; 2], value: [&str; 2], clamp: bool) -> Format {
    let decimal = |text: &str| Decimal::from_str_exact(text).unwrap();
    let raw = (decimal(raw[0]), decimal(raw[1]));
    let scale = Scale::Ranges { raw, value: (decimal(value[0]), decimal(value[1])), clamp };
    Format { scale, ..plain(kind) }
}

fn word(number: i32) -> [u16; 1] {
    [u16::try_from(number & 0xFFFF).unwrap()]
}

/// 4 to 20 mA as 4000 to 20000 µA.
#[test]
fn a_current_loop_is_a_straight_line() {
    let level = ranges(Kind::Uint16, ["4000", "20000"], ["0", "100"], false);
    for (raw, value) in
        [(4000, 0.0), (20000, 100.0), (12000, 50.0), (12001, 50.00625), (3600, -2.5), (20500, 103.125)]
    {
        assert_eq!(level.decode(&word(raw)), Ok(Value::F64(value)), "{raw}");
        let accepted = level.accept(&value.to_string()).unwrap();
        assert_eq!(accepted.effective, Value::F64(value));
        assert_eq!(level.encode(&accepted.effective).unwrap().words(), word(raw), "{raw}");
    }
    let refusal = level.accept("400").unwrap_err().to_string();
    assert_eq!(refusal, "400 does not fit the device's uint16: allowed is -25 to 384.59375");
    assert_eq!(level.accept("50.009").unwrap().effective, Value::F64(50.00625), "to the nearest raw step");
    assert_eq!(level.accept("50.0095").unwrap().effective, Value::F64(50.0125));
}

#[test]
fn a_clamped_reading_stays_within_and_a_write_beyond_is_refused() {
    let level = ranges(Kind::Uint16, ["4000", "20000"], ["0", "100"], true);
    assert_eq!(level.decode(&word(3600)), Ok(Value::F64(0.0)));
    assert_eq!(level.decode(&word(20500)), Ok(Value::F64(100.0)));
    for text in ["100.01", "-0.01", "1e3", "100.0000000000000000000000001"] {
        match level.accept(text).unwrap_err() {
            Refusal::RawRange { min, max, .. } => assert_eq!((min.as_str(), max.as_str()), ("0", "100")),
            other => panic!("{text}: {other}"),
        }
    }
    assert_eq!(level.accept("100").unwrap().effective, Value::F64(100.0));
}

#[test]
fn values_may_fall_where_raw_numbers_rise() {
    let room = ranges(Kind::Int16, ["-1000", "1000"], ["10.5", "-10.5"], true);
    assert_eq!(room.decode(&word(-1000)), Ok(Value::F64(10.5)));
    assert_eq!(room.decode(&word(0)), Ok(Value::F64(0.0)));
    assert_eq!(room.decode(&word(2000)), Ok(Value::F64(-10.5)));
    let accepted = room.accept("-10.5").unwrap().effective;
    assert_eq!(room.encode(&accepted).unwrap().words(), word(1000));
    let open = ranges(Kind::Int16, ["-1000", "1000"], ["10.5", "-10.5"], false);
    let refusal = open.accept("1e6").unwrap_err().to_string();
    assert_eq!(
        refusal,
        "1000000 does not fit the device's int16: allowed is -344.0535 to 344.064".replace("1000000", "1e6")
    );
}

/// A third of a raw step has no decimal: the double nearest to the fraction is served.
#[test]
fn fractions_without_end_are_the_nearest_double() {
    let thirds = ranges(Kind::Uint16, ["0", "3"], ["0", "1"], false);
    assert_eq!(thirds.decode(&word(1)), Ok(Value::F64(1.0 / 3.0)));
    assert_eq!(thirds.decode(&word(65535)), Ok(Value::F64(21845.0)));
    let refusal = thirds.accept("30000").unwrap_err().to_string();
    assert_eq!(refusal, "30000 does not fit the device's uint16: allowed is 0 to 21845");
    let wide = ranges(Kind::Uint48, ["0", "281474976710655"], ["0", "0.7"], false);
    // 0.7 × 93824992236885 / 281474976710655, of which the second is three times the first.
    assert_eq!(
        wide.decode(&[0x5555; 3]),
        Ok(Value::F64("0.23333333333333333333333333333333333".parse().unwrap()))
    );
}

#[test]
fn floats_and_digits_are_scaled_too() {
    let level = ranges(Kind::Float32, ["4", "20"], ["0", "100"], false);
    let raw = 12.1_f32.to_bits();
    let words = [u16::try_from(raw >> 16).unwrap(), u16::try_from(raw & 0xFFFF).unwrap()];
    assert_eq!(level.decode(&words), Ok(Value::F64(50.625)));
    assert_eq!(level.accept("50.625").unwrap().effective, Value::F64(50.625));
    let digits = ranges(Kind::Bcd16, ["0", "1000"], ["-50", "50"], false);
    assert_eq!(digits.decode(&[0x0755]), Ok(Value::F64(25.5)));
    let accepted = digits.accept("25.5").unwrap().effective;
    assert_eq!(digits.encode(&accepted).unwrap().words(), [0x0755]);
}

#[test]
fn too_many_digits_are_known_before_work() {
    let many = ranges(
        Kind::Uint16,
        ["0.1234567890123456789012345678", "1"],
        ["0.1234567890123456789012345678", "1"],
        false,
    );
    assert!(!many.codec().is_exact() && plain(Kind::Uint16).codec().is_exact());
    assert_eq!(many.decode(&[1]), Err(Fault::TooWide));
    many.accept("1").unwrap_err();
}

/// Doubles near 2⁵⁴ are 4 apart: halfway the even one is the nearest, and the least bit beyond that the next.
#[test]
fn long_division_rounds_to_the_even_double() {
    let two54 = 1_i128 << 54;
    let double = |value: i128| Some(value.to_string().parse::<f64>().unwrap());
    for (numerator, divisor, nearest) in [
        (two54 + 2, 1, two54),
        (two54 + 6, 1, two54 + 8),
        (-(two54 + 6), 1, -(two54 + 8)),
        ((two54 + 2) * 3 + 1, 3, two54 + 4),
        ((two54 + 2) * 3 - 1, 3, two54),
        ((two54 + 2) * 7, 7, two54),
        (two54 * 1024 + 2049, 1024, two54 + 4),
        (i128::MAX, 1, 1 << 126),
    ] {
        let nearest = if numerator == i128::MAX { Some(2_f64.powi(127)) } else { double(nearest) };
        assert_eq!(super::super::scaling::divide(numerator, divisor), nearest, "{numerator} / {divisor}");
    }
    assert_eq!(super::super::scaling::divide(0, 7), Some(0.0));
    assert_eq!(super::super::scaling::divide(1, 0), None);
}

/// A raw step that is lost behind the digits of its value could not be told from the next one.
#[test]
fn steps_that_digits_cannot_tell_apart_are_known_before_work() {
    let fine = ranges(Kind::Int16, ["-1000", "29734834276952.7615049299445"], ["-3", "0"], false);
    assert!(!fine.codec().is_exact());
    assert!(!format(Kind::Uint64, Order::ABCD, "1e-28", "2666748.131502858473616").codec().is_exact());
    assert!(format(Kind::Uint64, Order::ABCD, "1e-10", "2666748.131502858473616").codec().is_exact());
    // The highest raw value would be no value.
    assert!(!scaled(Kind::Uint64, "0.3333333333333333333333333333").codec().is_exact());
    assert!(scaled(Kind::Uint32, "0.3333333333333333333333333333").codec().is_exact());
    assert!(ranges(Kind::Uint48, ["0", "281474976710655"], ["-0.123456", "7"], false).codec().is_exact());
}

#[test]
fn floats_of_more_digits_than_fit_are_computed_as_doubles() {
    let tenths = scaled(Kind::Float32, "0.1");
    assert_eq!(tenths.accept("1.2345678e-20").unwrap().effective, Value::F64(1.234_567_8e-20));
    let near = |value: &Value, expected: f64| {
        let value = value.as_f64().unwrap();
        assert!((value - expected).abs() <= expected.abs() * 1e-6, "{value} is not {expected}");
    };
    let flat = ranges(Kind::Float32, ["-1000", "29734834276952.7615049299445"], ["-3", "0"], false);
    near(&flat.accept("-2.5").unwrap().effective, -2.5);
    // The two raw ends differ in their last digits only.
    let steep = ["0.000000077612585472", "0.000000077612585490"];
    let steep = ranges(Kind::Float32, steep, ["0.000000077612585490", "0"], false);
    let tiny = plain(Kind::Float32).encode(&Value::F32(1e-30)).unwrap();
    assert_eq!(steep.decode(tiny.words()), Ok(Value::F64(334.650_745_913_475_5)));
}

/// An end of many digits is read as its double, which then lies beyond the end.
#[test]
fn what_is_read_at_an_end_may_be_written() {
    let ends = ["0", "-0.00013599744979063799808"];
    let level = ranges(Kind::Int16, ["-1000", "-1"], ends, true);
    let end = level.decode(&word(0)).unwrap();
    assert_eq!(end, Value::F64(-0.000_135_997_449_790_638));
    assert_eq!(level.encode(&end).unwrap().words(), word(-1));
    level.accept("-0.000135997449790639").unwrap_err();
}

/// The double nearest to a fraction, found by trying its neighbours against the fraction in whole numbers.
fn is_nearest(value: f64, digits: i128, divisor: i128) -> bool {
    // |value × divisor − digits| of the neighbours, as far as doubles of 53 bits and small divisors allow.
    let error = |value: f64| {
        let bits = value.to_bits();
        let exponent = i32::try_from(bits >> 52 & 0x7FF).unwrap() - 1075;
        let mantissa = i128::from(bits & ((1 << 52) - 1) | 1 << 52);
        let shift = u32::try_from(-exponent).unwrap();
        assert!(shift < 60, "the test's numbers are chosen so");
        (mantissa * divisor - (digits << shift), shift)
    };
    let (own, shift) = error(value);
    let neighbours = [f64::from_bits(value.to_bits() - 1), f64::from_bits(value.to_bits() + 1)];
    neighbours.into_iter().all(|other| {
        let (other, other_shift) = error(other);
        let most = shift.max(other_shift);
        own.abs() << (most - shift) <= other.abs() << (most - other_shift)
    })
}

proptest! {
    #[test]
    fn the_served_number_is_the_nearest_double(raw in 1_000_000_u32.., run in 1_i64..1_000_000, rise in 1_i64..1_000) {
        let format = ranges(Kind::Uint32, ["0", &run.to_string()], ["0", &(rise * 1000).to_string()], false);
        let words = plain(Kind::Uint32).encode(&Value::U64(raw.into())).unwrap();
        let Value::F64(value) = format.decode(words.words()).unwrap() else { panic!("a double") };
        let digits = i128::from(raw) * i128::from(rise) * 1000;
        // Below 2⁻⁷ the test's own arithmetic ends.
        prop_assume!(value > 1.0);
        prop_assert!(is_nearest(value, digits, run.into()), "{} / {} is not {}", digits, run, value);
    }

    #[test]
    fn long_division_is_that_of_doubles(numerator in -(1_i64 << 53)..1 << 53, divisor in 1_i64..1 << 53) {
        let divisor_bits = u128::try_from(divisor).unwrap();
        let expected = f64_of(numerator) / f64_of(divisor);
        prop_assert_eq!(super::super::scaling::divide(numerator.into(), divisor_bits), Some(expected));
    }

    #[test]
    fn raw_numbers_come_back(
        raw in any::<i32>(), raw0 in -40_000_i64..40_000, run in 1_i64..80_000, value0 in -10_000_i64..10_000,
        rise in prop_oneof![1_i64..10_000, -10_000_i64..-1],
    ) {
        let text = |number: i64| Decimal::new(number, 1).to_string();
        let format = ranges(
            Kind::Int32,
            [&raw0.to_string(), &(raw0 + run).to_string()],
            [&text(value0), &text(value0 + rise)],
            false,
        );
        let words = plain(Kind::Int32).encode(&Value::I64(raw.into())).unwrap();
        let value = format.decode(words.words()).unwrap();
        prop_assert_eq!(&format.encode(&value).unwrap(), &words);
        prop_assert_eq!(&format.accept(&value.to_string()).unwrap().effective, &value);
    }
}

fn f64_of(value: i64) -> f64 {
    value.to_string().parse().unwrap()
}
