//! Many requests on the wire at once: how many, whose answers are whose, what a write means for them, and what a unit's
//! silence does not.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, AtomicU16, AtomicUsize},
};

use tokio::time::sleep;

use super::*;
use crate::model::Outcome;

const MS: Duration = Duration::from_millis(1);

fn flying(max_in_flight: u8) -> ModbusEndpoint {
    ModbusEndpoint { max_in_flight, ..endpoint("plc:502", TIMEOUT) }
}

/// Tags far apart, so that each needs a request of its own; the id is the address over 100.
fn scattered(unit_id: u8, count: u16, scan: Duration) -> Unit {
    let tag = |at: u16| Polled { scan, ..polled(at.into(), Table::Holding, at * 100, Kind::Uint16) };
    unit(unit_id, (1..=count).map(tag).collect())
}

/// Requests that a peer got and did not answer yet.
#[derive(Debug, Default)]
struct Wires {
    open: Mutex<BTreeMap<u16, (u8, Vec<u8>)>>,
    most: AtomicUsize,
    twice: AtomicUsize,
    /// Writes that came while something else was open, or the other way round.
    beside: AtomicUsize,
}

impl Wires {
    fn came(&self, asked: &Asked) {
        let mut open = self.open.lock().unwrap();
        let request = (asked.unit_id, asked.pdu.clone());
        let same = open.values().any(|other| *other == request);
        self.twice.fetch_add(usize::from(same), Ordering::Relaxed);
        let writes = asked.is_write() || open.values().any(|(_, pdu)| matches!(pdu[0], 5 | 6 | 15 | 16 | 22));
        self.beside.fetch_add(usize::from(writes && !open.is_empty()), Ordering::Relaxed);
        open.insert(asked.id, request);
        self.most.fetch_max(open.len(), Ordering::Relaxed);
    }

    fn check(&self, most: usize) {
        assert_eq!(self.most.load(Ordering::Relaxed), most);
        assert_eq!(self.twice.load(Ordering::Relaxed), 0, "asked while it was open");
        assert_eq!(self.beside.load(Ordering::Relaxed), 0, "beside a write");
    }
}

/// A device that works on all its requests at once; each takes the time that `answer` says.
fn parallel(
    peer: Peer,
    mut answer: impl FnMut(&Asked) -> Option<(Duration, Vec<u8>)> + Send + 'static,
) -> (Arc<Wires>, Arc<Mutex<Vec<Asked>>>) {
    let (wires, log) = (Arc::<Wires>::default(), Arc::new(Mutex::new(Vec::new())));
    let (kept, noted) = (log.clone(), wires.clone());
    let (input, output) = tokio::io::split(peer.0);
    let mut input = Peer(input, peer.1);
    let output = Arc::new(tokio::sync::Mutex::new(Peer(output, peer.1)));
    tokio::spawn(async move {
        while let Some(asked) = input.asked().await {
            noted.came(&asked);
            kept.lock().unwrap().push(asked.clone());
            let (wires, output) = (noted.clone(), output.clone());
            let answer = answer(&asked);
            tokio::spawn(async move {
                let Some((takes, pdu)) = answer else {
                    sleep(TIMEOUT.saturating_sub(MS)).await;
                    wires.open.lock().unwrap().remove(&asked.id);
                    return;
                };
                sleep(takes).await;
                let mut output = output.lock().await;
                wires.open.lock().unwrap().remove(&asked.id);
                output.answer(&asked, &pdu).await;
            });
        }
    });
    (wires, log)
}

