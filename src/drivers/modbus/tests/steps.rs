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

/// A device that says one answer a second time, so long after the first.
async fn doubling(mut peer: Peer, again: Duration) {
    for number in 0.. {
        let Some(asked) = peer.asked().await else { return };
        sleep(60 * MS).await;
        peer.answer(&asked, &asked.registers(|at| at)).await;
        if number == 30 {
            sleep(again).await;
            peer.answer(&asked, &asked.registers(|at| at)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_said_twice_is_noticed_by_its_haste() {
    for endpoint in wires() {
        for again in [0, 1, 10, 25] {
            let start = Instant::now();
            let (rig, peer) = start_on(endpoint.clone(), &[unit(1, alike(100 * MS))]);
            let script = tokio::spawn(doubling(peer, again * MS));
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
        let (rig, peer) = start_on(endpoint, &[unit(1, alike(100 * MS))]);
        // As slow as ever.
        let script = tokio::spawn(doubling(peer, 55 * MS));
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
            assert_eq!(
                (second.outcome, second.acknowledged_by.is_some()),
                (Outcome::Confirmed, true),
                "{second:?}"
            );
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

/// Reads registers whose value is their address of units that are late at random, up to nearly twice the time-out.
async fn late_answers_of_a11(endpoint: ModbusEndpoint, seed: u64) {
    let units: Vec<_> = (1..=3_u8)
        .map(|unit_id| {
            let tag = |at: u16| Polled {
                scan: Duration::from_millis(200),
                ..polled(u32::from(unit_id) * 1000 + u32::from(at), Table::Holding, at * 20, Kind::Uint16)
            };
            unit(unit_id, (0..10).map(tag).collect())
        })
        .collect();
    let (rig, peer) = start_on(endpoint, &units);
    let mut chance = fastrand::Rng::with_seed(seed);
    let log = free_device(peer, move |asked| {
        let late = chance.u8(..) < 50;
        let delay = if late { chance.u32(500..950) } else { chance.u32(0..40) };
        let id = u16::from(asked.unit_id) * 1000;
        Some((delay * MS, asked.registers(|at| at + id)))
    });
    while log.lock().unwrap().len() < 1000 {
        sleep(SECOND).await;
    }
    let mut read = 0;
    for id in 1..=3 {
        for at in 0..10 {
            let value = id * 1000 + at * 20;
            for (_, update) in rig.told.of(id * 1000 + at) {
                let right = update.value.is_none() || update.value == Some(Value::U64(value.into()));
                assert!(right, "{value} is {update:?}");
                read += u32::from(update.quality == Quality::Good);
            }
        }
    }
    assert!((600..1000).contains(&read), "{read} were answered in time");
    assert!(rig.count(|counters| &counters.timeouts) > 50);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn no_late_answer_of_a11_is_taken_for_another_without_ids() {
    for seed in 0..5 {
        late_answers_of_a11(serial(), seed).await;
        let remote =
            ModbusEndpoint { transport: Transport::RtuTcp { address: "x:1".to_owned() }, ..serial() };
        late_answers_of_a11(remote, seed).await;
        late_answers_of_a11(ModbusEndpoint { check_ids: false, ..endpoint("plc:502", TIMEOUT) }, seed).await;
        late_answers_of_a11(endpoint("plc:502", TIMEOUT), seed).await;
        late_answers_of_a11(ModbusEndpoint { max_in_flight: 4, ..endpoint("plc:502", TIMEOUT) }, seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_cut_off_is_not_taken_for_one_of_the_next_session() {
    // A serial server goes away and is back at once; the station behind it takes its time.
    for cut in ["poll", "look", "write"] {
        let tags =
            vec![polled(1, Table::Holding, 0, Kind::Uint16), polled(2, Table::Holding, 100, Kind::Uint16)];
        let (rig, mut peer) = start_on(serial(), &[unit(1, tags)]);
        let mut asked = peer.asked().await.unwrap();
        if cut != "poll" {
            drop(rig.write_by(1, Value::U64(7), cut == "look", SECOND, Grant::default()));
            peer.answer(&asked, &asked.registers(|at| at)).await;
            asked = peer.asked().await.unwrap();
            assert_eq!(asked.is_write(), cut == "write");
        }
        let late = if cut == "write" { asked.echo() } else { hex("03020BAD") };
        drop(peer);
        let (driver, _) = rig.task.await.unwrap();
        let (rig, mut peer) = run(driver);
        sleep(450 * MS).await;
        peer.answer(&asked, &late).await;
        let next = peer.asked().await.unwrap();
        assert!(next.at - asked.at >= TIMEOUT, "{cut}: {:?}", next.at - asked.at);
        peer.answer(&next, &next.registers(|at| at)).await;
        sleep(10 * MS).await;
        assert!(
            (1..=2).all(|id| rig
                .told
                .of(id)
                .iter()
                .all(|(_, update)| update.value != Some(Value::U64(0x0BAD))))
        );
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_that_ends_early_keeps_its_unit_waiting_all_the_same() {
    // Its command's deadline comes long before its answer, and other commands for the unit wait.
    let (rig, mut peer) = start_on(serial(), &echo::plant());
    let script = tokio::spawn(async move {
        for _ in 0..4 {
            let asked = peer.asked().await.unwrap();
            let pdu = if asked.pdu[0] == 1 { hex("010100") } else { asked.registers(|_| 0) };
            peer.answer(&asked, &pdu).await;
        }
        let look = peer.asked().await.unwrap();
        sleep(800 * MS).await;
        peer.answer(&look, &hex("03020BAD")).await;
        while let Some(next) = peer.asked().await {
            assert!(next.at - look.at >= TIMEOUT, "{:?}", next.at - look.at);
            let pdu = if next.pdu[0] == 1 { hex("010100") } else { next.registers(|_| 5) };
            peer.answer(&next, &pdu).await;
        }
    });
    sleep(2 * SECOND).await;
    let first = rig.write_by(1, Value::U64(7), true, 100 * MS, Grant::default());
    let permit = Grant {
        no: Some(Report::new(Outcome::Rejected(crate::model::Rule::Expectation), "no")),
        ..Grant::default()
    };
    let second = rig.write_by(2, Value::U64(7), true, 5 * SECOND, permit.clone());
    assert_eq!(first.await.unwrap().outcome, Outcome::NotSent);
    let second = second.await.unwrap();
    assert_eq!(second.message, "no");
    assert_eq!(*permit.shown.lock().unwrap(), [Some(Value::U64(5))]);
    rig.stopped().await;
    script.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn half_of_a_late_answer_before_the_request_is_none_to_it() {
    let endpoint = ModbusEndpoint { check_ids: false, ..endpoint("plc:502", TIMEOUT) };
    let tags = vec![
        Polled { scan: 3 * SECOND, ..polled(1, Table::Holding, 0, Kind::Uint16) },
        Polled { scan: 3 * SECOND, ..polled(2, Table::Holding, 100, Kind::Uint16) },
    ];
    let (rig, mut peer) = start_on(endpoint, &[unit(1, tags)]);
    let first = peer.asked().await.unwrap();
    let frame = tcp_frame(9, 1, &hex("03020BAD"));
    sleep(TIMEOUT + 450 * MS).await;
    peer.bytes(&frame[..5]).await;
    let second = peer.asked().await.unwrap();
    assert_ne!(second.address(), first.address());
    peer.bytes(&frame[5..]).await;
    sleep(10 * MS).await;
    peer.answer(&second, &hex("03020064")).await;
    sleep(10 * MS).await;
    assert_eq!(rig.told.last(2).unwrap().value, Some(Value::U64(0x64)));
    assert_eq!(rig.count(|counters| &counters.dropped), 1);
    rig.stopped().await;
}

/// A device whose answers are held up from one moment on, and then come in one piece.
fn stalling(
    peer: Peer,
    stalls: impl Fn(usize) -> bool + Send + 'static,
    stall: Duration,
) -> Arc<Mutex<Vec<Asked>>> {
    let log = Arc::new(Mutex::new(Vec::new()));
    let kept = log.clone();
    let Peer(stream, rtu) = peer;
    let (input, mut output) = tokio::io::split(stream);
    let mut input = Peer(input, rtu);
    tokio::spawn(async move {
        let (mut number, mut until, mut late) = (0, None::<Instant>, Vec::new());
        loop {
            let asked = match until {
                Some(at) => tokio::select! {
                    asked = input.asked() => asked,
                    () = tokio::time::sleep_until(at) => {
                        drop(output.write_all(&std::mem::take(&mut late)).await);
                        until = None;
                        continue;
                    }
                },
                None => input.asked().await,
            };
            let Some(asked) = asked else { return };
            kept.lock().unwrap().push(asked.clone());
            number += 1;
            if stalls(number) {
                until = Some(Instant::now() + stall);
            }
            let pdu = if asked.is_write() { asked.echo() } else { asked.registers(|at| at) };
            let frame = if rtu { rtu_frame(asked.unit_id, &pdu) } else { tcp_frame(0, asked.unit_id, &pdu) };
            late.extend(frame);
            if until.is_none() {
                sleep(20 * MS).await;
                drop(output.write_all(&std::mem::take(&mut late)).await);
            }
        }
    });
    log
}

#[tokio::test(start_paused = true)]
async fn answers_that_come_in_one_piece_are_none_of_them_believed() {
    for endpoint in wires() {
        for stall in [1050, 1250, 1490, 2300] {
            let start = Instant::now();
            let (rig, peer) = start_on(endpoint.clone(), &[unit(1, alike(200 * MS))]);
            stalling(peer, |number| number % 30 == 20, stall * MS);
            sleep(60 * SECOND).await;
            assert_eq!(wrong(&rig, start), [], "{stall} ms");
            rig.stopped().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_heard_in_pieces_or_spoilt_speaks_against_what_is_held_back() {
    let [line, remote, _] = wires();
    for endpoint in [line, remote] {
        for spoilt in [false, true] {
            let start = Instant::now();
            let (rig, mut peer) = start_on(endpoint.clone(), &[unit(1, alike(200 * MS))]);
            let script = tokio::spawn(async move {
                for number in 0.. {
                    let Some(asked) = peer.asked().await else { return };
                    // One answer comes after its unit's rest, and the next one in two pieces or spoilt.
                    sleep(if number == 20 { 1100 * MS } else { 20 * MS }).await;
                    let mut frame = rtu_frame(asked.unit_id, &asked.registers(|at| at));
                    let last = frame.pop().unwrap();
                    if number == 21 && spoilt {
                        frame[3] ^= 1;
                    }
                    peer.bytes(&frame).await;
                    if number == 21 && !spoilt {
                        sleep(80 * MS).await;
                    }
                    peer.bytes(&[last]).await;
                }
            });
            sleep(30 * SECOND).await;
            assert_eq!(wrong(&rig, start), [], "{spoilt}");
            all_good(&rig);
            rig.stopped().await;
            script.await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_unit_out_of_step_has_its_turn_on_a_line_that_is_never_idle() {
    let mut units: Vec<_> = (1..=3_u8).map(|id| unit(id, alike(MS))).collect();
    for (unit, base) in units.iter_mut().zip([0, 1000, 2000]) {
        for tag in &mut unit.tags {
            tag.id = TagId(tag.id.0 + base);
        }
    }
    for endpoint in wires() {
        let (rig, peer) = start_on(endpoint, &units);
        let mut number = 0;
        free_device(peer, move |asked| {
            number += u32::from(asked.unit_id == 1);
            (number != 20 || asked.unit_id != 1).then(|| (20 * MS, asked.registers(|at| at)))
        });
        sleep(20 * SECOND).await;
        all_good(&rig);
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_its_unit_stops_nobody_else() {
    let mut units =
        vec![unit(1, alike(10 * SECOND)), unit(2, vec![polled(9, Table::Holding, 9, Kind::Uint16)])];
    units[1].tags[0].scan = 100 * MS;
    let (rig, peer) = start_on(serial(), &units);
    let mut number = 0;
    let log = free_device(peer, move |asked| {
        number += u32::from(asked.unit_id == 1);
        let pdu = if asked.is_write() { asked.echo() } else { asked.registers(|at| at) };
        (number != 3 || asked.unit_id == 2).then_some((10 * MS, pdu))
    });
    sleep(1800 * MS).await;
    log.lock().unwrap().clear();
    let report = rig.write_by(100, Value::U64(100), false, 20 * SECOND, Grant::default()).await.unwrap();
    assert_eq!(report.outcome, Outcome::Confirmed, "{report:?}");
    rig.stopped().await;
    let log = log.lock().unwrap();
    let write = log.iter().find(|asked| asked.is_write()).unwrap();
    let others: Vec<_> = log.iter().filter(|asked| asked.unit_id == 2 && asked.at < write.at).collect();
    assert!(write.at - others[0].at > SECOND, "it waits");
    assert!(others.windows(2).all(|two| two[1].at - two[0].at <= 150 * MS), "{others:?}");
}

#[tokio::test(start_paused = true)]
async fn a_line_is_let_go_when_what_was_asked_on_it_is_answered() {
    for endpoint in wires() {
        for (answer, ends) in [(Some(700), 700), (None, 1500)] {
            let (rig, mut peer) = start_on(endpoint.clone(), &[unit(1, alike(SECOND))]);
            let asked = peer.asked().await.unwrap();
            sleep(10 * MS).await;
            rig.stop.cancel();
            if let Some(after) = answer {
                sleep((after - 10) * MS).await;
                assert!(!rig.task.is_finished());
                peer.answer(&asked, &asked.registers(|at| at)).await;
            }
            let (_, end) = rig.task.await.unwrap();
            assert!(matches!(end, SessionEnd::Stopped));
            let took = asked.at.elapsed();
            assert!(took >= (ends - 20) * MS && took <= (ends + 20) * MS, "{took:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_late_answers_shift_nothing() {
    for endpoint in wires() {
        for (first, second) in
            [(1170, 1580), (670, 1580), (830, 1670), (1170, 1400), (1580, 2000), (1170, 3500)]
        {
            let start = Instant::now();
            let (rig, peer) = start_on(endpoint.clone(), &[unit(1, alike(200 * MS))]);
            one_by_one(peer, move |number| {
                MS * match number {
                    20 => first,
                    21 => second,
                    _ => 30,
                }
            });
            sleep(60 * SECOND).await;
            assert_eq!(wrong(&rig, start), [], "{first} and {second} ms");
            all_good(&rig);
            rig.stopped().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_broadcast_leaves_no_older_write_to_undo_it() {
    let mut units =
        vec![unit(1, alike(10 * SECOND)), unit(0, vec![polled(900, Table::Holding, 100, Kind::Uint16)])];
    units[1].broadcast = true;
    let (rig, peer) = start_on(serial(), &units);
    let mut number = 0;
    let log = free_device(peer, move |asked| {
        number += 1;
        (number < 3).then(|| (10 * MS, asked.registers(|at| at)))
    });
    sleep(1800 * MS).await;
    let older = rig.write(100, Value::U64(1));
    let newer = rig.write(900, Value::U64(0));
    assert_eq!(newer.await.unwrap().outcome, Outcome::Sent);
    assert_eq!(older.await.unwrap().outcome, Outcome::NotSent);
    rig.stopped().await;
    let log = log.lock().unwrap();
    assert_eq!(
        log.iter().filter(|asked| asked.is_write()).map(|asked| asked.unit_id).collect::<Vec<_>>(),
        [0]
    );
}
