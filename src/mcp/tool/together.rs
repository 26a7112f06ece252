//! `write_tags`: asks control for several writes to one device at once, and says how each ended.

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value as Json, json};

use super::{
    Answer, Call,
    arguments::{Arguments, missing},
    schema,
    write::{self, Row},
};
use crate::{
    control::WriteRequest,
    mcp::{Mcp, page::ANSWER_BYTES},
    store::Catalogue,
};

pub(super) const NAME: &str = "write_tags";

/// Most writes of one call.
const MOST: usize = 32;

/// Writes as they were asked for.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Tags with their values.
    writes: Vec<(String, String)>,
    dry_run: bool,
    reason: Option<String>,
}

pub(super) fn tool() -> Tool {
    let input = json!({
        "type": "object",
        "properties": {
            "writes": {
                "type": "array",
                "description": "1 to 32 writes to tags of one device, each tag once.",
                "items": {
                    "type": "object",
                    "description": "One write.",
                    "properties": {
                        "tag": schema::text("Path of the tag."),
                        "value": schema::text("The value in the tag's engineering unit, as text, as for write_tag.")
                    },
                    "required": ["tag", "value"]
                }
            },
            "dry_run": {
                "type": "boolean",
                "description": "true checks every rule and sends nothing."
            },
            "reason": schema::text("Why, in one sentence, for the plant's log.")
        },
        "required": ["writes"]
    });
    let output = json!({
        "type": "object",
        "properties": {
            "writes": {
                "type": "array",
                "description": "How each write ended, in the order of the call.",
                "items": write::outcome()
            },
            "error": schema::text("What is wrong with the call itself; then nothing was sent.")
        },
        "required": ["writes"]
    });
    let description = "Writes values to several tags of one device of the real plant that belong together. Every rule must \
                       pass for all of them before anything is sent; otherwise nothing is. Signals of one CAN message leave \
                       in one frame, neighbouring Modbus registers in one request; what cannot leave together is sent one \
                       after the other, and may end differently: look at each outcome.";
    let annotations =
        ToolAnnotations::new().read_only(false).destructive(true).idempotent(true).open_world(true);
    schema::tool(NAME, "Write several tags", description, input, output, annotations)
}

impl Wanted {
    pub(super) fn parse(arguments: &Arguments) -> Result<Self, String> {
        arguments.only(&["writes", "dry_run", "reason"])?;
        let mut writes = Vec::new();
        for (place, write) in arguments.objects("writes", MOST)?.iter().enumerate() {
            let within = |problem: String| format!("writes[{place}]: {problem}");
            write.only(&["tag", "value"]).map_err(within)?;
            let tag = write
                .text("tag")
                .map_err(within)?
                .ok_or_else(|| within(missing("tag", "the path of a tag")))?;
            let value = write.value("value").map_err(within)?;
            let value =
                value.ok_or_else(|| within(missing("value", "a string such as \"72.5\" or \"on\"")))?;
            writes.push((tag.to_owned(), value));
        }
        Ok(Self {
            writes,
            dry_run: arguments.flag("dry_run")?.unwrap_or(false),
            reason: arguments.text("reason")?.map(str::to_owned),
        })
    }
}

pub(super) async fn call(mcp: &Mcp, catalogue: &Catalogue, wanted: Wanted, call: Call) -> Answer {
    let Wanted { writes, dry_run, reason } = wanted;
    let request = |(tag, value): &(String, String)| WriteRequest {
        tag: tag.clone(),
        value: value.clone(),
        expect: None,
        dry_run,
        reason: reason.clone(),
        caller: call.caller.clone(),
        stamp: call.stamp,
        cancel: call.cancel.clone(),
    };
    let reports = mcp.control().write_all(writes.iter().map(request).collect()).await;
    let failed = reports.iter().any(|report| !report.outcome.is_success());
    let rows = |is_whole: bool| {
        let each = writes.iter().zip(&reports).map(|((path, _), report)| {
            let row = Row::new(path, catalogue.tag(path).map(|entry| &*entry.tag), report);
            serde_json::to_value(if is_whole { row } else { row.terse() }).unwrap_or_default()
        });
        let structured = json!({ "writes": each.collect::<Vec<Json>>() });
        Answer { text: structured.to_string(), structured, failed }
    };
    let answer = rows(true);
    if answer.text.len() <= ANSWER_BYTES { answer } else { rows(false) }
}

/// The answer to a call whose arguments are wrong: no rule was asked, and nothing was sent.
pub(super) fn misused(problem: &str, call: &Call) -> Answer {
    write::log_misuse(problem, call);
    Answer::problem(json!({ "writes": [], "error": problem }))
}
