//! A device by the Homie convention, version 4.
//!
//! `homie/<id>/$state` and the description, `homie/<id>/tank/temp`, `pump` and `mode`, all retained, and `/set` for each.
//! Source: homieiot.github.io, specification 4.0.0.

use std::time::{Duration, SystemTime};

use super::round;
use crate::mqtt::model::{Message, Model, Publication};

/// Allowed for `temp`, °C.
const RANGE: std::ops::RangeInclusive<f64> = 0.0..=80.0;
const MODES: [&str; 3] = ["off", "eco", "comfort"];
/// Attributes of the three properties.
const ATTRIBUTES: &[(&str, &[(&str, &str)])] = &[
    (
        "temp",
        &[
            ("$name", "Temperature"),
            ("$datatype", "float"),
            ("$settable", "true"),
            ("$unit", "°C"),
            ("$format", "0:80"),
        ],
    ),
    ("pump", &[("$name", "Pump"), ("$datatype", "boolean"), ("$settable", "true")]),
    (
        "mode",
        &[("$name", "Mode"), ("$datatype", "enum"), ("$settable", "true"), ("$format", "off,eco,comfort")],
    ),
];

/// A boiler with one node, `tank`.
#[derive(Debug)]
pub struct Node {
    id: String,
    temp: f64,
    pump: bool,
    mode: &'static str,
}

impl Node {
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self { id: id.into(), temp: 48.25, pump: true, mode: "eco" }
    }

    /// °C.
    #[must_use]
    pub fn temp(&self) -> f64 {
        self.temp
    }

    /// Whether the pump runs.
    #[must_use]
    pub fn pump(&self) -> bool {
        self.pump
    }

    /// `off`, `eco` or `comfort`.
    #[must_use]
    pub fn mode(&self) -> &'static str {
        self.mode
    }

    fn topic(&self, what: &str) -> String {
        format!("homie/{}/{what}", self.id)
    }

    fn values(&self) -> Vec<Publication> {
        ["temp", "pump", "mode"].iter().map(|property| self.value(property)).collect()
    }

    fn value(&self, property: &str) -> Publication {
        let payload = match property {
            "temp" => round(self.temp, 2).to_string(),
            "pump" => self.pump.to_string(),
            _ => self.mode.to_owned(),
        };
        Publication::value(self.topic(&format!("tank/{property}")), payload).retained()
    }

    /// Whether the value is one for the property.
    fn set(&mut self, property: &str, payload: &str) -> bool {
        match property {
            "temp" => match payload.parse() {
                Ok(temp) if RANGE.contains(&temp) => self.temp = temp,
                _ => return false,
            },
            "pump" => match payload.parse() {
                Ok(pump) => self.pump = pump,
                Err(_) => return false,
            },
            _ => match MODES.iter().find(|mode| **mode == payload) {
                Some(mode) => self.mode = mode,
                None => return false,
            },
        }
        true
    }
}

impl Model for Node {
    fn id(&self) -> &str {
        &self.id
    }

    fn will(&self) -> Option<Message> {
        Some(Message::new(self.topic("$state"), "lost").retained())
    }

    fn filters(&self) -> Vec<String> {
        vec![self.topic("tank/+/set")]
    }

    fn birth(&mut self, _now: SystemTime) -> Vec<Publication> {
        let status = |what: &str, payload: &'static str| Publication::status(self.topic(what), payload);
        let mut said = vec![
            status("$state", "init"),
            status("$homie", "4.0.0"),
            status("$name", "Boiler"),
            status("$nodes", "tank"),
            status("$extensions", ""),
            status("tank/$name", "Tank"),
            status("tank/$type", "tank"),
            status("tank/$properties", "temp,pump,mode"),
        ];
        // An empty retained message would be none.
        said.retain(|publication| !publication.message.payload.is_empty());
        for (property, attributes) in ATTRIBUTES {
            said.extend(
                attributes.iter().map(|(name, text)| status(&format!("tank/{property}/{name}"), text)),
            );
        }
        said.extend(self.values());
        said.push(status("$state", "ready"));
        said
    }

    fn beat(&mut self, _passed: Duration, _now: SystemTime) -> Vec<Publication> {
        self.values()
    }

    fn obey(&mut self, command: &Message, _now: SystemTime) -> Vec<Publication> {
        let property = command.topic.strip_suffix("/set").and_then(|topic| topic.rsplit('/').next());
        match property {
            Some(property) if self.set(property, command.text()) => vec![self.value(property)],
            _ => Vec::new(),
        }
    }

    fn farewell(&mut self) -> Vec<Publication> {
        vec![Publication::status(self.topic("$state"), "disconnected")]
    }
}
