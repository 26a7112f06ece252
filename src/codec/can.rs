//! CAN: frames, the bits of signals, and the texts in which logs and adapters write frames.
//!
//! Owns what bytes mean. Must not know sockets, ports, time or tags.

#![warn(clippy::as_conversions)]

mod bits;
pub mod candump;
mod frame;
mod held;
pub mod j1939;
mod signal;
pub mod slcan;
pub mod socketcand;
mod text;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

pub use bits::{ByteOrder, Place};
pub use frame::{BusError, Data, Fd, Frame, Id, Payload, dlc, fd_length, is_fd_length};
pub use signal::{Number, Reading, Signal, Spec, Unfit};
