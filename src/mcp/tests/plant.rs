//! A plant without a protocol: a store that tests publish into, and a device that takes writes.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    config::WriteMode,
    control::{Control, Route, Table},
    link::{Host, Sink, queue},
    mcp::Mcp,
    model::{
        Accepted, Access, Definition, Device, Kind, Labels, Limits, LinkState, Outcome, Party, Quality,
        Refusal, Report, Setpoint, Tag, TagId, TagPath, Update, Value, When,
    },
    store::{Connection, DeviceLayout, Layout, Store, TagLayout},
};

pub(in crate::mcp) struct Plant {
    pub(in crate::mcp) store: Arc<Store>,
    pub(in crate::mcp) mcp: Mcp,
    pub(in crate::mcp) link: Connection,
    sink: Sink,
    /// What the device was sent, in order.
    pub(in crate::mcp) written: Arc<Mutex<Vec<Value>>>,
    /// Each write of the device takes one of these.
    pub(in crate::mcp) turns: Arc<Semaphore>,
    /// Gets one for each command that reached the device's session.
    pub(in crate::mcp) reached: Arc<Semaphore>,
    stop: CancellationToken,
}

#[derive(Debug)]
struct Number;

impl Setpoint for Number {
    fn accept(&self, text: &str) -> Result<Accepted, Refusal> {
        let number = text
            .parse()
            .map_err(|_error| Refusal::Type { text: text.to_owned(), allowed: "a number such as 72.5" })?;
        Ok(Accepted { requested: Value::F64(number), effective: Value::F64(number) })
    }
}

fn tag(path: &str, kind: Kind, access: Access) -> Arc<Tag> {
    Arc::new(Tag {
        path: TagPath::parse(path).unwrap(),
        definition: Arc::new(Definition {
            description: format!("What {path} measures"),
            kind,
            count: None,
            labels: None,
            scaled: false,
            unit: Some("°C".into()),
            range: Some((0.0, 150.0)),
            deadband: None,
            stale_after: None,
            access,
            limits: Limits { min: Some(20.into()), max: Some(95.into()), timeout: None },
        }),
    })
}

fn labelled(path: &str) -> Arc<Tag> {
    let labels = Labels::new([(0, "off".into()), (1, "auto".into())]);
    let plain = tag(path, Kind::Uint16, Access::ReadOnly);
    Arc::new(plain.with(|definition| (definition.labels, definition.unit) = (Some(labels.into()), None)))
}

impl Tag {
    /// The same tag, of which something is changed.
    pub(in crate::mcp) fn with(&self, change: impl FnOnce(&mut Definition)) -> Self {
        let mut tag = self.clone();
        change(Arc::make_mut(&mut tag.definition));
        tag
    }
}

/// A tag for what needs no plant.
pub(in crate::mcp) fn a_tag() -> Tag {
    Tag::clone(&tag("boiler/setpoint", Kind::Uint16, Access::ReadWrite))
}

fn device(name: &str) -> Arc<Device> {
    Arc::new(Device {
        name: name.into(),
        description: "A device".into(),
        vendor: "fieldbridge".into(),
        model: "Test".into(),
        connection: "plc".into(),
        driver: "modbus-tcp",
        address: "127.0.0.1:5020 unit 1".into(),
    })
}

fn layout(name: &str, tags: Vec<Arc<Tag>>) -> DeviceLayout {
    let tags = tags.into_iter().map(|tag| TagLayout { tag, keep: None }).collect();
    DeviceLayout { device: device(name), counters: Arc::default(), keep: None, tags }
}

fn site(many: usize) -> Layout {
    let boiler = vec![
        tag("boiler/temperature", Kind::Int16, Access::ReadOnly),
        tag("boiler/setpoint", Kind::Uint16, Access::ReadWrite),
        tag("boiler/frequency", Kind::Float32, Access::ReadOnly),
        tag("boiler/energy", Kind::Uint64, Access::ReadOnly),
        labelled("boiler/mode"),
        Arc::new(
            tag("boiler/curve", Kind::Float32, Access::ReadOnly)
                .with(|definition| definition.count = Some(2)),
        ),
    ];
    let many = (0..many).map(|n| tag(&format!("many/line-1/t{n:05}"), Kind::Float64, Access::ReadOnly));
    Layout {
        site: "test".into(),
        devices: vec![layout("boiler", boiler), layout("many", many.collect()), layout("spare", Vec::new())],
    }
}

