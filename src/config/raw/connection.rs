//! What a site file says of its connections.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{
    config::{
        broker::MqttVersion,
        leaf::{Choice, Flag, HostPort, Name, Number, Text, Whole, Words, leaf_schema},
        problem::Findings,
        read::{List, Node, Read},
        section::section,
        site::Parity,
    },
    profile::raw::{
        Protocol,
        signal::IdRange,
        topic::{Level, TopicName},
    },
};

/// Path of a serial port.
#[derive(Debug, Clone)]
pub(crate) struct PortPath(pub(crate) String);

/// Path of a file with a password.
#[derive(Debug, Clone)]
pub(crate) struct SecretPath(pub(crate) String);

/// Path of a file with certificates or a key.
#[derive(Debug, Clone)]
pub(crate) struct PemPath(pub(crate) String);

/// The drivers there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driver {
    Tcp,
    Tls,
    Rtu,
    RtuTcp,
    Mqtt,
    MqttTls,
    MqttWs,
    MqttWss,
    SocketCan,
    Slcan,
    SlcanTcp,
    Socketcand,
    CanVirtual,
    CanReplay,
}

/// What a broker keeps of a client whose link is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Session {
    Clean,
    Persistent,
}

/// Path of a WebSocket.
#[derive(Debug, Clone)]
pub(crate) struct SocketPath(pub(crate) String);

/// What becomes of an answer whose transaction id is not that of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ids {
    Check,
    Ignore,
}

