//! Pieces of the tools' schemas.
//!
//! Input schemas stay plain, since several clients refuse a whole list of tools for one keyword that they do not
//! know: every property has one type and a description, and nothing is combined or referred to.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value as Json, json};

use crate::model::Reason;

/// A tool from its two schemas, both JSON objects.
pub(super) fn tool(
    name: &'static str,
    title: &str,
    description: &'static str,
    input: Json,
    output: Json,
    annotations: ToolAnnotations,
) -> Tool {
    Tool::new(name, description, object(input))
        .with_title(title)
        .with_raw_output_schema(object(output))
        .with_annotations(annotations)
}

/// What a tool that changes nothing is announced as.
pub(super) fn read_only() -> ToolAnnotations {
    ToolAnnotations::new().read_only(true).destructive(false).idempotent(true).open_world(false)
}

pub(super) fn limit(default: usize, most: usize) -> Json {
    json!({
        "type": "integer",
        "minimum": 1,
        "maximum": most,
        "description": format!(
            "Most rows of one page, {default} by default. A page also ends at about 22 KiB of text; then \
             next_cursor says how to go on."
        ),
    })
}

pub(super) fn cursor() -> Json {
    json!({
        "type": "string",
        "description": "next_cursor of the page before; leave it out for the first page.",
    })
}

pub(super) fn text(description: &str) -> Json {
    json!({ "type": "string", "description": description })
}

/// A reading, as `read_tags` and the resources show it.
pub(super) fn reading() -> Json {
    json!({
        "type": "object",
        "properties": {
            "tag": text("Path of the tag."),
            "value": {
                "description": "Present value: a number, a boolean, a string (also for 64-bit integers), an array of these, or null where there is none. Trust it only where quality is good."
            },
            "label": text("Word for the value, where it has one."),
            "unit": text("Engineering unit."),
            "quality": {
                "type": "string",
                "enum": ["good", "uncertain", "bad"],
                "description": "Whether the value can be trusted."
            },
            "reason": {
                "type": "string",
                "enum": Reason::ALL.map(Reason::name),
                "description": "Why the quality is not good."
            },
            "detail": text("More about the reason."),
            "source_time": text("When the value was taken from the device, RFC 3339 in UTC."),
            "age_ms": { "type": "integer", "minimum": 0, "description": "Age of the value in milliseconds." }
        },
        "required": ["tag", "value", "quality"]
    })
}

fn object(json: Json) -> Arc<JsonObject> {
    match json {
        Json::Object(object) => Arc::new(object),
        _ => Arc::default(),
    }
}
