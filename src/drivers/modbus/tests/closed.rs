//! Functions that a device says it does not have, for good or for a moment, and what is learned of a unit of which nothing
//! else is asked.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU8, Ordering},
};

use tokio::time::sleep;

use super::{
    holes::{MINUTE, asked, tags, value, without},
    *,
};

const LEFT_OUT: &str = "exception 0x01 (illegal function): it is left out and tried again from time to time";

/// A device that answers what is at hand: an exception with that code, values (0), or nothing (255).
fn switched(peer: Peer) -> (Arc<AtomicU8>, Arc<Mutex<Vec<Asked>>>) {
    let state = Arc::new(AtomicU8::new(0));
    let now = state.clone();
    let log = device(peer, move |asked| match now.load(Ordering::Relaxed) {
        0 => Some(asked.registers(|at| at)),
        255 => None,
        code => Some(asked.exception(code)),
    });
    (state, log)
}

#[tokio::test(start_paused = true)]
async fn a_function_that_a_device_does_not_have_is_tried_ever_more_slowly() {
    let mut all = tags(0..300);
    all.extend((0..3).map(|at| polled(1000 + u32::from(at), Table::Input, at * 100, Kind::Uint16)));
    all.push(polled(2000, Table::Coil, 0, Kind::Bool));
    let answer = |asked: &Asked| {
        Some(match asked.pdu[0] {
            3 => asked.registers(|at| at),
            4 => asked.exception(1),
            _ => vec![1, 1, 1],
        })
    };
    for most in [1, 8] {
        let endpoint = ModbusEndpoint { max_in_flight: most, ..endpoint("plc:502", TIMEOUT) };
        let (rig, peer) = start_on(endpoint, &[unit(1, all.clone())]);
        let log = device(peer, answer);
        sleep(2 * 3600 * SECOND).await;
        let tried = |log: &Mutex<Vec<Asked>>| -> Vec<Asked> {
            log.lock().unwrap().iter().filter(|asked| asked.pdu[0] == 4).cloned().collect()
        };
        let tries = tried(&log);
        let first = tries[0].at;
        let later: Vec<_> = tries.iter().filter(|asked| asked.at >= first + MINUTE).collect();
        assert!(tries.len() - later.len() <= usize::from(most).min(3), "{tries:?}");
        let minutes: Vec<_> = later.iter().map(|asked| (asked.at - first).as_secs() / 60).collect();
        assert_eq!(minutes, [1, 3, 7, 15, 31, 63], "{most}");
        let addresses: BTreeSet<_> = later.iter().map(|asked| asked.address()).collect();
        assert_eq!(addresses, [0, 100, 200].into(), "another one each time");
        for id in 1000..1003 {
            let told = rig.told.of(id);
            assert_eq!(told.len(), 1);
            assert_eq!(told[0].1.quality, Quality::Bad(Reason::DeviceRefused));
            assert_eq!(told[0].1.detail.as_deref(), Some(LEFT_OUT));
        }
        assert_eq!((rig.told.of(0).len(), rig.told.of(2000).len()), (7200, 7200), "the others go on");
        // The next session asks again.
        let (rig, peer) = run(rig.stopped().await);
        device(peer, |asked| Some(if asked.pdu[0] == 1 { vec![1, 1, 1] } else { asked.registers(|at| at) }));
        sleep(5 * SECOND).await;
        assert_eq!((value(&rig, 1002), value(&rig, 299)), (Some(Value::U64(200)), Some(Value::U64(299))));
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn holes_of_a_table_that_is_left_out_are_too() {
    // First one register is refused, later the function as a whole.
    let (rig, peer) = start(&[unit(1, tags(0..4))]);
    let mut refuse = without(&[2], 2);
    let started = Instant::now();
    let log =
        device(
            peer,
            move |asked| {
                if started.elapsed() > 10 * SECOND { Some(asked.exception(1)) } else { refuse(asked) }
            },
        );
    sleep(20 * SECOND).await;
    asked(&log);
    sleep(10 * 3600 * SECOND).await;
    // After 1, 3, 7, 15, 31 and 63 minutes, then each hour.
    assert_eq!(asked(&log).len(), 6 + 8);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_function_that_is_refused_once_is_back_after_a_minute() {
    let mut all = tags([0, 300, 600]);
    all.push(Polled { scan: 2 * SECOND, ..polled(50, Table::Holding, 300, Kind::Uint16) });
    for endpoint in [endpoint("plc:502", TIMEOUT), serial()] {
        let (rig, peer) = start_on(endpoint, &[unit(1, all.clone())]);
        let mut requests = 0;
        device(peer, move |asked| {
            requests += 1;
            Some(if requests == 10 { asked.exception(1) } else { asked.registers(|at| at) })
        });
        sleep(30 * SECOND).await;
        for id in [0, 300, 600, 50] {
            let told = rig.told.last(id).unwrap();
            assert_eq!((told.value, told.quality), (None, Quality::Bad(Reason::DeviceRefused)), "{id}");
            assert_eq!(told.detail.as_deref(), Some(LEFT_OUT));
        }
        sleep(40 * SECOND).await;
        let before = [0, 300, 600, 50].map(|id| rig.told.of(id).len());
        sleep(10 * SECOND).await;
        let after = [0, 300, 600, 50].map(|id| rig.told.of(id).len());
        assert_eq!([0, 1, 2, 3].map(|at| after[at] - before[at]), [10, 10, 10, 5]);
        assert_eq!(value(&rig, 300), Some(Value::U64(300)));
        assert_eq!(rig.told.states_of(1), [DeviceState::Online]);
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_table_of_which_one_register_is_refused_later_is_open() {
    // The function is there again, the register that was tried is not.
    let (rig, peer) = start(&[unit(1, tags([0, 300, 600]))]);
    let started = Instant::now();
    device(peer, move |asked| {
        Some(match asked.address() {
            _ if started.elapsed() < 10 * SECOND => asked.exception(1),
            0 => asked.exception(2),
            _ => asked.registers(|at| at),
        })
    });
    sleep(65 * SECOND).await;
    assert_eq!(
        (value(&rig, 0), value(&rig, 300), value(&rig, 600)),
        (None, Some(Value::U64(300)), Some(Value::U64(600)))
    );
    assert!(rig.told.last(0).unwrap().detail.unwrap().starts_with("exception 0x02"));
    rig.stopped().await;
}

/// A unit of which nothing is asked but what it refused may be gone all the same.
#[tokio::test(start_paused = true)]
async fn a_unit_of_which_all_is_left_out_becomes_silent_and_comes_back() {
    for code in [1, 2] {
        for count in [1, 2, 9] {
            for endpoint in [endpoint("plc:502", TIMEOUT), serial()] {
                let pause = if code == 1 { MINUTE } else { 5 * MINUTE };
                let all = tags((0..count).map(|at| at * 300));
                let other = polled(9999, Table::Input, 7, Kind::Uint16);
                let (rig, peer) = start_on(endpoint, &[unit(1, all), unit(2, vec![other])]);
                let state = Arc::new(AtomicU8::new(code));
                let now = state.clone();
                device(peer, move |asked| match now.load(Ordering::Relaxed) {
                    255 if asked.unit_id == 1 => None,
                    code if asked.unit_id == 1 && code > 0 => Some(asked.exception(code)),
                    _ => Some(asked.registers(|at| at)),
                });
                sleep(10 * SECOND).await;
                assert_eq!(rig.told.states_of(1), [DeviceState::Online]);
                state.store(255, Ordering::Relaxed);
                sleep(pause + 10 * SECOND).await;
                assert_eq!(
                    rig.told.states_of(1),
                    [DeviceState::Online, DeviceState::Silent],
                    "{code} {count}"
                );
                assert_eq!(rig.told.last(0).unwrap().quality, Quality::Bad(Reason::DeviceSilent));
                state.store(0, Ordering::Relaxed);
                sleep(40 * SECOND).await;
                assert_eq!(rig.told.states_of(1).last(), Some(&DeviceState::Online));
                assert!((0..count).all(|at| value(&rig, u32::from(at) * 300).is_some()), "{code} {count}");
                assert!(rig.told.of(9999).iter().all(|(_, update)| update.quality == Quality::Good));
                rig.stopped().await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_unit_of_which_all_is_left_out_is_not_silent_for_one_register_that_is() {
    let (rig, peer) = start(&[unit(1, tags([0, 300]))]);
    let started = Instant::now();
    device(peer, move |asked| {
        (asked.address() == 0 || started.elapsed() < 10 * SECOND).then(|| asked.exception(2))
    });
    sleep(3600 * SECOND).await;
    assert_eq!(rig.told.states_of(1), [DeviceState::Online]);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_unit_of_which_all_is_left_out_is_refused_where_its_gateway_says_so() {
    let (rig, peer) = start(&[unit(1, tags([0]))]);
    let (state, _) = switched(peer);
    state.store(1, Ordering::Relaxed);
    sleep(10 * SECOND).await;
    state.store(0x0B, Ordering::Relaxed);
    sleep(70 * SECOND).await;
    assert_eq!(rig.told.states_of(1), [DeviceState::Online, DeviceState::Refused]);
    state.store(0, Ordering::Relaxed);
    sleep(40 * SECOND).await;
    assert_eq!(
        (rig.told.states_of(1).last(), value(&rig, 0)),
        (Some(&DeviceState::Online), Some(Value::U64(0)))
    );
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_register_that_is_refused_with_the_wrong_exception_is_found() {
    // Not the function is missing but registers 7 and 9, and the device says 0x01 for them.
    let all: Vec<u16> = (0..16).chain([300, 301, 302]).collect();
    let (rig, peer) = start(&[unit(1, tags(all.clone()))]);
    let log = device(peer, without(&[7, 9], 1));
    sleep(2 * MINUTE).await;
    for id in all.into_iter().map(u32::from) {
        assert_eq!(value(&rig, id).is_some(), ![7, 9].contains(&id), "{id}");
    }
    asked(&log);
    let before = rig.told.of(0).len();
    sleep(10 * MINUTE).await;
    assert_eq!(rig.told.of(0).len() - before, 600);
    assert!(asked(&log).iter().filter(|asked| [(7, 1), (9, 1)].contains(asked)).count() <= 4);
    rig.stopped().await;
}
