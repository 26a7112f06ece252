//! DBC files: messages of a bus, and the signals in them.
//!
//! Owns what such a file says. Must not know tags, devices or buses.
//!
//! The way goes from bytes to text (`text`), to its statements (`statement`), to what each says (`read`), and to messages
//! (`build`). The parser gets statements one by one, so that a fault costs its own statement, each has its line, and time
//! grows no faster than the file.

mod attribute;
mod build;
mod index;
mod layout;
mod overlap;
mod read;
mod refer;
mod select;
mod statement;
#[cfg(test)]
mod tests;
mod text;

use std::{sync::Arc, time::Duration};

use rust_decimal::Decimal;

use self::{
    build::Builder,
    statement::{Kind, Statements},
};
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

/// A file that cannot be used at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DbcError {
    #[error("no text: neither UTF-8, Windows-1252 nor UTF-16 with a byte order mark")]
    NotText,
    #[error("line {line}: {problem}")]
    Broken {
        /// Counted from 1.
        line: usize,
        problem: String,
    },
}

/// Most warnings of one file.
const MOST_WARNINGS: usize = 1000;

impl Dbc {
    /// Reads a file and leaves out what cannot be used, with a warning each.
    ///
    /// The text is UTF-8 or Windows-1252, or UTF-16 with a byte order mark. Warnings come in the order of lines, those on
    /// the whole file first; of more than 1,000, one last tells how many there are.
    pub fn parse(bytes: &[u8]) -> Result<Self, DbcError> {
        let text = text::decode(bytes).ok_or(DbcError::NotText)?;
        let mut notes = Notes::default();
        let mut builder = Builder::new();
        let mut statements = Statements::new(&text);
        let mut first = None;
        let mut is_dbc = false;
        while let Some(statement) = statements.next() {
            is_dbc |= statement.kind != Kind::Unknown;
            match read::read(&statement) {
                Ok((entry, doubt)) => {
                    if let Some(doubt) = doubt {
                        builder.doubt(&statement, &doubt, &mut notes);
                    }
                    builder.add(statement.line, entry, &mut notes);
                }
                Err(unread) => {
                    builder.lose(&statement, &unread, &mut notes);
                    if !is_dbc {
                        first.get_or_insert_with(|| (statement.line, statement.head()));
                    }
                }
            }
            if statement.is_torn() {
                statements.resume(&statement)?;
            }
        }
        if let Some((line, head)) = first.filter(|_| !is_dbc) {
            return Err(DbcError::Broken { line, problem: format!("`{head}` is no DBC file") });
        }
        let messages = builder.finish(&mut notes);
        if messages.is_empty() {
            notes.add_file("has no messages");
        }
        Ok(Self { messages, warnings: notes.finish() })
    }
}

/// Collects warnings.
#[derive(Debug, Default)]
struct Notes {
    warnings: Vec<Warning>,
    dropped: usize,
}

impl Notes {
    fn add(&mut self, line: usize, text: String) {
        self.push(Warning { line: Some(line), text });
    }

    /// Of the whole file.
    fn add_file(&mut self, problem: &str) {
        self.push(Warning { line: None, text: format!("the file {problem}") });
    }

    fn push(&mut self, warning: Warning) {
        self.warnings.push(warning);
        if self.warnings.len() >= 4 * MOST_WARNINGS {
            self.cut();
        }
    }

    /// Keeps the first in the file.
    fn cut(&mut self) {
        self.warnings.sort_by_key(|warning| warning.line);
        self.dropped += self.warnings.len().saturating_sub(MOST_WARNINGS);
        self.warnings.truncate(MOST_WARNINGS);
    }

    fn finish(mut self) -> Vec<Warning> {
        self.cut();
        if self.dropped > 0 {
            let text = format!("{} more warnings are not shown", self.dropped);
            self.warnings.push(Warning { line: None, text });
        }
        self.warnings
    }
}
