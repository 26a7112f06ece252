//! Checks the tags of a profile or site, and turns them into the tags of a device.

use std::{collections::HashMap, sync::Arc, time::Duration};

use rust_decimal::Decimal;

use super::{
    format::Draft,
    modbus::{Point, Table, WriteFunction},
    place,
    raw::{AnyTag, Protocol, RegisterTable, TagTable, WriteTable},
    signal::{self, SignalTemplate},
    topic::{self, TopicTemplate},
};
use crate::{
    codec::value::{Format, Order, Scale},
    config::{
        Polled, TagSpec,
        problem::{Findings, What},
        raw::{ScanMs, StaleMs},
        read::{At, List, Spot, millis},
    },
    model::{Access, Definition, Kind, Limits, Refusal, Tag, TagPath},
};

/// A checked tag that lacks only what its device decides.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    pub(crate) name: String,
    /// Where its name was written.
    pub(crate) spot: Spot,
    description: String,
    pub(super) table: Table,
    pub(super) address: u16,
    pub(super) draft: Draft,
    unit: Option<String>,
    range: Option<(f64, f64)>,
    deadband: Option<f64>,
    scan: Option<Duration>,
    stale_after: Option<Duration>,
    pub(super) access: Access,
    limits: Limits,
    function: Option<WriteFunction>,
    settle: Option<Duration>,
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

/// What the tags of each name are on the devices so far: those of one profile are alike, and it is kept once.
#[derive(Debug, Default)]
pub(crate) struct Alike(HashMap<String, Known>);

#[derive(Debug, Default)]
struct Known {
    definitions: Vec<Arc<Definition>>,
    points: Vec<Arc<Point>>,
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

/// Checked tags, by the kind of their sources.
#[derive(Debug, Clone, Default)]
pub(crate) struct Templates {
    pub(crate) registers: Vec<Template>,
    pub(crate) topics: Vec<TopicTemplate>,
    pub(crate) signals: Vec<SignalTemplate>,
}

impl Templates {
    pub(crate) fn is_empty(&self) -> bool {
        self.registers.is_empty() && self.topics.is_empty() && self.signals.is_empty()
    }

    /// Where those stand that are of another protocol.
    pub(crate) fn strange(&self, protocol: Protocol) -> Vec<&Spot> {
        let registers = self.registers.iter().map(|tag| &tag.spot).filter(|_| protocol != Protocol::Modbus);
        let topics = self.topics.iter().map(|tag| &tag.spot).filter(|_| protocol != Protocol::Mqtt);
        let signals = self.signals.iter().map(|tag| &tag.spot).filter(|_| protocol != Protocol::Can);
        registers.chain(topics).chain(signals).collect()
    }

    /// These, and in the place of those with the same name `own`.
    pub(crate) fn merged(self, own: Self) -> Self {
        Self {
            registers: merged(self.registers, own.registers, |tag| &tag.name),
            topics: merged(self.topics, own.topics, |tag| &tag.name),
            signals: merged(self.signals, own.signals, |tag| &tag.name),
        }
    }
}

/// `list`, and in the place of those with the same name `own`.
fn merged<T>(mut list: Vec<T>, own: Vec<T>, name: impl Fn(&T) -> &String) -> Vec<T> {
    let places: HashMap<String, usize> =
        list.iter().enumerate().map(|(index, tag)| (name(tag).clone(), index)).collect();
    for tag in own {
        match places.get(name(&tag)).and_then(|index| list.get_mut(*index)) {
            Some(known) => *known = tag,
            None => list.push(tag),
        }
    }
    list
}

/// Checks a list of tags; those with problems are left out.
pub(crate) fn templates(tags: Option<&At<List<AnyTag>>>, found: &mut Findings) -> Templates {
    let mut checked = Templates::default();
    let mut names: HashMap<&str, &Spot> = HashMap::new();
    for tag in tags.iter().flat_map(|tags| &tags.value.0) {
        let mut own = Templates::default();
        match &tag.value {
            AnyTag::Register(tag) => own.registers.extend(template(tag, found)),
            AnyTag::Topic(tag) => own.topics.extend(topic::template(tag, found)),
            AnyTag::Signal(tag) => own.signals.extend(signal::template(tag, found)),
        }
        if let Some(name) = tag.value.name() {
            if let Some(first) = names.get(name.value.0.as_str()) {
                let allowed = "one tag a name".to_owned();
                found.problems.push(name.spot.problem(What::Duplicate { first: first.reference(), allowed }));
                continue;
            }
            names.insert(&name.value.0, &name.spot);
        }
        checked.registers.extend(own.registers);
        checked.topics.extend(own.topics);
        checked.signals.extend(own.signals);
    }
    checked
}

fn template(tag: &TagTable, found: &mut Findings) -> Option<Template> {
    let register = tag.register.as_ref().map(|at| &at.value.0);
    let draft = tag.r#type.as_ref().map(|kind| {
        let draft = Draft::new(tag, kind.value.0, found);
        place::check(tag, kind, &draft.format, found);
        draft
    });
    let limits = check_access(tag, register, found);
    if let Some(Draft { format, .. }) = &draft {
        check_limits(tag, format, found);
        check_function(tag, format, found);
    }
    let name = tag.name.as_ref()?;
    let register = register?;
    let write = tag.write.as_ref().map(|at| &at.value);
    Some(Template {
        name: name.value.0.clone(),
        spot: name.spot.clone(),
        description: tag.description.as_ref().map(|at| at.value.0.clone()).unwrap_or_default(),
        table: register.table()?.value,
        address: register.address()?.value,
        draft: draft?,
        unit: tag.unit.as_ref().map(|at| at.value.0.clone()),
        range: tag.range.as_ref().map(|at| (double(at.value.low), double(at.value.high))),
        deadband: tag.deadband.as_ref().map(|at| double(at.value.0)),
        scan: tag.scan_ms.as_ref().map(|at| millis(at.value.0)),
        stale_after: tag.stale_after_ms.as_ref().map(|at| millis(at.value.0)),
        access: tag.access.as_ref()?.value.0,
        limits,
        function: write.and_then(|write| write.function.as_ref()).map(|at| at.value.0),
        settle: write.and_then(|write| write.settle_ms.as_ref()).map(|at| millis(at.value.0)),
    })
}

