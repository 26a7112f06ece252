#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{collections::HashMap, fmt::Write as _, fs, path::Path};

use proptest::prelude::*;

use super::*;

/// First and last address.
type Cells = (u16, u16);

fn tag(number: usize) -> TagId {
    TagId(u32::try_from(number).unwrap())
}

fn table(name: &str) -> Table {
    let named = |table: &Table| table.name() == name;
    [Table::Coil, Table::Discrete, Table::Input, Table::Holding].into_iter().find(named).unwrap()
}

/// A line is `unit scan_ms table address count`; tags are numbered by line.
fn need(number: usize, line: &str) -> Need {
    let words: Vec<_> = line.split_whitespace().collect();
    let [unit, scan, name, address, count] = words.as_slice() else { panic!("line {line}") };
    Need {
        tag: tag(number),
        unit: unit.parse().unwrap(),
        scan: Duration::from_millis(scan.parse().unwrap()),
        table: table(name),
        address: address.parse().unwrap(),
        count: count.parse().unwrap(),
    }
}

/// A line is `unit N:` and keys of [`Reads`] with their values; a region is `table first..last`, with both ends.
fn setting(line: &str) -> (usize, Reads) {
    let (unit, keys) = line.strip_prefix("unit ").unwrap().split_once(':').unwrap();
    let mut words = keys.split_whitespace();
    let mut reads = Reads::default();
    while let Some(key) = words.next() {
        let mut word = || words.next().unwrap();
        let region = |name: &str, range: &str| {
            let (first, last) = range.split_once("..").unwrap();
            Region { table: table(name), first: first.parse().unwrap(), last: last.parse().unwrap() }
        };
        match key {
            "max_gap" => reads.max_gap = word().parse().unwrap(),
            "max_registers" => reads.max_registers = word().parse().unwrap(),
            "max_bits" => reads.max_bits = word().parse().unwrap(),
            "one_tag" => reads.one_tag = true,
            "forbidden" => reads.forbidden.push(region(word(), word())),
            "group" => reads.groups.push(region(word(), word())),
            other => panic!("key {other}"),
        }
    }
    (unit.parse().unwrap(), reads)
}

fn case(text: &str) -> (Vec<Need>, Vec<Reads>) {
    let (mut needs, mut reads) = (Vec::new(), Vec::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with("unit ") {
            let (unit, setting) = setting(line);
            reads.resize(reads.len().max(unit + 1), Reads::default());
            *reads.get_mut(unit).unwrap() = setting;
        } else {
            needs.push(need(needs.len(), line));
        }
    }
    (needs, reads)
}

fn show(plan: &Plan) -> String {
    let mut text = String::new();
    for class in &plan.classes {
        writeln!(text, "unit {} every {} ms", class.unit, class.scan.as_millis()).unwrap();
        for read in &class.reads {
            let tags: Vec<_> = read.tags.iter().map(|(tag, at)| format!("{}@{at}", tag.0)).collect();
            writeln!(text, "  {} {}+{}: {}", read.table.name(), read.start, read.count, tags.join(" "))
                .unwrap();
        }
    }
    for (tag, why) in &plan.impossible {
        writeln!(text, "impossible {}: {why}", tag.0).unwrap();
    }
    text
}

/// With `UPDATE_CASES=1` the expected part of each file is written anew, to be looked at.
#[test]
fn every_case_of_the_folder() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/plan");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 30, "{paths:?}");
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let (input, expected) = text.split_once("---\n").unwrap();
        let (mut needs, reads) = case(input);
        let shown = show(&plan(&needs, &reads));
        if std::env::var_os("UPDATE_CASES").is_some() {
            fs::write(&path, format!("{input}---\n{shown}")).unwrap();
            continue;
        }
        assert_eq!(shown, expected, "{}", path.display());
        needs.reverse();
        assert_eq!(show(&plan(&needs, &reads)), expected, "{} in reverse", path.display());
    }
}

fn any_table() -> impl Strategy<Value = Table> {
    prop_oneof![Just(Table::Coil), Just(Table::Discrete), Just(Table::Input), Just(Table::Holding)]
}

