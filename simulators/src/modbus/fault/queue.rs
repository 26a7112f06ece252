//! The faults that are to come, and a record of what went over the stream.
//!
//! Shared between a test and the stream that it disturbs. Knows no sockets.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::watch;

use super::{Exchange, Fault, Step};
use crate::{dice::Dice, modbus::state::lock};

/// So many frames each way are kept; a simulator that runs for weeks forgets the oldest.
const LOG_LENGTH: usize = 100_000;

/// Sets faults, and tells what was seen. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    inner: Arc<Mutex<Inner>>,
    changes: Arc<watch::Sender<()>>,
}

#[derive(Debug, Default)]
struct Inner {
    next: VecDeque<Fault>,
    always: Option<(Fault, Dice)>,
    requests: VecDeque<Vec<u8>>,
    sent: VecDeque<Vec<u8>>,
}

impl Faults {
    /// None, for the time being.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Disturbs the next answer that no other fault waits for, on whichever connection it comes.
    pub fn next(&self, fault: Fault) {
        self.change(|inner| inner.next.push_back(fault));
    }

    /// Disturbs every answer that [`Faults::next`] says nothing about, from now on.
    pub fn always(&self, fault: Option<Fault>) {
        self.change(|inner| {
            inner.always = fault.map(|fault| {
                let dice = Dice::new(seed(&fault).unwrap_or(1));
                (fault, dice)
            });
        });
    }

    /// What came from clients: whole frames, and as it came what could not be told to be any.
    #[must_use]
    pub fn requests(&self) -> Vec<Vec<u8>> {
        lock(&self.inner).requests.iter().cloned().collect()
    }

    /// What went to clients, by segments, as they were written.
    #[must_use]
    pub fn sent(&self) -> Vec<Vec<u8>> {
        lock(&self.inner).sent.iter().cloned().collect()
    }

    /// Waits until `ready` holds: asked now and after every frame.
    pub async fn wait_for(&self, mut ready: impl FnMut(&Self) -> bool) {
        let mut changes = self.changes.subscribe();
        while !ready(self) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    pub(in crate::modbus) fn asked(&self, bytes: &[u8]) {
        self.change(|inner| record(&mut inner.requests, bytes));
    }

    pub(in crate::modbus) fn told(&self, bytes: &[u8]) {
        self.change(|inner| record(&mut inner.sent, bytes));
    }

    /// The steps that the answer becomes.
    pub(in crate::modbus) fn play(&self, exchange: &Exchange<'_>) -> Vec<Step> {
        let mut inner = lock(&self.inner);
        let plain = vec![Step::Send(exchange.answer.to_vec())];
        if let Some(fault) = inner.next.pop_front() {
            let mut dice = Dice::new(seed(&fault).unwrap_or(1));
            return fault.apply(exchange, &mut |least, most| between(&mut dice, least, most), plain);
        }
        match &mut inner.always {
            Some((fault, dice)) => {
                fault.apply(exchange, &mut |least, most| between(dice, least, most), plain)
            }
            None => plain,
        }
    }

    fn change<R>(&self, change: impl FnOnce(&mut Inner) -> R) -> R {
        let result = change(&mut lock(&self.inner));
        self.changes.send_replace(());
        result
    }
}

fn record(log: &mut VecDeque<Vec<u8>>, bytes: &[u8]) {
    if log.len() == LOG_LENGTH {
        log.pop_front();
    }
    log.push_back(bytes.to_vec());
}

fn between(dice: &mut Dice, least: Duration, most: Duration) -> Duration {
    least + most.saturating_sub(least).mul_f64(dice.uniform())
}

fn seed(fault: &Fault) -> Option<u64> {
    match fault {
        Fault::DelayRandomly { seed, .. } => Some(*seed),
        Fault::All(faults) => faults.iter().find_map(seed),
        _ => None,
    }
}
