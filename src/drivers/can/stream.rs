//! What adapters behind a stream of bytes share: what they send is read, and what is sent to them leaves whole.

use std::io;

use futures_util::{FutureExt, future::BoxFuture};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Duration, Instant, sleep, sleep_until, timeout},
};
use tokio_util::either::Either;

use super::bus::{Bus, Failure, Inflow, Unsent};
use crate::{
    codec::can::{Data, Frame},
    link::transport::{Delivery, serial::Port},
};

/// A serial port, or a TCP connection.
pub(super) type Stream = Either<Port, TcpStream>;

/// How an adapter speaks.
pub(super) trait Dialect: Send {
    /// Takes bytes that came.
    fn read(&mut self, bytes: &[u8], inflow: &mut Inflow) -> Result<(), Failure>;

    /// Writes a frame; `false` for one that the adapter cannot send.
    fn write(&self, frame: &Frame, out: &mut Vec<u8>) -> bool;

    /// What is said before the connection is closed.
    fn farewell(&self) -> &[u8];
}

/// A bus behind a stream.
pub(super) struct Streamed<D> {
    stream: Stream,
    dialect: D,
    /// The rest of a frame that the stream did not take whole.
    rest: Vec<u8>,
    /// When a frame was sent last.
    sent: Option<Instant>,
}

/// Bytes that are read at once.
const READ: usize = 16_384;
/// How long a farewell may take.
const FAREWELL: Duration = Duration::from_millis(500);
/// How long an adapter has a frame before it is told to close the bus, and forgets what it has not sent: at 10 kbit/s one takes
/// 16 ms.
const SENDING: Duration = Duration::from_millis(50);

impl<D: Dialect> Streamed<D> {
    pub(super) fn new(stream: Stream, dialect: D) -> Self {
        Self { stream, dialect, rest: Vec::new(), sent: None }
    }

    async fn flow(&mut self, inflow: &mut Inflow) -> Result<(), Failure> {
        let mut bytes = [0; READ];
        let before = inflow.frames.len();
        // A read may hold no whole frame.
        while inflow.frames.len() == before && inflow.refused + inflow.garbled == 0 && inflow.event.is_none()
        {
            let (mut reader, mut writer) = tokio::io::split(&mut self.stream);
            let got = tokio::select! {
                biased;
                got = reader.read(&mut bytes) => got?,
                wrote = writer.write(&self.rest), if !self.rest.is_empty() => {
                    let wrote = wrote?;
                    self.rest.drain(..wrote);
                    continue;
                }
            };
            let got = bytes.get(..got).unwrap_or_default();
            if got.is_empty() {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the adapter closed the connection",
                )
                .into());
            }
            self.dialect.read(got, inflow)?;
        }
        Ok(())
    }
}

impl<D: Dialect> Bus for Streamed<D> {
    fn receive<'a>(&'a mut self, inflow: &'a mut Inflow) -> BoxFuture<'a, Result<(), Failure>> {
        self.flow(inflow).boxed()
    }

    fn send(&mut self, frame: &Data) -> Result<(), Unsent> {
        if !self.rest.is_empty() {
            return Err(Unsent::Busy);
        }
        let mut bytes = Vec::new();
        if !self.dialect.write(&Frame::Data(*frame), &mut bytes) {
            return Err(Unsent::Unfit("the adapter cannot send such a frame".to_owned()));
        }
        match self.stream.write(&bytes).now_or_never() {
            None | Some(Ok(0)) => Err(Unsent::Busy),
            Some(Err(error)) => Err(Unsent::Lost(error.into())),
            Some(Ok(wrote)) => {
                bytes.drain(..wrote);
                self.rest = bytes;
                self.sent = Some(Instant::now());
                Ok(())
            }
        }
    }

    fn has_echo(&self) -> bool {
        false
    }

    fn is_delivered(&self) -> bool {
        self.rest.is_empty() && has_left(&self.stream)
    }

    fn close(&mut self) -> BoxFuture<'_, ()> {
        let Self { stream, dialect, rest, sent } = self;
        let last = async move {
            if stream.write_all(rest).await.is_err() {
                return;
            }
            if let Some(sent) = sent {
                sleep_until(*sent + SENDING).await;
            }
            if stream.write_all(dialect.farewell()).await.is_err() {
                return;
            }
            while !has_left(stream) {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(FAREWELL, last).map(drop).boxed()
    }
}

/// Whether all that was written has left the port, or was acknowledged.
pub(super) fn has_left(stream: &Stream) -> bool {
    match stream {
        Either::Left(port) => port.is_empty(),
        Either::Right(stream) => !Delivery::of(stream).is_open(),
    }
}