section! {
    /// One link to one or more devices.
    pub(crate) struct ConnectionTable {
        /// Name by which devices refer to it.
        required name: Name;
        /// Protocol and transport: `modbus-tcp`; `modbus-tls`, the same over TLS (Modbus/TCP Security); `modbus-rtu`, a
        /// serial port; `modbus-rtu-tcp`, RTU frames over TCP, as transparent serial servers pass them on; `mqtt`, a
        /// client at an MQTT broker; `mqtt-tls`, the same over TLS; `mqtt-ws` and `mqtt-wss`, over WebSocket, without and
        /// with TLS; `socketcan`, a CAN interface of Linux; `slcan` and `slcan-tcp`, an adapter that speaks slcan, at a serial
        /// port or behind TCP; `socketcand`, a CAN interface of another machine; `can-virtual`, a bus of the simulators in this
        /// process; `can-replay`, a log of candump.
        required driver: Choice<Driver>;
        /// `host:port` of the device, gateway, broker or adapter; not for what has a `port` or `interface` alone. Modbus TCP is usually at port 502, over TLS
        /// at 802; MQTT at 1883, over TLS at 8883; socketcand at 29536. IPv6 addresses stand in brackets.
        optional address: HostPort;
        /// Path of the serial port, for `modbus-rtu` and `slcan`; best one below `/dev/serial/by-id/`, which stays with its adapter.
        optional port: PortPath;
        /// Bits a second on the line, for `modbus-rtu` and `slcan`. Default: 19200; for `slcan`, where most adapters take any,
        /// 115200.
        optional baud: Whole<50, 4_000_000>;
        /// Parity of each character, for `modbus-rtu`. The specification asks for `even`, and for two stop bits with
        /// `none`; many devices have `none` with one.
        default parity: Choice<Parity> = "even";
        /// Stop bits of each character, for `modbus-rtu`.
        default stop_bits: Whole<1, 2> = 1;
        /// How the two sides know each other, for `modbus-tls`, `mqtt-tls` and `mqtt-wss`.
        optional tls: TlsTable;
        /// How long an answer, or a connect, may take, in milliseconds. Default: 1000; for MQTT and CAN, where it holds for
        /// connecting only, 5000 and 2000.
        optional timeout_ms: Whole<10, 60_000>;
        /// Pause in milliseconds between connecting and the first request, for devices that are not ready at once.
        default connect_delay_ms: Whole<0, 60_000> = 0;
        /// Least pause in milliseconds between an answer and the next request.
        default request_gap_ms: Whole<0, 60_000> = 0;
        /// Closes the connection where nothing is due for so many milliseconds, for devices with few sockets; not for
        /// `modbus-rtu`. Default: it stays open.
        optional idle_close_ms: Whole<100, 86_400_000>;
        /// Requests that may be on their way at once, for `modbus-tcp` and `modbus-tls`; more than the device takes make
        /// it slower or lose some.
        default max_in_flight: Whole<1, 32> = 1;
        /// `check` drops an answer that has not the transaction id of its request; `ignore`, which needs
        /// `max_in_flight = 1`, is for devices that answer with another. For `modbus-tcp` and `modbus-tls`.
        default transaction_ids: Choice<Ids> = "check";
        /// Path of the WebSocket, for `mqtt-ws` and `mqtt-wss`.
        default path: SocketPath = "/mqtt";
        /// Version of MQTT: `5` or `3.1.1`.
        default version: Choice<MqttVersion> = "5";
        /// Who this client is to the broker; two clients of one id throw each other out. Default: `fieldbridge-` and eight
        /// digits that change with each start. Needed for `session = "persistent"`.
        optional client_id: Text;
        /// User name at the broker.
        optional username: Text;
        /// Name of the environment variable that holds the password, read for every connection.
        optional password_env: Text;
        /// File whose first line is the password, read for every connection; a relative path counts from the folder of
        /// this file.
        optional password_file: SecretPath;
        /// Seconds of silence after which client and broker make sure of each other; a lost broker is noticed within
        /// twice as long.
        default keep_alive_s: Whole<5, 65_535> = 10;
        /// What the broker keeps while the link is down: nothing (`clean`), or subscriptions and the messages of QoS 1 and
        /// 2 that come meanwhile (`persistent`). Those count from when they arrive here, however long the broker kept
        /// them, unless a tag has `time`. Each start of this program begins a new session; the last one stays at the
        /// broker until it expires there.
        default session: Choice<Session> = "clean";
        /// Seconds for which the broker keeps a persistent session; for version 5.
        default session_expiry_s: Whole<1, 4_294_967_295> = 3600;
        /// Bytes of the largest payload that is taken.
        default max_payload_bytes: Whole<1024, 67_108_864> = 1_048_576;
        /// Tells others whether this client is there.
        optional announce: AnnounceTable;
        /// Name of the CAN interface or bus, such as `can0`, for `socketcan`, `socketcand` and `can-virtual`; for
        /// `can-replay` the one of a log that has several.
        optional interface: Text;
        /// Bits a second on the CAN bus, for `slcan` and `slcan-tcp`, which set up their adapter: the others find their bus set
        /// up. Default: 500000.
        optional bitrate: Whole<1, 1_000_000>;
        /// Bits a second of the payloads of CAN FD, for `slcan` and `slcan-tcp`.
        optional data_bitrate: Whole<1, 8_000_000>;
        /// Whether frames of CAN FD are taken and sent, for CAN.
        default fd: Flag = false;
        /// Sends nothing on the CAN bus, not even what `send_ids` names; adapters that can are told not to acknowledge frames
        /// either.
        default listen_only: Flag = false;
        /// Identifiers of the CAN frames that may be sent: `["201", "18FF0021", "300-30F"]`, three hexadecimal digits, or eight
        /// for 29 bits. Default: none.
        optional send_ids: List<IdRange>;
        /// Our own address on a J1939 bus, for messages that are sent; nothing claims it.
        optional source_address: Whole<0, 253>;
        /// Path of a log of candump, for `can-replay`.
        optional log: Text;
        /// How fast a log is replayed: 1 at its own pace, 10 ten times as fast, 0 as fast as can be.
        default speed: Number = 1;
        /// Whether a log begins again when it is over.
        default repeat: Flag = false;
        /// First delay in milliseconds before connecting again; it doubles with each try that fails. Default: 250, for MQTT
        /// 500, for CAN 100.
        optional reconnect_min_ms: Whole<10, 60_000>;
        /// Longest delay in milliseconds before connecting again; also the delay where somebody must change something
        /// first, such as a wrong password or an expired certificate. Default: 15000, for MQTT 30000, for CAN
        /// 2000.
        optional reconnect_max_ms: Whole<10, 3_600_000>;
    }
}

section! {
    /// How the two sides of a TLS connection know each other. Files are in PEM, read anew for every connection; relative
    /// paths count from the folder of this file.
    pub(crate) struct TlsTable {
        /// Certificates of the authorities that may vouch for the device; a device's self-signed certificate will do.
        required ca: PemPath;
        /// Our certificate, with those between it and the authority that the device trusts.
        optional certificate: PemPath;
        /// Private key of our certificate, not encrypted.
        optional key: PemPath;
        /// The name or IP address that the server's certificate must have. Default: the host of `address`.
        optional server_name: Text;
    }
}

