//! Cases A11, A13 and A15: which answer is whose, on streams that are cut, late or not Modbus at all.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use serde_json::Value as Json;
use tokio::{io::ReadBuf, time::sleep};
use tokio_modbus::{Request, Response};

use super::{
    super::wire::{Failure, Framing, Wire},
    *,
};
use crate::codec::modbus::Answer;

fn wire() -> (Wire<DuplexStream>, Peer, Arc<Counters>) {
    let (ours, theirs) = duplex(4096);
    let counters = Arc::<Counters>::default();
    (over(ours, &counters), Peer(theirs, false), counters)
}

fn over<S: AsyncRead + AsyncWrite + Unpin>(stream: S, counters: &Arc<Counters>) -> Wire<S> {
    let framing = Framing::Mbap { check_ids: true };
    Wire::new(stream, framing, Duration::ZERO, Duration::ZERO, counters.clone())
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    wire: &mut Wire<S>,
    unit_id: u8,
    request: Request<'static>,
    within: Duration,
) -> Result<Answer, Failure> {
    let pending = wire.prepare(unit_id, request).unwrap();
    let until = wire.send(&pending, within).await? + within;
    wire.hear(&[&pending], until).await?.1.map_err(Failure::Misfit)
}

async fn read(
    wire: &mut Wire<DuplexStream>,
    unit_id: u8,
    address: u16,
    count: u16,
) -> Result<Vec<u16>, String> {
    let request = Request::ReadHoldingRegisters(address, count);
    match exchange(wire, unit_id, request, TIMEOUT).await {
        Ok(Answer::Response(Response::ReadHoldingRegisters(words))) => Ok(words),
        Ok(other) => Err(format!("{other:?}")),
        Err(failure) => Err(failure.to_string()),
    }
}

fn steps(id: &str) -> Vec<Json> {
    let text = include_str!("../../../../tests/cases/cases.json");
    let cases: Json = serde_json::from_str(text).unwrap();
    let case = cases["cases"].as_array().unwrap().iter().find(|case| case["id"] == id).unwrap().clone();
    case["steps"].as_array().unwrap().clone()
}

