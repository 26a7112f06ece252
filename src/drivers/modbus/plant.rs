//! What a driver knows of its units, tags and requests. It outlives sessions.
//!
//! What is learned of a device is kept here: addresses that it refuses, functions that it does not have.

mod aside;
mod hunt;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use tokio_modbus::{Request, Response};

use super::{
    Unit,
    health::TIMEOUTS,
    holes::Holes,
    plan::{Need, Read, Why, plan},
    step::Steps,
};
use crate::{
    codec::value::{Codec, Fault, Format, Raw},
    model::{DeviceId, Quality, Reason, Refusal, TagId, Update, Value, When},
    profile::modbus::{Reads, Region, Table, WriteFunction, Writes},
};

/// Tags of a unit that are looked at for one whose answer cannot be mistaken.
const SINGLE: usize = 16;

#[derive(Debug)]
pub(super) struct Plant {
    pub(super) units: Vec<Member>,
    pub(super) entries: Vec<Entry>,
    pub(super) classes: Vec<Class>,
    /// Tags that no request can read.
    pub(super) impossible: Vec<(TagId, Why)>,
    pub(super) holes: Holes,
    pub(super) steps: Steps,
    /// What lies between tags and must not be read along, by units.
    gaps: Vec<(usize, Region)>,
    /// Requests that are not asked in their rounds: each is for a hole, or needs a function that its unit does not have.
    idle: Vec<(usize, Arc<Block>)>,
    /// Functions that units said they do not have, by the table that is read with it. One request stands for each, and is
    /// a hole.
    closed: BTreeSet<(usize, Table)>,
    /// What was asked when a table was closed last.
    blamed: BTreeMap<(usize, Table), Region>,
    /// Where the entry of each tag is, by tag.
    index: Box<[(TagId, u32)]>,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) device: DeviceId,
    pub(super) unit_id: u8,
    /// Whether it stands for all devices at once: nothing answers.
    pub(super) broadcast: bool,
    reads: Reads,
    pub(super) writes: Writes,
    pub(super) learned: Learned,
}

/// What a unit's refusals taught.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Learned {
    /// Coils are written by the other kind of function than the one preferred.
    pub(super) other_coil: bool,
    /// Registers are.
    pub(super) other_register: bool,
    /// It has no mask write (FC 22).
    pub(super) no_mask: bool,
}

/// One tag.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: TagId,
    /// Which of [`Plant::units`] has it.
    pub(super) unit: usize,
    pub(super) table: Table,
    pub(super) address: u16,
    /// Kept once for all tags of one format.
    codec: Arc<Codec>,
    /// The kind of function that it is preferably written by.
    pub(super) function: WriteFunction,
    pub(super) settle: Duration,
    range: Option<Box<Range>>,
    /// Whether the last word of the session on it was good.
    pub(super) good: bool,
    /// When its last value was asked for.
    asked: Option<Instant>,
}

#[derive(Debug)]
struct Range {
    low: f64,
    high: f64,
    detail: Arc<str>,
}

/// Requests of one unit that are due together.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) unit: usize,
    pub(super) scan: Duration,
    pub(super) blocks: Vec<Arc<Block>>,
    /// Halves of refused requests that are yet to be answered.
    halves: usize,
    /// Whether the requests were planned anew around its holes: that is tried once.
    replanned: bool,
    /// What was known not to be answered as the last hunt for that was over: then it is tried once more.
    found: usize,
}

/// One request, and the entries that its answer holds.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) unit: usize,
    read: Read,
    pub(super) items: Vec<Item>,
    /// Time-outs in a row.
    misses: AtomicU32,
    /// How often its unit had answered when its gateway last heard nothing of it.
    unheard: AtomicU64,
    /// Whether anything was ever answered to it.
    heard: AtomicBool,
    /// Where it is half of a request that was refused or not answered, and which half, as a bit.
    parting: Option<(Arc<Parting>, u32)>,
}

