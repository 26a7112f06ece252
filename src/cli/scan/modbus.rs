//! `scan modbus`: which units answer, what they are, and what can be read there.

mod draft;
mod ids;
mod progress;
mod report;

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, bail};
use clap::Args;
use tracing::{info, warn};

use self::progress::Display;
use super::{connection, file::Drafts};
use crate::{
    cli::{
        check,
        signals::{Signal, Signals},
    },
    config::{self, Connection, Endpoint, ModbusEndpoint, Transport},
    drivers::modbus::scan::{Scan, Scope},
    link::LinkError,
    profile::modbus::Table,
};

#[derive(Debug, Args)]
pub struct ModbusArgs {
    /// Name of a connection of the site, or without --config an address: tcp://host:port, tls://host:port?ca=ca.pem,
    /// rtu-tcp://host:port or `rtu:///dev/ttyUSB0?baud=19200&parity=even&stop_bits=1`
    #[arg(long, value_name = "WHAT")]
    pub connection: String,
    /// Site file that has the connection
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Unit ids, such as 1-10,17 [default: 1-247, and over TCP 255 and 0]
    #[arg(long, value_name = "IDS", value_parser = ids::units)]
    pub units: Option<ids::Units>,
    /// Tables to look at, in this order
    #[arg(long, value_name = "TABLES", value_parser = ids::table, value_delimiter = ',', default_value = "holding,input,coil,discrete")]
    pub tables: Vec<Table>,
    /// Zero-based addresses to look at in each table
    #[arg(long, value_name = "FIRST-LAST", value_parser = ids::addresses, default_value = "0-999")]
    pub addresses: ids::Addresses,
    /// Most requests a second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), default_value_t = 10)]
    pub rate: u32,
    /// How long an answer may take [default: the connection's, else 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(10..=60_000))]
    pub timeout_ms: Option<u64>,
    /// Write a draft of a profile here; of more units than one, one each, with its id in the name
    #[arg(long, value_name = "FILE")]
    pub draft: Option<PathBuf>,
}

pub(super) async fn run(args: ModbusArgs) -> anyhow::Result<ExitCode> {
    let mut endpoint = match &args.config {
        None => config::modbus_address(&args.connection)
            .context("--connection without --config takes an address")?,
        Some(file) => match config::load(file, std::env::vars_os()) {
            Ok(site) => configured(site.connections, &args.connection)?,
            Err(problems) => return Ok(check::refuse(&problems)),
        },
    };
    if let Some(timeout) = args.timeout_ms {
        endpoint.timeout = Duration::from_millis(timeout);
    }
    let scope = scope(&args, &endpoint.transport)?;
    // Nobody should find out after an hour that there is no place for the result.
    let drafts = args.draft.map(|file| Drafts::claim(file, "unit")).transpose()?;
    let address = endpoint.transport.address().to_owned();
    let mut scan = Scan::new(endpoint, &scope, args.rate);
    let end = watch(&mut scan, &address, &scope).await?;
    let survey = scan.survey();
    if let (Err(problem), 0) = (&end, survey.counts.requests) {
        return Err(problem.clone().into());
    }
    io::stdout().write_all(report::render(&survey, &address).as_bytes())?;
    if let Some(drafts) = drafts {
        for file in drafts.write(&draft::all(&survey))? {
            info!("wrote {}", file.display());
        }
    }
    if let Err(problem) = end {
        return Err(problem.into());
    }
    Ok(if survey.is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The network that a connection of the site leads to.
fn configured(connections: Vec<Connection>, name: &str) -> anyhow::Result<ModbusEndpoint> {
    match connection(connections, name)?.endpoint {
        Endpoint::Modbus(endpoint) => Ok(endpoint),
        Endpoint::Mqtt(_) | Endpoint::Can(_) => bail!("the connection `{name}` is not Modbus"),
    }
}

fn scope(args: &ModbusArgs, transport: &Transport) -> anyhow::Result<Scope> {
    let is_line = !matches!(transport, Transport::Tcp { .. });
    let units = match &args.units {
        // A device with a network socket of its own answers to 255, or to 0; on a line 0 is a broadcast.
        None if is_line => (1..=247).collect(),
        None => [255].into_iter().chain(0..=247).collect(),
        Some(units) if is_line && units.0.contains(&0) => {
            bail!("--units has 0, which is a broadcast on a line and is not answered: allowed is 1 to 255")
        }
        Some(units) => units.0.clone(),
    };
    let mut tables = Vec::new();
    for table in &args.tables {
        if !tables.contains(table) {
            tables.push(*table);
        }
    }
    Ok(Scope { units, tables, addresses: args.addresses.0 })
}

/// Scans to the end, or until a signal or a connection that cannot be had; tells meanwhile how far it is.
async fn watch(scan: &mut Scan, address: &str, scope: &Scope) -> anyhow::Result<Result<(), LinkError>> {
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    info!(
        "calling {} unit ids at {address} by up to {} reads each; where none answers that takes {} (fewer --units or \
         --tables or a lower --timeout-ms make it shorter)",
        scope.units.len(),
        scope.tables.len(),
        progress::span(scan.time_left()),
    );
    let mut display = Display::new();
    loop {
        let step = tokio::select! {
            biased;
            signal = signals.next() => match signal {
                Signal::Stop => {
                    display.clear();
                    warn!("stopped: what was found so far follows");
                    return Ok(Ok(()));
                }
                Signal::Reload => continue,
            },
            step = scan.step() => step,
        };
        match step {
            Ok(true) => display.show(scan),
            Ok(false) => break,
            Err(problem) => {
                display.clear();
                return Ok(Err(problem));
            }
        }
    }
    display.clear();
    Ok(Ok(()))
}
