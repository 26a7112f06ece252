//! Reading: what leaves, what comes back, and what that means for the tags in it.
//!
//! Polls fly: as many as the connection allows are on the wire at once. Reads that belong to a write are alone on it.

use std::sync::{Arc, atomic::Ordering};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, timeout_at},
};
use tokio_modbus::ExceptionCode;
use tokio_util::sync::CancellationToken;

use super::{
    extra::{Extra, Why},
    health::Health,
    plant::{Block, Data},
    session::{End, Session, is_unreachable},
    wire::{Failure, Pending},
};
use crate::{
    codec::modbus::{Answer, exception_text},
    model::{Reason, TagId},
};

/// A poll on the wire.
#[derive(Debug)]
pub(super) struct Flight {
    pending: Pending,
    pub(super) block: Arc<Block>,
    pub(super) class: usize,
    pub(super) why: Why,
    /// When it was asked: a value is no older than that.
    pub(super) asked: Instant,
    /// When its time is over.
    pub(super) until: Instant,
}

/// How a read ended, its unit's health already told.
#[derive(Debug)]
pub(super) enum Outcome {
    /// What the unit holds, and when it was asked.
    Data(Data, Instant),
    Exception(ExceptionCode),
    TimedOut,
    /// The answer was spoilt on its way.
    Garbled,
    /// The unit answered what cannot be its answer, or could not be asked.
    Unusable(String),
}

