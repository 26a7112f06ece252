#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use rust_decimal::Decimal;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    codec::value::{Format, Scale},
    link::{Host, Inbox},
    model::{
        Accepted, Access, Definition, Device, Kind, Labels, Limits, LinkState, Quality, Refusal, Rule, Tag,
        TagPath, Update, Value, When,
    },
    store::{Connection, DeviceLayout, Layout, TagLayout},
};

/// A raw uint16 at scale 0.1.
#[derive(Debug)]
struct Tenths;

impl Setpoint for Tenths {
    fn accept(&self, text: &str) -> Result<Accepted, Refusal> {
        let number: f64 =
            text.parse().map_err(|_error| Refusal::Type { text: text.into(), allowed: "a number" })?;
        if !(0.0..=6553.5).contains(&number) {
            let (min, max) = ("0".into(), "6553.5".into());
            return Err(Refusal::RawRange { text: text.into(), kind: Kind::Uint16, min, max });
        }
        let effective = Value::F64((number * 10.0).round() / 10.0);
        Ok(Accepted { requested: Value::F64(number), effective })
    }
}

/// A codec's own reading of a text, for a tag that takes more than a number.
fn takes(plant: &Plant, format: Format) {
    let route = Route { setpoint: Arc::new(format), queue: plant.queue.clone(), latest: Arc::default() };
    let routes = HashMap::from([(plant.id, route)]);
    let timeout = Duration::from_secs(5);
    plant.control.install(Table { generation: 1, writes: WriteMode::Allow, timeout, routes });
}

struct Plant {
    control: Arc<Control>,
    inbox: Inbox,
    id: TagId,
    queue: Queue,
    sink: crate::link::Sink,
}

fn plant() -> Plant {
    let store = Arc::new(Store::default());
    let tag = |name: &str, access| {
        let limits = Limits { min: Some(Decimal::from(20)), max: Some(Decimal::from(95)), timeout: None };
        let path = TagPath::parse(name).unwrap();
        let (description, unit) = (String::new(), Some("°C".into()));
        let (kind, scaled) = (Kind::Uint16, true);
        let (range, deadband, stale_after) = (None, None, None);
        let tag = Tag {
            path,
            definition: Arc::new(Definition {
                description,
                kind,
                count: None,
                labels: None,
                scaled,
                unit,
                range,
                deadband,
                stale_after,
                access,
                limits,
            }),
        };
        TagLayout { tag: Arc::new(tag), keep: None }
    };
    let device = Device { name: "boiler".into(), ..Device::default() };
    let tags = vec![tag("boiler/setpoint", Access::ReadWrite), tag("boiler/temperature", Access::ReadOnly)];
    let device = DeviceLayout { device: Arc::new(device), counters: Arc::default(), keep: None, tags };
    let catalogue = store.install(Layout { site: "site".into(), devices: vec![device] });
    let id = catalogue.tag("boiler/setpoint").unwrap().id;
    let host = Connection::new(store.clone(), [id].into(), [].into());
    let sink = host.open();
    host.state(LinkState::Connected, None);
    let control = Arc::new(Control::new(store));
    let (queue, inbox) = crate::link::queue(CancellationToken::new());
    let plant = Plant { control, inbox, id, queue, sink };
    plant.install(WriteMode::Allow);
    plant
}

impl Plant {
    fn install(&self, writes: WriteMode) {
        let route = Route { setpoint: Arc::new(Tenths), queue: self.queue.clone(), latest: Arc::default() };
        let routes = HashMap::from([(self.id, route)]);
        self.control.install(Table { generation: 1, writes, timeout: Duration::from_secs(5), routes });
    }

    fn holds(&self, value: f64) {
        let value = Some(Value::F64(value));
        self.sink.publish(&mut vec![Update {
            tag: self.id,
            value,
            quality: Quality::Good,
            detail: None,
            at: When::At(Instant::now()),
        }]);
    }

    fn request(&self, value: &str) -> WriteRequest {
        WriteRequest {
            tag: "boiler/setpoint".into(),
            value: value.into(),
            expect: None,
            dry_run: false,
            reason: None,
            caller: "test".into(),
            stamp: self.control.stamp(),
            cancel: CancellationToken::new(),
        }
    }

