//! The devices of a broker: which message says what of which tag, and what is known of each. It outlives sessions.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::SystemTime,
};

use super::{Station, client::Granted};
use crate::{
    codec::{
        payload::{Encoding, Field, Path, Spec, Stamp},
        topic::{Filters, Index, Pattern},
    },
    model::{DeviceId, DeviceState, Kind, Quality, Reason, TagId},
    profile::mqtt::{Point, Qos, Response},
};

/// All that a client at a broker has to do with.
#[derive(Debug)]
pub(super) struct Plant {
    /// Places in `listeners`, by topic.
    pub(super) index: Index<usize>,
    pub(super) listeners: Vec<Listener>,
    pub(super) filters: Filters,
    pub(super) tags: Vec<Tag>,
    pub(super) stations: Vec<Presence>,
    /// What the broker said to each filter.
    pub(super) granted: Vec<Option<Granted>>,
    places: HashMap<TagId, usize>,
    /// What each filter brings.
    pub(super) brings: Vec<Brings>,
    /// Topics on which we publish.
    pub(super) commands: HashSet<String>,
    /// Number of the last write.
    pub(super) number: u64,
}

/// The places of tags and of devices for whose values and signs a filter is subscribed, and why the broker last refused it.
#[derive(Debug, Default)]
pub(super) struct Brings {
    pub(super) tags: Vec<usize>,
    pub(super) signs: Vec<usize>,
    pub(super) refusal: Option<Arc<str>>,
}

/// Who wants messages of one pattern, by the encoding in which they read them: each is parsed once.
#[derive(Debug, Default)]
pub(super) struct Listener {
    pub(super) readers: Vec<(Encoding, Vec<Reader>)>,
}

/// What a message is read for.
#[derive(Debug, Clone)]
pub(super) enum Reader {
    /// The value of a tag.
    Value { tag: usize, field: Arc<Field>, time: Option<Stamp> },
    /// Whether a device is there: which of its signs this is.
    Presence { station: usize, sign: usize, field: Arc<Field> },
    /// How a device answers to a write.
    Reply { id: Option<Arc<Field>>, error: Option<Arc<Field>> },
}

/// What is known of one tag.
#[derive(Debug)]
pub(super) struct Tag {
    pub(super) id: TagId,
    pub(super) station: usize,
    pub(super) range: Option<(f64, f64)>,
    pub(super) point: Arc<Point>,
    /// Places in the list of filters that bring its messages.
    pub(super) filters: Vec<usize>,
    pub(super) quality: Quality,
    pub(super) detail: Option<Arc<str>>,
    /// Whether all messages so far came with an acknowledgement: where the broker kept the session, none is missing.
    pub(super) is_seamless: bool,
}

/// What is known of one device.
#[derive(Debug)]
pub(super) struct Presence {
    pub(super) device: DeviceId,
    pub(super) tags: Vec<usize>,
    /// What each of its signs last said.
    pub(super) signs: Vec<Option<bool>>,
    /// The topics of its signs.
    pub(super) topics: Vec<String>,
    /// Whether a message came after a sign that it is not there: messages win.
    pub(super) is_heard: bool,
    /// That the broker refuses one of its signs.
    pub(super) refused: Option<Arc<str>>,
    /// That the last message of a sign had none of its words.
    pub(super) unclear: Option<Arc<str>>,
    pub(super) told: (DeviceState, Option<Arc<str>>),
}

impl Plant {
    pub(super) fn new(stations: &[Station]) -> Self {
        let mut plant = Self {
            index: Index::new(),
            listeners: Vec::new(),
            filters: Filters::new([]),
            tags: Vec::new(),
            stations: Vec::new(),
            granted: Vec::new(),
            places: HashMap::new(),
            brings: Vec::new(),
            commands: HashSet::new(),
            number: first_number(),
        };
        let mut listening = Listening::default();
        for station in stations {
            plant.add(station, &mut listening);
        }
        plant.filters = Filters::new(listening.asked.iter().map(|(pattern, qos)| (pattern, qos.level())));
        plant.granted = vec![None; plant.filters.list().len()];
        plant.brings.resize_with(plant.granted.len(), Brings::default);
        for (place, presence) in plant.stations.iter().enumerate() {
            for filter in
                presence.topics.iter().filter_map(|topic| plant.filters.matching(topic).first().copied())
            {
                plant.brings.get_mut(filter).into_iter().for_each(|brings| brings.signs.push(place));
            }
        }
        for (place, tag) in plant.tags.iter_mut().enumerate() {
            let serving =
                tag.point.origins.iter().filter_map(|origin| plant.filters.serving(&origin.pattern));
            tag.filters = serving.collect();
            for filter in &tag.filters {
                plant.brings.get_mut(*filter).into_iter().for_each(|brings| brings.tags.push(place));
            }
        }
        for (pattern, listener) in listening.listeners {
            plant.index.insert(pattern, plant.listeners.len());
            plant.listeners.push(listener);
        }
        plant
    }

