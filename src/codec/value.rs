//! Registers ↔ values: types, byte order, scaling, exact in decimal.

use rust_decimal::Decimal;

use crate::model::Kind;

/// How the registers of one tag hold its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    pub kind: Kind,
    pub order: Order,
    /// Engineering value = raw × scale + offset; 1 and 0 where nothing is scaled.
    pub scale: Decimal,
    pub offset: Decimal,
}

/// Order in which the bytes of a value arrive; letters name the bytes of the big-endian value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// ABCD: plain Modbus.
    #[default]
    Abcd,
    /// CDAB: words exchanged.
    Cdab,
    /// BADC: bytes exchanged in each word.
    Badc,
    /// DCBA: both.
    Dcba,
}
