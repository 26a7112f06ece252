//! Checks what a profile or site says of values in frames of CAN, and turns it into the tags of a device.

mod message;
mod names;

use std::{collections::HashMap, fmt::Write as _, sync::Arc, time::Duration};

use rust_decimal::Decimal;

use super::{
    can::{Command, Condition, Feedback, Key, Message, Point},
    dbc::{self, Dbc},
    raw::{
        Sentinel, TagTable, WriteTable,
        signal::{BitsTable, IdRange, MessageTable, Ranges, SignalTable, SignalWriteTable},
    },
    template::{Alike, check_access, check_limits, double},
};
use crate::{
    codec::{
        can::{Id, Place, Signal, Spec, j1939::Header},
        value::{Format, Scale},
    },
    config::{
        TagSpec,
        problem::{Findings, What, nearest},
        read::{At, Spot, millis},
    },
    model::{Access, Definition, Kind, Labels, Limits, Tag, TagPath},
};
pub(crate) use names::{Names, segment};

/// A tag of which all that does not depend on a DBC file or device was checked.
#[derive(Debug, Clone)]
pub(crate) struct SignalTemplate {
    pub(crate) name: String,
    /// Where its name was written.
    pub(crate) spot: Spot,
    table: Option<Box<SignalTable>>,
    /// Of a signal that nobody named: its message and place there.
    found: Option<(usize, usize)>,
    limits: Limits,
}

/// What a profile says of a bus.
#[derive(Debug, Clone, Default)]
pub(crate) struct Frames {
    pub(crate) dbc: Option<Arc<Dbc>>,
    pub(crate) names: Arc<Names>,
    pub(crate) ranges: Option<Ranges>,
    pub(crate) messages: Vec<At<MessageTable>>,
}

/// The device that tags are made for.
#[derive(Debug)]
pub(crate) struct Node<'a> {
    pub(crate) device: &'a str,
    pub(crate) spot: Spot,
    pub(crate) frames: &'a Frames,
    /// Its address on a J1939 bus.
    pub(crate) source: Option<u8>,
    pub(crate) bus: &'a Bus<'a>,
    pub(crate) stale_after: Option<Duration>,
}

/// What the connection lets through.
#[derive(Debug)]
pub(crate) struct Bus<'a> {
    pub(crate) name: &'a str,
    pub(crate) listen_only: bool,
    pub(crate) fd: bool,
    pub(crate) send: &'a [(Id, Id)],
    /// Our address on a J1939 bus.
    pub(crate) source: Option<u8>,
}

/// A problem that was noted.
struct Refused;

/// Where a signal is, and what it is, before the tag's own words.
struct Source {
    message: Arc<Message>,
    spec: Spec,
    conditions: Vec<Condition>,
    interval: Option<Duration>,
    facts: Facts,
}

/// What a DBC file says for people.
#[derive(Default)]
struct Facts {
    description: String,
    unit: String,
    range: Option<(f64, f64)>,
}

/// Checks one tag; `None` where it has problems.
pub(super) fn template(tag: &SignalTable, found: &mut Findings) -> Option<SignalTemplate> {
    let before = found.problems.len();
    let bare = [
        tag.frame.as_ref().map(|at| &at.spot),
        tag.bits.as_ref().map(|at| &at.spot),
        tag.r#type.as_ref().map(|at| &at.spot),
        tag.scale.as_ref().map(|at| &at.spot),
        tag.offset.as_ref().map(|at| &at.spot),
    ];
    if tag.signal.is_some() {
        for spot in bare.into_iter().flatten().filter(|spot| spot.is_written()) {
            let (with, allowed) = ("`signal`".to_owned(), "to leave it out: the DBC file says it".to_owned());
            found.problems.push(spot.problem(What::Conflict { with, allowed }));
        }
    } else if let Some(name) = &tag.name {
        let needed = [
            ("frame", tag.frame.is_some(), "the identifier of the frames, such as \"181\", or a `signal`"),
            ("bits", tag.bits.is_some(), "where in the payload the value stands, such as { start = 8 }"),
            ("type", tag.r#type.is_some(), "the data type, such as \"int16\""),
        ];
        for (key, is_there, allowed) in needed {
            let spot = name.spot.beside(key);
            if !is_there && !spot.is_refused(found) {
                found.problems.push(spot.problem(What::Missing { allowed: allowed.to_owned() }));
            }
        }
    }
    let plain = plain(tag);
    let limits = check_access(&plain, None, found);
    if let Some(kind) = tag.r#type.as_ref().filter(|_| tag.signal.is_none()) {
        let spec = spec(tag, tag.bits.as_ref()?, kind.value.0)?;
        match Signal::new(spec) {
            Ok(signal) => check_limits(&plain, &format(&signal), found),
            Err(unfit) => found.problems.push(kind.spot.problem(What::Unusable(unfit.to_string()))),
        }
    }
    if found.problems.len() > before {
        return None;
    }
    let name = tag.name.as_ref()?;
    Some(SignalTemplate {
        name: name.value.0.clone(),
        spot: name.spot.clone(),
        table: Some(Box::new(tag.clone())),
        found: None,
        limits,
    })
}

