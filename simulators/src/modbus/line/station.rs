//! The devices' end of a line, without the port: bytes and instants in, bytes and instants out.
//!
//! Owns the order of things on the line: a request counts from the moment that its last character has passed, its answer
//! starts after the turnaround, and what is sent takes its time. Knows no thread and no file descriptor.

use std::{collections::VecDeque, time::Instant};

use bytes::{Bytes, BytesMut};

use super::{
    super::{
        fault::{Exchange, Faults, Step},
        framing::Framing,
        handle::{Handle, Reaction},
        rtu::{self, Side},
        state::Medium,
    },
    pace::Pace,
};

/// What went over a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes from the master, noise included.
    pub received: u64,
    /// Bytes to the master.
    pub sent: u64,
    /// Whole frames from the master, for whichever unit.
    pub requests: u64,
    /// Answers of units, before any fault.
    pub answers: u64,
    /// Bytes from the master that belonged to no frame.
    pub noise: u64,
}

#[derive(Debug)]
pub(super) struct Station {
    handle: Handle,
    faults: Faults,
    pace: Pace,
    pub(super) traffic: Traffic,
    /// What the master sends keeps its wire busy until then.
    received: Option<Instant>,
    /// On their way to the devices, with the instant at which the last of them has passed.
    arriving: VecDeque<(Instant, Bytes)>,
    inbox: BytesMut,
    /// The devices are busy or sending until then.
    ready: Option<Instant>,
    outbox: VecDeque<(Instant, Vec<u8>)>,
    /// An answer that is to come after the next one.
    held: Option<Vec<Step>>,
}

impl Station {
    pub(super) fn new(handle: Handle, faults: Faults, pace: Pace) -> Self {
        Self {
            handle,
            faults,
            pace,
            traffic: Traffic::default(),
            received: None,
            arriving: VecDeque::new(),
            inbox: BytesMut::new(),
            ready: None,
            outbox: VecDeque::new(),
            held: None,
        }
    }

    /// The master has sent these bytes just now.
    pub(super) fn receive(&mut self, now: Instant, bytes: &[u8]) {
        self.traffic.received += count(bytes);
        let start = self.received.map_or(now, |until| until.max(now));
        let passed = start + self.pace.time(bytes.len());
        self.received = Some(passed);
        self.arriving.push_back((passed, Bytes::copy_from_slice(bytes)));
    }

    /// When there is something to do next, and whether that is the end of an answer.
    pub(super) fn next(&self) -> Option<(Instant, bool)> {
        let arrival = self.arriving.front().map(|(due, _)| (*due, false));
        let portion = self.outbox.front().map(|(due, _)| (*due, self.outbox.len() == 1));
        [arrival, portion].into_iter().flatten().min()
    }

    /// Lets the devices take what has arrived by `now`, and gives what has reached the master by then.
    pub(super) fn advance(&mut self, now: Instant) -> Vec<Vec<u8>> {
        while self.arriving.front().is_some_and(|(due, _)| *due <= now) {
            let Some((passed, bytes)) = self.arriving.pop_front() else { break };
            self.inbox.extend_from_slice(&bytes);
            while let Some((noise, frame)) = rtu::take(Side::Request, &mut self.inbox) {
                self.traffic.noise += count(&noise);
                self.traffic.requests += 1;
                self.answer(passed, &frame);
            }
        }
        let due = self.outbox.iter().take_while(|(due, _)| *due <= now).count();
        let sent: Vec<_> = self.outbox.drain(..due).map(|(_, bytes)| bytes).collect();
        self.traffic.sent += sent.iter().map(|bytes| count(bytes)).sum::<u64>();
        sent
    }

    /// Nothing that was under way arrives any more: the line was cut.
    pub(super) fn cut(&mut self) {
        self.arriving.clear();
        self.inbox.clear();
        self.outbox.clear();
        (self.received, self.ready, self.held) = (None, None, None);
    }

    fn answer(&mut self, passed: Instant, request: &Bytes) {
        self.faults.asked(request);
        let Some((unit, pdu)) = Framing::Rtu.open(request) else { return };
        let Reaction { delay, pdu } = self.handle.serve(Medium::Serial, unit, pdu);
        let Some(pdu) = pdu else { return };
        self.traffic.answers += 1;
        let answer = Framing::Rtu.seal(request, unit, &pdu);
        let exchange =
            Exchange { framing: Framing::Rtu, request, answer: &answer, count: self.traffic.answers };
        let mut steps = self.faults.play(&exchange);
        if steps.first() == Some(&Step::Hold) {
            steps.remove(0);
            if self.held.is_none() {
                self.held = Some(steps);
                return;
            }
        }
        let start = passed + self.pace.turnaround + delay;
        self.send(start, steps);
        if let Some(held) = self.held.take() {
            self.send(start, held);
        }
    }

    /// Lays out when which bytes reach the master; what is being sent is sent first.
    fn send(&mut self, start: Instant, steps: Vec<Step>) {
        let mut at = self.ready.map_or(start, |ready| ready.max(start));
        for step in steps {
            match step {
                Step::Send(bytes) => {
                    self.faults.told(&bytes);
                    let portions = self.pace.portions(at, &bytes);
                    at += self.pace.time(bytes.len());
                    self.outbox.extend(portions);
                }
                Step::Wait(time) => at = at.max(start + time),
                Step::Pause(time) => at += time,
                // A line has no connection that could end.
                Step::Close | Step::Reset | Step::Hang | Step::Hold => {}
            }
        }
        self.ready = Some(at);
    }
}

fn count(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test may fail by a panic")]
#[path = "station_tests.rs"]
mod tests;
