//! What a scan found, for a person.

use crate::{
    cli::check::{aligned, count, dash, header, push},
    drivers::modbus::scan::survey::{Cap, Extent, Found, Progress, Refusal, State, Survey},
    profile::modbus::Region,
};

/// So many values of a range are shown.
const REGISTERS: usize = 4;
const BITS: usize = 8;

/// Units, readable ranges, what deserves a second look, and a summary.
#[must_use]
pub(super) fn render(survey: &Survey, address: &str) -> String {
    let mut text = String::new();
    if !survey.units.is_empty() {
        push(&mut text, &aligned(&units(survey)));
        push(&mut text, "\n");
    }
    let ranges = ranges(survey);
    if ranges.len() > 1 {
        push(&mut text, &aligned(&ranges));
        push(&mut text, "\n");
    }
    for note in notes(survey) {
        push(&mut text, &note);
        push(&mut text, "\n");
    }
    push(&mut text, &summary(survey, address));
    text
}

fn units(survey: &Survey) -> Vec<Vec<String>> {
    let mut rows = vec![header(&["UNIT", "VENDOR", "PRODUCT", "REVISION", "READABLE"])];
    rows.extend(survey.units.iter().map(|found| {
        let identity = &found.identity;
        vec![
            found.unit.to_string(),
            dash(identity.vendor().unwrap_or_default()),
            dash(identity.product().unwrap_or_default()),
            dash(identity.revision().unwrap_or_default()),
            dash(&readable(found)),
        ]
    }));
    rows
}

/// How much can be read, by table.
fn readable(found: &Found) -> String {
    let parts = found.extents.iter().filter(|extent| !extent.values.is_empty());
    let parts: Vec<String> =
        parts.map(|extent| format!("{} {}", extent.table().name(), extent.values.len())).collect();
    parts.join(", ")
}

fn ranges(survey: &Survey) -> Vec<Vec<String>> {
    let mut rows = vec![header(&["UNIT", "TABLE", "ADDRESSES", "COUNT", "VALUES"])];
    for found in &survey.units {
        for extent in &found.extents {
            rows.extend(extent.ranges().into_iter().map(|(first, last)| {
                vec![
                    found.unit.to_string(),
                    extent.table().name().to_owned(),
                    span(first, last),
                    (u32::from(last - first) + 1).to_string(),
                    values(extent, first, last),
                ]
            }));
        }
    }
    rows
}

/// The first values of a range; registers in hexadecimal.
fn values(extent: &Extent, first: u16, last: u16) -> String {
    let most = if extent.table().is_bits() { BITS } else { REGISTERS };
    let mut values = extent.values.range(first..=last).map(|(_, value)| value);
    let shown = values.by_ref().take(most);
    let mut words: Vec<String> = if extent.table().is_bits() {
        shown.map(u16::to_string).collect()
    } else {
        shown.map(|value| format!("{value:04X}")).collect()
    };
    if values.next().is_some() {
        words.push("…".to_owned());
    }
    words.join(" ")
}

fn span(first: u16, last: u16) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

fn notes(survey: &Survey) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(crowd) = survey.crowd {
        let unit = crowd.unit;
        let how = if crowd.has_data { "alike" } else { "with the same exception" };
        notes.push(format!(
            "{} unit ids answer {how}, as those of one device with a network socket of its own do: unit {unit} stands for \
             all of them (--units looks at others)",
            crowd.count
        ));
    }
    let called = survey.units.iter().filter(|found| found.state == Progress::Called);
    let called: Vec<String> = called.map(|found| found.unit.to_string()).collect();
    if !called.is_empty() {
        notes.push(format!("not looked at: unit {}", called.join(", ")));
    }
    for found in &survey.units {
        let mut told = Vec::new();
        if found.state == Progress::Gone {
            told.push("stopped answering before all of it was looked at".to_owned());
        }
        told.extend(found.extents.iter().flat_map(extent_notes));
        notes.extend(told.into_iter().map(|note| format!("unit {}: {note}", found.unit)));
    }
    notes
}

fn extent_notes(extent: &Extent) -> Vec<String> {
    let Region { table, first, last } = extent.region;
    let cells = if table.is_bits() { "bits" } else { "registers" };
    let mut notes = Vec::new();
    match extent.state {
        State::Unsupported => notes.push("none (exception 0x01, illegal function)".to_owned()),
        State::Open(from) => notes.push(format!("{} were not looked at", span(from, last))),
        State::Done if extent.values.is_empty() => {
            notes.push(format!("nothing can be read at {}{}", span(first, last), refusals(extent)));
        }
        State::Done => {
            let missing = usize::from(last - first) + 1 - extent.values.len();
            if missing > 0 {
                let all = span(first, last);
                notes.push(format!("{missing} addresses of {all} cannot be read{}", refusals(extent)));
            }
        }
    }
    if extent.is_blank() {
        notes.push("every address answers with zero: the device may look at no address".to_owned());
    }
    if let Some(cap) = extent.cap.filter(|_| !extent.values.is_empty()) {
        let Cap { answered, refused } = cap;
        let about = if cap.is_exact() { String::new() } else { format!(" (and refuses {refused})") };
        notes.push(format!("answers at most {answered} {cells} at once{about}"));
    }
    if extent.in_pairs && !extent.values.is_empty() {
        notes.push(
            "registers are read in pairs only, from even addresses: 32-bit values, most likely".to_owned(),
        );
    }
    for seam in &extent.seams {
        notes.push(format!("{} can be read in parts only", span(seam.first, seam.last)));
    }
    notes.into_iter().map(|note| format!("{}: {note}", table.name())).collect()
}

/// Why reads were refused, most often first.
fn refusals(extent: &Extent) -> String {
    let mut kinds: Vec<_> = extent.refusals.iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let kinds: Vec<String> = kinds
        .into_iter()
        .map(|(why, count)| match why {
            Refusal::Exception(code) => format!("exception 0x{code:02X} × {count}"),
            Refusal::Unusable => format!("no proper answer × {count}"),
            Refusal::Silent => format!("no answer × {count}"),
        })
        .collect();
    if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) }
}

fn summary(survey: &Survey, address: &str) -> String {
    let counts = survey.counts;
    let mut text = if survey.units.is_empty() {
        format!("no unit answers at {address}")
    } else {
        format!("{} at {address}", count(survey.units.len(), "unit"))
    };
    let requests = usize::try_from(counts.requests).unwrap_or(usize::MAX);
    push(&mut text, &format!("; {}, all of them reads", count(requests, "request")));
    push(
        &mut text,
        &format!(": {} not answered, {} answered with an exception", counts.silent, counts.exceptions),
    );
    if counts.late > 0 {
        push(
            &mut text,
            &format!("\n{} came late or unasked: a longer --timeout-ms may find more", frames(counts.late)),
        );
    }
    if let Some(hint) = &survey.hint {
        push(&mut text, &format!("\n{hint}"));
    }
    if let Some(why) = &survey.given_up {
        push(&mut text, &format!("\ngiven up, since no request is answered: {why}"));
    } else if !survey.is_complete {
        push(&mut text, "\nnot all was looked at");
    }
    push(&mut text, "\n");
    text
}

fn frames(number: u64) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX), "frame")
}

#[cfg(test)]
#[path = "report_tests.rs"]
pub(crate) mod tests;
