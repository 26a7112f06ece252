//! Logs of candump, at their own pace or another.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::time::{Duration, Instant, sleep_until};

use super::bus::{Bus, Failure, Inflow, Received, Unsent};
use crate::codec::can::{Data, Frame, candump};

/// A log that is read as it goes.
pub(super) struct Replay {
    path: PathBuf,
    lines: Option<BufReader<File>>,
    /// 0 for as fast as can be.
    speed: f64,
    repeat: bool,
    /// When the first frame of this pass was due, and what the log says of it.
    begin: Option<(Instant, Duration)>,
    /// The next frame, and when it is due.
    next: Option<(Frame, Instant)>,
    /// When the last one was due: time that goes backwards stands still.
    last: Instant,
    line: String,
    skipped: u64,
    frames: u64,
}

/// Frames that are taken at once.
const BATCH: usize = 256;
/// Bytes of the longest line that is read.
const LONGEST: u64 = 4096;

impl Replay {
    pub(super) fn open(path: &Path, speed: f64, repeat: bool) -> io::Result<Self> {
        let lines = Some(BufReader::new(File::open(path)?));
        Ok(Self {
            path: path.to_owned(),
            lines,
            speed,
            repeat,
            begin: None,
            next: None,
            last: Instant::now(),
            line: String::new(),
            skipped: 0,
            frames: 0,
        })
    }

    /// Reads on to the next frame; `None` at the end.
    fn advance(&mut self) -> io::Result<Option<(Frame, Instant)>> {
        loop {
            let Some(lines) = &mut self.lines else { return Ok(None) };
            self.line.clear();
            let mut bytes = Vec::new();
            if io::Read::take(&mut *lines, LONGEST).read_until(b'\n', &mut bytes)? == 0 {
                if self.repeat && self.frames > 0 {
                    self.lines = Some(BufReader::new(File::open(&self.path)?));
                    (self.begin, self.frames) = (None, 0);
                    continue;
                }
                self.lines = None;
                return Ok(None);
            }
            let text = String::from_utf8_lossy(&bytes);
            match candump::parse(&text) {
                Ok(Some(entry)) => {
                    let (frame, time) = (entry.frame, entry.time);
                    self.frames += 1;
                    return Ok(Some((frame, self.due(time))));
                }
                Ok(None) => {}
                Err(_) => self.skipped += 1,
            }
        }
    }

    fn due(&mut self, time: Option<Duration>) -> Instant {
        let due = match time {
            Some(time) if self.speed > 0.0 => {
                let (begin, first) = *self.begin.get_or_insert((Instant::now(), time));
                begin + time.saturating_sub(first).div_f64(self.speed)
            }
            _ => self.last,
        };
        self.last = self.last.max(due);
        self.last
    }

    async fn flow(&mut self, inflow: &mut Inflow) -> Result<(), Failure> {
        loop {
            if self.next.is_none() {
                self.next = self.advance()?;
            }
            let Some((frame, due)) = self.next else { break };
            sleep_until(due).await;
            self.next = None;
            inflow.frames.push(Received { frame, at: Instant::now(), is_own: false });
            // What is due already comes with it.
            while inflow.frames.len() < BATCH {
                self.next = self.advance()?;
                match self.next {
                    Some((frame, due)) if due <= Instant::now() => {
                        inflow.frames.push(Received { frame, at: Instant::now(), is_own: false });
                        self.next = None;
                    }
                    _ => break,
                }
            }
            inflow.garbled += std::mem::take(&mut self.skipped);
            tokio::task::yield_now().await;
            return Ok(());
        }
        if self.frames < u64::MAX {
            self.frames = u64::MAX;
            inflow.garbled += std::mem::take(&mut self.skipped);
            inflow.news = Some(Some("the log is over".to_owned()));
            return Ok(());
        }
        std::future::pending().await
    }
}

impl Bus for Replay {
    fn receive<'a>(&'a mut self, inflow: &'a mut Inflow) -> BoxFuture<'a, Result<(), Failure>> {
        self.flow(inflow).boxed()
    }

    fn send(&mut self, _: &Data) -> Result<(), Unsent> {
        Err(Unsent::Unfit("nothing can be sent to a log".to_owned()))
    }

    fn has_echo(&self) -> bool {
        false
    }
}
