//! What was heard, for a person.

use std::time::Duration;

use super::{
    Readers,
    device::Devices,
    field::{Content, Field},
};
use crate::{
    cli::check::{aligned, count, dash, header, push},
    drivers::mqtt::scan::Heard,
};

/// So many values of a payload are shown, of so many characters each.
const VALUES: usize = 3;
const WIDTH: usize = 40;

/// Topics with their payloads, and a summary; with what the site reads of them, where there is a site.
pub(super) fn render(heard: &Heard, devices: &Devices, site: Option<&Readers>, time: Duration) -> String {
    let mut text = String::new();
    let is_named = devices.0.iter().any(|device| !device.captures.is_empty());
    let mut rows = vec![header(&["TOPIC", "MESSAGES", "RETAINED", "VALUES"])];
    let mut unread = 0;
    for device in &devices.0 {
        for part in &device.topics {
            let Some(said) = heard.topics.get(&part.topic) else { continue };
            let mut row = vec![
                shown(&part.topic, usize::MAX),
                said.messages.to_string(),
                said.retained.to_string(),
                values(&part.content),
            ];
            if let Some(site) = site {
                let mut readers =
                    site.find(&part.topic).into_iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>();
                readers.sort_unstable();
                readers.dedup();
                unread += usize::from(readers.is_empty());
                row.insert(1, dash(&readers.join(", ")));
            }
            if is_named {
                row.insert(0, dash(&shown(&device.name(), usize::MAX)));
            }
            rows.push(row);
        }
    }
    if let Some(first) = rows.first_mut() {
        if site.is_some() {
            first.insert(1, "READ BY".to_owned());
        }
        if is_named {
            first.insert(0, "DEVICE".to_owned());
        }
    }
    if rows.len() > 1 {
        push(&mut text, &aligned(&rows));
        push(&mut text, "\n");
    }
    let named = devices.0.iter().filter(|device| !device.captures.is_empty()).count();
    let of = if is_named { format!(" of {}", count(named, "device")) } else { String::new() };
    let messages = usize::try_from(heard.messages).unwrap_or(usize::MAX);
    let topics = count(heard.topics.len(), "topic");
    push(
        &mut text,
        &format!("{} on {topics}{of} in {} s", count(messages, "message"), time.as_secs_f64().round()),
    );
    if site.is_some() {
        push(&mut text, &format!("; {} read by no device of the site", count(unread, "topic")));
    }
    if heard.left_out > 0 {
        let left_out = usize::try_from(heard.left_out).unwrap_or(usize::MAX);
        push(
            &mut text,
            &format!("; {} on further topics (more --topics keep them)", count(left_out, "message")),
        );
    }
    push(&mut text, "\n");
    text
}

fn values(content: &Content) -> String {
    match content {
        Content::Binary(size) => format!("{} that are no text", count(*size, "byte")),
        Content::Text(field) => shown(&field.shown, WIDTH),
        Content::Json(fields) if fields.is_empty() => "empty JSON".to_owned(),
        Content::Json(fields) => {
            let mut shown = fields.iter().take(VALUES).map(value).collect::<Vec<_>>().join("  ");
            if fields.len() > VALUES {
                push(&mut shown, &format!("  and {} more", fields.len() - VALUES));
            }
            shown
        }
    }
}

fn value(field: &Field) -> String {
    if field.path.is_whole() {
        return shown(&field.shown, WIDTH);
    }
    format!("{}={}", shown(&field.path.to_string(), WIDTH), shown(&field.shown, WIDTH))
}

/// A text of a stranger: nothing in it moves the cursor, and it has an end.
pub(super) fn shown(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for (number, c) in text.chars().enumerate() {
        if number == most {
            shown.push('…');
            break;
        }
        if c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c) || ('\u{2066}'..='\u{2069}').contains(&c)
        {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
#[path = "report_tests.rs"]
pub(super) mod tests;
