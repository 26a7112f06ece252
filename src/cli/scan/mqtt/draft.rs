//! What was heard, as drafts of profiles: one a kind of device.

use std::collections::HashSet;

use super::{
    device::{Device, Devices, Part},
    field::{Content, Field, Shape},
    report::shown,
};
use crate::{cli::scan::file::quoted, codec::payload::Step};

/// So many tags a draft has.
const TAGS: usize = 200;
/// So many devices of a kind are listed.
const DEVICES: usize = 100;
/// Longest segment of a tag's name.
const SEGMENT: usize = 64;

/// A draft for each kind of device, by a device of it: devices whose topics hold the same are of one kind.
pub(super) fn all(devices: &Devices) -> Vec<(String, String)> {
    let mut kinds: Vec<(Vec<String>, Vec<&Device>)> = Vec::new();
    for device in &devices.0 {
        let own = signature(device);
        match kinds.iter_mut().find(|(signature, _)| *signature == own) {
            Some((_, members)) => members.push(device),
            None => kinds.push((own, vec![device])),
        }
    }
    let mut taken = HashSet::new();
    let drafts = kinds.iter().filter_map(|(_, members)| {
        let first = members.first()?;
        let name = unused(&segment(&first.name()), &mut taken);
        Some((name, render(first, members)))
    });
    drafts.collect()
}

/// Topics, paths and kinds of values, without the values.
fn signature(device: &Device) -> Vec<String> {
    let mut lines = Vec::new();
    for part in &device.topics {
        let topic = part.template.as_deref().unwrap_or(&part.topic);
        lines.push(topic.to_owned());
        lines.extend(part.content.fields().iter().map(|field| format!("{} {:?}", field.path, field.kind)));
    }
    lines
}

fn render(device: &Device, members: &[&Device]) -> String {
    let mut lines = vec![
        "# A draft by `fieldbridge scan mqtt`. Name what is known, give it unit and range, and delete the rest.".to_owned(),
    ];
    if !device.captures.is_empty() {
        lines.push("# Devices of this kind, as a site has them:".to_owned());
        for member in members.iter().take(DEVICES) {
            let pairs = member.captures.iter().map(|(name, text)| format!("{name} = {}", quoted(text)));
            lines.push(format!("#   captures = {{ {} }}", pairs.collect::<Vec<_>>().join(", ")));
        }
        if members.len() > DEVICES {
            lines.push(format!("#   and {} more", members.len() - DEVICES));
        }
    }
    lines.extend([
        "protocol = \"mqtt\"".to_owned(),
        "vendor = \"unknown\"".to_owned(),
        "model = \"unknown\"".to_owned(),
        "description = \"Draft of a scan: nobody has said what its values mean\"".to_owned(),
    ]);
    let signs = device.topics.iter().filter_map(availability).collect::<Vec<_>>();
    if !signs.is_empty() {
        lines.push(format!("availability = [{}]", signs.join(", ")));
    }
    let mut names = HashSet::new();
    let mut tags = Vec::new();
    let mut left_out = 0;
    for part in &device.topics {
        match (&part.template, &part.content) {
            (None, _) => lines.push(format!("# No profile can have the topic {}.", shown(&part.topic, 200))),
            (Some(_), Content::Binary(size)) => {
                lines.push(format!("# {} holds {size} bytes that are no text.", shown(&part.topic, 200)));
            }
            (Some(_), _) if availability(part).is_some() => {}
            (Some(topic), content) => {
                for field in content.fields() {
                    if field.kind == Shape::Null {
                        lines.push(format!(
                            "# {} held null at {}.",
                            shown(&part.topic, 200),
                            shown(&field.path.to_string(), 200)
                        ));
                    } else if tags.len() == TAGS {
                        left_out += 1;
                    } else {
                        let name = unused(&name(part, field), &mut names);
                        tags.push(tag(&name, topic, matches!(content, Content::Json(_)), field));
                    }
                }
            }
        }
    }
    if left_out > 0 {
        lines.push(format!("# {left_out} more values were found; a draft has {TAGS} tags at most."));
    }
    lines.extend(tags);
    lines.join("\n") + "\n"
}

const WORDS: [(&str, &str); 3] = [("online", "offline"), ("Online", "Offline"), ("ONLINE", "OFFLINE")];

/// A topic that holds nothing but whether the device is there.
fn availability(part: &Part) -> Option<String> {
    let [field] = part.content.fields() else { return None };
    let (online, offline) =
        WORDS.into_iter().find(|(on, off)| [*on, *off].contains(&field.shown.as_str()))?;
    let topic = quoted(part.template.as_ref()?);
    let path = match &part.content {
        Content::Json(_) if field.path.is_whole() => ", encoding = \"json\"".to_owned(),
        Content::Json(_) => format!(", path = {}", quoted(&field.path.to_string())),
        Content::Text(_) | Content::Binary(_) => String::new(),
    };
    Some(format!("{{ topic = {topic}{path}, online = [\"{online}\"], offline = [\"{offline}\"] }}"))
}

fn tag(name: &str, topic: &str, is_json: bool, field: &Field) -> String {
    let said = quoted(&format!("Raw; said {} when it was heard", shown(&field.shown, 100)));
    let mut lines = vec![
        "\n[[tags]]".to_owned(),
        format!("name = \"{name}\""),
        format!("description = {said}"),
        format!("topic = {}", quoted(topic)),
    ];
    if !field.path.is_whole() {
        lines.push(format!("path = {}", quoted(&field.path.to_string())));
    } else if is_json {
        lines.push("encoding = \"json\"".to_owned());
    }
    let kind = match field.kind {
        Shape::Number => "float64",
        Shape::Bool | Shape::Switch(..) => "bool",
        Shape::Text | Shape::Null => "text",
    };
    lines.push(format!("type = \"{kind}\""));
    if let Shape::Switch(on, off) = field.kind {
        lines.push(format!("words = {{ {on} = true, {off} = false }}"));
    }
    lines.join("\n")
}

/// A tag's name: the levels of its topic behind the device's name, and its place in the payload.
fn name(part: &Part, field: &Field) -> String {
    let levels = part.tail.iter().map(|level| segment(level));
    let steps = field.path.steps().iter().map(|step| match step {
        Step::Key(key) => segment(key),
        Step::Index(number) => number.to_string(),
    });
    let name = levels.chain(steps).collect::<Vec<_>>().join("/");
    if name.is_empty() { "value".to_owned() } else { name }
}

/// A text as a segment of a path can be.
fn segment(text: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' };
    let segment: String = text.chars().take(SEGMENT).map(allowed).collect();
    if segment.is_empty() { "_".to_owned() } else { segment }
}

/// A name that no other has.
fn unused(name: &str, taken: &mut HashSet<String>) -> String {
    let mut own = name.to_owned();
    let mut number = 2;
    while !taken.insert(own.clone()) {
        let end = format!("-{number}");
        let (path, last) = name.rsplit_once('/').map_or(("", name), |(path, last)| (path, last));
        let cut: String = last.chars().take(SEGMENT - end.len()).collect();
        own = if path.is_empty() { format!("{cut}{end}") } else { format!("{path}/{cut}{end}") };
        number += 1;
    }
    own
}

#[cfg(test)]
#[path = "draft_tests.rs"]
mod tests;
