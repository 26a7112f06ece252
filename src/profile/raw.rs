//! What a profile says, key by key; what it means is [`template`](super::template)'s.

pub(crate) mod register;
pub(crate) mod signal;
pub(crate) mod topic;
mod value;

pub(crate) use register::{Register, RegisterTable};
pub(crate) use signal::SignalTable;
use signal::{MessageTable, Ranges};
pub(crate) use topic::TopicTable;
use topic::{AvailabilityTable, Level};
pub(crate) use value::{DefaultOrder, LabelTable, ScalingTable, Sentinel, Sentinels, Swap, TagOrder};

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{
    dialect::{ReadsTable, WritesTable},
    modbus::{Table, WriteFunction},
};
use crate::{
    codec::value::{Encoding, Padding},
    config::{
        leaf::{Amount, Choice, Factor, Flag, Number, Span, TagName, Text, Whole, Words},
        problem::Findings,
        raw::{ScanMs, StaleMs, WriteMs},
        read::{At, List, Node, Read},
        section::section,
    },
    model::{Access, Kind},
};

/// The protocols that profiles speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Modbus,
    Mqtt,
    Can,
}

/// One value of a device, by the kind of its source.
#[derive(Debug, Clone)]
pub(crate) enum AnyTag {
    Register(Box<TagTable>),
    Topic(Box<TopicTable>),
    Signal(Box<SignalTable>),
}

section! {
    /// A profile of fieldbridge: what a model of device has.
    pub(crate) struct ProfileFile {
        /// The protocol that the device speaks.
        required protocol: Choice<Protocol>;
        /// Who makes the device.
        required vendor: Text;
        /// The model, as its maker calls it.
        required model: Text;
        /// What the device is, for people and assistants.
        optional description: Text;
        /// Messages that tell whether the device is there, of an MQTT device; of several all must say so.
        optional availability: List<AvailabilityTable>;
        /// Quality of service of its subscriptions, of an MQTT device. Default: 1.
        optional qos: Level;
        /// Its DBC file, of a CAN device: a path that counts from the folder of this file.
        optional dbc: Text;
        /// Whether every signal of the DBC file is a tag, as `Message/Signal`, beside those of `tags`.
        default all_signals: Flag = false;
        /// What the lowest and highest values in the DBC file are for: `keep` makes values beyond them bad
        /// (`out_of_range`) and refuses to write them, `ignore` is for files in which they mean nothing.
        default dbc_ranges: Choice<Ranges> = "keep";
        /// How messages of a CAN device are checked and sent.
        optional messages: List<MessageTable>;
        /// How often tags are read, in milliseconds; for Modbus. Default: 1000.
        optional scan_ms: ScanMs;
        /// Order in which the bytes of a value arrive; letters name the bytes of the big-endian value. The names of 32
        /// bits hold for every width: CDAB exchanges words, BADC the bytes in each word, DCBA both. Default: `ABCD`.
        optional byte_order: Choice<DefaultOrder>;
        /// Age in milliseconds at which a good value becomes uncertain. Default: three times the tag's scan interval.
        optional stale_after_ms: StaleMs;
        /// What one request may read.
        optional reads: ReadsTable;
        /// How it is written to.
        optional writes: WritesTable;
        /// What the device measures and takes.
        optional tags: List<AnyTag>;
    }
}

section! {
    /// One value of a Modbus device.
    pub(crate) struct TagTable {
        /// Name of the tag below its device, such as `temperature` or `pump/speed`.
        required name: TagName;
        /// What the value means, for people and assistants.
        optional description: Text;
        /// Where the value lies: `table` and zero-based `address`, or `reference`.
        required register: Register;
        /// Data type of the value in the device.
        required r#type: Choice<Kind>;
        /// Order in which the bytes of the value arrive. Default: the device's, else the profile's. The names of 32 bits
        /// hold for every width; the others are for one: AB and BA for 16 bits, and for 8 bits and texts; six letters for
        /// 48 and eight for 64 bits.
        optional byte_order: Choice<TagOrder>;
        /// The same as exchanges against the big-endian order, of the bytes in each word, of the words in each double
        /// word (of 48 bits the first and the last), and of double words. Excludes `byte_order`.
        optional swap: List<Choice<Swap>>;
        /// Makes the tag an array of so many values, one behind the other. Two values of 8 bits share a register, the
        /// first in its high byte.
        optional count: Whole<1, 2000>;
        /// Bytes of a text, two a register; only for `type = "text"`, which needs it.
        optional length: Whole<1, 250>;
        /// What the bytes of a text mean. Default: `ascii`.
        optional encoding: Choice<Encoding>;
        /// What fills a text up to its length: `nul` or `space`. Default: `nul`. When read, a NUL always ends it.
        optional padding: Choice<Padding>;
        /// Engineering value = raw value × scale + offset, computed in decimal.
        default scale: Factor = 1;
        /// Engineering value = raw value × scale + offset, computed in decimal.
        default offset: Number = 0;
        /// Instead of `scale` and `offset`, two raw numbers and the values that they stand for.
        optional scaling: ScalingTable;
        /// Words for raw numbers, such as `{ 0 = "off", 1 = "auto" }`, served beside the number and taken in its place.
        optional labels: LabelTable;
        /// What the device holds where it has no value: a raw number, or a bit pattern as `"0x7FC00000"`, or a list of
        /// these. Of signed types a number can be its bit pattern, such as 0x8000.
        optional not_available: Sentinels;
        /// Engineering unit, such as `°C`.
        optional unit: Text;
        /// Lowest and highest value that the process can have; a value outside it is served as bad (`out_of_range`).
        optional range: Span;
        /// Changes up to this size are stored but not announced.
        optional deadband: Amount;
        /// How often the tag is read, in milliseconds. Default: the device's, else the profile's, else 1000.
        optional scan_ms: ScanMs;
        /// Age in milliseconds at which a good value becomes uncertain. Default: the device's, else the profile's, else
        /// three times the scan interval.
        optional stale_after_ms: StaleMs;
        /// Whether the tag may be written.
        default access: Choice<Access> = "read";
        /// What a write must keep; needs `access = "read-write"`.
        optional write: WriteTable;
    }
}

