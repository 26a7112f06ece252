//! A connection as one text, such as `tcp://192.168.0.10:502`, for commands that need no site file.

mod can;
mod mqtt;

use std::{path::PathBuf, time::Duration};

pub use can::can_address;
pub use mqtt::mqtt_address;

use super::{
    leaf::host_port,
    site::{ModbusEndpoint, Parity, Serial, Tls, Transport},
};

/// Why a text is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error(
        "`{0}` is no address: allowed is tcp://host:port, tls://host:port?ca=ca.pem, rtu-tcp://host:port or \
         rtu:///dev/ttyUSB0?baud=19200&parity=even&stop_bits=1"
    )]
    Scheme(String),
    #[error(
        "`{0}` is no address of a broker: allowed is mqtt://host:port, mqtts://host:port?ca=ca.pem, ws://host:port/mqtt or \
         wss://host:port/mqtt?ca=ca.pem"
    )]
    Broker(String),
    #[error(
        "`{0}` is no address of a bus: allowed is socketcan://can0, slcan:///dev/ttyACM0?bitrate=500000, \
         slcan-tcp://host:port?bitrate=500000, socketcand://host:port/can0 or candump://FILE"
    )]
    Bus(String),
    #[error("`{host}` in {scheme}://{host}: allowed is {allowed}")]
    Host { scheme: &'static str, host: String, allowed: &'static str },
    #[error("rtu:// names no port: allowed is its path, such as rtu:///dev/ttyUSB0 or rtu://COM3")]
    Port,
    #[error("`{key}` is no setting of {scheme}://: allowed {allowed}")]
    Key { scheme: &'static str, key: String, allowed: &'static str },
    #[error("{key} = `{value}`: allowed is {allowed}")]
    Value { key: &'static str, value: String, allowed: &'static str },
    #[error("TLS needs ?ca=FILE, the certificates of the authorities that may vouch for the server")]
    Authorities,
    #[error("a password needs ?username=NAME, the user whose it is")]
    User,
    #[error("TLS takes `certificate` and `key` together or not at all")]
    Identity,
}

/// Reads an address; everything that it does not say is as in a site file.
pub fn modbus_address(text: &str) -> Result<ModbusEndpoint, AddressError> {
    let unknown = || AddressError::Scheme(text.to_owned());
    let (scheme, rest) = text.split_once("://").ok_or_else(unknown)?;
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let settings = || query.split('&').filter(|pair| !pair.is_empty());
    let pairs = settings().map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let transport = match scheme {
        "tcp" => {
            none("tcp", pairs)?;
            Transport::Tcp { address: host("tcp", place)?, tls: None }
        }
        "rtu-tcp" => {
            none("rtu-tcp", pairs)?;
            Transport::RtuTcp { address: host("rtu-tcp", place)? }
        }
        "tls" => Transport::Tcp { address: host("tls", place)?, tls: Some(tls(pairs)?) },
        "rtu" => Transport::Rtu(serial(place, pairs)?),
        _ => return Err(unknown()),
    };
    Ok(ModbusEndpoint {
        transport,
        timeout: Duration::from_secs(1),
        connect_delay: Duration::ZERO,
        request_gap: Duration::ZERO,
        idle_close: None,
        max_in_flight: 1,
        check_ids: true,
        reconnect: ModbusEndpoint::RECONNECT,
    })
}

fn host(scheme: &'static str, place: &str) -> Result<String, AddressError> {
    let allowed = "host:port, such as 192.168.0.10:502";
    let refuse = || AddressError::Host { scheme, host: place.to_owned(), allowed };
    host_port(place).map(|address| address.written).ok_or_else(refuse)
}

fn none<'a>(
    scheme: &'static str,
    mut pairs: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<(), AddressError> {
    match pairs.next() {
        None => Ok(()),
        Some((key, _)) => Err(AddressError::Key { scheme, key: key.to_owned(), allowed: "is none" }),
    }
}

fn tls<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Tls, AddressError> {
    let mut papers = Papers::default();
    for (key, value) in pairs {
        if !papers.take(key, value) {
            let allowed = "are ca, certificate, key and server_name";
            return Err(AddressError::Key { scheme: "tls", key: key.to_owned(), allowed });
        }
    }
    papers.tls()
}

/// What an address says of TLS.
#[derive(Default)]
struct Papers {
    ca: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    server_name: Option<String>,
}

impl Papers {
    /// Whether it is a key of TLS.
    fn take(&mut self, key: &str, value: &str) -> bool {
        let value = Some(value).filter(|value| !value.is_empty());
        match key {
            "ca" => self.ca = value.map(PathBuf::from),
            "certificate" => self.certificate = value.map(PathBuf::from),
            "key" => self.key = value.map(PathBuf::from),
            "server_name" => self.server_name = value.map(str::to_owned),
            _ => return false,
        }
        true
    }

