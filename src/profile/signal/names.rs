//! The names of a DBC file as parts of tag paths, each distinct and stable.
//!
//! One rule: what is not allowed in a path becomes `_`, and 64 characters count. Messages of one name have their identifier
//! behind it (`Same-901`), signals of one name in a message the number of their multiplexer (`Value-m0`).

use std::collections::{HashMap, HashSet};

use crate::{
    model::is_segment,
    profile::dbc::{Dbc, Message, Signal},
};

/// Names of the messages and signals of a file, by their places there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    messages: Vec<String>,
    /// Path below the device, such as `DriveStatus/Speed`.
    tags: HashMap<(usize, usize), String>,
    /// By `Message.Signal` as in the file, where that is one signal only, and with the distinct names.
    signals: HashMap<String, Option<(usize, usize)>>,
    by_message: HashMap<String, Option<usize>>,
    /// Pairs that still have one name.
    pub(crate) collisions: Vec<(String, String)>,
}

impl Names {
    pub(crate) fn new(dbc: &Dbc) -> Self {
        let mut names = Self::default();
        let mut counts: HashMap<String, usize> = HashMap::new();
        for message in &dbc.messages {
            *counts.entry(segment(&message.name)).or_default() += 1;
        }
        let mut taken: HashMap<String, String> = HashMap::new();
        for (place, message) in dbc.messages.iter().enumerate() {
            let plain = segment(&message.name);
            let is_single = counts.get(&plain) == Some(&1);
            let own = if is_single { plain } else { with(&plain, &format!("-{}", message.id.number())) };
            enter(&mut names.by_message, message.name.clone(), place);
            enter(&mut names.by_message, own.clone(), place);
            names.name_signals((place, message), &own, &mut taken);
            names.messages.push(own);
        }
        names
    }

    fn name_signals(
        &mut self,
        (place, message): (usize, &Message),
        own: &str,
        taken: &mut HashMap<String, String>,
    ) {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for signal in &message.signals {
            *counts.entry(segment(&signal.name)).or_default() += 1;
        }
        for (at, signal) in message.signals.iter().enumerate() {
            let plain = segment(&signal.name);
            let name = match page(signal).filter(|_| counts.get(&plain) != Some(&1)) {
                Some(page) => with(&plain, &format!("-m{page}")),
                None => plain,
            };
            let path = format!("{own}/{name}");
            let written = format!("{}.{}", message.name, signal.name);
            if let Some(first) = taken.insert(path.clone(), written.clone()) {
                self.collisions.push((first, written));
                continue;
            }
            for message in HashSet::from([message.name.as_str(), own]) {
                for signal in HashSet::from([signal.name.as_str(), name.as_str()]) {
                    enter(&mut self.signals, format!("{message}.{signal}"), (place, at));
                }
            }
            self.tags.insert((place, at), path);
        }
    }

    /// Path of a signal's tag below its device.
    pub(crate) fn tag(&self, signal: (usize, usize)) -> Option<&str> {
        self.tags.get(&signal).map(String::as_str)
    }

    /// A signal by `Message.Signal`; `None` also for a name that several have.
    pub(crate) fn signal(&self, name: &str) -> Option<(usize, usize)> {
        self.signals.get(name).copied().flatten()
    }

    /// A message by its name; `None` also for a name that several have.
    pub(crate) fn message(&self, name: &str) -> Option<usize> {
        self.by_message.get(name).copied().flatten()
    }

    /// The distinct name of a message.
    pub(crate) fn of_message(&self, place: usize) -> Option<&str> {
        self.messages.get(place).map(String::as_str)
    }

    /// All names of messages that are one message only, in order.
    pub(crate) fn messages(&self) -> Vec<String> {
        sorted(&self.by_message)
    }

    /// All names of signals that are one signal only, in order.
    pub(crate) fn signals(&self) -> Vec<String> {
        sorted(&self.signals)
    }
}

fn sorted<T>(names: &HashMap<String, Option<T>>) -> Vec<String> {
    let mut names =
        names.iter().filter(|(_, place)| place.is_some()).map(|(name, _)| name.clone()).collect::<Vec<_>>();
    names.sort_unstable();
    names
}

/// A name that a second one has is nobody's.
fn enter<T: PartialEq>(names: &mut HashMap<String, Option<T>>, name: String, place: T) {
    match names.get_mut(&name) {
        Some(known) if known.as_ref() != Some(&place) => *known = None,
        Some(_) => {}
        None => {
            names.insert(name, Some(place));
        }
    }
}

/// The lowest number of its multiplexer that selects it.
fn page(signal: &Signal) -> Option<u64> {
    signal.selection.as_ref()?.ranges.iter().map(|(low, _)| *low).min()
}

/// A name as one part of a path.
pub(crate) fn segment(name: &str) -> String {
    if is_segment(name) {
        return name.to_owned();
    }
    let allowed = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    let text: String =
        name.chars().map(|character| if allowed(character) { character } else { '_' }).take(64).collect();
    if text.is_empty() { "_".to_owned() } else { text }
}

/// A name with something behind it, within 64 characters.
fn with(name: &str, ending: &str) -> String {
    let room = 64_usize.saturating_sub(ending.len());
    format!("{}{ending}", name.get(..room.min(name.len())).unwrap_or(name))
}
