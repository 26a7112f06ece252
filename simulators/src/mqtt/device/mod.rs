//! A simulated device in operation, and the test's side of it.
//!
//! Owns the state that both share; the connection is the session's matter.

mod session;

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use mqtt5::{ProtocolVersion, QoS};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    fault::Fault,
    model::{Message, Model},
};
use session::Runner;

/// Commands that the log holds.
const LOG: usize = 10_000;
/// What a beat by hand lets pass.
const BEAT: Duration = Duration::from_secs(1);

/// How a device connects and how often it speaks.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Between two beats; with none only beats by hand happen.
    pub every: Option<Duration>,
    /// For all that it publishes, floods excepted.
    pub qos: QoS,
    /// MQTT 3.1.1 instead of 5.
    pub v311: bool,
    /// Name and password.
    pub user: Option<(String, String)>,
    /// When its own clock starts, which then goes by beats; with none it has the time of this machine.
    pub clock: Option<SystemTime>,
}

impl Settings {
    /// Beats of this length, one after the other.
    #[must_use]
    pub fn every(every: Duration) -> Self {
        Self { every: Some(every), ..Self::by_hand() }
    }

    /// Beats by [`Device::beat`] only.
    #[must_use]
    pub fn by_hand() -> Self {
        Self { every: None, qos: QoS::AtLeastOnce, v311: false, user: None, clock: None }
    }

    fn version(&self) -> ProtocolVersion {
        if self.v311 { ProtocolVersion::V311 } else { ProtocolVersion::V5 }
    }
}

/// A device in operation: it connects, and connects again, until it is stopped. Dropping it stops it as well, only
/// without waiting.
#[derive(Debug)]
pub struct Device<M> {
    shared: Arc<Shared<M>>,
    orders: mpsc::UnboundedSender<Order>,
    stop: DropGuard,
    task: JoinHandle<()>,
}

/// What a test tells a device to do, and where to say that it is done.
#[derive(Debug)]
enum Order {
    Beat(Duration, Done),
    Flood(u32, Done),
    Publish(Message, Done),
    /// The faults are others.
    Look,
}

type Done = oneshot::Sender<io::Result<()>>;

#[derive(Debug)]
struct Shared<M> {
    state: Mutex<State<M>>,
    /// Told after every change, outside of all locks.
    changes: watch::Sender<()>,
}

#[derive(Debug)]
struct State<M> {
    model: M,
    connected: bool,
    connects: u64,
    published: u64,
    commands: VecDeque<Message>,
    faults: Vec<Fault>,
}

impl<M> Shared<M> {
    fn lock(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<R>(&self, change: impl FnOnce(&mut State<M>) -> R) -> R {
        let result = change(&mut self.lock());
        self.changes.send_replace(());
        result
    }
}

impl<M: Model> Device<M> {
    /// Connects to the broker at `url` (`mqtt://host:port`), and tries until it succeeds. To be called within a tokio
    /// runtime.
    pub fn start(url: &str, model: M, settings: Settings) -> Self {
        Self::with_faults(url, model, settings, Vec::new())
    }

    /// Has these faults from the start.
    pub fn with_faults(url: &str, model: M, settings: Settings, faults: Vec<Fault>) -> Self {
        let state =
            State { model, connected: false, connects: 0, published: 0, commands: VecDeque::new(), faults };
        let shared = Arc::new(Shared { state: Mutex::new(state), changes: watch::Sender::new(()) });
        let (orders, inbox) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let mut runner = Runner::new(url.to_owned(), Arc::clone(&shared), settings, inbox);
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            stopped.run_until_cancelled(runner.live()).await;
            runner.leave().await;
        });
        Self { shared, orders, stop: stop.drop_guard(), task }
    }

    /// Whether it is connected and has said what it says at first.
    #[must_use]
    pub fn connected(&self) -> bool {
        self.shared.lock().connected
    }

    /// Connections so far.
    #[must_use]
    pub fn connects(&self) -> u64 {
        self.shared.lock().connects
    }

    /// Messages that the broker took so far.
    #[must_use]
    pub fn published(&self) -> u64 {
        self.shared.lock().published
    }

    /// What it was told, in order, carried out or not: all, or the last 10 000.
    #[must_use]
    pub fn commands(&self) -> Vec<Message> {
        self.shared.lock().commands.iter().cloned().collect()
    }

    /// Looks into the device and changes it; what changes is published at the next beat. `change` must not use the
    /// device.
    pub fn with<R>(&self, change: impl FnOnce(&mut M) -> R) -> R {
        self.shared.change(|state| change(&mut state.model))
    }

    /// From now on this goes wrong, and nothing else. Several apply in their order.
    pub fn faults(&self, faults: Vec<Fault>) {
        self.shared.change(|state| state.faults = faults);
        // Who does not take orders any more has been stopped.
        let _stopped = self.orders.send(Order::Look);
    }

    /// Lets a second pass and publishes what there is to say; returns when the broker has taken it.
    ///
    /// # Errors
    /// The device is not connected, or the broker refuses a message; as for all orders.
    pub async fn beat(&self) -> io::Result<()> {
        self.pass(BEAT).await
    }

    /// Lets so much time pass in one beat.
    pub async fn pass(&self, time: Duration) -> io::Result<()> {
        self.order(|done| Order::Beat(time, done)).await
    }

    /// So many beats of a millisecond, as fast as the connection takes them, at `QoS` 0.
    pub async fn flood(&self, beats: u32) -> io::Result<()> {
        self.order(|done| Order::Flood(beats, done)).await
    }

    /// Publishes a message as it is, whatever the faults; returns when the broker has taken it.
    pub async fn publish(&self, message: Message) -> io::Result<()> {
        self.order(|done| Order::Publish(message, done)).await
    }

    /// Waits until `ready` holds: asked now and after everything that happens to the device.
    pub async fn wait_for(&self, mut ready: impl FnMut(&Self) -> bool) {
        let mut changes = self.shared.changes.subscribe();
        while !ready(self) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Says farewell, disconnects in good order and ends.
    pub async fn stop(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "mqtt device task failed");
        }
    }

    async fn order(&self, order: impl FnOnce(Done) -> Order) -> io::Result<()> {
        let (done, answer) = oneshot::channel();
        let sent = self.orders.send(order(done));
        match (sent, answer.await) {
            (Ok(()), Ok(result)) => result,
            _ => Err(io::Error::other("the device was stopped")),
        }
    }
}
