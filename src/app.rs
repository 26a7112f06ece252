//! Wiring: builds the plant from a site, starts and stops its links in order, reloads it.

#[cfg(feature = "simulators")]
mod simulated;

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

#[cfg(feature = "simulators")]
pub use simulated::simulated;

use crate::{
    config::{Connection, DeviceSpec, Endpoint, Polled, Site, Wire, WriteMode},
    control::{Control, Route, Table},
    drivers::{
        can::{Buses, Can, Memory, Node},
        modbus::{Modbus, Unit},
        mqtt::{Mqtt, Station},
    },
    link::{self, Backoff, Counters, Driver, Host, Inbox, Queue},
    model::{Access, DeviceId, LinkState, Setpoint, Tag, TagId},
    profile::{can, mqtt},
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
    /// CAN buses of this process.
    buses: Buses,
    /// What was sent on CAN, by the way to the bus.
    memories: HashMap<(&'static str, String), Memory>,
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
        Self::start_beside(site, Buses::default())
    }

    /// The same beside CAN buses of this process, which the site names as `can-virtual`.
    #[must_use]
    pub fn start_beside(site: Site, buses: Buses) -> Self {
        let store = Arc::new(Store::default());
        let control = Arc::new(Control::new(Arc::clone(&store)));
        let sweeper = tokio::spawn({
            let store = Arc::clone(&store);
            async move { store.sweep().await }
        });
        let empty = Site { connections: Vec::new(), ..site.clone() };
        let mut app = Self {
            store,
            control,
            site: empty,
            links: HashMap::new(),
            buses,
            memories: HashMap::new(),
            sweeper,
        };
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
    /// read again. Where writing is allowed no longer, what connections send again and again ends, too.
    pub async fn reload(&mut self, site: Site) {
        let ends = self.site.writes == WriteMode::Allow && site.writes != WriteMode::Allow;
        let goes_on = |name: &str| {
            let new = site.connections.iter().find(|connection| connection.name == name);
            let old = self.site.connections.iter().find(|connection| connection.name == name);
            new.zip(old).is_some_and(|(new, old)| is_same_link(new, old) && !(ends && has_cycles(old)))
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
            let end = (stop, queue, inbox);
            let memory = match &connection.endpoint {
                Endpoint::Can(endpoint) => {
                    self.memories.entry((endpoint.driver(), endpoint.address())).or_default().clone()
                }
                Endpoint::Modbus(_) | Endpoint::Mqtt(_) => Memory::default(),
            };
            let link = open(&self.store, &catalogue, connection, end, counters, (&self.buses, memory));
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
    tags: HashMap<&'a str, (TagId, Spec<'a>)>,
}

/// A tag and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spec<'a> {
    tag: &'a Arc<Tag>,
    source: Source<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Source<'a> {
    Modbus(&'a Polled),
    Mqtt(&'a mqtt::Point),
    Can(&'a can::Point),
}

impl<'a> Former<'a> {
    fn new(site: &'a Site, catalogue: &Catalogue) -> Self {
        let (mut devices, mut tags) = (HashMap::new(), HashMap::new());
        for connection in &site.connections {
            for spec in &connection.devices {
                if let Some(entry) = catalogue.device(&spec.device.name) {
                    devices.insert(spec.device.name.as_str(), (entry.id, connection, spec));
                }
                for spec in specs(spec) {
                    let path = spec.tag.path.as_str();
                    if let Some(entry) = catalogue.tag(path) {
                        tags.insert(path, (entry.id, spec));
                    }
                }
            }
        }
        Self { devices, tags }
    }

    /// Whether it had this tag, with all that is known of it.
    fn has(&self, spec: Spec<'_>) -> bool {
        self.tags.get(spec.tag.path.as_str()).is_some_and(|(_, former)| *former == spec)
    }

    fn place(&self, connection: &Connection, spec: &DeviceSpec, counters: &Arc<Counters>) -> DeviceLayout {
        let same = self.devices.get(spec.device.name.as_str()).filter(|(_, link, device)| {
            (&link.name, &link.endpoint) == (&connection.name, &connection.endpoint)
                && is_same_unit(&device.wire, &spec.wire)
        });
        let tags = specs(spec).into_iter().map(|spec| {
            let former = same.and_then(|_| self.tags.get(spec.tag.path.as_str()));
            let keep = former.filter(|(_, former)| is_same_source(*former, spec)).map(|(id, _)| *id);
            TagLayout { tag: Arc::clone(spec.tag), keep }
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
        let (new, old) = (specs(new), specs(old));
        new.len() == old.len() && new.iter().zip(&old).all(|(new, old)| is_same_source(*new, *old))
    };
    new.endpoint == old.endpoint
        && new.devices.len() == old.devices.len()
        && new.devices.iter().zip(&old.devices).all(|(new, old)| {
            new.device.name == old.device.name && is_same_wire(&new.wire, &old.wire) && same_tags(new, old)
        })
}

/// Whether it may send on its own what was written once.
fn has_cycles(connection: &Connection) -> bool {
    connection.devices.iter().flat_map(specs).any(|spec| match spec.source {
        Source::Can(point) => point.message.sending.as_ref().is_some_and(|sending| sending.period.is_some()),
        Source::Modbus(_) | Source::Mqtt(_) => false,
    })
}

/// Whether a value of the one is a value of the other: where it comes from, and how it is read and judged.
fn is_same_source(new: Spec<'_>, old: Spec<'_>) -> bool {
    (&new.tag.path, new.tag.definition.range) == (&old.tag.path, old.tag.definition.range)
        && new.source == old.source
}

/// Whether two devices of one name at one place are the same one.
fn is_same_unit(new: &Wire, old: &Wire) -> bool {
    match (new, old) {
        (Wire::Modbus(new), Wire::Modbus(old)) => new.unit_id == old.unit_id,
        (Wire::Mqtt(_), Wire::Mqtt(_)) => true,
        (Wire::Can(new), Wire::Can(old)) => new.source == old.source,
        (Wire::Modbus(_) | Wire::Mqtt(_) | Wire::Can(_), _) => false,
    }
}

/// Whether a driver was given the same of a device, apart from its tags.
fn is_same_wire(new: &Wire, old: &Wire) -> bool {
    match (new, old) {
        (Wire::Modbus(new), Wire::Modbus(old)) => {
            (new.unit_id, new.broadcast, &new.dialect) == (old.unit_id, old.broadcast, &old.dialect)
        }
        (Wire::Mqtt(new), Wire::Mqtt(old)) => new.availability == old.availability,
        (Wire::Can(new), Wire::Can(old)) => new.source == old.source,
        (Wire::Modbus(_) | Wire::Mqtt(_) | Wire::Can(_), _) => false,
    }
}

fn specs(device: &DeviceSpec) -> Vec<Spec<'_>> {
    match &device.wire {
        Wire::Modbus(device) => {
            let tags = device.tags.iter();
            tags.map(|spec| Spec { tag: &spec.tag, source: Source::Modbus(&spec.source) }).collect()
        }
        Wire::Mqtt(device) => {
            let tags = device.tags.iter();
            tags.map(|spec| Spec { tag: &spec.tag, source: Source::Mqtt(&spec.source) }).collect()
        }
        Wire::Can(device) => {
            let tags = device.tags.iter();
            tags.map(|spec| Spec { tag: &spec.tag, source: Source::Can(&spec.source) }).collect()
        }
    }
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
        for spec in connection.devices.iter().flat_map(specs) {
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
            let setpoint: Arc<dyn Setpoint> = match spec.source {
                Source::Modbus(polled) => Arc::new(polled.point.format.clone()),
                Source::Mqtt(point) => Arc::clone(&point.field) as _,
                Source::Can(point) => Arc::clone(&point.signal) as _,
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
    (buses, memory): (&Buses, Memory),
) -> Link {
    let mut known = Vec::new();
    for spec in &connection.devices {
        let Some(device) = catalogue.device(&spec.device.name) else { continue };
        let ids = specs(spec).into_iter().map(|spec| Some(catalogue.tag(spec.tag.path.as_str())?.id));
        let Some(ids) = ids.collect::<Option<Vec<_>>>() else { continue };
        known.push((device.id, spec, ids));
    }
    let tags = known.iter().flat_map(|(.., ids)| ids).copied().collect::<Vec<_>>();
    let devices = known.iter().map(|(id, ..)| *id).collect::<Vec<_>>();
    let host = Arc::new(store::Connection::new(Arc::clone(store), tags.into(), devices.into()));
    let end = (connection.name.clone(), inbox, Arc::clone(&host) as Arc<dyn Host>);
    let task = match &connection.endpoint {
        Endpoint::Modbus(endpoint) => {
            let units = known.iter().filter_map(|(id, spec, ids)| match &spec.wire {
                Wire::Modbus(device) => Some(Unit::new(*id, device, ids)),
                Wire::Mqtt(_) | Wire::Can(_) => None,
            });
            let units = units.collect::<Vec<_>>();
            run(Modbus::new(endpoint.clone(), &units, Arc::clone(&counters)), end, endpoint.reconnect)
        }
        Endpoint::Mqtt(endpoint) => {
            let stations = known.iter().filter_map(|(id, spec, ids)| match &spec.wire {
                Wire::Mqtt(device) => Some(Station::new(*id, device, ids)),
                Wire::Modbus(_) | Wire::Can(_) => None,
            });
            let stations = stations.collect::<Vec<_>>();
            run(Mqtt::new(endpoint.clone(), &stations, Arc::clone(&counters)), end, endpoint.reconnect)
        }
        Endpoint::Can(endpoint) => {
            let nodes = known.iter().filter_map(|(id, spec, ids)| match &spec.wire {
                Wire::Can(device) => Some(Node::new(*id, device, ids)),
                Wire::Modbus(_) | Wire::Mqtt(_) => None,
            });
            let nodes = nodes.collect::<Vec<_>>();
            let driver = Can::new(endpoint.clone(), &nodes, buses.clone(), memory, Arc::clone(&counters));
            run(driver, end, endpoint.reconnect)
        }
    };
    Link { stop, task, host, queue, counters }
}

fn run<D: Driver>(
    driver: D,
    (name, inbox, host): (String, Inbox, Arc<dyn Host>),
    (first, cap): (Duration, Duration),
) -> JoinHandle<()> {
    tokio::spawn(async move { link::supervise(&name, driver, inbox, host, Backoff { first, cap }).await })
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
