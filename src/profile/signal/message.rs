//! The messages of a device: what profile and DBC file say of how they are known, checked and sent.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::{Frames, Node, conditions, key, once, place};
use crate::{
    codec::can::{Fd, Id, Place, Signal, Spec, is_fd_length, j1939::Header},
    config::{
        problem::{Findings, What, nearest},
        read::{At, Spot, millis},
    },
    model::{Kind, Labels, Setpoint},
    profile::{
        can::{Field, Guard, Key, Message, Sending, common},
        dbc,
        raw::signal::{ChecksumTable, FieldTable, MessageTable, SendTable, Settings},
    },
};

/// Messages made so far, each once.
pub(super) struct Messages<'a> {
    node: &'a Node<'a>,
    /// What `[[messages]]` says, by place in the DBC file.
    named: HashMap<usize, &'a At<MessageTable>>,
    bare: HashMap<Id, &'a At<MessageTable>>,
    made: HashMap<Key, Option<Built>>,
}

/// A message, and how often it comes.
#[derive(Clone)]
pub(super) struct Built {
    pub(super) message: Arc<Message>,
    pub(super) interval: Option<Duration>,
}

/// A message of which not all is known yet.
struct Draft<'a> {
    name: String,
    id: Id,
    key: Key,
    /// In the DBC file.
    dbc: Option<&'a dbc::Message>,
    table: Option<&'a At<MessageTable>>,
}

impl<'a> Messages<'a> {
    pub(super) fn new(node: &'a Node<'a>, found: &mut Findings) -> Self {
        let (mut named, mut bare) = (HashMap::new(), HashMap::new());
        for at in &node.frames.messages {
            let MessageTable { message, frame, length, .. } = &at.value;
            let first = match (message, frame) {
                (Some(message), None) => match find(node.frames, message, found) {
                    Some(place) => named.insert(place, at),
                    None => continue,
                },
                (None, Some(frame)) => {
                    let described = node.frames.dbc.as_ref().map(|dbc| dbc.messages.as_slice());
                    let described = described.unwrap_or_default();
                    if let Some(place) = described.iter().position(|message| message.id == frame.value.0) {
                        let name = node.frames.names.of_message(place).unwrap_or_default();
                        let (with, allowed) =
                            (format!("message {name} of the DBC file"), format!("message = \"{name}\""));
                        once(found, &frame.spot, What::Conflict { with, allowed });
                        continue;
                    }
                    bare.insert(frame.value.0, at)
                }
                (Some(_), Some(frame)) => {
                    let (with, allowed) = ("`message`".to_owned(), "either of them".to_owned());
                    once(found, &frame.spot, What::Conflict { with, allowed });
                    continue;
                }
                (None, None) => {
                    let allowed = "a `message` of the DBC file, or the `frame`, such as \"181\"".to_owned();
                    once(found, &at.spot.absent("message"), What::Missing { allowed });
                    continue;
                }
            };
            if let Some(first) = first {
                let allowed = "one table a message".to_owned();
                once(found, &at.spot, What::Duplicate { first: first.spot.reference(), allowed });
            }
            if let Some(length) = length.as_ref().filter(|_| message.is_some()) {
                let (with, allowed) =
                    ("`message`".to_owned(), "to leave it out: the DBC file says it".to_owned());
                once(found, &length.spot, What::Conflict { with, allowed });
            }
        }
        Self { node, named, bare, made: HashMap::new() }
    }

    /// The message at a place in the DBC file.
    pub(super) fn named(
        &mut self,
        at: usize,
        writes: bool,
        spot: &Spot,
        found: &mut Findings,
    ) -> Option<Built> {
        let frames = self.node.frames;
        let message = frames.dbc.as_ref()?.messages.get(at)?;
        let table = self.named.get(&at).copied();
        let sends = table.is_some_and(|table| table.value.send.is_some());
        let (id, key) = if sends {
            // Frames that are ours are known by all of their identifier: others may send the same group.
            let id = own_id(message, table?.value.send.as_ref()?, self.node, found)?;
            (id, Key::Id(id))
        } else if let Some(key) = key(message, self.node.source) {
            (message.id, key)
        } else {
            let allowed = "the address of the device on the J1939 bus, from 0 to 253".to_owned();
            once(found, &self.node.spot.beside("source_address"), What::Missing { allowed });
            return None;
        };
        let name = frames.names.of_message(at).unwrap_or(&message.name).to_owned();
        self.made(&Draft { name, id, key, dbc: Some(message), table }, writes, spot, found)
    }

