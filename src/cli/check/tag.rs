//! One tag of the listing: where it lies, how it is read and written, and what its numbers mean.

use rust_decimal::Decimal;

use crate::{
    codec::value::{Encoding, Format, Padding, Part, Scale},
    config::{ModbusDevice, Polled, TagSpec},
    model::{Access, Kind, Limits, Tag},
    profile::modbus::{PartWrite, Point, Table},
};

/// The columns, and whether one is left out where it says nothing of any tag.
pub(super) const COLUMNS: [(&str, bool); 15] = [
    ("TAG", false),
    ("TABLE", false),
    ("ADDRESS", false),
    ("REFERENCE", false),
    ("READ", false),
    ("WRITE", false),
    ("TYPE", false),
    ("ORDER", false),
    ("SCALE", false),
    ("UNIT", false),
    ("RANGE", false),
    ("LIMITS", false),
    ("SCAN", false),
    ("NOT AVAILABLE", true),
    ("LABELS", true),
];

/// What there is in each column; nothing where there is nothing to say.
pub(super) fn row(device: &ModbusDevice, spec: &TagSpec<Polled>) -> Vec<String> {
    let Tag { path, definition } = &*spec.tag;
    let Polled { point, scan } = &spec.source;
    let Point { table, address, format, .. } = &**point;
    vec![
        path.to_string(),
        table.name().to_owned(),
        format!("{address} = 0x{address:04X}"),
        table.reference(*address),
        format!("FC {}", table.read_code()),
        write(device, spec, point),
        kind(format),
        if table.is_bits() { String::new() } else { format.order.name(format.kind).to_owned() },
        scale(format),
        definition.unit.clone().unwrap_or_default(),
        definition.range.map(|(low, high)| format!("{low} to {high}")).unwrap_or_default(),
        limits(&definition.limits),
        format!("{} ms", scan.as_millis()),
        not_available(format),
        definition.labels.as_ref().map(ToString::to_string).unwrap_or_default(),
    ]
}

/// The function that is tried first.
fn write(device: &ModbusDevice, spec: &TagSpec<Polled>, point: &Point) -> String {
    let Point { table, format, function, .. } = point;
    let masked = format.part != Part::Whole && device.dialect.writes.part != PartWrite::ReadModifyWrite;
    match (spec.tag.definition.access, table) {
        (Access::ReadOnly, _) => String::new(),
        (Access::ReadWrite, Table::Holding) if masked => "FC 22".to_owned(),
        (Access::ReadWrite, table) => {
            table.write_code(*function).map(|code| format!("FC {code}")).unwrap_or_default()
        }
    }
}

fn kind(format: &Format) -> String {
    let Format { kind, part, count, text, .. } = format;
    let length = if *kind == Kind::Text { format!("({})", text.length) } else { String::new() };
    let count = count.map(|count| format!("[{count}]")).unwrap_or_default();
    let rest = match part {
        Part::Whole if *kind == Kind::Text => {
            format!(" {} {}", encoding(text.encoding), padding(text.padding))
        }
        Part::Whole => String::new(),
        Part::Bit(bit) => format!(" bit {bit}"),
        Part::Bits { low, high } => format!(" bits {low} to {high}"),
        Part::High => " high byte".to_owned(),
        Part::Low => " low byte".to_owned(),
        Part::Narrow(bits) => format!(" {bits} bits"),
    };
    format!("{kind}{length}{count}{rest}")
}

fn encoding(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Ascii => "ascii",
        Encoding::Latin1 => "latin1",
        Encoding::Utf8 => "utf-8",
        Encoding::Utf16 => "utf-16",
    }
}

fn padding(padding: Padding) -> &'static str {
    match padding {
        Padding::Nul => "nul",
        Padding::Space => "space",
    }
}

fn scale(format: &Format) -> String {
    let (factor, offset) = match format.scale {
        Scale::Linear { factor, offset } => (factor, offset),
        Scale::Ranges { raw, value, clamp } => {
            let end = if clamp { ", clamped" } else { "" };
            return format!("{} to {} → {} to {}{end}", raw.0, raw.1, value.0, value.1);
        }
    };
    let by = if factor == Decimal::ONE { String::new() } else { format!("× {factor}") };
    let sign = if offset.is_sign_negative() { '-' } else { '+' };
    let and = if offset.is_zero() { String::new() } else { format!(" {sign} {}", offset.abs()) };
    format!("{by}{and}").trim_start().to_owned()
}

pub(super) fn limits(limits: &Limits) -> String {
    let span = match (limits.min, limits.max) {
        (Some(min), Some(max)) => format!("{min} to {max}"),
        (Some(min), None) => format!("from {min}"),
        (None, Some(max)) => format!("to {max}"),
        (None, None) => String::new(),
    };
    let timeout = limits.timeout.map(|timeout| format!(" in {} ms", timeout.as_millis()));
    format!("{span}{}", timeout.unwrap_or_default()).trim_start().to_owned()
}

/// The bit patterns, with as many digits as the value has.
fn not_available(format: &Format) -> String {
    let digits = usize::try_from(format.codec().width().div_ceil(4)).unwrap_or(1);
    let pattern = |bits: &u64| format!("0x{bits:0digits$X}");
    format.not_available.iter().map(pattern).collect::<Vec<_>>().join(", ")
}
