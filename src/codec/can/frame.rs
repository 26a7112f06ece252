//! Frames as they stand on a bus.

use std::fmt;

/// Identifier of a frame, of 11 or 29 bits (ISO 11898-1).
///
/// One number, in which bit 31 tells the two apart, as in DBC files and on SocketCAN.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(u32);

/// What stands on the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    Data(Data),
    /// Asks for the frame of this id. Its length is that of the frame that it asks for.
    Remote {
        id: Id,
        len: u8,
    },
    Error(BusError),
}

/// A frame with a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data {
    pub id: Id,
    pub payload: Payload,
    /// Set in frames of CAN FD, which may be longer than 8 bytes.
    pub fd: Option<Fd>,
}

/// Flags of CAN FD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fd {
    /// The payload is sent at a higher bit rate.
    pub brs: bool,
    /// The sender is error-passive.
    pub esi: bool,
}

/// Up to 64 bytes.
#[derive(Clone, Copy)]
pub struct Payload {
    bytes: [u8; 64],
    len: u8,
}

/// What a controller or adapter tells of its bus, as SocketCAN writes it (linux/can/error.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusError {
    /// Its classes, a bit each.
    pub class: u32,
    pub data: [u8; 8],
}

/// Lengths that a frame of CAN FD can have beyond 8 bytes (ISO 11898-1).
const FD_LENGTHS: [u8; 7] = [12, 16, 20, 24, 32, 48, 64];

impl Id {
    const EXTENDED: u32 = 1 << 31;
    const STANDARD_MASK: u32 = 0x7FF;
    const EXTENDED_MASK: u32 = 0x1FFF_FFFF;

    /// An identifier of 11 bits; `None` where the number has more.
    #[must_use]
    pub const fn standard(number: u32) -> Option<Self> {
        if number <= Self::STANDARD_MASK { Some(Self(number)) } else { None }
    }

    /// An identifier of 29 bits; `None` where the number has more.
    #[must_use]
    pub const fn extended(number: u32) -> Option<Self> {
        if number <= Self::EXTENDED_MASK { Some(Self(number | Self::EXTENDED)) } else { None }
    }

    /// From the number in which bit 31 stands for 29 bits; `None` where the number has bits that it must not have.
    #[must_use]
    pub const fn from_flagged(number: u32) -> Option<Self> {
        if number & Self::EXTENDED == 0 {
            Self::standard(number)
        } else {
            Self::extended(number & !Self::EXTENDED)
        }
    }

    /// The number in which bit 31 stands for 29 bits.
    #[must_use]
    pub const fn flagged(self) -> u32 {
        self.0
    }

    /// The number alone.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0 & Self::EXTENDED_MASK
    }

    #[must_use]
    pub const fn is_extended(self) -> bool {
        self.0 & Self::EXTENDED != 0
    }
}

impl fmt::Display for Id {
    /// Three hexadecimal digits, or eight for 29 bits, as in logs of `candump`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_extended() {
            write!(f, "{:08X}", self.number())
        } else {
            write!(f, "{:03X}", self.number())
        }
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({self})")
    }
}

impl Payload {
    /// No bytes.
    pub const EMPTY: Self = Self { bytes: [0; 64], len: 0 };

    /// `None` for more than 64 bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut payload = Self { len: u8::try_from(bytes.len()).ok()?, ..Self::EMPTY };
        payload.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(payload)
    }

    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.len.into()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Payload {}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().iter().try_for_each(|byte| write!(f, "{byte:02X}"))
    }
}

impl Data {
    /// A frame as the bus can carry it: up to 8 bytes, or a length of CAN FD with `fd`. `None` for other lengths.
    #[must_use]
    pub fn new(id: Id, bytes: &[u8], fd: Option<Fd>) -> Option<Self> {
        let fits = bytes.len() <= 8 || fd.is_some() && is_fd_length(bytes.len());
        Some(Self { id, payload: Payload::new(bytes).filter(|_| fits)?, fd })
    }
}

