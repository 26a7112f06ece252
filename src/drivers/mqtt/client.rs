//! The client library, in its two versions, as sessions see it.
//!
//! Owns what differs between MQTT 3.1.1 and 5, and what becomes of protocol state between two connections. Must not
//! know tags, payloads or when to connect.
//!
//! The library repeats, on the next connection, what a broker did not acknowledge. A write must never leave twice, nor
//! late: so each connection begins with a client that knows nothing, and of what the one before it left undone only
//! this is handed on, where the broker kept its session: the releases of QoS 2 (PUBREL), of which the broker has the
//! message already, and the numbers of messages that we received so far. Where it may hold a message of ours that is not
//! released, it is asked to begin a new session, or a later message of the same number would be taken for that one.

mod kept;
mod reason;
mod v311;
mod v5;

use std::{io, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
pub(super) use reason::Code;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    config::{MqttEndpoint, MqttVersion},
    profile::mqtt::Qos,
};

/// What carries MQTT.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub(super) type BoxStream = Box<dyn Stream>;

/// Connects, again and again, with what outlives connections.
#[derive(Debug)]
pub(super) enum Client {
    V311(v311::Client),
    V5(v5::Client),
}

/// What came of connecting.
pub(super) enum Connected {
    Session(Welcome, Sender, Events),
    /// The broker threw the former session away: connect once more.
    Cleared,
}

/// How the broker received us.
#[derive(Debug, Clone, Copy)]
pub(super) struct Welcome {
    /// It kept our subscriptions, and the messages that came since.
    pub(super) session_present: bool,
    /// Messages tell which subscription they belong to.
    pub(super) has_identifiers: bool,
    pub(super) limits: Limits,
}

/// What the broker takes of us.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Messages that may be unacknowledged at once: what goes beyond would wait in the library, and leave late.
    pub(super) window: usize,
    pub(super) qos: Qos,
    /// Whether it keeps messages.
    pub(super) retains: bool,
    /// Bytes of a packet.
    pub(super) size: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { window: IN_FLIGHT.into(), qos: Qos::ExactlyOnce, retains: true, size: None }
    }
}

/// Why a connection did not come about, or ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) problem: String,
    /// Whether somebody must change something before it passes.
    pub(super) lasting: bool,
}

/// Puts packets into the queue of an open connection.
pub(super) enum Sender {
    V311(rumqttc_v4::AsyncClient),
    V5(rumqttc_v5::AsyncClient),
}

/// Drives an open connection.
pub(super) enum Events {
    V311(Box<rumqttc_v4::EventLoop>),
    V5(Box<rumqttc_v5::EventLoop>),
}

/// What happened on a connection.
#[derive(Debug)]
pub(super) enum Event {
    Message(Message),
    /// Nothing that a session needs to know.
    Other,
}

/// A message that came in.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) topic: Bytes,
    pub(super) payload: Bytes,
    pub(super) qos: Qos,
    /// It was kept by the broker, and is as old as may be.
    pub(super) retain: bool,
    /// Identifiers of the subscriptions that it came by.
    pub(super) identifiers: Vec<usize>,
    pub(super) correlation: Option<Bytes>,
}

/// A message that goes out.
#[derive(Debug)]
pub(super) struct Outgoing<'a> {
    pub(super) topic: &'a str,
    pub(super) payload: Vec<u8>,
    pub(super) qos: Qos,
    pub(super) retain: bool,
    /// Seconds after which no broker delivers it any more; MQTT 5.
    pub(super) expiry: Option<u32>,
    /// Topic of the answer, and what it is known by; MQTT 5.
    pub(super) reply: Option<(&'a str, u64)>,
}

/// What became of an outgoing message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ack {
    /// It was handed to the network; nothing answers QoS 0.
    Flushed,
    Taken,
    Refused(Code),
    /// The connection ended before an answer.
    Lost,
}

/// What a broker says to one filter: the quality of service that it grants, or why it does not.
pub(super) type Granted = Result<Qos, Code>;

