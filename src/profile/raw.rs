//! What a profile says, key by key; what it means is [`template`](super::template)'s.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{
    dialect::{ReadsTable, WritesTable},
    modbus::{Table, WriteFunction},
};
use crate::{
    codec::value::Order,
    config::{
        leaf::{Amount, Choice, Factor, Number, Span, TagName, Text, Words},
        problem::Findings,
        raw::{ScanMs, StaleMs, WriteMs},
        read::{List, Node, Read},
        section::section,
    },
    model::{Access, Kind},
};

/// The protocols that profiles speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Modbus,
}

/// A byte order that holds for tags of any width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DefaultOrder(pub(crate) Order);

/// A byte order written at a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TagOrder {
    pub(crate) order: Order,
    /// Registers of the types that the name is for; `None` for a name that is for all.
    pub(crate) width: Option<u16>,
}

/// A zero-based address as it goes over the wire.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Address(pub(crate) u16);

/// Where a tag's value lies: [`RegisterTable`], with its own words for who writes a bare number.
#[derive(Debug, Clone)]
pub(crate) struct Register(pub(crate) RegisterTable);

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
        /// How often tags are read, in milliseconds. Default: 1000.
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
        optional tags: List<TagTable>;
    }
}

section! {
    /// One value of a device.
    pub(crate) struct TagTable {
        /// Name of the tag below its device, such as `temperature` or `pump/speed`.
        required name: TagName;
        /// What the value means, for people and assistants.
        optional description: Text;
        /// Table and zero-based address.
        required register: Register;
        /// Data type of the value in the device.
        required r#type: Choice<Kind>;
        /// Order in which the bytes of the value arrive. Default: the device's, else the profile's. The names of 32 bits
        /// hold for every width, as do AB and BA for 16-bit and ABCDEFGH and its kin for 64-bit types.
        optional byte_order: Choice<TagOrder>;
        /// Engineering value = raw value × scale + offset, computed in decimal.
        default scale: Factor = 1;
        /// Engineering value = raw value × scale + offset, computed in decimal.
        default offset: Number = 0;
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
    /// Table and zero-based address of a value.
    pub(crate) struct RegisterTable {
        /// One of the four tables of a Modbus device.
        required table: Choice<Table>;
        /// Zero-based address as it goes over the wire: 0 to 65535, or hexadecimal as `"0x9C40"`.
        required address: Address;
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
    }
}

impl Words for Protocol {
    const WORDS: &'static [(&'static str, Self)] = &[("modbus", Self::Modbus)];
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

impl Words for Kind {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("bool", Self::Bool),
        ("int16", Self::Int16),
        ("uint16", Self::Uint16),
        ("int32", Self::Int32),
        ("uint32", Self::Uint32),
        ("int64", Self::Int64),
        ("uint64", Self::Uint64),
        ("float32", Self::Float32),
        ("float64", Self::Float64),
    ];
}

impl Words for Access {
    const WORDS: &'static [(&'static str, Self)] =
        &[("read", Self::ReadOnly), ("read-write", Self::ReadWrite)];
}

impl Words for DefaultOrder {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("ABCD", Self(Order::ABCD)),
        ("CDAB", Self(Order::CDAB)),
        ("BADC", Self(Order::BADC)),
        ("DCBA", Self(Order::DCBA)),
        ("ABCDEFGH", Self(Order::ABCD)),
        ("GHEFCDAB", Self(Order::CDAB)),
        ("BADCFEHG", Self(Order::BADC)),
        ("HGFEDCBA", Self(Order::DCBA)),
    ];
}

impl Words for TagOrder {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("ABCD", Self { order: Order::ABCD, width: None }),
        ("CDAB", Self { order: Order::CDAB, width: None }),
        ("BADC", Self { order: Order::BADC, width: None }),
        ("DCBA", Self { order: Order::DCBA, width: None }),
        ("AB", Self { order: Order::ABCD, width: Some(1) }),
        ("BA", Self { order: Order::BADC, width: Some(1) }),
        ("ABCDEFGH", Self { order: Order::ABCD, width: Some(4) }),
        ("GHEFCDAB", Self { order: Order::CDAB, width: Some(4) }),
        ("BADCFEHG", Self { order: Order::BADC, width: Some(4) }),
        ("HGFEDCBA", Self { order: Order::DCBA, width: Some(4) }),
    ];
}

impl Read for Address {
    fn allowed() -> String {
        "the zero-based address as it goes over the wire, 0 to 65535 or \"0x0000\" to \"0xFFFF\"".to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let plain = node.integer().and_then(|number| u16::try_from(number).ok());
        node.accept(plain.or_else(|| node.text().and_then(hexadecimal)).map(Self), found)
    }
}

fn hexadecimal(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    let valid = (1..=4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| valid)
}

impl JsonSchema for Address {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Address".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "integer", "minimum": 0, "maximum": 65535 },
                { "type": "string", "pattern": "^0[xX][0-9A-Fa-f]{1,4}$" }
            ]
        })
    }
}

impl Read for Register {
    fn allowed() -> String {
        "table and zero-based address, such as { table = \"holding\", address = 0 } for what manuals call 40001; no \
         other notation is read"
            .to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        if node.is_table() {
            return RegisterTable::read(node, found).map(Self);
        }
        node.accept(None, found)
    }
}

impl JsonSchema for Register {
    fn inline_schema() -> bool {
        RegisterTable::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        RegisterTable::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        RegisterTable::json_schema(generator)
    }
}
