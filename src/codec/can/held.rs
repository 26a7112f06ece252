//! Bytes of a stream that came and were not yet read, never more than a constant.
//!
//! Must not know what they mean.

/// Most bytes that are held. One read of a port or socket is far below it, so nothing is lost where all is read after each.
pub(super) const MOST: usize = 1 << 16;

/// What came and was not yet read.
#[derive(Debug, Default)]
pub(super) struct Held {
    bytes: Vec<u8>,
    /// How many of them were read.
    read: usize,
}

impl Held {
    /// Takes bytes as they came; `false` where the oldest had to go for them.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        self.bytes.drain(..self.read);
        self.read = 0;
        let over = (self.bytes.len() + bytes.len()).saturating_sub(MOST);
        let before = over.min(self.bytes.len());
        self.bytes.drain(..before);
        self.bytes.extend_from_slice(bytes.get(over - before..).unwrap_or_default());
        over == 0
    }

    /// What was not yet read.
    pub(super) fn rest(&self) -> &[u8] {
        self.bytes.get(self.read..).unwrap_or_default()
    }

    /// Counts the next bytes as read.
    pub(super) fn pass(&mut self, count: usize) {
        self.read = self.bytes.len().min(self.read + count);
    }

    /// How much memory it takes.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}
