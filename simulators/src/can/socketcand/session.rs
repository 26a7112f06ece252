//! One client of a socketcand server, in its modes: no bus, a bus, and raw.
//!
//! Owns the port, what has been read and what waits to be written.

use std::{
    fmt::Write as _,
    io,
    time::{Duration, SystemTime},
};

use bytes::{Buf as _, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::{Instant, sleep_until, timeout},
};

use crate::can::{
    bus::{Bus, Options, Port, Received, SendError},
    frame::{Frame, Id, Kind},
    hex,
};

/// Clients read what a command led to as one segment; the first frame must not be within it.
const HOLD: Duration = Duration::from_millis(100);
/// Longer elements are none.
const LONGEST: usize = 256;
/// Bytes that wait for the client; frames that do not fit are lost.
const WAITING: usize = 64 * 1024;
/// Replies fit beyond that; a client that reads none of them is not read from.
const REPLIES: usize = WAITING + 4096;
/// How long what a client sent waits for the bus once it has left.
const LEAVING: Duration = Duration::from_secs(1);

/// Serves one client until it leaves.
pub(in crate::can) async fn serve(stream: impl AsyncRead + AsyncWrite, buses: &[Bus]) -> io::Result<()> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut session = Session::new(buses);
    let ended = session.talk(&mut reader, &mut writer).await;
    if ended.is_err() {
        // What it sent before it left may still be there to be read.
        let mut bytes = [0; 512];
        while let Ok(count @ 1..) = reader.read(&mut bytes).await {
            session.hear(bytes.get(..count).unwrap_or_default());
        }
    }
    if let Some(port) = &session.port {
        let _is_sent = timeout(LEAVING, port.flush()).await;
    }
    ended
}

async fn next(port: &mut Option<Port>, raw: bool) -> Received {
    match port {
        Some(port) if raw => port.recv().await,
        _ => std::future::pending().await,
    }
}

#[derive(Debug)]
struct Session<'a> {
    buses: &'a [Bus],
    port: Option<Port>,
    /// Frames are told.
    raw: bool,
    /// No frame is told before.
    held: Option<Instant>,
    /// When it began, by the clock and since 1970.
    start: (Instant, Duration),
    input: BytesMut,
    out: BytesMut,
}

impl<'a> Session<'a> {
    fn new(buses: &'a [Bus]) -> Self {
        Self {
            buses,
            port: None,
            raw: false,
            held: None,
            start: (Instant::now(), SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()),
            input: BytesMut::new(),
            out: BytesMut::new(),
        }
    }

    /// Until the client has left, or an error.
    async fn talk(
        &mut self,
        reader: &mut (impl AsyncRead + Unpin),
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        let mut bytes = [0; 512];
        self.reply("< hi >");
        loop {
            let waiting = self.out.len();
            let held = self.held;
            tokio::select! {
                read = reader.read(&mut bytes), if waiting < REPLIES => {
                    let count = read?;
                    if count == 0 {
                        return Ok(());
                    }
                    self.hear(bytes.get(..count).unwrap_or_default());
                }
                written = writer.write(&self.out), if waiting > 0 => {
                    let count = written?;
                    if count == 0 {
                        return Err(io::ErrorKind::WriteZero.into());
                    }
                    self.out.advance(count);
                }
                () = sleep_until(held.unwrap_or_else(Instant::now)), if held.is_some() => self.held = None,
                received = next(&mut self.port, self.raw), if held.is_none() => self.tell(&received),
            }
        }
    }

    fn reply(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Takes all whole elements; what is between them is skipped, and so is one within which another one begins.
    fn hear(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let opening = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte == b'<').unwrap_or(bytes.len());
        while let Some(end) = self.input.iter().position(|byte| *byte == b'>') {
            let mut element = self.input.split_to(end + 1);
            element.advance(opening(&element));
            if !element.is_empty() {
                self.obey(&element);
            }
        }
        self.input.advance(opening(&self.input));
        if self.input.len() > LONGEST {
            self.input.clear();
            self.reply("< error element too long >");
        }
    }

