//! What a profile says of a value that comes in messages: topics, parts of payloads, words.

use rust_decimal::Decimal;
use schemars::json_schema;

use super::{LabelTable, ScalingTable, Sentinels, Swap, TagOrder, register::Bits};
use crate::{
    codec::{
        payload::{Clock, Encoding, Form, Path, Word},
        topic::{Pattern, check_topic},
        value::{self, Padding, Part},
    },
    config::{
        leaf::{Amount, Choice, Factor, Flag, Number, Span, TagName, Text, Whole, Words, leaf_schema},
        problem::Findings,
        raw::{StaleMs, WriteMs},
        read::{At, List, Node, Read},
        section::section,
    },
    model::{Access, Kind},
};

/// Quality of service, as it stands in packets.
pub(crate) type Level = Whole<0, 2>;
/// An interval between messages, in milliseconds: 10 ms to a week.
pub(crate) type IntervalMs = Whole<10, 604_800_000>;

/// A topic filter of which levels may have names.
#[derive(Debug, Clone)]
pub(crate) struct Topic(pub(crate) Pattern);

/// A topic on which is published, without names.
#[derive(Debug, Clone)]
pub(crate) struct TopicName(pub(crate) String);

/// Where in a payload a value stands.
#[derive(Debug, Clone)]
pub(crate) struct PayloadPath(pub(crate) Path);

/// What words of payloads mean.
#[derive(Debug, Clone)]
pub(crate) struct WordTable(pub(crate) Vec<(At<String>, Word)>);

/// Words and numbers that mean no value.
#[derive(Debug, Clone)]
pub(crate) struct NoneWords(pub(crate) Vec<String>);

/// What names in topics stand for.
#[derive(Debug, Clone)]
pub(crate) struct Captures(pub(crate) Vec<(String, At<String>)>);

section! {
    /// One value of an MQTT device.
    pub(crate) struct TopicTable {
        /// Name of the tag below its device, such as `temperature` or `pump/speed`.
        required name: TagName;
        /// What the value means, for people and assistants.
        optional description: Text;
        /// Topic of the messages that carry the value. Levels, or parts of them, in braces are filled in by the device's
        /// `captures`: `tele/{device}/SENSOR`. Left out, the tag can only be written.
        optional topic: Topic;
        /// Where in the payload the value stands: `ENERGY.Power`, `Power[0]`, `["switch:0"].apower`. Default: the whole
        /// payload.
        optional path: PayloadPath;
        /// How the payload is written. Default: `json` where `path` is written, `binary` where `bytes` is, else `text`.
        optional encoding: Choice<Encoding>;
        /// Makes the value bytes at a fixed place of a binary payload, or of a byte string in CBOR or MessagePack.
        optional bytes: BytesTable;
        /// Further messages that carry the same value; the last message counts.
        optional also: List<OriginTable>;
        /// Quality of service of the subscription. Default: the device's, else the profile's, else 1.
        optional qos: Level;
        /// Where the payload says when it was made: ages count from there.
        optional time: TimeTable;
        /// Data type of the value.
        required r#type: Choice<Kind>;
        /// Makes the tag an array of so many values.
        optional count: Whole<1, 2000>;
        /// Engineering value = payload's value × scale + offset, computed in decimal.
        default scale: Factor = 1;
        /// Engineering value = payload's value × scale + offset, computed in decimal.
        default offset: Number = 0;
        /// Instead of `scale` and `offset`, two raw numbers and the values that they stand for.
        optional scaling: ScalingTable;
        /// What words of the payload mean: `{ ON = true, OFF = false }`, or numbers. Written is the first word of a value:
        /// of a table by the alphabet, of a list such as `[["ON", true], ["1", true]]` in its order.
        optional words: WordTable;
        /// Words for numbers, for people: served beside the number and taken in its place. Default: `words` that mean whole
        /// numbers.
        optional labels: LabelTable;
        /// Words and numbers, before scaling, with which the device says that it has no value.
        optional not_available: NoneWords;
        /// Engineering unit, such as `°C`.
        optional unit: Text;
        /// Lowest and highest value that the process can have; a value outside it is served as bad (`out_of_range`).
        optional range: Span;
        /// Changes up to this size are stored but not announced.
        optional deadband: Amount;
        /// How often the device tells the value, in milliseconds: it becomes uncertain after three of these.
        optional interval_ms: IntervalMs;
        /// Age in milliseconds at which a good value becomes uncertain. Default: three times `interval_ms`, else the
        /// device's, else the profile's, else never: most devices tell only what changes.
        optional stale_after_ms: StaleMs;
        /// Whether the tag may be written.
        default access: Choice<Access> = "read";
        /// How it is written; needs `access = "read-write"`.
        optional write: TopicWriteTable;
    }
}

section! {
    /// Messages that carry a value.
    pub(crate) struct OriginTable {
        /// Topic of the messages, as in the tag.
        required topic: Topic;
        /// Where in the payload the value stands. Default: the whole payload.
        optional path: PayloadPath;
        /// How the payload is written. Default: `json` where `path` is written, else `text`.
        optional encoding: Choice<Encoding>;
        /// Quality of service of the subscription. Default: the tag's.
        optional qos: Level;
        /// Where the payload says when it was made.
        optional time: TimeTable;
    }
}

