//! The real program on a site of its own, and calls of its tools over HTTP.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value as Json, json};
use tokio::{process::Command, time::sleep};

use crate::{
    common::{http::Client, process::Process},
    site,
};

/// How long a plant may take until all of it is good.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pauses between two calls, by turns: a prime number of milliseconds apart, so that they meet every phase of a scan.
const PAUSES: [u64; 3] = [7, 17, 29];

/// A running program and a session with it.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) process: Process,
    client: Client,
    next: u64,
}

/// What the program says of all its devices together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Told {
    pub(crate) good: u64,
    pub(crate) overruns: u64,
    /// Time-outs, exceptions, and answers that were dropped or spoilt.
    pub(crate) failures: u64,
}

impl Caller {
    /// Starts it and opens a session.
    pub(crate) async fn start(site: &Path) -> Result<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fieldbridge"));
        command.arg("serve").arg("--config").arg(site).args(["--http", "127.0.0.1:0"]);
        let mut process = Process::spawn(command, false)?;
        let address = process.address().await?;
        let mut client = Client::connect(address).await?;
        client.open_session().await?;
        Ok(Self { process, client, next: 0 })
    }

    /// Waits until so many tags are good.
    pub(crate) async fn become_good(&mut self, tags: u64) -> Result<()> {
        let since = Instant::now();
        loop {
            let good = self.told().await?.good;
            if good == tags {
                return Ok(());
            }
            if since.elapsed() > PATIENCE {
                let error = anyhow::anyhow!("{good} of {tags} tags became good");
                return Err(self.process.explain(error));
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// What it says of its devices.
    pub(crate) async fn told(&mut self) -> Result<Told> {
        let (mut told, mut arguments) = (Told::default(), json!({ "limit": 500 }));
        loop {
            let page = self.call("list_devices", &arguments).await?;
            for device in page.get("devices").and_then(Json::as_array).context("no devices")? {
                told.add(device)?;
            }
            match page.get("next_cursor") {
                Some(cursor) => arguments = json!({ "limit": 500, "cursor": cursor }),
                None => return Ok(told),
            }
        }
    }

    /// How long each of so many writes took until it was told to be confirmed: the first tag of each connection in turn.
    pub(crate) async fn writes(&mut self, calls: usize, connections: usize) -> Result<Vec<Duration>> {
        let mut took = Vec::new();
        for index in 0..calls {
            let value = format!("{}", 100 + index % 1000);
            let arguments = json!({ "tag": site::path(index % connections, 0), "value": value });
            pause(index).await;
            let start = Instant::now();
            let answer = self.call("write_tag", &arguments).await?;
            took.push(start.elapsed());
            let outcome = answer.get("outcome").and_then(Json::as_str);
            ensure!(outcome == Some("confirmed"), "a write was not confirmed: {answer}");
        }
        Ok(took)
    }

    /// How long each of so many reads of one tag took.
    pub(crate) async fn reads(&mut self, calls: usize, connections: usize) -> Result<Vec<Duration>> {
        let mut took = Vec::new();
        for index in 0..calls {
            let arguments = json!({ "tags": [site::path(index % connections, 1)] });
            pause(index).await;
            let start = Instant::now();
            let answer = self.call("read_tags", &arguments).await?;
            took.push(start.elapsed());
            ensure!(answer.to_string().contains(r#""quality":"good""#), "a tag is not good: {answer}");
        }
        Ok(took)
    }

    async fn call(&mut self, tool: &str, arguments: &Json) -> Result<Json> {
        self.next += 1;
        let request = json!({
            "jsonrpc": "2.0", "id": self.next, "method": "tools/call",
            "params": { "name": tool, "arguments": arguments }
        });
        let answer: Json = serde_json::from_str(self.client.exchange(&request.to_string()).await?)?;
        let content = answer.pointer("/result/structuredContent");
        content.cloned().with_context(|| format!("not an answer of {tool}: {answer}"))
    }
}

impl Told {
    fn add(&mut self, device: &Json) -> Result<()> {
        let of = |pointer: &str| device.pointer(pointer).and_then(Json::as_u64).context("a count is missing");
        self.good += of("/tags/good")?;
        self.overruns += of("/connection_counts/overruns")?;
        for count in ["timeouts", "exceptions", "dropped", "garbled"] {
            self.failures += of(&format!("/connection_counts/{count}"))?;
        }
        Ok(())
    }
}

async fn pause(index: usize) {
    let pause = PAUSES.get(index % PAUSES.len()).copied().unwrap_or_default();
    sleep(Duration::from_millis(pause)).await;
}
