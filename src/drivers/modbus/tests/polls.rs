//! Polling: what is published, rates, and units that are silent or refused.

use tokio::time::sleep;

use super::*;
use crate::model::When;

fn good(update: &Update) -> bool {
    update.quality == Quality::Good
}

#[tokio::test(start_paused = true)]
async fn one_batch_a_response_with_values_and_ranges() {
    let mut ranged = polled(2, Table::Input, 1, Kind::Int16);
    ranged.range = Some((0.0, 10.0));
    Arc::make_mut(&mut ranged.point).format = format(Kind::Int16, "0.1");
    let units = [unit(
        1,
        vec![
            polled(1, Table::Input, 0, Kind::Uint16),
            ranged,
            polled(3, Table::Input, 2, Kind::Float32),
            polled(4, Table::Coil, 5, Kind::Bool),
        ],
    )];
    let (rig, mut peer) = start(&units);
    let coils = peer.asked().await.unwrap();
    assert_eq!(coils.pdu, hex("0100050001"));
    peer.answer(&coils, &hex("010101")).await;
    let asked = peer.asked().await.unwrap();
    assert_eq!(asked.pdu, hex("0400000004"));
    peer.answer(&asked, &hex("04080007006F7FC00000")).await;
    sleep(Duration::from_millis(1)).await;
    assert_eq!(rig.told.last(4).unwrap().value, Some(Value::Bool(true)));
    assert_eq!(rig.told.last(1).unwrap().value, Some(Value::U64(7)));
    let outside = rig.told.last(2).unwrap();
    assert_eq!(outside.value, Some(Value::F64(11.1)));
    assert_eq!(outside.quality, Quality::Bad(Reason::OutOfRange));
    assert_eq!(outside.detail.as_deref(), Some("outside 0 to 10"));
    let nan = rig.told.last(3).unwrap();
    assert_eq!((nan.value, nan.quality), (Some(Value::Null), Quality::Bad(Reason::DecodeError)));
    assert_eq!(nan.detail.as_deref(), Some("the registers hold NaN"));
    assert_eq!(rig.told.states_of(1), [DeviceState::Online]);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_value_counts_from_the_request() {
    let (rig, mut peer) = start(&[unit(1, vec![polled(1, Table::Holding, 0, Kind::Uint16)])]);
    let asked = peer.asked().await.unwrap();
    sleep(Duration::from_millis(450)).await;
    peer.answer(&asked, &hex("03020007")).await;
    sleep(Duration::from_millis(1)).await;
    assert_eq!(rig.told.last(1).unwrap().at, When::At(asked.at));
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn every_class_keeps_its_grid() {
    let mut quick = polled(1, Table::Holding, 0, Kind::Uint16);
    quick.scan = Duration::from_millis(100);
    let (rig, peer) = start(&[unit(1, vec![quick, polled(2, Table::Input, 0, Kind::Uint16)])]);
    let started = Instant::now();
    let log = device(peer, |asked| Some(asked.registers(|_| 1)));
    sleep(Duration::from_millis(10_050)).await;
    rig.stopped().await;
    let log = log.lock().unwrap();
    let times = |function| -> Vec<u128> {
        let of = log.iter().filter(|asked| asked.pdu[0] == function);
        of.map(|asked| (asked.at - started).as_millis()).collect()
    };
    assert_eq!(times(3), (0..=100).map(|round| round * 100).collect::<Vec<_>>());
    assert_eq!(times(4), (0..=10).map(|round| round * 1000).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_slow_device_skips_rounds_and_never_catches_up_in_a_burst() {
    let mut quick = polled(1, Table::Holding, 0, Kind::Uint16);
    quick.scan = Duration::from_millis(100);
    let (rig, mut peer) = start(&[unit(1, vec![quick])]);
    let started = Instant::now();
    let mut times = Vec::new();
    for round in 0..4 {
        let asked = peer.asked().await.unwrap();
        times.push((asked.at - started).as_millis());
        if round == 0 {
            sleep(Duration::from_millis(350)).await;
        }
        peer.answer(&asked, &hex("03020001")).await;
    }
    // Late by a part of a round: at once, then back on the grid.
    assert_eq!(times, [0, 350, 400, 500]);
    assert_eq!(rig.count(|counters| &counters.overruns), 2);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn two_time_outs_leave_the_tags_alone_and_a_third_makes_them_bad() {
    let (rig, mut peer) = start(&[unit(1, vec![polled(1, Table::Holding, 0, Kind::Uint16)])]);
    let asked = peer.asked().await.unwrap();
    peer.answer(&asked, &hex("03020007")).await;
    for _ in 0..3 {
        peer.asked().await.unwrap();
        assert_eq!(rig.told.of(1).len(), 1, "only what was read");
    }
    sleep(TIMEOUT + Duration::from_millis(1)).await;
    let told = rig.told.of(1);
    assert_eq!(told.len(), 2);
    let silent = rig.told.last(1).unwrap();
    assert_eq!((silent.value, silent.quality), (None, Quality::Bad(Reason::DeviceSilent)));
    assert_eq!(silent.detail.as_deref(), Some("no answer to 3 requests in a row, 500 ms each"));
    assert_eq!(rig.told.states_of(1), [DeviceState::Online, DeviceState::Silent]);
    // The next probe is answered: good again at once.
    let asked = peer.asked().await.unwrap();
    peer.answer(&asked, &hex("03020008")).await;
    sleep(Duration::from_millis(1)).await;
    assert!(good(&rig.told.last(1).unwrap()));
    assert_eq!(rig.told.states_of(1).last(), Some(&DeviceState::Online));
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn ten_units_behind_the_gateway_of_a13() {
    let remote = Transport::RtuTcp { address: "gateway:4001".to_owned() };
    for endpoint in [
        endpoint("gateway:502", TIMEOUT),
        ModbusEndpoint { max_in_flight: 8, ..endpoint("gateway:502", TIMEOUT) },
        ModbusEndpoint { check_ids: false, ..endpoint("gateway:502", TIMEOUT) },
        serial(),
        ModbusEndpoint { transport: remote, ..serial() },
    ] {
        gateway_of_a13(endpoint).await;
    }
}

async fn gateway_of_a13(endpoint: ModbusEndpoint) {
    let units: Vec<_> =
        (1..=10).map(|id| unit(id, vec![polled(id.into(), Table::Holding, 0, Kind::Uint16)])).collect();
    let (rig, peer) = start_on(endpoint, &units);
    let revive = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let revived = revive.clone();
    let log = device(peer, move |asked| match asked.unit_id {
        4 => Some(asked.exception(0x0B)),
        7 if !revived.load(Ordering::Relaxed) => None,
        id => Some(asked.registers(|_| id.into())),
    });
    sleep(Duration::from_secs(120)).await;
    let polls = |id: u8| log.lock().unwrap().iter().filter(|asked| asked.unit_id == id).count();
    for id in [1, 2, 3, 5, 6, 8, 9, 10] {
        assert!((108..=122).contains(&polls(id)), "unit {id} was polled {} times in 120 s", polls(id));
        assert_eq!(rig.told.last(id.into()).unwrap().value, Some(Value::U64(id.into())));
        assert!(rig.told.of(id.into()).iter().all(|(_, update)| good(update)));
    }
    // 3 to find out, then after 5, 10, 20, 30 s and so on.
    assert!((6..=9).contains(&polls(7)), "{} requests to the silent unit", polls(7));
    assert!((5..=9).contains(&polls(4)), "{} requests to the refused unit", polls(4));
    assert_eq!(rig.told.last(7).unwrap().quality, Quality::Bad(Reason::DeviceSilent));
    let refused = rig.told.last(4).unwrap();
    assert_eq!(refused.quality, Quality::Bad(Reason::DeviceRefused));
    assert_eq!(refused.detail.as_deref(), Some("exception 0x0B (gateway target device failed to respond)"));
    // Told once, not at every probe.
    assert_eq!(rig.told.states_of(7), [DeviceState::Silent]);
    assert_eq!(rig.told.states_of(4), [DeviceState::Refused]);
    revive.store(true, Ordering::Relaxed);
    sleep(Duration::from_secs(31)).await;
    assert!(good(&rig.told.last(7).unwrap()));
    let before = polls(7);
    sleep(Duration::from_secs(10)).await;
    assert!((9..=11).contains(&(polls(7) - before)), "back at its rate");
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_dead_as_a_whole_is_connected_anew() {
    let units = [
        unit(1, vec![polled(1, Table::Holding, 0, Kind::Uint16)]),
        unit(2, vec![polled(2, Table::Holding, 0, Kind::Uint16)]),
    ];
    let (rig, peer) = start(&units);
    let started = Instant::now();
    let log = device(peer, |_| None);
    let told = rig.told.clone();
    assert_eq!(rig.lost().await, "plc:502: nothing came in answer to 12 requests");
    assert_eq!(log.lock().unwrap().len(), 12);
    assert!(started.elapsed() < Duration::from_secs(30));
    assert_eq!(
        (told.states_of(1), told.states_of(2)),
        (vec![DeviceState::Silent], vec![DeviceState::Silent])
    );
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_speaks_for_dead_units_stays_connected() {
    let (rig, peer) = start(&[unit(1, vec![polled(1, Table::Holding, 0, Kind::Uint16)])]);
    let log = device(peer, |asked| Some(asked.exception(0x0A)));
    sleep(Duration::from_secs(60)).await;
    // Nobody else is on the line: probed every second.
    assert!((58..=62).contains(&log.lock().unwrap().len()));
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_block_does_not_hide_the_tags_that_exist() {
    let units = [unit(
        1,
        vec![
            polled(1, Table::Holding, 0, Kind::Uint16),
            polled(2, Table::Holding, 1, Kind::Uint16),
            polled(3, Table::Holding, 2, Kind::Uint32),
        ],
    )];
    let answer = |asked: &Asked| {
        let last = asked.address() + asked.count();
        Some(if asked.address() <= 1 && last > 1 { asked.exception(2) } else { asked.registers(|at| at) })
    };
    let (rig, peer) = start(&units);
    let log = device(peer, answer);
    sleep(Duration::from_millis(1500)).await;
    let asked: Vec<_> = log.lock().unwrap().iter().map(|asked| (asked.address(), asked.count())).collect();
    let (first, second) = asked.split_at(5);
    assert_eq!(first, [(0, 4), (0, 1), (1, 3), (1, 1), (2, 2)], "parted in halves until the hole is alone");
    assert_eq!(second, [(0, 1), (2, 2)], "which is left out from then on");
    assert!(good(&rig.told.last(1).unwrap()));
    assert_eq!(rig.told.last(3).unwrap().value, Some(Value::U64(0x0002_0003)));
    let hole = rig.told.last(2).unwrap();
    assert_eq!((hole.value, hole.quality), (None, Quality::Bad(Reason::DeviceRefused)));
    let detail = "exception 0x02 (illegal data address): it is left out and tried again from time to time";
    assert_eq!(hole.detail.as_deref(), Some(detail));
    assert_eq!(rig.told.states_of(1), [DeviceState::Online]);
    // Known in the next session too, which tries the hole once, when all else is read.
    let (rig, peer) = run(rig.stopped().await);
    let log = device(peer, answer);
    sleep(Duration::from_millis(500)).await;
    assert_eq!(log.lock().unwrap().iter().map(Asked::address).collect::<Vec<_>>(), [0, 2, 1]);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn other_exceptions_and_short_answers_make_a_block_bad() {
    let units = [unit(
        1,
        vec![polled(1, Table::Holding, 0, Kind::Uint16), polled(2, Table::Holding, 1, Kind::Uint16)],
    )];
    let (rig, mut peer) = start(&units);
    let asked = peer.asked().await.unwrap();
    peer.answer(&asked, &asked.exception(4)).await;
    let asked = peer.asked().await.unwrap();
    for id in [1, 2] {
        let refused = rig.told.last(id).unwrap();
        assert_eq!(refused.quality, Quality::Bad(Reason::DeviceRefused));
        assert_eq!(refused.detail.as_deref(), Some("exception 0x04 (server device failure)"));
    }
    peer.answer(&asked, &hex("03020001")).await;
    peer.asked().await.unwrap();
    let short = rig.told.last(1).unwrap();
    assert_eq!((short.value, short.quality), (None, Quality::Bad(Reason::DecodeError)));
    assert_eq!(short.detail.as_deref(), Some("an answer that counts 2 data bytes where 4 are due"));
    assert_eq!(rig.told.states_of(1), [DeviceState::Online]);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_read() {
    let (rig, mut peer) = start(&[unit(1, vec![polled(1, Table::Holding, 0, Kind::Uint16)])]);
    peer.asked().await.unwrap();
    let asked = Instant::now();
    rig.stopped().await;
    assert_eq!(asked.elapsed(), Duration::ZERO);
    assert_eq!(peer.asked().await, None, "closed");
}

#[tokio::test(start_paused = true)]
async fn a_value_past_the_last_address_is_told_and_never_asked_for() {
    let units = [unit(1, vec![polled(1, Table::Holding, 65535, Kind::Float32)])];
    let (rig, peer) = start(&units);
    let log = device(peer, |_| None);
    sleep(SECOND * 3).await;
    assert_eq!(rig.told.last(1).unwrap().quality, Quality::Bad(Reason::DecodeError));
    assert!(log.lock().unwrap().is_empty());
    rig.stopped().await;
}
