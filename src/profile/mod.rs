//! Profiles: what a model of device has, apart from where one hangs. No hosts, no ports.

pub mod modbus;
