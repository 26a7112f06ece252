//! The messages of the battery, byte by byte, as `battery.dbc` describes them.
//!
//! Knows values only; nothing of when they are sent.

use std::iter;

use super::physics::{CELLS, SENSORS};
use crate::can::{
    device::{clip_i16, clip_u8, clip_u16, pack, scale},
    frame::{Fd, Frame},
};

/// Identifier of the state, sent every 100 ms.
pub const STATUS: u16 = 0x1A0;
/// Identifier of the pages with cells and temperatures, one of which is sent every 100 ms.
pub const PAGES: u16 = 0x2A0;
/// Identifier of the limits, sent every 500 ms.
pub const LIMITS: u16 = 0x3A0;
/// Identifier of the CAN FD frame with all cells, sent every 200 ms.
pub const ALL: u16 = 0x4A0;
/// Identifier of the command that the battery obeys.
pub const COMMAND: u16 = 0x120;

/// Pages with three cells each.
pub(super) const CELL_PAGES: u8 = 4;
/// The page with temperatures.
const TEMPERATURE_PAGE: u8 = 4;
/// V of one step of a cell's voltage.
const CELL: f64 = 0.001;
/// V, A and °C of one step of all others.
const TENTH: f64 = 0.1;

/// What the battery says of itself every 100 ms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Status {
    pub(super) voltage: f64,
    pub(super) current: f64,
    pub(super) charge: f64,
    pub(super) contactor: u8,
    pub(super) accepted: u8,
    pub(super) alive: u8,
    pub(super) health: f64,
}

impl Status {
    pub(super) fn encode(&self) -> Frame {
        let [voltage_low, voltage_high] = clip_u16(scale(self.voltage, TENTH, 0.0)).to_le_bytes();
        let [current_low, current_high] = clip_i16(scale(self.current, TENTH, 0.0)).to_le_bytes();
        let states = self.contactor & 0x03 | (self.accepted & 0x03) << 2 | self.alive << 4;
        let bytes = [
            voltage_low,
            voltage_high,
            current_low,
            current_high,
            clip_u8(scale(self.charge, 0.5, 0.0)),
            states,
            clip_u8(scale(self.health, 0.5, 0.0)),
        ];
        Frame::standard(STATUS, bytes)
    }
}

/// Three cells of a page below [`CELL_PAGES`], V, and the mean temperature, °C.
pub(super) fn cells(page: u8, cells: &[f64; CELLS], temperature: f64) -> Frame {
    let voltages = cells.iter().skip(usize::from(page) * 3).take(3);
    let voltages = voltages.flat_map(|cell| volts(*cell).to_be_bytes());
    let [temperature, _] = clip_i16(temperature.round().clamp(-128.0, 127.0)).to_le_bytes();
    Frame::standard(PAGES, pack::<8>(iter::once(page & 0x0F).chain(voltages).chain([temperature])))
}

/// Three temperatures of a group of two, °C.
pub(super) fn temperatures(group: u8, temperatures: &[f64; SENSORS]) -> Frame {
    let degrees = temperatures.iter().skip(usize::from(group) * 3);
    let degrees = degrees.flat_map(|value| clip_i16(scale(*value, TENTH, 0.0)).to_be_bytes());
    Frame::standard(PAGES, pack::<8>([TEMPERATURE_PAGE, group].into_iter().chain(degrees)))
}

/// Charging and discharging current, A, and highest and lowest voltage, V.
pub(super) fn limits(values: [f64; 4]) -> Frame {
    let words = values.into_iter().flat_map(|value| clip_u16(scale(value, TENTH, 0.0)).to_le_bytes());
    Frame::standard(LIMITS, pack::<8>(words))
}

/// All cells, V, and the number of this message.
pub(super) fn all(cells: &[f64; CELLS], number: u32) -> Frame {
    let least = cells.iter().copied().fold(f64::INFINITY, f64::min);
    let most = cells.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mean = cells.iter().sum::<f64>() / 24.0;
    let words = cells.iter().copied().chain([least, most, mean]).flat_map(|value| volts(value).to_le_bytes());
    Frame::full(ALL, pack(words.chain(number.to_le_bytes())), Fd { brs: true, esi: false })
}

fn volts(cell: f64) -> u16 {
    clip_u16(scale(cell, CELL, 0.0))
}

/// What a master tells the battery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Open the contactor.
    Open,
    /// Close it, by way of the precharging resistor.
    Close,
}

impl Command {
    /// As a master sends it.
    #[must_use]
    pub fn encode(self) -> Frame {
        Frame::standard(COMMAND, [self.code()])
    }

    pub(super) fn code(self) -> u8 {
        match self {
            Self::Open => 1,
            Self::Close => 2,
        }
    }

    /// None where it says nothing or nothing known.
    pub(super) fn decode(frame: &Frame) -> Option<Self> {
        match frame.bytes.first()? & 0x03 {
            1 => Some(Self::Open),
            2 => Some(Self::Close),
            _ => None,
        }
    }
}
