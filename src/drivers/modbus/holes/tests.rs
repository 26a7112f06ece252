#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;

use super::*;
use crate::{
    drivers::modbus::plan::{Read, plan},
    model::TagId,
    profile::modbus::Reads,
};

const MINUTE: Duration = Duration::from_secs(60);

fn holding(first: u16, last: u16) -> Region {
    Region { table: Table::Holding, first, last }
}

fn need(number: usize, scan: u64, address: u16, count: u16) -> Need {
    let scan = Duration::from_secs(scan);
    Need { tag: TagId(u32::try_from(number).unwrap()), unit: 0, scan, table: Table::Holding, address, count }
}

#[tokio::test(start_paused = true)]
async fn pauses_double_from_five_minutes_to_an_hour() {
    let mut holes = Holes::default();
    let mut pauses = Vec::new();
    for _ in 0..6 {
        let now = Instant::now();
        holes.insert(0, holding(1, 2), now);
        let (due, ..) = holes.due(|_| true).unwrap();
        pauses.push((due - now).as_secs() / 60);
        tokio::time::advance(due - now).await;
    }
    assert_eq!(pauses, [5, 10, 20, 40, 60, 60]);
    assert_eq!(holes.regions(0).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_before_its_time_changes_nothing() {
    let mut holes = Holes::default();
    let now = Instant::now();
    holes.insert(0, holding(1, 2), now);
    tokio::time::advance(Duration::from_millis(299_999)).await;
    holes.insert(0, holding(1, 2), Instant::now());
    assert_eq!(holes.due(|_| true), Some((now + MINUTE * 5, 0, holding(1, 2))));
    tokio::time::advance(Duration::from_millis(1)).await;
    holes.insert(0, holding(1, 2), Instant::now());
    assert_eq!(holes.due(|_| true), Some((now + MINUTE * 15, 0, holding(1, 2))));
}

#[tokio::test(start_paused = true)]
async fn the_hole_that_waits_longest_is_due_first() {
    let mut holes = Holes::default();
    let now = Instant::now();
    holes.insert(1, holding(1, 2), now + MINUTE);
    holes.insert(0, holding(7, 7), now + MINUTE * 2);
    holes.insert(2, holding(9, 9), now);
    assert_eq!(holes.due(|_| true), Some((now + MINUTE * 5, 2, holding(9, 9))));
    holes.insert(2, holding(9, 9), now + MINUTE * 5);
    assert_eq!(holes.due(|_| true), Some((now + MINUTE * 6, 1, holding(1, 2))));
    assert!(holes.remove(1, holding(1, 2)));
    assert_eq!(holes.due(|_| true), Some((now + MINUTE * 7, 0, holding(7, 7))));
    assert!(holes.remove(0, holding(7, 7)));
    assert_eq!(holes.due(|_| true), Some((now + MINUTE * 15, 2, holding(9, 9))));
}

#[tokio::test(start_paused = true)]
async fn what_answered_is_forgotten_and_begins_anew() {
    let mut holes = Holes::default();
    let now = Instant::now();
    holes.insert(0, holding(1, 2), now);
    holes.insert(0, holding(1, 2), now + MINUTE * 5);
    assert!(holes.remove(0, holding(1, 2)));
    assert!(holes.is_empty() && holes.due(|_| true).is_none());
    assert!(!holes.remove(0, holding(1, 2)));
    holes.insert(0, holding(1, 2), now + MINUTE * 6);
    assert_eq!(holes.due(|_| true), Some((now + MINUTE * 11, 0, holding(1, 2))));
}

#[test]
fn a_hole_is_that_region_of_that_unit_and_no_other() {
    let mut holes = Holes::default();
    let now = Instant::now();
    holes.insert(1, holding(10, 12), now);
    holes.insert(1, Region { table: Table::Coil, first: 65_535, last: 65_535 }, now);
    holes.insert(1, holding(0, 65_535), now);
    holes.insert(0, holding(4, 4), now);
    holes.insert(2, holding(5, 5), now);
    assert!(holes.is_hole(1, Table::Holding, 10, 12));
    assert!(!holes.is_hole(1, Table::Holding, 10, 11) && !holes.is_hole(1, Table::Holding, 11, 12));
    assert!(!holes.is_hole(1, Table::Input, 10, 12) && !holes.is_hole(0, Table::Holding, 10, 12));
    let coil = Region { table: Table::Coil, first: 65_535, last: 65_535 };
    assert_eq!(holes.regions(1).collect::<Vec<_>>(), [coil, holding(0, 65_535), holding(10, 12)]);
    assert_eq!((holes.regions(0).count(), holes.regions(3).count()), (1, 0));
}

#[test]
fn requests_go_around_holes_but_not_around_tags_that_share_their_cells() {
    let mut holes = Holes::default();
    let now = Instant::now();
    holes.insert(0, holding(10, 19), now);
    let refused = need(0, 1, 10, 10);
    assert_eq!(holes.avoid(0, &[]), [holding(10, 19)]);
    assert_eq!(holes.avoid(0, &[refused]), [holding(10, 19)]);
    assert_eq!(holes.avoid(1, &[refused]), []);
    let inside = [refused, need(1, 1, 13, 2), need(2, 2, 14, 2), need(3, 1, 18, 4)];
    assert_eq!(holes.avoid(0, &inside), [holding(10, 12), holding(16, 17)]);
    assert_eq!(holes.avoid(0, &[need(1, 1, 8, 3), need(2, 1, 20, 1)]), [holding(11, 19)]);
    assert_eq!(holes.avoid(0, &[need(1, 1, 5, 30), need(2, 1, 6, 1)]), []);
    let elsewhere = Need { table: Table::Input, ..need(1, 1, 12, 1) };
    let neighbour = Need { unit: 1, ..need(2, 1, 12, 1) };
    assert_eq!(holes.avoid(0, &[elsewhere, neighbour, need(3, 1, 12, 0)]), [holding(10, 19)]);
    holes.insert(0, holding(65_530, 65_535), now);
    assert_eq!(holes.avoid(0, &[need(1, 1, 65_535, 1)]), [holding(10, 19), holding(65_530, 65_534)]);
}

#[test]
fn tags_of_another_table_leave_holes_whole() {
    let mut holes = Holes::default();
    let now = Instant::now();
    let input = |first, last| Region { table: Table::Input, first, last };
    holes.insert(0, input(10, 19), now);
    holes.insert(0, holding(10, 19), now);
    let around = Need { table: Table::Input, ..need(0, 1, 8, 5) };
    let inside = need(1, 1, 12, 1);
    assert_eq!(holes.avoid(0, &[around]), [input(13, 19), holding(10, 19)]);
    assert_eq!(holes.avoid(0, &[inside]), [input(10, 19), holding(10, 11), holding(13, 19)]);
    assert_eq!(holes.avoid(0, &[around, inside]), [input(13, 19), holding(10, 11), holding(13, 19)]);
}

/// A device that refuses every request with one of `bad` in it.
struct Device<'a> {
    bad: &'a [u16],
    asked: usize,
    refused: usize,
}

impl Device<'_> {
    fn answers(&mut self, read: &Read) -> bool {
        let Region { first, last, .. } = read.region();
        let refused = self.bad.iter().any(|address| (first..=last).contains(address));
        self.asked += 1;
        self.refused += usize::from(refused);
        !refused
    }

    /// Reads by halves what is refused, and has `holes` know what is to blame; whether all was answered at once.
    fn learn(&mut self, read: &Read, needs: &[Need], holes: &mut Holes) -> bool {
        if self.answers(read) {
            return true;
        }
        let length = |tag| needs.iter().find(|need| need.tag == tag).unwrap().count;
        let hole = match read.halves(length) {
            None => Some(read.region()),
            Some((low, high)) => {
                let answered = [&low, &high].map(|half| self.learn(half, needs, holes));
                low.gap(&high).filter(|_| answered == [true, true])
            }
        };
        if let Some(hole) = hole {
            holes.insert(0, hole, Instant::now());
        }
        false
    }
}

