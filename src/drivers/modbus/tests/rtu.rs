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
        sleep(3 * TIMEOUT + 100 * MS).await;
        let told: Vec<_> =
            rig.told.of(1).into_iter().map(|(_, update)| (update.value, update.quality)).collect();
        let good = (Some(Value::U64(0x2222)), Quality::Good);
        match &vector["expected"] {
            expected if expected["registers"].is_array() => {
                assert_eq!(told, [(Some(Value::U64(0x0A5D)), Quality::Good), good], "{}", vector["name"]);
            }
            expected if expected["error"] == "CRC" => {
                assert_eq!(told, [good], "{}", vector["name"]);
                assert!(again - started < 4 * TIMEOUT, "asked again after a rest");
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
    let (rig, mut peer) = start_on(serial(), &plant());
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
    sleep(SECOND).await;
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

/// A device on a line that hears what is sent on it: of every request the last bytes `heard`, then what the device says.
fn echoing(
    mut peer: Peer,
    heard: usize,
    between: &'static [u8],
    mut answer: impl FnMut(&Asked) -> Option<Vec<u8>> + Send + 'static,
) -> Arc<Mutex<Vec<Asked>>> {
    let log = Arc::new(Mutex::new(Vec::new()));
    let kept = log.clone();
    tokio::spawn(async move {
        while let Some(asked) = peer.asked().await {
            kept.lock().unwrap().push(asked.clone());
            let echo = rtu_frame(asked.unit_id, &asked.pdu);
            peer.bytes(&echo[echo.len().saturating_sub(heard)..]).await;
            peer.bytes(between).await;
            if let Some(pdu) = answer(&asked) {
                // Longer than the silence that ends what was spoilt.
                sleep(100 * MS).await;
                peer.answer(&asked, &pdu).await;
            }
        }
    });
    log
}

/// A plant whose tags are polled once, at addresses whose requests look like answers.
fn plant() -> [Unit; 1] {
    let mut tags = vec![
        polled(1, Table::Holding, 0x0190, Kind::Uint16),
        polled(2, Table::Holding, 0x0203, Kind::Uint16),
        polled(3, Table::Coil, 0x0102, Kind::Bool),
        polled(4, Table::Holding, 0x0401, Kind::Float32),
    ];
    for tag in &mut tags {
        tag.scan = Duration::from_secs(3600);
    }
    [unit(9, tags)]
}

/// Holds registers and coils; `dead` from the outside.
fn obedient(
    dead: Arc<std::sync::atomic::AtomicBool>,
) -> impl FnMut(&Asked) -> Option<Vec<u8>> + Send + 'static {
    let mut registers = vec![0_u16; 0x600];
    let mut coil = false;
    move |asked| {
        if dead.load(Ordering::Relaxed) {
            return None;
        }
        match asked.pdu[0] {
            1 => return Some(vec![1, 1, u8::from(coil)]),
            3 => return Some(asked.registers(|at| registers[usize::from(at)])),
            5 => coil = asked.pdu[3] == 0xFF,
            6 => registers[usize::from(asked.address())] = asked.count(),
            16 => {
                for (at, word) in asked.pdu[6..].chunks(2).enumerate() {
                    registers[usize::from(asked.address()) + at] = u16::from_be_bytes([word[0], word[1]]);
                }
            }
            other => panic!("function {other}"),
        }
        Some(asked.echo())
    }
}

fn writes(log: &Mutex<Vec<Asked>>) -> usize {
    log.lock().unwrap().iter().filter(|asked| asked.is_write()).count()
}

const SETPOINTS: [(u32, Value); 4] =
    [(1, Value::U64(7)), (2, Value::U64(8)), (3, Value::Bool(true)), (4, Value::F32(1.5))];

#[tokio::test(start_paused = true)]
async fn a_line_that_echoes_reads_and_writes_as_any_other() {
    // All of it, its tail with or without what a line says while it settles, and none.
    for (heard, between) in
        [(99, &b""[..]), (99, b"\x00"), (3, b""), (2, b""), (0, b""), (0, b"\x00"), (0, b"\xFF")]
    {
        let (rig, peer) = start_on(serial(), &plant());
        let dead = Arc::default();
        let log = echoing(peer, heard, between, obedient(Arc::clone(&dead)));
        sleep(2 * SECOND).await;
        for id in 1..=4 {
            assert_eq!(rig.told.last(id).unwrap().quality, Quality::Good);
        }
        assert_eq!(log.lock().unwrap().len(), 4, "nothing was asked twice");
        for (id, value) in SETPOINTS {
            let report = rig.write(id, value.clone()).await.unwrap();
            assert_eq!(
                (report.outcome, report.value),
                (Outcome::Confirmed, Some(value)),
                "{}",
                report.message
            );
            assert!(report.acknowledged);
        }
        assert_eq!(writes(&log), 4);
        assert_eq!((rig.count(|c| &c.garbled), rig.count(|c| &c.timeouts)), (0, 0));
        assert_eq!(rig.count(|c| &c.dropped) > 0, !between.is_empty(), "an echo is nothing foreign");
        // What the line says does not speak for a device that is dead, and one that left a question open is sent no more.
        dead.store(true, Ordering::Relaxed);
        let mut outcomes = Vec::new();
        for (id, value) in SETPOINTS {
            let report = rig.write(id, value).await.unwrap();
            assert!(!report.acknowledged, "{}", report.message);
            outcomes.push(report.outcome);
        }
        assert_eq!(outcomes, [Outcome::Unknown, Outcome::NotSent, Outcome::NotSent, Outcome::NotSent]);
        assert_eq!(writes(&log), 5, "one frame each");
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_is_the_first_of_a_line_that_echoes() {
    for (heard, between) in [(99, &b""[..]), (99, b"\x00"), (3, b""), (0, b"")] {
        for is_dead in [true, false] {
            for (id, value) in SETPOINTS {
                let (rig, peer) = start_on(serial(), &plant());
                let report = rig.write(id, value);
                let dead = Arc::new(std::sync::atomic::AtomicBool::new(is_dead));
                let log = echoing(peer, heard, between, obedient(dead));
                let report = report.await.unwrap();
                let expected = if is_dead { Outcome::Unknown } else { Outcome::Confirmed };
                assert_eq!((report.outcome, report.acknowledged), (expected, !is_dead), "{}", report.message);
                assert_eq!(writes(&log), 1);
                rig.stopped().await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_be_an_echo_is_no_acknowledgement() {
    // The only look before the write is spoilt, so nothing tells whether the line echoes.
    for (echoes, answers, outcome) in [
        (true, true, Outcome::Confirmed),
        (true, false, Outcome::Unknown),
        (false, true, Outcome::Confirmed),
        (false, false, Outcome::Unknown),
    ] {
        let (rig, mut peer) = start_on(serial(), &plant());
        let report = rig.write(1, Value::U64(7));
        let script = tokio::spawn(async move {
            peer.asked().await.unwrap();
            peer.bytes(&hex("090302000000")).await;
            peer.bytes(&hex("00")).await;
            let write = peer.asked().await.unwrap();
            assert_eq!(write.pdu[0], 6);
            for _ in 0..u32::from(echoes) + u32::from(answers) {
                peer.answer(&write, &write.echo()).await;
                sleep(10 * MS).await;
            }
            while let Some(asked) = peer.asked().await {
                if answers && !asked.is_write() {
                    peer.answer(&asked, &asked.registers(|_| 7)).await;
                }
            }
        });
        let report = report.await.unwrap();
        assert_eq!(report.outcome, outcome, "{}", report.message);
        // Two of the same: one of them was the device's.
        assert_eq!(report.acknowledged, echoes && answers);
        rig.stopped().await;
        script.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn another_value_than_was_sent_is_told_as_that_and_not_as_noise() {
    let (rig, mut peer) = start_on(serial(), &plant());
    let log = Arc::new(Mutex::new(Vec::new()));
    let kept = log.clone();
    tokio::spawn(async move {
        while let Some(asked) = peer.asked().await {
            kept.lock().unwrap().push(asked.clone());
            let pdu = match asked.pdu[0] {
                6 => hex("06019000D6"),
                1 => hex("010100"),
                _ => asked.registers(|_| 0xD6),
            };
            peer.answer(&asked, &pdu).await;
        }
    });
    sleep(SECOND).await;
    let report = rig.write(1, Value::U64(0xD7)).await.unwrap();
    assert_eq!(
        (report.outcome, report.value),
        (Outcome::Differs, Some(Value::U64(0xD6))),
        "{}",
        report.message
    );
    assert!(report.message.starts_with("the device echoed 0x00D6 at address 400"), "{}", report.message);
    assert_eq!((writes(&log), rig.count(|counters| &counters.garbled)), (1, 0));
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_spoilt_answer_to_a_write_is_settled_by_reading_back() {
    let (rig, mut peer) = start_on(serial(), &plant());
    let log = Arc::new(Mutex::new(Vec::new()));
    let kept = log.clone();
    tokio::spawn(async move {
        while let Some(asked) = peer.asked().await {
            kept.lock().unwrap().push(asked.clone());
            let pdu = if asked.pdu[0] == 1 { hex("010100") } else { asked.registers(|_| 7) };
            match asked.pdu[0] {
                6 => peer.bytes(&hex("0906019000070000")).await,
                _ => peer.answer(&asked, &pdu).await,
            }
        }
    });
    sleep(SECOND).await;
    let report = rig.write(1, Value::U64(7)).await.unwrap();
    assert_eq!((report.outcome, report.acknowledged), (Outcome::Confirmed, false), "{}", report.message);
    assert!(report.message.starts_with("an answer whose checksum is wrong"), "{}", report.message);
    assert_eq!((writes(&log), rig.count(|counters| &counters.garbled)), (1, 1));
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_silence_and_for_no_more() {
    let tags = vec![polled(1, Table::Holding, 0, Kind::Uint16), polled(2, Table::Holding, 100, Kind::Uint16)];
    let (rig, mut peer) = start_on(serial(), &[unit(1, tags)]);
    let started = Instant::now();
    let first = peer.asked().await.unwrap();
    assert_eq!(first.at - started, TIMEOUT, "whatever was asked before it was opened is answered");
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
