//! One write: permit, one frame, read-back.
//!
//! The frame leaves once and is never repeated, whatever comes of it; only where the device says that it does not have the
//! function, and so did nothing, another one is tried once (`form`). Once the permit was granted the command is answered
//! with what is known, and `unknown` where nothing is.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Instant,
};
use tokio_modbus::ExceptionCode;

use super::{
    again::{LOOK_AGAIN, Waiting},
    form::Form,
    plant::{Data, Entry, Learned, holds},
    poll,
    session::{End, Session},
    wire::Failure,
};
use crate::{
    codec::modbus::{Answer, exception_text},
    codec::value::{Fault, Raw},
    link::Command,
    model::{Outcome, Refusal, Report, Rule, Value},
    profile::modbus::Writes,
};

/// Why a session ends whose peer did not even acknowledge the bytes of a write.
const UNDELIVERED: &str =
    "a write got no answer: the connection is closed, so that nothing of it can arrive late";

/// Pause after a broadcast, in which devices carry it out (Modbus over serial line V1.02, section 2.4.1).
const TURNAROUND: Duration = Duration::from_millis(100);

/// What came of sending.
enum Sent {
    /// The device said something that a look at it must explain.
    Said(Said),
    /// It refused the write.
    Refused(ExceptionCode),
    /// That is the last word on the command.
    Over(Report),
    /// On the command and on the session.
    Ended(Report, End),
}

/// What the device said to the frame.
#[derive(Debug)]
pub(super) enum Said {
    /// It echoed the write.
    Yes,
    /// Exception 0x05: it took the write and needs time.
    Later,
    /// An answer that is not the echo of what was sent.
    Else(String),
    /// An exception after which the device may have carried the write out all the same.
    Failed(ExceptionCode),
}

/// What the device holds.
struct Held {
    value: Result<Value, Fault>,
    /// Whether it is bit for bit what was sent.
    same: bool,
    /// The register, where it is one.
    word: Option<u16>,
}

/// A write whose tag and value are settled.
struct Order {
    at: usize,
    raw: Raw,
    /// What the device held before, where it was read.
    current: Option<Value>,
    /// The register that it is a part of, where it was read.
    word: Option<u16>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<'_, S> {
    /// Carries out a command; an error ends the session, the command is answered in any case.
    pub(super) async fn write(&mut self, mut command: Command) -> Result<(), End> {
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
        if command.read_first || form.is_modified() || self.wire.may_echo() {
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
            Sent::Refused(exception) => (refusal(exception), Ok(())),
            Sent::Over(report) => (report, Ok(())),
            Sent::Ended(report, end) => (report, Err(end)),
        };
        let previous = report.previous.clone().or(order.current);
        self.close(order.at, command, Report { previous, ..report });
        end
    }

    /// What a command asks for, or why that cannot be done.
    fn order(&self, command: &Command) -> Result<Order, Report> {
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
    async fn send(&mut self, command: &mut Command, order: &Order, form: Form, granted: bool) -> Sent {
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
            Ok(sent) => {
                let until = sent + self.timeout + self.wire.airtime(&pending);
                let end = command.deadline.clamp(started, until);
                let answer = match self.wire.hear(&[&pending], end).await {
                    Ok((_, answer)) => answer.map_err(Failure::Misfit),
                    Err(failure) => Err(failure),
                };
                (answer, end == until)
            }
            Err(failure) => (Err(failure), true),
        };
        self.answer_to_write(unit, started, answer)
    }

    /// Waits until the line is free for a write, which is the last moment at which it can be told for sure that nothing left.
    async fn line_free(&mut self, unit: usize, deadline: Instant) -> Result<(), Sent> {
        let not_sent = |text: String| Sent::Over(Report::new(Outcome::NotSent, text));
        self.let_rest(unit);
        match self.wire.ready(deadline).await {
            Ok(()) => {}
            Err(Failure::Lost(problem)) => return Err(lost_before(problem)),
            Err(failure) => return Err(not_sent(failure.to_string())),
        }
        // A connection that is known to be lost takes nothing: the command can be told so for sure.
        if let Some(failure) = self.wire.idle().now_or_never() {
            return Err(lost_before(failure.to_string()));
        }
        if Instant::now() >= deadline {
            return Err(not_sent("its deadline passed before it could be sent".to_owned()));
        }
        Ok(())
    }

