//! One subscriber's targets, and the spellings of URIs that it used for them.
//!
//! It keeps no queue: what was not fetched yet stays coalesced in the store's marks, so a subscriber that fetches
//! late or never costs a bounded amount of memory and blocks nobody.

use std::collections::HashMap;

use parking_lot::Mutex;
use rmcp::model::{
    ResourceListChangedNotification, ResourceUpdatedNotification, ResourceUpdatedNotificationParam,
    ServerNotification,
};

use super::uri;
use crate::store::{Change, Subscription, Target};

/// How many spellings of one tag's URI a subscriber is told of.
const SPELLINGS: usize = 8;

/// A legacy session, or one `subscriptions/listen` stream.
#[derive(Debug)]
pub(super) struct Subscriber {
    feed: Subscription,
    spellings: Mutex<HashMap<Target, Vec<String>>>,
}

/// Why a URI cannot be subscribed to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("no such resource")]
    Unknown,
    #[error("the same resource is subscribed to under {SPELLINGS} spellings already")]
    Spellings,
}

impl Subscriber {
    pub(super) fn new(feed: Subscription) -> Self {
        Self { feed, spellings: Mutex::default() }
    }

    pub(super) fn subscribe(&self, uri: &str) -> Result<(), Problem> {
        let target = uri::parse(uri).ok_or(Problem::Unknown)?;
        let mut spellings = self.spellings.lock();
        let known = spellings.get(&target).map_or(0, Vec::len);
        if spellings.get(&target).is_some_and(|known| known.iter().any(|known| known == uri)) {
            return Ok(());
        }
        if known >= SPELLINGS {
            return Err(Problem::Spellings);
        }
        if known == 0 && !self.feed.add(target.clone()) {
            return Err(Problem::Unknown);
        }
        spellings.entry(target).or_default().push(uri.to_owned());
        Ok(())
    }

    /// Ends a subscription, in whatever spelling; that there is none is no error.
    pub(super) fn unsubscribe(&self, uri: &str) {
        let Some(target) = uri::parse(uri) else { return };
        if self.spellings.lock().remove(&target).is_some() {
            self.feed.remove(&target);
        }
    }

    /// Marks all that is subscribed to, for a stream that opens and may have missed notifications.
    pub(super) fn mark_all(&self) {
        self.feed.mark_all();
    }

    /// Waits for notifications: each resource once, however often it changed.
    ///
    /// Cancel-safe: what was not returned comes again.
    pub(super) async fn next(&self) -> Vec<ServerNotification> {
        loop {
            let changes = self.feed.next().await;
            let spellings = self.spellings.lock();
            let mut notifications = Vec::with_capacity(changes.len());
            for change in changes {
                match change {
                    Change::Catalogue => notifications.push(list_changed()),
                    Change::Target(target) => {
                        let uris = spellings.get(&target).map_or(&[][..], Vec::as_slice);
                        notifications.extend(uris.iter().map(|uri| updated(uri)));
                    }
                }
            }
            if !notifications.is_empty() {
                return notifications;
            }
        }
    }
}

fn updated(uri: &str) -> ServerNotification {
    let param = ResourceUpdatedNotificationParam::new(uri);
    ServerNotification::ResourceUpdatedNotification(ResourceUpdatedNotification::new(param))
}

fn list_changed() -> ServerNotification {
    ServerNotification::ResourceListChangedNotification(ResourceListChangedNotification::default())
}
