//! Registers, bits and texts, and the values that a tag makes of them.

use arbitrary::Arbitrary;
use fieldbridge::{
    codec::value::{Codec, Fault, Format, Raw, Scale},
    model::{Accepted, Kind, Value},
};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Signed;

use crate::{
    exact::{self, Line},
    shape::{Shape, is_admitted},
};

#[derive(Debug, PartialEq, Arbitrary)]
pub struct Input<'a> {
    pub shape: Shape,
    /// Registers, bits, and as far as it is UTF-8 a text to write.
    pub data: &'a [u8],
}

pub fn check(input: &Input<'_>) {
    let format = input.shape.format();
    let codec = format.codec();
    let words: Vec<u16> =
        input.data.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    let fits = usize::from(format.registers()).min(words.len());
    let trial = Trial { format: &format, codec: &codec, is_admitted: is_admitted(&format) };
    trial.check_bits(input.data);
    trial.check_registers(&words);
    trial.check_registers(&words[..fits]);
    trial.check_text(text(input.data));
}

fn text(data: &[u8]) -> &str {
    let whole = std::str::from_utf8(data);
    whole.unwrap_or_else(|error| std::str::from_utf8(&data[..error.valid_up_to()]).unwrap_or_default())
}

struct Trial<'a> {
    format: &'a Format,
    codec: &'a Codec,
    is_admitted: bool,
}