    /// The device says that it does not have the function: the other one for the same value is tried once.
    async fn send_otherwise(
        &mut self,
        command: &mut Command,
        order: &mut Order,
        form: Form,
        exception: ExceptionCode,
    ) -> Sent {
        let Some((entry, writes, _)) = self.writes_of(order.at) else { return Sent::Refused(exception) };
        let unit = entry.unit;
        let Some(other) = form.other(entry, &order.raw, writes, exception) else {
            return Sent::Refused(exception);
        };
        if other.is_modified() && order.word.is_none() {
            match self.look(order.at, &order.raw, command.deadline, false).await {
                Ok(Ok(held)) => order.word = held.word,
                Ok(Err(_)) => return Sent::Refused(exception),
                Err(end) => return Sent::Ended(refusal(exception), end),
            }
        }
        match self.send(command, order, other, true).await {
            Sent::Refused(second) if second == exception || second == ExceptionCode::IllegalFunction => {
                Sent::Refused(exception)
            }
            // Nothing of it left, so the first answer stands.
            Sent::Over(report) if report.outcome == Outcome::NotSent => {
                let text = format!(
                    "{}; another function was not tried: {}",
                    refusal(exception).message,
                    report.message
                );
                Sent::Over(Report { message: text, ..refusal(exception) })
            }
            sent => {
                if matches!(sent, Sent::Said(_) | Sent::Refused(_))
                    && let Some(entry) = self.plant.entries.get(order.at)
                    && let Some(member) = self.plant.units.get_mut(unit)
                {
                    other.learn(entry, &mut member.learned);
                }
                sent
            }
        }
    }

    /// A write to all devices at once: nothing answers, and nothing can be read back.
    async fn broadcast(&mut self, mut command: Command, order: &Order, form: Form) -> Result<(), End> {
        let request =
            self.plant.entries.get(order.at).and_then(|entry| form.request(entry, &order.raw, None));
        let refused = |rule: Outcome, text: &str| Report::new(rule, text);
        let Some(request) = request else {
            let text = "a part of a register cannot be written to all devices at once without FC 22";
            command.answer(refused(Outcome::NotSent, text));
            return Ok(());
        };
        if command.read_first {
            let text = "a broadcast goes to all devices at once, so there is no value to compare with";
            command.answer(refused(Outcome::Rejected(Rule::Expectation), text));
            return Ok(());
        }
        let pending = match self.wire.prepare(0, request) {
            Ok(pending) => pending,
            Err(error) => {
                command.answer(Report::new(Outcome::NotSent, error.to_string()));
                return Ok(());
            }
        };
        let unit = self.plant.entries.get(order.at).map(|entry| entry.unit).unwrap_or_default();
        match self.line_free(unit, command.deadline).await {
            Ok(()) => {}
            Err(Sent::Ended(report, end)) => {
                command.answer(report);
                return Err(end);
            }
            Err(Sent::Over(report)) => {
                command.answer(report);
                return Ok(());
            }
            Err(Sent::Said(_) | Sent::Refused(_)) => return Ok(()),
        }
        if let Err(report) = command.grant(None) {
            command.answer(report);
            return Ok(());
        }
        match self.wire.send(&pending, self.timeout).await {
            Ok(sent) => {
                self.wire.pause(sent, TURNAROUND);
                let text = "sent to all devices on the line; none of them answers a broadcast";
                command.answer(Report::new(Outcome::Sent, text));
                Ok(())
            }
            Err(failure) => {
                let text = format!("the connection broke while it was sent: {failure}");
                command.answer(Report::new(Outcome::Unknown, text));
                Err(End::Lost(failure.to_string()))
            }
        }
    }

    /// Lets the time pass in which a late answer of the unit may come.
    pub(super) fn let_rest(&mut self, unit: usize) {
        let now = Instant::now();
        if let Some(until) = self.health.get(unit).and_then(|health| health.rests(now)) {
            self.wire.pause(now, until - now);
        }
    }

