//! Checks the tags of a profile or site, and turns them into the tags of a device.

use std::{collections::HashMap, sync::Arc, time::Duration};

use rust_decimal::Decimal;

use super::{
    modbus::{Point, Table, WriteFunction},
    raw::{RegisterTable, TagTable, WriteTable},
};
use crate::{
    codec::value::{Format, Order, Scale},
    config::{
        Source, TagSpec,
        leaf::Choice,
        problem::{Findings, What},
        raw::{ScanMs, StaleMs},
        read::{At, List, Spot, millis},
    },
    model::{Access, Kind, Limits, Tag, TagPath},
};

/// A checked tag that lacks only what its device decides.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    pub(crate) name: String,
    /// Where its name was written.
    pub(crate) spot: Spot,
    description: String,
    table: Table,
    address: u16,
    kind: Kind,
    order: Option<Order>,
    scale: Decimal,
    offset: Decimal,
    unit: Option<String>,
    range: Option<(f64, f64)>,
    deadband: Option<f64>,
    scan: Option<Duration>,
    stale_after: Option<Duration>,
    access: Access,
    limits: Limits,
    function: Option<WriteFunction>,
}

/// What a profile or device sets for tags that do not say it themselves.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Defaults {
    pub(crate) scan: Option<Duration>,
    pub(crate) order: Option<Order>,
    pub(crate) stale_after: Option<Duration>,
    pub(crate) function: Option<WriteFunction>,
    pub(crate) settle: Option<Duration>,
}

impl Defaults {
    const SCAN: Duration = Duration::from_secs(1);

    pub(crate) fn new(
        scan: Option<&At<ScanMs>>,
        order: Option<Order>,
        stale_after: Option<&At<StaleMs>>,
    ) -> Self {
        Self {
            scan: scan.map(|at| millis(at.value.0)),
            order,
            stale_after: stale_after.map(|at| millis(at.value.0)),
            function: None,
            settle: None,
        }
    }

    /// These, and `other` where these say nothing.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            scan: self.scan.or(other.scan),
            order: self.order.or(other.order),
            stale_after: self.stale_after.or(other.stale_after),
            function: self.function.or(other.function),
            settle: self.settle.or(other.settle),
        }
    }
}

/// Checks a list of tags; those with problems are left out.
pub(crate) fn templates(tags: Option<&At<List<TagTable>>>, found: &mut Findings) -> Vec<Template> {
    let mut checked = Vec::new();
    let mut names: HashMap<&str, &Spot> = HashMap::new();
    for tag in tags.iter().flat_map(|tags| &tags.value.0) {
        let template = template(&tag.value, found);
        if let Some(name) = &tag.value.name {
            if let Some(first) = names.get(name.value.0.as_str()) {
                let allowed = "one tag a name".to_owned();
                found.problems.push(name.spot.problem(What::Duplicate { first: first.reference(), allowed }));
                continue;
            }
            names.insert(&name.value.0, &name.spot);
        }
        checked.extend(template);
    }
    checked
}

fn template(tag: &TagTable, found: &mut Findings) -> Option<Template> {
    let register = tag.register.as_ref().map(|at| &at.value.0);
    let order = match &tag.r#type {
        Some(kind) => {
            check_table(kind, register, found);
            check_bool(tag, kind.value.0, found);
            check_order(tag, kind.value.0, found)
        }
        None => None,
    };
    let limits = check_access(tag, register, found);
    check_limits(tag, found);
    check_function(tag, found);
    let name = tag.name.as_ref()?;
    let register = register?;
    Some(Template {
        name: name.value.0.clone(),
        spot: name.spot.clone(),
        description: tag.description.as_ref().map(|at| at.value.0.clone()).unwrap_or_default(),
        table: register.table.as_ref()?.value.0,
        address: register.address.as_ref()?.value.0,
        kind: tag.r#type.as_ref()?.value.0,
        order,
        scale: tag.scale.as_ref()?.value.0,
        offset: tag.offset.as_ref()?.value.0,
        unit: tag.unit.as_ref().map(|at| at.value.0.clone()),
        range: tag.range.as_ref().map(|at| (double(at.value.low), double(at.value.high))),
        deadband: tag.deadband.as_ref().map(|at| double(at.value.0)),
        scan: tag.scan_ms.as_ref().map(|at| millis(at.value.0)),
        stale_after: tag.stale_after_ms.as_ref().map(|at| millis(at.value.0)),
        access: tag.access.as_ref()?.value.0,
        limits,
        function: tag.write.as_ref().and_then(|write| write.value.function.as_ref()).map(|at| at.value.0),
    })
}

