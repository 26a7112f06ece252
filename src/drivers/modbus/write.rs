//! One write: permit, one frame, read-back.
//!
//! The frame leaves once and is never repeated, whatever comes of it. Once the permit was granted the command is
//! answered with what is known, and `unknown` where nothing is.

use futures_util::FutureExt;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Instant,
};
use tokio_modbus::ExceptionCode;

use super::{
    again::{LOOK_AGAIN, Waiting},
    plant::{Data, Payload},
    poll,
    session::{End, Session},
    wire::Failure,
};
use crate::{
    codec::modbus::{Answer, exception_text},
    codec::value::Fault,
    link::{Command, Inbox},
    model::{Outcome, Refusal, Report, Rule, Value},
};

/// Why a session ends whose peer did not even acknowledge the bytes of a write.
const UNDELIVERED: &str =
    "a write got no answer: the connection is closed, so that nothing of it can arrive late";

/// What came of sending.
enum Sent {
    /// The device said something that a look at it must explain.
    Said(Said),
    /// That is the last word on the command.
    Over(Report),
    /// On the command and on the session.
    Ended(Report, End),
}

/// What the device said to the frame.
enum Said {
    /// It echoed the write.
    Yes,
    /// Exception 0x05: it took the write and needs time.
    Later,
    /// An answer that is not the echo of what was sent.
    Else(String),
    /// An exception after which the device may have carried the write out all the same.
    Failed(ExceptionCode),
}

/// What the device holds after a write.
struct Held {
    value: Result<Value, Fault>,
    /// Whether it is bit for bit what was sent.
    same: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<'_, S> {
    /// Carries out a command; an error ends the session, the command is answered in any case.
    pub(super) async fn write(&mut self, mut command: Command, inbox: &Inbox) -> Result<(), End> {
        let Some(at) = self.plant.find(command.tag) else {
            command.answer(Report::new(Outcome::NotSent, "the tag is not on this connection"));
            return Ok(());
        };
        let Some(entry) = self.plant.entries.get(at) else { return Ok(()) };
        let payload = match entry.encode(&command.value) {
            Some(Ok(payload)) => payload,
            Some(Err(refusal)) => {
                command.answer(rejected(&refusal));
                return Ok(());
            }
            None => {
                let text = "input registers and discrete inputs cannot be written";
                command.answer(Report::new(Outcome::Rejected(Rule::Access), text));
                return Ok(());
            }
        };
        if Instant::now() >= command.deadline {
            command.answer(Report::new(Outcome::NotSent, "its deadline passed while it waited for its turn"));
            return Ok(());
        }
        let current = if command.read_first {
            match self.look(at, &payload, command.deadline, Some(inbox)).await? {
                Ok(Held { value: Ok(value), .. }) => Some(value),
                Ok(Held { value: Err(fault), .. }) => {
                    let text = format!("not written, since the present value is none: {fault}");
                    command.answer(Report::new(Outcome::NotSent, text));
                    return Ok(());
                }
                Err(problem) => {
                    let text = format!("not written, since the present value could not be read: {problem}");
                    command.answer(Report::new(Outcome::NotSent, text));
                    return Ok(());
                }
            }
        } else {
            None
        };
        let (report, end) = match self.send(&mut command, at, &payload, current.as_ref()).await {
            Sent::Said(said) => return self.read_back(command, at, payload, said, current).await,
            Sent::Over(report) => (report, Ok(())),
            Sent::Ended(report, end) => (report, Err(end)),
        };
        let previous = report.previous.clone().or(current);
        self.close(at, command, Report { previous, ..report });
        end
    }

    /// Permit and frame.
    async fn send(
        &mut self,
        command: &mut Command,
        at: usize,
        payload: &Payload,
        current: Option<&Value>,
    ) -> Sent {
        let not_sent = |text: String| Sent::Over(Report::new(Outcome::NotSent, text));
        let Some(entry) = self.plant.entries.get(at) else { return not_sent("no such tag".to_owned()) };
        let unit = entry.unit;
        let unit_id = self.plant.units.get(unit).map(|member| member.unit_id).unwrap_or_default();
        let request = entry.write(payload);
        let pending = match self.wire.prepare(unit_id, &request) {
            Ok(pending) => pending,
            Err(error) => return not_sent(error.to_string()),
        };
        // A connection that is known to be lost takes nothing: the command can be told so for sure.
        if let Some(failure) = self.wire.idle().now_or_never() {
            let problem = failure.to_string();
            let report = Report::new(Outcome::NotSent, format!("the connection was lost before: {problem}"));
            return Sent::Ended(report, End::Lost(problem));
        }
        let started = Instant::now();
        if started >= command.deadline {
            return not_sent("its deadline passed before it could be sent".to_owned());
        }
        if let Err(report) = command.grant(current) {
            return Sent::Over(report);
        }
        // From here on nothing but an answer can say that the device did not take it; a stop waits for that.
        let until = self.until(started, Some(command.deadline));
        let answer = self.wire.exchange(&pending, until).await;
        self.answer_to_write(unit, started, until, answer)
    }

