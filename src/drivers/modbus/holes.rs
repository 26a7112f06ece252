//! What is learned of addresses that devices refuse to have read, and when to ask for them again.
//!
//! A hole is what a refused request spanned: one tag, or what lay between two of them. Not each of its cells need be
//! bad. Pure: must not know sockets or tags, and is told the time.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;

use super::plan::Need;
use crate::profile::modbus::{Region, Table};

/// First and longest pause before a hole is asked for again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(5 * 60), Duration::from_secs(60 * 60));
/// First pause where it stands for a whole table.
const CLOSED: Duration = Duration::from_secs(60);

/// All holes of the units of one connection.
#[derive(Debug, Default)]
pub(super) struct Holes {
    known: BTreeMap<Key, Hole>,
    /// The same holes, by when to ask for them.
    queue: BTreeSet<(Instant, Key)>,
}

/// Unit, table, first and last address.
type Key = (usize, Table, u16, u16);

#[derive(Debug, Clone, Copy)]
struct Hole {
    due: Instant,
    pause: Duration,
}

impl Holes {
    /// A device refused `region`, or is being asked for it again.
    ///
    /// It is to be asked again after a pause, which doubles each time that was in vain; a refusal before its time, as of
    /// a second request for the same cells, is none of these.
    pub(super) fn insert(&mut self, unit: usize, region: Region, now: Instant) {
        let key = key(unit, region);
        let hole = match self.known.get(&key) {
            Some(former) if now < former.due => return,
            Some(former) => Hole::new(now, former.pause.saturating_mul(2).min(PAUSES.1)),
            None => Hole::new(now, PAUSES.0),
        };
        if let Some(former) = self.known.insert(key, hole) {
            self.queue.remove(&(former.due, key));
        }
        self.queue.insert((hole.due, key));
    }

    /// A device does not have the function to read the table of `region`, which stands for all of it from now on.
    pub(super) fn close(&mut self, unit: usize, region: Region, now: Instant) {
        self.remove(unit, region);
        let (key, hole) = (key(unit, region), Hole::new(now, CLOSED));
        self.known.insert(key, hole);
        self.queue.insert((hole.due, key));
    }

    /// Another region is to be asked for in the place of a hole.
    pub(super) fn replace(&mut self, unit: usize, region: Region, other: Region) {
        if let Some(hole) = self.known.get(&key(unit, region)).copied() {
            self.remove(unit, region);
            self.remove(unit, other);
            let key = key(unit, other);
            self.known.insert(key, hole);
            self.queue.insert((hole.due, key));
        }
    }

    /// A device answered a read of `region`; whether that was a hole.
    pub(super) fn remove(&mut self, unit: usize, region: Region) -> bool {
        let key = key(unit, region);
        let former = self.known.remove(&key);
        former.is_some_and(|former| self.queue.remove(&(former.due, key)))
    }

    /// Nothing of a table of a unit is a hole any more.
    pub(super) fn forget(&mut self, unit: usize, table: Table) {
        let regions: Vec<_> = self.regions(unit).filter(|region| region.table == table).collect();
        for region in regions {
            self.remove(unit, region);
        }
    }

    /// Whether exactly the region from `first` to `last` is a hole.
    #[must_use]
    pub(super) fn is_hole(&self, unit: usize, table: Table, first: u16, last: u16) -> bool {
        self.known.contains_key(&(unit, table, first, last))
    }

    /// The holes of a unit, in the order of tables and addresses.
    pub(super) fn regions(&self, unit: usize) -> impl Iterator<Item = Region> {
        self.known
            .range((unit, Table::Coil, 0, 0)..=(unit, Table::Holding, u16::MAX, u16::MAX))
            .map(|(key, _)| region(*key))
    }

    /// What no request to the unit should span: the cells of its holes in which none of `needs` lies.
    ///
    /// A tag that is read well may share cells with one that is refused, as a register does with a text around it. Tags
    /// that are holes themselves do not count.
    #[must_use]
    pub(super) fn avoid(&self, unit: usize, needs: &[Need]) -> Vec<Region> {
        let mut wanted: Vec<(Table, u16, u16)> = needs
            .iter()
            .filter(|need| need.unit == unit && need.count > 0)
            .map(|need| (need.table, need.address, need.address.saturating_add(need.count - 1)))
            .filter(|&(table, first, last)| !self.is_hole(unit, table, first, last))
            .collect();
        wanted.sort_unstable();
        // What overlaps becomes one, so that the ends are in order as well.
        wanted.dedup_by(|next, before| {
            let overlaps = next.0 == before.0 && next.1 <= before.2;
            if overlaps {
                before.2 = before.2.max(next.2);
            }
            overlaps
        });
        self.regions(unit).flat_map(|hole| outside(hole, &wanted)).collect()
    }

    /// All holes of a unit are to be asked for now: it may be another device, or have a new program.
    pub(super) fn hurry(&mut self, unit: usize, now: Instant) {
        for (key, hole) in self.known.iter_mut().filter(|(key, _)| key.0 == unit) {
            self.queue.remove(&(hole.due, *key));
            hole.due = hole.due.min(now);
            self.queue.insert((hole.due, *key));
        }
    }

    /// No hole of a unit is asked for before its pause is over once more: the unit does not answer at all.
    pub(super) fn put_off(&mut self, unit: usize, now: Instant) {
        for (key, hole) in self.known.iter_mut().filter(|(key, _)| key.0 == unit) {
            self.queue.remove(&(hole.due, *key));
            hole.due = now + hole.pause;
            self.queue.insert((hole.due, *key));
        }
    }

    /// Which hole to ask for next, and when, of the units that may be asked.
    #[must_use]
    pub(super) fn due(&self, may: impl Fn(usize) -> bool) -> Option<(Instant, usize, Region)> {
        let next = self.queue.iter().find(|(_, key)| may(key.0));
        next.map(|(due, key)| (*due, key.0, region(*key)))
    }

    #[must_use]
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

impl Hole {
    fn new(now: Instant, pause: Duration) -> Self {
        Self { due: now + pause, pause }
    }
}

fn key(unit: usize, region: Region) -> Key {
    (unit, region.table, region.first, region.last)
}

fn region((_, table, first, last): Key) -> Region {
    Region { table, first, last }
}

/// The parts of `hole` outside `wanted`, which is in order and does not overlap.
fn outside(hole: Region, wanted: &[(Table, u16, u16)]) -> Vec<Region> {
    let Region { table, first, last } = hole;
    let begin = wanted.partition_point(|(of, _, high)| (*of, *high) < (table, first));
    let inside = wanted.iter().skip(begin).take_while(|(of, low, _)| *of == table && *low <= last);
    let mut parts = Vec::new();
    let mut next = Some(first);
    for (_, low, high) in inside {
        if let (Some(first), Some(last)) = (next, low.checked_sub(1))
            && first <= last
        {
            parts.push(Region { table, first, last });
        }
        next = high.checked_add(1);
    }
    parts.extend(next.filter(|first| *first <= last).map(|first| Region { table, first, last }));
    parts
}
