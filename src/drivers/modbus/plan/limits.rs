//! What one request may span in one table of one unit, and the best requests within that.

use std::{collections::VecDeque, ops::Range};

use super::{Need, Read, Why};
use crate::{
    codec::modbus::{READ_BITS, READ_REGISTERS},
    model::TagId,
    profile::modbus::{Reads, Region, Table},
};

/// The rules of one table, ready to be asked.
#[derive(Debug)]
pub(super) struct Limits {
    table: Table,
    /// Most cells in a request.
    most: u16,
    /// Most cells between two tags.
    gap: u16,
    one_tag: bool,
    /// First and last of what must not be read, in the order of the first; the last is the highest so far.
    forbidden: Vec<(u16, u16)>,
    /// Addresses at which a group or a forbidden region begins, or has just ended, in order.
    edges: Vec<u16>,
}

/// Cells that are read by one request, whole, and which of the needs lie in them.
#[derive(Debug)]
struct Field {
    first: u16,
    last: u16,
    /// How many edges lie at or below it; fields of different zones never share a request.
    zone: usize,
    needs: Range<usize>,
}

/// A field at which a request may begin, and the cost of all requests before it.
#[derive(Debug, Clone, Copy)]
struct Start {
    field: usize,
    first: u16,
    /// Requests so far, then cells so far less `first`: what remains to be added is the same for all starts.
    cost: (usize, i64),
}

impl Limits {
    pub(super) fn new(reads: &Reads, table: Table) -> Self {
        let (most, gap) = if table.is_bits() {
            (reads.max_bits.min(READ_BITS), reads.max_gap.saturating_mul(16))
        } else {
            (reads.max_registers.min(READ_REGISTERS), reads.max_gap)
        };
        let here = |region: &&Region| region.table == table && region.first <= region.last;
        let mut forbidden: Vec<_> =
            reads.forbidden.iter().filter(here).map(|region| (region.first, region.last)).collect();
        forbidden.sort_unstable();
        let mut highest = 0;
        for (_, last) in &mut forbidden {
            highest = highest.max(*last);
            *last = highest;
        }
        let mut edges: Vec<_> = reads
            .groups
            .iter()
            .chain(&reads.forbidden)
            .filter(here)
            .flat_map(|region| [Some(region.first), region.last.checked_add(1)])
            .flatten()
            .collect();
        edges.sort_unstable();
        Self { table, most, gap, one_tag: reads.one_tag, forbidden, edges }
    }

    /// The requests for `needs`, which are of this table, in the order of address, length (the longest first) and tag.
    pub(super) fn requests(&self, needs: &[Need], impossible: &mut Vec<(TagId, Why)>) -> Vec<Read> {
        let mut possible: Vec<(TagId, u16)> = Vec::with_capacity(needs.len());
        let mut fields: Vec<Field> = Vec::new();
        for need in needs {
            let at = possible.len();
            match self.field(need, at) {
                Ok(field) => {
                    possible.push((need.tag, need.address));
                    match fields.last_mut().filter(|before| self.is_within(&field, before)) {
                        Some(before) => before.needs.end = at + 1,
                        None => fields.push(field),
                    }
                }
                Err(why) => impossible.push((need.tag, why)),
            }
        }
        self.runs(&fields).into_iter().filter_map(|run| self.read(fields.get(run)?, &possible)).collect()
    }

    fn field(&self, need: &Need, at: usize) -> Result<Field, Why> {
        let first = need.address;
        let ahead = need.count.checked_sub(1).ok_or(Why::Empty)?;
        let last = first.checked_add(ahead).ok_or(Why::PastEnd)?;
        if need.count > self.most {
            return Err(Why::TooLong { table: self.table, most: self.most });
        }
        if self.is_forbidden(first, last) {
            return Err(Why::Forbidden);
        }
        let zone = self.zone(first);
        if zone != self.zone(last) {
            return Err(Why::Groups);
        }
        Ok(Field { first, last, zone, needs: at..at + 1 })
    }

    fn is_forbidden(&self, first: u16, last: u16) -> bool {
        let begun = self.forbidden.partition_point(|(begin, _)| *begin <= last);
        self.forbidden.get(..begun).and_then(<[_]>::last).is_some_and(|(_, end)| *end >= first)
    }

    fn zone(&self, address: u16) -> usize {
        self.edges.partition_point(|edge| *edge <= address)
    }

    /// Whether whoever reads `before`, the field with the highest end so far, has `field` as well.
    fn is_within(&self, field: &Field, before: &Field) -> bool {
        if self.one_tag {
            (field.first, field.last) == (before.first, before.last)
        } else {
            field.last <= before.last
        }
    }

    /// Whether no request may hold both of two neighbours.
    fn is_apart(&self, before: &Field, field: &Field) -> bool {
        let gap = field.first.saturating_sub(before.last).saturating_sub(1);
        self.one_tag || before.zone != field.zone || gap > self.gap
    }

    /// Cuts `fields`, of which each begins and ends behind the one before it, into as few runs as can be, and of so many
    /// those with the fewest cells.
    ///
    /// The cheapest start for a run that ends at a field is the minimum of a window that only moves forward, so this is
    /// linear. Of equal starts the last one is taken: what comes first is filled first.
    fn runs(&self, fields: &[Field]) -> Vec<Range<usize>> {
        let mut starts: VecDeque<Start> = VecDeque::new();
        let mut chosen = Vec::with_capacity(fields.len());
        let mut cost = (0, 0);
        let mut before = None;
        for (at, field) in fields.iter().enumerate() {
            if before.replace(field).is_some_and(|before| self.is_apart(before, field)) {
                starts.clear();
            }
            let here =
                Start { field: at, first: field.first, cost: (cost.0, cost.1 - i64::from(field.first)) };
            while starts.back().is_some_and(|start| start.cost >= here.cost) {
                starts.pop_back();
            }
            starts.push_back(here);
            while starts.front().is_some_and(|start| field.last - start.first >= self.most) {
                starts.pop_front();
            }
            let best = starts.front().copied().unwrap_or(here);
            cost = (best.cost.0 + 1, best.cost.1 + i64::from(field.last) + 1);
            chosen.push(best.field);
        }
        let mut runs = Vec::new();
        let mut end = fields.len();
        while let Some(&start) = end.checked_sub(1).and_then(|last| chosen.get(last)) {
            runs.push(start..end);
            end = start;
        }
        runs.reverse();
        runs
    }

    fn read(&self, run: &[Field], possible: &[(TagId, u16)]) -> Option<Read> {
        let (first, last) = (run.first()?, run.last()?);
        let tags = possible.get(first.needs.start..last.needs.end)?;
        Some(Read {
            table: self.table,
            start: first.first,
            count: last.last - first.first + 1,
            tags: tags.iter().map(|&(tag, address)| (tag, address - first.first)).collect(),
        })
    }
}