impl Trial<'_> {
    fn check_bits(&self, data: &[u8]) {
        let bits: Vec<bool> = data.iter().take(self.codec.bits().into()).map(|byte| byte % 2 == 1).collect();
        match self.codec.decode_bits(&bits) {
            Ok(value) => assert_eq!(self.codec.encode_bits(&value), Ok(Raw::Bits(bits))),
            Err(fault) => assert!(matches!(fault, Fault::Length { .. }), "{fault}"),
        }
    }

    fn check_registers(&self, words: &[u16]) {
        let value = match self.codec.decode(words) {
            Ok(value) => value,
            Err(fault) => return assert!(!fault.to_string().is_empty()),
        };
        let encoded = self.codec.encode(&value);
        let accepted = self.codec.accept(&written(&value));
        if !self.is_admitted {
            return;
        }
        assert!(self.is_typed(&value), "{value:?}");
        self.check_exact(words, &value);
        if encoded.is_err() && self.may_refuse(&value) {
            return;
        }
        let encoded = encoded.unwrap_or_else(|refusal| panic!("{value:?} is refused: {refusal}"));
        let held = put(&encoded, words);
        if self.format.scale == Scale::NONE && self.format.kind != Kind::Text && !is_byte(self.format.kind) {
            assert_eq!(held, words, "{value:?} comes back in other bits");
        }
        let again =
            self.codec.decode(&held).unwrap_or_else(|fault| panic!("{value:?} reads back as {fault}"));
        assert!(self.is_same(&value, &again), "{value:?} reads back as {again:?}");
        // A word may be the number of another.
        if self.format.labels.as_deref().and_then(|labels| labels.number(&value.to_string())).is_none() {
            let accepted = accepted.unwrap_or_else(|refusal| panic!("{value:?} is refused: {refusal}"));
            assert!(self.is_same(&value, &accepted.effective), "{value:?} is taken as {accepted:?}");
        }
    }

    fn check_text(&self, text: &str) {
        let Accepted { requested, effective } = match self.codec.accept(text) {
            Ok(accepted) => accepted,
            Err(refusal) => return assert!(!refusal.to_string().is_empty()),
        };
        let encoded = self.codec.encode(&effective);
        if !self.is_admitted {
            return;
        }
        assert!(self.is_typed(&effective), "{effective:?}");
        assert!(requested != Value::Null, "{text} is taken as {effective:?}");
        if encoded.is_err() && self.may_refuse(&effective) {
            return;
        }
        let encoded =
            encoded.unwrap_or_else(|refusal| panic!("{text}, {effective:?}, is refused: {refusal}"));
        let held = put(&encoded, &vec![0; self.format.registers().into()]);
        let value = self.codec.decode(&held).unwrap_or_else(|fault| panic!("{text} is held as {fault}"));
        assert!(self.is_same(&effective, &value), "{text} is taken as {effective:?}, and held as {value:?}");
        self.check_nearest(text, &held);
    }

    /// Whether the value has the type that its kind leaves as.
    fn is_typed(&self, value: &Value) -> bool {
        let is_scaled = self.format.scale != Scale::NONE;
        match (self.format.kind, value) {
            (_, Value::Array(values)) => {
                let one = Format { count: None, ..self.format.clone() };
                let one = Trial { format: &one, codec: self.codec, is_admitted: true };
                self.format.count.map(usize::from) == Some(values.len())
                    && values.iter().all(|value| !matches!(value, Value::Array(_)) && one.is_typed(value))
            }
            _ if self.format.count.is_some() => false,
            (Kind::Bool, Value::Bool(_)) | (Kind::Text, Value::Text(_)) => true,
            (Kind::Bool | Kind::Text, _) => false,
            (Kind::Int64 | Kind::Uint64, Value::Text(text)) => is_scaled && exact::number(text).is_some(),
            (Kind::Int64 | Kind::Uint64, _) if is_scaled => false,
            (_, Value::F64(value)) => (is_scaled || self.format.kind == Kind::Float64) && value.is_finite(),
            _ if is_scaled => false,
            (Kind::Float16 | Kind::Float32, Value::F32(value)) => value.is_finite(),
            (Kind::Int8 | Kind::Int16 | Kind::Int32 | Kind::Int48 | Kind::Int64, Value::I64(_)) => true,
            (kind, Value::U64(_)) => !kind.is_float() && !is_signed(kind),
            _ => false,
        }
    }

    /// The elements of registers as they are without scale.
    fn raw(&self, words: &[u16]) -> Vec<Value> {
        let plain =
            Format { scale: Scale::NONE, not_available: Vec::new(), labels: None, ..self.format.clone() };
        elements(&plain.decode(words).expect("what has a value has a raw one")).to_vec()
    }

    /// The value is the exact one, or the double nearest to it.
    fn check_exact(&self, words: &[u16], value: &Value) {
        let raw = self.raw(words);
        if self.format.scale == Scale::NONE {
            return assert_eq!(raw, elements(value));
        }
        let line = Line::new(self.format.scale);
        for (raw, value) in raw.iter().zip(elements(value)) {
            let number = exact::number(&raw.to_string()).expect("a number");
            let exact = line.value(&number);
            match value {
                Value::Text(text) => assert_eq!(exact::number(text), Some(exact), "{raw} is {text}"),
                Value::F64(value) if !self.format.kind.is_float() => {
                    assert!(exact::is_nearest(*value, &exact), "{raw} is {value}");
                }
                Value::F64(value) => {
                    let error = (exact::double(*value).expect("finite") - &exact).abs();
                    let size = (&number * &line.slope).abs() + line.offset.abs();
                    assert!(error <= size * small(1e-14) + small(1e-300), "{raw} is {value}");
                }
                other => panic!("{raw} is {other:?}"),
            }
        }
    }

    /// What was accepted is the raw value nearest to what was asked for.
    fn check_nearest(&self, text: &str, words: &[u16]) {
        let (raw, number) = match (&self.raw(words)[..], exact::number(text)) {
            ([raw], Some(number)) if self.format.count.is_none() && self.format.labels.is_none() => {
                (raw.clone(), number)
            }
            _ => return,
        };
        let line = Line::new(self.format.scale);
        match raw {
            Value::I64(_) | Value::U64(_) => {
                let held = line.unclamped(&exact::number(&raw.to_string()).expect("a number"));
                let error = (held - &number).abs();
                assert!(
                    error * BigRational::from(BigInt::from(2)) <= line.slope.abs(),
                    "{text} is held as {raw}"
                );
            }
            Value::F32(raw) if self.format.kind == Kind::Float32 => {
                let wanted = (&number - &line.offset) / &line.slope;
                let blur = (number.abs() + line.offset.abs()) / line.slope.abs() * small(1e-14);
                let error = |raw: f32| Some((exact::double(raw.into())? - &wanted).abs());
                let own = error(raw).expect("finite");
                let beside = [raw.next_up(), raw.next_down()];
                let is_nearest = beside.into_iter().filter_map(error).all(|other| own <= other + &blur);
                assert!(is_nearest, "{text} is held as {raw}");
            }
            _ => {}
        }
    }

    /// Whether one raw step can be too small for a double to show: then the raw value that comes back may be another,
    /// and at the ends of the type or beside a sentinel there may be none.
    fn is_blurred(&self, value: &Value) -> bool {
        match value {
            Value::Array(values) => values.iter().any(|value| self.is_blurred(value)),
            Value::F64(value) if self.format.scale != Scale::NONE => {
                let line = Line::new(self.format.scale);
                let step = exact::double(value.next_up() - value).expect("finite");
                self.format.kind == Kind::Float64
                    || line.slope.abs() < step * BigRational::from(BigInt::from(4))
            }
            _ => false,
        }
    }

    /// Whether a value that was read may be refused when it is written.
    fn may_refuse(&self, value: &Value) -> bool {
        self.is_blurred(value)
    }

    /// Whether two values are equal, or as near as doubles can tell where a raw step is that small.
    fn is_same(&self, one: &Value, other: &Value) -> bool {
        match (one, other) {
            (Value::Array(ones), Value::Array(others)) => {
                ones.len() == others.len()
                    && ones.iter().zip(others.iter()).all(|(one, other)| self.is_same(one, other))
            }
            (Value::F64(a), Value::F64(b)) if self.is_blurred(one) => {
                let line = Line::new(self.format.scale);
                let distance = exact::double(a - b).expect("finite").abs();
                let size = exact::double(a.abs()).expect("finite") + line.offset.abs();
                distance <= size * small(1e-15)
            }
            _ => one == other,
        }
    }
}

fn is_byte(kind: Kind) -> bool {
    matches!(kind, Kind::Int8 | Kind::Uint8)
}

fn is_signed(kind: Kind) -> bool {
    matches!(kind, Kind::Int8 | Kind::Int16 | Kind::Int32 | Kind::Int48 | Kind::Int64)
}

fn small(number: f64) -> BigRational {
    exact::double(number).expect("finite")
}

fn elements(value: &Value) -> &[Value] {
    match value {
        Value::Array(values) => values,
        one => std::slice::from_ref(one),
    }
}

/// The text that writes `value`.
fn written(value: &Value) -> String {
    match value {
        Value::Array(values) if values.iter().any(|value| matches!(value, Value::Text(_))) => {
            let texts: Vec<String> = values.iter().map(Value::to_string).collect();
            serde_json::to_string(&texts).expect("texts are JSON")
        }
        other => other.to_string(),
    }
}

/// Registers after a write.
fn put(raw: &Raw, words: &[u16]) -> Vec<u16> {
    match raw {
        Raw::Words(words) => words.clone(),
        Raw::Masked { mask, bits } => {
            assert_eq!(bits & !mask, 0, "only its own bits are written");
            words.iter().map(|word| word & !mask | bits).collect()
        }
        Raw::Bits(_) => panic!("registers hold no single bits"),
    }
}
