//! What every adapter gives: frames as they come, and a way out for frames.

use std::io;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use crate::codec::can::{Data, Frame};

/// An open bus.
pub(super) trait Bus: Send {
    /// Waits for what comes and adds it to `inflow`, at least one thing. Cancel-safe.
    fn receive<'a>(&'a mut self, inflow: &'a mut Inflow) -> BoxFuture<'a, Result<(), Failure>>;

    /// Hands a frame over, whole and at once, or not at all.
    fn send(&mut self, frame: &Data) -> Result<(), Unsent>;

    /// Whether a frame that was sent comes back once it was on the bus.
    fn has_echo(&self) -> bool;

    /// Whether all that was handed over has reached the adapter; without an echo nothing else tells.
    fn is_delivered(&self) -> bool {
        true
    }

    /// Tells the adapter that we go. Frames that were handed over go first.
    fn close(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// What came.
#[derive(Debug, Default)]
pub(super) struct Inflow {
    pub(super) frames: Vec<Received>,
    /// Frames that were lost behind those that came.
    pub(super) lost: u64,
    /// What was no frame, or none that is known.
    pub(super) garbled: u64,
    /// How often the adapter refused what it was told.
    pub(super) refused: u64,
    /// What is newly the matter with the adapter itself.
    pub(super) news: Option<String>,
    /// What happened to the adapter.
    pub(super) event: Option<String>,
}

/// A frame that came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Received {
    pub(super) frame: Frame,
    /// When it was on the bus, as near as is known.
    pub(super) at: Instant,
    /// Whether it is one of ours.
    pub(super) is_own: bool,
    /// Frames that were lost before it.
    pub(super) lost: u64,
}

/// Why a frame was not sent.
#[derive(Debug)]
pub(super) enum Unsent {
    /// There is no room for it now.
    Busy,
    /// The bus, or the adapter, cannot carry such a frame.
    Unfit(String),
    Lost(Failure),
}

/// Why a bus is lost.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Adapter(String),
}

impl Inflow {
    pub(super) fn push(&mut self, frame: Frame) {
        self.frames.push(Received { frame, at: Instant::now(), is_own: false, lost: 0 });
    }
}

impl Failure {
    pub(super) fn adapter(problem: impl Into<String>) -> Self {
        Self::Adapter(problem.into())
    }
}
