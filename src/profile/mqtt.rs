//! Where the tags of an MQTT device live, and how: all names of topics are filled in.

use std::{sync::Arc, time::Duration};

use crate::{
    codec::payload::{Encoding, Field, Path, Stamp, Template},
    codec::topic::Pattern,
};

/// Quality of service of a message (MQTT 5.0, section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Qos {
    AtMostOnce,
    #[default]
    AtLeastOnce,
    ExactlyOnce,
}

/// Source of one tag: the messages that carry it, and the message that writes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The messages that carry its value. A device may tell one value on several topics; the last message counts. Empty
    /// for what can only be written.
    pub origins: Vec<Origin>,
    /// How what is written is put into a payload, and what may be written.
    pub field: Arc<Field>,
    pub command: Option<Command>,
}

/// Messages that carry a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    pub pattern: Pattern,
    pub qos: Qos,
    pub encoding: Encoding,
    pub field: Arc<Field>,
    /// Where the payload says when it was made.
    pub time: Option<Stamp>,
}

/// The message that writes a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    pub topic: String,
    pub template: Template,
    pub qos: Qos,
    pub retain: bool,
    /// How long the state topic may take to report what was written; zero where nothing reports it.
    pub confirm: Duration,
    pub response: Option<Response>,
}

/// The message by which a device answers a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub topic: String,
    /// Where the answer repeats the number of the write; `None` where it repeats the correlation data of MQTT 5.
    pub id: Option<Path>,
    /// What the answer has only where the device refuses.
    pub error: Option<Path>,
}

/// Messages that tell whether a device is there: of several all must say so.
#[derive(Debug, Clone, PartialEq)]
pub struct Availability {
    pub topic: String,
    pub encoding: Encoding,
    /// A bool: whether the device is there.
    pub field: Arc<Field>,
}

impl Qos {
    /// By its number in packets; the highest for what is none.
    #[must_use]
    pub fn from_level(level: u8) -> Self {
        match level {
            0 => Self::AtMostOnce,
            1 => Self::AtLeastOnce,
            _ => Self::ExactlyOnce,
        }
    }

    /// As it stands in packets.
    #[must_use]
    pub fn level(self) -> u8 {
        match self {
            Self::AtMostOnce => 0,
            Self::AtLeastOnce => 1,
            Self::ExactlyOnce => 2,
        }
    }
}
