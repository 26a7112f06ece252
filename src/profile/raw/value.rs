//! What a profile says of a value itself: type, order of bytes, scaling, words, and what stands for none.

use rust_decimal::Decimal;
use schemars::json_schema;

use super::register::hexadecimal;
use crate::{
    codec::value::{Encoding, Order, Padding},
    config::{
        leaf::{Flag, Words, leaf_schema},
        problem::{Findings, What},
        read::{At, Node, Read},
        section::section,
    },
    model::Kind,
};

/// A byte order that holds for tags of any width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DefaultOrder(pub(crate) Order);

/// A byte order written at a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TagOrder {
    pub(crate) order: Order,
    /// Bytes of the types that the name is for; `None` for a name that is for all.
    pub(crate) width: Option<u8>,
}

/// What is exchanged against the big-endian order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Swap {
    Byte,
    Word,
    Dword,
}

/// Two numbers, each with its meaning by its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair(pub(crate) Decimal, pub(crate) Decimal);

/// Two different numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends(pub(crate) Decimal, pub(crate) Decimal);

/// Words by number.
#[derive(Debug, Clone)]
pub(crate) struct LabelTable(pub(crate) Vec<(i64, At<String>)>);

/// What stands for `not available`.
#[derive(Debug, Clone)]
pub(crate) struct Sentinels(pub(crate) Vec<At<Sentinel>>);

/// One number or bit pattern that stands for `not available`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sentinel {
    Number(Decimal),
    /// One that takes more digits than a decimal has.
    Float(f64),
    Pattern(u64),
}

section! {
    /// Scaling by two points of a straight line.
    pub(crate) struct ScalingTable {
        /// Two raw numbers, the lower first, such as `[4000, 20000]`.
        required raw: Pair;
        /// The values that they stand for, such as `[0, 100]`; they may fall.
        required value: Ends;
        /// Whether readings beyond the values become the nearer of them; writes beyond them are then refused.
        default clamp: Flag = false;
    }
}

impl Words for Kind {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("bool", Self::Bool),
        ("int8", Self::Int8),
        ("uint8", Self::Uint8),
        ("int16", Self::Int16),
        ("uint16", Self::Uint16),
        ("int32", Self::Int32),
        ("uint32", Self::Uint32),
        ("int48", Self::Int48),
        ("uint48", Self::Uint48),
        ("int64", Self::Int64),
        ("uint64", Self::Uint64),
        ("float16", Self::Float16),
        ("float32", Self::Float32),
        ("float64", Self::Float64),
        ("bcd16", Self::Bcd16),
        ("bcd32", Self::Bcd32),
        ("text", Self::Text),
    ];
}

impl Words for DefaultOrder {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("ABCD", Self(Order::ABCD)),
        ("CDAB", Self(Order::CDAB)),
        ("BADC", Self(Order::BADC)),
        ("DCBA", Self(Order::DCBA)),
        ("ABCDEFGH", Self(Order::ABCD)),
        ("GHEFCDAB", Self(Order::CDAB)),
        ("BADCFEHG", Self(Order::BADC)),
        ("HGFEDCBA", Self(Order::DCBA)),
    ];
}

const fn order(order: Order, width: u8) -> TagOrder {
    TagOrder { order, width: if width == 0 { None } else { Some(width) } }
}

impl Words for TagOrder {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("ABCD", order(Order::ABCD, 0)),
        ("CDAB", order(Order::CDAB, 0)),
        ("BADC", order(Order::BADC, 0)),
        ("DCBA", order(Order::DCBA, 0)),
        ("AB", order(Order::ABCD, 2)),
        ("BA", order(Order::BADC, 2)),
        ("ABCDEF", order(Order::ABCD, 6)),
        ("EFCDAB", order(Order::CDAB, 6)),
        ("BADCFE", order(Order::BADC, 6)),
        ("FEDCBA", order(Order::DCBA, 6)),
        ("ABCDEFGH", order(Order::ABCD, 8)),
        ("GHEFCDAB", order(Order::CDAB, 8)),
        ("BADCFEHG", order(Order::BADC, 8)),
        ("HGFEDCBA", order(Order::DCBA, 8)),
        ("CDABGHEF", order(Order { bytes: false, words: true, dwords: false }, 8)),
        ("EFGHABCD", order(Order { bytes: false, words: false, dwords: true }, 8)),
        ("DCBAHGFE", order(Order { bytes: true, words: true, dwords: false }, 8)),
        ("FEHGBADC", order(Order { bytes: true, words: false, dwords: true }, 8)),
    ];
}

impl Words for Swap {
    const WORDS: &'static [(&'static str, Self)] =
        &[("byte", Self::Byte), ("word", Self::Word), ("dword", Self::Dword)];
}

impl Words for Encoding {
    const WORDS: &'static [(&'static str, Self)] =
        &[("ascii", Self::Ascii), ("latin1", Self::Latin1), ("utf-8", Self::Utf8), ("utf-16", Self::Utf16)];
}

impl Words for Padding {
    const WORDS: &'static [(&'static str, Self)] = &[("nul", Self::Nul), ("space", Self::Space)];
}

fn two(node: &Node<'_>) -> Option<(Decimal, Decimal)> {
    match node.items().as_deref() {
        Some([first, second]) => first.number().zip(second.number()),
        _ => None,
    }
}

