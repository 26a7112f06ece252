//! The ASCII protocol of LAWICEL's adapters, which CANable's and many others speak (CAN232 and CANUSB manuals; for CAN FD
//! the README of canable2-fw), as the client sees it.
//!
//! Owns the lines of both directions. Must not know ports, nor which answer is due.

#[cfg(test)]
mod tests;

use std::mem;

use super::held::Held;
use super::text::{Gathered, hex, nibble, pairs, quoted};
use super::{Data, Fd, Frame, Id, dlc, fd_length};

/// Closes the channel.
pub const CLOSE: &[u8] = b"C\r";
/// Asks for [`Told::Version`].
pub const VERSION: &[u8] = b"V\r";
/// Asks for [`Told::Serial`].
pub const SERIAL: &[u8] = b"N\r";
/// Asks for [`Told::Flags`], while the channel is open.
pub const FLAGS: &[u8] = b"F\r";

const CR: u8 = b'\r';
const BEL: u8 = 0x07;
/// Bytes of the longest line before its end: 64 bytes with an id of 29 bits and a time.
const LONGEST: usize = 1 + 8 + 1 + 128 + 4;

/// What an adapter tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// With the time in milliseconds where the adapter was told to send it (`Z1`). It begins again after 59999.
    Frame(Frame, Option<u16>),
    /// A command was carried out, or a frame taken to be sent.
    Accepted,
    /// A command or frame was not taken.
    Refused,
    Version(String),
    Serial(String),
    /// Bit 0: receive FIFO full, 1: transmit FIFO full, 2: error warning, 3: data overrun, 5: error-passive, 6: arbitration
    /// lost, 7: bus error.
    Flags(u8),
    /// The beginning of a line that means nothing here. CANable's answer to [`VERSION`] is one, as it has no `V` in front.
    Garbled(String),
}

/// A bit rate that has a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bitrate(char);

/// A bit rate of the data of CAN FD frames that has a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataBitrate(char);

impl Bitrate {
    /// Bits per second with the digits of their commands.
    ///
    /// `S7` is 800 kbit/s in LAWICEL's manuals and most firmware, 750 kbit/s in CANable's and in python-can. `S9` is not
    /// LAWICEL's.
    const COMMANDS: [(u32, char); 12] = [
        (10_000, '0'),
        (20_000, '1'),
        (50_000, '2'),
        (83_300, '9'),
        (83_333, '9'),
        (100_000, '3'),
        (125_000, '4'),
        (250_000, '5'),
        (500_000, '6'),
        (750_000, '7'),
        (800_000, '7'),
        (1_000_000, '8'),
    ];

    /// From bits per second; `None` where no command stands for so many.
    #[must_use]
    pub fn from_bits(bits: u32) -> Option<Self> {
        find(&Self::COMMANDS, bits).map(Self)
    }

    /// Bits per second that there are commands for.
    pub fn allowed() -> impl Iterator<Item = u32> {
        Self::COMMANDS.into_iter().map(|(bits, _)| bits)
    }
}

impl DataBitrate {
    /// Bits per second with the digits of their commands, which mean the same wherever they are known.
    ///
    /// All adapters with CAN FD know 2 and 5 Mbit/s. Not all tell that they do not know a rate.
    const COMMANDS: [(u32, char); 7] = [
        (500_000, '0'),
        (1_000_000, '1'),
        (2_000_000, '2'),
        (3_000_000, '3'),
        (4_000_000, '4'),
        (5_000_000, '5'),
        (8_000_000, '8'),
    ];

    /// From bits per second; `None` where no command stands for so many.
    #[must_use]
    pub fn from_bits(bits: u32) -> Option<Self> {
        find(&Self::COMMANDS, bits).map(Self)
    }

    /// Bits per second that there are commands for.
    pub fn allowed() -> impl Iterator<Item = u32> {
        Self::COMMANDS.into_iter().map(|(bits, _)| bits)
    }
}

fn find(commands: &[(u32, char)], bits: u32) -> Option<char> {
    commands.iter().find(|(rate, _)| *rate == bits).map(|(_, digit)| *digit)
}

/// Spoils the line that another may have left unfinished, so that it never becomes a frame, and closes the channel.
///
/// Both may be answered by [`Told::Refused`].
#[must_use]
pub fn reset() -> Vec<u8> {
    // No digits; and so many that no adapter has room for them, should it look no further than a frame needs.
    let mut bytes = vec![b'?'; LONGEST + 16];
    bytes.push(CR);
    bytes.extend(CLOSE);
    bytes
}

/// Commands that set the bit rates of a closed channel and open it.
///
/// Each is answered by [`Told::Accepted`] or [`Told::Refused`], but CANable's firmware answers nothing.
#[must_use]
pub fn open(bitrate: Bitrate, data: Option<DataBitrate>, listen_only: bool) -> Vec<u8> {
    let data = data.map(|DataBitrate(digit)| format!("Y{digit}\r")).unwrap_or_default();
    let open = if listen_only { 'L' } else { 'O' };
    format!("S{}\r{data}{open}\r", bitrate.0).into_bytes()
}

