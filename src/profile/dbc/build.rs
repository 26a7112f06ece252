//! From what the statements of a file say to its messages.
//!
//! Owns which messages and signals there are. Must not know syntax.

use super::{
    Message, Notes, Selection, Signal,
    index::Index,
    layout,
    overlap::{self, Effort},
    read::{self, Entry, Header, Mark, Unread},
    refer::Reference,
    select,
    statement::{Kind, Statement},
};
use crate::codec::can::Id;

/// Name of the message in which editors keep signals that belong to none.
const INDEPENDENT: &str = "VECTOR__INDEPENDENT_SIG_MSG";
/// Its identifier.
const INDEPENDENT_ID: u64 = 0xC000_0000;
/// Most bytes of a message: those of J1939-21, in 255 packets of 7.
const MOST_BYTES: u16 = 1785;
/// Most characters of a name.
const MOST_NAME: usize = 128;

/// A message in the making.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) message: Message,
    pub(super) parts: Vec<Part>,
    /// Whether a multiplexer of it could not be read.
    pub(super) lacks_multiplexer: bool,
    /// The name that replaces the one in its statement.
    pub(super) long: Option<String>,
}

/// A signal in the making.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) signal: Signal,
    pub(super) mark: Mark,
    /// What selects it by statements other than its own.
    pub(super) choices: Vec<Choice>,
    /// What selects it, once that is known: a place among the parts.
    pub(super) selection: Option<Selection>,
    /// Whether it is left out, which was told.
    pub(super) is_out: bool,
    pub(super) long: Option<String>,
}

/// Raw numbers of a multiplexer.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    pub(super) line: usize,
    /// Place of the multiplexer among the parts.
    pub(super) by: usize,
    pub(super) ranges: Vec<(u64, u64)>,
}

impl Draft {
    /// A sentence on a signal of it.
    pub(super) fn note(&self, part: &Part, problem: &str) -> String {
        format!("signal {}.{} {problem}", self.message.name, part.signal.name)
    }
}

impl Part {
    /// Its name in the end.
    pub(super) fn name(&self) -> &str {
        self.long.as_deref().unwrap_or(&self.signal.name)
    }
}

/// Whose the signals are that come next.
#[derive(Debug, Clone, Copy)]
enum Current {
    Nobody,
    /// Of a message that was left out.
    Lost,
    Message(usize),
}

/// Builds messages from entries.
#[derive(Debug)]
pub(super) struct Builder<'a> {
    drafts: Vec<Draft>,
    index: Index<'a>,
    current: Current,
    /// What is about messages and signals, for when all of these are known.
    later: Vec<(usize, Entry<'a>)>,
}

impl<'a> Builder<'a> {
    pub(super) fn new() -> Self {
        Self { drafts: Vec::new(), index: Index::default(), current: Current::Nobody, later: Vec::new() }
    }

    pub(super) fn add(&mut self, line: usize, entry: Entry<'a>, notes: &mut Notes) {
        match entry {
            Entry::Message(header) => {
                self.current = match self.message(line, &header, notes) {
                    Some(place) => Current::Message(place),
                    None => Current::Lost,
                };
            }
            Entry::Signal { name, mark, signal } => self.signal(line, name, mark, &signal, notes),
            Entry::Nothing => {}
            other => self.later.push((line, other)),
        }
    }

    /// Tells what is questionable in a statement, or that it cannot be read; not again where its message is left out.
    pub(super) fn doubt(&self, statement: &Statement<'a>, problem: &str, notes: &mut Notes) {
        let draft = match self.current {
            Current::Message(place) => self.drafts.get(place),
            Current::Lost if statement.kind == Kind::Signal => return,
            Current::Nobody | Current::Lost => None,
        };
        let what = match (statement.kind, read::name(statement), draft) {
            (Kind::Message, Some(name), _) => format!("message {name}"),
            (Kind::Signal, Some(name), Some(draft)) => format!("signal {}.{name}", draft.message.name),
            (Kind::Signal, Some(name), None) => format!("signal {name}"),
            _ => format!("`{}`", statement.head()),
        };
        notes.add(statement.line, format!("{what} {problem}"));
    }

    /// Takes note of a statement that cannot be read.
    pub(super) fn lose(&mut self, statement: &Statement<'a>, unread: &Unread, notes: &mut Notes) {
        let signals = if unread.hides_message { ", and so are the signals after it" } else { "" };
        self.doubt(statement, &format!("{}; it is left out{signals}", unread.problem), notes);
        if let Current::Message(place) = self.current
            && let Some(draft) = self.drafts.get_mut(place)
        {
            draft.lacks_multiplexer |= unread.selects;
            if let (Kind::Signal, Some(name)) = (statement.kind, read::name(statement)) {
                self.index.lose_signal(draft.message.id.flagged().into(), name);
            }
        }
        if statement.kind == Kind::Message
            && let Some(id) = statement.tokens.get(1).and_then(|token| read::id(token.word()?))
        {
            self.index.lose_message(id);
        }
        if unread.hides_message {
            self.current = Current::Lost;
        }
    }

