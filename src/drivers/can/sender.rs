//! A message that is sent: what its next frame holds.
//!
//! What is not written is as it was last. That goes signal by signal: where a multiplexer changes, the same bits are of other
//! signals, and each of them is as it was in the last frame that had it.

use std::sync::Arc;

use tokio::time::{Duration, Instant};

use crate::{
    codec::can::Place,
    model::Rule,
    profile::can::{Condition, Field, Message, Others, Point, Sending, common},
};

#[derive(Debug)]
pub(super) struct Sender {
    pub(super) message: Arc<Message>,
    pub(super) sending: Sending,
    sent: Last,
    received: Last,
    /// How old may be what was received, for each field; `None` for any age.
    patience: Vec<Option<Duration>>,
    /// The same for a payload of which no fields are known.
    whole: Option<Duration>,
    /// What the counter of the next frame is.
    pub(super) count: u64,
    pub(super) cycle: Option<Cycle>,
    /// Bits of signals, be they in a frame or not.
    described: Vec<u8>,
}

/// A message that is sent again and again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cycle {
    pub(super) next: Instant,
    pub(super) until: Option<Instant>,
    /// Whether all but the last frame is sent, which found no room yet.
    pub(super) is_ending: bool,
}

/// What frames held last.
#[derive(Debug, Clone, Default)]
struct Last {
    payload: Option<(Vec<u8>, Instant)>,
    /// Of each field, in the last frame that had it.
    fields: Vec<Option<(u64, Instant)>>,
}

/// What was sent, for a driver that goes on where another ended.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    message: Arc<Message>,
    sent: Last,
    count: u64,
}

/// What is written into a frame.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) place: Place,
    pub(super) conditions: &'a [Condition],
    pub(super) bits: u64,
}

/// Why no frame can hold a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unfit {
    #[error("it lies beyond the {0} bytes of its message")]
    Beyond(usize),
    #[error("no frame of its message came, or none lately, that tells what goes beside it")]
    Unheard,
    #[error("the counter or the checksum of its message is there, which are filled in by themselves")]
    Filled,
    #[error(
        "its message cannot carry it together with what is written beside it: their multiplexer would have to have two values"
    )]
    Apart,
    #[error("what is written beside it lies in the same bits")]
    Overlap,
}

impl Unfit {
    pub(super) fn rule(self) -> Rule {
        match self {
            Self::Beyond(_) => Rule::RawRange,
            Self::Filled => Rule::Access,
            Self::Unheard | Self::Apart | Self::Overlap => Rule::Companions,
        }
    }
}

impl Sender {
    pub(super) fn new(message: Arc<Message>, sending: Sending) -> Self {
        let mut described = vec![0; sending.initial.len()];
        for (byte, mask) in sending.fields.iter().flat_map(|field| field.place.masks()) {
            if let Some(bits) = described.get_mut(byte) {
                *bits |= mask;
            }
        }
        let last = Last { payload: None, fields: vec![None; sending.fields.len()] };
        Self {
            sent: last.clone(),
            received: last,
            patience: vec![None; sending.fields.len()],
            whole: None,
            message,
            sending,
            count: 0,
            cycle: None,
            described,
        }
    }

    /// What is received of a tag counts for so long.
    pub(super) fn be_patient(&mut self, point: &Point, patience: Option<Duration>) {
        let place = point.signal.place();
        let fields = self.sending.fields.iter().zip(&mut self.patience);
        for (_, own) in
            fields.filter(|(field, _)| field.place == place && field.conditions == point.conditions)
        {
            *own = patience;
        }
        if self.sending.fields.is_empty() {
            self.whole = self.whole.into_iter().chain(patience).min();
        }
    }

    pub(super) fn keep(&self) -> Kept {
        Kept { message: Arc::clone(&self.message), sent: self.sent.clone(), count: self.count }
    }

