//! What happens on the wire: arbitration, acknowledgement, time and faults.
//!
//! Pure over instants that it is told: knows no task and no lock.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    Frame, Id,
    port::Tap,
    timing::{self, Rate},
    trouble::Trouble,
};
use crate::can::{fault::Fault, frame::class};

/// The time on the wire is caught up with so often where there is much to do, not frame by frame.
const TICK: Duration = Duration::from_millis(2);
/// Between two error frames about the same frame that nobody acknowledges.
const RETRY: Duration = Duration::from_millis(100);
/// Controllers are not off the bus for longer.
const LONGEST_OFF: Duration = Duration::from_secs(365 * 86_400);
/// Bit rate of a bus without one, for its load.
const USUAL: u32 = 500_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Wire {
    rate: Option<Rate>,
    nodes: BTreeMap<u64, Node>,
    attached: u64,
    carried: u64,
    /// When the frame on the wire has passed, its sender, and the frame. One that only fills the bus has no sender.
    current: Option<(Instant, Option<u64>, Frame)>,
    /// The wire is free since then.
    free: Instant,
    /// Error frames about a missing acknowledgement are due then.
    alone: Option<Instant>,
    trouble: Trouble,
    /// The controllers are back then.
    off: Option<Instant>,
    /// The task looks at the wire again then.
    next: Option<Instant>,
}

#[derive(Debug)]
struct Node {
    tap: Tap,
    queue: VecDeque<(Instant, Frame)>,
}

impl Wire {
    pub(super) fn new(rate: Option<Rate>, now: Instant) -> Self {
        Self {
            rate,
            nodes: BTreeMap::new(),
            attached: 0,
            carried: 0,
            current: None,
            free: now,
            alone: None,
            trouble: Trouble::new(&[], now),
            off: None,
            next: None,
        }
    }

    pub(super) fn attach(&mut self, tap: Tap, now: Instant) -> u64 {
        self.attached += 1;
        self.nodes.insert(self.attached, Node { tap, queue: VecDeque::new() });
        self.flush(now);
        self.attached
    }

    /// What it had on the wire is destroyed with it.
    pub(super) fn detach(&mut self, number: u64) {
        self.nodes.remove(&number);
        if self.current.as_ref().is_some_and(|(_, sender, _)| *sender == Some(number)) {
            self.current = None;
        }
    }

