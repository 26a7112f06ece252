//! A serial line: silences, the time that characters take, and which of the bytes that were heard are an answer.
//!
//! Frames are told apart by silence and by what was asked (`codec::modbus::find_answer`), never by a gap alone: USB adapters
//! cut frames in two. Some adapters hear what they send. The answer to a single write is the same bytes as its request, so it
//! must be known whether the line echoes before such an answer can be believed: reads show it, and while none did, the same
//! bytes heard once count for nothing. Does no I/O.

use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::time::Instant;
use tokio_modbus::Request;

use super::{
    step::Shape,
    wire::{Failure, Pending},
};
use crate::codec::modbus::{
    Answer, Misfit, asks, decode_answer, find_answer, find_frame, is_spoilt, usual_length,
};

/// Silence that ends a frame, in characters (Modbus over serial line V1.02, section 2.5.1.1).
const SILENCE: f64 = 3.5;
/// Above this rate the silence is fixed.
const FAST: u32 = 19_200;
const FAST_SILENCE: Duration = Duration::from_micros(1750);
/// Silence after which a line is at rest again when something went wrong on it: longer than the pauses that USB adapters make
/// within a frame.
const REST: Duration = Duration::from_millis(50);
/// Bytes that a line makes up by itself: fewer than the shortest frame without its last byte.
const NOISE: usize = 3;
/// Bytes of the longest frame.
const LONGEST: usize = 256;

#[derive(Debug)]
pub(super) struct Line {
    /// Time of one character; none over TCP, where nobody knows it.
    character: Duration,
    silence: Duration,
    /// When the last byte was heard or sent.
    last: Instant,
    /// Whether the last transaction went wrong: more of it may come.
    troubled: bool,
    /// Whether others speak on it all the time.
    shared: bool,
    /// Whether the line echoes what is sent; `None` while nothing tells.
    echoes: Option<bool>,
    /// The unit's last answer that was none to the question.
    misfit: Option<Misfit>,
    /// Where the answer began and ended in what was heard.
    place: Option<(usize, usize)>,
    /// What was heard since the last silence and belongs to no transaction.
    aside: BytesMut,
    /// Whether more of that is no whole frame than a line makes up by itself.
    noise: bool,
}

impl Line {
    /// A serial port with so many bits a character, start and stop bits counted in.
    pub(super) fn serial(baud: u32, bits: u32) -> Self {
        let character = Duration::from_secs(bits.into()) / baud.max(1);
        let silence = if baud > FAST { FAST_SILENCE } else { character.mul_f64(SILENCE) };
        Self::new(character, silence)
    }

    /// A transparent serial server: it keeps the silences itself.
    pub(super) fn remote() -> Self {
        Self::new(Duration::ZERO, Duration::ZERO)
    }

    fn new(character: Duration, silence: Duration) -> Self {
        // Whatever was said before the port was opened is not over for sure.
        Self {
            character,
            silence,
            last: Instant::now(),
            troubled: true,
            shared: false,
            echoes: None,
            misfit: None,
            place: None,
            aside: BytesMut::new(),
            noise: false,
        }
    }

    /// See [`Wire::may_echo`](super::wire::Wire::may_echo).
    pub(super) fn may_echo(&self) -> bool {
        self.echoes.is_none()
    }

    pub(super) fn airtime(&self, pending: &Pending) -> Duration {
        self.time_of(usual_length(&pending.request))
    }

    /// When the line has been silent for long enough, if nothing more is heard.
    pub(super) fn silent_from(&self) -> Instant {
        self.last + if self.troubled { self.silence.max(REST) } else { self.silence }
    }

    pub(super) fn heard(&mut self) {
        self.last = Instant::now();
    }

    /// A request was handed to the port: when its last character leaves.
    pub(super) fn sent(&mut self, pending: &Pending) -> Instant {
        (self.misfit, self.place) = (None, None);
        self.last = Instant::now() + self.time_of(pending.frame.len());
        self.last
    }

    /// A transaction is over; `clean` where nothing was heard but what belongs to it.
    pub(super) fn ended(&mut self, well: bool, clean: bool) {
        self.troubled = !(well && (clean || self.shared));
    }

    /// Others speak on it all the time: their usual pauses must do, and what they say is no trouble.
    pub(super) fn is_shared(&mut self) {
        (self.shared, self.troubled) = (true, false);
    }

    /// The answer to a request among the bytes that were heard since it was sent.
    pub(super) fn look(&mut self, pending: &Pending, input: &[u8]) -> Option<Answer> {
        let mut from = self.behind_echo(pending, input);
        let mut own = false;
        while let Some(found) = find_answer(pending.unit_id, &pending.request, input, from) {
            from = found.end;
            let same = input.get(found.start..found.end) == Some(&pending.frame);
            // Of two of the same one is the answer; one alone may be what the line echoes.
            if same && self.echoes.is_none() && !std::mem::replace(&mut own, true) {
                continue;
            }
            match decode_answer(&pending.request, &found.pdu) {
                Ok(answer) => {
                    if !same || own {
                        self.learn(pending, input.get(..found.start).unwrap_or_default());
                    }
                    self.place = Some((found.start, found.end));
                    return Some(answer);
                }
                // A late answer to another question, maybe: the right one may follow.
                Err(misfit) => self.misfit = Some(misfit),
            }
        }
        None
    }

    /// Whether nothing was heard but the answer and an echo.
    pub(super) fn is_clean(&self, pending: Option<&Pending>, input: &[u8]) -> bool {
        let (start, end) = self.place.unwrap_or((input.len(), input.len()));
        let before = input.get(..start).unwrap_or_default();
        let echo = pending.is_some_and(|Pending { frame, .. }| before == frame || is_tail(frame, before));
        end == input.len() && (before.is_empty() || echo)
    }

