//! DBC files: messages of a bus, and the signals in them.
//!
//! Owns what such a file says. Must not know tags, devices or buses.

use std::{sync::Arc, time::Duration};

use rust_decimal::Decimal;

pub use crate::codec::can::Number;
use crate::codec::can::{Id, Place};

/// What a DBC file says, as far as it can be used.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Dbc {
    /// In the order of the file; identifiers are unique, names need not be.
    pub messages: Vec<Message>,
    /// What is questionable, or was left out.
    pub warnings: Vec<Warning>,
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub name: String,
    pub id: Id,
    /// Bytes of its payload: up to 8, up to 64 with CAN FD, and up to 1785 for J1939 messages of several packets.
    pub length: u16,
    /// The node that sends it, where one does.
    pub sender: Option<String>,
    pub comment: String,
    /// How often it is sent (`GenMsgCycleTime`).
    pub cycle: Option<Duration>,
    /// Whether its identifier is that of a parameter group (`VFrameFormat` `J1939PG`).
    pub is_j1939: bool,
    /// Whether its frames are CAN FD (`VFrameFormat`); `None` where the file does not tell.
    pub is_fd: Option<bool>,
    pub signals: Vec<Signal>,
    /// Line of the file on which it stands, counted from 1.
    pub line: usize,
}

/// One value in a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Signal {
    pub name: String,
    pub place: Place,
    pub number: Number,
    /// Value = raw × factor + offset.
    pub factor: Decimal,
    pub offset: Decimal,
    /// Lowest and highest value, where the file says any: `[0|0]` says none.
    pub range: Option<(f64, f64)>,
    pub unit: String,
    pub comment: String,
    /// Words for raw numbers.
    pub labels: Vec<(i64, Arc<str>)>,
    /// Whether its raw number selects others.
    pub is_multiplexer: bool,
    /// When it is there, where it is not in every frame.
    pub selection: Option<Selection>,
    /// Raw number that it has where nothing was received or sent yet (`GenSigStartValue`).
    pub initial: Option<f64>,
    /// Suspect parameter number of J1939 (`SPN`).
    pub spn: Option<u32>,
    pub line: usize,
}

/// The raw numbers of a multiplexer that select a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Place of the multiplexer among the signals of the message.
    pub by: usize,
    /// Each from and to, both included.
    pub ranges: Vec<(u64, u64)>,
}

/// Something to look at in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Counted from 1; `None` for what holds for the whole file.
    pub line: Option<usize>,
    /// One sentence without a full stop, that names message and signal.
    pub text: String,
}

/// Why a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("stub")]
pub struct DbcError;

impl Dbc {
    pub fn parse(_bytes: &[u8]) -> Result<Self, DbcError> {
        Err(DbcError)
    }
}
