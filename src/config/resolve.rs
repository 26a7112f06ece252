//! What a site file means: names resolved, profiles merged in, rules between keys checked.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::{
    leaf::Text,
    problem::{Findings, Problems, What, nearest},
    raw::{ConnectionTable, DeviceTable, Driver, ServerTable, SiteFile, SiteTable},
    read::{At, Spot, millis},
    site::{Connection, DeviceSpec, Endpoint, ModbusEndpoint, ServerSettings, Site, Transport, WriteMode},
};
use crate::{
    model::Device,
    profile::{Defaults, Library, Template, check_overlaps, modbus::Dialect, templates},
};

/// Resolves a whole site. A part with a problem is left out, so that the rest is checked as well; the caller looks at
/// `found` before it uses the result.
pub(super) fn resolve(file: &SiteFile, mut library: Library, found: &mut Findings) -> Option<Site> {
    let tables = file.connections.as_ref().map_or(&[][..], |at| &at.value.0);
    let mut connections = connections(tables, found);
    devices(file, &mut connections, &mut library, found);
    if found.problems.is_empty() {
        review(file, &connections, found);
    }
    let SiteTable { name, writes, write } = &file.site.as_ref()?.value;
    let ServerTable { http, notify_min_ms } = &file.server.as_ref()?.value;
    let site = Site {
        name: name.as_ref()?.value.0.clone(),
        writes: writes.as_ref()?.value.0,
        write_timeout: millis(write.as_ref()?.value.timeout_ms.as_ref()?.value.0),
        server: ServerSettings {
            http: http.as_ref().map(|at| at.value.0),
            notify_min: millis(notify_min_ms.as_ref()?.value.0),
        },
        connections: connections.into_iter().filter_map(|open| open.resolved).collect(),
        warnings: Problems::new(std::mem::take(&mut found.warnings))
            .iter()
            .map(ToString::to_string)
            .collect(),
    };
    Some(site)
}

/// A connection by its name, which devices may refer to even where the rest of it is wrong.
struct Open<'a> {
    name: &'a str,
    spot: &'a Spot,
    resolved: Option<Connection>,
    /// Devices by unit id, for what they share.
    units: HashMap<u8, &'a str>,
}

impl Open<'_> {
    fn is_unused(&self) -> bool {
        self.resolved.as_ref().is_some_and(|connection| connection.devices.is_empty())
    }
}

/// The first user of each name or address.
#[derive(Default)]
struct Taken<'a>(HashMap<&'a str, &'a Spot>);

impl<'a> Taken<'a> {
    /// Whether `text` is new; else that is a problem.
    fn claim(&mut self, text: &'a str, spot: &'a Spot, allowed: &str, found: &mut Findings) -> bool {
        match self.0.get(text) {
            None => self.0.insert(text, spot).is_none(),
            Some(first) => {
                let what = What::Duplicate { first: first.reference(), allowed: allowed.to_owned() };
                found.problems.push(spot.problem(what));
                false
            }
        }
    }
}

fn connections<'a>(tables: &'a [At<ConnectionTable>], found: &mut Findings) -> Vec<Open<'a>> {
    let mut names = Taken::default();
    let mut addresses = Taken::default();
    let mut connections = Vec::new();
    for table in tables {
        let ConnectionTable { name, driver, address, timeout_ms } = &table.value;
        if let Some(address) = address {
            let allowed = "one connection an address; let its devices share it";
            addresses.claim(&address.value.normal, &address.spot, allowed, found);
        }
        let Some(name) = name else { continue };
        if !names.claim(&name.value.0, &name.spot, "one connection a name", found) {
            continue;
        }
        let resolved = match (driver, address, timeout_ms) {
            (Some(driver), Some(address), Some(timeout)) => Some(Connection {
                name: name.value.0.clone(),
                endpoint: match driver.value.0 {
                    Driver::ModbusTcp => Endpoint::Modbus(ModbusEndpoint {
                        transport: Transport::Tcp { address: address.value.written.clone(), tls: None },
                        timeout: millis(timeout.value.0),
                        connect_delay: Duration::ZERO,
                        request_gap: Duration::ZERO,
                        idle_close: None,
                        max_in_flight: 1,
                        check_ids: true,
                        reconnect: (Duration::from_millis(250), Duration::from_secs(15)),
                    }),
                },
                devices: Vec::new(),
            }),
            _ => None,
        };
        connections.push(Open { name: &name.value.0, spot: &name.spot, resolved, units: HashMap::new() });
    }
    connections
}

