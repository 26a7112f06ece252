//! What a driver knows of its units, tags and requests. It outlives sessions.

use std::{borrow::Cow, collections::HashMap, sync::Arc, time::Duration};

use tokio::time::Instant;
use tokio_modbus::{Request, Response};

use super::{
    Unit,
    plan::{MAX_GAP, Need, Read, plan},
};
use crate::{
    codec::value::{Codec, Fault, Raw},
    model::{DeviceId, Quality, Reason, Refusal, TagId, Update, Value},
    profile::modbus::{Table, WriteFunction},
};

#[derive(Debug)]
pub(super) struct Plant {
    pub(super) units: Vec<Member>,
    pub(super) entries: Vec<Entry>,
    pub(super) classes: Vec<Class>,
    /// Tags that no request can read.
    pub(super) impossible: Vec<TagId>,
    index: HashMap<TagId, usize>,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) device: DeviceId,
    pub(super) unit_id: u8,
}

/// One tag.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: TagId,
    /// Which of [`Plant::units`] has it.
    pub(super) unit: usize,
    pub(super) table: Table,
    address: u16,
    codec: Codec,
    function: WriteFunction,
    range: Option<Box<Range>>,
    /// Whether the last word of the session on it was good.
    pub(super) good: bool,
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
}

/// One request, and the entries that its answer holds.
#[derive(Debug)]
pub(super) struct Block {
    table: Table,
    start: u16,
    count: u16,
    pub(super) items: Vec<Item>,
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

/// What a write carries.
#[derive(Debug)]
pub(super) enum Payload {
    Bit(bool),
    Words(Raw),
}

impl Plant {
    pub(super) fn new(units: &[Unit]) -> Self {
        let members =
            units.iter().map(|unit| Member { device: unit.device, unit_id: unit.unit_id }).collect();
        let mut entries = Vec::new();
        let mut needs = Vec::new();
        for (at, unit) in units.iter().enumerate() {
            for polled in &unit.tags {
                let point = &polled.point;
                let count = if point.table.is_bits() { 1 } else { point.format.registers() };
                // A scan of no time would never leave the line alone.
                let scan = polled.scan.max(Duration::from_millis(1));
                let (table, address) = (point.table, point.address);
                needs.push(Need { tag: polled.id, unit: at, scan, table, address, count });
                let range = polled.range.map(|(low, high)| {
                    let detail = format!("outside {low} to {high}").into();
                    Box::new(Range { low, high, detail })
                });
                let codec = point.format.codec();
                let function = point.function;
                entries.push(Entry {
                    id: polled.id,
                    unit: at,
                    table,
                    address,
                    codec,
                    function,
                    range,
                    good: false,
                });
            }
        }
        let index: HashMap<TagId, usize> =
            entries.iter().enumerate().map(|(at, entry)| (entry.id, at)).collect();
        let plan = plan(&needs, MAX_GAP);
        let classes = plan.classes.iter().map(|class| Class {
            unit: class.unit,
            scan: class.scan,
            blocks: class.reads.iter().map(|read| Arc::new(Block::new(read, &index))).collect(),
        });
        Self { units: members, classes: classes.collect(), impossible: plan.impossible, entries, index }
    }

    pub(super) fn find(&self, tag: TagId) -> Option<usize> {
        self.index.get(&tag).copied()
    }

    /// Has each tag of a block read alone from now on, for good: the device refuses some of it.
    ///
    /// Answers whether there was anything to take apart.
    pub(super) fn take_apart(&mut self, class: usize, block: usize) -> bool {
        let Some(blocks) = self.classes.get_mut(class).map(|class| &mut class.blocks) else { return false };
        let Some(whole) = blocks.get(block).filter(|whole| whole.items.len() > 1) else { return false };
        let alone = |item: &Item| self.entries.get(item.entry).map(|entry| Arc::new(entry.block(item.entry)));
        let parts: Vec<_> = whole.items.iter().filter_map(alone).collect();
        blocks.splice(block..=block, parts);
        true
    }
}

impl Block {
    fn new(read: &Read, index: &HashMap<TagId, usize>) -> Self {
        let item = |&(tag, offset): &(TagId, u16)| Some(Item { entry: *index.get(&tag)?, offset });
        Self {
            table: read.table,
            start: read.start,
            count: read.count,
            items: read.tags.iter().filter_map(item).collect(),
        }
    }

