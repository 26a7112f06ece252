//! The messages of the pump drive, byte by byte, as `pump-drive.dbc` describes them.
//!
//! Knows values only; nothing of when they are sent.

use crate::can::{
    crc::j1850,
    device::{clip_i16, clip_u16, pack, scale},
    frame::Frame,
};

/// Identifier of the state, sent every 50 ms.
pub const STATUS: u16 = 0x181;
/// Identifier of the temperatures, sent every 500 ms.
pub const TEMPERATURES: u16 = 0x281;
/// Identifier of the faults, sent every second and when they change.
pub const FAULTS: u16 = 0x381;
/// Identifier of the command that the drive obeys.
pub const COMMAND: u16 = 0x201;

/// rpm of one step of all speeds.
const SPEED: f64 = 0.5;
/// K of one step of all temperatures.
const DEGREE: f64 = 0.1;

/// What the drive says of itself every 50 ms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Status {
    pub(super) state: u8,
    pub(super) alive: u8,
    pub(super) speed: f64,
    pub(super) torque: f64,
    pub(super) reference: f64,
    pub(super) enabled: bool,
    pub(super) warm: bool,
}

impl Status {
    pub(super) fn encode(&self) -> Frame {
        let [speed_low, speed_high] = clip_i16(scale(self.speed, SPEED, 0.0)).to_le_bytes();
        let [torque, _] = clip_i16(self.torque.round().clamp(-128.0, 127.0)).to_le_bytes();
        let [reference_low, reference_high] = clip_i16(scale(self.reference, SPEED, 0.0)).to_le_bytes();
        let bytes = [
            self.state & 0x0F | self.alive << 4,
            speed_low,
            speed_high,
            torque,
            reference_low,
            reference_high,
            u8::from(self.enabled) | u8::from(self.warm) << 1,
        ];
        Frame::standard(STATUS, seal(bytes))
    }
}

/// °C, all of them.
pub(super) fn temperatures(motor: f64, heat_sink: f64, ambient: f64) -> Frame {
    let [motor_low, motor_high] = clip_i16(scale(motor, DEGREE, 0.0)).to_le_bytes();
    let [sink_high, sink_low] = clip_u16(scale(heat_sink, DEGREE, -40.0)).to_be_bytes();
    let [ambient, _] = clip_i16(ambient.round().clamp(-128.0, 127.0)).to_le_bytes();
    Frame::standard(TEMPERATURES, [motor_low, motor_high, sink_high, sink_low, ambient])
}

/// The fault of now, the one before, how many there were, and the time in operation in s.
pub(super) fn faults(code: u8, last: u8, count: u16, seconds: u32) -> Frame {
    let [count_low, count_high] = count.to_le_bytes();
    let [a, b, c, d] = seconds.to_le_bytes();
    Frame::standard(FAULTS, [code, last, count_low, count_high, a, b, c, d])
}

/// What a master tells the drive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Command {
    /// Run, rather than stop.
    pub enable: bool,
    /// Clear the fault, when it changes to true.
    pub reset: bool,
    /// One of 16 that follow each other.
    pub counter: u8,
    /// rpm.
    pub setpoint: f64,
}

impl Command {
    /// As a master sends it, with the right check sum.
    #[must_use]
    pub fn encode(&self) -> Frame {
        let [low, high] = clip_i16(scale(self.setpoint, SPEED, 0.0)).to_le_bytes();
        let flags = u8::from(self.enable) | u8::from(self.reset) << 1 | self.counter << 4;
        Frame::standard(COMMAND, seal([flags, low, high, 0, 0, 0, 0]))
    }

    /// None where it has not 8 bytes or the check sum is wrong.
    pub(super) fn decode(frame: &Frame) -> Option<Self> {
        let (sum, body) = frame.bytes.split_last()?;
        let &[flags, low, high, _, _, _, _] = body else { return None };
        (j1850(body) == *sum).then(|| Self {
            enable: flags & 0x01 != 0,
            reset: flags & 0x02 != 0,
            counter: flags >> 4,
            setpoint: f64::from(i16::from_le_bytes([low, high])) * SPEED,
        })
    }
}

/// With the check sum behind.
fn seal(body: [u8; 7]) -> [u8; 8] {
    pack(body.into_iter().chain([j1850(&body)]))
}
