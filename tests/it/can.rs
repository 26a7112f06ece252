//! CAN: the simulated devices on a bus in the same process, through profile, driver and tags.

use std::{path::Path, time::Duration};

use fieldbridge::{
    app::{App, simulated},
    config::{Site, load_text},
    control::WriteRequest,
    model::{Outcome, Party, Quality, Reason, Report, Rule, Value},
};
use simulators::can::{
    Bus, Device, Fault,
    battery::Battery,
    drive::{Drive, State},
    engine::{Engine, Health, Sensor},
};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(20);

fn site(bus: &Bus, device: &str, writes: &str) -> Site {
    let text = format!(
        "[site]\nname = 'x'\nwrites = '{writes}'\n[[connections]]\nname = 'bus'\ndriver = 'can-virtual'\ninterface = '{}'\n\
         fd = true\nsend_ids = ['201']\n[[devices]]\nname = 'd'\nconnection = 'bus'\n{device}\n",
        bus.name()
    );
    let site = load_text(Path::new("config/x.toml"), text, std::iter::empty::<(String, String)>());
    site.unwrap_or_else(|problems| panic!("{problems}"))
}

struct Plant {
    app: App,
    bus: Bus,
}

impl Plant {
    fn start(bus: &Bus, device: &str) -> Self {
        let app = App::start_beside(site(bus, device, "allow"), simulated(std::slice::from_ref(bus)));
        Self { app, bus: bus.clone() }
    }

