//! What a scan asks, and what comes back. No request but a read can be said here.

use tokio_modbus::{
    Request, Response,
    prelude::{ReadCode, ReadDeviceIdentificationResponse},
};

use crate::{codec::modbus::Answer, profile::modbus::Table};

/// One request of a scan. There is none that changes a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Probe {
    /// FC 1 to 4.
    Read { table: Table, first: u16, count: u16 },
    /// FC 43/14, Read Device Identification (Modbus Application Protocol V1.1b3, section 6.21), from `object` on.
    Identify { level: Level, object: u8 },
}

/// Which objects of its identification a device is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// Vendor, product code and revision.
    Basic,
    /// These, web address, product name, model name and the name that the user gave it.
    Regular,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The values of a read; a bit is 0 or 1.
    Cells(Vec<u16>),
    Identity(Objects),
    /// The exception's code.
    Exception(u8),
    /// The unit answered, but nothing that answers the question; why.
    Unusable(String),
    /// Nothing came in time.
    Silent,
    /// The connection ended, or the line was never free; why.
    Lost(String),
}

/// One answer to [`Probe::Identify`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Objects {
    pub objects: Vec<(u8, Vec<u8>)>,
    /// Whether the device has more than the basic objects.
    pub regular: bool,
    /// The object to go on with, where more follow.
    pub next: Option<u8>,
}

impl Probe {
    pub(super) fn request(self) -> Request<'static> {
        match self {
            Self::Read { table: Table::Coil, first, count } => Request::ReadCoils(first, count),
            Self::Read { table: Table::Discrete, first, count } => Request::ReadDiscreteInputs(first, count),
            Self::Read { table: Table::Input, first, count } => Request::ReadInputRegisters(first, count),
            Self::Read { table: Table::Holding, first, count } => Request::ReadHoldingRegisters(first, count),
            Self::Identify { level: Level::Basic, object } => {
                Request::ReadDeviceIdentification(ReadCode::Basic, object)
            }
            Self::Identify { level: Level::Regular, object } => {
                Request::ReadDeviceIdentification(ReadCode::Regular, object)
            }
        }
    }
}

impl Reply {
    /// Whether nothing shows that there is a unit: silence, or a gateway that reaches none.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::Silent | Self::Lost(_) | Self::Exception(GATEWAY_PATH | GATEWAY_TARGET))
    }

    /// Whether the same question may be answered otherwise a moment later: exceptions 0x05 and 0x06.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Exception(5 | 6))
    }
}

/// A gateway knows no way to the unit.
pub(super) const GATEWAY_PATH: u8 = 0x0A;
/// A gateway got no answer from the unit.
pub(super) const GATEWAY_TARGET: u8 = 0x0B;

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Exception(code) => Self::Exception(code.into()),
            Answer::Response(Response::ReadCoils(bits) | Response::ReadDiscreteInputs(bits)) => {
                Self::Cells(bits.into_iter().map(u16::from).collect())
            }
            Answer::Response(Response::ReadHoldingRegisters(words) | Response::ReadInputRegisters(words)) => {
                Self::Cells(words)
            }
            Answer::Response(Response::ReadDeviceIdentification(response)) => {
                Self::Identity(Objects::from(response))
            }
            Answer::Response(_) => Self::Unusable("an answer to another question".to_owned()),
        }
    }
}

impl From<ReadDeviceIdentificationResponse> for Objects {
    fn from(response: ReadDeviceIdentificationResponse) -> Self {
        let ReadDeviceIdentificationResponse { conformity_level, more_follows, next_object_id, .. } =
            response;
        let objects = response.device_id_objects.into_iter();
        Self {
            objects: objects.map(|object| (object.id, object.value.to_vec())).collect(),
            // The highest bit tells of another way to ask (section 6.21, conformity level).
            regular: conformity_level.value() & 0x7F > 1,
            next: more_follows.then_some(next_object_id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `request` matches every probe there can be, so a new kind of probe stops this from compiling.
    #[test]
    fn nothing_but_reads_can_be_asked() {
        for table in [Table::Coil, Table::Discrete, Table::Input, Table::Holding] {
            let request = Probe::Read { table, first: 7, count: 2 }.request();
            assert_eq!(request.function_code().value(), table.read_code());
            assert!((1..=4).contains(&table.read_code()));
        }
        for level in [Level::Basic, Level::Regular] {
            let request = Probe::Identify { level, object: 0 }.request();
            assert_eq!(request.function_code().value(), 43);
            assert!(matches!(request, Request::ReadDeviceIdentification(..)));
        }
        let probe = Probe::Identify { level: Level::Basic, object: 0 };
        match probe {
            Probe::Read { .. } | Probe::Identify { .. } => {}
        }
    }
}
