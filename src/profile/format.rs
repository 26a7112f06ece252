//! Checks what a tag says of its value, and turns it into a [`Format`].

use std::sync::Arc;

use rust_decimal::Decimal;

use super::raw::{LabelTable, RegisterTable, ScalingTable, Sentinel, Swap, TagTable};
use crate::{
    codec::value::{Encoding, Format, Order, Part, Scale, Text},
    config::{
        problem::{Findings, What},
        read::{At, Spot},
    },
    model::{Kind, Labels},
};

/// The format of a tag whose order of bytes may be left to its device.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) format: Format,
    pub(super) order: Option<Order>,
}

impl Draft {
    pub(super) fn new(tag: &TagTable, kind: Kind, found: &mut Findings) -> Self {
        let register = tag.register.as_ref().map(|at| &at.value.0);
        let part = register.map_or(Part::Whole, RegisterTable::part);
        let part = if is_part_of(part, kind) { part } else { Part::Whole };
        let count = tag.count.as_ref().and_then(|at| u16::try_from(at.value.0).ok());
        check_sizeless(tag, kind, found);
        let text = text(tag, kind, found);
        let order = order(tag, kind, found);
        let mut format = Format { part, count, text, ..Format::plain(kind) };
        format.scale = scale(tag, kind, found);
        format.labels = labels(tag, &format, found);
        format.not_available = not_available(tag, &format, found);
        Self { format, order }
    }

    /// The format where `order` holds for what says no order itself.
    pub(super) fn format(&self, order: Option<Order>) -> Format {
        let order = self.order.or(order).unwrap_or_default().of(self.format.kind);
        Format { order, ..self.format.clone() }
    }
}

/// Whether a value of `kind` can be this part of a register.
pub(super) fn is_part_of(part: Part, kind: Kind) -> bool {
    match part {
        Part::Whole => true,
        Part::Bit(_) => kind == Kind::Bool,
        Part::Bits { .. } => kind == Kind::Uint16,
        Part::High | Part::Low => matches!(kind, Kind::Int8 | Kind::Uint8),
        Part::Narrow(_) => false,
    }
}

/// The format of a value that is a part of a text: what stands where in bytes has no meaning.
pub(super) fn leaf(tag: &TagTable, kind: Kind, found: &mut Findings) -> Format {
    let count = tag.count.as_ref().and_then(|at| u16::try_from(at.value.0).ok());
    check_sizeless(tag, kind, found);
    let mut format = Format { count, ..Format::plain(kind) };
    format.scale = scale(tag, kind, found);
    format.labels = labels(tag, &format, found);
    format
}

fn is_number(kind: Kind) -> bool {
    !matches!(kind, Kind::Bool | Kind::Text)
}

/// Notes that keys which were written do not go with something.
fn refuse<'a>(
    written: impl IntoIterator<Item = Option<&'a Spot>>,
    with: &str,
    allowed: &str,
    found: &mut Findings,
) {
    for spot in written.into_iter().flatten().filter(|spot| spot.is_written()) {
        found
            .problems
            .push(spot.problem(What::Conflict { with: with.to_owned(), allowed: allowed.to_owned() }));
    }
}

fn spot<T>(at: Option<&At<T>>) -> Option<&Spot> {
    at.map(|at| &at.spot)
}

/// What has no meaning for a bool or a text.
fn check_sizeless(tag: &TagTable, kind: Kind, found: &mut Findings) {
    if is_number(kind) {
        return;
    }
    let limits = tag.write.as_ref().map(|at| &at.value);
    let written = [
        spot(tag.scale.as_ref()),
        spot(tag.offset.as_ref()),
        spot(tag.scaling.as_ref()),
        spot(tag.not_available.as_ref()),
        spot(tag.range.as_ref()),
        spot(tag.deadband.as_ref()),
        spot(limits.and_then(|write| write.min.as_ref())),
        spot(limits.and_then(|write| write.max.as_ref())),
    ];
    let allowed = format!("to leave it out, since a {kind} is no number");
    refuse(written, &format!("type = \"{kind}\""), &allowed, found);
}

