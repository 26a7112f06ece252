//! What devices refuse: requests that are parted, holes, functions that a device does not have, and devices that are busy.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, AtomicU8},
};

use tokio::time::sleep;

use super::*;

const MS: Duration = Duration::from_millis(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn tags(addresses: impl IntoIterator<Item = u16>) -> Vec<Polled> {
    addresses.into_iter().map(|at| polled(at.into(), Table::Holding, at, Kind::Uint16)).collect()
}

pub(super) fn value(rig: &Rig, id: u32) -> Option<Value> {
    rig.told.last(id).filter(|update| update.quality == Quality::Good).and_then(|update| update.value)
}

/// What was asked since the last look.
pub(super) fn asked(log: &Mutex<Vec<Asked>>) -> Vec<(u16, u16)> {
    log.lock().unwrap().drain(..).map(|asked| (asked.address(), asked.count())).collect()
}

/// Answers registers by their address, and exception `code` where a request touches one of `missing`.
pub(super) fn without(missing: &[u16], code: u8) -> impl FnMut(&Asked) -> Option<Vec<u8>> + Send + 'static {
    let missing = missing.to_vec();
    move |asked| {
        let touches =
            missing.iter().any(|at| (asked.address()..asked.address() + asked.count()).contains(at));
        Some(if touches { asked.exception(code) } else { asked.registers(|at| at) })
    }
}

