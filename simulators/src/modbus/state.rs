//! What the units hold, what reached them, and how one request is answered.
//!
//! Knows requests and tables; no sockets, no time: a delay is only told.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio_modbus::{ExceptionCode, Request, Response};

use super::tables::Tables;

/// So many writes are kept; a demo that runs for weeks forgets the oldest.
const LOG_LENGTH: usize = 100_000;

/// A write request in the order in which it reached the units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The unit identifier that the request named, whether such a unit exists or not.
    pub unit: u8,
    /// Function code: 5, 6, 15, 16 or 22.
    pub function: u8,
    /// First address, zero-based.
    pub address: u16,
    /// The values as sent.
    pub values: Values,
    /// What came of it.
    pub reply: Reply,
}

/// Values of a write as sent; a mask write (22) holds the AND mask and the OR mask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Values {
    Bits(Vec<bool>),
    Words(Vec<u16>),
}

/// How a unit dealt with a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// Carried out.
    Done,
    /// Not carried out, and an exception answered.
    Exception(ExceptionCode),
    /// Not carried out and not answered: the unit is silent.
    Swallowed,
}

/// A rule by which a unit answers an exception instead of doing what it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    code: ExceptionCode,
    function: Option<u8>,
    addresses: Option<RangeInclusive<u16>>,
}

impl Refusal {
    /// Refuses every request.
    #[must_use]
    pub fn all(code: ExceptionCode) -> Self {
        Self { code, function: None, addresses: None }
    }

    /// Only requests with this function code.
    #[must_use]
    pub fn function(self, function: u8) -> Self {
        Self { function: Some(function), ..self }
    }

    /// Only requests that touch one of these addresses.
    #[must_use]
    pub fn addresses(self, addresses: RangeInclusive<u16>) -> Self {
        Self { addresses: Some(addresses), ..self }
    }

    /// `span`: first and last address; none for a request too malformed to have any.
    fn hits(&self, function: u8, span: Option<(u16, u16)>) -> bool {
        self.function.is_none_or(|own| own == function)
            && self.addresses.as_ref().is_none_or(|own| {
                span.is_some_and(|(first, last)| first <= *own.end() && last >= *own.start())
            })
    }
}

/// One unit: its tables and how it is disturbed.
#[derive(Debug, Default)]
pub(super) struct UnitState {
    pub(super) tables: Tables,
    pub(super) silent: bool,
    pub(super) delay: Duration,
    pub(super) refusals: Vec<Refusal>,
}

impl UnitState {
    pub(super) fn new(tables: Tables) -> Self {
        Self { tables, ..Self::default() }
    }

    fn refusal(&self, function: u8, span: Option<(u16, u16)>) -> Option<ExceptionCode> {
        self.refusals.iter().find(|rule| rule.hits(function, span)).map(|rule| rule.code)
    }
}

/// An answer and how long to hold it back; `None` is silence.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) delay: Duration,
    pub(super) result: Result<Option<Response>, ExceptionCode>,
}

/// All units behind one server, and what was counted there.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) units: BTreeMap<u8, Arc<Mutex<UnitState>>>,
    /// By unit identifier and function code.
    pub(super) requests: BTreeMap<(u8, u8), u64>,
    pub(super) malformed: u64,
    pub(super) writes: VecDeque<Write>,
    pub(super) open: usize,
    pub(super) accepted: u64,
}

impl State {
    /// Counts, logs and carries out a well-formed request, in this order and at once.
    pub(super) fn answer(&mut self, unit: u8, request: &Request<'_>) -> Answer {
        let function = request.function_code().value();
        self.count(unit, function);
        let (delay, result) = match self.units.get(&unit) {
            None => (Duration::ZERO, Err(ExceptionCode::GatewayTargetDevice)),
            Some(state) => {
                let mut state = lock(state);
                let result = if state.silent {
                    Ok(None)
                } else if let Some(code) = state.refusal(function, span(request)) {
                    Err(code)
                } else {
                    execute(&mut state.tables, request).map(Some)
                };
                (state.delay, result)
            }
        };
        if let Some((address, values)) = written(request) {
            let reply = match result {
                Ok(Some(_)) => Reply::Done,
                Ok(None) => Reply::Swallowed,
                Err(code) => Reply::Exception(code),
            };
            if self.writes.len() == LOG_LENGTH {
                self.writes.pop_front();
            }
            self.writes.push_back(Write { unit, function, address, values, reply });
        }
        Answer { delay, result }
    }

