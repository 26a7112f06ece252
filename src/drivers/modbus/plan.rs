//! Which requests read which tags: pure, the same for the same tags in any order.
//!
//! Must not know sockets, time or what the registers mean.

mod limits;
#[cfg(test)]
mod tests;

use std::{cmp::Reverse, time::Duration};

use limits::Limits;

use crate::{
    model::TagId,
    profile::modbus::{Reads, Region, Table},
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
    /// The tags in it, and how far behind `start` each begins; of those that begin together the longest first.
    pub tags: Vec<(TagId, u16)>,
}

/// Classes in the order of units and scans, and what cannot be read at all, in the order of tags.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    pub classes: Vec<Class>,
    pub impossible: Vec<(TagId, Why)>,
}

/// Why no request can read a tag; where several reasons hold, the first of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    #[error("it takes no register or bit at all")]
    Empty,
    #[error("it ends past address 65535, the last that there is")]
    PastEnd,
    #[error(
        "it takes more than the {most} {} that one request to its device may read",
        if .table.is_bits() { "bits" } else { "registers" }
    )]
    TooLong { table: Table, most: u16 },
    #[error("it overlaps a region that is forbidden to read")]
    Forbidden,
    #[error("it lies across an edge of a group, and no request may cross that")]
    Groups,
}

/// Plans the requests for `needs`: as few as can be, and of so many those that read the fewest cells.
///
/// `reads[unit]` is what one request of that unit may span; a unit without an entry has the defaults.
#[must_use]
pub fn plan(needs: &[Need], reads: &[Reads]) -> Plan {
    let usual = Reads::default();
    let mut needs = needs.to_vec();
    needs.sort_unstable_by_key(|need| {
        (need.unit, need.scan, need.table, need.address, Reverse(need.count), need.tag)
    });
    let mut plan = Plan::default();
    let is_together =
        |one: &Need, next: &Need| (one.unit, one.scan, one.table) == (next.unit, next.scan, next.table);
    for together in needs.chunk_by(is_together) {
        let Some(&Need { unit, scan, table, .. }) = together.first() else { continue };
        let limits = Limits::new(reads.get(unit).unwrap_or(&usual), table);
        let planned = limits.requests(together, &mut plan.impossible);
        if planned.is_empty() {
            continue;
        }
        match plan.classes.last_mut().filter(|class| (class.unit, class.scan) == (unit, scan)) {
            Some(class) => class.reads.extend(planned),
            None => plan.classes.push(Class { unit, scan, reads: planned }),
        }
    }
    plan.impossible.sort_unstable_by_key(|(tag, _)| *tag);
    plan
}

impl Read {
    /// Two requests for the halves of its tags, by number of tags; `None` where all tags are the very same cells.
    ///
    /// Neither half reads what lay between the two. `lengths` tells how many cells a tag has.
    pub fn halves(&self, lengths: impl Fn(TagId) -> u16) -> Option<(Self, Self)> {
        let mut tags: Vec<_> =
            self.tags.iter().map(|&(tag, offset)| (offset, Reverse(lengths(tag)), tag)).collect();
        tags.sort_unstable();
        let many = tags.len();
        let is_edge = |at: &usize| match tags.get(at - 1..=*at) {
            Some([(offset, length, _), (next, next_length, _)]) => (offset, length) != (next, next_length),
            _ => false,
        };
        let middle = (1..many).filter(is_edge).min_by_key(|at| (2 * at).abs_diff(many))?;
        let (low, high) = tags.split_at(middle);
        Some((self.part(low)?, self.part(high)?))
    }

    /// First and last address.
    #[must_use]
    pub fn region(&self) -> Region {
        let last = self.start.saturating_add(self.count.saturating_sub(1));
        Region { table: self.table, first: self.start, last }
    }

    /// What lies between this request and one behind it, and is read by neither; `None` where nothing does.
    ///
    /// Where a request is refused and both its halves are not, the refused cells are among these.
    #[must_use]
    pub fn gap(&self, behind: &Self) -> Option<Region> {
        let first = self.region().last.checked_add(1)?;
        let last = behind.start.checked_sub(1)?;
        (self.table == behind.table && first <= last).then_some(Region { table: self.table, first, last })
    }

    /// The request for some of the tags: offset, length and tag, in this order.
    fn part(&self, tags: &[(u16, Reverse<u16>, TagId)]) -> Option<Self> {
        let skipped = tags.iter().map(|(offset, ..)| *offset).min()?;
        let end = tags.iter().map(|(offset, Reverse(length), _)| offset.saturating_add(*length)).max()?;
        Some(Self {
            table: self.table,
            start: self.start.saturating_add(skipped),
            count: end - skipped,
            tags: tags.iter().map(|(offset, _, tag)| (*tag, offset - skipped)).collect(),
        })
    }
}