/// The type against the table, and the last register against the table's end.
fn check_table(kind: &At<Choice<Kind>>, register: Option<&RegisterTable>, found: &mut Findings) {
    let Some(register) = register else { return };
    if let Some(table) = &register.table {
        let table = table.value.0;
        if table.is_bits() && kind.value.0 != Kind::Bool {
            kind.conflict(found, format!("table = \"{}\"", table.name()), "\"bool\"");
        } else if !table.is_bits() && kind.value.0 == Kind::Bool {
            let allowed = "a number's type; \"bool\" is for \"coil\" and \"discrete\"";
            kind.conflict(found, format!("table = \"{}\"", table.name()), allowed);
        }
    }
    if let Some(address) = &register.address {
        let last = u16::MAX - (registers(kind.value.0) - 1);
        if address.value.0 > last {
            address.conflict(found, format!("type = \"{}\"", kind.value.0), format!("at most {last}"));
        }
    }
}

/// What has no meaning for a bool.
fn check_bool(tag: &TagTable, kind: Kind, found: &mut Findings) {
    if kind != Kind::Bool {
        return;
    }
    let limits = tag.write.as_ref().map(|at| &at.value);
    let written = [
        tag.byte_order.as_ref().map(|at| &at.spot),
        tag.scale.as_ref().filter(|at| at.spot.is_written()).map(|at| &at.spot),
        tag.offset.as_ref().filter(|at| at.spot.is_written()).map(|at| &at.spot),
        tag.range.as_ref().map(|at| &at.spot),
        tag.deadband.as_ref().map(|at| &at.spot),
        limits.and_then(|write| write.min.as_ref()).map(|at| &at.spot),
        limits.and_then(|write| write.max.as_ref()).map(|at| &at.spot),
    ];
    for spot in written.into_iter().flatten() {
        let what = What::Conflict {
            with: "type = \"bool\"".to_owned(),
            allowed: "to leave it out, since a bool has neither size nor order".to_owned(),
        };
        found.problems.push(spot.problem(what));
    }
}

fn check_order(tag: &TagTable, kind: Kind, found: &mut Findings) -> Option<Order> {
    let at = tag.byte_order.as_ref()?;
    let order = at.value.0;
    if kind != Kind::Bool && order.width.is_some_and(|letters| letters != registers(kind)) {
        let allowed = if registers(kind) == 4 {
            "one of 8 letters, or ABCD, CDAB, BADC or DCBA"
        } else if registers(kind) == 1 {
            "AB, BA, or ABCD, CDAB, BADC or DCBA"
        } else {
            "ABCD, CDAB, BADC or DCBA"
        };
        at.conflict(found, format!("type = \"{kind}\""), allowed);
    }
    Some(order.order)
}

/// Access against the table, and `write` against the access.
fn check_access(tag: &TagTable, register: Option<&RegisterTable>, found: &mut Findings) -> Limits {
    let Some(access) = &tag.access else { return Limits::default() };
    let writable = access.value.0 == Access::ReadWrite;
    if let Some(table) = register.and_then(|register| register.table.as_ref())
        && writable
        && !table.value.0.is_writable()
    {
        access.conflict(found, format!("table = \"{}\"", table.value.0.name()), "\"read\"");
    }
    let write = tag.write.as_ref();
    if let Some(write) = write
        && !writable
    {
        write.conflict(found, "access = \"read\"", "`write` only where access = \"read-write\"");
    }
    let limits = write.map_or_else(Limits::default, |write| Limits {
        min: write.value.min.as_ref().map(|at| at.value.0),
        max: write.value.max.as_ref().map(|at| at.value.0),
        timeout: write.value.timeout_ms.as_ref().map(|at| millis(at.value.0)),
    });
    let number = tag.r#type.as_ref().is_some_and(|kind| kind.value.0 != Kind::Bool);
    if writable && number && (limits.min.is_none() || limits.max.is_none()) {
        let missing = match (limits.min, limits.max) {
            (None, None) => "neither write.min nor write.max",
            (None, Some(_)) => "no write.min",
            (Some(_), _) => "no write.max",
        };
        access.warn(found, format!("the tag has {missing}: only its type limits what may be written"));
    }
    limits
}

