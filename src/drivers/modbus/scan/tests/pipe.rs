//! Scans over a pipe with a scripted peer; time is paused and moves only when all wait.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::BytesMut;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    time::{Instant, sleep},
};

use super::*;
use crate::{
    codec::modbus::put_rtu,
    config::{ModbusEndpoint, Transport},
};

const TIMEOUT: Duration = Duration::from_millis(500);
const SECOND: Duration = Duration::from_secs(1);

/// A request as the peer got it.
#[derive(Debug, Clone)]
struct Asked {
    at: Instant,
    function: u8,
}

type Log = Arc<Mutex<Vec<Asked>>>;

fn endpoint(transport: Transport) -> ModbusEndpoint {
    ModbusEndpoint {
        transport,
        timeout: TIMEOUT,
        connect_delay: Duration::ZERO,
        request_gap: Duration::ZERO,
        idle_close: None,
        max_in_flight: 1,
        check_ids: true,
        reconnect: ModbusEndpoint::RECONNECT,
    }
}

fn tcp() -> Transport {
    Transport::Tcp { address: "plc:502".to_owned(), tls: None }
}

/// A scan whose connection is open already, and the other end of it.
fn start(transport: Transport, scope: &Scope, rate: u32) -> (Scan, DuplexStream) {
    let (ours, theirs) = duplex(4096);
    let mut scan = Scan::new(endpoint(transport), scope, rate);
    scan.caller.wire = Some(scan.caller.wire_over(Box::new(ours)));
    (scan, theirs)
}

async fn finish(scan: &mut Scan) -> Survey {
    while scan.step().await.unwrap() {}
    scan.survey()
}

/// Answers Modbus TCP: `answer` gives the PDU and how long it takes; `None` is silence.
fn network(
    mut stream: DuplexStream,
    answer: impl Fn(u8, &[u8]) -> Option<(Duration, Vec<u8>)> + Send + 'static,
) -> Log {
    let log = Log::default();
    let kept = log.clone();
    tokio::spawn(async move {
        let mut header = [0; 7];
        while stream.read_exact(&mut header).await.is_ok() {
            let mut pdu = vec![0; usize::from(header[5]) - 1];
            stream.read_exact(&mut pdu).await.unwrap();
            kept.lock().unwrap().push(Asked { at: Instant::now(), function: pdu[0] });
            let Some((takes, answer)) = answer(header[6], &pdu) else { continue };
            sleep(takes).await;
            let length = u8::try_from(answer.len() + 1).unwrap();
            let frame = [&header[..4], &[0, length, header[6]], &answer].concat();
            if stream.write_all(&frame).await.is_err() {
                return;
            }
        }
    });
    log
}

/// The answer of a device with `there` registers and bits from 0 on, all ones.
fn pdu(request: &[u8], there: u16) -> Vec<u8> {
    if request[0] == 43 {
        return vec![0xAB, 1];
    }
    let word = |at: usize| u16::from_be_bytes([request[at], request[at + 1]]);
    let (first, count) = (word(1), word(3));
    if first + count > there {
        return vec![0x80 | request[0], 2];
    }
    let bytes = if request[0] < 3 { count.div_ceil(8) } else { 2 * count };
    let mut answer = vec![request[0], u8::try_from(bytes).unwrap()];
    answer.resize(2 + usize::from(bytes), 1);
    answer
}

#[tokio::test(start_paused = true)]
async fn no_second_has_more_requests_than_the_rate_says_and_all_are_reads() {
    for rate in [1, 10, 250] {
        let (mut scan, theirs) = start(tcp(), &scope(1..=3, &ALL, 40), rate);
        let log = network(theirs, |unit, asked| (unit < 3).then(|| (Duration::ZERO, pdu(asked, 9))));
        let survey = finish(&mut scan).await;
        assert_eq!(units(&survey), [1, 2]);
        let log = log.lock().unwrap();
        assert_eq!(u64::try_from(log.len()).unwrap(), survey.counts.requests);
        for (at, first) in log.iter().enumerate() {
            let within = log[at..].iter().take_while(|asked| asked.at - first.at < SECOND).count();
            assert!(within <= usize::try_from(rate).unwrap(), "{within} at {rate}");
        }
        let functions: BTreeSet<u8> = log.iter().map(|asked| asked.function).collect();
        assert_eq!(functions, BTreeSet::from([1, 2, 3, 4, 43]));
    }
}