    /// Its place; `None` where it is left out.
    fn message(&mut self, line: usize, header: &Header<'a>, notes: &mut Notes) -> Option<usize> {
        let &Header { id, name, length, sender } = header;
        if name == INDEPENDENT || id == INDEPENDENT_ID {
            self.index.lose_message(id);
            return None;
        }
        let first = self.index.message(id).and_then(|place| self.drafts.get(place));
        let problem = if let Some(Draft { message: first, .. }) = first {
            format!("has the identifier {id}, as {} in line {} has", first.name, first.line)
        } else if let Some(problem) = id_problem(id) {
            problem
        } else if length > MOST_BYTES.into() {
            format!("has a length of {length} bytes, allowed is 0 to {MOST_BYTES}")
        } else {
            let message = Message {
                name: name.to_owned(),
                id: Id::from_flagged(u32::try_from(id).ok()?)?,
                length: u16::try_from(length).ok()?,
                sender: sender.map(str::to_owned),
                comment: String::new(),
                cycle: None,
                is_j1939: false,
                is_fd: None,
                signals: Vec::new(),
                line,
            };
            self.index.add_message(id, self.drafts.len());
            self.drafts.push(Draft { message, parts: Vec::new(), lacks_multiplexer: false, long: None });
            return Some(self.drafts.len() - 1);
        };
        notes.add(line, format!("message {name} {problem}; it is left out"));
        self.index.lose_message(id);
        None
    }

    fn signal(&mut self, line: usize, name: &'a str, mark: Mark, read: &can_dbc::Signal, notes: &mut Notes) {
        let place = match self.current {
            Current::Message(place) => place,
            Current::Lost => return,
            Current::Nobody => {
                return notes.add(line, format!("signal {name} is not in a message; it is left out"));
            }
        };
        let Some(draft) = self.drafts.get_mut(place) else { return };
        let id = draft.message.id.flagged().into();
        let note = |problem: &str| format!("signal {}.{name} {problem}", draft.message.name);
        let (signal, doubts) = match layout::signal(line, name, read) {
            Ok(read) => read,
            Err(problem) => {
                notes.add(line, note(&format!("{problem}; it is left out")));
                draft.lacks_multiplexer |= mark.selects();
                return self.index.lose_signal(id, name);
            }
        };
        for doubt in doubts {
            notes.add(line, note(&doubt));
        }
        if signal.place.end() > draft.message.length.into() {
            notes.add(line, note(&format!("ends after the {} bytes of its message", draft.message.length)));
        }
        self.index.add_signal(id, name, draft.parts.len());
        draft.parts.push(Part {
            signal,
            mark,
            choices: Vec::new(),
            selection: None,
            is_out: false,
            long: None,
        });
    }

    /// What the file says, once all of it was added.
    pub(super) fn finish(self, notes: &mut Notes) -> Vec<Message> {
        let mut drafts = self.drafts;
        Reference::new(&self.index, &mut drafts, notes).apply(self.later);
        let mut effort = Effort::default();
        for draft in &mut drafts {
            select::resolve(draft, notes);
            overlap::check_names(draft, &mut effort, notes);
            select::cascade(draft, notes);
            overlap::check_bits(draft, &mut effort, notes);
        }
        effort.finish(notes);
        drafts.into_iter().map(|draft| assemble(draft, notes)).collect()
    }
}

/// Why no frame can have the identifier of a message.
fn id_problem(id: u64) -> Option<String> {
    let number = u32::try_from(id).ok();
    if number.and_then(Id::from_flagged).is_some() {
        return None;
    }
    Some(match number.and_then(Id::extended) {
        Some(meant) => {
            let meant = meant.flagged();
            format!(
                "has the identifier {id}, which is more than 11 bits hold; one of 29 bits is written {meant}"
            )
        }
        None => format!("has the identifier {id}, which no frame has"),
    })
}

/// The message without what is left out.
fn assemble(draft: Draft, notes: &mut Notes) -> Message {
    let Draft { mut message, parts, long, .. } = draft;
    let mut kept = 0_usize;
    let places = parts
        .iter()
        .map(|part| {
            let place = (!part.is_out).then_some(kept);
            kept += usize::from(!part.is_out);
            place
        })
        .collect::<Vec<_>>();
    for part in parts.into_iter().filter(|part| !part.is_out) {
        let mut signal = part.signal;
        signal.selection = part.selection.and_then(|selection| {
            Some(Selection { by: places.get(selection.by).copied().flatten()?, ..selection })
        });
        if let Some(long) = part.long {
            signal.name = long;
        }
        check_name(&signal.name, signal.line, "signal", notes);
        message.signals.push(signal);
    }
    if let Some(long) = long {
        message.name = long;
    }
    check_name(&message.name, message.line, "message", notes);
    message
}

fn check_name(name: &str, line: usize, what: &str, notes: &mut Notes) {
    let length = name.chars().count();
    if length > MOST_NAME {
        notes.add(
            line,
            format!("{what} {name} has a name of {length} characters, at most {MOST_NAME} are usual"),
        );
    }
}
