//! The search through one table, against devices with the habits that devices have.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{collections::BTreeSet, ops::RangeInclusive};

use proptest::prelude::*;

use super::*;
use crate::{drivers::modbus::scan::survey::State, profile::modbus::Table};

const MISSING: Refusal = Refusal::Exception(2);
const VALUE: Refusal = Refusal::Exception(3);

fn region(table: Table, first: u16, last: u16) -> Region {
    Region { table, first, last }
}

/// The value of each register is its address.
fn cells(first: u16, count: u16) -> Vec<u16> {
    (0..count).map(|offset| first + offset).collect()
}

/// Asks `device` until nothing is left: what was found, what is known of lengths, and every question.
fn run_with(
    region: Region,
    sizes: Sizes,
    device: impl Fn(u16, u16) -> Option<Refusal>,
) -> (Extent, Sizes, Vec<(u16, u16)>) {
    let mut cover = Cover::new(region, sizes);
    let mut asked = Vec::new();
    while let Some(probe) = cover.next() {
        let Probe::Read { table, first, count } = probe else { panic!("{probe:?}") };
        assert_eq!(table, region.table);
        assert!(!asked.contains(&(first, count)), "{first}, {count} is asked for again");
        assert!(first >= region.first && first + (count - 1) <= region.last, "{first}, {count} lies outside");
        asked.push((first, count));
        match device(first, count) {
            None => cover.answered(&cells(first, count)),
            Some(why) => cover.refused(why),
        }
    }
    let (extent, sizes) = cover.found();
    (extent, sizes, asked)
}

fn run(region: Region, device: impl Fn(u16, u16) -> Option<Refusal>) -> (Extent, Vec<(u16, u16)>) {
    let sizes = if region.table.is_bits() { Sizes::bits() } else { Sizes::registers() };
    let (extent, _, asked) = run_with(region, sizes, device);
    (extent, asked)
}

/// A device that answers a read where all of its addresses are there.
fn has(ranges: &[RangeInclusive<u16>]) -> impl Fn(u16, u16) -> Option<Refusal> {
    move |first, count| {
        let is_there = |at: u16| ranges.iter().any(|range| range.contains(&at));
        (!(0..count).all(|offset| is_there(first + offset))).then_some(MISSING)
    }
}

#[test]
fn a_table_that_can_all_be_read_takes_as_few_requests_as_can_be() {
    let (extent, asked) = run(region(Table::Holding, 0, 999), |_, _| None);
    assert_eq!(extent.ranges(), [(0, 999)]);
    // A pair, and one alone, tell that one register can be read; then come the longest blocks.
    assert_eq!(asked.get(..3).unwrap(), [(0, 124), (0, 1), (124, 125)]);
    assert_eq!(asked.len(), 9 + 1);
    let (extent, asked) = run(region(Table::Coil, 0, 9999), |_, _| None);
    assert_eq!((extent.ranges(), asked.len()), (vec![(0, 9999)], 5));
    assert_eq!(asked.first(), Some(&(0, 2000)));
}

#[test]
fn the_last_address_is_no_edge() {
    let (extent, _) = run(region(Table::Input, 65_000, 65_535), |_, _| None);
    assert_eq!(extent.ranges(), [(65_000, 65_535)]);
    let (extent, _) = run(region(Table::Input, 65_535, 65_535), has(&[]));
    assert_eq!((extent.ranges(), extent.state), (vec![], State::Done));
}

#[test]
fn ranges_with_holes_between_them_are_found_to_the_address() {
    let ranges = [3..=3, 10..=11, 40..=99, 101..=350, 700..=999];
    for table in [Table::Holding, Table::Input, Table::Coil, Table::Discrete] {
        let (extent, asked) = run(region(table, 0, 999), has(&ranges));
        let expected: Vec<_> = ranges.iter().map(|range| (*range.start(), *range.end())).collect();
        assert_eq!(extent.ranges(), expected, "{table:?}");
        assert_eq!(extent.values.get(&101), Some(&101));
        assert_eq!((extent.cap, extent.in_pairs), (None, false));
        assert!(extent.seams.is_empty(), "{:?}", extent.seams);
        // One request for each address that is not there, and a few for each edge.
        let missing = 1000 - extent.values.len();
        assert!(asked.len() < missing + 12 * (2 * ranges.len() + 1), "{} for {missing}", asked.len());
    }
}