    fn tls(self) -> Result<Tls, AddressError> {
        let identity = match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(AddressError::Identity),
        };
        let ca = self.ca.ok_or(AddressError::Authorities)?;
        Ok(Tls { ca, identity, server_name: self.server_name })
    }
}

fn serial<'a>(place: &str, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Serial, AddressError> {
    if place.is_empty() {
        return Err(AddressError::Port);
    }
    let mut serial = Serial { port: place.to_owned(), baud: 19_200, parity: Parity::Even, stop_bits: 1 };
    for (key, value) in pairs {
        let refuse = |key, allowed| Err(AddressError::Value { key, value: value.to_owned(), allowed });
        match key {
            "baud" => match value.parse() {
                Ok(baud) if (50..=4_000_000).contains(&baud) => serial.baud = baud,
                _ => return refuse("baud", "50 to 4000000"),
            },
            "parity" => match value {
                "even" => serial.parity = Parity::Even,
                "odd" => serial.parity = Parity::Odd,
                "none" => serial.parity = Parity::None,
                _ => return refuse("parity", "even, odd or none"),
            },
            "stop_bits" => match value {
                "1" => serial.stop_bits = 1,
                "2" => serial.stop_bits = 2,
                _ => return refuse("stop_bits", "1 or 2"),
            },
            _ => {
                let allowed = "are baud, parity and stop_bits";
                return Err(AddressError::Key { scheme: "rtu", key: key.to_owned(), allowed });
            }
        }
    }
    Ok(serial)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

    use std::path::Path;

    use super::*;
    use crate::config::load_text;

    /// The same, by way of a site file.
    fn configured(keys: &str) -> ModbusEndpoint {
        let text = format!("[site]\nname = 'x'\n[[connections]]\nname = 'c'\n{keys}\n");
        let mut site = load_text(Path::new("x.toml"), text, [("", ""); 0]).unwrap();
        match site.connections.remove(0).endpoint {
            crate::config::Endpoint::Modbus(endpoint) => endpoint,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn addresses_are_what_a_site_file_says() {
        for (text, keys) in [
            ("tcp://10.0.0.1:502", "driver = 'modbus-tcp'\naddress = '10.0.0.1:502'"),
            ("tcp://[::1]:502", "driver = 'modbus-tcp'\naddress = '[::1]:502'"),
            ("rtu-tcp://moxa:4001", "driver = 'modbus-rtu-tcp'\naddress = 'moxa:4001'"),
            ("rtu:///dev/ttyUSB0", "driver = 'modbus-rtu'\nport = '/dev/ttyUSB0'"),
            (
                "rtu://COM3?baud=9600&parity=none&stop_bits=2",
                "driver = 'modbus-rtu'\nport = 'COM3'\nbaud = 9600\nparity = 'none'\nstop_bits = 2",
            ),
        ] {
            assert_eq!(modbus_address(text), Ok(configured(keys)), "{text}");
        }
        let tls = modbus_address("tls://plc:802?ca=ca.pem&certificate=us.pem&key=us.key&server_name=plc.x");
        let expected = Tls {
            ca: "ca.pem".into(),
            identity: Some(("us.pem".into(), "us.key".into())),
            server_name: Some("plc.x".to_owned()),
        };
        let transport = Transport::Tcp { address: "plc:802".to_owned(), tls: Some(expected) };
        assert_eq!(tls.unwrap().transport, transport);
    }

    #[test]
    fn errors_say_what_is_allowed() {
        let told: Vec<String> = [
            "plc",
            "192.168.0.10:502",
            "udp://plc:502",
            "tcp://plc",
            "tcp://plc:0",
            "tcp://plc:502?unit=1",
            "rtu-tcp://",
            "tls://plc:802",
            "tls://plc:802?ca=",
            "tls://plc:802?ca=ca.pem&key=us.key",
            "tls://plc:802?verify=off",
            "rtu://",
            "rtu:///dev/ttyS0?baud=fast",
            "rtu:///dev/ttyS0?baud=10",
            "rtu:///dev/ttyS0?parity=mark",
            "rtu:///dev/ttyS0?stop_bits=1.5",
            "rtu:///dev/ttyS0?bits=8",
        ]
        .into_iter()
        .map(|text| format!("{text}: {}", modbus_address(text).unwrap_err()))
        .collect();
        insta::assert_snapshot!("addresses", told.join("\n"));
    }
}
