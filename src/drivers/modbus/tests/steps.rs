//! Wires without ids, where one answer too late or too many shifts all that follow.

use tokio::time::sleep;

use super::*;
use crate::model::Outcome;

const MS: Duration = Duration::from_millis(1);
const ADDRESSES: [u16; 5] = [100, 200, 300, 400, 500];

/// The three wires whose answers do not tell what they are for.
fn wires() -> [ModbusEndpoint; 3] {
    let remote = ModbusEndpoint { transport: Transport::RtuTcp { address: "x:1".to_owned() }, ..serial() };
    [serial(), remote, ModbusEndpoint { check_ids: false, ..endpoint("plc:502", TIMEOUT) }]
}

/// Registers whose value is their address, one request each and all alike.
fn alike(scan: Duration) -> Vec<Polled> {
    let tag = |at: u16| Polled { scan, ..polled(at.into(), Table::Holding, at, Kind::Uint16) };
    ADDRESSES.into_iter().map(tag).collect()
}

/// A device that does one thing after the other, each for as long as `takes` says of it by its number.
fn one_by_one(peer: Peer, takes: impl Fn(usize) -> Duration + Send + 'static) -> Arc<Mutex<Vec<Asked>>> {
    let (mut number, mut free) = (0, Instant::now());
    free_device(peer, move |asked| {
        number += 1;
        free = free.max(Instant::now()) + takes(number);
        let pdu = if asked.is_write() { asked.echo() } else { asked.registers(|at| at) };
        Some((free - Instant::now(), pdu))
    })
}

/// What was told of registers since then that is not what they hold.
fn wrong(rig: &Rig, since: Instant) -> Vec<Update> {
    let told = ADDRESSES.into_iter().flat_map(|at| {
        let of = rig.told.of(at.into()).into_iter();
        of.filter(move |(told, update)| {
            *told >= since && update.value.is_some() && update.value != Some(Value::U64(at.into()))
        })
    });
    told.map(|(_, update)| update).collect()
}

