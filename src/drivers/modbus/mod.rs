//! Modbus.
pub mod plan;
