//! 200 tags with gaps between them: how many requests read them all.

use anyhow::{Context, Result, ensure};
use fieldbridge::model::Value;

use crate::{
    bridge::Bridge,
    devices::Devices,
    fleet::Fleet,
    report::{self, Wanted},
    site::{self, Plan},
};

const TAGS: usize = 200;

pub(crate) async fn run() -> Result<()> {
    let mut fleet =
        Fleet::start(Devices { count: 1, delay_us: 0, unreachable: false, answers: None }).await?;
    let (tags, addresses) = site::scattered(TAGS);
    // The next round is an hour away: one alone is counted.
    let plan = Plan { name: "scatter", scan_ms: 3_600_000, stale_ms: 60_000, units: 1, tags: &tags };
    let file = site::write(plan, fleet.addresses())?;
    report::section(
        "Scattered tags: requests that read them",
        &format!("{TAGS} uint16 with gaps of 1 to 4 registers between them, counted at the device."),
    );
    let bridge = Bridge::start(site::load(&file)?, &[])?;
    bridge.become_good().await?;
    let right = |index: usize| addresses.get(index).map(|address| u64::from(site::register(*address)));
    bridge.verify(|index| right(index).map_or(Value::Null, Value::U64))?;
    bridge.stop().await;
    let counts = fleet.counts().await?;
    fleet.stop().await?;
    let requests = u32::try_from(counts.requests)?;
    ensure!(requests > 0, "nothing was asked");
    report::figure("tags", f64::from(u32::try_from(TAGS)?), "", "");
    report::figure("requests", f64::from(requests), "", "");
    let span = addresses.last().context("no tags")? + 1;
    let least = u32::try_from(span.div_ceil(125))?;
    report::figure("least that 125 registers each allow", f64::from(least), "", "");
    report::judged(
        "tags a request",
        f64::from(u32::try_from(TAGS)?) / f64::from(requests),
        "",
        Wanted::Least(10.0),
    );
    Ok(())
}
