//! Devices: units on their connections, with what profile and site say of their tags and dialect.

use std::{collections::HashMap, sync::Arc};

use super::{Open, Taken};
use crate::{
    codec::can::Id,
    config::{
        broker::MqttEndpoint,
        can::{CanDevice, CanEndpoint},
        leaf::{Name, Text, Whole},
        problem::{Findings, What, nearest},
        raw::{DeviceTable, Driver, SiteFile},
        read::{At, Spot},
        site::{Connection, DeviceSpec, Endpoint, ModbusDevice, MqttDevice, Polled, TagSpec, Wire},
    },
    model::{Access, Device},
    profile::{
        Alike, Defaults, Host, Library, Sign, Templates, check_overlaps,
        dialect::Keys,
        mqtt::Qos,
        qos,
        raw::Protocol,
        signal::{self, Frames},
        signs, templates,
    },
};

pub(super) fn devices<'a>(
    file: &'a SiteFile,
    connections: &mut [Open<'a>],
    library: &mut Library,
    found: &mut Findings,
) {
    let (mut names, mut alike) = (Taken::default(), Alike::default());
    for table in file.devices.iter().flat_map(|at| &at.value.0) {
        if let Some(name) = &table.value.name {
            names.claim(&name.value.0, &name.spot, "one device a name", found);
        }
        let tags = tags(table, library, found);
        let Some(connection) = &table.value.connection else { continue };
        let Some(open) = connections.iter_mut().find(|open| open.name == connection.value.0) else {
            let known: Vec<String> = connections.iter().map(|open| open.name.to_owned()).collect();
            let nearest = nearest(&connection.value.0, known.iter().map(String::as_str));
            let what = What::UnknownName { kind: "connection", nearest, known };
            found.problems.push(connection.spot.problem(what));
            continue;
        };
        attach(&table.value, tags, open, &mut alike, found);
    }
}

/// Hangs a device on its connection.
fn attach<'a>(
    table: &'a DeviceTable,
    tags: Option<Tags>,
    open: &mut Open<'a>,
    alike: &mut Alike,
    found: &mut Findings,
) {
    let Some(driver) = open.driver else { return };
    check_keys(table, driver, found);
    if let Some(tags) = &tags {
        check_kind(tags, driver, found);
    }
    let (wire, place, facts) = match driver.protocol() {
        Protocol::Mqtt => {
            let Some(Connection { endpoint: Endpoint::Mqtt(endpoint), .. }) = &open.resolved else { return };
            let Some(tags) = tags else { return };
            let place = endpoint.address.clone();
            let Some(device) = mqtt(table, &tags, endpoint, alike, found) else { return };
            (Wire::Mqtt(device), place, tags.facts)
        }
        Protocol::Can => {
            let Some(Connection { endpoint: Endpoint::Can(endpoint), .. }) = &open.resolved else { return };
            let Some(tags) = tags else { return };
            let Some(device) = can(table, &tags, open.name, endpoint, alike, found) else { return };
            if let Some(name) = &table.name
                && !check_senders(name, &device, &mut open.senders, found)
            {
                return;
            }
            let source = device.source.map_or_else(String::new, |source| format!(" source {source}"));
            (Wire::Can(device), format!("{}{source}", endpoint.address()), tags.facts)
        }
        Protocol::Modbus => {
            let Some((device, facts)) = modbus(table, tags, driver, open, alike, found) else { return };
            let Some(Connection { endpoint: Endpoint::Modbus(endpoint), .. }) = &open.resolved else {
                return;
            };
            let whom =
                if device.broadcast { "broadcast".to_owned() } else { format!("unit {}", device.unit_id) };
            (Wire::Modbus(device), format!("{} {whom}", endpoint.transport.address()), facts)
        }
    };
    let (Some(name), Some(connection)) = (&table.name, open.resolved.as_mut()) else { return };
    let device = Device {
        name: name.value.0.clone(),
        description: facts.description,
        vendor: facts.vendor,
        model: facts.model,
        connection: connection.name.clone(),
        driver: driver.name(),
        address: place,
    };
    connection.devices.push(DeviceSpec { device: Arc::new(device), wire });
}

