//! Addresses of CAN buses.

use super::{AddressError, host};
use crate::{
    codec::can::slcan,
    config::can::{Adapter, CanEndpoint, Stream},
};

/// Reads an address of a bus; everything that it does not say is as in a site file, and nothing may be sent.
pub fn can_address(text: &str) -> Result<CanEndpoint, AddressError> {
    let unknown = || AddressError::Bus(text.to_owned());
    let (scheme, rest) = text.split_once("://").ok_or_else(unknown)?;
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect::<Vec<_>>();
    let adapter = match scheme {
        "socketcan" if !place.is_empty() => {
            none("socketcan", &pairs)?;
            Adapter::SocketCan { interface: place.to_owned() }
        }
        "slcan" if !place.is_empty() => {
            let (bitrate, data_bitrate, baud) = rates("slcan", &pairs, true)?;
            Adapter::Slcan { stream: Stream::Port { path: place.to_owned(), baud }, bitrate, data_bitrate }
        }
        "slcan-tcp" => {
            let (bitrate, data_bitrate, _) = rates("slcan-tcp", &pairs, false)?;
            let address = host("slcan-tcp", place)?;
            Adapter::Slcan { stream: Stream::Tcp { address }, bitrate, data_bitrate }
        }
        "socketcand" => {
            none("socketcand", &pairs)?;
            let (address, interface) = place.split_once('/').ok_or_else(unknown)?;
            Adapter::Socketcand { address: host("socketcand", address)?, interface: interface.to_owned() }
        }
        "candump" if !place.is_empty() => {
            none("candump", &pairs)?;
            Adapter::Replay { file: place.into(), channel: None, speed: 0.0, repeat: false }
        }
        _ => return Err(unknown()),
    };
    Ok(CanEndpoint {
        adapter,
        fd: true,
        listen_only: true,
        send: Vec::new(),
        source: None,
        timeout: CanEndpoint::TIMEOUT,
        reconnect: CanEndpoint::RECONNECT,
    })
}

fn none(scheme: &'static str, pairs: &[(&str, &str)]) -> Result<(), AddressError> {
    super::none(scheme, pairs.iter().copied())
}

fn rates(
    scheme: &'static str,
    pairs: &[(&str, &str)],
    has_baud: bool,
) -> Result<(u32, Option<u32>, u32), AddressError> {
    let (mut bitrate, mut data, mut baud) = (CanEndpoint::BITRATE, None, CanEndpoint::BAUD);
    for (key, value) in pairs {
        let refuse = |key, allowed| AddressError::Value { key, value: (*value).to_owned(), allowed };
        let number = value.parse::<u32>().ok();
        match *key {
            "bitrate" => {
                let known = number.filter(|rate| slcan::Bitrate::from_bits(*rate).is_some());
                let allowed = "10000, 20000, 50000, 100000, 125000, 250000, 500000, 800000 or 1000000";
                bitrate = known.ok_or_else(|| refuse("bitrate", allowed))?;
            }
            "data_bitrate" => {
                let known = number.filter(|rate| slcan::DataBitrate::from_bits(*rate).is_some());
                data = Some(
                    known.ok_or_else(|| refuse("data_bitrate", "2000000 or 5000000 for most adapters"))?,
                );
            }
            "baud" if has_baud => {
                let known = number.filter(|baud| (50..=4_000_000).contains(baud));
                baud = known.ok_or_else(|| refuse("baud", "50 to 4000000"))?;
            }
            _ => {
                let allowed = if has_baud {
                    "are baud, bitrate and data_bitrate"
                } else {
                    "are bitrate and data_bitrate"
                };
                return Err(AddressError::Key { scheme, key: (*key).to_owned(), allowed });
            }
        }
    }
    Ok((bitrate, data, baud))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn addresses_lead_to_buses() {
        for (text, adapter) in [
            ("socketcan://can0", Adapter::SocketCan { interface: "can0".to_owned() }),
            (
                "slcan:///dev/ttyACM0?bitrate=250000&data_bitrate=2000000",
                Adapter::Slcan {
                    stream: Stream::Port { path: "/dev/ttyACM0".to_owned(), baud: 115_200 },
                    bitrate: 250_000,
                    data_bitrate: Some(2_000_000),
                },
            ),
            (
                "slcan-tcp://10.0.0.1:3333",
                Adapter::Slcan {
                    stream: Stream::Tcp { address: "10.0.0.1:3333".to_owned() },
                    bitrate: 500_000,
                    data_bitrate: None,
                },
            ),
            (
                "socketcand://10.0.0.1:29536/can0",
                Adapter::Socketcand { address: "10.0.0.1:29536".to_owned(), interface: "can0".to_owned() },
            ),
            (
                "candump://drive.log",
                Adapter::Replay { file: "drive.log".into(), channel: None, speed: 0.0, repeat: false },
            ),
        ] {
            let endpoint = can_address(text).unwrap();
            assert_eq!(endpoint.adapter, adapter, "{text}");
            assert!(endpoint.listen_only);
        }
    }

    #[test]
    fn errors_say_what_is_allowed() {
        let told = [
            "can0",
            "socketcan://",
            "socketcan://can0?bitrate=1",
            "slcan:///dev/ttyACM0?bitrate=123",
            "slcan:///dev/ttyACM0?speed=1",
            "slcan-tcp://adapter",
            "socketcand://10.0.0.1:29536",
        ]
        .map(|text| format!("{text}: {}", can_address(text).unwrap_err()));
        insta::assert_snapshot!("buses", told.join("\n"));
    }
}
