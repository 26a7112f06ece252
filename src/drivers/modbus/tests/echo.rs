//! A serial line that echoes what is sent on it, and answers to writes that are the same bytes as their requests.

use tokio::time::sleep;

use super::*;
use crate::model::Outcome;

const MS: Duration = Duration::from_millis(1);

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
pub(super) fn plant() -> [Unit; 1] {
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
            assert!(report.acknowledged_by.is_some());
        }
        assert_eq!(writes(&log), 4);
        assert_eq!((rig.count(|c| &c.garbled), rig.count(|c| &c.timeouts)), (0, 0));
        assert_eq!(rig.count(|c| &c.dropped) > 0, !between.is_empty(), "an echo is nothing foreign");
        // What the line says does not speak for a device that is dead, and one that left a question open is sent no more.
        dead.store(true, Ordering::Relaxed);
        let mut outcomes = Vec::new();
        for (id, value) in SETPOINTS {
            let report = rig.write(id, value).await.unwrap();
            assert!(report.acknowledged_by.is_none(), "{}", report.message);
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
                assert_eq!(
                    (report.outcome, report.acknowledged_by.is_some()),
                    (expected, !is_dead),
                    "{}",
                    report.message
                );
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
        assert_eq!(report.acknowledged_by.is_some(), echoes && answers);
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
    assert_eq!(
        (report.outcome, report.acknowledged_by.is_some()),
        (Outcome::Confirmed, false),
        "{}",
        report.message
    );
    assert!(report.message.starts_with("an answer whose checksum is wrong"), "{}", report.message);
    assert_eq!((writes(&log), rig.count(|counters| &counters.garbled)), (1, 1));
    rig.stopped().await;
}
