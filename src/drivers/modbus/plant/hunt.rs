//! How requests are parted until what a device does not answer stands alone, and planned anew around that.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use super::{Block, Class, Entry, Parting, Parts, Plant, plan};
use crate::model::TagId;

impl Plant {
    /// Puts two requests in the place of a refused one.
    pub(in super::super) fn part(&mut self, class: usize, block: &Arc<Block>) -> Parts {
        if !self.classes.get(class).is_some_and(|own| own.blocks.iter().any(|own| Arc::ptr_eq(own, block))) {
            return Parts::Gone;
        }
        let length = |tag: TagId| self.find(tag).and_then(|at| self.entries.get(at)).map_or(1, Entry::count);
        let Some((one, two)) = block.read.halves(length) else { return Parts::One };
        let parting = Arc::new(Parting { gap: one.gap(&two), answered: AtomicU32::new(0) });
        let half = |(read, bit)| {
            let parting = Some((parting.clone(), bit));
            Arc::new(Block { parting, ..self.block(block.unit, read) })
        };
        let halves = [(one, 1), (two, 2)].map(half);
        let Some(class) = self.classes.get_mut(class) else { return Parts::Gone };
        let Some(at) = class.blocks.iter().position(|own| Arc::ptr_eq(own, block)) else {
            return Parts::Gone;
        };
        class.blocks.splice(at..=at, halves.iter().cloned());
        Parts::Halves(halves)
    }

    /// A request was answered. Where that was the second half of one that was not, what lies between them is to blame.
    pub(in super::super) fn answered(&mut self, block: &Block) {
        let Some((parting, bit)) = &block.parting else { return };
        let before = parting.answered.fetch_or(*bit, Ordering::Relaxed);
        if before != 3 && before | bit == 3 {
            self.gaps.extend(parting.gap.map(|gap| (block.unit, gap)));
        }
    }

    /// Both halves of a refused request are to be answered before its class is planned anew.
    pub(in super::super) fn begin_hunt(&mut self, class: usize) {
        if let Some(class) = self.classes.get_mut(class) {
            class.halves += 2;
        }
    }

    /// Puts two requests in the place of one that nothing answers; they are asked in the rounds. Of a unit one request is
    /// so parted at a time.
    pub(in super::super) fn part_silent(&mut self, class: usize, block: &Arc<Block>) -> Parts {
        let is_other = |own: &Class| own.unit == block.unit && (own.halves > 0 || own.is_hunted());
        if !block.is_open_half() && self.classes.iter().any(is_other) {
            return Parts::Gone;
        }
        self.part(class, block)
    }

    /// Half of a request that nothing answered is dealt with: whether the hunt is over with it, and found something.
    pub(in super::super) fn is_hunted_out(&mut self, class: usize) -> bool {
        let is_over = |class: &&mut Class| class.halves == 0 && !class.is_hunted();
        let Some(class) = self.classes.get_mut(class).filter(is_over) else { return false };
        let gaps = self.gaps.iter().filter(|(unit, _)| *unit == class.unit);
        let found = self.holes.regions(class.unit).count() + gaps.count();
        let is_more = found > class.found;
        class.replanned &= !is_more;
        class.found = found;
        is_more
    }

    /// The hunt for what a unit refuses is broken off.
    pub(in super::super) fn end_hunt(&mut self, unit: usize) {
        for class in self.classes.iter_mut().filter(|class| class.unit == unit) {
            class.halves = 0;
        }
    }

    /// A half of a refused request was answered: whether the hunt for what the device refuses is over with it.
    pub(in super::super) fn parted(&mut self, class: usize) -> bool {
        let Some(class) = self.classes.get_mut(class).filter(|class| class.halves > 0) else { return false };
        class.halves -= 1;
        class.halves == 0 && !(self.holes.is_empty() && self.gaps.is_empty())
    }

    /// Plans the requests of a class anew, as few as can be around its holes, where that was not tried yet.
    pub(in super::super) fn replan(&mut self, class: usize) {
        let Some((unit, scan)) =
            self.classes.get(class).filter(|own| !own.replanned).map(|own| (own.unit, own.scan))
        else {
            return;
        };
        let Some(mut reads) = self.units.get(unit).map(|member| member.reads.clone()) else { return };
        let blocks = self.classes.get(class).map(|own| own.blocks.as_slice()).unwrap_or_default();
        let items = blocks.iter().flat_map(|block| &block.items);
        let entries = items.filter_map(|item| self.entries.get(item.entry));
        let mut needs: Vec<_> = entries.map(|entry| entry.need(scan)).collect();
        reads.forbidden.extend(self.holes.avoid(unit, &needs));
        reads.forbidden.extend(self.gaps.iter().filter(|(own, _)| *own == unit).map(|(_, gap)| *gap));
        for need in &mut needs {
            need.unit = 0;
        }
        let planned = plan(&needs, &[reads]);
        if planned.impossible.is_empty() {
            let reads = planned.classes.into_iter().flat_map(|class| class.reads).collect();
            let blocks = self.blocks(unit, reads);
            if let Some(class) = self.classes.get_mut(class) {
                (class.blocks, class.replanned) = (blocks, true);
            }
        }
    }
}
