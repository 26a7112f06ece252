//! The resolved settings of a CAN bus.

use std::{path::PathBuf, sync::Arc, time::Duration};

use crate::{codec::can::Id, config::site::TagSpec, profile::can::Point};

/// A bus: by which adapter, and what may be done on it.
#[derive(Debug, Clone, PartialEq)]
pub struct CanEndpoint {
    pub adapter: Adapter,
    /// Whether frames of CAN FD are taken and sent.
    pub fd: bool,
    /// Nothing is sent at all.
    pub listen_only: bool,
    /// Identifiers that may be sent, each from and to.
    pub send: Vec<(Id, Id)>,
    /// Our own address on a J1939 bus.
    pub source: Option<u8>,
    /// How long connecting may take.
    pub timeout: Duration,
    /// First and longest delay between two tries to connect.
    pub reconnect: (Duration, Duration),
}

/// What leads to a bus.
#[derive(Debug, Clone, PartialEq)]
pub enum Adapter {
    /// A network interface of Linux.
    SocketCan { interface: String },
    /// An adapter that speaks slcan.
    Slcan { stream: Stream, bitrate: u32, data_bitrate: Option<u32> },
    /// A server of socketcand.
    Socketcand { address: String, interface: String },
    /// A bus in this process.
    Virtual { bus: String },
    /// A log of candump.
    Replay {
        file: PathBuf,
        /// The bus of a log of several; `None` takes all.
        channel: Option<String>,
        /// 1 is the log's own pace, 0 as fast as can be.
        speed: f64,
        repeat: bool,
    },
}

/// What carries slcan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stream {
    Port { path: String, baud: u32 },
    Tcp { address: String },
}

/// What sends and takes frames on a bus.
#[derive(Debug, Clone, PartialEq)]
pub struct CanDevice {
    /// Its address on a J1939 bus.
    pub source: Option<u8>,
    pub tags: Vec<TagSpec<Arc<Point>>>,
}

impl CanEndpoint {
    /// First and longest delay between two tries to connect, where the site says nothing: an interface that is up again is
    /// soon used again.
    pub const RECONNECT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
    /// How long connecting may take where the site says nothing.
    pub const TIMEOUT: Duration = Duration::from_secs(2);
    pub(crate) const BITRATE: u32 = 500_000;
    pub(crate) const BAUD: u32 = 115_200;

    /// Where it leads, as people write it.
    #[must_use]
    pub fn address(&self) -> String {
        match &self.adapter {
            Adapter::SocketCan { interface } => interface.clone(),
            Adapter::Slcan { stream: Stream::Port { path, .. }, .. } => path.clone(),
            Adapter::Slcan { stream: Stream::Tcp { address }, .. } => address.clone(),
            Adapter::Socketcand { address, interface } => format!("{address} {interface}"),
            Adapter::Virtual { bus } => bus.clone(),
            Adapter::Replay { file, .. } => file.display().to_string(),
        }
    }

    /// The name of the driver in site files.
    #[must_use]
    pub fn driver(&self) -> &'static str {
        match &self.adapter {
            Adapter::SocketCan { .. } => "socketcan",
            Adapter::Slcan { stream: Stream::Port { .. }, .. } => "slcan",
            Adapter::Slcan { stream: Stream::Tcp { .. }, .. } => "slcan-tcp",
            Adapter::Socketcand { .. } => "socketcand",
            Adapter::Virtual { .. } => "can-virtual",
            Adapter::Replay { .. } => "can-replay",
        }
    }

    /// Whether a frame of this identifier may be sent.
    #[must_use]
    pub fn may_send(&self, id: Id) -> bool {
        !self.listen_only && self.send.iter().any(|(first, last)| (*first..=*last).contains(&id))
    }
}
