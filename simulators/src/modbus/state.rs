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

use super::{
    execute::{Limit, execute, span, written},
    identity::Identity,
    tables::Tables,
};

/// So many writes are kept; a demo that runs for weeks forgets the oldest.
const LOG_LENGTH: usize = 100_000;

/// A write request in the order in which it reached the units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The unit identifier that the request named, whether such a unit exists or not.
    pub unit: u8,
    /// Function code: 5, 6, 15, 16, 22 or 23.
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
    /// A broadcast: carried out by every unit that can and is not silent, answered by none.
    Broadcast,
    /// Not carried out, and an exception answered.
    Exception(ExceptionCode),
    /// Not carried out and not answered: the unit is silent, or there is none on that serial line.
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
    /// Functions that it does not have, and what it says to them.
    pub(super) without: BTreeMap<u8, ExceptionCode>,
    pub(super) limits: Vec<Limit>,
    /// Requests that it is still too busy for.
    pub(super) busy: u64,
    /// Writes that it will only acknowledge, and how long after that it carries them out.
    pub(super) acknowledge: (u64, Duration),
    pub(super) identity: Option<Identity>,
}

impl UnitState {
    pub(super) fn new(tables: Tables) -> Self {
        Self { tables, ..Self::default() }
    }

    fn refusal(&self, function: u8, span: Option<(u16, u16)>) -> Option<ExceptionCode> {
        let without = self.without.get(&function).copied();
        without.or_else(|| self.refusals.iter().find(|rule| rule.hits(function, span)).map(|rule| rule.code))
    }

    /// What it does with a request, and when later it carries that out, if it does not at once.
    fn take(&mut self, request: &Request<'_>) -> (Result<Option<Response>, ExceptionCode>, Option<Duration>) {
        if self.silent {
            return (Ok(None), None);
        }
        if let Some(code) = self.refusal(request.function_code().value(), span(request)) {
            return (Err(code), None);
        }
        if self.busy > 0 {
            self.busy -= 1;
            return (Err(ExceptionCode::ServerDeviceBusy), None);
        }
        let (left, after) = &mut self.acknowledge;
        if *left > 0 && written(request).is_some() {
            *left -= 1;
            return (Err(ExceptionCode::Acknowledge), Some(*after));
        }
        (self.execute(request).map(Some), None)
    }

    pub(super) fn execute(&mut self, request: &Request<'_>) -> Result<Response, ExceptionCode> {
        if let Request::ReadDeviceIdentification(code, object) = request {
            let identity = self.identity.as_ref().ok_or(ExceptionCode::IllegalFunction)?;
            return identity.answer(*code, *object);
        }
        execute(&mut self.tables, &self.limits, request)
    }
}

/// What carries the requests: a unit that does not exist is a gateway's matter, or nobody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Medium {
    Network,
    Serial,
}

/// An answer and how long to hold it back; `None` is silence.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) delay: Duration,
    pub(super) result: Result<Option<Response>, ExceptionCode>,
    /// The unit is to carry the request out so much later.
    pub(super) later: Option<Duration>,
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
    /// Of every answer over a network.
    pub(super) latency: Duration,
    /// Whether unit 0 means all units over a network as well.
    pub(super) broadcasts: bool,
}

impl State {
    /// Counts, logs and carries out a well-formed request, in this order and at once.
    pub(super) fn answer(&mut self, medium: Medium, unit: u8, request: &Request<'_>) -> Answer {
        let function = request.function_code().value();
        self.count(unit, function);
        let nobody =
            if medium == Medium::Serial { Ok(None) } else { Err(ExceptionCode::GatewayTargetDevice) };
        let mut answer = Answer { delay: Duration::ZERO, result: nobody, later: None };
        let broadcast = self.is_broadcast(medium, unit);
        if broadcast {
            answer.result = Ok(None);
            self.broadcast(request);
        } else if let Some(state) = self.units.get(&unit) {
            let mut state = lock(state);
            (answer.result, answer.later) = state.take(request);
            answer.delay = state.delay;
        }
        if let Some((address, values)) = written(request) {
            let reply = match answer.result {
                Ok(Some(_)) => Reply::Done,
                Ok(None) if broadcast => Reply::Broadcast,
                Ok(None) => Reply::Swallowed,
                Err(code) => Reply::Exception(code),
            };
            if self.writes.len() == LOG_LENGTH {
                self.writes.pop_front();
            }
            self.writes.push_back(Write { unit, function, address, values, reply });
        }
        answer
    }

    /// Counts a request that `code` speaks against, and says which exception to answer, if any.
    pub(super) fn reject(
        &mut self,
        medium: Medium,
        unit: u8,
        function: u8,
        code: ExceptionCode,
    ) -> Option<ExceptionCode> {
        self.count(unit, function);
        self.malformed += u64::from(code == ExceptionCode::IllegalDataValue);
        if self.is_broadcast(medium, unit) {
            return None;
        }
        let Some(state) = self.units.get(&unit) else {
            return (medium == Medium::Network).then_some(ExceptionCode::GatewayTargetDevice);
        };
        let state = lock(state);
        (!state.silent).then(|| state.refusal(function, None).unwrap_or(code))
    }

    /// Modbus over serial line V1.02, section 2.1: a write, taken by all and answered by none.
    fn broadcast(&self, request: &Request<'_>) {
        if written(request).is_some() {
            for state in self.units.values() {
                // A unit that cannot has no way to say so.
                let _taken = lock(state).take(request);
            }
        }
    }

    fn is_broadcast(&self, medium: Medium, unit: u8) -> bool {
        unit == 0 && (medium == Medium::Serial || self.broadcasts)
    }

    fn count(&mut self, unit: u8, function: u8) {
        *self.requests.entry((unit, function)).or_default() += 1;
    }
}

/// A panic in a test's closure poisons nothing here.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail by a panic")]
#[path = "state_tests.rs"]
mod tests;