impl Read for Pair {
    fn allowed() -> String {
        "[first, second], two numbers of at most 15 significant digits with the first below the second"
            .to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let pair = two(node).filter(|(first, second)| first < second);
        node.accept(pair.map(|(first, second)| Self(first, second)), found)
    }
}
leaf_schema!(
    Pair,
    "Pair",
    json_schema!({ "type": "array", "items": { "type": "number" }, "minItems": 2, "maxItems": 2 })
);

impl Read for Ends {
    fn allowed() -> String {
        "[first, second], two different numbers of at most 15 significant digits".to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let pair = two(node).filter(|(first, second)| first != second);
        node.accept(pair.map(|(first, second)| Self(first, second)), found)
    }
}
leaf_schema!(
    Ends,
    "Ends",
    json_schema!({ "type": "array", "items": { "type": "number" }, "minItems": 2, "maxItems": 2 })
);

/// Longest word for a number.
const WORD_CHARS: usize = 64;
/// Most words of one tag.
const MOST_WORDS: usize = 200;

impl Read for LabelTable {
    fn allowed() -> String {
        format!("a table of 1 to {MOST_WORDS} words by number, such as {{ 0 = \"off\", 1 = \"auto\" }}")
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let Some(entries) = node.entries().filter(|entries| (1..=MOST_WORDS).contains(&entries.len())) else {
            return node.accept(None, found);
        };
        let mut labels = Vec::new();
        for (key, node) in entries {
            let number = key.parse::<i64>().ok().filter(|number| number.to_string() == key);
            let word = node.text().filter(|word| is_word(word));
            match (number, word) {
                (Some(number), Some(word)) => {
                    labels.push((number, At { value: word.to_owned(), spot: node.spot }));
                }
                (None, _) => node.refuse(found, "a whole number in front of each word, such as 0 or -1"),
                (Some(_), None) => {
                    let allowed = format!(
                        "a word of 1 to {WORD_CHARS} characters without space at its ends, neither a number nor true \
                         or false"
                    );
                    node.refuse(found, allowed);
                }
            }
        }
        labels.sort_by_key(|(number, _)| *number);
        Some(Self(distinct(labels, found)))
    }
}
leaf_schema!(
    LabelTable,
    "LabelTable",
    json_schema!({
        "type": "object",
        "patternProperties": {
            "^(0|-?[1-9][0-9]*)$": { "type": "string", "minLength": 1, "maxLength": WORD_CHARS }
        },
        "additionalProperties": false,
        "minProperties": 1,
        "maxProperties": MOST_WORDS
    })
);

/// Whether nobody could take a word for a value that it does not stand for.
fn is_word(word: &str) -> bool {
    let is = |other: &str| word.eq_ignore_ascii_case(other);
    (1..=WORD_CHARS).contains(&word.chars().count())
        && word.trim() == word
        && !word.contains(char::is_control)
        && word.parse::<f64>().is_err()
        && !is("true")
        && !is("false")
        && !is("null")
}

/// Drops words that another number has already; case makes no difference to who writes one.
fn distinct(labels: Vec<(i64, At<String>)>, found: &mut Findings) -> Vec<(i64, At<String>)> {
    let mut kept: Vec<(i64, At<String>)> = Vec::new();
    for (number, word) in labels {
        match kept.iter().find(|(_, first)| first.value.eq_ignore_ascii_case(&word.value)) {
            None => kept.push((number, word)),
            Some((_, first)) => {
                let what = What::Duplicate {
                    first: first.spot.reference(),
                    allowed: "one number a word".to_owned(),
                };
                found.problems.push(word.spot.problem(what));
            }
        }
    }
    kept
}

impl Read for Sentinels {
    fn allowed() -> String {
        "a number of at most 15 significant digits, a bit pattern such as \"0x7FC00000\", or a list of these"
            .to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let sentinel = |node: &Node<'_>| {
            let pattern = || node.text().and_then(|text| hexadecimal(text, 16)).map(Sentinel::Pattern);
            let number = node.number().map(Sentinel::Number);
            number.or_else(|| node.float().map(Sentinel::Float)).or_else(pattern)
        };
        let Some(items) = node.items() else {
            let at = |value| Self(vec![At { value, spot: node.spot.clone() }]);
            return node.accept(sentinel(node).map(at), found);
        };
        let mut sentinels = Vec::new();
        for item in items {
            match sentinel(&item) {
                Some(value) => sentinels.push(At { value, spot: item.spot }),
                None => item.refuse(
                    found,
                    "a number of at most 15 significant digits, or a bit pattern such as \"0x7FC00000\"",
                ),
            }
        }
        Some(Self(sentinels))
    }
}
leaf_schema!(
    Sentinels,
    "Sentinels",
    json_schema!({
        "anyOf": [
            { "type": "number" },
            { "type": "string", "pattern": "^0[xX][0-9A-Fa-f]{1,16}$" },
            {
                "type": "array",
                "items": {
                    "anyOf": [
                        { "type": "number" },
                        { "type": "string", "pattern": "^0[xX][0-9A-Fa-f]{1,16}$" }
                    ]
                }
            }
        ]
    })
);
