//! An adapter between a stream and a bus.
//!
//! Owns the port while the channel is open, and what waits for the host; the protocol is the adapter's matter.

use std::io;

use bytes::{Buf as _, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::Instant,
};

use super::adapter::{Action, Adapter, Channel, REFUSED};
use crate::can::bus::{Bus, Options, Port, Received};

/// Bytes that wait for the host; frames that do not fit are lost.
const WAITING: usize = 16 * 1024;
/// Replies fit beyond that; a host that reads none of them is not read from.
const REPLIES: usize = WAITING + 4096;

/// Serves one host until it leaves.
pub(in crate::can) async fn serve(stream: impl AsyncRead + AsyncWrite, bus: &Bus) -> io::Result<()> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut session = Session::new(bus);
    let mut bytes = [0; 512];
    loop {
        let waiting = session.out.len();
        tokio::select! {
            read = reader.read(&mut bytes), if waiting < REPLIES => {
                let count = read?;
                if count == 0 {
                    return Ok(());
                }
                bytes.iter().take(count).for_each(|byte| session.take(*byte));
            }
            written = writer.write(&session.out), if waiting > 0 => {
                let count = written?;
                if count == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                session.out.advance(count);
                if session.out.is_empty() {
                    writer.flush().await?;
                }
            }
            received = next(&mut session.port) => session.tell(&received),
        }
    }
}

async fn next(port: &mut Option<Port>) -> Received {
    match port {
        Some(port) => port.recv().await,
        None => std::future::pending().await,
    }
}

#[derive(Debug)]
struct Session<'a> {
    bus: &'a Bus,
    adapter: Adapter,
    /// None while the channel is closed.
    port: Option<Port>,
    start: Instant,
    out: BytesMut,
}

impl<'a> Session<'a> {
    fn new(bus: &'a Bus) -> Self {
        Self { bus, adapter: Adapter::new(), port: None, start: Instant::now(), out: BytesMut::new() }
    }

    fn take(&mut self, byte: u8) {
        for action in self.adapter.take(byte) {
            match action {
                Action::Reply(reply) => self.out.extend_from_slice(&reply),
                Action::Channel(channel) => self.switch(channel),
                Action::Send(frame, reply) => {
                    let sent = self.port.as_ref().is_some_and(|port| port.try_send(frame).is_ok());
                    if !sent {
                        self.adapter.full();
                    }
                    self.out.extend_from_slice(if sent { reply } else { REFUSED });
                }
            }
        }
    }

    fn switch(&mut self, channel: Channel) {
        self.port = match channel {
            Channel::Closed => None,
            Channel::Open => Some(self.bus.attach()),
            Channel::ListenOnly => {
                Some(self.bus.attach_with(Options { listen_only: true, ..Options::default() }))
            }
        };
    }

    /// An adapter does not tell the host what the host has sent.
    fn tell(&mut self, received: &Received) {
        if received.own {
            return;
        }
        let Some(text) = self.adapter.tell(&received.frame, self.start.elapsed()) else { return };
        if self.out.len() + text.len() > WAITING {
            self.adapter.lost();
        } else {
            self.out.extend_from_slice(text.as_bytes());
        }
    }
}
