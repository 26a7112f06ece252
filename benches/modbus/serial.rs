//! Serial lines: how near the driver comes to what characters, silences and the device's turnaround allow.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fieldbridge::{
    config::{Parity, Serial, Transport},
    model::Value,
};
use simulators::modbus::{Handle, Line, Pace, Tables, Traffic};
use tokio::time::sleep;

use crate::{
    Arguments,
    bridge::{Bridge, own_cpu, rate},
    report::{self, Wanted},
    site::{self, Plan},
};

/// Characters of a request to read, and of an answer beside its registers.
const REQUEST: usize = 8;
const AROUND: usize = 5;
/// Bits of a character: start, eight of data, parity, stop.
const BITS: u32 = 11;
/// Silence before a frame above 19200 baud; below it is 3.5 characters (Modbus over serial line V1.02, section 2.5.1.1).
const FAST_SILENCE: Duration = Duration::from_micros(1750);

/// Polls without a pause at two speeds, with small and large answers.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let pace = Pace::baud(9600);
    report::section(
        "Serial lines: requests beside what the line allows",
        &format!(
            "A paced pseudo-terminal, characters of {BITS} bits, a device that answers after {} ms, one tag a request; {} s \
             each.",
            pace.turnaround.as_millis(),
            arguments.line_seconds
        ),
    );
    for baud in [19_200, 115_200] {
        for registers in [10, 124] {
            line(arguments, baud, registers).await?;
        }
    }
    Ok(())
}

async fn line(arguments: &Arguments, baud: u32, registers: usize) -> Result<()> {
    let mut tables = Tables::new();
    tables.set_holdings(0, &(0..registers).map(site::register).collect::<Vec<_>>());
    let handle = Handle::new([(1, tables)]);
    let pace = Pace { bits: BITS, ..Pace::baud(baud) };
    let simulated = Line::start(&handle, pace)?;
    let tags = site::floats(registers / 2);
    let plan = Plan { name: "serial", scan_ms: 10, stale_ms: 60_000, units: 1, tags: &tags };
    let mut site = site::load(&site::write(plan, std::iter::once("127.0.0.1:502".to_owned()))?)?;
    for endpoint in site::endpoints(&mut site) {
        endpoint.transport = Transport::Rtu(Serial {
            port: simulated.path().display().to_string(),
            baud,
            parity: Parity::Even,
            stop_bits: 1,
        });
    }
    site::hurry(&mut site);
    let bridge = Bridge::start(site, &[])?;
    bridge.become_good().await?;
    let before = next_answer(&simulated).await;
    let (start, cpu) = (Instant::now(), own_cpu());
    sleep(Duration::from_secs(arguments.line_seconds.into())).await;
    let after = next_answer(&simulated).await;
    let rate = rate(after.answers - before.answers, start, cpu)?;
    bridge.verify(|index| Value::F32(crate::devices::float(index)))?;
    bridge.stop().await;
    simulated.stop();
    ensure!(after.noise == 0, "bytes went over the line that are no request");
    let silence = if baud > 19_200 { FAST_SILENCE } else { pace.time(7) / 2 };
    let allowed = silence + pace.time(REQUEST) + pace.turnaround + pace.time(AROUND + 2 * registers);
    let took = Duration::try_from_secs_f64(1.0 / rate.per_second).context("no time passed")?;
    report::judged(
        &format!("{baud} baud, {registers} registers"),
        allowed.as_secs_f64() / took.as_secs_f64() * 100.0,
        "% of what may be",
        Wanted::Least(95.0),
    );
    let extra = took.saturating_sub(allowed).as_secs_f64() * 1e6;
    report::figure(
        "  a transaction",
        took.as_secs_f64() * 1e3,
        "ms",
        &format!("{extra:.0} µs more than the least"),
    );
    Ok(())
}

/// What went over the line by the next answer, so that whole transactions are counted.
async fn next_answer(line: &Line) -> Traffic {
    let before = line.traffic().answers;
    loop {
        let traffic = line.traffic();
        if traffic.answers > before {
            return traffic;
        }
        sleep(Duration::from_millis(1)).await;
    }
}
