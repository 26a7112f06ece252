//! The resolved site: everything known, checked and with its defaults.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use super::{
    broker::MqttEndpoint,
    can::{CanDevice, CanEndpoint},
};
use crate::{
    model::{Device, Tag},
    profile::{
        modbus::{self, Dialect},
        mqtt::{self, Availability},
    },
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
#[derive(Debug, Clone, PartialEq)]
pub enum Endpoint {
    Modbus(ModbusEndpoint),
    Mqtt(MqttEndpoint),
    Can(CanEndpoint),
}

/// A Modbus network: what carries it, and how requests follow one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModbusEndpoint {
    pub transport: Transport,
    /// How long an answer, or a connect, may take, apart from the time that its characters take on a serial line.
    pub timeout: Duration,
    /// Pause between connecting and the first request.
    pub connect_delay: Duration,
    /// Least pause between an answer and the next request.
    pub request_gap: Duration,
    /// Closes the connection where nothing is due for so long.
    pub idle_close: Option<Duration>,
    /// Requests that may be on the wire at once.
    pub max_in_flight: u8,
    /// Whether answers must carry the transaction id of their request, as the specification says.
    pub check_ids: bool,
    /// First and longest delay between two tries to connect.
    pub reconnect: (Duration, Duration),
}

/// What carries Modbus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// Modbus TCP; with `tls`, Modbus/TCP Security.
    Tcp {
        /// `host:port`; the host may be a name.
        address: String,
        tls: Option<Tls>,
    },
    /// RTU frames over TCP, as transparent serial servers pass them on.
    RtuTcp {
        address: String,
    },
    Rtu(Serial),
}

/// A serial port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serial {
    /// Path of the port, best one below `/dev/serial/by-id`.
    pub port: String,
    pub baud: u32,
    pub parity: Parity,
    /// 1 or 2.
    pub stop_bits: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Parity {
    None,
    Odd,
    /// What the specification asks for (Modbus over serial line V1.02, section 2.5.1).
    #[default]
    Even,
}

/// How a TLS peer is known, and how it knows us. Files are in PEM, and are read anew for every connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Certificates of the authorities that may vouch for the device.
    pub ca: PathBuf,
    /// Our certificate with its chain, and its private key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name that the server's certificate must have; `None` takes the host of the address.
    pub server_name: Option<String>,
}

/// One device with its tags, profile and site merged.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceSpec {
    pub device: Arc<Device>,
    pub wire: Wire,
}

/// A device as its protocol has it, with its tags.
#[derive(Debug, Clone, PartialEq)]
pub enum Wire {
    Modbus(ModbusDevice),
    Mqtt(MqttDevice),
    Can(CanDevice),
}

/// A Modbus unit.
#[derive(Debug, Clone, PartialEq)]
pub struct ModbusDevice {
    pub unit_id: u8,
    /// Whether its unit id speaks to all devices at once: nothing answers, so nothing is read.
    pub broadcast: bool,
    pub dialect: Dialect,
    pub tags: Vec<TagSpec<Polled>>,
}

/// What publishes and listens on topics of a broker.
#[derive(Debug, Clone, PartialEq)]
pub struct MqttDevice {
    pub availability: Vec<Availability>,
    pub tags: Vec<TagSpec<Arc<mqtt::Point>>>,
}

impl ModbusEndpoint {
    /// First and longest delay between two tries to connect, where the site says nothing.
    pub const RECONNECT: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));
}

impl Transport {
    /// Where it leads, as people write it.
    #[must_use]
    pub fn address(&self) -> &str {
        match self {
            Self::Tcp { address, .. } | Self::RtuTcp { address } => address,
            Self::Rtu(serial) => &serial.port,
        }
    }

    /// The name of the driver in site files.
    #[must_use]
    pub fn driver(&self) -> &'static str {
        match self {
            Self::Tcp { tls: None, .. } => "modbus-tcp",
            Self::Tcp { tls: Some(_), .. } => "modbus-tls",
            Self::RtuTcp { .. } => "modbus-rtu-tcp",
            Self::Rtu(_) => "modbus-rtu",
        }
    }
}

/// One tag and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct TagSpec<S> {
    pub tag: Arc<Tag>,
    pub source: S,
}

/// What is read again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Polled {
    pub point: Arc<modbus::Point>,
    /// How often it is read.
    pub scan: Duration,
}

impl DeviceSpec {
    /// Its tags, whatever the protocol.
    #[must_use]
    pub fn tags(&self) -> Vec<&Arc<Tag>> {
        match &self.wire {
            Wire::Modbus(device) => device.tags.iter().map(|spec| &spec.tag).collect(),
            Wire::Mqtt(device) => device.tags.iter().map(|spec| &spec.tag).collect(),
            Wire::Can(device) => device.tags.iter().map(|spec| &spec.tag).collect(),
        }
    }
}
