//! Four virtual buses at full load: nothing is lost, and what it costs beside the buses alone.

use std::{
    fmt::Write as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use fieldbridge::{
    app::{App, simulated},
    config,
};
use simulators::can::{self, Bus};
use tokio::{task::JoinHandle, time::sleep};

use crate::{
    Arguments,
    common::process::{cpu_of, memory_of},
};

const BUSES: usize = 4;
const BITRATE: u32 = 1_000_000;
/// Messages of each bus, of four signals each.
const MESSAGES: u16 = 100;

pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let time = Duration::from_secs(arguments.seconds.into());
    let alone = full(time, false).await?;
    let with = full(time, true).await?;
    println!(
        "\nload: {BUSES} virtual buses at {BITRATE} bit/s, {:.0} frames/s in all for {} s, 4 signals each",
        with.rate,
        time.as_secs()
    );
    println!("  frames               {} sent, {} taken, {} lost", with.sent, with.taken, with.lost);
    println!(
        "  CPU                  {:.3} cores with the bridge, {:.3} of the buses alone",
        with.cores, alone.cores
    );
    println!(
        "  of the bridge        {:.3} cores, {:.2} µs a frame",
        with.cores - alone.cores,
        (with.cores - alone.cores) / with.rate * 1e6
    );
    println!("  memory               {} KiB after 1 s, {} KiB after all", with.memory.0, with.memory.1);
    Ok(())
}

struct Figures {
    sent: u64,
    taken: u64,
    lost: u64,
    rate: f64,
    cores: f64,
    memory: (u32, u32),
}

async fn full(time: Duration, bridge: bool) -> Result<Figures> {
    let buses = (0..BUSES).map(|number| Bus::paced(&format!("bus{number}"), BITRATE)).collect::<Vec<_>>();
    let app = if bridge { Some(App::start_beside(site()?, simulated(&buses))) } else { None };
    let others = if bridge { Vec::new() } else { buses.iter().map(listen).collect() };
    while buses.iter().any(|bus| bus.ports() == 0) {
        sleep(Duration::from_millis(1)).await;
    }
    let sent = Arc::new(AtomicU64::new(0));
    let (before, begin) = (cpu()?, Instant::now());
    let senders = buses.iter().map(|bus| send(bus, time, &sent)).collect::<Vec<_>>();
    sleep(Duration::from_secs(1)).await;
    let early = memory_of("self", "VmRSS").unwrap_or_default();
    for sender in senders {
        sender.await??;
    }
    let took = begin.elapsed();
    let cores = cpu()?.saturating_sub(before).as_secs_f64() / took.as_secs_f64();
    let late = memory_of("self", "VmRSS").unwrap_or_default();
    sleep(Duration::from_millis(200)).await;
    let sent = sent.load(Ordering::Relaxed);
    let counted = |name: &str| {
        let app = app.as_ref()?;
        let catalogue = app.store().catalogue();
        let devices = (0..BUSES).map(|number| catalogue.device(&format!("d{number}")));
        let counts = devices.map(|device| {
            device?.counters.all().into_iter().find(|(own, _)| *own == name).map(|(_, count)| count)
        });
        counts.sum::<Option<u64>>()
    };
    let (taken, lost) = (counted("messages").unwrap_or_default(), counted("lost").unwrap_or_default());
    if let Some(app) = app {
        ensure!(lost == 0 && taken == sent, "{taken} of {sent} frames were taken, {lost} were lost");
        app.stop().await;
    }
    for other in others {
        other.abort();
    }
    let rate = f64::from(u32::try_from(sent)?) / took.as_secs_f64();
    Ok(Figures { sent, taken, lost, rate, cores, memory: (early, late) })
}

fn cpu() -> Result<Duration> {
    cpu_of("self").context("/proc tells no CPU time")
}

fn site() -> Result<config::Site> {
    let mut text = "site = { name = 'bench' }\n".to_owned();
    for bus in 0..BUSES {
        write!(
            text,
            "[[connections]]\nname = 'b{bus}'\ndriver = 'can-virtual'\ninterface = 'bus{bus}'\n[[devices]]\nname = 'd{bus}'\n\
             connection = 'b{bus}'\n"
        )?;
        for message in 0..MESSAGES {
            for signal in 0..4 {
                write!(
                    text,
                    "[[devices.tags]]\nname = 'm{message}/s{signal}'\nframe = '{:03X}'\nbits = {{ start = {} }}\ntype = 'uint16'\n\
                     scale = 0.1\n",
                    0x100 + message,
                    signal * 16
                )?;
            }
        }
    }
    Ok(config::load_text(Path::new("config/bench.toml"), text, std::iter::empty::<(String, String)>())?)
}

/// Fills a bus: the next frame is there before the last one is over.
fn send(bus: &Bus, time: Duration, sent: &Arc<AtomicU64>) -> JoinHandle<Result<()>> {
    let (port, sent) = (bus.attach(), Arc::clone(sent));
    tokio::spawn(async move {
        let (sender, mut receiver) = port.split();
        // It takes what it sends, as every node does.
        let drain = tokio::spawn(async move {
            loop {
                receiver.recv().await;
            }
        });
        let begin = Instant::now();
        let mut number = 0_u64;
        while begin.elapsed() < time {
            for _ in 0..16 {
                let id = 0x100 + u16::try_from(number % u64::from(MESSAGES))?;
                sender.send(can::Frame::standard(id, number.to_le_bytes())).await?;
                number += 1;
            }
        }
        sent.fetch_add(number, Ordering::Relaxed);
        sleep(Duration::from_millis(100)).await;
        drain.abort();
        Ok(())
    })
}

fn listen(bus: &Bus) -> JoinHandle<()> {
    let mut port = bus.attach();
    tokio::spawn(async move {
        loop {
            port.recv().await;
        }
    })
}
