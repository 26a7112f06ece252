//! The parameter groups of the engine, byte by byte: SAE J1939-71 and, for the diagnosis, J1939-73. `engine.dbc` describes the
//! same.
//!
//! Knows values only; nothing of when they are sent.

use crate::can::{
    device::{clip_u8, clip_u16, clip_u32, pack, scale},
    frame::Frame,
};

/// Torque and speed control, to one engine.
pub const TSC1: u32 = 0x0000;
/// Acknowledgement.
pub const ACKM: u32 = 0xE800;
/// Request for a parameter group.
pub const REQUEST: u32 = 0xEA00;
/// Electronic engine controller 1.
pub const EEC1: u32 = 0xF004;
/// Active trouble codes.
pub const DM1: u32 = 0xFECA;
/// Engine hours and revolutions.
pub const HOURS: u32 = 0xFEE5;
/// Component identification.
pub const COMPONENT: u32 = 0xFEEB;
/// Engine temperature 1.
pub const ET1: u32 = 0xFEEE;
/// Engine fluid levels and pressures 1.
pub const EFL_P1: u32 = 0xFEEF;
/// Fuel economy.
pub const LFE1: u32 = 0xFEF2;
/// The address of all.
pub const GLOBAL: u8 = 0xFF;

/// No such parameter.
const ABSENT: u8 = 0xFF;
/// First byte of all texts and numbers that report an error: their highest byte.
const ERROR: u8 = 0xFE;

/// Identifier of a parameter group of this priority. Of a group to one address (PDU1) the destination is its lower byte.
#[must_use]
pub fn identifier(priority: u8, pgn: u32, source: u8) -> u32 {
    u32::from(priority) << 26 | pgn << 8 | u32::from(source)
}

/// A parameter group that fits one frame, to all.
pub(super) fn broadcast(priority: u8, pgn: u32, source: u8, bytes: [u8; 8]) -> Frame {
    Frame::extended(identifier(priority, pgn, source), bytes)
}

/// A measured value, or why there is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    Good(f64),
    Error,
    Absent,
}

impl Value {
    /// One byte; 0xFB and more are no values.
    fn byte(self, factor: f64, offset: f64) -> u8 {
        match self {
            Self::Good(value) => clip_u8(scale(value, factor, offset).clamp(0.0, 250.0)),
            Self::Error => ERROR,
            Self::Absent => ABSENT,
        }
    }

    /// Two bytes, the lower one first; 0xFB00 and more are no values.
    fn word(self, factor: f64, offset: f64) -> [u8; 2] {
        match self {
            Self::Good(value) => clip_u16(scale(value, factor, offset).clamp(0.0, 64_255.0)).to_le_bytes(),
            Self::Error => [0, ERROR],
            Self::Absent => [ABSENT; 2],
        }
    }

    /// Four bytes, the lowest one first; 0xFB000000 and more are no values.
    fn long(self, factor: f64) -> [u8; 4] {
        match self {
            Self::Good(value) => {
                clip_u32(scale(value, factor, 0.0).clamp(0.0, 4_211_081_215.0)).to_le_bytes()
            }
            Self::Error => [0, 0, 0, ERROR],
            Self::Absent => [ABSENT; 4],
        }
    }
}

/// Torque mode; driver's demand and actual torque, %; speed, rpm; the address of what controls it.
pub(super) fn eec1(mode: u8, demand: Value, torque: Value, speed: Value, controller: u8) -> [u8; 8] {
    let [low, high] = speed.word(0.125, 0.0);
    // The starter is not active; a torque demand of the engine itself is not there.
    [0xF0 | mode, demand.byte(1.0, -125.0), torque.byte(1.0, -125.0), low, high, controller, 0xF0, ABSENT]
}

/// Coolant, fuel and oil, °C.
pub(super) fn et1(coolant: Value, fuel: Value, oil: Value) -> [u8; 8] {
    let [low, high] = oil.word(0.03125, -273.0);
    [coolant.byte(1.0, -40.0), fuel.byte(1.0, -40.0), low, high, ABSENT, ABSENT, ABSENT, ABSENT]
}

