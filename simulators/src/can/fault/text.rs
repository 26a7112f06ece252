//! Faults as settings: `name` or `name=argument`.
//!
//! Knows names and arguments; nothing of what a fault does.

use std::{
    fmt::{self, Display},
    str::FromStr,
    time::Duration,
};

use super::Fault;

/// Name, argument and meaning of every fault. What stands in brackets can be left out.
pub const FAULTS: &[(&str, &str, &str)] = &[
    (
        "load",
        "=PERCENT",
        "frames of low priority fill the bus to this load of its bit rate, or of 500 kbit/s",
    ),
    ("error-frames", "=COUNT", "so many error frames a second"),
    ("bus-off", "[=TIME]", "all controllers leave the bus for 1s"),
    ("missing", "=ID[/N]", "every frame of this identifier is left out, or every N-th"),
    ("stuck-counter", "=ID", "the alive counter of this message does not advance"),
    ("short", "=ID=LENGTH", "frames of this identifier have so many bytes at most"),
    ("silence", "=DEVICE", "this device sends nothing"),
];

/// How long the controllers are off the bus where it is not said.
const OFF: Duration = Duration::from_secs(1);

/// A text that is no fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// Nothing is called this.
    #[error("unknown fault `{name}`, allowed are {}", known())]
    Name { name: String },
    /// The argument is missing, wrong, or there is none.
    #[error("`{text}` is no fault, the form is `{name}{argument}`")]
    Argument { text: String, name: &'static str, argument: &'static str },
}

fn known() -> String {
    FAULTS.iter().map(|(name, argument, _)| format!("{name}{argument}")).collect::<Vec<_>>().join(", ")
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let text = text.trim();
        let (name, argument) = text.split_once('=').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let &(name, form, _) = FAULTS
            .iter()
            .find(|(known, ..)| *known == name)
            .ok_or_else(|| FaultError::Name { name: name.to_owned() })?;
        let missing = argument.is_none() && form.starts_with('=');
        let fault = if missing { None } else { parse(name, argument) };
        fault.ok_or_else(|| FaultError::Argument { text: text.to_owned(), name, argument: form })
    }
}

/// The argument's presence has been checked.
fn parse(name: &str, argument: Option<&str>) -> Option<Fault> {
    let text = argument.unwrap_or_default();
    Some(match name {
        "load" => Fault::Load(text.parse().ok().filter(|percent| (1..=100).contains(percent))?),
        "error-frames" => Fault::Errors(text.parse().ok().filter(|count| (1..=100_000).contains(count))?),
        "bus-off" => Fault::BusOff(argument.map_or(Some(OFF), time)?),
        "missing" => {
            let (id, every) = text.split_once('/').unwrap_or((text, "1"));
            Fault::Missing { id: id.parse().ok()?, every: every.parse().ok().filter(|every| *every > 0)? }
        }
        "stuck-counter" => Fault::Stuck(text.parse().ok()?),
        "short" => {
            let (id, length) = text.split_once('=')?;
            Fault::Short { id: id.parse().ok()?, length: length.parse().ok().filter(|length| *length <= 64)? }
        }
        "silence" => {
            Some(text).filter(|text| !text.is_empty()).map(|text| Fault::Silence(text.to_owned()))?
        }
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

impl Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(percent) => write!(out, "load={percent}"),
            Self::Errors(count) => write!(out, "error-frames={count}"),
            Self::BusOff(time) => write!(out, "bus-off={}ms", time.as_millis()),
            Self::Missing { id, every: 1 } => write!(out, "missing={id}"),
            Self::Missing { id, every } => write!(out, "missing={id}/{every}"),
            Self::Stuck(id) => write!(out, "stuck-counter={id}"),
            Self::Short { id, length } => write!(out, "short={id}={length}"),
            Self::Silence(device) => write!(out, "silence={device}"),
        }
    }
}
