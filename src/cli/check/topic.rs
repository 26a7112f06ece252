//! MQTT in words: connections, devices and tags.

use std::sync::Arc;

use super::{network::millis, tag::limits};
use crate::{
    codec::payload::Path,
    config::{MqttDevice, MqttEndpoint, MqttVersion, TagSpec},
    model::Tag,
    profile::mqtt::{Command, Origin, Point},
};

/// The columns, and whether one is left out where it says nothing of any tag.
pub(super) const COLUMNS: [(&str, bool); 12] = [
    ("TAG", false),
    ("TOPIC", false),
    ("PATH", true),
    ("ENCODING", false),
    ("QOS", false),
    ("TYPE", false),
    ("UNIT", true),
    ("RANGE", true),
    ("STALE AFTER", true),
    ("COMMAND", true),
    ("LIMITS", true),
    ("LABELS", true),
];

/// Where a connection leads.
pub(super) fn address(endpoint: &MqttEndpoint) -> String {
    format!("{}{}", endpoint.address, endpoint.websocket.as_deref().unwrap_or_default())
}

/// The settings of a connection that are not the default.
pub(super) fn settings(endpoint: &MqttEndpoint) -> String {
    let mut parts = Vec::new();
    if endpoint.version == MqttVersion::V311 {
        parts.push("version 3.1.1".to_owned());
    }
    if let Some(login) = &endpoint.login {
        let with = if login.password.is_some() { " with a password" } else { "" };
        parts.push(format!("user {}{with}", login.user));
    }
    if let Some(expiry) = endpoint.session_expiry {
        parts.push(format!("persistent session of {}, {} s", endpoint.client_id, expiry.as_secs()));
    }
    if let Some(announce) = &endpoint.announce {
        parts.push(format!("announces itself on {}", announce.topic));
    }
    let (first, longest) = endpoint.reconnect;
    if (first, longest) != MqttEndpoint::RECONNECT {
        parts.push(format!("reconnect {} to {}", first.as_millis(), millis(longest)));
    }
    parts.join(", ")
}

/// Where a device tells whether it is there.
pub(super) fn availability(device: &MqttDevice) -> String {
    let topics = device.availability.iter().map(|sign| sign.topic.as_str()).collect::<Vec<_>>();
    if topics.is_empty() { String::new() } else { format!("availability {}", topics.join(", ")) }
}

/// What there is in each column; nothing where there is nothing to say.
pub(super) fn row(spec: &TagSpec<Arc<Point>>) -> Vec<String> {
    let Tag { path, definition } = &*spec.tag;
    let Point { origins, command, .. } = &*spec.source;
    let each = |text: fn(&Origin) -> String| {
        let texts = origins.iter().map(text).collect::<Vec<_>>();
        match texts.split_first() {
            Some((first, rest)) if rest.iter().all(|text| text == first) => first.clone(),
            _ => texts.join(" | "),
        }
    };
    let count = definition.count.map(|count| format!("[{count}]")).unwrap_or_default();
    vec![
        path.to_string(),
        each(|origin| origin.pattern.to_string()),
        each(|origin| path_text(origin.field.path())),
        each(|origin| origin.encoding.name().to_owned()),
        each(|origin| origin.qos.level().to_string()),
        format!("{}{count}", definition.kind),
        definition.unit.clone().unwrap_or_default(),
        definition.range.map(|(low, high)| format!("{low} to {high}")).unwrap_or_default(),
        definition.stale_after.map(millis).unwrap_or_default(),
        command.as_ref().map(written).unwrap_or_default(),
        limits(&definition.limits),
        definition.labels.as_ref().map(ToString::to_string).unwrap_or_default(),
    ]
}

fn path_text(path: &Path) -> String {
    if path.is_whole() { "(whole)".to_owned() } else { path.to_string() }
}

fn written(command: &Command) -> String {
    let Command { topic, qos, retain, confirm, .. } = command;
    let retain = if *retain { ", retained" } else { "" };
    let confirm =
        if confirm.is_zero() { String::new() } else { format!(", confirmed within {}", millis(*confirm)) };
    format!("{topic} QoS {}{retain}{confirm}", qos.level())
}
