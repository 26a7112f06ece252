//! Topic filters of which some levels have names.

use std::{fmt, sync::Arc};

use crate::model::is_segment;

/// A topic filter such as `plant/{line}/{cell}/temp`, `tele/+/SENSOR` or `homie/#`.
///
/// A `{name}` stands for one level, or for the part of it that the text around leaves: `shelly-{id}/status`. A name that
/// stands twice stands for the same text twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern {
    levels: Box<[Level]>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Level {
    Text(Box<str>),
    /// `+`.
    One,
    Named {
        before: Box<str>,
        name: Arc<str>,
        after: Box<str>,
    },
    /// `#`.
    Rest,
}

/// A text that is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a topic filter: {problem}")]
pub struct InvalidPattern {
    pub text: String,
    pub problem: &'static str,
}

/// A text that is not the name of a topic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a topic: {problem}")]
pub struct InvalidTopic {
    pub text: String,
    pub problem: &'static str,
}

/// Why names cannot be filled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unbound {
    #[error("the topic `{pattern}` needs a value for `{{{name}}}`")]
    Missing { pattern: String, name: Arc<str> },
    #[error("`{value}` cannot be `{{{name}}}` of a topic: {problem}")]
    Value { name: Arc<str>, value: String, problem: &'static str },
    #[error(transparent)]
    Whole(InvalidPattern),
}

/// Bytes of a name or filter (MQTT 5.0, section 1.5.4).
const MOST_BYTES: usize = 65_535;

/// Levels of a pattern: what brokers allow as well.
const MOST_LEVELS: usize = 200;

const EMPTY: &str = "it is empty";
const TOO_LONG: &str = "it has more than 65535 bytes";
const TOO_DEEP: &str = "it has more than 200 levels";
const NUL: &str = "it has a NUL";
const WILDCARD: &str = "`+` and `#` must stand alone in their level";
const NOT_LAST: &str = "`#` must be the last level";
const BRACES: &str = "a level has one name at most, as `{name}` with 1 to 64 of `A-Z a-z 0-9 _ -`";
const DOLLAR: &str = "a first level that begins with `$` has no name";
const SHARED: &str =
    "a shared subscription gives each message to one of several clients, so tags would miss the others";
const NO_WILDCARDS: &str = "`+` and `#` are for filters";
const ONE_LEVEL: &str = "it must be one level, without `/`, `+`, `#` and NUL";

impl Pattern {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<Self, InvalidPattern> {
        let invalid = |problem| InvalidPattern { text: shown(text), problem };
        if let Some(problem) = whole(text) {
            return Err(invalid(problem));
        }
        if text == "$share" || text.starts_with("$share/") {
            return Err(invalid(SHARED));
        }
        let levels: Box<[Level]> = text.split('/').map(level).collect::<Result<_, _>>().map_err(invalid)?;
        if levels.len() > MOST_LEVELS {
            return Err(invalid(TOO_DEEP));
        }
        let before_last = levels.len().saturating_sub(1);
        if levels.iter().take(before_last).any(|level| *level == Level::Rest) {
            return Err(invalid(NOT_LAST));
        }
        if matches!(levels.first(), Some(Level::Named { before, .. }) if before.starts_with('$')) {
            return Err(invalid(DOLLAR));
        }
        Ok(Self { levels })
    }

    pub(super) fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// The filter to subscribe to: names are `+`.
    #[must_use]
    pub fn filter(&self) -> String {
        let levels = self.levels.iter().map(|level| match level {
            Level::Text(text) => text,
            Level::One | Level::Named { .. } => "+",
            Level::Rest => "#",
        });
        levels.collect::<Vec<_>>().join("/")
    }

    /// The pattern without names.
    pub(super) fn plain(&self) -> Self {
        let levels = self.levels.iter().map(|level| match level {
            Level::Named { .. } => Level::One,
            level => level.clone(),
        });
        Self { levels: levels.collect() }
    }

    /// The topic that it is, where it is a single one, on which can be published.
    #[must_use]
    pub fn topic(&self) -> Option<String> {
        let is_text = |level: &Level| matches!(level, Level::Text(_));
        self.levels.iter().all(is_text).then(|| self.filter())
    }

