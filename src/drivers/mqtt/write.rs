//! Writes: published once, and answered by what the broker, the device and its state topic say of them.

use std::{
    collections::BTreeMap,
    sync::atomic::Ordering,
    time::{Duration, SystemTime},
};

use futures_util::FutureExt;
use tokio::time::Instant;

use super::{
    client::{Ack, Failure, Limits, Outgoing},
    session::Session,
};
use crate::{
    link::Command,
    model::{Outcome, Party, Report, Rule, Value},
    profile::mqtt::{self, Qos},
};

/// Writes that may be open at once; the rest waits in the inbox.
pub(super) const MOST: usize = 64;
/// How far a device's clock may be behind ours.
const SKEW: Duration = Duration::from_secs(1);
/// Bytes of a packet beside topic and payload, at most, but for a topic of answers.
const PROPERTIES: usize = 64;

/// A write that was answered, of which bytes may still wait for the network.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loose {
    /// When to look whether they do.
    at: Instant,
    /// How often they did.
    times: u8,
}

/// How often the network must hold bytes back to be taken for stuck, and how long after one another: other bytes may be
/// on their way at any moment.
const STUCK: u8 = 10;
const LOOK: Duration = Duration::from_millis(50);

/// The writes that left and are not answered, by their numbers.
pub(super) type Writes = BTreeMap<u64, Open>;

/// A write that left.
#[derive(Debug)]
pub(super) struct Open {
    command: Command,
    /// Place of its tag.
    tag: usize,
    qos: Qos,
    /// Whether the broker took it; at QoS 0, the network.
    is_taken: bool,
    /// Whether the device answered that it took it.
    is_answered: bool,
    /// What its tag reported since, the last of it.
    seen: Option<Value>,
    /// Until when a state or an answer is waited for; `None` where none is to come.
    until: Option<Instant>,
    /// When it left, by the wall clock.
    left: SystemTime,
}

/// What is left to say of an open write when its time is over.
enum End {
    Deadline,
    Window,
    Later,
    Connection,
}

