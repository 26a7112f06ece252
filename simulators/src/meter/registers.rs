//! Where the meter's values stand in the tables, and in which shape.
//!
//! Zero-based wire addresses. Values of 32 bits have their low word first, the counter of 64 bits its high word. Knows the
//! physics by its values only.

use std::time::Duration;

use super::physics::{Load, Meter, Readings};
use crate::modbus::{Identity, Tables, Unit};

/// Unit identifier of the meter.
pub const UNIT: u8 = 1;

/// Input registers, three float32, V.
const VOLTAGES: u16 = 0;
/// Input registers, three float32, A.
const CURRENTS: u16 = 6;
/// Input registers, int32, 0.1 W.
const POWER: u16 = 12;
/// Input register, int16, 0.001.
const POWER_FACTOR: u16 = 14;
/// Input register, uint16, 0.01 Hz.
const FREQUENCY: u16 = 15;
/// Input registers, uint64, 0.001 kWh.
const ENERGY: u16 = 16;
/// Input register: bit 0 phase loss, bit 1 reverse power.
const STATUS: u16 = 20;
/// Input register, int16, 0.1 °C; [`NOT_AVAILABLE`] until the sensor is ready.
const TEMPERATURE: u16 = 21;
/// Input registers, 12 characters.
const SERIAL: u16 = 22;
/// Input register, BCD, 0.01.
const FIRMWARE: u16 = 28;
/// Holding register, min.
const DEMAND_INTERVAL: u16 = 0;
/// Holding register.
const MODE: u16 = 1;
/// Holding register: bit 0 resets the demand, and is cleared when that is done, after [`RESET`].
const COMMAND: u16 = 2;
/// Four holding registers, h.
const TARIFF_HOURS: u16 = 3;

const NOT_AVAILABLE: u16 = 0x8000;
/// A reset takes so long: a master that reads its command back sees it.
const RESET: Duration = Duration::from_secs(2);

/// The tables as they stand at the start.
#[must_use]
pub fn tables() -> Tables {
    let mut tables = Tables::new();
    tables.set_inputs(SERIAL, &characters(*b"FB26-0042-A1"));
    tables.set_inputs(FIRMWARE, &[0x0142]);
    tables.set_holdings(DEMAND_INTERVAL, &[15]);
    tables.set_holdings(MODE, &[0]);
    tables.set_holdings(COMMAND, &[0]);
    tables.set_holdings(TARIFF_HOURS, &[6, 9, 17, 22]);
    write(&mut tables, &Meter::new(0).readings());
    tables
}

/// Tells a unit with these tables which values it takes, and what it is.
pub fn prepare(unit: &Unit) {
    unit.limit(DEMAND_INTERVAL..=DEMAND_INTERVAL, 1..=60);
    unit.limit(MODE..=MODE, 0..=2);
    unit.limit(TARIFF_HOURS..=TARIFF_HOURS + 3, 0..=24);
    unit.identify(Some(Identity {
        vendor: "fieldbridge".into(),
        product_code: "DM-3".into(),
        revision: "1.42".into(),
        product_name: Some("Demo meter".into()),
        ..Identity::default()
    }));
}

/// Carries out commands, steps the physics, writes the readings.
pub fn tick(meter: &mut Meter, tables: &mut Tables, dt: Duration, load: Load) {
    let command = tables.holding(COMMAND).unwrap_or_default();
    if meter.has_reset(command & 1 == 1, dt, RESET) {
        tables.set_holdings(COMMAND, &[command & !1]);
    }
    meter.step(dt, load);
    write(tables, &meter.readings());
}

