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

use futures_util::future::join_all;
use parking_lot::RwLock;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    config::WriteMode,
    link::{Command, Queue},
    model::{Outcome, Report, Setpoint, TagId, Value},
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

    /// Does the writes of one call to one device: every rule holds for all of them before anything of any is sent.
    pub async fn write_all(self: &Arc<Self>, requests: Vec<WriteRequest>) -> Vec<Report> {
        let control = Arc::clone(self);
        let count = requests.len();
        let task = self.writes.spawn(async move {
            let reports = control.run_all(&requests).await;
            for (request, report) in requests.iter().zip(&reports) {
                journal::outcome(request, report);
            }
            reports
        });
        task.await.unwrap_or_else(|error| {
            vec![Report::new(Outcome::Unknown, format!("the write failed inside: {error}")); count]
        })
    }

    async fn run(self: &Arc<Self>, request: &WriteRequest) -> Report {
        let admitted = match self.admit(request) {
            Ok(admitted) => admitted,
            Err(report) => return report,
        };
        if request.dry_run {
            return rehearsed(admitted);
        }
        journal::intent(request, &admitted.accepted);
        let (queue, timeout) = (admitted.route.queue.clone(), admitted.timeout);
        let (command, pending) = self.launch(request, admitted, timeout);
        queue.push(command);
        pending.settle(&request.cancel).await
    }

    async fn run_all(self: &Arc<Self>, requests: &[WriteRequest]) -> Vec<Report> {
        let admitted = requests.iter().map(|request| self.admit(request)).collect::<Vec<_>>();
        let admitted = rules::together(requests, admitted);
        if requests.iter().any(|request| request.dry_run) {
            return admitted
                .into_iter()
                .map(|admitted| admitted.map_or_else(|report| report, rehearsed))
                .collect();
        }
        let refused = admitted.iter().find_map(|admitted| admitted.as_ref().err());
        if let Some(refused) = refused {
            let why = format!(
                "nothing of the call was sent, since another write of it was not: {}",
                refused.message
            );
            let other = |admitted: Admitted| {
                let requested = Some(admitted.accepted.requested);
                Report { requested, previous: admitted.present, ..Report::new(Outcome::NotSent, why.clone()) }
            };
            return admitted
                .into_iter()
                .map(|admitted| admitted.map_or_else(|report| report, other))
                .collect();
        }
        let admitted = admitted.into_iter().flatten().collect::<Vec<_>>();
        // They leave together, so the shortest deadline holds for all.
        let timeout = admitted.iter().map(|admitted| admitted.timeout).min().unwrap_or_default();
        let queue = admitted.first().map(|admitted| admitted.route.queue.clone());
        let (mut commands, mut pending) = (Vec::new(), Vec::new());
        for (request, admitted) in requests.iter().zip(admitted) {
            journal::intent(request, &admitted.accepted);
            let (command, answer) = self.launch(request, admitted, timeout);
            commands.push(command);
            pending.push(answer.settle(&request.cancel));
        }
        let mut commands = commands.into_iter();
        if let Some((first, queue)) = commands.next().zip(queue) {
            queue.push(first.with(commands.collect()));
        }
        join_all(pending).await
    }

    /// A command, and what its answer needs.
    fn launch(
        self: &Arc<Self>,
        request: &WriteRequest,
        admitted: Admitted,
        timeout: Duration,
    ) -> (Command, Pending) {
        let Admitted { entry, route, accepted, expect, .. } = admitted;
        let deadline = request.stamp.at + timeout;
        let ticket = Arc::new(Ticket::default());
        let permit = ticket::Gate {
            control: Arc::clone(self),
            ticket: Arc::clone(&ticket),
            tag: entry.id,
            latest: Arc::clone(&route.latest),
            stamp: request.stamp.number,
            expect: expect.clone(),
            deadline,
        };
        let effective = accepted.effective.clone();
        let (command, answer) =
            Command::new(entry.id, accepted.effective, expect.is_some(), deadline, Box::new(permit));
        (command, Pending { ticket, requested: accepted.requested, effective, answer, deadline, timeout })
    }
}

/// A write on its way.
struct Pending {
    ticket: Arc<Ticket>,
    requested: Value,
    /// The nearest to it that the device can hold.
    effective: Value,
    answer: oneshot::Receiver<Report>,
    deadline: Instant,
    timeout: Duration,
}

impl Pending {
    /// Waits for the answer; what still waits when its deadline passes, or it is taken back, never leaves.
    async fn settle(self, cancel: &CancellationToken) -> Report {
        let Self { ticket, requested, effective, mut answer, deadline, timeout } = self;
        let complete = |mut report: Report| {
            let has_left = matches!(report.outcome, Outcome::Sent | Outcome::Written | Outcome::Unknown);
            let (asked, nearest) = (requested.to_string(), effective.to_string());
            if has_left && report.value.is_none() && asked != nearest {
                report.message = format!(
                    "{}; the nearest to {asked} that the device can hold is {nearest}",
                    report.message
                );
            }
            let previous = report.previous.clone().or_else(|| ticket.previous());
            Report { requested: Some(requested.clone()), previous, ..report }
        };
        let early = tokio::select! {
            biased;
            report = &mut answer => return complete(report.unwrap_or_else(|_closed| lost())),
            () = cancel.cancelled() => ticket::CANCELLED.to_owned(),
            () = sleep_until(deadline) => ticket::too_late(timeout),
        };
        if ticket.abandon() {
            return complete(Report::new(Outcome::NotSent, early));
        }
        if cancel.is_cancelled() {
            ticket.withdraw();
        }
        complete(match timeout_at(deadline + GRACE, answer).await {
            Ok(report) => report.unwrap_or_else(|_closed| lost()),
            Err(_elapsed) => {
                Report::new(Outcome::Unknown, "it was sent, and no answer came before its deadline")
            }
        })
    }
}

/// The report on a write that was not meant to be sent.
fn rehearsed(admitted: Admitted) -> Report {
    let text = format!("all rules passed; {} would be sent, nothing was", admitted.accepted.effective);
    let requested = Some(admitted.accepted.requested);
    Report { requested, previous: admitted.present, ..Report::new(Outcome::DryRun, text) }
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
