//! Which unit ids answer: what to ask next, given what was answered.
//!
//! Any answer proves a unit, an exception as well, but for those of a gateway that reaches none. All ids are asked by the
//! first table before those that were silent are asked by the next: most devices are found with one time-out for each id
//! that there is not. A device with a network socket of its own answers to every id: where most do, those that answer
//! alike are one, and one of them stands for all. Pure.

use std::collections::{BTreeMap, VecDeque};

use super::{
    Question,
    probe::{GATEWAY_PATH, Probe, Reply},
    survey::Crowd,
};
use crate::profile::modbus::Table;

/// So many unit ids must be asked before it means something that most answer.
const MANY: usize = 16;
/// So many ids with other values are looked at again; more only show that the values change.
const STRANGERS: usize = 8;

/// The call of all unit ids.
#[derive(Debug)]
pub(super) struct Roll {
    /// Each table, the next one first.
    tables: VecDeque<Table>,
    /// Address to read.
    first: u16,
    /// Asked by the present table, the next one first.
    waiting: VecDeque<u8>,
    /// Silent so far.
    silent: Vec<u8>,
    found: BTreeMap<u8, Heard>,
    asked: usize,
    is_first: bool,
    /// Whether one device may answer to every id.
    may_crowd: bool,
    crowd: Option<Crowd>,
    /// Ids to compare with the one that stands for all.
    strangers: VecDeque<u8>,
    /// What the one that stands for all answered just before.
    model: Option<Reply>,
}

/// What a unit answered to, and with what.
#[derive(Debug, Clone)]
pub(super) struct Heard {
    pub(super) probe: Probe,
    pub(super) reply: Reply,
}

impl Roll {
    pub(super) fn new(units: &[u8], tables: &[Table], first: u16, may_crowd: bool) -> Self {
        Self {
            tables: tables.iter().copied().collect(),
            first,
            waiting: units.iter().copied().collect(),
            silent: Vec::new(),
            found: BTreeMap::new(),
            asked: units.len(),
            is_first: true,
            may_crowd,
            crowd: None,
            strangers: VecDeque::new(),
            model: None,
        }
    }

    pub(super) fn next(&self) -> Option<Question> {
        if let (Some(crowd), Some(stranger)) = (self.crowd, self.strangers.front()) {
            let unit = if self.model.is_some() { *stranger } else { crowd.unit };
            return Some(Question { unit, probe: self.found.get(&unit)?.probe });
        }
        let (unit, table) = (*self.waiting.front()?, *self.tables.front()?);
        Some(Question { unit, probe: Probe::Read { table, first: self.first, count: 1 } })
    }

    /// The answer to what was asked last.
    pub(super) fn heard(&mut self, asked: Question, reply: Reply) {
        if !self.strangers.is_empty() {
            self.compare(reply);
            return;
        }
        self.waiting.pop_front();
        if !reply.is_absence() {
            self.found.insert(asked.unit, Heard { probe: asked.probe, reply });
        } else if reply != Reply::Exception(GATEWAY_PATH) {
            // Else the gateway has no way to this id, whatever is asked.
            self.silent.push(asked.unit);
        }
        if self.waiting.is_empty() {
            if std::mem::take(&mut self.is_first) && self.may_crowd {
                self.gather();
            }
            self.tables.pop_front();
            if !self.tables.is_empty() {
                self.waiting.extend(self.silent.drain(..));
            }
        }
    }

    /// The units, those that are one counted once; and which one stands for many.
    pub(super) fn found(&self) -> (BTreeMap<u8, Heard>, Option<Crowd>) {
        (self.found.clone(), self.crowd)
    }

    /// Ids that answered so far.
    pub(super) fn count(&self) -> usize {
        self.found.len()
    }

    /// Requests that are left at most.
    pub(super) fn most_left(&self) -> usize {
        let later = self.tables.len().saturating_sub(1) * (self.waiting.len() + self.silent.len());
        self.waiting.len() + later + 2 * self.strangers.len()
    }

    /// Looks whether those that answered to the first table are one device.
    fn gather(&mut self) {
        let is_crowd = self.asked >= MANY && self.found.len() * 4 >= self.asked * 3;
        if !is_crowd {
            return;
        }
        let Some(common) = self.most_common() else { return };
        let has_data = matches!(common, Reply::Cells(_));
        let alike = |heard: &Heard| heard.reply == common;
        let close = |heard: &Heard| has_data && matches!(heard.reply, Reply::Cells(_));
        let strangers: VecDeque<u8> = self
            .found
            .iter()
            .filter(|(_, heard)| close(heard) && !alike(heard))
            .map(|(unit, _)| *unit)
            .collect();
        let all = strangers.len() > STRANGERS;
        let members: Vec<u8> = self
            .found
            .iter()
            .filter(|(_, heard)| alike(heard) || (all && close(heard)))
            .map(|(unit, _)| *unit)
            .collect();
        // 0 is a broadcast elsewhere, so another id is the better one to give.
        let Some(unit) = members.iter().copied().find(|unit| *unit > 0).or(members.first().copied()) else {
            return;
        };
        self.found.retain(|id, _| *id == unit || !members.contains(id));
        self.crowd = Some(Crowd { unit, count: members.len(), has_data });
        if !all {
            self.strangers = strangers;
        }
    }

    /// The answer that most ids gave.
    fn most_common(&self) -> Option<Reply> {
        let mut kinds: Vec<(&Reply, usize)> = Vec::new();
        for Heard { reply, .. } in self.found.values() {
            match kinds.iter_mut().find(|(kind, _)| *kind == reply) {
                Some((_, count)) => *count += 1,
                None => kinds.push((reply, 1)),
            }
        }
        kinds.into_iter().max_by_key(|(_, count)| *count).map(|(reply, _)| reply.clone())
    }

    /// Whether a stranger says the same as the one that stands for all, when both are asked in a row.
    fn compare(&mut self, reply: Reply) {
        let Some(model) = self.model.take() else {
            self.model = Some(reply);
            return;
        };
        let stranger = self.strangers.pop_front();
        if model == reply
            && let (Some(unit), Some(crowd)) = (stranger, &mut self.crowd)
        {
            self.found.remove(&unit);
            crowd.count += 1;
        }
    }
}
