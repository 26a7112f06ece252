//! `read_tags` of one tag beside a bare echo tool of the same SDK, in one run: what the bridge costs over its SDK.
//! And how soon after its start a site of 1,000 tags answers, and in how much memory.
//!
//! Prints, asserts no speed: other programs share the machine, so only the ratio within a run means much. Fails where
//! an answer is not a success. `cargo bench --bench mcp`; with `-- --twin` the echo is measured beside itself, which
//! shows the noise of the machine.

#![expect(clippy::print_stdout, reason = "a benchmark prints its tables")]

mod calls;
#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "other benchmarks use the rest")]
mod common;
mod echo;
mod http;
mod load;
mod plant;
mod report;
mod server;
mod speed;
mod start;
mod stdio;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::{
    common::figures,
    plant::{Plant, TAGS},
    server::Subject,
};

#[derive(Debug, Parser)]
struct Arguments {
    /// Measures the echo beside itself.
    #[arg(long)]
    twin: bool,
    /// How often the two are started.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    pairs: u32,
    /// How often the two are then measured in turn.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How long one measurement lasts, after a warm-up of a third of it.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u32).range(30..=10_000))]
    window_ms: u32,
    /// Only comparisons whose name contains this.
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
    /// Serves the echo tool instead: the benchmark starts itself in this role.
    Echo {
        #[arg(value_enum)]
        transport: echo::Transport,
        #[arg(long)]
        lean: bool,
    },
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match arguments.role {
        Some(Role::Echo { transport, lean }) => echo::serve(transport, lean),
        None => measure(&arguments),
    }
}

fn measure(arguments: &Arguments) -> Result<()> {
    let subject = if arguments.twin { Subject::Echo } else { Subject::Fieldbridge };
    let plant = Plant::start()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    println!("{}", figures::machine("client, simulated PLC and server"));
    println!(
        "fieldbridge serves {TAGS} tags of a simulated PLC that stays good and is polled once a second."
    );
    if arguments.twin {
        println!(
            "TWIN RUN: in the place of fieldbridge stands a second echo server; every ratio should be 1.00."
        );
    }
    runtime.block_on(async {
        speed::run(subject, arguments, &plant).await?;
        start::run(subject, arguments, &plant).await
    })
}
