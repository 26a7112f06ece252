//! One session: what goes over the wire next.
//!
//! Writes go ahead of polls at the next transaction boundary, and are alone on the wire, so that no poll can straddle a
//! write and put the old value back.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, sleep_until},
};
use tokio_modbus::ExceptionCode;
use tokio_util::sync::CancellationToken;

use super::{
    again::Again,
    defer::Deferred,
    extra::{Extra, Why},
    health::{Health, TIMEOUTS},
    plant::Plant,
    poll::Flight,
    schedule::{Next, Schedule},
    wire::Wire,
};
use crate::{
    codec::modbus::exception_text,
    config::{ModbusEndpoint, Transport},
    link::{Command, Counters, Inbox, Sink, transport::Delivery},
    model::{DeviceState, Quality, Reason, TagId, Update, When},
};

/// How long a hole that is due waits for the line to be idle.
const HOLE_WAITS: Duration = Duration::from_secs(10);

/// How long a connection on which nothing is answered any more is kept for the sake of a write that may be on its way.
const OPEN: Duration = Duration::from_secs(120);

/// By TLS 1.3 a device refuses a certificate only after the handshake, and may just go away.
const UNTRUSTED: &str = "it may not trust our certificate, or want one";

/// Writes that may go ahead of a poll that is due, so that a flood of them leaves the polls some of the line.
const WRITES_IN_A_ROW: u32 = 8;

#[derive(Debug)]
pub(super) struct Session<'a, S> {
    pub(super) wire: Wire<S>,
    /// Whether what was sent may yet arrive.
    pub(super) delivery: Delivery,
    pub(super) plant: &'a mut Plant,
    pub(super) health: Vec<Health>,
    pub(super) schedule: Schedule,
    pub(super) extras: Vec<Extra>,
    pub(super) flights: Vec<Flight>,
    pub(super) again: Again,
    /// How long an answer may take.
    pub(super) timeout: Duration,
    /// Polls that may be on the wire at once.
    most: usize,
    idle_close: Option<Duration>,
    /// What to think of a peer that ends the session before it said anything.
    hint: Option<&'static str>,
    pub(super) counters: Arc<Counters>,
    pub(super) sink: &'a Sink,
    pub(super) stop: CancellationToken,
    /// Used again by every publish.
    pub(super) batch: Vec<Update>,
    /// Time-outs in a row in which the peer sent nothing at all.
    pub(super) quiet: u32,
    /// The unit that was sent a write, took its bytes, and answered nothing since.
    pub(super) open_write: Option<(usize, Instant)>,
    pub(super) deferred: Vec<Deferred>,
    /// Whether the last turn between looks and polls was a look's.
    looked: bool,
    /// Whether the last turn was a hole's.
    tried_hole: bool,
}

/// What a session keeps while its transport is closed because nothing is due.
#[derive(Debug)]
pub(super) struct Parked {
    health: Vec<Health>,
    schedule: Schedule,
    extras: Vec<Extra>,
}

/// Why a session is over.
#[derive(Debug)]
pub(super) enum End {
    Stopped,
    Lost(String),
    /// Nothing is due before that moment.
    Idle(Option<Instant>, Parked),
}

impl End {
    fn with_hint(self, hint: Option<&str>) -> Self {
        match (self, hint) {
            (Self::Lost(problem), Some(hint)) => Self::Lost(format!("{problem}; {hint}")),
            (end, _) => end,
        }
    }
}

