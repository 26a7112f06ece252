//! Where messages and signals are, by the names and identifiers that statements give.
//!
//! Owns what was left out, so that it is not told twice. Must not know what statements say.

use std::collections::{HashMap, HashSet};

/// Places of messages and signals.
#[derive(Debug, Default)]
pub(super) struct Index<'a> {
    messages: HashMap<u64, usize>,
    signals: HashMap<(u64, &'a str), Vec<usize>>,
    lost: HashSet<u64>,
    lost_signals: HashSet<(u64, &'a str)>,
}

/// What a statement is about.
#[derive(Debug)]
pub(super) enum Target<'i> {
    /// Place of the message, and those of the signals of that name in it.
    Found(usize, &'i [usize]),
    /// It was left out, which was told.
    Lost,
    NoMessage,
    NoSignal(usize),
}

impl<'a> Index<'a> {
    pub(super) fn message(&self, id: u64) -> Option<usize> {
        self.messages.get(&id).copied()
    }

    pub(super) fn add_message(&mut self, id: u64, place: usize) {
        self.messages.insert(id, place);
    }

    pub(super) fn add_signal(&mut self, id: u64, name: &'a str, place: usize) {
        self.signals.entry((id, name)).or_default().push(place);
    }

    pub(super) fn lose_message(&mut self, id: u64) {
        self.lost.insert(id);
    }

    pub(super) fn lose_signal(&mut self, id: u64, name: &'a str) {
        self.lost_signals.insert((id, name));
    }

    /// The signals of one name in a message.
    pub(super) fn signals(&self, id: u64, name: &'a str) -> &[usize] {
        self.signals.get(&(id, name)).map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn find(&self, id: u64, signal: Option<&'a str>) -> Target<'_> {
        let Some(message) = self.message(id) else {
            return if self.lost.contains(&id) { Target::Lost } else { Target::NoMessage };
        };
        let Some(name) = signal else { return Target::Found(message, &[]) };
        match self.signals(id, name) {
            [] if self.lost_signals.contains(&(id, name)) => Target::Lost,
            [] => Target::NoSignal(message),
            places => Target::Found(message, places),
        }
    }
}