fn all_good(rig: &Rig) {
    for at in ADDRESSES {
        let last = rig.told.of(at.into()).pop().unwrap();
        assert_eq!(last.1.quality, Quality::Good, "{at}: {last:?}");
        assert!(last.0.elapsed() < SECOND, "{at}: {last:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_answer_that_comes_after_any_rest_shifts_nothing() {
    for endpoint in wires() {
        for late in [600, 1000, 1040, 1100, 1500, 2000, 2400] {
            let start = Instant::now();
            let (rig, peer) = start_on(endpoint.clone(), &[unit(1, alike(100 * MS))]);
            one_by_one(peer, move |number| MS * if number == 20 { late } else { 40 });
            sleep(20 * SECOND).await;
            assert_eq!(wrong(&rig, start), [], "{late} ms");
            all_good(&rig);
            rig.stopped().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_device_that_is_always_late_is_never_believed() {
    for endpoint in wires() {
        for late in [510, 990, 1010, 1100, 1700, 2100, 2600, 3300] {
            let start = Instant::now();
            let (rig, peer) = start_on(endpoint.clone(), &[unit(1, alike(SECOND))]);
            // Each answer takes its time, whatever comes between.
            free_device(peer, move |asked| Some((late * MS, asked.registers(|at| at))));
            sleep(60 * SECOND).await;
            assert_eq!(wrong(&rig, start), [], "{late} ms");
            rig.stopped().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_said_twice_is_noticed_by_its_haste() {
    for endpoint in wires() {
        for again in [0, 1, 10, 25] {
            let start = Instant::now();
            let (rig, mut peer) = start_on(endpoint.clone(), &[unit(1, alike(100 * MS))]);
            let script = tokio::spawn(async move {
                for number in 0.. {
                    let Some(asked) = peer.asked().await else { return };
                    sleep(60 * MS).await;
                    peer.answer(&asked, &asked.registers(|at| at)).await;
                    if number == 30 {
                        sleep(again * MS).await;
                        peer.answer(&asked, &asked.registers(|at| at)).await;
                    }
                }
            });
            sleep(30 * SECOND).await;
            assert_eq!(wrong(&rig, start), [], "{again} ms later");
            all_good(&rig);
            rig.stopped().await;
            script.await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_shift_that_nothing_showed_ends_in_a_pause_and_is_told() {
    for endpoint in wires() {
        let (rig, mut peer) = start_on(endpoint, &[unit(1, alike(100 * MS))]);
        let script = tokio::spawn(async move {
            for number in 0.. {
                let Some(asked) = peer.asked().await else { return };
                sleep(60 * MS).await;
                peer.answer(&asked, &asked.registers(|at| at)).await;
                // As slow as ever.
                if number == 30 {
                    sleep(55 * MS).await;
                    peer.answer(&asked, &asked.registers(|at| at)).await;
                }
            }
        });
        sleep(15 * SECOND).await;
        let doubted = rig.told.of(100).into_iter().find(|(_, update)| {
            update.quality == Quality::Uncertain(Reason::Stale)
                && update.detail.as_deref().is_some_and(|detail| detail.contains("out of step"))
        });
        let (at, _) = doubted.unwrap();
        assert_eq!(wrong(&rig, at), []);
        sleep(5 * SECOND).await;
        all_good(&rig);
        rig.stopped().await;
        script.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_to_listen_cost_a_busy_line_next_to_nothing() {
    let [_, remote, _] = wires();
    let (rig, peer) = start_on(remote, &[unit(1, alike(MS))]);
    let log = one_by_one(peer, |_| 10 * MS);
    sleep(SECOND).await;
    log.lock().unwrap().clear();
    sleep(100 * SECOND).await;
    rig.stopped().await;
    let log = log.lock().unwrap();
    let times: Vec<_> = log.windows(2).map(|two| two[1].at - two[0].at).collect();
    let usual = *times.iter().min().unwrap();
    let longer = times.iter().filter(|time| **time > usual + 5 * MS).count();
    assert!((8..=100).contains(&longer), "{longer} pauses in 100 s");
    let lost: Duration = times.iter().map(|time| time.saturating_sub(usual)).sum();
    assert!(lost < SECOND, "{lost:?} of 100 s");
}

#[tokio::test(start_paused = true)]
async fn a_late_exception_is_no_answer_to_another_write() {
    for endpoint in wires() {
        for code in [1, 2, 3] {
            let (rig, peer) = start_on(endpoint.clone(), &[unit(1, alike(SECOND))]);
            let mut free = Instant::now();
            let log = free_device(peer, move |asked| {
                let refused = asked.is_write() && asked.address() == 100;
                free = free.max(Instant::now()) + if refused { 1150 * MS } else { 20 * MS };
                let pdu = match () {
                    () if refused => asked.exception(code),
                    () if asked.is_write() => asked.echo(),
                    () => asked.registers(|at| at),
                };
                Some((free - Instant::now(), pdu))
            });
            sleep(2500 * MS).await;
            let first = rig.write(100, Value::U64(11));
            let second = rig.write(200, Value::U64(200));
            assert_eq!(first.await.unwrap().outcome, Outcome::Unknown);
            let second = second.await.unwrap();
            assert_eq!((second.outcome, second.acknowledged), (Outcome::Confirmed, true), "{second:?}");
            rig.stopped().await;
            let log = log.lock().unwrap();
            let writes: Vec<_> = log
                .iter()
                .filter(|asked| asked.is_write())
                .map(|asked| (asked.pdu[0], asked.address()))
                .collect();
            assert_eq!(writes, [(6, 100), (6, 200)], "one frame each, and no other function");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_another_form_shows_at_once_that_a_unit_is_in_step() {
    for endpoint in wires() {
        let mut tags = alike(10 * SECOND);
        tags.push(Polled { scan: 10 * SECOND, ..polled(7, Table::Input, 7, Kind::Uint16) });
        let (rig, peer) = start_on(endpoint, &[unit(1, tags)]);
        let log = free_device(peer, |asked| {
            let silent = asked.pdu[0] == 3 && asked.address() == 300;
            (!silent).then(|| (10 * MS, asked.registers(|at| at)))
        });
        sleep(5 * SECOND).await;
        rig.stopped().await;
        let log = log.lock().unwrap();
        let silent = log.iter().position(|asked| asked.address() == 300).unwrap();
        assert_eq!(log[silent + 1].pdu[0], 4, "{log:?}");
        assert!(
            log[silent + 1].at - log[silent].at <= 2 * TIMEOUT + 100 * MS,
            "it rests for one more time-out"
        );
        assert!(log[silent + 2].at - log[silent + 1].at < 100 * MS, "and is asked as ever");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_to_a_unit_that_may_answer_something_else() {
    for endpoint in wires() {
        let (rig, peer) = start_on(endpoint, &[unit(1, alike(10 * SECOND))]);
        let mut left = 3;
        let log = device(peer, move |asked| {
            left -= 1;
            (left > 0).then(|| asked.registers(|at| at))
        });
        sleep(1200 * MS).await;
        let report = rig.write(100, Value::U64(11)).await.unwrap();
        assert_eq!(report.outcome, Outcome::NotSent, "{report:?}");
        assert!(report.message.contains("left a question open"), "{report:?}");
        assert!(!log.lock().unwrap().iter().any(Asked::is_write));
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn another_master_is_told_of_and_its_answers_are_not_taken() {
    let start = Instant::now();
    let (rig, mut peer) = start_on(serial(), &[unit(1, alike(100 * MS))]);
    let script = tokio::spawn(async move {
        for number in 1.. {
            let Some(asked) = peer.asked().await else { return };
            if number % 10 == 0 {
                peer.bytes(&rtu_frame(1, &hex("0303E70001"))).await;
                sleep(20 * MS).await;
                peer.bytes(&rtu_frame(1, &hex("030203E7"))).await;
                sleep(20 * MS).await;
            }
            sleep(20 * MS).await;
            peer.answer(&asked, &asked.registers(|at| at)).await;
        }
    });
    sleep(20 * SECOND).await;
    assert_eq!(wrong(&rig, start), []);
    let told = ADDRESSES.into_iter().flat_map(|at| rig.told.of(at.into()));
    let good = told.filter(|(_, update)| update.quality == Quality::Good).count();
    assert!(good > 50, "{good}");
    rig.stopped().await;
    script.await.unwrap();
}
