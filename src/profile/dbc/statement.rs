//! From the text of a file to its statements, each with its line.
//!
//! Owns quotes, line ends and keywords, and how reading goes on after a lost quote. Must not know what a statement means.

use super::DbcError;

/// What its keyword says that a statement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `BO_`
    Message,
    /// `SG_`
    Signal,
    /// `CM_`
    Comment,
    /// `VAL_`
    Labels,
    /// `VAL_TABLE_`
    Table,
    /// `SIG_VALTYPE_`
    Number,
    /// `SG_MUL_VAL_`
    Selection,
    /// `BA_DEF_`
    Definition,
    /// `BA_DEF_DEF_`
    Default,
    /// `BA_`
    Attribute,
    /// `NS_`: keywords, which begin no statement there.
    Symbols,
    /// `BU_`
    Nodes,
    /// `VERSION` and `BS_`
    Head,
    /// A statement that says nothing of use here.
    Unused,
    /// No keyword of the format.
    Unknown,
}

/// Keywords of statements that say nothing of use here: variables of simulations, relations, groups, further senders and
/// what the format keeps for old versions.
const UNUSED: [&str; 21] = [
    "NS_DESC_",
    "CAT_DEF_",
    "CAT_",
    "FILTER",
    "EV_",
    "EV_DATA_",
    "ENVVAR_DATA_",
    "SGTYPE_",
    "SGTYPE_VAL_",
    "BA_DEF_SGTYPE_",
    "BA_SGTYPE_",
    "SIG_TYPE_REF_",
    "SIG_GROUP_",
    "SIGTYPE_VALTYPE_",
    "BO_TX_BU_",
    "BA_DEF_REL_",
    "BA_REL_",
    "BA_DEF_DEF_REL_",
    "BU_SG_REL_",
    "BU_EV_REL_",
    "BU_BO_REL_",
];

impl Kind {
    /// `None` for a word that is no keyword.
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "BO_" => Self::Message,
            "SG_" => Self::Signal,
            "CM_" => Self::Comment,
            "VAL_" => Self::Labels,
            "VAL_TABLE_" => Self::Table,
            "SIG_VALTYPE_" => Self::Number,
            "SG_MUL_VAL_" => Self::Selection,
            "BA_DEF_" => Self::Definition,
            "BA_DEF_DEF_" => Self::Default,
            "BA_" => Self::Attribute,
            "NS_" => Self::Symbols,
            "BU_" => Self::Nodes,
            "VERSION" | "BS_" => Self::Head,
            _ if UNUSED.contains(&word) => Self::Unused,
            _ => return None,
        })
    }

    /// Whether a semicolon ends it; line ends do not.
    pub(super) fn has_end(self) -> bool {
        !matches!(
            self,
            Self::Message | Self::Signal | Self::Head | Self::Symbols | Self::Nodes | Self::Unknown
        )
    }

    /// Whether texts in it can have lines of their own, which may begin with any word.
    fn is_prose(self) -> bool {
        matches!(
            self,
            Self::Comment | Self::Definition | Self::Default | Self::Attribute | Self::Unused | Self::Unknown
        )
    }
}

/// A piece of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// Anything up to a blank, quote, colon, comma or semicolon.
    Word(&'a str),
    /// What stands between quotes.
    Text(&'a str),
    Colon,
    Comma,
}

impl<'a> Token<'a> {
    pub(super) fn word(self) -> Option<&'a str> {
        if let Self::Word(word) = self { Some(word) } else { None }
    }

    pub(super) fn text(self) -> Option<&'a str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

/// One statement of a file.
#[derive(Debug)]
pub(super) struct Statement<'a> {
    pub(super) kind: Kind,
    /// On which it begins, counted from 1.
    pub(super) line: usize,
    /// With its keyword, without comments and the semicolon.
    pub(super) tokens: Vec<Token<'a>>,
    /// Whether the semicolon is there.
    pub(super) is_ended: bool,
    /// Where a line within quotes begins with a keyword first.
    inner: Option<Place>,
    /// Whether its quotes look as if one was lost: texts begin or end amid words.
    is_shifted: bool,
    /// Whether the file ends within quotes.
    is_open: bool,
}