/// The same as far as it is the same for all protocols.
fn plain(tag: &SignalTable) -> TagTable {
    let write = tag.write.as_ref().map(|at| {
        let SignalWriteTable { min, max, timeout_ms, .. } = at.value.clone();
        At {
            value: WriteTable { min, max, timeout_ms, function: None, settle_ms: None },
            spot: at.spot.clone(),
        }
    });
    TagTable {
        name: tag.name.clone(),
        description: None,
        register: None,
        // A signal of a DBC file has its limits there.
        r#type: tag.r#type.clone().filter(|_| tag.signal.is_none()),
        byte_order: None,
        swap: None,
        count: None,
        length: None,
        encoding: None,
        padding: None,
        scale: tag.scale.clone(),
        offset: tag.offset.clone(),
        scaling: None,
        labels: None,
        not_available: None,
        unit: None,
        range: tag.range.clone(),
        deadband: None,
        scan_ms: None,
        stale_after_ms: None,
        access: tag.access.clone(),
        write,
    }
}

/// A signal as registers would hold it, for checks that they share.
fn format(signal: &Signal) -> Format {
    let Spec { factor, offset, .. } = *signal.spec();
    Format { scale: Scale::Linear { factor, offset }, ..Format::plain(signal.kind()) }
}

fn place(at: &At<BitsTable>, usual: u8) -> Option<Place> {
    let BitsTable { start, length, order } = &at.value;
    let length = length.as_ref().map_or(Some(usual), |at| u8::try_from(at.value.0).ok())?;
    Place::new(u16::try_from(start.as_ref()?.value.0).ok()?, length, order.as_ref()?.value.0)
}

/// A value that no DBC file describes.
fn spec(tag: &SignalTable, bits: &At<BitsTable>, kind: Kind) -> Option<Spec> {
    let usual =
        if kind == Kind::Bool { 1 } else { u8::try_from(Format::plain(kind).codec().width()).ok()? };
    let usual = if matches!(kind, Kind::Int8 | Kind::Uint8) { 8 } else { usual };
    Some(Spec {
        place: place(bits, usual)?,
        kind,
        factor: tag.scale.as_ref().map_or(Decimal::ONE, |at| at.value.0),
        offset: tag.offset.as_ref().map_or(Decimal::ZERO, |at| at.value.0),
        labels: None,
        not_available: Vec::new(),
        has_indicators: false,
    })
}

impl Frames {
    /// A template for every signal that `known` does not name.
    pub(crate) fn all(&self, known: &[SignalTemplate], spot: &Spot) -> Vec<SignalTemplate> {
        let Some(dbc) = &self.dbc else { return Vec::new() };
        let named = |tag: &SignalTemplate| self.names.signal(&tag.table.as_ref()?.signal.as_ref()?.value.0);
        let named = known.iter().filter_map(named).collect::<Vec<_>>();
        let signals = dbc.messages.iter().enumerate();
        let signals =
            signals.flat_map(|(place, message)| (0..message.signals.len()).map(move |at| (place, at)));
        let rest = signals.filter(|at| !named.contains(at)).filter_map(|at| {
            let name = self.names.tag(at)?;
            let limits = Limits::default();
            Some(SignalTemplate {
                name: name.to_owned(),
                spot: spot.clone(),
                table: None,
                found: Some(at),
                limits,
            })
        });
        rest.collect()
    }
}