/// Two halves of one request.
#[derive(Debug)]
struct Parting {
    /// What lies between them.
    gap: Option<Region>,
    /// Which of them were answered: a bit each.
    answered: AtomicU32,
}

/// What became of a request that the device did not answer as a whole.
#[derive(Debug)]
pub(super) enum Parts {
    Halves([Arc<Block>; 2]),
    /// It cannot be parted: what it asks for does not exist.
    One,
    /// It is asked no more.
    Gone,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub(super) entry: usize,
    pub(super) offset: u16,
}

/// What a read brought.
#[derive(Debug)]
pub(super) enum Data {
    Bits(Vec<bool>),
    Words(Vec<u16>),
}

impl Plant {
    pub(super) fn new(units: &[Unit]) -> Self {
        let members = units.iter().map(|unit| Member {
            device: unit.device,
            unit_id: unit.unit_id,
            broadcast: unit.broadcast,
            reads: unit.dialect.reads.clone(),
            writes: unit.dialect.writes,
            learned: Learned::default(),
        });
        let mut codecs = HashMap::new();
        let mut entries = Vec::with_capacity(units.iter().map(|unit| unit.tags.len()).sum());
        for (at, unit) in units.iter().enumerate() {
            entries.extend(unit.tags.iter().map(|polled| Entry::new(at, polled, &mut codecs)));
        }
        let scans = units.iter().flat_map(|unit| unit.tags.iter().map(|polled| polled.scan));
        let mut index: Box<[_]> = entries.iter().zip(0..).map(|(entry, at)| (entry.id, at)).collect();
        index.sort_unstable();
        let mut plant = Self {
            units: members.collect(),
            entries,
            classes: Vec::new(),
            impossible: Vec::new(),
            holes: Holes::default(),
            steps: Steps::default(),
            gaps: Vec::new(),
            idle: Vec::new(),
            closed: BTreeSet::new(),
            blamed: BTreeMap::new(),
            index,
        };
        let polled = plant.entries.iter().zip(scans).filter(|(entry, _)| !plant.is_broadcast(entry.unit));
        let needs: Vec<_> = polled.map(|(entry, scan)| entry.need(scan)).collect();
        let reads: Vec<_> = plant.units.iter().map(|unit| unit.reads.clone()).collect();
        let planned = plan(&needs, &reads);
        plant.impossible = planned.impossible;
        plant.classes = planned
            .classes
            .into_iter()
            .map(|class| Class {
                unit: class.unit,
                scan: class.scan,
                blocks: plant.blocks(class.unit, class.reads),
                halves: 0,
                replanned: false,
                found: 0,
            })
            .collect();
        plant
    }

    pub(super) fn find(&self, tag: TagId) -> Option<usize> {
        let at = self.index.binary_search_by_key(&tag, |(own, _)| *own).ok()?;
        self.index.get(at).and_then(|(_, entry)| usize::try_from(*entry).ok())
    }

    pub(super) fn is_broadcast(&self, unit: usize) -> bool {
        self.units.get(unit).is_some_and(|member| member.broadcast)
    }

    /// The request that reads one tag, and what lies in its cells; an error says why it must not be read.
    pub(super) fn alone(&self, at: usize) -> Result<Block, String> {
        let entry = self.entries.get(at).ok_or_else(|| "no such tag".to_owned())?;
        if let Some((_, why)) = self.impossible.iter().find(|(tag, _)| *tag == entry.id) {
            return Err(why.to_string());
        }
        let inside =
            self.sharers(at).into_iter().filter_map(|(entry, offset)| Some(Item { entry, offset: offset? }));
        let items = std::iter::once(Item { entry: at, offset: 0 }).chain(inside).collect();
        let read = Read { table: entry.table, start: entry.address, count: entry.count(), tags: Vec::new() };
        Ok(Block::new(entry.unit, read, items))
    }

