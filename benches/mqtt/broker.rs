//! A mosquitto of the benchmark's own, and its clients.

use std::{net::TcpListener, time::Duration};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::{net::TcpStream, process::Command, time::sleep};

use crate::common::process::Process;

/// A running broker.
pub(crate) struct Broker {
    _process: Process,
    _folder: TempDir,
    pub(crate) port: u16,
}

impl Broker {
    pub(crate) async fn start() -> Result<Self> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("mosquitto.conf");
        // What a subscriber does not take at once waits: nothing is to be lost at the broker.
        let text = format!(
            "listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nset_tcp_nodelay true\n"
        );
        std::fs::write(&file, text)?;
        let mut command = command("mosquitto");
        command.arg("-c").arg(&file);
        let process = Process::spawn(command, false).context("mosquitto and mosquitto-clients are needed")?;
        for _ in 0..1000 {
            if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                return Ok(Self { _process: process, _folder: folder, port });
            }
            sleep(Duration::from_millis(5)).await;
        }
        bail!("mosquitto does not listen at port {port}")
    }

    /// One of its clients, on a topic with QoS 1.
    pub(crate) fn client(&self, name: &str, topic: &str) -> Command {
        let mut command = command(name);
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-q", "1", "-t", topic]);
        command
    }
}

/// A program, also where only root finds it.
fn command(name: &str) -> Command {
    let mut command = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin"));
    command
}
