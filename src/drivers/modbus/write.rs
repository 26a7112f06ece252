//! One write: permit, one frame, read-back.
//!
//! The frame leaves once and is never repeated, whatever comes of it; only where the device says that it does not have the
//! function, and so did nothing, another one is tried (`form`), each once. Once the permit was granted the command is answered
//! with what is known, and `unknown` where nothing is.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, timeout_at},
};
use tokio_modbus::{ExceptionCode, Request};

use super::{
    again::{LOOK_AGAIN, Waiting},
    form::{Form, cells},
    plant::{Data, Entry, Learned, holds},
    poll,
    session::{End, Session},
    verdict::{Held, Said, held, refusal, rejected, verdict},
    wire::Failure,
};
use crate::{
    codec::modbus::{Answer, exception_text},
    codec::value::Raw,
    link::Command,
    model::{Outcome, Report, Rule, Value},
    profile::modbus::Writes,
};

/// Why a session ends whose peer did not even acknowledge the bytes of a write.
const UNDELIVERED: &str =
    "a write got no answer: the connection is closed, so that nothing of it can arrive late";

/// Pause after a broadcast, in which devices carry it out (Modbus over serial line V1.02, section 2.4.1).
const TURNAROUND: Duration = Duration::from_millis(100);

/// Why nothing is known of a write that a device was not given its time for.
const UNSETTLED: &str = "there was less time than the device needs to settle";

/// What came of sending.
pub(super) enum Sent {
    /// The device said something that a look at it must explain.
    Said(Said),
    /// It refused the write.
    Refused(ExceptionCode),
    /// That is the last word on the command.
    Over(Report),
    /// On the command and on the session.
    Ended(Report, End),
}

/// A write whose tag and value are settled.
pub(super) struct Order {
    pub(super) at: usize,
    pub(super) raw: Raw,
    /// What the device held before, where it was read.
    pub(super) current: Option<Value>,
    /// The register that it is a part of, where it was read.
    pub(super) word: Option<u16>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<'_, S> {
    /// Carries out a command, and those that go with it; an error ends the session, each is answered in any case.
    pub(super) async fn write(&mut self, command: Command) -> Result<(), End> {
        if command.is_joint() { self.write_joint(command).await } else { self.write_one(command).await }
    }

    pub(super) async fn write_one(&mut self, mut command: Command) -> Result<(), End> {
        let mut order = match self.order(&command) {
            Ok(order) => order,
            Err(report) => {
                command.answer(report);
                return Ok(());
            }
        };
        let Some((entry, writes, learned)) = self.writes_of(order.at) else { return Ok(()) };
        let (unit, form) = (entry.unit, Form::new(entry, &order.raw, writes, learned));
        if self.plant.is_broadcast(unit) {
            return self.broadcast(command, &order, form).await;
        }
        // Where nothing can be read of it, an answer to the write is all that there can be.
        if !self.plant.is_in_step(unit) && self.plant.has_probe(unit) {
            self.defer(unit, command);
            return Ok(());
        }
        let may_echo = form.is_echoed() && self.wire.may_echo();
        if command.read_first || form.is_modified() || may_echo {
            let looked = self.look(order.at, &order.raw, command.deadline, true).await?;
            if let Err(problem) = order.note(looked, command.read_first, form) {
                command.answer(Report::new(Outcome::NotSent, problem));
                return Ok(());
            }
        }
        let sent = match self.send(&mut command, &order, form, false).await {
            Sent::Refused(exception) => self.send_otherwise(&mut command, &mut order, form, exception).await,
            sent => sent,
        };
        let (report, end) = match sent {
            Sent::Said(said) => return self.read_back(command, order, said).await,
            Sent::Refused(exception) => (refusal(exception, cells(&order.raw)), Ok(())),
            Sent::Over(report) => (report, Ok(())),
            Sent::Ended(report, end) => (report, Err(end)),
        };
        let previous = report.previous.clone().or(order.current);
        self.close(order.at, command, Report { previous, ..report });
        end
    }

