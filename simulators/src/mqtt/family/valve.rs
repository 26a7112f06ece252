//! A motor valve: a setpoint, and a position that follows slowly.
//!
//! `valves/<id>/state` (retained) and `valves/<id>/availability`; `valves/<id>/set` takes a number in % or
//! `{"position": number}`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};

use super::{json, round};
use crate::mqtt::model::{Message, Model, Publication};

/// % a second.
const SPEED: f64 = 5.0;

/// How far a valve is open, for what it feeds. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Opening(Arc<AtomicU64>);

impl Opening {
    /// %.
    #[must_use]
    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, position: f64) {
        self.0.store(position.to_bits(), Ordering::Relaxed);
    }
}

/// A valve that is half open at first.
#[derive(Debug)]
pub struct Valve {
    id: String,
    setpoint: f64,
    position: f64,
    opening: Opening,
}

impl Valve {
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self { id: id.into(), setpoint: 50.0, position: 50.0, opening: Opening::default() }
            .with_opening(Opening::default())
    }

    /// Tells its position by `opening` as well.
    #[must_use]
    pub fn with_opening(self, opening: Opening) -> Self {
        opening.set(self.position);
        Self { opening, ..self }
    }

    /// Where it is, %.
    #[must_use]
    pub fn position(&self) -> f64 {
        self.position
    }

    /// Where it is to go, %.
    #[must_use]
    pub fn setpoint(&self) -> f64 {
        self.setpoint
    }

    fn topic(&self, what: &str) -> String {
        format!("valves/{}/{what}", self.id)
    }

    fn state(&self) -> Vec<Publication> {
        let state = json!({
            "setpoint": round(self.setpoint, 1),
            "position": round(self.position, 1),
            "moving": (self.setpoint - self.position).abs() > f64::EPSILON,
        });
        vec![Publication::value(self.topic("state"), json(&state)).retained()]
    }
}

impl Model for Valve {
    fn id(&self) -> &str {
        &self.id
    }

    fn will(&self) -> Option<Message> {
        Some(Message::new(self.topic("availability"), "offline").retained())
    }

    fn filters(&self) -> Vec<String> {
        vec![self.topic("set")]
    }

    fn birth(&mut self, _now: SystemTime) -> Vec<Publication> {
        let mut said = vec![Publication::status(self.topic("availability"), "online")];
        said.extend(self.state());
        said
    }

    fn beat(&mut self, passed: Duration, _now: SystemTime) -> Vec<Publication> {
        let reach = SPEED * passed.as_secs_f64();
        self.position += (self.setpoint - self.position).clamp(-reach, reach);
        self.opening.set(self.position);
        self.state()
    }

    fn obey(&mut self, command: &Message, _now: SystemTime) -> Vec<Publication> {
        let wish = serde_json::from_slice::<Value>(&command.payload).ok();
        let wish = wish.as_ref().and_then(|wish| wish.get("position").unwrap_or(wish).as_f64());
        if let Some(wish) = wish.filter(|wish| (0.0..=100.0).contains(wish)) {
            self.setpoint = wish;
        }
        // A wish that it cannot fulfil is answered by what holds.
        self.state()
    }
}
