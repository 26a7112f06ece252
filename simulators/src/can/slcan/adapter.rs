//! The serial line protocol of LAWICEL's CAN232, as an adapter speaks it, with the CAN FD commands of the `CANable`.
//!
//! Pure over bytes, frames and times that it is told: knows no stream and no bus.

use std::{fmt::Write as _, time::Duration};

use crate::can::{
    frame::{FD_LENGTHS, Fd, Frame, Id, Kind, class},
    hex,
};

/// A command is done.
const DONE: &[u8] = b"\r";
/// A command is not done.
pub(super) const REFUSED: &[u8] = b"\x07";
/// More than the longest command: `B`, identifier, length and 64 bytes.
const LONGEST: usize = 1 + 8 + 1 + 128 + 22;
/// Time stamps start again at 0 after so many milliseconds.
const MINUTE: u128 = 60_000;

/// Flags of the answer to `F`.
mod flag {
    /// Frames for the host were lost.
    pub(super) const LOST: u8 = 0x01;
    /// There is no place for a frame to be sent.
    pub(super) const FULL: u8 = 0x02;
    /// The controller is error passive, or off the bus.
    pub(super) const PASSIVE: u8 = 0x20;
    /// An error on the bus.
    pub(super) const BUS: u8 = 0x80;
}

/// The channel of an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    Closed,
    Open,
    ListenOnly,
}

/// What a command leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Reply(Vec<u8>),
    /// The channel is so from now on.
    Channel(Channel),
    /// The frame is to be sent, and this replied when it is on its way.
    Send(Frame, &'static [u8]),
}

/// One adapter, from the moment it was plugged in.
#[derive(Debug)]
pub(super) struct Adapter {
    channel: Channel,
    /// Frames bear the time.
    stamped: bool,
    flags: u8,
    line: Vec<u8>,
}

impl Adapter {
    pub(super) fn new() -> Self {
        Self { channel: Channel::Closed, stamped: false, flags: 0, line: Vec::new() }
    }

    /// Takes a byte from the host; at most one line ends with it.
    pub(super) fn take(&mut self, byte: u8) -> Vec<Action> {
        match byte {
            b'\r' => {
                let line = std::mem::take(&mut self.line);
                if line.len() > LONGEST { vec![refused()] } else { self.execute(&line) }
            }
            // Hosts that end lines with it as well mean nothing by it.
            b'\n' => Vec::new(),
            byte => {
                // One byte too many is enough to know that the line is too long.
                if self.line.len() <= LONGEST {
                    self.line.push(byte);
                }
                Vec::new()
            }
        }
    }

    /// What the host is told about a frame; nothing while the channel is closed.
    pub(super) fn tell(&mut self, frame: &Frame, time: Duration) -> Option<String> {
        if self.channel == Channel::Closed {
            return None;
        }
        let (letter, length) = match (frame.kind, frame.fd) {
            (Kind::Error { class, .. }, _) => {
                self.note(class);
                return None;
            }
            (Kind::Remote(length), _) => ('r', length),
            (Kind::Data, None) => ('t', u8::try_from(frame.bytes.len()).ok()?),
            (Kind::Data, Some(fd)) => (if fd.brs { 'b' } else { 'd' }, code(frame.bytes.len())?),
        };
        let mut text = String::new();
        // Writing to a text does not fail.
        let _written = if frame.extended {
            write!(text, "{}{:08X}{length:X}", letter.to_ascii_uppercase(), frame.id)
        } else {
            write!(text, "{letter}{:03X}{length:X}", frame.id)
        };
        hex::encode(&mut text, &frame.bytes);
        if self.stamped {
            let _written = write!(text, "{:04X}", time.as_millis() % MINUTE);
        }
        text.push('\r');
        Some(text)
    }

    /// Frames for the host were lost.
    pub(super) fn lost(&mut self) {
        self.flags |= flag::LOST;
    }

    /// There was no place for a frame from the host.
    pub(super) fn full(&mut self) {
        self.flags |= flag::FULL;
    }

    fn note(&mut self, classes: u32) {
        if classes & (class::BUS_ERROR | class::PROTOCOL | class::NO_ACK) != 0 {
            self.flags |= flag::BUS;
        }
        if classes & (class::BUS_OFF | class::NO_ACK) != 0 {
            self.flags |= flag::PASSIVE;
        }
    }

    fn execute(&mut self, line: &[u8]) -> Vec<Action> {
        let closed = self.channel == Channel::Closed;
        let Some((&command, rest)) = line.split_first() else { return vec![done()] };
        match (command, rest) {
            (b'S', [b'0'..=b'9']) | (b'Y', [b'0'..=b'8']) if closed => vec![done()],
            (b's', digits) if closed && digits.len() == 4 && hex::number(digits).is_some() => vec![done()],
            (b'Z', [digit @ (b'0' | b'1')]) if closed => {
                self.stamped = *digit == b'1';
                vec![done()]
            }
            (b'O', []) if closed => self.switch(Channel::Open),
            (b'L', []) if closed => self.switch(Channel::ListenOnly),
            (b'C', []) if !closed => self.switch(Channel::Closed),
            (b'V', []) => vec![Action::Reply(b"V1013\r".to_vec())],
            (b'N', []) => vec![Action::Reply(b"NF1B1\r".to_vec())],
            (b'F', []) if !closed => {
                let flags = std::mem::take(&mut self.flags);
                vec![Action::Reply(format!("F{flags:02X}\r").into_bytes())]
            }
            (letter, rest) if self.channel == Channel::Open => vec![transmit(letter, rest)],
            _ => vec![refused()],
        }
    }

    fn switch(&mut self, channel: Channel) -> Vec<Action> {
        self.channel = channel;
        self.flags = 0;
        vec![Action::Channel(channel), done()]
    }
}

fn done() -> Action {
    Action::Reply(DONE.to_vec())
}

fn refused() -> Action {
    Action::Reply(REFUSED.to_vec())
}

fn transmit(letter: u8, rest: &[u8]) -> Action {
    let extended = letter.is_ascii_uppercase();
    let frame = frame(letter.to_ascii_lowercase(), extended, rest);
    let reply: &[u8] = if extended { b"Z\r" } else { b"z\r" };
    frame.map_or_else(refused, |frame| Action::Send(frame, reply))
}

/// `letter` in lower case. None where it is no frame, or has more or fewer digits than it says.
fn frame(letter: u8, extended: bool, rest: &[u8]) -> Option<Frame> {
    let (id, rest) = rest.split_at_checked(if extended { 8 } else { 3 })?;
    let id = Id { value: hex::number(id)?, extended };
    let (&length, digits) = rest.split_first()?;
    let length = hex::digit(length)?;
    let bytes = hex::decode(digits)?;
    let fits = |length: u8| bytes.len() == usize::from(length);
    let long = FD_LENGTHS.get(usize::from(length)).copied()?;
    let frame = match letter {
        b't' if fits(length) => Frame::data(id, &bytes),
        b'r' if bytes.is_empty() => Frame::remote(id, length),
        b'd' | b'b' if fits(long) => Frame::flexible(id, &bytes, Fd { brs: letter == b'b', esi: false }),
        _ => return None,
    };
    frame.ok()
}

/// Data length code.
fn code(length: usize) -> Option<u8> {
    let code = FD_LENGTHS.iter().position(|known| usize::from(*known) == length)?;
    u8::try_from(code).ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail by a panic")]
#[path = "adapter_tests.rs"]
mod tests;