impl Plant {
    /// A boiler with six tags, a device with `many`, and one with none.
    pub(in crate::mcp) fn new(many: usize) -> Self {
        let store = Arc::new(Store::default());
        let catalogue = store.install(site(many));
        let tags = catalogue.tags().iter().map(|entry| entry.id).collect::<Vec<_>>();
        let devices = catalogue.devices().iter().map(|entry| entry.id).collect::<Vec<_>>();
        let link = Connection::new(Arc::clone(&store), tags.into(), devices.into());
        let sink = link.open();
        link.state(LinkState::Connected, None);
        let control = Arc::new(Control::new(Arc::clone(&store)));
        let (stop, turns) = (CancellationToken::new(), Arc::new(Semaphore::new(1000)));
        let written = Arc::<Mutex<Vec<Value>>>::default();
        let (sender, mut inbox) = queue(stop.clone());
        let route = Route { setpoint: Arc::new(Number), queue: sender, latest: Arc::new(AtomicU64::new(0)) };
        let setpoint = catalogue.tag("boiler/setpoint").unwrap().id;
        let routes = HashMap::from([(setpoint, route)]);
        control.install(Table {
            generation: 1,
            writes: WriteMode::Allow,
            timeout: Duration::from_secs(60),
            routes,
        });
        let reached = Arc::new(Semaphore::new(0));
        let (log, gate, arrived) = (Arc::clone(&written), Arc::clone(&turns), Arc::clone(&reached));
        tokio::spawn(async move {
            while let Some(mut command) = inbox.next().await {
                arrived.add_permits(1);
                gate.acquire().await.unwrap().forget();
                if let Err(report) = command.grant(None) {
                    command.answer(report);
                    continue;
                }
                let value = command.value.clone();
                log.lock().push(value.clone());
                let mut report = Report::new(Outcome::Confirmed, "read back equal");
                report.acknowledged_by = Some(Party::Device);
                report.value = Some(value);
                command.answer(report);
            }
        });
        let mcp = Mcp::new(Arc::clone(&store), control, Duration::ZERO);
        Self { store, mcp, link, sink, written, turns, reached, stop }
    }

    pub(in crate::mcp) fn id(&self, path: &str) -> TagId {
        self.store.catalogue().tag(path).unwrap().id
    }

    pub(in crate::mcp) fn publish(&self, path: &str, value: Value) {
        let (tag, at) = (self.id(path), tokio::time::Instant::now());
        let update =
            Update { tag, value: Some(value), quality: Quality::Good, detail: None, at: When::At(at) };
        self.sink.publish(&mut vec![update]);
    }

    /// Gives a tag a value with a detail.
    pub(in crate::mcp) fn say(&self, path: &str, value: Value, quality: Quality, detail: &str) {
        let (tag, at) = (self.id(path), tokio::time::Instant::now());
        let update =
            Update { tag, value: Some(value), quality, detail: Some(detail.into()), at: When::At(at) };
        self.sink.publish(&mut vec![update]);
    }

    /// Gives every tag the same value.
    pub(in crate::mcp) fn publish_all(&self, value: &Value) {
        let catalogue = self.store.catalogue();
        let at = tokio::time::Instant::now();
        let update = |tag| Update {
            tag,
            value: Some(value.clone()),
            quality: Quality::Good,
            detail: None,
            at: When::At(at),
        };
        self.sink.publish(&mut catalogue.tags().iter().map(|entry| update(entry.id)).collect());
    }

    /// Puts another configuration in the place of this one.
    pub(in crate::mcp) fn reload(&self, many: usize) {
        self.store.install(site(many));
    }
}

impl Drop for Plant {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
