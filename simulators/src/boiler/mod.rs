//! The demo's boiler house, served as unit 1 over Modbus TCP.
//!
//! Owns the order of start and stop and the beat of the physics.

mod physics;
mod registers;

pub use physics::{AMBIENT, Boiler, Controls, HIGHEST, Readings};
pub use registers::{UNIT, tables, tick};

use std::{io, net::SocketAddr, time::Duration};

use tokio::{task::JoinHandle, time::MissedTickBehavior};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::modbus::{Handle, Server, Unit};

/// The physics advance by so much at every beat.
const BEAT: Duration = Duration::from_millis(100);
/// Every house makes the same noise.
const SEED: u64 = 1;

/// A running boiler house. Dropping it stops it as well, only without waiting.
#[derive(Debug)]
pub struct House {
    server: Server,
    stop: DropGuard,
    physics: JoinHandle<()>,
}

impl House {
    /// Starts at the steady state of 65.0 °C; port 0 takes a free port. To be called within a tokio runtime.
    pub fn start(addr: SocketAddr) -> io::Result<Self> {
        let server = Server::start(addr, [(UNIT, tables())])?;
        let unit = server.handle().unit(UNIT).ok_or(io::ErrorKind::NotFound)?;
        let stop = CancellationToken::new();
        let physics = tokio::spawn(live(unit, stop.clone()));
        Ok(Self { server, stop: stop.drop_guard(), physics })
    }

    /// The address that it listens on.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// The units, the counts and the log of the server.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        self.server.handle()
    }

    /// Stops the physics and the server; see [`Server::stop`].
    pub async fn stop(self) {
        drop(self.stop);
        if let Err(error) = self.physics.await {
            tracing::warn!(%error, "boiler physics failed");
        }
        self.server.stop().await;
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
