//! Writes: mode, access, type, limits, order of arrival, routing. Knows no frames and no MCP types.

mod journal;
mod rules;
mod ticket;

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::RwLock;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    config::WriteMode,
    link::{Command, Queue},
    model::{Outcome, Report, Setpoint, TagId},
    store::Store,
};
use rules::Admitted;
use ticket::Ticket;

/// How long a session may overstay a write's deadline with its answer, before the answer is `unknown`.
const GRACE: Duration = Duration::from_millis(250);

/// Decides on every write and knows how it ended.
pub struct Control {
    store: Arc<Store>,
    stamps: AtomicU64,
    table: RwLock<Arc<Table>>,
    /// Every write that is not in the log with its outcome yet.
    writes: TaskTracker,
}

/// What a configuration allows, and where its tags are written.
#[derive(Debug, Default)]
pub struct Table {
    /// Of the catalogue that it goes with.
    pub generation: u64,
    pub writes: WriteMode,
    /// Deadline of writes to tags that set none.
    pub timeout: Duration,
    pub routes: HashMap<TagId, Route>,
}

/// Where the writes to one tag go.
#[derive(Debug, Clone)]
pub struct Route {
    pub setpoint: Arc<dyn Setpoint>,
    pub queue: Queue,
    /// Stamp of the last write that left. It goes on with the route where a reload leaves the tag as it was; another
    /// one cancels what still waits.
    pub latest: Arc<AtomicU64>,
}

/// When a call came in: a number that orders calls, and the moment that deadlines count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    pub number: u64,
    at: Instant,
}

/// One write as it was asked for.
#[derive(Debug, Clone)]
pub struct WriteRequest {
    pub tag: String,
    /// The value as text, read by the tag's type.
    pub value: String,
    /// Writes only where the device holds this value.
    pub expect: Option<String>,
    /// Checks every rule and sends nothing.
    pub dry_run: bool,
    /// Why, in the caller's words, for the log.
    pub reason: Option<String>,
    /// Who, for the log.
    pub caller: String,
    pub stamp: Stamp,
    /// The caller takes it back: a write that still waits never leaves, one that left goes on.
    pub cancel: CancellationToken,
}

impl Control {
    #[must_use]
    pub fn new(store: Arc<Store>) -> Self {
        Self { store, stamps: AtomicU64::new(0), table: RwLock::default(), writes: TaskTracker::new() }
    }

    /// Puts a configuration's rules in the place of the present ones.
    pub fn install(&self, table: Table) {
        *self.table.write() = Arc::new(table);
    }

    /// The rules in force.
    #[must_use]
    pub fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read())
    }

    /// Stamps a call on arrival: of two writes to a tag, the one stamped later wins.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        Stamp { number: self.stamps.fetch_add(1, Ordering::Relaxed) + 1, at: Instant::now() }
    }

    /// Does one write. It runs to its end, and into the log, even where nobody waits for this future any more.
    pub async fn write(self: &Arc<Self>, request: WriteRequest) -> Report {
        let control = Arc::clone(self);
        let task = self.writes.spawn(async move {
            let report = control.run(&request).await;
            journal::outcome(&request, &report);
            report
        });
        task.await.unwrap_or_else(|error| {
            Report::new(Outcome::Unknown, format!("the write failed inside: {error}"))
        })
    }

    /// Waits until every write has ended and is in the log. To be called when the links are closed.
    pub async fn drained(&self) {
        self.writes.close();
        self.writes.wait().await;
    }

    async fn run(self: &Arc<Self>, request: &WriteRequest) -> Report {
        let admitted = match self.admit(request) {
            Ok(admitted) => admitted,
            Err(report) => return report,
        };
        let Admitted { entry, route, accepted, expect, present, timeout } = admitted;
        let requested = Some(accepted.requested.clone());
        if request.dry_run {
            let text = format!("all rules passed; {} would be sent, nothing was", accepted.effective);
            return Report { requested, previous: present, ..Report::new(Outcome::DryRun, text) };
        }
        journal::intent(request, &accepted);
        let deadline = request.stamp.at + timeout;
        let ticket = Arc::new(Ticket::default());
        let complete = |report: Report| {
            let previous = report.previous.clone().or_else(|| ticket.previous());
            Report { requested: requested.clone(), previous, ..report }
        };
        let permit = ticket::Gate {
            control: Arc::clone(self),
            ticket: Arc::clone(&ticket),
            tag: entry.id,
            latest: Arc::clone(&route.latest),
            stamp: request.stamp.number,
            expect: expect.clone(),
            deadline,
        };
        let (command, mut answer) =
            Command::new(entry.id, accepted.effective.clone(), expect.is_some(), deadline, Box::new(permit));
        route.queue.push(command);
        let early = tokio::select! {
            biased;
            report = &mut answer => return complete(report.unwrap_or_else(|_closed| lost())),
            () = request.cancel.cancelled() => "the caller cancelled it before it could be sent".to_owned(),
            () = sleep_until(deadline) => ticket::too_late(timeout),
        };
        if ticket.abandon() {
            return complete(Report::new(Outcome::NotSent, early));
        }
        complete(match timeout_at(deadline + GRACE, answer).await {
            Ok(report) => report.unwrap_or_else(|_closed| lost()),
            Err(_elapsed) => {
                Report::new(Outcome::Unknown, "it was sent, and no answer came before its deadline")
            }
        })
    }
}

/// Every command answers for itself, so this is never said; if it were, nothing better would be known.
fn lost() -> Report {
    Report::new(Outcome::Unknown, "nothing came back of it")
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}
