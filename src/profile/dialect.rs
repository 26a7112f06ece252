//! How a model of device wants to be spoken to: the tables `reads` and `writes` of profiles and devices, merged and held
//! against the tags.

use std::time::Duration;

use super::{
    modbus::{Dialect, Fallback, PartWrite, Point, Reads, Region, Table, WriteFunction, Writes},
    raw::register::Address,
};
use crate::{
    codec::value::Part,
    config::{
        Polled, TagSpec,
        leaf::{Choice, Flag, Whole, Words},
        problem::{Findings, What},
        read::{At, List, Spot, millis},
        section::section,
    },
    model::Access,
};

section! {
    /// What one read request may span.
    pub(crate) struct ReadsTable {
        /// Registers between two tags that are read along and thrown away, to save a request; of bits 16 stand for one
        /// register. Default: 8.
        optional max_gap: Whole<0, 125>;
        /// Most registers that the device answers at once. Default: 125.
        optional max_registers: Whole<1, 125>;
        /// Most coils or discrete inputs that the device answers at once. Default: 2000.
        optional max_bits: Whole<1, 2000>;
        /// Whether each tag needs a request of its own. Default: false.
        optional one_tag: Flag;
        /// What must not be read, not even between two tags.
        optional forbidden: List<RegionTable>;
        /// Groups across whose edges no request may reach, for devices that refuse that.
        optional groups: List<RegionTable>;
    }
}

section! {
    /// Addresses of one table, from `first` to `last`.
    pub(crate) struct RegionTable {
        /// One of the four tables of a Modbus device.
        required table: Choice<Table>;
        /// First zero-based address.
        required first: Address;
        /// Last zero-based address.
        required last: Address;
    }
}

section! {
    /// How a device is written to.
    pub(crate) struct WritesTable {
        /// Function that writes: `single` is FC 5 or 6, `multiple` is FC 15 or 16. Default: `single` for one coil or
        /// register, `multiple` for more.
        optional function: Choice<WriteFunction>;
        /// After which exception the other kind of function is tried once: `off`, `illegal-function` (0x01), or
        /// `illegal-address` (0x01 and 0x02). Default: `illegal-function`.
        optional fallback: Choice<Fallback>;
        /// How a part of a register is written: `mask` by FC 22; `read-modify-write` by reading, changing and writing the
        /// register, which undoes what the device changes in between; `auto` by FC 22, and the other way where the
        /// device does not know that. Default: `auto`.
        optional part: Choice<PartWrite>;
        /// Milliseconds between a write and its read-back, for devices that need time to take a value over. Default: 0.
        optional settle_ms: Whole<0, 10_000>;
    }
}

impl Words for Fallback {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("off", Self::Off),
        ("illegal-function", Self::IllegalFunction),
        ("illegal-address", Self::IllegalAddress),
    ];
}

impl Words for PartWrite {
    const WORDS: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("mask", Self::Mask), ("read-modify-write", Self::ReadModifyWrite)];
}

/// What a profile, or a device, says of its dialect; after [`Keys::or`], what both do.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keys {
    max_gap: Option<At<u16>>,
    max_registers: Option<At<u16>>,
    max_bits: Option<At<u16>>,
    one_tag: Option<bool>,
    forbidden: Option<Vec<At<Region>>>,
    groups: Option<Vec<At<Region>>>,
    function: Option<At<WriteFunction>>,
    fallback: Option<Fallback>,
    part: Option<At<PartWrite>>,
    settle: Option<Duration>,
}

