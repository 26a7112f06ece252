//! The demo's energy meter: what feeds the boiler house, as unit 1 of a serial line.
//!
//! Owns the beat of its physics. What carries its registers to a master is the caller's choice.

mod physics;
mod registers;

pub use physics::{Load, Meter, Readings};
pub use registers::{UNIT, prepare, tables, tick};

use std::time::Duration;

use tokio::{task::JoinHandle, time::MissedTickBehavior};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::modbus::{Handle, Unit};

/// The physics advance by so much at every beat.
const BEAT: Duration = Duration::from_millis(100);
/// Every meter makes the same noise.
const SEED: u64 = 2;

/// A running meter. Dropping it stops it as well, only without waiting.
#[derive(Debug)]
pub struct Feed {
    handle: Handle,
    stop: DropGuard,
    physics: JoinHandle<()>,
}

impl Feed {
    /// Starts to measure what `load` says, asked at every beat. To be called within a tokio runtime.
    pub fn start(load: impl Fn() -> Load + Send + 'static) -> Self {
        let handle = Handle::new([(UNIT, tables())]);
        let stop = CancellationToken::new();
        let unit = handle.unit(UNIT);
        let stopped = stop.clone();
        let physics = tokio::spawn(async move {
            if let Some(unit) = unit {
                prepare(&unit);
                live(unit, load, stopped).await;
            }
        });
        Self { handle, stop: stop.drop_guard(), physics }
    }

    /// Its registers, for a server or a line to serve.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Stops the physics. Who serves the registers is to be stopped as well.
    pub async fn stop(self) {
        drop(self.stop);
        if let Err(error) = self.physics.await {
            tracing::warn!(%error, "meter physics failed");
        }
    }
}

async fn live(unit: Unit, load: impl Fn() -> Load, stop: CancellationToken) {
    let mut meter = Meter::new(SEED);
    let mut beat = tokio::time::interval(BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while stop.run_until_cancelled(beat.tick()).await.is_some() {
        let load = load();
        unit.with(|tables| tick(&mut meter, tables, BEAT, load));
    }
}
