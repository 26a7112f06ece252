//! Simulated devices, in a process of their own: the benchmark starts itself in this role.
//!
//! As little as there can be between a request and its answer, since what takes the cores here is missing there: a plain
//! thread a connection, holding registers only, and counts of all that went over the wire. Uses nothing of fieldbridge.

use std::{
    io::{self, BufRead, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// Header of a frame: transaction, protocol, length, unit.
const HEADER: usize = 7;
const READ: u8 = 3;
const WRITE_ONE: u8 = 6;
const WRITE_MANY: u8 = 16;
/// A gateway's answer for a device that it cannot reach.
const UNREACHABLE: u8 = 0x0B;

/// What the devices do.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Devices {
    /// How many there are, each with a port of its own.
    #[arg(long, default_value_t = 1)]
    pub(crate) count: usize,
    /// How long after its request an answer leaves; requests in between are served.
    #[arg(long, default_value_t = 0)]
    pub(crate) delay_us: u64,
    /// Answers that nothing can be reached.
    #[arg(long)]
    pub(crate) unreachable: bool,
    /// Closes a connection after so many answers.
    #[arg(long)]
    pub(crate) answers: Option<u64>,
}

/// What went over the wire of all devices together.
#[derive(Debug, Default)]
struct Wire {
    connections: AtomicU64,
    requests: AtomicU64,
    registers: AtomicU64,
    writes: AtomicU64,
    received: AtomicU64,
    sent: AtomicU64,
}

/// The same at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) connections: u64,
    pub(crate) requests: u64,
    /// Registers in answers to reads.
    pub(crate) registers: u64,
    pub(crate) writes: u64,
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// The value of the float at registers `2 * index` and the next.
#[expect(clippy::cast_precision_loss, reason = "far below 2^24")]
pub(crate) fn float(index: usize) -> f32 {
    20.0 + index as f32 / 8.0
}

/// Tells its ports, then its counts whenever it is asked by a line; ends with its input.
pub(crate) fn serve(devices: Devices) -> Result<()> {
    let wire = Arc::new(Wire::default());
    let mut ports = Vec::new();
    for _ in 0..devices.count {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        ports.push(listener.local_addr()?.port().to_string());
        let wire = Arc::clone(&wire);
        thread::spawn(move || listen(&listener, devices, &wire));
    }
    let mut output = io::stdout().lock();
    writeln!(output, "{}", ports.join(" "))?;
    for line in io::stdin().lock().lines() {
        line?;
        writeln!(output, "{}", wire.now().text())?;
    }
    Ok(())
}

impl Wire {
    fn now(&self) -> Counts {
        let of = |count: &AtomicU64| count.load(Ordering::Acquire);
        Counts {
            connections: of(&self.connections),
            requests: of(&self.requests),
            registers: of(&self.registers),
            writes: of(&self.writes),
            received: of(&self.received),
            sent: of(&self.sent),
        }
    }
}

impl Counts {
    fn text(self) -> String {
        let Self { connections, requests, registers, writes, received, sent } = self;
        format!("{connections} {requests} {registers} {writes} {received} {sent}")
    }

    pub(crate) fn parse(line: &str) -> Result<Self> {
        let numbers = line.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>()?;
        let [connections, requests, registers, writes, received, sent] = numbers[..] else {
            bail!("no counts: {line}")
        };
        Ok(Self { connections, requests, registers, writes, received, sent })
    }

    /// What came since.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            connections: self.connections - before.connections,
            requests: self.requests - before.requests,
            registers: self.registers - before.registers,
            writes: self.writes - before.writes,
            received: self.received - before.received,
            sent: self.sent - before.sent,
        }
    }
}

/// All registers as bytes, as they go over the wire.
fn registers() -> Vec<u8> {
    (0..1_usize << 15).flat_map(|index| float(index).to_be_bytes()).collect()
}

fn listen(listener: &TcpListener, devices: Devices, wire: &Arc<Wire>) {
    let memory = Arc::new(Mutex::new(registers()));
    for stream in listener.incoming().flatten() {
        let (memory, wire) = (Arc::clone(&memory), Arc::clone(wire));
        wire.connections.fetch_add(1, Ordering::Release);
        thread::spawn(move || {
            // A client that resets its connection is the usual end.
            converse(stream, devices, &memory, &wire).ok();
        });
    }
}