    /// Goes on from what another sent of the same message.
    pub(super) fn resume(&mut self, kept: &Kept) {
        let Some(former) = &kept.message.sending else { return };
        let known = former.fields.iter().zip(&kept.sent.fields).collect::<Vec<_>>();
        for (field, last) in self.sending.fields.iter().zip(&mut self.sent.fields) {
            let same = known
                .iter()
                .find(|(other, _)| other.place == field.place && other.conditions == field.conditions);
            *last = same.and_then(|(_, last)| **last);
        }
        if former.initial.len() == self.sending.initial.len() {
            self.sent.payload.clone_from(&kept.sent.payload);
        }
        if kept.message.counter == self.message.counter {
            self.count = kept.count;
        }
    }

    /// What was received may no longer be so.
    pub(super) fn doubt(&mut self) {
        self.received = Last { payload: None, fields: vec![None; self.sending.fields.len()] };
    }

    /// A frame of others came. What is short, or wrong by its checksum, is not written on from.
    pub(super) fn hear(&mut self, payload: &[u8]) {
        let is_right = self.message.checksum.is_none_or(|guard| guard.is_right(payload) == Some(true));
        if is_right && payload.len() >= self.sending.initial.len() {
            self.received.note(payload, &self.sending.fields);
        }
    }

    /// Fills in counter and checksum.
    pub(super) fn seal(&self, payload: &mut [u8]) {
        if let Some(counter) = self.message.counter {
            let _fits = counter.write(payload, self.count);
        }
        if let Some(guard) = self.message.checksum {
            guard.seal(payload);
        }
    }

    /// A payload left.
    pub(super) fn note_sent(&mut self, payload: &[u8]) {
        self.sent.note(payload, &self.sending.fields);
        if let Some(counter) = self.message.counter {
            self.count = self.count.wrapping_add(1) & (u64::MAX >> (64 - counter.length()));
        }
    }

    /// The payload of the last frame that left.
    pub(super) fn sent(&self) -> Option<&[u8]> {
        self.sent.payload.as_ref().map(|(payload, _)| payload.as_slice())
    }

    pub(super) fn is_sent_after(&self, after: Instant) -> bool {
        self.sent.payload.as_ref().is_some_and(|(_, at)| *at >= after)
    }

