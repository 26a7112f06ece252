//! The faults of a bus, and how far they have come.
//!
//! Pure over frames and instants that it is told; when it is asked is the wire's matter.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use super::{Frame, Id, timing};
use crate::can::{
    fault::Fault,
    frame::{Kind, class},
};

/// What is older is not caught up with.
const LONGEST: Duration = Duration::from_millis(100);
/// First of the identifiers that fill the bus, which lose against all but diagnosis.
const FILLING: u16 = 0x7C0;

#[derive(Debug)]
pub(super) struct Trouble {
    faults: Vec<Fault>,
    /// Frames seen of each missing message, since one was left out.
    missing: BTreeMap<Id, u32>,
    /// Error frames are counted since then.
    errors: (Instant, u64),
    load: Load,
}

/// What the wire has carried since then, in bits, and how many frames only filled it.
#[derive(Debug)]
struct Load {
    since: Instant,
    bits: u64,
    frames: u64,
}

impl Trouble {
    pub(super) fn new(faults: &[Fault], now: Instant) -> Self {
        Self {
            faults: faults.to_vec(),
            missing: BTreeMap::new(),
            errors: (now, 0),
            load: Load { since: now, bits: 0, frames: 0 },
        }
    }

    /// How long the controllers are to be off the bus.
    pub(super) fn off(&self) -> Option<Duration> {
        self.faults.iter().find_map(|fault| match fault {
            Fault::BusOff(time) => Some(*time),
            _ => None,
        })
    }

    /// The controllers are back, and all else goes on as if it had just begun.
    pub(super) fn back(&mut self, now: Instant) {
        self.faults.retain(|fault| !matches!(fault, Fault::BusOff(_)));
        self.errors = (now, 0);
        (self.load.since, self.load.bits) = (now, 0);
    }

    pub(super) fn silenced(&self, device: &str) -> bool {
        self.faults.iter().any(|fault| matches!(fault, Fault::Silence(name) if name == device))
    }

    pub(super) fn stuck(&self) -> Vec<Id> {
        let ids = self.faults.iter().filter_map(|fault| match fault {
            Fault::Stuck(id) => Some(*id),
            _ => None,
        });
        ids.collect()
    }

    /// Whether something happens by itself, time and again.
    pub(super) fn is_lively(&self) -> bool {
        self.faults.iter().any(|fault| matches!(fault, Fault::Load(_) | Fault::Errors(_)))
    }

    /// What becomes of a frame; none where it is left out.
    pub(super) fn harm(&mut self, frame: &Frame) -> Option<Frame> {
        let mut harmed = frame.clone();
        for fault in &self.faults {
            match fault {
                Fault::Missing { id, every } if *id == frame.key() => {
                    let seen = self.missing.entry(*id).or_default();
                    *seen = seen.saturating_add(1);
                    if *seen >= *every {
                        *seen = 0;
                        return None;
                    }
                }
                Fault::Short { id, length } if *id == frame.key() && frame.kind == Kind::Data => {
                    harmed.bytes.truncate((*length).into());
                    while harmed.check().is_err() && !harmed.bytes.is_empty() {
                        harmed.bytes.truncate(harmed.bytes.len() - 1);
                    }
                }
                _ => {}
            }
        }
        Some(harmed)
    }

    /// The error frames that are due.
    pub(super) fn errors(&mut self, now: Instant) -> impl Iterator<Item = Frame> + use<> {
        let rate = self.faults.iter().find_map(|fault| match fault {
            Fault::Errors(count) => Some(u64::from(*count)),
            _ => None,
        });
        let rate = rate.unwrap_or_default();
        let count = |time: Duration| {
            u64::try_from(time.as_micros()).unwrap_or(u64::MAX).saturating_mul(rate) / 1_000_000
        };
        let (since, done) = self.errors;
        let due = count(now.saturating_duration_since(since));
        self.errors.1 = due;
        let missing = due.saturating_sub(done).min(count(LONGEST) + 1);
        let data = [0, 0, class::STUFF, class::IN_DATA, 0, 0, 0, 0];
        (0..missing).map(move |_| Frame::error(class::PROTOCOL | class::BUS_ERROR, data))
    }

    /// The wire has carried so much.
    pub(super) fn carried(&mut self, bits: u64) {
        self.load.bits += bits;
    }

    fn load(&self) -> Option<u8> {
        self.faults.iter().find_map(|fault| match fault {
            Fault::Load(percent) => Some(*percent),
            _ => None,
        })
    }

    /// When the next frame would bring the bus to the load that it is to have.
    pub(super) fn filling(&self, bitrate: u32) -> Option<Instant> {
        self.load().map(|percent| self.load.due(bitrate, percent))
    }

    /// That frame.
    pub(super) fn fill(&mut self) -> Frame {
        self.load.frames += 1;
        self.load.frame()
    }

    /// Forgets the load of before where it is too far from what it is to be.
    pub(super) fn forget(&mut self, bitrate: u32, now: Instant) {
        let Some(due) = self.filling(bitrate) else { return };
        let (behind, ahead) = (now.saturating_duration_since(due), due.saturating_duration_since(now));
        if behind.max(ahead) > LONGEST {
            (self.load.since, self.load.bits) = (now, 0);
        }
    }
}

impl Load {
    fn frame(&self) -> Frame {
        let offset = u16::try_from(self.frames % 16).unwrap_or_default();
        Frame::standard(FILLING + offset, self.frames.to_be_bytes())
    }

    fn due(&self, bitrate: u32, percent: u8) -> Instant {
        let (bits, _) = timing::bits(&self.frame());
        let rate = u128::from(bitrate.max(1)) * u128::from(percent.max(1));
        let nanos = u128::from(self.bits + bits) * 100_000_000_000 / rate;
        self.since + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