    fn write(&self, request: WriteRequest) -> JoinHandle<Report> {
        let control = self.control.clone();
        tokio::spawn(async move { control.write(request).await })
    }

    /// Asks for what must be rejected without anything reaching the inbox.
    async fn rejected(&mut self, request: WriteRequest) -> Report {
        let report = self.control.write(request).await;
        assert!(self.inbox.ready().is_none(), "nothing may be queued");
        report
    }
}

#[tokio::test(start_paused = true)]
async fn every_rule_is_named_and_queues_nothing() {
    let mut plant = plant();
    plant.holds(60.0);
    let request = plant.request("70");
    for (tag, value, rule, words) in [
        ("boiler/setpiont", "70", Rule::Tag, "the nearest is `boiler/setpoint`"),
        ("boiler/temperature", "70", Rule::Access, "read-only"),
        ("boiler/setpoint", "warm", Rule::Type, "`warm` is not a number"),
        ("boiler/setpoint", "7000", Rule::RawRange, "allowed is 0 to 6553.5"),
        ("boiler/setpoint", "95.04", Rule::Limits, "95.04 is outside the limits: allowed is 20 to 95 °C"),
        ("boiler/setpoint", "19.96", Rule::Limits, "19.96 is outside the limits"),
    ] {
        let report =
            plant.rejected(WriteRequest { tag: tag.into(), value: value.into(), ..request.clone() }).await;
        assert_eq!(report.outcome, Outcome::Rejected(rule), "{tag} {value}");
        assert!(report.message.contains(words), "{}", report.message);
    }
    let report = plant.rejected(WriteRequest { expect: Some("cold".into()), ..request.clone() }).await;
    assert_eq!((report.outcome, report.requested), (Outcome::Rejected(Rule::Type), Some(Value::F64(70.0))));
    for (mode, rule) in [(WriteMode::Off, Rule::Mode), (WriteMode::Confirm, Rule::Confirmation)] {
        plant.install(mode);
        assert_eq!(plant.rejected(request.clone()).await.outcome, Outcome::Rejected(rule));
        let dry = WriteRequest { dry_run: true, ..request.clone() };
        assert_eq!(plant.rejected(dry).await.outcome, Outcome::Rejected(rule));
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_passes_the_rules_and_sends_nothing() {
    let mut plant = plant();
    plant.holds(60.0);
    let request = WriteRequest { dry_run: true, ..plant.request("71.26") };
    let report = plant.rejected(request.clone()).await;
    assert_eq!(report.outcome, Outcome::DryRun);
    assert_eq!((report.requested, report.previous), (Some(Value::F64(71.26)), Some(Value::F64(60.0))));
    assert!(report.message.contains("71.3 would be sent"), "{}", report.message);
    let report = plant.rejected(WriteRequest { expect: Some("61".into()), ..request.clone() }).await;
    assert_eq!(report.outcome, Outcome::Rejected(Rule::Expectation));
    let report = plant.rejected(WriteRequest { expect: Some("60".into()), ..request }).await;
    assert_eq!(report.outcome, Outcome::DryRun);
}

#[tokio::test(start_paused = true)]
async fn the_command_carries_the_rounded_value_and_the_answer_comes_back() {
    let mut plant = plant();
    plant.holds(60.0);
    let write = plant.write(plant.request("21.37"));
    let mut command = plant.inbox.next().await.unwrap();
    assert_eq!((command.tag, &command.value, command.read_first), (plant.id, &Value::F64(21.4), false));
    command.grant(None).unwrap();
    command.answer(Report { value: Some(Value::F64(21.4)), ..Report::new(Outcome::Confirmed, "read back") });
    let report = write.await.unwrap();
    assert_eq!(report.outcome, Outcome::Confirmed);
    assert_eq!(report.requested, Some(Value::F64(21.37)));
    assert_eq!((report.value, report.previous), (Some(Value::F64(21.4)), Some(Value::F64(60.0))));
}

#[tokio::test(start_paused = true)]
async fn who_is_told_no_value_is_told_that_it_was_rounded() {
    let mut plant = plant();
    for (text, message) in
        [("21.37", "left; the nearest to 21.37 that the device can hold is 21.4"), ("21.4", "left")]
    {
        let write = plant.write(plant.request(text));
        let mut command = plant.inbox.next().await.unwrap();
        command.grant(None).unwrap();
        command.answer(Report::new(Outcome::Sent, "left"));
        assert_eq!(write.await.unwrap().message, message);
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_could_not_leave_at_once_is_judged_again() {
    let mut plant = plant();
    plant.holds(60.0);
    let request = WriteRequest { expect: Some("60".into()), ..plant.request("70") };
    let write = plant.write(request);
    let mut command = plant.inbox.next().await.unwrap();
    command.grant(None).unwrap();
    assert_eq!(command.recheck(), Ok(()));
    plant.holds(61.0);
    assert_eq!(command.recheck().unwrap_err().outcome, Outcome::Rejected(Rule::Expectation));
    plant.holds(60.0);
    plant.install(WriteMode::Off);
    let report = command.recheck().unwrap_err();
    assert_eq!(report.outcome, Outcome::Rejected(Rule::Mode));
    command.answer(report);
    assert_eq!(write.await.unwrap().outcome, Outcome::Rejected(Rule::Mode));

    plant.install(WriteMode::Allow);
    let request = plant.request("70");
    let cancel = request.cancel.clone();
    let write = plant.write(request);
    let mut command = plant.inbox.next().await.unwrap();
    command.grant(None).unwrap();
    cancel.cancel();
    tokio::task::yield_now().await;
    let report = command.recheck().unwrap_err();
    assert_eq!((report.outcome, report.message.as_str()), (Outcome::NotSent, ticket::CANCELLED));
    command.answer(report);
    assert_eq!(write.await.unwrap().outcome, Outcome::NotSent);

    let write = plant.write(plant.request("70"));
    let mut command = plant.inbox.next().await.unwrap();
    command.grant(None).unwrap();
    tokio::time::sleep_until(command.deadline + Duration::from_millis(1)).await;
    assert_eq!(command.recheck(), Ok(()), "that it is late is told by who sends");
    command.answer(Report::new(Outcome::NotSent, "no room"));
    assert_eq!(write.await.unwrap().message, "no room");
}

#[tokio::test(start_paused = true)]
async fn an_expectation_is_judged_by_what_the_device_holds() {
    let mut plant = plant();
    plant.holds(60.0);
    let request = WriteRequest { expect: Some("60".into()), ..plant.request("70") };
    let write = plant.write(request.clone());
    let mut command = plant.inbox.next().await.unwrap();
    assert!(command.read_first);
    let report = command.grant(Some(&Value::F64(61.0))).unwrap_err();
    command.answer(report);
    let report = write.await.unwrap();
    assert_eq!(
        (report.outcome, report.value),
        (Outcome::Rejected(Rule::Expectation), Some(Value::F64(61.0)))
    );
    assert_eq!(report.message, "expected 60, but the device holds 61");

    let write = plant.write(request);
    let mut command = plant.inbox.next().await.unwrap();
    command.grant(Some(&Value::F64(60.0))).unwrap();
    command.answer(Report::new(Outcome::Confirmed, ""));
    assert_eq!(write.await.unwrap().outcome, Outcome::Confirmed);
}

#[tokio::test(start_paused = true)]
async fn an_older_write_never_follows_a_later_one() {
    let mut plant = plant();
    let (older, later) = (plant.request("30"), plant.request("40"));
    let later = plant.write(later);
    let mut command = plant.inbox.next().await.unwrap();
    command.grant(None).unwrap();
    command.answer(Report::new(Outcome::Confirmed, ""));
    assert_eq!(later.await.unwrap().outcome, Outcome::Confirmed);

    let older = plant.write(older);
    let mut command = plant.inbox.next().await.unwrap();
    let report = command.grant(None).unwrap_err();
    command.answer(report);
    assert_eq!(older.await.unwrap().outcome, Outcome::Rejected(Rule::Superseded));

    let (first, second) = (plant.request("50"), plant.request("60"));
    for request in [first, second] {
        let write = plant.write(request);
        let mut command = plant.inbox.next().await.unwrap();
        command.grant(None).unwrap();
        command.answer(Report::new(Outcome::Confirmed, ""));
        assert_eq!(write.await.unwrap().outcome, Outcome::Confirmed, "in order both are done");
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_counts_from_arrival_and_nothing_leaves_after_it() {
    let mut plant = plant();
    let request = plant.request("70");
    let arrived = Instant::now();
    tokio::time::advance(Duration::from_secs(2)).await;
    let report = plant.control.write(request).await;
    assert_eq!((report.outcome, arrived.elapsed()), (Outcome::NotSent, Duration::from_secs(5)));
    let mut command = plant.inbox.ready().unwrap();
    assert_eq!(command.deadline, arrived + Duration::from_secs(5));
    assert_eq!(
        command.grant(None).unwrap_err().outcome,
        Outcome::NotSent,
        "its caller was told that it never left"
    );
}

#[tokio::test(start_paused = true)]
async fn what_left_and_was_not_answered_is_unknown() {
    let mut plant = plant();
    let write = plant.write(plant.request("70"));
    let mut command = plant.inbox.next().await.unwrap();
    command.grant(None).unwrap();
    let report = write.await.unwrap();
    assert_eq!(report.outcome, Outcome::Unknown);

    let write = plant.write(plant.request("70"));
    let mut command = plant.inbox.next().await.unwrap();
    command.grant(None).unwrap();
    drop(command);
    assert_eq!(write.await.unwrap().outcome, Outcome::Unknown, "the session ended");

    let write = plant.write(plant.request("70"));
    drop(plant.inbox.next().await.unwrap());
    assert_eq!(write.await.unwrap().outcome, Outcome::NotSent);
}

#[tokio::test(start_paused = true)]
async fn a_redefined_tag_cancels_what_still_waits() {
    let mut plant = plant();
    let write = plant.write(plant.request("70"));
    let mut command = plant.inbox.next().await.unwrap();
    plant.install(WriteMode::Allow);
    let report = command.grant(None).unwrap_err();
    command.answer(report);
    assert_eq!(write.await.unwrap().outcome, Outcome::NotSent);
}

#[tokio::test(start_paused = true)]
async fn writes_turned_off_stop_what_still_waits() {
    let mut plant = plant();
    let write = plant.write(plant.request("70"));
    let mut command = plant.inbox.next().await.unwrap();
    plant.install(WriteMode::Off);
    let report = command.grant(None).unwrap_err();
    command.answer(report);
    assert_eq!(write.await.unwrap().outcome, Outcome::Rejected(Rule::Mode));
}

#[tokio::test(start_paused = true)]
async fn a_write_goes_on_when_its_caller_leaves() {
    let mut plant = plant();
    let write = plant.write(plant.request("70"));
    let mut command = plant.inbox.next().await.unwrap();
    write.abort();
    assert!(write.await.unwrap_err().is_cancelled());
    command.grant(None).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_write_that_waits_never_leaves_and_one_that_left_goes_on() {
    let mut plant = plant();
    let request = plant.request("70");
    let cancel = request.cancel.clone();
    let write = plant.write(request);
    let mut command = plant.inbox.next().await.unwrap();
    cancel.cancel();
    assert_eq!(write.await.unwrap().outcome, Outcome::NotSent);
    assert_eq!(command.grant(None).unwrap_err().outcome, Outcome::NotSent);

    let request = plant.request("70");
    let cancel = request.cancel.clone();
    let write = plant.write(request);
    let mut command = plant.inbox.next().await.unwrap();
    command.grant(None).unwrap();
    cancel.cancel();
    tokio::task::yield_now().await;
    command.answer(Report::new(Outcome::Confirmed, ""));
    assert_eq!(write.await.unwrap().outcome, Outcome::Confirmed);
}

#[tokio::test(start_paused = true)]
async fn the_previous_value_is_the_one_when_the_write_left() {
    let mut plant = plant();
    plant.holds(60.0);
    let write = plant.write(plant.request("70"));
    let mut command = plant.inbox.next().await.unwrap();
    plant.holds(65.0);
    command.grant(None).unwrap();
    plant.holds(70.0);
    command.answer(Report::new(Outcome::Confirmed, ""));
    assert_eq!(write.await.unwrap().previous, Some(Value::F64(65.0)));

    let write = plant.write(plant.request("75"));
    drop(plant.inbox.next().await.unwrap());
    assert_eq!(write.await.unwrap().previous, None, "it never left");
}

#[tokio::test(start_paused = true)]
async fn what_the_device_cannot_hold_is_not_expected() {
    let mut plant = plant();
    plant.holds(40.0);
    let request = WriteRequest { expect: Some("40.04".into()), ..plant.request("70") };
    let report = plant.rejected(request).await;
    assert_eq!(report.outcome, Outcome::Rejected(Rule::Expectation));
    assert_eq!(report.message, "expected 40.04, which the device cannot hold; the nearest is 40");
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_until_every_write_has_its_outcome() {
    let mut plant = plant();
    let control = plant.control.clone();
    drop(plant.write(plant.request("70")));
    let mut command = plant.inbox.next().await.unwrap();
    command.grant(None).unwrap();
    let mut drained = std::pin::pin!(control.drained());
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut drained).await.is_err(), "it is under way");
    drop(command);
    drained.await;
}

#[tokio::test(start_paused = true)]
async fn limits_and_expectations_hold_for_every_element() {
    let mut plant = plant();
    let scale = Scale::Linear { factor: Decimal::new(5, 1), offset: Decimal::ZERO };
    takes(&plant, Format { count: Some(2), scale, ..Format::plain(Kind::Uint16) });
    let request = plant.request("[30, 95.5]");
    let report = plant.rejected(request.clone()).await;
    assert_eq!(report.outcome, Outcome::Rejected(Rule::Limits));
    assert_eq!(report.message, "element [1]: 95.5 is outside the limits: allowed is 20 to 95 °C");
    for (value, expect, rule, words) in [
        ("[30]", None, Rule::Type, "value: an array of 1 elements: the tag has 2"),
        ("[30, 40]", Some("30"), Rule::Type, "expect: `30` is not a JSON array"),
        ("[30, 40]", Some("[30, 40.2]"), Rule::Expectation, "the nearest is [30, 40]"),
    ] {
        let expect = expect.map(str::to_owned);
        let request = WriteRequest { value: value.into(), expect, ..request.clone() };
        let report = plant.rejected(request).await;
        assert_eq!(report.outcome, Outcome::Rejected(rule), "{}", report.message);
        assert!(report.message.contains(words), "{}", report.message);
    }
    let array = |values: [f64; 2]| Value::Array(values.map(Value::F64).into());
    let expect = Some("[30.0, \"40\"]".to_owned());
    let write = plant.write(WriteRequest { value: "[31, 40.5]".into(), expect, ..request });
    let mut command = plant.inbox.next().await.unwrap();
    assert_eq!(command.value, array([31.0, 40.5]));
    command.grant(Some(&array([30.0, 40.0]))).unwrap();
    command.answer(Report::new(Outcome::Confirmed, ""));
    assert_eq!(write.await.unwrap().outcome, Outcome::Confirmed);
}

#[tokio::test(start_paused = true)]
async fn words_are_written_and_expected() {
    let mut plant = plant();
    let labels = Labels::new([(20, "eco".into()), (50, "comfort".into()), (99, "boost".into())]);
    takes(&plant, Format { labels: Some(labels.into()), ..Format::plain(Kind::Uint16) });
    let request = plant.request("comfort");
    let write = plant.write(WriteRequest { expect: Some("eco".into()), ..request.clone() });
    let mut command = plant.inbox.next().await.unwrap();
    assert_eq!(command.value, Value::U64(50));
    let report = command.grant(Some(&Value::U64(50))).unwrap_err();
    command.answer(report);
    assert_eq!(write.await.unwrap().message, "expected 20, but the device holds 50");
    let boost = plant.rejected(WriteRequest { value: "boost".into(), ..request.clone() }).await;
    assert_eq!(boost.outcome, Outcome::Rejected(Rule::Limits), "a word is no way round the limits");
    let unknown = plant.rejected(WriteRequest { value: "warm".into(), ..request }).await;
    assert_eq!(unknown.outcome, Outcome::Rejected(Rule::Type));
    assert!(unknown.message.contains("20 = eco, 50 = comfort"), "{}", unknown.message);
}