/// `min` and `max` against each other, and against what the device's type can hold.
fn check_limits(tag: &TagTable, found: &mut Findings) {
    let Some(WriteTable { min, max, .. }) = tag.write.as_ref().map(|at| &at.value) else { return };
    if let (Some(min), Some(max)) = (min, max)
        && min.value.0 > max.value.0
    {
        min.conflict(found, format!("max = {}", max.value.0), format!("at most {}", max.value.0));
    }
    let (Some(kind), Some(scale), Some(offset)) = (&tag.r#type, &tag.scale, &tag.offset) else { return };
    let Some((low, high)) = holdable(kind.value.0, scale.value.0, offset.value.0) else { return };
    for at in [min, max].into_iter().flatten() {
        if at.value.0 < low || at.value.0 > high {
            let with = format!("type = \"{}\" at this scale and offset", kind.value.0);
            at.conflict(found, with, format!("{low} to {high}"));
        }
    }
}

/// A function that writes one register cannot write a value of several: two frames would not be one write.
fn check_function(tag: &TagTable, found: &mut Findings) {
    let function = tag.write.as_ref().and_then(|write| write.value.function.as_ref());
    if let (Some(function), Some(kind)) = (function, &tag.r#type)
        && function.value.0 == WriteFunction::Single
        && registers(kind.value.0) > 1
    {
        let with = format!("type = \"{}\", which takes {} registers", kind.value.0, registers(kind.value.0));
        function.conflict(found, with, "\"multiple\"");
    }
}

/// Lowest and highest engineering value that the raw type can hold; `None` where that is no limit in practice.
fn holdable(kind: Kind, scale: Decimal, offset: Decimal) -> Option<(Decimal, Decimal)> {
    let (low, high) = match kind {
        Kind::Int16 => (Decimal::from(i16::MIN), Decimal::from(i16::MAX)),
        Kind::Uint16 => (Decimal::ZERO, Decimal::from(u16::MAX)),
        Kind::Int32 => (Decimal::from(i32::MIN), Decimal::from(i32::MAX)),
        Kind::Uint32 => (Decimal::ZERO, Decimal::from(u32::MAX)),
        Kind::Int64 => (Decimal::from(i64::MIN), Decimal::from(i64::MAX)),
        Kind::Uint64 => (Decimal::ZERO, Decimal::from(u64::MAX)),
        _ => return None,
    };
    let value = |raw: Decimal| raw.checked_mul(scale)?.checked_add(offset).map(|value| value.normalize());
    let (one, other) = (value(low)?, value(high)?);
    Some((one.min(other), one.max(other)))
}

impl Template {
    /// The tag of one device; `None` where its path is none, which checked names never make.
    pub(crate) fn instantiate(
        &self,
        device: &str,
        defaults: Defaults,
        found: &mut Findings,
    ) -> Option<TagSpec> {
        let scan = self.scan.or(defaults.scan).unwrap_or(Defaults::SCAN);
        let stale_after = self.stale_after.or(defaults.stale_after).unwrap_or(scan * 3);
        if stale_after < scan {
            let note = format!(
                "on device `{device}` it is read every {} ms but stale after {} ms, so it will be uncertain between \
                 reads",
                scan.as_millis(),
                stale_after.as_millis(),
            );
            found.warnings.push(self.spot.problem(What::Note(note)));
        }
        let path = TagPath::parse(&format!("{device}/{}", self.name)).ok()?;
        let tag = Tag {
            path,
            description: self.description.clone(),
            kind: self.kind,
            count: None,
            labels: None,
            scaled: self.scale != Decimal::ONE || !self.offset.is_zero(),
            unit: self.unit.clone(),
            range: self.range,
            deadband: self.deadband,
            stale_after: Some(stale_after),
            access: self.access,
            limits: self.limits.clone(),
        };
        let order = effective(self.order.or(defaults.order).unwrap_or_default(), self.kind);
        let scale = Scale::Linear { factor: self.scale, offset: self.offset };
        let format = Format { order, scale, ..Format::plain(self.kind) };
        let usual = if registers(self.kind) == 1 { WriteFunction::Single } else { WriteFunction::Multiple };
        let function = self.function.or(defaults.function).unwrap_or(usual);
        let settle = defaults.settle.unwrap_or_default();
        let point = Point { table: self.table, address: self.address, format, function, settle };
        Some(TagSpec { tag: Arc::new(tag), scan, source: Source::Modbus(point) })
    }
}

/// Registers that a value takes; 1 for a bool, which takes one bit.
pub(crate) fn registers(kind: Kind) -> u16 {
    match kind {
        Kind::Int32 | Kind::Uint32 | Kind::Float32 | Kind::Bcd32 => 2,
        Kind::Int48 | Kind::Uint48 => 3,
        Kind::Int64 | Kind::Uint64 | Kind::Float64 => 4,
        _ => 1,
    }
}

/// The order as far as it makes a difference: a bool has none, a single register no order of words.
fn effective(order: Order, kind: Kind) -> Order {
    match (kind, order) {
        (Kind::Bool, _) | (Kind::Int16 | Kind::Uint16, Order::ABCD | Order::CDAB) => Order::ABCD,
        (Kind::Int16 | Kind::Uint16, Order::BADC | Order::DCBA) => Order::BADC,
        (_, order) => order,
    }
}

/// The nearest double, as the decimal's own text reads.
fn double(number: Decimal) -> f64 {
    number.to_string().parse().unwrap_or(f64::NAN)
}