    /// The message of an identifier that no DBC file describes.
    pub(super) fn bare(&mut self, id: Id, writes: bool, spot: &Spot, found: &mut Findings) -> Option<Built> {
        let table = self.bare.get(&id).copied();
        self.made(
            &Draft { name: id.to_string(), id, key: Key::Id(id), dbc: None, table },
            writes,
            spot,
            found,
        )
    }

    fn made(&mut self, draft: &Draft<'_>, writes: bool, spot: &Spot, found: &mut Findings) -> Option<Built> {
        let key = draft.key;
        if writes {
            check_writes(draft, self.node, spot, found)?;
        }
        if !self.made.contains_key(&key) {
            let built = build(draft, self.node, found);
            self.made.insert(key, built);
        }
        self.made.get(&key)?.clone()
    }
}

fn find(frames: &Frames, message: &At<crate::config::leaf::Text>, found: &mut Findings) -> Option<usize> {
    let place = frames.names.message(&message.value.0);
    if place.is_none() {
        let known = frames.names.messages();
        let near = nearest(&message.value.0, known.iter().map(String::as_str));
        once(found, &message.spot, What::UnknownName { kind: "message", nearest: near, known });
    }
    place
}

/// What a writable tag needs of its message and of the connection.
fn check_writes(draft: &Draft<'_>, node: &Node<'_>, spot: &Spot, found: &mut Findings) -> Option<()> {
    let access = spot.beside("access");
    let refuse = |found: &mut Findings, with: String, allowed: String| {
        once(found, &access, What::Conflict { with, allowed });
    };
    if draft.table.is_none_or(|table| table.value.send.is_none()) {
        let allowed = format!("\"read\", or a table [[messages]] for {} that has `send`", draft.name);
        refuse(found, format!("message {}, which is not sent", draft.name), allowed);
        return None;
    }
    if node.bus.listen_only {
        let with = format!("listen_only = true of connection `{}`", node.bus.name);
        refuse(found, with, "\"read\"".to_owned());
        return None;
    }
    if !node.bus.may_send(draft.id) {
        let with = format!("send_ids of connection `{}`", node.bus.name);
        refuse(found, with, format!("\"read\", or \"{}\" among the identifiers that may be sent", draft.id));
        return None;
    }
    Some(())
}

/// The identifier under which we send a message.
fn own_id(message: &dbc::Message, send: &At<SendTable>, node: &Node<'_>, found: &mut Findings) -> Option<Id> {
    let SendTable { destination, priority, .. } = &send.value;
    let Some(header) = Header::of(message.id).filter(|_| message.is_j1939) else {
        for spot in [destination.as_ref().map(|at| &at.spot), priority.as_ref().map(|at| &at.spot)]
            .into_iter()
            .flatten()
        {
            let with = format!("message {}, which is none of J1939", message.name);
            once(found, spot, What::Conflict { with, allowed: "to leave it out".to_owned() });
        }
        return Some(message.id);
    };
    let Some(source) = node.bus.source else {
        let with = format!("connection `{}` without `source_address`", node.bus.name);
        let allowed = "a `source_address` of the connection: our own address on the J1939 bus".to_owned();
        once(found, &send.spot, What::Conflict { with, allowed });
        return None;
    };
    let written = destination.as_ref().and_then(|at| u8::try_from(at.value.0).ok());
    let priority = priority.as_ref().and_then(|at| u8::try_from(at.value.0).ok()).unwrap_or(header.priority);
    let destination = match (header.destination, destination) {
        (Some(usual), _) => Some(written.or(node.source).unwrap_or(usual)),
        (None, Some(at)) => {
            let with = format!("message {}, which goes to all", message.name);
            once(found, &at.spot, What::Conflict { with, allowed: "to leave it out".to_owned() });
            None
        }
        (None, None) => None,
    };
    Header { source, destination, priority, ..header }.id()
}