    /// What a broadcast to one tag's cells reaches: the entries of other units that have some of them.
    pub(super) fn reached(&self, at: usize) -> Vec<usize> {
        let Some(own) = self.entries.get(at) else { return Vec::new() };
        let (first, last) = own.span();
        let is_reached = |entry: &Entry| {
            let (start, end) = entry.span();
            entry.table == own.table && start <= last && end >= first && !self.is_broadcast(entry.unit)
        };
        self.entries.iter().enumerate().filter(|(_, entry)| is_reached(entry)).map(|(at, _)| at).collect()
    }

    pub(super) fn unit_id(&self, unit: usize) -> u8 {
        self.units.get(unit).map(|member| member.unit_id).unwrap_or_default()
    }

    pub(super) fn is_in_step(&self, unit: usize) -> bool {
        self.steps.is_in_step(self.unit_id(unit))
    }

    /// Until when nothing is asked of a unit.
    pub(super) fn rests(&self, unit: usize, now: Instant) -> Option<Instant> {
        self.steps.rests(self.unit_id(unit), now)
    }

    /// Whether there is a request that can probe a unit.
    pub(super) fn has_probe(&self, unit: usize) -> bool {
        self.classes.iter().any(|class| class.unit == unit && !class.blocks.is_empty())
            || self.idle.iter().any(|(_, block)| block.unit == unit)
    }

    /// The request that probes a unit, and its class: another one each time, since one alone may be what the device chokes
    /// on. Where none is asked in its rounds, one of those that are not; where the unit is out of step, one whose answer
    /// proves something if there is such.
    pub(super) fn probe(&self, unit: usize, failures: u32) -> Option<(usize, Arc<Block>)> {
        let classes = self.classes.iter().enumerate().filter(|(_, class)| class.unit == unit);
        let mut all: Vec<_> = classes
            .flat_map(|(at, class)| class.blocks.iter().map(move |block| (at, block.clone())))
            .collect();
        if all.is_empty() {
            let idle = self.idle.iter().filter(|(_, block)| block.unit == unit);
            all.extend(idle.cloned());
        }
        let unit_id = self.unit_id(unit);
        if !self.steps.is_in_step(unit_id) {
            // What is usually answered tells soonest.
            if all.iter().any(|(_, block)| block.is_sound()) {
                all.retain(|(_, block)| block.is_sound());
            }
            let proves = |block: &Block| self.steps.proves(unit_id, &block.request());
            let whole: Vec<_> = all.iter().filter(|(_, block)| proves(block)).cloned().collect();
            if whole.is_empty() {
                // A single tag, maybe.
                let items =
                    all.iter().flat_map(|(class, block)| block.items.iter().map(|item| (*class, item.entry)));
                let shown = |entry: &Entry| self.steps.proves(unit_id, &entry.request());
                let single = items.filter(|(_, at)| self.entries.get(*at).is_some_and(shown)).take(SINGLE);
                if let Some((class, Ok(block))) =
                    single.map(|(class, at)| (class, self.alone(at))).find(|(_, block)| block.is_ok())
                {
                    return Some((class, Arc::new(block)));
                }
            } else {
                all = whole;
            }
        }
        let nth = usize::try_from(failures).ok()?.checked_rem(all.len())?;
        all.get(nth).cloned()
    }

    /// The entries that share cells with one, and where in its cells each begins that lies wholly in them.
    pub(super) fn sharers(&self, at: usize) -> Vec<(usize, Option<u16>)> {
        let Some(own) = self.entries.get(at) else { return Vec::new() };
        let (first, last) = own.span();
        let others = self.entries.iter().enumerate().filter(|(other, entry)| {
            let (start, end) = entry.span();
            *other != at
                && (entry.unit, entry.table) == (own.unit, own.table)
                && start <= last
                && end >= first
        });
        let inside = |entry: &Entry| {
            let (_, end) = entry.span();
            entry.address.checked_sub(first).filter(|_| end <= last)
        };
        others.map(|(other, entry)| (other, inside(entry))).collect()
    }

    fn blocks(&self, unit: usize, reads: Vec<Read>) -> Vec<Arc<Block>> {
        reads.into_iter().map(|read| Arc::new(self.block(unit, read))).collect()
    }

