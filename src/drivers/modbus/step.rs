//! Whether the answers of units are in step with what they are asked, where answers carry no ids.
//!
//! A device answers in the order in which it was asked, but on such a wire nothing tells which question an answer is for.
//! One answer that comes late, or twice, shifts all that follow, and every value is then that of another tag. So a unit
//! that a question was open to when its time ended is out of step: it rests, and what it says then proves nothing unless
//! nothing that is still owed can look like it, by function and length. What may be owed is held back, and the unit listened
//! to: while it is out of step another answer follows. Frames that nothing asked for put a unit out of step too, and one
//! that is asked without a pause is given a short one from time to time, in which such a frame shows.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, timeout_at},
};
use tokio_modbus::Request;

use super::{
    extra::Why,
    plant::Block,
    poll::{Flight, Outcome},
    session::{End, Session},
    wire::{Failure, Pending},
};
use crate::{
    codec::modbus::{Answer, usual_length},
    model::{Quality, Reason, Update, When},
};

/// Longest and shortest time after which a unit that is asked without a pause is given one.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// How much rarer the pauses are than they are long, so that they cost a saturated line next to nothing.
const RARE: u32 = 400;
/// Questions kept that are owed an answer; where there are more, any answer may be.
const OWED: usize = 16;
/// Answers after which it is known how soon a unit answers.
const TOLD: u32 = 10;
/// How long a line is kept at most for late answers when it is let go.
const HEARD_OUT: Duration = Duration::from_secs(3);
/// How many time-outs after its question an answer is held back, and how many are waited for a late one where a line is let go.
const HELD: u32 = 10;
const HEARD: u32 = 3;

/// What an answer looks like: its function, and the bytes of its frame on a serial line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    function: u8,
    length: usize,
}

/// The steps of units by their ids.
#[derive(Debug, Default)]
pub(super) struct Steps(HashMap<u8, Step>);

#[derive(Debug)]
struct Step {
    /// Nothing is asked before.
    rests: Option<Instant>,
    owed: Owed,
    /// When it was last asked.
    asked: Instant,
    held: Option<Held>,
    /// When it last answered.
    answered: Instant,
    /// How long it takes to begin with an answer, at least and at most of late, and how many told that.
    turnaround: (Duration, Duration),
    told: u32,
    /// When it last said nothing for as long as an answer takes it.
    listened: Instant,
}

/// Which answers may yet come.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Owed {
    Nothing,
    To(Vec<Shape>),
    Anything,
}

/// A poll whose answer is held back.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) class: usize,
    pub(super) block: Arc<Block>,
    pub(super) why: Why,
    pub(super) asked: Instant,
    pub(super) answer: Answer,
    turnaround: Duration,
    /// Until when it is.
    pub(super) until: Instant,
}

/// What a frame means that nothing asked for.
#[derive(Debug)]
pub(super) enum Stray {
    /// A late answer, by which the unit may be in step again, or not yet.
    Late,
    /// The unit was thought to be in step.
    OutOfStep,
    /// What was held back was the answer to something else.
    NotIts(Held),
}

impl Shape {
    pub(super) fn of(request: &Request<'_>) -> Self {
        Self { function: request.function_code().value(), length: usual_length(request) }
    }

    /// That of an answer that was heard.
    pub(super) fn heard(pdu: &[u8]) -> Option<Self> {
        // Unit id and checksum come with it on a serial line.
        Some(Self { function: *pdu.first()?, length: pdu.len() + 3 })
    }

    /// Whether it can be the answer to a question whose usual answer looks like `owed`.
    fn answers(self, owed: Self) -> bool {
        self == owed || self.function == owed.function | 0x80
    }
}

impl Step {
    fn new(now: Instant) -> Self {
        Self {
            rests: None,
            owed: Owed::Nothing,
            asked: now,
            held: None,
            answered: now,
            turnaround: (Duration::MAX, Duration::ZERO),
            told: 0,
            listened: now,
        }
    }

    /// Silence in which a frame too many would begin.
    fn pause(&self) -> Duration {
        self.turnaround.1 + self.turnaround.1 / 2
    }
}

