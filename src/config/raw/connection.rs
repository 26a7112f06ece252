//! What a site file says of its connections.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::config::{
    leaf::{Choice, HostPort, Name, Text, Whole, Words},
    problem::Findings,
    read::{Node, Read},
    section::section,
    site::Parity,
};

/// Path of a serial port.
#[derive(Debug, Clone)]
pub(crate) struct PortPath(pub(crate) String);

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
}

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
        /// serial port; `modbus-rtu-tcp`, RTU frames over TCP, as transparent serial servers pass them on.
        required driver: Choice<Driver>;
        /// `host:port` of the device or gateway; not for `modbus-rtu`. Modbus TCP is usually at port 502, over TLS at
        /// 802. IPv6 addresses stand in brackets.
        optional address: HostPort;
        /// Path of the serial port, for `modbus-rtu`; best one below `/dev/serial/by-id/`, which stays with its adapter.
        optional port: PortPath;
        /// Bits a second on the line, for `modbus-rtu`.
        default baud: Whole<50, 4_000_000> = 19200;
        /// Parity of each character, for `modbus-rtu`. The specification asks for `even`, and for two stop bits with
        /// `none`; many devices have `none` with one.
        default parity: Choice<Parity> = "even";
        /// Stop bits of each character, for `modbus-rtu`.
        default stop_bits: Whole<1, 2> = 1;
        /// How the two sides know each other, for `modbus-tls`.
        optional tls: TlsTable;
        /// How long an answer, or a connect, may take, in milliseconds.
        default timeout_ms: Whole<10, 60_000> = 1000;
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
        /// First delay in milliseconds before connecting again; it doubles with each try that fails.
        default reconnect_min_ms: Whole<10, 60_000> = 250;
        /// Longest delay in milliseconds before connecting again.
        default reconnect_max_ms: Whole<10, 3_600_000> = 15000;
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
        /// The name or IP address that the device's certificate must have. Default: the host of `address`.
        optional server_name: Text;
    }
}

impl Driver {
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
    ];
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
