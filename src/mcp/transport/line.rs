//! Lines out of a byte stream, with a bound on their length.

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Longest line that is read.
pub(super) const MOST_BYTES: usize = 1024 * 1024;
/// Buffer that is kept between lines.
const KEPT_BYTES: usize = 64 * 1024;
const READ_BYTES: usize = 8 * 1024;

/// One step of reading.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole(BytesMut),
    /// Longer than [`MOST_BYTES`]; the rest of it is skipped.
    TooLong,
}

/// Splits what `reader` gives at each `\n`.
#[derive(Debug)]
pub(super) struct Lines<R> {
    reader: R,
    buffer: BytesMut,
    /// Bytes of `buffer` that are known to hold no `\n`.
    searched: usize,
    /// Inside a line that was too long.
    skipping: bool,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, buffer: BytesMut::new(), searched: 0, skipping: false, ended: false }
    }

    /// The next line without its `\n`; `None` at the end of the stream. A last line may lack its `\n`.
    ///
    /// Cancel-safe: all state is in `self`.
    pub(super) async fn next(&mut self) -> std::io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.take() {
                return Ok(Some(line));
            }
            if self.ended {
                let rest = std::mem::take(&mut self.buffer);
                self.searched = 0;
                return Ok((!rest.is_empty() && !self.skipping).then_some(Line::Whole(rest)));
            }
            if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BYTES {
                self.buffer = BytesMut::new();
            }
            self.buffer.reserve(READ_BYTES);
            self.ended = self.reader.read_buf(&mut self.buffer).await? == 0;
        }
    }

    fn take(&mut self) -> Option<Line> {
        loop {
            let fresh = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(end) = fresh.iter().position(|&byte| byte == b'\n') else {
                self.searched = self.buffer.len();
                if self.skipping {
                    self.buffer.clear();
                    self.searched = 0;
                } else if self.buffer.len() > MOST_BYTES {
                    self.skipping = true;
                    self.buffer.clear();
                    self.searched = 0;
                    return Some(Line::TooLong);
                }
                return None;
            };
            let line = self.buffer.split_to(self.searched + end);
            self.buffer.advance(1);
            self.searched = 0;
            if !std::mem::take(&mut self.skipping) {
                return Some(if line.len() > MOST_BYTES { Line::TooLong } else { Line::Whole(line) });
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "tests")]
mod tests {
    use super::*;

    async fn all(input: Vec<u8>) -> Vec<String> {
        let mut lines = Lines::new(std::io::Cursor::new(input));
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.expect("a cursor does not fail") {
            found.push(match line {
                Line::Whole(line) => String::from_utf8_lossy(&line).into_owned(),
                Line::TooLong => "too long".to_owned(),
            });
        }
        found
    }

    #[tokio::test]
    async fn lines_end_at_newlines_and_at_the_end() {
        assert_eq!(all(b"a\n\nb\r\nc".to_vec()).await, ["a", "", "b\r", "c"]);
        assert_eq!(all(b"a\n".to_vec()).await, ["a"]);
        assert!(all(Vec::new()).await.is_empty());
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_told_once_and_skipped() {
        let mut input = vec![b'x'; 3 * MOST_BYTES];
        input.extend(b"\nnext\n");
        assert_eq!(all(input).await, ["too long", "next"]);
        assert_eq!(all(vec![b'x'; 2 * MOST_BYTES]).await, ["too long"]);
    }
}