fn is_hole(holes: &Holes, need: &Need) -> bool {
    holes.is_hole(0, need.table, need.address, need.address + need.count - 1)
}

/// One round of all requests; how many were refused.
fn round(device: &mut Device, needs: &[Need], holes: &mut Holes) -> usize {
    let reads = Reads { forbidden: holes.avoid(0, needs), ..Reads::default() };
    let left: Vec<_> = needs.iter().filter(|need| !is_hole(holes, need)).copied().collect();
    let made = plan(&left, &[reads]);
    assert_eq!(made.impossible, []);
    let before = device.refused;
    for read in made.classes.iter().flat_map(|class| &class.reads) {
        device.learn(read, &left, holes);
    }
    device.refused - before
}

#[test]
fn one_bad_register_is_found_by_halves() {
    let needs: Vec<_> = (0..64).map(|at| need(usize::from(at), 1, at, 1)).collect();
    let mut device = Device { bad: &[37], asked: 0, refused: 0 };
    let mut holes = Holes::default();
    assert_eq!(round(&mut device, &needs, &mut holes), 7);
    assert_eq!((device.asked, holes.regions(0).collect::<Vec<_>>()), (13, vec![holding(37, 37)]));
    assert_eq!((round(&mut device, &needs, &mut holes), device.asked), (0, 15));
}

#[test]
fn a_bad_register_between_tags_is_gone_around() {
    let needs = [need(0, 1, 0, 2), need(1, 1, 4, 2), need(2, 1, 6, 2), need(3, 1, 8, 2)];
    let mut device = Device { bad: &[3], asked: 0, refused: 0 };
    let mut holes = Holes::default();
    assert_eq!(round(&mut device, &needs, &mut holes), 2);
    assert_eq!(holes.regions(0).collect::<Vec<_>>(), [holding(2, 3)]);
    let asked = device.asked;
    assert_eq!((round(&mut device, &needs, &mut holes), device.asked - asked), (0, 2));
}

proptest! {
    /// Each round in which something is refused adds a hole, so this ends, and then only bad tags are left out.
    #[test]
    fn what_is_learned_leaves_good_tags_good(
        tags in proptest::collection::vec((1_u64..3, 0_u16..120, 1_u16..8), 1..40),
        bad in proptest::collection::vec(0_u16..120, 0..6),
    ) {
        let needs: Vec<_> = tags
            .iter()
            .enumerate()
            .map(|(number, (scan, address, count))| need(number, *scan, *address, *count))
            .collect();
        let mut device = Device { bad: &bad, asked: 0, refused: 0 };
        let mut holes = Holes::default();
        let mut known = 0;
        while round(&mut device, &needs, &mut holes) > 0 {
            prop_assert!(holes.regions(0).count() > known, "a round was refused and nothing was learned");
            known = holes.regions(0).count();
        }
        for need in &needs {
            let is_bad = bad.iter().any(|bad| (need.address..need.address + need.count).contains(bad));
            prop_assert_eq!(is_hole(&holes, need), is_bad, "{:?}", need);
        }
    }
}
