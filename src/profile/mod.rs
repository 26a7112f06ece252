//! Profiles: what a model of device has, apart from where one hangs. No hosts, no ports.

pub mod can;
pub mod dbc;
pub(crate) mod dialect;
mod format;
mod library;
pub mod modbus;
pub mod mqtt;
mod overlap;
mod place;
pub(crate) mod raw;
pub(crate) mod signal;
mod template;
mod topic;

pub(crate) use library::Library;
#[cfg(test)]
pub(crate) use library::{embedded_names, parse};
pub(crate) use overlap::check_overlaps;
pub(crate) use template::{Alike, Defaults, Template, Templates, templates};
pub(crate) use topic::{Host, Sign, qos, signs};