#[tokio::test(start_paused = true)]
async fn units_slower_than_the_time_out_are_missed_and_told_of() {
    let (mut scan, theirs) = start(tcp(), &scope([1, 2, 3], &[Table::Holding], 0), 10);
    let takes = |unit: u8| if unit == 2 { TIMEOUT * 3 / 2 } else { TIMEOUT / 10 };
    network(theirs, move |unit, asked| Some((takes(unit), pdu(asked, 9))));
    let survey = finish(&mut scan).await;
    assert_eq!(units(&survey), [1, 3]);
    assert_eq!((survey.counts.silent, survey.counts.late), (1, 1));
}

/// Answers on a line have no ids.
#[tokio::test(start_paused = true)]
async fn on_a_line_a_silent_unit_is_left_alone_until_its_answer_cannot_come_any_more() {
    let line = || Transport::RtuTcp { address: "line:4001".to_owned() };
    for (transport, least) in [(line(), 2 * TIMEOUT), (tcp(), TIMEOUT)] {
        let is_line = matches!(transport, Transport::RtuTcp { .. });
        let (mut scan, mut theirs) = start(transport, &scope([1], &[Table::Holding, Table::Input], 0), 100);
        let times = tokio::spawn(async move {
            let mut times = Vec::new();
            let mut request = [0; 12];
            let length = if is_line { 8 } else { 12 };
            while theirs.read_exact(&mut request[..length]).await.is_ok() {
                times.push(Instant::now());
            }
            times
        });
        finish(&mut scan).await;
        drop(scan);
        let times = times.await.unwrap();
        assert_eq!(times.len(), 2);
        let pause = times[1] - times[0];
        assert!(pause >= least && pause < least + TIMEOUT / 2, "{pause:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_left_is_told_by_the_worst_that_can_be_at_first() {
    let (mut scan, theirs) = start(tcp(), &scope(1..=100, &ALL, 99), 10);
    // Four tables, a time-out each.
    assert_eq!((scan.most_left(), scan.time_left()), (400, 200 * SECOND));
    network(theirs, |unit, asked| (unit == 1).then(|| (Duration::ZERO, pdu(asked, 100))));
    assert_eq!(scan.place(), Place::Roll(1));
    let mut last = scan.most_left();
    while let Place::Roll(_) = scan.place() {
        assert!(scan.step().await.unwrap());
        if let Place::Roll(_) = scan.place() {
            assert!(scan.most_left() < last, "{} after {last}", scan.most_left());
            last = scan.most_left();
        }
    }
    assert_eq!(scan.place(), Place::Identity(1));
    finish(&mut scan).await;
    assert_eq!((scan.most_left(), scan.time_left(), scan.units()), (0, Duration::ZERO, 1));
}

/// Answers RTU frames as a serial server hands them on: three registers and an identity, as unit 2.
fn line(mut stream: DuplexStream) {
    let identity = [&[43, 14, 1, 0x81, 0, 0, 2, 0, 4], &b"Acme"[..], &[1, 2], b"X1"].concat();
    tokio::spawn(async move {
        let mut head = [0; 2];
        while stream.read_exact(&mut head).await.is_ok() {
            let mut rest = vec![0; if head[1] == 43 { 5 } else { 6 }];
            stream.read_exact(&mut rest).await.unwrap();
            let request = [&head[1..], &rest].concat();
            let answer = if head[1] == 43 { identity.clone() } else { pdu(&request, 3) };
            let mut frame = BytesMut::new();
            put_rtu(head[0], &answer, &mut frame);
            if head[0] == 2 && stream.write_all(&frame).await.is_err() {
                return;
            }
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_line_is_scanned_as_well() {
    let transport = Transport::RtuTcp { address: "line:4001".to_owned() };
    let (mut scan, theirs) = start(transport, &scope(1..=3, &ALL, 7), 100);
    line(theirs);
    let survey = finish(&mut scan).await;
    assert_eq!(units(&survey), [2]);
    let Found { identity, extents, .. } = &survey.units[0];
    assert_eq!((identity.vendor(), identity.product()), (Some("Acme"), Some("X1")));
    let readable: Vec<_> = extents.iter().map(|extent| (extent.table(), extent.ranges())).collect();
    assert_eq!(readable, ALL.map(|table| (table, vec![(0, 2)])));
    assert_eq!(survey.counts.silent, 8, "units 1 and 3, by each table");
}
