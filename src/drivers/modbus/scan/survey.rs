//! What a scan found.

use std::collections::BTreeMap;

use crate::profile::modbus::{Region, Table};

/// What a scan found so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survey {
    /// In the order of unit ids.
    pub units: Vec<Found>,
    pub crowd: Option<Crowd>,
    pub counts: Counts,
    /// Whether all that was to be looked at was.
    pub is_complete: bool,
    /// Why nothing more was asked, where the peer gave no answer to anything.
    pub given_up: Option<String>,
    /// What seems to be wrong with a peer whose answers do not count.
    pub hint: Option<String>,
}

/// Fewer zeros may well be values.
const BLANK: usize = 16;

/// What was asked, and how often it was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub requests: u64,
    /// Requests that nothing answered.
    pub silent: u64,
    /// Requests that were answered with an exception.
    pub exceptions: u64,
    /// Frames that came too late, or that nobody had asked for.
    pub late: u64,
}

/// Unit ids that answer all alike, as those of a device do that has a network socket of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crowd {
    /// The one that stands for all of them.
    pub unit: u8,
    pub count: usize,
    /// Whether values came, and no exception.
    pub has_data: bool,
}

/// One unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub unit: u8,
    pub identity: Identity,
    /// Those that were looked at.
    pub extents: Vec<Extent>,
    pub state: Progress,
}

/// How far a unit was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It answered to its id.
    Called,
    /// It is being looked at.
    Begun,
    Done,
    /// It answers to nothing any more.
    Gone,
}

/// What a device says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity(pub BTreeMap<u8, String>);

/// Which addresses of a table can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// What was to be looked at.
    pub region: Region,
    /// Every address that can be read, and what it held; a bit is 0 or 1.
    pub values: BTreeMap<u16, u16>,
    pub state: State,
    pub cap: Option<Cap>,
    /// Whether registers are read in pairs only, from an even address.
    pub in_pairs: bool,
    /// Regions that can be read in parts only, though they are not too long: a read may not cross something in them.
    pub seams: Vec<Region>,
    /// How often a read was refused, by why.
    pub refusals: BTreeMap<Refusal, u32>,
}

/// How far a table was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Done,
    /// The unit does not have the function that reads it.
    Unsupported,
    /// From this address on nothing is known.
    Open(u16),
}

/// The most that a device answers at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    /// So many it answers.
    pub answered: u16,
    /// So many it refuses.
    pub refused: u16,
}

/// How a read was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// By an exception with this code.
    Exception(u8),
    /// By an answer that is none to the question.
    Unusable,
    /// By silence, while the unit answers to others.
    Silent,
}

impl Identity {
    #[must_use]
    pub fn vendor(&self) -> Option<&str> {
        self.get(0)
    }

    /// Product name, model name or product code, whichever says most.
    #[must_use]
    pub fn product(&self) -> Option<&str> {
        self.get(4).or_else(|| self.get(5)).or_else(|| self.get(1))
    }

    #[must_use]
    pub fn revision(&self) -> Option<&str> {
        self.get(2)
    }

    fn get(&self, object: u8) -> Option<&str> {
        self.0.get(&object).map(String::as_str).filter(|text| !text.is_empty())
    }
}

impl Extent {
    pub(super) fn new(region: Region) -> Self {
        Self {
            region,
            values: BTreeMap::new(),
            state: State::Open(region.first),
            cap: None,
            in_pairs: false,
            seams: Vec::new(),
            refusals: BTreeMap::new(),
        }
    }

    #[must_use]
    pub fn table(&self) -> Table {
        self.region.table
    }

    /// First and last address of each run that can be read, in order.
    #[must_use]
    pub fn ranges(&self) -> Vec<(u16, u16)> {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for address in self.values.keys() {
            match ranges.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(*address) => *last = *address,
                _ => ranges.push((*address, *address)),
            }
        }
        ranges
    }

    /// Whether every address can be read and holds zero: what devices answer that look at no address.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        let all = usize::from(self.region.last - self.region.first) + 1;
        self.state == State::Done
            && all >= BLANK
            && self.values.len() == all
            && self.values.values().all(|value| *value == 0)
    }
}

impl Cap {
    /// Whether nothing lies between what is answered and what is refused.
    #[must_use]
    pub fn is_exact(self) -> bool {
        self.answered + 1 == self.refused
    }
}
