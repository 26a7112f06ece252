//! Tags that are looked at apart from their scans, since a write left open what the device holds.
//!
//! Such a look is one request among the others: it is due at a time, and the line serves everybody between two looks.

use std::time::Duration;

use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Instant,
};
use tokio_modbus::ExceptionCode;

use super::{
    health::Health,
    plant::Plant,
    poll::{self, is_passing},
    session::{End, Session, is_unreachable},
    verdict::Said,
};
use crate::{
    codec::modbus::exception_text,
    codec::value::Raw,
    link::Command,
    model::{Quality, Reason, Update, Value, When},
};

/// First and longest pause between two looks at a tag that could not be read.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Writes that may wait for their devices on one connection.
const WAITING: usize = 64;

/// Pause between two looks at a device that said it needs time (exception 0x05).
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct Again(Vec<Look>);

#[derive(Debug)]
pub(super) struct Look {
    pub(super) entry: usize,
    due: Instant,
    pause: Duration,
    /// The write that is answered by what the look shows.
    pub(super) waiting: Option<Waiting>,
}

/// A write that the device took and needs time for: it said so, or is known for it.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) command: Command,
    pub(super) raw: Raw,
    pub(super) previous: Option<Value>,
    pub(super) said: Said,
    /// From when on the device can be expected to hold the value.
    pub(super) settled: Instant,
}

impl Look {
    /// A unit that is demoted, or out of step, is read whole as soon as it is not: it is not looked at. A write that waits
    /// for it must be answered all the same, at its deadline.
    fn due(&self, plant: &Plant, health: &[Health]) -> Option<Instant> {
        let unit = plant.entries.get(self.entry).map(|entry| entry.unit);
        let is_away = unit.and_then(|unit| health.get(unit)).is_none_or(Health::is_demoted);
        let rests = unit.and_then(|unit| plant.rests(unit, Instant::now()));
        match (is_away || !unit.is_some_and(|unit| plant.is_in_step(unit)), &self.waiting) {
            (false, _) => Some(rests.map_or(self.due, |until| self.due.max(until))),
            (true, Some(waiting)) => Some(self.due.max(waiting.command.deadline)),
            (true, None) => None,
        }
    }
}

impl Again {
    /// When the next look is due.
    pub(super) fn due(&self, plant: &Plant, health: &[Health]) -> Option<Instant> {
        self.0.iter().filter_map(|look| look.due(plant, health)).min()
    }

    fn take(&mut self, due: Instant, plant: &Plant, health: &[Health]) -> Option<Look> {
        let at = self.0.iter().position(|look| look.due(plant, health) == Some(due))?;
        Some(self.0.swap_remove(at))
    }

    /// A write that waits; at the end of a session these are answered first.
    fn take_waiting(&mut self) -> Option<Look> {
        let at = self.0.iter().position(|look| look.waiting.is_some())?;
        Some(self.0.swap_remove(at))
    }

    /// A tag was read.
    pub(super) fn seen(&mut self, entry: usize) {
        self.0.retain(|look| look.entry != entry || look.waiting.is_some());
    }

    /// Whether no more writes may wait.
    pub(super) fn is_full(&self) -> bool {
        self.0.iter().filter(|look| look.waiting.is_some()).count() >= WAITING
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Looks at a tag as soon as can be.
    pub(super) fn look(&mut self, entry: usize) {
        self.seen(entry);
        self.0.push(Look { entry, due: Instant::now(), pause: PAUSES.0, waiting: None });
    }

    pub(super) fn wait(&mut self, entry: usize, due: Instant, waiting: Waiting) {
        self.0.push(Look { entry, due, pause: LOOK_AGAIN, waiting: Some(waiting) });
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<'_, S> {
    /// Nobody knows what the device holds: what was good is so no more, and is read as soon as can be.
    pub(super) fn doubt(&mut self, at: usize) {
        let Some(entry) = self.plant.entries.get_mut(at) else { return };
        let now = Instant::now();
        if std::mem::take(&mut entry.good) {
            self.batch.clear();
            self.batch.push(Update {
                tag: entry.id,
                value: None,
                quality: Quality::Uncertain(Reason::Stale),
                detail: Some("a write to it is in doubt".into()),
                at: When::At(now),
            });
            self.sink.publish(&mut self.batch);
        }
        self.again.look(at);
    }

    /// Takes the look that is due at `due`.
    pub(super) async fn look_again(&mut self, due: Instant) -> Result<(), End> {
        let Some(mut look) = self.again.take(due, self.plant, &self.health) else { return Ok(()) };
        if let Some(waiting) = look.waiting.take() {
            return self.look_for(look.entry, waiting, None).await;
        }
        let Ok(block) = self.plant.alone(look.entry) else { return Ok(()) };
        match self.read(&block, None, true).await? {
            poll::Outcome::Data(data, asked) => self.take_in(&block, &data, asked),
            poll::Outcome::Exception(exception) if !may_pass(exception) => {
                self.tell_block(&block, Reason::DeviceRefused, &exception_text(exception));
            }
            poll::Outcome::Unusable(problem) => self.tell_block(&block, Reason::DecodeError, &problem),
            poll::Outcome::Exception(_) | poll::Outcome::TimedOut | poll::Outcome::Garbled => {
                look.due = Instant::now() + look.pause;
                look.pause = (look.pause * 2).min(PAUSES.1);
                self.again.0.push(look);
            }
        }
        Ok(())
    }

    /// The session ends: each write that waits is answered, after one last look where that is possible. All looks
    /// together take no longer than one time-out.
    pub(super) async fn last_looks(&mut self, mut end: End) -> End {
        let until = Instant::now() + self.timeout;
        // What is still on the wire must not be taken for an answer to a look.
        let open: Vec<_> = self.flights.drain(..).map(|flight| flight.block.unit).collect();
        for unit in open {
            self.keep_apart(unit);
        }
        while let Some(Look { entry, waiting: Some(mut waiting), .. }) = self.again.take_waiting() {
            match &end {
                End::Lost(problem) => self.give_up(entry, waiting, problem),
                End::Stopped | End::Idle(..) => {
                    waiting.command.deadline = waiting.command.deadline.min(until);
                    if let Err(lost) =
                        self.look_for(entry, waiting, Some("; the connection is being closed")).await
                    {
                        end = lost;
                    }
                }
            }
        }
        end
    }
}

/// Whether the same request may be answered otherwise a moment later.
fn may_pass(exception: ExceptionCode) -> bool {
    is_unreachable(exception) || is_passing(exception)
}
