//! What stays behind after a long time of trouble: gateways that answer 0x0B, and connections that end.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fieldbridge::{
    config::Site,
    model::{Quality, Reason},
};
use tokio::time::sleep;

use crate::{
    bridge::Bridge,
    common::process::memory_of,
    devices::{Counts, Devices},
    fleet::Fleet,
    report,
    site::{self, Plan},
};

const CONNECTIONS: usize = 10;
/// How long nothing may happen.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Soak {
    /// Answers of 0x0B.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(4..))]
    answers: u64,
    /// Connections that end.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(4..))]
    reconnects: u64,
}

pub(crate) async fn run(soak: Soak) -> Result<()> {
    refusals(soak.answers).await?;
    reconnects(soak.reconnects).await
}

async fn refusals(answers: u64) -> Result<()> {
    let devices = Devices { count: CONNECTIONS, delay_us: 0, unreachable: true, answers: None };
    // Each unit is probed once a second, so there are as many as a connection can have.
    let (mut fleet, site) = prepare(devices, 247).await?;
    report::section(
        "Soak: answers of exception 0x0B",
        &format!(
            "{CONNECTIONS} gateways of 247 units, none of which can be reached; RSS of the benchmark, bridge included."
        ),
    );
    let bridge = Bridge::start(site, &[])?;
    let counts = watch(&mut fleet, answers, |counts| counts.requests).await?;
    let store = bridge.app().store();
    for entry in store.catalogue().tags() {
        let quality = store.read(entry.id).context("a tag is gone")?.sample.quality;
        ensure!(quality == Quality::Bad(Reason::DeviceRefused), "{} is {quality:?}", entry.tag.path);
    }
    bridge.stop().await;
    fleet.stop().await?;
    ensure!(counts.connections == u64::try_from(CONNECTIONS)?, "connections were lost: {counts:?}");
    Ok(())
}

async fn reconnects(connections: u64) -> Result<()> {
    let devices = Devices { count: CONNECTIONS, delay_us: 0, unreachable: false, answers: Some(3) };
    let (mut fleet, mut site) = prepare(devices, 4).await?;
    for endpoint in site::endpoints(&mut site) {
        endpoint.reconnect = (Duration::from_millis(1), Duration::from_millis(1));
    }
    report::section(
        "Soak: connections that end",
        &format!(
            "{CONNECTIONS} devices that close each connection after three answers, of four that are asked for."
        ),
    );
    let bridge = Bridge::start(site, &[])?;
    watch(&mut fleet, connections, |counts| counts.connections).await?;
    bridge.stop().await;
    fleet.stop().await
}

async fn prepare(devices: Devices, units: u8) -> Result<(Fleet, Site)> {
    let fleet = Fleet::start(devices).await?;
    let tags = site::floats(2);
    let file = site::write(
        Plan { name: "soak", scan_ms: 1000, stale_ms: 3000, units, tags: &tags },
        fleet.addresses(),
    )?;
    Ok((fleet, site::load(&file)?))
}

/// Waits until so many were counted, and prints the memory on the way.
async fn watch(fleet: &mut Fleet, total: u64, of: impl Fn(Counts) -> u64) -> Result<Counts> {
    let start = Instant::now();
    let (mut most, mut news) = (0, Instant::now());
    // A twentieth is the start: by then every device has answered.
    let mut marks = [total / 20, total / 4, total / 2, total / 4 * 3, total].into_iter().peekable();
    loop {
        let counts = fleet.counts().await?;
        let done = of(counts);
        if done > most {
            (most, news) = (done, Instant::now());
        }
        ensure!(news.elapsed() < PATIENCE, "nothing happens any more after {done} of {total}");
        while marks.next_if(|mark| done >= *mark).is_some() {
            let rss = memory_of("self", "VmRSS").map_or(f64::NAN, |kib| f64::from(kib) / 1024.0);
            report::figure(
                &format!("RSS after {done}"),
                rss,
                "MiB",
                &format!("at {:.1} s", start.elapsed().as_secs_f64()),
            );
        }
        if marks.peek().is_none() {
            return Ok(counts);
        }
        sleep(Duration::from_millis(20)).await;
    }
}