impl Steps {
    fn of(&mut self, unit_id: u8) -> &mut Step {
        self.0.entry(unit_id).or_insert_with(|| Step::new(Instant::now()))
    }

    /// Until when nothing is asked of a unit.
    pub(super) fn rests(&self, unit_id: u8, now: Instant) -> Option<Instant> {
        self.0.get(&unit_id)?.rests.filter(|until| *until > now)
    }

    pub(super) fn is_in_step(&self, unit_id: u8) -> bool {
        self.0.get(&unit_id).is_none_or(|step| step.owed == Owed::Nothing)
    }

    /// Until when an answer of a unit is held back.
    pub(super) fn held(&self, unit_id: u8) -> Option<Instant> {
        self.0.get(&unit_id)?.held.as_ref().map(|held| held.until)
    }

    /// Whether no answer that is owed can look like one to `request`, unless it is an exception.
    pub(super) fn proves(&self, unit_id: u8, request: &Request<'_>) -> bool {
        let shape = Shape::of(request);
        match self.0.get(&unit_id).map(|step| &step.owed) {
            None | Some(Owed::Nothing) => true,
            Some(Owed::To(owed)) => !owed.contains(&shape),
            Some(Owed::Anything) => false,
        }
    }

    /// A question to a unit stays open: its answer may come at any time, or was told by nothing.
    pub(super) fn open(&mut self, unit_id: u8, asked: Option<Shape>, rests: Instant) {
        let step = self.of(unit_id);
        step.rests = step.rests.max(Some(rests));
        step.held = None;
        step.owed = match (std::mem::replace(&mut step.owed, Owed::Anything), asked) {
            (Owed::Nothing, Some(shape)) => Owed::To(vec![shape]),
            (Owed::To(mut owed), Some(shape)) if owed.len() < OWED => {
                owed.push(shape);
                Owed::To(owed)
            }
            _ => Owed::Anything,
        };
    }

    /// Nothing is asked of a unit before, and nothing else changes.
    pub(super) fn rest(&mut self, unit_id: u8, rests: Instant) {
        let step = self.of(unit_id);
        step.rests = step.rests.max(Some(rests));
    }

    /// An answer of a unit was told to be that to the last question.
    pub(super) fn found(&mut self, unit_id: u8) {
        let step = self.of(unit_id);
        (step.owed, step.rests, step.held) = (Owed::Nothing, None, None);
    }

    pub(super) fn hold(&mut self, unit_id: u8, held: Held) {
        let step = self.of(unit_id);
        step.held = Some(held);
        if step.owed == Owed::Nothing {
            step.owed = Owed::Anything;
        }
    }

    /// What was held back cannot be told to be an answer any more.
    pub(super) fn let_go(&mut self, rests: Instant) -> Vec<Held> {
        let held = self.0.values_mut().filter_map(|step| {
            let held = step.held.take()?;
            (step.owed, step.rests) = (Owed::Anything, Some(rests));
            Some(held)
        });
        held.collect()
    }

    /// Until when a unit may answer what it was asked of late.
    fn open_until(&self, timeout: Duration) -> Option<Instant> {
        let open = self.0.values().filter(|step| step.owed != Owed::Nothing);
        open.map(|step| step.asked + HEARD * timeout).max()
    }

    /// Whether nothing was asked yet.
    pub(super) fn is_new(&self) -> bool {
        self.0.is_empty()
    }

    /// Since when a unit that is out of step may be asked.
    pub(super) fn rested(&self, unit_id: u8) -> Option<Instant> {
        self.0
            .get(&unit_id)
            .filter(|step| step.owed != Owed::Nothing)
            .map(|step| step.rests.unwrap_or(step.asked))
    }

    /// What was held back for long enough: its unit is in step.
    pub(super) fn ripe(&mut self, now: Instant) -> Option<Held> {
        let is_ripe = |step: &Step| step.held.as_ref().is_some_and(|held| held.until <= now);
        let (unit_id, step) = self.0.iter_mut().find(|(_, step)| is_ripe(step))?;
        let (unit_id, held) = (*unit_id, step.held.take());
        self.found(unit_id);
        held
    }