/// Units, tables and addresses are few, so that tags meet each other and regions.
fn any_needs(tags: usize) -> impl Strategy<Value = Vec<Need>> {
    let address = prop_oneof![9 => 0_u16..400, 1 => 65_300_u16..=65_535];
    let count = prop_oneof![8 => 0_u16..5, 2 => 5_u16..40, 1 => 100_u16..140];
    let need = (0_usize..3, 1_u64..3, any_table(), address, count).prop_map(
        |(unit, scan, table, address, count)| {
            let scan = Duration::from_secs(scan);
            Need { tag: TagId(0), unit, scan, table, address, count }
        },
    );
    proptest::collection::vec(need, 0..tags).prop_map(numbered)
}

fn numbered(mut needs: Vec<Need>) -> Vec<Need> {
    for (number, need) in needs.iter_mut().enumerate() {
        need.tag = tag(number);
    }
    needs
}

fn any_regions(
    table: impl Strategy<Value = Table>,
    end: u16,
    longest: u16,
) -> impl Strategy<Value = Vec<Region>> {
    let region = (table, 0..end, 0..longest).prop_map(|(table, first, more)| Region {
        table,
        first,
        last: first.saturating_add(more),
    });
    proptest::collection::vec(region, 0..4)
}

fn any_reads() -> impl Strategy<Value = Reads> {
    let caps = (prop_oneof![Just(125), 1_u16..200], prop_oneof![Just(2000), 1_u16..200]);
    let regions = (any_regions(any_table(), 400, 12), any_regions(any_table(), 400, 200));
    (0_u16..20, caps, prop::bool::weighted(0.1), regions).prop_map(
        |(max_gap, (max_registers, max_bits), one_tag, (forbidden, groups))| Reads {
            max_gap,
            max_registers,
            max_bits,
            one_tag,
            forbidden,
            groups,
        },
    )
}

fn cells(need: &Need) -> Cells {
    (need.address, need.address + (need.count - 1))
}

fn overlaps(region: Region, table: Table, (first, last): Cells) -> bool {
    region.table == table && region.first <= last && first <= region.last
}

/// What one request from the first to the last of `held` breaks.
fn broken(reads: &Reads, table: Table, held: &[Cells]) -> Option<Why> {
    let first = held.iter().map(|(first, _)| *first).min().unwrap();
    let last = held.iter().map(|(_, last)| *last).max().unwrap();
    let most = if table.is_bits() { reads.max_bits.min(2000) } else { reads.max_registers.min(125) };
    if u32::from(last) - u32::from(first) + 1 > u32::from(most) {
        return Some(Why::TooLong { table, most });
    }
    if reads.forbidden.iter().any(|region| overlaps(*region, table, (first, last))) {
        return Some(Why::Forbidden);
    }
    let splits = |group: &Region| {
        let inside = (first..=last).filter(|cell| (group.first..=group.last).contains(cell)).count();
        group.table == table && inside > 0 && inside <= usize::from(last - first)
    };
    reads.groups.iter().any(splits).then_some(Why::Groups)
}

/// Most cells in a row of a request that are in none of `held`.
fn widest_gap(held: &[Cells]) -> usize {
    let first = held.iter().map(|(first, _)| *first).min().unwrap();
    let last = held.iter().map(|(_, last)| *last).max().unwrap();
    let is_held = |cell: u16| held.iter().any(|(first, last)| (*first..=*last).contains(&cell));
    (first..=last)
        .collect::<Vec<_>>()
        .chunk_by(|a, b| is_held(*a) == is_held(*b))
        .fold(0, |most, run| if run.iter().any(|cell| is_held(*cell)) { most } else { most.max(run.len()) })
}

/// Whether `held` may share a request.
fn is_allowed(reads: &Reads, table: Table, held: &[Cells]) -> bool {
    let gap = usize::from(reads.max_gap) * if table.is_bits() { 16 } else { 1 };
    let is_one = held.iter().all(|cells| Some(cells) == held.first());
    broken(reads, table, held).is_none() && widest_gap(held) <= gap && (!reads.one_tag || is_one)
}

/// Why a tag cannot be read, by the words of the rules.
fn why(reads: &Reads, need: &Need) -> Option<Why> {
    if need.count == 0 {
        Some(Why::Empty)
    } else if u32::from(need.address) + u32::from(need.count) > 0x1_0000 {
        Some(Why::PastEnd)
    } else {
        broken(reads, need.table, &[cells(need)])
    }
}

