//! How far a value can be trusted, and why not.

use std::fmt;

/// Quality of a sample. A reason stands exactly where the quality is not good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quality {
    Good,
    Uncertain(Reason),
    Bad(Reason),
}

/// Why a sample is not good: a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Nothing was read since the start or since the tag's definition changed.
    NeverRead,
    /// The link to the device is down.
    NotConnected,
    /// Three requests in a row timed out.
    DeviceSilent,
    /// The device, or who keeps watch over it, says that it is not there.
    DeviceOffline,
    /// The device answered with an exception, or a gateway answered for it; or a broker refuses its messages.
    DeviceRefused,
    /// The device says that what it would tell is in error.
    DeviceError,
    /// The value lies outside the tag's `range`; it is kept.
    OutOfRange,
    /// The device holds a value that stands for `not available`.
    NotAvailable,
    /// The bytes are no value of the tag's type.
    DecodeError,
    /// No good sample for longer than `stale_after_ms`, or none since the link came back.
    Stale,
    /// A broker kept it for whoever comes; nobody knows for how long.
    Retained,
}

impl Quality {
    /// `good`, `uncertain` or `bad`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Uncertain(_) => "uncertain",
            Self::Bad(_) => "bad",
        }
    }

    #[must_use]
    pub fn reason(self) -> Option<Reason> {
        match self {
            Self::Good => None,
            Self::Uncertain(reason) | Self::Bad(reason) => Some(reason),
        }
    }
}

impl Reason {
    /// Every reason, for schemas.
    pub const ALL: [Self; 11] = [
        Self::NeverRead,
        Self::NotConnected,
        Self::DeviceSilent,
        Self::DeviceOffline,
        Self::DeviceRefused,
        Self::DeviceError,
        Self::NotAvailable,
        Self::OutOfRange,
        Self::DecodeError,
        Self::Stale,
        Self::Retained,
    ];

    /// The name as it is served, such as `not_connected`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NeverRead => "never_read",
            Self::NotConnected => "not_connected",
            Self::DeviceSilent => "device_silent",
            Self::DeviceOffline => "device_offline",
            Self::DeviceRefused => "device_refused",
            Self::DeviceError => "device_error",
            Self::NotAvailable => "not_available",
            Self::OutOfRange => "out_of_range",
            Self::DecodeError => "decode_error",
            Self::Stale => "stale",
            Self::Retained => "retained",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