#[test]
fn each_address_that_is_called_unreadable_was_asked_for_itself() {
    let (extent, asked) = run(region(Table::Coil, 0, 99), has(&[20..=29]));
    for address in (0..=99).filter(|address| !extent.values.contains_key(address)) {
        assert!(asked.contains(&(address, 1)), "{address}");
    }
}

#[test]
fn an_empty_table_of_registers_is_asked_by_pairs_and_one_by_one() {
    let (extent, asked) = run(region(Table::Holding, 0, 99), has(&[]));
    assert_eq!((extent.ranges(), extent.state), (vec![], State::Done));
    // Six halvings from 100 to a pair; then a pair and both of its registers, each time.
    assert_eq!(asked.len(), 5 + 150);
    assert_eq!(extent.refusals.get(&MISSING), Some(&155));
}

#[test]
fn a_function_that_the_unit_lacks_costs_one_request() {
    let lacks = |_: u16, _: u16| Some(Refusal::Exception(1));
    let (extent, asked) = run(region(Table::Discrete, 0, 999), lacks);
    assert_eq!((extent.state, asked.len()), (State::Unsupported, 1));
    // Behind something that was answered it is about addresses.
    let odd = |first: u16, _: u16| (first >= 900).then_some(Refusal::Exception(1));
    let (extent, _) = run(region(Table::Holding, 776, 999), |first, count| odd(first + count - 1, 0));
    assert_eq!((extent.state, extent.ranges()), (State::Done, vec![(776, 899)]));
}

#[test]
fn a_cap_is_found_to_the_register_on_the_way() {
    for why in [VALUE, MISSING, Refusal::Silent, Refusal::Exception(4)] {
        for cap in [1_u16, 2, 16, 20, 31, 32, 60, 64, 100, 123, 124] {
            let device = move |_: u16, count: u16| (count > cap).then_some(why);
            let (extent, asked) = run(region(Table::Holding, 0, 1999), device);
            assert_eq!(extent.ranges(), [(0, 1999)], "{cap}, {why:?}");
            assert_eq!(extent.cap, Some(Cap { answered: cap, refused: cap + 1 }), "{why:?}");
            assert!(extent.seams.is_empty());
            let fewest = usize::from(2000_u16.div_ceil(cap));
            assert!(asked.len() <= fewest + 90, "{} for {fewest}: {cap}, {why:?}", asked.len());
        }
    }
}

#[test]
fn a_cap_of_bits_is_found_as_well() {
    let (extent, _) = run(region(Table::Coil, 0, 9999), |_, count| (count > 512).then_some(VALUE));
    assert_eq!(extent.cap, Some(Cap { answered: 512, refused: 513 }));
}

#[test]
fn a_cap_holds_for_the_next_table_of_the_kind() {
    let device = |_: u16, count: u16| (count > 32).then_some(VALUE);
    let (_, sizes, _) = run_with(region(Table::Holding, 0, 999), Sizes::registers(), device);
    let (extent, _, asked) = run_with(region(Table::Input, 0, 999), sizes, device);
    assert_eq!(extent.cap.map(|cap| cap.answered), Some(32));
    assert_eq!(asked.len(), 1000_usize.div_ceil(32));
}

#[test]
fn exception_3_that_speaks_of_addresses_makes_no_cap() {
    let ranges = [0..=9, 20..=299];
    let missing = has(&ranges);
    let device = |first: u16, count: u16| missing(first, count).map(|_| VALUE);
    let (extent, _) = run(region(Table::Holding, 0, 399), device);
    assert_eq!((extent.ranges(), extent.cap), (vec![(0, 9), (20, 299)], None));
}

