//! Checks what a profile or site says of values in messages, and turns it into the tags of a device.

mod sign;

use std::{collections::HashMap, sync::Arc, time::Duration};

pub(crate) use sign::{Sign, signs};

use super::{
    format::{Draft, leaf},
    mqtt::{Command, Origin, Point, Qos, Response},
    raw::{
        RegisterTable, TagTable, WriteTable,
        register::Register,
        topic::{
            BytesTable, Level, PayloadPath, ResponseTable, TimeTable, Topic, TopicTable, TopicWriteTable,
        },
    },
    template::{Alike, check_access, check_limits, double},
};
use crate::{
    codec::{
        payload::{Binary, Encoding, Field, Form, Path, Spec, Stamp, Template, Word},
        topic::{Pattern, Unbound},
        value::{Format, Order, Part, Scale},
    },
    config::{
        MqttVersion, TagSpec,
        leaf::Choice,
        problem::{Findings, Problem, What},
        read::{At, Spot, millis},
    },
    model::{Access, Definition, Kind, Labels, Limits, Tag, TagPath},
};

/// A checked tag that lacks only what its device decides.
#[derive(Debug, Clone)]
pub(crate) struct TopicTemplate {
    pub(crate) name: String,
    /// Where its name was written.
    pub(crate) spot: Spot,
    description: String,
    origins: Vec<Source>,
    value: Value,
    kind: Kind,
    count: Option<u16>,
    labels: Option<Arc<Labels>>,
    scaled: bool,
    unit: Option<String>,
    range: Option<(f64, f64)>,
    deadband: Option<f64>,
    interval: Option<Duration>,
    stale_after: Option<Duration>,
    access: Access,
    limits: Limits,
    write: Option<At<TopicWriteTable>>,
}

/// Messages of which the topic is not filled in.
#[derive(Debug, Clone)]
struct Source {
    topic: At<Topic>,
    qos: Option<Qos>,
    encoding: Encoding,
    path: Path,
    time: Option<Stamp>,
}

/// How a value stands in a payload, apart from where.
#[derive(Debug, Clone)]
enum Value {
    Leaf(Spec),
    Bytes { offset: usize, draft: Draft, spot: Spot },
}

/// The device that tags are made for.
#[derive(Debug)]
pub(crate) struct Host<'a> {
    pub(crate) device: &'a str,
    /// What names stand for, and where that was written.
    pub(crate) captures: HashMap<&'a str, &'a str>,
    pub(crate) spot: Spot,
    pub(crate) client_id: &'a str,
    pub(crate) version: MqttVersion,
    pub(crate) order: Option<Order>,
    pub(crate) stale_after: Option<Duration>,
    pub(crate) qos: Option<Qos>,
}

/// The name that our client id has in topics.
const CLIENT: &str = "client";

pub(crate) fn qos(level: &At<Level>) -> Qos {
    Qos::from_level(u8::try_from(level.value.0).unwrap_or(u8::MAX))
}

/// Checks one tag; `None` where it has problems.
pub(super) fn template(tag: &TopicTable, found: &mut Findings) -> Option<TopicTemplate> {
    let plain = plain(tag);
    check_origin(tag, found);
    if tag.topic.is_none() {
        let keys = [
            tag.path.as_ref().map(|at| &at.spot),
            tag.time.as_ref().map(|at| &at.spot),
            tag.interval_ms.as_ref().map(|at| &at.spot),
        ];
        for spot in keys.into_iter().flatten() {
            let (with, allowed) =
                ("a tag without `topic`".to_owned(), "to leave it out, or a `topic`".to_owned());
            found.problems.push(spot.problem(What::Conflict { with, allowed }));
        }
    }
    let limits = check_access(&plain, None, found);
    check_write(tag, found);
    let kind = tag.r#type.as_ref()?;
    let (value, format) = match &tag.bytes {
        Some(bytes) => bytes_value(bytes, &plain, kind.value.0, found),
        None => leaf_value(tag, &plain, kind, found)?,
    };
    check_limits(&plain, &format, found);
    let name = tag.name.as_ref()?;
    let labels = match &value {
        Value::Leaf(spec) => spec.labels.clone(),
        Value::Bytes { .. } => format.labels.clone(),
    };
    Some(TopicTemplate {
        name: name.value.0.clone(),
        spot: name.spot.clone(),
        description: tag.description.as_ref().map(|at| at.value.0.clone()).unwrap_or_default(),
        origins: origins(tag),
        value,
        kind: kind.value.0,
        count: format.count,
        labels,
        scaled: format.scale != Scale::NONE,
        unit: tag.unit.as_ref().map(|at| at.value.0.clone()),
        range: tag.range.as_ref().map(|at| (double(at.value.low), double(at.value.high))),
        deadband: tag.deadband.as_ref().map(|at| double(at.value.0)),
        interval: tag.interval_ms.as_ref().map(|at| millis(at.value.0)),
        stale_after: tag.stale_after_ms.as_ref().map(|at| millis(at.value.0)),
        access: tag.access.as_ref()?.value.0,
        limits,
        write: tag.write.clone(),
    })
}