    /// The payload that carries all parts; an error says which of them it cannot carry.
    pub(super) fn compose(&self, parts: &[Part<'_>]) -> Result<Vec<u8>, (usize, Unfit)> {
        let payload = match self.sending.others {
            Others::LastSent => self.put(&self.sent, false, parts),
            Others::LastReceived => self.put(&self.received.since(self.whole, &self.patience), true, parts),
            Others::Initial => self.put(&Last::default(), false, parts),
        }?;
        for (at, part) in parts.iter().enumerate() {
            if self.is_filled(part.place) {
                return Err((at, Unfit::Filled));
            }
            if !part.conditions.iter().all(|condition| condition.holds(&payload) == Some(true)) {
                return Err((at, Unfit::Apart));
            }
            if part.place.read(&payload) != Some(part.bits) {
                return Err((at, Unfit::Overlap));
            }
        }
        Ok(payload)
    }

    /// The payload with which sending again and again ends; `None` where there is none.
    pub(super) fn last(&self) -> Option<Vec<u8>> {
        let stop = self.sending.stop.iter();
        let parts = stop.filter_map(|(at, bits)| {
            let Field { place, conditions, .. } = self.sending.fields.get(*at)?;
            Some(Part { place: *place, conditions, bits: *bits })
        });
        let parts = parts.collect::<Vec<_>>();
        if parts.is_empty() || self.sent.payload.is_none() {
            return None;
        }
        self.put(&self.sent, false, &parts).ok()
    }

    fn is_filled(&self, place: Place) -> bool {
        self.message.counter.is_some_and(|counter| counter.overlaps(place))
            || self.message.checksum.is_some_and(|guard| place.masks().any(|(byte, _)| byte == guard.byte))
    }

    /// Puts the parts into a payload that is beside them as it was last, which may have to be known.
    fn put(&self, last: &Last, is_needed: bool, parts: &[Part<'_>]) -> Result<Vec<u8>, (usize, Unfit)> {
        let before = last.payload.as_ref().map(|(payload, _)| payload);
        if is_needed && before.is_none() {
            return Err((0, Unfit::Unheard));
        }
        let known = last.fields.as_slice();
        let mut payload = self.sending.initial.clone();
        for ((byte, before), mask) in
            payload.iter_mut().zip(before.into_iter().flatten()).zip(&self.described)
        {
            *byte = *byte & mask | before & !mask;
        }
        self.fill(&mut payload, known, is_needed, parts)?;
        if let Some(before) = before.filter(|before| self.is_alike(before, &payload)) {
            // Then bits that are no signal's in this kind of frame are as they were, too.
            payload.clone_from(before);
            payload.resize(self.sending.initial.len(), 0);
            self.fill(&mut payload, known, is_needed, parts)?;
        }
        Ok(payload)
    }

    fn fill(
        &self,
        payload: &mut [u8],
        known: &[Option<(u64, Instant)>],
        is_needed: bool,
        parts: &[Part<'_>],
    ) -> Result<(), (usize, Unfit)> {
        for (at, field) in self.sending.fields.iter().enumerate() {
            if !field.is_in(payload) || field.place.end() > payload.len() {
                continue;
            }
            let part = parts.iter().find(|part| part.is_of(field));
            let bits = if let Some(part) = part {
                Some(part.bits)
            } else {
                let known = known.get(at).copied().flatten().map(|(bits, _)| bits);
                let wanted = parts.iter().flat_map(|part| part.conditions);
                let wanted = wanted.filter(|condition| condition.place == field.place).collect::<Vec<_>>();
                let usual = known.or(field.initial).or(field.place.read(payload));
                match usual.filter(|usual| wanted.iter().all(|condition| condition.takes(*usual))) {
                    Some(_) if is_needed && known.is_none() && wanted.is_empty() => {
                        return Err((0, Unfit::Unheard));
                    }
                    Some(usual) => Some(usual),
                    // Where no number suits all, that shows when the conditions are looked at.
                    None => common(&wanted),
                }
            };
            if let Some(bits) = bits {
                let _fits = field.place.write(payload, bits);
            }
        }
        let length = payload.len();
        for (at, part) in parts.iter().enumerate() {
            if !part.place.write(payload, part.bits) {
                return Err((at, Unfit::Beyond(length)));
            }
        }
        Ok(())
    }

    /// Whether two payloads have the same signals.
    fn is_alike(&self, one: &[u8], other: &[u8]) -> bool {
        self.sending.fields.iter().all(|field| field.is_in(one) == field.is_in(other))
    }
}

impl Cycle {
    /// When something of it is to be done.
    pub(super) fn due(self) -> Instant {
        self.until.map_or(self.next, |until| until.min(self.next))
    }
}

impl Part<'_> {
    fn is_of(&self, field: &Field) -> bool {
        self.place == field.place && self.conditions == field.conditions
    }
}

impl Last {
    fn note(&mut self, payload: &[u8], fields: &[Field]) {
        let now = Instant::now();
        for (field, last) in fields.iter().zip(&mut self.fields).filter(|(field, _)| field.is_in(payload)) {
            *last = field.place.read(payload).map(|bits| (bits, now)).or(*last);
        }
        self.payload = Some((payload.to_vec(), now));
    }

    /// What of it is no older.
    fn since(&self, whole: Option<Duration>, patience: &[Option<Duration>]) -> Self {
        let is_young = |at: Instant, age: Option<Duration>| age.is_none_or(|age| at.elapsed() <= age);
        let fields = self.fields.iter().zip(patience);
        Self {
            payload: self.payload.clone().filter(|(_, at)| is_young(*at, whole)),
            fields: fields.map(|(field, age)| field.filter(|(_, at)| is_young(*at, *age))).collect(),
        }
    }
}
