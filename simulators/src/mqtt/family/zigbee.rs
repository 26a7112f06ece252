//! A climate sensor and a bulb as zigbee2mqtt shows them.
//!
//! `zigbee2mqtt/<id>`, `/availability` and `/set`. Source: zigbee2mqtt's documentation, "MQTT Topics and Messages".
//! There the bridge speaks for all devices; here each is a client of its own, and its will makes it unavailable.

use std::{
    f64::consts::TAU,
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};

use super::{Opening, json, round, seed};
use crate::{
    dice::Dice,
    mqtt::model::{Message, Model, Publication},
};

/// The room without heating, °C, and what a fully open valve adds.
const COLD: f64 = 18.0;
const HEAT: f64 = 6.0;
/// The room follows its heating with this time constant, s.
const INERTIA: f64 = 60.0;
/// The humidity swings around its mean once in this time, s.
const SWING: f64 = 300.0;

fn topic(id: &str) -> String {
    format!("zigbee2mqtt/{id}")
}

fn availability(id: &str) -> String {
    format!("zigbee2mqtt/{id}/availability")
}

fn state(available: bool) -> Vec<u8> {
    json!({ "state": if available { "online" } else { "offline" } }).to_string().into_bytes()
}

fn will(id: &str) -> Message {
    Message::new(availability(id), state(false)).retained()
}

/// A sensor of a room's temperature and humidity.
#[derive(Debug)]
pub struct Climate {
    id: String,
    temperature: f64,
    humidity: f64,
    heating: Option<Opening>,
    age: Duration,
    noise: Dice,
}

impl Climate {
    /// A room at 21 °C that keeps its temperature.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self {
            id: id.into(),
            temperature: 21.0,
            humidity: 45.0,
            heating: None,
            age: Duration::ZERO,
            noise: Dice::new(seed(id)),
        }
    }

    /// Lets a valve heat the room: 18 °C while it is closed, 24 °C while it is open.
    #[must_use]
    pub fn heated_by(self, valve: Opening) -> Self {
        Self { heating: Some(valve), ..self }
    }

    /// °C, without the sensor's noise.
    #[must_use]
    pub fn temperature(&self) -> f64 {
        self.temperature
    }

    /// Puts the room at this temperature, °C.
    pub fn set_temperature(&mut self, temperature: f64) {
        self.temperature = temperature;
    }

    fn state(&mut self) -> Vec<Publication> {
        let [warm, damp] = [0.03, 0.1].map(|size| size * self.noise.normal());
        let state = json!({
            "battery": 97,
            "humidity": round(self.humidity + damp, 2),
            "linkquality": 141,
            "temperature": round(self.temperature + warm, 2),
            "voltage": 3000,
        });
        vec![Publication::value(topic(&self.id), json(&state))]
    }
}

impl Model for Climate {
    fn id(&self) -> &str {
        &self.id
    }

    fn will(&self) -> Option<Message> {
        Some(will(&self.id))
    }

    fn filters(&self) -> Vec<String> {
        vec![format!("{}/get", topic(&self.id))]
    }

    fn birth(&mut self, _now: SystemTime) -> Vec<Publication> {
        let mut said = vec![Publication::status(availability(&self.id), state(true))];
        said.extend(self.state());
        said
    }

    fn beat(&mut self, passed: Duration, _now: SystemTime) -> Vec<Publication> {
        self.age += passed;
        if let Some(heating) = &self.heating {
            let aim = COLD + HEAT * heating.get() / 100.0;
            self.temperature += (aim - self.temperature) * (1.0 - (-passed.as_secs_f64() / INERTIA).exp());
        }
        self.humidity = 45.0 + 3.0 * (self.age.as_secs_f64() / SWING * TAU).sin();
        self.state()
    }

    fn obey(&mut self, _command: &Message, _now: SystemTime) -> Vec<Publication> {
        self.state()
    }
}

/// A bulb with brightness and colour temperature, off at first.
#[derive(Debug)]
pub struct Bulb {
    id: String,
    on: bool,
    brightness: u64,
    color_temp: u64,
}

impl Bulb {
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self { id: id.into(), on: false, brightness: 254, color_temp: 370 }
    }

    /// Whether it shines.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// 0 to 254.
    #[must_use]
    pub fn brightness(&self) -> u64 {
        self.brightness
    }

    fn state(&self) -> Vec<Publication> {
        let state = json!({
            "brightness": self.brightness,
            "color_mode": "color_temp",
            "color_temp": self.color_temp,
            "linkquality": 120,
            "state": if self.on { "ON" } else { "OFF" },
            "update": { "state": "idle" },
        });
        vec![Publication::value(topic(&self.id), json(&state))]
    }

    /// Members that it does not know, or whose values are none for them, change nothing.
    fn set(&mut self, wish: &Value) {
        let number = |key: &str| wish.get(key).and_then(Value::as_u64);
        match wish.get("state").and_then(Value::as_str).map(str::to_ascii_uppercase).as_deref() {
            Some("ON") => self.on = true,
            Some("OFF") => self.on = false,
            Some("TOGGLE") => self.on = !self.on,
            _ => {}
        }
        if let Some(brightness) = number("brightness").filter(|level| *level <= 254) {
            (self.brightness, self.on) = (brightness, brightness > 0);
        }
        if let Some(color_temp) = number("color_temp").filter(|mired| (153..=500).contains(mired)) {
            self.color_temp = color_temp;
        }
    }
}

impl Model for Bulb {
    fn id(&self) -> &str {
        &self.id
    }

    fn will(&self) -> Option<Message> {
        Some(will(&self.id))
    }

    fn filters(&self) -> Vec<String> {
        ["set", "get"].map(|what| format!("{}/{what}", topic(&self.id))).to_vec()
    }

    fn birth(&mut self, _now: SystemTime) -> Vec<Publication> {
        let mut said = vec![Publication::status(availability(&self.id), state(true))];
        said.extend(self.state());
        said
    }

    fn beat(&mut self, _passed: Duration, _now: SystemTime) -> Vec<Publication> {
        self.state()
    }

    fn obey(&mut self, command: &Message, _now: SystemTime) -> Vec<Publication> {
        let wish = serde_json::from_slice(&command.payload);
        match wish {
            Ok(wish) if command.topic.ends_with("/set") => self.set(&wish),
            // A question; or no JSON, which zigbee2mqtt only logs.
            Err(_) if command.topic.ends_with("/set") => return Vec::new(),
            _ => {}
        }
        self.state()
    }
}
