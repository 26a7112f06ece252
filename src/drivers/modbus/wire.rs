//! One stream and the transactions on it: who asked what, and which answer is whose.
//!
//! Answers are told apart by transaction id, unit id and function. What answers nothing that is open, be it late or
//! foreign, is dropped and counted; a stream that is not Modbus TCP, or that is full of such, ends the session. Knows no tags.

use std::sync::{Arc, atomic::Ordering};

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::{Instant, timeout_at},
};
use tokio_modbus::Request;

use crate::{
    codec::modbus::{Answer, Frame, Misfit, Unfit, decode_answer, encode_request, put_frame, take_frame},
    link::Counters,
};

/// Room that a read from the stream finds at least; the largest frame has 260 bytes.
const CHUNK: usize = 2048;

/// Frames that answer nothing and that a peer may send before it is asked again. Late answers are few.
const UNASKED: u32 = 1000;

#[derive(Debug)]
pub(super) struct Wire<S> {
    stream: S,
    input: BytesMut,
    /// The frame that [`Wire::prepare`] left for [`Wire::exchange`].
    output: BytesMut,
    /// Counts up and wraps, so that an id comes again after 65,535 others.
    transaction: u16,
    counters: Arc<Counters>,
    /// Frames since the last request that answered nothing.
    unasked: u32,
    /// Whether the peer sent anything since this was last cleared.
    pub(super) heard: bool,
}

/// A request on its way, and what its answer must match.
#[derive(Debug)]
pub(super) struct Pending<'a> {
    transaction: u16,
    unit_id: u8,
    request: &'a Request<'a>,
}

/// Why a request got no answer that counts.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("no answer in time")]
    TimedOut,
    /// The unit answered, but not what was asked.
    #[error(transparent)]
    Misfit(Misfit),
    /// The stream is at its end.
    #[error("{0}")]
    Lost(String),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(super) fn new(stream: S, counters: Arc<Counters>) -> Self {
        let buffer = || BytesMut::with_capacity(CHUNK);
        Self { stream, input: buffer(), output: buffer(), transaction: 0, counters, unasked: 0, heard: false }
    }

    /// Makes the frame of a request; nothing leaves yet.
    pub(super) fn prepare<'a>(
        &mut self,
        unit_id: u8,
        request: &'a Request<'a>,
    ) -> Result<Pending<'a>, Unfit> {
        self.transaction = self.transaction.wrapping_add(1);
        let mut pdu = BytesMut::with_capacity(256);
        encode_request(request, &mut pdu)?;
        self.output.clear();
        put_frame(self.transaction, unit_id, &pdu, &mut self.output);
        Ok(Pending { transaction: self.transaction, unit_id, request })
    }

    /// Sends the frame that was prepared last, and waits for its answer until `until`.
    pub(super) async fn exchange(
        &mut self,
        pending: &Pending<'_>,
        until: Instant,
    ) -> Result<Answer, Failure> {
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        (self.heard, self.unasked) = (false, 0);
        self.send(until).await?;
        loop {
            while let Some(frame) = self.take()? {
                match settle(pending, &frame) {
                    Some(settled) => return settled.map_err(Failure::Misfit),
                    None => self.drop_frame()?,
                }
            }
            // A peer that never pauses would keep the time-out from being looked at.
            if Instant::now() >= until {
                return Err(Failure::TimedOut);
            }
            match timeout_at(until, self.fill()).await {
                Ok(filled) => filled?,
                Err(_elapsed) => return Err(Failure::TimedOut),
            }
        }
    }

    /// Watches the stream while nothing is asked; ends only with it. Cancel-safe.
    pub(super) async fn idle(&mut self) -> Failure {
        loop {
            let step = match self.take() {
                Ok(Some(_unasked)) => self.drop_frame(),
                Ok(None) => self.fill().await,
                Err(failure) => Err(failure),
            };
            if let Err(failure) = step {
                return failure;
            }
        }
    }

    async fn send(&mut self, until: Instant) -> Result<(), Failure> {
        let sending = async {
            self.stream.write_all(&self.output).await?;
            self.stream.flush().await
        };
        match timeout_at(until, sending).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Failure::Lost(error.to_string())),
            // Part of a frame may be out: what follows would be taken for its rest.
            Err(_elapsed) => Err(Failure::Lost("the device takes no more bytes".to_owned())),
        }
    }

    async fn fill(&mut self) -> Result<(), Failure> {
        self.input.reserve(CHUNK);
        match self.stream.read_buf(&mut self.input).await {
            Ok(0) if self.input.is_empty() => Err(Failure::Lost("closed by the device".to_owned())),
            Ok(0) => Err(Failure::Lost("closed by the device in the middle of an answer".to_owned())),
            Ok(_) => {
                self.heard = true;
                Ok(())
            }
            Err(error) => Err(Failure::Lost(error.to_string())),
        }
    }

    fn take(&mut self) -> Result<Option<Frame>, Failure> {
        take_frame(&mut self.input).map_err(|error| Failure::Lost(error.to_string()))
    }

    /// Drops a frame that answers nothing. A peer that goes on and on with such is of no use, and would take all the
    /// time that there is.
    fn drop_frame(&mut self) -> Result<(), Failure> {
        self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        self.unasked += 1;
        if self.unasked > UNASKED {
            return Err(Failure::Lost("the device sends without being asked".to_owned()));
        }
        Ok(())
    }
}

/// What a frame means for a request; `None` where it is not the answer to it.
fn settle(pending: &Pending<'_>, frame: &Frame) -> Option<Result<Answer, Misfit>> {
    if (frame.transaction, frame.unit_id) != (pending.transaction, pending.unit_id) {
        return None;
    }
    match decode_answer(pending.request, &frame.pdu) {
        Err(Misfit::Function { .. }) => None,
        settled => Some(settled),
    }
}
