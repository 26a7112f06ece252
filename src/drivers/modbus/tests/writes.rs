//! Writes: their turn, their permit, what is told of them. Case A17, steps 4 to 6.

use tokio::time::sleep;

use super::*;
use crate::model::{Outcome, Rule};

/// How many requests poll the plant.
const POLLS: u32 = 5;

fn plant() -> [Unit; 1] {
    let mut tenth = polled(2, Table::Holding, 10, Kind::Uint16);
    Arc::make_mut(&mut tenth.point).format = format(Kind::Uint16, "0.1");
    let mut tags = vec![
        polled(1, Table::Holding, 0x190, Kind::Uint16),
        tenth,
        polled(3, Table::Coil, 3, Kind::Bool),
        polled(4, Table::Holding, 20, Kind::Float32),
        polled(5, Table::Input, 0, Kind::Uint16),
    ];
    // Polled once, so that what follows is the writes' own.
    for tag in &mut tags {
        tag.scan = Duration::from_secs(3600);
    }
    [unit(9, tags)]
}

/// A device with registers and coils that does as it is told.
fn obedient() -> impl FnMut(&Asked) -> Option<Vec<u8>> + Send + 'static {
    let mut registers = vec![0_u16; 0x200];
    let mut coil = false;
    move |asked| {
        let at = usize::from(asked.address());
        match asked.pdu[0] {
            1 => return Some(vec![1, 1, u8::from(coil)]),
            3 | 4 => return Some(asked.registers(|at| registers[usize::from(at)])),
            5 => coil = asked.pdu[3] == 0xFF,
            6 => registers[at] = asked.count(),
            16 => {
                for (place, word) in registers[at..].iter_mut().zip(asked.pdu[6..].chunks(2)) {
                    *place = u16::from_be_bytes([word[0], word[1]]);
                }
            }
            other => panic!("function {other}"),
        }
        Some(asked.echo())
    }
}

/// Waits for the first polls to be over; the device holds zeros.
async fn settled() -> (Rig, Arc<Mutex<Vec<Asked>>>) {
    settled_with(obedient()).await
}

async fn settled_with(
    answer: impl FnMut(&Asked) -> Option<Vec<u8>> + Send + 'static,
) -> (Rig, Arc<Mutex<Vec<Asked>>>) {
    let (rig, peer) = start(&plant());
    let log = device(peer, answer);
    sleep(Duration::from_millis(10)).await;
    assert_eq!(log.lock().unwrap().len(), usize::try_from(POLLS).unwrap());
    log.lock().unwrap().clear();
    (rig, log)
}

