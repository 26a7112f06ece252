//! Wiring: builds the plant from a site, starts and stops its links in order, reloads it.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    config::{Connection, DeviceSpec, Endpoint, Site, Source, TagSpec},
    control::{Control, Route, Table},
    drivers::modbus::{Modbus, Unit},
    link::{self, Backoff, Counters, Host, Inbox, Queue},
    model::{Access, DeviceId, LinkState, Setpoint, TagId},
    store::{self, Catalogue, DeviceLayout, Layout, Store, TagLayout},
};

/// How long all links together may take to close before their tasks are ended by force.
const CLOSE: Duration = Duration::from_secs(5);

/// A running plant: the store, the control, and a supervised link for every connection.
#[derive(Debug)]
pub struct App {
    store: Arc<Store>,
    control: Arc<Control>,
    site: Site,
    links: HashMap<String, Link>,
    sweeper: JoinHandle<()>,
}

#[derive(Debug)]
struct Link {
    stop: CancellationToken,
    task: JoinHandle<()>,
    host: Arc<store::Connection>,
    queue: Queue,
    counters: Arc<Counters>,
}

impl App {
    /// Starts a plant. No connection needs to be up: each is tried again for ever.
    #[must_use]
    pub fn start(site: Site) -> Self {
        let store = Arc::new(Store::default());
        let control = Arc::new(Control::new(Arc::clone(&store)));
        let sweeper = tokio::spawn({
            let store = Arc::clone(&store);
            async move { store.sweep().await }
        });
        let empty = Site { connections: Vec::new(), ..site.clone() };
        let mut app = Self { store, control, site: empty, links: HashMap::new(), sweeper };
        app.install(site);
        app
    }

    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    #[must_use]
    pub fn control(&self) -> &Arc<Control> {
        &self.control
    }

    /// Puts `site` in the place of the present one. Connections on which it changes nothing that goes over the wire
    /// go on undisturbed; of the others the tags that it does not change keep their values, as bad until they are
    /// read again.
    pub async fn reload(&mut self, site: Site) {
        let goes_on = |name: &str| {
            let new = site.connections.iter().find(|connection| connection.name == name);
            let old = self.site.connections.iter().find(|connection| connection.name == name);
            new.zip(old).is_some_and(|(new, old)| is_same_link(new, old))
        };
        let ended = self.links.keys().filter(|name| !goes_on(name)).cloned().collect::<Vec<_>>();
        let ended = ended.iter().filter_map(|name| self.links.remove_entry(name)).collect::<Vec<_>>();
        close(ended).await;
        self.install(site);
    }

    /// Closes every link, and waits until the last write is in the log.
    pub async fn stop(mut self) {
        close(self.links.drain().collect()).await;
        if timeout(CLOSE, self.control.drained()).await.is_err() {
            warn!("a write did not end in time");
        }
        self.sweeper.abort();
    }

    fn install(&mut self, site: Site) {
        let former = Former::new(&self.site, &self.store.catalogue());
        let mut layout = Layout { site: site.name.clone(), devices: Vec::new() };
        let mut fresh = HashMap::new();
        for connection in &site.connections {
            let counters = match self.links.get(&connection.name) {
                Some(link) => Arc::clone(&link.counters),
                None => Arc::clone(fresh.entry(connection.name.clone()).or_default()),
            };
            layout
                .devices
                .extend(connection.devices.iter().map(|spec| former.place(connection, spec, &counters)));
        }
        let catalogue = self.store.install(layout);
        let mut starts = Vec::new();
        for connection in site.connections.iter().filter(|connection| fresh.contains_key(&connection.name)) {
            let stop = CancellationToken::new();
            let (queue, inbox) = link::queue(stop.clone());
            let counters = fresh.get(&connection.name).map(Arc::clone).unwrap_or_default();
            starts.push((connection, stop, queue, inbox, counters));
        }
        let queues = self.links.iter().map(|(name, link)| (name.as_str(), &link.queue));
        let queues = queues.chain(starts.iter().map(|start| (start.0.name.as_str(), &start.2)));
        self.control.install(table(&site, &catalogue, &queues.collect(), &former, &self.control.table()));
        for (connection, stop, queue, inbox, counters) in starts {
            let link = open(&self.store, &catalogue, connection, (stop, queue, inbox), counters);
            self.links.insert(connection.name.clone(), link);
        }
        for warning in &site.warnings {
            warn!("{warning}");
        }
        info!(
            site = site.name,
            connections = site.connections.len(),
            devices = catalogue.devices().len(),
            tags = catalogue.tags().len(),
            generation = catalogue.generation,
            "configuration in force"
        );
        self.site = site;
    }
}

/// What the configuration before this one had, by path.
struct Former<'a> {
    devices: HashMap<&'a str, (DeviceId, &'a Connection, &'a DeviceSpec)>,
    tags: HashMap<&'a str, (TagId, &'a TagSpec)>,
}

impl<'a> Former<'a> {
    fn new(site: &'a Site, catalogue: &Catalogue) -> Self {
        let (mut devices, mut tags) = (HashMap::new(), HashMap::new());
        for connection in &site.connections {
            for spec in &connection.devices {
                if let Some(entry) = catalogue.device(&spec.device.name) {
                    devices.insert(spec.device.name.as_str(), (entry.id, connection, spec));
                }
                for tag in &spec.tags {
                    let path = tag.tag.path.as_str();
                    if let Some(entry) = catalogue.tag(path) {
                        tags.insert(path, (entry.id, tag));
                    }
                }
            }
        }
        Self { devices, tags }
    }

