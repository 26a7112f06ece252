//! The Modbus driver under load: what it decodes beside a bare client, a plant of 100,000 tags, writes, serial lines, and
//! how few requests scattered tags take.
//!
//! Prints, asserts no speed: other programs share the machine, so ratios within a run mean more than figures. Fails where
//! a value is wrong or not good, where a scan is left out, and where bytes are missing. `cargo bench --bench modbus`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its tables")]

mod bridge;
mod caller;
#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "other benchmarks use the rest")]
mod common;
mod devices;
mod fleet;
mod plant;
mod report;
mod scatter;
mod serial;
mod site;
mod soak;
mod throughput;

use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::{common::figures, devices::Devices, soak::Soak};

#[derive(Debug, Parser)]
struct Arguments {
    /// How often what stands beside one another is measured in turn.
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How long one such measurement lasts, after a warm-up of a third of it.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(50..=60_000))]
    window_ms: u32,
    /// How long each serial line is watched, in seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    line_seconds: u32,
    /// How long the plant is watched, in seconds.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Writes, and reads, that are timed.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    calls: u32,
    /// Only parts whose name contains this: saturation, pipelining, serial, scatter, idle, plant.
    #[arg(long, default_value = "")]
    only: String,
    /// What `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Is the simulated devices instead: the benchmark starts itself in this role.
    Devices(Devices),
    /// Watches the memory over a long time of trouble instead.
    Soak(Soak),
}

impl Arguments {
    fn window(&self) -> Duration {
        Duration::from_millis(self.window_ms.into())
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(Role::Devices(devices)) = arguments.role {
        return devices::serve(devices);
    }
    // As the program itself runs.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    println!("{}", figures::machine("bridge and simulated devices"));
    runtime.block_on(async {
        match arguments.role {
            Some(Role::Soak(soak)) => soak::run(soak).await,
            _ => measure(&arguments).await,
        }
    })
}

async fn measure(arguments: &Arguments) -> Result<()> {
    let chosen = |part: &str| part.contains(&arguments.only);
    if chosen("saturation") {
        throughput::saturation(arguments).await?;
    }
    if chosen("pipelining") {
        throughput::pipelining(arguments).await?;
    }
    if chosen("serial") {
        serial::run(arguments).await?;
    }
    if chosen("scatter") {
        scatter::run().await?;
    }
    if chosen("idle") {
        plant::idle(arguments).await?;
    }
    if chosen("plant") {
        plant::run(arguments).await?;
    }
    Ok(())
}
