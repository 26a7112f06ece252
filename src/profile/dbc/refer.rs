//! Statements about messages and signals: labels, comments, number types, ranges of multiplexers.
//!
//! Owns to which of them a statement applies. Must not know syntax.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    Notes, Number,
    attribute::Attributes,
    build::{Choice, Draft},
    index::{Index, Target},
    read::{Entry, Labels, Pairs, unescape},
};

/// Most bytes of labels and comments that one file can have: signals of one name share them, which multiplies them.
const MOST_TEXT: usize = 64 << 20;
/// Bytes that a label takes beside its text.
const LABEL: usize = 24;
/// Bytes that a range takes, with its share of what holds it.
const RANGE: usize = 64;
const TAKEN: &str = "there is one already";
const TOO_MUCH: &str = "the labels and comments of the file are too long on the whole";

/// Labels, and how many bytes they take.
#[derive(Debug, Default)]
struct Table {
    labels: Vec<(i64, Arc<str>)>,
    size: usize,
}

/// Applies statements to the messages that they are about.
#[derive(Debug)]
pub(super) struct Reference<'d, 'a> {
    index: &'d Index<'a>,
    drafts: &'d mut [Draft],
    notes: &'d mut Notes,
    tables: HashMap<&'a str, Table>,
    text_left: usize,
}

impl<'d, 'a> Reference<'d, 'a> {
    pub(super) fn new(index: &'d Index<'a>, drafts: &'d mut [Draft], notes: &'d mut Notes) -> Self {
        Self { index, drafts, notes, tables: HashMap::new(), text_left: MOST_TEXT }
    }

