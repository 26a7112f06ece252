//! What was heard, as a draft of a profile.

use std::{collections::BTreeMap, path::Path};

use super::names::Names;
use crate::{
    cli::scan::file::quoted,
    codec::can::Id,
    drivers::can::scan::{Heard, Seen},
    profile::signal::segment,
};

/// So many tags a draft has.
const TAGS: usize = 200;

/// A draft of what was heard: signals of the DBC file where there is one, else the bytes that change.
pub(super) fn render(heard: &Heard, names: &Names<'_>) -> String {
    let mut lines = vec![
        "# A draft by `fieldbridge scan can`. Name what is known, give it unit and range, and delete the rest.".to_owned(),
        "protocol = \"can\"".to_owned(),
        "vendor = \"unknown\"".to_owned(),
        "model = \"unknown\"".to_owned(),
        "description = \"Draft of a scan: nobody has said what its values mean\"".to_owned(),
    ];
    let mut files: BTreeMap<&Path, usize> = BTreeMap::new();
    for id in heard.ids.keys() {
        if let Some((file, _)) = names.file(*id) {
            *files.entry(file).or_default() += 1;
        }
    }
    let main = files.iter().max_by_key(|(_, frames)| **frames).map(|(file, _)| *file);
    if let Some(file) = main {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        lines.push("# The DBC file belongs beside this file.".to_owned());
        lines.push(format!("dbc = {}", quoted(&name)));
    }
    for file in files.keys().filter(|file| Some(**file) != main) {
        lines.push(format!(
            "# A profile has one DBC file: messages of {} are another profile's.",
            file.display()
        ));
    }
    let mut tags = Vec::new();
    let mut messages = Vec::new();
    let mut left_out = 0;
    for (id, seen) in &heard.ids {
        let own = match names.file(*id) {
            Some((file, message)) if Some(file) == main => {
                let signals = message.signals.iter();
                signals.map(|signal| of_signal(&message.name, &signal.name)).collect::<Vec<_>>()
            }
            Some(_) => continue,
            None => {
                messages.extend(timed(*id, seen));
                of_bytes(*id, seen)
            }
        };
        for tag in own {
            if tags.len() == TAGS { left_out += 1 } else { tags.push(tag) }
        }
    }
    if left_out > 0 {
        lines.push(format!("# {left_out} more values were found; a draft has {TAGS} tags at most."));
    }
    lines.extend(messages);
    lines.extend(tags);
    lines.join("\n") + "\n"
}

fn of_signal(message: &str, signal: &str) -> String {
    format!(
        "\n[[tags]]\nname = \"{}/{}\"\nsignal = {}",
        segment(message),
        segment(signal),
        quoted(&format!("{message}.{signal}"))
    )
}

/// How often frames come that no file describes.
fn timed(id: Id, seen: &Seen) -> Option<String> {
    let interval = seen.interval()?.as_millis().max(1);
    Some(format!("\n[[messages]]\nframe = \"{id}\"\ninterval_ms = {interval}"))
}

fn of_bytes(id: Id, seen: &Seen) -> Vec<String> {
    let changed = seen.changed.iter().enumerate().filter(|(_, bits)| **bits != 0);
    let tag = |(byte, _): (usize, &u8)| {
        format!(
            "\n[[tags]]\nname = \"id-{id}/byte-{byte}\"\ndescription = \"Raw; {} when it was heard\"\nframe = \"{id}\"\n\
             bits = {{ start = {} }}\ntype = \"uint8\"",
            seen.payload
                .bytes()
                .get(byte)
                .map_or_else(|| "not there".to_owned(), |byte| format!("0x{byte:02X}")),
            byte * 8,
        )
    };
    changed.map(tag).collect()
}
