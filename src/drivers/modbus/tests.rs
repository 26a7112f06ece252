//! Sessions over a pipe with a scripted peer; time is paused and moves only when all wait.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod closed;
mod echo;
mod forms;
mod holes;
mod joint;
mod pipeline;
mod polls;
mod rtu;
mod settings;
mod silence;
mod steps;
mod storm;
mod transactions;
mod writes;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use rust_decimal::Decimal;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    sync::oneshot,
    task::JoinHandle,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    codec::value::{Format, Scale},
    link::{Command, Permit, Publish, Queue, queue},
    model::{DeviceState, Kind, Quality, Reason, Report, Update, Value},
    profile::modbus::{Table, WriteFunction},
};

const TIMEOUT: Duration = Duration::from_millis(500);
const SECOND: Duration = Duration::from_secs(1);

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn format(kind: Kind, scale: &str) -> Format {
    let scale = Decimal::from_str_exact(scale).unwrap();
    Format { scale: Scale::Linear { factor: scale, offset: Decimal::ZERO }, ..Format::plain(kind) }
}

fn polled(id: u32, table: Table, address: u16, kind: Kind) -> Polled {
    let format = format(kind, "1");
    let function = if format.registers() == 1 { WriteFunction::Single } else { WriteFunction::Multiple };
    let point = Arc::new(Point { table, address, format, function, settle: Duration::ZERO });
    Polled { id: TagId(id), scan: SECOND, range: None, point }
}

fn endpoint(address: &str, timeout: Duration) -> ModbusEndpoint {
    ModbusEndpoint {
        transport: Transport::Tcp { address: address.to_owned(), tls: None },
        timeout,
        connect_delay: Duration::ZERO,
        request_gap: Duration::ZERO,
        idle_close: None,
        max_in_flight: 1,
        check_ids: true,
        reconnect: (Duration::from_millis(250), Duration::from_secs(15)),
    }
}

/// 19,200 baud, even parity: 573 µs a character.
fn serial() -> ModbusEndpoint {
    let line = Serial { port: "/dev/ttyS9".to_owned(), baud: 19_200, parity: Parity::Even, stop_bits: 1 };
    ModbusEndpoint { transport: Transport::Rtu(line), ..endpoint("", TIMEOUT) }
}

fn unit(unit_id: u8, tags: Vec<Polled>) -> Unit {
    Unit { device: DeviceId(unit_id.into()), unit_id, broadcast: false, dialect: Dialect::default(), tags }
}

/// What the session told.
#[derive(Debug, Default)]
struct Recorder {
    updates: Mutex<Vec<(Instant, Update)>>,
    states: Mutex<Vec<(DeviceId, DeviceState)>>,
}

impl Publish for Recorder {
    fn trouble(&self, _: Option<&str>) {}

    fn publish(&self, batch: &mut Vec<Update>) {
        self.updates.lock().unwrap().extend(batch.drain(..).map(|update| (Instant::now(), update)));
    }

    fn device(&self, device: DeviceId, state: DeviceState, _detail: Option<&str>) {
        self.states.lock().unwrap().push((device, state));
    }
}

impl Recorder {
    fn last(&self, id: u32) -> Option<Update> {
        self.of(id).pop().map(|(_, update)| update)
    }

    fn of(&self, id: u32) -> Vec<(Instant, Update)> {
        self.updates.lock().unwrap().iter().filter(|(_, update)| update.tag == TagId(id)).cloned().collect()
    }

    fn states_of(&self, device: u32) -> Vec<DeviceState> {
        let states = self.states.lock().unwrap();
        states.iter().filter(|(of, _)| *of == DeviceId(device)).map(|(_, state)| *state).collect()
    }
}

/// A request as the peer got it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    at: Instant,
    id: u16,
    unit_id: u8,
    pdu: Vec<u8>,
}

impl Asked {
    fn address(&self) -> u16 {
        u16::from_be_bytes([self.pdu[1], self.pdu[2]])
    }

    fn count(&self) -> u16 {
        u16::from_be_bytes([self.pdu[3], self.pdu[4]])
    }

    fn is_write(&self) -> bool {
        matches!(self.pdu[0], 5 | 6 | 15 | 16 | 22)
    }