    pub(super) fn apply(mut self, entries: Vec<(usize, Entry<'a>)>) {
        let mut attributes = Attributes::default();
        let mut others = Vec::new();
        for (line, entry) in entries {
            match entry {
                Entry::Table { name, labels } => self.table(line, name, labels),
                Entry::Definition { name, words } => attributes.define(name, words),
                Entry::Default { name, value } => attributes.set_default(line, name, value),
                other => others.push((line, other)),
            }
        }
        for (line, entry) in others {
            match entry {
                Entry::Comment { id, signal, text } => self.comment(line, id, signal, text),
                Entry::Labels { id, signal, labels } => self.labels(line, id, signal, labels),
                Entry::Number { id, signal, float_bits } => self.number(line, id, signal, float_bits),
                Entry::Selection { id, signal, by, ranges } => self.selection(line, id, signal, by, ranges),
                Entry::Attribute { name, of, value } => {
                    attributes.set(line, (name, of, value), self.index, self.drafts, self.notes);
                }
                _ => {}
            }
        }
        attributes.apply(self.drafts, self.notes);
    }

    fn table(&mut self, line: usize, name: &'a str, labels: Pairs) {
        if self.tables.contains_key(name) {
            let text = format!("value table {name} is there already; this one is left out");
            return self.notes.add(line, text);
        }
        self.tables.insert(name, unique(line, name, labels, self.notes));
    }

    fn comment(&mut self, line: usize, id: u64, signal: Option<&'a str>, text: &str) {
        let Some((draft, places)) = found(self.index, self.drafts, self.notes, line, "comment", id, signal)
        else {
            return;
        };
        if signal.is_none() {
            let name = draft.message.name.clone();
            let taken = put_comment(&mut draft.message.comment, text, &mut self.text_left);
            return note(self.notes, line, taken, &format!("comment on {name}"));
        }
        for place in places {
            let Some(part) = draft.parts.get_mut(*place) else { continue };
            let taken = put_comment(&mut part.signal.comment, text, &mut self.text_left);
            if taken.is_err() {
                let of = format!("comment on {}.{}", draft.message.name, part.signal.name);
                return note(self.notes, line, taken, &of);
            }
        }
    }

    fn labels(&mut self, line: usize, id: u64, signal: &'a str, labels: Labels<'a>) {
        let found = found(self.index, self.drafts, self.notes, line, "labels", id, Some(signal));
        let Some((draft, places)) = found else { return };
        let of = format!("{}.{signal}", draft.message.name);
        let own;
        let labels = match labels {
            Labels::Own(labels) => {
                own = unique(line, &of, labels, self.notes);
                &own
            }
            Labels::Of(table) => {
                let Some(labels) = self.tables.get(table) else {
                    let text = format!("labels of {of} are of value table {table}, which does not exist");
                    return self.notes.add(line, text);
                };
                labels
            }
        };
        for place in places {
            let Some(part) = draft.parts.get_mut(*place) else { continue };
            if !part.signal.labels.is_empty() {
                return note(self.notes, line, Err(TAKEN), &format!("labels of {of}"));
            }
            let Some(left) = self.text_left.checked_sub(labels.size) else {
                return note(self.notes, line, Err(TOO_MUCH), &format!("labels of {of}"));
            };
            self.text_left = left;
            part.signal.labels.clone_from(&labels.labels);
        }
    }

    fn number(&mut self, line: usize, id: u64, signal: &'a str, float_bits: Option<u8>) {
        let found = found(self.index, self.drafts, self.notes, line, "number type", id, Some(signal));
        let Some((draft, places)) = found else { return };
        for place in places {
            let Some(part) = draft.parts.get_mut(*place) else { continue };
            let length = part.signal.place.length();
            let problem = match float_bits {
                Some(0) => continue,
                Some(bits) if bits == length => {
                    part.signal.number = Number::Float;
                    continue;
                }
                Some(bits) => format!("is a float of {bits} bits in a place of {length}"),
                None => "has a number type that cannot be read, allowed are 0, 1 and 2".to_owned(),
            };
            if !part.is_out {
                part.is_out = true;
                let text = format!("signal {}.{signal} {problem}; it is left out", draft.message.name);
                self.notes.add(line, text);
            }
        }
    }

    fn selection(&mut self, line: usize, id: u64, signal: &'a str, by: &'a str, mut ranges: Vec<(u64, u64)>) {
        let found = found(self.index, self.drafts, self.notes, line, "multiplexer ranges", id, Some(signal));
        let Some((draft, places)) = found else { return };
        let of = format!("{}.{signal}", draft.message.name);
        let multiplexer = match self.index.find(id, Some(by)) {
            Target::Found(_, [multiplexer, ..]) => *multiplexer,
            Target::Lost => {
                for place in places {
                    if let Some(part) = draft.parts.get_mut(*place) {
                        part.is_out = true;
                    }
                }
                let text = format!("signal {of} is selected by {by}, which is left out; so is it");
                return self.notes.add(line, text);
            }
            _ => {
                let text = format!("signal {of} is selected by {by}, which its message does not have");
                return self.notes.add(line, text);
            }
        };
        for (from, to) in &mut ranges {
            if from > to {
                let text =
                    format!("signal {of} is selected by {by} from {from} to {to}; read as {to} to {from}");
                self.notes.add(line, text);
                std::mem::swap(from, to);
            }
        }
        let is_one = places.len() == 1;
        for place in places {
            let Some(part) = draft.parts.get_mut(*place) else { continue };
            // Of signals of one name, each has the ranges with the number of its mark.
            if !is_one && !part.is_within(&ranges) {
                continue;
            }
            let Some(left) = self.text_left.checked_sub(ranges.len() * RANGE) else {
                return note(self.notes, line, Err(TOO_MUCH), &format!("multiplexer ranges of {of}"));
            };
            self.text_left = left;
            part.choices.push(Choice { line, by: multiplexer, ranges: ranges.clone() });
        }
    }
}

/// The message that a statement is about, and the places of the signals.
fn found<'s, 'a>(
    index: &'s Index<'a>,
    drafts: &'s mut [Draft],
    notes: &mut Notes,
    line: usize,
    what: &str,
    id: u64,
    signal: Option<&'a str>,
) -> Option<(&'s mut Draft, &'s [usize])> {
    match index.find(id, signal) {
        Target::Found(message, places) => Some((drafts.get_mut(message)?, places)),
        Target::Lost => None,
        Target::NoMessage => {
            notes.add(line, format!("{what}: there is no message {id}"));
            None
        }
        Target::NoSignal(message) => {
            let name = drafts.get(message).map(|draft| draft.message.name.as_str()).unwrap_or_default();
            notes.add(line, format!("{what}: message {name} has no signal {}", signal.unwrap_or_default()));
            None
        }
    }
}

/// Why labels or a comment are not taken.
type Refusal = &'static str;

fn put_comment(comment: &mut String, text: &str, text_left: &mut usize) -> Result<(), Refusal> {
    if !comment.is_empty() {
        return Err(TAKEN);
    }
    *text_left = text_left.checked_sub(text.len()).ok_or(TOO_MUCH)?;
    *comment = unescape(text);
    Ok(())
}

fn note(notes: &mut Notes, line: usize, taken: Result<(), Refusal>, what: &str) {
    if let Err(refusal) = taken {
        notes.add(line, format!("{what}: {refusal}; left out"));
    }
}

/// One label for each number: the first.
fn unique(line: usize, of: &str, labels: Pairs, notes: &mut Notes) -> Table {
    let mut numbers = HashSet::new();
    let mut table = Table::default();
    for (number, label) in labels {
        if numbers.insert(number) {
            table.size += label.len() + LABEL;
            table.labels.push((number, Arc::from(label)));
        } else {
            notes.add(line, format!("labels of {of} have a second one for {number}; it is left out"));
        }
    }
    table
}
