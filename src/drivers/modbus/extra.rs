//! Requests beside the rounds: what a busy device is asked again, the halves of a refused request, and holes.
//!
//! A request that is refused for what it asks (exceptions 0x02, 0x03) is parted in two until what the device refuses stands
//! alone: a hole, which is left out and tried again ever more slowly. Of a function that a device does not have (0x01) one
//! request is tried so, until the unit or the connection comes back. A request that is never answered, while its unit
//! answers to others, is parted like a refused one, but in the rounds, where others are asked in between.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Instant,
};
use tokio_modbus::ExceptionCode;

use super::{
    health::{Health, TIMEOUTS},
    plant::{Block, Parts},
    poll::{is_in_part, is_passing},
    session::Session,
};
use crate::{codec::modbus::exception_text, model::Reason};

/// First pause before a busy device is asked again; it doubles.
const BUSY: Duration = Duration::from_millis(100);
/// How often a busy device is asked again before its tags are bad.
const TRIES: u32 = 5;

/// What is done about what a device does not answer with values.
const LEFT_OUT: &str = "it is left out and tried again from time to time";

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// It is part of a round.
    Round,
    /// It tries whether a unit is back.
    Probe,
    /// The device was busy, so many times in a row.
    Busy(u32),
    /// The answer was spoilt.
    Spoilt,
    /// It is a half of a request that was refused.
    Half,
    /// It tries whether a hole is none any more.
    Hole,
}

/// A request beside the rounds.
#[derive(Debug)]
pub(super) struct Extra {
    pub(super) due: Instant,
    pub(super) class: usize,
    pub(super) block: Arc<Block>,
    pub(super) why: Why,
}

impl Why {
    /// Whether a spoilt answer to it is worth another try at once.
    pub(super) fn may_repeat(self) -> bool {
        matches!(self, Self::Round | Self::Busy(_) | Self::Half)
    }
}

