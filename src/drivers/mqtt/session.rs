//! One session: subscribes, takes messages and writes until the connection ends or it is time to stop.

use std::{
    collections::{BTreeSet, VecDeque},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures_util::{
    FutureExt, StreamExt,
    future::{BoxFuture, OptionFuture},
    stream::FuturesUnordered,
};
use tokio::time::{sleep_until, timeout};
use tracing::warn;

use super::{
    client::{Ack, Event, Events, Failure, Granted, Limits, Outgoing, Sender, Welcome},
    message::BACK,
    plant::{Plant, Presence},
    write::{self, Loose, Writes},
};
use crate::{
    codec::payload::Bounds,
    config::Announce,
    link::{Counters, Inbox, Sink, transport::Delivery},
    model::{DeviceState, Quality, Reason, Update, When},
    profile::mqtt::Qos,
};

/// What a session is given.
pub(super) struct Session<'a> {
    pub(super) plant: &'a mut Plant,
    pub(super) sender: Sender,
    pub(super) delivery: Delivery,
    pub(super) sink: &'a Sink,
    pub(super) counters: &'a Counters,
    pub(super) bounds: Bounds,
    pub(super) announce: Option<&'a Announce>,
    /// Whether we said that we are there.
    pub(super) has_arrived: bool,
    pub(super) batch: Vec<Update>,
    pub(super) limits: Limits,
    pub(super) writes: Writes,
    /// Writes that were answered while bytes of them may still wait: until when they may.
    pub(super) loose: Vec<Loose>,
    pub(super) acks: FuturesUnordered<BoxFuture<'static, (u64, Ack)>>,
    pub(super) grants: FuturesUnordered<BoxFuture<'static, Answer>>,
    /// Subscriptions that are not asked for yet: the places of their filters, and an identifier.
    pub(super) wanted: VecDeque<(Vec<usize>, Option<usize>)>,
}

/// What the broker says to filters, by their places.
type Answer = (Vec<usize>, Option<Vec<Granted>>);

/// How a session ended.
pub(super) enum End {
    Stopped,
    Lost(Failure),
}

/// Filters of one SUBSCRIBE, and bytes of them.
const FILTERS: usize = 100;
const FILTER_BYTES: usize = 32_768;
/// SUBSCRIBEs that are open at once.
const OPEN_GRANTS: usize = 16;
/// How long a last word may take on its way out.
const LAST_WORD: Duration = Duration::from_secs(1);