impl AsRef<Pending> for Flight {
    fn as_ref(&self) -> &Pending {
        &self.pending
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<'_, S> {
    /// Sends a poll; a stop ends it at once.
    pub(super) async fn launch(&mut self, class: usize, block: Arc<Block>, why: Why) -> Result<(), End> {
        let unit_id = self.unit_id(block.unit);
        let pending = match self.wire.prepare(unit_id, block.request()) {
            Ok(pending) => pending,
            Err(error) => {
                self.not_launched(class, &block, why, &error.to_string());
                return Ok(());
            }
        };
        let stopped = self.stop.clone().cancelled_owned();
        let sending = async {
            self.wire.ready(Instant::now() + self.timeout).await?;
            let asked = Instant::now();
            self.wire.send(&pending, self.timeout).await.map(|_| asked)
        };
        let sent = tokio::select! {
            biased;
            () = stopped => None,
            sent = sending => Some(sent),
        };
        let Some(sent) = sent else {
            self.keep_apart(block.unit);
            return Err(End::Stopped);
        };
        match sent {
            Ok(asked) => {
                let until = self.wire.due();
                self.asks(block.unit);
                self.flights.push(Flight { pending, block, class, why, asked, until });
            }
            Err(Failure::Lost(problem)) => return Err(End::Lost(problem)),
            Err(failure) => self.not_launched(class, &block, why, &failure.to_string()),
        }
        Ok(())
    }

    fn not_launched(&mut self, class: usize, block: &Arc<Block>, why: Why, problem: &str) {
        if let Some(health) = self.health.get_mut(block.unit).filter(|_| why == Why::Probe) {
            health.not_probed();
        }
        self.landed(class, block, why, Outcome::Unusable(problem.to_owned()));
    }

    /// Waits until `wake` for one of the polls on the wire to land; a stop ends it at once.
    pub(super) async fn land(&mut self, wake: Option<Instant>) -> Result<(), End> {
        let Some(first) = self.flights.iter().map(|flight| flight.until).min() else { return Ok(()) };
        let wake = wake.map_or(first, |wake| wake.min(first));
        let stopped = self.stop.clone().cancelled_owned();
        let heard = tokio::select! {
            biased;
            () = stopped => return Err(End::Stopped),
            heard = self.wire.hear(&self.flights, wake) => heard,
        };
        let (at, answer) = match heard {
            Ok((at, answer)) => (at, answer.map_err(Failure::Misfit)),
            Err(Failure::TimedOut) => {
                let now = Instant::now();
                let Some(at) = self.flights.iter().position(|flight| flight.until <= now) else {
                    return Ok(());
                };
                (at, Err(Failure::TimedOut))
            }
            // Where these can be only one request is open.
            Err(failure) => (0, Err(failure)),
        };
        let flight = self.flights.swap_remove(at);
        let unit = flight.block.unit;
        if matches!(answer, Err(Failure::TimedOut)) && self.wire.is_cut(&flight.pending) {
            return Err(End::Lost("an answer broke off in the middle".to_owned()));
        }
        let Some(answer) = self.weigh(&flight, answer) else { return Ok(()) };
        let outcome = match answer {
            // Where its unit answers to others this is no word on the unit.
            Ok(Answer::Exception(exception)) if is_unreachable(exception) && self.is_alive(&flight) => {
                self.counters.exceptions.fetch_add(1, Ordering::Relaxed);
                self.quiet = 0;
                self.tell_block(&flight.block, Reason::DeviceRefused, &exception_text(exception));
                Outcome::Exception(exception)
            }
            Err(Failure::TimedOut) if self.is_suspect(&flight) => {
                self.keep_apart(unit);
                self.counters.timeouts.fetch_add(1, Ordering::Relaxed);
                Outcome::TimedOut
            }
            answer => self.judge(unit, flight.asked, true, answer)?,
        };
        if flight.why == Why::Hole && matches!(outcome, Outcome::TimedOut) {
            self.hole_missed(unit);
        }
        self.landed(flight.class, &flight.block, flight.why, outcome);
        Ok(())
    }

    /// Whether silence to a request is no word on its unit, of which others are asked that tell of it.
    fn is_suspect(&self, flight: &Flight) -> bool {
        let unit = flight.block.unit;
        match flight.why {
            Why::Hole => self.plant.is_polled(unit),
            Why::Round => flight.block.is_suspect() && self.plant.is_sound(unit),
            _ => false,
        }
    }

    /// Whether a unit is to be thought of as there, though a gateway heard nothing of it to this request.
    fn is_alive(&self, flight: &Flight) -> bool {
        let health = self.health.get(flight.block.unit);
        let answers = health.filter(|health| !health.is_demoted()).map_or(0, Health::answers);
        flight.block.unheard(answers) || (flight.why == Why::Hole && self.plant.is_polled(flight.block.unit))
    }

    /// One read that is alone on the wire. It ends at `deadline` at the latest; where it `stops`, a stop ends it at once.
    pub(super) async fn read(
        &mut self,
        block: &Block,
        deadline: Option<Instant>,
        stops: bool,
    ) -> Result<Outcome, End> {
        let pending = match self.wire.prepare(self.unit_id(block.unit), block.request()) {
            Ok(pending) => pending,
            Err(error) => return Ok(Outcome::Unusable(error.to_string())),
        };
        let stop = stops.then(|| self.stop.clone());
        self.let_rest(block.unit);
        let Some(free) = unless(stop.as_ref(), self.free(deadline)).await else { return Err(End::Stopped) };
        match free {
            Ok(()) => {}
            Err(Failure::Lost(problem)) => return Err(End::Lost(problem)),
            Err(Failure::TimedOut) => return Ok(Outcome::TimedOut),
            Err(failure) => return Ok(Outcome::Unusable(failure.to_string())),
        }
        self.heed_strays();
        let asked = Instant::now();
        let mut whole = true;
        let exchange = async {
            self.wire.send(&pending, self.timeout).await?;
            let until = self.wire.due();
            let end = deadline.map_or(until, |deadline| deadline.clamp(asked, until));
            whole = end == until;
            let answer = self.wire.hear(&[&pending], end).await?.1.map_err(Failure::Misfit)?;
            if !self.wire.has_ids() {
                self.believe(&pending, &answer, deadline).await?;
            }
            Ok(answer)
        };
        let Some(answer) = unless(stop.as_ref(), exchange).await else {
            // Its answer may be on its way, and a last look at the unit must not take it for its own.
            self.keep_apart(block.unit);
            return Err(End::Stopped);
        };
        self.judge(block.unit, asked, whole, answer)
    }

    /// Waits until the answer to a read can be believed.
    async fn believe(
        &mut self,
        pending: &Pending,
        answer: &Answer,
        deadline: Option<Instant>,
    ) -> Result<(), Failure> {
        let unit_id = pending.unit_id;
        let turnaround = self.turnaround();
        self.heed_doubled(unit_id);
        if let Some(pause) = self.doubt_of(pending, answer) {
            let all = Instant::now() + pause;
            let until = deadline.map_or(all, |deadline| deadline.min(all));
            let silent = self.wire.listen(unit_id, until).await?;
            if !silent || until < all {
                return Err(Failure::OutOfStep);
            }
        }
        self.believed(unit_id, turnaround);
        Ok(())
    }

    /// Waits until the line is free for a read, until `deadline` at the latest.
    async fn free(&mut self, deadline: Option<Instant>) -> Result<(), Failure> {
        match deadline {
            Some(deadline) if Instant::now() < deadline => {
                timeout_at(deadline, self.wire.ready(deadline)).await.unwrap_or(Err(Failure::TimedOut))
            }
            Some(_) => Err(Failure::TimedOut),
            None => self.wire.ready(Instant::now() + self.timeout).await,
        }
    }

    /// What the answer to a read, or none, means for its unit. `whole`: it had all the time that a unit is given.
    pub(super) fn judge(
        &mut self,
        unit: usize,
        asked: Instant,
        whole: bool,
        answer: Result<Answer, Failure>,
    ) -> Result<Outcome, End> {
        match answer {
            Ok(Answer::Response(response)) => {
                self.answered(unit);
                let data = Data::new(response).map(|data| Outcome::Data(data, asked));
                Ok(data.unwrap_or_else(|| Outcome::Unusable("an answer without data".to_owned())))
            }
            Ok(Answer::Exception(exception)) => {
                self.exception(unit, exception, asked);
                Ok(Outcome::Exception(exception))
            }
            Err(failure @ (Failure::Misfit(_) | Failure::OutOfStep)) => {
                self.misfit(unit);
                Ok(Outcome::Unusable(failure.to_string()))
            }
            Err(Failure::Garbled) => {
                self.answered(unit);
                // What was taken for its answer may have been something else.
                self.let_off(unit);
                Ok(Outcome::Garbled)
            }
            Err(Failure::TimedOut | Failure::Doubtful) => {
                self.timed_out(unit, asked, whole)?;
                Ok(Outcome::TimedOut)
            }
            Err(Failure::Taken) => Ok(Outcome::Unusable(Failure::Taken.to_string())),
            Err(Failure::Lost(problem)) => {
                self.keep_apart(unit);
                Err(End::Lost(problem))
            }
        }
    }

    /// A unit answered something that is none to the question.
    pub(super) fn misfit(&mut self, unit: usize) {
        self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        self.answered(unit);
        self.keep_apart(unit);
    }

    /// A unit, or the gateway for it, answered with an exception.
    pub(super) fn exception(&mut self, unit: usize, exception: ExceptionCode, asked: Instant) {
        self.counters.exceptions.fetch_add(1, Ordering::Relaxed);
        if is_unreachable(exception) {
            self.refused(unit, exception, asked);
        } else {
            self.answered(unit);
        }
    }

    /// What a poll that is over means for its tags and for what is asked next.
    pub(super) fn landed(&mut self, class: usize, block: &Arc<Block>, why: Why, outcome: Outcome) {
        let half = block.is_open_half();
        if !matches!(outcome, Outcome::TimedOut) {
            block.answered();
        }
        match outcome {
            Outcome::Data(data, asked) => {
                block.filled();
                self.take_in(block, &data, asked);
                self.filled(class, block, why);
            }
            Outcome::Exception(exception) if is_unreachable(exception) => {}
            Outcome::Exception(exception) => self.poll_refused(class, block, why, exception),
            Outcome::Garbled if why.may_repeat() => {
                self.extras.push(Extra::at_once(class, block, Why::Spoilt));
            }
            Outcome::Garbled => {
                self.tell_block(block, Reason::DecodeError, &Failure::Garbled.to_string());
            }
            Outcome::Unusable(problem) => self.tell_block(block, Reason::DecodeError, &problem),
            // The tags stay as they are: staleness tells, or the unit's silence; or the request's own, where its unit
            // answers to others.
            Outcome::TimedOut => {
                if why == Why::Probe {
                    self.refuse_deferred(block.unit);
                }
                if self.health.get(block.unit).is_none_or(Health::is_demoted) {
                    block.forgive();
                } else {
                    self.poll_missed(class, block, why);
                }
            }
        }
        let hunted_out =
            if why == Why::Half { self.plant.parted(class) } else { half && self.plant.is_hunted_out(class) };
        if hunted_out {
            self.plant.replan(class);
        }
        if why == Why::Round {
            self.round_landed(class);
        }
    }

    /// A request of a round is over.
    pub(super) fn round_landed(&mut self, class: usize) {
        let skipped = self.schedule.land(class, Instant::now());
        self.counters.overruns.fetch_add(skipped, Ordering::Relaxed);
    }

    /// Publishes what a block holds, which was `asked` for at that moment.
    pub(super) fn take_in(&mut self, block: &Block, data: &Data, asked: Instant) {
        self.batch.clear();
        for item in &block.items {
            if let Some(entry) = self.plant.entries.get_mut(item.entry) {
                self.batch.extend(entry.update(entry.decode(data, item.offset), asked));
                if !self.again.is_empty() {
                    self.again.seen(item.entry);
                }
            }
        }
        self.sink.publish(&mut self.batch);
    }

    pub(super) fn tell_block(&mut self, block: &Block, reason: Reason, detail: &str) {
        let entries = block.items.iter().filter_map(|item| self.plant.entries.get(item.entry));
        let tags: Vec<TagId> = entries.map(|entry| entry.id).collect();
        self.tell_bad(tags.into_iter(), reason, detail);
    }

    pub(super) fn unit_id(&self, unit: usize) -> u8 {
        self.plant.unit_id(unit)
    }

    pub(super) fn asks(&mut self, unit: usize) {
        if !self.wire.has_ids() {
            self.plant.steps.asks(self.plant.unit_id(unit));
        }
    }
}

/// What `work` comes to, unless it is stopped before.
async fn unless<T>(stop: Option<&CancellationToken>, work: impl Future<Output = T>) -> Option<T> {
    match stop {
        Some(stop) => tokio::select! {
            biased;
            () = stop.cancelled() => None,
            done = work => Some(done),
        },
        None => Some(work.await),
    }
}

/// Whether an exception says that the request as a whole asks for something that is not there, or for too much.
pub(super) fn is_in_part(exception: ExceptionCode) -> bool {
    matches!(exception, ExceptionCode::IllegalDataAddress | ExceptionCode::IllegalDataValue)
}

/// Whether the same request may be answered otherwise a moment later.
pub(super) fn is_passing(exception: ExceptionCode) -> bool {
    matches!(exception, ExceptionCode::Acknowledge | ExceptionCode::ServerDeviceBusy)
}
