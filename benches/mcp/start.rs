//! How soon after its start a server answers over stdio, and its memory then.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::time::timeout;

use crate::{
    Arguments,
    calls::{Calls, Era},
    common::{
        figures::{Spread, median},
        process::Process,
    },
    plant::{Plant, tag},
    report,
    server::{self, Subject, Wire},
    stdio,
};

/// Starts of each.
const STARTS: usize = 15;
/// How long a plant may take until it is good.
const PATIENCE: Duration = Duration::from_secs(10);

/// Numbers of one start.
#[derive(Debug, Clone, Copy)]
struct Begun {
    initialized_ms: f64,
    answered_ms: f64,
    rss_mib: f64,
    /// What of that is the process's own, not the program's file mapped in.
    own_mib: f64,
    /// When all tags are good.
    good: Option<Good>,
}

#[derive(Debug, Clone, Copy)]
struct Good {
    after_ms: f64,
    rss_mib: f64,
}

/// Measures and prints the table.
pub(crate) async fn run(subject: Subject, arguments: &Arguments, plant: &Plant) -> Result<()> {
    if !"start".contains(&arguments.only) {
        return Ok(());
    }
    report::start_head(STARTS);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        ours.push(one(subject, plant).await?);
        theirs.push(one(Subject::Echo, plant).await?);
    }
    for (name, runs) in [("fieldbridge", ours), ("echo", theirs)] {
        let of = |number: fn(&Begun) -> f64| spread(&runs.iter().map(number).collect::<Vec<_>>());
        report::start_row(name, "initialize answered", "ms", of(|run| run.initialized_ms), None);
        let wanted = (name == "fieldbridge").then_some(50.0);
        report::start_row(name, "first tool call answered", "ms", of(|run| run.answered_ms), wanted);
        let wanted = (name == "fieldbridge").then_some(15.0);
        report::start_row(name, "RSS then", "MiB", of(|run| run.rss_mib), wanted);
        report::start_row(name, "RSS then, anonymous part", "MiB", of(|run| run.own_mib), None);
        let good: Vec<Good> = runs.iter().filter_map(|run| run.good).collect();
        if !good.is_empty() {
            let of = |number: fn(&Good) -> f64| spread(&good.iter().map(number).collect::<Vec<_>>());
            report::start_row(name, "all tags good", "ms", of(|good| good.after_ms), None);
            report::start_row(name, "RSS then", "MiB", of(|good| good.rss_mib), Some(15.0));
        }
    }
    Ok(())
}

async fn one(subject: Subject, plant: &Plant) -> Result<Begun> {
    let start = Instant::now();
    let mut process = server::spawn(subject, Wire::Stdio, plant)?;
    let begun = timeout(2 * PATIENCE, begin(subject, &mut process, start)).await;
    let begun = match begun.context("the start hangs").and_then(|done| done) {
        Ok(begun) => begun,
        Err(error) => return Err(process.explain(error)),
    };
    process.kill().await?;
    Ok(begun)
}

async fn begin(subject: Subject, process: &mut Process, start: Instant) -> Result<Begun> {
    let calls = Calls { subject, era: Era::Legacy };
    let mut client = stdio::Client::new(process)?;
    client.open().await?;
    let initialized_ms = since(start);
    let answer = client.exchange(&calls.request(1, &tag(7))).await?;
    let answered_ms = since(start);
    let rss_mib = mib(process, "VmRSS");
    let own_mib = mib(process, "RssAnon");
    Calls::tells(&answer, &tag(7))?;
    let good = match subject {
        Subject::Fieldbridge => Some(become_good(calls, &mut client, process, start).await?),
        Subject::Echo | Subject::Lean => None,
    };
    Ok(Begun { initialized_ms, answered_ms, rss_mib, own_mib, good })
}

async fn become_good(
    calls: Calls,
    client: &mut stdio::Client,
    process: &Process,
    start: Instant,
) -> Result<Good> {
    while !Calls::all_good(&client.exchange(&calls.sample(2)).await?) {
        ensure!(start.elapsed() < PATIENCE, "the plant did not become good");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(Good { after_ms: since(start), rss_mib: mib(process, "VmRSS") })
}

fn since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

fn mib(process: &Process, line: &str) -> f64 {
    process.memory_kib(line).map_or(f64::NAN, |kib| f64::from(kib) / 1024.0)
}

/// Least, median and greatest.
fn spread(values: &[f64]) -> Spread {
    Spread {
        least: values.iter().copied().fold(f64::INFINITY, f64::min),
        median: median(values),
        greatest: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    }
}
