//! Cells in series behind a contactor, with a load that draws and feeds back, scaled down so that it moves while one watches.
//!
//! Pure over the steps: knows no clock, no frames, no commands.

use std::time::Duration;

/// Cells in series.
pub const CELLS: usize = 24;
/// Temperature sensors.
pub const SENSORS: usize = 6;
/// The least and the most that a cell's voltage is measured as, V.
pub const CELL_VOLTAGES: (f64, f64) = (2.5, 4.3);
/// The most current either way, A.
pub const MOST_CURRENT: f64 = 150.0;
/// The least and the most that temperatures are measured as, °C.
pub(super) const TEMPERATURES: (f64, f64) = (-40.0, 100.0);

/// Charge of a full battery, Ah.
const CAPACITY: f64 = 20.0;
/// Resistance of a cell, Ω.
const RESISTANCE: f64 = 0.001;
/// Amplitude of the load's current, A, and its period, s.
const LOAD: (f64, f64) = (60.0, 40.0);
/// Temperature of the surroundings, °C.
const AMBIENT: f64 = 22.0;
/// What the cells are warmer by in the end at 100 A, K, and how fast they get there, s.
const HEATING: (f64, f64) = (30.0, 90.0);
/// The integration is cut into slices no longer than this.
const SLICE: Duration = Duration::from_millis(100);

/// The cells and their load.
#[derive(Debug, Clone)]
pub struct Pack {
    /// From 0 to 1.
    charge: f64,
    current: f64,
    temperature: f64,
    /// Where the load is in its period, from 0 to 1.
    phase: f64,
    /// What each cell shows more than the mean, V.
    offsets: [f64; CELLS],
    load: f64,
}

impl Default for Pack {
    fn default() -> Self {
        Self::new()
    }
}

impl Pack {
    /// Charged to 70 %.
    #[must_use]
    pub fn new() -> Self {
        let mut offsets = [0.0; CELLS];
        // Another one for every cell, within 12 mV.
        offsets.iter_mut().zip((0_u8..).map(|cell| cell * 7 % 25)).for_each(|(offset, step)| {
            *offset = (f64::from(step) - 12.0) / 1000.0;
        });
        Self { charge: 0.7, current: 0.0, temperature: AMBIENT, phase: 0.0, offsets, load: 1.0 }
    }

    /// Lets `dt` pass; the load draws only where it is connected.
    pub fn step(&mut self, dt: Duration, connected: bool) {
        let mut left = dt;
        while !left.is_zero() {
            let slice = left.min(SLICE);
            self.advance(slice.as_secs_f64(), connected);
            left -= slice;
        }
    }

    /// A, out of the battery; negative while it is charged.
    #[must_use]
    pub fn current(&self) -> f64 {
        self.current
    }

    /// State of charge, %.
    #[must_use]
    pub fn charge(&self) -> f64 {
        self.charge * 100.0
    }

    /// V, of each cell.
    #[must_use]
    pub fn cells(&self) -> [f64; CELLS] {
        let (least, most) = CELL_VOLTAGES;
        self.offsets
            .map(|offset| (3.0 + 1.15 * self.charge + offset - self.current * RESISTANCE).clamp(least, most))
    }

    /// V, of all cells.
    #[must_use]
    pub fn voltage(&self) -> f64 {
        self.cells().iter().sum()
    }

    /// °C, of each sensor; those in the middle are warmer.
    #[must_use]
    pub fn temperatures(&self) -> [f64; SENSORS] {
        let (least, most) = TEMPERATURES;
        [0.0, 0.6, 1.1, 1.3, 0.9, 0.2].map(|more| (self.temperature + more).clamp(least, most))
    }

    /// °C, the mean.
    #[must_use]
    pub fn temperature(&self) -> f64 {
        self.temperatures().iter().sum::<f64>() / 6.0
    }

    /// State of charge, %.
    pub fn set_charge(&mut self, percent: f64) {
        self.charge = percent.clamp(0.0, 100.0) / 100.0;
    }

    /// How much the load draws and feeds back, 1 being usual, up to 2.
    pub fn set_load(&mut self, load: f64) {
        self.load = load.clamp(0.0, 2.0);
    }

    fn advance(&mut self, seconds: f64, connected: bool) {
        let (amplitude, period) = LOAD;
        self.phase = (self.phase + seconds / period).fract();
        let wanted = amplitude * self.load * (self.phase * std::f64::consts::TAU).sin() + 8.0;
        let possible = if wanted > 0.0 { self.charge > 0.0 } else { self.charge < 1.0 };
        let drawn = connected && possible;
        self.current = if drawn { wanted.clamp(-MOST_CURRENT, MOST_CURRENT) } else { 0.0 };
        self.charge = (self.charge - self.current * seconds / 3600.0 / CAPACITY).clamp(0.0, 1.0);
        let (rise, time) = HEATING;
        let aim = AMBIENT + rise * (self.current / 100.0).powi(2);
        self.temperature += (aim - self.temperature) * (seconds / time).min(1.0);
    }
}
