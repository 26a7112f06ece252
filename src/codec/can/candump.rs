//! Lines of `candump`: the log style of `-l` and `-L`, which `canplayer` replays, and the styles of the screen.
//!
//! Owns the spellings (can-utils, lib.h and candump.c). Must not know files, nor when a frame is due.

mod log;
mod screen;
#[cfg(test)]
mod tests;

use std::time::Duration;

use chrono::NaiveDateTime;

use super::text::{Gathered, hex, nanoseconds, seconds};
use super::{BusError, Data, Fd, Frame, Id};

/// One line that holds a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Since the epoch, or since whatever the log counts from: its start, or the line before. `None` where the line has no
    /// time.
    pub time: Option<Duration>,
    /// The interface, as `can0`.
    pub channel: &'a str,
    pub frame: Frame,
    /// `None` where the log does not tell it.
    pub direction: Option<Direction>,
}

/// Which way a frame went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    Rx,
    Tx,
}

/// Why a line is passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Skip {
    #[error("no frame in it")]
    NoFrame,
    #[error("the time is neither seconds nor a date, with one to nine decimals")]
    Time,
    #[error("an id of {0} digits where it has 3 or 8")]
    IdDigits(usize),
    #[error("the id is not hexadecimal")]
    Id,
    #[error("the id has more bits than its kind: 11 with 3 digits, 29 with 8")]
    IdRange,
    #[error("an odd number of digits in the data")]
    OddDigits,
    #[error("the data are not hexadecimal")]
    Digits,
    #[error("{0} bytes where a classic frame has up to 8")]
    TooLong(usize),
    #[error("{0} bytes where a CAN FD frame has up to 8, 12, 16, 20, 24, 32, 48 or 64")]
    FdLength(usize),
    #[error("the flags of CAN FD are not a hexadecimal digit")]
    Flags,
    #[error("the length of a remote frame is not 0 to 8")]
    RemoteLength,
    /// The length in brackets and the bytes behind it.
    #[error("other data than the {0} bytes that are told before them")]
    Length(usize),
    #[error("an error frame that is remote or CAN FD")]
    ErrorForm,
    /// A data length code of 9 to 15 for 8 bytes.
    #[error("a raw data length code")]
    RawDlc,
    #[error("CAN XL")]
    Xl,
    /// More behind the frame than the direction, as where blanks cut the data.
    #[error("more text behind the frame")]
    Trailing,
}

/// Bit of an id that stands for an error frame, and those of its classes (linux/can.h).
const ERROR: u32 = 0x2000_0000;
const ERROR_MASK: u32 = 0x1FFF_FFFF;
/// Flags of CAN FD (linux/can.h).
const BRS: u8 = 0x1;
const ESI: u8 = 0x2;

/// What an id tells of the frame.
#[derive(Clone, Copy)]
enum Head {
    Id(Id),
    /// The classes.
    Error(u32),
}

/// Reads a line with or without its end; `None` for a blank one or a comment.
///
/// Dates are taken for UTC: `candump` writes local time, but not its zone. Data that blanks cut (`123#DE AD`) are no frame,
/// although can-utils would take the part before the blank.
pub fn parse(line: &str) -> Result<Option<Entry<'_>>, Skip> {
    let mut rest = Rest(line);
    rest.pass_blanks();
    if rest.0.is_empty() || rest.0.starts_with('#') {
        return Ok(None);
    }
    let time = rest.time()?;
    let channel = rest.word().ok_or(Skip::NoFrame)?;
    let word = rest.word().ok_or(Skip::NoFrame)?;
    let (frame, direction) = match word.split_once('#') {
        Some((id, body)) => (log::frame(id, body)?, log::direction(&mut rest)?),
        None => screen::frame(word, &mut rest)?,
    };
    Ok(Some(Entry { time, channel, frame, direction }))
}

