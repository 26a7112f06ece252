//! Faults as settings: `name` or `name=argument`, several joined by `+`.
//!
//! Knows names and arguments; nothing of what a fault does.

use std::{
    fmt::{self, Display, Write as _},
    str::FromStr,
    time::Duration,
};

use super::Fault;

/// Name, argument and meaning of every fault. What stands in brackets can be left out.
pub const FAULTS: &[(&str, &str, &str)] = &[
    ("drop-answers", "", "no answer"),
    ("delay-answers", "=TIME", "the answer comes so much later"),
    ("delay-randomly", "=TIME..TIME[:SEED]", "by another time for each answer"),
    ("after-next", "", "the answer comes after the next one"),
    ("wrong-transaction", "[=ID]", "another transaction id, or always this one"),
    ("wrong-unit", "[=UNIT]", "another unit's answer instead"),
    ("wrong-unit-first", "[=UNIT]", "another unit's answer, then the right one"),
    ("wrong-function", "", "another function code"),
    ("short-count", "", "the byte count says one register less than there is"),
    ("long-count", "", "the byte count says one register more than there is"),
    ("fewer-data", "", "one register less than asked for"),
    ("more-data", "", "one register more than asked for"),
    ("duplicate-answers", "", "the answer twice"),
    ("single-bytes", "[=TIME]", "every byte alone, 5ms apart"),
    ("late-byte", "[=TIME]", "the last byte 80ms after the others"),
    ("split-answers", "=BYTES[:TIME]", "so many bytes, the others 20ms later"),
    ("half-answer", "", "half of the answer, then close"),
    ("protocol-id", "[=ID]", "protocol id 1"),
    ("length", "=LENGTH", "this length in the header"),
    ("http", "", "what a web server would answer"),
    ("garbage-before", "=HEX", "these bytes in front of the answer"),
    ("garbage-after", "=HEX", "these bytes behind the answer"),
    ("exception", "[=CODE]", "exception 0x0B, whatever the device did"),
    ("close-after", "=ANSWERS", "close after so many answers"),
    ("reset", "", "reset the connection instead of answering"),
    ("hang", "", "answer and read nothing any more, stay connected"),
    ("echo", "", "the request comes back first"),
    ("echo-tail", "[=BYTES]", "the last 3 bytes of the request come back first"),
    ("bit-flip", "", "one bit of the last data byte is wrong"),
    ("swapped-crc", "", "the bytes of the check sum exchanged"),
    ("second-answer", "[=HEX]", "a second answer at once, with this data"),
    ("noise", "[=HEX]", "noise instead of the answer"),
    ("foreign-traffic", "", "other stations' frames first"),
    ("answer", "=HEX[/HEX]…", "these frames instead: unit and PDU"),
    ("send", "=HEX[/HEX]…", "these segments instead, byte for byte"),
];

/// A text that is no fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    #[error("there is no fault `{name}`; there are {}", names())]
    Name { name: String },
    #[error("`{text}`: wrong argument, expected {name}{argument}")]
    Argument { text: String, name: &'static str, argument: &'static str },
}

fn names() -> String {
    FAULTS.iter().map(|(name, argument, _)| format!("{name}{argument}")).collect::<Vec<_>>().join(", ")
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let mut faults = text.split('+').map(one).collect::<Result<Vec<_>, _>>()?;
        if faults.len() == 1 { faults.pop().ok_or_else(|| unknown(text)) } else { Ok(Self::All(faults)) }
    }
}

fn unknown(name: &str) -> FaultError {
    FaultError::Name { name: name.to_owned() }
}

fn one(text: &str) -> Result<Fault, FaultError> {
    let text = text.trim();
    let (name, argument) = text.split_once('=').map_or((text, None), |(name, rest)| (name, Some(rest)));
    let &(name, form, _) = FAULTS.iter().find(|(known, ..)| *known == name).ok_or_else(|| unknown(name))?;
    let wrong = || FaultError::Argument { text: text.to_owned(), name, argument: form };
    let missing = argument.is_none() && form.starts_with('=');
    let surplus = argument.is_some() && form.is_empty();
    if missing || surplus {
        return Err(wrong());
    }
    parse(name, argument).ok_or_else(wrong)
}

