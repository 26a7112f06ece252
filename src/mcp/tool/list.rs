//! `list_devices` and `list_tags`: what there is, without values.

use globset::{GlobBuilder, GlobMatcher};
use rmcp::model::Tool;
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::{Answer, arguments::Arguments, schema};
use crate::{
    mcp::{
        json::{Definition, DeviceRow},
        page::{Cursor, Page, device_cursor, devices_after, is_after, tag_cursor},
        resource::nearest_device,
    },
    model::Access,
    store::{Catalogue, Store, TagEntry},
};

pub(super) const DEVICES: &str = "list_devices";
pub(super) const TAGS: &str = "list_tags";

const DEVICE_ROWS: (usize, usize) = (50, 500);
const TAG_ROWS: (usize, usize) = (100, 1000);

#[derive(Debug, Serialize)]
struct TagRow<'a> {
    tag: &'a str,
    #[serde(flatten)]
    definition: Definition<'a>,
}

/// Which tags a text or a glob means.
enum Filter {
    All,
    Glob(GlobMatcher),
    /// In lower case.
    Text(String),
}

pub(super) fn devices_tool() -> Tool {
    let input = json!({
        "type": "object",
        "properties": {
            "limit": schema::limit(DEVICE_ROWS.0, DEVICE_ROWS.1),
            "cursor": schema::cursor()
        }
    });
    let count =
        |of: &str| json!({ "type": "integer", "description": format!("How many of its tags are {of}.") });
    let output = json!({
        "type": "object",
        "properties": {
            "devices": { "type": "array", "description": "Ordered by name.", "items": {
                "type": "object",
                "properties": {
                    "device": schema::text("Name: the first part of its tags' paths."),
                    "description": schema::text("What it is."),
                    "vendor": schema::text("Who made it."),
                    "model": schema::text("Which model it is."),
                    "connection": schema::text("The connection that it hangs on."),
                    "driver": schema::text("The protocol."),
                    "address": schema::text("Where it hangs."),
                    "link": schema::text("State of the connection: connecting, connected, backing_off or stopped."),
                    "link_detail": schema::text("Why the connection is down."),
                    "state": schema::text("State of the device: not_connected, waiting, online, silent or refused."),
                    "detail": schema::text("More about the state."),
                    "since": schema::text("When the connection or the device last changed its state."),
                    "tags": {
                        "type": "object",
                        "description": "How many of its tags have which quality.",
                        "properties": {
                            "good": count("good"), "uncertain": count("uncertain"), "bad": count("bad")
                        },
                        "required": ["good", "uncertain", "bad"]
                    },
                    "connection_counts": {
                        "type": "object",
                        "description": "What the connection, shared with other devices perhaps, did since the program \
                                        started: sessions, requests, timeouts, exceptions, dropped (late or foreign \
                                        answers), overruns (scans skipped because the last one was not over).",
                        "additionalProperties": { "type": "integer", "description": "How often." }
                    }
                },
                "required": ["device", "link", "state", "tags", "connection_counts"]
            } },
            "next_cursor": schema::text("There are more devices: call again with this cursor."),
            "error": schema::text("What is wrong with the call.")
        },
        "required": ["devices"]
    });
    let description = "Lists the devices of this plant with the state of their connections and how many of their tags \
                       are good, uncertain and bad. Touches no device: the answer is the last known state.";
    schema::tool(DEVICES, "List devices", description, input, output, schema::read_only())
}

pub(super) fn tags_tool() -> Tool {
    let input = json!({
        "type": "object",
        "properties": {
            "device": schema::text("Only tags of this device."),
            "filter": schema::text(
                "Only tags that match. With * ? [ or { it is a glob over the whole path (* stands for any text, also \
                 across /), such as boiler/*temp*. Otherwise a text that the path, the description or the unit \
                 contains, in upper or lower case."
            ),
            "writable": { "type": "boolean", "description": "true lists only tags that can be written at all; writes says whether the site lets it." },
            "limit": schema::limit(TAG_ROWS.0, TAG_ROWS.1),
            "cursor": schema::cursor()
        }
    });
    let number = |of: &str| json!({ "type": "number", "description": of });
    let output = json!({
        "type": "object",
        "properties": {
            "tags": { "type": "array", "description": "Ordered by device and path.", "items": {
                "type": "object",
                "properties": {
                    "tag": schema::text("Path of the tag."),
                    "description": schema::text("What it is."),
                    "type": schema::text("Data type on the device; of an array, that of its elements."),
                    "count": { "type": "integer", "description": "The tag is an array of so many elements." },
                    "labels": {
                        "type": "object",
                        "description": "Words for its numbers, by number; a word can be written in place of the number.",
                        "additionalProperties": { "type": "string", "description": "The word." }
                    },
                    "more_labels": { "type": "integer", "description": "Labels that are left out here; the tag's resource has all." },
                    "unit": schema::text("Engineering unit."),
                    "access": { "type": "string", "enum": ["read-only", "read-write"], "description": "Whether write_tag can write it." },
                    "range": { "type": "array", "items": number("A bound."), "description": "Lowest and highest value that the process can have." },
                    "min": schema::text("Lowest value that may be written."),
                    "max": schema::text("Highest value that may be written."),
                    "deadband": number("Changes up to this size are not announced."),
                    "stale_after_ms": { "type": "integer", "description": "Age at which a value becomes uncertain." }
                },
                "required": ["tag", "type", "access"]
            } },
            "writes": schema::text(
                "Whether this site lets write_tag through: off (never), confirm (only what a person confirms) or allow."
            ),
            "total": { "type": "integer", "description": "How many tags match, over all pages." },
            "next_cursor": schema::text("There are more tags: call again with the same arguments and this cursor."),
            "error": schema::text("What is wrong with the call.")
        },
        "required": ["tags"]
    });
    let description = "Lists tags (measured values and setpoints) with type, unit, range and whether they can be \
                       written, but without values: take the paths from here and give them to read_tags or write_tag. \
                       Narrow it by device, filter or writable.";
    schema::tool(TAGS, "List tags", description, input, output, schema::read_only())
}

