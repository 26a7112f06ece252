//! Registers → value.

use std::sync::Arc;

use half::f16;

use super::{Codec, Fault, Scaled, is_byte, number::Number, number::plain, order::low_word};
use crate::model::{Kind, Value};

impl Codec {
    /// Reads the value that `registers` hold, first register first.
    ///
    /// Unscaled numbers come as they are; scaled ones as the double nearest to the exact value, and scaled 64-bit
    /// integers as their decimal's text. An array with one bad element is no value at all.
    pub fn decode(&self, registers: &[u16]) -> Result<Value, Fault> {
        let order = self.layout.order;
        // Nearly all tags are one of these; the general way says the same of them.
        match (self.kind, registers) {
            _ if !self.is_simple => self.general(registers),
            (Kind::Int16, [a]) => self.signed(order.word(*a).cast_signed().into()),
            (Kind::Uint16, [a]) => self.unsigned(order.word(*a).into()),
            (Kind::Int32, [a, b]) => self.signed(order.pair(*a, *b).cast_signed().into()),
            (Kind::Uint32, [a, b]) => self.unsigned(order.pair(*a, *b).into()),
            (Kind::Float32, [a, b]) => self.narrow(f32::from_bits(order.pair(*a, *b))),
            _ => self.general(registers),
        }
    }

    fn general(&self, registers: &[u16]) -> Result<Value, Fault> {
        match self.count {
            None => self.single(registers),
            Some(count) if registers.len() == usize::from(self.registers()) => self.array(count, registers),
            Some(_) => Err(self.length(registers)),
        }
    }

    /// Reads the value that cells of a table of bits hold.
    pub fn decode_bits(&self, bits: &[bool]) -> Result<Value, Fault> {
        match (self.count, bits) {
            (None, [bit]) => Ok(Value::Bool(*bit)),
            (Some(count), bits) if bits.len() == usize::from(count) => {
                Ok(Value::Array(bits.iter().copied().map(Value::Bool).collect()))
            }
            _ => Err(Fault::Length { expected: self.bits(), got: bits.len() }),
        }
    }

    #[inline]
    fn single(&self, registers: &[u16]) -> Result<Value, Fault> {
        if self.kind == Kind::Text {
            return self.text.decode(self.layout.order, registers).map(Value::Text);
        }
        match self.layout.gather(registers) {
            Some(bits) => self.value(bits),
            None => Err(self.length(registers)),
        }
    }

    fn array(&self, count: u16, registers: &[u16]) -> Result<Value, Fault> {
        let index = |index: usize, value: Result<Value, Fault>| {
            let index = u16::try_from(index).unwrap_or(u16::MAX);
            value.map_err(|fault| Fault::Element { index, fault: Box::new(fault) })
        };
        let values: Result<Arc<[Value]>, Fault> = if is_byte(self.kind) {
            let order = self.layout.order;
            let bytes = registers.iter().flat_map(|word| order.word(*word).to_be_bytes());
            let bytes = bytes.take(count.into()).enumerate();
            bytes.map(|(at, byte)| index(at, self.value(byte.into()))).collect()
        } else {
            let size = usize::from((self.registers() / count.max(1)).max(1));
            let elements = registers.chunks_exact(size).enumerate();
            elements.map(|(at, words)| index(at, self.single(words))).collect()
        };
        values.map(Value::Array)
    }

