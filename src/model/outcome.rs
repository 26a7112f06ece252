//! How a write ended.

use super::Value;

/// How a write ended: these, and no other ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The raw value sent was read back.
    Confirmed,
    /// The device answered, but something else was read back.
    Differs,
    /// The device, or the broker before it, acknowledged; nothing tells what the device holds.
    Written,
    /// Sent to devices that answer nothing to it.
    Sent,
    /// A rule of ours said no: nothing was sent.
    Rejected(Rule),
    /// The device said no.
    Refused,
    /// The link was down or the deadline passed before a byte left.
    NotSent,
    /// Bytes left, and nothing tells whether the device took the value.
    Unknown,
    /// All rules passed; nothing was sent because nothing was asked to be.
    DryRun,
}

/// Who can acknowledge a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Party {
    Device,
    Broker,
    /// A frame was on the bus, where another node acknowledged it.
    Bus,
}

/// The rule that rejected a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// No such tag.
    Tag,
    /// The site's `writes` is `off`.
    Mode,
    /// The site's `writes` is `confirm`, and nobody can confirm yet.
    Confirmation,
    /// The tag is read-only.
    Access,
    /// The text is no value of the tag's type.
    Type,
    /// Below `min` or above `max`.
    Limits,
    /// Outside what the raw type can hold.
    RawRange,
    /// A later write to the same tag came first.
    Superseded,
    /// The tag does not hold the expected value.
    Expectation,
    /// Nothing is known of what else goes with it, or it does not go with what is written beside it.
    Companions,
}

/// What is known after a write.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub outcome: Outcome,
    /// The value as it was asked for, where it could be read.
    pub requested: Option<Value>,
    /// The value that the device now holds, where it is known.
    pub value: Option<Value>,
    /// The value before the write, where it is known.
    pub previous: Option<Value>,
    /// Who said that the write was taken.
    pub acknowledged_by: Option<Party>,
    /// The device's own code of a refusal.
    pub code: Option<u8>,
    /// One sentence for a person.
    pub message: String,
}

impl Outcome {
    /// The name as it is served, such as `not_sent`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Differs => "differs",
            Self::Written => "written",
            Self::Sent => "sent",
            Self::Rejected(_) => "rejected",
            Self::Refused => "refused",
            Self::NotSent => "not_sent",
            Self::Unknown => "unknown",
            Self::DryRun => "dry_run",
        }
    }

    /// Whether the caller got what was asked for.
    #[must_use]
    pub fn is_success(self) -> bool {
        matches!(self, Self::Confirmed | Self::Written | Self::Sent | Self::DryRun)
    }
}

impl Party {
    /// The name as it is served, such as `broker`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Broker => "broker",
            Self::Bus => "bus",
        }
    }
}

impl Rule {
    /// The name as it is served, such as `raw_range`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tag => "tag",
            Self::Mode => "mode",
            Self::Confirmation => "confirmation",
            Self::Access => "access",
            Self::Type => "type",
            Self::Limits => "limits",
            Self::RawRange => "raw_range",
            Self::Superseded => "superseded",
            Self::Expectation => "expectation",
            Self::Companions => "companions",
        }
    }
}

impl Report {
    /// A report of which only the outcome and its reason are known.
    #[must_use]
    pub fn new(outcome: Outcome, message: impl Into<String>) -> Self {
        Self {
            outcome,
            requested: None,
            value: None,
            previous: None,
            acknowledged_by: None,
            code: None,
            message: message.into(),
        }
    }
}