    /// What a command asks for, or why that cannot be done.
    pub(super) fn order(&self, command: &Command) -> Result<Order, Report> {
        let at = self.plant.find(command.tag);
        let Some((at, entry)) = at.and_then(|at| Some((at, self.plant.entries.get(at)?))) else {
            return Err(Report::new(Outcome::NotSent, "the tag is not on this connection"));
        };
        let raw = match entry.encode(&command.value) {
            Some(Ok(raw)) => raw,
            Some(Err(refusal)) => return Err(rejected(&refusal)),
            None => {
                let text = "input registers and discrete inputs cannot be written";
                return Err(Report::new(Outcome::Rejected(Rule::Access), text));
            }
        };
        if Instant::now() >= command.deadline {
            let text = "its deadline passed while it waited for its turn";
            return Err(Report::new(Outcome::NotSent, text));
        }
        Ok(Order { at, raw, current: None, word: None })
    }

    fn writes_of(&self, at: usize) -> Option<(&Entry, Writes, Learned)> {
        let entry = self.plant.entries.get(at)?;
        let member = self.plant.units.get(entry.unit)?;
        Some((entry, member.writes, member.learned))
    }

    /// Permit, where it was not granted yet, and frame.
    pub(super) async fn send(
        &mut self,
        command: &mut Command,
        order: &Order,
        form: Form,
        granted: bool,
    ) -> Sent {
        let not_sent = |text: &str| Sent::Over(Report::new(Outcome::NotSent, text));
        let Some(entry) = self.plant.entries.get(order.at) else { return not_sent("no such tag") };
        let unit = entry.unit;
        let Some(request) = form.request(entry, &order.raw, order.word) else {
            return not_sent("a part of a register cannot be changed where the register cannot be read");
        };
        let pending = match self.wire.prepare(self.unit_id(unit), request) {
            Ok(pending) => pending,
            Err(error) => return not_sent(&error.to_string()),
        };
        if let Err(sent) = self.line_free(unit, command.deadline).await {
            return sent;
        }
        if !granted && let Err(report) = command.grant(order.current.as_ref()) {
            return Sent::Over(report);
        }
        // From here on nothing but an answer can say that the device did not take it; a stop waits for that.
        let started = Instant::now();
        let answer = match self.wire.send(&pending, self.timeout).await {
            Ok(_) => {
                let until = self.wire.due();
                let end = command.deadline.clamp(started, until);
                let answer = match self.wire.hear(&[&pending], end).await {
                    Ok((_, answer)) => answer.map_err(Failure::Misfit),
                    Err(failure) => Err(failure),
                };
                (answer, end == until)
            }
            Err(failure) => (Err(failure), true),
        };
        self.answer_to_write(unit, started, &pending.request, answer)
    }

    /// Waits until the line is free for a write, which is the last moment at which it can be told for sure that nothing left.
    async fn line_free(&mut self, unit: usize, deadline: Instant) -> Result<(), Sent> {
        let not_sent = |text: String| Sent::Over(Report::new(Outcome::NotSent, text));
        let late = || not_sent("its deadline passed before it could be sent".to_owned());
        self.let_rest(unit);
        let stopped = self.stop.clone().cancelled_owned();
        let ready = tokio::select! {
            biased;
            () = stopped => return Err(not_sent("the connection is being closed".to_owned())),
            ready = timeout_at(deadline, self.wire.ready(deadline)) => ready,
        };
        match ready {
            Ok(Ok(())) => {}
            Ok(Err(Failure::Lost(problem))) => return Err(lost_before(problem)),
            Ok(Err(failure)) => return Err(not_sent(failure.to_string())),
            Err(_elapsed) => return Err(late()),
        }
        // A connection that is known to be lost takes nothing: the command can be told so for sure.
        if let Some(Err(failure)) = self.wire.idle().now_or_never() {
            return Err(lost_before(failure.to_string()));
        }
        let in_step = self.plant.is_in_step(unit);
        self.heed_strays();
        if in_step && !self.plant.is_in_step(unit) {
            return Err(not_sent(Failure::OutOfStep.to_string()));
        }
        if Instant::now() >= deadline {
            return Err(late());
        }
        Ok(())
    }