/// Access against the table, and `write` against the access.
pub(super) fn check_access(tag: &TagTable, register: Option<&RegisterTable>, found: &mut Findings) -> Limits {
    let Some(access) = &tag.access else { return Limits::default() };
    let writable = access.value.0 == Access::ReadWrite;
    if let Some(table) = register.and_then(RegisterTable::table)
        && writable
        && !table.value.is_writable()
    {
        access.conflict(found, format!("table = \"{}\"", table.value.name()), "\"read\"");
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
    let number = tag.r#type.as_ref().is_some_and(|kind| !matches!(kind.value.0, Kind::Bool | Kind::Text));
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

/// `min` and `max` against each other, against what the device's type can hold, and against `range`.
pub(super) fn check_limits(tag: &TagTable, format: &Format, found: &mut Findings) {
    let Some(WriteTable { min, max, .. }) = tag.write.as_ref().map(|at| &at.value) else { return };
    if let (Some(min), Some(max)) = (min, max)
        && min.value.0 > max.value.0
    {
        min.conflict(found, format!("max = {}", max.value.0), format!("at most {}", max.value.0));
    }
    if matches!(format.kind, Kind::Bool | Kind::Text) {
        return;
    }
    let single = Format { count: None, ..format.clone() }.codec();
    for at in [min, max].into_iter().flatten() {
        if let Err(Refusal::RawRange { kind, min, max, .. }) = single.accept(&at.value.0.to_string()) {
            let at_scale = if format.scale == Scale::NONE { "" } else { " at this scale" };
            at.conflict(found, format!("type = \"{kind}\"{at_scale}"), format!("{min} to {max}"));
        } else if let Some(range) = tag.range.as_ref().map(|at| &at.value)
            && (at.value.0 < range.low || at.value.0 > range.high)
        {
            let note = format!(
                "it lies outside the range {} to {}, so what is written there reads as bad",
                range.low, range.high
            );
            at.warn(found, note);
        }
    }
}

/// A function that writes one cell cannot write a value of several: two frames would not be one write.
fn check_function(tag: &TagTable, format: &Format, found: &mut Findings) {
    let function = tag.write.as_ref().and_then(|write| write.value.function.as_ref());
    let table = tag.register.as_ref().and_then(|at| at.value.0.table());
    if let (Some(function), Some(table)) = (function, table)
        && function.value.0 == WriteFunction::Single
        && place::cells(table.value, format) > 1
    {
        let unit = if table.value.is_bits() { "bits" } else { "registers" };
        let taken = place::cells(table.value, format);
        let with = format!("type = \"{}\", which takes {taken} {unit} here", format.kind);
        function.conflict(found, with, "\"multiple\"");
    }
}

impl Template {
    /// The tag of one device; `None` where its path is none, which checked names never make.
    pub(crate) fn instantiate(
        &self,
        device: &str,
        defaults: Defaults,
        alike: &mut Alike,
        found: &mut Findings,
    ) -> Option<TagSpec<Polled>> {
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
        let format = self.draft.format(defaults.order);
        let definition = Definition {
            description: self.description.clone(),
            kind: format.kind,
            count: format.count,
            labels: format.labels.clone(),
            scaled: format.scale != Scale::NONE,
            unit: self.unit.clone(),
            range: self.range,
            deadband: self.deadband,
            stale_after: Some(stale_after),
            access: self.access,
            limits: self.limits.clone(),
        };
        let single = place::cells(self.table, &format) == 1;
        let usual = if single { WriteFunction::Single } else { WriteFunction::Multiple };
        let function = self.function.or(defaults.function).unwrap_or(usual);
        let settle = self.settle.or(defaults.settle).unwrap_or_default();
        let point = Point { table: self.table, address: self.address, format, function, settle };
        let (definition, point) = alike.share(&self.name, definition, point);
        Some(TagSpec { tag: Arc::new(Tag { path, definition }), source: Polled { point, scan } })
    }
}

impl Alike {
    pub(super) fn definition(&mut self, name: &str, definition: Definition) -> Arc<Definition> {
        once(&mut self.0.entry(name.to_owned()).or_default().definitions, definition)
    }

    fn share(&mut self, name: &str, definition: Definition, point: Point) -> (Arc<Definition>, Arc<Point>) {
        let Known { definitions, points } = self.0.entry(name.to_owned()).or_default();
        (once(definitions, definition), once(points, point))
    }
}

/// The same that is there already, if it is.
fn once<T: PartialEq>(those: &mut Vec<Arc<T>>, new: T) -> Arc<T> {
    if let Some(same) = those.iter().find(|known| ***known == new) {
        return same.clone();
    }
    let new = Arc::new(new);
    those.push(new.clone());
    new
}

/// The nearest double, as the decimal's own text reads.
pub(super) fn double(number: Decimal) -> f64 {
    number.to_string().parse().unwrap_or(f64::NAN)
}
