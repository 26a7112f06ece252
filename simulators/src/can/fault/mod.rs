//! What can go wrong on a bus, and with the devices on it.
//!
//! Knows frames and identifiers only: when a fault strikes is the bus's and the devices' matter.

mod text;

use std::time::Duration;

pub use text::{FAULTS, FaultError};

use super::frame::Id;

/// What goes wrong. See [`FAULTS`] for all of them in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Frames of low priority fill the bus to so many percent of its bit rate.
    Load(u8),
    /// So many error frames a second report violations of the protocol.
    Errors(u32),
    /// All controllers leave the bus for so long, once.
    BusOff(Duration),
    /// Every so many-th frame of an identifier is left out.
    Missing { id: Id, every: u32 },
    /// The alive counter of a message does not advance.
    Stuck(Id),
    /// Frames of an identifier are cut to so many bytes.
    Short { id: Id, length: u8 },
    /// A device sends nothing any more; it receives all the same.
    Silence(String),
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail by a panic")]
mod tests;
