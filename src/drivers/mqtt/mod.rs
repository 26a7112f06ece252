//! MQTT: what publishes and listens on topics of a broker.
//!
//! One task owns the connection to a broker; all devices there share it. What is known of them (`plant`) outlives
//! sessions. A message is parsed once for each encoding in which tags read it, and every tag then finds its own part:
//! what is wrong with one says nothing about the others. Knows no store, no control and no MCP.
//!
//! A write leaves once, at the moment when it is granted, and never again: what the broker did not acknowledge when a
//! connection ends is not repeated on the next one (`client`).

mod client;
mod message;
mod plant;
pub mod scan;
mod session;
mod write;

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::{Arc, atomic::Ordering},
};

use client::{BoxStream, Client, Connected, Events, Failure, Sender, Welcome};
use futures_util::stream::FuturesUnordered;
use plant::Plant;
use session::{End, Session};
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout_at},
};

use crate::{
    codec::payload::Bounds,
    config::{Login, MqttDevice, MqttEndpoint, Secret, Tls},
    link::{
        Counters, Driver, Inbox, LinkError, SessionEnd, Sink,
        transport::{self, Delivery, tls::Security},
    },
    model::{DeviceId, TagId},
    profile::mqtt::{Availability, Point},
};

/// Arrays and objects within one another that a payload may have.
const DEPTH: usize = 64;

/// One device at a broker.
#[derive(Debug, Clone, PartialEq)]
pub struct Station {
    pub device: DeviceId,
    pub availability: Vec<Availability>,
    pub tags: Vec<Subscribed>,
}

/// One tag of a device.
#[derive(Debug, Clone, PartialEq)]
pub struct Subscribed {
    pub id: TagId,
    /// Lowest and highest value that the process can have.
    pub range: Option<(f64, f64)>,
    pub point: Arc<Point>,
}

impl Station {
    /// A configured device; `ids` are those of its tags, in their order.
    #[must_use]
    pub fn new(device: DeviceId, spec: &MqttDevice, ids: &[TagId]) -> Self {
        let tags = spec.tags.iter().zip(ids).map(|(tag, id)| Subscribed {
            id: *id,
            range: tag.tag.definition.range,
            point: Arc::clone(&tag.source),
        });
        Self { device, availability: spec.availability.clone(), tags: tags.collect() }
    }
}

/// The driver of one client at a broker.
#[derive(Debug)]
pub struct Mqtt {
    endpoint: MqttEndpoint,
    client: Client,
    plant: Plant,
    counters: Arc<Counters>,
}

/// A broker that received us.
pub struct Connection {
    welcome: Welcome,
    sender: Sender,
    events: Events,
    delivery: Delivery,
}

impl Mqtt {
    #[must_use]
    pub fn new(endpoint: MqttEndpoint, stations: &[Station], counters: Arc<Counters>) -> Self {
        Self { client: Client::new(&endpoint), plant: Plant::new(stations), endpoint, counters }
    }

    async fn open(&mut self) -> Result<Connection, LinkError> {
        let fail = |Failure { problem, lasting }| LinkError {
            address: self.endpoint.address.clone(),
            problem,
            lasting,
        };
        let password = password(self.endpoint.login.as_ref()).await.map_err(fail)?;
        let user = self.endpoint.login.as_ref().map(|login| login.user.as_str());
        let login = user.map(|user| (user, password.as_str()));
        loop {
            let (stream, delivery) = stream(&self.endpoint).await?;
            let until = Instant::now() + self.endpoint.timeout;
            match timeout_at(until, self.client.connect(&self.endpoint, login, stream)).await {
                Ok(Ok(Connected::Session(welcome, sender, events))) => {
                    return Ok(Connection { welcome, sender, events, delivery });
                }
                Ok(Ok(Connected::Cleared)) => {}
                Ok(Err(failure)) => return Err(fail(failure)),
                Err(_elapsed) => return Err(fail(Failure::unanswered(self.endpoint.timeout))),
            }
        }
    }
}

impl Driver for Mqtt {
    type Connection = Connection;

    async fn connect(&mut self) -> Result<Connection, LinkError> {
        self.open().await
    }

    async fn run(&mut self, connection: Connection, inbox: &mut Inbox, sink: &Sink) -> SessionEnd {
        let Connection { welcome, sender, mut events, delivery } = connection;
        self.counters.sessions.fetch_add(1, Ordering::Relaxed);
        let size = usize::try_from(self.endpoint.max_payload).unwrap_or(usize::MAX);
        let session = Session {
            plant: &mut self.plant,
            sender,
            delivery,
            sink,
            counters: &self.counters,
            bounds: Bounds { size, depth: DEPTH },
            announce: self.endpoint.announce.as_ref(),
            has_arrived: false,
            batch: Vec::new(),
            limits: welcome.limits,
            writes: BTreeMap::new(),
            loose: Vec::new(),
            acks: FuturesUnordered::new(),
            grants: FuturesUnordered::new(),
            wanted: VecDeque::new(),
        };
        match session.run(&mut events, welcome, inbox).await {
            End::Stopped => SessionEnd::Stopped,
            End::Lost(Failure { problem, lasting }) => {
                SessionEnd::Lost(LinkError { address: self.endpoint.address.clone(), problem, lasting })
            }
        }
    }
}

async fn stream(endpoint: &MqttEndpoint) -> Result<(BoxStream, Delivery), LinkError> {
    match &endpoint.tls {
        None => {
            let stream = transport::tcp::connect(&endpoint.address, endpoint.timeout).await?;
            let delivery = Delivery::of(&stream);
            Ok((Box::new(stream), delivery))
        }
        Some(tls) => {
            let Tls { ca, identity, server_name } = tls.clone();
            let security = Security { ca, identity, server_name };
            let (stream, delivery) =
                transport::tls::connect(&endpoint.address, endpoint.timeout, &security).await?;
            Ok((Box::new(stream), delivery))
        }
    }
}

/// The password, as it is now; empty where there is none.
async fn password(login: Option<&Login>) -> Result<String, Failure> {
    let Some(secret) = login.and_then(|login| login.password.clone()) else { return Ok(String::new()) };
    let read = move || match secret {
        Secret::Variable(name) => {
            std::env::var(&name).map_err(|error| format!("password from {name}: {error}"))
        }
        Secret::File(file) => {
            first_line(&file).map_err(|error| format!("password from {}: {error}", file.display()))
        }
    };
    let read = spawn_blocking(read).await.map_err(|error| error.to_string()).flatten();
    read.map_err(Failure::secret)
}

fn first_line(file: &std::path::Path) -> io::Result<String> {
    let text = std::fs::read_to_string(file)?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}

#[cfg(test)]
mod tests;