/// What a session is given.
#[derive(Debug)]
pub(super) struct Start<'a, S> {
    pub(super) wire: Wire<S>,
    pub(super) delivery: Delivery,
    pub(super) plant: &'a mut Plant,
    pub(super) endpoint: &'a ModbusEndpoint,
    pub(super) counters: &'a Arc<Counters>,
    pub(super) sink: &'a Sink,
    /// Where this goes on after a transport was closed because nothing was due.
    pub(super) parked: Option<Parked>,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Session<'a, S> {
    pub(super) fn new(start: Start<'a, S>, stop: CancellationToken) -> Self {
        let Start { mut wire, delivery, plant, endpoint, counters, sink, parked } = start;
        let now = Instant::now();
        if parked.is_none() && !wire.has_ids() {
            // What was asked before, by whomever, could still be answered, and would be taken for an answer to us. Of what
            // this program did before nothing is known in its first session.
            let rest = if plant.steps.is_new() { 2 * endpoint.timeout } else { endpoint.timeout };
            wire.pause(now, rest);
        }
        let Parked { health, schedule, extras } = parked.unwrap_or_else(|| {
            for entry in &mut plant.entries {
                entry.good = false;
            }
            plant.steps.let_go(now);
            for unit in 0..plant.units.len() {
                plant.reopen(unit);
                plant.holes.hurry(unit, now);
                plant.end_hunt(unit);
            }
            Parked {
                health: plant.units.iter().map(|_| Health::new()).collect(),
                schedule: Schedule::new(&plant.classes, now),
                extras: Vec::new(),
            }
        });
        // Where answers carry no ids nobody could tell whose they are.
        let most = if wire.has_ids() { usize::from(endpoint.max_in_flight.max(1)) } else { 1 };
        Self {
            wire,
            delivery,
            health,
            schedule,
            extras,
            flights: Vec::new(),
            again: Again::default(),
            plant,
            timeout: endpoint.timeout,
            most,
            idle_close: endpoint.idle_close,
            hint: matches!(endpoint.transport, Transport::Tcp { tls: Some(_), .. }).then_some(UNTRUSTED),
            counters: counters.clone(),
            sink,
            stop,
            batch: Vec::new(),
            quiet: 0,
            open_write: None,
            deferred: Vec::new(),
            looked: false,
            tried_hole: false,
        }
    }

    /// Runs until the stream fails or the inbox says stop.
    pub(super) async fn run(mut self, inbox: &mut Inbox) -> End {
        self.tell_impossible();
        let mut writes = 0;
        loop {
            let step = self.step(inbox, &mut writes).await;
            if let Err(end) = step {
                let end = self.last_looks(end).await;
                if matches!(end, End::Stopped) {
                    self.hear_out().await;
                }
                return if self.wire.spoke { end } else { end.with_hint(self.hint) };
            }
        }
    }

    async fn step(&mut self, inbox: &mut Inbox, writes: &mut u32) -> Result<(), End> {
        if self.stop.is_cancelled() {
            return Err(End::Stopped);
        }
        self.heed_strays();
        let now = Instant::now();
        if let Some(held) = self.plant.steps.ripe(now) {
            return self.settle(held);
        }
        let next = self.schedule.next(self.plant, &self.health, now);
        let extra = self.next_extra();
        let due_extra = extra.filter(|(_, due)| *due <= now).map(|(at, _)| at);
        let look = self.again.due(self.plant, &self.health);
        let due_look = look.filter(|due| *due <= now);
        let waits = matches!(next, Next::Wait(_)) && due_extra.is_none();
        let deferred = self.ripe_deferred(now);
        let is_asked = deferred.is_some() || inbox.is_ready();
        if (*writes < WRITES_IN_A_ROW || (waits && due_look.is_none())) && is_asked {
            // No poll is on the wire beside a write: none can bring back what the write replaced.
            if !self.flights.is_empty() {
                return self.land(None).await;
            }
            *writes += 1;
            if let Some(at) = deferred {
                return self.resume(at).await;
            }
            return match inbox.ready() {
                Some(command) => self.write(command).await,
                None => Ok(()),
            };
        }
        // Looks and polls that are due take turns.
        if let Some(due) = due_look.filter(|_| !self.looked || waits) {
            if !self.flights.is_empty() {
                return self.land(None).await;
            }
            (self.looked, *writes) = (true, 0);
            return self.look_again(due).await;
        }
        self.looked = false;
        let (ripe, deferred) = (self.plant.steps.next_ripe(), self.next_deferred());
        let later =
            [next.until(), extra.map(|(_, due)| due), look, ripe, deferred].into_iter().flatten().min();
        if self.flights.len() >= self.most {
            return self.land(None).await;
        }
        *writes = 0;
        // On a line that is never idle a hole that has waited takes every other turn.
        self.tried_hole = !self.tried_hole && matches!(next, Next::Poll { .. });
        if let Some(waited) = now.checked_sub(HOLE_WAITS).filter(|_| self.tried_hole)
            && self.try_hole(waited).await?
        {
            return Ok(());
        }
        if let Some(at) = due_extra {
            let Extra { class, block, why, .. } = self.extras.swap_remove(at);
            self.counters.retries.fetch_add(u64::from(why != Why::Half), Ordering::Relaxed);
            return self.launch(class, block, why).await;
        }
        match next {
            Next::Poll { class } => {
                let blocks = self.plant.classes.get(class).map(|class| class.blocks.as_slice());
                match self.schedule.launch(class, blocks.unwrap_or_default()) {
                    Some(block) if self.is_asked(&block) => {
                        self.round_landed(class);
                        Ok(())
                    }
                    Some(block) => {
                        self.extras.retain(|extra| !Arc::ptr_eq(&extra.block, &block));
                        self.launch(class, block, Why::Round).await
                    }
                    None => Ok(()),
                }
            }
            Next::Probe { unit } => self.probe(unit).await,
            Next::Wait(_) if !self.flights.is_empty() => self.land(later).await,
            Next::Wait(_) => self.rest(later, inbox, writes).await,
        }
    }

    async fn probe(&mut self, unit: usize) -> Result<(), End> {
        let Some(health) = self.health.get_mut(unit) else { return Ok(()) };
        match self.plant.probe(unit, health.failures()) {
            Some((class, block)) => {
                health.probing();
                self.launch(class, block, Why::Probe).await
            }
            None => Ok(()),
        }
    }

    /// Tries a hole that was due by then, if there is one.
    async fn try_hole(&mut self, by: Instant) -> Result<bool, End> {
        let Some(Extra { class, block, why, .. }) = self.next_hole(by).filter(|hole| hole.due <= by) else {
            return Ok(false);
        };
        // Whatever comes of it, its turn is over.
        self.plant.holes.insert(block.unit, block.region(), Instant::now());
        self.launch(class, block, why).await?;
        Ok(true)
    }

    /// Nothing is due and nothing on the wire: tries a hole, closes the transport for a while, or waits.
    async fn rest(&mut self, until: Option<Instant>, inbox: &mut Inbox, writes: &mut u32) -> Result<(), End> {
        let now = Instant::now();
        if self.try_hole(now).await? {
            return Ok(());
        }
        let hole = self.next_hole(now);
        let mut wake = until.into_iter().chain(hole.map(|hole| hole.due)).min();
        let open =
            self.open_write.is_some() || self.plant.steps.next_ripe().is_some() || !self.deferred.is_empty();
        let close = self.idle_close.filter(|_| self.again.is_empty() && !open);
        let close = close.map(|pause| now + pause).filter(|at| until.is_none_or(|until| until > *at));
        if close.is_some() {
            wake = close;
        }
        match self.wait(wake, inbox).await? {
            Some(command) => {
                *writes = 1;
                self.write(command).await
            }
            None if close.is_some() && Instant::now() >= close.unwrap_or(now) => {
                let parked = Parked {
                    health: std::mem::take(&mut self.health),
                    schedule: std::mem::take(&mut self.schedule),
                    extras: std::mem::take(&mut self.extras),
                };
                Err(End::Idle(until, parked))
            }
            None => Ok(()),
        }
    }

    /// Waits for a command or until something is due, and notices meanwhile that the peer goes away.
    async fn wait(&mut self, until: Option<Instant>, inbox: &mut Inbox) -> Result<Option<Command>, End> {
        let due = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // The stream comes last: one that never pauses would leave the others no turn.
            biased;
            command = inbox.next() => command.map(Some).ok_or(End::Stopped),
            () = due => Ok(None),
            heard = self.wire.idle() => match heard {
                Ok(()) => Ok(None),
                Err(failure) => Err(End::Lost(failure.to_string())),
            },
        }
    }

    /// A unit answered, with whatever it was.
    pub(super) fn answered(&mut self, unit: usize) {
        self.quiet = 0;
        self.open_write.take_if(|(open, _)| *open == unit);
        let Some(health) = self.health.get_mut(unit) else { return };
        let back = health.is_demoted();
        if health.answered() {
            self.tell(unit, DeviceState::Online, None);
        }
        if back {
            let now = Instant::now();
            self.forget_extras(unit);
            self.plant.reopen(unit);
            self.plant.holes.hurry(unit, now);
            self.schedule.restart(unit, now);
        }
    }

    /// A request to a unit was not answered in the time it was given. Ends the session where the peer as a whole seems to be gone.
    ///
    /// A peer whose TCP still acknowledges shows nothing on the socket, and on some systems a dead one shows after a
    /// quarter of an hour only. So where every unit is silent and, for as
    /// many time-outs as it takes to ask each six times, not one byte came (three rounds made the units silent, three
    /// more probed them), a new connection is tried. A gateway whose units alone are silent loses nothing by it.
    pub(super) fn timed_out(&mut self, unit: usize, asked: Instant, whole: bool) -> Result<(), End> {
        self.keep_apart(unit);
        if !whole {
            // A command's deadline was shorter than what the unit is given.
            return Ok(());
        }
        self.counters.timeouts.fetch_add(1, Ordering::Relaxed);
        if self.health.get(unit).is_some_and(|health| health.is_counted(asked)) {
            return Ok(());
        }
        self.quiet = if self.wire.heard { 0 } else { self.quiet.saturating_add(1) };
        let (took, alone) = (self.timeout, self.is_alone(unit));
        if self.health.get_mut(unit).is_some_and(|health| health.timed_out(took, alone)) {
            let mut detail =
                format!("no answer to {TIMEOUTS} requests in a row, {} ms each", took.as_millis());
            if let Some(hint) = self.wire.hint(self.unit_id(unit)) {
                detail = format!("{detail}; {hint}");
            }
            self.demote(unit, DeviceState::Silent, Reason::DeviceSilent, &detail);
        }
        let polled = |unit: &usize| self.plant.classes.iter().any(|class| class.unit == *unit);
        let mut units = (0..self.health.len()).filter(polled).peekable();
        if units.peek().is_none() {
            return Ok(());
        }
        let (mut asked, mut silent) = (0_u32, true);
        for unit in units {
            asked += 2 * TIMEOUTS;
            silent &= self.health.get(unit).is_some_and(Health::is_silent);
        }
        // On this connection an open write keeps its place before newer ones; another could let it arrive after them, as
        // long as anybody still has it.
        let is_open = |(_, since): (usize, Instant)| since.elapsed() < OPEN;
        if silent && self.quiet >= asked && !self.open_write.is_some_and(is_open) {
            return Err(End::Lost(format!("nothing came in answer to {} requests", self.quiet)));
        }
        Ok(())
    }

    /// The question to a unit that was asked last stays open. Where its late answer could be taken for the answer to another
    /// question it rests, as long again as it was given, however short it was waited for.
    pub(super) fn keep_apart(&mut self, unit: usize) {
        if self.wire.has_ids() {
            return;
        }
        let rests = Instant::now().max(self.wire.due()) + self.timeout;
        self.plant.steps.open(self.plant.unit_id(unit), self.wire.asked, rests);
    }

    /// The unit rests as after [`keep_apart`](Self::keep_apart), though its answer was heard: it was spoilt, and what is said
    /// until then does not belong to it.
    pub(super) fn let_off(&mut self, unit: usize) {
        if !self.wire.has_ids() {
            let rests = Instant::now().max(self.wire.due()) + self.timeout;
            self.plant.steps.rest(self.plant.unit_id(unit), rests);
        }
    }

    /// A gateway answered that it cannot reach the unit.
    pub(super) fn refused(&mut self, unit: usize, exception: ExceptionCode, asked: Instant) {
        self.quiet = 0;
        if self.health.get(unit).is_some_and(|health| health.is_counted(asked)) {
            return;
        }
        let took = asked.elapsed();
        let alone = self.is_alone(unit);
        let code = u8::from(exception);
        if self.health.get_mut(unit).is_some_and(|health| health.refused(code, took, alone)) {
            let detail = exception_text(exception);
            self.demote(unit, DeviceState::Refused, Reason::DeviceRefused, &detail);
        }
    }

    /// Whether no other unit answers.
    fn is_alone(&self, unit: usize) -> bool {
        let polled = |at: usize| self.plant.classes.iter().any(|class| class.unit == at);
        self.health.iter().enumerate().all(|(at, other)| at == unit || other.is_demoted() || !polled(at))
    }

    fn demote(&mut self, unit: usize, state: DeviceState, reason: Reason, detail: &str) {
        self.forget_extras(unit);
        let tags: Vec<_> =
            self.plant.entries.iter().filter(|entry| entry.unit == unit).map(|entry| entry.id).collect();
        self.tell_bad(tags.into_iter(), reason, detail);
        self.tell(unit, state, Some(detail));
    }

    /// Makes tags bad whose values nobody can vouch for any more.
    pub(super) fn tell_bad(&mut self, tags: impl Iterator<Item = TagId>, reason: Reason, detail: &str) {
        let detail: Arc<str> = detail.into();
        self.batch.clear();
        for tag in tags {
            if let Some(at) = self.plant.find(tag)
                && let Some(entry) = self.plant.entries.get_mut(at)
            {
                entry.good = false;
            }
            let quality = Quality::Bad(reason);
            let detail = Some(detail.clone());
            self.batch.push(Update { tag, value: None, quality, detail, at: When::At(Instant::now()) });
        }
        self.sink.publish(&mut self.batch);
    }

    fn tell_impossible(&mut self) {
        for (tag, why) in self.plant.impossible.clone() {
            self.tell_bad(std::iter::once(tag), Reason::DecodeError, &why.to_string());
        }
    }

    fn tell(&self, unit: usize, state: DeviceState, detail: Option<&str>) {
        if let Some(member) = self.plant.units.get(unit) {
            self.sink.device(member.device, state, detail);
        }
    }
}

/// Whether a gateway says that the unit behind it cannot be reached (section 7 of the application protocol).
pub(super) fn is_unreachable(exception: ExceptionCode) -> bool {
    matches!(exception, ExceptionCode::GatewayPathUnavailable | ExceptionCode::GatewayTargetDevice)
}