section! {
    /// What a write must keep, in engineering units.
    pub(crate) struct WriteTable {
        /// Lowest value that may be written.
        optional min: Number;
        /// Highest value that may be written.
        optional max: Number;
        /// Deadline of a write in milliseconds, counted from its arrival. Default: the site's.
        optional timeout_ms: WriteMs;
        /// Function that writes it: `single` is FC 5 or 6, `multiple` is FC 15 or 16, for devices that know only one of
        /// them. Default: `single` for one coil or register, `multiple` for more.
        optional function: Choice<WriteFunction>;
        /// Milliseconds between a write and its read-back, for devices that need time to take a value over. Default: the
        /// device's, else the profile's, else 0.
        optional settle_ms: Whole<0, 10_000>;
    }
}

impl Protocol {
    /// The name in profiles.
    pub(crate) fn name(self) -> &'static str {
        Self::WORDS.iter().find(|(_, protocol)| *protocol == self).map_or("", |(name, _)| name)
    }

    /// The key that a tag of it has.
    pub(crate) fn source(self) -> &'static str {
        match self {
            Self::Modbus => "`register`",
            Self::Mqtt => "`topic`",
            Self::Can => "`signal` or `frame`",
        }
    }
}

impl AnyTag {
    pub(crate) fn name(&self) -> Option<&At<TagName>> {
        match self {
            Self::Register(tag) => tag.name.as_ref(),
            Self::Topic(tag) => tag.name.as_ref(),
            Self::Signal(tag) => tag.name.as_ref(),
        }
    }
}

impl Read for AnyTag {
    fn allowed() -> String {
        "a table with a `register` (Modbus), a `topic` (MQTT), or with a `write` that has one, or a `signal` or `frame` (CAN)"
            .to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let is_command = |(key, table): (&str, Node<'_>)| key == "write" && table.has("topic");
        let is_topic = || {
            TopicTable::MARKS.iter().any(|key| node.has(key))
                || node.entries().is_some_and(|entries| entries.into_iter().any(is_command))
        };
        if node.has("register") {
            TagTable::read(node, found).map(|tag| Self::Register(Box::new(tag)))
        } else if SignalTable::MARKS.iter().any(|key| node.has(key)) {
            SignalTable::read(node, found).map(|tag| Self::Signal(Box::new(tag)))
        } else if is_topic() {
            TopicTable::read(node, found).map(|tag| Self::Topic(Box::new(tag)))
        } else {
            node.refuse(found, Self::allowed());
            None
        }
    }
}

impl JsonSchema for AnyTag {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AnyTag".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let kinds = [
            generator.subschema_for::<TagTable>(),
            generator.subschema_for::<TopicTable>(),
            generator.subschema_for::<SignalTable>(),
        ];
        json_schema!({ "anyOf": kinds })
    }
}

impl Words for Protocol {
    const WORDS: &'static [(&'static str, Self)] =
        &[("modbus", Self::Modbus), ("mqtt", Self::Mqtt), ("can", Self::Can)];
}

impl Words for Table {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("coil", Self::Coil),
        ("discrete", Self::Discrete),
        ("input", Self::Input),
        ("holding", Self::Holding),
    ];
}

impl Words for WriteFunction {
    const WORDS: &'static [(&'static str, Self)] = &[("single", Self::Single), ("multiple", Self::Multiple)];
}

impl Words for Access {
    const WORDS: &'static [(&'static str, Self)] =
        &[("read", Self::ReadOnly), ("read-write", Self::ReadWrite)];
}
