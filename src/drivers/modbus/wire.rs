//! One stream and the transactions on it: who asked what, and which answer is whose.
//!
//! Over TCP answers are told apart by transaction id, unit id and function; what answers nothing that is open, be it late or
//! foreign, is dropped and counted, and a stream that is not Modbus TCP, or that is full of such, ends the session. RTU has
//! no ids and no frame marks: that side is [`line`](super::line). Knows no tags.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{self, Duration},
};

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    task::spawn_blocking,
    time::{Instant, sleep_until, timeout_at},
};
use tokio_modbus::Request;

use super::{line::Line, step::Shape};
use crate::{
    codec::modbus::{
        Answer, Frame, Misfit, Unfit, decode_answer, encode_request, put_frame, put_rtu, take_frame,
    },
    link::Counters,
};

/// Room that a read from the stream finds at least; the largest frame has 260 bytes.
const CHUNK: usize = 2048;

/// Frames that answer nothing and that a peer may send before it is asked again. Late answers are few.
const UNASKED: u32 = 1000;

/// Frames that nothing asked for and that are kept to be told of.
const STRAYS: usize = 64;

/// So many ids back an answer is a late one of ours.
const RECENT: u16 = 1000;
/// The first ids are far from those that peers make up, such as 0, 1 or their own count, so that these are told.
const FIRST: u16 = 0x1000;

/// How long a rest of the line is waited for among others that speak on it all the time.
const PATIENCE: Duration = Duration::from_millis(200);

/// The runtime's timers end up to two milliseconds late, which is much beside a silence of this length at most. Unit tests
/// make up their time, of which a sleeping thread knows nothing.
const FINE: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 5 });

#[derive(Debug)]
pub(super) struct Wire<S> {
    stream: S,
    input: BytesMut,
    framing: Framing,
    /// Counts up and wraps, so that an id comes again after 65,535 others.
    transaction: u16,
    counters: Arc<Counters>,
    /// Frames since the last request that answered nothing.
    unasked: u32,
    /// Whether the peer sent anything since the last request.
    pub(super) heard: bool,
    /// Whether it ever sent anything.
    pub(super) spoke: bool,
    /// No request leaves before.
    free: Instant,
    /// When the time of the last request is over.
    due: Instant,
    /// Least pause between an answer and the next request.
    gap: Duration,
    /// The last answer that fitted but for an id.
    foreign: Option<Foreign>,
    /// Whether the first bytes of `input` were there before the request, so that their frame is no answer to it.
    stale: bool,
    /// What an answer to the last request looks like.
    pub(super) asked: Option<Shape>,
    /// Where answers have no ids: frames that nothing open asked for, by their units.
    strays: Vec<(u8, Shape)>,
    /// Which of them came after the last request.
    fresh: usize,
}

/// What was asked with, and what came in its place.
#[derive(Debug, Clone, Copy)]
enum Foreign {
    Transaction(u16, u16),
    Unit(u8, u8),
}

/// How frames are told apart on a stream.
#[derive(Debug)]
pub(super) enum Framing {
    /// Modbus TCP; where ids are not checked only one request is open at a time.
    Mbap {
        check_ids: bool,
    },
    Rtu(Line),
}

/// A request with its frame, and what its answer must match.
#[derive(Debug)]
pub(super) struct Pending {
    transaction: u16,
    pub(super) unit_id: u8,
    pub(super) request: Request<'static>,
    pub(super) frame: Bytes,
}

/// Which of the open requests was answered, and with what.
pub(super) type Heard = (usize, Result<Answer, Misfit>);