impl Session<'_> {
    /// Carries out a command, and those that go with it; each is answered once it is known how it ended.
    pub(super) fn write(&mut self, command: Command) {
        let commands = command.split();
        let refused = commands
            .iter()
            .enumerate()
            .find_map(|(place, command)| Some((place, self.order(command).err()?)));
        if let Some((place, report)) = refused {
            Command::answer_all(commands, place, report);
            return;
        }
        let commands = if commands.len() == 1 { Some(commands) } else { Command::grant_all(commands) };
        for command in commands.into_iter().flatten() {
            self.publish_one(command);
        }
    }

    fn publish_one(&mut self, mut command: Command) {
        match self.send(&mut command) {
            Ok((number, tag, qos, until)) => {
                self.supersede(tag);
                let (is_taken, is_answered, seen) = (false, false, None);
                let left = SystemTime::now();
                let open = Open { command, tag, qos, is_taken, is_answered, seen, until, left };
                self.writes.insert(number, open);
            }
            Err(report) => command.answer(report),
        }
    }

    /// The place of a command's tag, and the payload that carries it; or why there is none.
    fn order(&self, command: &Command) -> Result<(usize, &mqtt::Command, Vec<u8>), Report> {
        let absent = || Report::new(Outcome::NotSent, "the tag is not on this connection");
        let place = self.plant.place(command.tag).ok_or_else(absent)?;
        let tag = self.plant.tags.get(place).ok_or_else(absent)?;
        let own = tag.point.command.as_ref().ok_or_else(|| {
            Report::new(Outcome::Rejected(Rule::Access), "the tag has no topic for commands")
        })?;
        let payload = tag
            .point
            .field
            .encode(&command.value, &own.template, self.plant.number)
            .map_err(|refusal| Report::new(Outcome::Rejected(refusal.rule()), refusal.to_string()))?;
        self.fits(&own.topic, &payload, own.qos, own.retain)?;
        Ok((place, own, payload))
    }

    fn send(&mut self, command: &mut Command) -> Result<(u64, usize, Qos, Option<Instant>), Report> {
        self.plant.number += 1;
        let number = self.plant.number;
        let (place, own, payload) = self.order(command)?;
        let mqtt::Command { topic, qos, retain, confirm, response, .. } = own;
        let now = Instant::now();
        let left = command.deadline.saturating_duration_since(now);
        // What cannot expire within the deadline would be carried out after it.
        let expiry = u32::try_from(left.as_secs()).unwrap_or(u32::MAX).max(1);
        let reply = response.as_ref().filter(|response| response.id.is_none());
        let message = Outgoing {
            topic,
            payload,
            qos: *qos,
            retain: *retain,
            expiry: Some(expiry),
            reply: reply.map(|response| (response.topic.as_str(), number)),
        };
        command.grant(None)?;
        let answer =
            self.sender.publish(message).map_err(|problem| Report::new(Outcome::NotSent, problem))?;
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        self.acks.push(answer.map(move |ack| (number, ack)).boxed());
        let wait = if response.is_some() && confirm.is_zero() { left } else { *confirm };
        let until = (!wait.is_zero()).then(|| command.deadline.min(now + wait));
        Ok((number, place, *qos, until))
    }

    /// What the broker says that it does not take never leaves.
    fn fits(&self, topic: &str, payload: &[u8], qos: Qos, retain: bool) -> Result<(), Report> {
        let refuse = |text: String| Err(Report::new(Outcome::NotSent, text));
        let Limits { qos: highest, retains, size, .. } = self.limits;
        if qos > highest {
            let (qos, highest) = (qos.level(), highest.level());
            return refuse(format!("the broker takes at most QoS {highest}, and the command has QoS {qos}"));
        }
        if retain && !retains {
            return refuse("the broker keeps no messages, and the command is to be retained".to_owned());
        }
        let bytes = topic.len() + payload.len() + PROPERTIES;
        match size.and_then(|size| usize::try_from(size).ok()) {
            Some(most) if bytes > most => {
                refuse(format!("the command has about {bytes} bytes, and the broker takes packets of {most}"))
            }
            _ => Ok(()),
        }
    }

    /// Of two writes to one tag nothing tells which one a state reports.
    fn supersede(&mut self, tag: usize) {
        let older = self.writes.iter().filter(|(_, open)| open.tag == tag).map(|(number, _)| *number);
        for number in older.collect::<Vec<_>>() {
            self.close(number, &End::Later);
        }
    }

    /// The broker, or the network, answered.
    pub(super) fn acked(&mut self, number: u64, ack: Ack) {
        let Some(open) = self.writes.get_mut(&number) else { return };
        match ack {
            Ack::Flushed | Ack::Taken => {
                open.is_taken = true;
                self.settle(number);
            }
            Ack::Refused(code) => {
                let topic = self.command_topic(number);
                let text = if code.is_unheard() {
                    format!("nobody listens on {topic}, so nothing received it: the broker says {code}")
                } else {
                    format!("the broker refuses to publish on {topic}: {code}")
                };
                self.answer(
                    number,
                    Report { code: Some(code.number), ..Report::new(Outcome::Refused, text) },
                );
            }
            // The session ends, and answers for all.
            Ack::Lost => {}
        }
    }

    /// The device answered on its topic for answers.
    pub(super) fn replied(&mut self, number: u64, error: Option<String>) {
        let Some(open) = self.writes.get_mut(&number) else { return };
        match error {
            None => {
                open.is_answered = true;
                self.settle(number);
            }
            Some(error) => {
                let text = format!("the device refuses: {error}");
                let acknowledged_by = Some(Party::Device);
                self.answer(number, Report { acknowledged_by, ..Report::new(Outcome::Refused, text) });
            }
        }
    }

    /// A tag reported a value, which its device had then, where it says so.
    pub(super) fn observe(&mut self, tag: usize, value: &Value, told: Option<SystemTime>) {
        if !self.confirms(tag) {
            return;
        }
        let open = self.writes.iter_mut().find(|(_, open)| open.tag == tag);
        let Some((number, open)) = open else { return };
        // By its own clock, which is none of ours.
        if told.is_some_and(|told| told + SKEW < open.left) {
            return;
        }
        let number = *number;
        open.seen = Some(value.clone());
        self.settle(number);
    }

    /// Answers a write of which all is known that can be.
    fn settle(&mut self, number: u64) {
        let Some(open) = self.writes.get(&number).filter(|open| open.is_taken) else { return };
        let is_told = if self.confirms(open.tag) { open.is_reported() } else { open.is_answered };
        if is_told || open.until.is_none() {
            self.close(number, &End::Window);
        }
    }

    /// Whether a write of this tag waits for its state.
    fn confirms(&self, tag: usize) -> bool {
        let tag = self.plant.tags.get(tag);
        tag.and_then(|tag| tag.point.command.as_ref()).is_some_and(|own| !own.confirm.is_zero())
    }

    /// When the next write is due to be answered whatever is known.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.writes.values().map(Open::due).chain(self.loose.iter().map(|loose| loose.at)).min()
    }

    /// Answers what is due; fails where bytes of a write still wait, and would arrive late.
    pub(super) fn due(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        let due = self.writes.iter().filter(|(_, open)| open.due() <= now);
        let due = due.map(|(number, open)| (*number, open.is_taken)).collect::<Vec<_>>();
        let mut is_stuck = false;
        for (number, is_taken) in due {
            is_stuck |= !is_taken;
            self.close(number, if is_taken { &End::Window } else { &End::Deadline });
        }
        if is_stuck && self.delivery.is_open() {
            return Err(Failure::stuck());
        }
        if self.loose.iter().any(|loose| loose.at <= now) {
            return self.look(now);
        }
        Ok(())
    }

    /// Whether bytes of answered writes still wait after their deadlines.
    fn look(&mut self, now: Instant) -> Result<(), Failure> {
        if !self.delivery.is_open() {
            self.loose.clear();
            return Ok(());
        }
        for loose in self.loose.iter_mut().filter(|loose| loose.at <= now) {
            loose.times += 1;
            loose.at = now + LOOK;
            if loose.times == STUCK {
                return Err(Failure::stuck());
            }
        }
        Ok(())
    }

    /// Answers all: the connection is no more.
    pub(super) fn close_all(&mut self) {
        for number in self.writes.keys().copied().collect::<Vec<_>>() {
            self.close(number, &End::Connection);
        }
    }

    fn close(&mut self, number: u64, end: &End) {
        let Some(open) = self.writes.get(&number) else { return };
        let report = self.report(open, end);
        self.answer(number, report);
    }

    fn answer(&mut self, number: u64, report: Report) {
        let Some(open) = self.writes.remove(&number) else { return };
        if open.qos == Qos::AtMostOnce || !open.is_taken {
            self.loose.push(Loose { at: open.command.deadline, times: 0 });
        }
        open.command.answer(report);
    }

    fn report(&self, open: &Open, end: &End) -> Report {
        let (party, taker) = match (open.is_answered, open.is_taken, open.qos) {
            (true, ..) => (Some(Party::Device), "the device answered that it took it"),
            (_, true, Qos::AtMostOnce) => (None, "it was sent, and nothing acknowledges QoS 0"),
            (_, true, _) => (Some(Party::Broker), "the broker took it"),
            (_, false, _) => (None, "it was sent"),
        };
        let state = self.state_topic(open);
        if open.is_reported() {
            let (text, value) = (format!("{state} reports it"), Some(open.command.value.clone()));
            return Report { acknowledged_by: party, value, ..Report::new(Outcome::Confirmed, text) };
        }
        if party.is_none() && !open.is_taken {
            let text = match end {
                End::Connection => {
                    "the connection ended before the broker acknowledged it; it is not repeated"
                }
                End::Later if open.qos == Qos::AtMostOnce => "a later write to this tag followed",
                End::Later => "a later write to this tag followed before the broker acknowledged it",
                End::Deadline | End::Window => "the broker did not acknowledge it before its deadline",
            };
            return Report::new(Outcome::Unknown, text);
        }
        if let (Some(seen), End::Window) = (&open.seen, end) {
            let text = format!("{taker}, but {state} reports {seen}");
            let value = Some(seen.clone());
            return Report { acknowledged_by: party, value, ..Report::new(Outcome::Differs, text) };
        }
        let outcome = if party.is_some() { Outcome::Written } else { Outcome::Sent };
        let text = match (end, open.until) {
            (End::Later, _) => {
                format!("{taker}; a later write to this tag followed before its state was told")
            }
            (End::Connection, _) => format!("{taker}; the connection ended before its state was told"),
            (_, None) => taker.to_owned(),
            (_, Some(_)) if !self.confirms(open.tag) && open.is_answered => taker.to_owned(),
            (_, Some(_)) if !self.confirms(open.tag) => format!("{taker}; the device did not answer in time"),
            (_, Some(_)) => format!("{taker}; {state} did not report it in time"),
        };
        Report { acknowledged_by: party, ..Report::new(outcome, text) }
    }

    fn state_topic(&self, open: &Open) -> String {
        let tag = self.plant.tags.get(open.tag);
        let origin = tag.and_then(|tag| tag.point.origins.first());
        origin.map_or_else(|| "its state".to_owned(), |origin| origin.pattern.to_string())
    }

    fn command_topic(&self, number: u64) -> String {
        let tag = self.writes.get(&number).and_then(|open| self.plant.tags.get(open.tag));
        let command = tag.and_then(|tag| tag.point.command.as_ref());
        command.map_or_else(String::new, |command| command.topic.clone())
    }
}

impl Open {
    fn is_reported(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.is_same(&self.command.value))
    }

    fn due(&self) -> Instant {
        match self.until {
            Some(until) if self.is_taken => until,
            _ => self.command.deadline,
        }
    }
}
