//! J1939: parameter groups in identifiers, values that stand for none, and messages of several packets.

use super::Id;

/// The parts of a 29-bit identifier (SAE J1939-21, section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header {
    /// Parameter group number; without the destination where it has one.
    pub pgn: u32,
    pub source: u8,
    /// Whom it is for, in parameter groups that have one (PDU1).
    pub destination: Option<u8>,
    /// 0 is the most urgent, 7 the least.
    pub priority: u8,
}

/// What the highest raw numbers stand for (SAE J1939-71, section 5.1.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Indicator {
    Error,
    NotAvailable,
}

/// Bits of raw numbers that have indicators, at most: what is longer is text, or a name.
const LONGEST: u8 = 32;
/// Whom a message for everybody is for.
pub const GLOBAL: u8 = 0xFF;

impl Header {
    /// `None` for an identifier of 11 bits, which J1939 does not have.
    #[must_use]
    pub fn of(id: Id) -> Option<Self> {
        if !id.is_extended() {
            return None;
        }
        let [top, format, specific, source] = id.number().to_be_bytes();
        let page = u32::from(top & 0x3) << 16 | u32::from(format) << 8;
        let (pgn, destination) =
            if format < 240 { (page, Some(specific)) } else { (page | u32::from(specific), None) };
        Some(Self { pgn, source, destination, priority: top >> 2 & 0x7 })
    }

    /// The identifier.
    #[must_use]
    pub fn id(self) -> Option<Id> {
        let low = self.destination.unwrap_or_default();
        Id::extended(
            u32::from(self.priority) << 26 | self.pgn << 8 | u32::from(low) << 8 | u32::from(self.source),
        )
    }
}

/// What `bits` stand for beside a value, in a signal of so many bits.
#[must_use]
pub fn indicator(bits: u64, length: u8) -> Option<Indicator> {
    // A single bit has no room for them. Of more than a byte the highest byte alone tells.
    let (top, all) = match length {
        2..=8 => (bits, u64::MAX >> (64 - length)),
        9..=LONGEST => (bits >> (length - 8), 0xFF),
        _ => return None,
    };
    if top == all {
        Some(Indicator::NotAvailable)
    } else if top == all - 1 {
        Some(Indicator::Error)
    } else {
        None
    }
}

/// Whether a word for an indicator says no more than that there is no value. Some parameters, such as SPN 695, have values of
/// their own up there.
#[must_use]
pub fn is_word_of_indicator(word: &str) -> bool {
    const WHOLE: [&str; 3] = ["na", "sna", "ne"];
    const PARTS: [&str; 13] = [
        "notavailable",
        "unavailable",
        "notinstalled",
        "notrequested",
        "notsupported",
        "notdefined",
        "undefined",
        "noaction",
        "dontcare",
        "donotcare",
        "nodata",
        "invalid",
        "error",
    ];
    let letters = word.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    WHOLE.contains(&letters.as_str()) || PARTS.iter().any(|part| letters.contains(part))
}