/// Keys that mean nothing to the protocol: who wrote them thinks that they do something.
fn check_keys(table: &DeviceTable, driver: Driver, found: &mut Findings) {
    fn spot<T>(at: Option<&At<T>>) -> Option<&Spot> {
        at.map(|at| &at.spot)
    }
    let keys = [
        (spot(table.unit_id.as_ref()), Protocol::Modbus, "Modbus"),
        (spot(table.broadcast.as_ref()), Protocol::Modbus, "Modbus"),
        (spot(table.scan_ms.as_ref()), Protocol::Modbus, "Modbus"),
        (spot(table.reads.as_ref()), Protocol::Modbus, "Modbus"),
        (spot(table.writes.as_ref()), Protocol::Modbus, "Modbus"),
        (spot(table.captures.as_ref()), Protocol::Mqtt, "MQTT"),
        (spot(table.availability.as_ref()), Protocol::Mqtt, "MQTT"),
        (spot(table.qos.as_ref()), Protocol::Mqtt, "MQTT"),
        (spot(table.source_address.as_ref()), Protocol::Can, "CAN"),
    ];
    let strange = keys.into_iter().filter(|(_, own, _)| *own != driver.protocol());
    for (spot, kind) in strange.filter_map(|(spot, _, kind)| Some((spot?, kind))) {
        let with = format!("driver = \"{}\" of its connection", driver.name());
        let allowed = format!("to leave it out: it is for {kind}");
        found.problems.push(spot.problem(What::Conflict { with, allowed }));
    }
    if let Some(order) = table.byte_order.as_ref().filter(|_| driver.protocol() == Protocol::Can) {
        let with = format!("driver = \"{}\" of its connection", driver.name());
        order.conflict(found, with, "to leave it out: each signal has its own order");
    }
}

/// Tags, or a profile, of another protocol.
fn check_kind(tags: &Tags, driver: Driver, found: &mut Findings) {
    let with = format!("driver = \"{}\" of its connection", driver.name());
    let protocol = driver.protocol();
    if let Some(profile) = tags.protocol.as_ref().filter(|profile| profile.value != protocol) {
        profile.conflict(found, with, "a profile of the same protocol");
        return;
    }
    for spot in tags.templates.strange(protocol) {
        let allowed = format!("a tag with a {}", protocol.source());
        found.problems.push(spot.problem(What::Conflict { with: with.clone(), allowed }));
    }
}

fn can(
    table: &DeviceTable,
    tags: &Tags,
    connection: &str,
    endpoint: &CanEndpoint,
    alike: &mut Alike,
    found: &mut Findings,
) -> Option<CanDevice> {
    let name = table.name.as_ref()?;
    let before = found.problems.len();
    let source = table.source_address.as_ref().and_then(|at| u8::try_from(at.value.0).ok());
    let bus = signal::Bus {
        name: connection,
        listen_only: endpoint.listen_only,
        fd: endpoint.fd,
        send: &endpoint.send,
        source: endpoint.source,
    };
    let node = signal::Node {
        device: &name.value.0,
        spot: name.spot.clone(),
        frames: &tags.frames,
        source,
        bus: &bus,
        stale_after: tags.defaults.stale_after,
    };
    let tags = signal::instantiate(&tags.templates.signals, &node, alike, found);
    (found.problems.len() == before).then_some(CanDevice { source, tags })
}

/// A message has one sender here: two would not know of each other's counter, nor of what the other wrote.
fn check_senders<'a>(
    name: &'a At<Name>,
    device: &CanDevice,
    senders: &mut HashMap<Id, &'a str>,
    found: &mut Findings,
) -> bool {
    let messages = device.tags.iter().map(|spec| &spec.source.message);
    for sending in messages.filter_map(|message| message.sending.as_ref()) {
        match senders.insert(sending.id, &name.value.0) {
            Some(other) if other != name.value.0 => {
                let with = format!("device `{other}`, which sends frames of {} as well", sending.id);
                name.conflict(found, with, "one device of a connection that sends them");
                return false;
            }
            _ => {}
        }
    }
    true
}

