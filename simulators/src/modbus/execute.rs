//! What one request does to the tables of a unit, by the application protocol.
//!
//! Knows requests and tables; no state of a device, no time.

use std::ops::RangeInclusive;

use tokio_modbus::{ExceptionCode, Request, Response};

use super::{state::Values, tables::Tables};

/// Which values the holding registers of these addresses take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) addresses: RangeInclusive<u16>,
    pub(super) values: RangeInclusive<u16>,
}

/// First and last address that a request touches; of a read together with a write, those that it writes.
pub(super) fn span(request: &Request<'_>) -> Option<(u16, u16)> {
    let (address, quantity) = match request {
        Request::ReadCoils(address, quantity)
        | Request::ReadDiscreteInputs(address, quantity)
        | Request::ReadInputRegisters(address, quantity)
        | Request::ReadHoldingRegisters(address, quantity) => (*address, usize::from(*quantity)),
        Request::WriteSingleCoil(address, _)
        | Request::WriteSingleRegister(address, _)
        | Request::MaskWriteRegister(address, ..) => (*address, 1),
        Request::WriteMultipleCoils(address, values) => (*address, values.len()),
        Request::WriteMultipleRegisters(address, values)
        | Request::ReadWriteMultipleRegisters(_, _, address, values) => (*address, values.len()),
        _ => return None,
    };
    let more = u16::try_from(quantity.saturating_sub(1)).unwrap_or(u16::MAX);
    Some((address, address.saturating_add(more)))
}

/// Address and values, if the request is a write.
pub(super) fn written(request: &Request<'_>) -> Option<(u16, Values)> {
    match request {
        Request::WriteSingleCoil(address, value) => Some((*address, Values::Bits(vec![*value]))),
        Request::WriteSingleRegister(address, value) => Some((*address, Values::Words(vec![*value]))),
        Request::WriteMultipleCoils(address, values) => Some((*address, Values::Bits(values.to_vec()))),
        Request::WriteMultipleRegisters(address, values)
        | Request::ReadWriteMultipleRegisters(_, _, address, values) => {
            Some((*address, Values::Words(values.to_vec())))
        }
        Request::MaskWriteRegister(address, and, or) => Some((*address, Values::Words(vec![*and, *or]))),
        _ => None,
    }
}

/// Reads or writes. Exception 0x02 for an address that does not exist, 0x03 for a value that is not taken.
pub(super) fn execute(
    tables: &mut Tables,
    limits: &[Limit],
    request: &Request<'_>,
) -> Result<Response, ExceptionCode> {
    let missing = ExceptionCode::IllegalDataAddress;
    match request {
        Request::ReadCoils(address, quantity) => {
            tables.coils.read(*address, *quantity).map(Response::ReadCoils).ok_or(missing)
        }
        Request::ReadDiscreteInputs(address, quantity) => {
            tables.discretes.read(*address, *quantity).map(Response::ReadDiscreteInputs).ok_or(missing)
        }
        Request::ReadInputRegisters(address, quantity) => {
            tables.inputs.read(*address, *quantity).map(Response::ReadInputRegisters).ok_or(missing)
        }
        Request::ReadHoldingRegisters(address, quantity) => {
            tables.holdings.read(*address, *quantity).map(Response::ReadHoldingRegisters).ok_or(missing)
        }
        Request::WriteSingleCoil(address, value) => {
            coils(tables, *address, &[*value])?;
            Ok(Response::WriteSingleCoil(*address, *value))
        }
        Request::WriteSingleRegister(address, value) => {
            holdings(tables, limits, *address, &[*value])?;
            Ok(Response::WriteSingleRegister(*address, *value))
        }
        Request::WriteMultipleCoils(address, values) => {
            coils(tables, *address, values)?;
            Ok(Response::WriteMultipleCoils(*address, quantity(values.len())?))
        }
        Request::WriteMultipleRegisters(address, values) => {
            holdings(tables, limits, *address, values)?;
            Ok(Response::WriteMultipleRegisters(*address, quantity(values.len())?))
        }
        Request::MaskWriteRegister(address, and, or) => {
            // Application protocol V1.1b3, section 6.16.
            let value = tables.holdings.get(*address).ok_or(missing)? & and | or & !and;
            holdings(tables, limits, *address, &[value])?;
            Ok(Response::MaskWriteRegister(*address, *and, *or))
        }
        Request::ReadWriteMultipleRegisters(from, count, to, values) => {
            // Writes first, says section 6.17; but nothing at all where there is nothing to read.
            tables.holdings.read(*from, *count).ok_or(missing)?;
            holdings(tables, limits, *to, values)?;
            tables.holdings.read(*from, *count).map(Response::ReadWriteMultipleRegisters).ok_or(missing)
        }
        _ => Err(ExceptionCode::IllegalFunction),
    }
}

fn quantity(values: usize) -> Result<u16, ExceptionCode> {
    u16::try_from(values).or(Err(ExceptionCode::IllegalDataValue))
}

fn coils(tables: &mut Tables, address: u16, values: &[bool]) -> Result<(), ExceptionCode> {
    let exists = tables.coils.write(address, values);
    if exists { Ok(()) } else { Err(ExceptionCode::IllegalDataAddress) }
}

fn holdings(
    tables: &mut Tables,
    limits: &[Limit],
    address: u16,
    values: &[u16],
) -> Result<(), ExceptionCode> {
    let refused = |(address, value): (u16, &u16)| {
        limits.iter().any(|limit| limit.addresses.contains(&address) && !limit.values.contains(value))
    };
    if tables.holdings.read(address, quantity(values.len())?).is_none() {
        return Err(ExceptionCode::IllegalDataAddress);
    }
    if (address..=u16::MAX).zip(values).any(refused) {
        return Err(ExceptionCode::IllegalDataValue);
    }
    tables.holdings.write(address, values);
    Ok(())
}
