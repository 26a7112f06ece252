//! Registers → value.

use super::{Codec, Fault, number::Number, number::plain};
use crate::model::{Kind, Value};

impl Codec {
    /// Reads the value that `registers` hold, first register first.
    ///
    /// Unscaled numbers come as they are; scaled ones as the double nearest to the exact decimal, and scaled 64-bit
    /// integers as that decimal's text.
    pub fn decode(&self, registers: &[u16]) -> Result<Value, Fault> {
        match self.kind {
            Kind::Bool => match self.word(registers)? {
                0 => Ok(Value::Bool(false)),
                1 => Ok(Value::Bool(true)),
                other => Err(Fault::NotBool(other)),
            },
            Kind::Int16 => self.signed(self.word(registers)?.cast_signed().into()),
            Kind::Uint16 => self.unsigned(self.word(registers)?.into()),
            Kind::Int32 => self.signed(self.double(registers)?.cast_signed().into()),
            Kind::Uint32 => self.unsigned(self.double(registers)?.into()),
            Kind::Int64 => self.signed(self.quad(registers)?.cast_signed()),
            Kind::Uint64 => self.unsigned(self.quad(registers)?),
            Kind::Float32 => {
                let value = f32::from_bits(self.double(registers)?);
                finite(value.into())?;
                if self.is_scaled() {
                    self.float(value.into(), || format!("{value:e}"))
                } else {
                    Ok(Value::F32(value))
                }
            }
            Kind::Float64 => {
                let value = f64::from_bits(self.quad(registers)?);
                finite(value)?;
                if self.is_scaled() {
                    self.float(value, || format!("{value:e}"))
                } else {
                    Ok(Value::F64(value))
                }
            }
            _ => Err(self.length(registers)),
        }
    }

    fn signed(&self, raw: i64) -> Result<Value, Fault> {
        if self.is_scaled() { self.integer(raw.into()) } else { Ok(Value::I64(raw)) }
    }

    fn unsigned(&self, raw: u64) -> Result<Value, Fault> {
        if self.is_scaled() { self.integer(raw.into()) } else { Ok(Value::U64(raw)) }
    }

    fn integer(&self, raw: i128) -> Result<Value, Fault> {
        let exact = self.scaling().and_then(|scaling| scaling.apply(raw)).ok_or(Fault::TooWide)?;
        if self.kind.is_wide() {
            return Ok(Value::Text(plain(exact.digits, exact.places).into()));
        }
        exact.to_f64().map(Value::F64).ok_or(Fault::TooWide)
    }

    /// Scales the decimal that the float's own text shows, so that 49.98 stays 49.98.
    fn float(&self, value: f64, text: impl Fn() -> String) -> Result<Value, Fault> {
        let scaling = self.scaling().ok_or(Fault::TooWide)?;
        let exact = Number::parse(&text())
            .and_then(|number| scaling.apply_number(number))
            .and_then(super::scaling::Exact::to_f64);
        let scaled = exact.unwrap_or_else(|| scaling.approximate(value));
        finite(scaled)?;
        Ok(Value::F64(scaled))
    }

    fn word(&self, registers: &[u16]) -> Result<u16, Fault> {
        match registers {
            [a] => Ok(self.bytes(*a)),
            _ => Err(self.length(registers)),
        }
    }

    fn double(&self, registers: &[u16]) -> Result<u32, Fault> {
        let [high, low] = match registers {
            [a, b] if self.order.words => [*b, *a],
            [a, b] => [*a, *b],
            _ => return Err(self.length(registers)),
        };
        Ok(u32::from(self.bytes(high)) << 16 | u32::from(self.bytes(low)))
    }

    fn quad(&self, registers: &[u16]) -> Result<u64, Fault> {
        let words = match registers {
            [a, b, c, d] if self.order.words => [*d, *c, *b, *a],
            [a, b, c, d] => [*a, *b, *c, *d],
            _ => return Err(self.length(registers)),
        };
        Ok(words.into_iter().fold(0, |bits, word| bits << 16 | u64::from(self.bytes(word))))
    }

    fn bytes(&self, word: u16) -> u16 {
        if self.order.bytes { word.swap_bytes() } else { word }
    }

    fn length(&self, registers: &[u16]) -> Fault {
        Fault::Length { expected: self.registers(), got: registers.len() }
    }
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
