//! Connections and dialects in words: what differs from the default, under the names of its keys.

use std::time::Duration;

use crate::{
    config::{ModbusDevice, ModbusEndpoint, Parity, Tls, Transport},
    model::Access,
    profile::modbus::{Dialect, Fallback, PartWrite, Reads, Region, Writes},
};

/// Where a connection leads; of a serial port also how its characters look, such as `19200 8E1`.
pub(super) fn address(transport: &Transport) -> String {
    let Transport::Rtu(serial) = transport else { return transport.address().to_owned() };
    let parity = match serial.parity {
        Parity::None => 'N',
        Parity::Odd => 'O',
        Parity::Even => 'E',
    };
    format!("{} {} 8{parity}{}", serial.port, serial.baud, serial.stop_bits)
}

/// The settings of a connection beside its time-out.
pub(super) fn settings(endpoint: &ModbusEndpoint) -> String {
    let ModbusEndpoint {
        transport: _,
        timeout: _,
        connect_delay,
        request_gap,
        idle_close,
        max_in_flight,
        check_ids,
        reconnect: (first, longest),
    } = endpoint;
    let mut parts = Vec::new();
    for (name, time) in [("connect_delay", connect_delay), ("request_gap", request_gap)] {
        if !time.is_zero() {
            parts.push(format!("{name} {}", millis(*time)));
        }
    }
    if let Some(time) = idle_close {
        parts.push(format!("idle_close {}", millis(*time)));
    }
    if *max_in_flight != 1 {
        parts.push(format!("max_in_flight {max_in_flight}"));
    }
    if !check_ids {
        parts.push("transaction_ids ignore".to_owned());
    }
    if (*first, *longest) != ModbusEndpoint::RECONNECT {
        parts.push(format!("reconnect {} to {}", first.as_millis(), millis(*longest)));
    }
    parts.join(", ")
}

/// Files and name of a TLS connection.
pub(super) fn files(tls: &Tls) -> Vec<String> {
    let (certificate, key) = match &tls.identity {
        Some((certificate, key)) => (certificate.display().to_string(), key.display().to_string()),
        None => ("-".to_owned(), "-".to_owned()),
    };
    let name = tls.server_name.as_deref().unwrap_or("(host of the address)");
    vec![tls.ca.display().to_string(), certificate, key, name.to_owned()]
}

/// What of a device's dialect is not the default. Which function writes stands with each tag.
pub(super) fn dialect(spec: &ModbusDevice) -> String {
    let Dialect {
        reads: Reads { max_gap, max_registers, max_bits, one_tag, forbidden, groups },
        writes: Writes { fallback, part },
    } = &spec.dialect;
    let usual = Reads::default();
    let mut parts = Vec::new();
    for (name, number, usual) in [
        ("max_gap", max_gap, usual.max_gap),
        ("max_registers", max_registers, usual.max_registers),
        ("max_bits", max_bits, usual.max_bits),
    ] {
        if *number != usual {
            parts.push(format!("{name} {number}"));
        }
    }
    if *one_tag {
        parts.push("one_tag".to_owned());
    }
    for (name, listed) in [("forbidden", forbidden), ("groups", groups)] {
        if !listed.is_empty() {
            parts.push(format!("{name} {}", regions(listed)));
        }
    }
    parts.extend(match fallback {
        Fallback::IllegalFunction => None,
        Fallback::Off => Some("fallback off".to_owned()),
        Fallback::IllegalAddress => Some("fallback illegal-address".to_owned()),
    });
    parts.extend(match part {
        PartWrite::Auto => None,
        PartWrite::Mask => Some("part mask".to_owned()),
        PartWrite::ReadModifyWrite => Some("part read-modify-write".to_owned()),
    });
    parts.extend(settle(spec));
    parts.join(", ")
}

/// The time between writes and their read-backs.
fn settle(spec: &ModbusDevice) -> Option<String> {
    let written = spec.tags.iter().filter(|tag| tag.tag.definition.access == Access::ReadWrite);
    let times = written.map(|tag| tag.source.point.settle);
    let (least, most) = (times.clone().min()?, times.max()?);
    match (least == most, most.is_zero()) {
        (_, true) => None,
        (true, false) => Some(format!("settle {}", millis(most))),
        (false, false) => Some(format!("settle {} to {}", least.as_millis(), millis(most))),
    }
}

fn regions(regions: &[Region]) -> String {
    let mut texts = Vec::new();
    let mut last = None;
    for Region { table, first, last: end } in regions {
        // The table's name stands once before all of its regions that follow one another.
        let table = (last.replace(*table) != Some(*table)).then(|| format!("{} ", table.name()));
        let addresses = if first == end { first.to_string() } else { format!("{first}–{end}") };
        texts.push(format!("{}{addresses}", table.unwrap_or_default()));
    }
    texts.join(" ")
}

pub(super) fn millis(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}
