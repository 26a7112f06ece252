//! A meter of no known make that publishes JSON with a time of its own.
//!
//! `meters/<id>/data` and `meters/<id>/status`; it listens to nothing.

use std::time::{Duration, SystemTime};

use serde_json::json;

use super::{json, round, seed, timestamp};
use crate::{
    dice::Dice,
    mqtt::model::{Message, Model, Publication},
};

/// A meter on three phases.
#[derive(Debug)]
pub struct Meter {
    id: String,
    /// kWh.
    energy: f64,
    /// By how much its clock is behind.
    behind: Duration,
    count: u64,
    noise: Dice,
}

impl Meter {
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self { id: id.into(), energy: 5310.42, behind: Duration::ZERO, count: 0, noise: Dice::new(seed(id)) }
    }

    /// Lets its clock be late, as that of a gateway that sends what it had stored.
    pub fn set_behind(&mut self, behind: Duration) {
        self.behind = behind;
    }

    /// Number of its next message, from 0.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    fn topic(&self, what: &str) -> String {
        format!("meters/{}/{what}", self.id)
    }
}

impl Model for Meter {
    fn id(&self) -> &str {
        &self.id
    }

    fn will(&self) -> Option<Message> {
        Some(Message::new(self.topic("status"), "offline").retained())
    }

    fn filters(&self) -> Vec<String> {
        Vec::new()
    }

    fn birth(&mut self, now: SystemTime) -> Vec<Publication> {
        let mut said = vec![Publication::status(self.topic("status"), "online")];
        said.extend(self.beat(Duration::ZERO, now));
        said
    }

    fn beat(&mut self, passed: Duration, now: SystemTime) -> Vec<Publication> {
        let power = 1200.0 + 15.0 * self.noise.normal();
        self.energy += power / 1000.0 * passed.as_secs_f64() / 3600.0;
        let volts = [230.0, 231.0, 229.0].map(|phase| round(phase + 0.2 * self.noise.normal(), 1));
        let data = json!({
            "ts": timestamp(now.checked_sub(self.behind).unwrap_or(now)),
            "seq": self.count,
            "power_w": round(power, 1),
            "energy_kwh": round(self.energy, 3),
            "voltage_v": volts,
            "freq": { "hz": 50.01 },
        });
        self.count += 1;
        vec![Publication::value(self.topic("data"), json(&data))]
    }

    fn obey(&mut self, _command: &Message, _now: SystemTime) -> Vec<Publication> {
        Vec::new()
    }
}
