//! The test's side of the server: looks into the units, sets and disturbs them, and waits for what reaches them.
//!
//! Nothing here blocks on the network; all but the waiting can be called from code that is not async.

use std::{
    ops::RangeInclusive,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use tokio::sync::watch;
use tokio_modbus::{ExceptionCode, Request};

use super::{
    execute::Limit,
    identity::Identity,
    pdu,
    state::{Medium, Refusal, State, UnitState, Write, lock},
    tables::Tables,
};

/// The PDU of an answer, if there is one, and how long to hold it back.
#[derive(Debug)]
pub(super) struct Reaction {
    pub(super) delay: Duration,
    pub(super) pdu: Option<Vec<u8>>,
}

/// All units behind a server, with its counts and its log of writes. Cheap to clone, outlives the server.
#[derive(Debug, Clone)]
pub struct Handle {
    state: Arc<Mutex<State>>,
    /// Told after every change, outside of all locks.
    changes: Arc<watch::Sender<()>>,
}

impl Handle {
    /// Units by unit identifier, before any server runs.
    #[must_use]
    pub fn new(units: impl IntoIterator<Item = (u8, Tables)>) -> Self {
        let units = units
            .into_iter()
            .map(|(id, tables)| (id, Arc::new(Mutex::new(UnitState::new(tables)))))
            .collect();
        let state = State { units, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)), changes: Arc::new(watch::Sender::new(())) }
    }

    /// The unit with this identifier, if there is one.
    #[must_use]
    pub fn unit(&self, id: u8) -> Option<Unit> {
        let state = Arc::clone(lock(&self.state).units.get(&id)?);
        Some(Unit { id, state, handle: self.clone() })
    }

    /// Requests for this unit identifier with this function code, answered or not, unknown units included.
    #[must_use]
    pub fn count(&self, unit: u8, function: u8) -> u64 {
        lock(&self.state).requests.get(&(unit, function)).copied().unwrap_or_default()
    }

    /// All requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        lock(&self.state).requests.values().sum()
    }

    /// Read requests: function codes 1 to 4.
    #[must_use]
    pub fn reads(&self) -> u64 {
        let state = lock(&self.state);
        state
            .requests
            .iter()
            .filter(|((_, function), _)| matches!(function, 1..=4))
            .map(|(_, count)| count)
            .sum()
    }

    /// Requests of a wrong length, quantity, byte count or coil value. They are in no log of writes.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        lock(&self.state).malformed
    }

    /// The write requests in wire order: all of them, or the last 100 000.
    #[must_use]
    pub fn writes(&self) -> Vec<Write> {
        lock(&self.state).writes.iter().cloned().collect()
    }

    /// Connections that are open now. One whose client left while an answer was held back counts until then.
    #[must_use]
    pub fn open(&self) -> usize {
        lock(&self.state).open
    }

    /// Connections accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        lock(&self.state).accepted
    }

    /// Waits until `ready` holds: asked now and after every request, connection, and change of a table.
    pub async fn wait_for(&self, mut ready: impl FnMut(&Self) -> bool) {
        let mut changes = self.changes.subscribe();
        while !ready(self) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Sends every answer over a network so long after its request arrived, as a long way would. Unlike a unit's
    /// delay it holds nothing up: requests that arrive together are answered together. Lines have their pace instead.
    pub fn latency(&self, latency: Duration) {
        self.change(|state| state.latency = latency);
    }

    /// Whether unit 0 is all units at once over TCP and TLS too, answered by none; over RTU it always is.
    pub fn broadcasts(&self, broadcasts: bool) {
        self.change(|state| state.broadcasts = broadcasts);
    }

    /// Takes the PDU of a request, and lets the unit do what it asks.
    pub(super) fn serve(&self, medium: Medium, unit: u8, request: &[u8]) -> Reaction {
        let silence = Reaction { delay: Duration::ZERO, pdu: None };
        let Some((&function, body)) = request.split_first() else { return silence };
        let checked = pdu::check(function, body).and_then(|()| {
            let request = Request::try_from(bytes::Bytes::copy_from_slice(request));
            request.or(Err(ExceptionCode::IllegalDataValue))
        });
        let request = match checked {
            Ok(request) => request,
            Err(code) => {
                let code = self.change(|state| state.reject(medium, unit, function, code));
                return Reaction { pdu: code.map(|code| pdu::encode(function, &Err(code))), ..silence };
            }
        };
        let answer = self.change(|state| state.answer(medium, unit, &request));
        if let (Some(after), Some(unit)) = (answer.later, self.unit(unit)) {
            unit.carry_out(request, after);
        }
        let pdu = answer.result.transpose().map(|result| pdu::encode(function, &result));
        Reaction { delay: answer.delay, pdu }
    }

    pub(super) fn network_latency(&self) -> Duration {
        lock(&self.state).latency
    }

    pub(super) fn connected(&self) {
        self.change(|state| {
            state.open += 1;
            state.accepted += 1;
        });
    }

    pub(super) fn disconnected(&self) {
        self.change(|state| state.open = state.open.saturating_sub(1));
    }

    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut lock(&self.state));
        self.changes.send_replace(());
        result
    }
}

