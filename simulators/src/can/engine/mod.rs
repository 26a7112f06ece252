//! An engine that speaks SAE J1939.
//!
//! Owns its address, what it sends when, and how its sensors are; the physics, the bytes and long messages are matters of
//! their own.

mod message;
mod physics;
mod transport;

use std::{collections::BTreeMap, time::Duration};

pub use message::{
    ACKM, COMPONENT, Code, Control, DM1, EEC1, EFL_P1, ET1, GLOBAL, HOURS, LFE1, Lamp, REQUEST, TSC1,
    identifier,
};
pub use physics::{Diesel, FASTEST, IDLE};
pub use transport::{ANNOUNCE, PACKET};

use super::{
    bus::Filter,
    device::{Cycle, Model, Said},
    frame::{Frame, Id},
};
use message::Value;
use transport::Transport;

/// Priority of control messages, and of all others.
const CONTROL: u8 = 3;
const USUAL: u8 = 6;
/// Bits of an identifier that are parameter group and destination; priority, source and reserved bit are left aside.
const GROUP: u32 = 0x01FF_FF00;
/// The codes that one message can hold.
const MOST_CODES: usize = (transport::LONGEST - 2) / 4;

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sensor {
    Speed,
    Torque,
    Coolant,
    FuelTemperature,
    OilTemperature,
    FuelPressure,
    OilPressure,
    OilLevel,
    CoolantLevel,
    FuelRate,
    Throttle,
    Hours,
    Revolutions,
}

/// How a sensor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    Good,
    /// It reports an error: 0xFE.
    Error,
    /// It is not there: 0xFF.
    Absent,
}

/// The engine.
#[derive(Debug)]
pub struct Engine {
    name: String,
    address: u8,
    diesel: Diesel,
    /// Sensors that are not good.
    sensors: BTreeMap<Sensor, Health>,
    /// What it was told last, and by which address.
    control: (Control, u8),
    lamps: Vec<Lamp>,
    codes: Vec<Code>,
    component: String,
    transport: Transport,
    cycles: [Cycle; 7],
}

impl Engine {
    /// With this source address; faults call it `engine` at address 0, and `engine-N` at another one.
    #[must_use]
    pub fn new(address: u8) -> Self {
        let name = if address == 0 { "engine".to_owned() } else { format!("engine-{address}") };
        Self {
            name,
            address,
            diesel: Diesel::new(),
            // This make has no sensor for the temperature of the fuel.
            sensors: BTreeMap::from([(Sensor::FuelTemperature, Health::Absent)]),
            control: (Control::Off, address),
            lamps: Vec::new(),
            codes: Vec::new(),
            component: format!("FIELD*DIESEL 6*SN{:06}*UNIT {address}*", 4711 + u32::from(address)),
            transport: Transport::default(),
            cycles: [50, 1000, 500, 100, 1000, 1000, 10_000].map(|ms| Cycle::new(Duration::from_millis(ms))),
        }
    }

    /// Its source address.
    #[must_use]
    pub fn address(&self) -> u8 {
        self.address
    }

    /// Speed, temperatures, pressures and hours, whatever the sensors say.
    #[must_use]
    pub fn diesel(&self) -> &Diesel {
        &self.diesel
    }

    /// To heat it.
    pub fn diesel_mut(&mut self) -> &mut Diesel {
        &mut self.diesel
    }

    /// What it was told last.
    #[must_use]
    pub fn control(&self) -> Control {
        self.control.0
    }

    /// Make, model, serial number and unit, each with a `*` behind.
    #[must_use]
    pub fn component(&self) -> &str {
        &self.component
    }

    /// From now on a sensor is so.
    pub fn set_sensor(&mut self, sensor: Sensor, health: Health) {
        self.sensors.insert(sensor, health);
    }

    /// From now on these lamps are on, and these codes active: the first 445 of them.
    pub fn set_trouble(&mut self, lamps: &[Lamp], mut codes: Vec<Code>) {
        codes.truncate(MOST_CODES);
        (self.lamps, self.codes) = (lamps.to_vec(), codes);
    }

    /// The active codes.
    #[must_use]
    pub fn codes(&self) -> &[Code] {
        &self.codes
    }

    fn value(&self, sensor: Sensor, value: f64) -> Value {
        match self.sensors.get(&sensor) {
            None | Some(Health::Good) => Value::Good(value),
            Some(Health::Error) => Value::Error,
            Some(Health::Absent) => Value::Absent,
        }
    }

