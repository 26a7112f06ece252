//! The styles of the screen: `123   [4]  DE AD BE EF`, also in binary, swapped, and with more told.
//!
//! Must not know times and interfaces.

use super::{Direction, Rest, Skip, head, remote, with_data};
use crate::codec::can::text::{Gathered, nibble, pair};
use crate::codec::can::{Fd, Frame};

/// Stands between bytes that are written last one first (`candump -S`), and around their text.
const SWAPPED: char = '`';

/// How long a frame is told to be, and of what kind it is therefore.
struct Length {
    bytes: u8,
    fd: bool,
}

/// The frame that begins with `word`: its id, or which way it went (`candump -x`).
pub(super) fn frame(word: &str, rest: &mut Rest<'_>) -> Result<(Frame, Option<Direction>), Skip> {
    let direction = match word {
        "RX" => Some(Direction::Rx),
        "TX" => Some(Direction::Tx),
        _ => None,
    };
    let (id, fd) = match direction {
        Some(_) => {
            let fd = Fd { brs: flag(rest, ["B", "S"])?, esi: flag(rest, ["E", "R"])? };
            (rest.word().ok_or(Skip::NoFrame)?, fd)
        }
        None => (word, Fd::default()),
    };
    let length = length(rest.word().ok_or(Skip::NoFrame)?)?;
    let head = head(id)?;
    rest.pass_blanks();
    if !length.fd && rest.0.trim_ascii_end() == "remote request" {
        return Ok((remote(head, length.bytes)?, direction));
    }
    let data = bytes(rest, length.bytes.into())?;
    Ok((with_data(head, &data, length.fd.then_some(fd))?, direction))
}

/// One of the two flags behind the direction, or `-`. Those of CAN XL stand there as well.
fn flag(rest: &mut Rest<'_>, set: [&str; 2]) -> Result<bool, Skip> {
    match rest.word() {
        Some("-") => Ok(false),
        Some(word) if set.contains(&word) => Ok(true),
        _ => Err(Skip::NoFrame),
    }
}

/// `[8]` for a classic frame, `[08]` for CAN FD, `[0008]` for CAN XL, and `{8}` where the data length code is told
/// (`candump -8`).
fn length(word: &str) -> Result<Length, Skip> {
    let within = |from, to| word.strip_prefix(from).and_then(|word| word.strip_suffix(to));
    if let Some(dlc) = within('{', '}') {
        let [digit] = dlc.as_bytes() else { return Err(Skip::NoFrame) };
        return match nibble(*digit).ok_or(Skip::NoFrame)? {
            bytes @ 0..=8 => Ok(Length { bytes, fd: false }),
            _ => Err(Skip::RawDlc),
        };
    }
    let digits = within('[', ']').ok_or(Skip::NoFrame)?;
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(Skip::NoFrame);
    }
    match digits.len() {
        1 | 2 => {
            let bytes = digits.parse().ok().ok_or(Skip::NoFrame)?;
            Ok(Length { bytes, fd: digits.len() == 2 })
        }
        4 => Err(Skip::Xl),
        _ => Err(Skip::NoFrame),
    }
}

/// So many bytes, and nothing behind them but their text or `ERRORFRAME`.
fn bytes(rest: &mut Rest<'_>, count: usize) -> Result<Gathered, Skip> {
    let mut bytes = Gathered::new();
    while bytes.count() < count {
        let word = rest.word().ok_or(Skip::Length(count))?;
        let swapped = bytes.count() == 0 && word.contains(SWAPPED);
        for digits in word.split(SWAPPED) {
            bytes.push(byte(digits, count)?);
        }
        if swapped {
            bytes.reverse();
            break;
        }
    }
    rest.pass_blanks();
    let is_tail =
        rest.0.is_empty() || rest.0.starts_with(['\'', SWAPPED]) || rest.0.starts_with("ERRORFRAME");
    if bytes.count() == count && is_tail { Ok(bytes) } else { Err(Skip::Length(count)) }
}

/// Two hexadecimal digits, or eight binary ones (`candump -i`).
fn byte(digits: &str, count: usize) -> Result<u8, Skip> {
    match digits.as_bytes() {
        [high, low] => pair(*high, *low).ok_or(Skip::Digits),
        bits @ [_, _, _, _, _, _, _, _] => bits.iter().try_fold(0, |byte, bit| match bit {
            b'0' => Ok(byte << 1),
            b'1' => Ok(byte << 1 | 1),
            _ => Err(Skip::Digits),
        }),
        // The text of the bytes, or `ERRORFRAME`, stands where more bytes are due.
        _ => Err(Skip::Length(count)),
    }
}
