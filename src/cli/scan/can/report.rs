//! What was heard, for a person.

use std::time::Duration;

use super::names::Names;
use crate::{
    cli::check::{aligned, count, dash, header, push},
    codec::can::{Id, j1939::Header},
    drivers::can::scan::{Heard, Seen},
    profile::dbc::Message,
};

/// So many messages that were not heard are named.
const MISSING: usize = 20;

/// Identifiers with their frames, and a summary.
pub(super) fn render(heard: &Heard, names: &Names<'_>, time: Duration) -> String {
    let mut text = String::new();
    let mut rows =
        vec![header(&["ID", "MESSAGE", "FRAMES", "PER SECOND", "INTERVAL", "LENGTH", "CHANGES", "LAST"])];
    let mut unknown = 0;
    for (id, seen) in &heard.ids {
        let message = names.of(*id);
        unknown += usize::from(message.is_none());
        rows.push(vec![
            id.to_string(),
            dash(&message.map_or_else(|| group(*id), |message| named(*id, message, seen))),
            seen.frames.to_string(),
            rate(seen.frames, time),
            dash(&interval(seen)),
            length(seen),
            dash(&changes(seen)),
            if seen.remote == seen.frames { "(remote)".to_owned() } else { dash(&seen.payload.to_string()) },
        ]);
    }
    if rows.len() > 1 {
        push(&mut text, &aligned(&rows));
        push(&mut text, "\n");
    }
    let frames = usize::try_from(heard.frames).unwrap_or(usize::MAX);
    let seconds = time.as_secs_f64().max(0.001);
    let ids = count(heard.ids.len(), "identifier");
    push(
        &mut text,
        &format!(
            "{} of {ids} in {seconds:.0} s, {} a second",
            count(frames, "frame"),
            rate(heard.frames, time)
        ),
    );
    if !names.is_empty() {
        push(&mut text, &format!("; {} in no DBC file", count(unknown, "identifier")));
    }
    push(&mut text, "\n");
    let missing = names.missing(|message| heard.ids.keys().any(|id| is(*id, message)));
    if !missing.is_empty() {
        let named = missing.iter().take(MISSING).map(|message| format!("{} ({})", message.name, message.id));
        let named = named.collect::<Vec<_>>().join(", ");
        let more = missing.len().saturating_sub(MISSING);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        push(&mut text, &format!("not heard: {named}{more}\n"));
    }
    for (error, times) in &heard.errors {
        push(&mut text, &format!("the bus tells of itself: {error}, {times} times\n"));
    }
    for (number, what) in [
        (heard.lost, "lost before they could be read"),
        (heard.garbled, "spoilt, or no frames at all"),
        (heard.left_out, "of further identifiers (more --ids keep them)"),
    ] {
        if number > 0 {
            push(
                &mut text,
                &format!("{} {what}\n", count(usize::try_from(number).unwrap_or(usize::MAX), "frame")),
            );
        }
    }
    text
}

fn is(id: Id, message: &Message) -> bool {
    let group = |id| Header::of(id).map(|header| header.pgn);
    id == message.id || message.is_j1939 && group(id) == group(message.id)
}

fn named(id: Id, message: &Message, seen: &Seen) -> String {
    let source = Header::of(id).filter(|_| message.is_j1939);
    let source = source.map_or_else(String::new, |header| format!(" from {}", header.source));
    let short = if seen.length.0 < usize::from(message.length) && seen.remote < seen.frames {
        format!(" (the file says {} bytes)", message.length)
    } else {
        String::new()
    };
    format!("{}{source}{short}", message.name)
}

/// What an identifier of 29 bits would be on a J1939 bus.
fn group(id: Id) -> String {
    Header::of(id).map_or_else(String::new, |header| format!("? PGN {} from {}", header.pgn, header.source))
}

fn rate(frames: u64, time: Duration) -> String {
    let frames: f64 = u32::try_from(frames).map_or(f64::INFINITY, f64::from);
    format!("{:.1}", frames / time.as_secs_f64().max(0.001))
}

fn interval(seen: &Seen) -> String {
    let millis = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
    match (seen.interval(), seen.gap) {
        (Some(mean), Some((shortest, longest))) => {
            format!("{} ms ({} to {})", millis(mean), millis(shortest), millis(longest))
        }
        _ => String::new(),
    }
}

fn length(seen: &Seen) -> String {
    let (least, most) = seen.length;
    let fd = if seen.is_fd { " FD" } else { "" };
    if least == most { format!("{least}{fd}") } else { format!("{least} to {most}{fd}") }
}

/// The bytes that were not always the same.
fn changes(seen: &Seen) -> String {
    let bytes =
        seen.changed.iter().enumerate().filter(|(_, bits)| **bits != 0).map(|(byte, _)| byte.to_string());
    bytes.collect::<Vec<_>>().join(" ")
}
