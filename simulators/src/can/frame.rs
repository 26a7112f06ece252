//! CAN frames as plain data.
//!
//! Knows what a frame may hold and how candump writes it; nothing of who sends it.

use std::{
    fmt::{self, Debug, Display},
    str::FromStr,
};

use bytes::Bytes;

/// The highest 11-bit identifier.
pub const MAX_STANDARD: u32 = 0x7FF;
/// The highest 29-bit identifier.
pub const MAX_EXTENDED: u32 = 0x1FFF_FFFF;
/// Bytes that a CAN FD frame can hold, by its data length code.
pub const FD_LENGTHS: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 24, 32, 48, 64];

/// Classes of error frames, which are bits and can be joined, and bytes in their data: linux/can/error.h.
pub mod class {
    /// Lost arbitration; the bit number is data 0.
    pub const ARBITRATION: u32 = 0x02;
    /// Trouble of the controller; details are data 1.
    pub const CONTROLLER: u32 = 0x04;
    /// A violation of the protocol; the type is data 2, the place data 3.
    pub const PROTOCOL: u32 = 0x08;
    /// Nobody acknowledged a frame.
    pub const NO_ACK: u32 = 0x20;
    /// The controller has left the bus.
    pub const BUS_OFF: u32 = 0x40;
    /// An error on the bus.
    pub const BUS_ERROR: u32 = 0x80;
    /// The controller is back after it had left the bus.
    pub const RESTARTED: u32 = 0x100;
    /// Data 2 of a violation: six equal bits in a row.
    pub const STUFF: u8 = 0x04;
    /// Data 3 of a violation: within the data.
    pub const IN_DATA: u8 = 0x0A;
}

/// An identifier with its kind: 0x123 and 0x00000123 are two.
///
/// As text hexadecimal, with or without `0x`; one of more than three digits is of 29 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    pub value: u32,
    pub extended: bool,
}

/// A text that is no identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no CAN identifier, allowed are 0x000 to 0x7FF and 0x00000000 to 0x1FFFFFFF")]
pub struct IdError(String);

impl FromStr for Id {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let wrong = || IdError(text.to_owned());
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let value = u32::from_str_radix(digits, 16).or(Err(wrong()))?;
        let id = Self { value, extended: digits.len() > 3 };
        if id.is_valid() { Ok(id) } else { Err(wrong()) }
    }
}

impl Id {
    fn is_valid(self) -> bool {
        self.value <= if self.extended { MAX_EXTENDED } else { MAX_STANDARD }
    }
}

impl Display for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = if self.extended { 8 } else { 3 };
        write!(out, "0x{:0width$X}", self.value)
    }
}

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It carries bytes.
    Data,
    /// It asks for so many bytes and carries none.
    Remote(u8),
    /// It reports what a controller noticed, and was never on the bus as such. It has no identifier.
    Error {
        /// See [`class`].
        class: u32,
        /// As linux/can/error.h lays it out.
        data: [u8; 8],
    },
}

/// Flags of a CAN FD frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fd {
    /// Its data are sent at the data bit rate.
    pub brs: bool,
    /// Its sender is error passive.
    pub esi: bool,
}

/// One frame. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    pub id: u32,
    /// The identifier is of 29 bits.
    pub extended: bool,
    pub kind: Kind,
    /// None for a classic frame.
    pub fd: Option<Fd>,
    /// Up to 8, or one of [`FD_LENGTHS`]; empty unless it is a data frame.
    pub bytes: Bytes,
}

/// Values that no frame can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The identifier does not fit its kind.
    #[error("identifier 0x{id:X} is above 0x{highest:X}")]
    Id { id: u32, highest: u32 },
    /// Too many bytes, or a number that CAN FD has no code for.
    #[error("{length} bytes do not fit a {kind} frame, allowed are {allowed}")]
    Length { length: usize, kind: &'static str, allowed: &'static str },
    /// There are no remote frames and no error frames in CAN FD, and they carry no bytes.
    #[error("only a data frame is CAN FD or has bytes")]
    Kind,
}

