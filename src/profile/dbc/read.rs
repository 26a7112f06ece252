//! From a statement to what it says.
//!
//! Owns the repair of what the parser refuses though its meaning is plain: odd names, missing receivers, numbers that end
//! with a point. Must not know other statements.

mod about;

use can_dbc::AttributeValue;

use super::{
    attribute::{Attribute, Owner},
    statement::{Kind, Statement, Token, is_name},
};

/// What a statement says. Identifiers are those of the file, whatever they hold; names are as written.
#[derive(Debug)]
pub(super) enum Entry<'a> {
    Message(Header<'a>),
    Signal {
        name: &'a str,
        mark: Mark,
        signal: Box<can_dbc::Signal>,
    },
    Comment {
        id: u64,
        signal: Option<&'a str>,
        text: &'a str,
    },
    Labels {
        id: u64,
        signal: &'a str,
        labels: Labels<'a>,
    },
    Table {
        name: &'a str,
        labels: Pairs,
    },
    /// `None`: it names no number type.
    Number {
        id: u64,
        signal: &'a str,
        float_bits: Option<u8>,
    },
    Selection {
        id: u64,
        signal: &'a str,
        by: &'a str,
        ranges: Vec<(u64, u64)>,
    },
    /// The words of an enumeration.
    Definition {
        name: Attribute,
        words: Vec<String>,
    },
    Default {
        name: Attribute,
        value: AttributeValue,
    },
    Attribute {
        name: Attribute,
        of: Owner<'a>,
        value: AttributeValue,
    },
    /// It says nothing of use here.
    Nothing,
}

/// Numbers, each with its text.
pub(super) type Pairs = Vec<(i64, String)>;
/// What is questionable in a statement, as the end of a sentence on it.
type Doubt = Option<String>;

/// What stands before the signals of a message.
#[derive(Debug)]
pub(super) struct Header<'a> {
    pub(super) id: u64,
    pub(super) name: &'a str,
    pub(super) length: u64,
    pub(super) sender: Option<&'a str>,
}

/// What a signal says of multiplexing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    None,
    /// `m`: no rule of the format gives it a meaning.
    Bare,
    /// `M`
    Selects,
    /// `m1`
    Selected(u64),
    /// `m1M`
    Both(u64),
}

impl Mark {
    pub(super) fn selects(self) -> bool {
        matches!(self, Self::Selects | Self::Both(_))
    }
}

#[derive(Debug)]
pub(super) enum Labels<'a> {
    Own(Pairs),
    /// Those of the table of this name.
    Of(&'a str),
}

/// A statement that cannot be read.
#[derive(Debug)]
pub(super) struct Unread {
    /// What is wrong, as the end of a sentence on it.
    pub(super) problem: String,
    /// Whether it has the mark of a multiplexer.
    pub(super) selects: bool,
    /// Whether a message may begin in it, so that it is not known whose signals those after it are.
    pub(super) hides_message: bool,
}

type Read<'a, T = Entry<'a>> = Result<T, Unread>;

impl From<&str> for Unread {
    fn from(problem: &str) -> Self {
        Self::from(problem.to_owned())
    }
}

impl From<String> for Unread {
    fn from(problem: String) -> Self {
        Self { problem, selects: false, hides_message: false }
    }
}

/// Most bytes of a name, a number or the value of an attribute.
const MOST_WORD: usize = 1024;

/// What a statement says, and what is questionable in it.
pub(super) fn read<'a>(statement: &Statement<'a>) -> Read<'a, (Entry<'a>, Doubt)> {
    let tokens = statement.tokens.as_slice();
    let entry = if statement.lacks_quote() {
        Err("lacks a quote".into())
    } else if tokens.iter().any(|token| token.word().is_some_and(|word| word.len() > MOST_WORD)) {
        Err("has a word of more than 1024 bytes".into())
    } else {
        match tokens.split_first() {
            Some((_, tokens)) => read_kind(statement.kind, tokens),
            None => Ok((Entry::Nothing, None)),
        }
    };
    let (entry, doubt) = entry.map_err(|unread| Unread {
        selects: tokens.iter().any(|token| token.word().and_then(mark).is_some_and(Mark::selects)),
        hides_message: hides_message(statement),
        ..unread
    })?;
    let is_unended = statement.kind.has_end() && !statement.is_ended && !matches!(entry, Entry::Nothing);
    Ok((entry, doubt.or_else(|| is_unended.then(|| "has no ; at its end; read as if it had".to_owned()))))
}

