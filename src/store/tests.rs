#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::mpsc;

use super::*;
use crate::{
    link::{Host, Sink},
    model::{Access, Definition, Kind, Limits, Quality, Reason, TagPath, Update, Value, When},
};

const NOTIFY: Duration = Duration::from_millis(100);

fn tag(path: &str, deadband: Option<f64>, stale_after: Option<u64>) -> Arc<Tag> {
    Arc::new(Tag {
        path: TagPath::parse(path).unwrap(),
        definition: Arc::new(Definition {
            description: String::new(),
            kind: Kind::Float64,
            count: None,
            labels: None,
            scaled: false,
            unit: None,
            range: None,
            deadband,
            stale_after: stale_after.map(Duration::from_millis),
            access: Access::ReadOnly,
            limits: Limits::default(),
        }),
    })
}

fn layout(tags: &[(Arc<Tag>, Option<TagId>)], keep: Option<DeviceId>) -> Layout {
    let device = Device { name: "boiler".into(), ..Device::default() };
    let tags = tags.iter().map(|(tag, keep)| TagLayout { tag: tag.clone(), keep: *keep }).collect();
    let device = DeviceLayout { device: Arc::new(device), counters: Arc::default(), keep, tags };
    Layout { site: "site".into(), devices: vec![device] }
}

struct Plant {
    store: Arc<Store>,
    host: Connection,
    ids: Vec<TagId>,
    device: DeviceId,
}

/// A store with one device whose link is not up yet.
fn plant(tags: &[Arc<Tag>]) -> Plant {
    let store = Arc::new(Store::default());
    let layouts = tags.iter().map(|tag| (tag.clone(), None)).collect::<Vec<_>>();
    let catalogue = store.install(layout(&layouts, None));
    let ids = tags.iter().map(|tag| catalogue.tag(tag.path.as_str()).unwrap().id).collect::<Vec<_>>();
    let device = catalogue.devices()[0].id;
    let host = Connection::new(store.clone(), ids.clone().into(), [device].into());
    Plant { store, host, ids, device }
}

impl Plant {
    fn open(&self) -> Sink {
        let sink = self.host.open();
        self.host.state(LinkState::Connected, None);
        sink
    }

    fn quality(&self, index: usize) -> Quality {
        self.store.read(self.ids[index]).unwrap().sample.quality
    }

    fn value(&self, index: usize) -> Value {
        self.store.read(self.ids[index]).unwrap().sample.value
    }
}

fn good(tag: TagId, value: f64) -> Update {
    Update {
        tag,
        value: Some(Value::F64(value)),
        quality: Quality::Good,
        detail: None,
        at: When::At(Instant::now()),
    }
}

fn publish(sink: &Sink, update: Update) {
    sink.publish(&mut vec![update]);
}

fn target(path: &str) -> Change {
    Change::Target(Target::Tag(path.into()))
}