impl Client {
    pub(super) fn new(endpoint: &MqttEndpoint) -> Self {
        match endpoint.version {
            MqttVersion::V311 => Self::V311(v311::Client::default()),
            MqttVersion::V5 => Self::V5(v5::Client::default()),
        }
    }

    /// Speaks to the broker at the other end of `stream`.
    pub(super) async fn connect(
        &mut self,
        endpoint: &MqttEndpoint,
        login: Option<(&str, &str)>,
        stream: BoxStream,
    ) -> Result<Connected, Failure> {
        match self {
            Self::V311(client) => client.connect(endpoint, login, stream).await,
            Self::V5(client) => client.connect(endpoint, login, stream).await,
        }
    }
}

impl Sender {
    /// Queues a message, and tells what becomes of it; an error says that it will never leave.
    pub(super) fn publish(&self, message: Outgoing<'_>) -> Result<BoxFuture<'static, Ack>, String> {
        match self {
            Self::V311(client) => v311::publish(client, message),
            Self::V5(client) => v5::publish(client, message),
        }
    }

    /// Queues a subscription, and tells what the broker grants, filter by filter; `None` where the connection ended.
    pub(super) fn subscribe(
        &self,
        filters: &[(String, Qos)],
        identifier: Option<usize>,
    ) -> Result<BoxFuture<'static, Option<Vec<Granted>>>, String> {
        match self {
            Self::V311(client) => v311::subscribe(client, filters),
            Self::V5(client) => v5::subscribe(client, filters, identifier),
        }
    }

    /// Queues the end of the session.
    pub(super) fn disconnect(&self) {
        // Where it cannot be queued, the connection ends all the same.
        match self {
            Self::V311(client) => drop(client.try_disconnect_now()),
            Self::V5(client) => drop(client.try_disconnect_now()),
        }
    }
}

impl Events {
    /// The next event; not to be dropped halfway.
    pub(super) async fn next(&mut self) -> Result<Event, Failure> {
        match self {
            Self::V311(events) => v311::next(events).await,
            Self::V5(events) => v5::next(events).await,
        }
    }
}

impl Failure {
    fn passing(problem: impl Into<String>) -> Self {
        Self { problem: problem.into(), lasting: false }
    }

    /// A broker that connects and says nothing.
    pub(super) fn unanswered(limit: Duration) -> Self {
        Self::passing(format!("the broker does not answer our connect within {} ms", limit.as_millis()))
    }

    /// A password that cannot be read.
    pub(super) fn secret(problem: String) -> Self {
        Self { problem, lasting: true }
    }

    /// A write whose bytes the broker's TCP does not take: they must not arrive later.
    pub(super) fn stuck() -> Self {
        Self::passing("the broker takes no more bytes, and what waits would arrive late")
    }

    fn refused(code: Code) -> Self {
        Self { problem: format!("the broker refuses us: {code}"), lasting: code.is_lasting() }
    }

    /// A connection that broke.
    fn broken(error: &io::Error) -> Self {
        if is_end(error) {
            Self::passing(CLOSED)
        } else {
            Self::passing(format!("the connection broke: {error}"))
        }
    }
}

/// Whether the broker closed the connection.
fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::UnexpectedEof)
}

const CLOSED: &str = "the broker closed the connection";
const NO_PING: &str = "the broker no longer answers";

/// Packets that may wait for the network at once.
const QUEUE: usize = 256;
/// Messages of ours that may be unacknowledged at once.
const IN_FLIGHT: u16 = 100;
/// Bytes of a packet beside its payload: the longest topic there can be, and properties.
const HEADERS: u32 = 131_072;

/// A stream that can be taken once.
struct Once(Mutex<Option<BoxStream>>);

impl Once {
    fn new(stream: BoxStream) -> Self {
        Self(Mutex::new(Some(stream)))
    }

    fn take(&self) -> io::Result<BoxStream> {
        self.0.lock().take().ok_or_else(|| io::Error::other("the connection was used already"))
    }
}

/// Host and port of an address.
fn place(address: &str) -> (&str, u16) {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    (host, port.parse().unwrap_or(1883))
}