/// Most characters of a statement that are shown.
const MOST_SHOWN: usize = 60;

impl Statement<'_> {
    /// The words with which it begins, cut short.
    pub(super) fn head(&self) -> String {
        let words = self.tokens.iter().map_while(|token| token.word()).take(4).collect::<Vec<_>>().join(" ");
        if words.is_empty() { "\"".to_owned() } else { words.chars().take(MOST_SHOWN).collect() }
    }

    /// Whether a quote is missing.
    pub(super) fn lacks_quote(&self) -> bool {
        self.is_open || self.is_torn()
    }

    /// Whether a quote is missing, so that it holds statements which follow it.
    pub(super) fn is_torn(&self) -> bool {
        self.inner.is_some() && (self.is_shifted || self.is_open || !self.kind.is_prose())
    }
}

#[derive(Debug, Clone, Copy)]
struct Place {
    at: usize,
    line: usize,
}

/// Goes through a text.
#[derive(Debug)]
pub(super) struct Statements<'a> {
    text: &'a str,
    next: Place,
    /// How many bytes were gone through in vain.
    wasted: usize,
}

/// How often a file may be gone through in vain on the whole, which bounds the time that lost quotes take.
const MOST_PASSES: usize = 8;

impl<'a> Statements<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, next: Place { at: 0, line: 1 }, wasted: 0 }
    }

    /// Goes back from a torn statement to the first that it swallowed. What stands within sound quotes is never taken for
    /// statements.
    pub(super) fn resume(&mut self, statement: &Statement<'_>) -> Result<(), DbcError> {
        let Some(inner) = statement.inner.filter(|_| statement.is_torn()) else { return Ok(()) };
        self.wasted += self.next.at - inner.at;
        if self.wasted > self.text.len().saturating_mul(MOST_PASSES) {
            let problem = "too many quotes are missing".to_owned();
            return Err(DbcError::Broken { line: statement.line, problem });
        }
        self.next = inner;
        Ok(())
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.next.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Steps over `length` bytes that hold no line end.
    fn skip(&mut self, length: usize) {
        self.next.at += length;
    }

    /// Steps over one character; `true` where it ends a line.
    fn step(&mut self) -> bool {
        let mut chars = self.rest().chars();
        let Some(char) = chars.next() else { return false };
        self.next.at += char.len_utf8();
        let ends = char == '\n' || char == '\r' && chars.next() != Some('\n');
        self.next.line += usize::from(ends);
        ends
    }

    /// Steps over blanks and comments, but over no line end.
    fn skip_blanks(&mut self) {
        while let Some(char) = self.peek() {
            if self.rest().starts_with("//") {
                self.skip(self.rest().find(['\n', '\r']).unwrap_or(self.rest().len()));
            } else if is_blank(char) && char != '\n' && char != '\r' {
                self.skip(char.len_utf8());
            } else {
                return;
            }
        }
    }

    /// The keyword with which the text goes on.
    fn keyword(&self) -> Option<Kind> {
        let rest = self.rest().trim_start_matches([' ', '\t']);
        Kind::of(rest.split(|char: char| !is_plain(char)).next().unwrap_or_default())
    }

    /// Whether a statement goes on in the line that begins here.
    fn goes_on(&self, kind: Kind) -> bool {
        let line = self.rest().split(['\n', '\r']).next().unwrap_or_default();
        match kind {
            Kind::Symbols => line.split_whitespace().all(is_name),
            Kind::Nodes => {
                line.trim().is_empty() || line.starts_with([' ', '\t']) && self.keyword().is_none()
            }
            _ => kind.has_end() && self.keyword().is_none(),
        }
    }
}

impl<'a> Iterator for Statements<'a> {
    type Item = Statement<'a>;

