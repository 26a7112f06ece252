//! A motor with a pump on its shaft and a converter that warms up, scaled down so that it moves while one watches.
//!
//! Pure over the steps: knows no clock, no frames, no states of the drive.

use std::time::Duration;

/// The fastest that the shaft turns either way, rpm.
pub const FASTEST: f64 = 3000.0;
/// The most torque either way, % of the nominal torque.
pub const MOST_TORQUE: f64 = 120.0;
/// What the sensors can show, °C.
pub(super) const TEMPERATURES: (f64, f64) = (-40.0, 200.0);

/// How fast the drive changes the speed, rpm/s.
const RAMP: f64 = 1000.0;
/// How fast the pump stops by itself, rpm/s.
const COASTING: f64 = 600.0;
/// Torque for changing the speed along the ramp, %.
const ACCELERATING: f64 = 25.0;
/// Torque of the pump at full speed, %.
const PUMPING: f64 = 70.0;
/// What winding and heat sink are warmer by at nominal torque in the end, K, and how fast they get there, s.
const WINDING: (f64, f64) = (80.0, 60.0);
const HEAT_SINK: (f64, f64) = (35.0, 20.0);
/// The integration is cut into slices no longer than this.
const SLICE: Duration = Duration::from_millis(50);

/// What the converter does with the motor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Control {
    /// It lets it coast.
    Free,
    /// It ramps to this speed, rpm.
    Speed(f64),
}

/// Motor, pump and converter.
#[derive(Debug, Clone)]
pub struct Motor {
    speed: f64,
    torque: f64,
    winding: f64,
    heat_sink: f64,
    ambient: f64,
    load: f64,
}

impl Motor {
    /// At rest and as cold as its surroundings of 25 °C.
    #[must_use]
    pub fn new() -> Self {
        Self { speed: 0.0, torque: 0.0, winding: 25.0, heat_sink: 25.0, ambient: 25.0, load: 1.0 }
    }

    /// Lets `dt` pass.
    pub fn step(&mut self, dt: Duration, control: Control) {
        let mut left = dt;
        while !left.is_zero() {
            let slice = left.min(SLICE);
            self.advance(slice.as_secs_f64(), control);
            left -= slice;
        }
    }

    /// rpm.
    #[must_use]
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// % of the nominal torque; braking is negative where the speed is positive.
    #[must_use]
    pub fn torque(&self) -> f64 {
        self.torque
    }

    /// °C.
    #[must_use]
    pub fn temperature(&self) -> f64 {
        self.winding
    }

    /// °C.
    #[must_use]
    pub fn heat_sink(&self) -> f64 {
        self.heat_sink
    }

    /// Temperature of the surroundings, °C.
    #[must_use]
    pub fn ambient(&self) -> f64 {
        self.ambient
    }

    /// Makes the motor as hot as this, °C; it cools down from there.
    pub fn heat(&mut self, temperature: f64) {
        self.winding = within(temperature);
    }

    /// Temperature of the surroundings, °C, up to 60.
    pub fn set_ambient(&mut self, temperature: f64) {
        self.ambient = temperature.clamp(TEMPERATURES.0, 60.0);
    }

    /// How hard the pump works, 1 being usual, up to 2.
    pub fn set_load(&mut self, load: f64) {
        self.load = load.clamp(0.0, 2.0);
    }

    fn advance(&mut self, seconds: f64, control: Control) {
        let before = self.speed;
        let (target, rate) = match control {
            Control::Free => (0.0, COASTING),
            Control::Speed(target) => (target.clamp(-FASTEST, FASTEST), RAMP),
        };
        self.speed += (target - self.speed).clamp(-rate * seconds, rate * seconds);
        let pumping = PUMPING * self.load * (self.speed / FASTEST).powi(2) * self.speed.signum();
        self.torque = match control {
            Control::Free => 0.0,
            Control::Speed(_) => {
                let accelerating = ACCELERATING * (self.speed - before) / (RAMP * seconds);
                (pumping + accelerating).clamp(-MOST_TORQUE, MOST_TORQUE)
            }
        };
        let heating = (self.torque / 100.0).powi(2);
        let warm = |temperature: f64, (rise, time): (f64, f64)| {
            let gap = self.ambient + rise * heating - temperature;
            within(temperature + gap * (seconds / time).min(1.0))
        };
        (self.winding, self.heat_sink) = (warm(self.winding, WINDING), warm(self.heat_sink, HEAT_SINK));
    }
}

impl Default for Motor {
    fn default() -> Self {
        Self::new()
    }
}

fn within(temperature: f64) -> f64 {
    temperature.clamp(TEMPERATURES.0, TEMPERATURES.1)
}
