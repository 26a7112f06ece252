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
    time::Instant,
};
use tokio_modbus::Request;

use super::{
    extra::Why,
    health::Health,
    plant::Block,
    poll::{Flight, Outcome},
    session::{End, Session},
    wire::Failure,
};
use crate::{
    codec::modbus::{Answer, usual_length},
    model::{Quality, Reason, Update},
};

/// Longest and shortest time after which a unit that is asked without a pause is given one.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// How much rarer the pauses are than they are long, so that they cost a saturated line next to nothing.
const RARE: u32 = 400;
/// Questions kept that are owed an answer; where there are more, any answer may be.
const OWED: usize = 16;
/// How many time-outs an answer is held back: a unit that is steadily late is heard again within them.
pub(super) const HELD: u32 = 3;

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
    held: Option<Held>,
    /// When it last answered, and how long it took to begin with that.
    answered: Instant,
    turnaround: Duration,
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
            held: None,
            answered: now,
            turnaround: Duration::ZERO,
            listened: now,
        }
    }

    /// Silence in which a frame too many would begin.
    fn pause(&self) -> Duration {
        self.turnaround + self.turnaround / 2
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
        self.of(unit_id).held = Some(held);
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
    }

    /// A unit that is in step answered `turnaround` after it was asked.
    pub(super) fn answered(&mut self, unit_id: u8, turnaround: Duration) {
        let now = Instant::now();
        let step = self.of(unit_id);
        step.answered = now;
        step.turnaround = turnaround.max(step.turnaround.mul_f64(0.95));
        let most = (step.pause() * RARE).clamp(PAUSES.0, PAUSES.1);
        if now >= step.listened + most {
            step.rests = Some(now + step.pause());
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<'_, S> {
    /// Takes to heart what units said that nothing asked them for.
    pub(super) fn heed_strays(&mut self) {
        for (unit_id, shape) in self.wire.strays() {
            if !self.plant.units.iter().any(|member| member.unit_id == unit_id && !member.broadcast) {
                continue;
            }
            let rests = Instant::now() + self.timeout;
            match self.plant.steps.stray(unit_id, shape, rests) {
                Stray::Late => {}
                Stray::OutOfStep => self.doubt_unit(unit_id),
                Stray::NotIts(held) => self.dismiss(&held),
            }
        }
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
                    at: Instant::now(),
                });
            }
        }
        self.sink.publish(&mut self.batch);
    }

    /// What was held back was the answer to something else.
    fn dismiss(&mut self, held: &Held) {
        self.misfit(held.block.unit);
        self.tell_block(&held.block, Reason::DecodeError, &Failure::OutOfStep.to_string());
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
        self.heed_strays();
        let Ok(answer) = answer else { return Some(answer) };
        let unit_id = self.plant.unit_id(flight.block.unit);
        if self.is_proven(unit_id, &flight.block.request(), &answer) {
            return Some(Ok(answer));
        }
        let until = Instant::now() + HELD * self.timeout;
        let Flight { class, block, why, asked, .. } = flight;
        let held = Held { class: *class, block: block.clone(), why: *why, asked: *asked, answer, until };
        self.plant.steps.hold(unit_id, held);
        None
    }

    /// Whether an answer can be believed at once; the unit is in step then.
    pub(super) fn is_proven(&mut self, unit_id: u8, request: &Request<'_>, answer: &Answer) -> bool {
        let steps = &mut self.plant.steps;
        if !steps.is_in_step(unit_id) {
            if matches!(answer, Answer::Exception(_)) || !steps.proves(unit_id, request) {
                return false;
            }
            steps.found(unit_id);
        }
        self.was_answered(unit_id);
        true
    }

    /// A unit that is in step answered just now.
    pub(super) fn was_answered(&mut self, unit_id: u8) {
        let began = self.wire.due() - self.timeout;
        self.plant.steps.answered(unit_id, Instant::now().saturating_duration_since(began));
    }

    /// What was held back was the answer to its question.
    pub(super) fn settle(&mut self, held: Held) -> Result<(), End> {
        let Held { class, block, why, asked, answer, .. } = held;
        let outcome = self.judge(block.unit, asked, true, Ok(answer))?;
        self.landed(class, &block, why, outcome);
        Ok(())
    }

    /// Sees to it that what a unit answers to a write can be believed; an error says why it cannot.
    pub(super) async fn get_in_step(
        &mut self,
        unit: usize,
        deadline: Instant,
    ) -> Result<Result<(), String>, End> {
        let unit_id = self.plant.unit_id(unit);
        if let Some(until) = self.plant.steps.held(unit_id) {
            let heard = self.wire.listen(unit_id, until.min(deadline)).await;
            heard.map_err(|failure| End::Lost(failure.to_string()))?;
            self.heed_strays();
            if let Some(held) = self.plant.steps.ripe(Instant::now()) {
                self.settle(held)?;
            }
        } else if !self.plant.is_in_step(unit) {
            let failures = self.health.get(unit).map(Health::failures).unwrap_or_default();
            // Where nothing can be read of it, an answer to the write is all that there can be.
            let Some((_, block)) = self.plant.probe(unit, failures) else { return Ok(Ok(())) };
            if let Outcome::Data(data, asked) = self.read(&block, Some(deadline), true).await? {
                self.take_in(&block, &data, asked);
            }
        }
        if self.plant.is_in_step(unit) {
            return Ok(Ok(()));
        }
        Ok(Err(
            "not written: the device left a question open before, and no answer since shows that it is over"
                .to_owned(),
        ))
    }
}
