//! Current samples, the change feed with its subscriptions, and observers. Knows no protocols and no MCP.

mod bits;
mod catalogue;
mod observer;
mod session;
mod slots;
mod subscription;

#[cfg(test)]
mod tests;

use std::{
    collections::HashSet,
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, SystemTime},
};

use tokio::time::{Instant, sleep_until};

pub use catalogue::{Catalogue, DeviceEntry, TagEntry};
use observer::Registered;
pub use observer::{Observation, Observer};
use parking_lot::RwLock;
pub use session::Connection;
use slots::{DeviceSlot, SWEEP, Slots, TagSlot};
pub use subscription::{Change, Subscription, Target};

use crate::{
    link::Counters,
    model::{Device, DeviceId, DeviceState, LinkState, Sample, Tag, TagId},
};

/// Everything that is known of the plant now.
#[derive(Debug, Default)]
pub struct Store {
    slots: RwLock<Slots>,
    sessions: AtomicU64,
}

/// A tag's sample as it is at the moment of asking: staleness and age included.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    pub sample: Sample,
    /// Age of the value; `None` until a first value came.
    pub age: Option<Duration>,
}

/// A device's state as it is at the moment of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceReading {
    pub link: LinkState,
    /// Why the link is down.
    pub link_detail: Option<Arc<str>>,
    pub state: DeviceState,
    /// Such as the exception that the device answers.
    pub detail: Option<Arc<str>>,
    /// When the link or the device last changed its state.
    pub since: SystemTime,
    /// How many tags are good, uncertain and bad.
    pub counts: Counts,
}

/// How many tags have which quality.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub good: usize,
    pub uncertain: usize,
    pub bad: usize,
}

/// What a configuration puts into the store.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    pub site: String,
    pub devices: Vec<DeviceLayout>,
}

/// One device of a [`Layout`].
#[derive(Debug, Clone)]
pub struct DeviceLayout {
    pub device: Arc<Device>,
    pub counters: Arc<Counters>,
    /// The number it had, where nothing about it changed.
    pub keep: Option<DeviceId>,
    pub tags: Vec<TagLayout>,
}

/// One tag of a [`Layout`].
#[derive(Debug, Clone)]
pub struct TagLayout {
    pub tag: Arc<Tag>,
    /// The number it had, where neither it nor its source changed: it keeps its value.
    pub keep: Option<TagId>,
}

impl Store {
    /// Puts a configuration in the place of the present one; what does not keep its number starts as never read.
    pub fn install(&self, layout: Layout) -> Arc<Catalogue> {
        let mut slots = self.slots.write();
        let (mut tags, mut devices) = (Vec::new(), Vec::new());
        for DeviceLayout { device, counters, keep, tags: tag_layouts } in layout.devices {
            let id = slots.place_device(keep, &device);
            for TagLayout { tag, keep } in tag_layouts {
                tags.push(TagEntry { id: slots.place_tag(keep, &tag), tag, device: id });
            }
            devices.push(DeviceEntry { id, device, counters });
        }
        let generation = slots.catalogue.generation + 1;
        let catalogue = Arc::new(Catalogue::new(&layout.site, generation, tags, devices));
        slots.catalogue = Arc::clone(&catalogue);
        slots.retire();
        for subscriber in &slots.subscribers {
            subscriber.rebind(&catalogue);
        }
        catalogue
    }

    /// Tags and devices of the present configuration.
    #[must_use]
    pub fn catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(&self.slots.read().catalogue)
    }

    /// What is known of a tag; `None` where it is gone.
    #[must_use]
    pub fn read(&self, id: TagId) -> Option<Reading> {
        self.slots.read().tag(id).map(|slot| slot.reading(Instant::now()))
    }

    /// What is known of a device; `None` where it is gone.
    #[must_use]
    pub fn device(&self, id: DeviceId) -> Option<DeviceReading> {
        self.slots.read().device_reading(id)
    }

    /// A new subscriber, which is told of no target more often than once per `notify_min`.
    #[must_use]
    pub fn subscribe(self: &Arc<Self>, notify_min: Duration) -> Subscription {
        let subscription = Subscription::new(Arc::clone(self), notify_min);
        self.slots.write().subscribers.push(Arc::clone(subscription.shared()));
        subscription
    }

    /// Lets `observer` see every sample of `tags` from now on, the present ones first.
    pub fn observe(self: &Arc<Self>, tags: &[TagId], observer: impl Observer + 'static) -> Observation {
        let observer = Registered::new(observer);
        let mut slots = self.slots.write();
        for &id in tags {
            match slots.tag_mut(id) {
                Some(slot) => {
                    let others = std::mem::take(&mut slot.observers).into_iter();
                    slot.observers = others.chain([observer.clone()]).collect();
                    observer.observe(id, Some(&slot.sample));
                }
                None => observer.observe(id, None),
            }
        }
        Observation { store: Arc::downgrade(self), tags: tags.to_vec(), observer }
    }

    /// Makes good samples stale as their time comes; runs until dropped.
    pub async fn sweep(&self) {
        loop {
            let due = self.slots.write().sweep();
            let now = Instant::now();
            let (shortest, longest) = SWEEP;
            sleep_until(due.unwrap_or(now + longest).clamp(now + shortest, now + longest)).await;
        }
    }

    fn forget(&self, tags: &[TagId], observer: &Registered) {
        let mut slots = self.slots.write();
        for &id in tags {
            if let Some(slot) = slots.tag_mut(id) {
                let all = std::mem::take(&mut slot.observers).into_iter();
                slot.observers = all.filter(|other| !other.is(observer)).collect();
            }
        }
    }
}

impl Slots {
    fn place_tag(&mut self, keep: Option<TagId>, tag: &Arc<Tag>) -> TagId {
        if let Some(id) = keep
            && let Some(slot) = self.tag_mut(id)
        {
            slot.tag = Arc::clone(tag);
            return id;
        }
        let id = TagId(number(self.tags.len()));
        self.tags.push(Some(Box::new(TagSlot::new(Arc::clone(tag)))));
        id
    }

    fn place_device(&mut self, keep: Option<DeviceId>, device: &Arc<Device>) -> DeviceId {
        if let Some(id) = keep
            && let Some(slot) = self.device_mut(id)
        {
            slot.device = Arc::clone(device);
            return id;
        }
        let id = DeviceId(number(self.devices.len()));
        self.devices.push(Some(Box::new(DeviceSlot::new(Arc::clone(device)))));
        id
    }

    /// Empties the places of what the catalogue no longer has.
    fn retire(&mut self) {
        let tags = self.catalogue.tags().iter().map(|entry| entry.id.0).collect::<HashSet<_>>();
        for (number, place) in (0..).zip(&mut self.tags) {
            if !tags.contains(&number)
                && let Some(slot) = place.take()
            {
                for observer in &slot.observers {
                    observer.observe(TagId(number), None);
                }
            }
        }
        let devices = self.catalogue.devices().iter().map(|entry| entry.id.0).collect::<HashSet<_>>();
        for (number, place) in (0..).zip(&mut self.devices) {
            if !devices.contains(&number) {
                *place = None;
            }
        }
    }
}

fn number(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