/// The same as far as it is the same for all protocols, under the keys of a register.
fn plain(tag: &TopicTable) -> TagTable {
    let write = tag.write.as_ref().map(|at| {
        let TopicWriteTable { min, max, timeout_ms, .. } = at.value.clone();
        let value = WriteTable { min, max, timeout_ms, function: None, settle_ms: None };
        At { value, spot: at.spot.clone() }
    });
    let bytes = tag.bytes.as_ref();
    let register = bytes.map(|at| {
        let BytesTable { bit, bits, .. } = at.value.clone();
        let table = RegisterTable { table: None, address: None, reference: None, bit, bits, byte: None };
        At { value: Register(table), spot: at.spot.clone() }
    });
    TagTable {
        name: tag.name.clone(),
        description: tag.description.clone(),
        register,
        r#type: tag.r#type.clone(),
        byte_order: bytes.and_then(|at| at.value.byte_order.clone()),
        swap: bytes.and_then(|at| at.value.swap.clone()),
        count: tag.count.clone(),
        length: bytes.and_then(|at| at.value.length.clone()),
        encoding: bytes.and_then(|at| at.value.encoding.clone()),
        padding: bytes.and_then(|at| at.value.padding.clone()),
        scale: tag.scale.clone(),
        offset: tag.offset.clone(),
        scaling: tag.scaling.clone(),
        labels: tag.labels.clone(),
        not_available: bytes.and_then(|at| at.value.not_available.clone()),
        unit: tag.unit.clone(),
        range: tag.range.clone(),
        deadband: tag.deadband.clone(),
        scan_ms: None,
        stale_after_ms: tag.stale_after_ms.clone(),
        access: tag.access.clone(),
        write,
    }
}

fn path(at: Option<&At<PayloadPath>>) -> Path {
    at.map(|at| at.value.0.clone()).unwrap_or_default()
}

/// The encoding that was written, or the one that goes without saying.
fn encoding(
    written: Option<&At<Choice<Encoding>>>,
    path: Option<&At<PayloadPath>>,
    has_bytes: bool,
) -> Encoding {
    match (written, path) {
        (Some(at), _) => at.value.0,
        (None, Some(_)) => Encoding::Json,
        (None, None) if has_bytes => Encoding::Binary,
        (None, None) => Encoding::Text,
    }
}

fn stamp(at: &At<TimeTable>) -> Option<Stamp> {
    let TimeTable { path, clock } = &at.value;
    Some(Stamp { path: path.as_ref()?.value.0.clone(), clock: clock.as_ref()?.value.0 })
}

fn origins(tag: &TopicTable) -> Vec<Source> {
    let own = tag.topic.as_ref().map(|topic| Source {
        topic: topic.clone(),
        qos: tag.qos.as_ref().map(qos),
        encoding: encoding(tag.encoding.as_ref(), tag.path.as_ref(), tag.bytes.is_some()),
        path: path(tag.path.as_ref()),
        time: tag.time.as_ref().and_then(stamp),
    });
    let also = tag.also.iter().flat_map(|also| &also.value.0).filter_map(|also| {
        let also = &also.value;
        Some(Source {
            topic: also.topic.clone()?,
            qos: also.qos.as_ref().or(tag.qos.as_ref()).map(qos),
            encoding: encoding(also.encoding.as_ref(), also.path.as_ref(), false),
            path: path(also.path.as_ref()),
            time: also.time.as_ref().and_then(stamp),
        })
    });
    own.into_iter().chain(also).collect()
}