    fn block(&self, unit: usize, read: Read) -> Block {
        let item = |&(tag, offset): &(TagId, u16)| Some(Item { entry: self.find(tag)?, offset });
        let items = read.tags.iter().filter_map(item).collect();
        Block::new(unit, read, items)
    }
}

impl Class {
    /// Whether halves of a request are yet to be answered.
    fn is_hunted(&self) -> bool {
        self.blocks.iter().any(|block| block.is_open_half())
    }
}

impl Block {
    fn new(unit: usize, read: Read, items: Vec<Item>) -> Self {
        Self {
            unit,
            read,
            items,
            misses: AtomicU32::new(0),
            unheard: AtomicU64::new(u64::MAX),
            heard: AtomicBool::new(false),
            parting: None,
        }
    }

    pub(super) fn table(&self) -> Table {
        self.read.table
    }

    pub(super) fn region(&self) -> Region {
        self.read.region()
    }

    pub(super) fn request(&self) -> Request<'static> {
        let Read { table, start, count, .. } = self.read;
        request(table, start, count)
    }

    /// Nothing answered it: how often in a row that is.
    pub(super) fn missed(&self) -> u32 {
        self.misses.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    pub(super) fn answered(&self) {
        self.heard.store(true, Ordering::Relaxed);
        self.forgive();
    }

    /// What it missed does not count: its unit was silent.
    pub(super) fn forgive(&self) {
        self.misses.store(0, Ordering::Relaxed);
    }

    /// Whether so many requests for it in a row, of which none was answered, say that something in it is never answered.
    /// Of what was answered before they could be lost by chance.
    pub(super) fn is_silent(&self, misses: u32) -> bool {
        misses >= if self.was_heard() { 3 * TIMEOUTS } else { TIMEOUTS }
    }

    /// Whether silence to it is no surprise.
    pub(super) fn is_suspect(&self) -> bool {
        self.is_open_half() || self.misses.load(Ordering::Relaxed) >= TIMEOUTS
    }

    /// Whether it is half of a request and not answered yet.
    pub(super) fn is_open_half(&self) -> bool {
        self.parting.is_some() && !self.was_heard()
    }

    /// Whether it is usually answered.
    fn is_sound(&self) -> bool {
        self.was_heard() && !self.is_suspect()
    }

    fn was_heard(&self) -> bool {
        self.heard.load(Ordering::Relaxed)
    }

    /// It was answered with what it asked for.
    pub(super) fn filled(&self) {
        self.unheard.store(u64::MAX, Ordering::Relaxed);
    }

    /// A gateway heard nothing of the unit to it; whether the unit, which answered so often by now, answered to others since
    /// that was so before.
    pub(super) fn unheard(&self, answers: u64) -> bool {
        let before = self.unheard.swap(answers, Ordering::Relaxed);
        before < answers
    }
}

