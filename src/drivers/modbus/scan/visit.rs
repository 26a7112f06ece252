//! One unit: its identity, then its tables; what to ask next, given what was answered.
//!
//! A question that gets no proper answer is asked again. Where it gets none then either, what the unit answered at first
//! is asked once more: it is gone, or it is silent to what it does not have. Pure.

use std::collections::{BTreeMap, VecDeque};

use super::{
    cover::{Cover, Sizes},
    probe::{Level, Objects, Probe, Reply},
    survey::{Found, Identity, Progress, Refusal},
};
use crate::profile::modbus::{Region, Table};

/// How often a question is asked until silence is taken for the answer.
const TRIES: u32 = 2;
/// Questions in a row that were not answered, before the unit must show again that it is there.
const PATIENCE: u32 = 8;
/// Requests that an identity may take; the objects of all levels fit into fewer.
const PARTS: u32 = 16;

/// The visit of one unit.
#[derive(Debug)]
pub(super) struct Visit {
    found: Found,
    /// What the unit answered at first.
    known: Probe,
    step: Step,
    left: VecDeque<Region>,
    bits: Sizes,
    registers: Sizes,
    tries: u32,
    /// Questions in a row that were not answered.
    silent: u32,
    /// Whether `known` is asked, to see whether the unit is still there.
    checks: bool,
}

#[derive(Debug)]
enum Step {
    Identify(Inquiry),
    Cover(Box<Cover>),
    Done,
}

/// The questions for an identity.
#[derive(Debug)]
struct Inquiry {
    level: Level,
    object: u8,
    asked: u32,
}

impl Visit {
    pub(super) fn new(unit: u8, known: Probe, regions: &[Region]) -> Self {
        let found =
            Found { unit, identity: Identity::default(), extents: Vec::new(), state: Progress::Begun };
        Self {
            found,
            known,
            step: Step::Identify(Inquiry { level: Level::Basic, object: 0, asked: 0 }),
            left: regions.iter().copied().collect(),
            bits: Sizes::bits(),
            registers: Sizes::registers(),
            tries: 0,
            silent: 0,
            checks: false,
        }
    }

    pub(super) fn next(&self) -> Option<Probe> {
        if self.checks {
            return Some(self.known);
        }
        match &self.step {
            Step::Identify(inquiry) => Some(Probe::Identify { level: inquiry.level, object: inquiry.object }),
            Step::Cover(cover) => cover.next(),
            Step::Done => None,
        }
    }

    /// The answer to what was asked last.
    pub(super) fn heard(&mut self, reply: Reply) {
        let is_absence = reply.is_absence();
        if self.checks {
            self.checks = false;
            if is_absence {
                self.put_away();
                self.found.state = Progress::Gone;
                self.step = Step::Done;
            } else {
                self.pass(Reply::Silent);
            }
            return;
        }
        let unsure = is_absence || reply.is_busy() || matches!(reply, Reply::Unusable(_));
        self.tries += 1;
        if unsure && self.tries < TRIES {
            return;
        }
        self.tries = 0;
        if !is_absence {
            self.silent = 0;
            self.pass(reply);
            return;
        }
        self.silent += 1;
        if self.silent % PATIENCE == 1 {
            self.checks = true;
        } else {
            self.pass(Reply::Silent);
        }
    }

    pub(super) fn unit(&self) -> u8 {
        self.found.unit
    }

    /// What was found so far.
    pub(super) fn found(&self) -> Found {
        let mut found = self.found.clone();
        if let Step::Cover(cover) = &self.step {
            found.extents.push(cover.found().0);
        }
        found
    }

    /// The table that is looked at, and how many of its addresses are known.
    pub(super) fn place(&self) -> Option<(Table, u32)> {
        let Step::Cover(cover) = &self.step else { return None };
        let Region { table, first, last } = cover.region();
        Some((table, u32::from(last - first) + 1 - cover.unknown()))
    }

    /// Requests that are left at most, but for a few.
    pub(super) fn most_left(&self) -> u32 {
        let later = self.left.iter().map(|region| Cover::new(*region, self.sizes(region.table)).most_left());
        let now = match &self.step {
            Step::Cover(cover) => cover.most_left(),
            Step::Identify(_) => 1,
            Step::Done => 0,
        };
        now + later.sum::<u32>()
    }

    fn pass(&mut self, reply: Reply) {
        match &mut self.step {
            Step::Identify(inquiry) => {
                let more = match reply {
                    Reply::Identity(objects) => inquiry.heard(objects, &mut self.found.identity.0),
                    _ => false,
                };
                if !more {
                    self.turn();
                }
            }
            Step::Cover(cover) => {
                match reply {
                    Reply::Cells(cells) => cover.answered(&cells),
                    Reply::Exception(code) => cover.refused(Refusal::Exception(code)),
                    Reply::Silent | Reply::Lost(_) => cover.refused(Refusal::Silent),
                    Reply::Identity(_) | Reply::Unusable(_) => cover.refused(Refusal::Unusable),
                }
                if cover.next().is_none() {
                    self.turn();
                }
            }
            Step::Done => {}
        }
    }

    /// Goes on to the next table.
    fn turn(&mut self) {
        self.put_away();
        self.step = if let Some(region) = self.left.pop_front() {
            Step::Cover(Box::new(Cover::new(region, self.sizes(region.table))))
        } else {
            self.found.state = Progress::Done;
            Step::Done
        };
    }

    /// Keeps what was found of the present table.
    fn put_away(&mut self) {
        let Step::Cover(cover) = &self.step else { return };
        let (extent, sizes) = cover.found();
        if extent.table().is_bits() {
            self.bits = sizes;
        } else {
            self.registers = sizes;
        }
        self.found.extents.push(extent);
    }

    fn sizes(&self, table: Table) -> Sizes {
        if table.is_bits() { self.bits } else { self.registers }
    }
}

impl Inquiry {
    /// Takes what came; whether there is more to ask.
    fn heard(&mut self, part: Objects, known: &mut BTreeMap<u8, String>) -> bool {
        known.extend(part.objects.into_iter().map(|(object, bytes)| (object, text(&bytes))));
        self.asked += 1;
        match part.next {
            _ if self.asked >= PARTS => false,
            // One that goes back goes round for ever.
            Some(next) if next > self.object => {
                self.object = next;
                true
            }
            _ if self.level == Level::Basic && part.regular => {
                (self.level, self.object) = (Level::Regular, FIRST_REGULAR);
                true
            }
            _ => false,
        }
    }
}

/// The first object behind the basic ones (section 6.21).
const FIRST_REGULAR: u8 = 3;

/// What devices say of themselves, on one line and without what pads it.
fn text(bytes: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(bytes)
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