fn build(draft: &Draft<'_>, node: &Node<'_>, found: &mut Findings) -> Option<Built> {
    let Draft { name, id, key, dbc, table } = draft;
    let before = found.problems.len();
    let own = table.map(|table| &table.value);
    let counter = own.and_then(|own| own.counter.as_ref()).and_then(|at| counter(at, *dbc, found));
    let checksum = own.and_then(|own| own.checksum.as_ref()).and_then(|at| checksum(at, *dbc, found));
    check_room(draft, counter, checksum, found);
    let sending = match own.and_then(|own| own.send.as_ref()) {
        Some(send) => Some(sending(*id, send, draft, node, found)?),
        None => None,
    };
    if found.problems.len() > before {
        return None;
    }
    let written = own.and_then(|own| own.interval_ms.as_ref()).map(|at| millis(at.value.0));
    let interval = written.or_else(|| dbc.and_then(|message| message.cycle));
    let message = Message { name: name.clone(), key: *key, counter, checksum, sending };
    Some(Built { message: Arc::new(message), interval })
}

fn signal<'a>(
    name: &At<crate::config::leaf::Text>,
    dbc: Option<&'a dbc::Message>,
    found: &mut Findings,
) -> Option<&'a dbc::Signal> {
    let signals = dbc.map(|message| message.signals.as_slice()).unwrap_or_default();
    let signal = signals.iter().find(|signal| signal.name == name.value.0);
    if signal.is_none() {
        let known = signals.iter().map(|signal| signal.name.clone()).collect::<Vec<_>>();
        let near = nearest(&name.value.0, known.iter().map(String::as_str));
        once(found, &name.spot, What::UnknownName { kind: "signal", nearest: near, known });
    }
    signal
}

/// Counter and checksum must be in the message, beside each other.
fn check_room(draft: &Draft<'_>, counter: Option<Place>, checksum: Option<Guard>, found: &mut Findings) {
    let Some(own) = draft.table.map(|table| &table.value) else { return };
    let length = match (draft.dbc, &own.length) {
        (Some(message), _) => Some(usize::from(message.length)),
        (None, Some(length)) => usize::try_from(length.value.0).ok(),
        (None, None) => None,
    };
    let within = |length: usize| format!("a place within the {length} bytes of message {}", draft.name);
    if let (Some(length), Some(counter), Some(at)) = (length, counter, &own.counter)
        && counter.end() > length
    {
        once(found, &at.spot, What::NotAllowed { allowed: within(length) });
    }
    if let (Some(length), Some(guard), Some(at)) = (length, checksum, &own.checksum)
        && guard.byte >= length
    {
        once(found, &at.spot, What::NotAllowed { allowed: within(length) });
    }
    if let (Some(counter), Some(guard), Some(at)) = (counter, checksum, &own.checksum)
        && counter.masks().any(|(byte, _)| byte == guard.byte)
    {
        let (with, allowed) = ("`counter`".to_owned(), "a byte that the counter is not in".to_owned());
        once(found, &at.spot, What::Conflict { with, allowed });
    }
}

/// Where a signal is that must be in every frame.
fn in_all(name: &At<crate::config::leaf::Text>, signal: &dbc::Signal, found: &mut Findings) -> Option<Place> {
    if signal.selection.is_some() {
        let allowed = "a signal of every frame, behind no multiplexer".to_owned();
        once(found, &name.spot, What::NotAllowed { allowed });
        return None;
    }
    Some(signal.place)
}

fn counter(at: &At<FieldTable>, dbc: Option<&dbc::Message>, found: &mut Findings) -> Option<Place> {
    match (&at.value.signal, &at.value.bits) {
        (Some(name), None) => signal(name, dbc, found).and_then(|signal| in_all(name, signal, found)),
        (None, Some(bits)) => place(bits, 8),
        _ => {
            once(found, &at.spot, What::NotAllowed { allowed: "either `signal` or `bits`".to_owned() });
            None
        }
    }
}