/// Why a request got no answer that counts.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("no answer in time")]
    TimedOut,
    /// The unit answered, but what came had been spoilt on its way.
    #[error("an answer whose checksum is wrong")]
    Garbled,
    /// The same bytes as those of the request were heard, and it is not known whether the line echoes.
    #[error("only the bytes of the write itself were heard, which may be an echo of the line")]
    Doubtful,
    /// The line was never free for the request: nothing was sent.
    #[error("the line never falls silent, so nothing was sent")]
    Taken,
    /// The unit answered, but not what was asked.
    #[error(transparent)]
    Misfit(Misfit),
    /// It is not known which question was answered.
    #[error(
        "answers come out of step with what is asked, so they are not believed: does the device take longer than \
         timeout_ms, or is it asked by others too?"
    )]
    OutOfStep,
    /// The stream is at its end.
    #[error("{0}")]
    Lost(String),
}

impl AsRef<Self> for Pending {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// Nothing leaves within `delay` from now on.
    pub(super) fn new(
        stream: S,
        framing: Framing,
        delay: Duration,
        gap: Duration,
        counters: Arc<Counters>,
    ) -> Self {
        let input = BytesMut::with_capacity(CHUNK);
        let free = Instant::now() + delay;
        Self {
            stream,
            input,
            framing,
            transaction: FIRST,
            counters,
            unasked: 0,
            heard: false,
            spoke: false,
            free,
            due: Instant::now(),
            gap,
            foreign: None,
            stale: false,
            asked: None,
            strays: Vec::new(),
            fresh: 0,
        }
    }

    /// Whether an answer tells which request it is for.
    pub(super) fn has_ids(&self) -> bool {
        matches!(self.framing, Framing::Mbap { check_ids: true })
    }

    /// Whether the echo of a write could be our own words, heard back from the line: nothing was read from it yet.
    pub(super) fn may_echo(&self) -> bool {
        matches!(&self.framing, Framing::Rtu(line) if line.may_echo())
    }

    /// How long the characters of a request's usual answer take.
    pub(super) fn airtime(&self, pending: &Pending) -> Duration {
        match &self.framing {
            Framing::Mbap { .. } => Duration::ZERO,
            Framing::Rtu(line) => line.airtime(pending),
        }
    }

    /// A hint at what is wrong with a unit that seems to answer nothing.
    pub(super) fn hint(&self, unit_id: u8) -> Option<String> {
        match self.foreign? {
            Foreign::Transaction(asked, got) => Some(format!(
                "answers come with transaction id {got} where {asked} was asked, as if the peer did not echo ids; \
                 transaction_ids = \"ignore\" on the connection takes such answers"
            )),
            Foreign::Unit(asked, got) if asked == unit_id => Some(format!(
                "answers come from unit {got} where unit {asked} was asked; if these are its own, unit_id = {got} on \
                 the device takes them"
            )),
            Foreign::Unit(..) => None,
        }
    }

    /// Makes the frame of a request; nothing leaves yet.
    pub(super) fn prepare(&mut self, unit_id: u8, request: Request<'static>) -> Result<Pending, Unfit> {
        self.transaction = self.transaction.wrapping_add(1);
        let (mut pdu, mut frame) = (BytesMut::with_capacity(256), BytesMut::with_capacity(262));
        encode_request(&request, &mut pdu)?;
        match self.framing {
            Framing::Mbap { .. } => put_frame(self.transaction, unit_id, &pdu, &mut frame),
            Framing::Rtu(_) => put_rtu(unit_id, &pdu, &mut frame),
        }
        Ok(Pending { transaction: self.transaction, unit_id, request, frame: frame.freeze() })
    }

    /// Waits until a request may leave: the pauses are over and a serial line is silent. Cancel-safe.
    pub(super) async fn ready(&mut self, until: Instant) -> Result<(), Failure> {
        if self.has_ids() {
            if Instant::now() < self.free {
                sleep_until(self.free).await;
            }
            return Ok(());
        }
        let started = self.free.max(Instant::now());
        let until = until.max(started + 2 * PATIENCE);
        let patience = started + PATIENCE;
        loop {
            // What lies there was said before the request, so it cannot be its answer.
            let mut spoke = false;
            while let Some(filled) = self.fill().now_or_never() {
                filled?;
                spoke |= self.discard()?;
            }
            let mut free = self.free;
            if let Framing::Rtu(line) = &mut self.framing {
                // Others speak on it all the time: then their usual pauses must do.
                if Instant::now() >= patience {
                    line.is_shared();
                }
                free = free.max(line.silent_from());
            }
            let now = Instant::now();
            if now >= free {
                return Ok(());
            }
            tokio::select! {
                filled = self.fill() => {
                    filled?;
                    spoke |= self.discard()?;
                }
                () = sleep_until(free) => {}
                () = doze(free) => {}
            }
            if spoke && now >= until {
                return Err(Failure::Taken);
            }
        }
    }

