//! Requests that are not asked in their rounds: those for holes, and those to closed tables.
//!
//! A table is closed where its unit said that it does not have the function to read it. Must not know when they are tried.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Block, Plant};
use crate::profile::modbus::{Region, Table};

impl Plant {
    /// Takes a request out of its rounds, for good or until it is [restored](Self::restore).
    pub(in super::super) fn set_aside(&mut self, class: usize, block: &Arc<Block>) {
        let Some(own) = self.classes.get_mut(class) else { return };
        let before = own.blocks.len();
        own.blocks.retain(|other| !Arc::ptr_eq(other, block));
        if own.blocks.len() < before {
            self.idle.push((class, block.clone()));
        }
    }

    /// Whether a unit that says that it does not have the function which `block` needs means its addresses alone: others of
    /// the table are asked, and this one was refused so before, alone or as a part of more, or is a hole.
    pub(in super::super) fn is_alone_refused(&self, block: &Arc<Block>) -> bool {
        let (unit, table, region) = (block.unit, block.read.table, block.region());
        let is_other = |other: &Arc<Block>| other.read.table == table && other.region() != region;
        let is_part = |blamed: &Region| blamed.first <= region.first && region.last <= blamed.last;
        self.classes.iter().any(|class| class.unit == unit && class.blocks.iter().any(is_other))
            && (self.blamed.get(&(unit, table)).is_some_and(is_part)
                || self.holes.is_hole(unit, table, region.first, region.last))
    }

    /// A unit does not have the function that `block` needs: every request to its table is taken out of its rounds, and one
    /// stands for all, another one each time; which ones are out since.
    pub(in super::super) fn close(&mut self, block: &Arc<Block>, now: Instant) -> Vec<Arc<Block>> {
        let (unit, table) = (block.unit, block.read.table);
        if !self.closed.insert((unit, table)) {
            self.stand_in(unit, table);
            return Vec::new();
        }
        self.blamed.insert((unit, table), block.region());
        let mut closed = Vec::new();
        self.holes.forget(unit, table);
        for (at, class) in self.classes.iter_mut().enumerate().filter(|(_, class)| class.unit == unit) {
            let (gone, stay) = class.blocks.drain(..).partition(|block| block.read.table == table);
            class.blocks = stay;
            self.idle.extend(gone.iter().map(|block: &Arc<Block>| (at, block.clone())));
            closed.extend(gone);
        }
        self.holes.close(unit, block.region(), now);
        self.stand_in(unit, table);
        closed
    }

    /// Has the next request to a closed table stand for it.
    fn stand_in(&mut self, unit: usize, table: Table) {
        let Some(hole) = self.holes.regions(unit).find(|region| region.table == table) else { return };
        let blocks = self.idle.iter().map(|(_, block)| block);
        let own = blocks.filter(|block| (block.unit, block.read.table) == (unit, table));
        let regions: Vec<_> = own.map(|block| block.region()).collect();
        let behind = regions.iter().skip_while(|region| **region != hole).find(|region| **region != hole);
        if let Some(next) = behind.or(regions.first()) {
            self.holes.replace(unit, hole, *next);
        }
    }

    /// A unit has the function that a table is read with after all; whether that is news.
    pub(in super::super) fn open(&mut self, unit: usize, table: Table) -> bool {
        if !self.closed.remove(&(unit, table)) {
            return false;
        }
        self.holes.forget(unit, table);
        self.restore(|block| (block.unit, block.read.table) == (unit, table));
        true
    }

    /// What was asked for is answered; whether it was a hole. The requests for it are put back, and where it was the unit's
    /// last one they may be planned anew.
    pub(in super::super) fn fill(&mut self, unit: usize, region: Region) -> bool {
        if self.holes.is_hole(unit, region.table, region.first, region.last) && self.open(unit, region.table)
        {
            return true;
        }
        if !self.holes.remove(unit, region) {
            return false;
        }
        self.restore(|block| block.unit == unit && block.region() == region);
        if self.holes.regions(unit).next().is_none() {
            let classes = self.classes.iter_mut().enumerate().filter(|(_, class)| class.unit == unit);
            let again: Vec<_> = classes
                .filter_map(|(at, class)| std::mem::take(&mut class.replanned).then_some(at))
                .collect();
            for class in again {
                self.replan(class);
            }
        }
        true
    }

    /// Puts the requests back that `which` says so of; those of holes are known to the holes.
    fn restore(&mut self, which: impl Fn(&Block) -> bool) {
        let (back, idle): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.idle).into_iter().partition(|(_, block)| which(block));
        self.idle = idle;
        for (class, block) in back {
            if let Some(class) = self.classes.get_mut(class) {
                class.blocks.push(block);
            }
        }
    }

    /// Puts the requests of a unit back that no hole is known for, and those to its closed tables.
    pub(in super::super) fn reopen(&mut self, unit: usize) {
        let classes = self.classes.iter().filter(|class| class.unit == unit);
        classes.flat_map(|class| &class.blocks).for_each(|block| block.forgive());
        for table in [Table::Coil, Table::Discrete, Table::Input, Table::Holding] {
            self.open(unit, table);
            self.blamed.remove(&(unit, table));
        }
        let holes: Vec<_> = self.holes.regions(unit).collect();
        self.restore(|block| block.unit == unit && !holes.contains(&block.region()));
    }

    /// The request for a hole, and its class.
    pub(in super::super) fn hole(&self, unit: usize, region: Region) -> Option<(usize, Arc<Block>)> {
        self.idle.iter().find(|(_, block)| block.unit == unit && block.region() == region).cloned()
    }

    /// Whether anything of a unit is asked in its rounds.
    pub(in super::super) fn is_polled(&self, unit: usize) -> bool {
        self.classes.iter().any(|class| class.unit == unit && !class.blocks.is_empty())
    }

    /// Whether something of a unit is asked in its rounds that is usually answered.
    pub(in super::super) fn is_sound(&self, unit: usize) -> bool {
        let classes = self.classes.iter().filter(|class| class.unit == unit);
        classes.flat_map(|class| &class.blocks).any(|block| block.is_sound())
    }
}
