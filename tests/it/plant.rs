//! A plant for tests: a site over simulated PLCs, and waits on its state.

use std::{sync::Arc, time::Duration};

use fieldbridge::{
    app::App,
    config::{self, Site},
    control::WriteRequest,
    model::{Quality, Report, Value},
    store::{Change, DeviceReading, Reading, Target},
};
use tokio_util::sync::CancellationToken;

/// A running plant.
pub(crate) struct Plant {
    pub(crate) app: App,
}

/// Reads a site that is written in a test.
pub(crate) fn site(text: &str) -> Site {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("site.toml");
    std::fs::write(&file, text).unwrap();
    config::load(&file, std::iter::empty::<(String, String)>())
        .unwrap_or_else(|problems| panic!("{problems}"))
}

impl Plant {
    pub(crate) fn start(text: &str) -> Self {
        Self { app: App::start(site(text)) }
    }

    pub(crate) fn read(&self, path: &str) -> Reading {
        let catalogue = self.app.store().catalogue();
        let entry = catalogue.tag(path).unwrap_or_else(|| panic!("no tag {path}"));
        self.app.store().read(entry.id).unwrap()
    }

    pub(crate) fn value(&self, path: &str) -> Value {
        self.read(path).sample.value
    }

    /// Waits until a tag is as wanted, woken by its notifications.
    pub(crate) async fn until(&self, path: &str, ready: impl Fn(&Reading) -> bool) -> Reading {
        let subscription = self.app.store().subscribe(Duration::ZERO);
        assert!(subscription.add(Target::Tag(path.into())), "no tag {path}");
        loop {
            let reading = self.read(path);
            if ready(&reading) {
                return reading;
            }
            let changes = tokio::time::timeout(Duration::from_secs(30), subscription.next()).await;
            let changes = changes.unwrap_or_else(|_| panic!("{path} stays {reading:?}"));
            assert!(changes.contains(&Change::Target(Target::Tag(path.into()))));
        }
    }

    pub(crate) async fn until_good(&self, path: &str) -> Reading {
        self.until(path, |reading| reading.sample.quality == Quality::Good).await
    }

    /// Waits until a device, or its link, is as wanted, woken by its notifications.
    pub(crate) async fn until_device(&self, name: &str, ready: impl Fn(&DeviceReading) -> bool) {
        let store = self.app.store();
        let id = store.catalogue().device(name).unwrap_or_else(|| panic!("no device {name}")).id;
        let subscription = store.subscribe(Duration::ZERO);
        assert!(subscription.add(Target::Device(name.into())));
        loop {
            let reading = store.device(id).unwrap();
            if ready(&reading) {
                return;
            }
            let news = tokio::time::timeout(Duration::from_secs(30), subscription.next()).await;
            news.unwrap_or_else(|_| panic!("{name} stays {reading:?}"));
        }
    }

    pub(crate) fn request(&self, tag: &str, value: &str) -> WriteRequest {
        WriteRequest {
            tag: tag.into(),
            value: value.into(),
            expect: None,
            dry_run: false,
            reason: None,
            caller: "test".into(),
            stamp: self.app.control().stamp(),
            cancel: CancellationToken::new(),
        }
    }

    pub(crate) async fn write(&self, tag: &str, value: &str) -> Report {
        let request = self.request(tag, value);
        Arc::clone(self.app.control()).write(request).await
    }
}