    pub(super) fn request(&self) -> Request<'static> {
        match self.table {
            Table::Coil => Request::ReadCoils(self.start, self.count),
            Table::Discrete => Request::ReadDiscreteInputs(self.start, self.count),
            Table::Input => Request::ReadInputRegisters(self.start, self.count),
            Table::Holding => Request::ReadHoldingRegisters(self.start, self.count),
        }
    }
}

impl Entry {
    /// The request that reads this tag and nothing else.
    pub(super) fn block(&self, at: usize) -> Block {
        let items = vec![Item { entry: at, offset: 0 }];
        Block { table: self.table, start: self.address, count: self.count(), items }
    }

    /// What a write of `value` carries; `None` where the table cannot be written.
    pub(super) fn encode(&self, value: &Value) -> Option<Result<Payload, Refusal>> {
        match (self.table, value) {
            (Table::Discrete | Table::Input, _) => None,
            (Table::Coil, Value::Bool(on)) => Some(Ok(Payload::Bit(*on))),
            (Table::Coil, other) => {
                Some(Err(Refusal::Type { text: other.to_string(), allowed: "true or false" }))
            }
            (Table::Holding, value) => Some(self.codec.encode(value).map(Payload::Words)),
        }
    }

    /// The request that writes `payload`, in one frame.
    pub(super) fn write<'a>(&self, payload: &'a Payload) -> Request<'a> {
        match payload {
            Payload::Bit(on) if self.function == WriteFunction::Single => {
                Request::WriteSingleCoil(self.address, *on)
            }
            Payload::Bit(on) => {
                Request::WriteMultipleCoils(self.address, Cow::Borrowed(std::slice::from_ref(on)))
            }
            Payload::Words(raw) => match raw.words() {
                [word] if self.function == WriteFunction::Single => {
                    Request::WriteSingleRegister(self.address, *word)
                }
                words => Request::WriteMultipleRegisters(self.address, Cow::Borrowed(words)),
            },
        }
    }

    /// The value that begins `offset` behind the start of `data`.
    pub(super) fn decode(&self, data: &Data, offset: u16) -> Result<Value, Fault> {
        let start = usize::from(offset);
        match data {
            Data::Bits(bits) => {
                bits.get(start).copied().map(Value::Bool).ok_or(Fault::Length { expected: 1, got: 0 })
            }
            Data::Words(words) => {
                let words = words.get(start..start + usize::from(self.count())).unwrap_or_default();
                self.codec.decode(words)
            }
        }
    }

    /// What a decoded value means for the tag; whether it is good is kept.
    pub(super) fn update(&mut self, value: Result<Value, Fault>, at: Instant) -> Update {
        let update = self.judge(value, at);
        self.good = update.quality == Quality::Good;
        update
    }

    fn judge(&self, value: Result<Value, Fault>, at: Instant) -> Update {
        match value {
            Ok(value) => {
                let outside = self.range.as_ref().filter(|range| range.excludes(&value));
                let (quality, detail) = match outside {
                    Some(range) => (Quality::Bad(Reason::OutOfRange), Some(range.detail.clone())),
                    None => (Quality::Good, self.codec.label(&value)),
                };
                Update { tag: self.id, value: Some(value), quality, detail, at }
            }
            Err(fault) => Update {
                tag: self.id,
                value: Some(Value::Null),
                quality: Quality::Bad(fault.reason()),
                detail: Some(fault.to_string().into()),
                at,
            },
        }
    }

    fn count(&self) -> u16 {
        if self.table.is_bits() { 1 } else { self.codec.registers() }
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

impl Payload {
    /// Whether a device that answers `data` holds exactly this.
    pub(super) fn is(&self, data: &Data) -> bool {
        match (self, data) {
            (Self::Bit(sent), Data::Bits(held)) => held.first() == Some(sent),
            (Self::Words(sent), Data::Words(held)) => held.as_slice() == sent.words(),
            _ => false,
        }
    }
}