/// Paths, times and bytes against the encodings.
fn check_origin(tag: &TopicTable, found: &mut Findings) {
    let writable = tag.access.as_ref().is_some_and(|access| access.value.0 == Access::ReadWrite);
    if let (None, Some(name), false) = (&tag.topic, &tag.name, writable) {
        let spot = name.spot.beside("topic");
        if !spot.is_refused(found) {
            let allowed = "the topic of the messages that carry the value".to_owned();
            found.problems.push(spot.problem(What::Missing { allowed }));
        }
    }
    let own = encoding(tag.encoding.as_ref(), tag.path.as_ref(), tag.bytes.is_some());
    check_paths(own, tag.path.as_ref(), tag.time.as_ref(), found);
    for also in tag.also.iter().flat_map(|also| &also.value.0) {
        let also = &also.value;
        let encoding = encoding(also.encoding.as_ref(), also.path.as_ref(), false);
        check_paths(encoding, also.path.as_ref(), also.time.as_ref(), found);
        if let Some(at) = also.encoding.as_ref().filter(|at| at.value.0 == Encoding::Binary) {
            at.conflict(found, "`also`", "text, json, cbor or messagepack");
        }
    }
    match (&tag.bytes, &tag.encoding, own) {
        (Some(at), _, Encoding::Text | Encoding::Json) => {
            at.conflict(found, format!("encoding = \"{}\"", own.name()), "binary, cbor or messagepack");
        }
        (None, Some(at), Encoding::Binary) => {
            let what = What::Missing { allowed: "where the value stands, such as { offset = 0 }".to_owned() };
            found.problems.push(at.spot.beside("bytes").problem(what));
        }
        _ => {}
    }
    if let (Some(_), Some(also)) = (&tag.bytes, &tag.also) {
        also.conflict(found, "bytes", "to leave it out");
    }
}

fn check_paths(
    encoding: Encoding,
    path: Option<&At<PayloadPath>>,
    time: Option<&At<TimeTable>>,
    found: &mut Findings,
) {
    if encoding.has_paths() {
        return;
    }
    let with = format!("encoding = \"{}\"", encoding.name());
    let allowed = "to leave it out: json, cbor and messagepack have parts";
    if let Some(path) = path {
        path.conflict(found, with.clone(), allowed);
    }
    if let Some(time) = time {
        time.conflict(found, with, allowed);
    }
}

/// What is written, against how the payload is.
fn check_write(tag: &TopicTable, found: &mut Findings) {
    let writable = tag.access.as_ref().filter(|access| access.value.0 == Access::ReadWrite);
    if let (Some(access), None) = (writable, &tag.write)
        && !access.spot.beside("write").is_refused(found)
    {
        let allowed = "a table with the `topic` of the command".to_owned();
        found.problems.push(access.spot.beside("write").problem(What::Missing { allowed }));
    }
    let Some(write) = tag.write.as_ref().map(|at| &at.value) else { return };
    let encoding = encoding(tag.encoding.as_ref(), tag.path.as_ref(), tag.bytes.is_some());
    if let (Some(topic), Encoding::Cbor | Encoding::MessagePack) = (&write.topic, encoding) {
        let with = format!("encoding = \"{}\"", encoding.name());
        topic.conflict(found, with, "text, json or binary: no command can be written otherwise");
    }
    if let (Some(payload), Encoding::Binary) = (&write.payload, encoding) {
        payload.conflict(found, "encoding = \"binary\"", "to leave it out: the bytes alone are the payload");
    }
    if let Some(retain) = write.retain.as_ref().filter(|retain| retain.value.0) {
        let note = "a broker gives a retained command to every device that connects later, which carries it out again";
        retain.warn(found, note);
    }
}

fn leaf_value(
    tag: &TopicTable,
    plain: &TagTable,
    kind: &At<Choice<Kind>>,
    found: &mut Findings,
) -> Option<(Value, Format)> {
    let format = leaf(plain, kind.value.0, found);
    let mut words = Vec::new();
    for (word, meaning) in tag.words.iter().flat_map(|at| &at.value.0) {
        words.push((Arc::from(word.value.as_str()), *meaning));
    }
    let whole = |meaning: &Word| match meaning {
        Word::Number(number) if number.fract().is_zero() => i64::try_from(number.normalize().mantissa()).ok(),
        Word::Number(_) | Word::Bool(_) => None,
    };
    let named = !kind.value.0.is_float() && format.scale == Scale::NONE;
    let own = words
        .iter()
        .filter(|_| named)
        .filter_map(|(word, meaning)| Some((whole(meaning)?, Arc::clone(word))));
    let mut own = own.collect::<Vec<_>>();
    own.sort_by_key(|(number, _)| *number);
    let own = Labels::new(own);
    let labels = format.labels.clone().or_else(|| (!own.is_empty()).then(|| Arc::new(own)));
    let none = tag.not_available.iter().flat_map(|at| &at.value.0);
    let spec = Spec {
        path: Path::default(),
        kind: kind.value.0,
        count: format.count,
        scale: format.scale,
        words,
        labels,
        not_available: none.map(|word| word.as_str().into()).collect(),
    };
    if let Err(unfit) = Field::new(spec.clone()) {
        found.problems.push(kind.spot.problem(What::Unusable(unfit.to_string())));
        return None;
    }
    Some((Value::Leaf(spec), format))
}

