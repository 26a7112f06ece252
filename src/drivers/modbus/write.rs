//! One write: permit, one frame, read-back.
//!
//! The frame leaves once and is never repeated, whatever comes of it. Once the permit was granted the command is
//! answered with what is known, and `unknown` where nothing is.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, sleep_until},
};
use tokio_modbus::ExceptionCode;

use super::{
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

/// Pause between two looks at a device that said it needs time (exception 0x05).
const LOOK_AGAIN: Duration = Duration::from_millis(100);

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
            match self.look(at, &payload, self.until(&command), inbox).await? {
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
            Sent::Said(said) => return self.read_back(command, at, &payload, said, current, inbox).await,
            Sent::Over(report) => (report, Ok(())),
            Sent::Ended(report, end) => (report, Err(end)),
        };
        if report.outcome == Outcome::Unknown {
            self.doubt(at);
        }
        let previous = report.previous.clone().or(current);
        command.answer(Report { previous, ..report });
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
        let until = self.until(command);
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
        let answer = self.wire.exchange(&pending, until).await;
        self.answer_to_write(unit, started, answer)
    }

    /// What an answer to a write, or none, means for the unit and for the command.
    fn answer_to_write(&mut self, unit: usize, started: Instant, answer: Result<Answer, Failure>) -> Sent {
        match answer {
            Ok(Answer::Response(_)) => {
                self.answered(unit);
                Sent::Said(Said::Yes)
            }
            Ok(Answer::Exception(exception)) => {
                self.exception(unit, exception, started);
                if exception == ExceptionCode::Acknowledge {
                    return Sent::Said(Said::Later);
                }
                let text = format!("the device refused the write: {}", exception_text(exception));
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
                match self.timed_out(unit, started) {
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

    /// Looks at what the device holds now, in the same turn, and answers the command.
    async fn read_back(
        &mut self,
        command: Command,
        at: usize,
        payload: &Payload,
        said: Said,
        previous: Option<Value>,
        inbox: &Inbox,
    ) -> Result<(), End> {
        let until = self.until(&command);
        let mut looked = self.look(at, payload, until, inbox).await;
        // A device that needs time may hold the old value for a while.
        while matches!((&said, &looked), (Said::Later, Ok(Ok(Held { same: false, .. }))))
            && Instant::now() + LOOK_AGAIN < until
            && !inbox.is_stopped()
        {
            sleep_until(Instant::now() + LOOK_AGAIN).await;
            looked = self.look(at, payload, until, inbox).await;
        }
        let (held, end) = match looked {
            Ok(held) => (held, Ok(())),
            Err(End::Stopped) => (Err("fieldbridge stops".to_owned()), Err(End::Stopped)),
            Err(End::Lost(problem)) => (Err(problem.clone()), Err(End::Lost(problem))),
        };
        let report = Report { previous, ..verdict(&said, held) };
        if matches!(report.outcome, Outcome::Written | Outcome::Unknown) {
            self.doubt(at);
        }
        command.answer(report);
        end
    }

    /// Reads one tag alone and publishes it.
    async fn look(
        &mut self,
        at: usize,
        sent: &Payload,
        until: Instant,
        inbox: &Inbox,
    ) -> Result<Result<Held, String>, End> {
        let Some(entry) = self.plant.entries.get(at) else { return Ok(Err("no such tag".to_owned())) };
        let (unit, block) = (entry.unit, entry.block(at));
        let data = match self.read(unit, &block, until, inbox).await? {
            poll::Outcome::Data(data) => data,
            poll::Outcome::Exception(exception) => return Ok(Err(exception_text(exception))),
            poll::Outcome::TimedOut => return Ok(Err("the device did not answer".to_owned())),
            poll::Outcome::Unusable(problem) => return Ok(Err(problem)),
        };
        Ok(self.hold(at, sent, &data))
    }

    fn hold(&mut self, at: usize, sent: &Payload, data: &Data) -> Result<Held, String> {
        let Some(entry) = self.plant.entries.get(at) else { return Err("no such tag".to_owned()) };
        let value = entry.decode(data, 0);
        self.batch.clear();
        self.batch.push(entry.update(value.clone()));
        self.sink.publish(&mut self.batch);
        Ok(Held { value, same: sent.is(data) })
    }

    /// What was read before is in doubt: the tag's unit is read again now, not at its next scan.
    fn doubt(&mut self, at: usize) {
        if let Some(entry) = self.plant.entries.get(at) {
            self.schedule.restart(entry.unit, Instant::now());
        }
    }

    /// When waiting for an answer to this command ends.
    fn until(&self, command: &Command) -> Instant {
        command.deadline.min(Instant::now() + self.timeout)
    }
}

/// What to tell of a write that the device answered, given what it holds afterwards.
fn verdict(said: &Said, held: Result<Held, String>) -> Report {
    let (acknowledged, differs) = (matches!(said, Said::Yes), matches!(said, Said::Else(_)));
    let code = matches!(said, Said::Later).then_some(0x05);
    let said = match said {
        Said::Yes => "the device acknowledged the write",
        Said::Later => "the device took the write and asked for time (exception 0x05)",
        Said::Else(misfit) => misfit,
    };
    let held = match held {
        Ok(held) => held,
        Err(problem) => {
            let outcome = if acknowledged { Outcome::Written } else { Outcome::Unknown };
            let report = Report::new(outcome, format!("{said}; reading back failed: {problem}"));
            return Report { code, ..report };
        }
    };
    let outcome = if held.same && !differs { Outcome::Confirmed } else { Outcome::Differs };
    let message = match &held.value {
        Ok(value) => format!("{said}; read back, it holds {value}"),
        Err(fault) => format!("{said}; read back, {fault}"),
    };
    Report { value: held.value.ok(), code, ..Report::new(outcome, message) }
}

fn rejected(refusal: &Refusal) -> Report {
    let rule = match refusal {
        Refusal::Type { .. } => Rule::Type,
        Refusal::RawRange { .. } => Rule::RawRange,
    };
    Report::new(Outcome::Rejected(rule), refusal.to_string())
}
