//! What a message says: values, signs that a device is there or not, answers to writes.

use std::{
    sync::{Arc, atomic::Ordering},
    time::SystemTime,
};

use tokio::time::Instant;

use super::{
    client::Message,
    plant::{Plant, Presence, Reader},
    session::Session,
};
use crate::{
    codec::payload::{Document, Encoding, Malformed, Reading},
    model::{DeviceState, Quality, Reason, Update, Value, When},
    profile::mqtt::Qos,
};

/// What one reader found in a message.
enum Told {
    Value {
        tag: usize,
        reading: Reading,
        label: Option<Arc<str>>,
        time: Time,
    },
    /// Nothing of the payload can be read.
    Spoilt {
        tag: usize,
        problem: Arc<str>,
    },
    Sign {
        station: usize,
        sign: usize,
        is_there: bool,
    },
    Reply {
        number: u64,
        error: Option<String>,
    },
    /// A sign that says nothing of whether the device is there.
    Unclear {
        station: usize,
        sign: usize,
        problem: String,
    },
    /// An answer that cannot be read.
    Garbled,
}

/// When a payload says that it was made.
enum Time {
    Unsaid,
    At(SystemTime),
    Spoilt(Arc<str>),
}

impl Session<'_> {
    /// Takes a message that came in.
    pub(super) fn message(&mut self, message: &Message) {
        self.counters.messages.fetch_add(1, Ordering::Relaxed);
        // Without a payload a retained message is only cleared.
        let topic = str::from_utf8(&message.topic).unwrap_or_default();
        if topic.is_empty() || message.payload.is_empty() {
            return;
        }
        let listeners = self.plant.index.find(topic).iter().map(|(_, place)| **place).collect::<Vec<_>>();
        if listeners.is_empty() || self.is_copy(topic, message) {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut told = Vec::new();
        for listener in listeners.iter().filter_map(|place| self.plant.listeners.get(*place)) {
            for (encoding, readers) in &listener.readers {
                read(*encoding, readers, message, self.bounds, &mut told);
            }
        }
        let is_garbled = told.iter().any(|told| match told {
            Told::Spoilt { .. } | Told::Unclear { .. } | Told::Garbled => true,
            Told::Value { reading, time, .. } => {
                matches!(reading, Reading::Bad(_)) || matches!(time, Time::Spoilt(_))
            }
            Told::Sign { .. } | Told::Reply { .. } => false,
        });
        if is_garbled {
            self.counters.garbled.fetch_add(1, Ordering::Relaxed);
        }
        for told in told {
            self.take(told, message);
        }
        self.publish();
    }

    /// Whether it is one more copy of a message that another of our subscriptions brings as well.
    fn is_copy(&self, topic: &str, message: &Message) -> bool {
        if message.identifiers.is_empty() {
            return false;
        }
        let is_granted = |filter: &usize| !matches!(self.plant.granted.get(*filter), Some(Some(Err(_))));
        let first = self.plant.filters.matching(topic).into_iter().find(is_granted);
        first.is_some_and(|first| !message.identifiers.contains(&(first + 1)))
    }

    fn take(&mut self, told: Told, message: &Message) {
        match told {
            Told::Value { tag, reading, label, time } => self.value(tag, reading, label, time, message),
            Told::Spoilt { tag, problem } => {
                self.hear(tag, message);
                self.update(
                    tag,
                    None,
                    Quality::Bad(Reason::DecodeError),
                    Some(problem),
                    When::Unknown,
                    message,
                );
            }
            Told::Sign { station, sign, is_there } => self.sign(station, sign, is_there),
            Told::Unclear { station, sign, problem } => self.unclear(station, sign, &problem),
            Told::Reply { number, error } => self.replied(number, error),
            Told::Garbled => {}
        }
    }

    fn value(
        &mut self,
        tag: usize,
        reading: Reading,
        label: Option<Arc<str>>,
        time: Time,
        message: &Message,
    ) {
        self.hear(tag, message);
        let Some(range) = self.plant.tags.get(tag).map(|tag| tag.range) else { return };
        let (value, quality, detail) = match reading {
            // No news: the value stands, with its age.
            Reading::Absent => return,
            Reading::NotAvailable => (Value::Null, Quality::Bad(Reason::NotAvailable), None),
            Reading::Bad(fault) => {
                (Value::Null, Quality::Bad(fault.reason()), Some(fault.to_string().into()))
            }
            Reading::Value(value) => match range.filter(|(low, high)| value.exceeds(*low, *high)) {
                Some((low, high)) => {
                    let detail = format!("outside {low} to {high}").into();
                    (value, Quality::Bad(Reason::OutOfRange), Some(detail))
                }
                None => (value, Quality::Good, label),
            },
        };
        if !message.retain && value != Value::Null {
            let told = if let Time::At(told) = &time { Some(*told) } else { None };
            self.observe(tag, &value, told);
        }
        let (at, problem) = match time {
            Time::Unsaid if message.retain => (When::Unknown, None),
            Time::Unsaid => (When::At(Instant::now()), None),
            Time::At(time) => (When::Told(time), None),
            Time::Spoilt(problem) => (When::Unknown, Some(problem)),
        };
        let (quality, detail) = match (quality, problem) {
            (Quality::Good, Some(problem)) => (Quality::Uncertain(Reason::DecodeError), Some(problem)),
            (Quality::Good, None) if message.retain => (Quality::Uncertain(Reason::Retained), detail),
            (quality, _) => (quality, detail),
        };
        self.update(tag, Some(value), quality, detail, at, message);
    }

    fn update(
        &mut self,
        place: usize,
        value: Option<Value>,
        quality: Quality,
        detail: Option<Arc<str>>,
        at: When,
        message: &Message,
    ) {
        let Some(tag) = self.plant.tags.get_mut(place) else { return };
        let presence = self.plant.stations.get(tag.station);
        let (quality, detail) = match presence.filter(|presence| presence.is_offline()) {
            Some(presence) => (Quality::Bad(Reason::DeviceOffline), presence.told.1.clone()),
            None => (quality, detail),
        };
        tag.is_seamless = tag.is_seamless && message.qos >= Qos::AtLeastOnce;
        (tag.quality, tag.detail) = (quality, detail.clone());
        self.batch.push(Update { tag: tag.id, value, quality, detail, at });
    }

    /// A message of its own shows that a device is there, whatever was said before.
    fn hear(&mut self, tag: usize, message: &Message) {
        let Some(station) = self.plant.tags.get(tag).map(|tag| tag.station) else { return };
        let Some(presence) = self.plant.stations.get_mut(station) else { return };
        if presence.is_heard || message.retain {
            return;
        }
        // A command is not the device's, whoever sent it.
        if str::from_utf8(&message.topic).is_ok_and(|topic| self.plant.commands.contains(topic)) {
            return;
        }
        presence.is_heard = true;
        self.present(station);
    }

    fn sign(&mut self, station: usize, sign: usize, is_there: bool) {
        let Some(presence) = self.plant.stations.get_mut(station) else { return };
        if let Some(last) = presence.signs.get_mut(sign) {
            *last = Some(is_there);
        }
        presence.unclear = None;
        if !is_there {
            presence.is_heard = false;
        }
        self.present(station);
    }

    fn unclear(&mut self, station: usize, sign: usize, problem: &str) {
        let Some(presence) = self.plant.stations.get_mut(station) else { return };
        let topic = presence.topics.get(sign).map(String::as_str).unwrap_or_default();
        presence.unclear = Some(format!("{topic} {problem}").into());
        self.present(station);
    }

    /// Tells what is known of a device now, and what that makes of its tags.
    pub(super) fn present(&mut self, station: usize) {
        let Some(presence) = self.plant.stations.get_mut(station) else { return };
        let told = presence.state();
        if presence.told == told {
            return;
        }
        let (from, to) = (presence.told.0, told.0);
        presence.told = told;
        self.sink.device(presence.device, presence.told.0, presence.told.1.as_deref());
        let offline = Quality::Bad(Reason::DeviceOffline);
        let Plant { tags, stations, .. } = &mut *self.plant;
        let Some(presence) = stations.get(station) else { return };
        for place in &presence.tags {
            let Some(tag) = tags.get_mut(*place) else { continue };
            let (quality, detail) = if to == DeviceState::Offline {
                (offline, presence.told.1.clone())
            } else if from == DeviceState::Offline && tag.quality == offline {
                (Quality::Uncertain(Reason::Stale), Some(BACK.into()))
            } else {
                continue;
            };
            (tag.quality, tag.detail) = (quality, detail.clone());
            self.batch.push(Update { tag: tag.id, value: None, quality, detail, at: When::Unknown });
        }
    }
}

