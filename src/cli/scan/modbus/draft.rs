//! What a scan found, as drafts of profiles: one a unit.

use crate::{
    cli::scan::file::quoted,
    drivers::modbus::scan::survey::{Extent, Found, Survey},
};

/// So many tags a draft has; what more can be read stands in comments.
const TAGS: usize = 200;

/// A draft of each unit of which something can be read, by its id.
pub(super) fn all(survey: &Survey) -> Vec<(String, String)> {
    let is_full = |found: &&Found| found.extents.iter().any(|extent| !extent.values.is_empty());
    survey.units.iter().filter(is_full).map(|found| (found.unit.to_string(), render(found))).collect()
}

/// One tag.
struct Line {
    name: String,
    register: String,
    kind: &'static str,
    held: String,
}

/// The draft of one unit.
fn render(found: &Found) -> String {
    let identity = &found.identity;
    let model = identity.product().map_or_else(|| format!("unknown (unit {})", found.unit), str::to_owned);
    let revision = identity.revision().map(|revision| format!("; revision {revision}")).unwrap_or_default();
    let description =
        format!("Draft of a scan: raw values, of which nobody has said what they mean{revision}");
    let mut lines = vec![
        "# A draft by `fieldbridge scan modbus`. Name what is known, give it type, scale and unit, and delete the rest.".to_owned(),
        "protocol = \"modbus\"".to_owned(),
        format!("vendor = {}", quoted(identity.vendor().unwrap_or("unknown"))),
        format!("model = {}", quoted(&model)),
        format!("description = {}", quoted(&description)),
    ];
    lines.extend(reads(found));
    let mut left = TAGS;
    for extent in &found.extents {
        for seam in &extent.seams {
            let (table, first, last) = (seam.table.name(), seam.first, seam.last);
            lines.push(format!("# {table} {first} to {last} can be read in parts only: see `reads.groups`."));
        }
    }
    let mut tags = Vec::new();
    let mut rest = Vec::new();
    for extent in &found.extents {
        let all = tags_of(extent);
        for (first, last) in extent.ranges() {
            let inside = all.iter().filter(|(address, _)| (first..=last).contains(address));
            let inside: Vec<_> = inside.collect();
            let (now, later) = inside.split_at(left.min(inside.len()));
            left -= now.len();
            tags.extend(now.iter().map(|(_, line)| tag(line)));
            if let Some((from, _)) = later.first() {
                rest.push(format!("#   {} {from} to {last}", extent.table().name()));
            }
        }
    }
    if !rest.is_empty() {
        lines.push(format!("# These can be read as well; a draft has {TAGS} tags at most:"));
        lines.extend(rest);
    }
    lines.extend(tags);
    lines.join("\n") + "\n"
}

/// What one read may span.
fn reads(found: &Found) -> Option<String> {
    let mut keys = Vec::new();
    for (is_bits, name) in [(false, "max_registers"), (true, "max_bits")] {
        let caps = found.extents.iter().filter(|extent| extent.table().is_bits() == is_bits);
        if let Some(most) =
            caps.filter_map(|extent| Some(extent.cap?.answered)).min().filter(|most| *most > 0)
        {
            keys.push(format!("{name} = {most}"));
        }
    }
    if found.extents.iter().any(|extent| extent.ranges().len() > 1) {
        // Between the ranges are addresses that cannot be read.
        keys.push("max_gap = 0".to_owned());
    }
    (!keys.is_empty()).then(|| format!("reads = {{ {} }}", keys.join(", ")))
}

/// A tag for each value that can be read alone.
fn tags_of(extent: &Extent) -> Vec<(u16, Line)> {
    let table = extent.table().name();
    let line = |address: u16, kind, held| {
        let name = format!("{table}_{address:04}");
        let register = format!("{{ table = \"{table}\", address = {address} }}");
        (address, Line { name, register, kind, held })
    };
    let mut lines = Vec::new();
    for (address, value) in &extent.values {
        if extent.table().is_bits() {
            lines.push(line(*address, "bool", value.to_string()));
        } else if !extent.in_pairs {
            lines.push(line(*address, "uint16", format!("0x{value:04X}")));
        } else if let Some(low) = extent.values.get(&(address | 1)).filter(|_| address % 2 == 0) {
            lines.push(line(*address, "uint32", format!("0x{value:04X}{low:04X}")));
        }
    }
    lines
}

fn tag(Line { name, register, kind, held }: &Line) -> String {
    format!(
        "\n[[tags]]\nname = \"{name}\"\ndescription = \"Raw; held {held} when it was found\"\nregister = {register}\n\
         type = \"{kind}\""
    )
}

#[cfg(test)]
#[path = "draft_tests.rs"]
mod tests;
