//! Where the tags of a Modbus device live, and how.

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
    pub function: WriteFunction,
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
