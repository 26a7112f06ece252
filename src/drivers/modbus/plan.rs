//! Which requests read which tags: pure, the same for the same tags in any order.
//!
//! Must not know sockets, time or what the registers mean.

use std::time::Duration;

use crate::{
    codec::modbus::{READ_BITS, READ_REGISTERS},
    model::TagId,
    profile::modbus::Table,
};

/// What one tag needs to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    pub tag: TagId,
    /// Which unit it belongs to; needs of two units never share a request.
    pub unit: usize,
    pub scan: Duration,
    pub table: Table,
    pub address: u16,
    /// Registers, or bits in a table of bits; never split over two requests.
    pub count: u16,
}

/// Requests of one unit that are due together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    pub unit: usize,
    pub scan: Duration,
    pub reads: Vec<Read>,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    pub table: Table,
    pub start: u16,
    pub count: u16,
    /// The tags in it, and how far behind `start` each begins.
    pub tags: Vec<(TagId, u16)>,
}

/// Classes in the order of units and scans, and what cannot be read at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    pub classes: Vec<Class>,
    /// Tags that are empty, too long for one request, or end past address 65535.
    pub impossible: Vec<TagId>,
}

/// Gap up to which two tags share a request, where nothing else is said.
///
/// Eight registers are 16 bytes more in an answer, less than a request and an answer of their own cost (21 bytes of
/// frames, 80 of TCP and IP headers, a round trip); a larger gap meets more registers that do not exist or that
/// change by being read.
pub const MAX_GAP: u16 = 8;

/// Plans the requests for `needs`.
///
/// `max_gap` counts registers between two tags that are read along and thrown away; in tables of bits 16 bits stand
/// for one register.
#[must_use]
pub fn plan(needs: &[Need], max_gap: u16) -> Plan {
    let (mut possible, impossible): (Vec<Need>, Vec<Need>) = needs.iter().partition(|need| is_possible(need));
    possible.sort_by_key(|need| (need.unit, need.scan, need.table, need.address, need.count, need.tag));
    let mut plan = Plan { classes: Vec::new(), impossible: impossible.iter().map(|need| need.tag).collect() };
    plan.impossible.sort_unstable();
    for need in possible {
        if plan.classes.last().is_none_or(|class| (class.unit, class.scan) != (need.unit, need.scan)) {
            plan.classes.push(Class { unit: need.unit, scan: need.scan, reads: Vec::new() });
        }
        if let Some(class) = plan.classes.last_mut() {
            class.add(&need, max_gap);
        }
    }
    plan
}

impl Class {
    fn add(&mut self, need: &Need, max_gap: u16) {
        if !self.reads.last_mut().is_some_and(|read| read.take(need, max_gap)) {
            self.reads.push(Read {
                table: need.table,
                start: need.address,
                count: need.count,
                tags: vec![(need.tag, 0)],
            });
        }
    }
}

impl Read {
    /// Takes a tag that begins at or behind this read's start, if it is near enough and fits.
    fn take(&mut self, need: &Need, max_gap: u16) -> bool {
        let gap = if need.table.is_bits() { max_gap.saturating_mul(16) } else { max_gap };
        let Some(offset) = need.address.checked_sub(self.start) else { return false };
        let count = self.count.max(offset.saturating_add(need.count));
        let near = offset <= self.count.saturating_add(gap);
        if need.table != self.table || !near || count > most(need.table) {
            return false;
        }
        self.count = count;
        self.tags.push((need.tag, offset));
        true
    }
}

fn is_possible(need: &Need) -> bool {
    (1..=most(need.table)).contains(&need.count)
        && u32::from(need.address) + u32::from(need.count) <= 0x1_0000
}

