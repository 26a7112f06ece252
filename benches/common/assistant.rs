//! The bridge as a process, and an assistant that speaks MCP to it over stdio and times what it hears.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{ChildStdin, Command},
    sync::mpsc,
    time::timeout,
};

use super::{handshake, process::Process};

const PROGRAM: &str = env!("CARGO_BIN_EXE_fieldbridge");
const PATIENCE: Duration = Duration::from_secs(20);

/// A bridge, and its client.
pub(crate) struct Assistant {
    pub(crate) process: Process,
    input: ChildStdin,
    messages: mpsc::UnboundedReceiver<(Instant, Value)>,
    /// What was heard while something else was waited for.
    updates: Vec<(Instant, String)>,
    number: u64,
}

impl Assistant {
    pub(crate) async fn start(site: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("site.toml");
        std::fs::write(&file, site)?;
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--stdio", "--config"]).arg(&file);
        let mut process = Process::spawn(command, true)?;
        let (input, output) = process.streams()?;
        let (sender, messages) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut lines = BufReader::with_capacity(1 << 16, output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let heard = Instant::now();
                let Ok(message) = serde_json::from_str(&line) else { break };
                if sender.send((heard, message)).is_err() {
                    break;
                }
            }
        });
        let mut assistant = Self { process, input, messages, updates: Vec::new(), number: 0 };
        assistant.write(&handshake::initialize()).await?;
        assistant.answer(0).await.map_err(|error| assistant.process.explain(error))?;
        assistant.write(handshake::INITIALIZED).await?;
        Ok(assistant)
    }

    async fn write(&mut self, line: &str) -> Result<()> {
        self.input.write_all(line.as_bytes()).await?;
        self.input.write_all(b"\n").await?;
        Ok(())
    }

    async fn answer(&mut self, number: u64) -> Result<Value> {
        loop {
            let (heard, message) =
                timeout(PATIENCE, self.messages.recv()).await?.context("the bridge has ended")?;
            if message.get("id").is_some_and(|id| *id == number) && message.get("method").is_none() {
                ensure!(message.get("error").is_none(), "{message}");
                return Ok(message.get("result").cloned().unwrap_or_default());
            }
            self.keep(heard, &message);
        }
    }

    fn keep(&mut self, heard: Instant, message: &Value) {
        if message.get("method").is_some_and(|method| method == "notifications/resources/updated") {
            let uri = message.pointer("/params/uri").and_then(Value::as_str).unwrap_or_default();
            self.updates.push((heard, uri.to_owned()));
        }
    }

    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Result<Value> {
        self.number += 1;
        let number = self.number;
        let request = json!({ "jsonrpc": "2.0", "id": number, "method": method, "params": params });
        self.write(&request.to_string()).await?;
        self.answer(number).await
    }

    pub(crate) async fn subscribe(&mut self, tag: &str) -> Result<()> {
        let uri = format!("fieldbridge://tags/{tag}");
        self.request("resources/subscribe", json!({ "uri": uri })).await.map(|_| ())
    }

    /// The rows of tags.
    pub(crate) async fn read(&mut self, tags: &[String]) -> Result<Vec<Value>> {
        let mut rows = Vec::new();
        for some in tags.chunks(100) {
            let params = json!({ "name": "read_tags", "arguments": { "tags": some } });
            let result = self.request("tools/call", params).await?;
            let part = result.pointer("/structuredContent/tags").and_then(Value::as_array).context("rows")?;
            rows.extend(part.iter().cloned());
        }
        Ok(rows)
    }

    /// The next notification, and when it came.
    pub(crate) async fn update(&mut self) -> Result<(Instant, String)> {
        loop {
            if !self.updates.is_empty() {
                return Ok(self.updates.remove(0));
            }
            let (heard, message) =
                timeout(PATIENCE, self.messages.recv()).await?.context("the bridge has ended")?;
            self.keep(heard, &message);
        }
    }

    /// How many notifications came since the last question.
    pub(crate) fn drain(&mut self) -> usize {
        while let Ok((heard, message)) = self.messages.try_recv() {
            self.keep(heard, &message);
        }
        self.updates.drain(..).count()
    }
}