    /// What an answer to a write, or none, means for the unit and for the command.
    fn answer_to_write(
        &mut self,
        unit: usize,
        started: Instant,
        (answer, whole): (Result<Answer, Failure>, bool),
    ) -> Sent {
        match answer {
            Ok(Answer::Response(_)) => {
                self.answered(unit);
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
            Err(failure @ (Failure::Misfit(_) | Failure::Garbled)) => {
                self.misfit(unit);
                Sent::Said(Said::Else(failure.to_string()))
            }
            Err(Failure::TimedOut | Failure::Taken) => {
                let text = format!(
                    "no answer within {} ms: the device may have taken the value; it was sent once and is not repeated",
                    started.elapsed().as_millis()
                );
                let report = Report::new(Outcome::Unknown, text);
                self.open_write = Some(unit);
                match self.timed_out(unit, whole) {
                    Ok(()) if self.delivery.is_open() => {
                        Sent::Ended(report, End::Lost(UNDELIVERED.to_owned()))
                    }
                    Ok(()) => Sent::Over(report),
                    Err(end) => Sent::Ended(report, end),
                }
            }
            Err(Failure::Lost(problem)) => {
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
    async fn read_back(&mut self, command: Command, order: Order, said: Said) -> Result<(), End> {
        let Order { at, raw, current: previous, .. } = order;
        let settle = self.plant.entries.get(at).map(|entry| entry.settle).unwrap_or_default();
        let later = matches!(said, Said::Later);
        if (later || !settle.is_zero()) && !self.again.is_full() {
            let due = Instant::now() + settle;
            let waiting = Waiting { command, raw, previous, said };
            if !settle.is_zero() {
                self.again.wait(at, due, waiting);
                return Ok(());
            }
            return self.look_for(at, waiting, None).await;
        }
        let last = later.then_some("; too many writes wait for their device already");
        let waiting = Waiting { command, raw, previous, said };
        self.look_for(at, waiting, last).await
    }

    /// Looks whether a device holds the value now. Answers the command, unless the device asked for time and its deadline
    /// allows for another look; not where this is the `last` look of the session.
    pub(super) async fn look_for(
        &mut self,
        at: usize,
        waiting: Waiting,
        last: Option<&str>,
    ) -> Result<(), End> {
        let Waiting { command, raw, previous, said } = waiting;
        let started = Instant::now();
        let later = matches!(said, Said::Later);
        if started >= command.deadline {
            let report = verdict(&said, Err("its turn did not come again before its deadline"), "");
            self.close(at, command, Report { previous, ..report });
            return Ok(());
        }
        let looked = self.look(at, &raw, command.deadline, false).await;
        let same = matches!(&looked, Ok(Ok(Held { same: true, .. })));
        // A look that took long gives as much time to others.
        let due = Instant::now() + started.elapsed().max(LOOK_AGAIN);
        if later && looked.is_ok() && !same && last.is_none() && due < command.deadline {
            self.again.wait(at, due, Waiting { command, raw, previous, said });
            return Ok(());
        }
        let late = match (same, last) {
            (true, _) => String::new(),
            (false, Some(why)) => format!(" and did not hold the value yet{why}"),
            (false, None) => " and did not hold the value by the deadline".to_owned(),
        };
        let report = Report { previous, ..verdict(&said, held(&looked), &late) };
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
    fn close(&mut self, at: usize, command: Command, report: Report) {
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
        let Some(block) = self.plant.alone(at) else { return Ok(Err("no such tag".to_owned())) };
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

fn refusal(exception: ExceptionCode) -> Report {
    let text = exception_text(exception);
    let text = match exception {
        ExceptionCode::GatewayPathUnavailable => {
            format!("the gateway has no path to the device and passed nothing on: {text}")
        }
        _ => format!("the device refused the write: {text}"),
    };
    Report { code: Some(u8::from(exception)), ..Report::new(Outcome::Refused, text) }
}

/// What a look showed, or why it showed nothing.
fn held(looked: &Result<Result<Held, String>, End>) -> Result<&Held, &str> {
    match looked {
        Ok(held) => held.as_ref().map_err(String::as_str),
        Err(End::Lost(problem)) => Err(problem),
        Err(End::Stopped | End::Idle(..)) => Err("the connection is being closed"),
    }
}

/// What to tell of a write that the device answered, given what it holds afterwards.
///
/// What is read back counts for more than what was said: a device that holds what was sent is as it was asked to be,
/// whatever it answered.
fn verdict(said: &Said, held: Result<&Held, &str>, late: &str) -> Report {
    // The outcomes where something else is read back, and where nothing is.
    let (differs, unread, code) = match said {
        Said::Yes => (Outcome::Differs, Outcome::Written, None),
        Said::Later => (Outcome::Unknown, Outcome::Unknown, Some(ExceptionCode::Acknowledge)),
        Said::Failed(exception) => (Outcome::Unknown, Outcome::Unknown, Some(*exception)),
        Said::Else(_) => (Outcome::Differs, Outcome::Unknown, None),
    };
    let acknowledged = matches!(said, Said::Yes | Said::Later);
    let said = match said {
        Said::Yes => "the device acknowledged the write".to_owned(),
        Said::Later => format!("the device took the write, asked for time (exception 0x05){late}"),
        Said::Failed(exception) => {
            format!("the write was answered with {}, which leaves it open", exception_text(*exception))
        }
        Said::Else(misfit) => misfit.clone(),
    };
    let (outcome, value, held) = match held {
        Ok(Held { value, same, .. }) => {
            let text = match value {
                Ok(value) => format!("read back, it holds {value}"),
                Err(fault) => format!("read back, {fault}"),
            };
            (if *same { Outcome::Confirmed } else { differs }, value.as_ref().ok().cloned(), text)
        }
        Err(problem) => (unread, None, format!("reading back failed: {problem}")),
    };
    let code = code.map(u8::from);
    Report { value, acknowledged, code, ..Report::new(outcome, format!("{said}; {held}")) }
}

fn rejected(refusal: &Refusal) -> Report {
    Report::new(Outcome::Rejected(refusal.rule()), refusal.to_string())
}