    /// When something held back has been so for long enough.
    pub(super) fn next_ripe(&self) -> Option<Instant> {
        self.0.values().filter_map(|step| step.held.as_ref()).map(|held| held.until).min()
    }

    /// A unit said something that nothing asked for; it is to rest where it is out of step with that.
    pub(super) fn stray(&mut self, unit_id: u8, shape: Shape, rests: Instant) -> Stray {
        let step = self.of(unit_id);
        if let Some(held) = step.held.take() {
            (step.owed, step.rests) = (Owed::Anything, Some(rests));
            return Stray::NotIts(held);
        }
        if let Owed::To(owed) = &mut step.owed
            && let Some(at) = owed.iter().position(|owed| shape.answers(*owed))
        {
            owed.swap_remove(at);
            if owed.is_empty() {
                (step.owed, step.rests) = (Owed::Nothing, None);
            }
            return Stray::Late;
        }
        let before = std::mem::replace(&mut step.owed, Owed::Anything);
        step.rests = Some(rests);
        if before == Owed::Nothing { Stray::OutOfStep } else { Stray::Late }
    }

    /// A request leaves for a unit.
    pub(super) fn asks(&mut self, unit_id: u8) {
        let now = Instant::now();
        let step = self.of(unit_id);
        if now >= step.answered + step.pause() {
            step.listened = now;
        }
        step.asked = now;
    }

    /// The silence that tells whether an answer to a unit in step was its own, where it came so much sooner than all before
    /// that it may be one that was said twice.
    pub(super) fn doubt(&self, unit_id: u8, turnaround: Duration) -> Option<Duration> {
        let step = self.0.get(&unit_id).filter(|step| step.told >= TOLD)?;
        (turnaround < step.turnaround.0 / 2).then(|| step.pause())
    }