impl Keys {
    /// Takes both tables, and checks each key by itself.
    pub(crate) fn new(
        reads: Option<&At<ReadsTable>>,
        writes: Option<&At<WritesTable>>,
        found: &mut Findings,
    ) -> Self {
        let mut keys = Self::default();
        if let Some(ReadsTable { max_gap, max_registers, max_bits, one_tag, forbidden, groups }) =
            reads.map(|at| &at.value)
        {
            keys.max_gap = max_gap.as_ref().and_then(number);
            keys.max_registers = max_registers.as_ref().and_then(number);
            keys.max_bits = max_bits.as_ref().and_then(number);
            keys.one_tag = one_tag.as_ref().map(|at| at.value.0);
            keys.forbidden = forbidden.as_ref().map(|at| regions(&at.value, found));
            keys.groups = groups.as_ref().map(|at| regions(&at.value, found));
            keys.groups.as_deref().into_iter().for_each(|groups| apart(groups, found));
        }
        if let Some(WritesTable { function, fallback, part, settle_ms }) = writes.map(|at| &at.value) {
            keys.function = function.as_ref().map(word);
            keys.fallback = fallback.as_ref().map(|at| at.value.0);
            keys.part = part.as_ref().map(word);
            keys.settle = settle_ms.as_ref().map(|at| millis(at.value.0));
        }
        keys
    }

    /// These, and `other` where these say nothing.
    pub(crate) fn or(self, other: &Self) -> Self {
        let other = other.clone();
        Self {
            max_gap: self.max_gap.or(other.max_gap),
            max_registers: self.max_registers.or(other.max_registers),
            max_bits: self.max_bits.or(other.max_bits),
            one_tag: self.one_tag.or(other.one_tag),
            forbidden: self.forbidden.or(other.forbidden),
            groups: self.groups.or(other.groups),
            function: self.function.or(other.function),
            fallback: self.fallback.or(other.fallback),
            part: self.part.or(other.part),
            settle: self.settle.or(other.settle),
        }
    }

    /// The function for tags that do not say theirs.
    pub(crate) fn function(&self) -> Option<WriteFunction> {
        self.function.as_ref().map(|at| at.value)
    }

    /// The time before a read-back for tags that do not say theirs.
    pub(crate) fn settle(&self) -> Option<Duration> {
        self.settle
    }

    /// What they mean.
    pub(crate) fn dialect(&self) -> Dialect {
        let usual = Reads::default();
        let listed = |regions: &Option<Vec<At<Region>>>| {
            regions.iter().flatten().map(|at| at.value).collect::<Vec<Region>>()
        };
        Dialect {
            reads: Reads {
                max_gap: self.max_gap.as_ref().map_or(usual.max_gap, |at| at.value),
                max_registers: self.max_registers.as_ref().map_or(usual.max_registers, |at| at.value),
                max_bits: self.max_bits.as_ref().map_or(usual.max_bits, |at| at.value),
                one_tag: self.one_tag.unwrap_or(usual.one_tag),
                forbidden: listed(&self.forbidden),
                groups: listed(&self.groups),
            },
            writes: Writes {
                fallback: self.fallback.unwrap_or_default(),
                part: self.part.as_ref().map(|at| at.value).unwrap_or_default(),
            },
        }
    }

    /// Holds them against the tags of a device that is read.
    pub(crate) fn check_reads(&self, tags: &[TagSpec<Polled>], found: &mut Findings) {
        for (most, is_bits, what) in
            [(&self.max_registers, false, "registers"), (&self.max_bits, true, "bits")]
        {
            let of = tags.iter().filter(|spec| extent(spec).table.is_bits() == is_bits);
            let longest = of.max_by_key(|spec| length(spec));
            if let (Some(most), Some(spec)) = (most, longest)
                && length(spec) > most.value
            {
                let (tag, length) = (name(spec), length(spec));
                refuse(
                    &most.spot,
                    found,
                    format!("the tag `{tag}`, which takes {length} {what}"),
                    format!("at least {length}"),
                );
            }
        }
        for region in self.forbidden.iter().flatten() {
            if let Some(spec) = tags.iter().find(|spec| meets(extent(spec), region.value)) {
                let with = format!("the tag `{}`, which lies in it", name(spec));
                refuse(&region.spot, found, with, "a region that holds no tag");
            }
        }
        for group in self.groups.iter().flatten() {
            let crosses = |region| meets(region, group.value) && !holds(group.value, region);
            if let Some(spec) = tags.iter().find(|spec| crosses(extent(spec))) {
                let with = format!("the tag `{}`, which lies across its edge", name(spec));
                refuse(&group.spot, found, with, "a group that holds each tag whole or not at all");
            }
        }
    }

