//! `read_tags`: values with quality and age, from the store's snapshot.

use std::collections::BTreeSet;

use globset::GlobSetBuilder;
use rmcp::model::Tool;
use serde_json::{Value as Json, json};

use super::{Answer, arguments::Arguments, list, schema};
use crate::{
    mcp::{
        json::TagRow,
        page::{Cursor, Page, order, tag_cursor, tags_after},
        resource::unknown_tag,
    },
    store::{Catalogue, Store, TagEntry},
};

pub(super) const NAME: &str = "read_tags";

const ROWS: (usize, usize) = (100, 1000);
/// How many paths and globs one call may have.
const PATTERNS: usize = 100;
/// How many unknown paths are told which tag is nearest.
const NEAREST: usize = 3;
/// Text bytes of the list of errors.
const ERROR_BYTES: usize = 1500;

pub(super) fn tool() -> Tool {
    let input = json!({
        "type": "object",
        "properties": {
            "tags": {
                "type": "array",
                "items": { "type": "string", "description": "A path such as boiler/temperature, or a glob such as boiler/*." },
                "description": format!(
                    "1 to {PATTERNS} paths or globs. In a glob * stands for any text, also across /, and ? for one character."
                )
            },
            "limit": schema::limit(ROWS.0, ROWS.1),
            "cursor": schema::cursor()
        },
        "required": ["tags"]
    });
    let output = json!({
        "type": "object",
        "properties": {
            "tags": {
                "type": "array",
                "description": "Readings, each tag once, ordered by device and path.",
                "items": schema::reading()
            },
            "errors": {
                "type": "array",
                "description": "Paths and globs that nothing was found for; the others were read.",
                "items": {
                    "type": "object",
                    "properties": {
                        "tag": schema::text("What was asked for."),
                        "message": schema::text("What is wrong, with the nearest path that there is.")
                    },
                    "required": ["tag", "message"]
                }
            },
            "next_cursor": schema::text("There are more tags: call again with the same tags and this cursor."),
            "error": schema::text("What is wrong with the call.")
        },
        "required": ["tags"]
    });
    let description = "Reads tags: value, unit, quality with its reason, time and age. Answers at once from the last \
                       known values and touches no device. Use a value only where quality is good; otherwise reason \
                       and detail say what is wrong. A path that does not exist is listed in errors with the nearest \
                       one; the rest is still read.";
    schema::tool(NAME, "Read tags", description, input, output, schema::read_only())
}

pub(super) fn call(store: &Store, catalogue: &Catalogue, arguments: &Arguments) -> Result<Answer, String> {
    arguments.only(&["tags", "limit", "cursor"])?;
    let patterns = arguments.texts("tags", PATTERNS)?;
    let limit = arguments.limit("limit", ROWS.0, ROWS.1)?;
    let after = Cursor::tag(arguments.text("cursor")?).map_err(|problem| problem.to_string())?;
    let Selection { tags, errors } = select(catalogue, &patterns, after.as_deref())?;
    let mut page = Page::new(limit);
    let mut last = None;
    let mut next = None;
    for entry in tags {
        let Some(reading) = store.read(entry.id) else { continue };
        if !page.push(&TagRow::new(entry, &reading)) {
            next = last;
            break;
        }
        last = Some(entry.tag.path.as_str());
    }
    let failed = page.rows.is_empty() && !errors.is_empty();
    let errors = (!errors.is_empty()).then_some(Json::Array(errors));
    let next = next.map(|path| Json::from(tag_cursor(path)));
    let answer = Answer::page("tags", page, [("errors", errors), ("next_cursor", next)]);
    Ok(Answer { failed, ..answer })
}

/// The tags that are meant, in the catalogue's order, and what was not found.
struct Selection<'a> {
    tags: Vec<&'a TagEntry>,
    errors: Vec<Json>,
}

fn select<'a>(
    catalogue: &'a Catalogue,
    patterns: &[&str],
    after: Option<&str>,
) -> Result<Selection<'a>, String> {
    let (globs, paths) = patterns.iter().copied().partition::<Vec<_>, _>(|text| list::is_glob(text));
    let mut missing = Vec::new();
    let mut wanted = BTreeSet::new();
    for path in paths {
        match catalogue.tag(path) {
            Some(entry) => drop(wanted.insert(order(entry.tag.path.as_str()))),
            None => missing.push(Missing::Path(path)),
        }
    }
    if !globs.is_empty() {
        let mut set = GlobSetBuilder::new();
        for text in &globs {
            set.add(list::glob(text).map_err(|problem| format!("`tags` has {problem}"))?);
        }
        let set = set.build().map_err(|error| format!("`tags` has globs that are too large: {error}"))?;
        let mut found = vec![false; globs.len()];
        let mut matches = Vec::new();
        // Later pages know from the first one which globs find nothing.
        for entry in tags_after(catalogue, after) {
            set.matches_into(entry.tag.path.as_str(), &mut matches);
            for &index in &matches {
                found.get_mut(index).into_iter().for_each(|found| *found = true);
            }
            if !matches.is_empty() {
                wanted.insert(order(entry.tag.path.as_str()));
            }
        }
        let nothing = globs.iter().zip(found).filter(|(_, found)| !found);
        missing.extend(nothing.map(|(glob, _)| Missing::Glob(glob)));
    }
    let after = after.map(order);
    let tags = wanted.into_iter().filter(|path| after.is_none_or(|after| *path > after));
    let tags = tags.filter_map(|(_, path)| catalogue.tag(path)).collect();
    let errors = if after.is_none() { errors(catalogue, &missing) } else { Vec::new() };
    Ok(Selection { tags, errors })
}

/// What nothing was found for.
enum Missing<'a> {
    Path(&'a str),
    Glob(&'a str),
}

/// The errors that fit, and how many there are beside them.
fn errors(catalogue: &Catalogue, missing: &[Missing<'_>]) -> Vec<Json> {
    let mut rows = Vec::new();
    let mut room = ERROR_BYTES;
    for (index, missing_one) in missing.iter().enumerate() {
        let (tag, message) = match *missing_one {
            Missing::Glob(glob) => (glob, "no tag matches".to_owned()),
            // Looking for the nearest goes through all tags.
            Missing::Path(path) if index < NEAREST => (path, unknown_tag(catalogue, path)),
            Missing::Path(path) => (path, "no such tag".to_owned()),
        };
        let row = json!({ "tag": tag.chars().take(80).collect::<String>(), "message": message });
        let size = row.to_string().len();
        if size > room {
            let left = missing.len() - index;
            rows.push(json!({ "tag": "…", "message": format!("{left} more were not found") }));
            break;
        }
        room -= size;
        rows.push(row);
    }
    rows
}