impl Frame {
    /// A classic data frame with the lower 11 bits of `id`.
    #[must_use]
    pub fn standard<const N: usize>(id: u16, bytes: [u8; N]) -> Self {
        const { assert!(N <= 8, "a classic frame has up to 8 bytes") };
        Self::plain(u32::from(id) & MAX_STANDARD, false, &bytes)
    }

    /// A classic data frame with the lower 29 bits of `id`.
    #[must_use]
    pub fn extended<const N: usize>(id: u32, bytes: [u8; N]) -> Self {
        const { assert!(N <= 8, "a classic frame has up to 8 bytes") };
        Self::plain(id & MAX_EXTENDED, true, &bytes)
    }

    /// A CAN FD frame of 64 bytes with the lower 11 bits of `id`.
    #[must_use]
    pub fn full(id: u16, bytes: [u8; 64], fd: Fd) -> Self {
        Self { fd: Some(fd), ..Self::plain(u32::from(id) & MAX_STANDARD, false, &bytes) }
    }

    /// A classic data frame with what came from elsewhere.
    pub fn data(id: Id, bytes: &[u8]) -> Result<Self, FrameError> {
        let frame = Self::plain(id.value, id.extended, bytes);
        frame.check()?;
        Ok(frame)
    }

    /// A CAN FD frame with what came from elsewhere.
    pub fn flexible(id: Id, bytes: &[u8], fd: Fd) -> Result<Self, FrameError> {
        let frame = Self { fd: Some(fd), ..Self::plain(id.value, id.extended, bytes) };
        frame.check()?;
        Ok(frame)
    }

    /// A request for `length` bytes.
    pub fn remote(id: Id, length: u8) -> Result<Self, FrameError> {
        let frame = Self { kind: Kind::Remote(length), ..Self::plain(id.value, id.extended, &[]) };
        frame.check()?;
        Ok(frame)
    }

    /// An error frame.
    #[must_use]
    pub fn error(class: u32, data: [u8; 8]) -> Self {
        Self { kind: Kind::Error { class, data }, ..Self::plain(0, false, &[]) }
    }

    fn plain(id: u32, extended: bool, bytes: &[u8]) -> Self {
        Self { id, extended, kind: Kind::Data, fd: None, bytes: Bytes::copy_from_slice(bytes) }
    }

    /// The identifier with its kind.
    #[must_use]
    pub fn key(&self) -> Id {
        Id { value: self.id, extended: self.extended }
    }

    /// The class of an error frame.
    #[must_use]
    pub fn class(&self) -> Option<u32> {
        match self.kind {
            Kind::Error { class, .. } => Some(class),
            _ => None,
        }
    }

    /// Whether a frame can have these values.
    pub fn check(&self) -> Result<(), FrameError> {
        let length = self.bytes.len();
        let highest = if self.extended { MAX_EXTENDED } else { MAX_STANDARD };
        if self.id > highest {
            return Err(FrameError::Id { id: self.id, highest });
        }
        match (self.kind, self.fd) {
            (Kind::Data, None) if length > 8 => {
                Err(FrameError::Length { length, kind: "classic", allowed: "0 to 8" })
            }
            (Kind::Data, Some(_)) if !FD_LENGTHS.iter().any(|known| usize::from(*known) == length) => {
                let allowed = "0 to 8, 12, 16, 20, 24, 32, 48, 64";
                Err(FrameError::Length { length, kind: "CAN FD", allowed })
            }
            (Kind::Data, _) => Ok(()),
            (Kind::Remote(length), None) if length > 8 => {
                Err(FrameError::Length { length: length.into(), kind: "remote", allowed: "0 to 8" })
            }
            (_, None) if length == 0 => Ok(()),
            _ => Err(FrameError::Kind),
        }
    }

    /// How arbitration orders frames: the lowest wins. The standard frame of the same first 11 bits comes first, and the
    /// data frame before the remote frame (ISO 11898-1).
    pub(super) fn priority(&self) -> (u32, bool, u32, bool) {
        let remote = matches!(self.kind, Kind::Remote(_));
        if self.extended {
            (self.id >> 18, true, self.id & 0x3_FFFF, remote)
        } else {
            (self.id, false, 0, remote)
        }
    }
}