fn bytes_value(at: &At<BytesTable>, plain: &TagTable, kind: Kind, found: &mut Findings) -> (Value, Format) {
    let draft = Draft::new(plain, kind, found);
    let format = draft.format(None);
    let offset = at.value.offset.as_ref().and_then(|at| usize::try_from(at.value.0).ok()).unwrap_or_default();
    if let Err(unfit) = Binary::new(offset, &format) {
        found.problems.push(at.spot.problem(What::Unusable(unfit.to_string())));
    }
    if at.value.part() != Part::Whole && format.part == Part::Whole {
        let with = format!("type = \"{kind}\"");
        at.conflict(found, with, "a bit of type \"bool\", or bits of type \"uint16\"");
    }
    (Value::Bytes { offset, draft, spot: at.spot.clone() }, format)
}

impl TopicTemplate {
    /// The tag of one device.
    pub(crate) fn instantiate(
        &self,
        host: &Host<'_>,
        alike: &mut Alike,
        found: &mut Findings,
    ) -> Option<TagSpec<Arc<Point>>> {
        let path = TagPath::parse(&format!("{}/{}", host.device, self.name)).ok()?;
        let stale_after =
            self.stale_after.or(self.interval.map(|interval| interval * 3)).or(host.stale_after);
        let definition = Definition {
            description: self.description.clone(),
            kind: self.kind,
            count: self.count,
            labels: self.labels.clone(),
            scaled: self.scaled,
            unit: self.unit.clone(),
            range: self.range,
            deadband: self.deadband,
            stale_after,
            access: self.access,
            limits: self.limits.clone(),
        };
        let mut origins = Vec::new();
        for source in &self.origins {
            let field = self.field(&source.path, host, found)?;
            let pattern = host.bind(&source.topic, found)?;
            let qos = source.qos.or(host.qos).unwrap_or_default();
            let (encoding, time) = (source.encoding, source.time.clone());
            origins.push(Origin { pattern, qos, encoding, field, time });
        }
        let field = match origins.first() {
            Some(origin) => Arc::clone(&origin.field),
            None => self.field(&Path::default(), host, found)?,
        };
        let writable = self.access == Access::ReadWrite;
        let command = match self.write.as_ref().filter(|_| writable) {
            Some(write) => Some(Self::command(write, &origins, host, found)?),
            None => None,
        };
        let definition = alike.definition(&self.name, definition);
        let point = Point { origins, field, command };
        Some(TagSpec { tag: Arc::new(Tag { path, definition }), source: Arc::new(point) })
    }

    fn field(&self, path: &Path, host: &Host<'_>, found: &mut Findings) -> Option<Arc<Field>> {
        match &self.value {
            Value::Leaf(spec) => Field::new(Spec { path: path.clone(), ..spec.clone() }).ok().map(Arc::new),
            Value::Bytes { offset, draft, spot } => match Binary::new(*offset, &draft.format(host.order)) {
                Ok(binary) => Some(Arc::new(Field::binary(path.clone(), binary))),
                Err(unfit) => {
                    once(found, spot.problem(What::Unusable(unfit.to_string())));
                    None
                }
            },
        }
    }

    fn command(
        write: &At<TopicWriteTable>,
        origins: &[Origin],
        host: &Host<'_>,
        found: &mut Findings,
    ) -> Option<Command> {
        let TopicWriteTable { topic, payload, form, qos: level, retain, confirm_ms, response, .. } =
            &write.value;
        let written = topic.as_ref()?;
        let pattern = host.bind(written, found)?;
        let topic = Host::single(written, &pattern, found)?;
        let names = host.names();
        // What looks like JSON is: as a text, a value with quotation marks would change what it says.
        let looks_like_json = |at: &At<crate::config::leaf::Text>| {
            at.value.0.trim_start().starts_with(['{', '['])
                && Template::parse(&at.value.0, Form::Json, &names).is_ok()
        };
        let is_json = origins.first().is_some_and(|origin| origin.encoding == Encoding::Json);
        let usual = match payload {
            Some(at) if is_json || looks_like_json(at) => Form::Json,
            _ => Form::Text,
        };
        let form = form.as_ref().map_or(usual, |at| at.value.0);
        let template = match payload {
            None => Template::bare(form),
            Some(at) => match Template::parse(&at.value.0, form, &names) {
                Ok(template) => template,
                Err(problem) => {
                    once(found, at.spot.problem(What::Unusable(problem.to_string())));
                    return None;
                }
            },
        };
        let mut confirm = confirm_ms.as_ref().map(|at| millis(at.value.0)).unwrap_or_default();
        if origins.iter().any(|origin| origin.pattern.matches(&topic).is_some()) {
            let note = "it is a topic of the value itself, so nothing but our own message reports what was written: \
                        writes are not confirmed";
            once_noted(found, written.spot.problem(What::Note(note.to_owned())));
            confirm = Duration::ZERO;
        }
        if origins.is_empty() {
            confirm = Duration::ZERO;
        }
        let response = match response {
            Some(at) => Some(Self::response(at, &template, host, found)?),
            None => None,
        };
        let qos = level.as_ref().map(qos).unwrap_or_default();
        let retain = retain.as_ref().is_some_and(|at| at.value.0);
        Some(Command { topic, template, qos, retain, confirm, response })
    }

