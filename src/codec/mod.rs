//! Bytes to values and back, pure: no I/O, no clock, no tokio (tokio-modbus's types excepted).
#![warn(clippy::as_conversions)]

pub mod can;
pub mod modbus;
pub mod payload;
pub mod topic;
pub mod value;
