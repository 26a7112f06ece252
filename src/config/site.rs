//! The resolved site: everything known, checked and with its defaults.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use crate::{
    model::{Device, Tag},
    profile,
};

/// A whole plant as one program serves it.
#[derive(Debug, Clone, PartialEq)]
pub struct Site {
    pub name: String,
    pub writes: WriteMode,
    /// Deadline of writes to tags that set none.
    pub write_timeout: Duration,
    pub server: ServerSettings,
    pub connections: Vec<Connection>,
    /// What deserves a second look but is no error.
    pub warnings: Vec<String>,
}

/// Who may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WriteMode {
    #[default]
    Off,
    /// Every write waits for a person; refused until that is built.
    Confirm,
    Allow,
}

impl WriteMode {
    /// The name in site files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Confirm => "confirm",
            Self::Allow => "allow",
        }
    }
}

/// How the tags are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// Where HTTP listens; `None` serves stdio only.
    pub http: Option<SocketAddr>,
    /// Least time between two notifications of one tag to one subscriber.
    pub notify_min: Duration,
}

/// One link and the devices on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Connection {
    pub name: String,
    pub endpoint: Endpoint,
    pub devices: Vec<DeviceSpec>,
}

/// Where a link leads, and by which driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    ModbusTcp {
        /// `host:port`; the host may be a name.
        address: String,
        /// How long an answer, or a connect, may take.
        timeout: Duration,
    },
}

/// One device with its tags, profile and site merged.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceSpec {
    pub device: Arc<Device>,
    /// Modbus unit id.
    pub unit_id: u8,
    pub tags: Vec<TagSpec>,
}

/// One tag and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct TagSpec {
    pub tag: Arc<Tag>,
    /// How often it is read.
    pub scan: Duration,
    pub source: Source,
}

/// Where a tag comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Modbus(profile::modbus::Point),
}
