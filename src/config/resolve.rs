//! What a site file means: names resolved, profiles merged in, rules between keys checked.

mod connection;
mod device;

use std::{borrow::Cow, collections::HashMap, path::Path};

use super::{
    problem::{Findings, Problems, What},
    raw::{Driver, ServerTable, SiteFile, SiteTable},
    read::{Spot, millis},
    site::{Connection, ServerSettings, Site, WriteMode},
};
use crate::{codec::can::Id, profile::Library};

/// Resolves the site file at `path` whole. A part with a problem is left out, so that the rest is checked as well; the caller looks at
/// `found` before it uses the result.
pub(super) fn resolve(
    file: &SiteFile,
    path: &Path,
    mut library: Library,
    found: &mut Findings,
) -> Option<Site> {
    let tables = file.connections.as_ref().map_or(&[][..], |at| &at.value.0);
    let mut connections = connection::connections(tables, path.parent().unwrap_or(Path::new("")), found);
    device::devices(file, &mut connections, &mut library, found);
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
    driver: Option<Driver>,
    resolved: Option<Connection>,
    /// Devices by unit id, for what they share.
    units: HashMap<u8, &'a str>,
    /// Devices by the identifiers of CAN frames that they send.
    senders: HashMap<Id, &'a str>,
}

impl Open<'_> {
    fn is_unused(&self) -> bool {
        self.resolved.as_ref().is_some_and(|connection| connection.devices.is_empty())
    }
}

/// The first user of each name or address.
#[derive(Default)]
struct Taken<'a>(HashMap<Cow<'a, str>, &'a Spot>);

impl<'a> Taken<'a> {
    /// Whether `text` is new; else that is a problem.
    fn claim(
        &mut self,
        text: impl Into<Cow<'a, str>>,
        spot: &'a Spot,
        allowed: &str,
        found: &mut Findings,
    ) -> bool {
        let text = text.into();
        match self.0.get(&text) {
            None => self.0.insert(text, spot).is_none(),
            Some(first) => {
                let what = What::Duplicate { first: first.reference(), allowed: allowed.to_owned() };
                found.problems.push(spot.problem(what));
                false
            }
        }
    }
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
