//! The tools: few, fixed in number whatever the site holds, each with exact answers.
//!
//! Every answer, also that of a call that failed, validates against its tool's output schema and is repeated as text.

mod arguments;
mod list;
mod read;
mod schema;
mod together;
mod write;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool};
use serde_json::{Value as Json, json};
use tokio_util::sync::CancellationToken;

use super::{Mcp, page::Page};
use crate::control::Stamp;
use arguments::Arguments;

/// The definitions, built once.
#[derive(Debug)]
pub(super) struct Tools(Vec<Tool>);

/// Who calls, and when the call came in.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) caller: String,
    pub(super) stamp: Stamp,
    /// The client takes the call back.
    pub(super) cancel: CancellationToken,
}

/// What a tool has to say.
#[derive(Debug)]
struct Answer {
    structured: Json,
    text: String,
    failed: bool,
}

impl Tools {
    pub(super) fn new() -> Self {
        Self(vec![list::devices_tool(), list::tags_tool(), read::tool(), write::tool(), together::tool()])
    }

    pub(super) fn all(&self) -> &[Tool] {
        &self.0
    }

    pub(super) fn get(&self, name: &str) -> Option<&Tool> {
        self.0.iter().find(|tool| tool.name == name)
    }
}

/// Calls a tool by its name; `None` where there is no such tool.
pub(super) async fn call(
    mcp: &Mcp,
    name: &str,
    arguments: Option<JsonObject>,
    call: Call,
) -> Option<CallToolResult> {
    let arguments = Arguments::new(arguments.unwrap_or_default());
    let catalogue = mcp.store().catalogue();
    let answer = match name {
        list::DEVICES => list::devices(mcp.store(), &catalogue, &arguments)
            .unwrap_or_else(|problem| Answer::problem(json!({ "devices": [], "error": problem }))),
        list::TAGS => list::tags(&catalogue, mcp.control().table().writes.name(), &arguments)
            .unwrap_or_else(|problem| Answer::problem(json!({ "tags": [], "error": problem }))),
        read::NAME => read::call(mcp.store(), &catalogue, &arguments)
            .unwrap_or_else(|problem| Answer::problem(json!({ "tags": [], "error": problem }))),
        write::NAME => match write::Wanted::parse(&arguments) {
            Ok(wanted) => write::call(mcp, &catalogue, wanted, call).await,
            Err(problem) => write::misused(&arguments, &problem, &call),
        },
        together::NAME => match together::Wanted::parse(&arguments) {
            Ok(wanted) => together::call(mcp, &catalogue, wanted, call).await,
            Err(problem) => together::misused(&problem, &call),
        },
        _ => return None,
    };
    Some(answer.into())
}

impl Answer {
    /// A page of rows under `key`, and what there is beside them.
    fn page<const N: usize>(key: &str, page: Page, extras: [(&str, Option<Json>); N]) -> Self {
        let mut text = format!("{{\"{key}\":{}", page.text());
        let mut structured = JsonObject::new();
        structured.insert(key.to_owned(), Json::Array(page.rows));
        for (key, value) in extras {
            let Some(value) = value else { continue };
            text.extend([",\"", key, "\":", &value.to_string()]);
            structured.insert(key.to_owned(), value);
        }
        text.push('}');
        Self { structured: Json::Object(structured), text, failed: false }
    }

    fn problem(structured: Json) -> Self {
        Self { text: structured.to_string(), structured, failed: true }
    }
}

impl From<Answer> for CallToolResult {
    fn from(answer: Answer) -> Self {
        let content = vec![ContentBlock::text(answer.text)];
        let mut result = if answer.failed { Self::error(content) } else { Self::success(content) };
        result.structured_content = Some(answer.structured);
        result
    }
}