    /// Waits until a tag is so.
    async fn wait(&self, tag: &str, is: impl Fn(&Value, Quality) -> bool) {
        let catalogue = self.app.store().catalogue();
        let id = catalogue.tag(tag).unwrap_or_else(|| panic!("{tag}")).id;
        let wait = async {
            loop {
                let sample = self.app.store().read(id).unwrap().sample;
                if is(&sample.value, sample.quality) {
                    return;
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        let state = || self.app.store().read(id);
        timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{tag}: {:?}", state()));
    }

    async fn write(&self, writes: &[(&str, &str)]) -> Vec<Report> {
        let control = self.app.control();
        let stamp = control.stamp();
        let request = |(tag, value): &(&str, &str)| WriteRequest {
            tag: (*tag).to_owned(),
            value: (*value).to_owned(),
            expect: None,
            dry_run: false,
            reason: None,
            caller: "test".to_owned(),
            stamp,
            cancel: CancellationToken::new(),
        };
        control.write_all(writes.iter().map(request).collect()).await
    }
}

/// Waits until a drive is told to stop.
async fn stops(drive: &Device<Drive>) {
    let wait = drive.wait_for(|drive| matches!(drive.state(), State::Stopping | State::Ready));
    let state = || drive.with(|drive| drive.state());
    timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("still {:?}", state()));
}

fn is_good(_: &Value, quality: Quality) -> bool {
    quality == Quality::Good
}

#[tokio::test]
async fn a_drive_is_run_by_one_call_and_stopped_when_the_program_ends() {
    let bus = Bus::new("drives");
    let drive = Device::start(&bus, Drive::new());
    let plant = Plant::start(&bus, "profile = 'demo/pump-drive'");
    plant.wait("d/state", is_good).await;
    let reports = plant.write(&[("d/run", "run"), ("d/setpoint", "900")]).await;
    for report in reports {
        let known = (report.outcome, report.acknowledged_by);
        assert_eq!(known, (Outcome::Confirmed, Some(Party::Bus)), "{}", report.message);
    }
    plant.wait("d/speed", |value, _| *value == Value::F64(900.0)).await;
    assert_eq!(drive.with(|drive| drive.state()), State::Running);
    let rejected = plant.write(&[("d/run", "stop"), ("d/setpoint", "5000")]).await;
    assert!(matches!(rejected.first().unwrap().outcome, Outcome::NotSent));
    assert!(matches!(rejected.last().unwrap().outcome, Outcome::Rejected(_)));
    plant.app.stop().await;
    // By its last frame, and not since no command came any more.
    stops(&drive).await;
    drive.stop().await;
}

#[tokio::test]
async fn what_is_sent_again_and_again_ends_where_writing_is_turned_off() {
    let bus = Bus::new("drives");
    let drive = Device::start(&bus, Drive::new());
    let device = "profile = 'demo/pump-drive'";
    let mut plant = Plant::start(&bus, device);
    plant.wait("d/state", is_good).await;
    for report in plant.write(&[("d/run", "run"), ("d/setpoint", "900")]).await {
        assert_eq!(report.outcome, Outcome::Confirmed, "{}", report.message);
    }
    plant.app.reload(site(&bus, device, "allow")).await;
    plant.wait("d/speed", |value, _| *value == Value::F64(900.0)).await;
    assert_eq!(
        drive.with(|drive| drive.state()),
        State::Running,
        "a reload that changes nothing ends nothing"
    );
    plant.app.reload(site(&bus, device, "off")).await;
    stops(&drive).await;
    let report = plant.write(&[("d/run", "run")]).await.pop().unwrap();
    assert_eq!(report.outcome, Outcome::Rejected(Rule::Mode));
    plant.wait("d/speed", |value, quality| *value == Value::F64(0.0) && quality == Quality::Good).await;
    plant.app.stop().await;
    drive.stop().await;
}

#[tokio::test]
async fn what_goes_wrong_on_a_bus_is_seen_at_the_tags() {
    let bus = Bus::new("drives");
    let drive = Device::start(&bus, Drive::new());
    let plant = Plant::start(&bus, "profile = 'demo/pump-drive'");
    let faults = |text: &str| plant.bus.faults(&[text.parse::<Fault>().unwrap()]);
    plant.wait("d/state", is_good).await;
    faults("stuck-counter=181");
    plant.wait("d/state", |_, quality| quality == Quality::Uncertain(Reason::Stale)).await;
    faults("short=181=4");
    plant.wait("d/state", |_, quality| quality == Quality::Bad(Reason::DecodeError)).await;
    faults("missing=181");
    plant.wait("d/temperature/motor", is_good).await;
    faults("bus-off=100ms");
    plant.wait("d/temperature/motor", |_, quality| quality == Quality::Bad(Reason::NotConnected)).await;
    plant.bus.faults(&[]);
    plant.wait("d/state", is_good).await;
    plant.wait("d/temperature/motor", is_good).await;
    plant.app.stop().await;
    drive.stop().await;
}

#[tokio::test]
async fn pages_and_long_frames_of_a_battery_are_read() {
    let bus = Bus::new("batteries");
    let battery = Device::start(&bus, Battery::new(true));
    let plant = Plant::start(&bus, "profile = 'demo/battery'");
    let catalogue = plant.app.store().catalogue();
    let tags = catalogue.tags().iter().map(|entry| entry.tag.path.to_string());
    let told = tags.filter(|tag| !tag.contains("BatteryCommand")).collect::<Vec<_>>();
    assert!(told.len() > 40, "{told:?}");
    for tag in &told {
        plant.wait(tag, is_good).await;
    }
    plant.app.stop().await;
    battery.stop().await;
}

#[tokio::test]
async fn an_engine_is_known_by_its_address_and_says_what_it_has_not() {
    let bus = Bus::new("engines");
    let (zero, one) = (Device::start(&bus, Engine::new(0)), Device::start(&bus, Engine::new(1)));
    one.with(|engine| engine.set_sensor(Sensor::Coolant, Health::Error));
    let plant = Plant::start(&bus, "profile = 'demo/engine'\nsource_address = 1");
    plant.wait("d/ET1/EngCoolantTemp", |_, quality| quality == Quality::Bad(Reason::DeviceError)).await;
    plant.wait("d/EEC1/EngSpeed", is_good).await;
    plant.app.stop().await;
    zero.stop().await;
    one.stop().await;
}
