//! Where the tags of a Modbus device live, and how.

use std::time::Duration;

use crate::codec::value::Format;

/// One of the four tables of a Modbus device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    Coil,
    Discrete,
    Input,
    Holding,
}

/// Source of one tag: a table, a zero-based address as it goes over the wire, and the format of what is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    pub table: Table,
    pub address: u16,
    pub format: Format,
    /// The kind of function that is tried first where all of a coil or register is written.
    pub function: WriteFunction,
    /// Time that the device needs before it can be read back after a write.
    pub settle: Duration,
}

/// How a model of device wants to be spoken to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dialect {
    pub reads: Reads,
    pub writes: Writes,
}

/// What one read request may span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reads {
    /// Registers between two tags that are read along and thrown away; of bits 16 stand for one register.
    pub max_gap: u16,
    /// Most registers that the device answers at once.
    pub max_registers: u16,
    /// Most coils or discrete inputs that it answers at once.
    pub max_bits: u16,
    /// Whether each tag needs a request of its own.
    pub one_tag: bool,
    /// What must not be read, not even between two tags.
    pub forbidden: Vec<Region>,
    /// Groups across whose edges no request may reach.
    pub groups: Vec<Region>,
}

/// How writes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Writes {
    pub fallback: Fallback,
    pub part: PartWrite,
}

/// Addresses of one table, from `first` to `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Region {
    pub table: Table,
    pub first: u16,
    pub last: u16,
}

/// After which exceptions the other kind of write function is tried once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Fallback {
    Off,
    /// After 0x01.
    #[default]
    IllegalFunction,
    /// After 0x01 and 0x02: some devices answer the latter to a function that they do not have.
    IllegalAddress,
}

/// How a part of a register is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PartWrite {
    /// By FC 22; where the device answers exception 0x01 to that, as `ReadModifyWrite`.
    #[default]
    Auto,
    /// By FC 22 alone: the device itself changes the bits and no others.
    Mask,
    /// The register is read, changed and written, in one turn of the line.
    ReadModifyWrite,
}

impl Default for Reads {
    /// Eight registers of gap are 16 bytes more in an answer, less than a request and an answer of their own cost (21
    /// bytes of frames, 80 of TCP and IP headers, a round trip); a larger gap meets more registers that do not exist or
    /// that change by being read. Caps: Modbus Application Protocol V1.1b3, sections 6.1 to 6.4.
    fn default() -> Self {
        Self {
            max_gap: 8,
            max_registers: 125,
            max_bits: 2000,
            one_tag: false,
            forbidden: Vec::new(),
            groups: Vec::new(),
        }
    }
}

/// Which of the two kinds of function writes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriteFunction {
    /// FC 5 or FC 6: one coil, one register.
    Single,
    /// FC 15 or FC 16: any number of them.
    Multiple,
}

impl Table {
    /// The name in profiles.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Coil => "coil",
            Self::Discrete => "discrete",
            Self::Input => "input",
            Self::Holding => "holding",
        }
    }

    /// The number that manuals write for an address of it: counted from 1, with the table's digit in front.
    #[must_use]
    pub fn reference(self, address: u16) -> String {
        let digit = match self {
            Self::Coil => 0,
            Self::Discrete => 1,
            Self::Input => 3,
            Self::Holding => 4,
        };
        format!("{digit}{:05}", u32::from(address) + 1)
    }

    /// Whether it holds single bits; else 16-bit registers.
    #[must_use]
    pub fn is_bits(self) -> bool {
        matches!(self, Self::Coil | Self::Discrete)
    }

    /// Whether the protocol has a function that writes to it.
    #[must_use]
    pub fn is_writable(self) -> bool {
        matches!(self, Self::Coil | Self::Holding)
    }

    /// Code of the function that reads it (Modbus Application Protocol V1.1b3, section 6).
    #[must_use]
    pub fn read_code(self) -> u8 {
        match self {
            Self::Coil => 1,
            Self::Discrete => 2,
            Self::Holding => 3,
            Self::Input => 4,
        }
    }

    /// Code of the function that writes to it; `None` for a read-only table.
    #[must_use]
    pub fn write_code(self, function: WriteFunction) -> Option<u8> {
        match (self, function) {
            (Self::Coil, WriteFunction::Single) => Some(5),
            (Self::Holding, WriteFunction::Single) => Some(6),
            (Self::Coil, WriteFunction::Multiple) => Some(15),
            (Self::Holding, WriteFunction::Multiple) => Some(16),
            (Self::Discrete | Self::Input, _) => None,
        }
    }
}