/// Appends the command that sends a frame; `false` for one that cannot be sent: an error, or a length that no frame has.
///
/// Whether the sender is error-passive is not part of it: the controller tells that itself.
#[must_use]
pub fn put(out: &mut Vec<u8>, frame: &Frame) -> bool {
    let (kind, id, length, payload) = match frame {
        Frame::Data(Data { id, payload, fd }) => {
            let kind = match fd {
                None => 't',
                Some(Fd { brs: false, .. }) => 'd',
                Some(Fd { brs: true, .. }) => 'b',
            };
            let length = dlc(payload.len()).filter(|length| fd.is_some() || *length <= 8);
            (kind, id, length, payload.to_string())
        }
        Frame::Remote { id, len } => ('r', id, Some(*len).filter(|len| *len <= 8), String::new()),
        Frame::Error(_) => return false,
    };
    let Some(length) = length else { return false };
    let kind = if id.is_extended() { kind.to_ascii_uppercase() } else { kind };
    out.extend_from_slice(format!("{kind}{id}{length:X}{payload}\r").as_bytes());
    true
}

/// Makes lines of the bytes that an adapter sends.
///
/// As an iterator it gives what came in whole so far, and more after the next [`push`](Self::push). It holds 64 KiB at
/// most: what is not taken until then is lost, and told as [`Told::Garbled`].
#[derive(Debug, Default)]
pub struct Reader {
    held: Held,
    /// Bytes were lost, and that is not yet told.
    lost: bool,
    /// What comes up to the next end of a line belongs to one that is told already.
    tail: bool,
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
}

impl Iterator for Reader {
    type Item = Told;

    fn next(&mut self) -> Option<Told> {
        if mem::take(&mut self.lost) {
            self.tail = true;
            return Some(Told::Garbled("more than could be held".to_owned()));
        }
        loop {
            let rest = self.held.rest();
            if rest.first() == Some(&b'\n') {
                self.held.pass(1);
                continue;
            }
            let Some(end) = rest.iter().take(LONGEST + 1).position(|byte| matches!(*byte, CR | BEL)) else {
                if rest.len() <= LONGEST {
                    return None;
                }
                let told = (!mem::replace(&mut self.tail, true)).then(|| Told::Garbled(quoted(rest)));
                self.held.pass(LONGEST + 1);
                if told.is_some() {
                    return told;
                }
                continue;
            };
            let line = rest.get(..end).unwrap_or_default();
            let is_bell = rest.get(end) == Some(&BEL);
            let is_told = mem::take(&mut self.tail);
            let told = match line {
                _ if is_told => None,
                [] if is_bell => Some(Told::Refused),
                line => Some(read(line)),
            };
            // A BEL that ends a line is told as well, after it.
            let stays = is_bell && told != Some(Told::Refused);
            self.held.pass(if stays { end } else { end + 1 });
            if told.is_some() {
                return told;
            }
        }
    }
}

/// What a line says, without its end.
fn read(line: &[u8]) -> Told {
    let told = match line {
        [] | [b'z' | b'Z'] => Some(Told::Accepted),
        [b'V' | b'v', version @ ..] => Some(Told::Version(quoted(version))),
        [b'N', serial @ ..] => Some(Told::Serial(quoted(serial))),
        [b'F', digits @ ..] if digits.len() == 2 => {
            hex(digits).and_then(|flags| u8::try_from(flags).ok()).map(Told::Flags)
        }
        [kind, rest @ ..] => frame(*kind, rest),
    };
    told.unwrap_or_else(|| Told::Garbled(quoted(line)))
}

/// The frame of a line that begins with `kind`.
fn frame(kind: u8, rest: &[u8]) -> Option<Told> {
    let (is_extended, fd) = match kind {
        b't' | b'r' => (false, None),
        // `x` is CANdapter's `T`.
        b'T' | b'R' | b'x' => (true, None),
        b'd' => (false, Some(Fd::default())),
        b'D' => (true, Some(Fd::default())),
        b'b' => (false, Some(Fd { brs: true, esi: false })),
        b'B' => (true, Some(Fd { brs: true, esi: false })),
        _ => return None,
    };
    let (id, rest) = rest.split_at_checked(if is_extended { 8 } else { 3 })?;
    let id = if is_extended { Id::extended(hex(id)?)? } else { Id::standard(hex(id)?)? };
    let (length, rest) = rest.split_first()?;
    let length = nibble(*length)?;
    let len = if fd.is_some() { fd_length(length)? } else { Some(length).filter(|len| *len <= 8)? };

    let is_remote = matches!(kind, b'r' | b'R');
    // CANable's firmware sends bytes even with remote frames; four digits are a time.
    let digits = if is_remote && matches!(rest.len(), 0 | 4) { 0 } else { 2 * usize::from(len) };
    let (digits, time) = rest.split_at_checked(digits)?;
    let mut bytes = Gathered::new();
    pairs(digits, &mut bytes)?;
    let time = match time.len() {
        0 => None,
        4 => Some(u16::try_from(hex(time)?).ok()?),
        _ => return None,
    };
    let frame =
        if is_remote { Frame::Remote { id, len } } else { Frame::Data(Data::new(id, bytes.bytes()?, fd)?) };
    Some(Told::Frame(frame, time))
}