pub(super) const BACK: &str = "nothing new came since the device is back";

impl Presence {
    pub(super) fn state(&self) -> (DeviceState, Option<Arc<str>>) {
        let mut signs = self.signs.iter().zip(&self.topics);
        let absent = signs.find(|(said, _)| **said == Some(false)).map(|(_, topic)| topic);
        let (state, detail) = match absent {
            Some(topic) if self.is_heard => {
                let detail = format!("it sends messages, though {topic} says that it is not there");
                (DeviceState::Online, Some(detail.into()))
            }
            Some(topic) => (DeviceState::Offline, Some(format!("{topic} says that it is not there").into())),
            None if self.is_heard || self.signs.contains(&Some(true)) => (DeviceState::Online, None),
            None => (DeviceState::Waiting, None),
        };
        (state, detail.or_else(|| self.refused.clone()).or_else(|| self.unclear.clone()))
    }
}

fn read(
    encoding: Encoding,
    readers: &[Reader],
    message: &Message,
    bounds: crate::codec::payload::Bounds,
    told: &mut Vec<Told>,
) {
    match encoding.parse(&message.payload, bounds) {
        Ok(document) => told.extend(readers.iter().filter_map(|reader| find(reader, &document, message))),
        Err(problem) => told.extend(readers.iter().map(|reader| spoilt(reader, &problem))),
    }
}