impl Session<'_> {
    /// Serves the session to its end, and answers every write that it took.
    pub(super) async fn run(mut self, events: &mut Events, welcome: Welcome, inbox: &mut Inbox) -> End {
        self.begin(welcome);
        let end = self.serve(events, inbox).await;
        if let End::Stopped = end {
            self.leave(events).await;
        }
        self.close_all();
        end
    }

    async fn serve(&mut self, events: &mut Events, inbox: &mut Inbox) -> End {
        loop {
            // To be driven to its end: halfway dropped it may lose what it read.
            let mut next = pin!(events.next());
            let event = loop {
                let due = OptionFuture::from(self.next_due().map(sleep_until));
                let has_room = self.writes.len() < write::MOST && self.acks.len() < self.limits.window;
                let stopped = inbox.stopped();
                tokio::select! {
                    biased;
                    command = inbox.next(), if has_room => match command {
                        Some(command) => self.write(command),
                        None => return End::Stopped,
                    },
                    () = stopped, if !has_room => return End::Stopped,
                    Some((number, ack)) = self.acks.next(), if !self.acks.is_empty() => self.acked(number, ack),
                    Some((filters, granted)) = self.grants.next(), if !self.grants.is_empty() => {
                        self.granted(&filters, granted);
                    }
                    Some(()) = due => match self.due() {
                        Ok(()) => {}
                        Err(failure) => return End::Lost(failure),
                    },
                    event = &mut next => break event,
                }
            };
            match event {
                Ok(Event::Message(message)) => self.message(&message),
                Ok(Event::Other) => {}
                Err(failure) => return End::Lost(failure),
            }
        }
    }

    /// Says what still holds of what was known, and subscribes.
    fn begin(&mut self, welcome: Welcome) {
        if !welcome.session_present {
            self.plant.granted.fill(None);
            for presence in &mut self.plant.stations {
                presence.signs.fill(None);
                presence.is_heard = false;
            }
        }
        // A sign of QoS 0 may be missing, such as a last will: what the broker kept of them is told again.
        for (granted, brings) in self.plant.granted.iter_mut().zip(&self.plant.brings) {
            granted.take_if(|_| !brings.signs.is_empty());
        }
        for presence in &mut self.plant.stations {
            (presence.refused, presence.unclear) = (None, None);
            presence.told = presence.state();
            self.sink.device(presence.device, presence.told.0, presence.told.1.as_deref());
        }
        let Plant { tags, granted, stations, .. } = &mut *self.plant;
        for tag in tags {
            let is_missing = !(welcome.session_present && tag.is_seamless && tag.is_kept(granted));
            let is_offline = stations.get(tag.station).is_some_and(Presence::is_offline);
            if is_missing && !matches!(tag.quality, Quality::Bad(_)) {
                tag.quality = Quality::Uncertain(Reason::Stale);
                tag.detail = Some("no message since the connection came back".into());
            } else if tag.quality == Quality::Bad(Reason::DeviceOffline) && !is_offline {
                (tag.quality, tag.detail) = (Quality::Uncertain(Reason::Stale), Some(BACK.into()));
            }
            let (quality, detail) = (tag.quality, tag.detail.clone());
            self.batch.push(Update { tag: tag.id, value: None, quality, detail, at: When::Unknown });
        }
        self.publish();
        self.wanted = self.wanted(welcome.has_identifiers);
        self.subscribe();
        self.arrive();
    }

    /// Announces us once all is subscribed: whoever answers to that is heard.
    fn arrive(&mut self) {
        if self.wanted.is_empty()
            && self.grants.is_empty()
            && !std::mem::replace(&mut self.has_arrived, true)
            && let Some(announce) = self.announce
        {
            // Whether it arrives is seen by who waits for it; meanwhile it takes its place among the writes.
            let said = self.say(announce, &announce.online);
            self.acks.extend(said.map(|said| said.map(|ack| (0, ack)).boxed()));
        }
    }

    /// The subscriptions that the broker does not have: those with wildcards alone, so that each has its identifier.
    fn wanted(&self, has_identifiers: bool) -> VecDeque<(Vec<usize>, Option<usize>)> {
        let mut wanted = VecDeque::new();
        let (mut plain, mut bytes) = (Vec::new(), 0);
        for (place, (filter, _)) in self.plant.filters.list().iter().enumerate() {
            if matches!(self.plant.granted.get(place), Some(Some(Ok(_)))) {
                continue;
            }
            if has_identifiers && filter.contains(['+', '#']) {
                wanted.push_back((vec![place], Some(place + 1)));
                continue;
            }
            if plain.len() == FILTERS || bytes + filter.len() > FILTER_BYTES && !plain.is_empty() {
                wanted.push_back((std::mem::take(&mut plain), None));
                bytes = 0;
            }
            plain.push(place);
            bytes += filter.len();
        }
        if !plain.is_empty() {
            wanted.push_back((plain, None));
        }
        wanted
    }

    fn subscribe(&mut self) {
        while self.grants.len() < OPEN_GRANTS
            && let Some((places, identifier)) = self.wanted.pop_front()
        {
            let list = self.plant.filters.list();
            let filters = places.iter().filter_map(|place| list.get(*place));
            let filters =
                filters.map(|(filter, qos)| (filter.clone(), Qos::from_level(*qos))).collect::<Vec<_>>();
            match self.sender.subscribe(&filters, identifier) {
                Ok(answer) => self.grants.push(answer.map(|granted| (places, granted)).boxed()),
                Err(problem) => places.iter().for_each(|place| self.refuse(*place, &problem)),
            }
        }
    }

    fn granted(&mut self, places: &[usize], granted: Option<Vec<Granted>>) {
        let Some(granted) = granted else { return };
        for (place, granted) in places.iter().zip(granted) {
            if let Err(code) = granted {
                self.refuse(*place, &code.to_string());
            }
            if let Some(known) = self.plant.granted.get_mut(*place) {
                *known = Some(granted);
            }
        }
        self.publish();
        self.subscribe();
        self.arrive();
    }

    /// What the broker does not let us hear is bad.
    fn refuse(&mut self, place: usize, problem: &str) {
        let Some((filter, _)) = self.plant.filters.list().get(place) else { return };
        let detail: Arc<str> = format!("the broker refuses the subscription to {filter}: {problem}").into();
        let Some(brings) = self.plant.brings.get_mut(place) else { return };
        // Not anew for each connection.
        if brings.refusal.as_ref() != Some(&detail) {
            warn!("{detail}");
            brings.refusal = Some(Arc::clone(&detail));
        }
        let (tags, signs) = (brings.tags.clone(), brings.signs.clone());
        let refused = Quality::Bad(Reason::DeviceRefused);
        let mut stations = BTreeSet::new();
        for tag in tags {
            let Some(tag) = self.plant.tags.get_mut(tag) else { continue };
            stations.insert(tag.station);
            (tag.quality, tag.detail) = (refused, Some(Arc::clone(&detail)));
            let detail = tag.detail.clone();
            self.batch.push(Update { tag: tag.id, value: None, quality: refused, detail, at: When::Unknown });
        }
        for station in signs {
            if let Some(presence) = self.plant.stations.get_mut(station) {
                presence.refused = Some(format!("nothing tells when it is not there: {detail}").into());
            }
            self.present(station);
        }
        for station in stations {
            let Some(presence) = self.plant.stations.get_mut(station) else { continue };
            let own = presence.tags.iter().filter_map(|tag| self.plant.tags.get(*tag));
            let mut heard = own.filter(|tag| !tag.filters.is_empty());
            if heard.all(|tag| tag.quality == refused) {
                presence.told = (DeviceState::Refused, Some(Arc::clone(&detail)));
                self.sink.device(presence.device, DeviceState::Refused, Some(&detail));
            }
        }
    }

    pub(super) fn publish(&mut self) {
        if !self.batch.is_empty() {
            self.sink.publish(&mut self.batch);
        }
    }

    /// Publishes a word on our own topic.
    fn say(&self, announce: &Announce, word: &str) -> Option<BoxFuture<'static, Ack>> {
        let message = Outgoing {
            topic: &announce.topic,
            payload: word.as_bytes().to_vec(),
            qos: announce.qos.min(self.limits.qos),
            retain: announce.retain && self.limits.retains,
            expiry: None,
            reply: None,
        };
        self.sender.publish(message).ok()
    }

    /// Says that we go, and goes.
    async fn leave(&mut self, events: &mut Events) {
        let said = self.announce.and_then(|announce| self.say(announce, &announce.offline));
        let last = async {
            if let Some(mut said) = said {
                loop {
                    tokio::select! {
                        biased;
                        _ = &mut said => break,
                        event = events.next() => if event.is_err() { return },
                    }
                }
            }
            self.sender.disconnect();
            while events.next().await.is_ok() {}
        };
        // Whoever does not listen misses it.
        drop(timeout(LAST_WORD, last).await);
    }
}
