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
    ("silence", "", "no more messages, while the connection stays"),
    ("offline", "", "the connection is lost, and the last will published"),
    ("cut-json", "", "only the first half of every value"),
    ("nan", "[=KEY]", "bare nan for all numbers, or for those of one key"),
    ("pad", "=BYTES", "every value so much longer"),
    ("flood", "=COUNT", "so many beats a second, at QoS 0"),
    ("retained-garbage", "", "the broker keeps bytes without meaning for every value's topic"),
    ("slow-confirm", "=TIME", "commands are carried out so much later"),
    ("ignore-commands", "", "commands are not carried out"),
];

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
        let surplus = argument.is_some() && form.is_empty();
        let fault = if missing || surplus { None } else { parse(name, argument) };
        fault.ok_or_else(|| FaultError::Argument { text: text.to_owned(), name, argument: form })
    }
}

/// The argument's presence has been checked.
fn parse(name: &str, argument: Option<&str>) -> Option<Fault> {
    let text = argument.unwrap_or_default();
    Some(match name {
        "silence" => Fault::Silence,
        "offline" => Fault::Offline,
        "cut-json" => Fault::Cut,
        "nan" => Fault::Nan(argument.map(ToOwned::to_owned)),
        "pad" => Fault::Pad(text.parse().ok()?),
        "flood" => Fault::Flood(text.parse().ok().filter(|rate| *rate > 0)?),
        "retained-garbage" => Fault::Garbage,
        "slow-confirm" => Fault::Slow(time(text)?),
        "ignore-commands" => Fault::Ignore,
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
            Self::Silence => out.write_str("silence"),
            Self::Offline => out.write_str("offline"),
            Self::Cut => out.write_str("cut-json"),
            Self::Nan(None) => out.write_str("nan"),
            Self::Nan(Some(key)) => write!(out, "nan={key}"),
            Self::Pad(bytes) => write!(out, "pad={bytes}"),
            Self::Flood(rate) => write!(out, "flood={rate}"),
            Self::Garbage => out.write_str("retained-garbage"),
            Self::Slow(time) => write!(out, "slow-confirm={}ms", time.as_millis()),
            Self::Ignore => out.write_str("ignore-commands"),
        }
    }
}
