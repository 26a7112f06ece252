//! What can go wrong with a device's messages.
//!
//! Knows messages only: what a fault does to the connection, and when, is the session's matter.

mod numbers;
mod text;

use std::time::Duration;

use bytes::Bytes;

pub use text::{FAULTS, FaultError};

use super::model::{Message, Part, Publication};

/// What retained garbage is: no text in any encoding of today.
const GARBAGE: &[u8] = &[0xFF, 0xFE, 0x00, 0x80, 0xC3, 0x28];

/// What goes wrong with a device. See [`FAULTS`] for all of them in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is published any more, while the connection stays. Commands are carried out all the same.
    Silence,
    /// The connection is lost without a goodbye, so the broker publishes the will; it does not come back.
    Offline,
    /// The second half of every value is missing.
    Cut,
    /// Numbers are bare `nan`s: all of them, or those of one key.
    Nan(Option<String>),
    /// Every value is so many bytes longer: by a member `pad` in JSON, by blanks otherwise.
    Pad(usize),
    /// So many beats a second instead of those of the device's own interval, at `QoS` 0.
    Flood(u32),
    /// Values are not retained; instead the broker keeps bytes for their topics that mean nothing.
    Garbage,
    /// Commands are carried out so much later, in their order.
    Slow(Duration),
    /// Commands are received and not carried out.
    Ignore,
}

impl Fault {
    /// What becomes of a message; the garbage for its topic is [`garbage`]'s matter.
    pub(super) fn apply(&self, mut publication: Publication) -> Option<Publication> {
        let value = publication.part == Part::Value;
        let payload = &publication.message.payload;
        publication.message.payload = match self {
            Self::Silence => return None,
            Self::Cut if value => payload.slice(..payload.len() / 2),
            Self::Nan(key) if value => numbers::to_nan(payload, key.as_deref()),
            Self::Pad(bytes) if value => pad(payload, *bytes),
            _ => payload.clone(),
        };
        if *self == Self::Garbage && value {
            publication.message.retain = false;
        }
        Some(publication)
    }
}

/// What the broker is to keep for a topic instead of a value.
pub(super) fn garbage(topic: &str) -> Message {
    Message::new(topic, Bytes::from_static(GARBAGE)).retained()
}

fn pad(payload: &[u8], bytes: usize) -> Bytes {
    let mut padded = payload.to_vec();
    if padded.ends_with(b"}") && padded.len() > 2 {
        padded.pop();
        padded.extend(br#","pad":""#);
        padded.extend(std::iter::repeat_n(b'x', bytes.saturating_sub(9)));
        padded.extend(br#""}"#);
    } else {
        padded.extend(std::iter::repeat_n(b' ', bytes));
    }
    padded.into()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail by a panic")]
#[path = "fault_tests.rs"]
mod tests;
