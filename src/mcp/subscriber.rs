//! One subscriber's targets, and the spellings of URIs that it used for them.
//!
//! It keeps no queue: what was not fetched yet stays coalesced in the store's marks, so a subscriber that fetches
//! late or never costs a bounded amount of memory and blocks nobody.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
};

use parking_lot::Mutex;
use rmcp::model::{
    ResourceListChangedNotification, ResourceUpdatedNotification, ResourceUpdatedNotificationParam,
    ServerNotification,
};

use super::uri;
use crate::store::{Change, Subscription, Target};

/// How many spellings of one tag's URI a subscriber is told of.
const SPELLINGS: usize = 8;

/// Ended subscriptions that are remembered, for requests that are overtaken by later ones: as many as can be on the way.
const ENDED: usize = 1024;

/// A legacy session, or one `subscriptions/listen` stream.
#[derive(Debug)]
pub(super) struct Subscriber {
    feed: Subscription,
    /// Held over what is done to `feed`, so that the two never differ.
    wanted: Mutex<Wanted>,
}

/// What the requests say that came in so far, in whatever order they are worked through.
#[derive(Debug, Default)]
struct Wanted {
    /// The spellings of each target, with the stamp of the latest request for each.
    spellings: HashMap<Target, Vec<(String, u64)>>,
    /// The stamp of the latest request to end the subscription to each of these, by a hash of the target.
    ended: HashMap<u64, u64>,
    hasher: RandomState,
}

impl Wanted {
    fn end(&mut self, target: &Target, stamp: u64) {
        let key = self.hasher.hash_one(target);
        let ended = self.ended.entry(key).or_default();
        *ended = stamp.max(*ended);
        if self.ended.len() > ENDED
            && let Some(oldest) = self.ended.iter().min_by_key(|(_, stamp)| **stamp).map(|(key, _)| *key)
        {
            self.ended.remove(&oldest);
        }
    }

    /// Whether a request of `stamp` was taken back by a later one that overtook it.
    fn is_ended(&self, target: &Target, stamp: u64) -> bool {
        self.ended.get(&self.hasher.hash_one(target)).is_some_and(|ended| *ended > stamp)
    }
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
        Self { feed, wanted: Mutex::default() }
    }

    /// Subscribes; `stamp` says when the request came in, and an end that came in later goes before it.
    pub(super) fn subscribe(&self, uri: &str, stamp: u64) -> Result<(), Problem> {
        let target = uri::parse(uri).ok_or(Problem::Unknown)?;
        let mut wanted = self.wanted.lock();
        if wanted.is_ended(&target, stamp) {
            return Ok(());
        }
        let known = wanted.spellings.get_mut(&target);
        if let Some((_, last)) =
            known.and_then(|known| known.iter_mut().find(|(spelling, _)| spelling == uri))
        {
            *last = stamp.max(*last);
            return Ok(());
        }
        let known = wanted.spellings.get(&target).map_or(0, Vec::len);
        if known >= SPELLINGS {
            return Err(Problem::Spellings);
        }
        if known == 0 && !self.feed.add(target.clone()) {
            return Err(Problem::Unknown);
        }
        wanted.spellings.entry(target).or_default().push((uri.to_owned(), stamp));
        Ok(())
    }

    /// Ends a subscription, in whatever spelling, as far as it was not asked for later; that there is none is no error.
    pub(super) fn unsubscribe(&self, uri: &str, stamp: u64) {
        let Some(target) = uri::parse(uri) else { return };
        let mut wanted = self.wanted.lock();
        wanted.end(&target, stamp);
        let Some(spellings) = wanted.spellings.get_mut(&target) else { return };
        spellings.retain(|(_, last)| *last > stamp);
        if spellings.is_empty() {
            wanted.spellings.remove(&target);
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
            let wanted = self.wanted.lock();
            let mut notifications = Vec::with_capacity(changes.len());
            for change in changes {
                match change {
                    Change::Catalogue => notifications.push(list_changed()),
                    Change::Target(target) => {
                        let uris = wanted.spellings.get(&target).map_or(&[][..], Vec::as_slice);
                        notifications.extend(uris.iter().map(|(uri, _)| updated(uri)));
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

#[cfg(test)]
#[expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::{mcp::tests::plant::Plant, model::Value};

    const URI: &str = "fieldbridge://tags/boiler/temperature";
    const OTHER: &str = "fieldbridge://tags/boiler%2Ftemperature";

    fn told(plant: &Plant, subscriber: &Subscriber, value: i64) -> Vec<String> {
        plant.publish("boiler/temperature", Value::I64(value));
        let notifications = subscriber.next().now_or_never().unwrap_or_default();
        let uris = notifications.into_iter().map(|notification| match notification {
            ServerNotification::ResourceUpdatedNotification(updated) => updated.params.uri,
            other => panic!("{other:?}"),
        });
        uris.collect()
    }

    #[tokio::test]
    async fn requests_count_in_the_order_in_which_they_came_in() {
        let plant = Plant::new(0);
        let subscriber = plant.mcp.subscriber();
        subscriber.subscribe(URI, 1).unwrap();
        assert_eq!(told(&plant, &subscriber, 1), [URI]);
        // It came in before the third, and is worked through after it.
        subscriber.subscribe(URI, 3).unwrap();
        subscriber.unsubscribe(URI, 2);
        assert_eq!(told(&plant, &subscriber, 2), [URI]);
        subscriber.unsubscribe(URI, 5);
        subscriber.subscribe(OTHER, 4).unwrap();
        assert!(told(&plant, &subscriber, 3).is_empty());
        subscriber.subscribe(URI, 6).unwrap();
        subscriber.subscribe(OTHER, 8).unwrap();
        subscriber.unsubscribe(OTHER, 7);
        assert_eq!(told(&plant, &subscriber, 4), [OTHER]);
    }

    #[tokio::test]
    async fn of_ends_only_so_many_are_remembered() {
        let plant = Plant::new(0);
        let subscriber = plant.mcp.subscriber();
        for stamp in 0..3000 {
            subscriber.unsubscribe(&format!("fieldbridge://tags/boiler/t{stamp}"), stamp);
        }
        assert_eq!(subscriber.wanted.lock().ended.len(), ENDED);
        assert!(subscriber.wanted.lock().ended.values().all(|stamp| *stamp >= 3000 - 1024));
    }
}
