//! Checks where a tag says that its value lies against what the value is.

use super::{
    format::is_part_of,
    modbus::Table,
    raw::{RegisterTable, TagTable},
};
use crate::{
    codec::value::{Format, Part},
    config::{
        leaf::Choice,
        problem::{Findings, What},
        read::At,
    },
    model::{Access, Kind},
};

/// Registers and bits that one request can read and write (Modbus Application Protocol V1.1b3, sections 6.1, 6.3, 6.11
/// and 6.12).
const READ: (u16, u16) = (125, 2000);
const WRITTEN: (u16, u16) = (123, 1968);

/// Coils, discrete inputs or registers that the value takes.
pub(super) fn cells(table: Table, format: &Format) -> u16 {
    if table.is_bits() { format.bits() } else { format.registers() }
}

pub(super) fn check(tag: &TagTable, kind: &At<Choice<Kind>>, format: &Format, found: &mut Findings) {
    let Some(register) = tag.register.as_ref().map(|at| &at.value.0) else { return };
    check_part(register, kind.value.0, found);
    let table = register.table();
    if let Some(table) = &table {
        check_table(tag, register, kind, table.value, found);
        check_count(tag, register, kind.value.0, table.value, found);
        check_size(tag, format, table.value, found);
    }
    let (Some(table), Some(address)) = (table, register.address()) else { return };
    let last = u16::MAX - cells(table.value, format).saturating_sub(1);
    if address.value > last {
        let allowed = match &register.reference {
            Some(_) => format!("at most \"{}\"", table.value.reference(last)),
            None => format!("at most {last}"),
        };
        let with = match &tag.count {
            Some(count) => format!("type = \"{}\" and count = {}", kind.value.0, count.value.0),
            None => format!("type = \"{}\"", kind.value.0),
        };
        address.conflict(found, with, allowed);
    }
}

/// The part of a register against the type.
fn check_part(register: &RegisterTable, kind: Kind, found: &mut Findings) {
    let RegisterTable { bit, bits, byte, .. } = register;
    let with = || format!("type = \"{kind}\"");
    if let Some(bit) = bit.as_ref().filter(|_| !is_part_of(Part::Bit(0), kind)) {
        bit.conflict(found, with(), "a bit of type \"bool\"");
    }
    if let Some(bits) = bits.as_ref().filter(|_| !is_part_of(Part::Bits { low: 0, high: 0 }, kind)) {
        bits.conflict(found, with(), "bits of type \"uint16\"");
    }
    if let Some(byte) = byte.as_ref().filter(|_| !is_part_of(Part::High, kind)) {
        byte.conflict(found, with(), "a byte of type \"int8\" or \"uint8\"");
    }
}

/// The type and the part against the table.
fn check_table(
    tag: &TagTable,
    register: &RegisterTable,
    kind: &At<Choice<Kind>>,
    table: Table,
    found: &mut Findings,
) {
    let with = format!("table = \"{}\"", table.name());
    if !table.is_bits() {
        let bytes = is_byte(kind.value.0);
        let at = tag.register.as_ref().filter(|_| bytes && register.byte.is_none() && tag.count.is_none());
        if let Some(at) = at.filter(|at| !at.spot.has_problem(found)) {
            let allowed =
                "\"high\" or \"low\", the half of the register that has the value, or `count` for an array";
            let what = What::Missing { allowed: allowed.to_owned() };
            found.problems.push(at.spot.absent("byte").problem(what));
        }
        return;
    }
    if kind.value.0 != Kind::Bool {
        kind.conflict(found, with.clone(), "\"bool\"");
    }
    let order = [tag.byte_order.as_ref().map(|at| &at.spot), tag.swap.as_ref().map(|at| &at.spot)];
    for spot in register.parts().into_iter().chain(order.into_iter().flatten()) {
        let allowed = "to leave it out: it is for values in registers".to_owned();
        found.problems.push(spot.problem(What::Conflict { with: with.clone(), allowed }));
    }
}

/// An array against what there are no arrays of.
fn check_count(tag: &TagTable, register: &RegisterTable, kind: Kind, table: Table, found: &mut Findings) {
    let Some(count) = &tag.count else { return };
    if !register.parts().is_empty() {
        count.conflict(found, "a part of a register", "to leave it out");
    } else if kind == Kind::Bool && !table.is_bits() {
        let allowed = "to leave it out: arrays of bits are in \"coil\" and \"discrete\"";
        count.conflict(found, format!("table = \"{}\"", table.name()), allowed);
    }
}

/// What one request can carry, and what a write would change beside the value.
fn check_size(tag: &TagTable, format: &Format, table: Table, found: &mut Findings) {
    let writable = tag.access.as_ref().is_some_and(|access| access.value.0 == Access::ReadWrite);
    let (registers, bits) = if writable { WRITTEN } else { READ };
    let most = if table.is_bits() { bits } else { registers };
    let taken = cells(table, format);
    if taken > most {
        let unit = if table.is_bits() { "bits" } else { "registers" };
        let verb = if writable { "written" } else { "read" };
        let with = format!("the {most} {unit} that can be {verb} at once");
        let one = cells(table, &Format { count: None, ..format.clone() }).max(1);
        let elements = if is_byte(format.kind) { most * 2 } else { most / one };
        match (&tag.count, &tag.length) {
            (Some(count), _) => count.conflict(found, with, format!("at most {elements}")),
            (None, Some(length)) => length.conflict(found, with, format!("at most {}", most * 2)),
            (None, None) => {}
        }
    }
    let bytes = is_byte(format.kind);
    if let Some(count) = tag.count.as_ref().filter(|count| writable && bytes && count.value.0 % 2 != 0) {
        let allowed = "an even number, since whole registers are written";
        count.conflict(found, "access = \"read-write\"", allowed);
    }
}

/// Whether two elements of an array share a register.
fn is_byte(kind: Kind) -> bool {
    matches!(kind, Kind::Int8 | Kind::Uint8)
}
