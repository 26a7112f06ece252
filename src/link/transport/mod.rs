//! Transports that drivers share. Knows no protocol and never retries: that is the supervisor's.

mod delivery;
pub mod serial;
pub mod tcp;
pub mod tls;

pub use delivery::Delivery;