    /// Looks through what was heard and belongs to no transaction, in whatever pieces that comes.
    pub(super) fn strays(&mut self, heard: &[u8], strays: &mut Vec<(u8, Shape)>) {
        if Instant::now() > self.last + self.silence.max(REST) {
            self.aside.clear();
        }
        self.aside.extend_from_slice(heard);
        while let Some((unit_id, found, is_answer)) = find_frame(&self.aside, 0) {
            let shape = Shape::heard(&found.pdu).filter(|_| is_answer);
            strays.extend(shape.map(|shape| (unit_id, shape)));
            self.noise |= found.start > NOISE;
            self.aside.advance(found.end);
        }
        self.noise |= self.aside.len() > NOISE;
        self.aside.advance(self.aside.len().saturating_sub(LONGEST));
    }

    pub(super) fn is_noisy(&self) -> bool {
        self.noise
    }

    pub(super) fn take_noise(&mut self) -> bool {
        std::mem::take(&mut self.noise)
    }

    /// A transaction is over: looks through what was heard beside it. What a unit says before it answers is no matter, since
    /// it answers in order; our own words are none of its own.
    pub(super) fn rest_of(
        &mut self,
        pending: &Pending,
        input: &[u8],
        answered: bool,
        strays: &mut Vec<(u8, Shape)>,
    ) {
        let (start, end) = self.place.filter(|_| answered).unwrap_or((input.len(), input.len()));
        let echo = whole(input, &pending.frame).map_or(0, |at| at + pending.frame.len()).min(start);
        let mut before = Vec::new();
        self.aside.clear();
        self.strays(input.get(echo..start).unwrap_or_default(), &mut before);
        strays.extend(before.into_iter().filter(|(unit_id, _)| *unit_id != pending.unit_id));
        if answered {
            self.aside.clear();
            self.strays(input.get(end..).unwrap_or_default(), strays);
        }
    }

    /// Whether another master asked the unit before an answer came, which may be the one to that.
    pub(super) fn is_contested(&self, pending: &Pending, input: &[u8]) -> bool {
        let start = self.place.map_or(input.len(), |(start, _)| start);
        let echo = whole(input, &pending.frame).map_or(0, |at| at + pending.frame.len()).min(start);
        asks(input.get(echo..start).unwrap_or_default(), pending.unit_id)
    }

    /// Until when to wait for more where an answer was heard that is spoilt; `None` where none was.
    pub(super) fn spoilt_until(&self, pending: &Pending, input: &BytesMut) -> Option<Instant> {
        let own = whole(input, &pending.frame).map_or(0, |start| start + pending.frame.len());
        let heard = input.get(own..)?;
        is_spoilt(pending.unit_id, &pending.request, heard).then(|| self.last + self.silence.max(REST))
    }

    /// The time of a request is over: what that means.
    pub(super) fn missed(&mut self, pending: &Pending, input: &[u8]) -> Failure {
        let own = whole(input, &pending.frame).is_some();
        let doubtful = own && self.echoes.is_none() && is_echoed(&pending.request);
        if self.echoes.is_none() && !doubtful && (own || input.is_empty()) {
            self.echoes = Some(own);
        }
        match self.misfit.take() {
            Some(misfit) => Failure::Misfit(misfit),
            None if doubtful => Failure::Doubtful,
            None => Failure::TimedOut,
        }
    }

    /// Where the answer can begin: behind our own words. These are no noise to be looked through: their beginning can look
    /// like an answer, and so can the whole of them with zeros behind it, since a CRC goes on to fit.
    fn behind_echo(&self, pending: &Pending, input: &[u8]) -> usize {
        let sent = &pending.frame;
        let own = whole(input, sent);
        if !is_echoed(&pending.request) {
            let comes = self.echoes != Some(false) && sent.starts_with(input);
            return own.map_or(if comes { input.len() } else { 0 }, |start| start + sent.len());
        }
        let Some(start) = own.filter(|_| self.echoes == Some(true)) else { return 0 };
        let before = input.get(..start).unwrap_or_default();
        // Only the end of the echo was heard, so this is the answer already.
        if is_tail(sent, before) { start } else { start + sent.len() }
    }

    /// What stood before an answer tells whether the line echoes, unless it may be an echo that was spoilt.
    fn learn(&mut self, pending: &Pending, before: &[u8]) {
        let sent = &pending.frame;
        if whole(before, sent).is_some() || is_tail(sent, before) {
            self.echoes = Some(true);
        } else if self.echoes.is_none() && before.len() < sent.len() / 2 {
            self.echoes = Some(false);
        }
    }

    fn time_of(&self, characters: usize) -> Duration {
        self.character * u32::try_from(characters).unwrap_or(u32::MAX)
    }
}

/// Whether a device answers to a request with the same bytes.
fn is_echoed(request: &Request<'_>) -> bool {
    matches!(
        request,
        Request::WriteSingleCoil(..) | Request::WriteSingleRegister(..) | Request::MaskWriteRegister(..)
    )
}

/// Whether `heard` is the end of what was sent: one byte proves nothing.
fn is_tail(sent: &[u8], heard: &[u8]) -> bool {
    heard.len() >= 2 && heard.len() < sent.len() && sent.ends_with(heard)
}

/// Where what was sent was heard as a whole.
fn whole(heard: &[u8], sent: &[u8]) -> Option<usize> {
    heard.windows(sent.len().max(1)).position(|window| window == sent)
}