    /// Drops what was heard and answers nothing; whether that was said on a serial line.
    fn discard(&mut self) -> Result<bool, Failure> {
        self.strays.truncate(STRAYS);
        match &mut self.framing {
            Framing::Mbap { .. } => {
                while let Some(frame) = take(&mut self.input)? {
                    self.stray(&frame);
                    self.drop_frame()?;
                }
                Ok(false)
            }
            Framing::Rtu(_) if self.input.is_empty() => Ok(false),
            Framing::Rtu(line) => {
                line.strays(&self.input, &mut self.strays);
                line.heard();
                self.drop_input();
                Ok(true)
            }
        }
    }

    /// Sends a request; its last character leaves at the moment that is answered.
    pub(super) async fn send(&mut self, pending: &Pending, patience: Duration) -> Result<Instant, Failure> {
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        self.asked = Some(Shape::of(&pending.request));
        self.fresh = self.strays.len();
        self.due = Instant::now() + patience;
        (self.heard, self.unasked, self.stale) = (false, 0, !self.input.is_empty());
        let sending = async {
            self.stream.write_all(&pending.frame).await?;
            self.stream.flush().await
        };
        match timeout_at(Instant::now() + patience, sending).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(Failure::Lost(error.to_string())),
            // Part of a frame may be out: what follows would be taken for its rest.
            Err(_elapsed) => return Err(Failure::Lost("the device takes no more bytes".to_owned())),
        }
        let sent = match &mut self.framing {
            Framing::Mbap { .. } => Instant::now(),
            Framing::Rtu(line) => line.sent(pending),
        };
        self.due = sent + patience + self.airtime(pending);
        Ok(sent)
    }

    /// When the time of the last request is over, however long it is waited for.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Leaves the line to itself for a while after a request that nothing answers.
    pub(super) fn pause(&mut self, from: Instant, pause: Duration) {
        self.free = self.free.max(from + pause);
    }

    /// Waits for an answer to one of the `open` requests, which is told by its number. Cancel-safe.
    pub(super) async fn hear<P: AsRef<Pending>>(
        &mut self,
        open: &[P],
        until: Instant,
    ) -> Result<Heard, Failure> {
        let mut settled = None;
        let result = loop {
            if let Some(found) = self.settle(open)? {
                break if self.is_contested(open) { Err(Failure::OutOfStep) } else { Ok(found) };
            }
            if let Framing::Rtu(line) = &mut self.framing
                && let Some(pending) = open.first()
            {
                settled = line.spoilt_until(pending.as_ref(), &self.input);
            }
            let now = Instant::now();
            // A peer that never pauses would keep the time-out from being looked at.
            if now >= until {
                break Err(self.missed(open));
            }
            if settled.is_some_and(|at| now >= at) {
                break Err(Failure::Garbled);
            }
            let wake = settled.map_or(until, |at| at.min(until));
            if let Ok(filled) = timeout_at(wake, self.fill()).await {
                filled?;
                if let Framing::Rtu(line) = &mut self.framing {
                    line.heard();
                }
            }
        };
        self.put_aside(open, result.is_ok())?;
        if matches!(result, Err(Failure::Garbled)) {
            self.counters.garbled.fetch_add(1, Ordering::Relaxed);
        }
        if matches!(result, Ok(_) | Err(Failure::Garbled)) {
            self.free = self.free.max(Instant::now() + self.gap);
        }
        result
    }

    /// Ends a transaction: what was heard beside the answer belongs to nothing.
    fn put_aside<P: AsRef<Pending>>(&mut self, open: &[P], answered: bool) -> Result<(), Failure> {
        let Some(pending) = open.first().map(P::as_ref) else { return Ok(()) };
        match &mut self.framing {
            Framing::Rtu(line) => {
                // Bytes behind an answer may be the beginning of more.
                let clean = line.is_clean(Some(pending), &self.input);
                line.ended(answered, clean);
                line.rest_of(pending, &self.input, answered, &mut self.strays);
                if clean {
                    self.input.clear();
                }
                self.drop_input();
            }
            Framing::Mbap { check_ids: false } if answered => {
                self.discard()?;
            }
            Framing::Mbap { .. } => {}
        }
        Ok(())
    }

    /// Watches the stream while nothing is asked; ends with it, or as soon as there is something to [tell](Self::strays).
    /// Cancel-safe.
    pub(super) async fn idle(&mut self) -> Result<(), Failure> {
        loop {
            self.discard()?;
            if !self.strays.is_empty() {
                return Ok(());
            }
            self.fill().await?;
        }
    }

    /// Listens to a unit until that moment; whether it said nothing. Cancel-safe.
    pub(super) async fn listen(&mut self, unit_id: u8, until: Instant) -> Result<bool, Failure> {
        loop {
            self.discard()?;
            if self.is_stray(unit_id) {
                return Ok(false);
            }
            match timeout_at(until, self.fill()).await {
                Ok(filled) => filled?,
                Err(_elapsed) => return Ok(true),
            }
        }
    }

    /// The frames that nothing open asked for, since this was asked last.
    pub(super) fn strays(&mut self) -> Vec<(u8, Shape)> {
        self.fresh = 0;
        std::mem::take(&mut self.strays)
    }

    /// Whether something was heard on a serial line that is no whole frame, but may have been one.
    pub(super) fn take_noise(&mut self) -> bool {
        match &mut self.framing {
            Framing::Rtu(line) => line.take_noise(),
            Framing::Mbap { .. } => false,
        }
    }

    /// Whether a unit said more than its answer to the last request; that is told no more.
    pub(super) fn take_doubled(&mut self, unit_id: u8) -> bool {
        let fresh = self.fresh.min(self.strays.len());
        let own = self.strays.extract_if(fresh.., |(stray, _)| *stray == unit_id);
        own.count() > 0
    }

    /// Whether a unit said something since the last request that it did not ask for, or may have.
    fn is_stray(&self, unit_id: u8) -> bool {
        let noise = matches!(&self.framing, Framing::Rtu(line) if line.is_noisy());
        noise || self.strays.iter().skip(self.fresh).any(|(stray, _)| *stray == unit_id)
    }

    fn stray(&mut self, frame: &Frame) {
        if !self.has_ids() {
            self.strays.extend(Shape::heard(&frame.pdu).map(|shape| (frame.unit_id, shape)));
        }
    }

    fn is_contested<P: AsRef<Pending>>(&self, open: &[P]) -> bool {
        match (&self.framing, open.first()) {
            (Framing::Rtu(line), Some(pending)) => line.is_contested(pending.as_ref(), &self.input),
            _ => false,
        }
    }

    /// Looks through what was heard for an answer to one of the open requests.
    fn settle<P: AsRef<Pending>>(&mut self, open: &[P]) -> Result<Option<Heard>, Failure> {
        let check_ids = match &mut self.framing {
            Framing::Rtu(line) => {
                let answer = open.first().and_then(|pending| line.look(pending.as_ref(), &self.input));
                return Ok(answer.map(|answer| (0, Ok(answer))));
            }
            Framing::Mbap { check_ids } => *check_ids,
        };
        while let Some(frame) = take(&mut self.input)? {
            if std::mem::take(&mut self.stale) && !check_ids {
                // It was said before the request.
                let late = self.strays.split_off(self.fresh.min(self.strays.len()));
                self.stray(&frame);
                self.fresh = self.strays.len();
                self.strays.extend(late);
                self.drop_frame()?;
                continue;
            }
            let mut pendings = open.iter().map(P::as_ref).enumerate();
            let found = pendings.find(|(_, pending)| {
                pending.unit_id == frame.unit_id && (!check_ids || pending.transaction == frame.transaction)
            });
            match found.map(|(at, pending)| (at, decode_answer(&pending.request, &frame.pdu))) {
                // Without ids an answer of another size is a late one to another question.
                Some((_, Err(Misfit::Size { .. } | Misfit::ByteCount { .. }))) if !check_ids => {}
                Some((at, answer)) if !matches!(answer, Err(Misfit::Function { .. })) => {
                    return Ok(Some((at, answer)));
                }
                _ => self.note(open, &frame),
            }
            self.drop_frame()?;
        }
        Ok(None)
    }

    /// Notes an answer that fits an open request in all but its unit id, or but its transaction id where that was none of
    /// ours of late.
    fn note<P: AsRef<Pending>>(&mut self, open: &[P], frame: &Frame) {
        let late = self.transaction.wrapping_sub(frame.transaction) <= RECENT && frame.transaction != 0;
        let checks_ids = self.has_ids();
        let told = open.iter().map(P::as_ref).find_map(|pending| {
            let (asked, got) = (pending.transaction, frame.transaction);
            let told = if checks_ids && asked != got {
                (!late).then_some(Foreign::Transaction(asked, got))
            } else {
                (pending.unit_id != frame.unit_id).then_some(Foreign::Unit(pending.unit_id, frame.unit_id))
            };
            told.filter(|_| decode_answer(&pending.request, &frame.pdu).is_ok())
        });
        self.foreign = told.or(self.foreign);
    }

    /// Whether the answer to a request broke off: what comes next would be taken for the rest of it.
    pub(super) fn is_cut(&self, pending: &Pending) -> bool {
        matches!(self.framing, Framing::Mbap { .. })
            && self.input.starts_with(&pending.transaction.to_be_bytes())
    }

    /// What it means that the time of a request is over.
    fn missed<P: AsRef<Pending>>(&mut self, open: &[P]) -> Failure {
        let Framing::Rtu(line) = &mut self.framing else { return Failure::TimedOut };
        match open.first() {
            Some(pending) => line.missed(pending.as_ref(), &self.input),
            None => Failure::TimedOut,
        }
    }

    async fn fill(&mut self) -> Result<(), Failure> {
        self.input.reserve(CHUNK);
        match self.stream.read_buf(&mut self.input).await {
            Ok(0) if self.input.is_empty() => Err(Failure::Lost("closed by the device".to_owned())),
            Ok(0) => Err(Failure::Lost("closed by the device in the middle of an answer".to_owned())),
            Ok(_) => {
                (self.heard, self.spoke) = (true, true);
                Ok(())
            }
            // TLS without its farewell.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(Failure::Lost("closed by the device".to_owned()))
            }
            Err(error) => Err(Failure::Lost(error.to_string())),
        }
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

    /// Drops what was heard on a serial line and is no answer.
    fn drop_input(&mut self) {
        if !self.input.is_empty() {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
            self.input.clear();
        }
    }
}

/// Sleeps a short while on a thread of its own, which wakes more exactly than the runtime's timers do.
async fn doze(until: Instant) {
    let is_short = until.saturating_duration_since(Instant::now()) <= FINE;
    let until = until.into_std();
    // The thread takes its time to begin, so what is left is known there only.
    let sleep = move || thread::sleep(until.saturating_duration_since(time::Instant::now()));
    if !is_short || spawn_blocking(sleep).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn take(input: &mut BytesMut) -> Result<Option<Frame>, Failure> {
    take_frame(input).map_err(|error| Failure::Lost(error.to_string()))
}
