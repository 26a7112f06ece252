//! The inbox of a link: writes that wait for their turn, bounded, each answered exactly once.

use std::fmt;

use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::model::{Outcome, Report, TagId, Value};

/// How many writes may wait on one link.
const CAPACITY: usize = 64;

/// The last word on a write, spoken by whoever queued it.
pub trait Permit: Send {
    /// Called once, synchronously, just before the write is encoded. `current` is what the device holds now,
    /// where the command asked for it and the link can read. After `Ok` the write counts as on its way.
    fn grant(&mut self, current: Option<&Value>) -> Result<(), Report>;

    /// Whether a write that was granted, and could not leave at once, may still leave.
    fn recheck(&self) -> Result<(), Report>;
}

/// One write on its way to a session.
///
/// Dropping it without an answer answers for it: `not_sent` before the permit was granted, `unknown` afterwards.
pub struct Command {
    pub tag: TagId,
    /// What the device shall hold.
    pub value: Value,
    /// Whether the device's present value must be read and handed to the permit, where the link can read.
    pub read_first: bool,
    /// Nothing of this write leaves after it, and nobody waits for an answer after it.
    pub deadline: Instant,
    /// Writes of the same call to the same device: none of them leaves before all have their permits.
    companions: Vec<Command>,
    permit: Box<dyn Permit>,
    granted: bool,
    reply: Option<oneshot::Sender<Report>>,
}

/// The sending end of an inbox.
#[derive(Debug, Clone)]
pub struct Queue {
    sender: mpsc::Sender<Command>,
}

/// The receiving end of an inbox, together with the word to stop.
#[derive(Debug)]
pub struct Inbox {
    receiver: mpsc::Receiver<Command>,
    /// The first that waits, already taken out of `receiver`.
    held: Option<Command>,
    stop: CancellationToken,
}

/// Makes an inbox that ends when `stop` is cancelled.
#[must_use]
pub fn queue(stop: CancellationToken) -> (Queue, Inbox) {
    let (sender, receiver) = mpsc::channel(CAPACITY);
    (Queue { sender }, Inbox { receiver, held: None, stop })
}

impl Command {
    /// A command and the place where its report will arrive.
    #[must_use]
    pub fn new(
        tag: TagId,
        value: Value,
        read_first: bool,
        deadline: Instant,
        permit: Box<dyn Permit>,
    ) -> (Self, oneshot::Receiver<Report>) {
        let (reply, report) = oneshot::channel();
        let (companions, reply) = (Vec::new(), Some(reply));
        (Self { tag, value, read_first, deadline, companions, permit, granted: false, reply }, report)
    }

    /// Lets others go with it.
    #[must_use]
    pub fn with(mut self, companions: Vec<Self>) -> Self {
        self.companions = companions;
        self
    }

    /// It, and the others that go with it, each for itself.
    #[must_use]
    pub fn split(mut self) -> Vec<Self> {
        let companions = std::mem::take(&mut self.companions);
        std::iter::once(self).chain(companions).collect()
    }

    /// Whether others go with it.
    #[must_use]
    pub fn is_joint(&self) -> bool {
        !self.companions.is_empty()
    }

    /// Gets the permits of writes of one call, or answers all of them: what is not permitted by its own report, the others
    /// as not sent.
    #[must_use]
    pub fn grant_all(mut commands: Vec<Self>) -> Option<Vec<Self>> {
        let granted = commands
            .iter_mut()
            .enumerate()
            .try_for_each(|(place, command)| command.grant(None).map_err(|report| (place, report)));
        let Err((refused, report)) = granted else { return Some(commands) };
        Self::answer_all(commands, refused, report);
        None
    }

    /// Answers writes of one call of which one cannot be done: that one by its report, the others as not sent.
    pub fn answer_all(commands: Vec<Self>, refused: usize, report: Report) {
        let others =
            format!("nothing of the call was sent, since another write of it was not: {}", report.message);
        let mut report = Some(report);
        for (place, command) in commands.into_iter().enumerate() {
            let own = if place == refused { report.take() } else { None };
            command.answer(own.unwrap_or_else(|| Report::new(Outcome::NotSent, others.clone())));
        }
    }

    /// Asks for the last word just before encoding, unless it was spoken already; on `Err` the command must be answered with
    /// the report.
    pub fn grant(&mut self, current: Option<&Value>) -> Result<(), Report> {
        if self.granted {
            return Ok(());
        }
        self.permit.grant(current)?;
        self.granted = true;
        Ok(())
    }

    /// Asks again where it was granted, and could not leave at once.
    pub fn recheck(&self) -> Result<(), Report> {
        self.permit.recheck()
    }

    /// Tells how it ended.
    pub fn answer(mut self, report: Report) {
        self.send(report);
    }

    fn send(&mut self, report: Report) {
        if let Some(reply) = self.reply.take() {
            // Whoever asked may have stopped waiting.
            drop(reply.send(report));
        }
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        let report = if self.granted {
            Report::new(Outcome::Unknown, "the session ended before the device answered")
        } else {
            Report::new(Outcome::NotSent, "the connection to the device is down, or is just being closed")
        };
        self.send(report);
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command").field("tag", &self.tag).field("value", &self.value).finish_non_exhaustive()
    }
}

impl Queue {
    /// Queues a command; where the inbox is full or gone the command answers for itself.
    pub fn push(&self, command: Command) {
        if let Err(mpsc::error::TrySendError::Full(command)) = self.sender.try_send(command) {
            let text = format!("{CAPACITY} writes already wait for this device's link");
            command.answer(Report::new(Outcome::NotSent, text));
        }
    }
}

impl Inbox {
    /// The next command, or `None` when it is time to stop. Cancel-safe.
    pub async fn next(&mut self) -> Option<Command> {
        if !self.is_stopped() && self.held.is_some() {
            return self.held.take();
        }
        tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            command = self.receiver.recv() => command,
        }
    }

    /// A command that already waits.
    pub fn ready(&mut self) -> Option<Command> {
        self.held.take().or_else(|| self.receiver.try_recv().ok())
    }

    /// Whether a command waits; it is left where it is.
    pub fn is_ready(&mut self) -> bool {
        self.held = self.ready();
        self.held.is_some()
    }

    /// Ends when a command waits, or when it is time to stop; takes no command. Cancel-safe.
    pub async fn waiting(&mut self) {
        if self.held.is_none() {
            self.held = self.next().await;
        }
    }

    /// Ends when it is time to stop; takes no command. Cancel-safe.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        self.stop.clone().cancelled_owned()
    }

    /// Is cancelled when it is time to stop.
    #[must_use]
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Whether it is time to stop.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }
}
