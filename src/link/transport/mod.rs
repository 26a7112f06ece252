//! Transports that drivers share. Knows no protocol and never retries: that is the supervisor's.

pub mod tcp;
