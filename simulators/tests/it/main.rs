//! The simulators from outside: raw bytes on real sockets, written by hand from the specification.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test may fail by a panic")]

mod boiler;
mod device;
mod lifecycle;
#[cfg(unix)]
mod line;
#[cfg(unix)]
mod meter;
mod modbus;
mod mqtt;
mod proxy;
mod raw;
mod transports;
