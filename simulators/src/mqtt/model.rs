//! What a simulated device is: what it says, and what it obeys.
//!
//! Pure over steps and messages: knows no clock, no network.

use std::{
    fmt::Debug,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use mqtt5::QoS;

/// A message, on its way in either direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub topic: String,
    pub payload: Bytes,
    pub qos: QoS,
    pub retain: bool,
    /// Where an answer is expected (MQTT 5).
    pub response_topic: Option<String>,
    /// What an answer must bear (MQTT 5).
    pub correlation: Option<Bytes>,
}

impl Message {
    /// At least once, not retained.
    pub fn new(topic: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        Self {
            topic: topic.into(),
            payload: payload.into(),
            qos: QoS::AtLeastOnce,
            retain: false,
            response_topic: None,
            correlation: None,
        }
    }

    /// The same, to be kept by the broker.
    #[must_use]
    pub fn retained(self) -> Self {
        Self { retain: true, ..self }
    }

    /// The payload as text; empty where it is none.
    #[must_use]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.payload).unwrap_or_default()
    }
}

/// What a message is about: faults of payloads are about values only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A state or a measurement.
    Value,
    /// Availability, and what a device says of itself.
    Status,
    /// The answer to a command.
    Answer,
}

/// One message of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    pub part: Part,
    pub message: Message,
}

impl Publication {
    /// A state or a measurement.
    pub fn value(topic: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        Self { part: Part::Value, message: Message::new(topic, payload) }
    }

    /// A status, which every family retains.
    pub fn status(topic: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        Self { part: Part::Status, message: Message::new(topic, payload).retained() }
    }

    /// The same, to be kept by the broker.
    #[must_use]
    pub fn retained(self) -> Self {
        Self { message: self.message.retained(), ..self }
    }
}

/// A simulated device: two of the same making and the same steps say the same to the last byte.
pub trait Model: Debug + Send + 'static {
    /// Its name, which is its client identifier as well.
    fn id(&self) -> &str;

    /// What the broker says for it when it is gone.
    fn will(&self) -> Option<Message>;

    /// The topics that it listens to.
    fn filters(&self) -> Vec<String>;

    /// What it says when it has connected.
    fn birth(&mut self, now: SystemTime) -> Vec<Publication>;

    /// Lets `passed` pass, and returns what it says at the end of it.
    fn beat(&mut self, passed: Duration, now: SystemTime) -> Vec<Publication>;

    /// Does what it is told, and returns what it says to that. What it does not understand changes nothing.
    fn obey(&mut self, command: &Message, now: SystemTime) -> Vec<Publication>;

    /// What it says when it is switched off in good order: what else its will says.
    fn farewell(&mut self) -> Vec<Publication> {
        self.will().map(|message| Publication { part: Part::Status, message }).into_iter().collect()
    }
}

impl Model for Box<dyn Model> {
    fn id(&self) -> &str {
        (**self).id()
    }

    fn will(&self) -> Option<Message> {
        (**self).will()
    }

    fn filters(&self) -> Vec<String> {
        (**self).filters()
    }

    fn birth(&mut self, now: SystemTime) -> Vec<Publication> {
        (**self).birth(now)
    }

    fn beat(&mut self, passed: Duration, now: SystemTime) -> Vec<Publication> {
        (**self).beat(passed, now)
    }

    fn obey(&mut self, command: &Message, now: SystemTime) -> Vec<Publication> {
        (**self).obey(command, now)
    }

    fn farewell(&mut self) -> Vec<Publication> {
        (**self).farewell()
    }
}
