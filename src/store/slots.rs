//! The store's inside: one slot a tag and a device, changed under one short lock a batch.

use std::{
    mem,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::time::Instant;

use super::{Catalogue, Counts, DeviceReading, Reading, observer::Registered, subscription::Shared};
use crate::model::{
    Device, DeviceId, DeviceState, LinkState, Quality, Reason, Sample, Tag, TagId, Update, Value, When,
};

#[derive(Debug, Default)]
pub(super) struct Slots {
    pub(super) catalogue: Arc<Catalogue>,
    /// Numbers are never given twice: a tag that is gone leaves an empty place.
    pub(super) tags: Vec<Option<Box<TagSlot>>>,
    pub(super) devices: Vec<Option<Box<DeviceSlot>>>,
    pub(super) subscribers: Vec<Arc<Shared>>,
}

#[derive(Debug)]
pub(super) struct TagSlot {
    pub(super) tag: Arc<Tag>,
    /// The session that may publish; 0 is none.
    pub(super) session: u64,
    pub(super) sample: Sample,
    /// What subscribers were last told to look at, where the value has moved since, within the deadband.
    marked: Option<Box<Marked>>,
    /// Few tags have any: a slice is a word less than a list, a hundred thousand times.
    pub(super) observers: Box<[Registered]>,
}

/// What subscribers were last told to look at.
#[derive(Debug)]
struct Marked {
    value: Value,
    quality: Quality,
    detail: Option<Arc<str>>,
}

#[derive(Debug)]
pub(super) struct DeviceSlot {
    pub(super) device: Arc<Device>,
    pub(super) session: u64,
    pub(super) link: LinkState,
    pub(super) link_detail: Option<Arc<str>>,
    pub(super) state: DeviceState,
    pub(super) detail: Option<Arc<str>>,
    pub(super) since: SystemTime,
}

impl TagSlot {
    pub(super) fn new(tag: Arc<Tag>) -> Self {
        let quality = Quality::Bad(Reason::NeverRead);
        let server_time = SystemTime::now();
        Self {
            tag,
            session: 0,
            sample: Sample {
                value: Value::Null,
                quality,
                detail: None,
                source_time: None,
                taken: None,
                server_time,
            },
            marked: None,
            observers: Box::default(),
        }
    }

    /// Takes what `update` says; `true` where subscribers should look.
    fn apply(&mut self, id: TagId, update: Update, now: Instant, time: SystemTime) -> bool {
        let sample = &mut self.sample;
        let value = match update.value {
            Some(value) => {
                (sample.source_time, sample.taken) = update.at.on_clocks(now, time);
                mem::replace(&mut sample.value, value)
            }
            None => sample.value.clone(),
        };
        let (quality, detail) = match update.quality {
            // A session that begins anew knows less than the store.
            Quality::Bad(Reason::NeverRead) if sample.value != Value::Null => (
                Quality::Uncertain(Reason::Stale),
                Some("nothing came since the configuration changed".into()),
            ),
            quality => (quality, update.detail),
        };
        let former = Marked {
            value,
            quality: mem::replace(&mut sample.quality, quality),
            detail: mem::replace(&mut sample.detail, detail),
        };
        sample.server_time = time;
        for observer in &self.observers {
            observer.observe(id, Some(&self.sample));
        }
        let marked = self.marked.take();
        let last = marked.as_deref().unwrap_or(&former);
        let changed = last.differs(&self.sample, self.tag.definition.deadband);
        if !changed && last.value != self.sample.value {
            self.marked = marked.or_else(|| Some(Box::new(former)));
        }
        changed
    }

    pub(super) fn reading(&self, now: Instant) -> Reading {
        let mut sample = self.sample.clone();
        let age = sample.taken.map(|taken| now.saturating_duration_since(taken));
        if self.is_overdue(now) {
            sample.quality = Quality::Uncertain(Reason::Stale);
            sample.detail = None;
        }
        Reading { sample, age }
    }

    /// When the sample becomes stale, if it can: one that is good, or that was kept by a broker and tells its age.
    pub(super) fn expiry(&self) -> Option<Instant> {
        let can = matches!(self.sample.quality, Quality::Good | Quality::Uncertain(Reason::Retained));
        self.tag
            .definition
            .stale_after
            .filter(|_| can)
            .zip(self.sample.taken)
            .map(|(after, taken)| taken + after)
    }

    fn is_overdue(&self, now: Instant) -> bool {
        self.expiry().is_some_and(|expiry| expiry < now)
    }
}

impl Marked {
    fn differs(&self, sample: &Sample, deadband: Option<f64>) -> bool {
        if self.quality != sample.quality || self.detail != sample.detail {
            return true;
        }
        let step = deadband.and_then(|deadband| Some((deadband, self.value.distance(&sample.value)?)));
        match step {
            // Float dust must not make a step of exactly the deadband count as more.
            Some((deadband, step)) => step > deadband * (1.0 + 1e-9),
            None => self.value != sample.value,
        }
    }
}

impl DeviceSlot {
    pub(super) fn new(device: Arc<Device>) -> Self {
        Self {
            device,
            session: 0,
            link: LinkState::Connecting,
            link_detail: None,
            state: DeviceState::NotConnected,
            detail: None,
            since: SystemTime::now(),
        }
    }
}

impl Slots {
    pub(super) fn tag(&self, id: TagId) -> Option<&TagSlot> {
        self.tags.get(usize::try_from(id.0).ok()?)?.as_deref()
    }

    pub(super) fn tag_mut(&mut self, id: TagId) -> Option<&mut TagSlot> {
        self.tags.get_mut(usize::try_from(id.0).ok()?)?.as_deref_mut()
    }

    pub(super) fn device(&self, id: DeviceId) -> Option<&DeviceSlot> {
        self.devices.get(usize::try_from(id.0).ok()?)?.as_deref()
    }

    pub(super) fn device_mut(&mut self, id: DeviceId) -> Option<&mut DeviceSlot> {
        self.devices.get_mut(usize::try_from(id.0).ok()?)?.as_deref_mut()
    }

    /// Takes a batch; what does not belong to `session` is discarded. Empties the batch.
    pub(super) fn apply(&mut self, session: u64, batch: &mut Vec<Update>) {
        let (now, time) = (Instant::now(), SystemTime::now());
        let mut changed = Vec::new();
        for update in batch.drain(..) {
            let id = update.tag;
            let Some(slot) = self.tag_mut(id).filter(|slot| slot.session == session) else { continue };
            if slot.apply(id, update, now, time) {
                changed.push(id);
            }
        }
        self.mark_tags(&changed);
    }

    /// Gives tags a quality that keeps their values, whatever session they belong to.
    pub(super) fn degrade(
        &mut self,
        tags: impl Iterator<Item = TagId>,
        quality: Quality,
        detail: Option<&Arc<str>>,
    ) {
        let (now, time) = (Instant::now(), SystemTime::now());
        let mut changed = Vec::new();
        for id in tags {
            let update = Update { tag: id, value: None, quality, detail: detail.cloned(), at: When::Unknown };
            if self.tag_mut(id).is_some_and(|slot| slot.apply(id, update, now, time)) {
                changed.push(id);
            }
        }
        self.mark_tags(&changed);
    }

    /// Makes overdue tags uncertain; returns when the next one will be.
    pub(super) fn sweep(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let catalogue = Arc::clone(&self.catalogue);
        let ids = || catalogue.tags().iter().map(|entry| entry.id);
        let overdue = ids().filter(|&id| self.tag(id).is_some_and(|slot| slot.is_overdue(now)));
        let overdue = overdue.collect::<Vec<_>>();
        self.degrade(overdue.into_iter(), Quality::Uncertain(Reason::Stale), None);
        ids().filter_map(|id| self.tag(id)?.expiry()).min()
    }

    fn mark_tags(&self, changed: &[TagId]) {
        if !changed.is_empty() {
            for subscriber in &self.subscribers {
                subscriber.mark_tags(changed);
            }
        }
    }

    pub(super) fn mark_device(&self, id: DeviceId) {
        for subscriber in &self.subscribers {
            subscriber.mark_device(id);
        }
    }

    pub(super) fn device_reading(&self, id: DeviceId) -> Option<DeviceReading> {
        let slot = self.device(id)?;
        let mut counts = Counts::default();
        let now = Instant::now();
        for entry in self.catalogue.tags_of(&slot.device.name) {
            match self.tag(entry.id).map(|slot| slot.reading_quality(now)) {
                Some(Quality::Good) => counts.good += 1,
                Some(Quality::Uncertain(_)) => counts.uncertain += 1,
                Some(Quality::Bad(_)) | None => counts.bad += 1,
            }
        }
        Some(DeviceReading {
            link: slot.link,
            link_detail: slot.link_detail.clone(),
            state: slot.state,
            detail: slot.detail.clone(),
            since: slot.since,
            counts,
        })
    }
}

impl TagSlot {
    fn reading_quality(&self, now: Instant) -> Quality {
        if self.is_overdue(now) { Quality::Uncertain(Reason::Stale) } else { self.sample.quality }
    }
}

/// Shortest and longest pause of the sweeper.
pub(super) const SWEEP: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
