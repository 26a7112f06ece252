//! Integration tests over the public API, with the simulators in process.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod can;
mod mqtt;
mod panics;
mod plant;
mod reload;
mod scan;
mod tidy;
mod writes;