pub(super) fn devices(store: &Store, catalogue: &Catalogue, arguments: &Arguments) -> Result<Answer, String> {
    arguments.only(&["limit", "cursor"])?;
    let limit = arguments.limit("limit", DEVICE_ROWS.0, DEVICE_ROWS.1)?;
    let after = Cursor::device(arguments.text("cursor")?).map_err(|problem| problem.to_string())?;
    let mut page = Page::new(limit);
    let mut last = None;
    for entry in devices_after(catalogue, after.as_deref()) {
        let Some(reading) = store.device(entry.id) else { continue };
        if !page.push(&DeviceRow::new(entry, &reading)) {
            return Ok(Answer::page("devices", page, [("next_cursor", last.map(Json::from))]));
        }
        last = Some(device_cursor(&entry.device.name));
    }
    Ok(Answer::page("devices", page, []))
}

pub(super) fn tags(
    catalogue: &Catalogue,
    writes: &'static str,
    arguments: &Arguments,
) -> Result<Answer, String> {
    arguments.only(&["device", "filter", "writable", "limit", "cursor"])?;
    let limit = arguments.limit("limit", TAG_ROWS.0, TAG_ROWS.1)?;
    let after = Cursor::tag(arguments.text("cursor")?).map_err(|problem| problem.to_string())?;
    let writable = arguments.flag("writable")?.unwrap_or(false);
    let filter = Filter::parse(arguments.text("filter")?)?;
    let tags = match arguments.text("device")? {
        None => catalogue.tags(),
        Some(name) if catalogue.device(name).is_some() => catalogue.tags_of(name),
        Some(name) => return Err(unknown_device(catalogue, name)),
    };
    let mut page = Page::new(limit);
    let (mut total, mut last, mut full) = (0_usize, None, false);
    for entry in tags {
        if writable && entry.tag.definition.access != Access::ReadWrite || !filter.matches(entry) {
            continue;
        }
        total += 1;
        let path = entry.tag.path.as_str();
        if full || after.as_deref().is_some_and(|after| !is_after(path, after)) {
            continue;
        }
        let row = TagRow { tag: path, definition: Definition::new(&entry.tag).in_short() };
        if page.push(&row) {
            last = Some(path);
        } else {
            full = true;
        }
    }
    let next = last.filter(|_| full).map(tag_cursor);
    let extras = [
        ("writes", Some(writes.into())),
        ("total", Some(total.into())),
        ("next_cursor", next.map(Json::from)),
    ];
    Ok(Answer::page("tags", page, extras))
}

fn unknown_device(catalogue: &Catalogue, name: &str) -> String {
    let name = name.chars().take(80).collect::<String>();
    match nearest_device(catalogue, &name) {
        Some(nearest) => format!("`device` is `{name}`: there is no such device; the nearest is `{nearest}`"),
        None => format!("`device` is `{name}`: there is no such device; call list_devices"),
    }
}

impl Filter {
    fn parse(text: Option<&str>) -> Result<Self, String> {
        match text {
            None | Some("") => Ok(Self::All),
            Some(text) if is_glob(text) => {
                let glob = glob(text).map_err(|problem| format!("`filter` is {problem}"))?;
                Ok(Self::Glob(glob.compile_matcher()))
            }
            Some(text) => Ok(Self::Text(text.to_lowercase())),
        }
    }

    fn matches(&self, entry: &TagEntry) -> bool {
        match self {
            Self::All => true,
            Self::Glob(glob) => glob.is_match(entry.tag.path.as_str()),
            Self::Text(text) => {
                let tag = &entry.tag;
                [
                    tag.path.as_str(),
                    &tag.definition.description,
                    tag.definition.unit.as_deref().unwrap_or_default(),
                ]
                .iter()
                .any(|field| field.to_lowercase().contains(text))
            }
        }
    }
}

/// Whether a text holds what no path can hold and a glob is made of.
pub(super) fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// `*` crosses `/`: a device's tags are `device/*` however deep they stand.
pub(super) fn glob(text: &str) -> Result<globset::Glob, String> {
    if text.len() > 256 {
        return Err("a glob of more than 256 bytes".to_owned());
    }
    GlobBuilder::new(text).build().map_err(|error| format!("`{text}`, which is no glob: {}", error.kind()))
}