fn text(tag: &TagTable, kind: Kind, found: &mut Findings) -> Text {
    if kind != Kind::Text {
        let written = [spot(tag.length.as_ref()), spot(tag.encoding.as_ref()), spot(tag.padding.as_ref())];
        let allowed = "to leave it out: it is for type = \"text\"";
        refuse(written, &format!("type = \"{kind}\""), allowed, found);
        return Text::default();
    }
    let encoding = tag.encoding.as_ref().map(|at| at.value.0).unwrap_or_default();
    let padding = tag.padding.as_ref().map(|at| at.value.0).unwrap_or_default();
    let length = tag.length.as_ref().and_then(|at| u16::try_from(at.value.0).ok()).unwrap_or_default();
    match (&tag.length, &tag.r#type) {
        (Some(at), _) if encoding == Encoding::Utf16 && !length.is_multiple_of(2) => {
            at.conflict(found, "encoding = \"utf-16\"", "an even number of bytes");
        }
        (None, Some(at)) if !at.spot.beside("length").is_refused(found) => {
            let what = What::Missing { allowed: "the number of bytes of the text, from 1 to 250".to_owned() };
            found.problems.push(at.spot.beside("length").problem(what));
        }
        _ => {}
    }
    Text { length, encoding, padding }
}

/// The order that was written, by its name or as exchanges.
fn order(tag: &TagTable, kind: Kind, found: &mut Findings) -> Option<Order> {
    if let (Some(swap), Some(_)) = (&tag.swap, &tag.byte_order) {
        swap.conflict(found, "byte_order", "either of them");
    }
    let registers = Format::plain(kind).registers();
    if let Some(at) = &tag.byte_order {
        let bytes = registers.saturating_mul(2);
        if kind != Kind::Bool && at.value.0.width.is_some_and(|width| u16::from(width) != bytes) {
            at.conflict(found, format!("type = \"{kind}\""), names(registers));
        }
        return Some(at.value.0.order);
    }
    let swap = tag.swap.as_ref()?;
    let mut order = Order::ABCD;
    for at in &swap.value.0 {
        let (flag, least) = match at.value.0 {
            Swap::Byte => (&mut order.bytes, 1),
            Swap::Word => (&mut order.words, 2),
            Swap::Dword => (&mut order.dwords, 4),
        };
        if *flag {
            let first = "in this list".to_owned();
            let what = What::Duplicate { first, allowed: "each exchange once".to_owned() };
            found.problems.push(at.spot.problem(what));
        } else if registers < least {
            let allowed = match registers {
                1 => "\"byte\"",
                _ => "\"byte\" or \"word\"",
            };
            at.conflict(found, format!("type = \"{kind}\""), allowed);
        }
        *flag = true;
    }
    Some(order)
}

/// The names of orders for values of so many registers.
fn names(registers: u16) -> &'static str {
    match registers {
        1 => "AB, BA, or ABCD, CDAB, BADC or DCBA",
        3 => "one of 6 letters, or ABCD, CDAB, BADC or DCBA",
        4 => "one of 8 letters, or ABCD, CDAB, BADC or DCBA",
        _ => "ABCD, CDAB, BADC or DCBA",
    }
}

fn scale(tag: &TagTable, kind: Kind, found: &mut Findings) -> Scale {
    let Some(at) = tag.scaling.as_ref().filter(|_| is_number(kind)) else {
        let factor = tag.scale.as_ref().map_or(Decimal::ONE, |at| at.value.0);
        let offset = tag.offset.as_ref().map_or(Decimal::ZERO, |at| at.value.0);
        let scale = Scale::Linear { factor, offset };
        if let Some(at) = &tag.scale {
            check_exact(at, kind, scale, found);
        }
        return scale;
    };
    let written = [spot(tag.scale.as_ref()), spot(tag.offset.as_ref())];
    refuse(written, "scaling", "either `scaling`, or `scale` and `offset`", found);
    if matches!(kind, Kind::Int64 | Kind::Uint64 | Kind::Float64) {
        at.conflict(found, format!("type = \"{kind}\""), "`scale` and `offset` for types of 64 bits");
        return Scale::NONE;
    }
    let ScalingTable { raw: Some(raw), value: Some(value), clamp: Some(clamp) } = &at.value else {
        return Scale::NONE;
    };
    let (raw, value) = (raw.value, value.value);
    let scale = Scale::Ranges { raw: (raw.0, raw.1), value: (value.0, value.1), clamp: clamp.value.0 };
    check_exact(at, kind, scale, found);
    scale
}

