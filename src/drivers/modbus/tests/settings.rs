//! Pauses, closing while nothing is due, and the delays before connecting anew: over a supervised link.

use std::{collections::VecDeque, sync::atomic::AtomicBool};

use tokio::{sync::mpsc, time::sleep};

use super::*;
use crate::{
    link::{self, Backoff, Host},
    model::{LinkState, Outcome},
};

const MS: Duration = Duration::from_millis(1);

fn tags(scan: Duration) -> Vec<Polled> {
    let far = |id: u16| Polled { scan, ..polled(id.into(), Table::Holding, id * 100, Kind::Uint16) };
    vec![far(1), far(2)]
}

#[tokio::test(start_paused = true)]
async fn nothing_leaves_before_the_connect_delay() {
    for base in [endpoint("plc:502", TIMEOUT), serial()] {
        let endpoint = ModbusEndpoint { connect_delay: 3 * SECOND, ..base };
        let started = Instant::now();
        let (rig, mut peer) = start_on(endpoint.clone(), &[unit(1, tags(SECOND))]);
        let first = peer.asked().await.unwrap();
        assert_eq!(first.at - started, 3 * SECOND);
        peer.answer(&first, &first.registers(|at| at)).await;
        let second = peer.asked().await.unwrap();
        assert!(second.at - first.at < 5 * MS, "it is a delay after connecting only");
        rig.stopped().await;
        // A write waits as well, no longer than its deadline.
        let (rig, mut peer) = start_on(endpoint, &[unit(1, tags(SECOND))]);
        let (early, later) = (
            rig.write_by(1, Value::U64(1), false, SECOND, Grant::default()),
            rig.write_by(1, Value::U64(2), false, 60 * SECOND, Grant::default()),
        );
        let asked = Instant::now();
        let report = early.await.unwrap();
        assert_eq!((report.outcome, asked.elapsed()), (Outcome::NotSent, SECOND), "{}", report.message);
        let first = loop {
            let asked = peer.asked().await.unwrap();
            if asked.is_write() {
                break asked;
            }
            peer.answer(&asked, &asked.registers(|_| 0)).await;
        };
        assert!(first.at - asked >= 3 * SECOND);
        peer.answer(&first, &first.echo()).await;
        let look = peer.asked().await.unwrap();
        peer.answer(&look, &look.registers(|_| 2)).await;
        assert_eq!(later.await.unwrap().outcome, Outcome::Confirmed);
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_pause() {
    let endpoint = ModbusEndpoint { connect_delay: 60 * SECOND, ..endpoint("plc:502", TIMEOUT) };
    for writes in [false, true] {
        let (rig, _peer) = start_on(endpoint.clone(), &[unit(1, tags(SECOND))]);
        let report = writes.then(|| rig.write_by(1, Value::U64(1), false, 600 * SECOND, Grant::default()));
        sleep(SECOND).await;
        let asked = Instant::now();
        rig.stopped().await;
        assert_eq!(asked.elapsed(), Duration::ZERO);
        if let Some(report) = report {
            assert_eq!(report.await.unwrap().outcome, Outcome::NotSent);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_gap_lies_between_an_answer_and_the_next_request() {
    for base in [
        endpoint("plc:502", TIMEOUT),
        serial(),
        ModbusEndpoint { check_ids: false, ..endpoint("plc:502", TIMEOUT) },
    ] {
        let endpoint = ModbusEndpoint { request_gap: 200 * MS, ..base };
        let (rig, mut peer) = start_on(endpoint, &[unit(1, tags(100 * MS))]);
        let mut answered: Option<Instant> = None;
        for round in 0..20 {
            if round == 10 {
                drop(rig.write(1, Value::U64(7)));
            }
            let asked = peer.asked().await.unwrap();
            if let Some(answered) = answered {
                let gap = asked.at - answered;
                assert!(gap >= 200 * MS && gap <= 202 * MS, "{round}: {gap:?}");
            }
            sleep(70 * MS).await;
            let pdu = if asked.is_write() { asked.echo() } else { asked.registers(|at| at) };
            peer.answer(&asked, &pdu).await;
            answered = Some(Instant::now());
        }
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_gap_of_none_is_none() {
    let (rig, mut peer) = start(&[unit(1, tags(SECOND))]);
    let first = peer.asked().await.unwrap();
    peer.answer(&first, &first.registers(|at| at)).await;
    assert_eq!(peer.asked().await.unwrap().at, first.at);
    rig.stopped().await;
}

/// A driver of ours over pipes: each try to connect is answered by its script, and otherwise with a pipe.
struct Piped {
    driver: Modbus,
    refused: Arc<AtomicBool>,
    takes: Duration,
    peers: mpsc::UnboundedSender<(Instant, Peer)>,
}

impl Driver for Piped {
    type Connection = Connection;

    async fn connect(&mut self) -> Result<Connection, LinkError> {
        sleep(self.takes).await;
        if self.refused.load(Ordering::Relaxed) {
            // As `Modbus::connect` does it.
            self.driver.parked = None;
            return Err(LinkError {
                address: "plc:502".to_owned(),
                problem: "refused".to_owned(),
                lasting: false,
            });
        }
        let (ours, theirs) = duplex(4096);
        drop(self.peers.send((Instant::now(), Peer(theirs, false))));
        Ok(Connection { stream: Box::new(ours), delivery: Delivery::told_by(|| false) })
    }

    async fn run(&mut self, connection: Connection, inbox: &mut Inbox, sink: &Sink) -> SessionEnd {
        self.driver.run(connection, inbox, sink).await
    }
}

/// What the link told.
#[derive(Default)]
struct Told {
    recorder: Arc<Recorder>,
    states: Mutex<Vec<(Instant, LinkState)>>,
    sessions: Mutex<u32>,
}

impl Host for Told {
    fn open(&self) -> Sink {
        *self.sessions.lock().unwrap() += 1;
        Sink::new(self.recorder.clone())
    }

    fn state(&self, state: LinkState, _: Option<&str>) {
        self.states.lock().unwrap().push((Instant::now(), state));
    }
}

struct Linked {
    queue: Queue,
    told: Arc<Told>,
    refused: Arc<AtomicBool>,
    peers: mpsc::UnboundedReceiver<(Instant, Peer)>,
    counters: Arc<Counters>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Linked {
    fn write(&self, value: u64, within: Duration) -> oneshot::Receiver<Report> {
        let permit = Box::new(Grant::default());
        let (command, report) =
            Command::new(TagId(1), Value::U64(value), false, Instant::now() + within, permit);
        self.queue.push(command);
        report
    }

    fn states(&self) -> Vec<LinkState> {
        self.told.states.lock().unwrap().iter().map(|(_, state)| *state).collect()
    }

    async fn stopped(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

fn supervised(endpoint: ModbusEndpoint, units: &[Unit], takes: Duration) -> Linked {
    let stop = CancellationToken::new();
    let (queue, inbox) = queue(stop.clone());
    let (sender, peers) = mpsc::unbounded_channel();
    let (told, refused, counters) =
        (Arc::<Told>::default(), Arc::<AtomicBool>::default(), Arc::<Counters>::default());
    let backoff = Backoff { first: endpoint.reconnect.0, cap: endpoint.reconnect.1 };
    let driver = Modbus::new(endpoint, units, counters.clone());
    let driver = Piped { driver, refused: refused.clone(), takes, peers: sender };
    let host: Arc<dyn Host> = told.clone();
    let task = tokio::spawn(async move { link::supervise("plc", driver, inbox, host, backoff).await });
    Linked { queue, told, refused, peers, counters, stop, task }
}

/// When a connection came, when it went, and what was asked on it.
type Visit = (Instant, Option<Instant>, Vec<Asked>);

/// Answers on each connection.
fn answering(linked: &mut Linked) -> Arc<Mutex<Vec<Visit>>> {
    let log = Arc::new(Mutex::new(Vec::new()));
    let kept = log.clone();
    let (_, nothing) = mpsc::unbounded_channel();
    let mut peers = std::mem::replace(&mut linked.peers, nothing);
    tokio::spawn(async move {
        let mut held = 7;
        while let Some((at, mut peer)) = peers.recv().await {
            kept.lock().unwrap().push((at, None, Vec::new()));
            while let Some(asked) = peer.asked().await {
                kept.lock().unwrap().last_mut().unwrap().2.push(asked.clone());
                if asked.is_write() {
                    held = asked.count();
                }
                let pdu = if asked.is_write() { asked.echo() } else { asked.registers(|_| held) };
                peer.answer(&asked, &pdu).await;
            }
            kept.lock().unwrap().last_mut().unwrap().1 = Some(Instant::now());
        }
    });
    log
}

fn idle() -> ModbusEndpoint {
    ModbusEndpoint { idle_close: Some(5 * SECOND), ..endpoint("plc:502", TIMEOUT) }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_closed_while_nothing_is_due_and_opened_for_the_next_scan() {
    let started = Instant::now();
    let mut linked = supervised(idle(), &[unit(1, tags(60 * SECOND))], Duration::ZERO);
    let log = answering(&mut linked);
    sleep(200 * SECOND).await;
    {
        let log = log.lock().unwrap();
        let at = |at: Instant| (at - started).as_secs();
        let times: Vec<_> = log.iter().map(|(came, went, _)| (at(*came), went.map(at))).collect();
        assert_eq!(times, [(0, Some(5)), (60, Some(65)), (120, Some(125)), (180, Some(185))]);
        assert!(log.iter().all(|(_, _, asked)| asked.len() == 2));
    }
    // It is one session, whose tags were good all the time.
    assert_eq!(linked.states(), [LinkState::Connecting, LinkState::Connected]);
    assert_eq!(*linked.told.sessions.lock().unwrap(), 1);
    assert_eq!(linked.counters.sessions.load(Ordering::Relaxed), 1);
    let told = linked.told.recorder.of(1);
    assert_eq!(told.len(), 4);
    assert!(told.iter().all(|(_, update)| update.quality == Quality::Good));
    assert_eq!(linked.told.recorder.states_of(1), [DeviceState::Online]);
    linked.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_not_closed_where_it_is_needed_soon() {
    let mut linked = supervised(idle(), &[unit(1, tags(5 * SECOND))], Duration::ZERO);
    let log = answering(&mut linked);
    sleep(100 * SECOND).await;
    assert_eq!(log.lock().unwrap().len(), 1);
    linked.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_opens_a_closed_connection_at_once() {
    let mut linked = supervised(idle(), &[unit(1, tags(3600 * SECOND))], 100 * MS);
    let log = answering(&mut linked);
    sleep(60 * SECOND).await;
    assert!(log.lock().unwrap()[0].1.is_some(), "closed");
    let asked = Instant::now();
    let report = linked.write(9, 5 * SECOND).await.unwrap();
    assert_eq!((report.outcome, asked.elapsed()), (Outcome::Confirmed, 100 * MS), "{}", report.message);
    // And it is closed again.
    sleep(60 * SECOND).await;
    {
        let log = log.lock().unwrap();
        assert_eq!(log.len(), 2);
        assert_eq!(log[1].2.iter().map(|asked| asked.pdu[0]).collect::<Vec<_>>(), [6, 3]);
        assert_eq!(log[1].1, Some(asked + 100 * MS + 5 * SECOND));
    }
    let told = linked.told.recorder.of(1);
    assert!(told.iter().all(|(_, update)| update.quality == Quality::Good), "{told:?}");
    assert_eq!(linked.states(), [LinkState::Connecting, LinkState::Connected]);
    linked.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_closed_connection_that_cannot_be_opened_is_a_lost_one() {
    let mut linked = supervised(idle(), &[unit(1, tags(60 * SECOND))], Duration::ZERO);
    let log = answering(&mut linked);
    sleep(30 * SECOND).await;
    linked.refused.store(true, Ordering::Relaxed);
    // A write that waits for it is told.
    let report = linked.write(9, 5 * SECOND).await.unwrap();
    assert_eq!(report.outcome, Outcome::NotSent);
    sleep(SECOND).await;
    assert!(matches!(
        linked.states()[..3],
        [LinkState::Connecting, LinkState::Connected, LinkState::BackingOff]
    ));
    linked.refused.store(false, Ordering::Relaxed);
    sleep(60 * SECOND).await;
    assert_eq!(*linked.told.sessions.lock().unwrap(), 2, "what comes then is a new session");
    assert_eq!(linked.counters.sessions.load(Ordering::Relaxed), 2);
    let asked = log.lock().unwrap()[1].2.len();
    assert_eq!(asked, 2, "which reads everything");
    linked.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_closed_is_at_once_and_loses_no_write() {
    let mut linked = supervised(idle(), &[unit(1, tags(3600 * SECOND))], 400 * MS);
    let log = answering(&mut linked);
    sleep(60 * SECOND).await;
    let (first, second) = (linked.write(1, 5 * SECOND), linked.write(2, 5 * SECOND));
    sleep(100 * MS).await;
    let asked = Instant::now();
    linked.stopped().await;
    assert_eq!(asked.elapsed(), Duration::ZERO);
    assert_eq!(
        (first.await.unwrap().outcome, second.await.unwrap().outcome),
        (Outcome::NotSent, Outcome::NotSent)
    );
    assert_eq!(log.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_write_keeps_its_connection() {
    let (rig, peer) = start_on(idle(), &[unit(1, tags(3600 * SECOND))]);
    let mut requests = 0;
    device(peer, move |asked| {
        requests += 1;
        (requests <= 2).then(|| asked.registers(|_| 0))
    });
    sleep(SECOND).await;
    assert_eq!(rig.write(1, Value::U64(1)).await.unwrap().outcome, Outcome::Unknown);
    sleep(100 * SECOND).await;
    assert!(!rig.task.is_finished());
    sleep(100 * SECOND).await;
    assert!(
        rig.task.is_finished(),
        "a connection on which nothing is answered any more is not kept for ever"
    );
    assert!(rig.lost().await.contains("nothing came in answer"));
}

#[tokio::test(start_paused = true)]
async fn a_silent_unit_is_still_silent_when_the_connection_is_opened_again() {
    let units = [unit(1, tags(3600 * SECOND)), unit(2, vec![polled(9, Table::Holding, 0, Kind::Uint16)])];
    let units = [
        units[0].clone(),
        Unit { tags: vec![Polled { scan: 60 * SECOND, ..units[1].tags[0].clone() }], ..units[1].clone() },
    ];
    let endpoint = ModbusEndpoint { idle_close: Some(500 * MS), ..endpoint("plc:502", 200 * MS) };
    let mut linked = supervised(endpoint, &units, Duration::ZERO);
    let (_, nothing) = mpsc::unbounded_channel();
    let mut peers = std::mem::replace(&mut linked.peers, nothing);
    let asked = Arc::new(Mutex::new(VecDeque::new()));
    let kept = asked.clone();
    tokio::spawn(async move {
        while let Some((_, mut peer)) = peers.recv().await {
            while let Some(asked) = peer.asked().await {
                kept.lock().unwrap().push_back(asked.unit_id);
                if asked.unit_id == 1 {
                    peer.answer(&asked, &asked.registers(|_| 0)).await;
                }
            }
        }
    });
    sleep(3600 * SECOND).await;
    let probes = asked.lock().unwrap().iter().filter(|unit_id| **unit_id == 2).count();
    // Three scans a minute apart, and a probe every 30 s in the end.
    assert!((100..=140).contains(&probes), "{probes}");
    assert_eq!(linked.told.recorder.states_of(2), [DeviceState::Silent]);
    assert_eq!(linked.states(), [LinkState::Connecting, LinkState::Connected]);
    linked.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn the_delays_before_connecting_anew_are_as_configured() {
    let reconnect = (100 * MS, 2 * SECOND);
    let endpoint = ModbusEndpoint { reconnect, ..endpoint("plc:502", TIMEOUT) };
    let mut linked = supervised(endpoint, &[unit(1, tags(SECOND))], Duration::ZERO);
    linked.refused.store(true, Ordering::Relaxed);
    sleep(60 * SECOND).await;
    let tries: Vec<_> = {
        let states = linked.told.states.lock().unwrap();
        states.iter().filter(|(_, state)| *state == LinkState::Connecting).map(|(at, _)| *at).collect()
    };
    assert!(tries.len() > 30, "{}", tries.len());
    let mut delays = Vec::new();
    for (attempt, pair) in tries.windows(2).enumerate() {
        let step = (100 * MS * 2_u32.pow(u32::try_from(attempt.min(10)).unwrap())).min(2 * SECOND);
        let delay = pair[1] - pair[0];
        assert!(delay >= step / 2 && delay <= step + MS, "try {attempt}: {delay:?} of {step:?}");
        delays.push(delay);
    }
    delays.sort();
    delays.dedup();
    assert!(delays.len() > 10, "they are not the same for all: {delays:?}");
    linked.refused.store(false, Ordering::Relaxed);
    let log = answering(&mut linked);
    sleep(10 * SECOND).await;
    assert_eq!(log.lock().unwrap().len(), 1);
    linked.stopped().await;
}

#[test]
fn jitter_stays_between_half_and_whole_of_a_step() {
    let backoff = Backoff { first: 250 * MS, cap: 15 * SECOND };
    for attempt in [0, 1, 5, 6, 16, 17, u32::MAX] {
        let whole = backoff.delay(attempt, 1.0);
        assert_eq!(backoff.delay(attempt, 0.0), whole / 2);
        assert!(whole <= 15 * SECOND && whole >= 250 * MS);
        for jitter in [-1.0, 0.5, 2.0] {
            let delay = backoff.delay(attempt, jitter);
            assert!(delay >= MS && delay <= whole, "{jitter}: {delay:?}");
        }
    }
}

#[cfg(unix)]
mod ports {
    use std::os::unix::fs::symlink;

    use tokio_serial::{SerialPort, SerialStream};

    use super::*;

    /// Plugs a line in at `path`; its far end answers.
    fn plug_in(path: &std::path::Path, value: u16) -> JoinHandle<()> {
        let (far, near) = SerialStream::pair().unwrap();
        symlink(near.name().unwrap(), path).unwrap();
        drop(near);
        let mut peer = Peer(far, true);
        tokio::spawn(async move {
            loop {
                // Nobody has the near end open at first.
                match peer.asked().await {
                    Some(asked) => peer.answer(&asked, &asked.registers(|_| value)).await,
                    None => sleep(MS).await,
                }
            }
        })
    }

    async fn read(told: &Recorder, value: u64) {
        while told.last(1).is_none_or(|update| update.value != Some(Value::U64(value))) {
            sleep(5 * MS).await;
        }
    }

    #[tokio::test]
    async fn a_port_that_vanishes_and_comes_back_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("line");
        let line = Serial {
            port: path.to_str().unwrap().to_owned(),
            baud: 115_200,
            parity: Parity::None,
            stop_bits: 1,
        };
        let endpoint = ModbusEndpoint {
            transport: Transport::Rtu(line),
            reconnect: (5 * MS, 20 * MS),
            ..endpoint("", 2 * SECOND)
        };
        let tag = Polled { scan: 10 * MS, ..polled(1, Table::Holding, 0, Kind::Uint16) };
        let far = plug_in(&path, 1);
        let stop = CancellationToken::new();
        let (_queue, inbox) = queue(stop.clone());
        let told = Arc::<Told>::default();
        let backoff = Backoff { first: endpoint.reconnect.0, cap: endpoint.reconnect.1 };
        let driver = Modbus::new(endpoint, &[unit(1, vec![tag])], Arc::default());
        let host: Arc<dyn Host> = told.clone();
        let task = tokio::spawn(async move { link::supervise("line", driver, inbox, host, backoff).await });
        read(&told.recorder, 1).await;
        std::fs::remove_file(&path).unwrap();
        far.abort();
        while told.states.lock().unwrap().last().unwrap().1 != LinkState::BackingOff {
            sleep(MS).await;
        }
        let _far = plug_in(&path, 2);
        read(&told.recorder, 2).await;
        stop.cancel();
        task.await.unwrap();
    }
}