fn converse(
    mut stream: TcpStream,
    devices: Devices,
    memory: &Mutex<Vec<u8>>,
    wire: &Arc<Wire>,
) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut output = Output::new(&stream, devices.delay_us, wire)?;
    let mut input = Vec::with_capacity(1 << 12);
    let mut chunk = [0; 1 << 12];
    let mut left = devices.answers;
    loop {
        let read = stream.read(&mut chunk)?;
        if read == 0 {
            return Ok(());
        }
        let now = Instant::now();
        input.extend_from_slice(chunk.get(..read).unwrap_or_default());
        let mut taken = 0;
        let mut answers = Vec::new();
        while let Some(frame) = frame(input.get(taken..).unwrap_or_default()) {
            taken += frame.len();
            wire.received.fetch_add(u64::try_from(frame.len())?, Ordering::Release);
            wire.requests.fetch_add(1, Ordering::Release);
            if devices.unreachable {
                answers.extend(refusal(frame, UNREACHABLE));
            } else {
                let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
                answers.extend(answer(frame, &mut memory, wire));
            }
            left = left.map(|left| left.saturating_sub(1));
        }
        input.drain(..taken);
        output.send(now, answers)?;
        if left == Some(0) {
            return Ok(());
        }
    }
}

/// The first whole frame.
fn frame(input: &[u8]) -> Option<&[u8]> {
    let length = u16::from_be_bytes([*input.get(4)?, *input.get(5)?]);
    input.get(..6 + usize::from(length)).filter(|frame| frame.len() > HEADER)
}

fn refusal(request: &[u8], code: u8) -> Vec<u8> {
    let function = request.get(HEADER).copied().unwrap_or_default() | 0x80;
    seal(request, &[function, code])
}

fn answer(request: &[u8], memory: &mut [u8], wire: &Wire) -> Vec<u8> {
    let carried = match request.get(HEADER..) {
        Some([READ, high, low, 0, count]) if (1..=125).contains(count) => {
            let (start, length) = (start(*high, *low), 2 * usize::from(*count));
            memory.get(start..start + length).map(|data| {
                wire.registers.fetch_add(u64::from(*count), Ordering::Release);
                [&[READ, 2 * count], data].concat()
            })
        }
        Some([WRITE_ONE, high, low, data @ ..]) => put(memory, start(*high, *low), data, wire)
            .map(|()| request.get(HEADER..).unwrap_or_default().to_vec()),
        Some([WRITE_MANY, high, low, 0, count, _, data @ ..]) => {
            put(memory, start(*high, *low), data, wire).map(|()| vec![WRITE_MANY, *high, *low, 0, *count])
        }
        _ => return refusal(request, 1),
    };
    carried.map_or_else(|| refusal(request, 2), |pdu| seal(request, &pdu))
}

fn start(high: u8, low: u8) -> usize {
    2 * usize::from(u16::from_be_bytes([high, low]))
}

fn put(memory: &mut [u8], start: usize, data: &[u8], wire: &Wire) -> Option<()> {
    memory.get_mut(start..start + data.len())?.copy_from_slice(data);
    wire.writes.fetch_add(1, Ordering::Release);
    Some(())
}

/// The frame of an answer, with the ids of its request.
fn seal(request: &[u8], pdu: &[u8]) -> Vec<u8> {
    let mut frame = request.get(..HEADER).unwrap_or_default().to_vec();
    let length = u16::try_from(pdu.len() + 1).unwrap_or(u16::MAX);
    frame.splice(4..6, length.to_be_bytes());
    frame.extend_from_slice(pdu);
    frame
}

/// Where answers go: at once, or each a while after its request.
enum Output {
    Now(TcpStream, Arc<Wire>),
    Later(Duration, mpsc::Sender<(Instant, Vec<u8>)>),
}

impl Output {
    fn new(stream: &TcpStream, delay_us: u64, wire: &Arc<Wire>) -> io::Result<Self> {
        let (mut stream, wire) = (stream.try_clone()?, Arc::clone(wire));
        if delay_us == 0 {
            return Ok(Self::Now(stream, wire));
        }
        let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
        thread::spawn(move || {
            for (due, bytes) in receiver {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                if deliver(&mut stream, &bytes, &wire).is_err() {
                    return;
                }
            }
        });
        Ok(Self::Later(Duration::from_micros(delay_us), sender))
    }

    fn send(&mut self, arrived: Instant, bytes: Vec<u8>) -> Result<()> {
        match self {
            _ if bytes.is_empty() => Ok(()),
            Self::Now(stream, wire) => Ok(deliver(stream, &bytes, wire)?),
            Self::Later(delay, sender) => {
                sender.send((arrived + *delay, bytes)).context("the writer has ended")
            }
        }
    }
}

fn deliver(stream: &mut TcpStream, bytes: &[u8], wire: &Wire) -> io::Result<()> {
    wire.sent.fetch_add(u64::try_from(bytes.len()).unwrap_or_default(), Ordering::Release);
    stream.write_all(bytes)
}