    /// The sender has taken a place in its queue.
    pub(super) fn send(&mut self, number: u64, frame: Frame, now: Instant) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.queue.push_back((now, frame));
            self.flush(now);
        }
    }

    /// False: no such frame waits.
    pub(super) fn renew(&mut self, number: u64, frame: &Frame) -> bool {
        let Some(node) = self.nodes.get_mut(&number) else { return false };
        let waiting = node.queue.iter_mut().find(|(_, waiting)| waiting.key() == frame.key());
        waiting.map(|(_, waiting)| waiting.clone_from(frame)).is_some()
    }

    pub(super) fn set_faults(&mut self, faults: &[Fault], now: Instant) {
        self.trouble = Trouble::new(faults, now);
        match self.trouble.off() {
            Some(time) => self.leave(now, time),
            None => self.return_at(now, now),
        }
    }

    pub(super) fn carried(&self) -> u64 {
        self.carried
    }

    pub(super) fn waiting(&self) -> usize {
        self.nodes.values().map(|node| node.queue.len()).sum::<usize>() + usize::from(self.current.is_some())
    }

    pub(super) fn ports(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn is_off(&self) -> bool {
        self.off.is_some()
    }

    pub(super) fn silenced(&self, device: &str) -> bool {
        self.trouble.silenced(device)
    }

    pub(super) fn stuck(&self) -> Vec<Id> {
        self.trouble.stuck()
    }

    /// Whether the task would look at the wire too late.
    pub(super) fn is_due_early(&self, now: Instant) -> bool {
        self.due(now).is_some_and(|due| self.next.is_none_or(|next| due < next))
    }

    /// Brings everything up to `now`, and says when there is something to do again.
    pub(super) fn advance(&mut self, now: Instant) -> Option<Instant> {
        if let Some(back) = self.off
            && back <= now
        {
            self.return_at(back, now);
        }
        self.complain(now);
        if self.off.is_none() {
            self.trouble.errors(now).for_each(|error| self.report(&error));
            self.fill(now);
        }
        self.run(now);
        self.next = self.due(now);
        self.next
    }

    fn due(&self, now: Instant) -> Option<Instant> {
        let lively = self.trouble.is_lively();
        let busy = lively.then_some(now + TICK);
        // A frame that is alone on the wire is at its receivers in time, and one of many with the others.
        let paced = self.current.as_ref().map(|(passed, ..)| {
            if self.nodes.values().any(|node| !node.queue.is_empty()) {
                (*passed).max(now + TICK)
            } else {
                *passed
            }
        });
        let [busy, paced] = [busy, paced].map(|due| due.filter(|_| self.off.is_none()));
        [busy, paced, self.off, self.alone].into_iter().flatten().min()
    }

    /// Nodes that acknowledge what `sender` sends.
    fn acknowledged(&self, sender: Option<u64>) -> bool {
        self.nodes.iter().any(|(number, node)| Some(*number) != sender && !node.tap.listen_only)
    }

    /// Carries what can be carried now; with a pace, starts it.
    fn flush(&mut self, now: Instant) {
        if self.off.is_some() {
            return;
        }
        if self.rate.is_some() {
            self.run(now);
        } else {
            while let Some(number) = self.winner(now) {
                let Some(frame) = self.take(number) else { break };
                self.carry(Some(number), &frame);
            }
        }
        self.complain(now);
    }

    /// The node whose frame wins among those that waited at `at`, those that nobody would acknowledge left aside.
    fn winner(&self, at: Instant) -> Option<u64> {
        let heads = self.nodes.iter().filter_map(|(number, node)| {
            let (since, frame) = node.queue.front()?;
            (*since <= at && self.acknowledged(Some(*number))).then(|| (frame.priority(), *number))
        });
        heads.min().map(|(_, number)| number)
    }

    fn take(&mut self, number: u64) -> Option<Frame> {
        self.nodes.get_mut(&number)?.queue.pop_front().map(|(_, frame)| frame)
    }

    /// Lets the wire's own clock run until `now`.
    fn run(&mut self, now: Instant) {
        let Some(rate) = self.rate else { return };
        if self.off.is_some() {
            return;
        }
        self.trouble.forget(rate.nominal, now);
        loop {
            if let Some((passed, sender, frame)) = self.current.take() {
                if passed > now {
                    self.current = Some((passed, sender, frame));
                    return;
                }
                self.free = passed;
                self.pass(sender, frame);
            }
            let Some((start, filling)) = self.next_start(rate).filter(|(start, _)| *start <= now) else {
                return;
            };
            let next = if filling {
                Some((None, self.trouble.fill()))
            } else {
                self.winner(start).and_then(|number| Some((Some(number), self.take(number)?)))
            };
            let Some((sender, frame)) = next else { return };
            self.current = Some((start + rate.time(&frame), sender, frame));
        }
    }

    /// When the next frame starts, and whether it is one that only fills the bus.
    fn next_start(&self, rate: Rate) -> Option<(Instant, bool)> {
        let fronts = self.nodes.iter().filter_map(|(number, node)| {
            let (since, _) = node.queue.front()?;
            self.acknowledged(Some(*number)).then_some(*since)
        });
        let real = fronts.min().map(|first| (self.free.max(first), false));
        let filling = self.trouble.filling(rate.nominal).map(|due| (self.free.max(due), true));
        [real, filling].into_iter().flatten().min()
    }

    /// The frame has been on the wire; if nobody acknowledged it, it is still the next of its sender.
    fn pass(&mut self, sender: Option<u64>, frame: Frame) {
        if sender.is_none() || self.acknowledged(sender) {
            self.carry(sender, &frame);
        } else if let Some(node) = sender.and_then(|number| self.nodes.get_mut(&number)) {
            node.queue.push_front((self.free, frame));
        }
    }

    /// The frame has passed.
    fn carry(&mut self, sender: Option<u64>, frame: &Frame) {
        let (nominal, data) = timing::bits(frame);
        let ratio = self.rate.map_or(1, |rate| u64::from(rate.data / rate.nominal.max(1)).max(1));
        self.trouble.carried(nominal + data / ratio);
        if let Some(node) = sender.and_then(|number| self.nodes.get(&number)) {
            node.tap.release(1);
        }
        let Some(frame) = self.trouble.harm(frame) else { return };
        self.carried += 1;
        for (number, node) in &self.nodes {
            node.tap.hand(&frame, Some(*number) == sender);
        }
    }

    /// Tells nodes that are alone with what they send.
    fn complain(&mut self, now: Instant) {
        let alone =
            |(number, node): &(&u64, &Node)| !node.queue.is_empty() && !self.acknowledged(Some(**number));
        let mut lonely = self.nodes.iter().filter(alone).peekable();
        if self.off.is_some() || lonely.peek().is_none() {
            self.alone = None;
        } else if self.alone.is_none_or(|due| due <= now) {
            lonely.for_each(|(_, node)| node.tap.hand(&Frame::error(class::NO_ACK, [0; 8]), false));
            self.alone = Some(now + RETRY);
        }
    }

    fn report(&self, error: &Frame) {
        self.nodes.values().for_each(|node| node.tap.hand(error, false));
    }

    /// Controllers forget what they were to send.
    fn leave(&mut self, now: Instant, time: Duration) {
        self.off = Some(now + time.min(LONGEST_OFF));
        self.alone = None;
        if let Some((_, Some(number), frame)) = self.current.take()
            && let Some(node) = self.nodes.get_mut(&number)
        {
            node.queue.push_front((now, frame));
        }
        for node in self.nodes.values_mut() {
            node.tap.release(node.queue.len());
            node.queue.clear();
        }
        self.report(&Frame::error(class::BUS_OFF, [0; 8]));
    }

    /// The controllers are back since `back`, if they were away.
    fn return_at(&mut self, back: Instant, now: Instant) {
        if self.off.take().is_none() {
            return;
        }
        self.trouble.back(back);
        self.free = self.free.max(back);
        self.report(&Frame::error(class::RESTARTED, [0; 8]));
        self.flush(now);
    }

    /// Catches up with the load of a bus without a pace; with one, the frames that fill it start when nothing else does.
    fn fill(&mut self, now: Instant) {
        if self.rate.is_some() {
            return;
        }
        self.trouble.forget(USUAL, now);
        while self.trouble.filling(USUAL).is_some_and(|due| due <= now) {
            let frame = self.trouble.fill();
            self.carry(None, &frame);
        }
    }
}
