//! A bridge in the benchmark's own process, and what reaches its store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use fieldbridge::{
    app::App,
    config::Site,
    model::{Quality, Sample, TagId, Value},
    store::{Observation, Observer},
};
use tokio::time::sleep;

use crate::common::process::cpu_of;

/// The benchmark's own folder in /proc.
const OWN: &str = "self";
/// How long values may take to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running bridge.
#[derive(Debug)]
pub(crate) struct Bridge {
    app: App,
    good: Arc<AtomicU64>,
    _seen: Observation,
}

/// Counts good samples.
struct Good(Arc<AtomicU64>);

impl Observer for Good {
    fn observe(&mut self, _: TagId, sample: Option<&Sample>) {
        if sample.is_some_and(|sample| sample.quality == Quality::Good) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What was done in a while, and what it took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) per_second: f64,
    /// CPU time of the benchmark's process for each.
    pub(crate) cpu_us: f64,
}

impl Bridge {
    /// Starts one, and counts the good samples of some tags.
    pub(crate) fn start(site: Site, counted: &[String]) -> Result<Self> {
        let app = App::start(site);
        let catalogue = app.store().catalogue();
        let ids = counted.iter().map(|path| Some(catalogue.tag(path)?.id));
        let ids = ids.collect::<Option<Vec<_>>>().context("a tag that is counted is not in the site")?;
        let good = Arc::new(AtomicU64::new(0));
        let seen = app.store().observe(&ids, Good(Arc::clone(&good)));
        Ok(Self { app, good, _seen: seen })
    }

    pub(crate) fn app(&self) -> &App {
        &self.app
    }

    /// Waits until every tag is good.
    pub(crate) async fn become_good(&self) -> Result<()> {
        let since = Instant::now();
        while !self.is_good() {
            ensure!(since.elapsed() < PATIENCE, "the tags did not become good");
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    fn is_good(&self) -> bool {
        let store = self.app.store();
        store
            .catalogue()
            .tags()
            .iter()
            .all(|entry| store.read(entry.id).is_some_and(|reading| reading.sample.quality == Quality::Good))
    }

    /// Whether every tag is good and holds what its device holds; `right` tells that by the tag's number in its profile.
    pub(crate) fn verify(&self, right: impl Fn(usize) -> Value) -> Result<()> {
        let store = self.app.store();
        for entry in store.catalogue().tags() {
            let path = entry.tag.path.as_str();
            let number = path.rsplit_once("/t").and_then(|(_, number)| number.parse().ok());
            let wanted = right(number.context("a tag without a number")?);
            let sample = store.read(entry.id).context("a tag is gone")?.sample;
            let (value, quality) = (&sample.value, sample.quality);
            ensure!(
                quality == Quality::Good && *value == wanted,
                "{path} is {value} ({quality:?}), not {wanted}"
            );
        }
        Ok(())
    }

    /// How many of the counted samples come in a second, after a warm-up.
    pub(crate) async fn measure(&self, length: Duration) -> Result<Rate> {
        sleep(length / 3).await;
        let (start, cpu, before) = (Instant::now(), cpu_of(OWN), self.good.load(Ordering::Relaxed));
        sleep(length).await;
        let count = self.good.load(Ordering::Relaxed) - before;
        rate(count, start, cpu)
    }

    pub(crate) async fn stop(self) {
        self.app.stop().await;
    }
}

/// What so many since `start` mean; `cpu` is what the process had taken then.
pub(crate) fn rate(count: u64, start: Instant, cpu: Option<Duration>) -> Result<Rate> {
    ensure!(count > 0, "nothing came");
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let count = count as f64;
    let took = cpu_of(OWN).zip(cpu).and_then(|(now, before)| now.checked_sub(before));
    Ok(Rate {
        per_second: count / start.elapsed().as_secs_f64(),
        cpu_us: took.map_or(f64::NAN, |took| took.as_secs_f64() * 1e6 / count),
    })
}

/// CPU time of the benchmark's process so far.
pub(crate) fn own_cpu() -> Option<Duration> {
    cpu_of(OWN)
}