fn devices<'a>(
    file: &'a SiteFile,
    connections: &mut [Open<'a>],
    library: &mut Library,
    found: &mut Findings,
) {
    let mut names = Taken::default();
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
        attach(&table.value, tags, open, found);
    }
}

/// Hangs a device on its connection.
fn attach<'a>(table: &'a DeviceTable, tags: Option<Tags>, open: &mut Open<'a>, found: &mut Findings) {
    let (Some(name), Some(at)) = (&table.name, &table.unit_id) else { return };
    let Ok(unit_id) = u8::try_from(at.value.0) else { return };
    if let Some(other) = open.units.insert(unit_id, &name.value.0) {
        at.warn(found, format!("device `{other}` on connection `{}` has the same unit id", open.name));
    }
    if (248..=254).contains(&unit_id) {
        at.warn(found, "the Modbus specification reserves 248 to 254");
    }
    let (Some(tags), Some(connection)) = (tags, open.resolved.as_mut()) else { return };
    let Endpoint::Modbus(ModbusEndpoint { transport, .. }) = &connection.endpoint;
    let (driver, address) = (transport.driver(), format!("{} unit {unit_id}", transport.address()));
    let device = Device {
        name: name.value.0.clone(),
        description: tags.description,
        vendor: tags.vendor,
        model: tags.model,
        connection: connection.name.clone(),
        driver,
        address,
    };
    check_overlaps(&tags.templates, tags.defaults, found);
    let tags =
        tags.templates.iter().filter_map(|tag| tag.instantiate(&device.name, tags.defaults, found)).collect();
    connection.devices.push(DeviceSpec {
        device: Arc::new(device),
        unit_id,
        broadcast: false,
        dialect: Dialect::default(),
        tags,
    });
}

/// What a device has by its profile and its own tables.
struct Tags {
    templates: Vec<Template>,
    defaults: Defaults,
    description: String,
    vendor: String,
    model: String,
}

/// Merges a device's tags into its profile's; `None` where the profile has problems.
fn tags(table: &At<DeviceTable>, library: &mut Library, found: &mut Findings) -> Option<Tags> {
    let device = &table.value;
    let before = found.problems.len();
    let own = templates(device.tags.as_ref(), found);
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
    let defaults = Defaults::new(device.scan_ms.as_ref(), order, device.stale_after_ms.as_ref());
    let text = |at: &At<Text>| at.value.0.clone();
    let mut description = device.description.as_ref().map(text).unwrap_or_default();
    let (mut vendor, mut model) = (String::new(), String::new());
    let defaults = match &profile {
        Some(profile) => {
            vendor.clone_from(&profile.vendor);
            model.clone_from(&profile.model);
            if description.is_empty() {
                description.clone_from(&profile.description);
            }
            defaults.or(profile.defaults)
        }
        None => defaults,
    };
    Some(Tags { templates: merged, defaults, description, vendor, model })
}

/// Warns of what serves or does nothing.
fn review(file: &SiteFile, connections: &[Open<'_>], found: &mut Findings) {
    if let Some(SiteTable { name: Some(name), writes: Some(writes), .. }) =
        file.site.as_ref().map(|at| &at.value)
    {
        if writes.value.0 == WriteMode::Confirm {
            writes.warn(found, "nobody can confirm yet, so every write is refused");
        }
        if connections.iter().all(Open::is_unused) {
            name.warn(found, "the site has no device, so nothing is served");
        }
    }
    for open in connections.iter().filter(|open| open.is_unused()) {
        found.warnings.push(open.spot.problem(What::Note("no device uses this connection".to_owned())));
    }
}