fn read_kind<'a>(kind: Kind, tokens: &[Token<'a>]) -> Read<'a, (Entry<'a>, Doubt)> {
    match kind {
        Kind::Message => message(tokens).map(sound),
        Kind::Signal => signal(tokens),
        Kind::Comment => about::comment(tokens).map(sound),
        Kind::Labels => about::labels(tokens),
        Kind::Table => about::table(tokens),
        Kind::Number => about::number(tokens).map(sound),
        Kind::Selection => about::selection(tokens).map(sound),
        Kind::Definition => about::definition(tokens).map(sound),
        Kind::Default => about::default(tokens).map(sound),
        Kind::Attribute => about::attribute(tokens).map(sound),
        Kind::Symbols | Kind::Nodes | Kind::Head | Kind::Unused => Ok(sound(Entry::Nothing)),
        Kind::Unknown => Err("is no statement of the format".into()),
    }
}

fn sound(entry: Entry<'_>) -> (Entry<'_>, Option<String>) {
    (entry, None)
}

/// The message or signal that a statement declares, where its name can be told.
pub(super) fn name<'a>(statement: &Statement<'a>) -> Option<&'a str> {
    match statement.kind {
        Kind::Message => statement.tokens.get(2)?.word(),
        Kind::Signal => statement.tokens.get(1)?.word(),
        _ => None,
    }
}

/// Whether a statement ends as the head of a message does: with a colon, the length and the sender.
fn hides_message(statement: &Statement<'_>) -> bool {
    let last = statement.tokens.rsplit(|token| *token == Token::Colon).next().unwrap_or_default();
    let ends_as_head = match last {
        [Token::Word(length)] | [Token::Word(length), Token::Word(_)] => id(length).is_some(),
        _ => false,
    };
    match statement.kind {
        Kind::Message => true,
        Kind::Signal | Kind::Unknown => {
            ends_as_head && !statement.is_ended && last.len() < statement.tokens.len()
        }
        _ => false,
    }
}

/// Has the parser read one statement or message.
fn parse(text: &str) -> Option<can_dbc::Dbc> {
    can_dbc::Dbc::try_from(text).ok()
}

/// The text of a part of a statement.
fn join(tokens: &[Token<'_>]) -> String {
    let mut text = String::new();
    for token in tokens {
        match token {
            Token::Word(word) => text.push_str(word),
            Token::Text(inner) => {
                text.push('"');
                text.push_str(inner);
                text.push('"');
            }
            Token::Colon => text.push(':'),
            Token::Comma => text.push(','),
        }
        text.push(' ');
    }
    text
}

/// An identifier, as a number alone.
pub(super) fn id(word: &str) -> Option<u64> {
    word.chars().all(|char| char.is_ascii_digit()).then(|| word.parse().ok())?
}

fn message<'a>(tokens: &[Token<'a>]) -> Read<'a> {
    let [Token::Word(id_word), Token::Word(name), Token::Colon, Token::Word(length), senders @ ..] = tokens
    else {
        return Err("is not `BO_ id name: length sender`".into());
    };
    let id = id(id_word).ok_or("has an identifier that is no number")?;
    let sender = match senders {
        [] => None,
        [Token::Word(sender)] => Some(*sender),
        _ => return Err("has more than one sender".into()),
    };
    // The parser takes fewer names than files hold, and cuts identifiers: it gets neither.
    let own = sender.filter(|sender| !is_name(sender));
    let text = format!("BO_ 0 m: {length} {}\n", if own.is_some() { "s" } else { sender.unwrap_or("s") });
    let read = parse(&text).and_then(|dbc| dbc.messages.into_iter().next());
    let read = read.ok_or("has a length that is no number")?;
    let sender = own.or(sender.filter(|_| read.transmitter.is_some()));
    Ok(Entry::Message(Header { id, name, length: read.size, sender }))
}