fn write(tables: &mut Tables, readings: &Readings) {
    for (start, values) in [(VOLTAGES, readings.voltages), (CURRENTS, readings.currents)] {
        for (address, value) in (start..).step_by(2).zip(values) {
            tables.set_inputs(address, &low_first(float(value).to_bits()));
        }
    }
    let power = rounded(readings.power * 10.0, i32::MIN, i32::MAX);
    tables.set_inputs(POWER, &low_first(power.cast_unsigned()));
    tables.set_inputs(POWER_FACTOR, &[signed(readings.power_factor * 1000.0)]);
    tables.set_inputs(FREQUENCY, &[signed(readings.frequency * 100.0)]);
    tables.set_inputs(ENERGY, &counter(readings.energy * 1000.0));
    let status = u16::from(readings.phase_loss()) | u16::from(readings.power < 0.0) << 1;
    tables.set_inputs(STATUS, &[status]);
    let temperature = readings.temperature.map_or(NOT_AVAILABLE, |degrees| signed(degrees * 10.0));
    tables.set_inputs(TEMPERATURE, &[temperature]);
}

fn low_first(bits: u32) -> [u16; 2] {
    let [a, b, c, d] = bits.to_be_bytes();
    [u16::from_be_bytes([c, d]), u16::from_be_bytes([a, b])]
}

/// Big-endian throughout.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a meter counts up from 0")]
fn counter(value: f64) -> [u16; 4] {
    let bits = value.floor().max(0.0) as u64;
    [48, 32, 16, 0].map(|shift| (bits >> shift & 0xFFFF) as u16)
}

fn characters(text: [u8; 12]) -> Vec<u16> {
    text.chunks(2).map(|pair| pair.iter().fold(0, |word, byte| word << 8 | u16::from(*byte))).collect()
}

/// Never the pattern that says that there is no value.
fn signed(value: f64) -> u16 {
    let value = rounded(value, -32_767, 32_767);
    i16::try_from(value).unwrap_or_default().cast_unsigned()
}

#[expect(clippy::cast_possible_truncation, reason = "clamped to the range before")]
fn rounded(value: f64, least: i32, most: i32) -> i32 {
    value.round().clamp(f64::from(least), f64::from(most)) as i32
}

#[expect(clippy::cast_possible_truncation, reason = "float32 is what the registers hold")]
fn float(value: f64) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lays_readings_out_as_the_profile_says() {
        let mut tables = tables();
        let readings = Readings {
            voltages: [230.5, 229.25, 99.0],
            currents: [1.5, 0.25, 2.0],
            power: -1234.56,
            power_factor: -0.912,
            frequency: 49.98,
            energy: 18_204.6,
            temperature: Some(-3.2),
        };
        write(&mut tables, &readings);
        let inputs: Vec<_> = (0..30).map_while(|address| tables.input(address)).collect();
        #[rustfmt::skip]
        let expected = [
            // 230.5 is 0x43668000, 229.25 is 0x43654000, 99 is 0x42C60000.
            0x8000, 0x4366, 0x4000, 0x4365, 0x0000, 0x42C6,
            0x0000, 0x3FC0, 0x0000, 0x3E80, 0x0000, 0x4000,
            // -12346 is 0xFFFFCFC6, -912 is 0xFC70.
            0xCFC6, 0xFFFF, 0xFC70, 4998,
            // 18204600 is 0x0115C7B8.
            0, 0, 0x0115, 0xC7B8,
            0b11, 0xFFE0,
            0x4642, 0x3236, 0x2D30, 0x3034, 0x322D, 0x4131,
            0x0142,
        ];
        assert_eq!(inputs, expected);
        write(&mut tables, &Readings { temperature: None, ..readings });
        assert_eq!(tables.input(TEMPERATURE), Some(0x8000));
    }

    #[test]
    fn a_command_clears_itself() {
        let mut tables = tables();
        tables.set_holdings(COMMAND, &[1]);
        let mut meter = Meter::new(1);
        let mut shown = |_| {
            tick(&mut meter, &mut tables, Duration::from_millis(100), Load::default());
            tables.holding(COMMAND)
        };
        let shown: Vec<_> = (0..21).map(&mut shown).collect();
        assert_eq!(shown, [vec![Some(1); 19], vec![Some(0); 2]].concat());
    }
}
