//! The life of a link: connect, run, back off, again.

use std::{
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

use super::{Driver, Host, Inbox, LinkError, SessionEnd};
use crate::model::LinkState;

/// Delays between tries: exponential with jitter up to a cap, never zero, never given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    pub first: Duration,
    pub cap: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(250), cap: Duration::from_secs(15) }
    }
}

impl Backoff {
    /// Delay before try `attempt` (0 is the first retry), between half and the whole of the exponential step.
    #[must_use]
    pub fn delay(self, attempt: u32, jitter: f64) -> Duration {
        let step = self.first.saturating_mul(2_u32.saturating_pow(attempt.min(16))).min(self.cap);
        step.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0)).max(Duration::from_millis(1))
    }
}

/// Runs a driver's sessions until the inbox says stop.
pub async fn supervise<D: Driver>(
    name: &str,
    mut driver: D,
    mut inbox: Inbox,
    host: Arc<dyn Host>,
    backoff: Backoff,
) {
    let mut attempt: u32 = 0;
    let mut delay = Duration::ZERO;
    let mut told = String::new();
    while !inbox.is_stopped() {
        host.state(LinkState::Connecting, None);
        let mut up = None;
        let End { problem, lasting } = match session(name, &mut driver, &mut inbox, &*host, &mut up).await {
            Ok(()) => break,
            Err(end) => end,
        };

        // A session that brought values, and lasted well beyond the delay before it, starts the delays anew; others
        // are failed tries.
        let fruitful = up.as_ref().is_some_and(|up| up.fruitful.load(Ordering::Relaxed));
        let lasted = up.as_ref().is_some_and(|up| up.since.elapsed() > delay * 4);
        attempt = if fruitful && lasted { 0 } else { attempt.saturating_add(1) };
        delay = if lasting { backoff.cap } else { backoff.delay(attempt.saturating_sub(1), fastrand::f64()) };
        let retry_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        // A device that stays away for a weekend is not worth a line every few seconds.
        if fruitful || problem != told {
            warn!(connection = name, retry_ms, "{problem}");
        } else {
            debug!(connection = name, retry_ms, "{problem}");
        }
        told.clone_from(&problem);
        host.state(LinkState::BackingOff, Some(&problem));
        wait(&mut inbox, Instant::now() + delay).await;
    }
    host.state(LinkState::Stopped, None);
    info!(connection = name, "closed");
}

/// A session that came about.
struct Up {
    since: Instant,
    fruitful: Arc<AtomicBool>,
}

/// Why a session is over, or did not come about.
struct End {
    problem: String,
    lasting: bool,
}

impl From<LinkError> for End {
    fn from(error: LinkError) -> Self {
        Self { problem: error.to_string(), lasting: error.lasting }
    }
}

/// Connects and runs once, telling since when it was `up`; an error says how it ended, nothing that it was told to stop. A
/// panic of the driver is an end like others.
async fn session<D: Driver>(
    name: &str,
    driver: &mut D,
    inbox: &mut Inbox,
    host: &dyn Host,
    up: &mut Option<Up>,
) -> Result<(), End> {
    let whole = async {
        let Some(mut connection) = connect(driver, inbox).await? else { return Ok(()) };
        info!(connection = name, "connected");
        let sink = host.open();
        *up = Some(Up { since: Instant::now(), fruitful: Arc::clone(&sink.fruitful) });
        host.state(LinkState::Connected, None);
        loop {
            let until = match driver.run(connection, inbox, &sink).await {
                SessionEnd::Idle(until) => until,
                SessionEnd::Stopped => return Ok(()),
                SessionEnd::Lost(error) => return Err(error.into()),
            };
            debug!(connection = name, "closed while nothing is due");
            rest(inbox, until).await;
            // A command that waits is for the connection that is being opened.
            connection = tokio::select! {
                biased;
                () = inbox.stopped() => return Ok(()),
                connection = driver.connect() => connection?,
            };
        }
    };
    AssertUnwindSafe(whole).catch_unwind().await.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let problem = format!("the driver failed: {}", text.unwrap_or("panic"));
        Err(End { problem, lasting: false })
    })
}

/// Opens the transport, failing at once what is asked meanwhile; `None` where it is time to stop.
async fn connect<D: Driver>(driver: &mut D, inbox: &mut Inbox) -> Result<Option<D::Connection>, LinkError> {
    let mut connecting = pin!(driver.connect());
    loop {
        tokio::select! {
            connection = &mut connecting => return connection.map(Some),
            command = inbox.next() => match command {
                // Nothing waits for a link that is down: the command answers for itself.
                Some(command) => drop(command),
                None => return Ok(None),
            },
        }
    }
}

/// Waits until then, for a command, or for the word to stop.
async fn rest(inbox: &mut Inbox, until: Option<Instant>) {
    match until {
        Some(until) => tokio::select! {
            () = sleep_until(until) => {}
            () = inbox.waiting() => {}
        },
        None => inbox.waiting().await,
    }
}

/// Waits, failing at once what is asked meanwhile.
async fn wait(inbox: &mut Inbox, until: Instant) {
    loop {
        tokio::select! {
            () = sleep_until(until) => return,
            command = inbox.next() => match command {
                Some(command) => drop(command),
                None => return,
            },
        }
    }
}
