//! What the benchmarks share: processes under measurement, a client of MCP over HTTP, and a few statistics.
//!
//! Knows neither what is measured nor how it is printed.

pub(crate) mod assistant;
pub(crate) mod figures;
pub(crate) mod handshake;
pub(crate) mod http;
pub(crate) mod process;
