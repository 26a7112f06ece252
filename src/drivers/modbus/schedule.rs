//! When which request is due.
//!
//! Every class of tags has its own due time on a grid that begins with the session: a late round does not move the
//! grid. Rounds that were missed whole are skipped and counted, never caught up in a burst. A round is over when its last
//! answer is there, so no block is asked for twice at a time.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    health::Health,
    plant::{Block, Class, Plant},
};

#[derive(Debug, Default)]
pub(super) struct Schedule {
    rounds: Vec<Round>,
}

/// The rounds of one class.
#[derive(Debug)]
struct Round {
    unit: usize,
    scan: Duration,
    due: Instant,
    /// Whether this round's first request left.
    begun: bool,
    /// What is still to be asked in it.
    left: VecDeque<Arc<Block>>,
    /// Requests of it that are on the wire.
    open: usize,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The next request of a class.
    Poll { class: usize },
    /// A request that tries whether a unit is back.
    Probe { unit: usize },
    /// Nothing is due until then; `None`: nothing ever is.
    Wait(Option<Instant>),
}

impl Next {
    /// When it is time, where it is not yet.
    pub(super) fn until(self) -> Option<Instant> {
        if let Self::Wait(until) = self { until } else { None }
    }
}

impl Round {
    /// Whether it has a request that is not on its way yet.
    fn has_more(&self, class: &Class) -> bool {
        if self.begun { !self.left.is_empty() } else { !class.blocks.is_empty() && self.open == 0 }
    }
}

impl Schedule {
    pub(super) fn new(classes: &[Class], now: Instant) -> Self {
        let round = |class: &Class| Round {
            unit: class.unit,
            scan: class.scan,
            due: now,
            begun: false,
            left: VecDeque::new(),
            open: 0,
        };
        Self { rounds: classes.iter().map(round).collect() }
    }

    /// The request that has waited longest, among those due.
    pub(super) fn next(&self, plant: &Plant, units: &[Health], now: Instant) -> Next {
        let polls = self.rounds.iter().zip(&plant.classes).enumerate().filter_map(|(at, (round, class))| {
            let is_asked = |health: &&Health| !health.is_demoted() && plant.is_in_step(round.unit);
            units.get(round.unit).filter(is_asked)?;
            let due = plant.rests(round.unit, now).map_or(round.due, |until| round.due.max(until));
            round.has_more(class).then_some((due, Next::Poll { class: at }))
        });
        let probes = units.iter().enumerate().filter_map(|(unit, health)| {
            let due = if health.is_demoted() {
                health.probe()?
            } else {
                // One that is out of step is asked one thing at a time, and has waited since its rest was over.
                plant.steps.rested(plant.unit_id(unit)).filter(|_| !health.is_probed())?
            };
            let is_held = plant.steps.held(plant.unit_id(unit)).is_some();
            let due = plant.rests(unit, now).map_or(due, |until| due.max(until));
            (!is_held && plant.has_probe(unit)).then_some((due, Next::Probe { unit }))
        });
        match polls.chain(probes).min_by_key(|(due, _)| *due) {
            Some((due, next)) if due <= now => next,
            Some((due, _)) => Next::Wait(Some(due)),
            None => Next::Wait(None),
        }
    }

    /// The next request of a class leaves.
    pub(super) fn launch(&mut self, class: usize, blocks: &[Arc<Block>]) -> Option<Arc<Block>> {
        let round = self.rounds.get_mut(class)?;
        if !round.begun {
            round.begun = true;
            round.left.extend(blocks.iter().cloned());
        }
        let block = round.left.pop_front()?;
        round.open += 1;
        Some(block)
    }

    /// A request of a class was answered, well or not; how many rounds of it are skipped.
    pub(super) fn land(&mut self, class: usize, now: Instant) -> u64 {
        let Some(round) = self.rounds.get_mut(class) else { return 0 };
        round.open = round.open.saturating_sub(1);
        if !round.begun || round.open > 0 || !round.left.is_empty() {
            return 0;
        }
        round.begun = false;
        let late = now.saturating_duration_since(round.due);
        let passed = late.as_nanos() / round.scan.as_nanos().max(1);
        // The next one counts as late where it is due already; those between were missed whole.
        let steps = u32::try_from(passed.max(1)).unwrap_or(u32::MAX);
        round.due += round.scan.saturating_mul(steps);
        u64::from(steps - 1)
    }

    /// What is no longer to be asked is taken out of the rounds that have begun.
    pub(super) fn keep(&mut self, mut still: impl FnMut(&Block) -> bool) {
        for round in self.rounds.iter_mut().filter(|round| round.begun) {
            round.left.retain(|block| still(block));
            if round.left.is_empty() && round.open == 0 {
                (round.begun, round.due) = (false, round.due + round.scan);
            }
        }
    }

    /// All of a unit is due now, from the beginning.
    pub(super) fn restart(&mut self, unit: usize, now: Instant) {
        for round in self.rounds.iter_mut().filter(|round| round.unit == unit) {
            (round.due, round.begun) = (now, false);
            round.left.clear();
        }
    }
}
