//! What is wrong with a configuration: where it stands, what was written, and what is allowed.

use std::fmt;

/// Everything that is wrong with a configuration, in the order of its files and lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

/// One thing that is wrong, or worth a second look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub origin: Origin,
    /// Path of the key, such as `devices[0].tags[2].scale`; empty where the whole file is meant.
    pub key: String,
    /// The value as it was written, where one was.
    pub value: Option<String>,
    pub what: What,
}

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    File {
        path: String,
        /// Counted from 1.
        line: Option<usize>,
        /// Counted from 1, in characters; known for errors of syntax.
        column: Option<usize>,
    },
    /// Name of an environment variable.
    Variable(String),
}

/// What is wrong at a place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum What {
    #[error("cannot be read: {0}")]
    Unreadable(String),
    #[error("not TOML: {0}")]
    Syntax(String),
    #[error("unknown key{}", suggestion(nearest.as_deref(), known))]
    UnknownKey { nearest: Option<String>, known: Vec<String> },
    #[error("missing: allowed is {allowed}")]
    Missing { allowed: String },
    #[error("allowed is {allowed}")]
    NotAllowed { allowed: String },
    /// The value itself is fine, but not beside another one.
    #[error("does not go with {with}: allowed is {allowed}")]
    Conflict { with: String, allowed: String },
    #[error("already used {first}: allowed is {allowed}")]
    Duplicate { first: String, allowed: String },
    #[error("no such {kind}{}", suggestion(nearest.as_deref(), known))]
    UnknownName { kind: &'static str, nearest: Option<String>, known: Vec<String> },
    #[error("no such profile in {looked}{}", suggestion(nearest.as_deref(), known))]
    UnknownProfile { looked: String, nearest: Option<String>, known: Vec<String> },
    /// A file that the configuration names.
    #[error("cannot be used: {0}")]
    Unusable(String),
    #[error("not for the environment to set{}", suggestion(nearest.as_deref(), known))]
    Variable { nearest: Option<String>, known: Vec<String> },
    /// A warning.
    #[error("{0}")]
    Note(String),
}

/// What a check found so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
}

impl Problems {
    /// Sorts them by file, in the order of first appearance, and line; environment variables come last.
    pub(crate) fn new(mut problems: Vec<Problem>) -> Self {
        let mut files: Vec<String> = Vec::new();
        for problem in &problems {
            if let Origin::File { path, .. } = &problem.origin
                && !files.contains(path)
            {
                files.push(path.clone());
            }
        }
        problems.sort_by_key(|problem| match &problem.origin {
            Origin::File { path, line, column } => {
                (files.iter().position(|file| file == path).unwrap_or(usize::MAX), *line, *column)
            }
            Origin::Variable(_) => (usize::MAX, None, None),
        });
        Self(problems)
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Problems {
    /// One problem a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.origin)?;
        if !self.key.is_empty() {
            f.write_str(&self.key)?;
            if let Some(value) = &self.value {
                write!(f, " = {value}")?;
            }
            f.write_str(": ")?;
        }
        self.what.fmt(f)
    }
}

impl std::error::Error for Problem {}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line, column } => {
                f.write_str(path)?;
                for number in [line, column].into_iter().flatten() {
                    write!(f, ":{number}")?;
                }
                Ok(())
            }
            Self::Variable(name) => f.write_str(name),
        }
    }
}

/// How an unknown name ends: with the nearest known one, else with all that are known.
fn suggestion(nearest: Option<&str>, known: &[String]) -> String {
    const MOST: usize = 20;
    match nearest {
        Some(nearest) => format!(": did you mean `{nearest}`?"),
        None if known.is_empty() => ": there is none".to_owned(),
        None => {
            let listed =
                known.iter().take(MOST).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let more = known.len().saturating_sub(MOST);
            if more == 0 {
                format!(": allowed are {listed}")
            } else {
                format!(": allowed are {listed} and {more} more")
            }
        }
    }
}

/// The known name that `text` was probably meant to be.
pub(crate) fn nearest<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let lower = text.to_lowercase();
    known
        .into_iter()
        .map(|name| (strsim::osa_distance(&lower, &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= name.chars().count().max(3) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name.to_owned())
}
