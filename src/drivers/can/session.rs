//! One session: takes frames and writes until the bus is lost or it is time to stop.

use std::{collections::VecDeque, time::Duration};

use futures_util::future::OptionFuture;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tracing::warn;

use super::{
    bus::{Bus, Failure, Inflow},
    packets::Packets,
    plant::Plant,
    receive::BACK,
    write::{self, Open, Waiting},
};
use crate::{
    codec::can::Data,
    config::CanEndpoint,
    link::{Counters, Inbox, Sink},
    model::{DeviceState, Update, Value},
};

/// What a session is given, and what it knows.
pub(super) struct Session<'a> {
    pub(super) plant: &'a mut Plant,
    pub(super) endpoint: &'a CanEndpoint,
    pub(super) bus: Box<dyn Bus>,
    pub(super) sink: &'a Sink,
    pub(super) counters: &'a Counters,
    pub(super) packets: Packets,
    pub(super) batch: Vec<Update>,
    /// Tags that told a value, for writes that wait for that.
    pub(super) observed: Vec<(usize, Value)>,
    /// Writes that wait for room on the bus.
    pub(super) waiting: VecDeque<Waiting>,
    /// Writes that left.
    pub(super) open: Vec<Open>,
    /// Frames of ours that did not come back yet, with their numbers.
    pub(super) echoes: VecDeque<(Data, u64)>,
    pub(super) number: u64,
    /// When it is tried again to send what waits.
    pub(super) retry: Option<Instant>,
    /// Whether the controller is bus-off.
    pub(super) is_off: bool,
    /// What was told of the link.
    pub(super) told: Option<String>,
    /// Until when it holds, where nothing says that it is over.
    pub(super) told_until: Option<Instant>,
}

/// How a session ended.
pub(super) enum End {
    Stopped,
    Lost(Failure),
}

/// How long last frames may take on their way out.
const LAST_WORD: Duration = Duration::from_secs(1);

impl Session<'_> {
    /// Serves the session to its end, and answers every write that it took.
    pub(super) async fn run(mut self, inbox: &mut Inbox) -> End {
        self.doubt(BACK);
        self.publish();
        let end = match self.serve(inbox).await {
            Ok(()) => End::Stopped,
            Err(failure) => End::Lost(failure),
        };
        if let End::Stopped = end {
            self.leave().await;
        }
        self.close_all();
        end
    }

    async fn serve(&mut self, inbox: &mut Inbox) -> Result<(), Failure> {
        let mut inflow = Inflow::default();
        loop {
            let due = OptionFuture::from(self.next_due().map(sleep_until));
            let silence = OptionFuture::from(self.next_silence().map(sleep_until));
            let calm = OptionFuture::from(self.told_until.map(sleep_until));
            let has_room = self.waiting.len() + self.open.len() < write::MOST;
            let stopped = inbox.stopped();
            tokio::select! {
                biased;
                command = inbox.next(), if has_room => match command {
                    Some(command) => self.write(command)?,
                    None => return Ok(()),
                },
                () = stopped, if !has_room => return Ok(()),
                Some(()) = due => self.due()?,
                received = self.bus.receive(&mut inflow) => {
                    // What came before the bus was lost counts.
                    self.take(&mut inflow);
                    received?;
                }
                Some(()) = silence => self.fall_silent(),
                Some(()) = calm => self.calm(),
            }
            self.publish();
        }
    }

    /// When the first device has been silent for too long.
    fn next_silence(&self) -> Option<Instant> {
        let online = self.plant.nodes.iter().filter(|presence| presence.state == DeviceState::Online);
        online.filter_map(|presence| Some(presence.heard? + presence.patience?)).min()
    }

    fn fall_silent(&mut self) {
        let now = Instant::now();
        for presence in self.plant.nodes.iter_mut().filter(|presence| presence.state == DeviceState::Online) {
            let until = presence.heard.zip(presence.patience).map(|(heard, patience)| heard + patience);
            if until.is_some_and(|until| until <= now) {
                presence.state = DeviceState::Silent;
                self.sink.device(
                    presence.id,
                    DeviceState::Silent,
                    Some("none of its messages comes any more"),
                );
            }
        }
    }

    pub(super) fn publish(&mut self) {
        if !self.batch.is_empty() {
            self.sink.publish(&mut self.batch);
        }
    }

    /// Sends last frames, and waits until they are on the bus.
    async fn leave(&mut self) {
        let mut inflow = Inflow::default();
        let last = async {
            while let Some(again) = self.end_cycles() {
                // What comes meanwhile, and goes, makes room.
                if let Ok(received) = timeout_at(again, self.bus.receive(&mut inflow)).await {
                    self.take(&mut inflow);
                    if received.is_err() {
                        return;
                    }
                }
            }
            while self.bus.has_echo() && !self.echoes.is_empty() {
                let received = self.bus.receive(&mut inflow).await;
                self.take(&mut inflow);
                if received.is_err() {
                    return;
                }
            }
            self.bus.close().await;
        };
        // A bus that takes nothing misses it.
        drop(timeout(LAST_WORD, last).await);
        for sender in self.plant.senders.values().filter(|sender| sender.cycle.is_some()) {
            warn!("the last frame of {} was not sent: there was no room on the bus", sender.message.name);
        }
        self.publish();
    }
}
