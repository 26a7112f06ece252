//! Logs on stderr, for people or as JSON lines. A reader that does not read never blocks the program.

use std::io::{self, IsTerminal};

use clap::{Args, ValueEnum};
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{EnvFilter, fmt};

/// Lines that may wait for a slow reader before they are dropped.
const LINES: usize = 4096;

#[derive(Debug, Args)]
pub struct LogArgs {
    /// How logs look on stderr
    #[arg(long, global = true, value_enum, default_value_t)]
    log_format: Format,
    /// Log what each request does (`RUST_LOG` says it more finely)
    #[arg(long, short, global = true)]
    verbose: bool,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Format {
    #[default]
    Human,
    Json,
}

/// Starts logging; what still waits is written when the guard is dropped.
#[must_use = "dropping the guard ends logging"]
pub fn init(args: &LogArgs) -> WorkerGuard {
    let (writer, guard) = NonBlockingBuilder::default().buffered_lines_limit(LINES).finish(io::stderr());
    let level = if args.verbose { "info,fieldbridge=debug" } else { "info,rmcp=warn" };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let builder = fmt().with_env_filter(filter).with_writer(writer);
    match args.log_format {
        Format::Human => builder.with_ansi(io::stderr().is_terminal()).with_target(false).init(),
        Format::Json => builder.json().flatten_event(true).init(),
    }
    guard
}
