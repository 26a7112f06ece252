//! The driver at a broker that runs in the same process, on a real socket: nothing here waits for time to pass.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use simulators::mqtt::{Broker, Device, Message, Settings, family::Plug};
use tokio::{
    sync::{Notify, oneshot},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    codec::{
        payload::{Encoding, Field, Form, Path, Spec, Template, Word},
        topic::Pattern,
    },
    config::MqttVersion,
    link::{Backoff, Command, Host, Permit, Publish, Queue, queue, supervise},
    model::{DeviceState, Kind, LinkState, Outcome, Party, Quality, Reason, Report, Update, Value, When},
    profile::mqtt::{self, Origin, Qos},
};

/// What a session told.
#[derive(Default)]
struct Told {
    updates: Mutex<Vec<Update>>,
    news: Notify,
}

impl Publish for Arc<Told> {
    fn trouble(&self, _: Option<&str>) {}

    fn publish(&self, batch: &mut Vec<Update>) {
        self.updates.lock().unwrap().append(batch);
        self.news.notify_waiters();
    }

    fn device(&self, _device: DeviceId, _state: DeviceState, _detail: Option<&str>) {}
}

impl Told {
    /// The first update of a tag that is so.
    async fn wait(&self, tag: u32, is: impl Fn(&Update) -> bool) -> Update {
        loop {
            let news = self.news.notified();
            let found = {
                let updates = self.updates.lock().unwrap();
                updates.iter().find(|update| update.tag == TagId(tag) && is(update)).cloned()
            };
            match found {
                Some(update) => return update,
                None => news.await,
            }
        }
    }
}

struct Stub(Arc<Told>);

impl Host for Stub {
    fn open(&self) -> Sink {
        Sink::new(Arc::new(Arc::clone(&self.0)))
    }

    fn state(&self, _state: LinkState, _detail: Option<&str>) {}
}

struct Granted;

impl Permit for Granted {
    fn grant(&mut self, _current: Option<&Value>) -> Result<(), Report> {
        Ok(())
    }

    fn recheck(&self) -> Result<(), Report> {
        Ok(())
    }
}

struct Rig {
    told: Arc<Told>,
    queue: Queue,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Rig {
    fn start(endpoint: MqttEndpoint, tags: Vec<Subscribed>) -> Self {
        let station = Station { device: DeviceId(0), availability: Vec::new(), tags };
        let driver = Mqtt::new(endpoint, &[station], Arc::default());
        let stop = CancellationToken::new();
        let (queue, inbox) = queue(stop.clone());
        let told = Arc::new(Told::default());
        let host: Arc<dyn Host> = Arc::new(Stub(Arc::clone(&told)));
        let task = tokio::spawn(async move {
            supervise("broker", driver, inbox, host, Backoff::default()).await;
        });
        Self { told, queue, stop, task }
    }

    fn write(&self, tag: u32, value: Value) -> oneshot::Receiver<Report> {
        let deadline = Instant::now() + Duration::from_secs(20);
        let (command, report) = Command::new(TagId(tag), value, false, deadline, Box::new(Granted));
        self.queue.push(command);
        report
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

fn endpoint(broker: &Broker, version: MqttVersion) -> MqttEndpoint {
    MqttEndpoint {
        address: broker.local_addr().to_string(),
        tls: None,
        websocket: None,
        version,
        client_id: "bridge".to_owned(),
        login: None,
        keep_alive: Duration::from_secs(10),
        session_expiry: None,
        max_payload: 1 << 20,
        timeout: Duration::from_secs(5),
        announce: None,
        reconnect: MqttEndpoint::RECONNECT,
    }
}

/// A plug: tag 0 is its state, which can be written, tag 1 its power.
fn plug(confirm: Duration) -> Vec<Subscribed> {
    let words = [("ON".into(), Word::Bool(true)), ("OFF".into(), Word::Bool(false))].into();
    let state = Spec { words, ..Spec::new(Path::default(), Kind::Bool) };
    let power = Spec::new(Path::parse("ENERGY.Power").unwrap(), Kind::Float64);
    let tag = |id, topic: &str, encoding, spec, command| {
        let field = Arc::new(Field::new(spec).unwrap());
        let pattern = Pattern::parse(topic).unwrap();
        let origin =
            Origin { pattern, qos: Qos::AtLeastOnce, encoding, field: Arc::clone(&field), time: None };
        let point = Point { origins: vec![origin], field, command };
        Subscribed { id: TagId(id), range: None, point: Arc::new(point) }
    };
    let command = mqtt::Command {
        topic: "cmnd/plug/POWER".to_owned(),
        template: Template::bare(Form::Text),
        qos: Qos::AtLeastOnce,
        retain: false,
        confirm,
        response: None,
    };
    vec![
        tag(0, "stat/plug/POWER", Encoding::Text, state, Some(command)),
        tag(1, "tele/plug/SENSOR", Encoding::Json, power, None),
    ]
}

fn is_good(update: &Update) -> bool {
    update.quality == Quality::Good
}

#[tokio::test]
async fn values_arrive_and_writes_are_confirmed_by_the_state() {
    for version in [MqttVersion::V5, MqttVersion::V311] {
        let broker = Broker::start(([127, 0, 0, 1], 0).into()).await.unwrap();
        let rig = Rig::start(endpoint(&broker, version), plug(Duration::from_secs(10)));
        broker.handle().wait_for(|broker| broker.subscriptions("bridge").len() == 2).await;
        let device = Device::start(&broker.url(), Plug::new("plug"), Settings::by_hand());
        device.wait_for(Device::connected).await;
        device.publish(Message::new("tele/plug/SENSOR", r#"{"ENERGY":{"Power":47}}"#)).await.unwrap();
        let power = rig.told.wait(1, |update| update.value == Some(Value::F64(47.0))).await;
        assert_eq!(power.quality, Quality::Good);
        let report = rig.write(0, Value::Bool(true)).await.unwrap();
        assert_eq!((report.outcome, report.value), (Outcome::Confirmed, Some(Value::Bool(true))));
        assert_eq!(report.acknowledged_by, Some(Party::Broker));
        assert!(device.with(|plug| plug.is_on()));
        rig.stop().await;
        broker.stop().await;
    }
}

#[tokio::test]
async fn what_a_broker_kept_is_of_unknown_age_until_a_live_message_comes() {
    let broker = Broker::start(([127, 0, 0, 1], 0).into()).await.unwrap();
    let device = Device::start(&broker.url(), Plug::new("other"), Settings::by_hand());
    let sensor = |power: u8| Message::new("tele/plug/SENSOR", format!(r#"{{"ENERGY":{{"Power":{power}}}}}"#));
    device.publish(sensor(1).retained()).await.unwrap();
    broker.handle().wait_for(|broker| broker.retained("tele/plug/SENSOR").is_some()).await;
    let rig = Rig::start(endpoint(&broker, MqttVersion::V5), plug(Duration::ZERO));
    let kept = rig.told.wait(1, |update| update.value.is_some()).await;
    assert_eq!((kept.quality, kept.at), (Quality::Uncertain(Reason::Retained), When::Unknown));
    device.publish(sensor(2).retained()).await.unwrap();
    let live = rig.told.wait(1, is_good).await;
    assert_eq!(live.value, Some(Value::F64(2.0)));
    assert!(matches!(live.at, When::At(_)));
    rig.stop().await;
    broker.stop().await;
}