impl Frame {
    /// Its identifier; an error has none.
    #[must_use]
    pub fn id(&self) -> Option<Id> {
        match self {
            Self::Data(data) => Some(data.id),
            Self::Remote { id, .. } => Some(*id),
            Self::Error(_) => None,
        }
    }
}

/// Whether frames of CAN FD can have so many bytes.
#[must_use]
pub fn is_fd_length(len: usize) -> bool {
    len <= 8 || FD_LENGTHS.iter().any(|&fd| usize::from(fd) == len)
}

/// The data length code of a payload (ISO 11898-1); `None` for a length that no frame has.
#[must_use]
pub fn dlc(len: usize) -> Option<u8> {
    if len <= 8 {
        return u8::try_from(len).ok();
    }
    let place = FD_LENGTHS.iter().position(|&fd| usize::from(fd) == len)?;
    u8::try_from(place + 9).ok()
}

/// The length for which a data length code of CAN FD stands; `None` above 15.
#[must_use]
pub fn fd_length(dlc: u8) -> Option<u8> {
    match dlc {
        0..=8 => Some(dlc),
        _ => FD_LENGTHS.get(usize::from(dlc) - 9).copied(),
    }
}

impl BusError {
    /// Bits of `class` (linux/can/error.h).
    pub const TX_TIMEOUT: u32 = 0x1;
    pub const ARBITRATION: u32 = 0x2;
    pub const CONTROLLER: u32 = 0x4;
    pub const PROTOCOL: u32 = 0x8;
    pub const TRANSCEIVER: u32 = 0x10;
    pub const NO_ACK: u32 = 0x20;
    pub const BUS_OFF: u32 = 0x40;
    pub const BUS_ERROR: u32 = 0x80;
    pub const RESTARTED: u32 = 0x100;
    pub const COUNTERS: u32 = 0x200;

    /// Bits of `data[1]` where the class is [`CONTROLLER`](Self::CONTROLLER).
    const CONTROLLER_STATES: [(u8, &'static str); 7] = [
        (0x01, "receive buffer overflow"),
        (0x02, "transmit buffer overflow"),
        (0x04, "receive error warning"),
        (0x08, "transmit error warning"),
        (0x10, "receive error-passive"),
        (0x20, "transmit error-passive"),
        (0x40, "error-active again"),
    ];
    const CLASSES: [(u32, &'static str); 9] = [
        (Self::BUS_OFF, "bus-off"),
        (Self::RESTARTED, "controller restarted"),
        (Self::NO_ACK, "no other node acknowledges"),
        (Self::TX_TIMEOUT, "transmit time-out"),
        (Self::ARBITRATION, "lost arbitration"),
        (Self::PROTOCOL, "protocol violation"),
        (Self::TRANSCEIVER, "transceiver fault"),
        (Self::BUS_ERROR, "bus error"),
        (Self::COUNTERS, "error counters"),
    ];

    #[must_use]
    pub fn is_bus_off(&self) -> bool {
        self.class & Self::BUS_OFF != 0
    }

    /// Whether the controller takes part again.
    #[must_use]
    pub fn is_restart(&self) -> bool {
        self.class & Self::RESTARTED != 0 || self.has_state(0x40)
    }

    /// Whether it is a state that goes on until another is told: one of the controller's.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        [0x04, 0x08, 0x10, 0x20].into_iter().any(|bit| self.has_state(bit))
    }

    /// Whether a controller or adapter lost frames.
    #[must_use]
    pub fn is_overflow(&self) -> bool {
        self.has_state(0x01)
    }

    fn has_state(&self, bit: u8) -> bool {
        let [_, states, ..] = self.data;
        self.class & Self::CONTROLLER != 0 && states & bit != 0
    }
}

impl fmt::Display for BusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let classes = Self::CLASSES.iter().filter(|(bit, _)| self.class & bit != 0).map(|(_, text)| *text);
        let states =
            Self::CONTROLLER_STATES.iter().filter(|(bit, _)| self.has_state(*bit)).map(|(_, text)| *text);
        let told = classes.chain(states).collect::<Vec<_>>();
        if told.is_empty() { write!(f, "error {:#X}", self.class) } else { f.write_str(&told.join(", ")) }
    }
}
