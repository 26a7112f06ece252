//! Topics and topic filters: patterns with named levels, who wants a message, and what is subscribed to.
//!
//! Owns the rules of MQTT 5.0 (section 4.7) for names. Must not know payloads, sessions or the broker.

mod filters;
mod index;
mod pattern;

#[cfg(test)]
mod tests;

pub use filters::Filters;
pub use index::Index;
pub use pattern::{InvalidPattern, InvalidTopic, Pattern, Unbound, check_topic};
