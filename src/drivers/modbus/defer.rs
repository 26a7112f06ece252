//! Writes to units that are out of step: they wait until the unit is in step again, and the line serves others meanwhile.

use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Instant,
};

use super::session::{End, Session};
use crate::{
    link::Command,
    model::{Outcome, Report},
};

/// Writes that may wait on one connection.
const MOST: usize = 64;

/// A write that waits for its unit.
#[derive(Debug)]
pub(super) struct Deferred {
    unit: usize,
    command: Command,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<'_, S> {
    /// Has a write wait for its unit, which is asked as soon as can be.
    pub(super) fn defer(&mut self, unit: usize, command: Command) {
        if self.deferred.len() >= MOST {
            let text = "too many writes wait for devices that left a question open";
            command.answer(Report::new(Outcome::NotSent, text));
            return;
        }
        if let Some(health) = self.health.get_mut(unit) {
            health.hurry();
        }
        self.deferred.push(Deferred { unit, command });
    }

    /// When a write that waits must be answered at the latest.
    pub(super) fn next_deferred(&self) -> Option<Instant> {
        self.deferred.iter().map(|deferred| deferred.command.deadline).min()
    }

    /// The first write that waits no longer: its unit is in step, or its time is over.
    pub(super) fn ripe_deferred(&self, now: Instant) -> Option<usize> {
        let is_ripe =
            |deferred: &Deferred| deferred.command.deadline <= now || self.plant.is_in_step(deferred.unit);
        self.deferred.iter().position(is_ripe)
    }

    /// Carries out a write that waited, or tells why that is not done.
    pub(super) async fn resume(&mut self, at: usize) -> Result<(), End> {
        let Deferred { unit, command } = self.deferred.remove(at);
        if self.plant.is_in_step(unit) {
            return self.write(command).await;
        }
        let text = "not written: the device left a question open, and nothing it said by the deadline shows that this is over";
        command.answer(Report::new(Outcome::NotSent, text));
        Ok(())
    }

    /// What goes to all units at once overtakes the writes that wait: they would undo it.
    pub(super) fn overtake_deferred(&mut self) {
        for Deferred { command, .. } in self.deferred.drain(..) {
            let text =
                "not written: while it waited for the device, a newer write went to all devices at once";
            command.answer(Report::new(Outcome::NotSent, text));
        }
    }

    /// A unit does not answer what it was asked to see whether it is in step: nothing is written to it.
    pub(super) fn refuse_deferred(&mut self, unit: usize) {
        let unit_id = self.plant.unit_id(unit);
        let plant = &self.plant;
        let gone = self.deferred.extract_if(.., |deferred| plant.unit_id(deferred.unit) == unit_id);
        for Deferred { command, .. } in gone {
            let text =
                "not written: the device left a question open, and does not answer what is read of it since";
            command.answer(Report::new(Outcome::NotSent, text));
        }
    }
}
