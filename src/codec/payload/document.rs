//! A parsed payload: a tree of limited size, and how to find a part of it.

use std::{borrow::Cow, fmt};

use super::{Path, Step, json, packed};

/// How a payload is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Encoding {
    /// One word or number; a byte order mark in front and line ends behind it do not count.
    Text,
    #[default]
    Json,
    Cbor,
    MessagePack,
    /// Bytes at fixed offsets.
    Binary,
}

/// What a payload may have at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes. The tree of a payload of tiny values takes up to 100 times as much memory, while it is read.
    pub size: usize,
    /// Arrays and objects within one another; 128 at most, which no stack is too small for.
    pub depth: usize,
}

/// Deepest nesting that any bounds allow.
const DEEPEST: usize = 128;

/// A payload that was read.
#[derive(Debug)]
pub struct Document<'a> {
    pub(super) root: Node<'a>,
}

/// One part of a payload.
#[derive(Debug)]
pub(super) enum Node<'a> {
    Null,
    /// `NaN` or an infinity where JSON allows none.
    NotFinite(&'a str),
    Bool(bool),
    /// A number as it is written in JSON, with all its digits.
    Number(&'a str),
    Integer(i128),
    Float(f64),
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
    Array(Vec<Node<'a>>),
    /// Of two members with one key the last one counts.
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

/// What kind of thing stands somewhere in a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    Null,
    Bool,
    Number,
    Text,
    Bytes,
    Array,
    Object,
}

/// Why a payload cannot be read at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("the payload is empty")]
    Empty,
    #[error("the payload has {bytes} bytes: allowed are {most}")]
    Size { bytes: usize, most: usize },
    #[error("the payload nests deeper than {most} levels")]
    Depth { most: usize },
    /// Counted from 0.
    #[error("the payload is not UTF-8 at byte {at}")]
    Utf8 { at: usize },
    /// Counted from 0.
    #[error("the payload is not JSON at byte {at}: {problem}")]
    Json { at: usize, problem: String },
    #[error("the payload is not {encoding}: {problem}")]
    Packed { encoding: Encoding, problem: String },
}

/// Where a path leads.
pub(super) enum Found<'d, 'a> {
    Node(&'d Node<'a>),
    /// An object on the way has no such member.
    Absent,
    /// A `null` stands on the way.
    Null,
    /// An array on the way is shorter.
    Index {
        index: usize,
        length: usize,
    },
    /// Something else stands where the path goes on.
    Wrong {
        found: Shape,
        expected: Shape,
    },
}

impl Encoding {
    /// Every encoding.
    pub const ALL: [Self; 5] = [Self::Text, Self::Json, Self::Cbor, Self::MessagePack, Self::Binary];

    /// The name in profiles, such as `json`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Cbor => "cbor",
            Self::MessagePack => "messagepack",
            Self::Binary => "binary",
        }
    }

    /// Whether a payload has parts that a path can name.
    #[must_use]
    pub fn has_paths(self) -> bool {
        matches!(self, Self::Json | Self::Cbor | Self::MessagePack)
    }

    /// Reads a payload once for all fields; texts and numbers stay where they are as far as that can be.
    pub fn parse(self, payload: &[u8], bounds: Bounds) -> Result<Document<'_>, Malformed> {
        if payload.len() > bounds.size {
            return Err(Malformed::Size { bytes: payload.len(), most: bounds.size });
        }
        let depth = bounds.depth.min(DEEPEST);
        if payload.is_empty() && self.has_paths() {
            return Err(Malformed::Empty);
        }
        let root = match self {
            Self::Text => text(payload)?,
            Self::Json => json::parse(without_mark(payload), payload.len(), depth)?,
            Self::Cbor => packed::cbor(payload, depth)?,
            Self::MessagePack => packed::message_pack(payload, depth)?,
            Self::Binary => Node::Bytes(payload.into()),
        };
        Ok(Document { root })
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Json => "JSON",
            Self::Cbor => "CBOR",
            Self::MessagePack => "MessagePack",
            Self::Binary => "binary",
        })
    }
}

impl Default for Bounds {
    /// 1 MiB, 64 levels.
    fn default() -> Self {
        Self { size: 1 << 20, depth: 64 }
    }
}

impl<'a> Document<'a> {
    pub(super) fn find(&self, path: &Path) -> Found<'_, 'a> {
        let mut node = &self.root;
        for step in path.steps() {
            node = match (step, node) {
                (_, Node::Null) => return Found::Null,
                (Step::Key(key), Node::Object(members)) => match member(members, key) {
                    Some(node) => node,
                    None => return Found::Absent,
                },
                (Step::Index(index), Node::Object(members)) => match member(members, &index.to_string()) {
                    Some(node) => node,
                    None => return Found::Absent,
                },
                (Step::Index(index), Node::Array(elements)) => match elements.get(*index) {
                    Some(node) => node,
                    None => return Found::Index { index: *index, length: elements.len() },
                },
                (Step::Key(_), node) => {
                    return Found::Wrong { found: node.shape(), expected: Shape::Object };
                }
                (Step::Index(_), node) => {
                    return Found::Wrong { found: node.shape(), expected: Shape::Array };
                }
            };
        }
        Found::Node(node)
    }

    /// The first `most` single values of the payload, each with its path, for whoever describes an unknown device.
    #[must_use]
    pub fn leaves(&self, most: usize) -> Vec<(Path, Shape)> {
        let mut leaves = Vec::new();
        let mut open: Vec<(Vec<Step>, &Node<'_>)> = vec![(Vec::new(), &self.root)];
        while let Some((steps, node)) = open.pop() {
            if leaves.len() == most {
                break;
            }
            let below = |step: Step| [steps.as_slice(), &[step]].concat();
            match node {
                Node::Object(members) => {
                    let members = members.iter().take(most).rev();
                    open.extend(members.map(|(key, node)| (below(Step::Key(Box::from(&**key))), node)));
                }
                Node::Array(elements) => {
                    let elements = elements.iter().take(most).enumerate();
                    let within = elements.map(|(index, node)| (below(Step::Index(index)), node));
                    open.extend(within.collect::<Vec<_>>().into_iter().rev());
                }
                leaf => leaves.push((Path::new(steps), leaf.shape())),
            }
        }
        leaves
    }
}

impl Node<'_> {
    pub(super) fn shape(&self) -> Shape {
        match self {
            Self::Null => Shape::Null,
            Self::Bool(_) => Shape::Bool,
            Self::NotFinite(_) | Self::Number(_) | Self::Integer(_) | Self::Float(_) => Shape::Number,
            Self::Text(_) => Shape::Text,
            Self::Bytes(_) => Shape::Bytes,
            Self::Array(_) => Shape::Array,
            Self::Object(_) => Shape::Object,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::Text => "a text",
            Self::Bytes => "bytes",
            Self::Array => "an array",
            Self::Object => "an object",
        })
    }
}

fn member<'d, 'a>(members: &'d [(Cow<'a, str>, Node<'a>)], key: &str) -> Option<&'d Node<'a>> {
    members.iter().rev().find(|(own, _)| own == key).map(|(_, node)| node)
}

fn text(payload: &[u8]) -> Result<Node<'_>, Malformed> {
    let text = std::str::from_utf8(payload).map_err(|error| Malformed::Utf8 { at: error.valid_up_to() })?;
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    Ok(Node::Text(text.trim_end_matches(['\r', '\n']).into()))
}

fn without_mark(payload: &[u8]) -> &[u8] {
    payload.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(payload)
}
