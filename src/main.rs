//! Arguments, logging, runtime, exit code.

use std::process::ExitCode;

use clap::Parser;
use fieldbridge::cli::{self, Cli};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let _log = cli::log::init(&cli.log);
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            cli::report(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(cli.command.run());
    // A blocking read of stdin must not hold up the exit.
    runtime.shutdown_background();
    code
}
