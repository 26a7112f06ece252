//! The resolved settings of a connection to an MQTT broker.

use std::{path::PathBuf, time::Duration};

use super::site::Tls;
use crate::profile::mqtt::Qos;

/// A client at an MQTT broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MqttEndpoint {
    /// `host:port` of the broker.
    pub address: String,
    pub tls: Option<Tls>,
    /// Path of the WebSocket that carries it, such as `/mqtt`.
    pub websocket: Option<String>,
    pub version: MqttVersion,
    pub client_id: String,
    pub login: Option<Login>,
    /// In whole seconds.
    pub keep_alive: Duration,
    /// How long the broker keeps the session while the link is down; `None` for a clean one.
    pub session_expiry: Option<Duration>,
    /// Bytes of the largest payload that is taken.
    pub max_payload: u32,
    /// How long connecting may take, and how long the broker's answer to it.
    pub timeout: Duration,
    pub announce: Option<Announce>,
    /// First and longest delay between two tries to connect.
    pub reconnect: (Duration, Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MqttVersion {
    V311,
    #[default]
    V5,
}

/// Who we are to the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    pub password: Option<Secret>,
}

/// Where a secret is found, anew for every connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Secret {
    /// Name of an environment variable.
    Variable(String),
    /// A file whose first line it is.
    File(PathBuf),
}

/// How we tell whether we are there: by a message when we come, and by another when we go or are lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announce {
    pub topic: String,
    pub online: String,
    pub offline: String,
    pub qos: Qos,
    pub retain: bool,
}

impl MqttEndpoint {
    /// First and longest delay between two tries to connect, where the site says nothing.
    pub const RECONNECT: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
    /// How long connecting may take where the site says nothing.
    pub const TIMEOUT: Duration = Duration::from_secs(5);
    /// As the site's default.
    pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(10);
    pub(super) const MAX_PAYLOAD: u32 = 1_048_576;

    /// The name of the driver in site files.
    #[must_use]
    pub fn driver(&self) -> &'static str {
        match (&self.websocket, &self.tls) {
            (None, None) => "mqtt",
            (None, Some(_)) => "mqtt-tls",
            (Some(_), None) => "mqtt-ws",
            (Some(_), Some(_)) => "mqtt-wss",
        }
    }
}
