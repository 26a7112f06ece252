//! Writes: one frame a message, sent once, and answered by what echo and feedback say of it.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};

use tokio::time::{Duration, Instant};
use tracing::{info, warn};

use super::{
    bus::{Failure, Unsent},
    plant::Tag,
    sender::{Cycle, Part, Sender},
    session::Session,
};
use crate::{
    codec::can::{Data, Id, Signal},
    link::Command,
    model::{Outcome, Party, Report, Rule, Setpoint, Value},
};

/// Frames that may wait for room or for an answer at once; further writes wait in the inbox.
pub(super) const MOST: usize = 64;
/// How often it is tried to send while there is no room.
const AGAIN: Duration = Duration::from_millis(1);
const LATE: &str = "there was no room on the bus before its deadline";
const NO_LAST: &str = "there is no room on the bus for the last frame of ";
/// Frames of ours whose echo may be open.
const ECHOES: usize = 256;

/// A write of one message that waits for room, with its permits.
#[derive(Debug)]
pub(super) struct Waiting {
    id: Id,
    commands: Vec<Command>,
    deadline: Instant,
}

/// A write that left.
#[derive(Debug)]
pub(super) struct Open {
    command: Command,
    /// Place of its tag.
    tag: usize,
    number: u64,
    /// Whether its frame came back, or, without echoes, reached the adapter.
    is_taken: bool,
    /// What its feedback said since.
    seen: Option<Value>,
    /// Until when feedback is waited for.
    until: Option<Instant>,
    /// Whether a later write to its tag left: feedback would be of that one.
    is_followed: bool,
    /// Whether the adapter refused a frame since, which may have been its own.
    is_refused: bool,
}

/// What is left to say of an open write when its time is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Due,
    Connection,
}

