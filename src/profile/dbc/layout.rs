//! From a signal as the parser reads it to place, number, factor and range.
//!
//! Owns which numbers a signal can have. Must not know other signals.

use can_dbc::NumericValue;
use rust_decimal::Decimal;

use super::{Number, Signal};
use crate::codec::can::{ByteOrder, Place};

/// A signal, and what is questionable in it; or why there is none. Each is the end of a sentence on the signal.
pub(super) fn signal(
    line: usize,
    name: &str,
    read: &can_dbc::Signal,
) -> Result<(Signal, Vec<String>), String> {
    let order = match read.byte_order {
        can_dbc::ByteOrder::LittleEndian => ByteOrder::Intel,
        can_dbc::ByteOrder::BigEndian => ByteOrder::Motorola,
    };
    let start = u16::try_from(read.start_bit).ok();
    let start = start.ok_or_else(|| format!("starts at bit {}, which no message has", read.start_bit))?;
    let place = u8::try_from(read.size)
        .ok()
        .and_then(|length| Place::new(start, length, order))
        .ok_or_else(|| format!("is {} bits long, allowed is 1 to 64", read.size))?;
    let factor = decimal(read.factor)
        .ok_or_else(|| format!("has the factor {:e}, which takes more than 28 digits", read.factor))?;
    let offset = decimal(read.offset)
        .ok_or_else(|| format!("has the offset {:e}, which takes more than 28 digits", read.offset))?;
    let mut doubts = Vec::new();
    if factor.is_zero() {
        doubts.push(format!("has factor 0: it always reads as {offset} and cannot be written"));
    }
    let signal = Signal {
        name: name.to_owned(),
        place,
        number: match read.value_type {
            can_dbc::ValueType::Signed => Number::Signed,
            can_dbc::ValueType::Unsigned => Number::Unsigned,
        },
        factor,
        offset,
        range: range(read, &mut doubts),
        unit: super::read::unescape(&read.unit),
        comment: String::new(),
        labels: Vec::new(),
        is_multiplexer: false,
        selection: None,
        initial: None,
        spn: None,
        line,
    };
    Ok((signal, doubts))
}

/// The decimal number that was written: the shortest that gives this float. `None` where it takes more than 28 digits.
fn decimal(number: f64) -> Option<Decimal> {
    let decimal = Decimal::from_str_exact(&number.to_string()).ok()?.normalize();
    Some(if decimal.is_zero() { Decimal::ZERO } else { decimal })
}

/// `[0|0]` says that there is none.
fn range(read: &can_dbc::Signal, doubts: &mut Vec<String>) -> Option<(f64, f64)> {
    let float =
        |number: NumericValue| number.to_string().parse::<f64>().ok().filter(|float| float.is_finite());
    let (Some(lowest), Some(highest)) = (float(read.min), float(read.max)) else {
        doubts.push("has a range without bounds; it has none now".to_owned());
        return None;
    };
    if lowest < highest {
        return Some((lowest, highest));
    }
    if lowest > highest || highest != 0.0 {
        doubts.push(format!("has a range from {lowest} to {highest}; it has none now"));
    }
    None
}
