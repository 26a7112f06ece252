//! Serial lines: case A19, A11 and A13 without ids, lines that echo, noise, foreign traffic and slow characters.

use serde_json::Value as Json;
use tokio::time::sleep;
use tokio_modbus::{Request, Response};

use super::{
    super::{
        line::Line,
        wire::{Failure, Framing, Wire},
    },
    *,
};
use crate::{codec::modbus::Answer, model::Outcome};

const MS: Duration = Duration::from_millis(1);
/// Characters of 11 bits at 19,200 baud.
const CHARACTER: Duration = Duration::from_nanos(572_916);

fn wire() -> (Wire<DuplexStream>, Peer, Arc<Counters>) {
    let (ours, theirs) = duplex(4096);
    let counters = Arc::<Counters>::default();
    let framing = Framing::Rtu(Line::serial(19_200, 11));
    (Wire::new(ours, framing, Duration::ZERO, Duration::ZERO, counters.clone()), Peer(theirs, true), counters)
}

async fn exchange(
    wire: &mut Wire<DuplexStream>,
    unit_id: u8,
    request: Request<'static>,
) -> Result<Answer, Failure> {
    let pending = wire.prepare(unit_id, request).unwrap();
    wire.ready(Instant::now() + TIMEOUT).await?;
    wire.send(&pending, TIMEOUT).await?;
    wire.hear(&[&pending], wire.due()).await?.1.map_err(Failure::Misfit)
}

/// Vectors of an exchange of case A19, with what arrives, in bursts.
fn exchanges() -> Vec<(Json, Vec<Vec<u8>>)> {
    let text = include_str!("../../../../tests/cases/cases.json");
    let cases: Json = serde_json::from_str(text).unwrap();
    let vectors = cases["vectors"].as_array().unwrap().iter();
    let ours = vectors
        .filter(|vector| vector["id"].as_str().unwrap().starts_with("A19") && vector["op"] == "rtu-exchange");
    let bursts = |rx: &Json| match rx {
        Json::Array(bursts) => bursts.iter().map(|burst| hex(burst.as_str().unwrap())).collect(),
        rx => vec![hex(rx.as_str().unwrap())],
    };
    ours.map(|vector| (vector.clone(), bursts(&vector["rx"]))).collect()
}

