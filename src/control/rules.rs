//! The rules that a write must pass before it may wait for its turn.

use std::{cmp::Ordering, sync::Arc, time::Duration};

use rust_decimal::Decimal;

use super::{Control, Route, WriteRequest};
use crate::{
    config::WriteMode,
    model::{
        Accepted, Access, Definition, Limits, Outcome, Quality, Refusal, Report, Rule, Setpoint, Tag, TagId,
        Value,
    },
    store::TagEntry,
};

/// A write that passed.
pub(super) struct Admitted {
    pub(super) entry: TagEntry,
    pub(super) route: Route,
    pub(super) accepted: Accepted,
    pub(super) expect: Option<Value>,
    /// The present value, where the store has a good one.
    pub(super) present: Option<Value>,
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
        if tag.definition.access != Access::ReadWrite {
            return Err(reject(Rule::Access, format!("`{}` is read-only", tag.path)));
        }
        let route = table.routes.get(&entry.id).filter(|_| table.generation == catalogue.generation);
        let Some(route) = route.cloned() else {
            return Err(Report::new(Outcome::NotSent, "the configuration is just being reloaded"));
        };
        let accepted = route.setpoint.accept(&request.value).map_err(|refusal| refuse("value", &refusal))?;
        let present = self.present(entry.id);
        let known = |mut report: Report| {
            report.requested = Some(accepted.requested.clone());
            report.previous.clone_from(&present);
            report
        };
        limits(tag, &accepted).map_err(known)?;
        let expect = match &request.expect {
            Some(text) => Some(expectation(tag, &*route.setpoint, text).map_err(known)?),
            None => None,
        };
        if let (true, Some(expect)) = (request.dry_run, &expect)
            && present.as_ref() != Some(expect)
        {
            return Err(known(unexpected(expect, present.as_ref())));
        }
        let timeout = tag.definition.limits.timeout.unwrap_or(table.timeout);
        Ok(Admitted { entry: entry.clone(), route, accepted, expect, present, timeout })
    }

    /// What a tag holds as far as the store knows for good.
    pub(super) fn present(&self, id: TagId) -> Option<Value> {
        let sample = self.store.read(id)?.sample;
        (sample.quality == Quality::Good).then_some(sample.value)
    }
}

/// What holds for writes of one call beside what holds for each: they are to one device, and to a tag each.
pub(super) fn together(
    requests: &[WriteRequest],
    admitted: Vec<Result<Admitted, Report>>,
) -> Vec<Result<Admitted, Report>> {
    let first = admitted.iter().flatten().next().map(|admitted| Arc::clone(&admitted.entry.tag));
    let mut seen = Vec::new();
    let check = |(request, admitted): (&WriteRequest, Result<Admitted, Report>)| {
        let admitted = admitted?;
        let device = first.as_ref().map_or("", |tag| tag.path.device());
        let text = if admitted.entry.tag.path.device() != device {
            format!("`{}` is not on `{device}`: the writes of one call are to one device", request.tag)
        } else if seen.contains(&admitted.entry.id) {
            format!("`{}` is written twice in one call", request.tag)
        } else {
            seen.push(admitted.entry.id);
            return Ok(admitted);
        };
        let requested = Some(admitted.accepted.requested);
        Err(Report { requested, previous: admitted.present, ..reject(Rule::Companions, text) })
    };
    requests.iter().zip(admitted).map(check).collect()
}

/// The value that a tag is expected to hold. An integer on the device that cannot be what was written is not held.
fn expectation(tag: &Tag, setpoint: &dyn Setpoint, text: &str) -> Result<Value, Report> {
    let Accepted { requested, effective } =
        setpoint.accept(text).map_err(|refusal| refuse("expect", &refusal))?;
    if !tag.definition.kind.is_float() && !requested.is_same(&effective) {
        let text = format!("expected {requested}, which the device cannot hold; the nearest is {effective}");
        return Err(reject(Rule::Expectation, text));
    }
    Ok(effective)
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

/// The limits hold for the value as it was asked for, and for what the device would make of it; of an array for each
/// element.
fn limits(tag: &Tag, accepted: &Accepted) -> Result<(), Report> {
    for value in [&accepted.requested, &accepted.effective] {
        let outside = match value {
            Value::Array(values) => values.iter().position(|value| !is_within(tag, value)).map(|index| {
                let element = values.get(index).map_or_else(String::new, Value::to_string);
                format!("element [{index}]: {element}")
            }),
            value => (!is_within(tag, value)).then(|| value.to_string()),
        };
        if let Some(outside) = outside {
            return Err(reject(Rule::Limits, format!("{outside} is outside the limits{}", allowed(tag))));
        }
    }
    Ok(())
}

fn is_within(tag: &Tag, value: &Value) -> bool {
    let Limits { min, max, .. } = tag.definition.limits;
    min.is_none_or(|min| matches!(compare(value, min), Some(Ordering::Greater | Ordering::Equal)))
        && max.is_none_or(|max| matches!(compare(value, max), Some(Ordering::Less | Ordering::Equal)))
}

/// A value beside a limit, as decimals; where it has more digits than those, as doubles.
fn compare(value: &Value, limit: Decimal) -> Option<Ordering> {
    match value.as_decimal() {
        Some(number) => Some(number.cmp(&limit)),
        None => value.as_f64()?.partial_cmp(&limit.to_string().parse().ok()?),
    }
}

fn allowed(tag: &Tag) -> String {
    let Definition { unit, limits, .. } = &*tag.definition;
    let unit = unit.as_ref().map_or_else(String::new, |unit| format!(" {unit}"));
    let text = |limit: Decimal| limit.normalize().to_string();
    match (limits.min.map(text), limits.max.map(text)) {
        (Some(min), Some(max)) => format!(": allowed is {min} to {max}{unit}"),
        (Some(min), None) => format!(": allowed is {min}{unit} and above"),
        (None, Some(max)) => format!(": allowed is up to {max}{unit}"),
        (None, None) => String::new(),
    }
}

fn refuse(argument: &str, refusal: &Refusal) -> Report {
    reject(refusal.rule(), format!("{argument}: {refusal}"))
}

pub(super) fn reject(rule: Rule, text: impl Into<String>) -> Report {
    Report::new(Outcome::Rejected(rule), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_more_digits_than_decimals_have_are_compared_all_the_same() {
        let tiny = Value::F64(1e-40);
        assert_eq!(compare(&tiny, Decimal::ZERO), Some(Ordering::Greater));
        assert_eq!(compare(&Value::F64(-1e-40), Decimal::ZERO), Some(Ordering::Less));
        assert_eq!(compare(&Value::F64(1e300), Decimal::MAX), Some(Ordering::Greater));
        assert_eq!(compare(&Value::F64(95.0), Decimal::from(95)), Some(Ordering::Equal));
        assert_eq!(compare(&Value::Bool(true), Decimal::ONE), None);
    }
}
