//! A whole plant: 100 devices of 1,000 floats each, read once a second by the real program. That no scan is left out, what
//! it takes, and how long a write lasts, on an idle line and in such a plant.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::time::sleep;

use crate::{
    Arguments,
    caller::Caller,
    devices::{Counts, Devices},
    fleet::Fleet,
    report::{self, Wanted},
    site::{self, BLOCK, Plan},
};

const DEVICES: usize = 100;
const TAGS: usize = 1000;
/// Bytes of an answer to a read beside its registers: header, function and byte count.
const AROUND: u64 = 9;
/// Bytes of a request to read.
const REQUEST: u64 = 12;

/// The plant, then writes in it.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let mut fleet = start(DEVICES).await?;
    let tags = site::floats(TAGS);
    let plan = Plan { name: "plant", scan_ms: 1000, stale_ms: 3000, units: 1, tags: &tags };
    let file = site::write(plan, fleet.addresses())?;
    let mut caller = Caller::start(&file).await?;
    caller.become_good(u64::try_from(DEVICES * TAGS)?).await?;
    load(arguments, &mut fleet, &mut caller).await?;
    writes(arguments, "in that plant", &mut fleet, &mut caller, DEVICES).await?;
    caller.process.kill().await?;
    fleet.stop().await
}

/// Writes where there is nothing else to do.
pub(crate) async fn idle(arguments: &Arguments) -> Result<()> {
    let mut fleet = start(1).await?;
    let tags = site::floats(10);
    let file = site::write(
        Plan { name: "idle", scan_ms: 1000, stale_ms: 3000, units: 1, tags: &tags },
        fleet.addresses(),
    )?;
    let mut caller = Caller::start(&file).await?;
    caller.become_good(10).await?;
    writes(arguments, "on an idle line (10 tags, read once a second)", &mut fleet, &mut caller, 1).await?;
    caller.process.kill().await?;
    fleet.stop().await
}

async fn start(count: usize) -> Result<Fleet> {
    Fleet::start(Devices { count, delay_us: 0, unreachable: false, answers: None }).await
}

async fn load(arguments: &Arguments, fleet: &mut Fleet, caller: &mut Caller) -> Result<()> {
    let seconds = u64::from(arguments.seconds);
    report::section(
        "A plant: 100 devices of 1,000 float32, read once a second",
        &format!(
            "The real program, each device on a connection of its own; {seconds} s. The devices, in one process, count \
             what they are asked and what they answer."
        ),
    );
    let told_before = caller.told().await?;
    let quiet = fall_quiet(fleet).await?;
    let (start, cpu, before) = (Instant::now(), caller.process.cpu(), fleet.counts().await?);
    sleep(Duration::from_secs(seconds)).await;
    let (took, after) = (caller.process.cpu(), fleet.counts().await?);
    let cores = took.zip(cpu).and_then(|(now, before)| now.checked_sub(before));
    let cores = cores.map_or(f64::NAN, |took| took.as_secs_f64() / start.elapsed().as_secs_f64());
    let (rss, most) = (megabytes(caller, "VmRSS"), megabytes(caller, "VmHWM"));
    let told = caller.told().await?;
    wire(after.since(before), seconds, quiet)?;
    let overruns = told.overruns - told_before.overruns;
    report::judged("scans left out", float(overruns), "", Wanted::Most(0.0));
    report::figure("failed requests", float(told.failures), "", "");
    report::figure("good tags at the end", float(told.good), "", "");
    report::judged("CPU of the bridge", cores, "cores", Wanted::Most(0.15));
    report::judged("RSS of the bridge", rss, "MB", Wanted::Most(60.0));
    report::figure("RSS at its highest", most, "MB", "reading the site file counts");
    ensure!(overruns == 0, "scans were left out");
    ensure!(told.failures == 0, "requests failed");
    ensure!(told.good == u64::try_from(DEVICES * TAGS)?, "not all tags are good");
    Ok(())
}

/// Waits, for up to two seconds, for a pause between two rounds, so that whole rounds are counted.
async fn fall_quiet(fleet: &mut Fleet) -> Result<bool> {
    let (since, mut last, mut same) = (Instant::now(), fleet.counts().await?, 0);
    while since.elapsed() < Duration::from_secs(2) {
        sleep(Duration::from_millis(20)).await;
        let now = fleet.counts().await?;
        same = if now == last { same + 1 } else { 0 };
        last = now;
        if same == 5 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether all was read that was to be read.
fn wire(counts: Counts, seconds: u64, quiet: bool) -> Result<()> {
    let (devices, tags) = (u64::try_from(DEVICES)?, u64::try_from(TAGS)?);
    let registers = 2 * tags * devices * seconds;
    let requests = tags.div_ceil(u64::try_from(BLOCK)?) * devices * seconds;
    let sent = 2 * registers + AROUND * requests;
    let row = |name: &str, counted: u64, wanted: u64| {
        report::figure(name, float(counted), "", &format!("  expected: {wanted}"));
    };
    row("requests that reached the devices", counts.requests, requests);
    row("bytes of these requests", counts.received, REQUEST * requests);
    row("registers in their answers", counts.registers, registers);
    row("bytes of these answers", counts.sent, sent);
    // Where rounds never pause, one may be cut at each end.
    let cut = if quiet { 0 } else { 2 * tags * devices };
    ensure!(counts.registers + cut >= registers, "not all was read");
    Ok(())
}

async fn writes(
    arguments: &Arguments,
    place: &str,
    fleet: &mut Fleet,
    caller: &mut Caller,
    connections: usize,
) -> Result<()> {
    let calls = usize::try_from(arguments.calls)?;
    report::section(
        &format!("Writes {place}"),
        &format!(
            "{calls} calls of write_tag over HTTP, one after another with pauses, each until it is told as confirmed; \
             beside as many of read_tags."
        ),
    );
    let before = fleet.counts().await?;
    let written = caller.writes(calls, connections).await?;
    let reached = fleet.counts().await?.since(before).writes;
    let read = caller.reads(calls, connections).await?;
    report::figure("write_tag, median", at(&written, 50), "ms", "");
    report::judged("write_tag, p99", at(&written, 99), "ms", Wanted::Most(20.0));
    report::figure("write_tag, longest", at(&written, 100), "ms", "");
    report::figure("read_tags, median", at(&read, 50), "ms", "");
    report::figure("read_tags, p99", at(&read, 99), "ms", "");
    ensure!(reached == u64::from(arguments.calls), "{reached} writes reached the devices, not {calls}");
    Ok(())
}

/// A percentile in milliseconds.
fn at(took: &[Duration], part: usize) -> f64 {
    let mut sorted = took.to_vec();
    sorted.sort_unstable();
    let index = (sorted.len().saturating_sub(1) * part).div_ceil(100);
    sorted.get(index).map_or(f64::NAN, |took| took.as_secs_f64() * 1e3)
}

fn megabytes(caller: &Caller, line: &str) -> f64 {
    caller.process.memory_kib(line).map_or(f64::NAN, |kib| f64::from(kib) * 1024.0 / 1e6)
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn float(count: u64) -> f64 {
    count as f64
}