/// One unit. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Unit {
    id: u8,
    state: Arc<Mutex<UnitState>>,
    handle: Handle,
}

impl Unit {
    /// The unit identifier.
    #[must_use]
    pub fn id(&self) -> u8 {
        self.id
    }

    /// Reads and changes the tables while no request is served. `change` must not use a handle or a unit.
    pub fn with<R>(&self, change: impl FnOnce(&mut Tables) -> R) -> R {
        self.change(|state| change(&mut state.tables))
    }

    /// See [`Tables::set_coils`].
    pub fn set_coils(&self, address: u16, values: &[bool]) {
        self.with(|tables| tables.set_coils(address, values));
    }

    /// See [`Tables::set_discretes`].
    pub fn set_discretes(&self, address: u16, values: &[bool]) {
        self.with(|tables| tables.set_discretes(address, values));
    }

    /// See [`Tables::set_inputs`].
    pub fn set_inputs(&self, address: u16, values: &[u16]) {
        self.with(|tables| tables.set_inputs(address, values));
    }

    /// See [`Tables::set_holdings`].
    pub fn set_holdings(&self, address: u16, values: &[u16]) {
        self.with(|tables| tables.set_holdings(address, values));
    }

    /// See [`Tables::coil`].
    #[must_use]
    pub fn coil(&self, address: u16) -> Option<bool> {
        lock(&self.state).tables.coil(address)
    }

    /// See [`Tables::discrete`].
    #[must_use]
    pub fn discrete(&self, address: u16) -> Option<bool> {
        lock(&self.state).tables.discrete(address)
    }

    /// See [`Tables::input`].
    #[must_use]
    pub fn input(&self, address: u16) -> Option<u16> {
        lock(&self.state).tables.input(address)
    }

    /// See [`Tables::holding`].
    #[must_use]
    pub fn holding(&self, address: u16) -> Option<u16> {
        lock(&self.state).tables.holding(address)
    }

    /// While silent the unit does not carry out requests nor answer them; others on the connection are served.
    pub fn silence(&self, silent: bool) {
        self.change(|state| state.silent = silent);
    }

    /// Holds every later answer back for so long. A request is carried out when it arrives all the same, and what
    /// follows on its connection waits behind it, as on a real serial server.
    pub fn delay(&self, delay: Duration) {
        self.change(|state| state.delay = delay);
    }

    /// Adds a rule; of several that fit the oldest counts.
    pub fn refuse(&self, rule: Refusal) {
        self.change(|state| state.refusals.push(rule));
    }

    /// Takes all rules of refusal back.
    pub fn accept(&self) {
        self.change(|state| state.refusals.clear());
    }

    /// The unit does not have this function: it answers 0x01 to it.
    pub fn without(&self, function: u8) {
        self.without_as(function, ExceptionCode::IllegalFunction);
    }

    /// The unit does not have this function, and says so by another exception, as some devices do by 0x02.
    pub fn without_as(&self, function: u8, code: ExceptionCode) {
        self.change(|state| state.without.insert(function, code));
    }

    /// The holding registers of these addresses take these values only; exception 0x03 answers others.
    pub fn limit(&self, addresses: RangeInclusive<u16>, values: RangeInclusive<u16>) {
        self.change(|state| state.limits.push(Limit { addresses, values }));
    }

    /// Answers 0x06 (busy) to the next `requests`, which are not carried out.
    pub fn busy(&self, requests: u64) {
        self.change(|state| state.busy = requests);
    }

    /// Answers 0x05 (acknowledge) to the next `writes`, each of which is carried out `after` that.
    pub fn acknowledge(&self, writes: u64, after: Duration) {
        self.change(|state| state.acknowledge = (writes, after));
    }

    /// What the unit says of itself (function 43); without it the function does not exist.
    pub fn identify(&self, identity: Option<Identity>) {
        self.change(|state| state.identity = identity);
    }

    /// Requests for this unit with this function code, answered or not.
    #[must_use]
    pub fn count(&self, function: u8) -> u64 {
        self.handle.count(self.id, function)
    }

    /// All requests for this unit.
    #[must_use]
    pub fn requests(&self) -> u64 {
        lock(&self.handle.state)
            .requests
            .range((self.id, 0)..=(self.id, u8::MAX))
            .map(|(_, count)| count)
            .sum()
    }

    /// Waits until `ready` holds; see [`Handle::wait_for`].
    pub async fn wait_for(&self, mut ready: impl FnMut(&Self) -> bool) {
        self.handle.wait_for(|_| ready(self)).await;
    }

    /// By a thread, since a line's requests come from outside of every runtime.
    fn carry_out(self, request: Request<'static>, after: Duration) {
        let task = move || {
            thread::sleep(after);
            if let Err(code) = self.change(|state| state.execute(&request)) {
                tracing::debug!(unit = self.id, %code, "an acknowledged write could not be carried out");
            }
        };
        if let Err(error) = thread::Builder::new().name("acknowledged".to_owned()).spawn(task) {
            tracing::warn!(%error, "an acknowledged write is not carried out");
        }
    }

    fn change<R>(&self, change: impl FnOnce(&mut UnitState) -> R) -> R {
        let result = change(&mut lock(&self.state));
        self.handle.changes.send_replace(());
        result
    }
}
