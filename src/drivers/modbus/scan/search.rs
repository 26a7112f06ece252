//! A whole scan: the call of the unit ids, then a visit to each that answered. Pure.

use std::collections::{BTreeMap, VecDeque};

use super::{
    Question, Scope,
    probe::{Probe, Reply},
    roll::{Heard, Roll},
    survey::{Counts, Crowd, Found, Identity, Progress, Survey},
    visit::Visit,
};
use crate::profile::modbus::{Region, Table};

/// So many connections in a row that end with no answer, and the peer is given up. Some devices end them where they are
/// asked for a unit id that they do not have.
const LOSSES: u32 = 32;

/// What is known, and what is to be asked next.
#[derive(Debug)]
pub(super) struct Search {
    regions: Vec<Region>,
    phase: Phase,
    /// Units that wait for their visit, with what they answered to.
    waiting: VecDeque<(u8, Probe)>,
    done: Vec<Found>,
    crowd: Option<Crowd>,
    counts: Counts,
    /// Connections in a row that ended with no answer.
    losses: u32,
    given_up: Option<String>,
}

#[derive(Debug)]
enum Phase {
    Roll(Roll),
    Visit(Box<Visit>),
    Done,
}

/// Where a scan stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Unit ids are called; the next one.
    Roll(u8),
    Identity(u8),
    /// A table of a unit, and how many of its addresses are known.
    Table {
        unit: u8,
        table: Table,
        known: u32,
        of: u32,
    },
    Done,
}

impl Search {
    /// `may_crowd`: whether one device may answer to every unit id.
    pub(super) fn new(scope: &Scope, may_crowd: bool) -> Self {
        let (first, last) = scope.addresses;
        let regions = scope.tables.iter().map(|table| Region { table: *table, first, last });
        Self {
            regions: regions.collect(),
            phase: Phase::Roll(Roll::new(&scope.units, &scope.tables, first, may_crowd)),
            waiting: VecDeque::new(),
            done: Vec::new(),
            crowd: None,
            counts: Counts::default(),
            losses: 0,
            given_up: None,
        }
    }

    /// What to ask; `None` when the scan is over.
    pub(super) fn next(&self) -> Option<Question> {
        if self.given_up.is_some() {
            return None;
        }
        match &self.phase {
            Phase::Roll(roll) => roll.next(),
            Phase::Visit(visit) => visit.next().map(|probe| Question { unit: visit.unit(), probe }),
            Phase::Done => None,
        }
    }

    /// The answer to what was asked last.
    pub(super) fn heard(&mut self, reply: Reply) {
        let Some(asked) = self.next() else { return };
        self.count(&reply);
        match &mut self.phase {
            Phase::Roll(roll) => roll.heard(asked, reply),
            Phase::Visit(visit) => visit.heard(reply),
            Phase::Done => {}
        }
        while self.next().is_none() && self.given_up.is_none() && !matches!(self.phase, Phase::Done) {
            self.turn();
        }
    }

    pub(super) fn survey(&self) -> Survey {
        let mut units = self.done.clone();
        let mut crowd = self.crowd;
        let mut called: Vec<u8> = self.waiting.iter().map(|(unit, _)| *unit).collect();
        match &self.phase {
            Phase::Roll(roll) => {
                let found = roll.found();
                crowd = found.1;
                called.extend(found.0.keys());
            }
            Phase::Visit(visit) => units.push(visit.found()),
            Phase::Done => {}
        }
        units.extend(called.into_iter().map(|unit| Found {
            unit,
            identity: Identity::default(),
            extents: Vec::new(),
            state: Progress::Called,
        }));
        units.sort_by_key(|found| found.unit);
        let is_complete = matches!(self.phase, Phase::Done);
        let given_up = self.given_up.clone();
        Survey { units, crowd, counts: self.counts, is_complete, given_up, hint: None }
    }

    pub(super) fn place(&self) -> Place {
        match &self.phase {
            Phase::Roll(roll) => roll.next().map_or(Place::Done, |question| Place::Roll(question.unit)),
            Phase::Visit(visit) => {
                let unit = visit.unit();
                match visit.place() {
                    None => Place::Identity(unit),
                    Some((table, known)) => {
                        let of = self.regions.first().map_or(0, |all| u32::from(all.last - all.first) + 1);
                        Place::Table { unit, table, known, of }
                    }
                }
            }
            Phase::Done => Place::Done,
        }
    }

    /// Units that answered so far.
    pub(super) fn units(&self) -> usize {
        match &self.phase {
            Phase::Roll(roll) => roll.count(),
            Phase::Visit(_) => self.done.len() + self.waiting.len() + 1,
            Phase::Done => self.done.len(),
        }
    }

    pub(super) fn requests(&self) -> u64 {
        self.counts.requests
    }

    /// Requests that are left in this phase at most, but for a few; of units that were not called yet nobody can tell.
    pub(super) fn most_left(&self) -> usize {
        if self.given_up.is_some() {
            return 0;
        }
        let each = |region: &Region| (usize::from(region.last - region.first) + 1) * 3 / 2;
        match &self.phase {
            Phase::Roll(roll) => roll.most_left(),
            Phase::Visit(visit) => {
                let others = self.waiting.len() * self.regions.iter().map(each).sum::<usize>();
                usize::try_from(visit.most_left()).unwrap_or(usize::MAX).saturating_add(others)
            }
            Phase::Done => 0,
        }
    }

    fn count(&mut self, reply: &Reply) {
        self.counts.requests += 1;
        match reply {
            Reply::Silent => self.counts.silent += 1,
            Reply::Exception(_) => self.counts.exceptions += 1,
            Reply::Lost(why) => {
                self.counts.silent += 1;
                self.losses += 1;
                if self.losses >= LOSSES {
                    self.given_up = Some(why.clone());
                }
            }
            Reply::Cells(_) | Reply::Identity(_) | Reply::Unusable(_) => {}
        }
        if !matches!(reply, Reply::Lost(_)) {
            self.losses = 0;
        }
    }

    /// Goes on to the next unit.
    fn turn(&mut self) {
        match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Roll(roll) => {
                let (found, crowd): (BTreeMap<u8, Heard>, _) = roll.found();
                self.crowd = crowd;
                self.waiting = found.into_iter().map(|(unit, heard)| (unit, heard.probe)).collect();
            }
            Phase::Visit(visit) => self.done.push(visit.found()),
            Phase::Done => {}
        }
        if let Some((unit, known)) = self.waiting.pop_front() {
            self.phase = Phase::Visit(Box::new(Visit::new(unit, known, &self.regions)));
        }
    }
}
