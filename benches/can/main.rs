//! The CAN driver: decoding beside cantools, four full buses, and how late an assistant hears of a frame.
//!
//! Prints, asserts no speed: other programs share the machine, so what stands beside one another means more than figures.
//! Fails where a frame is lost or a value wrong. Decoding is set beside cantools where a Python has it, `FIELDBRIDGE_PYTHON`
//! or the one of the interop tests. `cargo bench --bench can`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its tables")]

#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "other benchmarks use the rest")]
mod common;
mod decode;
mod latency;
mod load;

use anyhow::Result;
use clap::Parser;

use crate::common::figures;

#[derive(Debug, Parser)]
struct Arguments {
    /// Frames that are decoded.
    #[arg(long, default_value_t = 300_000, value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    frames: u32,
    /// How long the buses are full, in seconds.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Frames whose way is timed.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    messages: u32,
    /// Only parts whose name contains this: decode, load, latency.
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
    println!("{}", figures::machine("bridge, buses, adapters and assistants"));
    runtime.block_on(async {
        let chosen = |part: &str| part.contains(&arguments.only);
        if chosen("decode") {
            decode::run(&arguments).await?;
        }
        if chosen("load") {
            load::run(&arguments).await?;
        }
        if chosen("latency") {
            latency::run(&arguments).await?;
        }
        Ok(())
    })
}