/// The argument's presence has been checked.
fn parse(name: &str, argument: Option<&str>) -> Option<Fault> {
    let text = argument.unwrap_or_default();
    let or = |usual: &'static str| argument.unwrap_or(usual);
    let unit = |text: &str| number(text).and_then(|unit| u8::try_from(unit).ok());
    // Left out is none, but a wrong one is no fault.
    let if_given = |argument: Option<&str>| argument.map(|text| unit(text).ok_or(())).transpose().ok();
    Some(match name {
        "drop-answers" => Fault::Drop,
        "delay-answers" => Fault::Delay(time(text)?),
        "delay-randomly" => {
            let (range, seed) = text.split_once(':').unwrap_or((text, "1"));
            let (least, most) = range.split_once("..")?;
            let (least, most) = (time(least)?, time(most)?);
            (least <= most).then_some(Fault::DelayRandomly { least, most, seed: seed.parse().ok()? })?
        }
        "after-next" => Fault::AfterNext,
        "wrong-transaction" => {
            Fault::Transaction(argument.map(|text| number(text).ok_or(())).transpose().ok()?)
        }
        "wrong-unit" => Fault::Unit(if_given(argument)?),
        "wrong-unit-first" => Fault::UnitFirst(if_given(argument)?),
        "wrong-function" => Fault::Function,
        "short-count" => Fault::ShortCount,
        "long-count" => Fault::LongCount,
        "fewer-data" => Fault::FewerData,
        "more-data" => Fault::MoreData,
        "duplicate-answers" => Fault::Duplicate,
        "single-bytes" => Fault::SingleBytes(time(or("5ms"))?),
        "late-byte" => Fault::LateByte(time(or("80ms"))?),
        "split-answers" => {
            let (at, pause) = text.split_once(':').unwrap_or((text, "20ms"));
            Fault::Split(at.parse().ok()?, time(pause)?)
        }
        "half-answer" => Fault::Half,
        "protocol-id" => Fault::Protocol(number(or("1"))?),
        "length" => Fault::Length(number(text)?),
        "http" => Fault::Http,
        "garbage-before" => Fault::Before(bytes(text)?),
        "garbage-after" => Fault::After(bytes(text)?),
        "exception" => Fault::Exception(unit(or("0x0B"))?),
        "close-after" => Fault::CloseAfter(text.parse().ok()?),
        "reset" => Fault::Reset,
        "hang" => Fault::Hang,
        "echo" => Fault::Echo(None),
        "echo-tail" => Fault::Echo(Some(or("3").parse().ok()?)),
        "bit-flip" => Fault::BitFlip,
        "swapped-crc" => Fault::SwappedCrc,
        "second-answer" => Fault::Second(argument.map(|data| bytes(data).ok_or(())).transpose().ok()?),
        "noise" => Fault::Noise(bytes(or("FE80FE00"))?),
        "foreign-traffic" => Fault::Foreign,
        "answer" => Fault::Answers(text.split('/').map(bytes).collect::<Option<_>>()?),
        "send" => Fault::Segments(text.split('/').map(bytes).collect::<Option<_>>()?),
        _ => return None,
    })
}

/// `800ms` or `2s`.
fn time(text: &str) -> Option<Duration> {
    match text.strip_suffix("ms") {
        Some(number) => number.parse().ok().map(Duration::from_millis),
        None => text.strip_suffix('s')?.parse().ok().map(Duration::from_secs),
    }
}

/// Decimal, or hexadecimal after `0x`.
fn number(text: &str) -> Option<u16> {
    match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()));
    let digits: Vec<u8> = digits.collect::<Option<_>>()?;
    let whole = !digits.is_empty() && digits.len().is_multiple_of(2);
    whole.then(|| digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}

impl Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |out: &mut fmt::Formatter<'_>, name: &str| out.write_str(name);
        match self {
            Self::Drop => name(out, "drop-answers"),
            Self::Delay(time) => write!(out, "delay-answers={}ms", time.as_millis()),
            Self::DelayRandomly { least, most, seed } => {
                write!(out, "delay-randomly={}ms..{}ms:{seed}", least.as_millis(), most.as_millis())
            }
            Self::AfterNext => name(out, "after-next"),
            Self::Transaction(id) => with(out, "wrong-transaction", id.as_ref()),
            Self::Unit(unit) => with(out, "wrong-unit", unit.as_ref()),
            Self::UnitFirst(unit) => with(out, "wrong-unit-first", unit.as_ref()),
            Self::Function => name(out, "wrong-function"),
            Self::ShortCount => name(out, "short-count"),
            Self::LongCount => name(out, "long-count"),
            Self::FewerData => name(out, "fewer-data"),
            Self::MoreData => name(out, "more-data"),
            Self::Duplicate => name(out, "duplicate-answers"),
            Self::SingleBytes(pause) => write!(out, "single-bytes={}ms", pause.as_millis()),
            Self::LateByte(pause) => write!(out, "late-byte={}ms", pause.as_millis()),
            Self::Split(at, pause) => write!(out, "split-answers={at}:{}ms", pause.as_millis()),
            Self::Half => name(out, "half-answer"),
            Self::Protocol(id) => write!(out, "protocol-id={id}"),
            Self::Length(length) => write!(out, "length={length}"),
            Self::Http => name(out, "http"),
            Self::Before(bytes) => write!(out, "garbage-before={}", hex(bytes)),
            Self::After(bytes) => write!(out, "garbage-after={}", hex(bytes)),
            Self::Exception(code) => write!(out, "exception=0x{code:02X}"),
            Self::CloseAfter(count) => write!(out, "close-after={count}"),
            Self::Reset => name(out, "reset"),
            Self::Hang => name(out, "hang"),
            Self::Echo(None) => name(out, "echo"),
            Self::Echo(Some(tail)) => write!(out, "echo-tail={tail}"),
            Self::BitFlip => name(out, "bit-flip"),
            Self::SwappedCrc => name(out, "swapped-crc"),
            Self::Second(data) => with(out, "second-answer", data.as_deref().map(hex).as_ref()),
            Self::Noise(bytes) => write!(out, "noise={}", hex(bytes)),
            Self::Foreign => name(out, "foreign-traffic"),
            Self::Answers(frames) => write!(out, "answer={}", list(frames)),
            Self::Segments(segments) => write!(out, "send={}", list(segments)),
            Self::All(faults) => {
                let texts: Vec<_> = faults.iter().map(ToString::to_string).collect();
                out.write_str(&texts.join("+"))
            }
        }
    }
}

fn with(out: &mut fmt::Formatter<'_>, name: &str, argument: Option<&impl Display>) -> fmt::Result {
    out.write_str(name)?;
    argument.map_or(Ok(()), |argument| write!(out, "={argument}"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a text does not fail.
        let _written = write!(text, "{byte:02X}");
        text
    })
}

fn list(parts: &[Vec<u8>]) -> String {
    parts.iter().map(|part| hex(part)).collect::<Vec<_>>().join("/")
}