impl SignalTemplate {
    fn is_writable(&self) -> bool {
        let access = self.table.as_ref().and_then(|table| table.access.as_ref());
        access.is_some_and(|access| access.value.0 == Access::ReadWrite)
    }

    /// Its place in the DBC file, where it has one; an error is noted.
    fn place(&self, frames: &Frames, found: &mut Findings) -> Result<Option<(usize, usize)>, Refused> {
        let written = self.table.as_ref().and_then(|table| table.signal.as_ref());
        let Some(written) = written else { return Ok(self.found) };
        if frames.dbc.is_none() {
            let allowed = "a signal only in a profile that names a `dbc`".to_owned();
            once(found, &written.spot, What::NotAllowed { allowed });
            return Err(Refused);
        }
        let place = frames.names.signal(&written.value.0);
        if place.is_none() {
            let known = frames.names.signals();
            let near = nearest(&written.value.0, known.iter().map(String::as_str));
            once(found, &written.spot, What::UnknownName { kind: "signal", nearest: near, known });
        }
        place.map(Some).ok_or(Refused)
    }
}

/// Makes the tags of a device.
pub(crate) fn instantiate(
    tags: &[SignalTemplate],
    node: &Node<'_>,
    alike: &mut Alike,
    found: &mut Findings,
) -> Vec<TagSpec<Arc<Point>>> {
    let mut messages = message::Messages::new(node, found);
    let names = tags.iter().map(|tag| (tag.name.as_str(), tag)).collect::<HashMap<_, _>>();
    let mut specs = Vec::new();
    for tag in tags {
        let Ok(place) = tag.place(node.frames, found) else { continue };
        let Some(source) = source(tag, place, node, &mut messages, found) else { continue };
        specs.extend(finish(tag, source, &names, node, alike, found));
    }
    specs
}

