//! CAN in words: connections, devices and tags.

use std::sync::Arc;

use super::{network::millis, tag::limits};
use crate::{
    codec::can::{ByteOrder, Id, Signal},
    config::{Adapter, CanDevice, CanEndpoint, TagSpec},
    model::Tag,
    profile::can::{Checksum, Condition, Key, Message, Others, Point, Sending},
};

/// The columns, and whether one is left out where it says nothing of any tag.
pub(super) const COLUMNS: [(&str, bool); 12] = [
    ("TAG", false),
    ("FRAME", false),
    ("BITS", false),
    ("WHEN", true),
    ("TYPE", false),
    ("SCALE", true),
    ("UNIT", true),
    ("RANGE", true),
    ("STALE AFTER", true),
    ("SENT", true),
    ("LIMITS", true),
    ("LABELS", true),
];

/// The settings of a connection that are not the default.
pub(super) fn settings(endpoint: &CanEndpoint) -> String {
    let mut parts = Vec::new();
    match &endpoint.adapter {
        Adapter::Slcan { bitrate, data_bitrate, .. } => {
            parts.push(format!("{bitrate} bit/s"));
            parts.extend(data_bitrate.map(|rate| format!("payloads {rate} bit/s")));
        }
        Adapter::Replay { speed, repeat, .. } => {
            parts.push(if *speed == 0.0 { "as fast as can be".to_owned() } else { format!("speed {speed}") });
            parts.extend(repeat.then(|| "again and again".to_owned()));
        }
        Adapter::SocketCan { .. } | Adapter::Socketcand { .. } | Adapter::Virtual { .. } => {}
    }
    parts.extend(endpoint.fd.then(|| "CAN FD".to_owned()));
    parts.extend(endpoint.source.map(|source| format!("our J1939 address {source}")));
    if endpoint.listen_only {
        parts.push("listens only".to_owned());
    } else if !endpoint.send.is_empty() {
        let range = |(first, last): &(Id, Id)| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        };
        parts.push(format!("may send {}", endpoint.send.iter().map(range).collect::<Vec<_>>().join(", ")));
    }
    let (first, longest) = endpoint.reconnect;
    if (first, longest) != CanEndpoint::RECONNECT {
        parts.push(format!("reconnect {} to {}", first.as_millis(), millis(longest)));
    }
    parts.join(", ")
}

/// What holds for messages of a device.
pub(super) fn messages(device: &CanDevice) -> String {
    let mut seen: Vec<&str> = Vec::new();
    let mut parts = Vec::new();
    for message in device.tags.iter().map(|spec| &spec.source.message) {
        if seen.contains(&message.name.as_str()) {
            continue;
        }
        seen.push(&message.name);
        let told = guarded(message);
        if !told.is_empty() {
            parts.push(format!("{}: {told}", message.name));
        }
    }
    parts.join("; ")
}

fn guarded(message: &Message) -> String {
    let mut parts = Vec::new();
    parts.extend(message.counter.map(|place| format!("counter at bit {}", place.start())));
    parts.extend(message.checksum.map(|guard| {
        let method = match guard.method {
            Checksum::Sum => "sum",
            Checksum::Xor => "xor",
            Checksum::Crc8SaeJ1850 => "crc-8-sae-j1850",
        };
        format!("{method} in byte {}", guard.byte)
    }));
    parts.join(", ")
}

/// What there is in each column; nothing where there is nothing to say.
pub(super) fn row(spec: &TagSpec<Arc<Point>>) -> Vec<String> {
    let Tag { path, definition } = &*spec.tag;
    let Point { message, signal, conditions, command } = &*spec.source;
    let feedback = command.as_ref().and_then(|command| command.feedback.as_ref());
    let feedback = feedback
        .map(|feedback| format!(", confirmed by {} within {}", feedback.tag, millis(feedback.within)));
    let sent = message.sending.as_ref().filter(|_| command.is_some()).map(sent);
    vec![
        path.to_string(),
        frame(message.key, &message.name),
        bits(signal),
        conditions.iter().map(condition).collect::<Vec<_>>().join(" and "),
        definition.kind.to_string(),
        scale(signal),
        definition.unit.clone().unwrap_or_default(),
        definition.range.map(|(low, high)| format!("{low} to {high}")).unwrap_or_default(),
        definition.stale_after.map(millis).unwrap_or_default(),
        sent.map(|sent| format!("{sent}{}", feedback.unwrap_or_default())).unwrap_or_default(),
        limits(&definition.limits),
        signal.spec().labels.as_ref().map(ToString::to_string).unwrap_or_default(),
    ]
}

fn frame(key: Key, name: &str) -> String {
    match key {
        Key::Id(id) if id.to_string() == name => name.to_owned(),
        Key::Id(id) => format!("{id} {name}"),
        Key::Group { pgn, source } => format!("PGN {pgn} source {source} {name}"),
    }
}

fn bits(signal: &Signal) -> String {
    let place = signal.place();
    let order = if place.order() == ByteOrder::Intel { "intel" } else { "motorola" };
    format!("{}|{} {order}", place.start(), place.length())
}

fn condition(condition: &Condition) -> String {
    let range =
        |(low, high): &(u64, u64)| if low == high { low.to_string() } else { format!("{low}-{high}") };
    let ranges = condition.ranges.iter().map(range).collect::<Vec<_>>().join(", ");
    format!("{} is {ranges}", bits_of(condition))
}

fn bits_of(condition: &Condition) -> String {
    format!("{}|{}", condition.place.start(), condition.place.length())
}

fn scale(signal: &Signal) -> String {
    let spec = signal.spec();
    match (signal.is_scaled(), spec.offset.is_zero()) {
        (false, _) => String::new(),
        (true, true) => format!("× {}", spec.factor.normalize()),
        (true, false) if spec.offset.is_sign_negative() => {
            format!("× {} - {}", spec.factor.normalize(), spec.offset.abs().normalize())
        }
        (true, false) => format!("× {} + {}", spec.factor.normalize(), spec.offset.normalize()),
    }
}

fn sent(sending: &Sending) -> String {
    let others = match sending.others {
        Others::LastSent => "the rest as last sent",
        Others::LastReceived => "the rest as last received",
        Others::Initial => "the rest initial",
    };
    let cycle = match (sending.period, sending.limit) {
        (Some(period), Some(limit)) => format!(", every {} for {}", millis(period), millis(limit)),
        (Some(period), None) => format!(", every {}", millis(period)),
        (None, _) => String::new(),
    };
    let stop = if sending.stop.is_empty() { "" } else { ", with a last frame" };
    let fd = if sending.fd.is_some() { " FD" } else { "" };
    format!("{}{fd}, {others}{cycle}{stop}", sending.id)
}