proptest! {
    #[test]
    fn every_tag_is_read_once_whole_and_within_all_rules(
        (needs, shuffled) in any_needs(200).prop_flat_map(|needs| (Just(needs.clone()), Just(needs).prop_shuffle())),
        reads in proptest::collection::vec(any_reads(), 0..4),
    ) {
        let usual = Reads::default();
        let made = plan(&needs, &reads);
        let mut seen = Vec::new();
        for (tag, reason) in &made.impossible {
            let need = needs.iter().find(|need| need.tag == *tag).unwrap();
            prop_assert_eq!(Some(*reason), why(reads.get(need.unit).unwrap_or(&usual), need));
            seen.push(*tag);
        }
        for class in &made.classes {
            for read in &class.reads {
                let mut held = Vec::new();
                for (tag, offset) in &read.tags {
                    let need = needs.iter().find(|need| need.tag == *tag).unwrap();
                    prop_assert_eq!((need.unit, need.scan, need.table), (class.unit, class.scan, read.table));
                    prop_assert_eq!(need.address, read.start + offset);
                    held.push(cells(need));
                    seen.push(*tag);
                }
                let region = read.region();
                prop_assert_eq!(Some(region.first), held.iter().map(|(first, _)| *first).min());
                prop_assert_eq!(Some(region.last), held.iter().map(|(_, last)| *last).max());
                prop_assert_eq!(region.last - region.first, read.count - 1);
                prop_assert!(is_allowed(reads.get(class.unit).unwrap_or(&usual), read.table, &held), "{read:?}");
            }
        }
        seen.sort_unstable();
        prop_assert_eq!(seen, needs.iter().map(|need| need.tag).collect::<Vec<_>>());
        prop_assert!(made.classes.is_sorted_by_key(|class| (class.unit, class.scan)));
        prop_assert_eq!(plan(&shuffled, &reads), made);
    }

    #[test]
    fn no_other_plan_has_fewer_requests_or_as_many_and_fewer_cells(
        tags in proptest::collection::vec((0_u16..24, 1_u16..6), 1..8),
        (max_gap, max_registers) in (0_u16..6, 5_u16..16),
        forbidden in any_regions(Just(Table::Input), 24, 2),
        groups in any_regions(Just(Table::Input), 24, 10),
    ) {
        let reads = Reads { max_gap, max_registers, forbidden, groups, ..Reads::default() };
        let needs = numbered(tags.iter().map(|(address, count)| input(*address, *count)).collect());
        let made = plan(&needs, std::slice::from_ref(&reads));
        let planned: Vec<_> = made.classes.iter().flat_map(|class| &class.reads).collect();
        let possible: Vec<_> = needs.iter().filter(|need| why(&reads, need).is_none()).map(cells).collect();
        let cost = (planned.len(), planned.iter().map(|read| usize::from(read.count)).sum());
        prop_assert_eq!(cost, cheapest(&reads, &possible, &mut Vec::new()));
    }

    #[test]
    fn two_hundred_scattered_tags_need_a_tenth_of_the_requests(
        tags in proptest::collection::vec((1_u16..=4, 1_u16..=4), 200),
    ) {
        let mut next = 0;
        let place = |(gap, count): &(u16, u16)| {
            let need = input(next, *count);
            next += count + gap;
            need
        };
        let needs = numbered(tags.iter().map(place).collect());
        let made = plan(&needs, &[]);
        let requests: usize = made.classes.iter().map(|class| class.reads.len()).sum();
        prop_assert!(requests <= 20, "{requests}");
    }
}

fn input(address: u16, count: u16) -> Need {
    let scan = Duration::from_secs(1);
    Need { tag: TagId(0), unit: 0, scan, table: Table::Input, address, count }
}

/// Fewest requests, then fewest cells, of all ways to share `left` out among `requests` and new ones.
fn cheapest(reads: &Reads, left: &[Cells], requests: &mut Vec<Vec<Cells>>) -> (usize, usize) {
    let Some((next, left)) = left.split_first() else {
        let allowed = requests.iter().all(|held| is_allowed(reads, Table::Input, held));
        let span = |held: &Vec<Cells>| {
            let first = held.iter().map(|(first, _)| *first).min().unwrap();
            usize::from(held.iter().map(|(_, last)| *last).max().unwrap() - first + 1)
        };
        return if allowed {
            (requests.len(), requests.iter().map(span).sum())
        } else {
            (usize::MAX, usize::MAX)
        };
    };
    let mut best = (usize::MAX, usize::MAX);
    for at in 0..requests.len() {
        requests.get_mut(at).unwrap().push(*next);
        best = best.min(cheapest(reads, left, requests));
        requests.get_mut(at).unwrap().pop();
    }
    requests.push(vec![*next]);
    best = best.min(cheapest(reads, left, requests));
    requests.pop();
    best
}

