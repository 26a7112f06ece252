//! What names a device and a tag.

use std::{fmt, sync::Arc};

/// Number of a tag in the store: dense, and never given to another tag within one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TagId(pub u32);

/// Number of a device in the store: dense, and never given to another device within one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId(pub u32);

/// `device/segment[/segment…]`, compared case-sensitively.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TagPath(Arc<str>);

/// A text that is not a tag path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a tag path: allowed is `device/segment[/segment…]` with segments of 1 to 64 of `A-Z a-z 0-9 _ -`"
)]
pub struct InvalidPath(pub String);

/// Whether `text` can be one segment of a path: 1 to 64 of `[A-Za-z0-9_-]`.
#[must_use]
pub fn is_segment(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

impl TagPath {
    /// Reads a path; at least a device and one segment.
    pub fn parse(text: &str) -> Result<Self, InvalidPath> {
        if text.contains('/') && text.split('/').all(is_segment) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidPath(text.to_owned()))
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first segment: the device's name.
    #[must_use]
    pub fn device(&self) -> &str {
        self.0.split_once('/').map_or(&*self.0, |(device, _)| device)
    }
}

impl fmt::Display for TagPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::borrow::Borrow<str> for TagPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}
