//! CAN: frames, the bits of signals, and the texts in which logs and adapters write frames.
//!
//! Owns what bytes mean. Must not know sockets, ports, time or tags.

#![warn(clippy::as_conversions)]

mod bits;
mod frame;

pub use bits::{ByteOrder, Place};
pub use frame::{BusError, Data, Fd, Frame, Id, Payload, dlc, fd_length, is_fd_length};