    /// The device says that it does not have the function: another one for the same value is tried, each once.
    async fn send_otherwise(
        &mut self,
        command: &mut Command,
        order: &mut Order,
        mut form: Form,
        first: ExceptionCode,
    ) -> Sent {
        let refused = refusal(first, cells(&order.raw));
        let (mut exception, mut tried) = (first, vec![form]);
        while let Some((entry, writes, learned)) = self.writes_of(order.at) {
            let unit = entry.unit;
            let other = form.other(entry, &order.raw, writes, learned, exception);
            let Some(other) = other.filter(|other| !tried.contains(other)) else { break };
            let masked = form == Form::Mask;
            if masked && exception == ExceptionCode::IllegalFunction {
                self.learn(unit, |_, learned| learned.no_mask = true, order.at);
            }
            // What was read before another try may have changed since.
            if other.is_modified() {
                match self.look(order.at, &order.raw, command.deadline, false).await {
                    Ok(Ok(held)) => order.word = held.word,
                    Ok(Err(problem)) => return Sent::Over(not_otherwise(refused, &problem)),
                    Err(end) => return Sent::Ended(refused, end),
                }
            }
            match self.send(command, order, other, true).await {
                Sent::Refused(next) if next == exception || next == ExceptionCode::IllegalFunction => {
                    tried.push(other);
                    (form, exception) = (other, next);
                }
                // Nothing of it left, so the first answer stands.
                Sent::Over(report) if report.outcome == Outcome::NotSent => {
                    return Sent::Over(not_otherwise(refused, &report.message));
                }
                Sent::Ended(report, end) if report.outcome == Outcome::NotSent => {
                    return Sent::Ended(not_otherwise(refused, &report.message), end);
                }
                sent @ (Sent::Said(_) | Sent::Refused(_)) => {
                    self.learn(
                        unit,
                        |entry, learned| {
                            other.learn(entry, learned);
                            learned.no_mask |= masked;
                        },
                        order.at,
                    );
                    return sent;
                }
                sent => return sent,
            }
        }
        Sent::Refused(first)
    }

    fn learn(&mut self, unit: usize, what: impl FnOnce(&Entry, &mut Learned), at: usize) {
        if let Some(entry) = self.plant.entries.get(at)
            && let Some(member) = self.plant.units.get_mut(unit)
        {
            what(entry, &mut member.learned);
        }
    }

    /// A write to all devices at once: nothing answers, and nothing can be read back.
    async fn broadcast(&mut self, mut command: Command, order: &Order, form: Form) -> Result<(), End> {
        let (report, end) = match self.spread(&mut command, order, form).await {
            Sent::Over(report) => (report, Ok(())),
            Sent::Ended(report, end) => (report, Err(end)),
            // Nothing is heard after it.
            Sent::Said(_) | Sent::Refused(_) => return Ok(()),
        };
        if report.outcome == Outcome::Sent {
            for at in self.plant.reached(order.at) {
                self.doubt(at);
            }
        }
        command.answer(report);
        end
    }

    async fn spread(&mut self, command: &mut Command, order: &Order, form: Form) -> Sent {
        let over = |outcome: Outcome, text: &str| Sent::Over(Report::new(outcome, text));
        let Some(entry) = self.plant.entries.get(order.at) else {
            return over(Outcome::NotSent, "no such tag");
        };
        let unit = entry.unit;
        let Some(request) = form.request(entry, &order.raw, None) else {
            let text = "a part of a register cannot be written to all devices at once without FC 22";
            return over(Outcome::NotSent, text);
        };
        if command.read_first {
            let text = "a broadcast goes to all devices at once, so there is no value to compare with";
            return over(Outcome::Rejected(Rule::Expectation), text);
        }
        let pending = match self.wire.prepare(0, request) {
            Ok(pending) => pending,
            Err(error) => return over(Outcome::NotSent, &error.to_string()),
        };
        if let Err(sent) = self.line_free(unit, command.deadline).await {
            return sent;
        }
        if let Err(report) = command.grant(None) {
            return Sent::Over(report);
        }
        self.overtake_deferred();
        match self.wire.send(&pending, self.timeout).await {
            Ok(sent) => {
                self.wire.pause(sent, TURNAROUND);
                over(Outcome::Sent, "sent to all devices on the line; none of them answers a broadcast")
            }
            Err(failure) => {
                let text = format!("the connection broke while it was sent: {failure}");
                Sent::Ended(Report::new(Outcome::Unknown, text), End::Lost(failure.to_string()))
            }
        }
    }

    /// Lets the time pass in which a late answer of the unit may come.
    pub(super) fn let_rest(&mut self, unit: usize) {
        self.asks(unit);
        let now = Instant::now();
        if let Some(until) = self.plant.rests(unit, now) {
            self.wire.pause(now, until - now);
        }
    }

