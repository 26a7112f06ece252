//! Which addresses of a table can be read: what to ask next, given what was answered.
//!
//! A read is refused where one of its addresses cannot be read, and does not tell which. Where most can be read, large
//! blocks and halving find the others with few requests; where most cannot, nothing beats asking each alone. So blocks
//! begin as large as can be, are halved where they are refused, begin small again behind an address that cannot be
//! read, and double with every answer. What is called unreadable was asked for itself.
//!
//! Three habits of devices are learned on the way. A block that was refused although each part of it is answered was too
//! long: the device has a cap, which the next blocks close in on. Exception 0x03 says so at once, until a block is
//! refused with it that is no longer than another that was answered. Meters of 32-bit values refuse half a value, so
//! pairs are asked for where nothing is known yet, and one register alone as soon as a pair is answered. Pure.

#[cfg(test)]
mod tests;

use super::{
    probe::Probe,
    survey::{Cap, Extent, Refusal, State},
};
use crate::{
    codec::modbus::{READ_BITS, READ_REGISTERS},
    profile::modbus::Region,
};

/// A unit does not have the function.
const ILLEGAL_FUNCTION: u8 = 1;
/// What devices are to answer to a read that is too long, and some answer to an address as well.
const ILLEGAL_VALUE: u8 = 3;

/// The search through one table of a unit.
#[derive(Debug)]
pub(super) struct Cover {
    extent: Extent,
    sizes: Sizes,
    /// The first address of which nothing is known.
    at: u32,
    /// Behind the last address.
    end: u32,
    /// Length to try where nothing speaks against it.
    size: u16,
    limit: Option<Limit>,
    /// Below this address registers are asked for one by one: the pair was refused.
    singly: u32,
    /// A register that was read in a block and is asked for alone.
    test: Option<u16>,
}

/// What is known of the lengths that a unit takes; holds for both tables of bits, and for both of registers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Longest that was answered.
    answered: u16,
    /// Shortest that was refused as such.
    refused: Option<u16>,
    /// Whether exception 0x03 seems to speak of the length.
    by_value: bool,
    unit: Atom,
}

/// The least that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Atom {
    Unknown,
    One,
    Pair,
}

/// A block that was refused, and begins where the search stands or before.
#[derive(Debug, Clone, Copy)]
struct Limit {
    first: u32,
    end: u32,
    count: u16,
    by_value: bool,
}

impl Sizes {
    pub(super) fn bits() -> Self {
        Self { answered: 0, refused: None, by_value: true, unit: Atom::One }
    }

    pub(super) fn registers() -> Self {
        Self { unit: Atom::Unknown, ..Self::bits() }
    }

    fn step(self) -> u16 {
        if self.unit == Atom::One { 1 } else { 2 }
    }

    /// The longest to ask for: within what is known, or between what is answered and what is refused.
    fn most(self, allowed: u16) -> u16 {
        match self.refused {
            None => allowed,
            Some(refused) => {
                let gap = refused.saturating_sub(self.answered);
                if gap > self.step() { self.answered + gap / 2 } else { self.answered }
            }
        }
    }

    fn answer(&mut self, count: u16) {
        self.answered = self.answered.max(count);
        // It was not the length, then.
        self.refused = self.refused.filter(|refused| *refused > count);
    }

    fn refuse(&mut self, count: u16) {
        self.refused = Some(self.refused.map_or(count, |refused| refused.min(count)));
    }
}

impl Cover {
    pub(super) fn new(region: Region, sizes: Sizes) -> Self {
        let at = u32::from(region.first);
        Self {
            extent: Extent::new(region),
            sizes,
            at,
            end: u32::from(region.last) + 1,
            size: u16::MAX,
            limit: None,
            singly: 0,
            test: None,
        }
    }

    /// What to ask; `None` when the table is done.
    pub(super) fn next(&self) -> Option<Probe> {
        let (first, count) = match self.test {
            Some(first) => (first, 1),
            None if self.is_done() => return None,
            None => (u16::try_from(self.at).ok()?, self.count()),
        };
        Some(Probe::Read { table: self.extent.region.table, first, count })
    }

    /// What was found; and what the unit's other table of this kind begins with.
    pub(super) fn found(&self) -> (Extent, Sizes) {
        let mut extent = self.extent.clone();
        extent.cap = self.sizes.refused.map(|refused| Cap { answered: self.sizes.answered, refused });
        extent.in_pairs = self.sizes.unit == Atom::Pair && !extent.region.table.is_bits();
        if extent.state != State::Unsupported {
            extent.state = match u16::try_from(self.at) {
                Ok(at) if !self.is_done() => State::Open(at),
                _ => State::Done,
            };
        }
        (extent, self.sizes)
    }

