//! The MQTT driver beside mosquitto's own clients: how late an assistant hears of a message, a flood of messages, and what
//! it costs to find the tags of a topic.
//!
//! Prints, asserts no speed: other programs share the machine, so what stands beside one another means more than figures.
//! Fails where a value is wrong or lost. Needs mosquitto and its clients. `cargo bench --bench mqtt`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its tables")]

mod broker;
#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "other benchmarks use the rest")]
mod common;
mod flood;
mod latency;
mod matching;

use anyhow::Result;
use clap::Parser;

use crate::common::figures;

#[derive(Debug, Parser)]
struct Arguments {
    /// Messages whose way is timed.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    messages: u32,
    /// How long the flood lasts, in seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Messages a second of the flood.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1000..=1_000_000))]
    rate: u32,
    /// Tags of the flood.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tags: u32,
    /// Only parts whose name contains this: latency, flood, matching.
    #[arg(long, default_value = "")]
    only: String,
    /// What `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    // As the program itself runs.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    println!("{}", figures::machine("bridge, broker, publisher and subscribers"));
    runtime.block_on(async {
        let chosen = |part: &str| part.contains(&arguments.only);
        if chosen("latency") {
            latency::run(&arguments).await?;
        }
        if chosen("flood") {
            flood::run(&arguments).await?;
        }
        if chosen("matching") {
            matching::run();
        }
        Ok(())
    })
}
