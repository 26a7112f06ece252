//! Reading what is due, and what an answer means for the tags in it.

use std::sync::atomic::Ordering;

use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Instant,
};
use tokio_modbus::ExceptionCode;

use super::{
    plant::{Block, Data},
    session::{End, Session, is_unreachable},
    wire::Failure,
};
use crate::{
    codec::modbus::{Answer, exception_text},
    link::Inbox,
    model::{Reason, TagId},
};

/// How a read ended, its unit's health already told.
#[derive(Debug)]
pub(super) enum Outcome {
    /// What the unit holds, and when it was asked.
    Data(Data, Instant),
    Exception(ExceptionCode),
    TimedOut,
    /// The unit answered what cannot be its answer.
    Unusable(String),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<'_, S> {
    /// Reads one block and publishes it; a stop ends it at once.
    pub(super) async fn poll(&mut self, class: usize, block: usize, inbox: &Inbox) -> Result<(), End> {
        let found =
            self.plant.classes.get(class).and_then(|polled| {
                Some((polled.unit, polled.blocks.len(), polled.blocks.get(block)?.clone()))
            });
        let Some((unit, blocks, whole)) = found else {
            // The class has fewer blocks than its round thinks: begin anew.
            self.schedule.done(class, 0, Instant::now());
            return Ok(());
        };
        let probing = self.health.get(unit).is_some_and(super::health::Health::is_demoted);
        let outcome = self.read(unit, &whole, None, Some(inbox)).await?;
        let apart = self.publish(class, block, &whole, outcome);
        if !probing && !apart {
            let skipped = self.schedule.done(class, blocks, Instant::now());
            self.counters.overruns.fetch_add(skipped, Ordering::Relaxed);
        }
        Ok(())
    }

    /// One read, whose unit's health follows from it. It ends at `deadline` at the latest, and where there is a `stop`
    /// that ends it at once.
    pub(super) async fn read(
        &mut self,
        unit: usize,
        block: &Block,
        deadline: Option<Instant>,
        stop: Option<&Inbox>,
    ) -> Result<Outcome, End> {
        let unit_id = self.plant.units.get(unit).map(|member| member.unit_id).unwrap_or_default();
        let request = block.request();
        let pending = match self.wire.prepare(unit_id, &request) {
            Ok(pending) => pending,
            Err(error) => return Ok(Outcome::Unusable(error.to_string())),
        };
        let stopped = async {
            match stop {
                Some(inbox) => inbox.stopped().await,
                None => std::future::pending().await,
            }
        };
        let started = Instant::now();
        let until = self.until(started, deadline);
        let answer = tokio::select! {
            biased;
            () = stopped => return Err(End::Stopped),
            answer = self.wire.exchange(&pending, until) => answer,
        };
        match answer {
            Ok(Answer::Response(response)) => {
                self.answered(unit);
                let data = Data::new(response).map(|data| Outcome::Data(data, started));
                Ok(data.unwrap_or_else(|| Outcome::Unusable("an answer without data".to_owned())))
            }
            Ok(Answer::Exception(exception)) => {
                self.exception(unit, exception, started);
                Ok(Outcome::Exception(exception))
            }
            Err(Failure::Misfit(misfit)) => {
                self.counters.dropped.fetch_add(1, Ordering::Relaxed);
                self.answered(unit);
                Ok(Outcome::Unusable(misfit.to_string()))
            }
            Err(Failure::TimedOut) => {
                self.timed_out(unit, until - started)?;
                Ok(Outcome::TimedOut)
            }
            Err(Failure::Lost(problem)) => Err(End::Lost(problem)),
        }
    }

    /// When waiting for the answer to a request that is sent at `started` ends.
    pub(super) fn until(&self, started: Instant, deadline: Option<Instant>) -> Instant {
        let until = started + self.timeout;
        deadline.map_or(until, |deadline| deadline.clamp(started, until))
    }

    /// A unit, or the gateway for it, answered with an exception.
    pub(super) fn exception(&mut self, unit: usize, exception: ExceptionCode, started: Instant) {
        self.counters.exceptions.fetch_add(1, Ordering::Relaxed);
        if is_unreachable(exception) {
            self.refused(unit, exception, started.elapsed());
        } else {
            self.answered(unit);
        }
    }

    /// Publishes what a poll brought; whether the block was taken apart instead.
    fn publish(&mut self, class: usize, block: usize, whole: &Block, outcome: Outcome) -> bool {
        match outcome {
            Outcome::Data(data, asked) => {
                self.batch.clear();
                for item in &whole.items {
                    if let Some(entry) = self.plant.entries.get_mut(item.entry) {
                        self.batch.push(entry.update(entry.decode(&data, item.offset), asked));
                        if !self.again.is_empty() {
                            self.again.seen(item.entry);
                        }
                    }
                }
                self.sink.publish(&mut self.batch);
            }
            Outcome::Exception(exception) if is_unreachable(exception) => {}
            Outcome::Exception(exception) => {
                // Some of it does not exist, or it is too much at once: the tags that do exist shall not go with it.
                let in_part =
                    matches!(exception, ExceptionCode::IllegalDataAddress | ExceptionCode::IllegalDataValue);
                if in_part && self.plant.take_apart(class, block) {
                    return true;
                }
                let tags = self.tags_of(whole);
                self.tell_bad(tags.into_iter(), Reason::DeviceRefused, &exception_text(exception));
            }
            Outcome::Unusable(problem) => {
                let tags = self.tags_of(whole);
                self.tell_bad(tags.into_iter(), Reason::DecodeError, &problem);
            }
            // The tags stay as they are: staleness tells, or the unit's silence.
            Outcome::TimedOut => {}
        }
        false
    }

    fn tags_of(&self, block: &Block) -> Vec<TagId> {
        block.items.iter().filter_map(|item| Some(self.plant.entries.get(item.entry)?.id)).collect()
    }
}
