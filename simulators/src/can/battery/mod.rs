//! A battery with multiplexed pages, Motorola byte order, and one CAN FD message.
//!
//! Owns the contactor; the physics and the bytes are matters of their own.

mod message;
mod physics;

use std::time::Duration;

pub use message::{ALL, COMMAND, Command, LIMITS, PAGES, STATUS};
pub use physics::{CELL_VOLTAGES, CELLS, MOST_CURRENT, Pack, SENSORS};

use super::{
    bus::Filter,
    device::{Alive, Cycle, Model, Said},
    frame::{Frame, Id},
};
use message::{CELL_PAGES, Status};

/// From the command to close until the contactor is closed.
pub const PRECHARGE: Duration = Duration::from_secs(1);
/// State of health, %.
const HEALTH: f64 = 97.5;
/// What the state says where the last command was not obeyed.
const REFUSED: u8 = 3;
/// Name for faults.
const NAME: &str = "battery";

/// What the contactor is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Contactor {
    Open = 0,
    Precharging = 1,
    Closed = 2,
    /// It is open and stays so.
    Fault = 3,
}

/// The battery.
#[derive(Debug)]
pub struct Battery {
    pack: Pack,
    contactor: Contactor,
    /// How long it has been precharging.
    precharging: Duration,
    /// What the last command was, or that it was refused.
    accepted: u8,
    flexible: bool,
    alive: Alive,
    /// Counts the pages sent.
    page: u8,
    /// Counts the messages with all cells.
    number: u32,
    cycles: [Cycle; 4],
}

impl Battery {
    /// With an open contactor, charged to 70 %. `flexible`: it sends CAN FD frames too.
    #[must_use]
    pub fn new(flexible: bool) -> Self {
        Self {
            pack: Pack::new(),
            contactor: Contactor::Open,
            precharging: Duration::ZERO,
            accepted: 0,
            flexible,
            alive: Alive::default(),
            page: 0,
            number: 0,
            cycles: [100, 100, 500, 200].map(|ms| Cycle::new(Duration::from_millis(ms))),
        }
    }

    #[must_use]
    pub fn contactor(&self) -> Contactor {
        self.contactor
    }

    /// Cells, current and temperatures.
    #[must_use]
    pub fn pack(&self) -> &Pack {
        &self.pack
    }

    /// To charge it and to load it.
    pub fn pack_mut(&mut self) -> &mut Pack {
        &mut self.pack
    }

    /// Whether it sends CAN FD frames.
    pub fn set_flexible(&mut self, flexible: bool) {
        self.flexible = flexible;
    }

    /// Opens the contactor until [`Battery::repair`].
    pub fn fail(&mut self) {
        self.contactor = Contactor::Fault;
    }

    /// The contactor works again, and is open.
    pub fn repair(&mut self) {
        if self.contactor == Contactor::Fault {
            self.contactor = Contactor::Open;
        }
    }

    fn obey(&mut self, command: Command) {
        self.accepted = command.code();
        self.contactor = match (self.contactor, command) {
            (Contactor::Fault, _) => {
                self.accepted = REFUSED;
                Contactor::Fault
            }
            (_, Command::Open) => Contactor::Open,
            (Contactor::Open, Command::Close) => {
                self.precharging = Duration::ZERO;
                Contactor::Precharging
            }
            (state, Command::Close) => state,
        };
    }

    fn status(&mut self, stuck: bool) -> Frame {
        let status = Status {
            voltage: self.pack.voltage(),
            current: self.pack.current(),
            charge: self.pack.charge(),
            contactor: self.contactor as u8,
            accepted: self.accepted,
            alive: self.alive.next(stuck),
            health: HEALTH,
        };
        status.encode()
    }

    /// Four pages of cells, then one of the two groups of temperatures.
    fn page(&mut self) -> Frame {
        let page = self.page % (CELL_PAGES + 1);
        let group = self.page / (CELL_PAGES + 1);
        self.page = (self.page + 1) % (2 * (CELL_PAGES + 1));
        if page < CELL_PAGES {
            message::cells(page, &self.pack.cells(), self.pack.temperature())
        } else {
            message::temperatures(group, &self.pack.temperatures())
        }
    }

    /// Nearly full it takes less, and nearly empty it gives less.
    fn limits(&self) -> Frame {
        let charge = self.pack.charge();
        let charging = MOST_CURRENT * ((100.0 - charge) / 10.0).clamp(0.0, 1.0);
        let discharging = MOST_CURRENT * (charge / 10.0).clamp(0.0, 1.0);
        message::limits([charging, discharging, 4.2 * 24.0, 2.8 * 24.0])
    }
}

impl Model for Battery {
    fn name(&self) -> &str {
        NAME
    }

    fn filters(&self) -> Vec<Filter> {
        vec![Filter::standard(COMMAND)]
    }

    fn advance(&mut self, passed: Duration, stuck: &[Id]) -> Vec<Said> {
        self.pack.step(passed, self.contactor == Contactor::Closed);
        if self.contactor == Contactor::Precharging {
            self.precharging = self.precharging.saturating_add(passed);
            if self.precharging >= PRECHARGE {
                self.contactor = Contactor::Closed;
            }
        }
        let [status, page, limits, all] = self.cycles.each_mut().map(|cycle| cycle.due(passed));
        let mut said = Vec::new();
        if status {
            let stuck = stuck.contains(&Id { value: STATUS.into(), extended: false });
            said.push(Said::State(self.status(stuck)));
        }
        if page {
            said.push(Said::State(self.page()));
        }
        if limits {
            said.push(Said::State(self.limits()));
        }
        if all && self.flexible {
            said.push(Said::State(message::all(&self.pack.cells(), self.number)));
            self.number = self.number.wrapping_add(1);
        }
        said
    }

    fn receive(&mut self, frame: &Frame) -> Vec<Said> {
        if let Some(command) = Command::decode(frame) {
            self.obey(command);
        }
        Vec::new()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail by a panic")]
mod tests;