    fn obey(&mut self, element: &[u8]) {
        let text = String::from_utf8_lossy(element);
        let text = text.trim_start_matches('<').trim_end_matches('>');
        let words: Vec<_> = text.split_ascii_whitespace().collect();
        let opened = self.port.is_some();
        match words.as_slice() {
            ["open", name] if !opened => self.open(name),
            ["echo"] if opened => self.reply("< echo >"),
            ["rawmode"] if opened => self.switch(true),
            ["bcmmode"] if opened => self.switch(false),
            ["send", id, length, bytes @ ..] if opened => self.send(data(id, length, bytes)),
            ["sendrtr", id, length] if opened => self.send(remote(id, length)),
            ["open" | "echo" | "rawmode" | "bcmmode" | "send" | "sendrtr", ..] => {
                self.reply("< error command not allowed now >");
            }
            _ => self.reply("< error unknown command >"),
        }
    }

    fn open(&mut self, name: &str) {
        match self.buses.iter().find(|bus| bus.name() == name) {
            Some(bus) => {
                self.port = Some(bus.attach_with(Options::default()));
                self.reply("< ok >");
            }
            None => self.reply("< error could not open bus >"),
        }
    }

    /// Frames of before are none of this mode's.
    fn switch(&mut self, raw: bool) {
        if let Some(port) = &mut self.port {
            while port.try_recv().is_some() {}
        }
        self.raw = raw;
        self.held = raw.then(|| Instant::now() + HOLD);
        self.reply("< ok >");
    }

    /// There is no reply to what could be sent.
    fn send(&mut self, frame: Option<Frame>) {
        let Some(frame) = frame else { return self.reply("< error syntax error in send command >") };
        match self.port.as_ref().map(|port| port.try_send(frame)) {
            Some(Ok(())) => {}
            Some(Err(SendError::Full)) => self.reply("< error no buffer space available >"),
            Some(Err(_)) | None => self.reply("< error could not send frame >"),
        }
    }

    fn tell(&mut self, received: &Received) {
        if received.own {
            return;
        }
        let (start, since) = self.start;
        let Some(text) = tell(&received.frame, since + start.elapsed()) else { return };
        if self.out.len() + text.len() <= WAITING {
            self.reply(&text);
        }
    }
}

/// With the time since 1970. None for CAN FD, which the protocol does not have.
fn tell(frame: &Frame, time: Duration) -> Option<String> {
    let stamp = format!("{}.{:06}", time.as_secs(), time.subsec_micros());
    let id = if frame.extended { format!("{:08X}", frame.id) } else { format!("{:03X}", frame.id) };
    let mut text = String::new();
    // Writing to a text does not fail.
    let _written = match (frame.kind, frame.fd) {
        (_, Some(_)) => return None,
        (Kind::Error { class, .. }, _) => write!(text, "< error {class:03X} {stamp}"),
        (Kind::Remote(length), _) => write!(text, "< rtr {id} {stamp} {length}"),
        (Kind::Data, None) => {
            let _written = write!(text, "< frame {id} {stamp} ");
            hex::encode(&mut text, &frame.bytes);
            Ok(())
        }
    };
    text.push_str(" >");
    Some(text)
}

/// An identifier of eight digits is of 29 bits. The length is decimal in the original and hexadecimal at some clients: up to
/// 8 that is the same.
fn head(id: &str, length: &str) -> Option<(Id, u8)> {
    let id = Id { value: hex::number(id.as_bytes())?, extended: id.len() == 8 };
    Some((id, length.parse().ok()?))
}

fn data(id: &str, length: &str, bytes: &[&str]) -> Option<Frame> {
    let (id, length) = head(id, length)?;
    let bytes = bytes.iter().map(|byte| u8::from_str_radix(byte, 16).ok()).collect::<Option<Vec<_>>>()?;
    if bytes.len() != usize::from(length) {
        return None;
    }
    Frame::data(id, &bytes).ok()
}

fn remote(id: &str, length: &str) -> Option<Frame> {
    let (id, length) = head(id, length)?;
    Frame::remote(id, length).ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail by a panic")]
#[path = "session_tests.rs"]
mod tests;