    /// What it says about a parameter group, by long messages where it needs them; false where it has no such group.
    fn say(&mut self, pgn: u32, said: &mut Vec<Said>) -> bool {
        let diesel = &self.diesel;
        let value = |sensor, value| self.value(sensor, value);
        let (priority, bytes) = match pgn {
            EEC1 => {
                let torque = value(Sensor::Torque, diesel.torque());
                let speed = value(Sensor::Speed, diesel.speed());
                // Speed control, or the low idle governor.
                let mode = if matches!(self.control.0, Control::Speed(_)) { 2 } else { 0 };
                let demand = Value::Good(diesel.torque().max(0.0));
                (CONTROL, message::eec1(mode, demand, torque, speed, self.control.1))
            }
            ET1 => {
                let fuel = value(Sensor::FuelTemperature, 30.0);
                let oil = value(Sensor::OilTemperature, diesel.oil());
                (USUAL, message::et1(value(Sensor::Coolant, diesel.coolant()), fuel, oil))
            }
            EFL_P1 => {
                let fuel = value(Sensor::FuelPressure, diesel.fuel_pressure());
                let oil = value(Sensor::OilPressure, diesel.oil_pressure());
                let levels = [(Sensor::OilLevel, 82.0), (Sensor::CoolantLevel, 96.0)];
                let [oil_level, coolant_level] = levels.map(|(sensor, level)| value(sensor, level));
                (USUAL, message::efl_p1(fuel, oil_level, oil, coolant_level))
            }
            LFE1 => {
                let rate = value(Sensor::FuelRate, diesel.fuel_rate());
                (USUAL, message::lfe1(rate, value(Sensor::Throttle, diesel.throttle())))
            }
            HOURS => {
                let hours = value(Sensor::Hours, diesel.hours());
                (USUAL, message::hours(hours, value(Sensor::Revolutions, diesel.revolutions())))
            }
            DM1 => {
                let bytes = message::dm1(&self.lamps, &self.codes);
                match <[u8; 8]>::try_from(bytes) {
                    Ok(bytes) => (USUAL, bytes),
                    Err(long) => {
                        self.announce(DM1, long);
                        return true;
                    }
                }
            }
            COMPONENT => {
                self.announce(COMPONENT, self.component.clone().into_bytes());
                return true;
            }
            _ => return false,
        };
        said.push(Said::State(message::broadcast(priority, pgn, self.address, bytes)));
        true
    }

    /// One of each kind at a time, or the others would never have their turn.
    fn announce(&mut self, pgn: u32, bytes: Vec<u8>) {
        if !self.transport.has(pgn) {
            self.transport.send(pgn, bytes);
        }
    }
}

impl Model for Engine {
    fn name(&self) -> &str {
        &self.name
    }

    fn filters(&self) -> Vec<Filter> {
        let to = |pgn: u32, address: u8| Filter::extended(identifier(0, pgn | u32::from(address), 0), GROUP);
        vec![to(TSC1, self.address), to(REQUEST, self.address), to(REQUEST, GLOBAL)]
    }

    fn advance(&mut self, passed: Duration, _stuck: &[Id]) -> Vec<Said> {
        let target = match self.control.0 {
            Control::Off => IDLE,
            Control::Speed(speed) => speed,
        };
        self.diesel.step(passed, target);
        let due = self.cycles.each_mut().map(|cycle| cycle.due(passed));
        let groups = [EEC1, ET1, EFL_P1, LFE1, HOURS, DM1, COMPONENT];
        let mut said = Vec::new();
        for (pgn, _) in groups.into_iter().zip(due).filter(|(_, due)| *due) {
            self.say(pgn, &mut said);
        }
        said.extend(self.transport.advance(passed, self.address).map(Said::Event));
        said
    }

    fn receive(&mut self, frame: &Frame) -> Vec<Said> {
        let [source, destination, ..] = frame.id.to_le_bytes();
        let mut said = Vec::new();
        match frame.id >> 8 & 0x1_FF00 {
            TSC1 => {
                if let Some(control) = Control::decode(frame) {
                    self.control = (control, if control == Control::Off { self.address } else { source });
                }
            }
            REQUEST => {
                if let Some(pgn) = message::requested(frame)
                    && !self.say(pgn, &mut said)
                    && destination == self.address
                {
                    said.push(Said::Event(message::nack(self.address, source, pgn)));
                }
            }
            _ => {}
        }
        said
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail by a panic")]
mod tests;
