//! A driver that panics, under the real supervisor and over the real store.

use std::{sync::Arc, time::Duration};

use fieldbridge::{
    link::{self, Backoff, Driver, Inbox, LinkError, SessionEnd, Sink},
    model::{
        Access, Definition, Device, Kind, Limits, Quality, Reason, Tag, TagId, TagPath, Update, Value, When,
    },
    store::{Change, Connection, DeviceLayout, Layout, Store, TagLayout, Target},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Publishes how many sessions it had; the first one then panics.
struct Shaky {
    tag: TagId,
    sessions: u64,
}

impl Driver for Shaky {
    type Connection = ();

    async fn connect(&mut self) -> Result<(), LinkError> {
        Ok(())
    }

    async fn run(&mut self, (): (), inbox: &mut Inbox, sink: &Sink) -> SessionEnd {
        self.sessions += 1;
        let value = Some(Value::U64(self.sessions));
        sink.publish(&mut vec![Update {
            tag: self.tag,
            value,
            quality: Quality::Good,
            detail: None,
            at: When::At(Instant::now()),
        }]);
        if self.sessions == 1 {
            // Lets the subscriber see the first value.
            tokio::time::sleep(Duration::from_millis(1)).await;
            panic!("out of cheese");
        }
        while inbox.next().await.is_some() {}
        SessionEnd::Stopped
    }
}

#[tokio::test(start_paused = true)]
async fn its_tags_are_bad_until_the_next_session_reads_them() {
    let store = Arc::new(Store::default());
    let tag = Arc::new(Tag {
        path: TagPath::parse("boiler/a").unwrap(),
        definition: Arc::new(Definition {
            description: String::new(),
            kind: Kind::Uint16,
            count: None,
            labels: None,
            scaled: false,
            unit: None,
            range: None,
            deadband: None,
            stale_after: None,
            access: Access::ReadOnly,
            limits: Limits::default(),
        }),
    });
    let device = Arc::new(Device { name: "boiler".into(), ..Device::default() });
    let tags = vec![TagLayout { tag, keep: None }];
    let device = DeviceLayout { device, counters: Arc::default(), keep: None, tags };
    let catalogue = store.install(Layout { site: "site".into(), devices: vec![device] });
    let (id, device) = (catalogue.tags().first().unwrap().id, catalogue.devices().first().unwrap().id);

    let subscription = store.subscribe(Duration::ZERO);
    assert!(subscription.add(Target::Tag("boiler/a".into())));
    let stop = CancellationToken::new();
    let (_queue, inbox) = link::queue(stop.clone());
    let host = Arc::new(Connection::new(store.clone(), [id].into(), [device].into()));
    let driver = Shaky { tag: id, sessions: 0 };
    let task =
        tokio::spawn(async move { link::supervise("plc", driver, inbox, host, Backoff::default()).await });

    let mut seen = Vec::new();
    while seen.len() < 3 {
        assert_eq!(subscription.next().await, [Change::Target(Target::Tag("boiler/a".into()))]);
        let sample = store.read(id).unwrap().sample;
        seen.push((sample.value, sample.quality, sample.detail));
    }
    let detail = Some("the driver failed: out of cheese".into());
    assert_eq!(
        seen,
        [
            (Value::U64(1), Quality::Good, None),
            (Value::U64(1), Quality::Bad(Reason::NotConnected), detail),
            (Value::U64(2), Quality::Good, None),
        ]
    );
    stop.cancel();
    task.await.unwrap();
}
