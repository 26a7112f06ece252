//! Where a profile says that a value lies: table and address, or a reference, and the part of a register.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::Table;
use crate::{
    codec::value::Part,
    config::{
        leaf::{Choice, Whole, Words, leaf_schema},
        problem::{Findings, What},
        read::{At, Node, Read, Spot},
        section::section,
    },
};

/// A zero-based address as it goes over the wire.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Address(pub(crate) u16);

/// A table and address as manuals write them: counted from 1, with the table's digit in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) table: Table,
    /// Zero-based.
    pub(crate) address: u16,
}

/// The first and the last bit of a range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bits {
    pub(crate) low: u8,
    pub(crate) high: u8,
}

/// Where a tag's value lies: [`RegisterTable`], in one of its two notations.
#[derive(Debug, Clone)]
pub(crate) struct Register(pub(crate) RegisterTable);

section! {
    /// Where a value lies: `table` and `address`, or `reference`; and which part of a register it is.
    pub(crate) struct RegisterTable {
        /// One of the four tables of a Modbus device.
        optional table: Choice<Table>;
        /// Zero-based address as it goes over the wire: 0 to 65535, or hexadecimal as `"0x9C40"`.
        optional address: Address;
        /// Instead of `table` and `address`, the number that manuals write, counted from 1, as a text: the table's digit
        /// (0 coil, 1 discrete, 3 input, 4 holding) and 4 or 5 digits, as in `"40001"` and `"400001"`, or `"4x1"`. All
        /// three are address 0 of the holding registers. `"0x…"` is a coil here, not a hexadecimal number.
        optional reference: Reference;
        /// The bit that holds a bool, from 0, the least significant, to 15, after `byte_order`.
        optional bit: Whole<0, 15>;
        /// The bits that hold a number, as `[lowest, highest]`, after `byte_order`; needs `type = "uint16"`.
        optional bits: Bits;
        /// The byte that holds a single value of 8 bits, after `byte_order`: `high` is the more significant one.
        optional byte: Choice<Part>;
    }
}

impl RegisterTable {
    /// The table, and where it was written.
    pub(crate) fn table(&self) -> Option<At<Table>> {
        match (&self.reference, &self.table) {
            (Some(at), _) => Some(At { value: at.value.table, spot: at.spot.clone() }),
            (None, table) => table.as_ref().map(|at| At { value: at.value.0, spot: at.spot.clone() }),
        }
    }

    /// The zero-based address, and where it was written.
    pub(crate) fn address(&self) -> Option<At<u16>> {
        match (&self.reference, &self.address) {
            (Some(at), _) => Some(At { value: at.value.address, spot: at.spot.clone() }),
            (None, address) => address.as_ref().map(|at| At { value: at.value.0, spot: at.spot.clone() }),
        }
    }

    /// The keys that make it a part of a register.
    pub(crate) fn parts(&self) -> Vec<&Spot> {
        let Self { bit, bits, byte, .. } = self;
        let parts = [
            bit.as_ref().map(|at| &at.spot),
            bits.as_ref().map(|at| &at.spot),
            byte.as_ref().map(|at| &at.spot),
        ];
        parts.into_iter().flatten().collect()
    }

    /// The part of a register that it is.
    pub(crate) fn part(&self) -> Part {
        match (&self.bit, &self.bits, &self.byte) {
            (Some(bit), ..) => Part::Bit(u8::try_from(bit.value.0).unwrap_or_default()),
            (_, Some(bits), _) => Part::Bits { low: bits.value.low, high: bits.value.high },
            (.., Some(byte)) => byte.value.0,
            _ => Part::Whole,
        }
    }
}

impl Words for Part {
    const WORDS: &'static [(&'static str, Self)] = &[("high", Self::High), ("low", Self::Low)];
}

impl Read for Address {
    fn allowed() -> String {
        "the zero-based address as it goes over the wire, 0 to 65535 or \"0x0000\" to \"0xFFFF\"".to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let plain = node.integer().and_then(|number| u16::try_from(number).ok());
        let hexadecimal = || node.text().and_then(|text| hexadecimal(text, 4)?.try_into().ok());
        node.accept(plain.or_else(hexadecimal).map(Self), found)
    }
}
leaf_schema!(
    Address,
    "Address",
    json_schema!({
        "anyOf": [
            { "type": "integer", "minimum": 0, "maximum": 65535 },
            { "type": "string", "pattern": "^0[xX][0-9A-Fa-f]{1,4}$" }
        ]
    })
);

