//! The rules that a write must pass before it may wait for its turn.

use std::time::Duration;

use rust_decimal::Decimal;

use super::{Control, Route, WriteRequest};
use crate::{
    config::WriteMode,
    model::{Accepted, Access, Outcome, Quality, Refusal, Report, Rule, Tag, Value},
    store::TagEntry,
};

/// A write that passed.
pub(super) struct Admitted {
    pub(super) entry: TagEntry,
    pub(super) route: Route,
    pub(super) accepted: Accepted,
    pub(super) expect: Option<Value>,
    /// The value before, where the store has a good one.
    pub(super) previous: Option<Value>,
    pub(super) timeout: Duration,
}

impl Control {
    pub(super) fn admit(&self, request: &WriteRequest) -> Result<Admitted, Report> {
        let catalogue = self.store.catalogue();
        let Some(entry) = catalogue.tag(&request.tag) else {
            let near = catalogue
                .nearest(&request.tag)
                .map_or_else(String::new, |near| format!("; the nearest is `{near}`"));
            return Err(reject(Rule::Tag, format!("there is no tag `{}`{near}", request.tag)));
        };
        let table = self.table();
        mode(table.writes)?;
        let tag = &*entry.tag;
        if tag.access != Access::ReadWrite {
            return Err(reject(Rule::Access, format!("`{}` is read-only", tag.path)));
        }
        let Some(route) = table.routes.get(&entry.id).cloned() else {
            return Err(Report::new(Outcome::NotSent, "the configuration is just being reloaded"));
        };
        let accepted = route.setpoint.accept(&request.value).map_err(|refusal| refuse("value", &refusal))?;
        let before = self.store.read(entry.id).map(|reading| reading.sample);
        let previous = before.filter(|sample| sample.quality == Quality::Good).map(|sample| sample.value);
        let admitted = |accepted, expect| Admitted {
            entry: entry.clone(),
            timeout: tag.limits.timeout.unwrap_or(table.timeout),
            route: route.clone(),
            accepted,
            expect,
            previous: previous.clone(),
        };
        let known = |mut report: Report| {
            report.requested = Some(accepted.requested.clone());
            report.previous.clone_from(&previous);
            report
        };
        limits(tag, &accepted).map_err(known)?;
        let expect = match &request.expect {
            Some(text) => Some(
                route.setpoint.accept(text).map_err(|refusal| known(refuse("expect", &refusal)))?.effective,
            ),
            None => None,
        };
        if let (true, Some(expect)) = (request.dry_run, &expect)
            && previous.as_ref() != Some(expect)
        {
            return Err(known(unexpected(expect, previous.as_ref())));
        }
        Ok(admitted(accepted, expect))
    }
}

/// Whether the mode lets writes through at all.
pub(super) fn mode(writes: WriteMode) -> Result<(), Report> {
    match writes {
        WriteMode::Allow => Ok(()),
        WriteMode::Off => {
            Err(reject(Rule::Mode, "writing is off at this site (`writes` in [site] is `off`)"))
        }
        WriteMode::Confirm => Err(reject(
            Rule::Confirmation,
            "every write at this site needs a person's confirmation (`writes` in [site] is `confirm`), and this \
             version cannot ask for one",
        )),
    }
}

/// The report on a device that holds something else than was expected.
pub(super) fn unexpected(expect: &Value, held: Option<&Value>) -> Report {
    let text = match held {
        Some(held) => format!("expected {expect}, but the device holds {held}"),
        None => format!("expected {expect}, but no good value is known"),
    };
    Report { value: held.cloned(), ..reject(Rule::Expectation, text) }
}

/// The limits hold for the value as it was asked for, and for what the device would make of it.
fn limits(tag: &Tag, accepted: &Accepted) -> Result<(), Report> {
    let (min, max) = (tag.limits.min, tag.limits.max);
    for value in [&accepted.requested, &accepted.effective] {
        let Some(number) = value.as_decimal() else {
            if (min, max) == (None, None) {
                continue;
            }
            return Err(reject(
                Rule::Limits,
                format!("{value} cannot be compared with the limits{}", allowed(tag)),
            ));
        };
        if min.is_some_and(|min| number < min) || max.is_some_and(|max| number > max) {
            return Err(reject(Rule::Limits, format!("{value} is outside the limits{}", allowed(tag))));
        }
    }
    Ok(())
}

fn allowed(tag: &Tag) -> String {
    let unit = tag.unit.as_ref().map_or_else(String::new, |unit| format!(" {unit}"));
    let text = |limit: Decimal| limit.normalize().to_string();
    match (tag.limits.min.map(text), tag.limits.max.map(text)) {
        (Some(min), Some(max)) => format!(": allowed is {min} to {max}{unit}"),
        (Some(min), None) => format!(": allowed is {min}{unit} and above"),
        (None, Some(max)) => format!(": allowed is up to {max}{unit}"),
        (None, None) => String::new(),
    }
}

fn refuse(argument: &str, refusal: &Refusal) -> Report {
    let rule = match refusal {
        Refusal::Type { .. } => Rule::Type,
        Refusal::RawRange { .. } => Rule::RawRange,
    };
    reject(rule, format!("{argument}: {refusal}"))
}

pub(super) fn reject(rule: Rule, text: impl Into<String>) -> Report {
    Report::new(Outcome::Rejected(rule), text)
}
