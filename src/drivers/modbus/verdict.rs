//! What is told of a write: what the device said to it and holds afterwards, in words and as an outcome. Pure.

use tokio_modbus::ExceptionCode;

use super::session::End;
use crate::{
    codec::{modbus::exception_text, value::Fault},
    model::{Outcome, Party, Refusal, Report, Value},
};

/// What the device said to the frame.
#[derive(Debug, Clone)]
pub(super) enum Said {
    /// It echoed the write.
    Yes,
    /// Exception 0x05: it took the write and needs time.
    Later,
    /// An answer that is not the echo of what was sent.
    Else(String),
    /// An exception after which the device may have carried the write out all the same.
    Failed(ExceptionCode),
}

/// What the device holds.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) value: Result<Value, Fault>,
    /// Whether it is bit for bit what was sent.
    pub(super) same: bool,
    /// The register, where it is one.
    pub(super) word: Option<u16>,
}

/// A write that the device refused; `cells` of it would have been written at once.
pub(super) fn refusal(exception: ExceptionCode, cells: usize) -> Report {
    let text = exception_text(exception);
    let text = match exception {
        ExceptionCode::IllegalFunction if cells > 1 => format!(
            "the device refused the write: {text}; what it takes one at a time would be {cells} writes and not one, so it \
             was not sent that way"
        ),
        ExceptionCode::GatewayPathUnavailable => {
            format!("the gateway has no path to the device and passed nothing on: {text}")
        }
        _ => format!("the device refused the write: {text}"),
    };
    Report { code: Some(u8::from(exception)), ..Report::new(Outcome::Refused, text) }
}

/// What a look showed, or why it showed nothing.
pub(super) fn held(looked: &Result<Result<Held, String>, End>) -> Result<&Held, &str> {
    match looked {
        Ok(held) => held.as_ref().map_err(String::as_str),
        Err(End::Lost(problem)) => Err(problem),
        Err(End::Stopped | End::Idle(..)) => Err("the connection is being closed"),
    }
}

/// What to tell of a write that the device answered, given what it holds afterwards.
///
/// What is read back counts for more than what was said: a device that holds what was sent is as it was asked to be,
/// whatever it answered.
pub(super) fn verdict(said: &Said, held: Result<&Held, &str>, late: &str) -> Report {
    // The outcomes where something else is read back, and where nothing is.
    let (differs, unread, code) = match said {
        Said::Yes => (Outcome::Differs, Outcome::Written, None),
        Said::Later => (Outcome::Unknown, Outcome::Unknown, Some(ExceptionCode::Acknowledge)),
        Said::Failed(exception) => (Outcome::Unknown, Outcome::Unknown, Some(*exception)),
        Said::Else(_) => (Outcome::Differs, Outcome::Unknown, None),
    };
    let acknowledged = matches!(said, Said::Yes | Said::Later);
    let said = match said {
        Said::Yes => "the device acknowledged the write".to_owned(),
        Said::Later => format!("the device took the write, asked for time (exception 0x05){late}"),
        Said::Failed(exception) => {
            format!("the write was answered with {}, which leaves it open", exception_text(*exception))
        }
        Said::Else(misfit) => misfit.clone(),
    };
    let (outcome, value, held) = match held {
        Ok(Held { value, same, .. }) => {
            let text = match value {
                Ok(value) => format!("read back, it holds {value}"),
                Err(fault) => format!("read back, {fault}"),
            };
            (if *same { Outcome::Confirmed } else { differs }, value.as_ref().ok().cloned(), text)
        }
        Err(problem) => (unread, None, format!("reading back failed: {problem}")),
    };
    let code = code.map(u8::from);
    let acknowledged_by = acknowledged.then_some(Party::Device);
    Report { value, acknowledged_by, code, ..Report::new(outcome, format!("{said}; {held}")) }
}

pub(super) fn rejected(refusal: &Refusal) -> Report {
    Report::new(Outcome::Rejected(refusal.rule()), refusal.to_string())
}
