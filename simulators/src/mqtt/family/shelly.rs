//! A Shelly switch of the second generation.
//!
//! `<id>/online`, `<id>/status/switch:0`, notifications on `<id>/events/rpc`, requests on `<id>/rpc` and commands on
//! `<id>/command/switch:0`. Source: Shelly's API documentation of generation 2, "MQTT" and "Switch".

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::{json, round, seed, unix_time};
use crate::{
    dice::Dice,
    mqtt::model::{Message, Model, Part, Publication},
};

/// What hangs on it, W.
const LOAD: f64 = 9.25;

/// A switch that is off at first.
#[derive(Debug)]
pub struct Switch {
    id: String,
    on: bool,
    /// What switched it last.
    source: &'static str,
    power: f64,
    voltage: f64,
    /// Wh.
    total: f64,
    noise: Dice,
}

impl Switch {
    #[must_use]
    pub fn new(id: &str) -> Self {
        let noise = Dice::new(seed(id));
        Self { id: id.into(), on: false, source: "init", power: 0.0, voltage: 229.3, total: 1733.905, noise }
    }

    /// Whether the relay is closed.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.on
    }

    fn topic(&self, what: &str) -> String {
        format!("{}/{what}", self.id)
    }

    fn current(&self) -> f64 {
        round(self.power / self.voltage, 3)
    }

    fn status(&self) -> Value {
        json!({
            "id": 0,
            "source": self.source,
            "output": self.on,
            "apower": round(self.power, 1),
            "voltage": round(self.voltage, 1),
            "freq": 49.9,
            "current": self.current(),
            "aenergy": { "total": round(self.total, 3) },
            "temperature": { "tC": 38.5, "tF": 101.3 },
        })
    }

    fn notify(&self, method: &str, status: &Value, now: SystemTime) -> Publication {
        let notification = json!({
            "src": self.id,
            "dst": self.topic("events"),
            "method": method,
            "params": { "ts": unix_time(now), "switch:0": status },
        });
        Publication::value(self.topic("events/rpc"), json(&notification))
    }

    /// Closes or opens the relay, and says so where that is news.
    fn switch(&mut self, on: bool, source: &'static str, now: SystemTime) -> Vec<Publication> {
        if self.on == on {
            return Vec::new();
        }
        (self.on, self.source) = (on, source);
        self.power = if on { LOAD } else { 0.0 };
        let change = json!({ "id": 0, "output": on, "source": source });
        vec![
            Publication::value(self.topic("status/switch:0"), json(&self.status())),
            self.notify("NotifyStatus", &change, now),
        ]
    }

    /// Does what a request asks; the result or the error, and what there is to say besides.
    fn call(&mut self, request: &Value, now: SystemTime) -> (Result<Value, Value>, Vec<Publication>) {
        let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
        let params = request.get("params");
        let error = |code: i32, message: String| Err(json!({ "code": code, "message": message }));
        let id = params.and_then(|params| params.get("id")).and_then(Value::as_u64);
        if method.starts_with("Switch.") && id != Some(0) {
            return (error(-105, "Argument 'id', value not found!".into()), Vec::new());
        }
        let was_on = json!({ "was_on": self.on });
        match method.to_ascii_lowercase().as_str() {
            "switch.set" => match params.and_then(|params| params.get("on")).and_then(Value::as_bool) {
                Some(on) => (Ok(was_on), self.switch(on, "MQTT", now)),
                None => (error(-103, "Missing required argument 'on'!".into()), Vec::new()),
            },
            "switch.toggle" => (Ok(was_on), self.switch(!self.on, "MQTT", now)),
            "switch.getstatus" => (Ok(self.status()), Vec::new()),
            "shelly.getstatus" => (Ok(json!({ "switch:0": self.status() })), Vec::new()),
            _ => (error(404, format!("No handler for {method}")), Vec::new()),
        }
    }

    /// The answer goes to `<src>/rpc`, or where the request says by MQTT 5, with its correlation data.
    fn rpc(&mut self, command: &Message, now: SystemTime) -> Vec<Publication> {
        let Ok(request) = serde_json::from_slice::<Value>(&command.payload) else { return Vec::new() };
        let (result, mut said) = self.call(&request, now);
        let source = request.get("src").and_then(Value::as_str);
        let topic = command.response_topic.clone().or_else(|| source.map(|source| format!("{source}/rpc")));
        let Some(topic) = topic else { return said };
        let (id, own) = (request.get("id"), &self.id);
        let answer = match result {
            Ok(result) => json!({ "id": id, "src": own, "dst": source, "result": result }),
            Err(error) => json!({ "id": id, "src": own, "dst": source, "error": error }),
        };
        let mut message = Message::new(topic, json(&answer));
        message.correlation.clone_from(&command.correlation);
        said.insert(0, Publication { part: Part::Answer, message });
        said
    }
}

impl Model for Switch {
    fn id(&self) -> &str {
        &self.id
    }

    fn will(&self) -> Option<Message> {
        Some(Message::new(self.topic("online"), "false").retained())
    }

    fn filters(&self) -> Vec<String> {
        vec![self.topic("rpc"), self.topic("command/switch:0")]
    }

    fn birth(&mut self, now: SystemTime) -> Vec<Publication> {
        vec![
            Publication::status(self.topic("online"), "true"),
            self.notify("NotifyFullStatus", &self.status(), now),
            Publication::value(self.topic("status/switch:0"), json(&self.status())),
        ]
    }

    fn beat(&mut self, passed: Duration, now: SystemTime) -> Vec<Publication> {
        self.voltage = 229.3 + 0.3 * self.noise.normal();
        self.power = if self.on { LOAD + 0.05 * self.noise.normal() } else { 0.0 };
        self.total += self.power * passed.as_secs_f64() / 3600.0;
        let change = json!({ "id": 0, "apower": round(self.power, 2), "current": self.current() });
        vec![
            self.notify("NotifyStatus", &change, now),
            Publication::value(self.topic("status/switch:0"), json(&self.status())),
        ]
    }

    fn obey(&mut self, command: &Message, now: SystemTime) -> Vec<Publication> {
        if command.topic.ends_with("/rpc") {
            return self.rpc(command, now);
        }
        match command.text() {
            "on" => self.switch(true, "MQTT", now),
            "off" => self.switch(false, "MQTT", now),
            "toggle" => self.switch(!self.on, "MQTT", now),
            "status_update" => vec![Publication::value(self.topic("status/switch:0"), json(&self.status()))],
            _ => Vec::new(),
        }
    }
}
