//! A boiler with a modulating burner, a pump and a heating load, scaled down so that it moves while one watches.
//!
//! Pure over a seed and the steps: knows no clock, no registers, no network.

use std::time::Duration;

use crate::dice::Dice;

/// Temperature of the surroundings, °C: the outlet is never colder.
pub const AMBIENT: f64 = 20.0;
/// The safety limiter holds the outlet below, °C.
pub const HIGHEST: f64 = 110.0;

/// The controller aims to close the gap to the setpoint with this time constant, s.
const TAU: f64 = 15.0;
/// Heat capacity of the water, kJ/K.
const CAPACITY: f64 = 40.0;
/// The most that the burner gives, kW.
const POWER: f64 = 200.0;
/// Below this there is no flame, kW.
const LEAST_POWER: f64 = 1.0;
/// What the jacket loses, kW/K.
const JACKET: f64 = 0.4;
/// What the heating load takes at full flow, kW/K.
const LOAD: f64 = 1.6;
/// Flow at full pump speed, m³/h.
const FULL_FLOW: f64 = 12.0;
/// The pump runs up and down with this time constant, s.
const PUMP_TAU: f64 = 2.0;
/// Below this flow the flow switch blocks the burner, m³/h.
const LEAST_FLOW: f64 = 1.0;
/// The integration is cut into slices no longer than this.
const SLICE: Duration = Duration::from_millis(100);

/// What the plant's controller is told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Controls {
    /// °C; any value, the plant does what it can.
    pub setpoint: f64,
    /// %; above 100 is 100.
    pub pump_speed: f64,
    /// The pump may run.
    pub pump: bool,
    /// The burner may burn.
    pub burner: bool,
}

/// What the plant's instruments show.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Readings {
    /// Outlet temperature, °C, with noise.
    pub outlet: f64,
    /// Pressure, bar, with noise.
    pub pressure: f64,
    /// Flow, m³/h, with noise; exactly 0 where the water stands still.
    pub flow: f64,
    /// Heat made since the start, kWh.
    pub energy: f64,
    /// The burner burns.
    pub flame: bool,
    /// The burner is enabled and blocked for lack of flow.
    pub fault: bool,
}

/// The boiler: two boilers of the same seed and the same steps show the same to the last bit.
#[derive(Debug, Clone)]
pub struct Boiler {
    temperature: f64,
    flow: f64,
    energy: f64,
    power: f64,
    fault: bool,
    noise: Dice,
    /// Of outlet, pressure and flow, drawn at every step.
    errors: [f64; 3],
}

impl Boiler {
    /// At rest at 65 °C, pump at 80 %.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let flow = FULL_FLOW * 0.8;
        let power = losses(flow) * (65.0 - AMBIENT);
        let noise = Dice::new(seed);
        Self { temperature: 65.0, flow, energy: 0.0, power, fault: false, noise, errors: [0.0; 3] }
    }

    /// Lets `dt` pass under these controls.
    pub fn step(&mut self, dt: Duration, controls: &Controls) {
        let mut left = dt;
        while !left.is_zero() {
            let slice = left.min(SLICE);
            self.advance(slice.as_secs_f64(), controls);
            left -= slice;
        }
        self.errors = [0.05, 0.004, 0.02].map(|size| size * self.noise.normal());
    }

    /// What the instruments show now.
    #[must_use]
    pub fn readings(&self) -> Readings {
        let [outlet, pressure, flow] = self.errors;
        let running = self.flow > 0.05;
        let head = 0.3 * (self.flow / FULL_FLOW).powi(2);
        Readings {
            outlet: (self.temperature + outlet).clamp(AMBIENT, HIGHEST),
            pressure: 1.2 + 0.008 * (self.temperature - AMBIENT) + head + pressure,
            flow: if running { (self.flow + flow).max(0.0) } else { 0.0 },
            energy: self.energy,
            flame: self.power > 0.0,
            fault: self.fault,
        }
    }

    fn advance(&mut self, seconds: f64, controls: &Controls) {
        let speed = if controls.pump { controls.pump_speed.clamp(0.0, 100.0) / 100.0 } else { 0.0 };
        self.flow += (FULL_FLOW * speed - self.flow) * (seconds / PUMP_TAU).min(1.0);

        let loss = losses(self.flow) * (self.temperature - AMBIENT);
        let flowing = self.flow >= LEAST_FLOW;
        self.fault = controls.burner && !flowing;
        self.power = if controls.burner && flowing {
            let gap = controls.setpoint.min(HIGHEST) - self.temperature;
            let demand = (loss + CAPACITY * gap / TAU).min(POWER);
            if demand < LEAST_POWER { 0.0 } else { demand }
        } else {
            0.0
        };
        let change = (self.power - loss) / CAPACITY * seconds;
        self.temperature = (self.temperature + change).clamp(AMBIENT, HIGHEST);
        self.energy += self.power * seconds / 3600.0;
    }
}

/// What leaves the water at this flow, kW/K.
fn losses(flow: f64) -> f64 {
    JACKET + LOAD * flow / FULL_FLOW
}

#[cfg(test)]
#[path = "physics_tests.rs"]
mod tests;
