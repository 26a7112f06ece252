//! Pages of ordered lists: cursors that name where the last page ended, and a bound on a page's bytes.
//!
//! A cursor is the name after which to go on, so it stays good when a reload adds or removes others.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value as Json;

use crate::{
    model::{TagPath, is_segment},
    store::{Catalogue, DeviceEntry, TagEntry},
};

/// Text bytes of a tool's answer after which a page ends, whatever its limit of rows.
pub(super) const ANSWER_BYTES: usize = 22 * 1024;

/// A text that is no cursor of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a cursor: give back the next_cursor of the last page, or leave it out for the first page"
)]
pub(super) struct BadCursor(pub(super) String);

/// The name that a page ended with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cursor<'a> {
    Tag(Cow<'a, str>),
    Device(Cow<'a, str>),
}

impl<'a> Cursor<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, BadCursor> {
        match text.split_once(':') {
            Some(("tag", path)) if TagPath::parse(path).is_ok() => Ok(Self::Tag(path.into())),
            Some(("device", name)) if is_segment(name) => Ok(Self::Device(name.into())),
            _ => Err(BadCursor(text.chars().take(80).collect())),
        }
    }

    /// The path that a list of tags goes on after.
    pub(super) fn tag(text: Option<&'a str>) -> Result<Option<Cow<'a, str>>, BadCursor> {
        match text.map(|text| (text, Self::parse(text))) {
            None => Ok(None),
            Some((_, Ok(Self::Tag(path)))) => Ok(Some(path)),
            Some((text, _)) => Err(BadCursor(text.chars().take(80).collect())),
        }
    }

    /// The name that a list of devices goes on after.
    pub(super) fn device(text: Option<&'a str>) -> Result<Option<Cow<'a, str>>, BadCursor> {
        match text.map(|text| (text, Self::parse(text))) {
            None => Ok(None),
            Some((_, Ok(Self::Device(name)))) => Ok(Some(name)),
            Some((text, _)) => Err(BadCursor(text.chars().take(80).collect())),
        }
    }
}

pub(super) fn tag_cursor(path: &str) -> String {
    format!("tag:{path}")
}

pub(super) fn device_cursor(name: &str) -> String {
    format!("device:{name}")
}

/// The tags after `path` in the catalogue's order: by device, then by path.
pub(super) fn tags_after<'a>(catalogue: &'a Catalogue, path: Option<&str>) -> &'a [TagEntry] {
    let Some(path) = path else { return catalogue.tags() };
    let start = catalogue.tags().partition_point(|entry| !is_after(entry.tag.path.as_str(), path));
    catalogue.tags().get(start..).unwrap_or_default()
}

/// The devices after `name` in the catalogue's order.
pub(super) fn devices_after<'a>(catalogue: &'a Catalogue, name: Option<&str>) -> &'a [DeviceEntry] {
    let Some(name) = name else { return catalogue.devices() };
    let start = catalogue.devices().partition_point(|entry| entry.device.name.as_str() <= name);
    catalogue.devices().get(start..).unwrap_or_default()
}

/// Whether `path` comes after `other` in the catalogue's order.
pub(super) fn is_after(path: &str, other: &str) -> bool {
    order(path) > order(other)
}

/// What the catalogue orders paths by.
pub(super) fn order(path: &str) -> (&str, &str) {
    (path.split_once('/').map_or(path, |(device, _)| device), path)
}

/// Rows of one page, as JSON values and as the text of a JSON array.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) rows: Vec<Json>,
    text: String,
    limit: usize,
}

impl Page {
    /// A page of at most `limit` rows.
    pub(super) fn new(limit: usize) -> Self {
        Self { rows: Vec::new(), text: String::new(), limit }
    }

    /// Adds a row; `false` where the page is full. The first row always fits.
    pub(super) fn push(&mut self, row: &impl Serialize) -> bool {
        let (Ok(json), Ok(text)) = (serde_json::to_value(row), serde_json::to_string(row)) else {
            return true;
        };
        let full = self.rows.len() >= self.limit || self.text.len() + text.len() > ANSWER_BYTES;
        if full && !self.rows.is_empty() {
            return false;
        }
        if !self.rows.is_empty() {
            self.text.push(',');
        }
        self.text.push_str(&text);
        self.rows.push(json);
        true
    }

    /// The rows as the text of a JSON array.
    pub(super) fn text(&self) -> String {
        format!("[{}]", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_back_and_others_refused() {
        assert_eq!(Cursor::parse(&tag_cursor("a/b")), Ok(Cursor::Tag("a/b".into())));
        assert_eq!(Cursor::parse(&device_cursor("plc")), Ok(Cursor::Device("plc".into())));
        for bad in ["", "x", "tag:", "tag:a", "tag:a//b", "device:a/b", "device:", "7"] {
            assert!(Cursor::parse(bad).is_err(), "{bad}");
        }
        assert!(Cursor::tag(Some("device:plc")).is_err());
        assert!(Cursor::device(Some("tag:a/b")).is_err());
    }

    #[test]
    fn a_page_ends_at_its_limit_and_at_its_size() {
        let mut page = Page::new(2);
        assert!(page.push(&1) && page.push(&2) && !page.push(&3));
        assert_eq!(page.text(), "[1,2]");
        let mut page = Page::new(usize::MAX);
        let row = "x".repeat(ANSWER_BYTES / 2);
        assert!(page.push(&row) && !page.push(&row));
        let mut page = Page::new(1);
        assert!(page.push(&"x".repeat(2 * ANSWER_BYTES)), "one row always fits");
    }

    #[test]
    fn paths_are_ordered_as_the_catalogue_orders_them() {
        assert!(is_after("a-b/x", "a/z"));
        assert!(is_after("a/z", "a/b"));
        assert!(!is_after("a/b", "a/b"));
    }
}
