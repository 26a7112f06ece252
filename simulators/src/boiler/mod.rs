//! The demo's boiler house, as unit 1 of a PLC.
//!
//! Owns the order of start and stop and the beat of the physics.

mod physics;
mod registers;

pub use physics::{AMBIENT, Boiler, Controls, HIGHEST, Readings};
pub use registers::{UNIT, running, tables, tick};

use std::time::Duration;

use tokio::{task::JoinHandle, time::MissedTickBehavior};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::modbus::{Handle, Unit};

/// The physics advance by so much at every beat.
const BEAT: Duration = Duration::from_millis(100);
/// Every house makes the same noise.
const SEED: u64 = 1;

/// A running boiler house. Dropping it stops it as well, only without waiting.
#[derive(Debug)]
pub struct House {
    handle: Handle,
    stop: DropGuard,
    physics: JoinHandle<()>,
}

impl House {
    /// Starts at the steady state of 65.0 °C; nothing serves it yet. To be called within a tokio runtime.
    #[must_use]
    pub fn start() -> Self {
        let handle = Handle::new([(UNIT, tables())]);
        let stop = CancellationToken::new();
        let (unit, stopped) = (handle.unit(UNIT), stop.clone());
        let physics = tokio::spawn(async move {
            if let Some(unit) = unit {
                live(unit, stopped).await;
            }
        });
        Self { handle, stop: stop.drop_guard(), physics }
    }

    /// Its registers, for a server to serve.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Stops the physics. Who serves the registers is to be stopped as well.
    pub async fn stop(self) {
        drop(self.stop);
        if let Err(error) = self.physics.await {
            tracing::warn!(%error, "boiler physics failed");
        }
    }
}

async fn live(unit: Unit, stop: CancellationToken) {
    let mut boiler = Boiler::new(SEED);
    let mut beat = tokio::time::interval(BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while stop.run_until_cancelled(beat.tick()).await.is_some() {
        unit.with(|tables| tick(&mut boiler, tables, BEAT));
    }
}
