//! Logs on stderr, for people or as JSON lines.
//!
//! A reader that does not read never blocks the program: lines wait in a bounded queue, and where that is full they are
//! counted, and the count is told as soon as there is room again.

use std::{
    io::{self, IsTerminal, Write},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use clap::{Args, ValueEnum};
use serde_json::json;
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{EnvFilter, fmt::MakeWriter};

/// Lines that may wait for a slow reader before they are dropped.
const LINES: usize = 16_384;

#[derive(Debug, Args)]
pub struct LogArgs {
    /// How logs look on stderr
    #[arg(long, global = true, value_enum, default_value_t)]
    log_format: Format,
    /// Log what each request does (`RUST_LOG` says it more finely)
    #[arg(long, short, global = true)]
    verbose: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    #[default]
    Human,
    Json,
}

/// Starts logging; what still waits is written when the guard is dropped.
#[must_use = "dropping the guard ends logging"]
pub fn init(args: &LogArgs) -> WorkerGuard {
    let (queue, guard) = NonBlockingBuilder::default().buffered_lines_limit(LINES).finish(io::stderr());
    let writer = Lines { queue, told: Arc::default(), own: Arc::default(), format: args.log_format };
    let level = if args.verbose {
        "info,fieldbridge=debug,rmcp=error,mqtt5=error"
    } else {
        "info,rmcp=error,mqtt5=error"
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    match args.log_format {
        Format::Human => builder.with_ansi(io::stderr().is_terminal()).with_target(false).init(),
        Format::Json => builder.json().flatten_event(true).init(),
    }
    guard
}

/// The queue to stderr, which tells what it had to drop.
#[derive(Debug, Clone)]
struct Lines {
    queue: NonBlocking,
    /// How many dropped lines were told of.
    told: Arc<AtomicUsize>,
    /// How many dropped lines were our own notices.
    own: Arc<AtomicUsize>,
    format: Format,
}

impl Lines {
    fn tell_lost(&mut self) -> io::Result<()> {
        let dropped = self.queue.error_counter();
        let total = dropped.dropped_lines();
        let (lost, told) = (total - self.own.load(Ordering::Acquire), self.told.load(Ordering::Acquire));
        if lost == told
            || self.told.compare_exchange(told, lost, Ordering::AcqRel, Ordering::Acquire).is_err()
        {
            return Ok(());
        }
        let text = format!("{} log lines were lost, since stderr was not read", lost - told);
        let line = match self.format {
            Format::Human => format!("WARN {text}\n"),
            Format::Json => {
                json!({ "level": "WARN", "message": text, "lost_lines": lost - told }).to_string() + "\n"
            }
        };
        self.queue.write_all(line.as_bytes())?;
        if dropped.dropped_lines() > total {
            // No room for this one either: tell of all of them later, but not of this one.
            self.own.fetch_add(1, Ordering::AcqRel);
            self.told.store(told, Ordering::Release);
        }
        Ok(())
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.tell_lost()?;
        self.queue.write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.queue.flush()
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::sync::mpsc;

    use super::*;

    /// Writes nothing until it is let go.
    struct Held(mpsc::Receiver<()>, mpsc::Sender<String>);

    impl Write for Held {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            // Until the test has let go of the other end: then everything goes through.
            while self.0.recv().is_ok() {}
            self.1.send(String::from_utf8_lossy(line).into_owned()).unwrap();
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_found_no_room_are_told_of() {
        let (hold, held) = mpsc::channel();
        let (sender, seen) = mpsc::channel();
        let (queue, guard) = NonBlockingBuilder::default().buffered_lines_limit(4).finish(Held(held, sender));
        let mut lines = Lines { queue, told: Arc::default(), own: Arc::default(), format: Format::Human };
        for number in 0..20 {
            lines.write_all(format!("{number}\n").as_bytes()).unwrap();
        }
        drop(hold);
        // The queue empties by itself.
        let first = seen.recv().unwrap();
        assert_eq!(first, "0\n");
        let (mut told, mut lost) = (0, usize::MAX);
        while told != lost {
            lines.write_all(b"more\n").unwrap();
            let line = seen.recv().unwrap();
            if let Some((text, _)) = line.split_once(" log lines were lost") {
                told += text.split(' ').next_back().unwrap().parse::<usize>().unwrap();
            }
            lost = lines.queue.error_counter().dropped_lines() - lines.own.load(Ordering::Acquire);
        }
        assert!(told >= 15, "of twenty lines four wait and one is being written, but {told} were lost");
        drop(guard);
    }
}