fn frames(log: &Mutex<Vec<Asked>>) -> Vec<Vec<u8>> {
    log.lock().unwrap().iter().map(|asked| asked.pdu.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_write_is_one_frame_and_read_back() {
    let (rig, log) = settled().await;
    for (id, value, expected) in [
        (1, Value::U64(61680), ["060190F0F0", "0301900001"]),
        (2, Value::F64(21.4), ["06000A00D6", "03000A0001"]),
        (3, Value::Bool(true), ["050003FF00", "0100030001"]),
        (4, Value::F32(49.98), ["1000140002044247EB85", "0300140002"]),
    ] {
        let report = rig.write(id, value.clone()).await.unwrap();
        assert_eq!(report.outcome, Outcome::Confirmed, "{}", report.message);
        assert_eq!(report.value.as_ref(), Some(&value));
        assert_eq!(frames(&log), expected.map(hex));
        let told = rig.told.last(id).unwrap();
        assert_eq!((told.value, told.quality), (Some(value), Quality::Good));
        log.lock().unwrap().clear();
    }
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_time_out_of_a17_is_unknown_and_nothing_is_repeated() {
    let (rig, log) = settled_with(|asked| (!asked.is_write()).then(|| read_zeros(asked))).await;
    let asked = Instant::now();
    let report = rig.write(1, Value::U64(215)).await.unwrap();
    assert_eq!(report.outcome, Outcome::Unknown);
    assert_eq!(asked.elapsed(), TIMEOUT);
    assert!(report.message.contains("may have taken the value"), "{}", report.message);
    sleep(Duration::from_secs(60)).await;
    let writes: Vec<_> = frames(&log).into_iter().filter(|pdu| matches!(pdu[0], 5 | 6 | 15 | 16)).collect();
    assert_eq!(writes, [hex("06019000D7")], "no second write by any function");
    // What was read before is in doubt, so it was read again at once and not an hour later.
    let (at, told) = rig.told.of(1).pop().unwrap();
    assert_eq!((at, told.value), (asked + TIMEOUT, Some(Value::U64(0))));
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_bytes_may_still_arrive_ends_the_session_at_once() {
    let driver = Modbus::new(endpoint("plc:502", TIMEOUT), &plant(), Arc::default());
    let (rig, peer) = run_with(driver, Delivery::told_by(|| true));
    let log = device(peer, |asked| (!asked.is_write()).then(|| read_zeros(asked)));
    sleep(Duration::from_millis(10)).await;
    let asked = Instant::now();
    let (first, second) = (rig.write(1, Value::U64(215)), rig.write(1, Value::U64(216)));
    assert_eq!(first.await.unwrap().outcome, Outcome::Unknown);
    let lost = rig.lost().await;
    assert_eq!(
        lost,
        "plc:502: a write got no answer: the connection is closed, so that nothing of it can arrive late"
    );
    assert_eq!(asked.elapsed(), TIMEOUT);
    assert_eq!(second.await.unwrap().outcome, Outcome::NotSent);
    assert_eq!(log.lock().unwrap().iter().filter(|asked| asked.is_write()).count(), 1);
}

fn read_zeros(asked: &Asked) -> Vec<u8> {
    if asked.pdu[0] == 1 { vec![1, 1, 0] } else { asked.registers(|_| 0) }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_shorter_than_the_time_out_ends_the_wait() {
    let (rig, _) = settled_with(|asked| (!asked.is_write()).then(|| read_zeros(asked))).await;
    let asked = Instant::now();
    let within = Duration::from_millis(200);
    let report = rig.write_by(1, Value::U64(1), false, within, Grant::default()).await.unwrap();
    assert_eq!((report.outcome, asked.elapsed()), (Outcome::Unknown, within));
    assert_eq!(rig.count(|counters| &counters.timeouts), 0, "the unit was given less than its time");
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn an_echo_of_a17_that_differs_is_no_success() {
    // What the device holds afterwards decides; the echo is told in any case.
    for (held, outcome) in [
        (Some(0xD7), Outcome::Confirmed),
        (Some(0xD6), Outcome::Differs),
        (Some(0), Outcome::Differs),
        (None, Outcome::Unknown),
    ] {
        let mut reads = 0;
        let (rig, _) = settled_with(move |asked| {
            reads += u32::from(!asked.is_write());
            Some(match (asked.pdu[0], held) {
                (6, _) => hex("06019000D6"),
                (1, _) => vec![1, 1, 0],
                (_, None) if reads > POLLS => asked.exception(1),
                (_, held) => asked.registers(|_| held.unwrap_or_default()),
            })
        })
        .await;
        let report = rig.write(1, Value::U64(0xD7)).await.unwrap();
        assert_eq!(report.outcome, outcome, "{}", report.message);
        assert_eq!(report.value, held.map(|held| Value::U64(held.into())));
        assert!(
            report
                .message
                .starts_with("the device echoed 0x00D6 at address 400 where 0x00D7 at address 400 was sent"),
            "{}",
            report.message
        );
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_read_back_decides() {
    // Acknowledges and keeps what it had.
    let (rig, _) =
        settled_with(|asked| Some(if asked.is_write() { asked.echo() } else { read_zeros(asked) })).await;
    let report = rig.write(2, Value::F64(21.4)).await.unwrap();
    assert_eq!((report.outcome, report.value), (Outcome::Differs, Some(Value::F64(0.0))));
    rig.stopped().await;
    // Acknowledges and cannot be read.
    let mut reads = 0;
    let (rig, _) = settled_with(move |asked| {
        reads += u32::from(!asked.is_write());
        Some(match asked.is_write() {
            true => asked.echo(),
            false if reads <= POLLS => read_zeros(asked),
            false => asked.exception(1),
        })
    })
    .await;
    let report = rig.write(2, Value::F64(21.4)).await.unwrap();
    assert_eq!((report.outcome, report.value), (Outcome::Written, None));
    assert!(report.message.ends_with("exception 0x01 (illegal function)"), "{}", report.message);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn exceptions_refuse_with_their_code() {
    for code in [0x02, 0x03, 0x06, 0x0A, 0xC8] {
        let (rig, log) = settled_with(move |asked| {
            Some(if asked.is_write() { asked.exception(code) } else { read_zeros(asked) })
        })
        .await;
        let report = rig.write(1, Value::U64(1)).await.unwrap();
        assert_eq!((report.outcome, report.code), (Outcome::Refused, Some(code)));
        assert_eq!(frames(&log).len(), 1, "one write, and nothing to look at");
        let said = if code == 0x0A { "the gateway has no path" } else { "the device refused the write" };
        assert!(report.message.starts_with(said), "{}", report.message);
        let expected = if code == 0x0A { DeviceState::Refused } else { DeviceState::Online };
        assert_eq!(rig.told.states_of(9).last(), Some(&expected));
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn exceptions_that_leave_it_open_are_settled_by_reading_back() {
    for code in [0x04, 0x0B] {
        for (held, outcome) in
            [(Some(7), Outcome::Confirmed), (Some(0), Outcome::Unknown), (None, Outcome::Unknown)]
        {
            let mut written = false;
            let (rig, log) = settled_with(move |asked| {
                written |= asked.is_write();
                Some(match held {
                    _ if asked.is_write() => asked.exception(code),
                    Some(held) if written => asked.registers(|_| held),
                    None if written => asked.exception(code),
                    _ => read_zeros(asked),
                })
            })
            .await;
            let report = rig.write(1, Value::U64(7)).await.unwrap();
            assert_eq!((report.outcome, report.code), (outcome, Some(code)), "{}", report.message);
            assert_eq!(report.value, held.map(|held| Value::U64(held.into())));
            assert!(report.acknowledged_by.is_none());
            let named = format!("the write was answered with exception 0x{code:02X}");
            assert!(report.message.starts_with(&named), "{}", report.message);
            assert_eq!(frames(&log).iter().filter(|pdu| pdu[0] == 6).count(), 1);
            rig.stopped().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_write_leaves_open_is_uncertain_at_once_and_read_soon() {
    let mut requests = 0;
    let (rig, _) = settled_with(move |asked| {
        requests += 1;
        // Neither the write nor the first look after it is answered.
        (requests <= POLLS || requests > POLLS + 2).then(|| read_zeros(asked))
    })
    .await;
    let asked = Instant::now();
    assert_eq!(rig.write(1, Value::U64(7)).await.unwrap().outcome, Outcome::Unknown);
    sleep(Duration::from_secs(5)).await;
    let told: Vec<_> = rig.told.of(1).into_iter().skip(1).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    let (at, doubted) = &told[0];
    assert_eq!((*at, &doubted.value), (asked + TIMEOUT, &None));
    assert_eq!(doubted.quality, Quality::Uncertain(Reason::Stale));
    assert_eq!(doubted.detail.as_deref(), Some("a write to it is in doubt"));
    let (at, read) = &told[1];
    assert_eq!((*at, read.quality), (asked + 2 * TIMEOUT + Duration::from_millis(250), Quality::Good));
    assert_eq!(rig.told.of(2).len(), 1, "the others are as good as before");
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_doubt_makes_nothing_better_that_is_bad() {
    let echo = |asked: &Asked| Some(if asked.is_write() { asked.echo() } else { asked.exception(4) });
    let (rig, _) = settled_with(echo).await;
    assert_eq!(rig.write(1, Value::U64(7)).await.unwrap().outcome, Outcome::Written);
    sleep(SECOND).await;
    let told = rig.told.of(1);
    assert_eq!(told.len(), 2, "at the first poll, and at the look after the write");
    assert!(told.iter().all(|(_, told)| told.quality == Quality::Bad(Reason::DeviceRefused)), "{told:?}");
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_device_that_asks_for_time_is_looked_at_again() {
    let mut written = None;
    let (rig, log) = settled_with(move |asked| {
        if asked.is_write() {
            written = Some(Instant::now());
            return Some(asked.exception(5));
        }
        let done = written.is_some_and(|at| at.elapsed() >= Duration::from_millis(250));
        Some(if asked.pdu[0] == 1 { vec![1, 1, 0] } else { asked.registers(|_| if done { 7 } else { 0 }) })
    })
    .await;
    let report = rig.write(1, Value::U64(7)).await.unwrap();
    assert_eq!((report.outcome, report.code), (Outcome::Confirmed, Some(5)), "{}", report.message);
    assert_eq!(frames(&log).len(), 5, "one write and four looks");
    // It has until the deadline, far beyond a time-out, and others do not wait for it.
    let asked = Instant::now();
    let slow = rig.write(1, Value::U64(8));
    sleep(Duration::from_millis(50)).await;
    let report = rig.write(5, Value::U64(8)).await.unwrap();
    assert_eq!((report.outcome, asked.elapsed().as_millis()), (Outcome::Rejected(Rule::Access), 50));
    let report = slow.await.unwrap();
    assert_eq!((report.outcome, report.value), (Outcome::Unknown, Some(Value::U64(7))));
    assert!((4900..=5000).contains(&asked.elapsed().as_millis()), "{:?}", asked.elapsed());
    let text = "the device took the write, asked for time (exception 0x05) and did not hold the value by the deadline; \
                read back, it holds 7";
    assert_eq!(report.message, text);
    // A stop does not wait for the deadline.
    let slow = rig.write(1, Value::U64(9));
    sleep(Duration::from_millis(50)).await;
    let asked = Instant::now();
    rig.stopped().await;
    let report = slow.await.unwrap();
    assert_eq!((report.outcome, asked.elapsed()), (Outcome::Unknown, Duration::ZERO));
    assert!(report.message.contains("the connection is being closed; read back"), "{}", report.message);
}

#[tokio::test(start_paused = true)]
async fn a_device_that_asks_for_time_and_goes_away_leaves_the_write_unknown() {
    let (rig, mut peer) = start(&plant());
    let poll = peer.asked().await.unwrap();
    let report = rig.write(1, Value::U64(1));
    peer.answer(&poll, &read_zeros(&poll)).await;
    let write = peer.asked().await.unwrap();
    peer.answer(&write, &write.exception(5)).await;
    let look = peer.asked().await.unwrap();
    peer.answer(&look, &read_zeros(&look)).await;
    peer.asked().await.unwrap();
    drop(peer);
    let report = report.await.unwrap();
    assert_eq!((report.outcome, report.code), (Outcome::Unknown, Some(5)));
    let text = "the device took the write, asked for time (exception 0x05); reading back failed: closed by the device";
    assert_eq!(report.message, text);
    rig.lost().await;
}

#[tokio::test(start_paused = true)]
async fn writes_go_ahead_of_polls_but_do_not_starve_them() {
    let tags =
        (0..40).map(|at| polled(100 + at, Table::Input, u16::try_from(at * 50).unwrap(), Kind::Uint16));
    let mut tags: Vec<_> = tags.collect();
    tags.push(polled(1, Table::Holding, 0, Kind::Uint16));
    let (rig, mut peer) = start(&[unit(1, tags)]);
    let first = peer.asked().await.unwrap();
    let reports: Vec<_> = (0..30).map(|value| rig.write(1, Value::U64(value))).collect();
    peer.answer(&first, &hex("04020000")).await;
    let log =
        device(peer, |asked| Some(if asked.is_write() { asked.echo() } else { asked.registers(|_| 0) }));
    for report in reports {
        report.await.unwrap();
    }
    let order: String = log
        .lock()
        .unwrap()
        .iter()
        .filter(|asked| asked.pdu[0] != 3)
        .map(|asked| if asked.is_write() { 'w' } else { 'p' })
        .collect();
    assert!(order.starts_with("wwwwwwwwpwwwwwwwwpwwwwwwwwpwwwwww"), "{order}");
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_to_an_idle_link_leaves_at_once() {
    let (rig, log) = settled().await;
    sleep(Duration::from_secs(20)).await;
    let asked = Instant::now();
    rig.write(1, Value::U64(5)).await.unwrap();
    assert_eq!(log.lock().unwrap()[0].at, asked);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passed_sends_nothing() {
    let (rig, mut peer) = start(&plant());
    peer.asked().await.unwrap();
    let report = rig.write_by(1, Value::U64(5), false, Duration::from_millis(100), Grant::default());
    // The poll that is on the wire runs into its time-out first.
    let log = device(peer, |asked| Some(read_zeros(asked)));
    let report = report.await.unwrap();
    assert_eq!(report.outcome, Outcome::NotSent);
    sleep(SECOND).await;
    assert!(!log.lock().unwrap().iter().any(Asked::is_write));
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn an_expectation_sees_what_the_device_holds_now() {
    let (rig, log) = settled().await;
    rig.write(2, Value::F64(5.5)).await.unwrap();
    log.lock().unwrap().clear();
    let permit = Grant::default();
    let report = rig.write_by(2, Value::F64(6.0), true, SECOND, permit.clone()).await.unwrap();
    assert_eq!(report.outcome, Outcome::Confirmed);
    assert_eq!(report.previous, Some(Value::F64(5.5)));
    assert_eq!(*permit.shown.lock().unwrap(), [Some(Value::F64(5.5))]);
    assert_eq!(frames(&log), ["03000A0001", "06000A003C", "03000A0001"].map(hex));
    log.lock().unwrap().clear();
    let no = Some(Report::new(Outcome::Rejected(Rule::Expectation), "it holds 6"));
    let permit = Grant { no, ..Grant::default() };
    let report = rig.write_by(2, Value::F64(7.0), true, SECOND, permit).await.unwrap();
    assert_eq!(report.outcome, Outcome::Rejected(Rule::Expectation));
    assert_eq!(frames(&log), ["03000A0001"].map(hex), "read, not written");
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_where_the_expectation_cannot_be_read() {
    let mut reads = 0;
    let (rig, log) = settled_with(move |asked| {
        reads += 1;
        Some(if reads <= POLLS { read_zeros(asked) } else { asked.exception(4) })
    })
    .await;
    let permit = Grant::default();
    let report = rig.write_by(2, Value::F64(6.0), true, SECOND, permit.clone()).await.unwrap();
    assert_eq!(report.outcome, Outcome::NotSent);
    assert!(report.message.ends_with("exception 0x04 (server device failure)"), "{}", report.message);
    assert!(permit.shown.lock().unwrap().is_empty());
    assert_eq!(frames(&log).len(), 1);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_encoded_is_rejected_before_any_byte() {
    let (rig, log) = settled().await;
    let report = rig.write(2, Value::F64(6553.6)).await.unwrap();
    assert_eq!(report.outcome, Outcome::Rejected(Rule::RawRange));
    let report = rig.write(3, Value::F64(1.0)).await.unwrap();
    assert_eq!(report.outcome, Outcome::Rejected(Rule::Type));
    let report = rig.write(3, Value::I64(1)).await.unwrap();
    assert_eq!(report.outcome, Outcome::Rejected(Rule::Type));
    let report = rig.write(5, Value::U64(1)).await.unwrap();
    assert_eq!(report.outcome, Outcome::Rejected(Rule::Access));
    let report = rig.write(77, Value::F64(1.0)).await.unwrap();
    assert_eq!(report.outcome, Outcome::NotSent);
    assert!(frames(&log).is_empty());
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_dies_answers_each_write_once_and_truly() {
    let (rig, mut peer) = start(&plant());
    let poll = peer.asked().await.unwrap();
    let first = rig.write(1, Value::U64(1));
    let second = rig.write(1, Value::U64(2));
    peer.answer(&poll, &read_zeros(&poll)).await;
    assert!(peer.asked().await.unwrap().is_write());
    drop(peer);
    assert_eq!(first.await.unwrap().outcome, Outcome::Unknown);
    rig.lost().await;
    assert_eq!(second.await.unwrap().outcome, Outcome::NotSent);
}

#[tokio::test(start_paused = true)]
async fn a_connection_known_to_be_lost_takes_no_write() {
    let (rig, mut peer) = start(&plant());
    let poll = peer.asked().await.unwrap();
    let permit = Grant::default();
    let report = rig.write_by(1, Value::U64(1), false, SECOND, permit.clone());
    peer.answer(&poll, &read_zeros(&poll)).await;
    drop(peer);
    let report = report.await.unwrap();
    assert_eq!(report.outcome, Outcome::NotSent, "{}", report.message);
    assert!(permit.shown.lock().unwrap().is_empty());
    assert_eq!(rig.lost().await, "plc:502: closed by the device");
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_a_write_on_the_wire_finish_and_be_read_back() {
    for (answers, outcome) in [(true, Outcome::Confirmed), (false, Outcome::Written)] {
        let (rig, mut peer) = start(&plant());
        let poll = peer.asked().await.unwrap();
        let report = rig.write(1, Value::U64(1));
        peer.answer(&poll, &read_zeros(&poll)).await;
        let write = peer.asked().await.unwrap();
        rig.stop.cancel();
        sleep(Duration::from_millis(300)).await;
        peer.answer(&write, &write.echo()).await;
        let look = peer.asked().await.unwrap();
        let stopped = Instant::now();
        assert_eq!(look.pdu, hex("0301900001"));
        if answers {
            peer.answer(&look, &look.registers(|_| 1)).await;
        }
        let report = report.await.unwrap();
        assert_eq!(report.outcome, outcome, "{}", report.message);
        assert_eq!(peer.asked().await, None);
        assert_eq!(stopped.elapsed(), if answers { Duration::ZERO } else { TIMEOUT });
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hung_device_gets_one_write_frame_and_the_stop_is_bounded() {
    let (rig, mut peer) = start(&plant());
    let poll = peer.asked().await.unwrap();
    let report = rig.write(1, Value::U64(1));
    peer.answer(&poll, &read_zeros(&poll)).await;
    peer.asked().await.unwrap();
    let asked = Instant::now();
    rig.stopped().await;
    assert_eq!(asked.elapsed(), TIMEOUT);
    assert_eq!(report.await.unwrap().outcome, Outcome::Unknown);
    assert_eq!(peer.asked().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_to_a_write_confirms_nothing() {
    let tag = Polled { scan: Duration::from_secs(3600), ..polled(1, Table::Holding, 0x190, Kind::Uint16) };
    let (rig, mut peer) = start(&[unit(9, vec![tag])]);
    let poll = peer.asked().await.unwrap();
    peer.answer(&poll, &read_zeros(&poll)).await;
    let (report, next) = (rig.write(1, Value::U64(1)), rig.write(1, Value::U64(2)));
    let first = peer.asked().await.unwrap();
    assert_eq!(report.await.unwrap().outcome, Outcome::Unknown);
    let second = peer.asked().await.unwrap();
    assert_eq!(second.pdu, hex("0601900002"));
    peer.answer(&first, &first.echo()).await;
    peer.answer(&second, &second.exception(2)).await;
    assert_eq!(next.await.unwrap().outcome, Outcome::Refused);
    assert_eq!(rig.count(|counters| &counters.dropped), 1);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn writes_that_wait_leave_polls_their_turn() {
    let mut tags = vec![polled(7, Table::Input, 7, Kind::Uint16)];
    tags.extend((1..5).map(|id| polled(id, Table::Holding, u16::try_from(id * 100).unwrap(), Kind::Uint16)));
    for tag in tags.iter_mut().skip(1) {
        tag.scan = Duration::from_secs(3600);
    }
    let (rig, peer) = start(&[unit(9, tags)]);
    // Every answer takes 120 ms, and no write ever holds.
    let log = slow_device(peer, Duration::from_millis(120), |asked| {
        Some(if asked.is_write() { asked.exception(5) } else { asked.registers(|_| 0) })
    });
    sleep(Duration::from_secs(2)).await;
    let waiting: Vec<_> = (1..5).map(|id| rig.write(id, Value::U64(7))).collect();
    let polls =
        |log: &Arc<Mutex<Vec<Asked>>>| log.lock().unwrap().iter().filter(|asked| asked.pdu[0] == 4).count();
    let before = polls(&log);
    sleep(Duration::from_secs(4)).await;
    assert!(polls(&log) - before >= 3, "{} polls in four seconds", polls(&log) - before);
    for report in waiting {
        let report = report.await.unwrap();
        assert_eq!((report.outcome, report.code), (Outcome::Unknown, Some(5)), "{}", report.message);
    }
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_hung_device_keeps_its_connection_while_a_write_is_open() {
    // The peer takes bytes and answers nothing: another connection would let a newer write overtake this one.
    let mut requests = 0;
    let (rig, _) = settled_with(move |asked| {
        requests += 1;
        (requests <= POLLS || requests > POLLS + 40).then(|| read_zeros(asked))
    })
    .await;
    assert_eq!(rig.write(1, Value::U64(7)).await.unwrap().outcome, Outcome::Unknown);
    sleep(Duration::from_secs(60)).await;
    let tags = rig.told.of(1);
    assert_eq!(
        tags.last().unwrap().1.quality,
        Quality::Good,
        "it came back on the same connection: {tags:?}"
    );
    rig.stopped().await;
}