/// A frame of a case with the transaction id that was really used.
fn with_id(frame: &str, id: u16) -> Vec<u8> {
    let mut bytes = hex(frame);
    if bytes.len() >= 2 {
        bytes[..2].copy_from_slice(&id.to_be_bytes());
    }
    bytes
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_of_a11_is_dropped() {
    let (mut wire, mut peer, counters) = wire();
    let script = tokio::spawn(async move {
        let first = peer.asked().await.unwrap();
        let second = peer.asked().await.unwrap();
        assert_eq!((first.pdu.clone(), second.pdu.clone()), (hex("0300640001"), hex("0300C80001")));
        sleep(Duration::from_millis(50)).await;
        peer.answer(&first, &hex("03021111")).await;
        sleep(Duration::from_millis(50)).await;
        peer.answer(&second, &hex("03022222")).await;
        for _ in 0..100 {
            let asked = peer.asked().await.unwrap();
            let pdu = asked.registers(|address| address);
            peer.answer(&asked, &pdu).await;
        }
    });
    assert_eq!(read(&mut wire, 1, 100, 1).await, Err("no answer in time".to_owned()));
    assert_eq!(read(&mut wire, 1, 200, 1).await, Ok(vec![0x2222]));
    assert_eq!(counters.dropped.load(Ordering::Relaxed), 1);
    for address in 0..100 {
        assert_eq!(read(&mut wire, 1, address, 1).await, Ok(vec![address]));
    }
    script.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_read_of_a11_returns_another_address() {
    let (mut wire, mut peer, counters) = wire();
    let mut chance = fastrand::Rng::with_seed(11);
    tokio::spawn(async move {
        let mut late: Vec<Asked> = Vec::new();
        while let Some(asked) = peer.asked().await {
            if chance.u8(..) < 64 {
                late.push(asked);
                continue;
            }
            // Late answers come before, in any number and in the wrong order.
            while !late.is_empty() && chance.bool() {
                let old = late.swap_remove(chance.usize(..late.len()));
                peer.answer(&old, &old.registers(|address| address)).await;
            }
            sleep(Duration::from_millis(chance.u64(..400))).await;
            let pdu = asked.registers(|address| address);
            peer.answer(&asked, &pdu).await;
        }
    });
    let mut answered = 0;
    for address in 0..1000 {
        match read(&mut wire, 1, address, 1).await {
            Ok(words) => {
                assert_eq!(words, [address]);
                answered += 1;
            }
            Err(problem) => assert_eq!(problem, "no answer in time"),
        }
    }
    assert!((600..900).contains(&answered), "{answered} of 1000 were answered in time");
    assert!(counters.dropped.load(Ordering::Relaxed) > 50);
}

#[tokio::test(start_paused = true)]
async fn the_wrong_unit_of_a13_is_no_answer() {
    let steps = steps("A13");
    for step in &steps[..2] {
        let (mut wire, mut peer, counters) = wire();
        let frames: Vec<String> = serde_json::from_value(step["server_sends"].clone()).unwrap();
        let expected = step["client_sends"].as_str().unwrap()[14..].to_owned();
        let script = tokio::spawn(async move {
            let asked = peer.asked().await.unwrap();
            assert_eq!(asked.pdu, hex(&expected));
            for frame in frames {
                peer.bytes(&with_id(&frame, asked.id)).await;
            }
            peer
        });
        let result = read(&mut wire, 3, 0, 1).await;
        if step["name"] == "TCP, wrong unit then right unit" {
            assert_eq!(result, Ok(vec![0x00BB]));
        } else {
            assert_eq!(result, Err("no answer in time".to_owned()));
        }
        assert_eq!(counters.dropped.load(Ordering::Relaxed), 1);
        drop(script.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_function_is_no_answer_and_a_wrong_length_is_an_error() {
    let (mut wire, mut peer, counters) = wire();
    tokio::spawn(async move {
        let asked = peer.asked().await.unwrap();
        peer.answer(&asked, &hex("04020001")).await;
        peer.answer(&asked, &hex("8402")).await;
        peer.answer(&asked, &hex("03020002")).await;
        let asked = peer.asked().await.unwrap();
        peer.answer(&asked, &hex("03020003")).await;
        std::future::pending::<()>().await;
    });
    assert_eq!(read(&mut wire, 1, 0, 1).await, Ok(vec![2]));
    assert_eq!(counters.dropped.load(Ordering::Relaxed), 2);
    let fewer = read(&mut wire, 1, 0, 2).await;
    assert_eq!(fewer, Err("an answer that counts 2 data bytes where 4 are due".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn the_cuts_and_garbage_of_a15() {
    let steps = steps("A15");
    assert_eq!(steps.len(), 9);
    for step in steps {
        let (mut wire, mut peer, _) = wire();
        let segments: Vec<String> = serde_json::from_value(step["server_sends_segments"].clone()).unwrap();
        let close = step.get("then").is_some();
        let script = tokio::spawn(async move {
            let asked = peer.asked().await.unwrap();
            let mut bytes: Vec<Vec<u8>> = segments.iter().map(|segment| hex(segment)).collect();
            // The id that the request really had, over however many segments it comes; HTTP knows none.
            let flat = bytes.iter_mut().flatten().zip(asked.id.to_be_bytes());
            if !segments[0].starts_with("4854") {
                flat.for_each(|(byte, id)| *byte = id);
            }
            for segment in bytes {
                peer.bytes(&segment).await;
                sleep(Duration::from_millis(if segments.len() == 2 { 80 } else { 5 })).await;
            }
            if !close {
                std::future::pending::<()>().await;
            }
        });
        let name = step["name"].as_str().unwrap();
        let asked = Instant::now();
        let result = read(&mut wire, 1, 0, 4).await;
        let problem = |text: &str| Err(text.to_owned());
        let expected = match name {
            "first half, then close" => problem("closed by the device in the middle of an answer"),
            "protocol id 1" => problem("not Modbus TCP: the protocol id is 0x0001, not 0"),
            "length 0" => problem("not Modbus TCP: a frame claims a length of 0, allowed is 2 to 254"),
            "length 65535" => {
                problem("not Modbus TCP: a frame claims a length of 65535, allowed is 2 to 254")
            }
            "HTTP server on the port" => problem("an HTTP server answers here, no Modbus TCP device"),
            _ => Ok(vec![0x0102, 0x0304, 0x0506, 0x0708]),
        };
        assert_eq!(result, expected, "{name}");
        assert!(asked.elapsed() < TIMEOUT, "{name}: told at once");
        script.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn garbage_and_half_frames_end_the_session_and_leave_nothing_behind() {
    let units = [unit(1, vec![polled(1, Table::Holding, 0, Kind::Uint16)])];
    let (rig, mut peer) = start(&units);
    let asked = peer.asked().await.unwrap();
    peer.bytes(&with_id("00210000000501", asked.id)).await;
    drop(peer);
    let (driver, end) = rig.task.await.unwrap();
    let SessionEnd::Lost(error) = end else { panic!("{end:?}") };
    assert_eq!(error.to_string(), "plc:502: closed by the device in the middle of an answer");
    assert_eq!(rig.told.of(1), []);
    // The half frame is not carried into the next session.
    let (rig, mut peer) = run(driver);
    let asked = peer.asked().await.unwrap();
    peer.answer(&asked, &hex("0302002A")).await;
    peer.asked().await.unwrap();
    assert_eq!(rig.told.last(1).unwrap().value, Some(Value::U64(42)));
    drop(peer);
    assert_eq!(rig.lost().await, "plc:502: closed by the device");
}

/// Takes all and always has more: foreign answers without a pause.
struct Endless;

impl AsyncRead for Endless {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        buffer.put_slice(&hex("FFFF00000005010302002A"));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Endless {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_peer_that_never_pauses_is_left() {
    let counters = Arc::<Counters>::default();
    let mut wire = over(Endless, &counters);
    let request = Request::ReadHoldingRegisters(0, 1);
    let failure = exchange(&mut wire, 1, request, Duration::from_secs(600)).await.unwrap_err();
    assert_eq!(failure.to_string(), "the device sends without being asked");
    let mut wire = over(Endless, &counters);
    assert_eq!(wire.idle().await.unwrap_err().to_string(), "the device sends without being asked");
    assert_eq!(counters.dropped.load(Ordering::Relaxed), 2002);
}

/// Hundreds of frames about every request.
#[tokio::test(start_paused = true)]
async fn foreign_frames_hold_up_neither_writes_nor_polls() {
    let (rig, peer) = start(&[unit(1, vec![polled(1, Table::Holding, 0, Kind::Uint16)])]);
    let (mut input, mut output) = tokio::io::split(peer.0);
    let foreign = hex("FFFF00000005010302002A");
    tokio::spawn(async move {
        loop {
            let burst = foreign.repeat(400);
            if output.write_all(&burst).await.is_err() {
                return;
            }
            // The request that comes next is answered in the middle of it.
            let mut request = [0; 12];
            if input.read_exact(&mut request).await.is_err() {
                return;
            }
            let pdu = if request[7] == 6 { request[7..].to_vec() } else { hex("03020007") };
            let mut answer = request[..4].to_vec();
            answer.extend(u16::try_from(pdu.len() + 1).unwrap().to_be_bytes());
            answer.push(request[6]);
            answer.extend(pdu);
            if output.write_all(&answer).await.is_err() {
                return;
            }
        }
    });
    sleep(Duration::from_millis(500)).await;
    let asked = Instant::now();
    let report = rig.write(1, Value::U64(7)).await.unwrap();
    assert_eq!(report.outcome, crate::model::Outcome::Confirmed, "{}", report.message);
    assert_eq!(asked.elapsed(), Duration::ZERO);
    sleep(SECOND * 10).await;
    assert!(rig.told.of(1).len() >= 11, "{}", rig.told.of(1).len());
    rig.stopped().await;
}

/// Answers its request, and says more without a pause.
#[tokio::test(start_paused = true)]
async fn a_flood_between_two_polls_ends_the_session() {
    let (rig, mut peer) = start(&[unit(1, vec![polled(1, Table::Holding, 0, Kind::Uint16)])]);
    let asked = peer.asked().await.unwrap();
    peer.answer(&asked, &hex("03020007")).await;
    let flood = tokio::spawn(async move {
        let foreign = hex("FFFF00000005010302002A");
        while peer.0.write_all(&foreign).await.is_ok() {}
    });
    let started = Instant::now();
    assert_eq!(rig.lost().await, "plc:502: the device sends without being asked");
    assert_eq!(started.elapsed(), Duration::ZERO);
    flood.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_notices_that_the_peer_goes_away() {
    let (rig, peer) = start(&[]);
    sleep(SECOND).await;
    drop(peer);
    assert_eq!(rig.lost().await, "plc:502: closed by the device");
}

#[tokio::test(start_paused = true)]
async fn a_time_out_leaves_the_id_unused_for_long() {
    let (mut wire, mut peer, _) = wire();
    let mut ids = Vec::new();
    for _ in 0..300 {
        let request = Request::ReadHoldingRegisters(0, 1);
        drop(exchange(&mut wire, 1, request, Duration::from_millis(1)).await);
        ids.push(peer.asked().await.unwrap().id);
    }
    let unlike: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!(unlike.len(), 300);
}

#[tokio::test]
async fn a_real_socket_by_its_host_name() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("localhost:{}", listener.local_addr().unwrap().port());
    let units = [unit(1, vec![polled(1, Table::Holding, 0, Kind::Uint16)])];
    let mut driver = Modbus::new(endpoint(&address, Duration::from_secs(10)), &units, Arc::default());
    let connection = driver.connect().await.unwrap();
    let (mut device, _) = listener.accept().await.unwrap();
    let script = tokio::spawn(async move {
        let mut request = [0; 12];
        device.read_exact(&mut request).await.unwrap();
        assert_eq!(request[2..], hex("00000006010300000001"));
        let mut answer = request[..2].to_vec();
        answer.extend(hex("00000005010302002A"));
        device.write_all(&answer).await.unwrap();
    });
    let (_queue, mut inbox) = queue(CancellationToken::new());
    let told = Arc::new(Recorder::default());
    let end = driver.run(connection, &mut inbox, &Sink::new(told.clone())).await;
    script.await.unwrap();
    assert!(matches!(end, SessionEnd::Lost(error) if error.problem == "closed by the device"));
    assert_eq!(told.last(1).unwrap().value, Some(Value::U64(42)));
    drop(listener);
    let error = driver.connect().await.unwrap_err();
    assert!(error.to_string().starts_with("localhost:"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn answers_from_another_unit_are_told_of() {
    for (check_ids, says, hinted) in [(true, 1, true), (true, 0, true), (false, 1, true), (true, 255, false)]
    {
        let endpoint = ModbusEndpoint { check_ids, ..endpoint("plc:502", TIMEOUT) };
        let tag = |id| vec![polled(id, Table::Holding, 0, Kind::Uint16)];
        let (rig, mut peer) = start_on(endpoint, &[unit(255, tag(1)), unit(7, tag(2)), unit(8, tag(3))]);
        tokio::spawn(async move {
            while let Some(asked) = peer.asked().await {
                match asked.unit_id {
                    255 if says != 255 => peer.say(asked.id, says, &asked.registers(|_| 7)).await,
                    8 => peer.answer(&asked, &asked.registers(|_| 7)).await,
                    _ => {}
                }
            }
        });
        sleep(20 * SECOND).await;
        let plain = "no answer to 3 requests in a row, 500 ms each";
        let hint = format!(
            "; answers come from unit {says} where unit 255 was asked; if these are its own, unit_id = {says} on the \
             device takes them"
        );
        for (id, hint) in [(1, if hinted { hint.as_str() } else { "" }), (2, "")] {
            let told = rig.told.last(id).unwrap();
            assert_eq!((told.value, told.quality), (None, Quality::Bad(Reason::DeviceSilent)));
            assert_eq!(told.detail.unwrap().as_ref(), format!("{plain}{hint}"), "{id} {says} {check_ids}");
        }
        rig.stopped().await;
    }
}
