//! CAN: devices that send frames on a bus, and take them.
//!
//! One task owns a bus, by whichever adapter (`bus`); all devices on it share it. A frame is looked up by its identifier, or
//! by its parameter group and sender in J1939, and every tag then reads its own bits. Knows no store, no control and no MCP.
//!
//! Frames leave from one place only (`write`), which lets through what the connection may send and nothing else.

mod bus;
mod inside;
mod packets;
mod plant;
mod receive;
mod replay;
pub mod scan;
mod sender;
mod session;
mod slcan;
#[cfg(target_os = "linux")]
mod socketcan;
mod socketcand;
mod stream;
mod write;

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
};

use bus::Bus;
pub use inside::{Attach, Buses, Port, Refused};
use packets::Packets;
use plant::Plant;
pub use plant::{Memory, Node};
use session::{End, Session};

#[cfg(target_os = "linux")]
use crate::codec::can::Id;
use crate::{
    config::{Adapter, CanEndpoint},
    link::{Counters, Driver, Inbox, LinkError, SessionEnd, Sink},
};

/// The driver of one bus.
#[derive(Debug)]
pub struct Can {
    endpoint: CanEndpoint,
    plant: Plant,
    buses: Buses,
    memory: Memory,
    counters: Arc<Counters>,
}

/// An open bus.
pub struct Connection(Box<dyn Bus>);

impl Can {
    /// `buses` are those of this process; `memory` is that of the link before it, and of this one after it.
    #[must_use]
    pub fn new(
        endpoint: CanEndpoint,
        nodes: &[Node<'_>],
        buses: Buses,
        memory: Memory,
        counters: Arc<Counters>,
    ) -> Self {
        let mut plant = Plant::new(nodes);
        memory.give(&mut plant);
        Self { endpoint, plant, buses, memory, counters }
    }

    async fn open(&self) -> Result<Box<dyn Bus>, LinkError> {
        let fail = |problem: String| LinkError { address: self.endpoint.address(), problem, lasting: false };
        match &self.endpoint.adapter {
            #[cfg(target_os = "linux")]
            Adapter::SocketCan { interface } => {
                let CanEndpoint { fd, listen_only, .. } = self.endpoint;
                // Who has no devices wants to see all that there is.
                let filters = if self.plant.tags.is_empty() { everything() } else { self.plant.filters() };
                socketcan::open(interface, fd, listen_only, &filters)
            }
            #[cfg(not(target_os = "linux"))]
            Adapter::SocketCan { .. } => Err(fail("SocketCAN is there on Linux only".to_owned())),
            Adapter::Slcan { stream, bitrate, data_bitrate } => {
                slcan::open(&self.endpoint, stream, *bitrate, *data_bitrate).await
            }
            Adapter::Socketcand { address, interface } => {
                socketcand::open(&self.endpoint, address, interface).await
            }
            Adapter::Virtual { bus } => {
                let port = self.buses.attach(bus);
                port.ok_or_else(|| {
                    fail("there is no such bus in this process: simulators have one in the demo".to_owned())
                })
            }
            Adapter::Replay { file, channel, speed, repeat } => {
                match replay::Replay::open(file, channel.clone(), *speed, *repeat) {
                    Ok(log) => Ok(Box::new(log)),
                    Err(error) => Err(fail(error.to_string())),
                }
            }
        }
    }
}

/// The filters that let every frame through.
#[cfg(target_os = "linux")]
fn everything() -> Vec<(Id, u32)> {
    [Id::standard(0), Id::extended(0)].into_iter().flatten().map(|id| (id, 0)).collect()
}

impl Driver for Can {
    type Connection = Connection;

    async fn connect(&mut self) -> Result<Connection, LinkError> {
        self.open().await.map(Connection)
    }

    async fn run(&mut self, connection: Connection, inbox: &mut Inbox, sink: &Sink) -> SessionEnd {
        self.counters.sessions.fetch_add(1, Ordering::Relaxed);
        let session = Session {
            plant: &mut self.plant,
            endpoint: &self.endpoint,
            bus: connection.0,
            sink,
            counters: &self.counters,
            packets: Packets::default(),
            batch: Vec::new(),
            observed: Vec::new(),
            waiting: VecDeque::new(),
            open: Vec::new(),
            echoes: VecDeque::new(),
            number: 0,
            retry: None,
            is_off: false,
            told: None,
            told_until: None,
        };
        match session.run(inbox).await {
            End::Stopped => SessionEnd::Stopped,
            End::Lost(failure) => {
                let (address, problem) = (self.endpoint.address(), failure.to_string());
                SessionEnd::Lost(LinkError { address, problem, lasting: false })
            }
        }
    }
}

impl Drop for Can {
    fn drop(&mut self) {
        self.memory.keep(&self.plant);
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}

#[cfg(test)]
mod tests;
