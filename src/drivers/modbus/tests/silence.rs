//! Registers that a device does not answer at all, while it answers to others.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
};

use tokio::time::sleep;

use super::{
    holes::{MINUTE, asked, tags, value},
    *,
};

const LEFT_OUT: &str =
    "no answer to 3 requests for it in a row: it is left out and tried again from time to time";

/// Answers registers by their address, and nothing where a request touches one of `silent`.
fn mute(silent: &[u16]) -> impl FnMut(&Asked) -> Option<Vec<u8>> + Send + 'static {
    let silent = silent.to_vec();
    move |asked| {
        let touched = asked.address()..asked.address() + asked.count();
        (!silent.iter().any(|at| touched.contains(at))).then(|| asked.registers(|at| at))
    }
}

fn endpoints() -> [ModbusEndpoint; 3] {
    let tcp = endpoint("plc:502", TIMEOUT);
    [ModbusEndpoint { max_in_flight: 8, ..tcp.clone() }, tcp, serial()]
}

#[tokio::test(start_paused = true)]
async fn a_register_that_is_never_answered_is_left_out_and_costs_its_neighbours_nothing() {
    for endpoint in endpoints() {
        let transport = endpoint.transport.clone();
        let (rig, peer) = start_on(endpoint, &[unit(1, tags([100, 200, 300, 301, 500]))]);
        let heals = Arc::new(AtomicBool::new(false));
        let healed = heals.clone();
        let mut answer = mute(&[300]);
        let log = device(peer, move |asked| {
            if healed.load(Ordering::Relaxed) { Some(asked.registers(|at| at)) } else { answer(asked) }
        });
        sleep(40 * SECOND).await;
        let told = rig.told.last(300).unwrap();
        assert_eq!((told.value, told.quality), (None, Quality::Bad(Reason::DeviceSilent)));
        assert_eq!(told.detail.as_deref(), Some(LEFT_OUT));
        asked(&log);
        let before = [100, 200, 301, 500].map(|id| rig.told.of(id).len());
        sleep(MINUTE).await;
        for (id, before) in [100, 200, 301, 500].into_iter().zip(before) {
            assert_eq!(rig.told.of(id).len() - before, 60, "{id}");
            assert_eq!(value(&rig, id), Some(Value::U64(id.into())));
        }
        assert!(asked(&log).iter().all(|asked| *asked != (300, 1)));
        // On a serial line each silence takes real time, and hours of it too much.
        if matches!(transport, Transport::Rtu(_)) {
            rig.stopped().await;
            continue;
        }
        sleep(60 * MINUTE).await;
        let tries = asked(&log).into_iter().filter(|asked| *asked == (300, 1)).count();
        assert_eq!(tries, 3, "after 5, 15 and 35 minutes");
        assert_eq!(rig.told.states_of(1), [DeviceState::Online]);
        assert_eq!(rig.told.last(300).unwrap().detail.as_deref(), Some(LEFT_OUT));
        heals.store(true, Ordering::Relaxed);
        sleep(60 * MINUTE).await;
        assert_eq!(value(&rig, 300), Some(Value::U64(300)));
        asked(&log);
        sleep(SECOND).await;
        let round: BTreeSet<_> = asked(&log).into_iter().collect();
        assert_eq!(round, [(100, 1), (200, 1), (300, 2), (500, 1)].into());
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn silent_registers_are_found_among_many_at_a_bounded_cost() {
    for endpoint in endpoints() {
        let silent = [17, 60, 61, 320];
        let all: Vec<u16> = (0..100).chain(300..340).chain([600]).collect();
        let (rig, peer) = start_on(endpoint, &[unit(1, tags(all.clone()))]);
        let log = device(peer, mute(&silent));
        sleep(3 * MINUTE).await;
        // Each is three time-outs of its own and one for each time it was halved.
        let timeouts = rig.count(|counters| &counters.timeouts);
        assert!(timeouts <= 2 * 3 + 4 * (3 + 7), "{timeouts}");
        assert_eq!(rig.told.states_of(1), [DeviceState::Online]);
        asked(&log);
        let before = rig.told.of(600).len();
        sleep(MINUTE).await;
        assert_eq!(rig.told.of(600).len() - before, 60);
        for at in all {
            assert_eq!(value(&rig, at.into()).is_some(), !silent.contains(&at), "{at}");
        }
        let round: BTreeSet<_> = asked(&log).into_iter().collect();
        let around = [(0, 17), (18, 42), (62, 38), (300, 20), (321, 19), (600, 1)];
        assert_eq!(round, around.into(), "as few requests as can be around them");
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn silence_to_what_lies_between_tags_makes_none_of_them_bad_for_good() {
    for endpoint in endpoints() {
        let (rig, peer) = start_on(endpoint, &[unit(1, tags([0, 1, 2, 6, 7, 300]))]);
        let log = device(peer, mute(&[4]));
        sleep(20 * SECOND).await;
        asked(&log);
        sleep(10 * SECOND).await;
        for id in [0, 1, 2, 6, 7, 300] {
            assert!(value(&rig, id).is_some(), "{id}");
        }
        assert_eq!(asked(&log).into_iter().collect::<BTreeSet<_>>(), [(0, 3), (6, 2), (300, 1)].into());
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn tags_are_bad_after_three_misses_and_not_before() {
    let (rig, peer) = start(&[unit(1, tags([0, 1, 300]))]);
    let started = Instant::now();
    device(peer, move |asked| {
        (asked.address() == 300 || started.elapsed() < 9 * SECOND / 2).then(|| asked.registers(|at| at))
    });
    sleep(7 * SECOND).await;
    assert!(value(&rig, 0).is_some() && value(&rig, 1).is_some());
    sleep(SECOND).await;
    for id in [0, 1] {
        let told = rig.told.last(id).unwrap();
        assert_eq!(told.detail.as_deref(), Some("no answer to 3 requests for it in a row"));
    }
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_answered_once_is_not_parted_for_a_few_lost_requests() {
    for endpoint in endpoints() {
        let (rig, peer) = start_on(endpoint, &[unit(1, tags([0, 1, 2, 3, 300]))]);
        let mut turns = 0;
        let log = device(peer, move |asked| {
            turns += u32::from(asked.address() < 300);
            (asked.address() == 300 || turns % 9 == 1).then(|| asked.registers(|at| at))
        });
        sleep(5 * MINUTE).await;
        assert_eq!(asked(&log).into_iter().collect::<BTreeSet<_>>(), [(0, 4), (300, 1)].into());
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_unit_that_is_silent_altogether_is_not_parted() {
    for endpoint in endpoints() {
        let (rig, peer) = start_on(
            endpoint,
            &[
                unit(1, tags((0..50).chain(300..350).chain([600]))),
                unit(2, vec![polled(9999, Table::Input, 0, Kind::Uint16)]),
            ],
        );
        let state = Arc::new(AtomicBool::new(false));
        let answers = state.clone();
        let log = device(peer, move |asked| {
            (asked.unit_id == 2 || answers.load(Ordering::Relaxed)).then(|| asked.registers(|at| at))
        });
        // Twice silent, from the beginning and later, for a time that is long or just enough to be told.
        for (silent, well) in [(100, 10), (3, 10), (100, 10)] {
            sleep(silent * SECOND).await;
            state.store(true, Ordering::Relaxed);
            sleep(40 * SECOND).await;
            asked(&log);
            sleep(well * SECOND).await;
            let round: BTreeSet<_> = asked(&log).into_iter().collect();
            assert_eq!(round, [(0, 1), (0, 50), (300, 50), (600, 1)].into());
            state.store(false, Ordering::Relaxed);
        }
        rig.stopped().await;
    }
}