#[tokio::test(start_paused = true)]
async fn so_many_are_on_the_wire_and_never_more() {
    for most in [1, 2, 8, 32] {
        let (rig, peer) = start_on(flying(most), &[scattered(1, 64, 100 * MS)]);
        let (wires, log) = parallel(peer, |asked| Some((100 * MS, asked.registers(|at| at))));
        sleep(10 * SECOND + 50 * MS).await;
        wires.check(most.into());
        // All the time: so many every 100 ms.
        let expected = 100 * usize::from(most);
        assert!((expected..=expected + usize::from(most)).contains(&log.lock().unwrap().len()), "{most}");
        for id in 1..=64 {
            assert_eq!(rig.told.last(id).unwrap().value, Some(Value::U64(u64::from(id) * 100)));
        }
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn rates_hold_that_one_at_a_time_could_not_keep() {
    let (rig, peer) = start_on(flying(8), &[scattered(1, 8, 100 * MS)]);
    let started = Instant::now();
    let (wires, log) = parallel(peer, |asked| Some((80 * MS, asked.registers(|at| at))));
    sleep(10 * SECOND + 50 * MS).await;
    let log = log.lock().unwrap().clone();
    for at in 1..=8 {
        let times: Vec<_> = log.iter().filter(|asked| asked.address() == at * 100).collect();
        let times: Vec<_> = times.iter().map(|asked| (asked.at - started).as_millis()).collect();
        assert_eq!(times, (0..=100).map(|round| round * 100).collect::<Vec<_>>());
    }
    wires.check(8);
    assert_eq!(rig.count(|counters| &counters.overruns), 0);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn rounds_that_last_too_long_are_counted_once_each() {
    // 8 blocks of 250 ms, 2 at a time: a round takes a second where 300 ms are allowed.
    let (rig, peer) = start_on(flying(2), &[scattered(1, 8, 300 * MS)]);
    let (wires, log) = parallel(peer, |asked| Some((250 * MS, asked.registers(|at| at))));
    sleep(30 * SECOND + 10 * MS).await;
    wires.check(2);
    // The grid had 100 places, in 30 of which a round began; the 31st round has just begun.
    let (rounds, skipped) = (log.lock().unwrap().len().div_ceil(8), rig.count(|counters| &counters.overruns));
    assert_eq!((rounds, skipped), (31, 70));
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn answers_come_in_any_order() {
    for seed in 0..10 {
        let (rig, peer) = start_on(flying(8), &[scattered(1, 30, 50 * MS)]);
        let mut chance = fastrand::Rng::with_seed(seed);
        let count = Arc::new(AtomicU16::new(0));
        let counted = count.clone();
        // Each register holds how many requests came before this one, so that older values are smaller.
        let (wires, _) = parallel(peer, move |asked| {
            let now = counted.fetch_add(1, Ordering::Relaxed);
            Some((chance.u32(0..300) * MS, asked.registers(|_| now)))
        });
        sleep(60 * SECOND).await;
        wires.check(8);
        for id in 1..=30 {
            let values: Vec<_> = rig
                .told
                .of(id)
                .into_iter()
                .map(|(_, update)| update.value.unwrap().as_f64().unwrap())
                .collect();
            assert!(values.len() > 20 && values.is_sorted(), "{values:?}");
        }
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_is_alone_on_the_wire_and_no_poll_puts_the_old_value_back() {
    for seed in 0..10 {
        let (rig, peer) = start_on(flying(8), &[scattered(1, 20, 20 * MS)]);
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut held = vec![0_u16; 4000];
        // What is read is what was held when the request came, however late its answer is.
        let (wires, log) = parallel(peer, move |asked| {
            let takes = chance.u32(0..200) * MS;
            if asked.is_write() {
                held[usize::from(asked.address())] = asked.count();
                return Some((takes, asked.echo()));
            }
            Some((takes, asked.registers(|at| held[usize::from(at)])))
        });
        for value in 1..=30_u64 {
            sleep(70 * MS).await;
            let report = rig.write(3, Value::U64(value)).await.unwrap();
            assert_eq!(report.outcome, Outcome::Confirmed, "{}", report.message);
        }
        sleep(SECOND).await;
        wires.check(8);
        let told = rig.told.of(3);
        assert!(told.is_sorted_by_key(|(_, update)| update.value.as_ref().unwrap().as_decimal().unwrap()));
        assert_eq!(log.lock().unwrap().iter().filter(|asked| asked.is_write()).count(), 30);
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_silence_of_one_loses_no_answer_to_others() {
    let units = [scattered(1, 4, SECOND), {
        let tag = |at: u16| polled(1000 + u32::from(at), Table::Holding, at * 100, Kind::Uint16);
        unit(2, (0..4).map(tag).collect())
    }];
    let (rig, peer) = start_on(flying(8), &units);
    let (wires, log) = parallel(peer, |asked| {
        // A little less than it may take, and never.
        (asked.unit_id == 2).then(|| (490 * MS, asked.registers(|at| at)))
    });
    sleep(60 * SECOND + 100 * MS).await;
    for id in 1000..1004 {
        assert_eq!(rig.told.of(id).len(), 60, "each round's answer was taken");
    }
    assert_eq!(rig.told.last(1).unwrap().quality, Quality::Bad(Reason::DeviceSilent));
    let polls = log.lock().unwrap().iter().filter(|asked| asked.unit_id == 1).count();
    assert!(polls < 20, "{polls} requests to the silent unit");
    wires.check(8);
    assert_eq!(rig.count(|counters| &counters.dropped), 0);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn what_failed_together_failed_once() {
    // All that is on the wire when a device hangs for a moment is one time-out of three that make it silent.
    let (rig, peer) = start_on(flying(8), &[scattered(1, 8, SECOND), scattered(2, 1, SECOND)]);
    let hangs = Arc::new(AtomicBool::new(false));
    let hung = hangs.clone();
    parallel(peer, move |asked| (!hung.load(Ordering::Relaxed)).then(|| (MS, asked.registers(|at| at))));
    sleep(SECOND / 2).await;
    hangs.store(true, Ordering::Relaxed);
    sleep(900 * MS).await;
    hangs.store(false, Ordering::Relaxed);
    sleep(10 * SECOND).await;
    assert_eq!(rig.count(|counters| &counters.timeouts), 8);
    assert_eq!(rig.told.states_of(1), [DeviceState::Online], "it was not gone");
    assert!(rig.told.of(1).iter().all(|(_, update)| update.quality == Quality::Good));
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_unit_that_its_gateway_refused_many_times_at_once_is_probed_soon() {
    for code in [Some(0x0B), None] {
        let (rig, peer) = start_on(
            flying(8),
            &[scattered(1, 8, SECOND), { unit(2, vec![polled(1000, Table::Holding, 0, Kind::Uint16)]) }],
        );
        let gone = Arc::new(AtomicBool::new(true));
        let away = gone.clone();
        parallel(peer, move |asked| match code {
            _ if asked.unit_id == 2 || !away.load(Ordering::Relaxed) => Some((MS, asked.registers(|at| at))),
            Some(code) => Some((MS, asked.exception(code))),
            None => None,
        });
        // Three time-outs, or one refusal; then the first probe comes after ten times what that took.
        sleep(if code.is_some() { SECOND / 2 } else { 4 * SECOND }).await;
        assert!(matches!(rig.told.states_of(1)[..], [DeviceState::Refused | DeviceState::Silent]));
        gone.store(false, Ordering::Relaxed);
        sleep(if code.is_some() { SECOND } else { 5 * SECOND }).await;
        assert_eq!(rig.told.states_of(1).last(), Some(&DeviceState::Online), "{code:?}");
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_hangs_as_a_whole_is_given_the_same_time_however_many_requests_it_had() {
    for most in [1, 8] {
        let (rig, peer) = start_on(flying(most), &[scattered(1, 8, SECOND)]);
        let started = Instant::now();
        parallel(peer, |_| None);
        assert_eq!(rig.lost().await, "plc:502: nothing came in answer to 6 requests");
        assert!(started.elapsed() >= 6 * TIMEOUT, "{:?}", started.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn late_answers_and_foreign_ones_do_not_disturb_what_is_open() {
    let (rig, mut peer) = start_on(flying(4), &[scattered(1, 4, SECOND)]);
    let mut first = Vec::new();
    for _ in 0..4 {
        first.push(peer.asked().await.unwrap());
    }
    sleep(TIMEOUT + 10 * MS).await;
    let mut second = Vec::new();
    for _ in 0..4 {
        second.push(peer.asked().await.unwrap());
    }
    for old in &first {
        peer.answer(old, &hex("0302DEAD")).await;
    }
    // An id that is open, of another unit, and with another function.
    peer.say(second[0].id, 9, &hex("0302DEAD")).await;
    peer.say(second[1].id, 1, &hex("0402DEAD")).await;
    peer.say(second[3].id.wrapping_add(7), 1, &hex("0302DEAD")).await;
    for asked in second.iter().rev() {
        peer.answer(asked, &asked.registers(|at| at)).await;
    }
    sleep(10 * MS).await;
    for id in 1..=4 {
        let told: Vec<_> = rig.told.of(id).into_iter().map(|(_, update)| update.value).collect();
        assert_eq!(told, [Some(Value::U64(u64::from(id) * 100))]);
    }
    assert_eq!(rig.count(|counters| &counters.dropped), 7);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn without_ids_one_at_a_time_is_asked_whatever_is_configured() {
    for endpoint in
        [ModbusEndpoint { check_ids: false, ..flying(8) }, ModbusEndpoint { max_in_flight: 8, ..serial() }]
    {
        let (rig, peer) = start_on(endpoint, &[scattered(1, 8, 100 * MS)]);
        let log = free_device(peer, |asked| Some((50 * MS, asked.registers(|at| at))));
        sleep(10 * SECOND).await;
        let times: Vec<_> = log.lock().unwrap().iter().map(|asked| asked.at).collect();
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 50 * MS));
        assert!((1..=8).all(|id| rig.told.last(id).unwrap().value == Some(Value::U64(u64::from(id) * 100))));
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_with_many_on_the_wire_is_at_once_and_loses_no_write() {
    let (rig, peer) = start_on(flying(8), &[scattered(1, 8, SECOND)]);
    let (wires, log) = parallel(peer, |asked| Some((300 * MS, asked.registers(|at| at))));
    sleep(100 * MS).await;
    let reports: Vec<_> = (0..5).map(|value| rig.write(1, Value::U64(value))).collect();
    sleep(MS).await;
    let asked = Instant::now();
    rig.stopped().await;
    assert_eq!(asked.elapsed(), Duration::ZERO);
    for report in reports {
        assert_eq!(report.await.unwrap().outcome, Outcome::NotSent);
    }
    let unlike: BTreeSet<_> = log.lock().unwrap().iter().map(Asked::address).collect();
    assert_eq!(unlike.len(), 8);
    wires.check(8);
}