/// Appends the line of `candump -L`, with its end.
///
/// Times are cut to microseconds. Flags of CAN FD are written without FDF, as all versions read them. `channel` has no
/// blanks.
pub fn write(out: &mut String, time: Duration, channel: &str, frame: &Frame) {
    let frame = match frame {
        Frame::Data(Data { id, payload, fd: None }) => format!("{id}#{payload}"),
        Frame::Data(Data { id, payload, fd: Some(Fd { brs, esi }) }) => {
            let flags = (u8::from(*brs) * BRS) | (u8::from(*esi) * ESI);
            format!("{id}##{flags:X}{payload}")
        }
        Frame::Remote { id, len: len @ 1..=8 } => format!("{id}#R{len}"),
        Frame::Remote { id, .. } => format!("{id}#R"),
        Frame::Error(BusError { class, data }) => {
            format!("{:08X}#{:016X}", ERROR | class & ERROR_MASK, u64::from_be_bytes(*data))
        }
    };
    let line = format!("({:010}.{:06}) {channel} {frame}\n", time.as_secs(), time.subsec_micros());
    out.push_str(&line);
}

/// What is left of a line. Colours, which `candump -c` writes, count as blanks.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    /// Begins a colour (ECMA-48, CSI).
    const ESCAPE: &'static str = "\x1B[";

    fn pass_blanks(&mut self) {
        self.0 = self.0.trim_ascii_start();
        while let Some(colour) = self.0.strip_prefix(Self::ESCAPE) {
            let rest = colour.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
            self.0 = rest.strip_prefix('m').unwrap_or(rest).trim_ascii_start();
        }
    }

    fn word(&mut self) -> Option<&'a str> {
        self.pass_blanks();
        let blank = self.0.find(|c: char| c.is_ascii_whitespace()).unwrap_or(self.0.len());
        let end = self.0.find(Self::ESCAPE).map_or(blank, |colour| blank.min(colour));
        let (word, rest) = self.0.split_at_checked(end)?;
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }

    /// What stands in parentheses before the interface.
    fn time(&mut self) -> Result<Option<Duration>, Skip> {
        let Some(text) = self.0.strip_prefix('(') else { return Ok(None) };
        let (text, rest) = text.split_once(')').ok_or(Skip::Time)?;
        self.0 = rest;
        let time = if text.contains(' ') { date(text) } else { seconds(text) };
        time.map(Some).ok_or(Skip::Time)
    }
}

/// A moment as `2026-01-01 00:00:00.123456`, since the epoch.
fn date(text: &str) -> Option<Duration> {
    let (moment, decimals) = text.split_once('.')?;
    let moment = NaiveDateTime::parse_from_str(moment, "%Y-%m-%d %H:%M:%S").ok()?;
    let seconds = u64::try_from(moment.and_utc().timestamp()).ok()?;
    Some(Duration::new(seconds, nanoseconds(decimals)?))
}

/// What the digits of an id say.
fn head(digits: &str) -> Result<Head, Skip> {
    if !matches!(digits.len(), 3 | 8) {
        return Err(Skip::IdDigits(digits.len()));
    }
    let number = hex(digits.as_bytes()).ok_or(Skip::Id)?;
    let id = match digits.len() {
        3 => Id::standard(number),
        _ if number & !ERROR_MASK == ERROR => return Ok(Head::Error(number & ERROR_MASK)),
        _ => Id::extended(number),
    };
    id.map(Head::Id).ok_or(Skip::IdRange)
}

/// The frame of an id and data.
fn with_data(head: Head, data: &Gathered, fd: Option<Fd>) -> Result<Frame, Skip> {
    let count = data.count();
    match head {
        Head::Error(_) if fd.is_some() => Err(Skip::ErrorForm),
        Head::Error(class) => {
            let mut error = BusError { class, data: [0; 8] };
            let given = data.bytes().ok_or(Skip::TooLong(count))?;
            error.data.get_mut(..count).ok_or(Skip::TooLong(count))?.copy_from_slice(given);
            Ok(Frame::Error(error))
        }
        Head::Id(id) => {
            let misfit = if fd.is_some() { Skip::FdLength(count) } else { Skip::TooLong(count) };
            let frame = data.bytes().and_then(|bytes| Data::new(id, bytes, fd));
            frame.map(Frame::Data).ok_or(misfit)
        }
    }
}

/// The remote frame of an id.
fn remote(head: Head, len: u8) -> Result<Frame, Skip> {
    match head {
        Head::Error(_) => Err(Skip::ErrorForm),
        Head::Id(id) if len <= 8 => Ok(Frame::Remote { id, len }),
        Head::Id(_) => Err(Skip::RemoteLength),
    }
}