    /// What an answer to a write, or none, means for the unit and for the command.
    fn answer_to_write(
        &mut self,
        unit: usize,
        started: Instant,
        until: Instant,
        answer: Result<Answer, Failure>,
    ) -> Sent {
        match answer {
            Ok(Answer::Response(_)) => {
                self.answered(unit);
                Sent::Said(Said::Yes)
            }
            Ok(Answer::Exception(exception)) => {
                self.exception(unit, exception, started);
                let text = exception_text(exception);
                let text = match exception {
                    ExceptionCode::Acknowledge => return Sent::Said(Said::Later),
                    // The gateway passed the write on and heard nothing; the device began and failed.
                    ExceptionCode::GatewayTargetDevice | ExceptionCode::ServerDeviceFailure => {
                        return Sent::Said(Said::Failed(exception));
                    }
                    ExceptionCode::GatewayPathUnavailable => {
                        format!("the gateway has no path to the device and passed nothing on: {text}")
                    }
                    _ => format!("the device refused the write: {text}"),
                };
                let code = Some(u8::from(exception));
                Sent::Over(Report { code, ..Report::new(Outcome::Refused, text) })
            }
            Err(Failure::Misfit(misfit)) => {
                self.answered(unit);
                Sent::Said(Said::Else(misfit.to_string()))
            }
            Err(Failure::TimedOut) => {
                let text = format!(
                    "no answer within {} ms: the device may have taken the value; it was sent once and is not repeated",
                    started.elapsed().as_millis()
                );
                let report = Report::new(Outcome::Unknown, text);
                self.open_write = Some(unit);
                match self.timed_out(unit, until - started) {
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
    async fn read_back(
        &mut self,
        command: Command,
        at: usize,
        payload: Payload,
        said: Said,
        previous: Option<Value>,
    ) -> Result<(), End> {
        if matches!(said, Said::Later) {
            let last = self.again.is_full().then_some("; too many writes wait for their device already");
            return self.look_for(at, Waiting { command, payload, previous }, last).await;
        }
        let looked = self.look(at, &payload, command.deadline, None).await;
        let report = Report { previous, ..verdict(&said, held(&looked), "") };
        self.close(at, command, report);
        looked.map(drop)
    }

    /// Looks whether a device that asked for time holds the value now, and answers the command where it does, where
    /// its deadline does not allow for another look, or where this is the `last` look of the session.
    pub(super) async fn look_for(
        &mut self,
        at: usize,
        waiting: Waiting,
        last: Option<&str>,
    ) -> Result<(), End> {
        let Waiting { command, payload, previous } = waiting;
        let started = Instant::now();
        if started >= command.deadline {
            let report = verdict(&Said::Later, Err("its turn did not come again before its deadline"), "");
            self.close(at, command, Report { previous, ..report });
            return Ok(());
        }
        let looked = self.look(at, &payload, command.deadline, None).await;
        let same = matches!(&looked, Ok(Ok(Held { same: true, .. })));
        // A look that took long gives as much time to others.
        let due = Instant::now() + started.elapsed().max(LOOK_AGAIN);
        if looked.is_ok() && !same && last.is_none() && due < command.deadline {
            self.again.wait(at, due, Waiting { command, payload, previous });
            return Ok(());
        }
        let late = match (same, last) {
            (true, _) => String::new(),
            (false, Some(why)) => format!(" and did not hold the value yet{why}"),
            (false, None) => " and did not hold the value by the deadline".to_owned(),
        };
        let report = Report { previous, ..verdict(&Said::Later, held(&looked), &late) };
        self.close(at, command, report);
        looked.map(drop)
    }

    /// Answers a write that waits for its device, where the connection is lost.
    pub(super) fn give_up(&mut self, at: usize, waiting: Waiting, problem: &str) {
        let Waiting { command, previous, .. } = waiting;
        let report = Report { previous, ..verdict(&Said::Later, Err(problem), "") };
        self.close(at, command, report);
    }

    /// The last word on a command.
    fn close(&mut self, at: usize, command: Command, report: Report) {
        if report.value.is_none() && matches!(report.outcome, Outcome::Written | Outcome::Unknown) {
            self.doubt(at);
        }
        command.answer(report);
    }

    /// Reads one tag alone and publishes it.
    async fn look(
        &mut self,
        at: usize,
        sent: &Payload,
        deadline: Instant,
        stop: Option<&Inbox>,
    ) -> Result<Result<Held, String>, End> {
        let Some(entry) = self.plant.entries.get(at) else { return Ok(Err("no such tag".to_owned())) };
        let (unit, block) = (entry.unit, entry.block(at));
        let (data, asked) = match self.read(unit, &block, Some(deadline), stop).await? {
            poll::Outcome::Data(data, asked) => (data, asked),
            poll::Outcome::Exception(exception) => return Ok(Err(exception_text(exception))),
            poll::Outcome::TimedOut => return Ok(Err("the device did not answer".to_owned())),
            poll::Outcome::Unusable(problem) => return Ok(Err(problem)),
        };
        self.take_in(at, &data, asked);
        let Some(entry) = self.plant.entries.get(at) else { return Ok(Err("no such tag".to_owned())) };
        Ok(Ok(Held { value: entry.decode(&data, 0), same: sent.is(&data) }))
    }

    /// Publishes what a tag that was read alone holds, which was `asked` for at that moment.
    pub(super) fn take_in(&mut self, at: usize, data: &Data, asked: Instant) {
        let Some(entry) = self.plant.entries.get_mut(at) else { return };
        self.batch.clear();
        self.batch.push(entry.update(entry.decode(data, 0), asked));
        self.sink.publish(&mut self.batch);
        self.again.seen(at);
    }
}

/// What a look showed, or why it showed nothing.
fn held(looked: &Result<Result<Held, String>, End>) -> Result<&Held, &str> {
    match looked {
        Ok(held) => held.as_ref().map_err(String::as_str),
        Err(End::Lost(problem)) => Err(problem),
        Err(End::Stopped) => Err("the connection is being closed"),
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
        Ok(Held { value, same }) => {
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