section! {
    /// Where a payload says when it was made.
    pub(crate) struct TimeTable {
        /// Where in the payload the time stands.
        required path: PayloadPath;
        /// How it is written: `rfc3339`, a text with date, time and zone; `unix-seconds` or `unix-millis` since 1970.
        required clock: Choice<Clock>;
    }
}

section! {
    /// A value in bytes.
    pub(crate) struct BytesTable {
        /// Bytes before it.
        default offset: Whole<0, 65_535> = 0;
        /// Order in which its bytes arrive. Default: the device's, else the profile's, else `ABCD`.
        optional byte_order: Choice<TagOrder>;
        /// The same as exchanges against the big-endian order.
        optional swap: List<Choice<Swap>>;
        /// The bit that holds a bool, from 0, the least significant of a byte, to 7; up to 15 of two bytes.
        optional bit: Whole<0, 15>;
        /// The bits that hold a number, as `[lowest, highest]`; needs `type = "uint16"`.
        optional bits: Bits;
        /// Bytes of a text.
        optional length: Whole<1, 250>;
        /// What the bytes of a text mean. Default: `ascii`.
        optional encoding: Choice<value::Encoding>;
        /// What fills a text up to its length. Default: `nul`.
        optional padding: Choice<Padding>;
        /// What stands there where there is no value: a raw number, a bit pattern, or a list of these.
        optional not_available: Sentinels;
    }
}

section! {
    /// How a value is written, and what a write must keep, in engineering units.
    pub(crate) struct TopicWriteTable {
        /// Topic of the command; names in braces are filled in, `{client}` by our client id.
        required topic: Topic;
        /// The payload, with `{value}` where the value goes, `{id}` for a number that is new for each write, and the
        /// names of the device's `captures`. In JSON a text `"{value}"` becomes the value with its type. Default: the
        /// value alone.
        optional payload: Text;
        /// Whether `payload` is JSON or any text. Default: `json` where the value or the payload is JSON, else `text`.
        optional form: Choice<Form>;
        /// Quality of service of the command.
        default qos: Level = 1;
        /// Whether the broker keeps the command: every device that connects later then carries it out again. With version 5
        /// it is kept until the deadline of the write has passed.
        default retain: Flag = false;
        /// How long in milliseconds the topic of the value may take to report what was written; 0 does not wait.
        default confirm_ms: Whole<0, 600_000> = 2000;
        /// How the device answers to a command.
        optional response: ResponseTable;
        /// Lowest value that may be written.
        optional min: Number;
        /// Highest value that may be written.
        optional max: Number;
        /// Deadline of a write in milliseconds, counted from its arrival. Default: the site's.
        optional timeout_ms: WriteMs;
    }
}

section! {
    /// The message by which a device answers to a command.
    pub(crate) struct ResponseTable {
        /// Topic of the answer; names in braces are filled in, `{client}` by our client id.
        required topic: Topic;
        /// Where in the answer, which is JSON, the number stands that the command had as `{id}`. Left out, the answer has
        /// the correlation data of MQTT 5.
        optional id: PayloadPath;
        /// What the answer, which is JSON, has only where the device refuses.
        optional error: PayloadPath;
    }
}

section! {
    /// Messages that tell whether a device is there.
    pub(crate) struct AvailabilityTable {
        /// Topic of the messages; names in braces are filled in.
        required topic: Topic;
        /// Words that say that it is there.
        required online: List<Text>;
        /// Words that say that it is not.
        required offline: List<Text>;
        /// Where in the payload the word stands. Default: the whole payload.
        optional path: PayloadPath;
        /// How the payload is written. Default: `json` where `path` is written, else `text`.
        optional encoding: Choice<Encoding>;
    }
}

impl TopicTable {
    /// Keys that only a tag of this kind has.
    pub(crate) const MARKS: [&str; 6] = ["topic", "path", "words", "also", "bytes", "interval_ms"];
}

impl Words for Encoding {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("text", Self::Text),
        ("json", Self::Json),
        ("cbor", Self::Cbor),
        ("messagepack", Self::MessagePack),
        ("binary", Self::Binary),
    ];
}

impl Words for Clock {
    const WORDS: &'static [(&'static str, Self)] =
        &[("rfc3339", Self::Rfc3339), ("unix-seconds", Self::UnixSeconds), ("unix-millis", Self::UnixMillis)];
}

impl Words for Form {
    const WORDS: &'static [(&'static str, Self)] = &[("text", Self::Text), ("json", Self::Json)];
}

impl BytesTable {
    /// The part of the bytes that it is.
    pub(crate) fn part(&self) -> Part {
        match (&self.bit, &self.bits) {
            (Some(bit), _) => Part::Bit(u8::try_from(bit.value.0).unwrap_or_default()),
            (_, Some(bits)) => Part::Bits { low: bits.value.low, high: bits.value.high },
            _ => Part::Whole,
        }
    }
}

