//! The store's side of a link: opens sessions, discards what ended ones still say.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use super::Store;
use crate::{
    link::{Host, Publish, Sink},
    model::{DeviceId, DeviceState, LinkState, Quality, Reason, TagId, Update},
};

/// The tags and devices of one link, in one configuration.
pub struct Connection {
    store: Arc<Store>,
    tags: Arc<[TagId]>,
    devices: Arc<[DeviceId]>,
    session: AtomicU64,
}

struct Session {
    store: Arc<Store>,
    devices: Arc<[DeviceId]>,
    number: u64,
}

impl Connection {
    pub fn new(store: Arc<Store>, tags: Arc<[TagId]>, devices: Arc<[DeviceId]>) -> Self {
        Self { store, tags, devices, session: AtomicU64::new(0) }
    }
}

impl Host for Connection {
    fn open(&self) -> Sink {
        let number = self.store.sessions.fetch_add(1, Ordering::Relaxed) + 1;
        self.session.store(number, Ordering::Relaxed);
        let mut slots = self.store.slots.write();
        for &id in &*self.tags {
            if let Some(slot) = slots.tag_mut(id) {
                slot.session = number;
            }
        }
        for &id in &*self.devices {
            if let Some(slot) = slots.device_mut(id) {
                slot.session = number;
                (slot.state, slot.detail) = (DeviceState::Waiting, None);
            }
        }
        let (store, devices) = (Arc::clone(&self.store), Arc::clone(&self.devices));
        Sink::new(Arc::new(Session { store, devices, number }))
    }

    fn state(&self, state: LinkState, detail: Option<&str>) {
        let detail: Option<Arc<str>> = detail.map(Into::into);
        let mut slots = self.store.slots.write();
        // A later configuration may have given the slots to another link already.
        let own = self.session.load(Ordering::Relaxed);
        for &id in &*self.devices {
            let Some(slot) = slots.device_mut(id).filter(|slot| slot.session == own) else { continue };
            // Trying again is no news; being up or down, and why, is.
            let news = (slot.link == LinkState::Connected) != (state == LinkState::Connected)
                || (detail.is_some() && slot.link_detail != detail)
                || state == LinkState::Stopped;
            slot.link = state;
            if state == LinkState::Connected {
                slot.link_detail = None;
            } else {
                (slot.state, slot.detail) = (DeviceState::NotConnected, None);
                if detail.is_some() {
                    slot.link_detail.clone_from(&detail);
                }
            }
            if news {
                slot.since = SystemTime::now();
                slots.mark_device(id);
            }
        }
        if matches!(state, LinkState::BackingOff | LinkState::Stopped) {
            let tags = self.tags.iter().copied();
            let own =
                tags.filter(|&id| slots.tag(id).is_some_and(|slot| slot.session == own)).collect::<Vec<_>>();
            slots.degrade(own.iter().copied(), Quality::Bad(Reason::NotConnected), detail.as_ref());
            for id in own {
                if let Some(slot) = slots.tag_mut(id) {
                    slot.session = 0;
                }
            }
            for &id in &*self.devices {
                if let Some(slot) = slots.device_mut(id) {
                    slot.session = 0;
                }
            }
            self.session.store(0, Ordering::Relaxed);
        }
    }
}

impl Publish for Session {
    fn publish(&self, batch: &mut Vec<Update>) {
        self.store.slots.write().apply(self.number, batch);
    }

    fn trouble(&self, detail: Option<&str>) {
        let mut slots = self.store.slots.write();
        for &id in &*self.devices {
            let Some(slot) = slots.device_mut(id).filter(|slot| slot.session == self.number) else {
                continue;
            };
            if slot.link_detail.as_deref() != detail {
                slot.link_detail = detail.map(Into::into);
                slots.mark_device(id);
            }
        }
    }

    fn device(&self, id: DeviceId, state: DeviceState, detail: Option<&str>) {
        let mut slots = self.store.slots.write();
        let Some(slot) = slots.device_mut(id).filter(|slot| slot.session == self.number) else { return };
        if slot.state != state || slot.detail.as_deref() != detail {
            (slot.state, slot.detail) = (state, detail.map(Into::into));
            slot.since = SystemTime::now();
            slots.mark_device(id);
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("devices", &self.devices).finish_non_exhaustive()
    }
}
