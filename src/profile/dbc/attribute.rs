//! Attributes of files, messages and signals.
//!
//! Owns which attributes mean something here, and what. Their names and words are those of Vector's tools. Must not know
//! syntax.

use std::{collections::HashMap, time::Duration};

use can_dbc::AttributeValue;

use super::{
    Notes,
    build::{Draft, Part},
    index::{Index, Target},
};

/// An attribute that means something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Attribute {
    /// Milliseconds between two frames of a message, 0 for none.
    Cycle,
    /// Kind of the frames of a message.
    Format,
    /// Kind of the bus.
    Bus,
    /// Protocol of the bus.
    Protocol,
    /// Raw number of a signal before any is sent.
    Initial,
    /// Suspect parameter number of J1939.
    Spn,
    /// Names that are longer than the 32 characters of the format.
    MessageName,
    SignalName,
    NodeName,
}

/// What an attribute belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Owner<'a> {
    File,
    Node(&'a str),
    Message(u64),
    Signal(u64, &'a str),
}

/// Words of `VFrameFormat` where the file does not enumerate them, by their number.
const FORMATS: [(usize, &str); 5] =
    [(0, "StandardCAN"), (1, "ExtendedCAN"), (3, "J1939PG"), (14, "StandardCAN_FD"), (15, "ExtendedCAN_FD")];

impl Attribute {
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "GenMsgCycleTime" => Self::Cycle,
            "VFrameFormat" => Self::Format,
            "BusType" => Self::Bus,
            "ProtocolType" => Self::Protocol,
            "GenSigStartValue" => Self::Initial,
            "SPN" => Self::Spn,
            "SystemMessageLongSymbol" => Self::MessageName,
            "SystemSignalLongSymbol" => Self::SignalName,
            "SystemNodeLongSymbol" => Self::NodeName,
            _ => return None,
        })
    }
}

/// The attributes of a file.
#[derive(Debug, Default)]
pub(super) struct Attributes<'a> {
    /// Words of `VFrameFormat`.
    formats: Option<Vec<String>>,
    defaults: HashMap<Attribute, (usize, AttributeValue)>,
    file: HashMap<Attribute, AttributeValue>,
    /// By the place of the message.
    messages: HashMap<(Attribute, usize), (usize, AttributeValue)>,
    nodes: HashMap<&'a str, AttributeValue>,
}

impl<'a> Attributes<'a> {
    /// Words that the values of an attribute stand for.
    pub(super) fn define(&mut self, attribute: Attribute, words: Vec<String>) {
        if attribute == Attribute::Format {
            self.formats.get_or_insert(words);
        }
    }

    pub(super) fn set_default(&mut self, line: usize, attribute: Attribute, value: AttributeValue) {
        self.defaults.entry(attribute).or_insert((line, value));
    }

