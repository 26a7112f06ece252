//! What can go wrong with one answer, by the bytes that reach the client.
//!
//! Knows frames, and what stands where in them; no sockets, no clock: a fault turns an answer into steps, and who owns
//! the stream takes them.

mod queue;
mod text;

use std::time::Duration;

pub use queue::Faults;
pub use text::{FAULTS, FaultError};

use super::framing::Framing;

/// What happens to an answer on its way. See [`FAULTS`] for all of them in words.
///
/// The request has reached the server before, and what it asks is done all the same: faults speak of answers. Those of
/// transactions and headers leave RTU frames as they are, those of check sums leave Modbus TCP as it is, and those that
/// end a connection do nothing on a serial line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// There is no answer.
    Drop,
    /// The answer comes so much later; those after it wait behind it.
    Delay(Duration),
    /// Each answer comes later by another time, drawn by a generator that starts from `seed`.
    DelayRandomly { least: Duration, most: Duration, seed: u64 },
    /// The answer comes after the next one.
    AfterNext,
    /// The answer bears this transaction id; none is the next one to the right one.
    Transaction(Option<u16>),
    /// Instead of the answer comes one with other data of this unit; none is a neighbour.
    Unit(Option<u8>),
    /// Before the answer comes one with other data of this unit; none is a neighbour.
    UnitFirst(Option<u8>),
    /// The answer bears the next function code.
    Function,
    /// The byte count says one register less than there is.
    ShortCount,
    /// The byte count says one register more than there is.
    LongCount,
    /// There is one register less than asked for, and the byte count says so.
    FewerData,
    /// There is one register more than asked for, and the byte count says so.
    MoreData,
    /// The answer comes twice.
    Duplicate,
    /// Every byte comes alone, so long after the one before.
    SingleBytes(Duration),
    /// The last byte comes so long after the others.
    LateByte(Duration),
    /// So many bytes, and the others so long after them.
    Split(usize, Duration),
    /// Half of the answer, and the end of the connection.
    Half,
    /// The header bears this protocol id.
    Protocol(u16),
    /// The header bears this length.
    Length(u16),
    /// What a web server says to Modbus.
    Http,
    /// These bytes come in front of the answer.
    Before(Vec<u8>),
    /// These bytes follow the answer.
    After(Vec<u8>),
    /// An exception with this code is answered.
    Exception(u8),
    /// The connection ends after its so-many-th answer.
    CloseAfter(u64),
    /// The connection is reset instead of answered.
    Reset,
    /// Nothing is answered or read any more, while the connection stays open.
    Hang,
    /// The request comes back before the answer, as on a line that hears itself; with a number only its last bytes.
    Echo(Option<usize>),
    /// One bit of the last byte of data is wrong, under the check sum of the right one.
    BitFlip,
    /// The bytes of the check sum are exchanged.
    SwappedCrc,
    /// A second answer follows at once, with this data; none is the complement.
    Second(Option<Vec<u8>>),
    /// These bytes come instead of the answer.
    Noise(Vec<u8>),
    /// A request to another station and its answer come before the answer.
    Foreign,
    /// These frames come instead of the answer: unit and PDU, framed as answers to the request.
    Answers(Vec<Vec<u8>>),
    /// These segments come instead of the answer, byte for byte.
    Segments(Vec<Vec<u8>>),
    /// One after the other: each changes what the one before made of the answer, its first segment above all. So an echo
    /// comes last.
    All(Vec<Fault>),
}

/// What is done on the client's side of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Bytes in one segment.
    Send(Vec<u8>),
    /// Until so long after the server's answer.
    Wait(Duration),
    /// So long after the step before.
    Pause(Duration),
    Close,
    Reset,
    Hang,
    /// The steps behind it come after those of the next answer.
    Hold,
}

/// One request and the server's answer to it, as frames.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange<'a> {
    pub(super) framing: Framing,
    pub(super) request: &'a [u8],
    pub(super) answer: &'a [u8],
    /// Answers on this connection so far, with this one.
    pub(super) count: u64,
}

