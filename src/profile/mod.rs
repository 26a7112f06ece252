//! Profiles: what a model of device has, apart from where one hangs. No hosts, no ports.

pub(crate) mod dialect;
mod library;
pub mod modbus;
pub(crate) mod raw;
mod template;

pub(crate) use library::Library;
#[cfg(test)]
pub(crate) use library::{embedded_names, parse};
pub(crate) use template::{Defaults, Template, templates};
