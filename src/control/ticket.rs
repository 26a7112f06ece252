//! The moment in which a waiting write becomes one that leaves, or one that never will.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{Control, rules};
use crate::{
    link::Permit,
    model::{Outcome, Report, Rule, TagId, Value},
};

pub(super) const CANCELLED: &str = "the caller cancelled it before it could be sent";

const WAITING: u8 = 0;
const LEFT: u8 = 1;
const ABANDONED: u8 = 2;

/// Decides between the session that wants to send and the caller whose deadline passed: only one of them wins.
#[derive(Debug, Default)]
pub(super) struct Ticket {
    state: AtomicU8,
    /// Whether it is no longer wanted, should it still wait.
    is_withdrawn: AtomicBool,
    previous: OnceLock<Value>,
}

/// The permit of one write.
pub(super) struct Gate {
    pub(super) control: Arc<Control>,
    pub(super) ticket: Arc<Ticket>,
    pub(super) tag: TagId,
    /// Of the route that the write was admitted on; a route of another definition has another.
    pub(super) latest: Arc<AtomicU64>,
    pub(super) stamp: u64,
    pub(super) expect: Option<Value>,
    pub(super) deadline: Instant,
}

impl Ticket {
    fn leave(&self) -> bool {
        self.state.compare_exchange(WAITING, LEFT, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether the write can no longer leave; `false` where it already did.
    pub(super) fn abandon(&self) -> bool {
        self.state.compare_exchange(WAITING, ABANDONED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Where it is on its way, but could not leave yet, it no longer shall.
    pub(super) fn withdraw(&self) {
        self.is_withdrawn.store(true, Ordering::Release);
    }

    /// What the device held when the write left, where that was known.
    pub(super) fn previous(&self) -> Option<Value> {
        self.previous.get().cloned()
    }
}

impl Permit for Gate {
    fn grant(&mut self, current: Option<&Value>) -> Result<(), Report> {
        // Where no link can read, what the store knows for good counts.
        let held = current.cloned().or_else(|| self.control.present(self.tag));
        self.check(held.as_ref())?;
        if self.latest.load(Ordering::Acquire) > self.stamp {
            return Err(rules::reject(
                Rule::Superseded,
                "a later write to this tag was sent before this one",
            ));
        }
        if Instant::now() >= self.deadline || !self.ticket.leave() {
            return Err(Report::new(Outcome::NotSent, "its deadline passed before it could be sent"));
        }
        if let Some(previous) = held {
            // Set once: a permit is granted once.
            drop(self.ticket.previous.set(previous));
        }
        self.latest.fetch_max(self.stamp, Ordering::AcqRel);
        Ok(())
    }

    fn recheck(&self) -> Result<(), Report> {
        if self.ticket.is_withdrawn.load(Ordering::Acquire) {
            return Err(Report::new(Outcome::NotSent, CANCELLED));
        }
        self.check(self.control.present(self.tag).as_ref())
    }
}

impl Gate {
    /// What may change while a write waits.
    fn check(&self, held: Option<&Value>) -> Result<(), Report> {
        let table = self.control.table();
        rules::mode(table.writes)?;
        if !table.routes.get(&self.tag).is_some_and(|route| Arc::ptr_eq(&route.latest, &self.latest)) {
            return Err(Report::new(Outcome::NotSent, "a reload redefined the tag while the write waited"));
        }
        match &self.expect {
            Some(expect) if held != Some(expect) => Err(rules::unexpected(expect, held)),
            _ => Ok(()),
        }
    }
}

pub(super) fn too_late(timeout: Duration) -> String {
    format!("its turn did not come within its deadline of {} ms", timeout.as_millis())
}