impl Session<'_> {
    /// Carries out the writes of one call: they are answered once it is known how they ended.
    pub(super) fn write(&mut self, command: Command) -> Result<(), Failure> {
        let commands = command.split();
        let mut groups: BTreeMap<Id, Vec<usize>> = BTreeMap::new();
        for (place, command) in commands.iter().enumerate() {
            match self.sending(command) {
                Ok(id) => groups.entry(id).or_default().push(place),
                Err(report) => {
                    Command::answer_all(commands, place, report);
                    return Ok(());
                }
            }
        }
        for places in groups.values() {
            let group = places.iter().filter_map(|place| commands.get(*place)).collect::<Vec<_>>();
            if let Err((at, report)) = self.compose(&group) {
                let refused = places.get(at).copied().unwrap_or_default();
                Command::answer_all(commands, refused, report);
                return Ok(());
            }
        }
        if self.is_off {
            Command::answer_all(commands, 0, Report::new(Outcome::NotSent, "the controller is bus-off"));
            return Ok(());
        }
        let Some(commands) = Command::grant_all(commands) else { return Ok(()) };
        let mut waiting: BTreeMap<Id, Waiting> = BTreeMap::new();
        for command in commands {
            // It was found before the permits were asked for.
            let Ok(id) = self.sending(&command) else { continue };
            let deadline = command.deadline;
            let entry = waiting.entry(id).or_insert_with(|| Waiting { id, commands: Vec::new(), deadline });
            entry.deadline = entry.deadline.min(deadline);
            entry.commands.push(command);
        }
        self.waiting.extend(waiting.into_values());
        self.send_waiting()
    }

    /// The message that a command changes.
    fn sending(&self, command: &Command) -> Result<Id, Report> {
        let tag = self
            .tag(command)
            .ok_or_else(|| Report::new(Outcome::NotSent, "the tag is not on this connection"))?;
        let sending = tag.point.message.sending.as_ref().filter(|_| tag.point.command.is_some());
        let sending =
            sending.ok_or_else(|| Report::new(Outcome::Rejected(Rule::Access), "its message is not sent"))?;
        if !self.endpoint.may_send(sending.id) {
            let text = format!("{} is not among the identifiers that may be sent", sending.id);
            return Err(Report::new(Outcome::Rejected(Rule::Access), text));
        }
        Ok(sending.id)
    }

    fn tag(&self, command: &Command) -> Option<&Tag> {
        self.plant.tags.get(self.plant.place(command.tag)?)
    }

    /// The payload that carries writes to one message; an error says which of them cannot be.
    fn compose(&self, group: &[&Command]) -> Result<Vec<u8>, (usize, Report)> {
        let refuse = |at: usize, rule: Rule, text: String| (at, Report::new(Outcome::Rejected(rule), text));
        let tags = group.iter().filter_map(|command| self.tag(command)).collect::<Vec<_>>();
        let sender = tags.first().and_then(|tag| tag.point.message.sending.as_ref());
        let sender = sender.and_then(|sending| self.plant.senders.get(&sending.id));
        let Some(sender) = sender.filter(|_| tags.len() == group.len()) else {
            return Err((0, Report::new(Outcome::NotSent, "the tag is not on this connection")));
        };
        let mut parts = Vec::new();
        for (at, (tag, command)) in tags.iter().zip(group).enumerate() {
            let bits = tag.point.signal.bits(&command.value);
            let bits = bits.map_err(|refusal| refuse(at, refusal.rule(), refusal.to_string()))?;
            let (place, conditions) = (tag.point.signal.place(), tag.point.conditions.as_slice());
            parts.push(Part { place, conditions, bits });
        }
        sender.compose(&parts).map_err(|(at, unfit)| refuse(at, unfit.rule(), unfit.to_string()))
    }

    /// Sends what waits, in its order, as long as there is room.
    pub(super) fn send_waiting(&mut self) -> Result<(), Failure> {
        self.sweep();
        while let Some(first) = self.waiting.front() {
            let (id, group) = (first.id, first.commands.iter().collect::<Vec<_>>());
            let payload = match self.compose(&group) {
                Ok(payload) => payload,
                Err((_, report)) => {
                    self.drop_first(&report.message);
                    continue;
                }
            };
            match self.transmit(id, payload) {
                Ok(number) => self.sent(number),
                Err(Unsent::Busy) => {
                    self.retry = Some(Instant::now() + AGAIN);
                    return Ok(());
                }
                Err(Unsent::Unfit(problem)) => self.drop_first(&problem),
                Err(Unsent::Lost(failure)) => {
                    self.drop_first(&format!("the connection was lost before: {failure}"));
                    return Err(failure);
                }
            }
        }
        Ok(())
    }

    /// Answers what may no longer leave.
    fn sweep(&mut self) {
        let now = Instant::now();
        for waiting in std::mem::take(&mut self.waiting) {
            let (refused, report, others) = if now >= waiting.deadline {
                (0, Report::new(Outcome::NotSent, LATE), LATE.to_owned())
            } else if let Some((refused, report)) = waiting.recheck() {
                let others = format!("what goes into the same frame may no longer leave: {}", report.message);
                (refused, report, others)
            } else {
                self.waiting.push_back(waiting);
                continue;
            };
            let mut report = Some(report);
            for (place, command) in waiting.commands.into_iter().enumerate() {
                let own = report.take_if(|_| place == refused);
                command.answer(own.unwrap_or_else(|| Report::new(Outcome::NotSent, others.clone())));
            }
        }
    }

    fn drop_first(&mut self, why: &str) {
        for command in self.waiting.pop_front().into_iter().flat_map(|waiting| waiting.commands) {
            command.answer(Report::new(Outcome::NotSent, why));
        }
    }

    /// Sends a payload of a message with its counter and checksum; the number is that of the frame.
    fn transmit(&mut self, id: Id, mut payload: Vec<u8>) -> Result<u64, Unsent> {
        // The one place from which frames leave.
        if !self.endpoint.may_send(id) {
            return Err(Unsent::Unfit(format!("{id} is not among the identifiers that may be sent")));
        }
        let Some(sender) = self.plant.senders.get_mut(&id) else {
            return Err(Unsent::Unfit("the message is not on this connection".to_owned()));
        };
        sender.seal(&mut payload);
        let frame = Data::new(id, &payload, sender.sending.fd);
        let frame = frame.ok_or_else(|| Unsent::Unfit(format!("no frame has {} bytes", payload.len())))?;
        self.bus.send(&frame)?;
        sender.note_sent(&payload);
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        self.number += 1;
        if self.bus.has_echo() {
            self.echoes.push_back((frame, self.number));
            if self.echoes.len() > ECHOES {
                self.echoes.pop_front();
            }
        } else {
            self.data(&frame, Instant::now(), true);
        }
        Ok(self.number)
    }

    /// The frame of the first write that waits has left.
    fn sent(&mut self, number: u64) {
        let Some(Waiting { id, commands, .. }) = self.waiting.pop_front() else { return };
        let now = Instant::now();
        let mut is_renewed = false;
        if let Some(sender) = self.plant.senders.get_mut(&id)
            && let Some(period) = sender.sending.period
        {
            let until = sender.sending.limit.map(|limit| now + limit);
            if sender.cycle.is_none() {
                info!(
                    message = sender.message.name,
                    period_ms = period.as_millis(),
                    "sent again and again from now on"
                );
            }
            let cycle = Cycle { next: now + period, until, is_ending: false };
            is_renewed = sender.cycle.replace(cycle).is_some_and(|former| former.is_ending);
        }
        if is_renewed {
            self.tell_ending();
        }
        for command in commands {
            let Some(tag) = self.plant.place(command.tag) else { continue };
            self.supersede(tag);
            let feedback = self.plant.tags.get(tag).and_then(|tag| tag.feedback);
            let until = feedback.map(|(_, within)| command.deadline.min(now + within));
            self.open.push(Open {
                command,
                tag,
                number,
                is_taken: false,
                seen: None,
                until,
                is_followed: false,
                is_refused: false,
            });
        }
        self.check_delivered();
    }

    /// Nothing tells which frame the adapter refused.
    pub(super) fn doubt_open(&mut self) {
        self.open.iter_mut().for_each(|open| open.is_refused = true);
    }

    /// Of two writes to one tag nothing tells which one feedback reports.
    fn supersede(&mut self, tag: usize) {
        for open in self.open.iter_mut().filter(|open| open.tag == tag) {
            (open.until, open.is_followed) = (None, true);
        }
        self.settle();
    }

    /// One of our frames was on the bus.
    pub(super) fn echoed(&mut self, data: &Data) {
        let Some(place) = self.echoes.iter().position(|(frame, _)| frame == data) else { return };
        let Some((_, number)) = self.echoes.remove(place) else { return };
        self.taken(|open| open.number == number);
    }

    /// Without echoes, all that left counts as handed over once the adapter has it.
    pub(super) fn check_delivered(&mut self) {
        if !self.bus.has_echo() && self.open.iter().any(|open| !open.is_taken) {
            if self.bus.is_delivered() {
                self.taken(|_| true);
            } else {
                self.retry = Some(Instant::now() + AGAIN);
            }
        }
    }

    fn taken(&mut self, is_it: impl Fn(&Open) -> bool) {
        for open in self.open.iter_mut().filter(|open| is_it(open)) {
            open.is_taken = true;
        }
        self.settle();
    }

    /// Tags told values: some may be what writes wait for.
    pub(super) fn observe(&mut self) {
        for (place, value) in std::mem::take(&mut self.observed) {
            for open in &mut self.open {
                let feedback = self.plant.tags.get(open.tag).and_then(|tag| tag.feedback);
                if feedback.is_some_and(|(feedback, _)| feedback == place) {
                    open.seen = Some(value.clone());
                }
            }
        }
        self.settle();
    }

    /// Answers the writes of which all is known that can be.
    fn settle(&mut self) {
        let is_over = |session: &Self, open: &Open| {
            open.is_taken && (open.until.is_none() || session.is_reported(open))
        };
        while let Some(place) = self.open.iter().position(|open| is_over(self, open)) {
            self.close(place, End::Due);
        }
    }

    /// Whether feedback says what was written, as well as its own steps allow.
    fn is_reported(&self, open: &Open) -> bool {
        let Some(seen) = &open.seen else { return false };
        let feedback = self.plant.tags.get(open.tag).and_then(|tag| tag.feedback);
        let signal = feedback.and_then(|(place, _)| self.plant.tags.get(place)).map(|tag| &tag.point.signal);
        seen.is_same(&open.command.value)
            || signal.is_some_and(|signal| reads(signal, &open.command.value, seen))
    }

    /// When something of the writes is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let open = self.open.iter().map(Open::due);
        let cycles = self.plant.senders.values().filter_map(|sender| sender.cycle);
        let cycles = cycles.map(Cycle::due);
        open.chain(cycles).chain(self.retry).min()
    }

    /// Does what is due.
    pub(super) fn due(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        if self.retry.take_if(|retry| *retry <= now).is_some() {
            self.check_delivered();
            self.send_waiting()?;
        }
        let mut is_stuck = false;
        while let Some(place) = self.open.iter().position(|open| open.due() <= now) {
            is_stuck |= self.open.get(place).is_some_and(|open| !open.is_taken) && !self.bus.has_echo();
            self.close(place, End::Due);
        }
        if is_stuck {
            return Err(Failure::adapter(
                "the adapter takes nothing any more: the connection is closed, so that nothing arrives late",
            ));
        }
        let due = |sender: &&Sender| sender.cycle.is_some_and(|cycle| cycle.due() <= now);
        for id in self.plant.senders.values().filter(due).map(|sender| sender.sending.id).collect::<Vec<_>>()
        {
            self.turn(id, now)?;
        }
        self.publish();
        Ok(())
    }

    /// One more frame of a message that is sent again and again, or its last one.
    fn turn(&mut self, id: Id, now: Instant) -> Result<(), Failure> {
        let Some(sender) = self.plant.senders.get_mut(&id) else { return Ok(()) };
        let (Some(cycle), Some(period)) = (sender.cycle, sender.sending.period) else { return Ok(()) };
        if cycle.is_ending {
            return self.end_cycle(id);
        }
        if cycle.until.is_some_and(|until| until <= now) {
            info!(message = sender.message.name, "no longer sent again and again: its time is over");
            return self.end_cycle(id);
        }
        // What was missed is not caught up.
        let mut next = cycle.next + period;
        if next <= now {
            next = now + period;
        }
        sender.cycle = Some(Cycle { next, ..cycle });
        let Some(payload) = sender.sent().map(<[u8]>::to_vec) else { return Ok(()) };
        let message = Arc::clone(&sender.message);
        match self.transmit(id, payload) {
            Ok(_) => Ok(()),
            Err(Unsent::Busy) => {
                self.counters.overruns.fetch_add(1, Ordering::Relaxed);
                self.incident(format!(
                    "there is no room on the bus for {}, which is sent again and again",
                    message.name
                ));
                Ok(())
            }
            Err(Unsent::Unfit(problem)) => {
                warn!("{problem}");
                Ok(())
            }
            Err(Unsent::Lost(failure)) => Err(failure),
        }
    }

    /// Ends sending again and again, with the last frame where there is one, which is tried until there is room for it.
    fn end_cycle(&mut self, id: Id) -> Result<(), Failure> {
        let Some(sender) = self.plant.senders.get_mut(&id) else { return Ok(()) };
        let Some(cycle) = sender.cycle.take() else { return Ok(()) };
        let (Some(payload), message) = (sender.last(), Arc::clone(&sender.message)) else { return Ok(()) };
        match self.transmit(id, payload) {
            Ok(_) => {
                if cycle.is_ending {
                    self.tell_ending();
                }
                Ok(())
            }
            Err(Unsent::Busy) => {
                let next = Instant::now() + AGAIN;
                if let Some(sender) = self.plant.senders.get_mut(&id) {
                    sender.cycle = Some(Cycle { next, until: None, is_ending: true });
                }
                if !cycle.is_ending {
                    warn!("{NO_LAST}{}", message.name);
                    self.tell_ending();
                }
                Ok(())
            }
            Err(Unsent::Unfit(problem)) => {
                warn!("{problem}");
                Ok(())
            }
            Err(Unsent::Lost(failure)) => Err(failure),
        }
    }

    /// Tells of last frames that found no room yet.
    fn tell_ending(&mut self) {
        let mut ending = self.plant.senders.values();
        let ending = ending.find(|sender| sender.cycle.is_some_and(|cycle| cycle.is_ending));
        if let Some(sender) = ending {
            self.trouble(format!("{NO_LAST}{}", sender.message.name));
        } else if self.told.as_ref().is_some_and(|told| told.starts_with(NO_LAST)) {
            self.calm();
        }
    }

    /// Ends all that is sent again and again; when to go on with that, where there was no room for all of it.
    pub(super) fn end_cycles(&mut self) -> Option<Instant> {
        let running = self.plant.senders.values().filter(|sender| sender.cycle.is_some());
        for id in running.map(|sender| sender.sending.id).collect::<Vec<_>>() {
            if let Err(failure) = self.end_cycle(id) {
                warn!("the last frame of {id} was not sent: {failure}");
            }
        }
        self.plant.senders.values().filter_map(|sender| sender.cycle).map(Cycle::due).min()
    }

    /// Answers all: the connection is no more.
    pub(super) fn close_all(&mut self) {
        self.give_up("the connection ended");
        while !self.open.is_empty() {
            self.close(0, End::Connection);
        }
    }

    /// Nothing can be sent any more: what waits never leaves, and what is sent again and again is not begun again by itself.
    pub(super) fn give_up(&mut self, why: &str) {
        while !self.waiting.is_empty() {
            self.drop_first(&format!("{why} before there was room for it"));
        }
        for sender in self.plant.senders.values_mut() {
            if sender.cycle.take().is_some() {
                warn!(message = sender.message.name, "no longer sent again and again: {why}");
            }
        }
    }

    fn close(&mut self, place: usize, end: End) {
        // Who is answered finds the values of that.
        self.publish();
        let report = self.open.get(place).map(|open| self.report(open, end));
        if let Some(report) = report {
            self.open.remove(place).command.answer(report);
        }
    }

    fn report(&self, open: &Open, end: End) -> Report {
        let has_echo = self.bus.has_echo();
        let (party, taken) = if has_echo {
            (Some(Party::Bus), "the frame was on the bus")
        } else {
            (None, "the adapter has the frame, and does not tell whether it was on the bus")
        };
        let feedback = self.plant.tags.get(open.tag).and_then(|tag| tag.feedback);
        let feedback =
            feedback.and_then(|(place, _)| self.plant.tags.get(place)).map(|tag| tag.name.as_str());
        if let (Some(name), true) = (feedback, self.is_reported(open) && !open.is_followed) {
            let acknowledged_by = party.filter(|_| open.is_taken);
            let value = open.seen.clone();
            let text = match &value {
                Some(seen) if !seen.is_same(&open.command.value) => {
                    format!("{name} reports {seen}, the nearest that it can")
                }
                _ => format!("{name} reports it"),
            };
            return Report { value, acknowledged_by, ..Report::new(Outcome::Confirmed, text) };
        }
        if open.is_refused {
            let text = "the adapter refused a frame, which may have been that of this write";
            return Report::new(Outcome::Unknown, text);
        }
        if !open.is_taken {
            let text = match end {
                End::Connection => {
                    "the connection ended before the frame came back from the bus; it is not repeated"
                }
                End::Due if has_echo => {
                    "the frame did not come back from the bus before its deadline: it may still leave once the bus takes it"
                }
                End::Due => "the adapter did not take the frame before its deadline",
            };
            return Report::new(Outcome::Unknown, text);
        }
        let base = |outcome, text: String| Report { acknowledged_by: party, ..Report::new(outcome, text) };
        let outcome = if party.is_some() { Outcome::Written } else { Outcome::Sent };
        match (feedback, &open.seen, end) {
            (Some(_), ..) if open.is_followed => {
                base(outcome, format!("{taken}; a later write to this tag followed"))
            }
            (Some(name), Some(seen), End::Due) => {
                let text = format!("{taken}, but {name} reports {seen}");
                Report { value: Some(seen.clone()), ..base(Outcome::Differs, text) }
            }
            (Some(name), _, End::Due) => base(outcome, format!("{taken}; {name} did not report it in time")),
            (Some(_), _, End::Connection) => base(outcome, format!("{taken}; the connection ended")),
            (None, ..) => base(outcome, taken.to_owned()),
        }
    }
}

/// Whether a signal reads `seen` where it is given `value`.
fn reads(signal: &Signal, value: &Value, seen: &Value) -> bool {
    signal.accept(&value.to_string()).is_ok_and(|accepted| accepted.effective.is_same(seen))
}

impl Waiting {
    /// The first of its writes that may no longer leave, and why.
    fn recheck(&self) -> Option<(usize, Report)> {
        let mut commands = self.commands.iter().enumerate();
        commands.find_map(|(place, command)| Some((place, command.recheck().err()?)))
    }
}

impl Open {
    fn due(&self) -> Instant {
        match self.until {
            Some(until) if self.is_taken => until,
            _ => self.command.deadline,
        }
    }
}

impl From<Failure> for Unsent {
    fn from(failure: Failure) -> Self {
        Self::Lost(failure)
    }
}