fn most(table: Table) -> u16 {
    if table.is_bits() { READ_BITS } else { READ_REGISTERS }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

    use std::{fmt::Write as _, fs, path::Path};

    use proptest::prelude::*;

    use super::*;

    fn table(name: &str) -> Table {
        match name {
            "coil" => Table::Coil,
            "discrete" => Table::Discrete,
            "input" => Table::Input,
            "holding" => Table::Holding,
            other => panic!("table {other}"),
        }
    }

    /// A line is `unit scan_ms table address count`; tags are numbered by line.
    fn needs(lines: &str) -> Vec<Need> {
        let need = |(tag, line): (usize, &str)| {
            let words: Vec<_> = line.split_whitespace().collect();
            let [unit, scan, name, address, count] = words.as_slice() else { panic!("line {line}") };
            Need {
                tag: TagId(u32::try_from(tag).unwrap()),
                unit: unit.parse().unwrap(),
                scan: Duration::from_millis(scan.parse().unwrap()),
                table: table(name),
                address: address.parse().unwrap(),
                count: count.parse().unwrap(),
            }
        };
        lines.lines().filter(|line| !line.starts_with('#')).enumerate().map(need).collect()
    }

    fn show(plan: &Plan) -> String {
        let mut text = String::new();
        for class in &plan.classes {
            writeln!(text, "unit {} every {} ms", class.unit, class.scan.as_millis()).unwrap();
            for read in &class.reads {
                let name = format!("{:?}", read.table).to_lowercase();
                let tags: Vec<_> = read.tags.iter().map(|(tag, at)| format!("{}@{at}", tag.0)).collect();
                writeln!(text, "  {name} {}+{}: {}", read.start, read.count, tags.join(" ")).unwrap();
            }
        }
        if !plan.impossible.is_empty() {
            let tags: Vec<_> = plan.impossible.iter().map(|tag| tag.0.to_string()).collect();
            writeln!(text, "impossible: {}", tags.join(" ")).unwrap();
        }
        text
    }

    #[test]
    fn every_case_of_the_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/plan");
        let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        assert!(paths.len() >= 8, "{paths:?}");
        for path in paths {
            let text = fs::read_to_string(&path).unwrap();
            let (input, expected) = text.split_once("---\n").unwrap();
            let shown = show(&plan(&needs(input), MAX_GAP));
            assert_eq!(shown, expected, "{}", path.display());
        }
    }

    #[test]
    fn the_gap_is_a_parameter() {
        let needs = needs("0 1000 holding 0 1\n0 1000 holding 3 1");
        let requests = |gap| plan(&needs, gap).classes.first().unwrap().reads.len();
        assert_eq!((requests(0), requests(1), requests(2)), (2, 2, 1));
    }

    fn any_need() -> impl Strategy<Value = Need> {
        let table =
            prop_oneof![Just(Table::Coil), Just(Table::Discrete), Just(Table::Input), Just(Table::Holding)];
        let address = prop_oneof![0_u16..400, 65_300_u16..=65_535];
        (0_usize..3, 1_u64..3, table, address, 0_u16..5).prop_map(|(unit, scan, table, address, count)| {
            Need { tag: TagId(0), unit, scan: Duration::from_secs(scan), table, address, count }
        })
    }

    proptest! {
        #[test]
        fn every_tag_is_read_once_whole_and_within_bounds(
            needs in proptest::collection::vec(any_need(), 0..200),
            max_gap in 0_u16..20,
        ) {
            let mut needs = needs;
            for (tag, need) in needs.iter_mut().enumerate() {
                need.tag = TagId(u32::try_from(tag).unwrap());
            }
            let made = plan(&needs, max_gap);
            let mut seen = made.impossible.clone();
            for class in &made.classes {
                for read in &class.reads {
                    prop_assert!(read.count >= 1 && read.count <= most(read.table));
                    prop_assert!(u32::from(read.start) + u32::from(read.count) <= 0x1_0000);
                    for (tag, offset) in &read.tags {
                        let need = needs.iter().find(|need| need.tag == *tag).unwrap();
                        prop_assert_eq!((need.unit, need.scan, need.table), (class.unit, class.scan, read.table));
                        prop_assert_eq!(need.address, read.start + offset);
                        prop_assert!(offset + need.count <= read.count);
                        seen.push(*tag);
                    }
                }
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, needs.iter().map(|need| need.tag).collect::<Vec<_>>());
            needs.reverse();
            prop_assert_eq!(plan(&needs, max_gap), made);
        }
    }
}
