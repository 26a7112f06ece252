//! How messages come in and go out: stdio and Streamable HTTP. Knows nothing of tags.

pub(super) mod http;
mod line;
mod message;
mod session;
pub(super) mod stdio;
mod streams;
