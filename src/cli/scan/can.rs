//! `scan can`: which frames there are on a bus, and which messages of DBC files they are.

mod draft;
mod names;
mod report;

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, bail};
use clap::Args;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use self::names::Names;
use super::{connection, file::Drafts};
use crate::{
    cli::{
        check,
        signals::{Signal, Signals},
    },
    config::{self, Adapter, CanEndpoint, Connection, Endpoint},
    drivers::can::scan::Scan,
    profile::dbc::Dbc,
};

#[derive(Debug, Args)]
pub struct CanArgs {
    /// Name of a connection of the site, or without --config an address: `socketcan://can0`,
    /// `slcan:///dev/ttyACM0?bitrate=500000`, `slcan-tcp://host:port`, `socketcand://host:port/can0`, or a log:
    /// `candump://FILE`
    #[arg(long, value_name = "WHAT")]
    pub connection: String,
    /// Site file that has the connection
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// DBC file whose messages are looked for; can be given more than once
    #[arg(long = "dbc", value_name = "FILE")]
    pub dbcs: Vec<PathBuf>,
    /// How long to listen
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400), default_value_t = 10)]
    pub seconds: u64,
    /// Most identifiers to remember
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000), default_value_t = 4096)]
    pub ids: u32,
    /// Write a draft of a profile here
    #[arg(long, value_name = "FILE")]
    pub draft: Option<PathBuf>,
}

pub(super) async fn run(args: CanArgs) -> anyhow::Result<ExitCode> {
    let endpoint = match &args.config {
        None => {
            config::can_address(&args.connection).context("--connection without --config takes an address")?
        }
        Some(file) => match config::load(file, std::env::vars_os()) {
            Ok(site) => configured(site.connections, &args.connection)?,
            Err(problems) => return Ok(check::refuse(&problems)),
        },
    };
    let mut dbcs = Vec::new();
    for path in &args.dbcs {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let dbc = Dbc::parse(&bytes).with_context(|| path.display().to_string())?;
        if !dbc.warnings.is_empty() {
            warn!("{}: {}", path.display(), check::count(dbc.warnings.len(), "warning"));
        }
        dbcs.push((path.clone(), dbc));
    }
    let names = Names::new(&dbcs);
    // Nobody should find out at the end that there is no place for the result.
    let drafts = args.draft.map(|file| Drafts::claim(file, "bus")).transpose()?;
    let (address, is_log) = (endpoint.address(), matches!(endpoint.adapter, Adapter::Replay { .. }));
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    let mut scan = Scan::open(endpoint, usize::try_from(args.ids).unwrap_or(usize::MAX)).await?;
    info!("listening on {address} for {} s; Ctrl-C ends it sooner", args.seconds);
    let started = Instant::now();
    let end = async {
        let over = sleep(Duration::from_secs(args.seconds));
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return,
                signal = signals.next() => match signal {
                    Signal::Stop => return,
                    Signal::Reload => {}
                },
            }
        }
    };
    let end = scan.listen(end).await;
    let heard = scan.heard();
    if let (Err(problem), 0) = (&end, heard.frames) {
        return Err(problem.clone().into());
    }
    // A log has its own time.
    let time = if is_log { heard.span().unwrap_or_default() } else { started.elapsed() };
    io::stdout().write_all(report::render(heard, &names, time).as_bytes())?;
    if let Some(drafts) = drafts {
        for file in drafts.write(&[(String::new(), draft::render(heard, &names))])? {
            info!("wrote {}", file.display());
        }
    }
    end?;
    Ok(ExitCode::SUCCESS)
}

/// The bus that a connection of the site leads to.
fn configured(connections: Vec<Connection>, name: &str) -> anyhow::Result<CanEndpoint> {
    match connection(connections, name)?.endpoint {
        Endpoint::Can(endpoint) => Ok(endpoint),
        Endpoint::Modbus(_) | Endpoint::Mqtt(_) => bail!("the connection `{name}` is not CAN"),
    }
}