    /// Takes a value. Those of signals apply at once, all others with [`apply`](Self::apply).
    pub(super) fn set(
        &mut self,
        line: usize,
        (attribute, owner, value): (Attribute, Owner<'a>, AttributeValue),
        index: &Index<'a>,
        drafts: &mut [Draft],
        notes: &mut Notes,
    ) {
        let (id, signal) = match owner {
            Owner::File => {
                self.file.entry(attribute).or_insert(value);
                return;
            }
            Owner::Node(node) => {
                if attribute == Attribute::NodeName {
                    self.nodes.entry(node).or_insert(value);
                }
                return;
            }
            Owner::Message(id) => (id, None),
            Owner::Signal(id, signal) => (id, Some(signal)),
        };
        let (place, signals) = match index.find(id, signal) {
            Target::Found(place, signals) => (place, signals),
            Target::Lost => return,
            Target::NoMessage => return notes.add(line, format!("attribute: there is no message {id}")),
            Target::NoSignal(_) => {
                let signal = signal.unwrap_or_default();
                return notes.add(line, format!("attribute: message {id} has no signal {signal}"));
            }
        };
        if signal.is_none() {
            self.messages.entry((attribute, place)).or_insert((line, value));
            return;
        }
        let Some(draft) = drafts.get_mut(place) else { return };
        for part in signals {
            let Some(part) = draft.parts.get_mut(*part) else { continue };
            if let Err(problem) = set_signal(part, attribute, &value) {
                let name = &part.signal.name;
                return notes.add(line, format!("signal {}.{name} has {problem}", draft.message.name));
            }
        }
    }

    /// Puts the values into the messages.
    pub(super) fn apply(&self, drafts: &mut [Draft], notes: &mut Notes) {
        for (place, draft) in drafts.iter_mut().enumerate() {
            if let Some((line, value)) = self.message(Attribute::Cycle, place) {
                match cycle(value) {
                    Some(cycle) => draft.message.cycle = (!cycle.is_zero()).then_some(cycle),
                    None => notes.add(
                        *line,
                        format!(
                            "message {} has a cycle that is no time; it has none now",
                            draft.message.name
                        ),
                    ),
                }
            }
            self.apply_format(place, draft, notes);
            if let Some((_, value)) = self.messages.get(&(Attribute::MessageName, place)) {
                draft.long = name(value);
            }
            let sender = draft.message.sender.as_deref();
            if let Some(long) = sender.and_then(|sender| self.nodes.get(sender)).and_then(name) {
                draft.message.sender = Some(long);
            }
        }
    }

    /// The value of a message, or else the default.
    fn message(&self, attribute: Attribute, place: usize) -> Option<&(usize, AttributeValue)> {
        self.messages.get(&(attribute, place)).or_else(|| self.defaults.get(&attribute))
    }

    /// The word that the file has for itself, or by default.
    fn word(&self, attribute: Attribute) -> Option<&str> {
        let value =
            self.file.get(&attribute).or_else(|| self.defaults.get(&attribute).map(|(_, value)| value))?;
        if let AttributeValue::String(word) = value { Some(word) } else { None }
    }

    fn apply_format(&self, place: usize, draft: &mut Draft, notes: &mut Notes) {
        let message = &mut draft.message;
        let own = self.messages.get(&(Attribute::Format, place));
        let (format, is_own) = match own {
            Some((line, value)) => {
                let format = self.format(value);
                if format.is_none() {
                    let text = format!(
                        "message {} has a VFrameFormat that does not exist; it is ignored",
                        message.name
                    );
                    notes.add(*line, text);
                }
                (format, format.is_some())
            }
            None => (self.defaults.get(&Attribute::Format).and_then(|(_, value)| self.format(value)), false),
        };
        let is_fd = match format {
            Some(format) => Some(format.ends_with("CAN_FD")),
            None => (self.word(Attribute::Bus) == Some("CAN")).then_some(false),
        };
        let is_j1939 = match format {
            Some(format) if is_own => format == "J1939PG",
            _ => format == Some("J1939PG") || self.word(Attribute::Protocol) == Some("J1939"),
        };
        message.is_j1939 = is_j1939 && message.id.is_extended();
        // What a default says of all messages does not hold for one that such frames cannot carry.
        let fits = is_own || message.is_j1939 || message.length <= 8;
        message.is_fd = is_fd.filter(|is_fd| *is_fd || fits);
    }

    /// The word of a `VFrameFormat`, which stands there itself or as its number.
    fn format<'s>(&'s self, value: &'s AttributeValue) -> Option<&'s str> {
        let word = match value {
            AttributeValue::String(word) => word.as_str(),
            number => {
                let number = usize::try_from(whole(number)?).ok()?;
                match &self.formats {
                    Some(words) => words.get(number)?,
                    None => FORMATS.iter().find(|(format, _)| *format == number)?.1,
                }
            }
        };
        (!word.is_empty()).then_some(word)
    }
}

/// What is wrong, as the end of a sentence on the signal.
fn set_signal(part: &mut Part, attribute: Attribute, value: &AttributeValue) -> Result<(), &'static str> {
    match attribute {
        Attribute::Initial => {
            let initial = float(value).ok_or("a start value that is no number; it is left out")?;
            part.signal.initial.get_or_insert(initial);
        }
        Attribute::Spn => {
            let spn = whole(value).and_then(|spn| u32::try_from(spn).ok());
            let spn = spn.ok_or("an SPN that is no number; it is left out")?;
            part.signal.spn = part.signal.spn.or((spn != 0).then_some(spn));
        }
        Attribute::SignalName => part.long = part.long.take().or_else(|| name(value)),
        _ => {}
    }
    Ok(())
}

/// A name; an empty one is none.
fn name(value: &AttributeValue) -> Option<String> {
    match value {
        AttributeValue::String(name) if !name.trim().is_empty() => Some(name.trim().to_owned()),
        _ => None,
    }
}

fn float(value: &AttributeValue) -> Option<f64> {
    let number = match value {
        AttributeValue::Uint(number) => number.to_string().parse().ok()?,
        AttributeValue::Int(number) => number.to_string().parse().ok()?,
        AttributeValue::Double(number) => *number,
        AttributeValue::String(text) => text.trim().parse::<f64>().ok()?,
    };
    number.is_finite().then_some(number)
}

/// A number that is whole, however it is written.
fn whole(value: &AttributeValue) -> Option<u64> {
    match value {
        AttributeValue::Uint(number) => Some(*number),
        AttributeValue::Int(number) => u64::try_from(*number).ok(),
        AttributeValue::Double(number) => number.to_string().parse().ok(),
        AttributeValue::String(text) => text.trim().parse().ok(),
    }
}

/// Milliseconds, up to 49 days.
fn cycle(value: &AttributeValue) -> Option<Duration> {
    if matches!(value, AttributeValue::String(text) if text.trim().is_empty()) {
        return Some(Duration::ZERO);
    }
    let milliseconds = float(value).filter(|number| (0.0..=f64::from(u32::MAX)).contains(number))?;
    match whole(value) {
        Some(whole) => Some(Duration::from_millis(whole)),
        None => Duration::try_from_secs_f64(milliseconds / 1000.0).ok(),
    }
}