    /// A unit that is in step answered `turnaround` after it was asked.
    pub(super) fn answered(&mut self, unit_id: u8, turnaround: Duration) {
        let now = Instant::now();
        let step = self.of(unit_id);
        step.answered = now;
        let (least, most) = step.turnaround;
        step.turnaround =
            (turnaround.min(least.saturating_add(least / 20)), turnaround.max(most.mul_f64(0.95)));
        step.told = step.told.saturating_add(1);
        let most = (step.pause() * RARE).clamp(PAUSES.0, PAUSES.1);
        if now >= step.listened + most {
            step.rests = Some(now + step.pause());
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<'_, S> {
    /// Takes to heart what units said that nothing asked them for.
    pub(super) fn heed_strays(&mut self) {
        if self.wire.take_noise() {
            // It may have been what a unit said next.
            for held in self.plant.steps.let_go(Instant::now() + self.timeout) {
                self.dismiss(held);
            }
        }
        for (unit_id, shape) in self.wire.strays() {
            if !self.plant.units.iter().any(|member| member.unit_id == unit_id && !member.broadcast) {
                continue;
            }
            self.quiet = 0;
            let rests = Instant::now() + self.timeout;
            match self.plant.steps.stray(unit_id, shape, rests) {
                Stray::Late => {}
                Stray::OutOfStep => self.doubt_unit(unit_id),
                Stray::NotIts(held) => self.dismiss(held),
            }
        }
    }

    /// Lets late answers come before the line is let go, since whoever has it next would take them for its own.
    pub(super) async fn hear_out(&mut self) {
        let most = Instant::now() + HEARD_OUT;
        while let Some(until) = self.plant.steps.open_until(self.timeout).map(|until| until.min(most)) {
            if self.wire.has_ids() || !matches!(timeout_at(until, self.wire.idle()).await, Ok(Ok(()))) {
                return;
            }
            self.heed_strays();
        }
    }

    /// The same after a transaction with a unit. Where the unit said more than its answer, either may be the answer, and
    /// nothing is known of what it still owes; whether that is so.
    pub(super) fn heed_doubled(&mut self, unit_id: u8) -> bool {
        let doubled = self.wire.take_doubled(unit_id);
        if doubled {
            let before = self.plant.steps.is_in_step(unit_id);
            self.plant.steps.open(unit_id, None, Instant::now() + self.timeout);
            if before {
                self.doubt_unit(unit_id);
            }
        }
        self.heed_strays();
        doubled
    }

    /// Nobody can tell any more which of its tags a unit's last answers were for.
    fn doubt_unit(&mut self, unit_id: u8) {
        tracing::warn!(unit_id, "a unit said something that nothing asked for: its answers are out of step");
        let detail: Arc<str> = Failure::OutOfStep.to_string().into();
        self.batch.clear();
        let units = &self.plant.units;
        let is_its = |unit: usize| units.get(unit).is_some_and(|member| member.unit_id == unit_id);
        for entry in self.plant.entries.iter_mut().filter(|entry| is_its(entry.unit)) {
            if std::mem::take(&mut entry.good) {
                self.batch.push(Update {
                    tag: entry.id,
                    value: None,
                    quality: Quality::Uncertain(Reason::Stale),
                    detail: Some(detail.clone()),
                    at: When::At(Instant::now()),
                });
            }
        }
        self.sink.publish(&mut self.batch);
    }

    /// What was held back was the answer to something else.
    fn dismiss(&mut self, held: Held) {
        let Held { class, block, why, .. } = held;
        self.misfit(block.unit);
        self.landed(class, &block, why, Outcome::Unusable(Failure::OutOfStep.to_string()));
    }

    /// What an answer to a poll counts for. `None`: nothing yet, it is held back.
    pub(super) fn weigh(
        &mut self,
        flight: &Flight,
        answer: Result<Answer, Failure>,
    ) -> Option<Result<Answer, Failure>> {
        if self.wire.has_ids() {
            return Some(answer);
        }
        let unit_id = self.plant.unit_id(flight.block.unit);
        let was_in_step = self.plant.steps.is_in_step(unit_id);
        let doubled = self.heed_doubled(unit_id);
        let Ok(answer) = answer else { return Some(answer) };
        if doubled && !was_in_step {
            return Some(Err(Failure::OutOfStep));
        }
        let turnaround = self.turnaround();
        let Some(pause) = self.doubt_of(flight.as_ref(), &answer) else {
            self.believed(unit_id, turnaround);
            return Some(Ok(answer));
        };
        let until = Instant::now() + pause;
        let Flight { class, block, why, asked, .. } = flight;
        let (class, block, why, asked) = (*class, block.clone(), *why, *asked);
        self.plant.steps.hold(unit_id, Held { class, block, why, asked, answer, turnaround, until });
        None
    }

    /// For how long an answer must be held back before it can be believed, if it must.
    pub(super) fn doubt_of(&self, pending: &Pending, answer: &Answer) -> Option<Duration> {
        let Pending { unit_id, request, .. } = pending;
        let steps = &self.plant.steps;
        if steps.is_in_step(*unit_id) {
            return Some(steps.doubt(*unit_id, self.turnaround())? + self.wire.airtime(pending));
        }
        let proves = matches!(answer, Answer::Response(_)) && steps.proves(*unit_id, request);
        (!proves).then(|| HELD * self.timeout)
    }

    /// An answer of a unit is the one to its question.
    pub(super) fn believed(&mut self, unit_id: u8, turnaround: Duration) {
        if !self.plant.steps.is_in_step(unit_id) {
            self.plant.steps.found(unit_id);
        }
        self.plant.steps.answered(unit_id, turnaround);
    }

    /// How long the unit that was asked last took to begin with what it said just now.
    pub(super) fn turnaround(&self) -> Duration {
        (Instant::now() + self.timeout).saturating_duration_since(self.wire.due())
    }

    /// What was held back was the answer to its question.
    pub(super) fn settle(&mut self, held: Held) -> Result<(), End> {
        let Held { class, block, why, asked, answer, turnaround, .. } = held;
        self.believed(self.plant.unit_id(block.unit), turnaround);
        let outcome = self.judge(block.unit, asked, true, Ok(answer))?;
        self.landed(class, &block, why, outcome);
        Ok(())
    }
}