impl Read for Topic {
    fn allowed() -> String {
        "a topic or topic filter, of which levels may have names, such as tele/{device}/SENSOR".to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        match node.text().map(Pattern::parse) {
            Some(Ok(pattern)) => Some(Self(pattern)),
            Some(Err(problem)) => {
                node.refuse(found, format!("{} ({})", Self::allowed(), problem.problem));
                None
            }
            None => node.accept(None, found),
        }
    }
}
leaf_schema!(Topic, "Topic", json_schema!({ "type": "string", "minLength": 1 }));

impl Read for TopicName {
    fn allowed() -> String {
        "a topic without wildcards, such as fieldbridge/plant/status".to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let topic = node.text().filter(|text| check_topic(text).is_ok());
        node.accept(topic.map(|text| Self(text.to_owned())), found)
    }
}
leaf_schema!(TopicName, "TopicName", json_schema!({ "type": "string", "pattern": "^[^+#]+$" }));

impl Read for PayloadPath {
    fn allowed() -> String {
        "keys and indexes from the outside in, such as ENERGY.Power[0] or [\"switch:0\"].apower".to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        match node.text().filter(|text| !text.is_empty()).map(Path::parse) {
            Some(Ok(path)) => Some(Self(path)),
            Some(Err(problem)) => {
                node.refuse(found, format!("{} ({problem})", Self::allowed()));
                None
            }
            None => node.accept(None, found),
        }
    }
}
leaf_schema!(PayloadPath, "PayloadPath", json_schema!({ "type": "string", "minLength": 1 }));

const WORD_VALUES: &str = "true, false or a number";

fn meaning(node: &Node<'_>) -> Option<Word> {
    node.boolean().map(Word::Bool).or_else(|| node.number().map(Word::Number))
}

impl Read for WordTable {
    fn allowed() -> String {
        format!(
            "a table of words, each with {WORD_VALUES}, such as {{ ON = true, OFF = false }}, or a list of pairs, such \
             as [[\"ON\", true], [\"1\", true]]"
        )
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let mut words = Vec::new();
        if let Some(entries) = node.entries() {
            for (word, node) in entries {
                match meaning(&node) {
                    Some(value) => words.push((At { value: word.to_owned(), spot: node.spot }, value)),
                    None => node.refuse(found, WORD_VALUES),
                }
            }
        } else if let Some(pairs) = node.items() {
            for pair in pairs {
                let items = pair.items();
                let read = match items.as_deref() {
                    Some([word, value]) => word.text().zip(meaning(value)),
                    _ => None,
                };
                match read {
                    Some((word, value)) => {
                        words.push((At { value: word.to_owned(), spot: pair.spot }, value));
                    }
                    None => pair.refuse(found, format!("a word and {WORD_VALUES}, such as [\"ON\", true]")),
                }
            }
        } else {
            return node.accept(None, found);
        }
        Some(Self(words))
    }
}
leaf_schema!(
    WordTable,
    "WordTable",
    json_schema!({
        "anyOf": [
            { "type": "object", "additionalProperties": { "type": ["boolean", "number"] }, "minProperties": 1 },
            {
                "type": "array",
                "items": {
                    "type": "array",
                    "prefixItems": [{ "type": "string" }, { "type": ["boolean", "number"] }],
                    "minItems": 2,
                    "maxItems": 2
                },
                "minItems": 1
            }
        ]
    })
);

impl Read for NoneWords {
    fn allowed() -> String {
        "a word or number, or a list of these".to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let word = |node: &Node<'_>| {
            let number = || node.number().map(|number: Decimal| number.normalize().to_string());
            node.text().map(str::to_owned).or_else(number)
        };
        let Some(items) = node.items() else {
            return node.accept(word(node).map(|word| Self(vec![word])), found);
        };
        let mut words = Vec::new();
        for item in items {
            match word(&item) {
                Some(word) => words.push(word),
                None => item.refuse(found, "a word or number"),
            }
        }
        Some(Self(words))
    }
}
leaf_schema!(
    NoneWords,
    "NoneWords",
    json_schema!({
        "anyOf": [
            { "type": ["string", "number"] },
            { "type": "array", "items": { "type": ["string", "number"] } }
        ]
    })
);

impl Read for Captures {
    fn allowed() -> String {
        "a table of names with a text each, such as { device = \"plug_3\" }".to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let Some(entries) = node.entries() else { return node.accept(None, found) };
        let mut captures = Vec::new();
        for (name, node) in entries {
            match node.text().filter(|text| !text.is_empty()) {
                Some(text) => {
                    captures.push((name.to_owned(), At { value: text.to_owned(), spot: node.spot }));
                }
                None => node.refuse(found, "a text, not empty"),
            }
        }
        Some(Self(captures))
    }
}
leaf_schema!(
    Captures,
    "Captures",
    json_schema!({ "type": "object", "additionalProperties": { "type": "string", "minLength": 1 } })
);
