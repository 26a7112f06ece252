//! What the devices of a bus send and take, and what is known of it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::sender::{Kept, Sender};
use crate::{
    codec::can::{Id, j1939::Header},
    config::CanDevice,
    model::{DeviceId, DeviceState, TagId},
    profile::can::{Key, Message, Point},
};

/// What was sent on a bus, for the link that goes on there when a reload changed it.
#[derive(Debug, Clone, Default)]
pub struct Memory(Arc<Mutex<HashMap<Id, Kept>>>);

/// A device as its driver is given it.
#[derive(Debug)]
pub struct Node<'a> {
    id: DeviceId,
    device: &'a CanDevice,
    /// Of its tags, in their order.
    ids: &'a [TagId],
}

#[derive(Debug, Default)]
pub(super) struct Plant {
    pub(super) tags: Vec<Tag>,
    pub(super) messages: Vec<Heard>,
    pub(super) nodes: Vec<Presence>,
    /// What is sent, by identifier.
    pub(super) senders: BTreeMap<Id, Sender>,
    by_id: HashMap<Id, Vec<usize>>,
    by_group: HashMap<(u32, u8), Vec<usize>>,
    places: HashMap<TagId, usize>,
}

#[derive(Debug)]
pub(super) struct Tag {
    pub(super) id: TagId,
    pub(super) name: String,
    pub(super) point: Arc<Point>,
    pub(super) range: Option<(f64, f64)>,
    /// Place of the tag that reports what was written.
    pub(super) feedback: Option<(usize, Duration)>,
    /// Whether a value ever came.
    pub(super) is_read: bool,
}

/// A message of one device.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) message: Arc<Message>,
    pub(super) node: usize,
    /// Places of its tags.
    pub(super) tags: Vec<usize>,
    /// What its counter was last.
    pub(super) count: Option<u64>,
}

/// A device, and whether it is there.
#[derive(Debug)]
pub(super) struct Presence {
    pub(super) id: DeviceId,
    pub(super) state: DeviceState,
    /// How long it may be silent; `None` where nothing says how often it sends.
    pub(super) patience: Option<Duration>,
    pub(super) heard: Option<Instant>,
}

impl<'a> Node<'a> {
    #[must_use]
    pub fn new(id: DeviceId, device: &'a CanDevice, ids: &'a [TagId]) -> Self {
        Self { id, device, ids }
    }
}

impl Memory {
    pub(super) fn keep(&self, plant: &Plant) {
        let kept = plant.senders.iter().map(|(id, sender)| (*id, sender.keep()));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(kept);
    }

    pub(super) fn give(&self, plant: &mut Plant) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, sender) in &mut plant.senders {
            if let Some(kept) = kept.get(id) {
                sender.resume(kept);
            }
        }
    }
}

impl Plant {
    pub(super) fn new(nodes: &[Node<'_>]) -> Self {
        let mut plant = Self::default();
        for (node, Node { id, device, ids }) in nodes.iter().enumerate() {
            let first = plant.tags.len();
            let mut messages: HashMap<Key, usize> = HashMap::new();
            for (spec, id) in device.tags.iter().zip(*ids) {
                let place = plant.tags.len();
                let point = Arc::clone(&spec.source);
                let message =
                    *messages.entry(point.message.key).or_insert_with(|| plant.add(&point.message, node));
                if let Some(heard) = plant.messages.get_mut(message) {
                    heard.tags.push(place);
                }
                let sender = point.message.sending.as_ref().map(|sending| sending.id);
                if let Some(sender) = sender.and_then(|id| plant.senders.get_mut(&id)) {
                    sender.be_patient(&point, spec.tag.definition.stale_after);
                }
                plant.places.insert(*id, place);
                let path = spec.tag.path.as_str();
                let name = path.split_once('/').map_or(path, |(_, name)| name).to_owned();
                let range = spec.tag.definition.range;
                plant.tags.push(Tag { id: *id, name, point, range, feedback: None, is_read: false });
            }
            let own = first..plant.tags.len();
            plant.link_feedback(first);
            let sent =
                |place: &usize| plant.tags.get(*place).is_some_and(|tag| tag.point.message.sending.is_none());
            let timed = device.tags.iter().zip(own).filter(|(_, place)| sent(place));
            let patience = timed.filter_map(|(spec, _)| spec.tag.definition.stale_after).max();
            let state = DeviceState::Waiting;
            plant.nodes.push(Presence { id: *id, state, patience, heard: None });
        }
        plant
    }

    fn add(&mut self, message: &Arc<Message>, node: usize) -> usize {
        let place = self.messages.len();
        match message.key {
            Key::Id(id) => self.by_id.entry(id).or_default().push(place),
            Key::Group { pgn, source } => self.by_group.entry((pgn, source)).or_default().push(place),
        }
        if let Some(sending) = &message.sending {
            let sender = || Sender::new(Arc::clone(message), sending.clone());
            self.senders.entry(sending.id).or_insert_with(sender);
        }
        self.messages.push(Heard { message: Arc::clone(message), node, tags: Vec::new(), count: None });
        place
    }

    /// Finds the tags of one device that report what is written, those from `first` on.
    fn link_feedback(&mut self, first: usize) {
        let own = self.tags.iter().enumerate().skip(first);
        let names = own.map(|(place, tag)| (tag.name.clone(), place)).collect::<HashMap<_, _>>();
        for tag in self.tags.iter_mut().skip(first) {
            let feedback = tag.point.command.as_ref().and_then(|command| command.feedback.as_ref());
            tag.feedback = feedback.and_then(|feedback| Some((*names.get(&feedback.tag)?, feedback.within)));
        }
    }

    /// Place of a tag.
    pub(super) fn place(&self, tag: TagId) -> Option<usize> {
        self.places.get(&tag).copied()
    }

    /// The messages that a frame is, by their places.
    pub(super) fn of_frame(&self, id: Id) -> Vec<usize> {
        let mut found = self.by_id.get(&id).cloned().unwrap_or_default();
        if let Some(header) = Header::of(id).filter(|_| !self.by_group.is_empty()) {
            found.extend(self.of_group(header.pgn, header.source));
        }
        found
    }

    /// The messages that a parameter group of a sender is.
    pub(super) fn of_group(&self, pgn: u32, source: u8) -> &[usize] {
        self.by_group.get(&(pgn, source)).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether messages may come in several packets.
    pub(super) fn has_groups(&self) -> bool {
        !self.by_group.is_empty()
    }

    /// Identifiers and masks of all frames that mean something here.
    pub(super) fn filters(&self) -> Vec<(Id, u32)> {
        /// All bits of an identifier, and the parts that tell a parameter group and its sender.
        const ALL: u32 = 0x1FFF_FFFF;
        const BROADCAST: u32 = 0x03FF_FFFF;
        const ADDRESSED: u32 = 0x03FF_00FF;
        const PACKETS: [u32; 2] = [0xEC_FF00, 0xEB_FF00];
        let mut filters = self.by_id.keys().map(|id| (*id, ALL)).collect::<Vec<_>>();
        for (pgn, source) in self.by_group.keys() {
            let mask = if pgn >> 8 & 0xFF < 240 { ADDRESSED } else { BROADCAST };
            filters.extend(Id::extended(pgn << 8 | u32::from(*source)).map(|id| (id, mask)));
            let packets = PACKETS.map(|group| Id::extended(group | u32::from(*source)));
            filters.extend(packets.into_iter().flatten().map(|id| (id, BROADCAST)));
        }
        filters.extend(self.senders.keys().map(|id| (*id, ALL)));
        filters.sort_unstable();
        filters.dedup();
        filters
    }
}
