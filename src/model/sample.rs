//! What is known of a tag at one moment, and of the device and link that it comes from.

use std::{sync::Arc, time::SystemTime};

use tokio::time::Instant;

use super::{Quality, TagId, Value};

/// The current knowledge of one tag.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub value: Value,
    pub quality: Quality,
    /// The label of a good value; else a code or text beside the reason, such as `exception 0x02 (illegal data address)`.
    pub detail: Option<Arc<str>>,
    /// A moment since which the value was taken from the device: when it was asked for; `None` until a first value came,
    /// and where nobody knows.
    pub source_time: Option<SystemTime>,
    /// The same moment on the monotonic clock, for ages.
    pub taken: Option<Instant>,
    /// When the store last took something about this tag.
    pub server_time: SystemTime,
}

/// What a session says about one tag.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    pub tag: TagId,
    /// `None` keeps the value and its source time: the session says only that it can no longer vouch for it.
    pub value: Option<Value>,
    pub quality: Quality,
    pub detail: Option<Arc<str>>,
    /// Unused where there is no value.
    pub at: When,
}

/// How old a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// It was asked for then, or came unasked: a value that was on its way for long is as old as the question for it.
    At(Instant),
    /// The device says that it is from then.
    Told(SystemTime),
    /// Nobody knows.
    Unknown,
}

impl When {
    /// The moment on both clocks, of which this is now; never one to come.
    #[must_use]
    pub fn on_clocks(self, now: Instant, time: SystemTime) -> (Option<SystemTime>, Option<Instant>) {
        match self {
            Self::At(at) => (time.checked_sub(now.saturating_duration_since(at)), Some(at.min(now))),
            Self::Told(told) => {
                let age = time.duration_since(told).unwrap_or_default();
                (Some(told.min(time)), now.checked_sub(age))
            }
            Self::Unknown => (None, None),
        }
    }
}

/// State of the link that one or more devices share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkState {
    Connecting,
    Connected,
    /// Waiting for the next try.
    BackingOff,
    Stopped,
}

/// State of one device on its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceState {
    /// The link is down.
    NotConnected,
    /// The link is up; the device did not answer yet.
    Waiting,
    Online,
    /// Three requests in a row timed out.
    Silent,
    /// It, or who keeps watch over it, says that it is not there.
    Offline,
    /// It, or the gateway before it, refuses what is asked.
    Refused,
}

impl LinkState {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::BackingOff => "backing_off",
            Self::Stopped => "stopped",
        }
    }
}

impl DeviceState {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NotConnected => "not_connected",
            Self::Waiting => "waiting",
            Self::Online => "online",
            Self::Silent => "silent",
            Self::Offline => "offline",
            Self::Refused => "refused",
        }
    }
}
