//! Tags and devices as resources: listed, read, never touching a wire.

use rmcp::{
    ErrorData,
    model::{
        ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource, ResourceContents,
        ResourceTemplate,
    },
};
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::{
    json::{Definition, DeviceRow, TagRow},
    page::{Cursor, Page, device_cursor, devices_after, tag_cursor, tags_after},
    uri,
};
use crate::store::{Catalogue, DeviceEntry, Store, TagEntry, Target};

const MIME: &str = "application/json";
/// Resources of one page of the list, and its bytes.
const LISTED: (usize, usize) = (250, 128 * 1024);
/// Readings in a device's resource.
const FIRST_TAGS: usize = 50;
/// Longest name that is compared with those that there are.
const COMPARED_BYTES: usize = 256;
/// Least likeness of a name that is worth naming.
const ALIKE: f64 = 0.8;

#[derive(Debug, Serialize)]
struct TagJson<'a> {
    #[serde(flatten)]
    reading: TagRow<'a>,
    #[serde(flatten)]
    definition: Definition<'a>,
}

/// One page of all resources: the devices first, then the tags.
pub(super) fn list(catalogue: &Catalogue, cursor: Option<&str>) -> Result<ListResourcesResult, ErrorData> {
    let cursor = cursor.map(Cursor::parse).transpose();
    let cursor = cursor.map_err(|problem| ErrorData::invalid_params(problem.to_string(), None))?;
    let (devices, tags) = match &cursor {
        None => (catalogue.devices(), catalogue.tags()),
        Some(Cursor::Device(name)) => (devices_after(catalogue, Some(name)), catalogue.tags()),
        Some(Cursor::Tag(path)) => (&[][..], tags_after(catalogue, Some(path))),
    };
    let devices =
        devices.iter().map(|entry| (device_resource(entry), Target::Device(entry.device.name.clone())));
    let tags = tags.iter().map(|entry| (tag_resource(entry), Target::Tag(entry.tag.path.to_string())));
    let (most, mut room) = LISTED;
    let mut resources = Vec::new();
    let mut last = None;
    for (resource, target) in devices.chain(tags) {
        let size = serde_json::to_string(&resource).map_or(0, |text| text.len());
        if resources.len() >= most || size > room && !resources.is_empty() {
            let mut page = ListResourcesResult::with_all_items(resources);
            page.next_cursor = last.map(|target| match target {
                Target::Tag(path) => tag_cursor(&path),
                Target::Device(name) => device_cursor(&name),
            });
            return Ok(page);
        }
        room = room.saturating_sub(size);
        resources.push(resource);
        last = Some(target);
    }
    Ok(ListResourcesResult::with_all_items(resources))
}

pub(super) fn templates() -> ListResourceTemplatesResult {
    let template = |uri: &str, name: &str, title: &str, description: &str| {
        ResourceTemplate::new(uri, name).with_title(title).with_description(description).with_mime_type(MIME)
    };
    ListResourceTemplatesResult::with_all_items(vec![
        template(
            uri::DEVICE_TEMPLATE,
            "device",
            "Device",
            "States of a device and its connection, its tags counted by quality, and the first of them with values",
        ),
        template(
            uri::TAG_TEMPLATE,
            "tag",
            "Tag",
            "Present value of one tag with quality and age, and what the tag is",
        ),
    ])
}

/// What `uri` names, with the store's present knowledge of it.
pub(super) fn read(store: &Store, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let catalogue = store.catalogue();
    let not_found = || not_found(&catalogue, uri);
    let json = match uri::parse(uri).ok_or_else(not_found)? {
        Target::Tag(path) => {
            let entry = catalogue.tag(&path).ok_or_else(not_found)?;
            let reading = store.read(entry.id).ok_or_else(not_found)?;
            let definition = Definition::new(&entry.tag).without_unit();
            text(&TagJson { reading: TagRow::new(entry, &reading), definition })?
        }
        Target::Device(name) => {
            let entry = catalogue.device(&name).ok_or_else(not_found)?;
            let reading = store.device(entry.id).ok_or_else(not_found)?;
            device_json(store, &catalogue, &name, &DeviceRow::new(entry, &reading))?
        }
    };
    Ok(ReadResourceResult::new(vec![ResourceContents::text(json, uri).with_mime_type(MIME)]))
}

/// That there is no such resource, and which is the nearest.
pub(super) fn not_found(catalogue: &Catalogue, uri: &str) -> ErrorData {
    let nearest = match uri::parse(uri) {
        Some(Target::Tag(path)) => catalogue.nearest(&path).map(uri::tag),
        Some(Target::Device(name)) => nearest_device(catalogue, &name).map(uri::device),
        None => None,
    };
    let uri = uri.chars().take(200).collect::<String>();
    let data = json!({ "uri": uri });
    let message = match nearest {
        Some(nearest) => format!("no resource `{uri}`; the nearest is `{nearest}`"),
        None => format!("no resource `{uri}`: there are {} and {}", uri::TAG_TEMPLATE, uri::DEVICE_TEMPLATE),
    };
    ErrorData::resource_not_found(message, Some(data))
}

/// That there is no such tag, and which is the nearest.
pub(super) fn unknown_tag(catalogue: &Catalogue, path: &str) -> String {
    match catalogue.nearest(path) {
        Some(nearest) => format!("no such tag; the nearest is {nearest}"),
        None => "no such tag; list_tags shows which there are".to_owned(),
    }
}

/// The device whose name is most like `name`, if one is like it at all.
pub(super) fn nearest_device<'a>(catalogue: &'a Catalogue, name: &str) -> Option<&'a str> {
    if name.len() > COMPARED_BYTES {
        return None;
    }
    let scored = catalogue.devices().iter().map(|entry| {
        let candidate = entry.device.name.as_str();
        (strsim::jaro_winkler(name, candidate), candidate)
    });
    scored.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(score, _)| *score > ALIKE).map(|(_, name)| name)
}

fn device_json(
    store: &Store,
    catalogue: &Catalogue,
    name: &str,
    row: &DeviceRow<'_>,
) -> Result<String, ErrorData> {
    let mut page = Page::new(FIRST_TAGS);
    let mut last = None;
    let mut next = None;
    for entry in catalogue.tags_of(name) {
        let Some(reading) = store.read(entry.id) else { continue };
        if !page.push(&TagRow::new(entry, &reading)) {
            next = last;
            break;
        }
        last = Some(entry.tag.path.as_str());
    }
    let row = text(row)?;
    let states = row.strip_suffix('}').unwrap_or(&row);
    let mut json = format!("{states},\"first_tags\":{}", page.text());
    if let Some(path) = next {
        let arguments: Json = json!({ "tags": [format!("{name}/*")], "cursor": tag_cursor(path) });
        json.extend([",\"next\":{\"tool\":\"read_tags\",\"arguments\":", &arguments.to_string(), "}"]);
    }
    json.push('}');
    Ok(json)
}

fn device_resource(entry: &DeviceEntry) -> Resource {
    let device = &entry.device;
    let resource = Resource::new(uri::device(&device.name), device.name.clone()).with_mime_type(MIME);
    describe(resource, &device.description)
}

fn tag_resource(entry: &TagEntry) -> Resource {
    let path = entry.tag.path.as_str();
    describe(Resource::new(uri::tag(path), path).with_mime_type(MIME), &entry.tag.definition.description)
}

fn describe(resource: Resource, description: &str) -> Resource {
    if description.is_empty() { resource } else { resource.with_description(description) }
}

fn text(json: &impl Serialize) -> Result<String, ErrorData> {
    serde_json::to_string(json).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}