impl Entry {
    fn new<'a>(unit: usize, polled: &'a super::Polled, codecs: &mut HashMap<&'a Format, Arc<Codec>>) -> Self {
        let point = &polled.point;
        let codec = codecs.entry(&point.format).or_insert_with(|| Arc::new(point.format.codec()));
        let range = polled.range.map(|(low, high)| {
            let detail = format!("outside {low} to {high}").into();
            Box::new(Range { low, high, detail })
        });
        Self {
            id: polled.id,
            unit,
            table: point.table,
            address: point.address,
            codec: codec.clone(),
            function: point.function,
            settle: point.settle,
            range,
            good: false,
            asked: None,
        }
    }

    fn need(&self, scan: Duration) -> Need {
        // A scan of no time would never leave the line alone.
        let scan = scan.max(Duration::from_millis(1));
        let (table, address, count) = (self.table, self.address, self.count());
        Need { tag: self.id, unit: self.unit, scan, table, address, count }
    }

    /// First and last address.
    fn span(&self) -> (u16, u16) {
        (self.address, self.address.saturating_add(self.count().saturating_sub(1)))
    }

    /// What reads it alone.
    fn request(&self) -> Request<'static> {
        request(self.table, self.address, self.count())
    }

    /// What a write of `value` carries; `None` where the table cannot be written.
    pub(super) fn encode(&self, value: &Value) -> Option<Result<Raw, Refusal>> {
        match self.table {
            Table::Discrete | Table::Input => None,
            Table::Coil => Some(self.codec.encode_bits(value)),
            Table::Holding => Some(self.codec.encode(value)),
        }
    }

    /// The value that begins `offset` behind the start of `data`.
    pub(super) fn decode(&self, data: &Data, offset: u16) -> Result<Value, Fault> {
        let start = usize::from(offset);
        let end = start + usize::from(self.count());
        match data {
            Data::Bits(bits) => self.codec.decode_bits(bits.get(start..end).unwrap_or_default()),
            Data::Words(words) => self.codec.decode(words.get(start..end).unwrap_or_default()),
        }
    }

    /// What a decoded value means for the tag; whether it is good is kept. `None` for a value that was asked for before the
    /// last one was: where many requests are on the wire answers may come in another order.
    pub(super) fn update(&mut self, value: Result<Value, Fault>, at: Instant) -> Option<Update> {
        if self.asked.is_some_and(|asked| at < asked) {
            return None;
        }
        let update = self.judge(value, at);
        (self.good, self.asked) = (update.quality == Quality::Good, Some(at));
        Some(update)
    }

    fn judge(&self, value: Result<Value, Fault>, at: Instant) -> Update {
        match value {
            Ok(value) => {
                let outside = self.range.as_ref().filter(|range| range.excludes(&value));
                let (quality, detail) = match outside {
                    Some(range) => (Quality::Bad(Reason::OutOfRange), Some(range.detail.clone())),
                    None => (Quality::Good, self.codec.label(&value)),
                };
                Update { tag: self.id, value: Some(value), quality, detail, at: When::At(at) }
            }
            Err(fault) => {
                let reason = fault.reason();
                let detail = (reason != Reason::NotAvailable).then(|| fault.to_string().into());
                Update {
                    tag: self.id,
                    value: Some(Value::Null),
                    quality: Quality::Bad(reason),
                    detail,
                    at: When::At(at),
                }
            }
        }
    }

    /// Registers, or bits of a table of bits.
    pub(super) fn count(&self) -> u16 {
        if self.table.is_bits() { self.codec.bits() } else { self.codec.registers() }
    }
}

impl Range {
    fn excludes(&self, value: &Value) -> bool {
        value.exceeds(self.low, self.high)
    }
}

impl Data {
    /// `None` for the answer to anything but a read.
    pub(super) fn new(response: Response) -> Option<Self> {
        match response {
            Response::ReadCoils(bits) | Response::ReadDiscreteInputs(bits) => Some(Self::Bits(bits)),
            Response::ReadInputRegisters(words) | Response::ReadHoldingRegisters(words) => {
                Some(Self::Words(words))
            }
            _ => None,
        }
    }
}

fn request(table: Table, start: u16, count: u16) -> Request<'static> {
    match table {
        Table::Coil => Request::ReadCoils(start, count),
        Table::Discrete => Request::ReadDiscreteInputs(start, count),
        Table::Input => Request::ReadInputRegisters(start, count),
        Table::Holding => Request::ReadHoldingRegisters(start, count),
    }
}

/// Whether a device that answers `data` holds exactly what was sent.
pub(super) fn holds(sent: &Raw, data: &Data) -> bool {
    match (sent, data) {
        (Raw::Bits(sent), Data::Bits(held)) => held == sent,
        (Raw::Words(sent), Data::Words(held)) => held == sent,
        (Raw::Masked { mask, bits }, Data::Words(held)) => {
            matches!(held.as_slice(), [word] if word & mask == bits & mask)
        }
        _ => false,
    }
}