    pub(super) fn region(&self) -> Region {
        self.extent.region
    }

    /// Addresses of which nothing is known.
    pub(super) fn unknown(&self) -> u32 {
        if self.is_done() { 0 } else { self.end - self.at }
    }

    /// Requests that are left at most, but for a few.
    pub(super) fn most_left(&self) -> u32 {
        match self.sizes.unit {
            Atom::Unknown => self.unknown() * 3 / 2,
            Atom::One => self.unknown(),
            Atom::Pair => self.unknown() / 2,
        }
    }

    /// The answer to what was asked last.
    pub(super) fn answered(&mut self, cells: &[u16]) {
        if self.test.take().is_some() {
            self.sizes.unit = Atom::One;
            return;
        }
        let Ok(first) = u16::try_from(self.at) else { return };
        let count = self.count();
        self.extent.values.extend((first..=u16::MAX).zip(cells.iter().copied()));
        self.at += u32::from(count);
        self.size = count.saturating_mul(2);
        self.sizes.answer(count);
        if self.sizes.unit == Atom::Unknown {
            if count == 1 {
                self.sizes.unit = Atom::One;
            } else {
                self.test = Some(first);
            }
        }
        let Some(limit) = self.limit else { return };
        let is_longest = limit.count > self.sizes.answered;
        if self.at >= limit.end {
            self.limit = None;
            if is_longest {
                self.sizes.refuse(limit.count);
            } else {
                self.extent.seams.push(self.seam(limit));
            }
        } else if limit.by_value && self.sizes.by_value && is_longest {
            self.limit = None;
            self.sizes.refuse(limit.count);
        }
    }

    /// What was asked last is refused.
    pub(super) fn refused(&mut self, why: Refusal) {
        let is_first = self.extent.values.is_empty() && self.extent.refusals.is_empty();
        *self.extent.refusals.entry(why).or_default() += 1;
        if self.test.take().is_some() {
            self.sizes.unit = Atom::Pair;
            return;
        }
        if is_first && why == Refusal::Exception(ILLEGAL_FUNCTION) {
            self.extent.state = State::Unsupported;
            return;
        }
        let (count, atom) = (self.count(), self.atom());
        let by_value = why == Refusal::Exception(ILLEGAL_VALUE);
        if by_value && self.sizes.by_value && count <= self.sizes.answered {
            (self.sizes.by_value, self.sizes.refused) = (false, None);
        }
        let end = self.at + u32::from(count);
        if count > atom {
            self.limit = Some(Limit { first: self.at, end, count, by_value });
            return;
        }
        self.limit = None;
        self.size = 1;
        if count == 2 && self.sizes.unit == Atom::Unknown {
            self.singly = end;
        } else {
            self.at = end;
        }
    }

    fn is_done(&self) -> bool {
        self.extent.state == State::Unsupported || (self.at >= self.end && self.test.is_none())
    }

    /// How many addresses to ask for.
    fn count(&self) -> u16 {
        let atom = self.atom();
        if atom < self.sizes.step() {
            // Half a pair: what follows it begins at an even address.
            return atom;
        }
        let allowed = if self.extent.region.table.is_bits() { READ_BITS } else { READ_REGISTERS };
        let wanted = match self.limit {
            Some(limit) => u16::try_from((limit.end - self.at) / 2).unwrap_or(allowed),
            None => self.size.min(self.sizes.most(allowed)),
        };
        let left = u16::try_from(self.end - self.at).unwrap_or(u16::MAX);
        let wanted = wanted.min(left).min(allowed);
        (wanted - wanted % atom).max(atom)
    }

    /// The least that can be asked for where the search stands.
    fn atom(&self) -> u16 {
        let is_half = self.at % 2 == 1 || self.at + 1 == self.end || self.at < self.singly;
        if is_half { 1 } else { self.sizes.step() }
    }

    /// The refused block, as far as the search went through it.
    fn seam(&self, limit: Limit) -> Region {
        let address = |at: u32| u16::try_from(at).unwrap_or(u16::MAX);
        Region { table: self.extent.region.table, first: address(limit.first), last: address(limit.end - 1) }
    }
}