/// `0x` and one to `most` hexadecimal digits.
pub(super) fn hexadecimal(text: &str, most: usize) -> Option<u64> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    let valid = (1..=most).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| valid)
}

impl Read for Reference {
    fn allowed() -> String {
        "a text of 5 or 6 digits, the table's first (0 coil, 1 discrete, 3 input, 4 holding) and then the number from 1, \
         such as \"40001\" or \"400001\", or \"4x1\"; a zero-based address goes into `table` and `address`"
            .to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        match node.text().map_or_else(|| Err(Self::allowed()), reference) {
            Ok(reference) => Some(reference),
            Err(allowed) => {
                node.refuse(found, allowed);
                None
            }
        }
    }
}
leaf_schema!(
    Reference,
    "Reference",
    json_schema!({ "type": "string", "pattern": "^[0134]([xX][0-9]{1,5}|[0-9]{4,5})$" })
);

/// Reads a reference, or says what is allowed instead.
fn reference(text: &str) -> Result<Reference, String> {
    let is_number =
        |digits: &str| !digits.is_empty() && digits.len() <= 5 && digits.bytes().all(|b| b.is_ascii_digit());
    let (digit, number) = text.split_at_checked(1).ok_or_else(Reference::allowed)?;
    let number = match number.strip_prefix(['x', 'X']) {
        Some(number) => Some(number),
        None => Some(number).filter(|number| number.len() >= 4),
    };
    let number = number.filter(|number| is_number(number)).ok_or_else(Reference::allowed)?;
    let table = match digit {
        "0" => Table::Coil,
        "1" => Table::Discrete,
        "3" => Table::Input,
        "4" => Table::Holding,
        _ => return Err("a first digit of 0 (coil), 1 (discrete), 3 (input) or 4 (holding)".to_owned()),
    };
    let first = number.parse::<u32>().map_err(|_overflow| Reference::allowed())?;
    let address = first.checked_sub(1).ok_or("a number from 1: references count from 1")?;
    let address = u16::try_from(address).map_err(|_beyond| "a number up to 65536".to_owned())?;
    Ok(Reference { table, address })
}

impl Read for Bits {
    fn allowed() -> String {
        "[lowest, highest], two bits from 0 to 15".to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let bit =
            |node: &Node<'_>| node.integer().and_then(|bit| u8::try_from(bit).ok()).filter(|bit| *bit < 16);
        let bits = match node.items().as_deref() {
            Some([low, high]) => bit(low).zip(bit(high)).map(|(low, high)| Self { low, high }),
            _ => None,
        };
        node.accept(bits.filter(|bits| bits.low <= bits.high), found)
    }
}
leaf_schema!(
    Bits,
    "Bits",
    json_schema!({
        "type": "array",
        "items": { "type": "integer", "minimum": 0, "maximum": 15 },
        "minItems": 2,
        "maxItems": 2
    })
);

impl Read for Register {
    fn allowed() -> String {
        "table and zero-based address, such as { table = \"holding\", address = 0 }, or the number that manuals write, \
         such as { reference = \"40001\" }"
            .to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        if !node.is_table() {
            return node.accept(None, found);
        }
        let register = RegisterTable::read(node, found)?;
        let plain = node.has("table") || node.has("address");
        if node.has("reference") {
            if let Some(reference) = register.reference.as_ref().filter(|_| plain) {
                let allowed = "either `reference`, or `table` and `address`";
                reference.conflict(found, "`table` and `address`", allowed);
            }
        } else if plain {
            for (key, allowed) in [("table", Choice::<Table>::allowed()), ("address", Address::allowed())] {
                if !node.has(key) {
                    found.problems.push(node.spot.absent(key).problem(What::Missing { allowed }));
                }
            }
        } else {
            node.refuse(found, Self::allowed());
        }
        Some(Self(register))
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
        let mut schema = RegisterTable::json_schema(generator);
        let notations =
            serde_json::json!([{ "required": ["table", "address"] }, { "required": ["reference"] }]);
        schema.insert("oneOf".to_owned(), notations);
        schema
    }
}