/// As candump writes it, without time and interface: `123   [3]  01 AB FF`.
impl Display for Frame {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Error { class, data } => {
                write!(out, "{:08X}   [8] ", 0x2000_0000 | class)?;
                spread(out, &data)?;
                return out.write_str("   ERRORFRAME");
            }
            _ if self.extended => write!(out, "{:08X}  ", self.id)?,
            _ => write!(out, "{:03X}  ", self.id)?,
        }
        match (self.kind, self.fd) {
            (Kind::Remote(length), _) => return write!(out, " [{length}]  remote request"),
            (_, Some(_)) => write!(out, "[{:02}] ", self.bytes.len())?,
            (_, None) => write!(out, " [{}] ", self.bytes.len())?,
        }
        spread(out, &self.bytes)
    }
}

fn spread(out: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, " {byte:02X}"))
}

impl Debug for Frame {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Frame({self})")
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail by a panic")]
mod tests {
    use super::*;

    #[test]
    fn is_written_as_candump_writes_it() {
        let id = |text: &str| text.parse::<Id>().unwrap();
        let brs = Fd { brs: true, esi: false };
        let cases = [
            (Frame::standard(0x123, [1, 0xAB, 0xFF]), "123   [3]  01 AB FF"),
            (Frame::extended(0x18FE_EE00, [0x7D]), "18FEEE00   [1]  7D"),
            (Frame::standard(0, []), "000   [0] "),
            (Frame::remote(id("123"), 4).unwrap(), "123   [4]  remote request"),
            (
                Frame::flexible(id("123"), &[0; 12], brs).unwrap(),
                "123  [12]  00 00 00 00 00 00 00 00 00 00 00 00",
            ),
            (
                Frame::error(class::NO_ACK, [0, 0, 0, 0x19, 0, 0, 0, 0]),
                "20000020   [8]  00 00 00 19 00 00 00 00   ERRORFRAME",
            ),
        ];
        for (frame, text) in cases {
            assert_eq!(frame.to_string(), text);
        }
    }

    #[test]
    fn impossible_frames_are_refused() {
        let id = |value, extended| Id { value, extended };
        assert!(matches!(Frame::data(id(0x800, false), &[]), Err(FrameError::Id { .. })));
        assert!(Frame::data(id(0x800, true), &[]).is_ok());
        assert!(matches!(Frame::data(id(0x2000_0000, true), &[]), Err(FrameError::Id { .. })));
        assert!(matches!(Frame::data(id(1, false), &[0; 9]), Err(FrameError::Length { .. })));
        assert!(matches!(
            Frame::flexible(id(1, false), &[0; 9], Fd::default()),
            Err(FrameError::Length { .. })
        ));
        assert!(Frame::flexible(id(1, false), &[0; 64], Fd::default()).is_ok());
        assert!(matches!(Frame::remote(id(1, false), 9), Err(FrameError::Length { .. })));
        let remote = Frame { fd: Some(Fd::default()), ..Frame::remote(id(1, false), 1).unwrap() };
        assert_eq!(remote.check(), Err(FrameError::Kind));
    }

    #[test]
    fn identifiers_are_texts_of_three_or_eight_digits() {
        for (text, value, extended) in [
            ("181", 0x181, false),
            ("0x7FF", 0x7FF, false),
            ("00000181", 0x181, true),
            ("0x18FEEE00", 0x18FE_EE00, true),
        ] {
            assert_eq!(text.parse(), Ok(Id { value, extended }));
        }
        assert_eq!(Id { value: 0x18, extended: false }.to_string(), "0x018");
        assert_eq!(Id { value: 0x18, extended: true }.to_string(), "0x00000018");
        for text in ["", "0x", "800", "20000000", "+12", "12G", "123456789"] {
            assert!(text.parse::<Id>().is_err(), "{text}");
        }
    }
}
