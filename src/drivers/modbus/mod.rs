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
mod defer;
mod extra;
mod form;
mod health;
mod holes;
mod joint;
mod line;
pub mod plan;
mod plant;
mod poll;
pub mod scan;
mod schedule;
mod session;
mod step;
mod verdict;
mod wire;
mod write;

#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use plant::Plant;
use session::{Parked, Session, Start};
use tokio::io::{AsyncRead, AsyncWrite};
use wire::{Framing, Wire};

use crate::{
    config::{ModbusDevice, ModbusEndpoint, Parity, Serial, Tls, Transport},
    link::{
        Counters, Driver, Inbox, LinkError, SessionEnd, Sink,
        transport::{self, Delivery, serial::StopBits, tls::Security},
    },
    model::{DeviceId, TagId},
    profile::modbus::{Dialect, Point},
};

/// One device of a connection.
#[derive(Debug, Clone, PartialEq)]
pub struct Unit {
    pub device: DeviceId,
    /// Modbus unit id.
    pub unit_id: u8,
    /// Whether it stands for all devices at once: nothing of it is read, and nothing answers.
    pub broadcast: bool,
    pub dialect: Dialect,
    pub tags: Vec<Polled>,
}

/// One tag of a device.
#[derive(Debug, Clone, PartialEq)]
pub struct Polled {
    pub id: TagId,
    pub scan: Duration,
    /// Lowest and highest value that the process can have.
    pub range: Option<(f64, f64)>,
    pub point: Arc<Point>,
}

/// The driver of one Modbus network.
#[derive(Debug)]
pub struct Modbus {
    endpoint: ModbusEndpoint,
    plant: Plant,
    parked: Option<Parked>,
    counters: Arc<Counters>,
}

/// An open transport.
pub struct Connection {
    stream: Box<dyn Stream>,
    delivery: Delivery,
}

/// What carries bytes both ways.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Unit {
    /// A configured device; `ids` are those of its tags, in their order.
    #[must_use]
    pub fn new(device: DeviceId, spec: &ModbusDevice, ids: &[TagId]) -> Self {
        let polled = spec.tags.iter().zip(ids).map(|(tag, id)| {
            let (point, scan) = (Arc::clone(&tag.source.point), tag.source.scan);
            Polled { id: *id, scan, range: tag.tag.definition.range, point }
        });
        Self {
            device,
            unit_id: spec.unit_id,
            broadcast: spec.broadcast,
            dialect: spec.dialect.clone(),
            tags: polled.collect(),
        }
    }
}

impl Modbus {
    #[must_use]
    pub fn new(endpoint: ModbusEndpoint, units: &[Unit], counters: Arc<Counters>) -> Self {
        Self { endpoint, plant: Plant::new(units), parked: None, counters }
    }

    /// One session over any stream.
    async fn serve<S>(&mut self, stream: S, delivery: Delivery, inbox: &mut Inbox, sink: &Sink) -> SessionEnd
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let parked = self.parked.take();
        if parked.is_none() {
            self.counters.sessions.fetch_add(1, Ordering::Relaxed);
        }
        let framing = framing(&self.endpoint);
        let (delay, gap) = (self.endpoint.connect_delay, self.endpoint.request_gap);
        let start = Start {
            wire: Wire::new(stream, framing, delay, gap, self.counters.clone()),
            delivery,
            plant: &mut self.plant,
            endpoint: &self.endpoint,
            counters: &self.counters,
            sink,
            parked,
        };
        match Session::new(start, inbox.stop()).run(inbox).await {
            session::End::Stopped => SessionEnd::Stopped,
            session::End::Lost(problem) => SessionEnd::Lost(LinkError {
                address: self.endpoint.transport.address().to_owned(),
                problem,
                lasting: false,
            }),
            session::End::Idle(until, parked) => {
                self.parked = Some(parked);
                SessionEnd::Idle(until)
            }
        }
    }
}

async fn open(endpoint: &ModbusEndpoint) -> Result<Connection, LinkError> {
    let limit = endpoint.timeout;
    match &endpoint.transport {
        Transport::Tcp { address, tls: None } | Transport::RtuTcp { address } => {
            let stream = transport::tcp::connect(address, limit).await?;
            let delivery = Delivery::of(&stream);
            Ok(Connection { stream: Box::new(stream), delivery })
        }
        Transport::Tcp { address, tls: Some(tls) } => {
            let Tls { ca, identity, server_name } = tls.clone();
            let security = Security { ca, identity, server_name };
            let (stream, delivery) = transport::tls::connect(address, limit, &security).await?;
            Ok(Connection { stream: Box::new(stream), delivery })
        }
        Transport::Rtu(serial) => {
            let stream = transport::serial::open(&settings(serial))?;
            // What a port took goes over its line at once; nobody holds it back.
            Ok(Connection { stream: Box::new(stream), delivery: Delivery::told_by(|| false) })
        }
    }
}

fn settings(serial: &Serial) -> transport::serial::Settings {
    transport::serial::Settings {
        path: serial.port.clone(),
        baud: serial.baud,
        parity: match serial.parity {
            Parity::None => transport::serial::Parity::None,
            Parity::Odd => transport::serial::Parity::Odd,
            Parity::Even => transport::serial::Parity::Even,
        },
        stop_bits: if serial.stop_bits == 2 { StopBits::Two } else { StopBits::One },
    }
}

/// How frames are told apart on a transport.
fn framing(endpoint: &ModbusEndpoint) -> Framing {
    match &endpoint.transport {
        Transport::Tcp { .. } => Framing::Mbap { check_ids: endpoint.check_ids },
        Transport::RtuTcp { .. } => Framing::Rtu(line::Line::remote()),
        Transport::Rtu(serial) => {
            let parity = u32::from(serial.parity != Parity::None);
            // A start bit and eight bits of data come with each character.
            let bits = 9 + parity + u32::from(serial.stop_bits);
            Framing::Rtu(line::Line::serial(serial.baud, bits))
        }
    }
}

impl Driver for Modbus {
    type Connection = Connection;

    async fn connect(&mut self) -> Result<Connection, LinkError> {
        let opened = open(&self.endpoint).await;
        if opened.is_err() {
            // What comes after a failed try is a new session.
            self.parked = None;
        }
        opened
    }

    async fn run(&mut self, connection: Connection, inbox: &mut Inbox, sink: &Sink) -> SessionEnd {
        let Connection { stream, delivery } = connection;
        self.serve(stream, delivery, inbox, sink).await
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}
