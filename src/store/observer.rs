//! Observers: conditions and accumulators that see every sample, which marks may skip.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

use super::Store;
use crate::model::{Sample, TagId};

/// Sees every sample of the tags it was registered for, in order.
///
/// It runs inside the store's lock: it must be quick and must not call the store.
pub trait Observer: Send {
    /// `None`: the tag is gone from the configuration.
    fn observe(&mut self, tag: TagId, sample: Option<&Sample>);
}

/// Keeps an observer registered; dropping it ends that.
#[must_use = "dropping an observation ends it"]
#[derive(Debug)]
pub struct Observation {
    pub(super) store: Weak<Store>,
    pub(super) tags: Vec<TagId>,
    pub(super) observer: Registered,
}

#[derive(Clone)]
pub(super) struct Registered(Arc<Mutex<dyn Observer>>);

impl Registered {
    pub(super) fn new(observer: impl Observer + 'static) -> Self {
        Self(Arc::new(Mutex::new(observer)))
    }

    pub(super) fn observe(&self, tag: TagId, sample: Option<&Sample>) {
        self.0.lock().observe(tag, sample);
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        if let Some(store) = self.store.upgrade() {
            store.forget(&self.tags, &self.observer);
        }
    }
}
