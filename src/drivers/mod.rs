//! The protocols' sessions and poll planning. Knows no store, no control and no MCP.

pub mod can;
pub mod modbus;
pub mod mqtt;