fn mqtt(
    table: &DeviceTable,
    tags: &Tags,
    endpoint: &MqttEndpoint,
    alike: &mut Alike,
    found: &mut Findings,
) -> Option<MqttDevice> {
    let name = table.name.as_ref()?;
    let before = found.problems.len();
    let mut captures: HashMap<&str, &str> = HashMap::from([("device", name.value.0.as_str())]);
    let written = table.captures.iter().flat_map(|at| &at.value.0);
    captures.extend(written.clone().map(|(name, at)| (name.as_str(), at.value.as_str())));
    for (name, at) in written {
        let mut topics = tags.templates.topics.iter();
        let used = topics.any(|tag| tag.names().any(|own| own == name) || tag.says(name));
        if !used && !tags.signs.iter().flat_map(Sign::names).any(|own| own == name) {
            at.warn(found, format!("no topic of the device has {{{name}}}"));
        }
    }
    let host = Host {
        device: &name.value.0,
        captures,
        spot: table.captures.as_ref().map_or_else(|| name.spot.beside("captures"), |at| at.spot.clone()),
        client_id: &endpoint.client_id,
        version: endpoint.version,
        order: tags.defaults.order,
        stale_after: tags.defaults.stale_after,
        qos: tags.qos,
    };
    let availability = tags.signs.iter().filter_map(|sign| sign.instantiate(&host, found)).collect();
    let topics = tags.templates.topics.iter();
    let tags = topics.filter_map(|tag| tag.instantiate(&host, alike, found)).collect();
    (found.problems.len() == before).then_some(MqttDevice { availability, tags })
}

fn modbus<'a>(
    table: &'a DeviceTable,
    tags: Option<Tags>,
    driver: Driver,
    open: &mut Open<'a>,
    alike: &mut Alike,
    found: &mut Findings,
) -> Option<(ModbusDevice, Facts)> {
    let name = table.name.as_ref()?;
    let Some(at) = &table.unit_id else {
        let spot = name.spot.beside("unit_id");
        if !spot.is_refused(found) {
            let allowed = "the Modbus unit id, a whole number from 0 to 255".to_owned();
            found.problems.push(spot.problem(What::Missing { allowed }));
        }
        return None;
    };
    let unit_id = u8::try_from(at.value.0).ok()?;
    if let Some(other) = open.units.insert(unit_id, &name.value.0) {
        at.warn(found, format!("device `{other}` on connection `{}` has the same unit id", open.name));
    }
    let broadcast = unit(table, at, unit_id, driver, found);
    let Tags { templates, defaults, dialect, facts, .. } = tags?;
    check_overlaps(&templates.registers, defaults, found);
    let registers = templates.registers.iter();
    let tags: Vec<TagSpec<Polled>> =
        registers.filter_map(|tag| tag.instantiate(&name.value.0, defaults, alike, found)).collect();
    if broadcast {
        check_broadcast(table, at, &tags, found);
    } else {
        dialect.check_reads(&tags, found);
    }
    dialect.check_writes(&tags, broadcast, found);
    Some((ModbusDevice { unit_id, broadcast, dialect: dialect.dialect(), tags }, facts))
}

/// Checks a unit id against what carries it (Modbus over serial line V1.02, section 2.2), and tells whether it is a
/// broadcast.
fn unit<const LO: i64, const HI: i64>(
    table: &DeviceTable,
    at: &At<Whole<LO, HI>>,
    unit_id: u8,
    driver: Driver,
    found: &mut Findings,
) -> bool {
    let with = format!("driver = \"{}\"", driver.name());
    match (driver, unit_id) {
        (Driver::Rtu, 248..) => {
            at.conflict(found, with.clone(), "1 to 247, or 0 for all devices on the line at once");
        }
        (Driver::RtuTcp, 248..) => at.warn(found, "the Modbus specification reserves 248 to 255 on a line"),
        (_, 248..=254) => at.warn(found, "the Modbus specification reserves 248 to 254"),
        _ => {}
    }
    let is_line = matches!(driver, Driver::Rtu | Driver::RtuTcp);
    match &table.broadcast {
        Some(key) if key.value.0 && unit_id != 0 => {
            key.conflict(found, format!("unit_id = {unit_id}"), "unit_id = 0 for a broadcast");
            false
        }
        Some(key) if !key.value.0 && unit_id == 0 && is_line => {
            key.conflict(
                found,
                format!("unit_id = 0 and {with}"),
                "true: on a line, 0 is always a broadcast",
            );
            true
        }
        Some(key) => key.value.0,
        None => unit_id == 0 && is_line,
    }
}

