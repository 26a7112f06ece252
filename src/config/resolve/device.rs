//! Devices: units on their connections, with what profile and site say of their tags and dialect.

use std::{collections::HashMap, sync::Arc};

use super::{Open, Taken};
use crate::{
    config::{
        leaf::{Text, Whole},
        problem::{Findings, What, nearest},
        raw::{DeviceTable, Driver, SiteFile},
        read::At,
        site::{DeviceSpec, Endpoint, TagSpec},
    },
    model::{Access, Device},
    profile::{Alike, Defaults, Library, Template, check_overlaps, dialect::Keys, templates},
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
    let (Some(name), Some(at)) = (&table.name, &table.unit_id) else { return };
    let Ok(unit_id) = u8::try_from(at.value.0) else { return };
    if let Some(other) = open.units.insert(unit_id, &name.value.0) {
        at.warn(found, format!("device `{other}` on connection `{}` has the same unit id", open.name));
    }
    let broadcast = open.driver.map(|driver| unit(table, at, unit_id, driver, found));
    let (Some(Tags { templates, defaults, dialect, facts }), Some(broadcast)) = (tags, broadcast) else {
        return;
    };
    check_overlaps(&templates, defaults, found);
    let tags: Vec<TagSpec> =
        templates.iter().filter_map(|tag| tag.instantiate(&name.value.0, defaults, alike, found)).collect();
    if broadcast {
        check_broadcast(table, at, &tags, found);
    } else {
        dialect.check_reads(&tags, found);
    }
    dialect.check_writes(&tags, broadcast, found);
    let Some(connection) = open.resolved.as_mut() else { return };
    let Endpoint::Modbus(endpoint) = &connection.endpoint;
    let whom = if broadcast { "broadcast".to_owned() } else { format!("unit {unit_id}") };
    let device = Device {
        name: name.value.0.clone(),
        description: facts.description,
        vendor: facts.vendor,
        model: facts.model,
        connection: connection.name.clone(),
        driver: endpoint.transport.driver(),
        address: format!("{} {whom}", endpoint.transport.address()),
    };
    let dialect = dialect.dialect();
    connection.devices.push(DeviceSpec { device: Arc::new(device), unit_id, broadcast, dialect, tags });
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
fn check_broadcast<T>(table: &DeviceTable, unit_id: &At<T>, tags: &[TagSpec], found: &mut Findings) {
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
    templates: Vec<Template>,
    defaults: Defaults,
    dialect: Keys,
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
    let mut merged = profile.as_ref().map(|profile| profile.tags.clone()).unwrap_or_default();
    let places: HashMap<String, usize> =
        merged.iter().enumerate().map(|(index, tag)| (tag.name.clone(), index)).collect();
    for tag in own {
        match places.get(&tag.name).and_then(|index| merged.get_mut(*index)) {
            Some(known) => *known = tag,
            None => merged.push(tag),
        }
    }
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
    }
    let defaults = Defaults { function: dialect.function(), settle: dialect.settle(), ..defaults };
    Some(Tags { templates: merged, defaults, dialect, facts })
}