    /// The names of its levels, in their order.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.levels.iter().filter_map(|level| match level {
            Level::Named { name, .. } => Some(name),
            Level::Text(_) | Level::One | Level::Rest => None,
        })
    }

    /// The pattern with all names filled in by `value`.
    pub fn bind<'v>(&self, value: impl Fn(&str) -> Option<&'v str>) -> Result<Self, Unbound> {
        let fill = |level: &Level| {
            let Level::Named { before, name, after } = level else { return Ok(level.clone()) };
            let missing = || Unbound::Missing { pattern: self.to_string(), name: Arc::clone(name) };
            let value = value(name).ok_or_else(missing)?;
            if value.is_empty() || value.contains(['/', '+', '#', '\0']) {
                let value = shown(value);
                return Err(Unbound::Value { name: Arc::clone(name), value, problem: ONE_LEVEL });
            }
            Ok(Level::Text(format!("{before}{value}{after}").into()))
        };
        let levels: Box<[Level]> = self.levels.iter().map(fill).collect::<Result<_, _>>()?;
        let bound = Self { levels };
        let text = bound.filter();
        let shared = text.starts_with("$share/").then_some(SHARED);
        match whole(&text).or(shared) {
            Some(problem) => Err(Unbound::Whole(InvalidPattern { text: shown(&text), problem })),
            None => Ok(bound),
        }
    }

    /// What its names stand for in `topic`, in their order; `None` where it does not match.
    ///
    /// As section 4.7 has it: `a/#` matches `a` as well, and what begins with a wildcard no topic that begins with `$`.
    #[must_use]
    pub fn matches<'t>(&self, topic: &'t str) -> Option<Vec<(&Arc<str>, &'t str)>> {
        if topic.starts_with('$') && !matches!(self.levels.first(), Some(Level::Text(_))) {
            return None;
        }
        let mut found: Vec<(&Arc<str>, &str)> = Vec::new();
        let mut given = topic.split('/');
        for level in &self.levels {
            let text = match (level, given.next()) {
                (Level::Rest, _) => return Some(found),
                (_, None) => return None,
                (_, Some(text)) => text,
            };
            match level {
                Level::Text(own) if **own != *text => return None,
                Level::Text(_) | Level::One | Level::Rest => {}
                Level::Named { before, name, after } => {
                    let part = text.strip_prefix(&**before)?.strip_suffix(&**after)?;
                    let earlier = found.iter().find(|(own, _)| *own == name);
                    if part.is_empty() || earlier.is_some_and(|(_, earlier)| *earlier != part) {
                        return None;
                    }
                    found.push((name, part));
                }
            }
        }
        given.next().is_none().then_some(found)
    }
}

/// Says what is wrong with a name that is published on; nothing is where it is one.
pub fn check_topic(text: &str) -> Result<(), InvalidTopic> {
    let problem = whole(text).or_else(|| text.contains(['+', '#']).then_some(NO_WILDCARDS));
    problem.map_or(Ok(()), |problem| Err(InvalidTopic { text: shown(text), problem }))
}

/// What is wrong with a name or filter as a whole.
fn whole(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some(EMPTY)
    } else if text.len() > MOST_BYTES {
        Some(TOO_LONG)
    } else if text.contains('\0') {
        Some(NUL)
    } else {
        None
    }
}

/// A text as messages repeat it: of a long one, how it begins; NUL as its escape.
fn shown(text: &str) -> String {
    const MOST: usize = 100;
    let mut shown: String = text.chars().take(MOST).collect::<String>().replace('\0', "\\0");
    if text.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown
}

fn level(text: &str) -> Result<Level, &'static str> {
    match text {
        "+" => return Ok(Level::One),
        "#" => return Ok(Level::Rest),
        text if text.contains(['+', '#']) => return Err(WILDCARD),
        text if !text.contains(['{', '}']) => return Ok(Level::Text(text.into())),
        _ => {}
    }
    let (before, rest) = text.split_once('{').ok_or(BRACES)?;
    let (name, after) = rest.split_once('}').ok_or(BRACES)?;
    if !is_segment(name) || before.contains('}') || after.contains(['{', '}']) {
        return Err(BRACES);
    }
    Ok(Level::Named { before: before.into(), name: name.into(), after: after.into() })
}

impl fmt::Display for Pattern {
    /// As it is parsed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, level) in self.levels.iter().enumerate() {
            if index > 0 {
                f.write_str("/")?;
            }
            match level {
                Level::Text(text) => f.write_str(text)?,
                Level::One => f.write_str("+")?,
                Level::Named { before, name, after } => write!(f, "{before}{{{name}}}{after}")?,
                Level::Rest => f.write_str("#")?,
            }
        }
        Ok(())
    }
}