impl Exchange<'_> {
    /// The answer as another unit would give it, with other data; none is a neighbour.
    fn foreign(&self, unit: Option<u8>) -> Vec<u8> {
        let Some((own, pdu)) = self.framing.open(self.answer) else { return Vec::new() };
        let unit = unit.unwrap_or(if own > 1 { own - 1 } else { own + 1 });
        let mut pdu = pdu.to_vec();
        if let Some(last) = pdu.last_mut() {
            *last ^= 0x11;
        }
        self.framing.seal(self.answer, unit, &pdu)
    }

    /// A frame with a changed PDU, and length and check sum as they should be.
    fn edit(&self, frame: &[u8], edit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let Some((unit, pdu)) = self.framing.open(frame) else { return frame.to_vec() };
        let mut pdu = pdu.to_vec();
        edit(&mut pdu);
        self.framing.seal(frame, unit, &pdu)
    }

    /// A request for a register of another station, and its answer.
    fn traffic(&self) -> Vec<u8> {
        let unit = self.framing.open(self.request).map_or(1, |(unit, _)| unit.wrapping_add(1).max(1));
        let request = self.framing.seal(self.request, unit, &[3, 0, 0, 0, 1]);
        [request, self.framing.seal(self.request, unit, &[3, 2, 0x5A, 0xA5])].concat()
    }
}

impl Fault {
    /// Changes the steps that are to come; `delay` draws a time between two.
    pub(super) fn apply(
        &self,
        exchange: &Exchange<'_>,
        draw: &mut impl FnMut(Duration, Duration) -> Duration,
        mut steps: Vec<Step>,
    ) -> Vec<Step> {
        match self {
            Self::All(faults) => {
                return faults.iter().fold(steps, |steps, fault| fault.apply(exchange, draw, steps));
            }
            Self::Drop => steps.retain(|step| !matches!(step, Step::Send(_))),
            Self::Delay(time) => steps.insert(0, Step::Wait(*time)),
            Self::DelayRandomly { least, most, .. } => steps.insert(0, Step::Wait(draw(*least, *most))),
            Self::AfterNext => steps.insert(0, Step::Hold),
            Self::Unit(unit) => return vec![Step::Send(exchange.foreign(*unit))],
            Self::UnitFirst(unit) => steps.insert(0, Step::Send(exchange.foreign(*unit))),
            Self::Duplicate => steps.extend(steps.clone()),
            Self::Half => {
                let whole = first(&steps);
                let half = whole.get(..whole.len() / 2).unwrap_or_default();
                return vec![Step::Send(half.to_vec()), Step::Close];
            }
            Self::Http => return vec![Step::Send(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec())],
            Self::Exception(code) => {
                let Some((unit, pdu)) = exchange.framing.open(exchange.request) else { return steps };
                let function = pdu.first().copied().unwrap_or_default() | 0x80;
                return vec![Step::Send(exchange.framing.seal(exchange.request, unit, &[function, *code]))];
            }
            Self::CloseAfter(count) if exchange.count >= *count => steps.push(Step::Close),
            Self::CloseAfter(_) => {}
            Self::Reset => return vec![Step::Reset],
            Self::Hang => return vec![Step::Hang],
            Self::Echo(tail) => {
                let from = tail.map_or(0, |tail| exchange.request.len().saturating_sub(tail));
                let echo = exchange.request.get(from..).unwrap_or_default();
                steps.insert(0, Step::Send(echo.to_vec()));
            }
            Self::Second(data) => {
                steps.push(Step::Send(exchange.edit(exchange.answer, |pdu| replace(pdu, data.as_deref()))));
            }
            Self::Noise(bytes) => return vec![Step::Send(bytes.clone())],
            Self::Foreign => steps.insert(0, Step::Send(exchange.traffic())),
            Self::Answers(frames) => {
                return frames.iter().filter_map(|frame| exchange.frame(frame)).collect();
            }
            Self::Segments(segments) => return segments.iter().cloned().map(Step::Send).collect(),
            Self::SingleBytes(_) | Self::LateByte(_) | Self::Split(..) => return self.cut(steps),
            _ => {
                for step in &mut steps {
                    if let Step::Send(bytes) = step {
                        *bytes = self.change(exchange, bytes);
                        break;
                    }
                }
            }
        }
        steps
    }

