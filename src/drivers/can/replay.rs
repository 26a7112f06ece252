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
    /// The only bus of it that is wanted.
    channel: Option<String>,
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
    skipped: u64,
    /// Frames of this pass.
    frames: u64,
    /// Whether that it is over was told.
    is_over: bool,
}

/// Frames that are taken at once.
const BATCH: usize = 256;
/// Between the last frame of a log and its first one again.
const SEAM: Duration = Duration::from_millis(10);
/// Bytes of the longest line that is read.
const LONGEST: u64 = 4096;

impl Replay {
    pub(super) fn open(path: &Path, channel: Option<String>, speed: f64, repeat: bool) -> io::Result<Self> {
        let lines = Some(BufReader::new(File::open(path)?));
        Ok(Self {
            path: path.to_owned(),
            channel,
            lines,
            speed,
            repeat,
            begin: None,
            next: None,
            last: Instant::now(),
            skipped: 0,
            frames: 0,
            is_over: false,
        })
    }

    /// Reads on to the next frame; `None` at the end.
    fn advance(&mut self) -> io::Result<Option<(Frame, Instant)>> {
        loop {
            let Some(lines) = &mut self.lines else { return Ok(None) };
            let mut bytes = Vec::new();
            if io::Read::take(&mut *lines, LONGEST).read_until(b'\n', &mut bytes)? == 0 {
                if self.repeat && self.frames > 0 {
                    self.lines = Some(BufReader::new(File::open(&self.path)?));
                    (self.begin, self.frames) = (None, 0);
                    self.last = self.last.max(Instant::now()) + SEAM;
                    continue;
                }
                self.lines = None;
                return Ok(None);
            }
            let text = String::from_utf8_lossy(&bytes);
            match candump::parse(&text) {
                Ok(Some(entry))
                    if self.channel.as_deref().is_some_and(|channel| channel != entry.channel) => {}
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

    /// When a frame is due; as fast as can be, when it would be at its own pace.
    fn due(&mut self, time: Option<Duration>) -> Instant {
        let due = time.map(|time| {
            let (begin, first) = *self.begin.get_or_insert((self.last.max(Instant::now()), time));
            begin + time.saturating_sub(first).div_f64(if self.speed > 0.0 { self.speed } else { 1.0 })
        });
        self.last = self.last.max(due.unwrap_or(self.last));
        self.last
    }

    fn take(&self, (frame, due): (Frame, Instant), inflow: &mut Inflow) {
        let at = if self.speed > 0.0 { Instant::now() } else { due };
        inflow.frames.push(Received { frame, at, is_own: false, lost: 0 });
    }

    async fn flow(&mut self, inflow: &mut Inflow) -> Result<(), Failure> {
        if self.next.is_none() {
            self.next = self.advance()?;
        }
        let Some(next) = self.next else {
            if std::mem::replace(&mut self.is_over, true) {
                std::future::pending::<()>().await;
            }
            inflow.garbled += std::mem::take(&mut self.skipped);
            inflow.news = Some("the log is over".to_owned());
            return Ok(());
        };
        if self.speed > 0.0 {
            sleep_until(next.1).await;
        }
        self.next = None;
        self.take(next, inflow);
        // What is due already comes with it.
        while inflow.frames.len() < BATCH {
            self.next = self.advance()?;
            match self.next {
                Some(next) if self.speed <= 0.0 || next.1 <= Instant::now() => {
                    self.take(next, inflow);
                    self.next = None;
                }
                _ => break,
            }
        }
        inflow.garbled += std::mem::take(&mut self.skipped);
        // A log that is read as fast as can be leaves others their turn.
        tokio::task::yield_now().await;
        Ok(())
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