    fn add(&mut self, station: &Station, listening: &mut Listening) {
        let number = self.stations.len();
        for (sign, availability) in station.availability.iter().enumerate() {
            let field = Arc::clone(&availability.field);
            let reader = Reader::Presence { station: number, sign, field };
            listening.add_topic(&availability.topic, availability.encoding, reader);
        }
        let first = self.tags.len();
        for subscribed in &station.tags {
            let place = self.tags.len();
            let point = &subscribed.point;
            for origin in &point.origins {
                let (field, time) = (Arc::clone(&origin.field), origin.time.clone());
                let reader = Reader::Value { tag: place, field, time };
                listening.add(&origin.pattern, origin.qos, origin.encoding, reader);
            }
            self.commands.extend(point.command.iter().map(|command| command.topic.clone()));
            if let Some(response) = point.command.as_ref().and_then(|command| command.response.as_ref()) {
                listening.add_response(response);
            }
            self.places.insert(subscribed.id, place);
            self.tags.push(Tag {
                id: subscribed.id,
                station: number,
                range: subscribed.range,
                point: Arc::clone(point),
                filters: Vec::new(),
                quality: Quality::Bad(Reason::NeverRead),
                detail: None,
                is_seamless: true,
            });
        }
        self.stations.push(Presence {
            device: station.device,
            tags: (first..self.tags.len()).collect(),
            signs: vec![None; station.availability.len()],
            topics: station.availability.iter().map(|sign| sign.topic.clone()).collect(),
            is_heard: false,
            refused: None,
            unclear: None,
            told: (DeviceState::Waiting, None),
        });
    }

    pub(super) fn place(&self, tag: TagId) -> Option<usize> {
        self.places.get(&tag).copied()
    }
}

/// Where the numbers of writes begin: late answers to those of a former run or configuration have others.
fn first_number() -> u64 {
    const BITS: u128 = (1 << 30) - 1;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis() & BITS).unwrap_or_default()
}

impl Tag {
    /// Whether the broker keeps its messages while the link is down.
    pub(super) fn is_kept(&self, granted: &[Option<Granted>]) -> bool {
        let is_kept = |filter: &usize| {
            matches!(granted.get(*filter), Some(Some(Ok(Qos::AtLeastOnce | Qos::ExactlyOnce))))
        };
        !self.filters.is_empty() && self.filters.iter().all(is_kept)
    }
}

impl Presence {
    /// Whether a sign says that the device is not there, and no message since says otherwise.
    pub(super) fn is_offline(&self) -> bool {
        !self.is_heard && self.signs.contains(&Some(false))
    }
}

/// What all devices want, while it is put together.
#[derive(Default)]
struct Listening {
    listeners: Vec<(Pattern, Listener)>,
    places: HashMap<Pattern, usize>,
    asked: Vec<(Pattern, Qos)>,
}

impl Listening {
    fn add(&mut self, pattern: &Pattern, qos: Qos, encoding: Encoding, reader: Reader) {
        self.asked.push((pattern.clone(), qos));
        let place = *self.places.entry(pattern.clone()).or_insert(self.listeners.len());
        if place == self.listeners.len() {
            self.listeners.push((pattern.clone(), Listener::default()));
        }
        let Some((_, listener)) = self.listeners.get_mut(place) else { return };
        match listener.readers.iter_mut().find(|(own, _)| *own == encoding) {
            Some((_, readers)) => readers.push(reader),
            None => listener.readers.push((encoding, vec![reader])),
        }
    }

    fn add_topic(&mut self, topic: &str, encoding: Encoding, reader: Reader) {
        // Checked when it was configured.
        if let Ok(pattern) = Pattern::parse(topic) {
            self.add(&pattern, Qos::AtLeastOnce, encoding, reader);
        }
    }

    /// Devices may share a topic of answers: one reader serves all of them.
    fn add_response(&mut self, response: &Response) {
        let Response { topic, id, error } = response;
        let path = |field: &Option<Arc<Field>>| field.as_ref().map(|field| field.path().clone());
        let is_same = |reader: &Reader| matches!(reader, Reader::Reply { id: own, error: other } if path(own) == *id && path(other) == *error);
        let known = self.listeners.iter().filter(|(pattern, _)| pattern.topic().as_ref() == Some(topic));
        let mut readers = known.flat_map(|(_, listener)| &listener.readers).flat_map(|(_, readers)| readers);
        if readers.any(is_same) {
            return;
        }
        let field = |path: &Option<Path>, kind| {
            let field = Field::new(Spec::new(path.clone()?, kind));
            field.ok().map(Arc::new)
        };
        let encoding = if id.is_some() || error.is_some() { Encoding::Json } else { Encoding::Binary };
        let reader = Reader::Reply { id: field(id, Kind::Uint64), error: field(error, Kind::Text) };
        self.add_topic(topic, encoding, reader);
    }
}