/// Nothing answers a broadcast, so there is nothing to read.
fn check_broadcast<T>(table: &DeviceTable, unit_id: &At<T>, tags: &[TagSpec<Polled>], found: &mut Findings) {
    const MOST: usize = 5;
    let read = tags.iter().filter(|spec| spec.tag.definition.access == Access::ReadOnly);
    let mut names: Vec<String> = read.map(|spec| format!("`{}`", spec.tag.path)).collect();
    if names.is_empty() {
        return;
    }
    let more = names.len().saturating_sub(MOST);
    names.truncate(MOST);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let listed = format!("{}{more}", names.join(", "));
    let what = What::Conflict {
        with: format!("access = \"read\" of {listed}"),
        allowed: "\"read-write\" for every tag of a broadcast, which nothing answers".to_owned(),
    };
    let spot = table.broadcast.as_ref().map_or(&unit_id.spot, |at| &at.spot);
    found.problems.push(spot.problem(what));
}

/// What a device has by its profile and its own tables.
struct Tags {
    templates: Templates,
    defaults: Defaults,
    dialect: Keys,
    /// The protocol of its profile, and where that was asked for.
    protocol: Option<At<Protocol>>,
    signs: Vec<Sign>,
    qos: Option<Qos>,
    frames: Frames,
    facts: Facts,
}

/// What people read of a device.
#[derive(Default)]
struct Facts {
    description: String,
    vendor: String,
    model: String,
}

/// Merges a device's tags into its profile's; `None` where the profile has problems.
fn tags(table: &At<DeviceTable>, library: &mut Library, found: &mut Findings) -> Option<Tags> {
    let device = &table.value;
    let before = found.problems.len();
    let own = templates(device.tags.as_ref(), found);
    let mut dialect = Keys::new(device.reads.as_ref(), device.writes.as_ref(), found);
    let profile = match &device.profile {
        Some(name) => Some(library.get(&name.value.0, &name.spot, found)?),
        None => None,
    };
    let merged = profile.as_ref().map(|profile| profile.tags.clone()).unwrap_or_default().merged(own);
    let mut signs = signs(device.availability.as_ref(), found);
    let mut level = device.qos.as_ref().map(qos);
    if found.problems.len() > before {
        return None;
    }
    if merged.is_empty() && !table.spot.has_problem(found) {
        let allowed = "a `profile` that has tags, or [[devices.tags]]".to_owned();
        found.problems.push(table.spot.absent("tags").problem(What::Missing { allowed }));
        return None;
    }
    let order = device.byte_order.as_ref().map(|at| at.value.0.0);
    let mut defaults = Defaults::new(device.scan_ms.as_ref(), order, device.stale_after_ms.as_ref());
    let text = |at: &At<Text>| at.value.0.clone();
    let mut facts =
        Facts { description: device.description.as_ref().map(text).unwrap_or_default(), ..Facts::default() };
    if let Some(profile) = &profile {
        facts.vendor.clone_from(&profile.vendor);
        facts.model.clone_from(&profile.model);
        if facts.description.is_empty() {
            facts.description.clone_from(&profile.description);
        }
        defaults = defaults.or(profile.defaults);
        dialect = dialect.or(&profile.dialect);
        signs = signs.or_else(|| Some(profile.signs.clone()));
        level = level.or(profile.qos);
    }
    let frames = profile.as_ref().map(|profile| profile.frames.clone()).unwrap_or_default();
    let protocol = profile.as_ref().zip(device.profile.as_ref());
    let protocol = protocol.map(|(profile, at)| At { value: profile.protocol, spot: at.spot.clone() });
    let defaults = Defaults { function: dialect.function(), settle: dialect.settle(), ..defaults };
    let signs = signs.unwrap_or_default();
    Some(Tags { templates: merged, defaults, dialect, protocol, signs, qos: level, frames, facts })
}
