//! The tag model: paths, values, quality, samples and the outcomes of writes.
//!
//! Knows no I/O, no protocol and no wire shape.
#![warn(clippy::as_conversions)]

mod ident;
mod outcome;
mod quality;
mod sample;
mod tag;
mod value;

pub use ident::{DeviceId, InvalidPath, TagId, TagPath, is_segment};
pub use outcome::{Outcome, Party, Report, Rule};
pub use quality::{Quality, Reason};
pub use sample::{DeviceState, LinkState, Sample, Update, When};
pub use tag::{Accepted, Access, Definition, Device, Kind, Labels, Limits, Refusal, Setpoint, Tag};
pub use value::Value;