fn source(
    tag: &SignalTemplate,
    place: Option<(usize, usize)>,
    node: &Node<'_>,
    messages: &mut message::Messages<'_>,
    found: &mut Findings,
) -> Option<Source> {
    let Some((at, index)) = place else {
        let table = tag.table.as_ref()?;
        let id = table.frame.as_ref()?.value.0;
        let built = messages.bare(id, tag.is_writable(), &tag.spot, found)?;
        let spec = spec(table, table.bits.as_ref()?, table.r#type.as_ref()?.value.0)?;
        let (conditions, facts) = (Vec::new(), Facts::default());
        return Some(Source { message: built.message, spec, conditions, interval: built.interval, facts });
    };
    let message = node.frames.dbc.as_ref()?.messages.get(at)?;
    let signal = message.signals.get(index)?;
    let built = messages.named(at, tag.is_writable(), &tag.spot, found)?;
    let kind = signal.number.kind(signal.place.length())?;
    let labels = signal.labels.iter().map(|(number, word)| (*number, Arc::clone(word)));
    let spec = Spec {
        place: signal.place,
        kind,
        factor: signal.factor,
        offset: signal.offset,
        labels: (!signal.labels.is_empty()).then(|| Arc::new(Labels::new(labels))),
        not_available: Vec::new(),
        has_indicators: message.is_j1939 && signal.number == dbc::Number::Unsigned,
    };
    let (conditions, pages) = conditions(message, signal);
    let keeps = node.frames.ranges != Some(Ranges::Ignore);
    let facts = Facts {
        description: described(message, signal),
        unit: signal.unit.clone(),
        range: signal.range.filter(|_| keeps),
    };
    Some(Source {
        message: built.message,
        spec,
        conditions,
        interval: built.interval.map(|once| once * pages),
        facts,
    })
}

/// The comment of a signal, else that of its message, with its number in J1939.
fn described(message: &dbc::Message, signal: &dbc::Signal) -> String {
    let mut text = if signal.comment.is_empty() { message.comment.clone() } else { signal.comment.clone() };
    if let Some(spn) = signal.spn {
        let gap = if text.is_empty() { "" } else { " " };
        // Writing to a text does not fail.
        let _written = write!(text, "{gap}(SPN {spn})");
    }
    text
}

/// What must hold for a signal to be in a frame, and in how many frames it is once where all pages take turns.
fn conditions(message: &dbc::Message, signal: &dbc::Signal) -> (Vec<Condition>, u32) {
    let (mut conditions, mut pages) = (Vec::new(), 1_u32);
    let mut next = signal.selection.as_ref();
    while let Some(selection) = next {
        let Some(by) = message.signals.get(selection.by) else { break };
        let beside = message.signals.iter().filter_map(|other| other.selection.as_ref());
        let mut ranges =
            beside.filter(|other| other.by == selection.by).map(|other| &other.ranges).collect::<Vec<_>>();
        ranges.sort_unstable();
        ranges.dedup();
        pages = pages.saturating_mul(u32::try_from(ranges.len()).unwrap_or(u32::MAX).max(1));
        conditions.push(Condition { place: by.place, ranges: selection.ranges.clone() });
        // A file whose multiplexers select each other was mended when it was read.
        next = by.selection.as_ref().filter(|_| conditions.len() <= message.signals.len());
    }
    conditions.reverse();
    (conditions, pages)
}

fn finish(
    tag: &SignalTemplate,
    source: Source,
    names: &HashMap<&str, &SignalTemplate>,
    node: &Node<'_>,
    alike: &mut Alike,
    found: &mut Findings,
) -> Option<TagSpec<Arc<Point>>> {
    let Source { message, mut spec, conditions, interval, facts } = source;
    let table = tag.table.as_deref();
    if let Some(at) = table.and_then(|table| table.labels.as_ref()) {
        let words = at.value.0.iter().map(|(number, word)| (*number, Arc::from(word.value.as_str())));
        spec.labels = Some(Arc::new(Labels::new(words)));
    }
    spec.not_available = not_available(table, &spec, found);
    let signal = match Signal::new(spec) {
        Ok(signal) => signal,
        Err(unfit) => {
            once(found, &tag.spot, What::Unusable(unfit.to_string()));
            return None;
        }
    };
    if let Some(sending) = message.sending.as_ref().filter(|_| tag.is_writable())
        && signal.place().end() > sending.initial.len()
    {
        let with =
            format!("the {} bytes of message {}, which end before it", sending.initial.len(), message.name);
        once(found, &tag.spot.beside("access"), What::Conflict { with, allowed: "\"read\"".to_owned() });
        return None;
    }
    let command = match table.filter(|_| tag.is_writable()) {
        Some(table) => Some(command(tag, table, &signal, names, found)?),
        None => None,
    };
    let path = TagPath::parse(&format!("{}/{}", node.device, tag.name)).ok()?;
    let written = table.and_then(|table| table.stale_after_ms.as_ref()).map(|at| millis(at.value.0));
    let definition = Definition {
        description: description(table, &facts, &signal),
        kind: signal.kind(),
        count: None,
        labels: signal.spec().labels.clone().filter(|_| !signal.is_scaled()),
        scaled: signal.is_scaled(),
        unit: match table.and_then(|table| table.unit.as_ref()) {
            Some(at) => Some(at.value.0.clone()),
            None => Some(facts.unit).filter(|unit| !unit.is_empty()),
        },
        range: match table.and_then(|table| table.range.as_ref()) {
            Some(at) => Some((double(at.value.low), double(at.value.high))),
            None => facts.range,
        },
        deadband: table.and_then(|table| table.deadband.as_ref()).map(|at| double(at.value.0)),
        stale_after: written.or(interval.map(|interval| interval * 3)).or(node.stale_after),
        access: if command.is_some() { Access::ReadWrite } else { Access::ReadOnly },
        limits: limits(&tag.limits, facts.range, &signal),
    };
    let definition = alike.definition(&tag.name, definition);
    let point = Point { message, signal: Arc::new(signal), conditions, command };
    Some(TagSpec { tag: Arc::new(Tag { path, definition }), source: Arc::new(point) })
}

/// Words of scaled numbers are for raw ones, which nobody sees: they stand in the description.
fn description(table: Option<&SignalTable>, facts: &Facts, signal: &Signal) -> String {
    let own = table.and_then(|table| table.description.as_ref()).map(|at| at.value.0.clone());
    let mut text = own.unwrap_or_else(|| facts.description.clone());
    if let Some(labels) = signal.spec().labels.as_ref().filter(|_| signal.is_scaled()) {
        let gap = if text.is_empty() { "" } else { " " };
        let _written = write!(text, "{gap}(raw {labels})");
    }
    text
}

/// What may be written: within what the tag says, else within the range of the DBC file.
fn limits(own: &Limits, range: Option<(f64, f64)>, signal: &Signal) -> Limits {
    let end =
        |end: f64| Decimal::from_str_exact(&end.to_string()).ok().filter(|_| signal.kind() != Kind::Bool);
    let (low, high) = range.map(|(low, high)| (end(low), end(high))).unwrap_or_default();
    Limits { min: own.min.or(low), max: own.max.or(high), timeout: own.timeout }
}

fn not_available(table: Option<&SignalTable>, spec: &Spec, found: &mut Findings) -> Vec<u64> {
    let Some(at) = table.and_then(|table| table.not_available.as_ref()) else { return Vec::new() };
    let bare = Spec { factor: Decimal::ONE, offset: Decimal::ZERO, ..spec.clone() };
    let Ok(signal) = Signal::new(bare) else { return Vec::new() };
    let most = u64::MAX >> (64 - spec.place.length());
    let mut patterns = Vec::new();
    for at in &at.value.0 {
        let pattern = match at.value {
            Sentinel::Pattern(bits) => Some(bits).filter(|bits| *bits <= most),
            Sentinel::Number(number) if number.fract().is_zero() && !spec.kind.is_float() => {
                i64::try_from(number).ok().and_then(|number| signal.raw(number))
            }
            Sentinel::Number(_) | Sentinel::Float(_) => None,
        };
        if let Some(pattern) = pattern {
            patterns.push(pattern);
            continue;
        }
        let allowed =
            format!("a raw number of {} bits, or a bit pattern up to \"0x{most:X}\"", spec.place.length());
        once(found, &at.spot, What::NotAllowed { allowed });
    }
    patterns
}

fn command(
    tag: &SignalTemplate,
    table: &SignalTable,
    signal: &Signal,
    names: &HashMap<&str, &SignalTemplate>,
    found: &mut Findings,
) -> Option<Command> {
    let access = table.access.as_ref()?;
    if signal.is_constant() {
        let allowed = "\"read\": a signal of factor 0 cannot be written".to_owned();
        once(found, &access.spot, What::Conflict { with: "factor 0 in the DBC file".to_owned(), allowed });
        return None;
    }
    let write = table.write.as_ref().map(|at| &at.value);
    let Some(feedback) = write.and_then(|write| write.feedback.as_ref()) else {
        return Some(Command { feedback: None });
    };
    let name = &feedback.value.0;
    if name == &tag.name {
        let allowed = "another tag: nothing but our own frame reports it".to_owned();
        once(found, &feedback.spot, What::NotAllowed { allowed });
        return None;
    }
    if !names.contains_key(name.as_str()) {
        let mut known = names.keys().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        known.sort_unstable();
        let near = nearest(name, known.iter().map(String::as_str));
        once(found, &feedback.spot, What::UnknownName { kind: "tag", nearest: near, known });
        return None;
    }
    let within = millis(write?.confirm_ms.as_ref()?.value.0);
    Some(Command { feedback: Some(Feedback { tag: name.clone(), within }) })
}

/// Notes a problem once for all devices of a profile.
fn once(found: &mut Findings, spot: &Spot, what: What) {
    let problem = spot.problem(what);
    if !found.problems.contains(&problem) {
        found.problems.push(problem);
    }
}

impl Bus<'_> {
    fn may_send(&self, id: Id) -> bool {
        self.send.iter().any(|(first, last)| (*first..=*last).contains(&id))
    }
}

/// The ranges as pairs.
pub(crate) fn pairs(ranges: &[At<IdRange>]) -> Vec<(Id, Id)> {
    ranges.iter().map(|at| (at.value.first, at.value.last)).collect()
}

/// How frames of a message of a DBC file are known; `None` for a parameter group of which nobody says who sends it.
fn key(message: &dbc::Message, source: Option<u8>) -> Option<Key> {
    /// The address that nobody has (SAE J1939-81): in DBC files it stands for any.
    const NOBODY: u8 = 0xFE;
    match Header::of(message.id).filter(|_| message.is_j1939) {
        Some(header) => {
            let source = source.or(Some(header.source).filter(|source| *source != NOBODY))?;
            Some(Key::Group { pgn: header.pgn, source })
        }
        None => Some(Key::Id(message.id)),
    }
}
