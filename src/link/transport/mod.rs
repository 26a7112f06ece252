//! Transports that drivers share. Knows no protocol and never retries: that is the supervisor's.

mod delivery;
pub mod tcp;

pub use delivery::Delivery;
