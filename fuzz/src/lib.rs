//! What the fuzz targets feed the codecs with, and what they check.
//!
//! Owns a mirror of each input and the expectations, written without the code under test: frames, checksums and exact
//! numbers are computed here anew. Inputs are of fixed size but for bytes at their end, so that a seed is easily written.

pub mod ask;
pub mod dbc;
pub mod exact;
pub mod frames;
pub mod mbap;
pub mod payload;
pub mod pdu;
pub mod rtu;
pub mod shape;
pub mod signal;
pub mod value;

#[cfg(test)]
mod seeds;
