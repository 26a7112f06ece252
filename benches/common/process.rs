//! A process under measurement, killed when its [`Process`] is dropped.

use std::{
    collections::VecDeque,
    fs,
    net::SocketAddr,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    sync::oneshot,
    time::timeout,
};

/// Lines of its log that an error shows.
const TAIL: usize = 20;
/// Ticks of a process's CPU time in a second, on every Linux.
const TICKS: f64 = 100.0;

/// A running process whose log is read.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    log: Arc<Mutex<VecDeque<String>>>,
    address: Option<oneshot::Receiver<SocketAddr>>,
}

impl Process {
    /// Starts one; with `streams` its standard input and output can be taken.
    pub(crate) fn spawn(mut command: Command, streams: bool) -> Result<Self> {
        let stream = || if streams { Stdio::piped() } else { Stdio::null() };
        command.stdin(stream()).stdout(stream()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        let log = Arc::new(Mutex::new(VecDeque::new()));
        let (found, address) = oneshot::channel();
        let stderr = child.stderr.take().context("stderr is piped")?;
        tokio::spawn(read_log(stderr, Arc::clone(&log), found));
        Ok(Self { child, log, address: Some(address) })
    }

    /// Its standard streams, once.
    pub(crate) fn streams(&mut self) -> Result<(ChildStdin, ChildStdout)> {
        self.child.stdin.take().zip(self.child.stdout.take()).context("its streams are taken")
    }

    /// Where it says that it serves HTTP.
    pub(crate) async fn address(&mut self) -> Result<SocketAddr> {
        let address = self.address.take().context("its address was asked for already")?;
        match timeout(Duration::from_secs(10), address).await {
            Ok(Ok(address)) => Ok(address),
            _ => Err(self.explain(anyhow!("it says no address"))),
        }
    }

    /// The error with the end of its log.
    pub(crate) fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let tail = log.iter().map(String::as_str).collect::<Vec<_>>().join("\n  ");
        error.context(format!("its log ends:\n  {tail}"))
    }

    /// CPU time that it has taken so far, where /proc tells.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        cpu_of(&self.child.id()?.to_string())
    }

    /// A line of /proc/<pid>/status in KiB, such as `VmRSS`, where /proc tells.
    pub(crate) fn memory_kib(&self, line: &str) -> Option<u32> {
        memory_of(&self.child.id()?.to_string(), line)
    }

    /// Kills it and waits for its end.
    pub(crate) async fn kill(mut self) -> Result<()> {
        self.child.kill().await.context("killing a process")
    }
}

/// CPU time of a process, by its folder in /proc.
pub(crate) fn cpu_of(process: &str) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name may hold blanks; utime and stime are the 14th and 15th field, the 12th and 13th after it.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some(Duration::from_secs_f64((ticks()? + ticks()?) / TICKS))
}

/// A line of its status in KiB.
pub(crate) fn memory_of(process: &str, line: &str) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let rest = text.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(':'))?;
    rest.split_whitespace().next()?.parse().ok()
}

async fn read_log(
    stderr: ChildStderr,
    log: Arc<Mutex<VecDeque<String>>>,
    found: oneshot::Sender<SocketAddr>,
) {
    let mut found = Some(found);
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(address) = address_in(&line)
            && let Some(found) = found.take()
        {
            // Over stdio nobody asks for it.
            found.send(address).ok();
        }
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.len() == TAIL {
            log.pop_front();
        }
        log.push_back(line);
    }
}

fn address_in(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("serving MCP at http://")?;
    rest.split_once("/mcp")?.0.parse().ok()
}
