//! A simulated node in operation, and the test's side of it.
//!
//! Owns the beat and the port; what a node says and obeys is the model's matter.

mod number;

use std::{
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, MissedTickBehavior},
};
use tokio_util::sync::{CancellationToken, DropGuard};

pub(super) use number::{clip_i16, clip_u8, clip_u16, clip_u32, pack, scale};

use super::{
    bus::{Bus, Filter, Options, Port, SendError},
    frame::{Frame, Id},
};

/// Models advance by about so much at every beat.
const BEAT: Duration = Duration::from_millis(10);
/// What passes within one beat at most: a node that was held up does not send everything that it missed.
const LONGEST: Duration = Duration::from_millis(200);

/// What a node says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// The state of now, which replaces what was said before and has not been sent yet.
    State(Frame),
    /// One frame of several, or one that must not be lost.
    Event(Frame),
}

/// A simulated node: two of the same making and the same steps say the same to the last bit.
pub trait Model: Debug + Send + 'static {
    /// What faults call it.
    fn name(&self) -> &str;

    /// What it listens to.
    fn filters(&self) -> Vec<Filter>;

    /// Lets `passed` pass, and returns what it says at the end of it. The alive counters of messages that are `stuck` stay.
    fn advance(&mut self, passed: Duration, stuck: &[Id]) -> Vec<Said>;

    /// Takes a frame that passed one of its filters, and returns what it says to that. What it does not understand changes
    /// nothing.
    fn receive(&mut self, frame: &Frame) -> Vec<Said>;
}

/// A node in operation. Dropping it stops it as well, only without waiting.
#[derive(Debug)]
pub struct Device<M> {
    shared: Arc<Shared<M>>,
    stop: DropGuard,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared<M> {
    model: Mutex<M>,
    /// Told after every change, outside of all locks.
    changes: watch::Sender<()>,
}

impl<M> Shared<M> {
    fn lock(&self) -> MutexGuard<'_, M> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<R>(&self, change: impl FnOnce(&mut M) -> R) -> R {
        let result = change(&mut self.lock());
        self.changes.send_replace(());
        result
    }
}

impl<M: Model> Device<M> {
    /// Attaches it to the bus and switches it on. To be called within a tokio runtime.
    #[must_use]
    pub fn start(bus: &Bus, model: M) -> Self {
        let port = bus.attach_with(Options { filters: Some(model.filters()), ..Options::default() });
        let shared = Arc::new(Shared { model: Mutex::new(model), changes: watch::Sender::new(()) });
        let stop = CancellationToken::new();
        let (stopped, bus, alive) = (stop.clone(), bus.clone(), Arc::clone(&shared));
        let task = tokio::spawn(async move {
            stopped.run_until_cancelled(live(&bus, port, &alive)).await;
        });
        Self { shared, stop: stop.drop_guard(), task }
    }

    /// Looks into the model and changes it. `change` must not use the device.
    pub fn with<R>(&self, change: impl FnOnce(&mut M) -> R) -> R {
        self.shared.change(change)
    }

    /// Waits until `ready` holds: asked now and after everything that happens to the model.
    pub async fn wait_for(&self, mut ready: impl FnMut(&mut M) -> bool) {
        let mut changes = self.shared.changes.subscribe();
        while !ready(&mut self.shared.lock()) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Switches it off and detaches it.
    pub async fn stop(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "can device task failed");
        }
    }
}

async fn live<M: Model>(bus: &Bus, mut port: Port, shared: &Shared<M>) {
    let mut beat = tokio::time::interval(BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut last = Instant::now();
    loop {
        let said = tokio::select! {
            now = beat.tick() => {
                let passed = now.saturating_duration_since(last).min(LONGEST);
                last = now;
                let stuck = bus.stuck();
                shared.change(|model| model.advance(passed, &stuck))
            }
            received = port.recv() => {
                if received.own || received.frame.class().is_some() {
                    continue;
                }
                shared.change(|model| model.receive(&received.frame))
            }
        };
        if !said.is_empty() && !bus.silenced(shared.lock().name()) {
            for said in said {
                speak(&port, said);
            }
        }
    }
}

fn speak(port: &Port, said: Said) {
    let sent = match said {
        Said::State(frame) => port.renew(frame),
        Said::Event(frame) => port.try_send(frame),
    };
    match sent {
        // The bus is busy or off: the next one will do.
        Ok(()) | Err(SendError::Full) => {}
        Err(error) => tracing::warn!(%error, "a can device cannot send"),
    }
}

/// When a message is due again.
#[derive(Debug, Clone)]
pub(super) struct Cycle {
    period: Duration,
    left: Duration,
}

impl Cycle {
    /// Due for the first time at the end of the first period.
    pub(super) fn new(period: Duration) -> Self {
        Self { period, left: period }
    }

    /// Whether it became due while `passed` passed.
    pub(super) fn due(&mut self, passed: Duration) -> bool {
        let due = passed >= self.left;
        self.left = if due {
            // A beat that was late is made up for, a whole period is not.
            self.period.saturating_sub(passed.saturating_sub(self.left).min(self.period))
        } else {
            self.left.saturating_sub(passed)
        };
        due
    }
}

/// An alive counter of four bits.
#[derive(Debug, Clone, Default)]
pub(super) struct Alive(u8);

impl Alive {
    /// The next value, or the last one where it is stuck.
    pub(super) fn next(&mut self, stuck: bool) -> u8 {
        let value = self.0;
        if !stuck {
            self.0 = (value + 1) & 0x0F;
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_keep_their_mean_under_uneven_beats() {
        let mut cycle = Cycle::new(Duration::from_millis(50));
        let beats = [12, 9, 11, 8, 13, 7, 10, 10, 12, 8];
        let due = (0..100).flat_map(|_| beats).filter(|beat| cycle.due(Duration::from_millis(*beat))).count();
        assert_eq!(due, 200);
    }

    #[test]
    fn alive_counters_wrap_and_freeze() {
        let mut alive = Alive(14);
        assert_eq!([false, true, true, false, false].map(|stuck| alive.next(stuck)), [14, 15, 15, 15, 0]);
    }
}
