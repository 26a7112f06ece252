//! What one measurement yields, and when it ends.

use std::time::{Duration, Instant};

/// Most calls of one client in one measurement: bounds what it keeps.
const MOST: usize = 1_000_000;

/// When answers count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    start: Instant,
    end: Instant,
}

impl Window {
    /// Begins after a warm-up of a third of its length.
    pub(crate) fn of(length: Duration) -> Self {
        let start = Instant::now() + length / 3;
        Self { start, end: start + length }
    }

    /// Whether another call may be sent after so many.
    pub(crate) fn goes_on(self, calls: usize) -> bool {
        calls < MOST && Instant::now() < self.end
    }

    fn seconds(self) -> f64 {
        (self.end - self.start).as_secs_f64()
    }
}

/// Answers of one client, or of several.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    latencies: Vec<Duration>,
    outside: usize,
    /// Length of the last answer in bytes.
    length: usize,
}

/// Numbers of one measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    /// All of them, those in the warm-up too.
    pub(crate) calls: f64,
    pub(crate) median_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) per_second: f64,
    /// CPU time of the server a call.
    pub(crate) cpu_us: f64,
    pub(crate) answer_bytes: f64,
}

impl Samples {
    /// Takes an answer that has just come.
    pub(crate) fn add(&mut self, window: Window, sent: Instant, length: usize) {
        let now = Instant::now();
        self.length = length;
        if window.start <= now && now <= window.end {
            self.latencies.push(now - sent);
        } else {
            self.outside += 1;
        }
    }

    /// Those of two clients.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.latencies.extend(other.latencies);
        self.outside += other.outside;
        self.length = other.length;
        self
    }

    /// All answers, those outside the window too.
    pub(crate) fn all(&self) -> usize {
        self.latencies.len() + self.outside
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of calls are far below 2^52")]
    pub(crate) fn numbers(mut self, window: Window, cpu: Option<Duration>) -> Numbers {
        self.latencies.sort_unstable();
        let at = |part: usize| {
            let index = self.latencies.len().saturating_sub(1) * part / 100;
            self.latencies.get(index).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e6)
        };
        let calls = self.all() as f64;
        Numbers {
            calls,
            median_us: at(50),
            p99_us: at(99),
            per_second: self.latencies.len() as f64 / window.seconds(),
            cpu_us: cpu.map_or(f64::NAN, |cpu| cpu.as_secs_f64() * 1e6 / calls),
            answer_bytes: self.length as f64,
        }
    }
}