#[test]
fn a_cap_and_holes_together() {
    let missing = has(&[5..=90, 100..=500]);
    let device = |first: u16, count: u16| if count > 30 { Some(VALUE) } else { missing(first, count) };
    let (extent, _) = run(region(Table::Input, 0, 599), device);
    assert_eq!(extent.ranges(), [(5, 90), (100, 500)]);
    assert_eq!(extent.cap, Some(Cap { answered: 30, refused: 31 }));
}

/// Meters of 32-bit values, which refuse half a value.
#[test]
fn registers_that_are_read_in_pairs_only() {
    let missing = has(&[0..=9, 30..=41, 70..=77]);
    let device = |first: u16, count: u16| {
        if first % 2 == 1 || count % 2 == 1 { Some(VALUE) } else { missing(first, count) }
    };
    let (extent, asked) = run(region(Table::Input, 0, 199), device);
    assert_eq!(extent.ranges(), [(0, 9), (30, 41), (70, 77)]);
    assert!(extent.in_pairs);
    assert_eq!(asked.iter().filter(|(_, count)| *count == 1).count(), 1, "one test");
    assert!(asked.len() < 85 + 50, "{}", asked.len());
}

/// A device that refuses what crosses from one of its groups into another.
#[test]
fn a_boundary_that_no_read_may_cross_is_no_cap() {
    let device = |first: u16, count: u16| (first < 130 && first + count > 130).then_some(MISSING);
    let (extent, _) = run(region(Table::Holding, 0, 499), device);
    assert_eq!((extent.ranges(), extent.cap), (vec![(0, 499)], None));
    let [seam] = extent.seams.as_slice() else { panic!("{:?}", extent.seams) };
    assert!(seam.first < 130 && seam.last >= 130, "{seam:?}");
}

#[test]
fn what_is_found_before_the_end_says_where_it_ended() {
    let mut cover = Cover::new(region(Table::Holding, 0, 999), Sizes::registers());
    cover.answered(&cells(0, 124));
    let (extent, _) = cover.found();
    assert_eq!((extent.ranges(), extent.state), (vec![(0, 123)], State::Open(124)));
    assert_eq!(cover.unknown(), 876);
}

#[test]
fn zeros_everywhere_are_noticed() {
    let mut cover = Cover::new(region(Table::Coil, 0, 99), Sizes::bits());
    cover.answered(&[0; 100]);
    assert!(cover.found().0.is_blank());
    let mut cover = Cover::new(region(Table::Coil, 0, 99), Sizes::bits());
    let mut bits = [0; 100];
    if let Some(last) = bits.last_mut() {
        *last = 1;
    }
    cover.answered(&bits);
    assert!(!cover.found().0.is_blank());
}

proptest! {
    #[test]
    fn whatever_can_be_read_is_found(
        there in proptest::collection::btree_set(0_u16..300, 0..300),
        first in 0_u16..20,
        bits in any::<bool>(),
        cap in prop_oneof![Just(2000_u16), 1_u16..130],
        code in prop_oneof![Just(2_u8), Just(3), Just(4)],
    ) {
        let device = |at: u16, count: u16| {
            let missing = count > cap || !(at..at + count).all(|address| there.contains(&address));
            missing.then_some(Refusal::Exception(code))
        };
        let table = if bits { Table::Coil } else { Table::Holding };
        let (extent, asked) = run(region(table, first, 299), device);
        let expected: BTreeSet<u16> = there.range(first..).copied().collect();
        let found: BTreeSet<u16> = extent.values.keys().copied().collect();
        prop_assert_eq!(found, expected);
        prop_assert!(extent.values.iter().all(|(address, value)| address == value));
        prop_assert!(asked.len() < 1000);
        // A hole is never taken for a cap, and a cap never for another.
        prop_assert!(
            extent.cap.is_none_or(|found| cap < 2000 && found.answered <= cap && cap < found.refused),
            "{:?}",
            extent.cap
        );
    }
}
