//! The test's side of the server: looks into the units, sets and disturbs them, and waits for what reaches them.
//!
//! Nothing here blocks on the network; all but the waiting can be called from code that is not async.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::watch;
use tokio_modbus::{ExceptionCode, Request};

use super::{
    state::{Answer, Refusal, State, UnitState, Write, lock},
    tables::Tables,
};

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

    pub(super) fn answer(&self, unit: u8, request: &Request<'_>) -> Answer {
        self.change(|state| state.answer(unit, request))
    }

    pub(super) fn reject(&self, unit: u8, function: u8, code: ExceptionCode) -> Option<ExceptionCode> {
        self.change(|state| state.reject(unit, function, code))
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

    fn change<R>(&self, change: impl FnOnce(&mut UnitState) -> R) -> R {
        let result = change(&mut lock(&self.state));
        self.handle.changes.send_replace(());
        result
    }
}
