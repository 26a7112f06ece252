//! Modbus TCP: sessions that poll what a plan says and let writes go first.
//!
//! One task owns the socket of a connection; all units on it share that task, and one request is on the wire at a
//! time. The link is up as long as the peer's stream can be trusted; a unit that is silent or refused by its gateway
//! is demoted alone (`health`) and probed ever more slowly, so that its neighbours keep their rate. What is learned
//! of the devices (`plant`) outlives sessions. Knows no store, no control and no MCP.
//!
//! A write that got no answer must not take effect after a newer one. On one connection bytes arrive in their order, so
//! what the peer's TCP acknowledged is safest left there: the session goes on, and a unit that hangs behind a gateway
//! costs its neighbours nothing. Bytes that are not acknowledged end the session at once, with a reset that has the
//! kernel throw them away (`link::transport`); so do bytes of which nobody can tell, on systems other than Linux.

mod again;
mod health;
pub mod holes;
pub mod plan;
mod plant;
mod poll;
mod schedule;
mod session;
mod wire;
mod write;

#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use plant::Plant;
use session::Session;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

use crate::{
    config::{DeviceSpec, Source},
    link::{
        Counters, Driver, Inbox, LinkError, SessionEnd, Sink,
        transport::{self, Delivery},
    },
    model::{DeviceId, TagId},
    profile::modbus::Point,
};

/// One device of a connection.
#[derive(Debug, Clone, PartialEq)]
pub struct Unit {
    pub device: DeviceId,
    /// Modbus unit id.
    pub unit_id: u8,
    pub tags: Vec<Polled>,
}

/// One tag of a device.
#[derive(Debug, Clone, PartialEq)]
pub struct Polled {
    pub id: TagId,
    pub scan: Duration,
    /// Lowest and highest value that the process can have.
    pub range: Option<(f64, f64)>,
    pub point: Point,
}

/// The driver of one Modbus TCP connection.
#[derive(Debug)]
pub struct Modbus {
    address: String,
    timeout: Duration,
    plant: Plant,
    counters: Arc<Counters>,
}

impl Unit {
    /// A configured device; `ids` are those of its tags, in their order.
    #[must_use]
    pub fn new(device: DeviceId, spec: &DeviceSpec, ids: &[TagId]) -> Self {
        let polled = spec.tags.iter().zip(ids).map(|(tag, id)| {
            let Source::Modbus(point) = &tag.source;
            Polled { id: *id, scan: tag.scan, range: tag.tag.range, point: point.clone() }
        });
        Self { device, unit_id: spec.unit_id, tags: polled.collect() }
    }
}

impl Modbus {
    /// `address` is `host:port`; connecting, and every answer, may take `timeout`.
    #[must_use]
    pub fn new(address: String, timeout: Duration, units: &[Unit], counters: Arc<Counters>) -> Self {
        Self { address, timeout, plant: Plant::new(units), counters }
    }

    /// One session over any stream.
    async fn serve<S>(&mut self, stream: S, delivery: Delivery, inbox: &mut Inbox, sink: &Sink) -> SessionEnd
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        self.counters.sessions.fetch_add(1, Ordering::Relaxed);
        let session = Session::new(stream, delivery, &mut self.plant, self.timeout, &self.counters, sink);
        match session.run(inbox).await {
            session::End::Stopped => SessionEnd::Stopped,
            session::End::Lost(problem) => {
                SessionEnd::Lost(LinkError { address: self.address.clone(), problem })
            }
        }
    }
}

impl Driver for Modbus {
    type Connection = TcpStream;

    async fn connect(&mut self) -> Result<TcpStream, LinkError> {
        transport::tcp::connect(&self.address, self.timeout).await
    }

    async fn run(&mut self, connection: TcpStream, inbox: &mut Inbox, sink: &Sink) -> SessionEnd {
        let delivery = Delivery::of(&connection);
        self.serve(connection, delivery, inbox, sink).await
    }
}
