//! Subscriptions: which tags changed since a subscriber last looked, coalesced and paced.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use super::{Catalogue, Store, bits::Bits};
use crate::model::{DeviceId, TagId};

/// What can be subscribed to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// A tag, by its path.
    Tag(String),
    /// The state of a device, by its name.
    Device(String),
}

/// What a subscriber is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The tag or the device's state changed, or it is gone.
    Target(Target),
    /// Tags or devices were added, removed or redefined.
    Catalogue,
}

/// One subscriber's view of the change feed; it ends when dropped.
#[derive(Debug)]
pub struct Subscription {
    store: Arc<Store>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    marks: Mutex<Marks>,
    wake: Notify,
    notify_min: Duration,
}

#[derive(Debug, Default)]
struct Marks {
    tags: Feed,
    devices: Feed,
    /// Subscribed, but not there at present.
    absent: Vec<Target>,
    /// Was there, is gone, and the subscriber was not told yet.
    gone: Vec<Target>,
    catalogue: bool,
}

/// Interest and marks of one kind of number.
#[derive(Debug, Default)]
struct Feed {
    interest: Bits,
    dirty: Bits,
    entries: HashMap<u32, Entry>,
}

#[derive(Debug)]
struct Entry {
    target: Target,
    told: Option<Instant>,
}

impl Subscription {
    pub(super) fn new(store: Arc<Store>, notify_min: Duration) -> Self {
        let shared = Arc::new(Shared { marks: Mutex::default(), wake: Notify::new(), notify_min });
        Self { store, shared }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Subscribes to `target`; `false` where there is no such tag or device now.
    #[must_use]
    pub fn add(&self, target: Target) -> bool {
        // The store's lock is held, so that no reload can come between looking up and subscribing.
        let slots = self.store.slots.read();
        self.shared.marks.lock().bind(&slots.catalogue, target, false)
    }

    /// Ends the subscription to `target`.
    pub fn remove(&self, target: &Target) {
        self.shared.marks.lock().remove(target);
    }

    /// Marks all that is subscribed, for a client that may have missed notifications.
    pub fn mark_all(&self) {
        let mut marks = self.shared.marks.lock();
        marks.tags.dirty = marks.tags.interest.clone();
        marks.devices.dirty = marks.devices.interest.clone();
        drop(marks);
        self.shared.wake.notify_one();
    }

    /// Waits for changes: each target once, however often it changed, and at most once per `notify_min`.
    ///
    /// Cancel-safe: what was not returned stays marked.
    pub async fn next(&self) -> Vec<Change> {
        loop {
            let later = {
                let mut changes = Vec::new();
                let later = self.shared.marks.lock().drain(self.shared.notify_min, &mut changes);
                if !changes.is_empty() {
                    return changes;
                }
                later
            };
            match later {
                Some(later) => tokio::select! {
                    () = self.shared.wake.notified() => {}
                    () = sleep_until(later) => {}
                },
                None => self.shared.wake.notified().await,
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.store.slots.write().subscribers.retain(|shared| !Arc::ptr_eq(shared, &self.shared));
    }
}

impl Shared {
    pub(super) fn mark_tags(&self, changed: &[TagId]) {
        self.mark(|marks| &mut marks.tags, changed.iter().map(|id| id.0));
    }

    pub(super) fn mark_device(&self, changed: DeviceId) {
        self.mark(|marks| &mut marks.devices, [changed.0].into_iter());
    }

    fn mark(&self, feed: impl FnOnce(&mut Marks) -> &mut Feed, numbers: impl Iterator<Item = u32>) {
        let mut marked = false;
        {
            let mut marks = self.marks.lock();
            let Feed { interest, dirty, .. } = feed(&mut marks);
            for number in numbers.filter(|&number| interest.contains(number)) {
                dirty.insert(number);
                marked = true;
            }
        }
        if marked {
            self.wake.notify_one();
        }
    }

    /// Follows a reload: the same targets under their new numbers, all marked whose number changed.
    pub(super) fn rebind(&self, catalogue: &Catalogue) {
        let mut marks = self.marks.lock();
        let mut targets = std::mem::take(&mut marks.absent);
        let Marks { tags, devices, gone, .. } = &mut *marks;
        for feed in [tags, devices] {
            let moved = feed
                .entries
                .iter()
                .filter(|(number, entry)| find(catalogue, &entry.target) != Some(**number));
            for number in moved.map(|(number, _)| *number).collect::<Vec<_>>() {
                let Some(entry) = feed.remove(number) else { continue };
                if find(catalogue, &entry.target).is_none() {
                    gone.push(entry.target.clone());
                }
                targets.push(entry.target);
            }
        }
        for target in targets {
            marks.bind(catalogue, target, true);
        }
        marks.catalogue = true;
        drop(marks);
        self.wake.notify_one();
    }
}

impl Marks {
    /// Whether the target is there; it stays subscribed only where it is, or where it was once (`keep`).
    fn bind(&mut self, catalogue: &Catalogue, target: Target, keep: bool) -> bool {
        let Some(number) = find(catalogue, &target) else {
            if keep {
                self.absent.push(target);
            }
            return false;
        };
        let feed = match target {
            Target::Tag(_) => &mut self.tags,
            Target::Device(_) => &mut self.devices,
        };
        feed.interest.insert(number);
        if keep {
            feed.dirty.insert(number);
        }
        feed.entries.entry(number).or_insert(Entry { target, told: None });
        true
    }

    fn remove(&mut self, target: &Target) {
        self.absent.retain(|absent| absent != target);
        self.gone.retain(|gone| gone != target);
        for feed in [&mut self.tags, &mut self.devices] {
            let number =
                feed.entries.iter().find(|(_, entry)| entry.target == *target).map(|(number, _)| *number);
            if let Some(number) = number {
                feed.remove(number);
            }
        }
    }

    /// Takes what may be told now; returns when the next of the rest may be.
    fn drain(&mut self, notify_min: Duration, changes: &mut Vec<Change>) -> Option<Instant> {
        if std::mem::take(&mut self.catalogue) {
            changes.push(Change::Catalogue);
        }
        changes.extend(self.gone.drain(..).map(Change::Target));
        let now = Instant::now();
        let later = [&mut self.tags, &mut self.devices].map(|feed| feed.drain(now, notify_min, changes));
        later.into_iter().flatten().min()
    }
}

impl Feed {
    fn remove(&mut self, number: u32) -> Option<Entry> {
        self.interest.remove(number);
        self.dirty.remove(number);
        self.entries.remove(&number)
    }

    fn drain(&mut self, now: Instant, notify_min: Duration, changes: &mut Vec<Change>) -> Option<Instant> {
        let dirty = std::mem::take(&mut self.dirty);
        let mut earliest: Option<Instant> = None;
        for number in dirty.iter() {
            let Some(entry) = self.entries.get_mut(&number) else { continue };
            match entry.told.map(|told| told + notify_min) {
                Some(due) if due > now => {
                    self.dirty.insert(number);
                    earliest = Some(earliest.map_or(due, |earliest| earliest.min(due)));
                }
                _ => {
                    entry.told = Some(now);
                    changes.push(Change::Target(entry.target.clone()));
                }
            }
        }
        earliest
    }
}

fn find(catalogue: &Catalogue, target: &Target) -> Option<u32> {
    match target {
        Target::Tag(path) => catalogue.tag(path).map(|entry| entry.id.0),
        Target::Device(name) => catalogue.device(name).map(|entry| entry.id.0),
    }
}
