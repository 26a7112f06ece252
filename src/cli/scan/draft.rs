//! What a scan found, as drafts of profiles: one file a unit, never over a file that is there.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    path::{Path, PathBuf},
};

use toml::Value;

use crate::drivers::modbus::scan::survey::{Extent, Found, Survey};

/// So many tags a draft has; what more can be read stands in comments.
const TAGS: usize = 200;

/// Where the drafts go.
#[derive(Debug)]
pub(super) struct Drafts(PathBuf);

/// Why a draft cannot be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum DraftError {
    #[error("{} is there already and is not overwritten: allowed is the name of a new file", .0.display())]
    Exists(PathBuf),
    #[error("{} cannot be written: there is no folder {}", .0.display(), .1.display())]
    Folder(PathBuf, PathBuf),
    #[error("{} names no file", .0.display())]
    Name(PathBuf),
    #[error("cannot write {}", .path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl Drafts {
    /// Refuses at once what would fail at the end.
    pub(super) fn claim(file: PathBuf) -> Result<Self, DraftError> {
        if file.exists() {
            return Err(DraftError::Exists(file));
        }
        let Some(name) = stem(&file) else { return Err(DraftError::Name(file)) };
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            return Err(DraftError::Folder(file.clone(), folder.to_owned()));
        }
        let prefix = format!("{name}-unit-");
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                return Err(DraftError::Exists(entry.path()));
            }
        }
        Ok(Self(file))
    }

    /// Writes a draft of each unit of which something can be read; which files those are.
    pub(super) fn write(&self, survey: &Survey) -> Result<Vec<PathBuf>, DraftError> {
        let is_full = |found: &&Found| found.extents.iter().any(|extent| !extent.values.is_empty());
        let units: Vec<&Found> = survey.units.iter().filter(is_full).collect();
        let mut files = Vec::new();
        for found in &units {
            let path = if units.len() == 1 { self.0.clone() } else { self.path(found.unit) };
            put(&path, &render(found))?;
            files.push(path);
        }
        Ok(files)
    }

    fn path(&self, unit: u8) -> PathBuf {
        let name = stem(&self.0).unwrap_or_default();
        self.0.with_file_name(format!("{name}-unit-{unit}.toml"))
    }
}

fn stem(file: &Path) -> Option<String> {
    file.file_stem().map(|name| name.to_string_lossy().into_owned())
}

fn put(path: &Path, text: &str) -> Result<(), DraftError> {
    let opened = OpenOptions::new().write(true).create_new(true).open(path);
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => DraftError::Exists(path.to_owned()),
        _ => DraftError::Write { path: path.to_owned(), source },
    })
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

/// A text as TOML has it.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
#[path = "draft_tests.rs"]
mod tests;