/// What a subscriber would be told now.
async fn told(subscription: &Subscription) -> Vec<Change> {
    tokio::time::timeout(Duration::ZERO, subscription.next()).await.unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_value_is_as_old_as_the_question_for_it() {
    let plant = plant(&[tag("boiler/a", None, Some(3000))]);
    let asked = good(plant.ids[0], 7.0);
    tokio::time::advance(Duration::from_millis(2500)).await;
    publish(&plant.open(), asked);
    let reading = plant.store.read(plant.ids[0]).unwrap();
    assert_eq!(reading.age, Some(Duration::from_millis(2500)));
    let behind = reading.sample.server_time.duration_since(reading.sample.source_time.unwrap()).unwrap();
    assert_eq!(behind, Duration::from_millis(2500));
    tokio::time::advance(Duration::from_millis(501)).await;
    assert_eq!(plant.quality(0), Quality::Uncertain(Reason::Stale));
}

#[tokio::test(start_paused = true)]
async fn a_lost_link_makes_tags_bad_and_keeps_values() {
    let plant = plant(&[tag("boiler/a", None, None)]);
    assert_eq!(plant.quality(0), Quality::Bad(Reason::NeverRead));
    publish(&plant.open(), good(plant.ids[0], 7.0));
    let before = plant.store.read(plant.ids[0]).unwrap().sample;
    assert_eq!(before.quality, Quality::Good);

    plant.host.state(LinkState::BackingOff, Some("127.0.0.1:5020: closed by the device"));
    tokio::time::advance(Duration::from_secs(9)).await;
    let after = plant.store.read(plant.ids[0]).unwrap();
    assert_eq!(after.sample.quality, Quality::Bad(Reason::NotConnected));
    assert_eq!(after.sample.detail.as_deref(), Some("127.0.0.1:5020: closed by the device"));
    assert_eq!((after.sample.value, after.sample.source_time), (Value::F64(7.0), before.source_time));
    assert_eq!(after.age, Some(Duration::from_secs(9)));

    let sink = plant.open();
    assert_eq!(plant.quality(0), Quality::Bad(Reason::NotConnected), "not good before its first good read");
    publish(&sink, good(plant.ids[0], 7.0));
    assert_eq!(plant.quality(0), Quality::Good);
}

#[tokio::test(start_paused = true)]
async fn batches_of_ended_sessions_are_discarded() {
    let plant = plant(&[tag("boiler/a", None, None)]);
    let first = plant.open();
    publish(&first, good(plant.ids[0], 1.0));
    plant.host.state(LinkState::BackingOff, None);
    publish(&first, good(plant.ids[0], 2.0));
    assert_eq!((plant.value(0), plant.quality(0)), (Value::F64(1.0), Quality::Bad(Reason::NotConnected)));

    let second = plant.open();
    publish(&first, good(plant.ids[0], 3.0));
    first.device(plant.device, DeviceState::Online, None);
    assert_eq!((plant.value(0), plant.quality(0)), (Value::F64(1.0), Quality::Bad(Reason::NotConnected)));
    assert_eq!(plant.store.device(plant.device).unwrap().state, DeviceState::Waiting);
    publish(&second, good(plant.ids[0], 4.0));
    assert_eq!((plant.value(0), plant.quality(0)), (Value::F64(4.0), Quality::Good));
}

#[tokio::test(start_paused = true)]
async fn staleness_lowers_good_only_and_is_announced() {
    let plant = plant(&[tag("boiler/a", None, Some(1500)), tag("boiler/b", None, None)]);
    let sink = plant.open();
    sink.publish(&mut vec![good(plant.ids[0], 1.0), good(plant.ids[1], 1.0)]);
    let subscription = plant.store.subscribe(NOTIFY);
    assert!(subscription.add(Target::Tag("boiler/a".into())));
    let sweeper = tokio::spawn({
        let store = plant.store.clone();
        async move { store.sweep().await }
    });

    tokio::time::advance(Duration::from_millis(1500)).await;
    assert_eq!(plant.quality(0), Quality::Good);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(plant.quality(0), Quality::Uncertain(Reason::Stale), "seen at once, before any sweep");
    assert_eq!(subscription.next().await, [target("boiler/a")], "and swept into a notification");
    assert_eq!(plant.quality(1), Quality::Good);

    plant.host.state(LinkState::BackingOff, None);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(plant.quality(0), Quality::Bad(Reason::NotConnected), "bad stays bad");
    sweeper.abort();
}

#[tokio::test(start_paused = true)]
async fn deadband_gates_marks_against_the_last_mark() {
    let plant = plant(&[tag("boiler/a", Some(0.2), None)]);
    let sink = plant.open();
    publish(&sink, good(plant.ids[0], 20.0));
    let subscription = plant.store.subscribe(Duration::ZERO);
    assert!(subscription.add(Target::Tag("boiler/a".into())));

    for creep in [20.1, 20.2] {
        publish(&sink, good(plant.ids[0], creep));
        assert_eq!(told(&subscription).await, []);
        assert_eq!(plant.value(0), Value::F64(creep), "the store takes every sample");
    }
    publish(&sink, good(plant.ids[0], 20.3));
    assert_eq!(told(&subscription).await, [target("boiler/a")], "creeping adds up");

    let bad = Quality::Bad(Reason::DeviceSilent);
    publish(&sink, Update { quality: bad, value: None, ..good(plant.ids[0], 0.0) });
    assert_eq!(told(&subscription).await, [target("boiler/a")], "a change of quality is always told");
    publish(&sink, good(plant.ids[0], 20.3));
    assert_eq!(told(&subscription).await, [target("boiler/a")]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_gets_the_latest_once_and_no_tag_too_often() {
    let plant = plant(&[tag("boiler/a", None, None), tag("boiler/b", None, None)]);
    let sink = plant.open();
    let subscription = plant.store.subscribe(NOTIFY);
    assert!(subscription.add(Target::Tag("boiler/a".into())));
    for value in 0..1000 {
        publish(&sink, good(plant.ids[0], f64::from(value)));
        publish(&sink, good(plant.ids[1], f64::from(value)));
    }
    assert_eq!(
        subscription.next().await,
        [target("boiler/a")],
        "the first at once, the other is not subscribed"
    );

    publish(&sink, good(plant.ids[0], -1.0));
    let asked = Instant::now();
    assert_eq!(told(&subscription).await, []);
    assert_eq!(subscription.next().await, [target("boiler/a")]);
    assert_eq!(asked.elapsed(), NOTIFY, "no sooner than the pace allows, and no later");
    assert_eq!(told(&subscription).await, []);

    subscription.mark_all();
    assert_eq!(subscription.next().await, [target("boiler/a")]);
    subscription.remove(&Target::Tag("boiler/a".into()));
    publish(&sink, good(plant.ids[0], -2.0));
    tokio::time::advance(NOTIFY).await;
    assert_eq!(told(&subscription).await, []);
    assert!(!subscription.add(Target::Tag("boiler/c".into())));
}

#[tokio::test(start_paused = true)]
async fn devices_are_announced_on_a_change_of_state_only() {
    let plant = plant(&[tag("boiler/a", None, None)]);
    let subscription = plant.store.subscribe(Duration::ZERO);
    let device = Target::Device("boiler".into());
    assert!(subscription.add(device.clone()));
    let device = [Change::Target(device)];

    let sink = plant.open();
    assert_eq!(told(&subscription).await, device);
    sink.device(plant.device, DeviceState::Online, None);
    assert_eq!(told(&subscription).await, device);
    sink.device(plant.device, DeviceState::Online, None);
    publish(&sink, good(plant.ids[0], 1.0));
    assert_eq!(told(&subscription).await, []);

    plant.host.state(LinkState::BackingOff, Some("refused"));
    assert_eq!(told(&subscription).await, device);
    for _ in 0..3 {
        plant.host.state(LinkState::Connecting, None);
        plant.host.state(LinkState::BackingOff, Some("refused"));
    }
    assert_eq!(told(&subscription).await, [], "trying again is no news");
    let reading = plant.store.device(plant.device).unwrap();
    assert_eq!((reading.state, reading.link_detail.as_deref()), (DeviceState::NotConnected, Some("refused")));
    assert_eq!(reading.counts, Counts { good: 0, uncertain: 0, bad: 1 });
}

#[tokio::test(start_paused = true)]
async fn a_reload_that_moves_tags_keeps_answers_right() {
    let (a, b, c) = (tag("boiler/a", None, None), tag("boiler/b", None, None), tag("boiler/c", None, None));
    let plant = plant(&[a.clone(), b.clone()]);
    let old = plant.open();
    old.publish(&mut vec![good(plant.ids[0], 1.0), good(plant.ids[1], 2.0)]);
    let subscription = plant.store.subscribe(Duration::ZERO);
    for path in ["boiler/a", "boiler/b"] {
        assert!(subscription.add(Target::Tag(path.into())));
    }

    // `a` stays, `b` goes, `c` comes.
    plant.host.state(LinkState::Stopped, None);
    assert_eq!(told(&subscription).await, [target("boiler/a"), target("boiler/b")]);
    let catalogue =
        plant.store.install(layout(&[(c, None), (a.clone(), Some(plant.ids[0]))], Some(plant.device)));
    assert_eq!(told(&subscription).await, [Change::Catalogue, target("boiler/b")]);
    assert_eq!(catalogue.tag("boiler/a").unwrap().id, plant.ids[0]);
    assert!(catalogue.tag("boiler/b").is_none() && plant.store.read(plant.ids[1]).is_none());
    let fresh = catalogue.tag("boiler/c").unwrap().id;
    assert!(!plant.ids.contains(&fresh), "numbers are never given twice");
    old.publish(&mut vec![good(plant.ids[0], 9.0), good(plant.ids[1], 9.0), good(fresh, 9.0)]);
    assert_eq!((plant.value(0), plant.quality(0)), (Value::F64(1.0), Quality::Bad(Reason::NotConnected)));
    assert_eq!(plant.store.read(fresh).unwrap().sample.quality, Quality::Bad(Reason::NeverRead));

    // `b` returns under a new number: its subscriber is told, and hears of it again.
    let catalogue = plant.store.install(layout(&[(b, None), (a, Some(plant.ids[0]))], Some(plant.device)));
    assert_eq!(told(&subscription).await, [Change::Catalogue, target("boiler/b")]);
    let b = catalogue.tag("boiler/b").unwrap().id;
    assert!(b != plant.ids[1] && b != fresh);
    let host = Connection::new(plant.store.clone(), [plant.ids[0], b].into(), [plant.device].into());
    publish(&host.open(), good(b, 5.0));
    assert_eq!(told(&subscription).await, [target("boiler/b")]);
}

struct Counter(mpsc::Sender<Option<f64>>);

impl Observer for Counter {
    fn observe(&mut self, _: TagId, sample: Option<&Sample>) {
        self.0.send(sample.map(|sample| sample.value.as_f64().unwrap_or(f64::NAN))).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn observers_see_every_sample_that_marks_may_miss() {
    let plant = plant(&[tag("boiler/a", Some(100.0), None)]);
    let sink = plant.open();
    publish(&sink, good(plant.ids[0], 0.5));
    let (sender, seen) = mpsc::channel();
    let observation = plant.store.observe(&plant.ids, Counter(sender));
    for value in [0.0, 1.0, 0.0] {
        publish(&sink, good(plant.ids[0], value));
    }
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), [Some(0.5), Some(0.0), Some(1.0), Some(0.0)]);
    plant.store.install(Layout::default());
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), [None], "told that the tag is gone");
    drop(observation);
    assert!(matches!(seen.try_recv(), Err(mpsc::TryRecvError::Disconnected)));
}

#[test]
fn a_text_that_no_path_is_like_is_not_compared() {
    let store = Store::default();
    let tags = (0..100).map(|number| (tag(&format!("boiler/temperature_{number}"), None, None), None));
    let catalogue = store.install(layout(&tags.collect::<Vec<_>>(), None));
    assert_eq!(catalogue.nearest("boiler/temprature_7"), Some("boiler/temperature_7"));
    assert_eq!(catalogue.nearest(&format!("boiler/{}", "temperature_".repeat(20))), None);
}
