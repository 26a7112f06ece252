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
}
