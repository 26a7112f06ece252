//! The protocol of socketcand over TCP (doc/protocol.md there), as the client sees it, in raw mode.
//!
//! A session: `< hi >`, [`open`], `< ok >`, [`RAW_MODE`], `< ok >`, and then frames in both directions. Owns the messages.
//! Must not know sockets, nor which answer is due.

#[cfg(test)]
mod tests;

use std::io::Write as _;
use std::mem;
use std::time::Duration;

use super::held::Held;
use super::text::{Gathered, hex, nibble, pairs, quoted, seconds};
use super::{BusError, Data, Frame, Id};

/// Asks for all frames of the bus.
pub const RAW_MODE: &[u8] = b"< rawmode >";

/// Bytes of the longest message: one of raw mode has up to about 80.
const LONGEST: usize = 256;
/// The bits of the classes of an error. Other modes write the flags of SocketCAN with them.
const ERROR_MASK: u32 = 0x1FFF_FFFF;

/// What a server tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// It waits for [`open`].
    Hi,
    /// A command was carried out.
    Ok,
    /// With its time since the epoch; `None` where that is no time, as a negative one.
    Frame(Frame, Option<Duration>),
    /// An error frame. Raw mode tells its classes alone.
    BusError(BusError),
    /// A command was refused. The server hangs up where it was [`open`].
    Error(String),
    /// A message that means nothing here.
    Other(String),
    /// The beginning of a message that cannot be read, or of what stands between messages.
    Garbled(String),
}

/// Opens an interface. Its name has no blanks.
#[must_use]
pub fn open(interface: &str) -> Vec<u8> {
    format!("< open {interface} >").into_bytes()
}

/// Appends the message that sends a frame; `false` for one that cannot be sent: an error, or CAN FD.
///
/// Remote frames are sent as the protocol says (`sendrtr`), which linux-can's server answers by [`Told::Error`].
#[must_use]
pub fn put(out: &mut Vec<u8>, frame: &Frame) -> bool {
    match frame {
        Frame::Data(Data { id, payload, fd: None }) if payload.len() <= 8 => {
            write!(out, "< send {id} {}", payload.len()).is_ok()
                && payload.bytes().iter().all(|byte| write!(out, " {byte:x}").is_ok())
                && out.write_all(b" >").is_ok()
        }
        Frame::Remote { id, len: len @ 0..=8 } => write!(out, "< sendrtr {id} {len} >").is_ok(),
        _ => false,
    }
}

/// Makes messages of the bytes that a server sends.
///
/// As an iterator it gives what came in whole so far, and more after the next [`push`](Self::push). It holds 64 KiB at
/// most: what is not taken until then is lost, and told as [`Told::Garbled`].
#[derive(Debug, Default)]
pub struct Reader {
    held: Held,
    /// Bytes were lost, and that is not yet told.
    lost: bool,
    /// Garbage was told, and no message came since.
    garbled: bool,
}

impl Reader {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes bytes as they come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.lost |= !self.held.push(bytes);
    }

    /// Passes over what is no message; tells it once until the next message.
    fn pass_garbage(&mut self, count: usize) -> Option<Told> {
        let garbage = self.held.rest().get(..count).unwrap_or_default().trim_ascii();
        let told =
            if garbage.is_empty() || self.garbled { None } else { Some(Told::Garbled(quoted(garbage))) };
        self.garbled |= told.is_some();
        self.held.pass(count);
        told
    }
}

impl Iterator for Reader {
    type Item = Told;

    fn next(&mut self) -> Option<Told> {
        if mem::take(&mut self.lost) {
            self.garbled = true;
            return Some(Told::Garbled("more than could be held".to_owned()));
        }
        loop {
            let rest = self.held.rest();
            let garbage = match rest {
                [] => return None,
                [b'<', message @ ..] => {
                    let mark = message.iter().take(LONGEST).position(|byte| matches!(*byte, b'<' | b'>'));
                    match mark {
                        Some(end) if message.get(end) == Some(&b'>') => {
                            let told = read(message.get(..end).unwrap_or_default());
                            self.held.pass(end + 2);
                            self.garbled = false;
                            return Some(told);
                        }
                        // Another begins within it: this one was cut.
                        Some(end) => end + 1,
                        None if message.len() < LONGEST => return None,
                        None => LONGEST + 1,
                    }
                }
                rest => rest.iter().position(|byte| *byte == b'<').unwrap_or(rest.len()),
            };
            if let Some(told) = self.pass_garbage(garbage) {
                return Some(told);
            }
        }
    }
}

/// What a message says, without its brackets.
fn read(message: &[u8]) -> Told {
    let garbled = || Told::Garbled(quoted(message.trim_ascii()));
    let Ok(text) = str::from_utf8(message) else { return garbled() };
    let text = text.trim_ascii();
    let (name, rest) = text.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((text, ""));
    let rest = rest.trim_ascii_start();
    match name {
        "" => garbled(),
        "hi" => Told::Hi,
        "ok" => Told::Ok,
        "frame" => frame(rest).unwrap_or_else(garbled),
        "rtr" => remote(rest).unwrap_or_else(garbled),
        "error" => error(rest).unwrap_or_else(|| Told::Error(quoted(rest.as_bytes()))),
        _ => Told::Other(quoted(text.as_bytes())),
    }
}

/// `123 23.424242 01ABFF`, where blanks may stand between the bytes.
fn frame(text: &str) -> Option<Told> {
    let mut words = text.split_ascii_whitespace();
    let (id, time) = (id(words.next()?)?, time(words.next()?)?);
    let data = Data::new(id, data(words)?.bytes()?, None)?;
    Some(Told::Frame(Frame::Data(data), time))
}

/// `123 23.424242 4`.
fn remote(text: &str) -> Option<Told> {
    let mut words = text.split_ascii_whitespace();
    let (id, time) = (id(words.next()?)?, time(words.next()?)?);
    let len = words.next()?.parse().ok().filter(|len| *len <= 8)?;
    words.next().is_none().then_some(Told::Frame(Frame::Remote { id, len }, time))
}

/// `040 23.424242`, behind which other modes write the data; `None` for a text, which begins otherwise.
fn error(text: &str) -> Option<Told> {
    let mut words = text.split_ascii_whitespace();
    let class = hex(words.next()?.as_bytes())? & ERROR_MASK;
    time(words.next()?)?;
    let mut error = BusError { class, data: [0; 8] };
    let given = data(words)?;
    error.data.get_mut(..given.count())?.copy_from_slice(given.bytes()?);
    Some(Told::BusError(error))
}

/// 3 digits for 11 bits, 8 for 29.
fn id(digits: &str) -> Option<Id> {
    let number = hex(digits.as_bytes())?;
    match digits.len() {
        3 => Id::standard(number),
        8 => Id::extended(number),
        _ => None,
    }
}

/// What stands where a time is due: with a point, or digits alone. The inner one is `None` where it is none that can be.
#[expect(clippy::option_option, reason = "a frame with a bad time is a frame, one without is none")]
fn time(text: &str) -> Option<Option<Duration>> {
    let time = seconds(text);
    (time.is_some() || text.contains('.')).then_some(time)
}

/// Bytes of two digits, with or without blanks between them. One digit between blanks is a byte as well.
fn data<'a>(words: impl Iterator<Item = &'a str>) -> Option<Gathered> {
    let mut bytes = Gathered::new();
    for word in words {
        match word.as_bytes() {
            [digit] => bytes.push(nibble(*digit)?),
            digits => pairs(digits, &mut bytes)?,
        }
    }
    Some(bytes)
}
