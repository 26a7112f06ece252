//! A plug with a meter that runs Tasmota.
//!
//! `tele/<id>/SENSOR`, `STATE` and `LWT`, `stat/<id>/POWER` and `RESULT`, `cmnd/<id>/POWER`. Source: Tasmota's
//! documentation, "MQTT" and "Commands".

use std::time::{Duration, SystemTime};

use serde_json::json;

use super::{json, local_time, round, seed};
use crate::{
    dice::Dice,
    mqtt::model::{Message, Model, Publication},
};

/// What hangs on it, W.
const LOAD: f64 = 47.0;

/// A plug that is off at first.
#[derive(Debug)]
pub struct Plug {
    id: String,
    on: bool,
    /// kWh.
    total: f64,
    uptime: Duration,
    noise: Dice,
}

impl Plug {
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self { id: id.into(), on: false, total: 88.417, uptime: Duration::ZERO, noise: Dice::new(seed(id)) }
    }

    /// Whether the relay is closed.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// As its button does.
    pub fn switch(&mut self, on: bool) {
        self.on = on;
    }

    fn word(&self) -> &'static str {
        if self.on { "ON" } else { "OFF" }
    }

    fn topic(&self, prefix: &str, what: &str) -> String {
        format!("{prefix}/{}/{what}", self.id)
    }

    fn state(&self) -> Vec<Publication> {
        let result = json!({ "POWER": self.word() });
        vec![
            Publication::value(self.topic("stat", "RESULT"), json(&result)),
            Publication::value(self.topic("stat", "POWER"), self.word()),
        ]
    }
}

impl Model for Plug {
    fn id(&self) -> &str {
        &self.id
    }

    fn will(&self) -> Option<Message> {
        Some(Message::new(self.topic("tele", "LWT"), "Offline").retained())
    }

    fn filters(&self) -> Vec<String> {
        vec![self.topic("cmnd", "+")]
    }

    fn birth(&mut self, now: SystemTime) -> Vec<Publication> {
        let mut said = vec![Publication::status(self.topic("tele", "LWT"), "Online")];
        said.extend(self.state());
        said.extend(self.beat(Duration::ZERO, now));
        said
    }

    fn beat(&mut self, passed: Duration, now: SystemTime) -> Vec<Publication> {
        self.uptime += passed;
        let volts = 228.0 + 0.4 * self.noise.normal();
        let power = if self.on { LOAD + 0.5 * self.noise.normal() } else { 0.0 };
        self.total += power / 1000.0 * passed.as_secs_f64() / 3600.0;
        let apparent = power / 0.8;
        let time = local_time(now);
        let state = json!({
            "Time": time,
            "UptimeSec": self.uptime.as_secs(),
            "POWER": self.word(),
            "Wifi": { "AP": 1, "RSSI": 78, "Signal": -61 },
        });
        let sensor = json!({
            "Time": time,
            "ENERGY": {
                "TotalStartTime": "2025-01-01T00:00:00",
                "Total": round(self.total, 3),
                "Power": round(power, 0),
                "ApparentPower": round(apparent, 0),
                "Factor": if self.on { 0.8 } else { 0.0 },
                "Voltage": round(volts, 0),
                "Current": round(apparent / volts, 3),
            },
        });
        vec![
            Publication::value(self.topic("tele", "STATE"), json(&state)),
            Publication::value(self.topic("tele", "SENSOR"), json(&sensor)),
        ]
    }

    fn obey(&mut self, command: &Message, _now: SystemTime) -> Vec<Publication> {
        if !command.topic.to_ascii_uppercase().ends_with("/POWER") {
            let unknown = json!({ "Command": "Unknown" });
            return vec![Publication::value(self.topic("stat", "RESULT"), json(&unknown))];
        }
        match command.text().trim().to_ascii_uppercase().as_str() {
            "ON" | "1" | "TRUE" => self.on = true,
            "OFF" | "0" | "FALSE" => self.on = false,
            "TOGGLE" | "2" => self.on = !self.on,
            // Without a payload it is a question.
            _ => {}
        }
        self.state()
    }
}