/// One request for `tags`, each an offset and a length, from address 100.
fn read(tags: &[Cells]) -> (Read, HashMap<TagId, u16>) {
    let lengths = tags.iter().enumerate().map(|(number, (_, length))| (tag(number), *length)).collect();
    let read = Read {
        table: Table::Holding,
        start: 100,
        count: tags.iter().map(|(offset, length)| offset + length).max().unwrap(),
        tags: tags.iter().enumerate().map(|(number, (offset, _))| (tag(number), *offset)).collect(),
    };
    (read, lengths)
}

/// Each half as `start+count: tags`.
fn halves(tags: &[Cells]) -> Option<(String, String)> {
    let (read, lengths) = read(tags);
    let show = |half: &Read| {
        let tags: Vec<_> = half.tags.iter().map(|(tag, offset)| format!("{}@{offset}", tag.0)).collect();
        format!("{}+{}: {}", half.start, half.count, tags.join(" "))
    };
    read.halves(|tag| *lengths.get(&tag).unwrap()).map(|(low, high)| (show(&low), show(&high)))
}

fn pair(low: &str, high: &str) -> (String, String) {
    (low.into(), high.into())
}

#[test]
fn halves_leave_out_what_lies_between_them() {
    assert_eq!(halves(&[(0, 1), (1, 2), (10, 2), (13, 1)]), Some(pair("100+3: 0@0 1@1", "110+4: 2@0 3@3")));
    assert_eq!(halves(&[(0, 1), (4, 1), (9, 2)]), Some(pair("100+1: 0@0", "104+7: 1@0 2@5")));
}

#[test]
fn halves_reach_to_the_end_of_their_longest_tag() {
    assert_eq!(halves(&[(0, 10), (2, 1), (5, 1), (8, 1)]), Some(pair("100+10: 0@0 1@2", "105+4: 2@0 3@3")));
}

#[test]
fn tags_of_the_same_cells_stay_in_one_half() {
    assert_eq!(halves(&[(0, 1), (0, 1), (0, 1), (3, 1)]), Some(pair("100+1: 0@0 1@0 2@0", "103+1: 3@0")));
    assert_eq!(halves(&[(0, 1), (3, 1), (3, 1), (3, 1)]), Some(pair("100+1: 0@0", "103+1: 1@0 2@0 3@0")));
}

#[test]
fn tags_that_begin_together_are_parted_by_their_length() {
    assert_eq!(halves(&[(0, 1), (0, 4)]), Some(pair("100+4: 1@0", "100+1: 0@0")));
}

#[test]
fn what_cannot_be_parted_has_no_halves() {
    assert_eq!(halves(&[(0, 4)]), None);
    assert_eq!(halves(&[(0, 1), (0, 1), (0, 1)]), None);
}

#[test]
fn regions_have_both_ends_and_gaps_lie_between_them() {
    let read = |table, start, count| Read { table, start, count, tags: Vec::new() };
    let region = |first, last| Region { table: Table::Holding, first, last };
    let holding = |start, count| read(Table::Holding, start, count);
    assert_eq!(holding(65_535, 1).region(), region(65_535, 65_535));
    assert_eq!(holding(10, 5).region(), region(10, 14));
    assert_eq!(holding(10, 5).gap(&holding(18, 1)), Some(region(15, 17)));
    assert_eq!(holding(10, 5).gap(&holding(16, 1)), Some(region(15, 15)));
    assert_eq!(holding(10, 5).gap(&holding(15, 1)), None);
    assert_eq!(holding(10, 5).gap(&holding(12, 1)), None);
    assert_eq!(holding(65_530, 6).gap(&holding(0, 1)), None);
    assert_eq!(holding(10, 5).gap(&read(Table::Input, 18, 1)), None);
}
