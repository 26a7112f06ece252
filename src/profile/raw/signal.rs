//! What a profile says of a value that comes in frames of CAN: signals, messages, and how they are sent.

use schemars::json_schema;

use super::{LabelTable, Sentinels};
use crate::{
    codec::can::{ByteOrder, Id},
    config::{
        leaf::{Amount, Choice, Factor, Flag, Number, Span, TagName, Text, Whole, Words, leaf_schema},
        problem::Findings,
        raw::{StaleMs, WriteMs},
        read::{At, Node, Read},
        section::section,
    },
    model::{Access, Kind},
    profile::can::{Checksum, Others},
};

/// Interval between frames in milliseconds.
pub(crate) type PeriodMs = Whole<5, 3_600_000>;

/// Identifier of a frame: three hexadecimal digits, or eight for 29 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameId(pub(crate) Id);

/// Identifiers from and to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IdRange {
    pub(crate) first: Id,
    pub(crate) last: Id,
}

/// Values of signals by their names.
#[derive(Debug, Clone)]
pub(crate) struct Settings(pub(crate) Vec<(String, At<String>)>);

/// What becomes of the ranges that a DBC file gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ranges {
    Keep,
    Ignore,
}

section! {
    /// One value on a CAN bus.
    pub(crate) struct SignalTable {
        /// Name of the tag below its device, such as `temperature` or `pump/speed`.
        required name: TagName;
        /// What the value means, for people and assistants. Default: the comment of the DBC file.
        optional description: Text;
        /// The signal of the profile's DBC file, as `Message.Signal`.
        optional signal: Text;
        /// Without a DBC file, the frames that carry the value, such as `"181"`, or `"18FEF121"` for an identifier of 29 bits.
        optional frame: FrameId;
        /// Without a DBC file, where in their payload the value stands.
        optional bits: BitsTable;
        /// Without a DBC file, data type of the value.
        optional r#type: Choice<Kind>;
        /// Without a DBC file: engineering value = raw value × scale + offset, computed in decimal.
        default scale: Factor = 1;
        /// Without a DBC file: engineering value = raw value × scale + offset, computed in decimal.
        default offset: Number = 0;
        /// Words for raw numbers, such as `{ 0 = "off", 1 = "auto" }`. Default: those of the DBC file.
        optional labels: LabelTable;
        /// What the device sends where it has no value: a raw number, a bit pattern as `"0xFFFE"`, or a list of these.
        optional not_available: Sentinels;
        /// Engineering unit, such as `°C`. Default: that of the DBC file.
        optional unit: Text;
        /// Lowest and highest value that the process can have; a value outside it is served as bad (`out_of_range`). Default:
        /// the range of the DBC file.
        optional range: Span;
        /// Changes up to this size are stored but not announced.
        optional deadband: Amount;
        /// Age in milliseconds at which a good value becomes uncertain. Default: three times the interval of its message, which
        /// `messages` or the DBC file (`GenMsgCycleTime`) gives, and as often as the message has multiplexed pages; else the
        /// device's, else the profile's, else never.
        optional stale_after_ms: StaleMs;
        /// Whether the tag may be written.
        default access: Choice<Access> = "read";
        /// What a write must keep, and what confirms it; needs `access = "read-write"`.
        optional write: SignalWriteTable;
    }
}

section! {
    /// Where in a payload a value stands.
    pub(crate) struct BitsTable {
        /// The bit where it begins, counted as in DBC files: bit 0 is the least significant of byte 0, bit 8 that of byte 1.
        /// Of an `intel` value it is the least significant bit, of a `motorola` value the most significant one.
        required start: Whole<0, 14_279>;
        /// How many bits it has. Default: those of its type.
        optional length: Whole<1, 64>;
        /// Order of its bytes: `intel`, the least significant first, or `motorola`.
        default order: Choice<ByteOrder> = "intel";
    }
}

section! {
    /// What a write must keep, in engineering units, and what confirms it.
    pub(crate) struct SignalWriteTable {
        /// Lowest value that may be written. Default: that of the DBC file.
        optional min: Number;
        /// Highest value that may be written. Default: that of the DBC file.
        optional max: Number;
        /// Deadline of a write in milliseconds, counted from its arrival. Default: the site's.
        optional timeout_ms: WriteMs;
        /// The tag of the same device that reports what was written.
        optional feedback: TagName;
        /// How long in milliseconds that tag may take to report it.
        default confirm_ms: Whole<1, 600_000> = 2000;
    }
}

section! {
    /// One message: how it is checked when it is received, and how it is sent.
    pub(crate) struct MessageTable {
        /// Its name in the DBC file.
        optional message: Text;
        /// Without a DBC file, its identifier.
        optional frame: FrameId;
        /// Without a DBC file, bytes of its payload when it is sent.
        optional length: Whole<0, 64>;
        /// How often it comes, in milliseconds: its values become uncertain after three of these. Default: that of the DBC
        /// file (`GenMsgCycleTime`).
        optional interval_ms: Whole<1, 86_400_000>;
        /// The number that counts frames: one that stands still makes the values uncertain (`stale`); of a message that is
        /// sent it counts up.
        optional counter: FieldTable;
        /// The byte that guards the others: a frame where it does not fit makes the values bad (`decode_error`).
        optional checksum: ChecksumTable;
        /// How it is sent; needed for a message with tags of `access = "read-write"`.
        optional send: SendTable;
    }
}

