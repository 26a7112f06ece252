//! `write_tag`: asks control for one write and says how it ended.

use rmcp::model::{Tool, ToolAnnotations};
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::{
    Answer, Call,
    arguments::{Arguments, missing},
    schema,
};
use crate::{
    control::WriteRequest,
    mcp::{Mcp, json},
    model::{Kind, Outcome, Report, Value},
    store::Catalogue,
};

pub(super) const NAME: &str = "write_tag";

/// A write as it was asked for.
#[derive(Debug)]
pub(super) struct Wanted {
    tag: String,
    value: String,
    expect: Option<String>,
    dry_run: bool,
    reason: Option<String>,
}

#[derive(Debug, Serialize)]
struct Row<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<&'a str>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    requested: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acknowledged_by: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u8>,
    message: &'a str,
}

pub(super) fn tool() -> Tool {
    let input = json!({
        "type": "object",
        "properties": {
            "tag": schema::text("Path of the tag, such as boiler/setpoint."),
            "value": schema::text(
                "The value in the tag's engineering unit, as text: a number such as 72.5, or true, false, on, off."
            ),
            "expect": schema::text(
                "Write only if the device holds this value at that moment; otherwise nothing is sent."
            ),
            "dry_run": {
                "type": "boolean",
                "description": "true checks every rule and sends nothing."
            },
            "reason": schema::text("Why, in one sentence, for the plant's log.")
        },
        "required": ["tag", "value"]
    });
    let output = json!({
        "type": "object",
        "properties": {
            "tag": schema::text("Path of the tag."),
            "outcome": schema::text(
                "confirmed: read back equal. differs: answered, but something else was read back. written: \
                 acknowledged, not read back. rejected: a rule said no, nothing was sent. refused: the device said no. \
                 not_sent: nothing left: the link is down, time ran out, or it was cancelled. unknown: it was sent, and \
                 nothing tells whether it was carried out; read the tag before anything else. dry_run: all rules \
                 passed, nothing was sent."
            ),
            "requested": { "description": "The value as it was asked for." },
            "value": { "description": "The value that the device now holds, where it is known." },
            "previous": { "description": "The value before, where it is known." },
            "unit": schema::text("Engineering unit of the values."),
            "acknowledged_by": schema::text("Who said that the write was taken: device."),
            "rule": schema::text("The rule that rejected it; arguments where the call itself is wrong."),
            "code": { "type": "integer", "description": "The device's own code of a refusal." },
            "message": schema::text("What happened, in one sentence.")
        },
        "required": ["outcome", "message"]
    });
    let description = "Writes one value to one tag of the real plant, within the limits that its owner set, and reads \
                       it back. Read the tag first; use dry_run to see whether the rules allow it, and expect to write \
                       only if nobody changed it meanwhile. outcome says how it ended: never repeat a write whose \
                       outcome is unknown or differs without reading the tag first.";
    let annotations =
        ToolAnnotations::new().read_only(false).destructive(true).idempotent(true).open_world(true);
    schema::tool(NAME, "Write a tag", description, input, output, annotations)
}

impl Wanted {
    pub(super) fn parse(arguments: &Arguments) -> Result<Self, String> {
        arguments.only(&["tag", "value", "expect", "dry_run", "reason"])?;
        let tag = arguments.text("tag")?.ok_or_else(|| missing("tag", "the path of a tag"))?;
        let value = arguments.value("value")?;
        Ok(Self {
            tag: tag.to_owned(),
            value: value.ok_or_else(|| missing("value", "a string such as \"72.5\" or \"on\""))?,
            expect: arguments.value("expect")?,
            dry_run: arguments.flag("dry_run")?.unwrap_or(false),
            reason: arguments.text("reason")?.map(str::to_owned),
        })
    }
}

pub(super) async fn call(mcp: &Mcp, catalogue: &Catalogue, wanted: Wanted, call: Call) -> Answer {
    let Wanted { tag, value, expect, dry_run, reason } = wanted;
    let request = WriteRequest {
        tag: tag.clone(),
        value,
        expect,
        dry_run,
        reason,
        caller: call.caller,
        stamp: call.stamp,
        cancel: call.cancel,
    };
    let report = mcp.control().write(request).await;
    let (kind, unit) = match catalogue.tag(&tag) {
        Some(entry) => (entry.tag.kind, entry.tag.unit.as_deref()),
        None => (Kind::Float64, None),
    };
    answer(&tag, kind, unit, &report)
}

fn answer(tag: &str, kind: Kind, unit: Option<&str>, report: &Report) -> Answer {
    let Report { outcome, requested, value, previous, acknowledged, code, message } = report;
    let json = |value: &Option<Value>| value.as_ref().map(|value| json::value(value, kind));
    let row = Row {
        tag: Some(tag),
        outcome: outcome.name(),
        requested: json(requested),
        value: json(value),
        previous: json(previous),
        unit,
        acknowledged_by: acknowledged.then_some("device"),
        rule: match outcome {
            Outcome::Rejected(rule) => Some(rule.name()),
            _ => None,
        },
        code: *code,
        message,
    };
    row.answer(!outcome.is_success())
}

/// The answer to a call whose arguments are wrong: no rule was asked, and nothing was sent.
pub(super) fn misused(arguments: &Arguments, problem: &str, call: &Call) -> Answer {
    tracing::warn!(
        target: "fieldbridge::write",
        stamp = call.stamp.number,
        caller = call.caller,
        outcome = "rejected",
        rule = "arguments",
        said = problem,
        "write ended"
    );
    let row = Row {
        tag: arguments.text("tag").ok().flatten(),
        outcome: "rejected",
        requested: None,
        value: None,
        previous: None,
        unit: None,
        acknowledged_by: None,
        rule: Some("arguments"),
        code: None,
        message: problem,
    };
    row.answer(true)
}

impl Row<'_> {
    fn answer(&self, failed: bool) -> Answer {
        let structured = serde_json::to_value(self).unwrap_or_default();
        let text = serde_json::to_string(self).unwrap_or_default();
        Answer { structured, text, failed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Rule;

    #[test]
    fn an_answer_has_what_is_known_and_nothing_else() {
        let mut report = Report::new(Outcome::Confirmed, "read back equal");
        report.requested = Some(Value::F64(21.37));
        report.value = Some(Value::F64(21.4));
        report.previous = Some(Value::F64(20.0));
        report.acknowledged = true;
        let confirmed = answer("boiler/setpoint", Kind::Uint16, Some("°C"), &report);
        assert!(!confirmed.failed);
        assert_eq!(
            confirmed.text,
            r#"{"tag":"boiler/setpoint","outcome":"confirmed","requested":21.37,"value":21.4,"previous":20.0,"unit":"°C","acknowledged_by":"device","message":"read back equal"}"#
        );
        let report = Report::new(Outcome::Rejected(Rule::Limits), "too high");
        let rejected = answer("boiler/setpoint", Kind::Uint16, None, &report);
        assert!(rejected.failed);
        assert_eq!(
            rejected.text,
            r#"{"tag":"boiler/setpoint","outcome":"rejected","rule":"limits","message":"too high"}"#
        );
    }
}