section! {
    /// Tells others whether this client is there: it publishes `online` when it has connected and `offline` before it
    /// leaves, and the broker publishes `offline` when it is lost.
    pub(crate) struct AnnounceTable {
        /// Topic of the messages.
        required topic: TopicName;
        /// Payload while it is there.
        default online: Text = "online";
        /// Payload while it is not.
        default offline: Text = "offline";
        /// Quality of service of the messages.
        default qos: Level = 1;
        /// Whether the broker keeps the last message for whoever comes later.
        default retain: Flag = true;
    }
}

impl Driver {
    /// Whether it is a client at a broker.
    pub(crate) fn is_mqtt(self) -> bool {
        matches!(self, Self::Mqtt | Self::MqttTls | Self::MqttWs | Self::MqttWss)
    }

    /// The protocol that its devices speak.
    pub(crate) fn protocol(self) -> Protocol {
        match self {
            Self::Tcp | Self::Tls | Self::Rtu | Self::RtuTcp => Protocol::Modbus,
            Self::Mqtt | Self::MqttTls | Self::MqttWs | Self::MqttWss => Protocol::Mqtt,
            Self::SocketCan
            | Self::Slcan
            | Self::SlcanTcp
            | Self::Socketcand
            | Self::CanVirtual
            | Self::CanReplay => Protocol::Can,
        }
    }

    /// The name in site files.
    pub(crate) fn name(self) -> &'static str {
        Self::WORDS.iter().find(|(_, driver)| *driver == self).map_or("", |(name, _)| name)
    }
}

impl Words for Driver {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("modbus-tcp", Self::Tcp),
        ("modbus-tls", Self::Tls),
        ("modbus-rtu", Self::Rtu),
        ("modbus-rtu-tcp", Self::RtuTcp),
        ("mqtt", Self::Mqtt),
        ("mqtt-tls", Self::MqttTls),
        ("mqtt-ws", Self::MqttWs),
        ("mqtt-wss", Self::MqttWss),
        ("socketcan", Self::SocketCan),
        ("slcan", Self::Slcan),
        ("slcan-tcp", Self::SlcanTcp),
        ("socketcand", Self::Socketcand),
        ("can-virtual", Self::CanVirtual),
        ("can-replay", Self::CanReplay),
    ];
}

impl Words for Session {
    const WORDS: &'static [(&'static str, Self)] =
        &[("clean", Self::Clean), ("persistent", Self::Persistent)];
}

impl Words for MqttVersion {
    const WORDS: &'static [(&'static str, Self)] = &[("5", Self::V5), ("3.1.1", Self::V311)];
}

impl Words for Ids {
    const WORDS: &'static [(&'static str, Self)] = &[("check", Self::Check), ("ignore", Self::Ignore)];
}

impl Words for Parity {
    const WORDS: &'static [(&'static str, Self)] =
        &[("even", Self::Even), ("odd", Self::Odd), ("none", Self::None)];
}

/// Implements reading and schema of a path: a [`Text`] that says what it leads to.
macro_rules! path {
    ($type:ident, $allowed:literal) => {
        impl Read for $type {
            fn allowed() -> String {
                $allowed.to_owned()
            }

            fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
                let text = node.text().filter(|text| !text.is_empty());
                node.accept(text.map(|text| Self(text.to_owned())), found)
            }
        }

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                Text::json_schema(generator)
            }
        }
    };
}
path!(PortPath, "the path of a serial port, such as /dev/serial/by-id/usb-… or /dev/ttyUSB0");
path!(PemPath, "the path of a file in PEM, from the folder of this file or absolute");
path!(SecretPath, "the path of a file, from the folder of this file or absolute");

impl Read for SocketPath {
    fn allowed() -> String {
        "the path of a WebSocket, such as /mqtt".to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let is_path = |text: &&str| text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic());
        node.accept(node.text().filter(is_path).map(|text| Self(text.to_owned())), found)
    }
}
leaf_schema!(SocketPath, "SocketPath", json_schema!({ "type": "string", "pattern": "^/[!-~]*$" }));