    fn next(&mut self) -> Option<Statement<'a>> {
        loop {
            self.skip_blanks();
            match self.peek()? {
                '\n' | '\r' | ';' => self.step(),
                _ => break,
            };
        }
        let kind = self.keyword().unwrap_or(Kind::Unknown);
        let mut statement = Statement {
            kind,
            line: self.next.line,
            tokens: Vec::new(),
            is_ended: false,
            inner: None,
            is_shifted: false,
            is_open: false,
        };
        while self.take(&mut statement) {}
        Some(statement)
    }
}

impl<'a> Statements<'a> {
    /// Takes the next piece of a statement; `false` at its end.
    fn take(&mut self, statement: &mut Statement<'a>) -> bool {
        self.skip_blanks();
        let Some(char) = self.peek() else { return false };
        match char {
            ';' => {
                self.skip(1);
                statement.is_ended = true;
                return false;
            }
            '\n' | '\r' => return !self.step() || self.goes_on(statement.kind),
            '"' => {
                self.quoted(statement);
                return !statement.is_torn();
            }
            ':' | ',' => {
                self.skip(1);
                statement.tokens.push(if char == ':' { Token::Colon } else { Token::Comma });
            }
            _ => {
                let word = self.bare();
                // A message and its signals in one line.
                let is_head = matches!(statement.kind, Kind::Message | Kind::Signal);
                if is_head && matches!(word, "SG_" | "BO_") && !statement.tokens.is_empty() {
                    return false;
                }
                self.skip(word.len());
                statement.tokens.push(Token::Word(word));
            }
        }
        true
    }

    /// The word that begins here. A keyword ends where the name does, as in `CM_"text"`.
    fn bare(&self) -> &'a str {
        let rest = self.rest();
        let end = |char: char| is_blank(char) || matches!(char, '"' | ':' | ',' | ';');
        rest.get(..rest.find(end).unwrap_or(rest.len())).unwrap_or_default()
    }

    /// Takes the text between the quote that stands here and the next; `\"` is none.
    fn quoted(&mut self, statement: &mut Statement<'a>) {
        let before = self.text.get(..self.next.at).and_then(|text| text.chars().next_back());
        let is_first = !statement.tokens.iter().any(|token| token.text().is_some());
        if !is_first && !before.is_none_or(|char| is_blank(char) || char == ',') {
            statement.is_shifted = true;
        }
        self.skip(1);
        let start = self.next.at;
        loop {
            let rest = self.rest();
            let Some(length) = rest.find(['"', '\\', '\n', '\r']) else {
                statement.is_open = true;
                self.skip(rest.len());
                statement.tokens.push(Token::Text(self.text.get(start..).unwrap_or_default()));
                return;
            };
            self.skip(length);
            match self.peek() {
                Some('"') => break,
                Some('\\') => self.skip(if self.rest().starts_with("\\\"") { 2 } else { 1 }),
                _ => {
                    if self.step() && statement.inner.is_none() && self.keyword().is_some() {
                        statement.inner = Some(self.next);
                        if statement.is_torn() {
                            return;
                        }
                    }
                }
            }
        }
        statement.tokens.push(Token::Text(self.text.get(start..self.next.at).unwrap_or_default()));
        self.skip(1);
        if !self.peek().is_none_or(|char| is_blank(char) || matches!(char, ',' | ';')) {
            statement.is_shifted = true;
        }
    }
}

/// Blanks, line ends, and characters that stand for no more in such files: byte order marks amid the text, and the end
/// that DOS wrote.
fn is_blank(char: char) -> bool {
    char.is_whitespace() || matches!(char, '\u{FEFF}' | '\u{1A}')
}

fn is_plain(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

/// Whether a word is a name of the format: letters, digits and `_`, no digit first.
pub(super) fn is_name(word: &str) -> bool {
    word.chars().all(is_plain) && word.starts_with(|char: char| !char.is_ascii_digit())
}