fn signal<'a>(tokens: &[Token<'a>]) -> Read<'a, (Entry<'a>, Doubt)> {
    let (name, mark_text, rest) = match tokens {
        [Token::Word(name), Token::Colon, rest @ ..] => (*name, "", rest),
        [Token::Word(name), Token::Word(mark), Token::Colon, rest @ ..] => (*name, *mark, rest),
        _ => return Err("has no name or no colon behind it".into()),
    };
    let mark = mark(mark_text).ok_or("has a mark that is neither M nor m with a number")?;
    let unit = rest.iter().position(|token| token.text().is_some()).ok_or("has no unit in quotes")?;
    let (layout, tail) = rest.split_at(unit + 1);
    if tail.iter().any(|token| matches!(token, Token::Colon | Token::Text(_))) {
        return Err("has something else than receivers after its unit".into());
    }
    // Receivers mean nothing here, and files hold more of them than the format allows.
    let (numbers, unit) = layout.split_at(unit);
    let numbers = close_points(&join(numbers));
    let unit = join(unit);
    let parsed = |numbers: &str| {
        let dbc = parse(&format!("BO_ 0 m: 8 s\n SG_ s : {numbers} {unit} r\n"))?;
        dbc.messages.into_iter().next()?.signals.into_iter().next().map(Box::new)
    };
    if let Some(signal) = parsed(&numbers) {
        return Ok((Entry::Signal { name, mark, signal }, None));
    }
    let without_range = numbers.split_once('[').map(|(layout, _)| format!("{layout} [0|0]"));
    match without_range.and_then(|numbers| parsed(&numbers)) {
        Some(signal) => {
            let doubt = "has a range that cannot be read; it has none now".to_owned();
            Ok((Entry::Signal { name, mark, signal }, Some(doubt)))
        }
        None => Err(layout_problem(&numbers).into()),
    }
}

fn mark(text: &str) -> Option<Mark> {
    match text {
        "" => Some(Mark::None),
        "m" => Some(Mark::Bare),
        "M" => Some(Mark::Selects),
        _ => {
            let number = text.strip_prefix('m')?;
            match number.strip_suffix('M') {
                Some(number) => id(number).map(Mark::Both),
                None => id(number).map(Mark::Selected),
            }
        }
    }
}

/// Gives numbers that end with a point, as in `[0.|1.]`, a digit behind it.
fn close_points(text: &str) -> String {
    let mut closed = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        let follows_digit = closed.ends_with(|last: char| last.is_ascii_digit());
        closed.push(char);
        if char == '.' && follows_digit && !chars.peek().is_some_and(char::is_ascii_digit) {
            closed.push('0');
        }
    }
    closed
}

/// What is wrong between the colon and the unit of a signal.
fn layout_problem(numbers: &str) -> String {
    match numbers.split_once('@').and_then(|(_, order)| order.trim_start().chars().next()) {
        Some('0' | '1') => {
            let shown = numbers.trim().chars().take(60).collect::<String>();
            format!("is not written as `start|length@order sign (factor,offset) [lowest|highest]`: `{shown}`")
        }
        Some(order) => {
            format!("has byte order {order}, which does not exist, allowed are 0 (Motorola) and 1 (Intel)")
        }
        None => "has no byte order behind an @".to_owned(),
    }
}

/// A text without the marks before quotes in it, and with the line ends of Unix.
pub(super) fn unescape(text: &str) -> String {
    text.replace("\\\"", "\"").replace("\r\n", "\n")
}