    /// The answer to a read of registers, each given by its address.
    fn registers(&self, value: impl Fn(u16) -> u16) -> Vec<u8> {
        let mut pdu = vec![self.pdu[0], u8::try_from(self.count() * 2).unwrap()];
        (0..self.count()).for_each(|at| pdu.extend(value(self.address() + at).to_be_bytes()));
        pdu
    }

    fn exception(&self, code: u8) -> Vec<u8> {
        vec![self.pdu[0] | 0x80, code]
    }

    /// The answer to a write that is taken.
    fn echo(&self) -> Vec<u8> {
        self.pdu[..if self.pdu[0] == 22 { 7 } else { 5 }].to_vec()
    }
}

/// CRC-16/MODBUS, bit by bit as the specification draws it, low byte first.
fn crc(bytes: &[u8]) -> [u8; 2] {
    let mut crc = 0xFFFF_u16;
    for byte in bytes {
        crc ^= u16::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xA001 } else { crc >> 1 };
        }
    }
    crc.to_le_bytes()
}

fn rtu_frame(unit_id: u8, pdu: &[u8]) -> Vec<u8> {
    let body = [&[unit_id], pdu].concat();
    [&body[..], &crc(&body)].concat()
}

fn tcp_frame(id: u16, unit_id: u8, pdu: &[u8]) -> Vec<u8> {
    let length = u16::try_from(pdu.len() + 1).unwrap();
    [&id.to_be_bytes()[..], &[0, 0], &length.to_be_bytes(), &[unit_id], pdu].concat()
}

/// The device's end of the pipe: of Modbus TCP, or of RTU.
struct Peer<S = DuplexStream>(S, bool);

impl<S: AsyncRead + Unpin> Peer<S> {
    /// The next request; `None` when the session is gone.
    async fn asked(&mut self) -> Option<Asked> {
        if self.1 {
            return self.asked_rtu().await;
        }
        let mut header = [0; 7];
        self.0.read_exact(&mut header).await.ok()?;
        assert_eq!(header[2..4], [0, 0], "protocol id");
        let mut pdu = vec![0; usize::from(u16::from_be_bytes([header[4], header[5]])) - 1];
        self.0.read_exact(&mut pdu).await.ok()?;
        let id = u16::from_be_bytes([header[0], header[1]]);
        Some(Asked { at: Instant::now(), id, unit_id: header[6], pdu })
    }

    async fn asked_rtu(&mut self) -> Option<Asked> {
        let mut frame = vec![0; 8];
        self.0.read_exact(&mut frame).await.ok()?;
        let more = match frame[1] {
            1..=6 => 0,
            15 | 16 => usize::from(frame[6]) + 1,
            22 => 2,
            other => panic!("function {other} in {frame:02X?}"),
        };
        let mut rest = vec![0; more];
        self.0.read_exact(&mut rest).await.ok()?;
        frame.extend(rest);
        let (body, check) = frame.split_at(frame.len() - 2);
        assert_eq!(check, crc(body), "{frame:02X?}");
        Some(Asked { at: Instant::now(), id: 0, unit_id: body[0], pdu: body[1..].to_vec() })
    }
}

impl<S: AsyncWrite + Unpin> Peer<S> {
    async fn say(&mut self, id: u16, unit_id: u8, pdu: &[u8]) {
        let frame = if self.1 { rtu_frame(unit_id, pdu) } else { tcp_frame(id, unit_id, pdu) };
        self.bytes(&frame).await;
    }

    /// Nobody may be there any more to hear it.
    async fn bytes(&mut self, bytes: &[u8]) {
        drop(self.0.write_all(bytes).await);
    }

    async fn answer(&mut self, asked: &Asked, pdu: &[u8]) {
        self.say(asked.id, asked.unit_id, pdu).await;
    }
}

/// A device that answers whenever it likes: each answer after the time that `answer` says, whatever comes between.
fn free_device(
    peer: Peer,
    mut answer: impl FnMut(&Asked) -> Option<(Duration, Vec<u8>)> + Send + 'static,
) -> Arc<Mutex<Vec<Asked>>> {
    let log = Arc::new(Mutex::new(Vec::new()));
    let kept = log.clone();
    let (input, output) = tokio::io::split(peer.0);
    let mut input = Peer(input, peer.1);
    let output = Arc::new(tokio::sync::Mutex::new(Peer(output, peer.1)));
    tokio::spawn(async move {
        while let Some(asked) = input.asked().await {
            kept.lock().unwrap().push(asked.clone());
            let Some((delay, pdu)) = answer(&asked) else { continue };
            let output = output.clone();
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                output.lock().await.answer(&asked, &pdu).await;
            });
        }
    });
    log
}

