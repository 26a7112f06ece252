//! Where the boiler's values stand in the tables, and in which shape.
//!
//! Zero-based wire addresses; words of 32-bit values high word first (ABCD). Knows the physics by its values only.

use std::time::Duration;

use super::physics::{Boiler, Controls, Readings};
use crate::modbus::Tables;

/// Unit identifier of the boiler.
pub const UNIT: u8 = 1;

/// Input register, int16, 0.1 °C.
const OUTLET: u16 = 0;
/// Input register, uint16, 0.01 bar.
const PRESSURE: u16 = 1;
/// Two input registers, float32, m³/h.
const FLOW: u16 = 2;
/// Two input registers, uint32, 0.001 kWh.
const ENERGY: u16 = 4;
/// Discrete input: the burner burns.
const FLAME: u16 = 0;
/// Discrete input: no flow where the burner is enabled.
const FAULT: u16 = 1;
/// Holding register, uint16, 0.1 °C.
const SETPOINT: u16 = 10;
/// Holding register, uint16, %.
const PUMP_SPEED: u16 = 11;
/// Coil.
const PUMP: u16 = 0;
/// Coil.
const BURNER: u16 = 1;

/// The tables as they stand at the start: setpoint 65.0 °C, pump on at 80 %, burner enabled.
#[must_use]
pub fn tables() -> Tables {
    let mut tables = Tables::new();
    tables.set_holdings(SETPOINT, &[650]);
    tables.set_holdings(PUMP_SPEED, &[80]);
    tables.set_coils(PUMP, &[true]);
    tables.set_coils(BURNER, &[true]);
    write(&mut tables, &Boiler::new(0).readings());
    tables
}

/// Reads the controls, steps the physics, writes the readings.
pub fn tick(boiler: &mut Boiler, tables: &mut Tables, dt: Duration) {
    let controls = Controls {
        setpoint: f64::from(tables.holding(SETPOINT).unwrap_or_default()) / 10.0,
        pump_speed: f64::from(tables.holding(PUMP_SPEED).unwrap_or_default()),
        pump: tables.coil(PUMP).unwrap_or_default(),
        burner: tables.coil(BURNER).unwrap_or_default(),
    };
    boiler.step(dt, &controls);
    write(tables, &boiler.readings());
}

/// Speed of the pump from 0 to 1, and whether the burner burns: what a meter sees of it.
#[must_use]
pub fn running(tables: &Tables) -> (f64, bool) {
    let speed = tables.holding(PUMP_SPEED).unwrap_or_default().min(100);
    let pump = tables.coil(PUMP).unwrap_or_default();
    let speed = if pump { f64::from(speed) / 100.0 } else { 0.0 };
    (speed, tables.discrete(FLAME).unwrap_or_default())
}

fn write(tables: &mut Tables, readings: &Readings) {
    tables.set_inputs(OUTLET, &[word(readings.outlet * 10.0)]);
    tables.set_inputs(PRESSURE, &[word(readings.pressure * 100.0)]);
    tables.set_inputs(FLOW, &words(float(readings.flow).to_be_bytes()));
    tables.set_inputs(ENERGY, &words(counter(readings.energy * 1000.0).to_be_bytes()));
    tables.set_discretes(FLAME, &[readings.flame]);
    tables.set_discretes(FAULT, &[readings.fault]);
}

fn words([a, b, c, d]: [u8; 4]) -> [u16; 2] {
    [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
}

/// Rounds; never above what an int16 holds, so that it is the same in both kinds of register.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range before")]
fn word(value: f64) -> u16 {
    value.round().clamp(0.0, 32_767.0) as u16
}

/// Starts again at 0 after 4294967295, as counters do.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the remainder is within the range"
)]
fn counter(value: f64) -> u32 {
    value.floor().rem_euclid(4_294_967_296.0) as u32
}

#[expect(clippy::cast_possible_truncation, reason = "float32 is what the register holds")]
fn float(value: f64) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lays_readings_out_as_the_profile_says() {
        let mut tables = Tables::new();
        let readings =
            Readings { outlet: 65.04, pressure: 1.506, flow: 9.5, energy: 70.001, flame: true, fault: false };
        write(&mut tables, &readings);
        let inputs: Vec<_> = (0..7).map(|address| tables.input(address)).collect();
        // 9.5 is 0x41180000; 70001 is 0x00011171.
        let expected = [Some(650), Some(151), Some(0x4118), Some(0x0000), Some(0x0001), Some(0x1171), None];
        assert_eq!(inputs, expected);
        assert_eq!([0, 1, 2].map(|address| tables.discrete(address)), [Some(true), Some(false), None]);
    }

    #[test]
    fn counter_starts_again_after_its_last_value() {
        assert_eq!(counter(4_294_967_295.9), u32::MAX);
        assert_eq!(counter(4_294_967_297.0), 1);
    }
}
