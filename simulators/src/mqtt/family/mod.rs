//! The families of devices, with the topics and payloads of the real ones.
//!
//! Models only: each is pure over its steps and the messages that it gets.

mod homie;
mod meter;
mod shelly;
mod tasmota;
mod valve;
mod zigbee;

use std::time::SystemTime;

use bytes::Bytes;
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::Value;

pub use homie::Node;
pub use meter::Meter;
pub use shelly::Switch;
pub use tasmota::Plug;
pub use valve::{Opening, Valve};
pub use zigbee::{Bulb, Climate};

use super::model::Model;

/// Name of every family, the identifier of its device in [`make`], where that speaks, and where it listens.
pub const FAMILIES: &[(&str, &str, &str, &str)] = &[
    ("tasmota", "plug", "tele/plug/#, stat/plug/#", "cmnd/plug/POWER"),
    (
        "zigbee-climate",
        "room",
        "zigbee2mqtt/room, zigbee2mqtt/room/availability, zigbee2mqtt/hall, zigbee2mqtt/hall/availability",
        "zigbee2mqtt/room/get, zigbee2mqtt/hall/get",
    ),
    (
        "zigbee-bulb",
        "bulb",
        "zigbee2mqtt/bulb, zigbee2mqtt/bulb/availability",
        "zigbee2mqtt/bulb/set, zigbee2mqtt/bulb/get",
    ),
    (
        "shelly",
        "switch",
        "switch/status/switch:0, switch/events/rpc, switch/online",
        "switch/rpc, switch/command/switch:0",
    ),
    ("homie", "boiler", "homie/boiler/#", "homie/boiler/tank/+/set"),
    ("meter", "meter", "meters/meter/data, meters/meter/status", "nothing"),
    ("valve", "valve", "valves/valve/state, valves/valve/availability", "valves/valve/set"),
];

/// The devices of a family, by its name in [`FAMILIES`]; none of a name that is not there. The valve heats the room, and
/// not the hall.
#[must_use]
pub fn make(family: &str, opening: &Opening) -> Vec<Box<dyn Model>> {
    let Some(&(family, id, ..)) = FAMILIES.iter().find(|(known, ..)| *known == family) else {
        return Vec::new();
    };
    match family {
        "tasmota" => vec![Box::new(Plug::new(id))],
        "zigbee-climate" => {
            vec![Box::new(Climate::new(id).heated_by(opening.clone())), Box::new(Climate::new("hall"))]
        }
        "zigbee-bulb" => vec![Box::new(Bulb::new(id))],
        "shelly" => vec![Box::new(Switch::new(id))],
        "homie" => vec![Box::new(Node::new(id))],
        "meter" => vec![Box::new(Meter::new(id))],
        _ => vec![Box::new(Valve::new(id).with_opening(opening.clone()))],
    }
}

fn json(value: &Value) -> Bytes {
    value.to_string().into()
}

/// With so many digits behind the point.
fn round(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

/// Another one for every name.
fn seed(id: &str) -> u64 {
    // FNV-1a.
    id.bytes()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

/// As RFC 3339 with milliseconds, in UTC.
fn timestamp(now: SystemTime) -> String {
    DateTime::<Utc>::from(now).to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Without a zone: devices that write so have UTC as their local time here.
fn local_time(now: SystemTime) -> String {
    DateTime::<Utc>::from(now).format("%Y-%m-%dT%H:%M:%S").to_string()
}

/// Seconds since 1970 with two digits behind the point.
fn unix_time(now: SystemTime) -> f64 {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    round(since.as_secs_f64(), 2)
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test may fail by a panic")]
#[path = "family_tests.rs"]
mod tests;