    /// The value that the bits of one element stand for, the least significant one lowest; none are above its width.
    #[expect(
        clippy::inline_always,
        reason = "a result that goes through memory costs more than all the rest"
    )]
    #[inline(always)]
    pub fn value(&self, bits: u64) -> Result<Value, Fault> {
        if self.sentinels.contains(&bits) {
            return Err(Fault::NotAvailable);
        }
        match self.kind {
            Kind::Int8 | Kind::Int16 | Kind::Int32 | Kind::Int48 | Kind::Int64 => {
                self.signed(extend(bits, self.width()))
            }
            Kind::Uint8 | Kind::Uint16 | Kind::Uint32 | Kind::Uint48 | Kind::Uint64 => self.unsigned(bits),
            Kind::Bool => match bits {
                0 => Ok(Value::Bool(false)),
                1 => Ok(Value::Bool(true)),
                other => Err(Fault::NotBool(low_word(other))),
            },
            Kind::Bcd16 | Kind::Bcd32 => self.unsigned(digits(bits)?),
            Kind::Float16 => self.narrow(shortest(f16::from_bits(low_word(bits)))),
            Kind::Float32 => self.narrow(f32::from_bits(low_double(bits))),
            Kind::Float64 => self.double(f64::from_bits(bits)),
            // A text has no bits of a number; its registers are read as such.
            Kind::Text => Err(Fault::Text(self.text.encoding)),
        }
    }

    #[inline]
    fn signed(&self, raw: i64) -> Result<Value, Fault> {
        match self.quick(raw) {
            Some(value) => Ok(Value::F64(value)),
            None if self.is_scaled() => self.integer(raw.into()),
            None => Ok(Value::I64(raw)),
        }
    }

    #[inline]
    fn unsigned(&self, raw: u64) -> Result<Value, Fault> {
        match i64::try_from(raw).ok().and_then(|raw| self.quick(raw)) {
            Some(value) => Ok(Value::F64(value)),
            None if self.is_scaled() => self.integer(raw.into()),
            None => Ok(Value::U64(raw)),
        }
    }

    fn narrow(&self, value: f32) -> Result<Value, Fault> {
        finite(value.into())?;
        if self.is_scaled() {
            self.float(value.into(), || format!("{value:e}"))
        } else {
            Ok(Value::F32(value))
        }
    }

    fn double(&self, value: f64) -> Result<Value, Fault> {
        finite(value)?;
        if self.is_scaled() { self.float(value, || format!("{value:e}")) } else { Ok(Value::F64(value)) }
    }

    /// What [`Self::integer`] says, where machine words tell it.
    #[inline]
    fn quick(&self, raw: i64) -> Option<f64> {
        match &self.scale {
            Scaled::By(scaling) if !self.kind.is_wide() => {
                scaling.apply_quick(raw).map(|value| scaling.clamp(value))
            }
            _ => None,
        }
    }

    fn integer(&self, raw: i128) -> Result<Value, Fault> {
        let scaling = self.scaling().ok_or(Fault::TooWide)?;
        let exact = scaling.apply(raw).ok_or(Fault::TooWide)?;
        if self.kind.is_wide() && exact.divisor == 1 {
            return Ok(Value::Text(plain(exact.digits, exact.places).into()));
        }
        exact.to_f64().map(|value| Value::F64(scaling.clamp(value))).ok_or(Fault::TooWide)
    }

    /// Scales the decimal that the float's own text shows, so that 49.98 stays 49.98.
    fn float(&self, value: f64, text: impl Fn() -> String) -> Result<Value, Fault> {
        let scaling = self.scaling().ok_or(Fault::TooWide)?;
        let exact = Number::parse(&text())
            .and_then(|number| scaling.apply_number(number))
            .and_then(super::scaling::Exact::to_f64);
        let scaled = scaling.clamp(exact.unwrap_or_else(|| scaling.approximate(value)));
        finite(scaled)?;
        Ok(Value::F64(scaled))
    }

    fn length(&self, registers: &[u16]) -> Fault {
        Fault::Length { expected: self.registers(), got: registers.len() }
    }
}

/// The low `width` bits as a number with a sign.
fn extend(bits: u64, width: u32) -> i64 {
    (bits << (64 - width)).cast_signed() >> (64 - width)
}

fn low_double(bits: u64) -> u32 {
    u32::try_from(bits & 0xFFFF_FFFF).unwrap_or_default()
}

/// The number whose decimal digits are the nibbles of `bits`.
fn digits(bits: u64) -> Result<u64, Fault> {
    (0..8).rev().try_fold(0, |number, at| match bits >> (4 * at) & 0xF {
        digit @ 0..=9 => Ok(number * 10 + digit),
        other => Err(Fault::Digit(u8::try_from(other).unwrap_or_default())),
    })
}

/// The decimal with the fewest digits that is nearest to `value` among half-precision numbers, as people read it; whole
/// numbers stay as they are.
fn shortest(value: f16) -> f32 {
    let wide = value.to_f32();
    if wide.fract() == 0.0 {
        return wide;
    }
    let rounded = |places: usize| format!("{wide:.places$e}").parse::<f32>().ok();
    // Five significant digits tell all half-precision numbers apart.
    let found = (0..5).filter_map(rounded).find(|short| f16::from_f32(*short).to_bits() == value.to_bits());
    found.unwrap_or(wide)
}

fn finite(value: f64) -> Result<(), Fault> {
    if value.is_nan() {
        Err(Fault::NotANumber)
    } else if value.is_infinite() {
        Err(Fault::Infinite)
    } else {
        Ok(())
    }
}