fn checksum(at: &At<ChecksumTable>, dbc: Option<&dbc::Message>, found: &mut Findings) -> Option<Guard> {
    let method = at.value.method.as_ref()?.value.0;
    let byte = match (&at.value.signal, &at.value.byte) {
        (Some(name), None) => {
            let place = in_all(name, signal(name, dbc, found)?, found)?;
            let mut masks = place.masks();
            if let (Some((byte, 0xFF)), None) = (masks.next(), masks.next()) {
                byte
            } else {
                let allowed = "a signal that is one whole byte".to_owned();
                once(found, &name.spot, What::NotAllowed { allowed });
                return None;
            }
        }
        (None, Some(byte)) => usize::try_from(byte.value.0).ok()?,
        _ => {
            once(found, &at.spot, What::NotAllowed { allowed: "either `signal` or `byte`".to_owned() });
            return None;
        }
    };
    Some(Guard { byte, method })
}

fn sending(
    id: Id,
    at: &At<SendTable>,
    draft: &Draft<'_>,
    node: &Node<'_>,
    found: &mut Findings,
) -> Option<Sending> {
    let SendTable { others, initial, period_ms, limit_ms, stop, fd, brs, .. } = &at.value;
    let own = draft.table.map(|table| &table.value);
    let length = match (draft.dbc, own.and_then(|own| own.length.as_ref())) {
        (Some(message), _) => usize::from(message.length),
        (None, Some(length)) => usize::try_from(length.value.0).ok()?,
        (None, None) => {
            let allowed = "the bytes of the payload when it is sent, from 0 to 64".to_owned();
            once(found, &draft.table?.spot.absent("length"), What::Missing { allowed });
            return None;
        }
    };
    let is_fd = fd
        .as_ref()
        .map(|at| at.value.0)
        .or_else(|| draft.dbc.and_then(|message| message.is_fd))
        .unwrap_or(length > 8);
    if is_fd && !node.bus.fd {
        let with = format!("connection `{}`, which is not for CAN FD", node.bus.name);
        once(
            found,
            &at.spot,
            What::Conflict { with, allowed: "a message of CAN, or fd = true of the connection".to_owned() },
        );
        return None;
    }
    if length > 8 && !(is_fd && is_fd_length(length)) {
        let with = format!("{length} bytes of message {}", draft.name);
        let allowed =
            "messages of up to 8 bytes; with CAN FD also of 12, 16, 20, 24, 32, 48 and 64".to_owned();
        once(found, &at.spot, What::Conflict { with, allowed });
        return None;
    }
    for (key, spot) in
        [("limit_ms", limit_ms.as_ref().map(|at| &at.spot)), ("stop", stop.as_ref().map(|at| &at.spot))]
    {
        if let Some(spot) = spot.filter(|_| period_ms.is_none()) {
            let with = "a message that is sent once a write".to_owned();
            once(found, spot, What::Conflict { with, allowed: format!("`{key}` only with `period_ms`") });
        }
    }
    let initial = initial.as_ref().map(|at| settings(at, draft.dbc, found)).unwrap_or_default();
    let (fields, order) = fields(draft.dbc, &initial);
    let stop = stop.as_ref().map(|at| last(at, draft.dbc, &fields, &order, found)).unwrap_or_default();
    Some(Sending {
        id,
        fd: is_fd.then_some(Fd { brs: brs.as_ref().is_some_and(|at| at.value.0), esi: false }),
        others: others.as_ref()?.value.0,
        initial: first(length, draft.dbc, &fields),
        fields,
        period: period_ms.as_ref().map(|at| millis(at.value.0)),
        limit: limit_ms.as_ref().map(|at| millis(at.value.0)),
        stop,
    })
}

/// The signals of a message, those that select others before these, and their places in the DBC file.
fn fields(dbc: Option<&dbc::Message>, own: &[(usize, u64)]) -> (Vec<Field>, Vec<usize>) {
    let Some(message) = dbc else { return Default::default() };
    let fields = message.signals.iter().enumerate().map(|(at, signal)| {
        let written = own.iter().rev().find(|(place, _)| *place == at).map(|(_, bits)| *bits);
        let initial = written.or_else(|| codec(signal)?.raw_of(signal.initial?));
        (Field { place: signal.place, conditions: conditions(message, signal).0, initial }, at)
    });
    let mut fields = fields.collect::<Vec<_>>();
    fields.sort_by_key(|(field, _)| field.conditions.len());
    fields.into_iter().unzip()
}

