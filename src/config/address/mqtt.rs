//! A broker as one text, such as `mqtt://192.168.0.10:1883`.

use super::{AddressError, Papers};
use crate::config::{
    broker::{Login, MqttEndpoint, MqttVersion, Secret},
    leaf::host_port,
};

/// What a scheme stands for.
struct Scheme {
    name: &'static str,
    port: u16,
    is_secured: bool,
    is_socket: bool,
    /// What may stand behind it.
    place: &'static str,
}

const HOST: &str = "a host, or host:port, such as 192.168.0.20:1883; a user name goes into ?username=";
const SOCKET: &str = "a host, or host:port, and the path of the WebSocket, such as 192.168.0.20:9001/mqtt; a user name goes into \
                      ?username=";

const SCHEMES: [Scheme; 4] = [
    Scheme { name: "mqtt", port: 1883, is_secured: false, is_socket: false, place: HOST },
    Scheme { name: "mqtts", port: 8883, is_secured: true, is_socket: false, place: HOST },
    Scheme { name: "ws", port: 80, is_secured: false, is_socket: true, place: SOCKET },
    Scheme { name: "wss", port: 443, is_secured: true, is_socket: true, place: SOCKET },
];

const PLAIN: &str = "are version, username, password_env and password_file";
const SECURED: &str =
    "are version, username, password_env, password_file, ca, certificate, key and server_name";

/// Reads an address; everything that it does not say is as in a site file. The client id is empty: it is not the
/// address's to give.
pub fn mqtt_address(text: &str) -> Result<MqttEndpoint, AddressError> {
    let unknown = || AddressError::Broker(text.to_owned());
    let (scheme, rest) = text.split_once("://").ok_or_else(unknown)?;
    let scheme = SCHEMES.into_iter().find(|known| known.name == scheme).ok_or_else(unknown)?;
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, path) = match place.split_once('/') {
        Some((host, path)) if scheme.is_socket => (host, format!("/{path}")),
        _ => (place, "/mqtt".to_owned()),
    };
    let address = host_port(host).or_else(|| host_port(&format!("{host}:{}", scheme.port)));
    let address = address
        .ok_or_else(|| AddressError::Host {
            scheme: scheme.name,
            // A password has no place in an address, and none in a message.
            host: place.rsplit_once('@').map_or_else(|| place.to_owned(), |(_, host)| format!("…@{host}")),
            allowed: scheme.place,
        })?
        .written;
    let mut said = Said::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        said.take(&scheme, key, value)?;
    }
    let tls = if scheme.is_secured { Some(said.papers.tls()?) } else { None };
    Ok(MqttEndpoint {
        address,
        tls,
        websocket: scheme.is_socket.then_some(path),
        version: said.version,
        client_id: String::new(),
        login: match (said.user, said.password) {
            (Some(user), password) => Some(Login { user, password }),
            (None, Some(_)) => return Err(AddressError::User),
            (None, None) => None,
        },
        keep_alive: MqttEndpoint::KEEP_ALIVE,
        session_expiry: None,
        max_payload: MqttEndpoint::MAX_PAYLOAD,
        timeout: MqttEndpoint::TIMEOUT,
        announce: None,
        reconnect: MqttEndpoint::RECONNECT,
    })
}

#[derive(Default)]
struct Said {
    version: MqttVersion,
    user: Option<String>,
    password: Option<Secret>,
    papers: Papers,
}

impl Said {
    fn take(&mut self, scheme: &Scheme, key: &str, value: &str) -> Result<(), AddressError> {
        let refuse = |key, allowed| AddressError::Value { key, value: value.to_owned(), allowed };
        match key {
            "version" => {
                self.version = match value {
                    "5" => MqttVersion::V5,
                    "3.1.1" => MqttVersion::V311,
                    _ => return Err(refuse("version", "5 or 3.1.1")),
                }
            }
            "username" => self.user = Some(value.to_owned()),
            "password_env" => self.password = Some(Secret::Variable(value.to_owned())),
            "password_file" => self.password = Some(Secret::File(value.into())),
            _ if scheme.is_secured && self.papers.take(key, value) => {}
            _ => {
                let allowed = if scheme.is_secured { SECURED } else { PLAIN };
                return Err(AddressError::Key { scheme: scheme.name, key: key.to_owned(), allowed });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_brokers() {
        let mut lines = Vec::new();
        for text in [
            "mqtt://127.0.0.1:1883",
            "mqtt://broker",
            "mqtt://[::1]:1883?version=3.1.1&username=bridge&password_env=SECRET",
            "mqtts://broker?ca=ca.pem&certificate=us.pem&key=us.key&server_name=broker.plant",
            "ws://broker:9001",
            "wss://broker/in/mqtt?ca=ca.pem&password_file=secret&username=u",
            "broker:1883",
            "tcp://broker:1883",
            "mqtt://",
            "mqtt://bro ker",
            "mqtt://bridge:secret@broker",
            "mqtt://broker?password_env=SECRET",
            "mqtt://broker/topic",
            "mqtt://broker?ca=ca.pem",
            "mqtt://broker?version=4",
            "mqtts://broker",
            "mqtts://broker?ca=ca.pem&key=us.key",
            "mqtts://broker?verify=no",
        ] {
            let read = mqtt_address(text).map(|endpoint| {
                let MqttEndpoint { address, tls, websocket, version, login, .. } = endpoint;
                format!("{address} {version:?} {websocket:?} {login:?} {tls:?}")
            });
            lines.push(format!("{text}\n    {}", read.unwrap_or_else(|error| error.to_string())));
        }
        insta::assert_snapshot!("brokers", lines.join("\n"));
    }
}
