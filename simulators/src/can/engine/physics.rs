//! A diesel engine that idles or holds a speed, scaled down so that it warms up while one watches.
//!
//! Pure over the steps: knows no clock, no frames, no parameter numbers.

use std::time::Duration;

/// Speed without a request, rpm.
pub const IDLE: f64 = 650.0;
/// The fastest that it turns, rpm.
pub const FASTEST: f64 = 2200.0;

/// How fast the governor changes the speed, rpm/s.
const RAMP: f64 = 400.0;
/// Temperature of the surroundings, °C.
const AMBIENT: f64 = 20.0;
/// Where the thermostat holds the coolant, °C, and how fast it gets there from cold, s.
const COOLANT: (f64, f64) = (86.0, 60.0);
/// How fast the oil follows the coolant, s.
const OIL: f64 = 40.0;
/// Fuel at idle and at full speed, l/h.
const FUEL: (f64, f64) = (2.2, 28.0);
/// The integration is cut into slices no longer than this.
const SLICE: Duration = Duration::from_millis(50);

/// The engine, which runs always.
#[derive(Debug, Clone)]
pub struct Diesel {
    speed: f64,
    torque: f64,
    coolant: f64,
    oil: f64,
    /// Time in operation, h, and revolutions so far.
    hours: f64,
    revolutions: f64,
}

impl Default for Diesel {
    fn default() -> Self {
        Self::new()
    }
}

impl Diesel {
    /// Idling, cold, with some hours behind it.
    #[must_use]
    pub fn new() -> Self {
        let hours = 1234.5;
        let revolutions = hours * 60.0 * 1400.0;
        Self { speed: IDLE, torque: 12.0, coolant: AMBIENT, oil: AMBIENT, hours, revolutions }
    }

    /// Lets `dt` pass, ramping to this speed, rpm.
    pub fn step(&mut self, dt: Duration, target: f64) {
        let mut left = dt;
        while !left.is_zero() {
            let slice = left.min(SLICE);
            self.advance(slice.as_secs_f64(), target.clamp(IDLE, FASTEST));
            left -= slice;
        }
    }

    /// rpm.
    #[must_use]
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// % of the reference torque.
    #[must_use]
    pub fn torque(&self) -> f64 {
        self.torque
    }

    /// °C.
    #[must_use]
    pub fn coolant(&self) -> f64 {
        self.coolant
    }

    /// °C.
    #[must_use]
    pub fn oil(&self) -> f64 {
        self.oil
    }

    /// kPa.
    #[must_use]
    pub fn oil_pressure(&self) -> f64 {
        (120.0 + 300.0 * self.share()).min(480.0)
    }

    /// kPa.
    #[must_use]
    pub fn fuel_pressure(&self) -> f64 {
        380.0 + 120.0 * self.share()
    }

    /// l/h.
    #[must_use]
    pub fn fuel_rate(&self) -> f64 {
        let (idle, full) = FUEL;
        idle + (full - idle) * self.share() * (self.torque / 60.0).clamp(0.0, 1.0)
    }

    /// %.
    #[must_use]
    pub fn throttle(&self) -> f64 {
        (5.0 + 90.0 * self.share()).clamp(0.0, 100.0)
    }

    /// h.
    #[must_use]
    pub fn hours(&self) -> f64 {
        self.hours
    }

    #[must_use]
    pub fn revolutions(&self) -> f64 {
        self.revolutions
    }

    /// Makes the coolant as hot as this, °C; it goes back from there.
    pub fn heat(&mut self, temperature: f64) {
        self.coolant = temperature.clamp(-40.0, 150.0);
    }

    /// From 0 at idle to 1 at full speed.
    fn share(&self) -> f64 {
        ((self.speed - IDLE) / (FASTEST - IDLE)).clamp(0.0, 1.0)
    }

    fn advance(&mut self, seconds: f64, target: f64) {
        let change = (target - self.speed).clamp(-RAMP * seconds, RAMP * seconds);
        self.speed += change;
        let accelerating = 25.0 * change / (RAMP * seconds);
        self.torque = (12.0 + 45.0 * self.share() + accelerating).clamp(-25.0, 100.0);
        let (warm, time) = COOLANT;
        self.coolant += (warm - self.coolant) * (seconds / time).min(1.0);
        let aim = self.coolant + 12.0 * self.share();
        self.oil += (aim - self.oil) * (seconds / OIL).min(1.0);
        self.hours += seconds / 3600.0;
        self.revolutions += self.speed * seconds / 60.0;
    }
}