/// What a device does with each request; `None` is silence. All requests are kept.
fn device(
    peer: Peer,
    answer: impl FnMut(&Asked) -> Option<Vec<u8>> + Send + 'static,
) -> Arc<Mutex<Vec<Asked>>> {
    slow_device(peer, Duration::ZERO, answer)
}

fn slow_device(
    mut peer: Peer,
    takes: Duration,
    mut answer: impl FnMut(&Asked) -> Option<Vec<u8>> + Send + 'static,
) -> Arc<Mutex<Vec<Asked>>> {
    let log = Arc::new(Mutex::new(Vec::new()));
    let kept = log.clone();
    tokio::spawn(async move {
        while let Some(asked) = peer.asked().await {
            kept.lock().unwrap().push(asked.clone());
            if !takes.is_zero() {
                tokio::time::sleep(takes).await;
            }
            if let Some(pdu) = answer(&asked) {
                peer.answer(&asked, &pdu).await;
            }
        }
    });
    log
}

/// A running session.
struct Rig {
    queue: Queue,
    told: Arc<Recorder>,
    counters: Arc<Counters>,
    stop: CancellationToken,
    task: JoinHandle<(Modbus, SessionEnd)>,
}

fn start(units: &[Unit]) -> (Rig, Peer) {
    start_on(endpoint("plc:502", TIMEOUT), units)
}

fn start_on(endpoint: ModbusEndpoint, units: &[Unit]) -> (Rig, Peer) {
    run(Modbus::new(endpoint, units, Arc::default()))
}

fn run(driver: Modbus) -> (Rig, Peer) {
    run_with(driver, Delivery::told_by(|| false))
}

fn run_with(mut driver: Modbus, delivery: Delivery) -> (Rig, Peer) {
    let (ours, theirs) = duplex(4096);
    let stop = CancellationToken::new();
    let (queue, mut inbox) = queue(stop.clone());
    let told = Arc::new(Recorder::default());
    let sink = Sink::new(told.clone());
    let counters = driver.counters.clone();
    let is_rtu = matches!(framing(&driver.endpoint), Framing::Rtu(_));
    let task = tokio::spawn(async move {
        let end = driver.serve(ours, delivery, &mut inbox, &sink).await;
        (driver, end)
    });
    (Rig { queue, told, counters, stop, task }, Peer(theirs, is_rtu))
}

impl Rig {
    async fn lost(self) -> String {
        match self.task.await.unwrap().1 {
            SessionEnd::Lost(error) => error.to_string(),
            end => panic!("{end:?}"),
        }
    }

    async fn stopped(self) -> Modbus {
        self.stop.cancel();
        match self.task.await.unwrap() {
            (driver, SessionEnd::Stopped) => driver,
            (_, end) => panic!("{end:?}"),
        }
    }

    fn count(&self, counter: impl Fn(&Counters) -> &std::sync::atomic::AtomicU64) -> u64 {
        counter(&self.counters).load(Ordering::Relaxed)
    }

    fn write(&self, id: u32, value: Value) -> oneshot::Receiver<Report> {
        self.write_by(id, value, false, Duration::from_secs(5), Grant::default())
    }

    fn write_by(
        &self,
        id: u32,
        value: Value,
        read_first: bool,
        within: Duration,
        permit: Grant,
    ) -> oneshot::Receiver<Report> {
        let deadline = Instant::now() + within;
        let (command, report) = Command::new(TagId(id), value, read_first, deadline, Box::new(permit));
        self.queue.push(command);
        report
    }
}

/// A permit that says yes, or no, and keeps what it was shown.
#[derive(Debug, Default, Clone)]
struct Grant {
    no: Option<Report>,
    shown: Arc<Mutex<Vec<Option<Value>>>>,
}

impl Permit for Grant {
    fn grant(&mut self, current: Option<&Value>) -> Result<(), Report> {
        self.shown.lock().unwrap().push(current.cloned());
        self.no.clone().map_or(Ok(()), Err)
    }

    fn recheck(&self) -> Result<(), Report> {
        Ok(())
    }
}
