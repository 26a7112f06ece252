//! What a frame says: values of signals, and what is the matter with the bus.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::Instant;
use tracing::warn;

use super::{
    bus::{Inflow, Received},
    packets::Step,
    plant::{Heard, Plant, Tag},
    sender::Sender,
    session::Session,
};
use crate::{
    codec::can::{BusError, Data, Frame, Reading, j1939::Header},
    model::{DeviceState, Quality, Reason, Update, Value, When},
};

/// How a value stands where its frame was taken.
type Judged = (Option<Value>, Quality, Option<Arc<str>>);

/// How long an incident is told of.
const CALM: Duration = Duration::from_secs(10);

/// Within which an adapter says that it refuses a frame.
const ANSWERED: Duration = Duration::from_secs(1);

pub(super) const BACK: &str = "no frame since the connection came back";

impl Session<'_> {
    /// Takes what came in.
    pub(super) fn take(&mut self, inflow: &mut Inflow) {
        self.counters.garbled.fetch_add(inflow.garbled, Ordering::Relaxed);
        if inflow.refused > 0 {
            self.counters.exceptions.fetch_add(inflow.refused, Ordering::Relaxed);
            self.incident("the adapter refused what it was told".to_owned());
            self.refuse_latest();
        }
        if let Some(event) = inflow.event.take() {
            self.incident(event);
        }
        if let Some(news) = inflow.news.take() {
            self.trouble(news);
        }
        for received in inflow.frames.drain(..) {
            if received.lost > 0 {
                self.lose(Some(received.lost));
            }
            self.frame(&received);
        }
        if inflow.lost > 0 {
            self.lose(Some(inflow.lost));
        }
        (inflow.lost, inflow.garbled, inflow.refused) = (0, 0, 0);
        self.publish();
    }

    fn frame(&mut self, received: &Received) {
        match &received.frame {
            Frame::Data(data) => {
                self.counters.messages.fetch_add(1, Ordering::Relaxed);
                if received.is_own {
                    self.echoed(data);
                } else if self.is_off {
                    self.recover();
                }
                self.data(data, received.at, received.is_own);
            }
            Frame::Remote { .. } => {
                self.counters.dropped.fetch_add(1, Ordering::Relaxed);
            }
            Frame::Error(error) => self.fault(error),
        }
    }

    /// Takes a frame of others, or one of ours that was on the bus.
    pub(super) fn data(&mut self, data: &Data, at: Instant, is_own: bool) {
        let payload = data.payload.bytes();
        if let Some(sender) = self.plant.senders.get_mut(&data.id).filter(|_| !is_own) {
            sender.hear(payload);
        }
        let messages = self.plant.of_frame(data.id);
        let mut is_known = !messages.is_empty();
        for message in messages {
            self.message(message, payload, at, is_own);
        }
        if let Some(header) = Header::of(data.id).filter(|_| self.plant.has_groups()) {
            match self.packets.take(header, payload, at) {
                Step::Other => {}
                Step::Taken => is_known = true,
                Step::Broken => {
                    self.counters.garbled.fetch_add(1, Ordering::Relaxed);
                    is_known = true;
                }
                Step::Whole(pgn, payload) => {
                    for message in self.plant.of_group(pgn, header.source).to_vec() {
                        self.message(message, &payload, at, is_own);
                    }
                    is_known = true;
                }
            }
        }
        if !is_known {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn message(&mut self, place: usize, payload: &[u8], at: Instant, is_own: bool) {
        let Plant { messages, tags, nodes, .. } = &mut *self.plant;
        let Some(heard) = messages.get_mut(place) else { return };
        let (spoilt, is_still) = heard.check(payload, is_own);
        if spoilt.is_some() {
            self.counters.garbled.fetch_add(1, Ordering::Relaxed);
        }
        let node = heard.node;
        for place in &heard.tags {
            let Some(tag) = tags.get_mut(*place) else { continue };
            let Some((value, quality, detail)) = tag.judge(payload, spoilt.as_ref(), is_still) else {
                continue;
            };
            let is_value = value.as_ref().is_some_and(|value| *value != Value::Null);
            let is_good = quality == Quality::Good;
            tag.is_read |= is_value;
            let update = Update { tag: tag.id, value: value.clone(), quality, detail, at: When::At(at) };
            self.batch.push(update);
            if let Some(value) = value.filter(|_| is_good && is_value && !is_own) {
                self.observed.push((*place, value));
            }
        }
        if let Some(presence) = nodes.get_mut(node).filter(|_| !is_own) {
            presence.heard = Some(at);
            if presence.state != DeviceState::Online {
                presence.state = DeviceState::Online;
                self.sink.device(presence.id, DeviceState::Online, None);
            }
        }
        self.observe();
    }

    /// What a controller or adapter tells of the bus.
    fn fault(&mut self, error: &BusError) {
        self.counters.errors.fetch_add(1, Ordering::Relaxed);
        if error.is_overflow() {
            self.lose(None);
        }
        if error.is_bus_off() {
            self.go_off(error);
            self.trouble(error.to_string());
        } else if error.is_restart() {
            self.recover();
            self.calm();
        } else if error.is_lasting() {
            self.trouble(error.to_string());
        } else {
            self.incident(error.to_string());
        }
    }

    /// One of the frames that were sent lately was not taken.
    fn refuse_latest(&mut self) {
        let why: Arc<str> = "the adapter refused a frame, which may have been its own".into();
        let Some(after) = Instant::now().checked_sub(ANSWERED) else { return };
        let Plant { messages, tags, senders, .. } = &*self.plant;
        let latest = |heard: &&Heard| {
            let sender = heard.message.sending.as_ref().and_then(|sending| senders.get(&sending.id));
            sender.is_some_and(|sender| sender.is_sent_after(after))
        };
        let places = messages.iter().filter(latest).flat_map(|heard| &heard.tags);
        let refused = places.filter_map(|place| tags.get(*place)).filter(|tag| tag.is_read);
        let quality = Quality::Uncertain(Reason::Stale);
        self.batch.extend(refused.map(|tag| tag.say(quality, Some(Arc::clone(&why)))));
        self.doubt_open();
    }

    /// Frames were lost, some of which may have told newer values.
    fn lose(&mut self, lost: Option<u64>) {
        let text = match lost {
            Some(lost) => {
                let all = self.counters.lost.fetch_add(lost, Ordering::Relaxed) + lost;
                format!("{lost} frames were lost before they could be read, {all} in all")
            }
            None => "frames were lost before they could be read".to_owned(),
        };
        warn!("{text}");
        self.incident(text);
        let why: Arc<str> = "frames were lost: it may have been among them".into();
        self.plant.senders.values_mut().for_each(Sender::doubt);
        let read = self.plant.tags.iter().filter(|tag| tag.is_read);
        self.batch.extend(read.map(|tag| tag.say(Quality::Uncertain(Reason::Stale), Some(Arc::clone(&why)))));
    }

    /// The controller takes no part any more: nothing is heard, and nothing sent.
    fn go_off(&mut self, error: &BusError) {
        if std::mem::replace(&mut self.is_off, true) {
            return;
        }
        let detail: Arc<str> = error.to_string().into();
        warn!("{detail}");
        self.give_up("the controller is bus-off");
        let off = Quality::Bad(Reason::NotConnected);
        let updates = self.plant.tags.iter().map(|tag| tag.say(off, Some(Arc::clone(&detail))));
        self.batch.extend(updates);
        for presence in &mut self.plant.nodes {
            presence.state = DeviceState::NotConnected;
            presence.heard = None;
            self.sink.device(presence.id, presence.state, Some(&detail));
        }
    }

    /// The controller takes part again.
    fn recover(&mut self) {
        if !std::mem::replace(&mut self.is_off, false) {
            return;
        }
        self.calm();
        self.doubt("no frame since the bus is back");
    }

    /// Nothing that is known is new.
    pub(super) fn doubt(&mut self, why: &str) {
        let why: Arc<str> = why.into();
        self.plant.senders.values_mut().for_each(Sender::doubt);
        for tag in &self.plant.tags {
            let update = if tag.is_read {
                tag.say(Quality::Uncertain(Reason::Stale), Some(Arc::clone(&why)))
            } else {
                tag.say(Quality::Bad(Reason::NeverRead), None)
            };
            self.batch.push(update);
        }
        for presence in &mut self.plant.nodes {
            presence.state = DeviceState::Waiting;
            presence.heard = None;
            self.sink.device(presence.id, presence.state, None);
        }
    }

    /// Tells what is the matter with the link until that is over.
    pub(super) fn trouble(&mut self, detail: String) {
        self.told_until = None;
        self.tell(Some(detail));
    }

    /// Tells what was the matter with the link, for a while.
    pub(super) fn incident(&mut self, detail: String) {
        // What lasts stands before what passes.
        if self.told.is_none() || self.told_until.is_some() {
            self.told_until = Some(Instant::now() + CALM);
            self.tell(Some(detail));
        }
    }

    /// All is well again.
    pub(super) fn calm(&mut self) {
        self.told_until = None;
        self.tell(None);
    }

    fn tell(&mut self, detail: Option<String>) {
        if self.told != detail {
            self.sink.trouble(detail.as_deref());
            self.told = detail;
        }
    }
}

impl Heard {
    /// What is wrong with a payload as a whole, and whether its counter stands still.
    fn check(&mut self, payload: &[u8], is_own: bool) -> (Option<Arc<str>>, bool) {
        if let Some(guard) = self.message.checksum {
            match guard.is_right(payload) {
                Some(true) => {}
                Some(false) => return (Some("the checksum of the frame is wrong".into()), false),
                None => return (Some("the frame ends before its checksum".into()), false),
            }
        }
        let Some(count) = self.message.counter.and_then(|place| place.read(payload)) else {
            return (None, false);
        };
        let is_still = self.count.replace(count) == Some(count);
        (None, is_still && !is_own)
    }
}

impl Tag {
    /// What a payload makes of it; `None` where the signal is not in this frame.
    fn judge(&self, payload: &[u8], spoilt: Option<&Arc<str>>, is_still: bool) -> Option<Judged> {
        let spoil = |why: Arc<str>| Some((None, Quality::Bad(Reason::DecodeError), Some(why)));
        if let Some(why) = spoilt {
            return spoil(Arc::clone(why));
        }
        for condition in &self.point.conditions {
            match condition.holds(payload) {
                Some(true) => {}
                Some(false) => return None,
                None => {
                    return spoil(
                        format!("a frame of {} bytes ends before its multiplexer", payload.len()).into(),
                    );
                }
            }
        }
        let bad = |reason, detail| Some((Some(Value::Null), Quality::Bad(reason), detail));
        match self.point.signal.read(payload) {
            Reading::Short => spoil(format!("a frame of {} bytes ends before it", payload.len()).into()),
            Reading::NotAvailable => bad(Reason::NotAvailable, None),
            Reading::Error => bad(Reason::DeviceError, Some("its sender says that it is in error".into())),
            Reading::Fault(fault) => bad(fault.reason(), Some(fault.to_string().into())),
            Reading::Value(value, word) => {
                let outside = self.range.filter(|(low, high)| value.exceeds(*low, *high));
                let (quality, detail) = match outside {
                    Some((low, high)) => {
                        let detail = word.unwrap_or_else(|| format!("outside {low} to {high}").into());
                        (Quality::Bad(Reason::OutOfRange), Some(detail))
                    }
                    None if is_still => {
                        let detail = "the counter of its message stands still".into();
                        (Quality::Uncertain(Reason::Stale), Some(detail))
                    }
                    None => (Quality::Good, word),
                };
                Some((Some(value), quality, detail))
            }
        }
    }

    /// A quality without a value.
    pub(super) fn say(&self, quality: Quality, detail: Option<Arc<str>>) -> Update {
        Update { tag: self.id, value: None, quality, detail, at: When::Unknown }
    }
}