    /// What an answer to a write, or none, means for the unit and for the command.
    fn answer_to_write(
        &mut self,
        unit: usize,
        started: Instant,
        request: &Request<'_>,
        (answer, whole): (Result<Answer, Failure>, bool),
    ) -> Sent {
        self.heed_doubled(self.unit_id(unit));
        let in_step = self.plant.is_in_step(unit);
        let proves = self.plant.steps.proves(self.unit_id(unit), request);
        match answer {
            // It may be the answer to something before, though only the same kind of write can be that.
            Ok(Answer::Response(_)) if !proves => {
                self.misfit(unit);
                Sent::Said(Said::Else(Failure::OutOfStep.to_string()))
            }
            Ok(Answer::Exception(exception)) if !in_step => {
                self.misfit(unit);
                Sent::Said(Said::Failed(exception))
            }
            Ok(Answer::Response(_)) => {
                self.answered(unit);
                if !self.wire.has_ids() {
                    self.believed(self.unit_id(unit), self.turnaround());
                }
                Sent::Said(Said::Yes)
            }
            Ok(Answer::Exception(exception)) => {
                self.exception(unit, exception, started);
                match exception {
                    ExceptionCode::Acknowledge => Sent::Said(Said::Later),
                    // The gateway passed the write on and heard nothing; the device began and failed.
                    ExceptionCode::GatewayTargetDevice | ExceptionCode::ServerDeviceFailure => {
                        Sent::Said(Said::Failed(exception))
                    }
                    _ => Sent::Refused(exception),
                }
            }
            Err(failure @ (Failure::Misfit(_) | Failure::Garbled | Failure::OutOfStep)) => {
                self.misfit(unit);
                Sent::Said(Said::Else(failure.to_string()))
            }
            // Whether it did anything shows when it is read back.
            Err(failure @ Failure::Doubtful) => match self.timed_out(unit, started, whole) {
                Ok(()) => Sent::Said(Said::Else(failure.to_string())),
                Err(end) => Sent::Ended(Report::new(Outcome::Unknown, failure.to_string()), end),
            },
            Err(Failure::TimedOut | Failure::Taken) => {
                let text = format!(
                    "no answer within {} ms: the device may have taken the value; it was sent once and is not repeated",
                    started.elapsed().as_millis()
                );
                let report = Report::new(Outcome::Unknown, text);
                self.open_write = Some((unit, Instant::now()));
                match self.timed_out(unit, started, whole) {
                    Ok(()) if self.delivery.is_open() => {
                        Sent::Ended(report, End::Lost(UNDELIVERED.to_owned()))
                    }
                    Ok(()) => Sent::Over(report),
                    Err(end) => Sent::Ended(report, end),
                }
            }
            Err(Failure::Lost(problem)) => {
                self.keep_apart(unit);
                let text = format!(
                    "the connection broke before the device answered ({problem}): it may have taken the value"
                );
                Sent::Ended(Report::new(Outcome::Unknown, text), End::Lost(problem))
            }
        }
    }

    /// Looks at what the device holds now, in the same turn, and answers the command. A stop waits for it.
    ///
    /// Where the device needs time first, the line serves others meanwhile.
    pub(super) async fn read_back(&mut self, command: Command, order: Order, said: Said) -> Result<(), End> {
        let Order { at, raw, current: previous, .. } = order;
        let settle = self.plant.entries.get(at).map(|entry| entry.settle).unwrap_or_default();
        let (settled, deadline) = (Instant::now() + settle, command.deadline);
        let full = self.again.is_full() && (matches!(said, Said::Later) || !settle.is_zero());
        let waiting = Waiting { command, raw, previous, said, settled };
        if settle.is_zero() || full {
            let last = full.then_some("; too many writes wait for their device already");
            return self.look_for(at, waiting, last).await;
        }
        self.again.wait(at, settled.min(deadline), waiting);
        Ok(())
    }

