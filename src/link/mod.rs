//! One supervisor for every driver: connect, run, back off, command inbox, state.
//!
//! Knows no protocol. A driver tells what it reads through a [`Sink`] and takes writes as [`Command`]s.

mod command;
mod supervisor;
pub mod transport;

#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio::time::Instant;

pub use command::{Command, Inbox, Permit, Queue, queue};
pub use supervisor::{Backoff, supervise};

use crate::model::{DeviceId, DeviceState, LinkState, Quality, Update};

/// A protocol's side of a link. It outlives its sessions and keeps what it learned.
pub trait Driver: Send + 'static {
    /// An open transport.
    type Connection: Send;

    /// Opens the transport. The supervisor calls again after a delay where this fails.
    fn connect(&mut self) -> impl Future<Output = Result<Self::Connection, LinkError>> + Send;

    /// Serves one session until the transport fails, or until the inbox says stop; after an [`SessionEnd::Idle`], goes on
    /// with it.
    ///
    /// The connection is closed by the time this returns.
    fn run(
        &mut self,
        connection: Self::Connection,
        inbox: &mut Inbox,
        sink: &Sink,
    ) -> impl Future<Output = SessionEnd> + Send;
}

/// Why a transport could not be opened, or was lost.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{address}: {problem}")]
pub struct LinkError {
    /// The endpoint, such as `127.0.0.1:5020`.
    pub address: String,
    pub problem: String,
    /// Whether somebody must change something before it passes: the next try can wait.
    pub lasting: bool,
}

/// How a session ended.
#[derive(Debug)]
pub enum SessionEnd {
    /// The inbox said stop.
    Stopped,
    /// The transport failed or its stream cannot be trusted any more.
    Lost(LinkError),
    /// The driver closed the transport since nothing is due before that moment. The session goes on, and what it told
    /// stands; a command opens the transport sooner.
    Idle(Option<Instant>),
}

/// Where a session publishes; it goes dead with its session.
#[derive(Clone)]
pub struct Sink {
    publish: Arc<dyn Publish>,
    /// Whether a good value went through.
    fruitful: Arc<AtomicBool>,
}

/// What stands behind a [`Sink`].
pub trait Publish: Send + Sync {
    /// Takes a batch of updates; empties it, so that the buffer can be used again.
    fn publish(&self, batch: &mut Vec<Update>);

    /// Takes what is the matter with the link, though it is up; `None` where all is well again.
    fn trouble(&self, detail: Option<&str>);

    /// Takes a device's state, with a detail such as the exception that it answers.
    fn device(&self, device: DeviceId, state: DeviceState, detail: Option<&str>);
}

/// The supervisor's way to what keeps samples and states.
pub trait Host: Send + Sync + 'static {
    /// A new session begins; batches of all former ones are discarded from now on.
    fn open(&self) -> Sink;

    /// The link's state changed. Any state but `Connected` ends the session: its tags become bad at once.
    fn state(&self, state: LinkState, detail: Option<&str>);
}

/// What a link did since the program started.
#[derive(Debug, Default)]
pub struct Counters {
    pub sessions: AtomicU64,
    pub requests: AtomicU64,
    /// Messages that came unasked.
    pub messages: AtomicU64,
    pub timeouts: AtomicU64,
    pub exceptions: AtomicU64,
    /// Late and foreign answers, and messages that nobody wants, which were dropped.
    pub dropped: AtomicU64,
    /// Answers and messages that arrived spoilt.
    pub garbled: AtomicU64,
    /// Requests that were asked again since the device was busy or its answer spoilt.
    pub retries: AtomicU64,
    /// Messages that were lost before they could be read.
    pub lost: AtomicU64,
    /// Faults that the network told of itself.
    pub errors: AtomicU64,
    /// Scans that were skipped because the one before them was not over.
    pub overruns: AtomicU64,
}

impl Counters {
    /// Every count with its name.
    #[must_use]
    pub fn all(&self) -> [(&'static str, u64); 11] {
        [
            ("sessions", &self.sessions),
            ("requests", &self.requests),
            ("messages", &self.messages),
            ("timeouts", &self.timeouts),
            ("exceptions", &self.exceptions),
            ("dropped", &self.dropped),
            ("garbled", &self.garbled),
            ("retries", &self.retries),
            ("overruns", &self.overruns),
            ("lost", &self.lost),
            ("errors", &self.errors),
        ]
        .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }
}

impl Sink {
    pub fn new(publish: Arc<dyn Publish>) -> Self {
        Self { publish, fruitful: Arc::default() }
    }

    /// Hands a batch over, at once and whole; the buffer is empty afterwards.
    pub fn publish(&self, batch: &mut Vec<Update>) {
        if batch.iter().any(|update| update.quality == Quality::Good) {
            self.fruitful.store(true, Ordering::Relaxed);
        }
        self.publish.publish(batch);
    }

    /// Tells what is the matter with the link, though it is up; `None` where all is well again.
    pub fn trouble(&self, detail: Option<&str>) {
        self.publish.trouble(detail);
    }

    /// Tells a device's state.
    pub fn device(&self, device: DeviceId, state: DeviceState, detail: Option<&str>) {
        self.publish.device(device, state, detail);
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sink")
    }
}
