//! The node's side of a bus: what it sends, what it gets, and what it was too slow for.
//!
//! Knows queues and filters; nothing of arbitration, time or faults.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::{Semaphore, TryAcquireError, mpsc};

use super::Shared;
use crate::can::frame::{Frame, FrameError};

/// Frames that a port holds for its reader unless told otherwise.
const RECEIVE: usize = 4096;
/// Frames of one port that can wait to be carried.
const TRANSMIT: u32 = 128;

/// Frames whose identifier equals `id` in the bits of `mask`, as `SocketCAN` filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filter {
    pub id: u32,
    pub mask: u32,
    pub extended: bool,
}

impl Filter {
    /// Exactly this identifier of 11 bits.
    #[must_use]
    pub fn standard(id: u16) -> Self {
        Self { id: id.into(), mask: u32::MAX, extended: false }
    }

    /// Identifiers of 29 bits.
    #[must_use]
    pub fn extended(id: u32, mask: u32) -> Self {
        Self { id, mask, extended: true }
    }

    fn passes(&self, frame: &Frame) -> bool {
        frame.extended == self.extended && (frame.id ^ self.id) & self.mask == 0
    }
}

/// How a node takes part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// It neither sends nor acknowledges.
    pub listen_only: bool,
    /// It gets data and remote frames that pass one of these, or all; error frames it always gets, its own never unless
    /// they pass.
    pub filters: Option<Vec<Filter>>,
    /// Frames that wait to be read; further ones are lost.
    pub capacity: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { listen_only: false, filters: None, capacity: RECEIVE }
    }
}

/// What a port got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    pub frame: Frame,
    /// It sent the frame itself, and somebody acknowledged it.
    pub own: bool,
}

/// Why a frame cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The frames before it have not been carried yet.
    #[error("the queue of {TRANSMIT} frames is full")]
    Full,
    /// Another node only may send.
    #[error("the port is listen-only")]
    ListenOnly,
    /// There is no such frame, or it is an error frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// A node on a bus. Dropping it, and whatever it was split into, detaches it; what it had not sent is gone then.
#[derive(Debug)]
pub struct Port {
    sender: Sender,
    receiver: Receiver,
}

/// The sending half of a port. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Sender {
    node: Arc<Node>,
}

/// The receiving half of a port.
#[derive(Debug)]
pub struct Receiver {
    inbox: mpsc::Receiver<Received>,
    node: Arc<Node>,
}

#[derive(Debug)]
struct Node {
    shared: Arc<Shared>,
    number: u64,
    listen_only: bool,
    /// Places in the queue of frames to be carried.
    places: Arc<Semaphore>,
    lost: Arc<AtomicU64>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shared.change(|wire, _| wire.detach(self.number));
    }
}

/// The wire's end of a port.
#[derive(Debug)]
pub(super) struct Tap {
    pub(super) listen_only: bool,
    filters: Option<Vec<Filter>>,
    inbox: mpsc::Sender<Received>,
    places: Arc<Semaphore>,
    lost: Arc<AtomicU64>,
}

impl Tap {
    /// Counts what the reader was too slow for.
    pub(super) fn hand(&self, frame: &Frame, own: bool) {
        let passes = frame.class().is_some()
            || self.filters.as_ref().is_none_or(|filters| filters.iter().any(|filter| filter.passes(frame)));
        if !passes {
            return;
        }
        if let Err(mpsc::error::TrySendError::Full(_)) =
            self.inbox.try_send(Received { frame: frame.clone(), own })
        {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// So many frames of this port wait no more.
    pub(super) fn release(&self, frames: usize) {
        self.places.add_permits(frames);
    }
}

impl Port {
    pub(super) fn new(shared: &Arc<Shared>, options: Options) -> Self {
        let Options { listen_only, filters, capacity } = options;
        let (outlet, inbox) = mpsc::channel(capacity.max(1));
        let (places, lost) = (Arc::new(Semaphore::new(TRANSMIT as usize)), Arc::default());
        let tap =
            Tap { listen_only, filters, inbox: outlet, places: Arc::clone(&places), lost: Arc::clone(&lost) };
        let number = shared.change(|wire, now| wire.attach(tap, now));
        let node = Arc::new(Node { shared: Arc::clone(shared), number, listen_only, places, lost });
        Self { sender: Sender { node: Arc::clone(&node) }, receiver: Receiver { inbox, node } }
    }

    /// Both halves, for two tasks.
    #[must_use]
    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }

    /// See [`Sender::send`].
    pub async fn send(&self, frame: Frame) -> Result<(), SendError> {
        self.sender.send(frame).await
    }

    /// See [`Sender::try_send`].
    pub fn try_send(&self, frame: Frame) -> Result<(), SendError> {
        self.sender.try_send(frame)
    }

    /// See [`Sender::renew`].
    pub fn renew(&self, frame: Frame) -> Result<(), SendError> {
        self.sender.renew(frame)
    }

    /// See [`Sender::flush`].
    pub async fn flush(&self) {
        self.sender.flush().await;
    }

    /// See [`Receiver::recv`].
    pub async fn recv(&mut self) -> Received {
        self.receiver.recv().await
    }

    /// See [`Receiver::try_recv`].
    pub fn try_recv(&mut self) -> Option<Received> {
        self.receiver.try_recv()
    }

    /// See [`Receiver::lost`].
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.receiver.lost()
    }
}

impl Sender {
    /// Waits for a place in the queue, not for the frame to be carried.
    ///
    /// # Errors
    /// All but [`SendError::Full`].
    pub async fn send(&self, frame: Frame) -> Result<(), SendError> {
        self.check(&frame)?;
        if let Ok(place) = self.node.places.acquire().await {
            place.forget();
        }
        self.enqueue(frame);
        Ok(())
    }

    /// Sends unless too many frames wait already.
    pub fn try_send(&self, frame: Frame) -> Result<(), SendError> {
        self.check(&frame)?;
        match self.node.places.try_acquire() {
            Err(TryAcquireError::NoPermits) => return Err(SendError::Full),
            Ok(place) => place.forget(),
            // Nobody closes it.
            Err(TryAcquireError::Closed) => {}
        }
        self.enqueue(frame);
        Ok(())
    }

    /// Takes the place of a frame with the same identifier that still waits, as a message buffer of a controller does.
    pub fn renew(&self, frame: Frame) -> Result<(), SendError> {
        self.check(&frame)?;
        if self.node.shared.change(|wire, _| wire.renew(self.node.number, &frame)) {
            return Ok(());
        }
        self.try_send(frame)
    }

    /// Waits until all that was sent has been carried.
    pub async fn flush(&self) {
        let _all = self.node.places.acquire_many(TRANSMIT).await;
    }

    fn check(&self, frame: &Frame) -> Result<(), SendError> {
        if self.node.listen_only {
            return Err(SendError::ListenOnly);
        }
        if frame.class().is_some() {
            return Err(FrameError::Kind.into());
        }
        Ok(frame.check()?)
    }

    fn enqueue(&self, frame: Frame) {
        self.node.shared.change(|wire, now| wire.send(self.node.number, frame, now));
    }
}

impl Receiver {
    /// The next frame, error frames and own ones included.
    pub async fn recv(&mut self) -> Received {
        match self.inbox.recv().await {
            Some(received) => received,
            // The wire holds the other end as long as this one is attached.
            None => std::future::pending().await,
        }
    }

    /// The next frame if there is one.
    pub fn try_recv(&mut self) -> Option<Received> {
        self.inbox.try_recv().ok()
    }

    /// Frames lost so far, since too many waited to be read.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.node.lost.load(Ordering::Relaxed)
    }
}
