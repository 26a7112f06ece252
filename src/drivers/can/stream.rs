//! What adapters behind a stream of bytes share: what they send is read, and what is sent to them leaves whole.

use std::io;

use futures_util::{FutureExt, future::BoxFuture};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::{Duration, timeout},
};

use super::bus::{Bus, Failure, Inflow, Unsent};
use crate::{
    codec::can::{Data, Frame},
    link::transport::Delivery,
};

/// A stream that can be anything.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

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
    stream: Box<dyn Stream>,
    delivery: Option<Delivery>,
    dialect: D,
    /// The rest of a frame that the stream did not take whole.
    rest: Vec<u8>,
}

/// Bytes that are read at once.
const READ: usize = 16_384;
/// How long a farewell may take.
const FAREWELL: Duration = Duration::from_millis(500);

impl<D: Dialect> Streamed<D> {
    pub(super) fn new(stream: Box<dyn Stream>, delivery: Option<Delivery>, dialect: D) -> Self {
        Self { stream, delivery, dialect, rest: Vec::new() }
    }

    async fn flow(&mut self, inflow: &mut Inflow) -> Result<(), Failure> {
        let mut bytes = [0; READ];
        let before = inflow.frames.len();
        // A read may hold no whole frame.
        while inflow.frames.len() == before && inflow.refused + inflow.garbled == 0 && inflow.news.is_none() {
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
                Ok(())
            }
        }
    }

    fn has_echo(&self) -> bool {
        false
    }

    fn is_delivered(&self) -> bool {
        self.rest.is_empty() && self.delivery.as_ref().is_none_or(|delivery| !delivery.is_open())
    }

    fn close(&mut self) -> BoxFuture<'_, ()> {
        let Self { stream, delivery, dialect, rest } = self;
        let mut bytes = std::mem::take(rest);
        bytes.extend(dialect.farewell());
        let last = async move {
            if stream.write_all(&bytes).await.is_err() {
                return;
            }
            while delivery.as_mut().is_some_and(|delivery| delivery.is_open()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(FAREWELL, last).map(drop).boxed()
    }
}