fn check_exact<T>(at: &At<T>, kind: Kind, scale: Scale, found: &mut Findings) {
    if !(Format { scale, ..Format::plain(kind) }).codec().is_exact() {
        let allowed = "fewer digits, so that values can be computed exactly".to_owned();
        found.problems.push(at.spot.problem(What::NotAllowed { allowed }));
    }
}

fn labels(tag: &TagTable, format: &Format, found: &mut Findings) -> Option<Arc<Labels>> {
    let at = tag.labels.as_ref()?;
    let kind = format.kind;
    if kind.is_float() || kind == Kind::Text {
        at.conflict(found, format!("type = \"{kind}\""), "words for whole numbers and bits");
    } else if let Some(count) = &tag.count {
        at.conflict(found, format!("count = {}", count.value.0), "words for single values");
    } else if format.scale != Scale::NONE && kind != Kind::Bool {
        let with = if tag.scaling.is_some() { "scaling" } else { "scale and offset" };
        at.conflict(found, with, "words for raw numbers, which are not scaled");
    }
    let LabelTable(labels) = &at.value;
    let (low, high) = format.codec().raw_range();
    for (number, word) in labels {
        if !kind.is_float() && kind != Kind::Text && !(low..=high).contains(&i128::from(*number)) {
            word.conflict(found, format!("type = \"{kind}\""), format!("numbers from {low} to {high}"));
        }
    }
    let labels = labels.iter().map(|(number, word)| (*number, word.value.as_str().into()));
    Some(Arc::new(Labels::new(labels)))
}

fn not_available(tag: &TagTable, format: &Format, found: &mut Findings) -> Vec<u64> {
    let kind = format.kind;
    let Some(at) = tag.not_available.as_ref().filter(|_| is_number(kind)) else { return Vec::new() };
    let raw = Format { scale: Scale::NONE, count: None, ..format.clone() }.codec();
    let most = u64::MAX >> (64 - raw.width());
    let mut patterns = Vec::new();
    for at in &at.value.0 {
        let pattern = match at.value {
            Sentinel::Pattern(bits) => Some(bits).filter(|bits| *bits <= most),
            Sentinel::Float(number) if kind.is_float() => raw.pattern_of(&format!("{number:e}")),
            Sentinel::Float(_) => None,
            Sentinel::Number(number) if kind.is_float() => raw.pattern_of(&number.to_string()),
            Sentinel::Number(number) if !number.fract().is_zero() => None,
            Sentinel::Number(number) => raw.pattern_of(&number.normalize().to_string()).or_else(|| {
                let signed = raw.raw_range().0 < 0;
                u64::try_from(number).ok().filter(|bits| signed && *bits <= most)
            }),
        };
        let Some(pattern) = pattern else {
            let digits = usize::try_from(raw.width().div_ceil(4)).unwrap_or(16);
            let (low, high) = raw.raw_range();
            let numbers = if kind.is_float() {
                "a number that the type can hold".to_owned()
            } else {
                format!("a whole number from {low} to {high}")
            };
            let last = format!("{most:0digits$X}");
            let allowed = format!("{numbers}, or a bit pattern up to \"0x{last}\"");
            at.conflict(found, format!("type = \"{kind}\""), allowed);
            continue;
        };
        patterns.push(pattern);
        // Zero has two patterns, and who writes a number means both.
        if kind.is_float() && pattern == 0 && matches!(at.value, Sentinel::Number(_)) {
            patterns.push(1 << (raw.width() - 1));
        }
    }
    patterns.dedup();
    patterns
}
