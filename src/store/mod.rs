//! Current samples, the change feed with its subscriptions, and observers. Knows no protocols and no MCP.

mod bits;
mod catalogue;
mod observer;
mod session;
mod slots;
mod subscription;

#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, SystemTime},
};

pub use catalogue::{Catalogue, DeviceEntry, TagEntry};
pub use observer::{Observation, Observer};
use parking_lot::RwLock;
pub use session::Connection;
use slots::Slots;
pub use subscription::{Change, Subscription, Target};

use crate::model::{DeviceId, DeviceState, LinkState, Quality, Sample, TagId};

/// Everything that is known of the plant now.
#[derive(Debug)]
pub struct Store {
    slots: RwLock<Slots>,
    sessions: AtomicU64,
}

/// A tag's sample as it is at the moment of asking: staleness and age included.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    pub sample: Sample,
    /// Age of the value; `None` until a first value came.
    pub age: Option<Duration>,
}

/// A device's state as it is at the moment of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceReading {
    pub link: LinkState,
    /// Why the link is down.
    pub link_detail: Option<Arc<str>>,
    pub state: DeviceState,
    /// Such as the exception that the device answers.
    pub detail: Option<Arc<str>>,
    /// When the link or the device last changed its state.
    pub since: SystemTime,
    /// How many tags are good, uncertain and bad.
    pub counts: Counts,
}

/// How many tags have which quality.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub good: usize,
    pub uncertain: usize,
    pub bad: usize,
}
