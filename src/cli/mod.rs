//! The command line: one file a command. stdout carries protocol, or the result that a command was asked for.

pub mod check;
#[cfg(feature = "simulators")]
mod demo;
pub mod log;
mod replay;
pub mod scan;
mod serve;
mod signals;
#[cfg(feature = "simulators")]
mod simulate;

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand};

use crate::config;

/// Serves industrial devices (Modbus, MQTT, CAN) to AI assistants over the Model Context Protocol.
#[derive(Debug, Parser)]
#[command(version, about, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    pub log: log::LogArgs,
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the devices of a site over MCP
    Serve(ServeArgs),
    /// Serve a simulated boiler house: everything works, nothing can break
    #[cfg(feature = "simulators")]
    Demo(DemoArgs),
    /// Check a site file and the profiles it uses, and show what they mean
    Check(CheckArgs),
    /// Serve the CAN buses of a site from a log instead of the plant, at its own pace or faster
    Replay(ReplayArgs),
    /// Look around on a network of devices: what answers, and what can be read there
    Scan(scan::ScanArgs),
    /// Run the simulators alone, so that other software can connect
    #[cfg(feature = "simulators")]
    Simulate(Box<SimulateArgs>),
}

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Site file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Serve Streamable HTTP at this loopback address, whatever the site file says
    #[arg(long, value_name = "ADDR", value_parser = config::http_address)]
    pub http: Option<SocketAddr>,
    /// Serve stdio as well (without HTTP, stdio is served anyway)
    #[arg(long)]
    pub stdio: bool,
}

#[cfg(feature = "simulators")]
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Serve stdio, and HTTP only where --http is given as well
    #[arg(long)]
    pub stdio: bool,
    /// Serve Streamable HTTP at this loopback address [default: 127.0.0.1:8910]
    #[arg(long, value_name = "ADDR", value_parser = config::http_address)]
    pub http: Option<SocketAddr>,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Site file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
}

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Log of candump
    #[arg(value_name = "LOG")]
    pub log: PathBuf,
    /// Site file; of its connections only CAN buses are served, and nothing can be written
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// How fast: 1 is the log's own pace, 10 ten times as fast, 0 as fast as can be
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    pub speed: f64,
    /// Begin again when the log is over
    #[arg(long)]
    pub repeat: bool,
    /// Serve Streamable HTTP at this loopback address, whatever the site file says
    #[arg(long, value_name = "ADDR", value_parser = config::http_address)]
    pub http: Option<SocketAddr>,
    /// Serve stdio as well (without HTTP, stdio is served anyway)
    #[arg(long)]
    pub stdio: bool,
}

#[cfg(feature = "simulators")]
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// Where the PLC of the boiler house listens for Modbus TCP; without any of these options at 127.0.0.1:5020, the
    /// energy meter is on a line as with --modbus-rtu, the rooms are at a broker at 127.0.0.1:18830, and the
    /// pump drive is on a CAN bus that a socketcand at 127.0.0.1:29536 serves
    #[arg(long, value_name = "ADDR")]
    pub modbus: Option<SocketAddr>,
    /// Where the PLC listens for Modbus TCP over TLS, with certificates on both sides
    #[arg(long, value_name = "ADDR", requires = "tls_dir")]
    pub modbus_tls: Option<SocketAddr>,
    /// Folder of the certificates and keys for TLS; an empty one gets them
    #[arg(long, value_name = "DIR", requires = "modbus_tls")]
    pub tls_dir: Option<PathBuf>,
    /// Where the energy meter listens for RTU frames over TCP, as behind a serial server
    #[arg(long, value_name = "ADDR")]
    pub modbus_rtu_tcp: Option<SocketAddr>,
    /// Path of the serial port that the energy meter hangs on, a link that is made [default: /tmp/fieldbridge-meter]
    #[cfg(unix)]
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = simulate::PORT)]
    pub modbus_rtu: Option<PathBuf>,
    /// Speed of the serial line, in characters of 11 bits; 0 is no pace
    #[cfg(unix)]
    #[arg(long, value_name = "BAUD", default_value_t = 19_200, requires = "modbus_rtu")]
    pub baud: u32,
    /// How long the meter on the serial line takes to answer
    #[cfg(unix)]
    #[arg(long, value_name = "MS", default_value_t = 5, requires = "modbus_rtu")]
    pub turnaround_ms: u64,
    /// What goes wrong with every answer, such as delay-answers=800ms; several apply in their order (--help lists all)
    #[arg(long = "fault", value_name = "FAULT", long_help = simulate::fault_help())]
    pub faults: Vec<simulators::modbus::Fault>,
    #[command(flatten)]
    pub mqtt: simulate::MqttArgs,
    #[command(flatten)]
    pub can: simulate::CanArgs,
}

impl Command {
    /// Runs the command to its end.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Serve(args) => serve::run(args).await,
            #[cfg(feature = "simulators")]
            Self::Demo(args) => demo::run(args).await,
            Self::Check(args) => check::run(&args),
            Self::Replay(args) => replay::run(args).await,
            Self::Scan(args) => scan::run(args).await,
            #[cfg(feature = "simulators")]
            Self::Simulate(args) => simulate::run(*args).await,
        }
    }
}

/// Prints an error and its causes on stderr.
#[expect(clippy::print_stderr, reason = "the last word of a program that fails")]
pub fn report(error: &anyhow::Error) {
    eprintln!("fieldbridge: {error:#}");
}
