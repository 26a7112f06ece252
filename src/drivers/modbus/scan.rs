//! Looking around on a Modbus network: which units answer, what they say of themselves, and which addresses can be read.
//!
//! Strictly read-only: a [`Probe`] can be nothing but a read, and there is no other way to ask. What to ask next is decided
//! by parts that do no I/O ([`Search`] and below); here are the transport, the pace and the time. Requests leave one at a
//! time and never closer together than the rate says, since a scan may run beside a plant that works. Knows no files.

mod cover;
pub mod probe;
mod roll;
mod search;
pub mod survey;
mod visit;

#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

pub use self::search::Place;
use self::{
    probe::{Probe, Reply},
    search::Search,
    survey::Survey,
};
use super::{
    Connection, Stream, framing, open,
    wire::{Failure, Wire},
};
use crate::{
    config::{ModbusEndpoint, Transport},
    link::{Counters, LinkError},
    profile::modbus::Table,
};

/// What to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Unit ids, in the order in which they are called.
    pub units: Vec<u8>,
    /// Tables, in the order in which they are looked at.
    pub tables: Vec<Table>,
    /// First and last address in each table.
    pub addresses: (u16, u16),
}

/// A scan that is under way.
#[derive(Debug)]
pub struct Scan {
    search: Search,
    caller: Caller,
    pace: Interval,
    begun: Option<Instant>,
}

/// A request and whom it asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) unit: u8,
    pub(super) probe: Probe,
}

impl Scan {
    /// Asks nothing yet. `rate` is in requests a second.
    #[must_use]
    pub fn new(endpoint: ModbusEndpoint, scope: &Scope, rate: u32) -> Self {
        let may_crowd = matches!(endpoint.transport, Transport::Tcp { .. });
        let mut pace = interval(Duration::from_secs(1) / rate.max(1));
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            search: Search::new(scope, may_crowd),
            caller: Caller { endpoint, counters: Arc::default(), wire: None, late: None, hint: None },
            pace,
            begun: None,
        }
    }

    /// Asks the next question; `false` when there is none. What was found stays where this fails.
    pub async fn step(&mut self) -> Result<bool, LinkError> {
        let Some(question) = self.search.next() else { return Ok(false) };
        self.pace.tick().await;
        self.begun.get_or_insert_with(Instant::now);
        let reply = self.caller.ask(question).await?;
        tracing::debug!(unit = question.unit, probe = ?question.probe, ?reply, "scanned");
        self.search.heard(reply);
        Ok(true)
    }

    /// What was found so far.
    #[must_use]
    pub fn survey(&self) -> Survey {
        let mut survey = self.search.survey();
        survey.hint.clone_from(&self.caller.hint);
        survey.counts.late = self.caller.counters.dropped.load(Ordering::Relaxed);
        survey
    }

    #[must_use]
    pub fn place(&self) -> Place {
        self.search.place()
    }

    /// Units that answered so far.
    #[must_use]
    pub fn units(&self) -> usize {
        self.search.units()
    }

    /// Requests that are left, as far as anybody can tell.
    #[must_use]
    pub fn most_left(&self) -> usize {
        self.search.most_left()
    }

    /// How long the rest takes, if it goes on as it did; at the beginning, if nothing answers.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        let asked = u32::try_from(self.search.requests()).unwrap_or(u32::MAX);
        let each = match self.begun {
            Some(begun) if asked > 0 => begun.elapsed() / asked,
            _ => self.caller.endpoint.timeout,
        };
        let left = u32::try_from(self.most_left()).unwrap_or(u32::MAX);
        each.max(self.pace.period()).saturating_mul(left)
    }
}

/// The transport, opened anew where it was lost.
struct Caller {
    endpoint: ModbusEndpoint,
    counters: Arc<Counters>,
    wire: Option<Wire<Box<dyn Stream>>>,
    /// A unit whose answer did not come in time, and may still come.
    late: Option<u8>,
    /// What the wire says of answers that it dropped.
    hint: Option<String>,
}

impl Caller {
    /// Fails only where no connection can be had.
    async fn ask(&mut self, question: Question) -> Result<Reply, LinkError> {
        let mut wire = match self.wire.take() {
            Some(wire) => wire,
            None => self.connect().await?,
        };
        let reply = self.exchange(&mut wire, question).await;
        self.late = (reply == Reply::Silent).then_some(question.unit);
        self.hint = wire.hint(question.unit).or(self.hint.take());
        if !matches!(reply, Reply::Lost(_)) {
            self.wire = Some(wire);
        }
        Ok(reply)
    }

    async fn connect(&self) -> Result<Wire<Box<dyn Stream>>, LinkError> {
        let Connection { stream, .. } = open(&self.endpoint).await?;
        Ok(self.wire_over(stream))
    }

    fn wire_over(&self, stream: Box<dyn Stream>) -> Wire<Box<dyn Stream>> {
        let ModbusEndpoint { connect_delay, request_gap, .. } = self.endpoint;
        Wire::new(stream, framing(&self.endpoint), connect_delay, request_gap, Arc::clone(&self.counters))
    }

    async fn exchange(&self, wire: &mut Wire<Box<dyn Stream>>, question: Question) -> Reply {
        let timeout = self.endpoint.timeout;
        let pending = match wire.prepare(question.unit, question.probe.request()) {
            Ok(pending) => pending,
            Err(unfit) => return Reply::Unusable(unfit.to_string()),
        };
        let now = Instant::now();
        if self.late == Some(question.unit) && !wire.has_ids() {
            // What comes late would be taken for the answer to another question of the same form.
            wire.pause(now, timeout);
        }
        let answer = async {
            wire.ready(now + 2 * timeout).await?;
            wire.send(&pending, timeout).await?;
            wire.hear(&[&pending], wire.due()).await
        };
        match answer.await {
            Ok((_, Ok(answer))) => answer.into(),
            Ok((_, Err(misfit))) => Reply::Unusable(misfit.to_string()),
            Err(Failure::TimedOut | Failure::Doubtful) => Reply::Silent,
            Err(failure @ (Failure::Garbled | Failure::Misfit(_) | Failure::OutOfStep)) => {
                Reply::Unusable(failure.to_string())
            }
            Err(failure @ (Failure::Taken | Failure::Lost(_))) => Reply::Lost(failure.to_string()),
        }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