    /// Whether it had this tag, with all that is known of it.
    fn has(&self, spec: &TagSpec) -> bool {
        self.tags.get(spec.tag.path.as_str()).is_some_and(|(_, former)| *former == spec)
    }

    fn place(&self, connection: &Connection, spec: &DeviceSpec, counters: &Arc<Counters>) -> DeviceLayout {
        let same = self.devices.get(spec.device.name.as_str()).filter(|(_, link, device)| {
            (&link.name, &link.endpoint, device.unit_id)
                == (&connection.name, &connection.endpoint, spec.unit_id)
        });
        let tags = spec.tags.iter().map(|tag| {
            let former = same.and_then(|_| self.tags.get(tag.tag.path.as_str()));
            let keep = former.filter(|(_, former)| is_same_source(former, tag)).map(|(id, _)| *id);
            TagLayout { tag: Arc::clone(&tag.tag), keep }
        });
        DeviceLayout {
            device: Arc::clone(&spec.device),
            counters: Arc::clone(counters),
            keep: same.map(|(id, ..)| *id),
            tags: tags.collect(),
        }
    }
}

/// Whether a link can go on: nothing differs that its driver was given.
fn is_same_link(new: &Connection, old: &Connection) -> bool {
    let same_tags = |new: &DeviceSpec, old: &DeviceSpec| {
        new.tags.len() == old.tags.len()
            && new.tags.iter().zip(&old.tags).all(|(new, old)| is_same_source(new, old))
    };
    new.endpoint == old.endpoint
        && new.devices.len() == old.devices.len()
        && new.devices.iter().zip(&old.devices).all(|(new, old)| {
            new.device.name == old.device.name
                && (new.unit_id, new.broadcast, &new.dialect) == (old.unit_id, old.broadcast, &old.dialect)
                && same_tags(new, old)
        })
}

/// Whether a value of the one is a value of the other: where it comes from, and how it is read and judged.
fn is_same_source(new: &TagSpec, old: &TagSpec) -> bool {
    let of = |spec: &TagSpec| (spec.tag.path.clone(), spec.tag.definition.range, spec.scan);
    of(new) == of(old) && new.source == old.source
}

fn table(
    site: &Site,
    catalogue: &Catalogue,
    queues: &HashMap<&str, &Queue>,
    former: &Former<'_>,
    present: &Table,
) -> Table {
    let mut routes = HashMap::new();
    for connection in &site.connections {
        let Some(queue) = queues.get(connection.name.as_str()) else { continue };
        for spec in connection.devices.iter().flat_map(|device| &device.tags) {
            let Some(entry) = catalogue.tag(spec.tag.path.as_str()) else { continue };
            if spec.tag.definition.access != Access::ReadWrite {
                continue;
            }
            let latest = match present.routes.get(&entry.id) {
                Some(route) if former.has(spec) => Arc::clone(&route.latest),
                // Redefined: what still waits under the old definition is told by the new counter.
                Some(route) => Arc::new(AtomicU64::new(route.latest.load(Ordering::Acquire))),
                None => Arc::default(),
            };
            let setpoint: Arc<dyn Setpoint> = match &spec.source {
                Source::Modbus(point) => Arc::new(point.format.clone()),
            };
            routes.insert(entry.id, Route { setpoint, queue: Queue::clone(queue), latest });
        }
    }
    Table { generation: catalogue.generation, writes: site.writes, timeout: site.write_timeout, routes }
}

fn open(
    store: &Arc<Store>,
    catalogue: &Catalogue,
    connection: &Connection,
    (stop, queue, inbox): (CancellationToken, Queue, Inbox),
    counters: Arc<Counters>,
) -> Link {
    let (mut tags, mut devices, mut units) = (Vec::new(), Vec::new(), Vec::new());
    for spec in &connection.devices {
        let Some(device) = catalogue.device(&spec.device.name) else { continue };
        devices.push(device.id);
        let ids = spec.tags.iter().map(|tag| Some(catalogue.tag(tag.tag.path.as_str())?.id));
        let Some(ids) = ids.collect::<Option<Vec<_>>>() else { continue };
        units.push(Unit::new(device.id, spec, &ids));
        tags.extend(ids);
    }
    let host = Arc::new(store::Connection::new(Arc::clone(store), tags.into(), devices.into()));
    let Endpoint::Modbus(endpoint) = &connection.endpoint;
    let driver = Modbus::new(endpoint.clone(), &units, Arc::clone(&counters));
    let backoff = Backoff { first: endpoint.reconnect.0, cap: endpoint.reconnect.1 };
    let name = connection.name.clone();
    let task = tokio::spawn({
        let host: Arc<dyn Host> = Arc::clone(&host) as _;
        async move { link::supervise(&name, driver, inbox, host, backoff).await }
    });
    Link { stop, task, host, queue, counters }
}

/// Closes links side by side; afterwards none of them says anything any more.
async fn close(links: Vec<(String, Link)>) {
    for (_, link) in &links {
        link.stop.cancel();
    }
    let until = Instant::now() + CLOSE;
    for (name, mut link) in links {
        if timeout_at(until, &mut link.task).await.is_err() {
            warn!(connection = name, "did not close in time and was ended");
            link.task.abort();
            drop(link.task.await);
        }
        link.host.state(LinkState::Stopped, None);
    }
}