section! {
    /// A field of a message: a signal of the DBC file, or bits.
    pub(crate) struct FieldTable {
        /// Name of the signal in its message.
        optional signal: Text;
        /// Without a DBC file, where it stands.
        optional bits: BitsTable;
    }
}

section! {
    /// The byte of a message that guards the others.
    pub(crate) struct ChecksumTable {
        /// Name of the signal in its message.
        optional signal: Text;
        /// Without a DBC file, the byte, counted from 0.
        optional byte: Whole<0, 63>;
        /// How it is computed over all other bytes: `sum` of them, `xor` of them, or `crc-8-sae-j1850`.
        required method: Choice<Checksum>;
    }
}

section! {
    /// How a message is sent.
    pub(crate) struct SendTable {
        /// What the signals hold that are not written: what was last sent (`last-sent`; `initial` before that), what was last
        /// received (`last-received`; a write is rejected before that), or always their `initial` values.
        default others: Choice<Others> = "last-sent";
        /// Values of signals where nothing else says any, by their names in the DBC file: numbers in engineering units, or
        /// words. Default: those of the DBC file (`GenSigStartValue`), else raw 0.
        optional initial: Settings;
        /// Sends the message again and again once it was written, in milliseconds.
        optional period_ms: PeriodMs;
        /// Stops sending so many milliseconds after the last write, with `period_ms`. Default: it goes on until the program
        /// or the connection ends.
        optional limit_ms: Whole<10, 86_400_000>;
        /// Values of the last frame, sent when sending again and again ends, by their names in the DBC file. Others stay.
        optional stop: Settings;
        /// Whether it is sent as CAN FD. Default: what the DBC file says (`VFrameFormat`), and for more than 8 bytes.
        optional fd: Flag;
        /// Whether the payload of CAN FD is sent at the higher bit rate.
        default brs: Flag = false;
        /// Whom it is for, of a J1939 message that has a destination. Default: the device's `source_address`.
        optional destination: Whole<0, 255>;
        /// Priority of a J1939 message. Default: that of the identifier in the DBC file.
        optional priority: Whole<0, 7>;
    }
}

impl SignalTable {
    /// Keys that only a tag of this kind has.
    pub(crate) const MARKS: [&str; 3] = ["signal", "frame", "bits"];
}

impl Words for ByteOrder {
    const WORDS: &'static [(&'static str, Self)] = &[("intel", Self::Intel), ("motorola", Self::Motorola)];
}

impl Words for Checksum {
    const WORDS: &'static [(&'static str, Self)] =
        &[("sum", Self::Sum), ("xor", Self::Xor), ("crc-8-sae-j1850", Self::Crc8SaeJ1850)];
}

impl Words for Others {
    const WORDS: &'static [(&'static str, Self)] =
        &[("last-sent", Self::LastSent), ("last-received", Self::LastReceived), ("initial", Self::Initial)];
}

impl Words for Ranges {
    const WORDS: &'static [(&'static str, Self)] = &[("keep", Self::Keep), ("ignore", Self::Ignore)];
}

/// Three hexadecimal digits, or eight for 29 bits.
fn id(text: &str) -> Option<Id> {
    if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let number = u32::from_str_radix(text, 16).ok()?;
    match text.len() {
        3 => Id::standard(number),
        8 => Id::extended(number),
        _ => None,
    }
}

impl Read for FrameId {
    fn allowed() -> String {
        "three hexadecimal digits, such as \"181\", or eight for an identifier of 29 bits, such as \"18FEF121\"".to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        node.accept(node.text().and_then(id).map(Self), found)
    }
}
leaf_schema!(
    FrameId,
    "FrameId",
    json_schema!({ "type": "string", "pattern": "^([0-7][0-9A-Fa-f]{2}|[01][0-9A-Fa-f]{7})$" })
);

impl Read for IdRange {
    fn allowed() -> String {
        "an identifier such as \"201\" or \"18FF0021\", or two of one length with a dash, such as \"200-20F\""
            .to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let (first, last) = (id(first)?, id(last)?);
            let fits = first <= last && first.is_extended() == last.is_extended();
            fits.then_some(Self { first, last })
        };
        node.accept(node.text().and_then(range), found)
    }
}
leaf_schema!(
    IdRange,
    "IdRange",
    json_schema!({
        "type": "string",
        "pattern": "^([0-7][0-9A-Fa-f]{2}(-[0-7][0-9A-Fa-f]{2})?|[01][0-9A-Fa-f]{7}(-[01][0-9A-Fa-f]{7})?)$"
    })
);

impl Read for Settings {
    fn allowed() -> String {
        "a table of signals with a number, true, false or a word each, such as { Enable = 0, Mode = \"off\" }"
            .to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let Some(entries) = node.entries() else { return node.accept(None, found) };
        let mut settings = Vec::new();
        for (name, node) in entries {
            let number = || node.number().map(|number| number.normalize().to_string());
            let text = node.text().map(str::to_owned).or_else(number);
            match text.or_else(|| node.boolean().map(|on| on.to_string())) {
                Some(text) => settings.push((name.to_owned(), At { value: text, spot: node.spot })),
                None => node.refuse(found, "a number, true, false or a word"),
            }
        }
        Some(Self(settings))
    }
}
leaf_schema!(
    Settings,
    "Settings",
    json_schema!({ "type": "object", "additionalProperties": { "type": ["number", "boolean", "string"] } })
);
