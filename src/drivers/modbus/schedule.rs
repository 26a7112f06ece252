//! When which request is due.
//!
//! Every class of tags has its own due time on a grid that begins with the session: a late round does not move the
//! grid. Rounds that were missed whole are skipped and counted, never caught up in a burst.

use std::time::Duration;

use tokio::time::Instant;

use super::{health::Health, plant::Class};

#[derive(Debug)]
pub(super) struct Schedule {
    rounds: Vec<Round>,
}

/// The rounds of one class.
#[derive(Debug)]
struct Round {
    unit: usize,
    scan: Duration,
    due: Instant,
    /// The block that comes next in a round that has begun.
    next: usize,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Poll {
        class: usize,
        block: usize,
    },
    /// Nothing is due until then; `None`: nothing ever is.
    Wait(Option<Instant>),
}

impl Schedule {
    pub(super) fn new(classes: &[Class], now: Instant) -> Self {
        let round = |class: &Class| Round { unit: class.unit, scan: class.scan, due: now, next: 0 };
        Self { rounds: classes.iter().map(round).collect() }
    }

    /// The request that has waited longest, among those due.
    pub(super) fn next(&self, classes: &[Class], units: &[Health], now: Instant) -> Next {
        let polls = self.rounds.iter().enumerate().filter_map(|(class, round)| {
            let rests = units.get(round.unit).is_none_or(Health::is_demoted);
            (!rests).then_some((round.due, Next::Poll { class, block: round.next }))
        });
        let probes = units
            .iter()
            .enumerate()
            .filter_map(|(unit, health)| Some((health.probe()?, probe(classes, unit, health.failures())?)));
        match polls.chain(probes).min_by_key(|(due, _)| *due) {
            Some((due, next)) if due <= now => next,
            Some((due, _)) => Next::Wait(Some(due)),
            None => Next::Wait(None),
        }
    }

    /// A block was read, well or not; how many rounds of its class are skipped.
    pub(super) fn done(&mut self, class: usize, blocks: usize, now: Instant) -> u64 {
        let Some(round) = self.rounds.get_mut(class) else { return 0 };
        round.next += 1;
        if round.next < blocks {
            return 0;
        }
        round.next = 0;
        let late = now.saturating_duration_since(round.due);
        let passed = late.as_nanos() / round.scan.as_nanos().max(1);
        // The next one counts as late where it is due already; those between were missed whole.
        let steps = u32::try_from(passed.max(1)).unwrap_or(u32::MAX);
        round.due += round.scan.saturating_mul(steps);
        u64::from(steps - 1)
    }

    /// All of a unit is due now, from the beginning.
    pub(super) fn restart(&mut self, unit: usize, now: Instant) {
        for round in self.rounds.iter_mut().filter(|round| round.unit == unit) {
            (round.due, round.next) = (now, 0);
        }
    }
}

/// The request that probes a unit: another one each time, since one alone may be what the device chokes on.
fn probe(classes: &[Class], unit: usize, failures: u32) -> Option<Next> {
    let of_unit = || classes.iter().enumerate().filter(|(_, class)| class.unit == unit);
    let blocks: usize = of_unit().map(|(_, class)| class.blocks.len()).sum();
    let nth = usize::try_from(failures).ok()?.checked_rem(blocks)?;
    of_unit()
        .flat_map(|(at, class)| (0..class.blocks.len()).map(move |block| Next::Poll { class: at, block }))
        .nth(nth)
}
