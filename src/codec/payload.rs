//! Payloads of messages ↔ values: text, JSON, CBOR, `MessagePack` and raw bytes.
//!
//! Owns what a payload says and which part of it a tag wants. Must not know topics, brokers, or how a payload came.
//!
//! A payload is parsed once, within [`Bounds`], and every [`Field`] of its topic then reads its own part: what is wrong
//! with one part says nothing about the others. A part that is missing is no news, never a value.

#![warn(clippy::as_conversions)]

mod binary;
mod document;
mod field;
mod json;
mod number;
mod packed;
mod path;
mod problem;
mod stamp;
mod template;
mod write;

#[cfg(test)]
mod tests;

pub use binary::Binary;
pub use document::{Bounds, Document, Encoding, Malformed, Shape};
pub use field::{Field, Reading, Spec, Word};
pub use path::{InvalidPath, Path, Step};
pub use problem::{Fault, Problem, Unfit, Words};
pub use stamp::{Clock, Stamp};
pub use template::{Form, InvalidTemplate, Template};