    fn response(
        at: &At<ResponseTable>,
        template: &Template,
        host: &Host<'_>,
        found: &mut Findings,
    ) -> Option<Response> {
        let ResponseTable { topic, id, error } = &at.value;
        if let Some(id) = id.as_ref().filter(|_| !template.has_id()) {
            let with = "the payload, which has no {id}".to_owned();
            let allowed = "a `payload` with {id}, the number that the answer repeats".to_owned();
            once(found, id.spot.problem(What::Conflict { with, allowed }));
            return None;
        }
        let written = topic.as_ref()?;
        let pattern = host.bind(written, found)?;
        let topic = Host::single(written, &pattern, found)?;
        if id.is_none() && host.version == MqttVersion::V311 {
            let with = "version = \"3.1.1\" of the connection, which has no correlation data".to_owned();
            let allowed = "an `id`, where the answer repeats the number of the write".to_owned();
            once(found, at.spot.problem(What::Conflict { with, allowed }));
            return None;
        }
        let path = |at: &At<PayloadPath>| at.value.0.clone();
        Some(Response { topic, id: id.as_ref().map(path), error: error.as_ref().map(path) })
    }

    /// The names in its topics and payload.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let write = self.write.as_ref().map(|at| &at.value);
        let command = write.and_then(|write| write.topic.as_ref());
        let response = write.and_then(|write| write.response.as_ref());
        let response = response.and_then(|response| response.value.topic.as_ref());
        let topics = self.origins.iter().map(|source| &source.topic).chain(command).chain(response);
        topics.flat_map(|topic| topic.value.0.names()).map(|name| &**name)
    }

    /// Whether a command's payload has this name.
    pub(crate) fn says(&self, name: &str) -> bool {
        let payload = self.write.as_ref().and_then(|at| at.value.payload.as_ref());
        payload.is_some_and(|payload| payload.value.0.contains(&format!("{{{name}}}")))
    }
}

impl Host<'_> {
    /// A topic with all names filled in.
    fn bind(&self, topic: &At<Topic>, found: &mut Findings) -> Option<Pattern> {
        let value = |name: &str| match name {
            CLIENT => Some(self.client_id),
            name => self.captures.get(name).copied(),
        };
        match topic.value.0.bind(value) {
            Ok(pattern) => Some(pattern),
            Err(Unbound::Missing { pattern, name }) => {
                let allowed = format!("what {{{name}}} in the topic {pattern} stands for at this device");
                once(found, self.spot.absent(&name).problem(What::Missing { allowed }));
                None
            }
            Err(other) => {
                once(found, self.spot.problem(What::Unusable(other.to_string())));
                None
            }
        }
    }

    /// The one topic that a pattern is.
    fn single(at: &At<Topic>, pattern: &Pattern, found: &mut Findings) -> Option<String> {
        let topic = pattern.topic();
        if topic.is_none() {
            let allowed = "one topic: wildcards are for topics that are read".to_owned();
            once(found, at.spot.problem(What::NotAllowed { allowed }));
        }
        topic
    }

    fn names(&self) -> Vec<(&str, &str)> {
        let mut names: Vec<_> = self.captures.iter().map(|(name, value)| (*name, *value)).collect();
        names.push((CLIENT, self.client_id));
        names.sort_unstable();
        names
    }
}

/// Notes a problem once for all devices of a profile.
fn once(found: &mut Findings, problem: Problem) {
    if !found.problems.contains(&problem) {
        found.problems.push(problem);
    }
}

fn once_noted(found: &mut Findings, warning: Problem) {
    if !found.warnings.contains(&warning) {
        found.warnings.push(warning);
    }
}