/// The payload before anything is written: what J1939 does not know is all ones there (SAE J1939-71), else all zeros.
fn first(length: usize, dbc: Option<&dbc::Message>, fields: &[Field]) -> Vec<u8> {
    let mut payload = vec![if dbc.is_some_and(|message| message.is_j1939) { 0xFF } else { 0 }; length];
    for field in fields.iter().filter(|field| field.conditions.is_empty()) {
        if let Some(bits) = field.initial {
            // What lies beyond the message was warned of when the file was read.
            let _fits = field.place.write(&mut payload, bits);
        }
    }
    payload
}

/// The fields of the last frame, which must have room for all of them.
fn last(
    at: &At<Settings>,
    dbc: Option<&dbc::Message>,
    fields: &[Field],
    order: &[usize],
    found: &mut Findings,
) -> Vec<(usize, u64)> {
    let set = settings(at, dbc, found);
    let set = set
        .into_iter()
        .filter_map(|(signal, bits)| Some((order.iter().position(|other| *other == signal)?, bits)));
    let set = set.collect::<Vec<_>>();
    let held = set.iter().filter_map(|(at, bits)| Some((fields.get(*at)?, *bits))).collect::<Vec<_>>();
    let wanted = held.iter().flat_map(|(field, _)| &field.conditions).collect::<Vec<_>>();
    let is_apart = wanted.iter().any(|one| {
        let same = wanted.iter().filter(|other| other.place == one.place).copied().collect::<Vec<_>>();
        let own = held.iter().find(|(field, _)| field.place == one.place);
        own.map_or_else(|| common(&same).is_none(), |(_, bits)| !one.takes(*bits))
    });
    if is_apart {
        let problem =
            "no frame has all of these signals: a multiplexer of theirs would have to have two values";
        once(found, &at.spot, What::Unusable(problem.to_owned()));
    }
    set
}

/// What signals are set to, as bits, by their places in the DBC file.
fn settings(at: &At<Settings>, dbc: Option<&dbc::Message>, found: &mut Findings) -> Vec<(usize, u64)> {
    let mut set = Vec::new();
    for (name, value) in &at.value.0 {
        let signals = dbc.map(|message| message.signals.as_slice()).unwrap_or_default();
        let Some(place) = signals.iter().position(|signal| signal.name == *name) else {
            let known = signals.iter().map(|signal| signal.name.clone()).collect::<Vec<_>>();
            let near = nearest(name, known.iter().map(String::as_str));
            once(found, &value.spot, What::UnknownName { kind: "signal", nearest: near, known });
            continue;
        };
        let Some(codec) = signals.get(place).and_then(codec) else { continue };
        match codec.0.accept(&value.value).and_then(|accepted| codec.0.bits(&accepted.effective)) {
            Ok(bits) => set.push((place, bits)),
            Err(refusal) => once(found, &value.spot, What::Unusable(refusal.to_string())),
        }
    }
    set
}

/// A signal as it is encoded, with words and without values that stand for none.
struct Encoder(Signal);

fn codec(signal: &dbc::Signal) -> Option<Encoder> {
    let labels = signal.labels.iter().map(|(number, word)| (*number, Arc::clone(word)));
    let spec = Spec {
        place: signal.place,
        kind: signal.number.kind(signal.place.length())?,
        factor: signal.factor,
        offset: signal.offset,
        labels: (!signal.labels.is_empty()).then(|| Arc::new(Labels::new(labels))),
        not_available: Vec::new(),
        has_indicators: false,
    };
    Signal::new(spec).ok().map(Encoder)
}

impl Encoder {
    /// The bits of a raw number that a file gives as a double.
    fn raw_of(&self, raw: f64) -> Option<u64> {
        match self.0.kind() {
            Kind::Float32 => return Some(raw.to_string().parse::<f32>().ok()?.to_bits().into()),
            Kind::Float64 => return Some(raw.to_bits()),
            _ => {}
        }
        format!("{raw:.0}").parse().ok().and_then(|raw| self.0.raw(raw))
    }
}
