//! The server as clients see it: hand-written JSON over in-memory pipes and loopback sockets.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod calls;
mod client;
mod http;
mod limits;
pub(super) mod plant;
mod stdio;
mod streams;
