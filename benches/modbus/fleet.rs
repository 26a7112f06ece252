//! The benchmark's side of its simulated devices: starts them, knows their ports, asks for their counts.

use anyhow::{Context, Result, bail};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{ChildStdin, ChildStdout, Command},
};

use crate::{
    common::process::Process,
    devices::{Counts, Devices},
};

/// Running devices.
#[derive(Debug)]
pub(crate) struct Fleet {
    process: Process,
    ports: Vec<u16>,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

impl Fleet {
    pub(crate) async fn start(devices: Devices) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let Devices { count, delay_us, unreachable, answers } = devices;
        command.args(["devices", "--count", &count.to_string(), "--delay-us", &delay_us.to_string()]);
        if unreachable {
            command.arg("--unreachable");
        }
        if let Some(answers) = answers {
            command.args(["--answers", &answers.to_string()]);
        }
        let mut process = Process::spawn(command, true)?;
        let (to, from) = process.streams()?;
        let mut fleet = Self { process, ports: Vec::new(), to, from: BufReader::new(from).lines() };
        let ports = fleet.line().await?;
        fleet.ports = ports.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        Ok(fleet)
    }

    /// Where each device listens.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = String> {
        self.ports.iter().map(|port| format!("127.0.0.1:{port}"))
    }

    pub(crate) fn address(&self) -> Result<String> {
        self.addresses().next().context("no device")
    }

    /// What went over their wires so far.
    pub(crate) async fn counts(&mut self) -> Result<Counts> {
        self.to.write_all(b"\n").await?;
        Counts::parse(&self.line().await?)
    }

    pub(crate) async fn stop(self) -> Result<()> {
        self.process.kill().await
    }

    async fn line(&mut self) -> Result<String> {
        match self.from.next_line().await {
            Ok(Some(line)) => Ok(line),
            Ok(None) => bail!(self.process.explain(anyhow::anyhow!("the simulated devices ended"))),
            Err(error) => Err(error.into()),
        }
    }
}