    /// Cuts what is sent into several segments.
    fn cut(&self, steps: Vec<Step>) -> Vec<Step> {
        let cut = |bytes: Vec<u8>| {
            let (parts, pause): (Vec<&[u8]>, _) = match self {
                Self::SingleBytes(pause) => (bytes.chunks(1).collect(), *pause),
                Self::LateByte(pause) => {
                    let (head, tail) = bytes.split_at(bytes.len().saturating_sub(1));
                    (vec![head, tail], *pause)
                }
                Self::Split(at, pause) => {
                    let (head, tail) = bytes.split_at((*at).min(bytes.len()));
                    (vec![head, tail], *pause)
                }
                _ => (vec![&bytes[..]], Duration::ZERO),
            };
            let parts = parts.into_iter().filter(|part| !part.is_empty());
            let steps = parts.flat_map(|part| [Step::Pause(pause), Step::Send(part.to_vec())]);
            steps.skip(1).collect::<Vec<_>>()
        };
        let cut = |step| if let Step::Send(bytes) = step { cut(bytes) } else { vec![step] };
        steps.into_iter().flat_map(cut).collect()
    }

    /// Changes one segment: the answer, or what an earlier fault made of it.
    fn change(&self, exchange: &Exchange<'_>, bytes: &[u8]) -> Vec<u8> {
        let tcp = exchange.framing == Framing::Tcp;
        let mut changed = bytes.to_vec();
        match self {
            Self::Transaction(id) if tcp => {
                let own = bytes.first_chunk::<2>().map_or(0, |id| u16::from_be_bytes(*id));
                overwrite(&mut changed, 0, id.unwrap_or(own.wrapping_add(1)).to_be_bytes());
            }
            Self::Protocol(id) if tcp => overwrite(&mut changed, 2, id.to_be_bytes()),
            Self::Length(length) if tcp => overwrite(&mut changed, 4, length.to_be_bytes()),
            Self::Function => {
                let next = |code: &mut u8| *code = code.wrapping_add(1);
                return exchange.edit(bytes, |pdu| pdu.iter_mut().take(1).for_each(next));
            }
            Self::ShortCount => return exchange.edit(bytes, |pdu| recount(pdu, false)),
            Self::LongCount => return exchange.edit(bytes, |pdu| recount(pdu, true)),
            Self::FewerData if has_count(exchange, bytes) => {
                return exchange.edit(bytes, |pdu| {
                    recount(pdu, false);
                    pdu.truncate(pdu.len().saturating_sub(2).max(2));
                });
            }
            Self::MoreData if has_count(exchange, bytes) => {
                return exchange.edit(bytes, |pdu| {
                    recount(pdu, true);
                    pdu.extend([0x5A, 0xA5]);
                });
            }
            Self::Before(garbage) => return [garbage, bytes].concat(),
            Self::After(garbage) => return [bytes, garbage].concat(),
            Self::BitFlip => {
                let sum = if tcp { 0 } else { 2 };
                changed.iter_mut().rev().skip(sum).take(1).for_each(|byte| *byte ^= 1);
            }
            Self::SwappedCrc if !tcp => {
                let at = changed.len().saturating_sub(2);
                changed.get_mut(at..).unwrap_or_default().reverse();
            }
            _ => {}
        }
        changed
    }
}

impl Exchange<'_> {
    /// `frame`: unit and PDU.
    fn frame(&self, frame: &[u8]) -> Option<Step> {
        let (unit, pdu) = frame.split_first()?;
        Some(Step::Send(self.framing.seal(self.request, *unit, pdu)))
    }
}

fn first(steps: &[Step]) -> &[u8] {
    steps
        .iter()
        .find_map(|step| if let Step::Send(bytes) = step { Some(&bytes[..]) } else { None })
        .unwrap_or_default()
}

fn overwrite(bytes: &mut [u8], at: usize, with: [u8; 2]) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&with);
    }
}

fn has_count(exchange: &Exchange<'_>, frame: &[u8]) -> bool {
    exchange.framing.open(frame).is_some_and(|(_, pdu)| matches!(pdu, [1..=4 | 23, _, ..]))
}

/// Changes the byte count, if the answer has one, by a register.
fn recount(pdu: &mut [u8], up: bool) {
    if let [1..=4 | 23, count, ..] = pdu {
        *count = if up { count.saturating_add(2) } else { count.saturating_sub(2) };
    }
}

/// Replaces the data behind function code and, where there is one, byte count.
fn replace(pdu: &mut [u8], data: Option<&[u8]>) {
    let from = if matches!(pdu.first(), Some(1..=4 | 23)) { 2 } else { 1 };
    let old = pdu.get_mut(from..).unwrap_or_default();
    for (index, byte) in old.iter_mut().enumerate() {
        *byte = data.map_or(!*byte, |data| data.get(index).copied().unwrap_or_default());
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test may fail by a panic")]
#[path = "fault_tests.rs"]
mod tests;
