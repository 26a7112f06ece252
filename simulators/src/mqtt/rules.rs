//! Who may connect, and what may be published and subscribed to.
//!
//! Compares plain texts: a simulated broker protects nothing, it only refuses.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
};

use mqtt5::{
    Result,
    broker::auth::{AuthProvider, AuthResult},
    packet::connect::ConnectPacket,
    topic_matches_filter,
    types::ReasonCode,
};

/// What the broker asks before it lets something happen.
#[derive(Debug, Default)]
pub(super) struct Rules(Mutex<Refused>);

#[derive(Debug, Default)]
struct Refused {
    /// Passwords by user; with none everybody may connect.
    users: BTreeMap<String, String>,
    subscriptions: Vec<String>,
    publishing: Vec<String>,
    /// Clients of MQTT 3.1.1, which has no way to refuse a message.
    old: BTreeSet<String>,
}

impl Refused {
    fn refuses(&self, topic: &str) -> bool {
        self.publishing.iter().any(|filter| topic_matches_filter(topic, filter))
    }
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl Rules {
    pub(super) fn users(&self, users: BTreeMap<String, String>) {
        self.lock().users = users;
    }

    pub(super) fn refuse_subscriptions(&self, filters: Vec<String>) {
        self.lock().subscriptions = filters;
    }

    pub(super) fn refuse_publishing(&self, filters: Vec<String>) {
        self.lock().publishing = filters;
    }

    /// Whether a message is to be acknowledged and to go nowhere.
    pub(super) fn drops(&self, client: &str, topic: &str) -> bool {
        let refused = self.lock();
        refused.old.contains(client) && refused.refuses(topic)
    }

    fn lock(&self) -> MutexGuard<'_, Refused> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AuthProvider for Rules {
    fn authenticate<'a>(
        &'a self,
        connect: &'a ConnectPacket,
        _client_addr: SocketAddr,
    ) -> Answer<'a, Result<AuthResult>> {
        let mut refused = self.lock();
        if connect.protocol_version == 5 {
            refused.old.remove(&connect.client_id);
        } else {
            refused.old.insert(connect.client_id.clone());
        }
        let known =
            connect.username.as_ref().and_then(|user| refused.users.get(user).map(|known| (user, known)));
        let answer = match known {
            Some((user, known)) if connect.password.as_deref() == Some(known.as_bytes()) => {
                AuthResult::success_with_user(user.clone())
            }
            _ if refused.users.is_empty() => AuthResult::success(),
            _ => AuthResult::fail(ReasonCode::BadUsernameOrPassword),
        };
        Box::pin(async { Ok(answer) })
    }

    fn authorize_publish<'a>(
        &'a self,
        client: &str,
        _user: Option<&'a str>,
        topic: &'a str,
    ) -> Answer<'a, bool> {
        let refused = self.lock();
        let refused = refused.refuses(topic) && !refused.old.contains(client);
        Box::pin(async move { !refused })
    }

    fn authorize_subscribe<'a>(
        &'a self,
        _client: &str,
        _user: Option<&'a str>,
        filter: &'a str,
    ) -> Answer<'a, bool> {
        let refused = self.lock().subscriptions.iter().any(|refused| refused == filter);
        Box::pin(async move { !refused })
    }
}
