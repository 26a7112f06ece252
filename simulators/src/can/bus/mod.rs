//! A CAN bus in process.
//!
//! Owns the handle and the task that keeps its time; what happens on the wire is the wire's matter, what a node sees of it
//! the port's.

mod port;
mod timing;
mod trouble;
mod wire;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

pub use port::{Filter, Options, Port, Received, Receiver, SendError, Sender};

use super::{
    fault::Fault,
    frame::{Frame, Id},
};
use timing::Rate;
use wire::Wire;

/// A bus. Cheap to clone; it is there as long as a handle or a port is.
///
/// Without a pace a frame is at all ports when it has been sent. With one, frames take their time, and of those that wait
/// at the ports the one with the lowest identifier is next. Frames of one port stay in their order.
#[derive(Debug, Clone)]
pub struct Bus {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    name: String,
    wire: Mutex<Wire>,
    wake: Arc<Notify>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something on the wire, and wakes the task if there is something to do before it would wake by itself.
    fn change<R>(&self, change: impl FnOnce(&mut Wire, Instant) -> R) -> R {
        let now = Instant::now();
        let mut wire = self.lock();
        let result = change(&mut wire, now);
        let early = wire.is_due_early(now);
        drop(wire);
        if early {
            self.wake.notify_one();
        }
        result
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

impl Bus {
    /// A bus that carries frames at once. To be called within a tokio runtime, as all ways to make a bus.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::start(name, None)
    }

    /// A bus of this bit rate, in bit/s, which is that of CAN FD data too.
    #[must_use]
    pub fn paced(name: &str, bitrate: u32) -> Self {
        Self::start(name, Some(Rate { nominal: bitrate, data: bitrate }))
    }

    /// A bus of this bit rate with another one for CAN FD data, in bit/s.
    #[must_use]
    pub fn paced_fd(name: &str, bitrate: u32, data_bitrate: u32) -> Self {
        Self::start(name, Some(Rate { nominal: bitrate, data: data_bitrate }))
    }

    fn start(name: &str, rate: Option<Rate>) -> Self {
        let wake = Arc::new(Notify::new());
        let wire = Mutex::new(Wire::new(rate, Instant::now()));
        let shared = Arc::new(Shared { name: name.to_owned(), wire, wake: Arc::clone(&wake) });
        let weak = Arc::downgrade(&shared);
        tokio::spawn(async move {
            while let Some(shared) = weak.upgrade() {
                let next = shared.lock().advance(Instant::now());
                drop(shared);
                let woken = wake.notified();
                match next {
                    None => woken.await,
                    Some(next) => tokio::select! { () = sleep_until(next) => {}, () = woken => {} },
                }
            }
        });
        Self { shared }
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// A new node that gets all frames and acknowledges them.
    #[must_use]
    pub fn attach(&self) -> Port {
        self.attach_with(Options::default())
    }

    /// A new node, in another way.
    #[must_use]
    pub fn attach_with(&self, options: Options) -> Port {
        Port::new(&self.shared, options)
    }

    /// From now on this goes wrong, and nothing else. [`Fault::BusOff`] begins at once, and one that is not over yet ends.
    pub fn faults(&self, faults: &[Fault]) {
        self.shared.change(|wire, now| wire.set_faults(faults, now));
    }

    /// Frames carried so far, those of faults included.
    #[must_use]
    pub fn carried(&self) -> u64 {
        self.shared.lock().carried()
    }

    /// Frames that wait to be carried.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.lock().waiting()
    }

    /// Nodes that are attached.
    #[must_use]
    pub fn ports(&self) -> usize {
        self.shared.lock().ports()
    }

    /// Whether the controllers are off the bus.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.shared.lock().is_off()
    }

    /// Whether this device is to send nothing.
    pub(super) fn silenced(&self, device: &str) -> bool {
        self.shared.lock().silenced(device)
    }

    /// The messages whose alive counters are to stay.
    pub(super) fn stuck(&self) -> Vec<Id> {
        self.shared.lock().stuck()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail by a panic")]
mod tests;