    /// Counts a request that `code` speaks against, and says which exception to answer, if any.
    pub(super) fn reject(&mut self, unit: u8, function: u8, code: ExceptionCode) -> Option<ExceptionCode> {
        self.count(unit, function);
        self.malformed += u64::from(code == ExceptionCode::IllegalDataValue);
        let Some(state) = self.units.get(&unit) else {
            return Some(ExceptionCode::GatewayTargetDevice);
        };
        let state = lock(state);
        (!state.silent).then(|| state.refusal(function, None).unwrap_or(code))
    }

    fn count(&mut self, unit: u8, function: u8) {
        *self.requests.entry((unit, function)).or_default() += 1;
    }
}

/// A panic in a test's closure poisons nothing here.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// First and last address that a request touches.
fn span(request: &Request<'_>) -> Option<(u16, u16)> {
    let (address, quantity) = match request {
        Request::ReadCoils(address, quantity)
        | Request::ReadDiscreteInputs(address, quantity)
        | Request::ReadInputRegisters(address, quantity)
        | Request::ReadHoldingRegisters(address, quantity) => (*address, usize::from(*quantity)),
        Request::WriteSingleCoil(address, _)
        | Request::WriteSingleRegister(address, _)
        | Request::MaskWriteRegister(address, ..) => (*address, 1),
        Request::WriteMultipleCoils(address, values) => (*address, values.len()),
        Request::WriteMultipleRegisters(address, values) => (*address, values.len()),
        _ => return None,
    };
    let more = u16::try_from(quantity.saturating_sub(1)).unwrap_or(u16::MAX);
    Some((address, address.saturating_add(more)))
}

/// Address and values, if the request is a write.
fn written(request: &Request<'_>) -> Option<(u16, Values)> {
    match request {
        Request::WriteSingleCoil(address, value) => Some((*address, Values::Bits(vec![*value]))),
        Request::WriteSingleRegister(address, value) => Some((*address, Values::Words(vec![*value]))),
        Request::WriteMultipleCoils(address, values) => Some((*address, Values::Bits(values.to_vec()))),
        Request::WriteMultipleRegisters(address, values) => Some((*address, Values::Words(values.to_vec()))),
        Request::MaskWriteRegister(address, and, or) => Some((*address, Values::Words(vec![*and, *or]))),
        _ => None,
    }
}

/// Reads or writes; exception 0x02 for an address that does not exist.
fn execute(tables: &mut Tables, request: &Request<'_>) -> Result<Response, ExceptionCode> {
    let missing = ExceptionCode::IllegalDataAddress;
    let done = |exists: bool, response| if exists { Ok(response) } else { Err(missing) };
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
            done(tables.coils.write(*address, &[*value]), Response::WriteSingleCoil(*address, *value))
        }
        Request::WriteSingleRegister(address, value) => {
            done(tables.holdings.write(*address, &[*value]), Response::WriteSingleRegister(*address, *value))
        }
        Request::WriteMultipleCoils(address, values) => {
            let quantity = u16::try_from(values.len()).or(Err(ExceptionCode::IllegalDataValue))?;
            done(tables.coils.write(*address, values), Response::WriteMultipleCoils(*address, quantity))
        }
        Request::WriteMultipleRegisters(address, values) => {
            let quantity = u16::try_from(values.len()).or(Err(ExceptionCode::IllegalDataValue))?;
            done(
                tables.holdings.write(*address, values),
                Response::WriteMultipleRegisters(*address, quantity),
            )
        }
        Request::MaskWriteRegister(address, and, or) => {
            // Application protocol V1.1b3, section 6.16.
            let value = tables.holdings.get(*address).ok_or(missing)? & and | or & !and;
            done(tables.holdings.write(*address, &[value]), Response::MaskWriteRegister(*address, *and, *or))
        }
        _ => Err(ExceptionCode::IllegalFunction),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail by a panic")]
#[path = "state_tests.rs"]
mod tests;