/// What an exchange must come to.
fn check(vector: &Json, result: &Result<Answer, Failure>) {
    let (name, expected) = (vector["name"].as_str().unwrap(), &vector["expected"]);
    match (expected["error"].as_str(), result) {
        (None, Ok(Answer::Response(Response::ReadHoldingRegisters(words)))) => {
            let words: Vec<_> = words.iter().map(|word| format!("{word:04X}")).collect();
            assert_eq!(expected["registers"], serde_json::json!(words), "{name}");
        }
        (None, Ok(Answer::Exception(exception))) => {
            assert_eq!(expected["exception"], u8::from(*exception), "{name}");
        }
        (Some("CRC"), Err(Failure::Garbled))
        | (Some("time-out" | "time-out or CRC"), Err(Failure::TimedOut)) => {}
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn the_checksum_of_the_catalogue() {
    let mut frame = bytes::BytesMut::new();
    crate::codec::modbus::put_rtu(0x31, b"23456789", &mut frame);
    assert_eq!(frame[9..], hex("374B"));
    assert_eq!(frame[9..], crc(b"123456789"), "the tests' own");
}

#[tokio::test(start_paused = true)]
async fn every_exchange_of_a19_and_the_read_after_it() {
    let vectors = exchanges();
    assert_eq!(vectors.len(), 13);
    for (vector, bursts) in vectors {
        let flat = bursts.concat();
        // As it is, and in two bursts 20 ms apart wherever it is cut.
        // Of two answers the second is not known to be none to the next request where it comes behind that.
        let twice = vector["name"] == "two answers back to back";
        let cuts: Vec<_> = (1..flat.len()).filter(|at| !twice || *at != flat.len() / 2).collect();
        let cuts = cuts.into_iter().map(|at| vec![flat[..at].to_vec(), flat[at..].to_vec()]);
        let bytewise = if twice { vec![flat.clone()] } else { flat.iter().map(|byte| vec![*byte]).collect() };
        for bursts in [bursts, bytewise].into_iter().chain(cuts) {
            let (mut wire, mut peer, counters) = wire();
            let tx = hex(vector["tx"].as_str().unwrap());
            let script = tokio::spawn(async move {
                let asked = peer.asked().await.unwrap();
                assert_eq!(rtu_frame(asked.unit_id, &asked.pdu), tx);
                for burst in bursts {
                    peer.bytes(&burst).await;
                    sleep(20 * MS).await;
                }
                let asked = peer.asked().await.unwrap();
                peer.answer(&asked, &hex("03022222")).await;
                peer
            });
            let started = Instant::now();
            let result = exchange(&mut wire, 0x0B, Request::ReadHoldingRegisters(0x0102, 1)).await;
            check(&vector, &result);
            if matches!(result, Err(Failure::Garbled)) {
                // The line first comes to rest, and then it is told: nobody waits for the whole time.
                assert!(started.elapsed() < TIMEOUT, "{:?}", started.elapsed());
                assert_eq!(counters.garbled.load(Ordering::Relaxed), 1);
            }
            let next = exchange(&mut wire, 0x0B, Request::ReadHoldingRegisters(0x0200, 1)).await;
            let expected = Answer::Response(Response::ReadHoldingRegisters(vec![0x2222]));
            assert_eq!(next.unwrap(), expected, "{}", vector["name"]);
            script.await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn sessions_publish_of_a19_what_was_answered_and_nothing_else() {
    for (vector, bursts) in exchanges() {
        let tag = polled(1, Table::Holding, 0x0102, Kind::Uint16);
        let (rig, mut peer) = start_on(serial(), &[unit(0x0B, vec![tag])]);
        let script = tokio::spawn(async move {
            peer.asked().await.unwrap();
            for burst in bursts {
                peer.bytes(&burst).await;
                sleep(20 * MS).await;
            }
            let again = peer.asked().await.unwrap();
            peer.answer(&again, &hex("03022222")).await;
            (peer, again.at)
        });
        let started = Instant::now();
        let (_peer, again) = script.await.unwrap();
        // What may be the answer to the question before is held back.
        let open = vector["expected"]["error"].as_str().is_some_and(|error| error.starts_with("time-out"));
        sleep(if open { 10 * TIMEOUT + 100 * MS } else { 100 * MS }).await;
        let told: Vec<_> =
            rig.told.of(1).into_iter().map(|(_, update)| (update.value, update.quality)).collect();
        let good = (Some(Value::U64(0x2222)), Quality::Good);
        match &vector["expected"] {
            expected if expected["registers"].is_array() => {
                assert_eq!(told, [(Some(Value::U64(0x0A5D)), Quality::Good), good], "{}", vector["name"]);
            }
            expected if expected["error"] == "CRC" => {
                assert_eq!(told, [good], "{}", vector["name"]);
                assert!(again - started < 5 * TIMEOUT, "asked again after a rest");
                assert_eq!((rig.count(|c| &c.garbled), rig.count(|c| &c.retries)), (1, 1));
            }
            expected if expected["exception"].is_number() => {
                assert_eq!(told[0], (None, Quality::Bad(Reason::DeviceRefused)));
            }
            _ => {
                assert_eq!(told, [good], "{}", vector["name"]);
                assert_eq!(rig.count(|c| &c.timeouts), 1);
            }
        }
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn another_station_of_a13_is_no_answer() {
    let (mut wire, mut peer, counters) = wire();
    let script = tokio::spawn(async move {
        let asked = peer.asked().await.unwrap();
        assert_eq!(rtu_frame(asked.unit_id, &asked.pdu), hex("20030000000182BB"));
        peer.bytes(&hex("2103020001F843")).await;
        sleep(10 * MS).await;
        peer.bytes(&hex("20030200028582")).await;
        // Alone it is none at all.
        peer.asked().await.unwrap();
        peer.bytes(&hex("2103020001F843")).await;
        peer
    });
    let answer = exchange(&mut wire, 0x20, Request::ReadHoldingRegisters(0, 1)).await.unwrap();
    assert_eq!(answer, Answer::Response(Response::ReadHoldingRegisters(vec![2])));
    let failure = exchange(&mut wire, 0x20, Request::ReadHoldingRegisters(0, 1)).await.unwrap_err();
    assert!(matches!(failure, Failure::TimedOut), "{failure}");
    assert_eq!(counters.dropped.load(Ordering::Relaxed), 2);
    drop(script.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn answers_without_their_id_are_told_of_or_taken_where_that_is_asked_for() {
    // A constant, a count of its own, and never anything.
    let ids: [fn(u16) -> u16; 4] = [|_| 0, |_| 1, |count| count, |_| 0xFFFF];
    for id in ids {
        for check_ids in [true, false] {
            let endpoint = ModbusEndpoint { check_ids, ..endpoint("plc:502", TIMEOUT) };
            let (rig, mut peer) =
                start_on(endpoint, &[unit(1, vec![polled(1, Table::Holding, 0, Kind::Uint16)])]);
            tokio::spawn(async move {
                let mut count = 0;
                while let Some(asked) = peer.asked().await {
                    count += 1;
                    peer.say(id(count), 1, &asked.registers(|_| 7)).await;
                }
            });
            sleep(10 * SECOND).await;
            let told = rig.told.last(1).unwrap();
            if check_ids {
                assert_eq!(told.quality, Quality::Bad(Reason::DeviceSilent));
                let detail = told.detail.unwrap();
                assert!(detail.contains("transaction_ids = \"ignore\""), "{detail}");
            } else {
                assert_eq!((told.value, told.quality), (Some(Value::U64(7)), Quality::Good));
                assert_eq!(rig.told.of(1).len(), 10);
            }
            rig.stopped().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_silence_and_for_no_more() {
    let tags = vec![polled(1, Table::Holding, 0, Kind::Uint16), polled(2, Table::Holding, 100, Kind::Uint16)];
    let (rig, mut peer) = start_on(serial(), &[unit(1, tags)]);
    let started = Instant::now();
    let first = peer.asked().await.unwrap();
    assert_eq!(first.at - started, 2 * TIMEOUT, "whatever was asked before it was opened is answered");
    sleep(20 * MS).await;
    peer.answer(&first, &hex("03020007")).await;
    let answered = Instant::now();
    let second = peer.asked().await.unwrap();
    let silence = second.at - answered;
    // Timers have the grain of a millisecond.
    assert!(silence >= CHARACTER * 7 / 2 && silence <= CHARACTER * 7 / 2 + 2 * MS, "{silence:?}");
    // A time-out, and a late answer drop by drop: its unit is asked again when the line has been at rest.
    sleep(TIMEOUT + 400 * MS).await;
    let frame = rtu_frame(1, &hex("03020BAD"));
    for byte in &frame {
        sleep(30 * MS).await;
        peer.bytes(&[*byte]).await;
    }
    let said = Instant::now();
    let third = peer.asked().await.unwrap();
    assert!(third.at - said >= 50 * MS, "{:?}", third.at - said);
    peer.answer(&third, &third.registers(|at| at)).await;
    sleep(10 * MS).await;
    let wrong = |id| rig.told.of(id).iter().any(|(_, update)| update.value == Some(Value::U64(0x0BAD)));
    assert!(!wrong(1) && !wrong(2));
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn the_characters_of_a_slow_line_are_given_their_time() {
    let line = Serial { port: "/dev/ttyS9".to_owned(), baud: 300, parity: Parity::Even, stop_bits: 1 };
    let endpoint = ModbusEndpoint { transport: Transport::Rtu(line), ..endpoint("", TIMEOUT) };
    let tags = (0..125)
        .map(|at| Polled { scan: 3600 * SECOND, ..polled(u32::from(at), Table::Holding, at, Kind::Uint16) });
    let (rig, mut peer) = start_on(endpoint, &[unit(1, tags.collect())]);
    let character = SECOND * 11 / 300;
    let asked = peer.asked().await.unwrap();
    sleep(character * 8 + 150 * MS).await;
    for byte in rtu_frame(1, &asked.registers(|at| at)) {
        sleep(character).await;
        peer.bytes(&[byte]).await;
    }
    sleep(SECOND).await;
    assert_eq!(rig.told.last(124).unwrap().value, Some(Value::U64(124)));
    assert_eq!((rig.count(|c| &c.timeouts), rig.count(|c| &c.requests)), (0, 1));
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn the_slowest_line_and_the_longest_times_overflow_nothing() {
    let line = Serial { port: "/dev/ttyS9".to_owned(), baud: 50, parity: Parity::Even, stop_bits: 2 };
    let tags = vec![
        Polled { scan: Duration::from_secs(86_400), ..polled(1, Table::Holding, 0, Kind::Uint16) },
        Polled { scan: Duration::ZERO, ..polled(2, Table::Coil, 0, Kind::Bool) },
    ];
    for answers in [true, false] {
        let endpoint = ModbusEndpoint {
            transport: Transport::Rtu(line.clone()),
            timeout: 60 * SECOND,
            connect_delay: 60 * SECOND,
            request_gap: 60 * SECOND,
            ..endpoint("", TIMEOUT)
        };
        let (rig, peer) = start_on(endpoint, &[unit(1, tags.clone())]);
        let log = free_device(peer, move |asked| {
            let pdu = if asked.pdu[0] == 1 { hex("010101") } else { asked.registers(|at| at) };
            answers.then_some((50 * SECOND, pdu))
        });
        sleep(Duration::from_secs(7 * 86_400)).await;
        let asked = log.lock().unwrap().len();
        if answers {
            assert!(asked > 1000, "{asked}");
            rig.stopped().await;
        } else {
            assert_eq!(asked, 6);
            assert_eq!(rig.lost().await, "/dev/ttyS9: nothing came in answer to 6 requests");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn foreign_traffic_costs_no_more_than_a_transaction() {
    let tags = vec![polled(1, Table::Holding, 0, Kind::Uint16)];
    let (rig, peer) = start_on(serial(), &[unit(1, tags)]);
    let (mut input, output) = tokio::io::split(peer.0);
    let output = Arc::new(tokio::sync::Mutex::new(output));
    let line = output.clone();
    // Another master polls station 2 all the time, every 40 ms.
    tokio::spawn(async move {
        loop {
            for frame in [rtu_frame(2, &hex("0300000001")), rtu_frame(2, &hex("0302BEEF"))] {
                sleep(20 * MS).await;
                if line.lock().await.write_all(&frame).await.is_err() {
                    return;
                }
            }
        }
    });
    tokio::spawn(async move {
        let mut request = [0; 8];
        while input.read_exact(&mut request).await.is_ok() {
            sleep(30 * MS).await;
            drop(output.lock().await.write_all(&rtu_frame(1, &hex("03020007"))).await);
        }
    });
    sleep(60 * SECOND).await;
    let told = rig.told.of(1);
    assert!(told.iter().all(|(_, update)| update.value == Some(Value::U64(7))), "{told:?}");
    assert!(told.len() >= 57, "{}", told.len());
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_never_silent_is_told_and_is_used_again_when_it_is() {
    let tags = vec![polled(1, Table::Holding, 0, Kind::Uint16)];
    let (rig, peer) = start_on(serial(), &[unit(1, tags)]);
    let (mut input, output) = tokio::io::split(peer.0);
    let output = Arc::new(tokio::sync::Mutex::new(output));
    let (line, noisy, silent) = (
        output.clone(),
        Arc::new(std::sync::atomic::AtomicBool::new(false)),
        Arc::new(std::sync::atomic::AtomicBool::new(true)),
    );
    let (noise, mute) = (noisy.clone(), silent.clone());
    tokio::spawn(async move {
        loop {
            sleep(MS).await;
            if noise.load(Ordering::Relaxed) && line.lock().await.write_all(b"\x55").await.is_err() {
                return;
            }
        }
    });
    tokio::spawn(async move {
        let mut request = [0; 8];
        while input.read_exact(&mut request).await.is_ok() {
            if !mute.load(Ordering::Relaxed) {
                drop(output.lock().await.write_all(&rtu_frame(1, &hex("03020007"))).await);
            }
        }
    });
    // Silent first, so that the noise meets a probe.
    sleep(5 * SECOND).await;
    assert_eq!(rig.told.last(1).unwrap().quality, Quality::Bad(Reason::DeviceSilent));
    noisy.store(true, Ordering::Relaxed);
    silent.store(false, Ordering::Relaxed);
    sleep(20 * SECOND).await;
    let told = rig.told.last(1).unwrap();
    assert_eq!(told.detail.as_deref(), Some("the line never falls silent, so nothing was sent"));
    let report = rig.write_by(1, Value::U64(1), false, SECOND, Grant::default()).await.unwrap();
    assert_eq!(report.outcome, Outcome::NotSent, "{}", report.message);
    noisy.store(false, Ordering::Relaxed);
    sleep(10 * SECOND).await;
    assert_eq!(rig.told.last(1).unwrap().quality, Quality::Good);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_to_a_unit_that_rests_is_answered_at_its_deadline() {
    let mut endpoint = serial();
    endpoint.timeout = 20 * SECOND;
    let (rig, mut peer) = start_on(endpoint, &[unit(1, vec![polled(1, Table::Holding, 0, Kind::Uint16)])]);
    peer.asked().await.unwrap();
    sleep(20 * SECOND).await;
    let asked = Instant::now();
    let report = rig.write_by(1, Value::U64(7), false, 2 * SECOND, Grant::default()).await.unwrap();
    assert_eq!((report.outcome, asked.elapsed()), (Outcome::NotSent, 2 * SECOND), "{}", report.message);
    rig.stopped().await;
}
