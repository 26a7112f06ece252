//! Three phases, what hangs on them, and what a meter makes of it.
//!
//! Pure over a seed and the steps: knows no clock, no registers, no network.

use std::{f64::consts::TAU, time::Duration};

use crate::dice::Dice;

/// Nominal voltage to neutral, V.
const VOLTAGE: f64 = 230.0;
/// The circulation pump at full speed, A on phase 1.
const PUMP: f64 = 3.2;
/// The burner's fan and valves, A on phase 2.
const BURNER: f64 = 1.7;
/// What the rest of the house takes, A a phase on average.
const HOUSE: f64 = 0.9;
/// The rest of the house takes more and less with this period, s.
const PERIOD: f64 = 240.0;
/// Below this a phase is lost, V.
const LOST: f64 = 100.0;
/// Counted before the demo began, kWh.
const COUNTED: f64 = 18_204.6;
/// The external sensor is found after so long.
const WARM_UP: Duration = Duration::from_secs(5);

/// What the boiler house has switched on.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Load {
    /// Speed of the pump, from 0 to 1.
    pub pump: f64,
    /// The burner burns.
    pub burner: bool,
}

/// What the meter shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Readings {
    /// V
    pub voltages: [f64; 3],
    /// A
    pub currents: [f64; 3],
    /// Of all phases, W; below 0 it flows back.
    pub power: f64,
    pub power_factor: f64,
    /// Hz
    pub frequency: f64,
    /// Taken from the grid, kWh.
    pub energy: f64,
    /// Of its external sensor, °C.
    pub temperature: Option<f64>,
}

impl Readings {
    /// One of the phases is lost.
    #[must_use]
    pub fn phase_loss(&self) -> bool {
        self.voltages.iter().any(|voltage| *voltage < LOST)
    }
}

/// The meter: two of the same seed and the same steps show the same to the last bit.
#[derive(Debug, Clone)]
pub struct Meter {
    age: Duration,
    energy: f64,
    dice: Dice,
    load: Load,
    /// How long a reset of the demand has been under way.
    resetting: Duration,
    /// Of the voltages, the currents and the frequency, drawn at every step.
    errors: [f64; 7],
}

impl Meter {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let (age, load) = (Duration::ZERO, Load::default());
        let resetting = Duration::ZERO;
        Self { age, energy: COUNTED, dice: Dice::new(seed), load, resetting, errors: [0.0; 7] }
    }

    /// Lets `dt` pass under this load.
    pub fn step(&mut self, dt: Duration, load: Load) {
        self.load = Load { pump: load.pump.clamp(0.0, 1.0), ..load };
        self.age += dt;
        for error in &mut self.errors {
            *error = self.dice.normal();
        }
        self.energy += self.readings().power.max(0.0) / 1000.0 * dt.as_secs_f64() / 3600.0;
    }

    /// Lets `dt` of a reset pass, if one is asked for; true at its end, after `takes`.
    pub(super) fn has_reset(&mut self, asked: bool, dt: Duration, takes: Duration) -> bool {
        self.resetting = if asked { self.resetting + dt } else { Duration::ZERO };
        let done = self.resetting >= takes;
        if done {
            self.resetting = Duration::ZERO;
        }
        done
    }

    /// What it shows now.
    #[must_use]
    pub fn readings(&self) -> Readings {
        let seconds = self.age.as_secs_f64();
        let swing = (TAU * seconds / PERIOD).sin();
        let [v1, v2, v3, c1, c2, c3, frequency] = self.errors;
        let voltage = |shift: f64, error: f64| VOLTAGE + shift + swing + 0.3 * error;
        let voltages = [voltage(0.8, v1), voltage(-0.4, v2), voltage(0.1, v3)];
        let current =
            |own: f64, share: f64, error: f64| (own + HOUSE * (1.0 + share * swing) + 0.01 * error).max(0.0);
        let burner = if self.load.burner { BURNER } else { 0.0 };
        // A pump takes the cube of its speed in power.
        let pump = PUMP * self.load.pump.powi(3);
        let currents = [current(pump, 0.2, c1), current(burner, 0.3, c2), current(0.0, 0.6, c3)];
        let power_factor = 0.97 - 0.06 * self.load.pump;
        let apparent: f64 = voltages.iter().zip(currents).map(|(voltage, current)| voltage * current).sum();
        let power = apparent * power_factor;
        Readings {
            voltages,
            currents,
            power,
            power_factor,
            frequency: 50.0 + 0.02 * swing + 0.004 * frequency,
            energy: self.energy,
            temperature: (self.age >= WARM_UP).then_some(28.0 + power / 500.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEAT: Duration = Duration::from_millis(100);
    const RUNNING: Load = Load { pump: 0.8, burner: true };

    fn run(load: Load, seconds: u32) -> Vec<Readings> {
        let mut meter = Meter::new(3);
        let mut shown = |_| {
            meter.step(BEAT, load);
            meter.readings()
        };
        (0..seconds * 10).map(&mut shown).collect()
    }

    #[test]
    fn stays_near_the_grid() {
        for readings in run(RUNNING, 300) {
            assert!(readings.voltages.iter().all(|voltage| (voltage - 230.0).abs() < 4.0), "{readings:?}");
            assert!((readings.frequency - 50.0).abs() < 0.05, "{readings:?}");
            assert!(!readings.phase_loss());
        }
    }

    #[test]
    fn pump_and_burner_show_on_their_phases() {
        let at = |load| run(load, 1).pop().map(|readings| readings.currents).unwrap_or_default();
        let [off1, off2, off3] = at(Load::default());
        let [on1, on2, on3] = at(Load { pump: 1.0, burner: true });
        let near = |a: f64, b: f64| (a - b).abs() < 0.001;
        assert!(near(on1 - off1, PUMP) && near(on2 - off2, BURNER) && near(on3, off3), "{on1} {on2} {on3}");
    }

    #[test]
    fn counts_the_power_over_time_and_never_back() {
        let shown = run(RUNNING, 600);
        let mean = shown.iter().map(|readings| readings.power).sum::<f64>() / 6000.0;
        let counted = shown.last().map_or(0.0, |readings| readings.energy) - COUNTED;
        assert!((counted - mean / 1000.0 / 6.0).abs() < 1e-6, "{counted} kWh at {mean} W");
        assert!(shown.windows(2).all(|pair| matches!(pair, [a, b] if a.energy < b.energy)));
    }

    #[test]
    fn has_a_temperature_after_a_while() {
        let shown = run(RUNNING, 6);
        let none = shown.iter().filter(|readings| readings.temperature.is_none()).count();
        assert_eq!(none, 49);
    }
}
