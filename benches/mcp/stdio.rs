//! A client over the server's standard streams: JSON lines, any number of calls outstanding.

use std::{collections::HashMap, time::Instant};

use anyhow::{Context, Result, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{ChildStdin, ChildStdout},
};

use crate::{
    calls::Calls,
    common::{
        handshake::{INITIALIZED, initialize},
        process::Process,
    },
    load::{Samples, Window},
    plant::tag,
};

/// One client.
#[derive(Debug)]
pub(crate) struct Client {
    to: ChildStdin,
    from: ChildStdout,
    input: Vec<u8>,
    /// Where the first line not yet taken begins in `input`.
    taken: usize,
}

impl Client {
    /// Takes the server's streams and says nothing yet.
    pub(crate) fn new(process: &mut Process) -> Result<Self> {
        let (to, from) = process.streams()?;
        Ok(Self { to, from, input: Vec::with_capacity(1 << 16), taken: 0 })
    }

    /// Opens a legacy session.
    pub(crate) async fn open(&mut self) -> Result<()> {
        let answer = self.exchange(&initialize()).await?;
        ensure!(answer.contains(r#""protocolVersion":"2025-11-25""#), "not initialized: {answer}");
        self.to.write_all(format!("{INITIALIZED}\n").as_bytes()).await?;
        Ok(())
    }

    /// Sends a request with no other outstanding, and returns the next line.
    pub(crate) async fn exchange(&mut self, request: &str) -> Result<String> {
        self.to.write_all(format!("{request}\n").as_bytes()).await?;
        loop {
            if let Some(line) = self.line()? {
                return Ok(line.to_owned());
            }
            self.more().await?;
        }
    }

    /// Keeps `outstanding` calls on their way until the window ends, then takes the last answers.
    pub(crate) async fn load(&mut self, calls: Calls, outstanding: usize, window: Window) -> Result<Samples> {
        let mut samples = Samples::default();
        let mut sent = HashMap::with_capacity(outstanding);
        let mut output = Vec::with_capacity(1 << 14);
        let mut next = 0_u64;
        loop {
            output.clear();
            while sent.len() < outstanding && window.goes_on(samples.all() + sent.len()) {
                next += 1;
                let request = calls.request(next, &tag(usize::try_from(next)?));
                output.extend_from_slice(request.as_bytes());
                output.push(b'\n');
                sent.insert(next, Instant::now());
            }
            if sent.is_empty() {
                return Ok(samples);
            }
            self.to.write_all(&output).await?;
            self.more().await?;
            while let Some(line) = self.line()? {
                let length = line.len();
                let id = calls.check(line)?;
                let since = sent.remove(&id).context("an answer to no call")?;
                samples.add(window, since, length);
            }
        }
    }

    /// The next whole line that has come.
    fn line(&mut self) -> Result<Option<&str>> {
        let rest = self.input.get(self.taken..).unwrap_or_default();
        let Some(length) = rest.iter().position(|&byte| byte == b'\n') else { return Ok(None) };
        self.taken += length + 1;
        Ok(Some(std::str::from_utf8(rest.get(..length).unwrap_or_default())?))
    }

    async fn more(&mut self) -> Result<()> {
        self.input.drain(..self.taken);
        self.taken = 0;
        let read = self.from.read_buf(&mut self.input).await?;
        ensure!(read > 0, "the server closed its output");
        Ok(())
    }
}
