//! Whether a unit answers, apart from whether the link is up.
//!
//! Three time-outs in a row, or one gateway exception 0x0A or 0x0B, demote a unit: its polls rest, and one request of
//! it probes at growing intervals. The interval is ten times what the failed request took, so that probing costs the
//! other units a tenth of the line at most; it lies between 1 and 30 s and doubles with each failure. Where no unit
//! answers nobody is kept waiting, and the interval stays at 1 s. Any answer puts the unit back at once. Of requests that
//! were on the wire together all failures are one.

use std::time::Duration;

use tokio::time::Instant;

use crate::model::DeviceState;

/// Time-outs in a row that make a unit silent.
pub(super) const TIMEOUTS: u32 = 3;
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Health {
    state: DeviceState,
    /// Exception that a refused unit answers with.
    code: Option<u8>,
    /// Time-outs in a row.
    timeouts: u32,
    /// Failures since it was demoted.
    failures: u32,
    delay: Duration,
    probe: Option<Instant>,
    /// Whether the probe is on its way.
    probing: bool,
    /// How often it answered.
    answers: u64,
    /// When the last failure was counted: what was asked before failed along with it.
    counted: Option<Instant>,
}

impl Health {
    pub(super) fn new() -> Self {
        Self {
            state: DeviceState::Waiting,
            code: None,
            timeouts: 0,
            failures: 0,
            delay: Duration::ZERO,
            probe: None,
            probing: false,
            answers: 0,
            counted: None,
        }
    }

    /// When to probe next; `None` while the unit is polled as usual, or a probe is on its way.
    pub(super) fn probe(&self) -> Option<Instant> {
        self.probe.filter(|_| !self.probing)
    }

    /// Whether a probe is on its way.
    pub(super) fn is_probed(&self) -> bool {
        self.probing
    }

    /// A probe leaves.
    pub(super) fn probing(&mut self) {
        self.probing = true;
    }

    /// Probes at once.
    pub(super) fn hurry(&mut self) {
        if let Some(probe) = &mut self.probe {
            *probe = Instant::now();
        }
    }

    /// The probe could not be sent.
    pub(super) fn not_probed(&mut self) {
        if std::mem::take(&mut self.probing) && self.is_demoted() {
            self.probe = Some(Instant::now() + self.delay);
        }
    }

    /// Whether a failure of what was asked then is one with that counted last.
    pub(super) fn is_counted(&self, asked: Instant) -> bool {
        self.counted.is_some_and(|counted| asked < counted)
    }

    /// How many requests failed of late: which one comes next.
    pub(super) fn failures(&self) -> u32 {
        if self.is_demoted() { self.failures } else { self.timeouts }
    }

    /// Time-outs in a row.
    pub(super) fn timeouts(&self) -> u32 {
        self.timeouts
    }

    pub(super) fn is_demoted(&self) -> bool {
        self.probe.is_some()
    }

    /// How often the unit answered in the session.
    pub(super) fn answers(&self) -> u64 {
        self.answers
    }

    pub(super) fn is_silent(&self) -> bool {
        self.state == DeviceState::Silent
    }

    /// The unit answered; whether that is a change.
    pub(super) fn answered(&mut self) -> bool {
        let changed = self.state != DeviceState::Online;
        *self = Self { state: DeviceState::Online, answers: self.answers + 1, ..Self::new() };
        changed
    }

    /// A request timed out; whether that made the unit silent.
    pub(super) fn timed_out(&mut self, took: Duration, alone: bool) -> bool {
        self.timeouts = self.timeouts.saturating_add(1);
        self.counted = Some(Instant::now());
        self.probing = false;
        if self.timeouts < TIMEOUTS && !self.is_demoted() {
            return false;
        }
        let changed = self.timeouts >= TIMEOUTS && self.state != DeviceState::Silent;
        if changed {
            self.state = DeviceState::Silent;
            self.code = None;
        }
        self.back_off(took, alone);
        changed
    }

    /// A gateway refused the unit; whether that is a change.
    pub(super) fn refused(&mut self, code: u8, took: Duration, alone: bool) -> bool {
        let changed = (self.state, self.code) != (DeviceState::Refused, Some(code));
        self.state = DeviceState::Refused;
        self.code = Some(code);
        self.timeouts = 0;
        self.counted = Some(Instant::now());
        self.back_off(took, alone);
        changed
    }

    fn back_off(&mut self, took: Duration, alone: bool) {
        self.delay = if alone {
            SHORTEST
        } else {
            took.saturating_mul(10).max(self.delay.saturating_mul(2)).clamp(SHORTEST, LONGEST)
        };
        self.failures = self.failures.wrapping_add(1);
        self.probing = false;
        self.probe = Some(Instant::now() + self.delay);
    }
}