    /// Holds them against the tags that are written.
    pub(crate) fn check_writes(&self, tags: &[TagSpec<Polled>], broadcast: bool, found: &mut Findings) {
        let written = || tags.iter().filter(|spec| spec.tag.definition.access == Access::ReadWrite);
        // A tag that says so itself was refused before.
        let cut = written().find(|spec| point(spec).function == WriteFunction::Single && length(spec) > 1);
        if let (Some(function), Some(spec)) = (&self.function, cut)
            && function.value == WriteFunction::Single
        {
            let (tag, length) = (name(spec), length(spec));
            let with = format!("the tag `{tag}`, which takes {length} {}", cells(spec));
            let allowed = "\"multiple\" for it, here or as the tag's `write.function`, since two frames are not one \
                           write";
            refuse(&function.spot, found, with, allowed);
        }
        if let Some(part) = self.part.as_ref().filter(|part| part.value == PartWrite::ReadModifyWrite)
            && broadcast
            && let Some(spec) = written().find(|spec| point(spec).format.part != Part::Whole)
        {
            let with = format!("the tag `{}` of a broadcast, which cannot be read", name(spec));
            refuse(&part.spot, found, with, "\"mask\"");
        }
    }
}

fn number<const LO: i64, const HI: i64>(at: &At<Whole<LO, HI>>) -> Option<At<u16>> {
    Some(At { value: u16::try_from(at.value.0).ok()?, spot: at.spot.clone() })
}

fn word<T: Copy>(at: &At<Choice<T>>) -> At<T> {
    At { value: at.value.0, spot: at.spot.clone() }
}

fn regions(list: &List<RegionTable>, found: &mut Findings) -> Vec<At<Region>> {
    let mut regions = Vec::new();
    for at in &list.0 {
        let RegionTable { table: Some(table), first: Some(first), last: Some(last) } = &at.value else {
            continue;
        };
        if first.value.0 > last.value.0 {
            first.conflict(found, format!("last = {}", last.value.0), format!("at most {}", last.value.0));
        }
        let region = Region { table: table.value.0, first: first.value.0, last: last.value.0 };
        regions.push(At { value: region, spot: at.spot.clone() });
    }
    regions
}

/// Groups that overlap have edges within one another.
fn apart(groups: &[At<Region>], found: &mut Findings) {
    for (index, group) in groups.iter().enumerate() {
        let before = groups.iter().take(index);
        if let Some(other) = before.into_iter().find(|other| meets(other.value, group.value)) {
            let with = format!("the group {}", other.spot.reference());
            refuse(&group.spot, found, with, "a group that overlaps no other");
        }
    }
}

/// Notes that a value does not go with a tag, once for all devices of a profile.
fn refuse(spot: &Spot, found: &mut Findings, with: String, allowed: impl Into<String>) {
    let problem = spot.problem(What::Conflict { with, allowed: allowed.into() });
    if !found.problems.contains(&problem) {
        found.problems.push(problem);
    }
}

fn point(spec: &TagSpec<Polled>) -> &Point {
    &spec.source.point
}

/// The tag's name below its device.
fn name(spec: &TagSpec<Polled>) -> &str {
    let path = spec.tag.path.as_str();
    path.split_once('/').map_or(path, |(_, name)| name)
}

/// Registers or bits that a tag takes.
fn length(spec: &TagSpec<Polled>) -> u16 {
    let Point { table, format, .. } = point(spec);
    if table.is_bits() { format.bits() } else { format.registers() }
}

fn cells(spec: &TagSpec<Polled>) -> &'static str {
    if point(spec).table.is_bits() { "bits" } else { "registers" }
}

fn extent(spec: &TagSpec<Polled>) -> Region {
    let Point { table, address, .. } = point(spec);
    Region { table: *table, first: *address, last: address.saturating_add(length(spec).saturating_sub(1)) }
}

fn meets(one: Region, other: Region) -> bool {
    one.table == other.table && one.first <= other.last && other.first <= one.last
}

fn holds(outer: Region, inner: Region) -> bool {
    outer.table == inner.table && outer.first <= inner.first && inner.last <= outer.last
}

#[cfg(test)]
#[path = "dialect_tests.rs"]
mod tests;
