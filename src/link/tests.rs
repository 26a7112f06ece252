#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unchecked_time_subtraction,
    reason = "a test fails by panicking"
)]

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::model::{Outcome, Report, TagId, Value, When};

struct Nowhere;

impl Publish for Nowhere {
    fn trouble(&self, _: Option<&str>) {}

    fn publish(&self, batch: &mut Vec<Update>) {
        batch.clear();
    }
    fn device(&self, _: DeviceId, _: DeviceState, _: Option<&str>) {}
}

/// Writes down when the link was in which state.
struct Log(Instant, Mutex<Vec<(LinkState, Option<String>, Duration)>>);

impl Host for Log {
    fn open(&self) -> Sink {
        Sink::new(Arc::new(Nowhere))
    }
    fn state(&self, state: LinkState, detail: Option<&str>) {
        self.1.lock().push((state, detail.map(Into::into), self.0.elapsed()));
    }
}

#[derive(Clone, Copy)]
enum Act {
    FailToConnect,
    LoseAtOnce,
    LoseLater,
    LoseLaterFruitless,
    Panic,
    PanicAfterGrant,
    Serve,
}

/// Does as its script says, a line a session.
struct Script(VecDeque<Act>);

impl Driver for Script {
    type Connection = Act;

    async fn connect(&mut self) -> Result<Act, LinkError> {
        match self.0.pop_front().unwrap_or(Act::Serve) {
            Act::FailToConnect => {
                Err(LinkError { address: "plc".into(), problem: "refused".into(), lasting: false })
            }
            act => Ok(act),
        }
    }

    async fn run(&mut self, act: Act, inbox: &mut Inbox, sink: &Sink) -> SessionEnd {
        match act {
            Act::Panic => panic!("out of cheese"),
            Act::PanicAfterGrant => {
                let mut command = inbox.next().await.unwrap();
                command.grant(None).unwrap();
                panic!("while sending");
            }
            Act::Serve => loop {
                let Some(command) = inbox.next().await else { return SessionEnd::Stopped };
                command.answer(Report::new(Outcome::Confirmed, "served"));
            },
            Act::LoseLater | Act::LoseLaterFruitless => {
                if matches!(act, Act::LoseLater) {
                    let (value, quality, at) = (Some(Value::Null), Quality::Good, Instant::now());
                    sink.publish(&mut vec![Update {
                        tag: TagId(0),
                        value,
                        quality,
                        detail: None,
                        at: When::At(at),
                    }]);
                }
                tokio::time::sleep(Duration::from_secs(10)).await;
                SessionEnd::Lost(LinkError {
                    address: "plc".into(),
                    problem: "closed".into(),
                    lasting: false,
                })
            }
            Act::LoseAtOnce | Act::FailToConnect => SessionEnd::Lost(LinkError {
                address: "plc".into(),
                problem: "closed".into(),
                lasting: false,
            }),
        }
    }
}

struct Always;

impl Permit for Always {
    fn grant(&mut self, _: Option<&Value>) -> Result<(), Report> {
        Ok(())
    }

    fn recheck(&self) -> Result<(), Report> {
        Ok(())
    }
}

fn start(script: &[Act]) -> (Queue, CancellationToken, Arc<Log>, tokio::task::JoinHandle<()>) {
    let stop = CancellationToken::new();
    let (queue, inbox) = queue(stop.clone());
    let host = Arc::new(Log(Instant::now(), Mutex::default()));
    let driver = Script(script.iter().copied().collect());
    let task = tokio::spawn({
        let host = host.clone();
        async move { supervise("plc", driver, inbox, host, Backoff::default()).await }
    });
    (queue, stop, host, task)
}

async fn ask(queue: &Queue) -> Outcome {
    let deadline = Instant::now() + Duration::from_secs(5);
    let (command, answer) = Command::new(TagId(0), Value::Null, false, deadline, Box::new(Always));
    queue.push(command);
    answer.await.unwrap().outcome
}

#[tokio::test(start_paused = true)]
async fn never_gives_up_never_without_delay_and_doubles_to_the_cap() {
    let script = [[Act::FailToConnect; 6].as_slice(), &[Act::LoseAtOnce; 6]].concat();
    let (queue, stop, host, task) = start(&script);
    while ask(&queue).await != Outcome::Confirmed {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    stop.cancel();
    task.await.unwrap();
    let log = host.1.lock();
    let tries =
        log.iter().filter(|entry| entry.0 == LinkState::Connecting).map(|entry| entry.2).collect::<Vec<_>>();
    assert_eq!(tries.len(), 13);
    for (attempt, pair) in (0..).zip(tries.windows(2)) {
        let (step, delay) =
            (Duration::from_millis(250 << attempt).min(Duration::from_secs(15)), pair[1] - pair[0]);
        assert!(
            delay >= step / 2 && delay <= step + Duration::from_millis(1),
            "try {attempt}: {delay:?} of {step:?}"
        );
    }
    assert_eq!(log.last().unwrap().0, LinkState::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_the_end_of_a_session_only() {
    let (queue, stop, host, task) = start(&[Act::Panic, Act::PanicAfterGrant]);
    // Down after the first panic: what is asked now is not sent.
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(ask(&queue).await, Outcome::NotSent);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(ask(&queue).await, Outcome::Unknown, "bytes may have left");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(ask(&queue).await, Outcome::Confirmed);
    let details = host.1.lock().iter().filter_map(|entry| entry.1.clone()).collect::<Vec<_>>();
    assert_eq!(details, ["the driver failed: out of cheese", "the driver failed: while sending"]);
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_full_inbox_says_so_and_a_gone_one_answers() {
    let stop = CancellationToken::new();
    let (queue, inbox) = queue(stop);
    let push = || {
        let (command, answer) = Command::new(TagId(0), Value::Null, false, Instant::now(), Box::new(Always));
        queue.push(command);
        answer
    };
    let mut waiting = (0..64).map(|_| push()).collect::<Vec<_>>();
    let report = push().await.unwrap();
    assert_eq!(report.outcome, Outcome::NotSent);
    assert!(report.message.contains("64 writes"), "{}", report.message);
    drop(inbox);
    assert_eq!(waiting.pop().unwrap().await.unwrap().outcome, Outcome::NotSent);
    assert_eq!(push().await.unwrap().outcome, Outcome::NotSent);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_lasted_starts_the_delays_anew() {
    let (_queue, stop, host, task) = start(&[Act::LoseLater; 5]);
    tokio::time::sleep(Duration::from_secs(55)).await;
    stop.cancel();
    task.await.unwrap();
    let log = host.1.lock();
    let tries =
        log.iter().filter(|entry| entry.0 == LinkState::Connecting).map(|entry| entry.2).collect::<Vec<_>>();
    assert_eq!(tries.len(), 6);
    for pair in tries.windows(2) {
        assert!(pair[1] - pair[0] <= Duration::from_millis(10_251), "{pair:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn sessions_that_bring_nothing_are_tried_ever_more_seldom() {
    let (_queue, stop, host, task) = start(&[Act::LoseLaterFruitless; 20]);
    tokio::time::sleep(Duration::from_secs(200)).await;
    stop.cancel();
    task.await.unwrap();
    let log = host.1.lock();
    let tries = log.iter().filter(|entry| entry.0 == LinkState::Connecting).count();
    assert!(tries <= 15, "{tries} tries of 10 s each and delays up to 15 s");
}
