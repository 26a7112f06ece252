//! `write_tag`: asks control for one write and says how it ended.

use std::borrow::Cow;

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
    mcp::{Mcp, json, page::ANSWER_BYTES},
    model::{Kind, Outcome, Party, Report, Tag, Value},
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
pub(super) struct Row<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<Cow<'a, str>>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    requested: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Json>,
    /// Of `value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
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
    message: Cow<'a, str>,
}

pub(super) fn tool() -> Tool {
    let input = json!({
        "type": "object",
        "properties": {
            "tag": schema::text("Path of the tag, such as boiler/setpoint."),
            "value": schema::text(
                "The value in the tag's engineering unit, as text: a number such as 72.5; true, false, on or off; one \
                 of the tag's labels; or for an array all its elements as JSON, such as [1, 2.5]."
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
    let description = "Writes one value to one tag of the real plant, within the limits that its owner set, and reads \
                       it back. Read the tag first; use dry_run to see whether the rules allow it, and expect to write \
                       only if nobody changed it meanwhile. outcome says how it ended: never repeat a write whose \
                       outcome is unknown or differs without reading the tag first.";
    let annotations =
        ToolAnnotations::new().read_only(false).destructive(true).idempotent(true).open_world(true);
    schema::tool(NAME, "Write a tag", description, input, outcome(), annotations)
}

/// How one write ended, as a schema.
pub(super) fn outcome() -> Json {
    json!({
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
            "requested": { "description": "The value as it was asked for. A long array may be left out." },
            "value": { "description": "The value that the device now holds, where it is known." },
            "label": schema::text("Word for value, where it has one."),
            "previous": { "description": "The value before, where it is known. A long array may be left out." },
            "unit": schema::text("Engineering unit of the values."),
            "acknowledged_by": schema::text("Who said that the write was taken: device, broker or bus."),
            "rule": schema::text("The rule that rejected it; arguments where the call itself is wrong."),
            "code": { "type": "integer", "description": "The device's own code of a refusal." },
            "message": schema::text("What happened, in one sentence.")
        },
        "required": ["outcome", "message"]
    })
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
    answer(&tag, catalogue.tag(&tag).map(|entry| &*entry.tag), &report)
}

fn answer(path: &str, tag: Option<&Tag>, report: &Report) -> Answer {
    let row = Row::new(path, tag, report);
    let failed = !report.outcome.is_success();
    let answer = row.answer(failed);
    if answer.text.len() <= ANSWER_BYTES { answer } else { row.brief().answer(failed) }
}

/// A message that repeats a whole array says no more than its beginning.
const MESSAGE: usize = 1000;

fn shorten(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => text.into(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()).into(),
    }
}

/// The answer to a call whose arguments are wrong: no rule was asked, and nothing was sent.
pub(super) fn misused(arguments: &Arguments, problem: &str, call: &Call) -> Answer {
    log_misuse(problem, call);
    let row = Row {
        tag: arguments.text("tag").ok().flatten().map(Cow::Borrowed),
        outcome: "rejected",
        requested: None,
        value: None,
        label: None,
        previous: None,
        unit: None,
        acknowledged_by: None,
        rule: Some("arguments"),
        code: None,
        message: problem.into(),
    };
    row.answer(true)
}

pub(super) fn log_misuse(problem: &str, call: &Call) {
    tracing::warn!(
        target: "fieldbridge::write",
        stamp = call.stamp.number,
        caller = call.caller,
        outcome = "rejected",
        rule = "arguments",
        said = problem,
        "write ended"
    );
}

impl<'a> Row<'a> {
    pub(super) fn new(path: &'a str, tag: Option<&'a Tag>, report: &'a Report) -> Self {
        let Report { outcome, requested, value, previous, acknowledged_by, code, message } = report;
        let kind = tag.map_or(Kind::Float64, |tag| tag.definition.kind);
        let json = |value: &Option<Value>| value.as_ref().map(|value| json::value(value, kind));
        Self {
            tag: Some(path.into()),
            outcome: outcome.name(),
            requested: json(requested),
            value: json(value),
            label: tag.zip(value.as_ref()).and_then(|(tag, value)| json::label(tag, value)),
            previous: json(previous),
            unit: tag.and_then(|tag| tag.definition.unit.as_deref()),
            acknowledged_by: acknowledged_by.map(Party::name),
            rule: match outcome {
                Outcome::Rejected(rule) => Some(rule.name()),
                _ => None,
            },
            code: *code,
            message: shorten(message, MESSAGE),
        }
    }

    /// Without what a caller knows who asked for it.
    pub(super) fn brief(self) -> Self {
        Self { requested: None, previous: None, ..self }
    }

    /// As one of many: without all that can be long.
    pub(super) fn terse(self) -> Row<'static> {
        const TAG: usize = 100;
        const MESSAGE: usize = 120;
        Row {
            tag: self.tag.map(|tag| shorten(&tag, TAG).into_owned().into()),
            outcome: self.outcome,
            requested: None,
            value: None,
            label: None,
            previous: None,
            unit: None,
            acknowledged_by: self.acknowledged_by,
            rule: self.rule,
            code: self.code,
            message: shorten(&self.message, MESSAGE).into_owned().into(),
        }
    }

    fn answer(&self, failed: bool) -> Answer {
        let structured = serde_json::to_value(self).unwrap_or_default();
        let text = serde_json::to_string(self).unwrap_or_default();
        Answer { structured, text, failed }
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::{
        mcp::tests::plant::a_tag,
        model::{Labels, Rule},
    };

    #[test]
    fn an_answer_has_what_is_known_and_nothing_else() {
        let mut report = Report::new(Outcome::Confirmed, "read back equal");
        report.requested = Some(Value::F64(21.37));
        report.value = Some(Value::F64(21.4));
        report.previous = Some(Value::F64(20.0));
        report.acknowledged_by = Some(Party::Device);
        let tag = a_tag();
        let confirmed = answer("boiler/setpoint", Some(&tag), &report);
        assert!(!confirmed.failed);
        assert_eq!(
            confirmed.text,
            r#"{"tag":"boiler/setpoint","outcome":"confirmed","requested":21.37,"value":21.4,"previous":20.0,"unit":"°C","acknowledged_by":"device","message":"read back equal"}"#
        );
        let report = Report::new(Outcome::Rejected(Rule::Limits), "too high");
        let rejected = answer("boiler/setpoint", None, &report);
        assert!(rejected.failed);
        assert_eq!(
            rejected.text,
            r#"{"tag":"boiler/setpoint","outcome":"rejected","rule":"limits","message":"too high"}"#
        );
    }

    #[test]
    fn a_value_has_its_label_beside_it() {
        let labels = Labels::new([(1, "auto".into())]);
        let tag = a_tag().with(|tag| (tag.labels, tag.unit) = (Some(labels.into()), None));
        let mut report = Report::new(Outcome::Confirmed, "read back equal");
        report.value = Some(Value::U64(1));
        assert_eq!(
            answer("boiler/mode", Some(&tag), &report).text,
            r#"{"tag":"boiler/mode","outcome":"confirmed","value":1,"label":"auto","message":"read back equal"}"#
        );
    }

    /// As many coils as one request can write, thrice and in the message.
    #[test]
    fn an_answer_is_short_whatever_the_array() {
        let coils = Value::Array(vec![Value::Bool(false); 1968].into());
        let message = format!("the device acknowledged the write; read back, it holds {coils}");
        let mut report = Report::new(Outcome::Confirmed, message);
        (report.requested, report.value, report.previous) =
            (Some(coils.clone()), Some(coils.clone()), Some(coils));
        let answer = answer("plc/coils", Some(&a_tag()), &report);
        assert!(answer.text.len() < 25 * 1024, "{}", answer.text.len());
        assert_eq!(answer.structured["value"].as_array().map(Vec::len), Some(1968));
        assert!(answer.structured["requested"].is_null() && answer.structured["previous"].is_null());
    }
}
