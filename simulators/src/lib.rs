//! Simulated devices, as libraries with handles and no hardware.
//!
//! Knows nothing of fieldbridge: a bug shared with it would cancel out in every test.

pub mod boiler;
pub mod can;
mod dice;
pub mod meter;
pub mod modbus;
pub mod mqtt;