    /// Looks whether a device holds the value now. Answers the command, unless the device asked for time and its deadline
    /// allows for another look; not where this is the `last` look of the session.
    pub(super) async fn look_for(
        &mut self,
        at: usize,
        waiting: Waiting,
        last: Option<&str>,
    ) -> Result<(), End> {
        let Waiting { command, raw, previous, said, settled } = waiting;
        let started = Instant::now();
        let later = matches!(said, Said::Later);
        let early = started < settled;
        if started >= command.deadline {
            let why = if early { UNSETTLED } else { "its turn did not come again before its deadline" };
            let report = verdict(&said, Err(why), "");
            self.close(at, command, Report { previous, ..report });
            return Ok(());
        }
        let looked = self.look(at, &raw, command.deadline, false).await;
        let same = matches!(&looked, Ok(Ok(Held { same: true, .. })));
        // A look that took long gives as much time to others.
        let due = Instant::now() + started.elapsed().max(LOOK_AGAIN);
        if later && looked.is_ok() && !same && last.is_none() && due < command.deadline {
            self.again.wait(at, due, Waiting { command, raw, previous, said, settled });
            return Ok(());
        }
        let late = match (same, last) {
            (true, _) => String::new(),
            (false, Some(why)) => format!(" and did not hold the value yet{why}"),
            (false, None) => " and did not hold the value by the deadline".to_owned(),
        };
        // What a device holds while it is given time says nothing against the write.
        let shown = if early && !same && looked.is_ok() { Err(UNSETTLED) } else { held(&looked) };
        let report = Report { previous, ..verdict(&said, shown, &late) };
        self.close(at, command, report);
        looked.map(drop)
    }

    /// Answers a write that waits for its device, where the connection is lost.
    pub(super) fn give_up(&mut self, at: usize, waiting: Waiting, problem: &str) {
        let Waiting { command, previous, said, .. } = waiting;
        let report = Report { previous, ..verdict(&said, Err(problem), "") };
        self.close(at, command, report);
    }

    /// The last word on a command. Whatever shares cells with its tag is read as soon as can be.
    pub(super) fn close(&mut self, at: usize, command: Command, report: Report) {
        let sharers = self.plant.sharers(at);
        match report.outcome {
            Outcome::Written | Outcome::Unknown if report.value.is_none() => {
                self.doubt(at);
                for (sharer, _) in sharers {
                    self.doubt(sharer);
                }
            }
            Outcome::Confirmed | Outcome::Differs | Outcome::Written | Outcome::Unknown => {
                for (sharer, _) in sharers.into_iter().filter(|(_, inside)| inside.is_none()) {
                    self.again.look(sharer);
                }
            }
            _ => {}
        }
        command.answer(report);
    }

    /// Reads one tag, and what lies in its cells, and publishes it.
    async fn look(
        &mut self,
        at: usize,
        sent: &Raw,
        deadline: Instant,
        stops: bool,
    ) -> Result<Result<Held, String>, End> {
        let block = match self.plant.alone(at) {
            Ok(block) => block,
            Err(why) => return Ok(Err(why)),
        };
        let (data, asked) = match self.read(&block, Some(deadline), stops).await? {
            poll::Outcome::Data(data, asked) => (data, asked),
            poll::Outcome::Exception(exception) => return Ok(Err(exception_text(exception))),
            poll::Outcome::TimedOut => return Ok(Err("the device did not answer".to_owned())),
            poll::Outcome::Garbled => return Ok(Err(Failure::Garbled.to_string())),
            poll::Outcome::Unusable(problem) => return Ok(Err(problem)),
        };
        self.take_in(&block, &data, asked);
        let Some(entry) = self.plant.entries.get(at) else { return Ok(Err("no such tag".to_owned())) };
        let word = if let Data::Words(words) = &data { words.first().copied() } else { None };
        Ok(Ok(Held { value: entry.decode(&data, 0), same: holds(sent, &data), word }))
    }
}

impl Order {
    /// Takes in what the device holds; an error says why the write cannot be done for want of that.
    fn note(&mut self, looked: Result<Held, String>, needs_value: bool, form: Form) -> Result<(), String> {
        match looked {
            Ok(Held { value: Err(fault), .. }) if needs_value => {
                Err(format!("not written, since the present value is none: {fault}"))
            }
            Ok(Held { value, word, .. }) => {
                (self.current, self.word) = (value.ok(), word);
                Ok(())
            }
            Err(problem) if needs_value => {
                Err(format!("not written, since the present value could not be read: {problem}"))
            }
            Err(problem) if form.is_modified() => Err(format!(
                "not written, since the register could not be read to change a part of it: {problem}"
            )),
            Err(_) => Ok(()),
        }
    }
}

fn lost_before(problem: String) -> Sent {
    let report = Report::new(Outcome::NotSent, format!("the connection was lost before: {problem}"));
    Sent::Ended(report, End::Lost(problem))
}

fn not_otherwise(refused: Report, problem: &str) -> Report {
    let message = format!("{}; another function was not tried: {problem}", refused.message);
    Report { message, ..refused }
}