/// Fuel and oil pressure, kPa; oil and coolant level, %.
pub(super) fn efl_p1(fuel: Value, oil_level: Value, oil: Value, coolant_level: Value) -> [u8; 8] {
    let (fuel, oil) = (fuel.byte(4.0, 0.0), oil.byte(4.0, 0.0));
    let (oil_level, coolant_level) = (oil_level.byte(0.4, 0.0), coolant_level.byte(0.4, 0.0));
    [fuel, ABSENT, oil_level, oil, ABSENT, ABSENT, ABSENT, coolant_level]
}

/// Fuel rate, l/h; throttle, %.
pub(super) fn lfe1(rate: Value, throttle: Value) -> [u8; 8] {
    let [low, high] = rate.word(0.05, 0.0);
    [low, high, ABSENT, ABSENT, ABSENT, ABSENT, throttle.byte(0.4, 0.0), ABSENT]
}

/// Time in operation, h; revolutions.
pub(super) fn hours(hours: Value, revolutions: Value) -> [u8; 8] {
    pack(hours.long(0.05).into_iter().chain(revolutions.long(1000.0)))
}

/// A negative acknowledgement of a request from `requester`.
pub(super) fn nack(source: u8, requester: u8, pgn: u32) -> Frame {
    let [low, mid, high, _] = pgn.to_le_bytes();
    broadcast(6, ACKM | u32::from(GLOBAL), source, [1, ABSENT, ABSENT, ABSENT, requester, low, mid, high])
}

/// Trouble of a parameter (J1939-73).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// Suspect parameter number, of 19 bits.
    pub spn: u32,
    /// Failure mode identifier, of 5 bits.
    pub fmi: u8,
    /// Occurrences, of 7 bits; 127 is unknown.
    pub count: u8,
}

impl Code {
    fn bytes(self) -> [u8; 4] {
        let [low, mid, high, _] = self.spn.to_le_bytes();
        [low, mid, (high & 0x07) << 5 | self.fmi & 0x1F, self.count & 0x7F]
    }
}

/// A lamp of the dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lamp {
    /// Not electronic.
    Protect,
    /// Service soon.
    Warning,
    /// Stop at once.
    Stop,
    /// Emissions.
    Malfunction,
}

impl Lamp {
    /// The lower bit of its state.
    fn bit(self) -> u8 {
        match self {
            Self::Protect => 0x01,
            Self::Warning => 0x04,
            Self::Stop => 0x10,
            Self::Malfunction => 0x40,
        }
    }
}

/// Lamps that are on and trouble codes, as long as it needs; one code or none are 8 bytes.
pub(super) fn dm1(lamps: &[Lamp], codes: &[Code]) -> Vec<u8> {
    let on = lamps.iter().fold(0, |on, lamp| on | lamp.bit());
    // No lamp flashes.
    let mut bytes = vec![on, 0xFF];
    match codes {
        [] => bytes.extend([0, 0, 0, 0, 0xFF, 0xFF]),
        [code] => bytes.extend(code.bytes().into_iter().chain([0xFF, 0xFF])),
        codes => bytes.extend(codes.iter().flat_map(|code| code.bytes())),
    }
    bytes
}

/// What another node requests by TSC1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Control {
    /// The engine is on its own.
    Off,
    /// This speed, rpm.
    Speed(f64),
}

impl Control {
    /// None where it is too short, asks for torque, or has no speed.
    pub(super) fn decode(frame: &Frame) -> Option<Self> {
        let &[mode, low, high, ..] = frame.bytes.as_ref() else { return None };
        let raw = u16::from_le_bytes([low, high]);
        match mode & 0x03 {
            0 => Some(Self::Off),
            1 if raw <= 64_255 => Some(Self::Speed(f64::from(raw) * 0.125)),
            _ => None,
        }
    }

    /// As a controller with the address `source` sends it.
    #[must_use]
    pub fn encode(self, destination: u8, source: u8) -> Frame {
        let (mode, [low, high]) = match self {
            Self::Off => (0, [ABSENT; 2]),
            Self::Speed(speed) => (1, Value::Good(speed).word(0.125, 0.0)),
        };
        let bytes = [0xCC | mode, low, high, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT];
        broadcast(3, TSC1 | u32::from(destination), source, bytes)
    }
}

/// The parameter group that a request is for.
pub(super) fn requested(frame: &Frame) -> Option<u32> {
    let &[low, mid, high, ..] = frame.bytes.as_ref() else { return None };
    Some(u32::from_le_bytes([low, mid, high, 0]))
}
