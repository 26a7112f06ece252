//! The log style: `123#DEADBEEF`, and what may stand behind it.
//!
//! Must not know times and interfaces.

use super::{BRS, Direction, ESI, Rest, Skip, head, remote, with_data};
use crate::codec::can::text::{Gathered, nibble, pair};
use crate::codec::can::{Fd, Frame};

/// The frame of an id and what stands behind `#`.
pub(super) fn frame(id: &str, body: &str) -> Result<Frame, Skip> {
    // Only the header of CAN XL has colons: `45123#81:00:12345678#1122`.
    if body.contains(':') {
        return Err(Skip::Xl);
    }
    let head = head(id)?;
    match body.as_bytes() {
        [b'#', flags, data @ ..] => {
            let flags = nibble(*flags).ok_or(Skip::Flags)?;
            let fd = Fd { brs: flags & BRS != 0, esi: flags & ESI != 0 };
            with_data(head, &bytes(data)?, Some(fd))
        }
        [b'#'] => Err(Skip::Flags),
        [b'R' | b'r'] => remote(head, 0),
        [b'R' | b'r', _, b'_', ..] => Err(Skip::RawDlc),
        [b'R' | b'r', len] => remote(head, nibble(*len).ok_or(Skip::RemoteLength)?),
        [b'R' | b'r', ..] => Err(Skip::RemoteLength),
        data => with_data(head, &bytes(data)?, None),
    }
}

/// `T` or `R` behind the frame, which `candump -x` writes.
pub(super) fn direction(rest: &mut Rest<'_>) -> Result<Option<Direction>, Skip> {
    let direction = match rest.word() {
        None => None,
        Some("R") => Some(Direction::Rx),
        Some("T") => Some(Direction::Tx),
        Some(_) => return Err(Skip::Trailing),
    };
    rest.pass_blanks();
    if rest.0.is_empty() { Ok(direction) } else { Err(Skip::Trailing) }
}

/// Bytes of two digits, before each of which a dot may stand.
fn bytes(mut text: &[u8]) -> Result<Gathered, Skip> {
    let mut bytes = Gathered::new();
    loop {
        text = text.strip_prefix(b".").unwrap_or(text);
        match text {
            [] => return Ok(bytes),
            [b'_', ..] => return Err(Skip::RawDlc),
            [high, low, rest @ ..] => {
                bytes.push(pair(*high, *low).ok_or(Skip::Digits)?);
                text = rest;
            }
            [digit] => return Err(nibble(*digit).map_or(Skip::Digits, |_| Skip::OddDigits)),
        }
    }
}
