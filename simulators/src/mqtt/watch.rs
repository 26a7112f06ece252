//! The test's side of the broker: what reached it, who is there, what it keeps.
//!
//! Nothing here touches the network.

use std::{
    collections::{BTreeMap, VecDeque},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use mqtt5::{
    QoS,
    broker::{
        BrokerEventHandler, ClientConnectEvent, ClientDisconnectEvent, ClientPublishEvent,
        ClientSubscribeEvent, ClientUnsubscribeEvent, PublishAction, RetainedSetEvent, SubAckReasonCode,
    },
};
use tokio::sync::watch;

use super::{model::Message, rules::Rules};

/// Messages that the log holds.
const LOG: usize = 10_000;

/// A message that a client published. Wills are none: the broker publishes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    pub client: String,
    pub message: Message,
}

/// A look into a broker. Cheap to clone, outlives the broker.
#[derive(Debug, Clone, Default)]
pub struct Handle {
    seen: Arc<Mutex<Seen>>,
    /// Told after every change, outside of all locks.
    changes: Arc<watch::Sender<()>>,
    pub(super) rules: Arc<Rules>,
}

#[derive(Debug, Default)]
struct Seen {
    clients: BTreeMap<String, Client>,
    connects: u64,
    subscribes: u64,
    published: u64,
    log: VecDeque<Published>,
    retained: BTreeMap<String, Bytes>,
}

#[derive(Debug, Default)]
struct Client {
    connections: usize,
    /// Granted ones.
    filters: BTreeMap<String, QoS>,
}

impl Handle {
    /// Whether a client of this identifier is connected.
    #[must_use]
    pub fn connected(&self, client: &str) -> bool {
        self.lock().clients.get(client).is_some_and(|client| client.connections > 0)
    }

    /// Connections accepted so far, those with a wrong password not among them.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.lock().connects
    }

    /// Filters that a client subscribed to in its last session or this one, and the `QoS` granted for each.
    #[must_use]
    pub fn subscriptions(&self, client: &str) -> BTreeMap<String, QoS> {
        self.lock().clients.get(client).map(|client| client.filters.clone()).unwrap_or_default()
    }

    /// SUBSCRIBE packets so far.
    #[must_use]
    pub fn subscribes(&self) -> u64 {
        self.lock().subscribes
    }

    /// Messages published so far; those that were refused are not among them.
    #[must_use]
    pub fn published(&self) -> u64 {
        self.lock().published
    }

    /// The messages published, in order: all, or the last 10 000.
    #[must_use]
    pub fn log(&self) -> Vec<Published> {
        self.lock().log.iter().cloned().collect()
    }

    /// The messages published to a topic, in order; see [`Handle::log`].
    #[must_use]
    pub fn messages(&self, topic: &str) -> Vec<Message> {
        let seen = self.lock();
        seen.log
            .iter()
            .map(|entry| &entry.message)
            .filter(|message| message.topic == topic)
            .cloned()
            .collect()
    }

    /// What the broker has kept for a topic since it started.
    #[must_use]
    pub fn retained(&self, topic: &str) -> Option<Bytes> {
        self.lock().retained.get(topic).cloned()
    }

    /// From now on only these users may connect, by name and password; with none everybody may.
    pub fn users<'a>(&self, users: impl IntoIterator<Item = (&'a str, &'a str)>) {
        let users = users.into_iter().map(|(name, password)| (name.to_owned(), password.to_owned()));
        self.rules.users(users.collect());
    }

    /// From now on subscriptions to exactly these filters are refused as not authorized.
    pub fn refuse_subscriptions<'a>(&self, filters: impl IntoIterator<Item = &'a str>) {
        self.rules.refuse_subscriptions(filters.into_iter().map(ToOwned::to_owned).collect());
    }

    /// From now on messages to topics that these filters match are refused as not authorized. MQTT 3.1.1 has no way to
    /// say so: there they are acknowledged and go nowhere.
    pub fn refuse_publishing<'a>(&self, filters: impl IntoIterator<Item = &'a str>) {
        self.rules.refuse_publishing(filters.into_iter().map(ToOwned::to_owned).collect());
    }

    /// Waits until `ready` holds: asked now and after everything that happens at the broker.
    pub async fn wait_for(&self, mut ready: impl FnMut(&Self) -> bool) {
        let mut changes = self.changes.subscribe();
        while !ready(self) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Seen)) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        change(&mut self.lock());
        self.changes.send_replace(());
        Box::pin(std::future::ready(()))
    }
}

type Done<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

impl BrokerEventHandler for Handle {
    fn on_client_connect(&self, event: ClientConnectEvent) -> Done<'_> {
        self.change(|seen| {
            seen.connects += 1;
            let client = seen.clients.entry(event.client_id.to_string()).or_default();
            client.connections += 1;
            if event.clean_start {
                client.filters.clear();
            }
        })
    }

    fn on_client_disconnect(&self, event: ClientDisconnectEvent) -> Done<'_> {
        self.change(|seen| {
            if let Some(client) = seen.clients.get_mut(&*event.client_id) {
                client.connections = client.connections.saturating_sub(1);
            }
        })
    }

    fn on_client_subscribe(&self, event: ClientSubscribeEvent) -> Done<'_> {
        self.change(|seen| {
            seen.subscribes += 1;
            let client = seen.clients.entry(event.client_id.to_string()).or_default();
            for subscription in event.subscriptions {
                let granted = match subscription.result {
                    SubAckReasonCode::GrantedQoS0 => QoS::AtMostOnce,
                    SubAckReasonCode::GrantedQoS1 => QoS::AtLeastOnce,
                    SubAckReasonCode::GrantedQoS2 => QoS::ExactlyOnce,
                    _ => continue,
                };
                client.filters.insert(subscription.topic_filter.to_string(), granted);
            }
        })
    }

    fn on_client_unsubscribe(&self, event: ClientUnsubscribeEvent) -> Done<'_> {
        self.change(|seen| {
            if let Some(client) = seen.clients.get_mut(&*event.client_id) {
                client.filters.retain(|filter, _| !event.topic_filters.iter().any(|gone| **gone == **filter));
            }
        })
    }

    fn on_client_publish<'a>(
        &'a self,
        event: ClientPublishEvent,
    ) -> Pin<Box<dyn Future<Output = PublishAction> + Send + 'a>> {
        if self.rules.drops(&event.client_id, &event.topic) {
            return Box::pin(async { PublishAction::Handled });
        }
        let message = Message {
            topic: event.topic.to_string(),
            // A copy, since it may be a slice of a buffer that is much larger.
            payload: Bytes::copy_from_slice(&event.payload),
            qos: event.qos,
            retain: event.retain,
            response_topic: event.response_topic.map(|topic| topic.to_string()),
            correlation: event.correlation_data,
        };
        let done = self.change(|seen| {
            seen.published += 1;
            if seen.log.len() == LOG {
                seen.log.pop_front();
            }
            seen.log.push_back(Published { client: event.client_id.to_string(), message });
        });
        drop(done);
        Box::pin(async { PublishAction::Continue })
    }

    fn on_retained_set(&self, event: RetainedSetEvent) -> Done<'_> {
        self.change(|seen| {
            let topic = event.topic.to_string();
            if event.cleared {
                seen.retained.remove(&topic);
            } else {
                seen.retained.insert(topic, Bytes::copy_from_slice(&event.payload));
            }
        })
    }
}