impl Extra {
    pub(super) fn at_once(class: usize, block: &Arc<Block>, why: Why) -> Self {
        Self { due: Instant::now(), class, block: block.clone(), why }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<'_, S> {
    /// The extra request that is due first.
    pub(super) fn next_extra(&self) -> Option<(usize, Instant)> {
        let now = Instant::now();
        let due = |extra: &Extra| {
            let rests = self.plant.rests(extra.block.unit, now);
            rests.map_or(extra.due, |until| until.max(extra.due))
        };
        let in_step = |(_, extra): &(usize, &Extra)| self.plant.is_in_step(extra.block.unit);
        let extras = self.extras.iter().enumerate().filter(in_step);
        extras.map(|(at, extra)| (at, due(extra))).min_by_key(|(_, due)| *due)
    }

    /// The hole to be tried next: something for a line that has nothing else to do.
    pub(super) fn next_hole(&mut self, now: Instant) -> Option<Extra> {
        loop {
            let (due, unit, region) = self.plant.holes.due(|unit| self.plant.is_in_step(unit))?;
            if due <= now && self.health.get(unit).is_none_or(Health::is_demoted) {
                self.plant.holes.put_off(unit, now);
                continue;
            }
            let due = self.plant.rests(unit, now).map_or(due, |until| due.max(until));
            match self.plant.hole(unit, region) {
                Some((class, block)) => return Some(Extra { due, class, block, why: Why::Hole }),
                None => self.plant.holes.remove(unit, region),
            };
        }
    }

    /// Whether a request is on the wire, or its device is given time until it is asked again.
    pub(super) fn is_asked(&self, block: &Arc<Block>) -> bool {
        let waits = |extra: &Extra| Arc::ptr_eq(&extra.block, block) && matches!(extra.why, Why::Busy(_));
        self.flights.iter().any(|flight| Arc::ptr_eq(&flight.block, block)) || self.extras.iter().any(waits)
    }

    /// A try of a hole was not answered in time. Where nothing else is asked of its unit that is a word on the unit, and is
    /// followed up by what else there is to ask.
    pub(super) fn hole_missed(&mut self, unit: usize) {
        let Some(health) = self.health.get(unit).filter(|health| !health.is_demoted()) else { return };
        if !self.plant.is_polled(unit)
            && let Some((class, block)) = self.plant.probe(unit, health.timeouts())
        {
            self.extras.push(Extra::at_once(class, &block, Why::Hole));
        }
    }

    /// Nothing answered a request, while its unit answers to others. Where that is so again and again it is parted, until
    /// what is never answered stands alone.
    pub(super) fn poll_missed(&mut self, class: usize, block: &Arc<Block>, why: Why) {
        let misses = block.missed();
        let in_turn = matches!(why, Why::Round | Why::Half);
        // A half is parted at once: what it is half of was not answered often enough.
        let hunts = in_turn && (block.is_silent(misses) || block.is_open_half());
        let parts = if hunts { self.plant.part_silent(class, block) } else { Parts::Gone };
        let is_hole = matches!(parts, Parts::One) && misses >= TIMEOUTS;
        if is_hole {
            self.plant.holes.insert(block.unit, block.region(), Instant::now());
            self.plant.set_aside(class, block);
        }
        if misses >= TIMEOUTS {
            let mut detail = format!("no answer to {TIMEOUTS} requests for it in a row");
            if is_hole || why == Why::Hole {
                detail = format!("{detail}: {LEFT_OUT}");
            }
            self.tell_block(block, Reason::DeviceSilent, &detail);
        }
    }

    /// What was asked of a unit beside its rounds is asked no more.
    pub(super) fn forget_extras(&mut self, unit: usize) {
        self.extras.retain(|extra| extra.block.unit != unit);
        self.plant.end_hunt(unit);
    }

    /// A request was answered with what it asked for.
    pub(super) fn filled(&mut self, class: usize, block: &Arc<Block>, why: Why) {
        self.plant.answered(block);
        let opened = why == Why::Hole && self.plant.open(block.unit, block.table());
        if opened || self.plant.fill(block.unit, block.region()) {
            tracing::info!(
                unit_id = self.unit_id(block.unit),
                class,
                "an address that was refused is answered"
            );
        }
    }

    /// The device refused a poll.
    pub(super) fn poll_refused(
        &mut self,
        class: usize,
        block: &Arc<Block>,
        why: Why,
        exception: ExceptionCode,
    ) {
        let text = exception_text(exception);
        if is_passing(exception) {
            let tries = if let Why::Busy(tries) = why { tries } else { 0 };
            if tries >= TRIES {
                self.tell_block(block, Reason::DeviceRefused, &text);
            } else {
                let mut extra = Extra::at_once(class, block, Why::Busy(tries + 1));
                extra.due += BUSY * 2_u32.pow(tries);
                self.extras.retain(|other| !Arc::ptr_eq(&other.block, block));
                self.extras.push(extra);
            }
            return;
        }
        let alone = exception == ExceptionCode::IllegalFunction && self.plant.is_alone_refused(block);
        if exception == ExceptionCode::IllegalFunction && !alone {
            let closed = self.plant.close(block, Instant::now());
            self.extras
                .retain(|extra| (extra.block.unit, extra.block.table()) != (block.unit, block.table()));
            self.schedule.keep(|left| (left.unit, left.table()) != (block.unit, block.table()));
            let detail = format!("{text}: {LEFT_OUT}");
            for block in closed {
                self.tell_block(&block, Reason::DeviceRefused, &detail);
            }
            return;
        }
        if alone || is_in_part(exception) {
            if why == Why::Hole {
                self.plant.open(block.unit, block.table());
            }
            match self.plant.part(class, block) {
                Parts::Halves(halves) => {
                    self.plant.begin_hunt(class);
                    self.extras.extend(halves.iter().map(|half| Extra::at_once(class, half, Why::Half)));
                    return;
                }
                Parts::Gone => return,
                Parts::One => {}
            }
            self.plant.holes.insert(block.unit, block.region(), Instant::now());
            self.plant.set_aside(class, block);
            let detail = format!("{text}: {LEFT_OUT}");
            self.tell_block(block, Reason::DeviceRefused, &detail);
            return;
        }
        self.tell_block(block, Reason::DeviceRefused, &text);
    }
}