#[tokio::test(start_paused = true)]
async fn bad_registers_are_found_and_the_rest_is_good_at_once_and_always() {
    for code in [2, 3] {
        for most in [1, 8] {
            let missing = [17, 18, 60, 99];
            let endpoint = ModbusEndpoint { max_in_flight: most, ..endpoint("plc:502", TIMEOUT) };
            let (rig, peer) = start_on(endpoint, &[unit(1, tags(0..100))]);
            let log = device(peer, without(&missing, code));
            sleep(500 * MS).await;
            // Four hunts of no more than two requests for each halving.
            let hunt = asked(&log);
            assert!(hunt.len() <= 1 + 4 * 2 * 7, "{}", hunt.len());
            sleep(60 * SECOND).await;
            for id in 0..100 {
                let is_missing = missing.contains(&u16::try_from(id).unwrap());
                assert_eq!(value(&rig, id).is_some(), !is_missing, "{id}");
                let told = rig.told.of(id);
                if is_missing {
                    let reason = Quality::Bad(Reason::DeviceRefused);
                    assert!(told.iter().all(|(_, update)| update.quality == reason), "{told:?}");
                    assert_eq!(told.len(), 1);
                } else {
                    assert!(told.iter().all(|(_, update)| update.quality == Quality::Good), "{id}: {told:?}");
                    assert!(told.len() >= 60, "{id} was read {} times", told.len());
                }
            }
            // Then as few requests as can be around the holes, which are not asked.
            let round: BTreeSet<_> = asked(&log).into_iter().collect();
            let around = [(0, 17), (19, 41), (61, 38)];
            assert_eq!(round, around.into_iter().collect(), "{code} {most}");
            rig.stopped().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hole_is_tried_ever_more_slowly_and_put_back_when_it_answers() {
    let (rig, peer) = start(&[unit(1, tags(0..4))]);
    let heals = Arc::new(AtomicBool::new(false));
    let healed = heals.clone();
    let mut refuse = without(&[2], 2);
    let log = device(peer, move |asked| {
        if healed.load(Ordering::Relaxed) { Some(asked.registers(|at| at)) } else { refuse(asked) }
    });
    let started = Instant::now();
    sleep(10 * 3600 * SECOND).await;
    let tries: Vec<_> = log
        .lock()
        .unwrap()
        .iter()
        .filter(|asked| (asked.address(), asked.count()) == (2, 1))
        .map(|asked| (asked.at - started).as_secs() / 60)
        .collect();
    assert_eq!(tries[..6], [0, 5, 15, 35, 75, 135], "minutes: the pause doubles up to an hour");
    heals.store(true, Ordering::Relaxed);
    sleep(61 * MINUTE).await;
    assert_eq!(value(&rig, 2), Some(Value::U64(2)));
    asked(&log);
    sleep(10 * SECOND).await;
    // One request for all of them, as it was in the beginning.
    assert_eq!(asked(&log), [(0, 4); 10]);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_hole_costs_one_try_a_pause_whatever_comes_of_it() {
    // Silence, other exceptions, a busy device, nonsense.
    for answer in
        [None, Some("8304"), Some("8306"), Some("830B"), Some("830A"), Some("03040000"), Some("8301")]
    {
        let (rig, peer) =
            start(&[unit(1, tags(0..4)), unit(2, vec![polled(100, Table::Holding, 0, Kind::Uint16)])]);
        let mut requests = 0;
        let mut refuse = without(&[2], 2);
        let log = device(peer, move |asked| {
            requests += 1;
            match answer {
                answer
                    if requests > 10 && asked.unit_id == 1 && (asked.address(), asked.count()) == (2, 1) =>
                {
                    answer.map(hex)
                }
                _ => refuse(asked),
            }
        });
        sleep(299 * SECOND).await;
        asked(&log);
        sleep(9 * MINUTE).await;
        let tries = asked(&log).into_iter().filter(|asked| *asked == (2, 1)).count();
        // A busy device is asked some times more; a unit that is back from silence has all its holes tried.
        let most = if answer == Some("8306") { 6 } else { 2 };
        assert!((1..=most).contains(&tries), "{answer:?}: {tries} tries");
        if answer != Some("8301") {
            assert_eq!(value(&rig, 0), Some(Value::U64(0)), "{answer:?}");
        }
        assert!(rig.told.of(100).len() >= 830, "{answer:?}");
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hole_of_two_classes_comes_back_in_both() {
    let mut twice = tags([5]);
    twice.push(Polled { scan: 2 * SECOND, ..polled(50, Table::Holding, 5, Kind::Uint16) });
    let (rig, peer) = start(&[unit(1, twice)]);
    let heals = Arc::new(AtomicBool::new(false));
    let healed = heals.clone();
    device(peer, move |asked| {
        Some(if healed.load(Ordering::Relaxed) { asked.registers(|at| at) } else { asked.exception(2) })
    });
    sleep(10 * SECOND).await;
    assert_eq!((value(&rig, 5), value(&rig, 50)), (None, None));
    heals.store(true, Ordering::Relaxed);
    sleep(6 * MINUTE).await;
    let before = (rig.told.of(5).len(), rig.told.of(50).len());
    sleep(10 * SECOND).await;
    assert_eq!((rig.told.of(5).len() - before.0, rig.told.of(50).len() - before.1), (10, 5));
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn what_lies_between_tags_is_refused_and_all_tags_are_good() {
    // Registers 3 to 5 do not exist, and no tag asks for them.
    for most in [1, 8] {
        let endpoint = ModbusEndpoint { max_in_flight: most, ..endpoint("plc:502", TIMEOUT) };
        let (rig, peer) = start_on(endpoint, &[unit(1, tags([0, 1, 2, 6, 7, 10, 11]))]);
        let log = device(peer, without(&[3, 4, 5], 2));
        sleep(30 * SECOND).await;
        for id in [0, 1, 2, 6, 7, 10, 11] {
            let told = rig.told.of(id);
            assert!(told.iter().all(|(_, update)| update.quality == Quality::Good), "{id}: {told:?}");
            assert!(told.len() >= 30);
        }
        asked(&log);
        sleep(SECOND).await;
        assert_eq!(asked(&log).into_iter().collect::<BTreeSet<_>>(), [(0, 3), (6, 6)].into());
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_device_that_answers_less_at_once_than_is_asked_has_all_its_tags_good() {
    for (code, most) in [(2, 1), (3, 1), (3, 8)] {
        let endpoint = ModbusEndpoint { max_in_flight: most, ..endpoint("plc:502", TIMEOUT) };
        let (rig, peer) = start_on(endpoint, &[unit(1, tags(0..200))]);
        let log = device(peer, move |asked| {
            Some(if asked.count() > 20 { asked.exception(code) } else { asked.registers(|at| at) })
        });
        sleep(20 * SECOND).await;
        for id in 0..200 {
            let told = rig.told.of(id);
            assert!(told.iter().all(|(_, update)| update.quality == Quality::Good), "{id}: {told:?}");
            assert!(told.len() >= 20, "{id} was read {} times", told.len());
        }
        asked(&log);
        sleep(SECOND).await;
        let round = asked(&log);
        assert!((10..=16).contains(&round.len()), "{round:?}");
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_device_that_refuses_all_while_it_starts_is_polled_in_few_requests_in_the_end() {
    for most in [1, 8] {
        let endpoint = ModbusEndpoint { max_in_flight: most, ..endpoint("plc:502", TIMEOUT) };
        let (rig, peer) = start_on(endpoint, &[unit(1, tags(0..100))]);
        let started = Instant::now();
        let log = device(peer, move |asked| {
            let starts = started.elapsed() < 10 * SECOND;
            Some(if starts { asked.exception(2) } else { asked.registers(|at| at) })
        });
        sleep(20 * SECOND).await;
        assert!((0..100).all(|id| value(&rig, id).is_none()));
        sleep(6 * MINUTE).await;
        assert!((0..100).all(|id| value(&rig, id).is_some()));
        asked(&log);
        sleep(10 * SECOND).await;
        assert_eq!(asked(&log), [(0, 100); 10]);
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_session_tries_each_hole_once() {
    let (rig, peer) = start(&[unit(1, tags(0..50))]);
    device(peer, without(&[7, 30], 2));
    sleep(10 * SECOND).await;
    let (rig, peer) = run(rig.stopped().await);
    let log = device(peer, without(&[7, 30], 2));
    sleep(4 * MINUTE).await;
    let tried: Vec<_> = asked(&log).into_iter().filter(|(_, count)| *count == 1).collect();
    assert_eq!(tried, [(7, 1), (30, 1)]);
    assert_eq!(value(&rig, 8), Some(Value::U64(8)));
    // A third one finds the device whole.
    let (rig, peer) = run(rig.stopped().await);
    let log = device(peer, without(&[], 2));
    sleep(10 * SECOND).await;
    assert!((0..50).all(|id| value(&rig, id).is_some()));
    asked(&log);
    sleep(3 * SECOND).await;
    assert_eq!(asked(&log), [(0, 50); 3]);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_unit_of_which_all_is_refused_is_found_again_after_it_was_silent() {
    let (rig, peer) = start(&[unit(1, tags([0])), unit(2, vec![polled(9, Table::Holding, 9, Kind::Uint16)])]);
    let state = Arc::new(AtomicU8::new(0));
    let now = state.clone();
    device(peer, move |asked| match now.load(Ordering::Relaxed) {
        _ if asked.unit_id == 2 => Some(asked.registers(|at| at)),
        0 => Some(asked.exception(2)),
        1 => None,
        _ => Some(asked.registers(|at| at)),
    });
    sleep(10 * SECOND).await;
    state.store(1, Ordering::Relaxed);
    // Its only register is a hole; three tries of that find it silent.
    sleep(3600 * SECOND).await;
    state.store(2, Ordering::Relaxed);
    sleep(3600 * SECOND).await;
    assert_eq!(value(&rig, 0), Some(Value::U64(0)));
    let before = rig.told.of(0).len();
    sleep(10 * SECOND).await;
    assert_eq!(rig.told.of(0).len() - before, 10);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_busy_device_is_asked_again_after_growing_pauses() {
    for code in [5, 6] {
        for scan in [100, 700, 1000, 60_000_u32] {
            let tag = Polled { scan: scan * MS, ..polled(1, Table::Holding, 0, Kind::Uint16) };
            let other = Polled { scan: scan * MS, ..polled(2, Table::Input, 0, Kind::Uint16) };
            let (rig, peer) = start(&[unit(1, vec![tag, other])]);
            let started = Instant::now();
            let busy = Arc::new(AtomicBool::new(false));
            let is_busy = busy.clone();
            let log = device(peer, move |asked| {
                let busy = is_busy.load(Ordering::Relaxed) && asked.pdu[0] == 3;
                Some(if busy { asked.exception(code) } else { asked.registers(|_| 7) })
            });
            // Asked at 0; busy from just before the next round on.
            sleep((scan - 1) * MS).await;
            busy.store(true, Ordering::Relaxed);
            log.lock().unwrap().clear();
            let before = rig.told.of(1).len();
            sleep(3050 * MS).await;
            let tries = |log: &Mutex<Vec<Asked>>| -> Vec<u128> {
                let log = log.lock().unwrap();
                let of = log.iter().filter(|asked| asked.pdu[0] == 3);
                of.map(|asked| (asked.at - started).as_millis() - u128::from(scan)).collect()
            };
            assert_eq!(tries(&log), [0, 100, 300, 700, 1500], "{code} {scan}");
            assert_eq!(rig.told.of(1).len(), before, "its tags are as they were");
            sleep(100 * MS).await;
            assert_eq!(tries(&log)[5], 3100);
            let told = rig.told.last(1).unwrap();
            assert_eq!(told.quality, Quality::Bad(Reason::DeviceRefused));
            assert_eq!(rig.count(|counters| &counters.retries), 5);
            // Nobody else waits for it.
            assert!(rig.told.of(2).len() as u128 >= 3000 / u128::from(scan));
            assert!(rig.told.of(2).iter().all(|(_, update)| update.quality == Quality::Good));
            busy.store(false, Ordering::Relaxed);
            sleep(scan * MS + 2 * SECOND).await;
            assert_eq!(value(&rig, 1), Some(Value::U64(7)));
            assert_eq!(rig.count(|counters| &counters.overruns), 0);
            rig.stopped().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_device_that_finds_time_was_never_bad() {
    let (rig, peer) = start(&[unit(1, tags([0]))]);
    let mut requests = 0;
    device(peer, move |asked| {
        requests += 1;
        Some(if requests % 6 == 0 { asked.registers(|_| requests) } else { asked.exception(6) })
    });
    sleep(60 * SECOND).await;
    let told = rig.told.of(0);
    assert!(told.len() >= 14, "{}", told.len());
    assert!(told.iter().all(|(_, update)| update.quality == Quality::Good), "{told:?}");
    assert_eq!(rig.told.states_of(1), [DeviceState::Online]);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn one_request_that_nothing_answers_is_told_where_its_unit_answers_others() {
    let (rig, peer) = start(&[unit(
        1,
        vec![polled(1, Table::Holding, 0, Kind::Uint16), polled(2, Table::Input, 0, Kind::Uint16)],
    )]);
    device(peer, |asked| (asked.pdu[0] == 3).then(|| asked.registers(|_| 7)));
    sleep(60 * SECOND).await;
    assert_eq!(rig.told.states_of(1), [DeviceState::Online]);
    let told = rig.told.last(2).unwrap();
    assert_eq!(told.quality, Quality::Bad(Reason::DeviceSilent));
    assert_eq!(
        told.detail.as_deref(),
        Some("no answer to 3 requests for it in a row: it is left out and tried again from time to time")
    );
    assert!(rig.told.of(1).iter().all(|(_, update)| update.quality == Quality::Good));
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_a_gateway_gets_no_answer_to_does_not_speak_for_its_unit() {
    // A station that is silent on an address it does not have; its gateway says 0x0B to that, and only to that.
    let (rig, peer) = start(&[unit(1, tags([0, 100, 200]))]);
    let gone = Arc::new(AtomicBool::new(false));
    let is_gone = gone.clone();
    device(peer, move |asked| {
        let silent = asked.address() == 100 || is_gone.load(Ordering::Relaxed);
        Some(if silent { asked.exception(0x0B) } else { asked.registers(|at| at) })
    });
    sleep(10 * SECOND).await;
    let states = rig.told.states_of(1);
    assert!(states.len() <= 3, "once it was taken for the unit: {states:?}");
    let before = rig.told.of(0).len();
    sleep(100 * SECOND).await;
    assert_eq!(rig.told.states_of(1), states);
    assert_eq!((rig.told.of(0).len(), rig.told.of(200).len()), (before + 100, before + 100));
    assert_eq!(rig.told.last(100).unwrap().quality, Quality::Bad(Reason::DeviceRefused));
    // Where the unit as a whole is gone that is still found out, and it is back as soon as it answers.
    gone.store(true, Ordering::Relaxed);
    sleep(5 * SECOND).await;
    assert_eq!(rig.told.states_of(1).last(), Some(&DeviceState::Refused));
    gone.store(false, Ordering::Relaxed);
    sleep(5 * SECOND).await;
    assert_eq!(
        (rig.told.states_of(1).last(), value(&rig, 200)),
        (Some(&DeviceState::Online), Some(Value::U64(200)))
    );
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn what_must_not_be_read_is_not_read_after_a_write_either() {
    let mut units = [unit(1, tags([0, 10]))];
    let forbidden = crate::profile::modbus::Region { table: Table::Holding, first: 10, last: 10 };
    units[0].dialect.reads.forbidden.push(forbidden);
    let (rig, peer) = start(&units);
    let log =
        device(peer, |asked| Some(if asked.is_write() { asked.echo() } else { asked.registers(|at| at) }));
    sleep(SECOND / 2).await;
    let report = rig.write(10, Value::U64(5)).await.unwrap();
    assert_eq!(report.outcome, crate::model::Outcome::Written);
    assert!(report.message.ends_with("it overlaps a region that is forbidden to read"), "{}", report.message);
    let expects = rig.write_by(10, Value::U64(6), true, SECOND, Grant::default()).await.unwrap();
    assert_eq!(expects.outcome, crate::model::Outcome::NotSent, "{}", expects.message);
    sleep(10 * SECOND).await;
    assert!(log.lock().unwrap().iter().all(|asked| asked.is_write() || asked.address() == 0));
    rig.stopped().await;
}
