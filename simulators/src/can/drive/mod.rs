//! A pump drive with identifiers of 11 bits, a command that it must get again and again, and faults.
//!
//! Owns the states; the physics and the bytes are matters of their own.

mod message;
mod physics;

use std::time::Duration;

pub use message::{COMMAND, Command, FAULTS, STATUS, TEMPERATURES};
pub use physics::{Control, FASTEST, MOST_TORQUE, Motor};

use super::{
    bus::Filter,
    device::{Alive, Cycle, Model, Said},
    frame::{Frame, Id},
};
use message::Status;

/// Without a good command for so long the drive stops.
pub const COMMAND_TIME: Duration = Duration::from_millis(500);
/// A motor as hot as this is switched off, °C.
pub const HOTTEST: f64 = 140.0;
/// Above this the drive warns, °C.
const WARM: f64 = 120.0;
/// Slower than this is a standstill, rpm.
const STANDSTILL: f64 = 0.25;
/// Name for faults.
const NAME: &str = "pump-drive";

/// What the drive is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// It has no power for the motor.
    Off = 0,
    /// It could run.
    Ready = 1,
    Running = 2,
    /// It brakes until the motor stands still.
    Stopping = 3,
    /// It lets the motor coast and waits for a reset.
    Fault = 4,
}

/// Why it does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Trouble {
    None = 0,
    OverTemperature = 1,
    CommandLost = 2,
    OverCurrent = 3,
    UnderVoltage = 4,
    Encoder = 5,
}

/// The drive.
#[derive(Debug)]
pub struct Drive {
    motor: Motor,
    state: State,
    trouble: Trouble,
    last: Trouble,
    count: u16,
    /// Time in operation.
    running: Duration,
    /// The last good command, and how long ago it came.
    command: Option<(Command, Duration)>,
    reference: f64,
    /// What the last good command said about the reset.
    reset: bool,
    accepted: u64,
    rejected: u64,
    alive: Alive,
    /// The faults have changed since they were last said.
    news: bool,
    cycles: [Cycle; 3],
}

impl Default for Drive {
    fn default() -> Self {
        Self::new()
    }
}

impl Drive {
    /// Ready, at rest and cold.
    #[must_use]
    pub fn new() -> Self {
        Self {
            motor: Motor::new(),
            state: State::Ready,
            trouble: Trouble::None,
            last: Trouble::None,
            count: 0,
            running: Duration::ZERO,
            command: None,
            reference: 0.0,
            reset: false,
            accepted: 0,
            rejected: 0,
            alive: Alive::default(),
            news: false,
            cycles: [50, 500, 1000].map(|ms| Cycle::new(Duration::from_millis(ms))),
        }
    }

    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// The fault of now.
    #[must_use]
    pub fn trouble(&self) -> Trouble {
        self.trouble
    }

    /// Faults so far.
    #[must_use]
    pub fn count(&self) -> u16 {
        self.count
    }

    /// The speed that it was told, rpm.
    #[must_use]
    pub fn reference(&self) -> f64 {
        self.reference
    }

    /// Good commands so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Commands with a wrong check sum, a wrong length or a counter that did not advance so far.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        self.rejected
    }

    /// What turns and what gets warm.
    #[must_use]
    pub fn motor(&self) -> &Motor {
        &self.motor
    }

    /// To heat it, to load it, and to change its surroundings.
    pub fn motor_mut(&mut self) -> &mut Motor {
        &mut self.motor
    }

    /// Switches the power of the motor on or off. A fault stays.
    pub fn set_power(&mut self, on: bool) {
        self.state = match (self.state, on) {
            (State::Fault, _) => State::Fault,
            (State::Off, true) => State::Ready,
            (state, true) => state,
            (_, false) => State::Off,
        };
    }

    /// Makes it fail; [`Trouble::None`] does nothing. The fault stays until it is reset.
    pub fn fail(&mut self, trouble: Trouble) {
        if trouble == Trouble::None || self.trouble == trouble {
            return;
        }
        self.last = self.trouble;
        self.trouble = trouble;
        self.state = State::Fault;
        self.count = self.count.saturating_add(1);
        self.news = true;
    }

    fn obey(&mut self, command: Command) {
        self.accepted += 1;
        self.reference = command.setpoint.clamp(-FASTEST, FASTEST);
        let reset = command.reset && !self.reset;
        self.reset = command.reset;
        self.command = Some((command, Duration::ZERO));
        let hot = self.motor.temperature() >= HOTTEST;
        if self.state == State::Fault && reset && !hot {
            self.last = self.trouble;
            self.trouble = Trouble::None;
            self.state = State::Ready;
            self.news = true;
        }
        self.state = match (self.state, command.enable) {
            (State::Ready | State::Stopping, true) => State::Running,
            (State::Running, false) => State::Stopping,
            (state, _) => state,
        };
    }

    fn supervise(&mut self, passed: Duration) {
        if let Some((_, age)) = &mut self.command {
            *age = age.saturating_add(passed);
            if *age >= COMMAND_TIME {
                // The next command may have any counter.
                self.command = None;
            }
        }
        if self.state == State::Running {
            self.running = self.running.saturating_add(passed);
            if self.command.is_none() {
                self.fail(Trouble::CommandLost);
            }
        }
        if self.motor.temperature() >= HOTTEST {
            self.fail(Trouble::OverTemperature);
        }
        if self.state == State::Stopping && self.motor.speed().abs() < STANDSTILL {
            self.state = State::Ready;
        }
    }

    fn status(&mut self, stuck: bool) -> Frame {
        let status = Status {
            state: self.state as u8,
            alive: self.alive.next(stuck),
            speed: self.motor.speed(),
            torque: self.motor.torque(),
            reference: self.reference,
            enabled: self.command.is_some_and(|(command, _)| command.enable),
            warm: self.motor.temperature() >= WARM,
        };
        status.encode()
    }

    fn faults(&self) -> Frame {
        let seconds = u32::try_from(self.running.as_secs()).unwrap_or(u32::MAX);
        message::faults(self.trouble as u8, self.last as u8, self.count, seconds)
    }
}

impl Model for Drive {
    fn name(&self) -> &str {
        NAME
    }

    fn filters(&self) -> Vec<Filter> {
        vec![Filter::standard(COMMAND)]
    }

    fn advance(&mut self, passed: Duration, stuck: &[Id]) -> Vec<Said> {
        let control = match self.state {
            State::Off | State::Fault => Control::Free,
            State::Ready | State::Stopping => Control::Speed(0.0),
            State::Running => Control::Speed(self.reference),
        };
        self.motor.step(passed, control);
        self.supervise(passed);
        let [status, temperatures, faults] = self.cycles.each_mut().map(|cycle| cycle.due(passed));
        let mut said = Vec::new();
        if status {
            let stuck = stuck.contains(&Id { value: STATUS.into(), extended: false });
            said.push(Said::State(self.status(stuck)));
        }
        if temperatures {
            let motor = &self.motor;
            let frame = message::temperatures(motor.temperature(), motor.heat_sink(), motor.ambient());
            said.push(Said::State(frame));
        }
        if faults | std::mem::take(&mut self.news) {
            said.push(Said::State(self.faults()));
        }
        said
    }

    fn receive(&mut self, frame: &Frame) -> Vec<Said> {
        let command = Command::decode(frame);
        let last = self.command.map(|(command, _)| command.counter);
        match command {
            Some(command) if last != Some(command.counter) => self.obey(command),
            _ => self.rejected += 1,
        }
        Vec::new()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail by a panic")]
mod tests;
