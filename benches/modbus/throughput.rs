//! Floats decoded into the store in a second: beside a bare client of tokio-modbus that reads the same blocks, and with
//! eight requests in flight beside one where an answer takes 5 ms.

use std::{
    hint::black_box,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use fieldbridge::model::Value;
use tokio_modbus::{
    Slave,
    client::{Reader, tcp},
};

use crate::{
    Arguments,
    bridge::{Bridge, Rate, own_cpu, rate},
    common::figures::median,
    devices::{Devices, float},
    fleet::Fleet,
    report::{self, Wanted},
    site::{self, BLOCK, Plan},
};

/// Requests that read all of the device.
const BLOCKS: usize = 64;
/// Registers of each.
const REGISTERS: u16 = 124;
/// What the wire of the second table takes for an answer.
const DELAY: Duration = Duration::from_millis(5);

/// The bridge beside the client.
pub(crate) async fn saturation(arguments: &Arguments) -> Result<()> {
    let fleet = Fleet::start(Devices { count: 1, delay_us: 0, unreachable: false, answers: None }).await?;
    let file = site::write(plan(&site::floats(BLOCKS * BLOCK)), fleet.addresses())?;
    let (length, address) = (arguments.window(), fleet.address()?);
    report::section(
        "Saturation: floats decoded into the store",
        &format!(
            "One device of {} float32 in {BLOCKS} requests of {REGISTERS} registers, in a process of its own, read without a \
             pause: by the bridge,\nand by a bare loop of tokio-modbus's client. Medians over {} rounds of {} ms, the \
             two in turn; in brackets the middle half of the rounds.",
            BLOCKS * BLOCK,
            arguments.rounds,
            length.as_millis()
        ),
    );
    let (mut ours, mut theirs, mut many) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..arguments.rounds {
        if round % 2 == 0 {
            ours.push(bridge(&file, 1, length).await?);
            theirs.push(client(&address, length).await?);
        } else {
            theirs.push(client(&address, length).await?);
            ours.push(bridge(&file, 1, length).await?);
        }
        many.push(bridge(&file, 8, length).await?);
    }
    fleet.stop().await?;
    show("bridge, 1 in flight", &ours);
    show("tokio-modbus client, 1 in flight", &theirs);
    show("bridge, 8 in flight", &many);
    report::ratio("bridge / client", &ratios(&ours, &theirs), Some(Wanted::Least(0.6)));
    report::ratio("bridge with 8 in flight / client", &ratios(&many, &theirs), None);
    Ok(())
}

/// Eight in flight beside one.
pub(crate) async fn pipelining(arguments: &Arguments) -> Result<()> {
    let delay_us = u64::try_from(DELAY.as_micros())?;
    let fleet = Fleet::start(Devices { count: 1, delay_us, unreachable: false, answers: None }).await?;
    let file = site::write(plan(&site::floats(BLOCKS * BLOCK)), fleet.addresses())?;
    // One round of the requests takes a third of a second, and a window shall see a few.
    let length = arguments.window().max(Duration::from_millis(1500));
    report::section(
        "Pipelining: an answer takes 5 ms",
        &format!(
            "The same device, each of whose answers leaves 5 ms after its request arrived; medians over {} rounds of {} ms.",
            arguments.rounds,
            length.as_millis()
        ),
    );
    let (mut one, mut eight) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds {
        one.push(bridge(&file, 1, length).await?);
        eight.push(bridge(&file, 8, length).await?);
    }
    fleet.stop().await?;
    show("bridge, 1 in flight", &one);
    show("bridge, 8 in flight", &eight);
    report::ratio("8 in flight / 1 in flight", &ratios(&eight, &one), Some(Wanted::Least(6.0)));
    Ok(())
}

fn plan(tags: &str) -> Plan<'_> {
    Plan { name: "saturation", scan_ms: 10, stale_ms: 60_000, units: 1, tags }
}

/// Requests that the bridge carries through in a second, told by what reaches its store.
async fn bridge(file: &Path, in_flight: u8, length: Duration) -> Result<Rate> {
    let mut site = site::load(file)?;
    for endpoint in site::endpoints(&mut site) {
        endpoint.max_in_flight = in_flight;
    }
    site::hurry(&mut site);
    let counted = (0..BLOCKS).map(|block| site::path(0, block * BLOCK)).collect::<Vec<_>>();
    let bridge = Bridge::start(site, &counted)?;
    bridge.become_good().await?;
    let rate = bridge.measure(length).await?;
    bridge.verify(|index| Value::F32(float(index)))?;
    bridge.stop().await;
    Ok(rate)
}

/// Requests that the client carries through in a second.
async fn client(address: &str, length: Duration) -> Result<Rate> {
    let address = address.parse()?;
    // On a task of its own, as the bridge's driver is.
    tokio::spawn(async move {
        let mut context = tcp::connect_slave(address, Slave(1)).await?;
        let (warm, mut started) = (Instant::now() + length / 3, None);
        let mut count = 0_u64;
        loop {
            for block in 0..BLOCKS {
                let start = u16::try_from(block)? * REGISTERS;
                let words = context.read_holding_registers(start, REGISTERS).await??;
                ensure!(words.first() == Some(&site::register(start.into())), "a wrong answer");
                black_box(words);
                count += 1;
            }
            let now = Instant::now();
            match started {
                None if now >= warm => (started, count) = (Some((now, own_cpu())), 0),
                Some((start, cpu)) if now >= start + length => return rate(count, start, cpu),
                _ => {}
            }
        }
    })
    .await
    .context("the client failed")?
}

fn ratios(ours: &[Rate], theirs: &[Rate]) -> Vec<f64> {
    ours.iter().zip(theirs).map(|(us, them)| us.per_second / them.per_second).collect()
}

fn show(name: &str, rounds: &[Rate]) {
    let of = |number: fn(&Rate) -> f64| median(&rounds.iter().map(number).collect::<Vec<_>>());
    let (requests, cpu) = (of(|rate| rate.per_second), of(|rate| rate.cpu_us));
    let floats = requests * f64::from(REGISTERS) / 2.0;
    report::figure(name, floats, "floats/s", &format!("{requests:>7.0} requests/s, {cpu:>5.1} µs CPU each"));
}
