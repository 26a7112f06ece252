//! A device's connection: what is published over it and when, and what its end leaves.

use std::{
    collections::{BTreeSet, VecDeque},
    io,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use mqtt5::{
    ConnectOptions, ConnectionEvent, MqttClient, PublishOptions, QoS, SubscribeOptions, WillMessage,
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{Done, LOG, Order, Settings, Shared};
use crate::mqtt::{
    fault::{self, Fault},
    model::{Message, Model, Part, Publication},
};

/// Between two tries to connect.
const RETRY: Duration = Duration::from_millis(100);
/// How long a farewell may take.
const FAREWELL: Duration = Duration::from_secs(2);
/// A flood comes in waves of this distance.
const WAVE: Duration = Duration::from_millis(10);
/// The most beats that one wave makes up for.
const HIGHEST_WAVE: u32 = 10_000;
/// What a beat of a flood by hand lets pass.
const MOMENT: Duration = Duration::from_millis(1);

/// Lives a device's life.
pub(super) struct Runner<M> {
    url: String,
    shared: Arc<Shared<M>>,
    settings: Settings,
    orders: mpsc::UnboundedReceiver<Order>,
    client: Option<MqttClient>,
    /// By the device's own clock.
    passed: Duration,
    /// Commands that wait, and until when.
    pending: VecDeque<(Instant, Message)>,
    /// Topics for which the broker keeps garbage.
    spoilt: BTreeSet<String>,
}

/// An open connection.
struct Session {
    arrivals: mpsc::UnboundedReceiver<Message>,
    lost: CancellationToken,
}

enum Event {
    Lost,
    Arrived(Message),
    Due,
    Ordered(Order),
    Tick,
    /// Nobody can order anything any more.
    Left,
}

impl<M: Model> Runner<M> {
    pub(super) fn new(
        url: String,
        shared: Arc<Shared<M>>,
        settings: Settings,
        orders: mpsc::UnboundedReceiver<Order>,
    ) -> Self {
        let (pending, spoilt) = (VecDeque::new(), BTreeSet::new());
        Self { url, shared, settings, orders, client: None, passed: Duration::ZERO, pending, spoilt }
    }

    /// Connects and serves, again and again.
    pub(super) async fn live(&mut self) {
        loop {
            match self.open().await {
                Ok(mut session) => self.serve(&mut session).await,
                Err(error) => tracing::debug!(url = self.url, %error, "mqtt device cannot connect"),
            }
            self.cut().await;
            self.rest().await;
        }
    }

    /// Says farewell where there is a connection.
    pub(super) async fn leave(&mut self) {
        let farewell = self.shared.lock().model.farewell();
        let leave = async {
            self.publish(farewell, self.settings.qos).await?;
            match self.client.take() {
                Some(client) => client.disconnect().await.map_err(io::Error::other),
                None => Ok(()),
            }
        };
        if !matches!(timeout(FAREWELL, leave).await, Ok(Ok(()))) {
            self.cut().await;
        }
        self.shared.change(|state| state.connected = false);
    }

    async fn open(&mut self) -> io::Result<Session> {
        let (id, will, filters) = {
            let state = self.shared.lock();
            (state.model.id().to_owned(), state.model.will(), state.model.filters())
        };
        let mut options = ConnectOptions::new(id)
            .with_clean_start(true)
            .with_automatic_reconnect(false)
            .with_protocol_version(self.settings.version());
        if let Some((name, password)) = &self.settings.user {
            options = options.with_credentials(name, password);
        }
        if let Some(will) = will {
            let message = WillMessage::new(will.topic, will.payload.to_vec());
            options = options.with_will(message.with_qos(will.qos).with_retain(will.retain));
        }
        let client = MqttClient::with_options(options);
        let lost = CancellationToken::new();
        let end = lost.clone();
        let watch = client.on_connection_event(move |event| {
            if matches!(event, ConnectionEvent::Disconnected { .. }) {
                end.cancel();
            }
        });
        watch.await.map_err(io::Error::other)?;
        client.connect(&self.url).await.map_err(io::Error::other)?;
        self.client = Some(client.clone());
        let (sender, arrivals) = mpsc::unbounded_channel();
        for filter in filters {
            let sender = sender.clone();
            let options = SubscribeOptions { qos: QoS::ExactlyOnce, ..SubscribeOptions::default() };
            let take = move |message: mqtt5::Message| {
                // Who does not take commands any more has lost its connection.
                let _lost = sender.send(received(message));
            };
            client.subscribe_with_options(filter, options, take).await.map_err(io::Error::other)?;
        }
        self.spoilt.clear();
        Ok(Session { arrivals, lost })
    }

    /// Until the connection is lost, or a fault gives it up.
    async fn serve(&mut self, session: &mut Session) {
        let now = self.now();
        let birth = self.shared.change(|state| state.model.birth(now));
        note(self.publish(birth, self.settings.qos).await);
        self.shared.change(|state| {
            state.connected = true;
            state.connects += 1;
        });
        // Millionths of a beat that the last wave left over.
        let (mut next, mut rest) = (Instant::now(), 0);
        loop {
            if self.has(|fault| *fault == Fault::Offline) {
                return;
            }
            let flood = self.flood_rate();
            let period = if flood.is_some() { Some(WAVE) } else { self.settings.every };
            match self.event(session, period.map(|_| next)).await {
                Event::Lost | Event::Left => return,
                Event::Arrived(command) => self.take(command).await,
                Event::Due => self.carry_out().await,
                Event::Ordered(order) => self.follow(order).await,
                Event::Tick => {
                    let now = Instant::now();
                    let period = period.unwrap_or(WAVE);
                    if let Some(rate) = flood {
                        let owed = (now - next + period).as_micros() * u128::from(rate) + rest;
                        rest = owed % 1_000_000;
                        let beats = u32::try_from(owed / 1_000_000).unwrap_or(u32::MAX).min(HIGHEST_WAVE);
                        note(self.flood(beats, Duration::from_secs(1) / rate).await);
                    } else {
                        note(self.beat(period, self.settings.qos).await);
                    }
                    next = now + period;
                }
            }
        }
    }

    async fn event(&mut self, session: &mut Session, tick: Option<Instant>) -> Event {
        let due = self.pending.front().map(|(due, _)| *due);
        tokio::select! {
            () = session.lost.cancelled() => Event::Lost,
            Some(command) = session.arrivals.recv() => Event::Arrived(command),
            () = until(due) => Event::Due,
            order = self.orders.recv() => order.map_or(Event::Left, Event::Ordered),
            () = until(tick) => Event::Tick,
        }
    }

    /// Refuses orders until it is time to connect again.
    async fn rest(&mut self) {
        let mut awake = Some(Instant::now() + RETRY);
        loop {
            if self.has(|fault| *fault == Fault::Offline) {
                awake = None;
            }
            let order = tokio::select! {
                order = self.orders.recv() => order,
                () = until(awake) => return,
            };
            match order {
                Some(Order::Look) => awake = awake.or_else(|| Some(Instant::now())),
                Some(Order::Beat(_, done) | Order::Flood(_, done) | Order::Publish(_, done)) => {
                    answer(done, Err(io::ErrorKind::NotConnected.into()));
                }
                None => return std::future::pending().await,
            }
        }
    }

    async fn follow(&mut self, order: Order) {
        let (done, result) = match order {
            Order::Look => return,
            Order::Beat(time, done) => (done, self.beat(time, self.settings.qos).await),
            Order::Flood(beats, done) => (done, self.flood(beats, MOMENT).await),
            Order::Publish(message, done) => {
                let qos = message.qos;
                (done, self.send(message, qos).await)
            }
        };
        answer(done, result);
    }

    async fn flood(&mut self, beats: u32, moment: Duration) -> io::Result<()> {
        for _ in 0..beats {
            self.beat(moment, QoS::AtMostOnce).await?;
        }
        Ok(())
    }

    async fn beat(&mut self, time: Duration, qos: QoS) -> io::Result<()> {
        self.passed += time;
        let now = self.now();
        let publications = self.shared.change(|state| state.model.beat(time, now));
        self.publish(publications, qos).await
    }

    /// A command has arrived.
    async fn take(&mut self, command: Message) {
        self.shared.change(|state| {
            if state.commands.len() == LOG {
                state.commands.pop_front();
            }
            state.commands.push_back(command.clone());
        });
        if self.has(|fault| *fault == Fault::Ignore) {
            return;
        }
        let slow = self.shared.lock().faults.iter().find_map(|fault| match fault {
            Fault::Slow(time) => Some(*time),
            _ => None,
        });
        let due = Instant::now() + slow.unwrap_or_default();
        self.pending.push_back((due, command));
        if slow.is_none() && self.pending.len() == 1 {
            self.carry_out().await;
        }
    }

    async fn carry_out(&mut self) {
        let Some((_, command)) = self.pending.pop_front() else { return };
        let now = self.now();
        let publications = self.shared.change(|state| state.model.obey(&command, now));
        note(self.publish(publications, self.settings.qos).await);
    }

    /// Through the faults.
    async fn publish(&mut self, publications: Vec<Publication>, qos: QoS) -> io::Result<()> {
        let faults = self.shared.lock().faults.clone();
        for publication in publications {
            let (topic, is_value) = (publication.message.topic.clone(), publication.part == Part::Value);
            let spoilt = faults.iter().try_fold(publication, |publication, fault| fault.apply(publication));
            let Some(Publication { message, .. }) = spoilt else { continue };
            if is_value && faults.contains(&Fault::Garbage) && self.spoilt.insert(topic.clone()) {
                self.send(fault::garbage(&topic), self.settings.qos).await?;
            }
            self.send(message, qos).await?;
        }
        Ok(())
    }

    async fn send(&mut self, message: Message, qos: QoS) -> io::Result<()> {
        let client = self.client.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let mut options = PublishOptions { qos, retain: message.retain, ..PublishOptions::default() };
        options.properties.response_topic = message.response_topic;
        options.properties.correlation_data = message.correlation.map(Vec::from);
        let sent = client.publish_with_options(message.topic, message.payload, options).await;
        match sent.map_err(io::Error::other)? {
            mqtt5::PublishResult::Sent(_) => {
                self.shared.change(|state| state.published += 1);
                Ok(())
            }
            mqtt5::PublishResult::Queued(_) => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Ends the connection without a goodbye.
    async fn cut(&mut self) {
        if let Some(client) = self.client.take()
            && let Err(error) = client.disconnect_abnormally().await
        {
            tracing::debug!(%error, "mqtt device had no connection to cut");
        }
        self.shared.change(|state| state.connected = false);
    }

    fn has(&self, fault: impl Fn(&Fault) -> bool) -> bool {
        self.shared.lock().faults.iter().any(fault)
    }

    fn flood_rate(&self) -> Option<u32> {
        let state = self.shared.lock();
        state.faults.iter().find_map(|fault| if let Fault::Flood(rate) = fault { Some(*rate) } else { None })
    }

    fn now(&self) -> SystemTime {
        self.settings.clock.map_or_else(SystemTime::now, |start| start + self.passed)
    }
}

fn received(message: mqtt5::Message) -> Message {
    Message {
        topic: message.topic,
        payload: message.payload.into(),
        qos: message.qos,
        retain: message.retain,
        response_topic: message.properties.response_topic,
        correlation: message.properties.correlation_data.map(Bytes::from),
    }
}

/// Never where there is no time.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// A message that did not get through ends nothing: the end of a connection comes as an event.
fn note(result: io::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%error, "a message of an mqtt device did not get through");
    }
}

fn answer(done: Done, result: io::Result<()>) {
    // Who ordered does not have to wait for it.
    let _gone = done.send(result);
}
