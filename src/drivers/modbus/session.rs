//! One session: what goes over the wire next.
//!
//! Writes go ahead of polls at the next transaction boundary. One request is on the wire at a time, so that no poll
//! can straddle a write and put the old value back.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, sleep_until},
};
use tokio_modbus::ExceptionCode;

use super::{
    again::Again,
    health::{Health, TIMEOUTS},
    plant::Plant,
    schedule::{Next, Schedule},
    wire::Wire,
};
use crate::{
    codec::modbus::exception_text,
    link::{Command, Counters, Inbox, Sink, transport::Delivery},
    model::{DeviceState, Quality, Reason, TagId, Update},
};

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
    pub(super) again: Again,
    pub(super) timeout: Duration,
    pub(super) counters: Arc<Counters>,
    pub(super) sink: &'a Sink,
    /// Used again by every publish.
    pub(super) batch: Vec<Update>,
    /// Time-outs in a row in which the peer sent nothing at all.
    quiet: u32,
    /// The unit that was sent a write, took its bytes, and answered nothing since.
    pub(super) open_write: Option<usize>,
    /// Whether the last turn between looks and polls was a look's.
    looked: bool,
}

/// Why a session is over.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    Stopped,
    Lost(String),
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Session<'a, S> {
    pub(super) fn new(
        stream: S,
        delivery: Delivery,
        plant: &'a mut Plant,
        timeout: Duration,
        counters: &Arc<Counters>,
        sink: &'a Sink,
    ) -> Self {
        for entry in &mut plant.entries {
            entry.good = false;
        }
        Self {
            wire: Wire::new(stream, counters.clone()),
            delivery,
            health: plant.units.iter().map(|_| Health::new()).collect(),
            schedule: Schedule::new(&plant.classes, Instant::now()),
            again: Again::default(),
            plant,
            timeout,
            counters: counters.clone(),
            sink,
            batch: Vec::new(),
            quiet: 0,
            open_write: None,
            looked: false,
        }
    }

    /// Runs until the stream fails or the inbox says stop.
    pub(super) async fn run(mut self, inbox: &mut Inbox) -> End {
        self.tell_impossible();
        let mut writes = 0;
        loop {
            let step = self.step(inbox, &mut writes).await;
            if let Err(end) = step {
                return self.last_looks(end).await;
            }
        }
    }

    async fn step(&mut self, inbox: &mut Inbox, writes: &mut u32) -> Result<(), End> {
        if inbox.is_stopped() {
            return Err(End::Stopped);
        }
        let now = Instant::now();
        let next = self.schedule.next(&self.plant.classes, &self.health, now);
        let look = self.again.due(&self.plant.entries, &self.health);
        let due_look = look.filter(|due| *due <= now);
        let idle = matches!(next, Next::Wait(_)) && due_look.is_none();
        if (*writes < WRITES_IN_A_ROW || idle)
            && let Some(command) = inbox.ready()
        {
            *writes += 1;
            return self.write(command, inbox).await;
        }
        *writes = 0;
        // Looks and polls that are due take turns.
        self.looked = !self.looked || matches!(next, Next::Wait(_));
        if let Some(due) = due_look.filter(|_| self.looked) {
            return self.look_again(due, inbox).await;
        }
        match next {
            Next::Poll { class, block } => self.poll(class, block, inbox).await,
            Next::Wait(until) => {
                let until = [until, look].into_iter().flatten().min();
                if let Some(command) = self.wait(until, inbox).await? {
                    *writes = 1;
                    self.write(command, inbox).await?;
                }
                Ok(())
            }
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
            failure = self.wire.idle() => Err(End::Lost(failure.to_string())),
        }
    }

    /// A unit answered, with whatever it was.
    pub(super) fn answered(&mut self, unit: usize) {
        self.quiet = 0;
        self.open_write.take_if(|open| *open == unit);
        let Some(health) = self.health.get_mut(unit) else { return };
        let back = health.is_demoted();
        if health.answered() {
            self.tell(unit, DeviceState::Online, None);
        }
        if back {
            self.schedule.restart(unit, Instant::now());
        }
    }

    /// A request to a unit was not answered in the time it was given. Ends the session where the peer as a whole seems to be gone.
    ///
    /// A peer whose TCP still acknowledges shows nothing on the socket, and on some systems a dead one shows after a
    /// quarter of an hour only. So where every unit is silent and, for as
    /// many time-outs as it takes to ask each six times, not one byte came (three rounds made the units silent, three
    /// more probed them), a new connection is tried. A gateway whose units alone are silent loses nothing by it.
    pub(super) fn timed_out(&mut self, unit: usize, given: Duration) -> Result<(), End> {
        if given < self.timeout {
            // A command's deadline was shorter than what the unit is given.
            return Ok(());
        }
        self.counters.timeouts.fetch_add(1, Ordering::Relaxed);
        self.quiet = if self.wire.heard { 0 } else { self.quiet.saturating_add(1) };
        let (took, alone) = (self.timeout, self.is_alone(unit));
        if self.health.get_mut(unit).is_some_and(|health| health.timed_out(took, alone)) {
            let detail = format!("no answer to {TIMEOUTS} requests in a row, {} ms each", took.as_millis());
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
        // On this connection an open write keeps its place before newer ones; another would let it arrive after them.
        if silent && self.quiet >= asked && self.open_write.is_none() {
            return Err(End::Lost(format!("nothing came in answer to {} requests", self.quiet)));
        }
        Ok(())
    }

    /// A gateway answered that it cannot reach the unit.
    pub(super) fn refused(&mut self, unit: usize, exception: ExceptionCode, took: Duration) {
        self.quiet = 0;
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
            self.batch.push(Update { tag, value: None, quality, detail, at: Instant::now() });
        }
        self.sink.publish(&mut self.batch);
    }

    fn tell_impossible(&mut self) {
        let tags = self.plant.impossible.clone();
        if !tags.is_empty() {
            self.tell_bad(tags.into_iter(), Reason::DecodeError, "its registers end past address 65535");
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
