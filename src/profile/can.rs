//! Where the tags of a device on a CAN bus live, and how its messages are checked and sent.

use std::{sync::Arc, time::Duration};

use crate::codec::can::{Fd, Id, Place, Signal};

/// Source of one tag: a signal of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub message: Arc<Message>,
    pub signal: Arc<Signal>,
    /// All must hold for the signal to be in a frame, the outermost first.
    pub conditions: Vec<Condition>,
    pub command: Option<Command>,
}

/// Frames of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// As people know it.
    pub name: String,
    pub key: Key,
    pub counter: Option<Place>,
    pub checksum: Option<Guard>,
    pub sending: Option<Sending>,
}

/// How frames of a message are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    Id(Id),
    /// A parameter group of J1939 and who sends it, whatever its priority and destination.
    Group {
        pgn: u32,
        source: u8,
    },
}

/// What the raw number of a multiplexer must be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Condition {
    pub place: Place,
    /// Each from and to, both included.
    pub ranges: Vec<(u64, u64)>,
}

/// How a tag is written: its message is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// What reports what was written.
    pub feedback: Option<Feedback>,
}

/// The tag that reports what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feedback {
    /// Its name below the device.
    pub tag: String,
    /// How long it may take.
    pub within: Duration,
}

/// How a message is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Sending {
    pub id: Id,
    pub fd: Option<Fd>,
    pub others: Others,
    /// What is in it, those that select others before these.
    pub fields: Vec<Field>,
    /// The payload where nothing says another.
    pub initial: Vec<u8>,
    /// Sends it again and again.
    pub period: Option<Duration>,
    /// Ends that so long after the last write.
    pub limit: Option<Duration>,
    /// Fields of the last frame of that, by their places; none where nothing is sent at the end.
    pub stop: Vec<(usize, u64)>,
}

/// A signal of a message that is sent, be it a tag or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub place: Place,
    /// As those of a [`Point`].
    pub conditions: Vec<Condition>,
    /// What it is where nothing says another.
    pub initial: Option<u64>,
}

/// What the signals hold that are not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Others {
    LastSent,
    LastReceived,
    Initial,
}

/// The byte that guards the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Guard {
    pub byte: usize,
    pub method: Checksum,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Checksum {
    /// The low byte of the sum.
    Sum,
    Xor,
    /// Polynomial 0x1D, initial value and final XOR 0xFF (SAE J1850).
    Crc8SaeJ1850,
}

const CRC_8_SAE_J1850: crc::Crc<u8> = crc::Crc::<u8>::new(&crc::CRC_8_SAE_J1850);

impl Condition {
    /// Whether it holds in a payload; `None` where that is too short to tell.
    #[must_use]
    pub fn holds(&self, payload: &[u8]) -> Option<bool> {
        self.place.read(payload).map(|raw| self.takes(raw))
    }

    /// Whether the multiplexer may have this raw number.
    #[must_use]
    pub fn takes(&self, raw: u64) -> bool {
        self.ranges.iter().any(|(low, high)| (*low..=*high).contains(&raw))
    }
}

/// The lowest number that all conditions of one multiplexer take.
#[must_use]
pub fn common(conditions: &[&Condition]) -> Option<u64> {
    let lows = conditions.iter().flat_map(|condition| condition.ranges.iter().map(|(low, _)| *low));
    lows.filter(|low| conditions.iter().all(|condition| condition.takes(*low))).min()
}

impl Field {
    /// Whether it is in a payload.
    #[must_use]
    pub fn is_in(&self, payload: &[u8]) -> bool {
        self.conditions.iter().all(|condition| condition.holds(payload) == Some(true))
    }
}

impl Guard {
    /// Whether the guarding byte of a payload is right; `None` where the payload ends before it.
    #[must_use]
    pub fn is_right(self, payload: &[u8]) -> Option<bool> {
        payload.get(self.byte).map(|byte| *byte == self.compute(payload))
    }

    /// Puts the guarding byte into a payload.
    pub fn seal(self, payload: &mut [u8]) {
        let right = self.compute(payload);
        if let Some(byte) = payload.get_mut(self.byte) {
            *byte = right;
        }
    }

    fn compute(self, payload: &[u8]) -> u8 {
        let before = payload.get(..self.byte).unwrap_or(payload);
        let behind = payload.get(self.byte + 1..).unwrap_or_default();
        let others = before.iter().chain(behind);
        match self.method {
            Checksum::Sum => others.fold(0, |sum, byte| sum.wrapping_add(*byte)),
            Checksum::Xor => others.fold(0, |sum, byte| sum ^ byte),
            Checksum::Crc8SaeJ1850 => {
                let mut digest = CRC_8_SAE_J1850.digest();
                digest.update(before);
                digest.update(behind);
                digest.finalize()
            }
        }
    }
}
