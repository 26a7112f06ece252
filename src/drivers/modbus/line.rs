//! A serial line: silences, the time that characters take, and which of the bytes that were heard are an answer.
//!
//! Frames are told apart by silence and by what was asked (`codec::modbus::find_answer`), never by a gap alone: USB adapters
//! cut frames in two. Some adapters hear what they send. The answer to a single write is the same bytes as its request, so it
//! must be known whether the line echoes before such an answer can be believed: reads show it. Does no I/O.

use std::time::Duration;

use bytes::BytesMut;
use tokio::time::Instant;
use tokio_modbus::Request;

use super::wire::{Failure, Pending};
use crate::codec::modbus::{Answer, Misfit, decode_answer, find_answer, is_spoilt, usual_length};

/// Silence that ends a frame, in characters (Modbus over serial line V1.02, section 2.5.1.1).
const SILENCE: f64 = 3.5;
/// Above this rate the silence is fixed.
const FAST: u32 = 19_200;
const FAST_SILENCE: Duration = Duration::from_micros(1750);
/// Silence after which a line is at rest again when something went wrong on it: longer than the pauses that USB adapters make
/// within a frame.
const REST: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Line {
    /// Time of one character; none over TCP, where nobody knows it.
    character: Duration,
    silence: Duration,
    /// When the last byte was heard or sent.
    last: Instant,
    /// Whether the last transaction went wrong: more of it may come.
    troubled: bool,
    /// Whether the line echoes what is sent; `None` while nothing tells.
    echoes: Option<bool>,
    /// The unit's last answer that was none to the question.
    misfit: Option<Misfit>,
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
        Self { character, silence, last: Instant::now(), troubled: true, echoes: None, misfit: None }
    }

    /// See [`Wire::may_echo`](super::wire::Wire::may_echo).
    pub(super) fn may_echo(&self) -> bool {
        self.echoes.is_none()
    }

    pub(super) fn airtime(&self, pending: &Pending) -> Duration {
        self.time_of(pending.frame.len() + usual_length(&pending.request))
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
        self.misfit = None;
        self.last = Instant::now() + self.time_of(pending.frame.len());
        self.last
    }

    /// A transaction is over.
    pub(super) fn ended(&mut self, well: bool) {
        self.troubled = !well;
    }

    /// The answer to a request among the bytes that were heard since it was sent.
    pub(super) fn look(&mut self, pending: &Pending, input: &[u8]) -> Option<Answer> {
        let mut from = self.behind_echo(pending, input);
        while let Some(found) = find_answer(pending.unit_id, &pending.request, input, from) {
            from = found.end;
            let same = input.get(found.start..found.end) == Some(&pending.frame);
            if same && !is_echoed(&pending.request) {
                self.echoes = Some(true);
                continue;
            }
            match decode_answer(&pending.request, &found.pdu) {
                Ok(answer) => {
                    if !same {
                        self.learn(pending, input.get(..found.start).unwrap_or_default());
                    }
                    return Some(answer);
                }
                // A late answer to another question, maybe: the right one may follow.
                Err(misfit) => self.misfit = Some(misfit),
            }
        }
        None
    }

    /// Until when to wait for more where an answer was heard that is spoilt; `None` where none was.
    pub(super) fn spoilt_until(&self, pending: &Pending, input: &BytesMut) -> Option<Instant> {
        let heard = input.get(self.behind_echo(pending, input)..)?;
        is_spoilt(pending.unit_id, &pending.request, heard).then(|| self.last + self.silence.max(REST))
    }

    /// The time of a request is over: what that means.
    pub(super) fn missed(&mut self, pending: &Pending, input: &[u8]) -> Failure {
        if self.echoes.is_none() {
            self.echoes = Some(!pending.frame.is_empty() && contains(input, &pending.frame));
        }
        match self.misfit.take() {
            Some(misfit) => Failure::Misfit(misfit),
            None => Failure::TimedOut,
        }
    }

    /// Where the answer can begin: behind our own words, where the line echoes and the answer would be the same.
    fn behind_echo(&self, pending: &Pending, input: &[u8]) -> usize {
        if self.echoes != Some(true) || !is_echoed(&pending.request) {
            return 0;
        }
        let sent = &pending.frame;
        let whole = input.windows(sent.len()).position(|window| window == sent.as_ref());
        let Some(start) = whole else { return 0 };
        let before = input.get(..start).unwrap_or_default();
        // Only the end of the echo was heard, so this is the answer already.
        if is_tail(sent, before) { start } else { start + sent.len() }
    }

    /// What stood before an answer tells whether the line echoes.
    fn learn(&mut self, pending: &Pending, before: &[u8]) {
        if before.ends_with(&pending.frame) || is_tail(&pending.frame, before) {
            self.echoes = Some(true);
        } else if self.echoes.is_none() {
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

fn contains(heard: &[u8], sent: &[u8]) -> bool {
    heard.windows(sent.len()).any(|window| window == sent)
}
