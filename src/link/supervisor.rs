//! The life of a link: connect, run, back off, again.

use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use super::{Driver, Host, Inbox, SessionEnd};
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
    while !inbox.is_stopped() {
        host.state(LinkState::Connecting, None);
        let started = Instant::now();
        let problem = match session(&mut driver, &mut inbox, &*host).await {
            Ok(SessionEnd::Stopped) => break,
            Ok(SessionEnd::Lost(error)) => error.to_string(),
            Err(problem) => problem,
        };
        // A session that lasted starts the delays anew; a short one is a failed try like any other.
        attempt = if started.elapsed() > backoff.cap { 0 } else { attempt + 1 };
        let delay = backoff.delay(attempt.saturating_sub(1), fastrand::f64());
        warn!(
            connection = name,
            retry_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            "{problem}"
        );
        host.state(LinkState::BackingOff, Some(&problem));
        wait(&mut inbox, Instant::now() + delay).await;
    }
    host.state(LinkState::Stopped, None);
    info!(connection = name, "closed");
}

/// Connects and runs once; a panic of the driver is an end like others.
async fn session<D: Driver>(
    driver: &mut D,
    inbox: &mut Inbox,
    host: &dyn Host,
) -> Result<SessionEnd, String> {
    let whole = async {
        let connection = {
            let mut connecting = pin!(driver.connect());
            loop {
                tokio::select! {
                    connection = &mut connecting => break connection.map_err(|error| error.to_string())?,
                    command = inbox.next() => match command {
                        // Nothing waits for a link that is down: the command answers for itself.
                        Some(command) => drop(command),
                        None => return Ok(SessionEnd::Stopped),
                    },
                }
            }
        };
        let sink = host.open();
        host.state(LinkState::Connected, None);
        Ok(driver.run(connection, inbox, &sink).await)
    };
    AssertUnwindSafe(whole).catch_unwind().await.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Err(format!("the driver failed: {}", text.unwrap_or("panic")))
    })
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
