//! The servers under measurement.

use anyhow::Result;
use tokio::process::Command;

use crate::{common::process::Process, plant::Plant};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    Fieldbridge,
    Echo,
    /// The echo as fast as the SDK is.
    Lean,
}

/// How a client reaches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Stdio,
    Http,
}

/// Starts one.
pub(crate) fn spawn(subject: Subject, wire: Wire, plant: &Plant) -> Result<Process> {
    Process::spawn(command(subject, wire, plant)?, wire == Wire::Stdio)
}

fn command(subject: Subject, wire: Wire, plant: &Plant) -> Result<Command> {
    if subject == Subject::Fieldbridge {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fieldbridge"));
        command.arg("serve").arg("--config").arg(plant.site());
        match wire {
            Wire::Stdio => command.arg("--stdio"),
            Wire::Http => command.args(["--http", "127.0.0.1:0"]),
        };
        return Ok(command);
    }
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("echo").arg(match wire {
        Wire::Stdio => "stdio",
        Wire::Http => "http",
    });
    if subject == Subject::Lean {
        command.arg("--lean");
    }
    Ok(command)
}
