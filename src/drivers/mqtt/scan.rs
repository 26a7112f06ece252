//! Listens at a broker for a while, to see which topics there are; publishes nothing.

use std::{collections::BTreeMap, pin::pin, sync::Arc};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};

use super::{
    Connection, Mqtt,
    client::{Event, Failure, Granted, Message},
};
use crate::{
    codec::topic::{Filters, Pattern},
    config::MqttEndpoint,
    link::LinkError,
    profile::mqtt::Qos,
};

/// Bytes of a payload that are kept.
const KEPT: usize = 65_536;

/// What was heard.
#[derive(Debug, Default)]
pub struct Heard {
    pub topics: BTreeMap<String, Topic>,
    pub messages: u64,
    /// Messages on topics for which there was no more room.
    pub left_out: u64,
    /// Filters that the broker refuses, and why.
    pub refused: Vec<(String, String)>,
}

/// One topic.
#[derive(Debug, Default)]
pub struct Topic {
    pub messages: u64,
    /// How many of these the broker had kept.
    pub retained: u64,
    /// The last payload, or as much of it as is kept.
    pub payload: Bytes,
    /// Bytes of the last payload.
    pub size: usize,
}

type Answer = (String, Option<Vec<Granted>>);

/// An open connection that listens.
pub struct Scan {
    connection: Connection,
    address: String,
    grants: FuturesUnordered<BoxFuture<'static, Answer>>,
    most: usize,
    heard: Heard,
}

impl Scan {
    /// Connects and subscribes; of more than `most` topics only the number of messages is known.
    pub async fn open(endpoint: MqttEndpoint, patterns: &[Pattern], most: usize) -> Result<Self, LinkError> {
        let address = endpoint.address.clone();
        let connection = Mqtt::new(endpoint, &[], Arc::default()).open().await?;
        let grants = FuturesUnordered::new();
        let mut heard = Heard::default();
        for (filter, _) in Filters::new(patterns.iter().map(|pattern| (pattern, 0))).list() {
            match connection.sender.subscribe(&[(filter.clone(), Qos::AtMostOnce)], None) {
                Ok(answer) => {
                    let filter = filter.clone();
                    grants.push(answer.map(move |granted| (filter, granted)).boxed());
                }
                Err(problem) => heard.refused.push((filter.clone(), problem)),
            }
        }
        Ok(Self { connection, address, grants, most, heard })
    }

    /// Listens until `end`, or until the connection is lost.
    pub async fn listen<T>(&mut self, end: impl Future<Output = T>) -> Result<T, LinkError> {
        let mut end = pin!(end);
        loop {
            // To be driven to its end: halfway dropped it may lose what it read.
            let mut next = pin!(self.connection.events.next());
            let event = loop {
                tokio::select! {
                    biased;
                    ended = &mut end => return Ok(ended),
                    Some((filter, granted)) = self.grants.next(), if !self.grants.is_empty() => {
                        for code in granted.into_iter().flatten().filter_map(Result::err) {
                            self.heard.refused.push((filter.clone(), code.to_string()));
                        }
                    }
                    event = &mut next => break event,
                }
            };
            match event {
                Ok(Event::Message(message)) => self.heard.take(&message, self.most),
                Ok(Event::Other) => {}
                Err(Failure { problem, lasting }) => {
                    return Err(LinkError { address: self.address.clone(), problem, lasting });
                }
            }
        }
    }

    #[must_use]
    pub fn heard(&self) -> &Heard {
        &self.heard
    }
}

impl Heard {
    fn take(&mut self, message: &Message, most: usize) {
        self.messages += 1;
        let Ok(name) = str::from_utf8(&message.topic) else { return };
        // Without a payload a retained message is only cleared.
        if message.payload.is_empty() {
            return;
        }
        if !self.topics.contains_key(name) {
            if self.topics.len() == most {
                self.left_out += 1;
                return;
            }
            self.topics.insert(name.to_owned(), Topic::default());
        }
        let Some(topic) = self.topics.get_mut(name) else { return };
        topic.messages += 1;
        topic.retained += u64::from(message.retain);
        topic.size = message.payload.len();
        // A copy: the message may be a small part of a large buffer.
        topic.payload = Bytes::copy_from_slice(message.payload.get(..KEPT).unwrap_or(&message.payload));
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").field("address", &self.address).finish_non_exhaustive()
    }
}