fn spoilt(reader: &Reader, problem: &Malformed) -> Told {
    match reader {
        Reader::Value { tag, .. } => Told::Spoilt { tag: *tag, problem: problem.to_string().into() },
        Reader::Presence { station, sign, .. } => {
            Told::Unclear { station: *station, sign: *sign, problem: format!("cannot be read: {problem}") }
        }
        Reader::Reply { .. } => Told::Garbled,
    }
}

fn find(reader: &Reader, document: &Document<'_>, message: &Message) -> Option<Told> {
    match reader {
        Reader::Value { tag, field, time } => {
            let reading = field.read(document);
            let label = match &reading {
                Reading::Value(value) => field.label(value),
                _ => None,
            };
            let time = match time.as_ref().map(|stamp| stamp.read(document)) {
                None | Some(Ok(None)) => Time::Unsaid,
                Some(Ok(Some(time))) => Time::At(time),
                Some(Err(fault)) => Time::Spoilt(fault.to_string().into()),
            };
            Some(Told::Value { tag: *tag, reading, label, time })
        }
        Reader::Presence { station, sign, field } => match field.read(document) {
            Reading::Value(Value::Bool(is_there)) => {
                Some(Told::Sign { station: *station, sign: *sign, is_there })
            }
            Reading::Absent | Reading::NotAvailable => None,
            Reading::Value(_) | Reading::Bad(_) => {
                let problem = format!("says {:?}, which is none of its words", shown(&message.payload));
                Some(Told::Unclear { station: *station, sign: *sign, problem })
            }
        },
        // An answer that was kept is that to another question.
        Reader::Reply { .. } if message.retain => None,
        Reader::Reply { id, error } => {
            let number = match id {
                Some(field) => match field.read(document) {
                    Reading::Value(Value::U64(number)) => number,
                    _ => return None,
                },
                None => u64::from_be_bytes(message.correlation.as_deref()?.try_into().ok()?),
            };
            let error = match error.as_ref().map(|field| field.read(document)) {
                None | Some(Reading::Absent | Reading::NotAvailable) => None,
                Some(Reading::Value(said)) => Some(said.to_string()),
                Some(Reading::Bad(_)) => Some(shown(&message.payload)),
            };
            Some(Told::Reply { number, error })
        }
    }
}

/// An answer as messages repeat it.
fn shown(payload: &[u8]) -> String {
    const MOST: usize = 200;
    let text = String::from_utf8_lossy(payload);
    let mut shown: String = text.chars().take(MOST).collect();
    if text.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown
}
