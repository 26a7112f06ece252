//! Streams of Modbus TCP, cut anywhere.

use arbitrary::Arbitrary;
use bytes::BytesMut;
use fieldbridge::codec::modbus::{Frame, StreamError, put_frame, take_frame};

#[derive(Debug, PartialEq, Arbitrary)]
pub struct Input<'a> {
    pub transaction: u16,
    pub unit_id: u8,
    /// Sizes of the segments, again from the first where there are more.
    pub cuts: [u8; 8],
    pub stream: &'a [u8],
}

/// What became of a stream.
#[derive(Debug, PartialEq)]
struct Taken {
    frames: Vec<Frame>,
    error: Option<StreamError>,
    /// Bytes that belong to no frame.
    rest: usize,
}

pub fn check(input: &Input<'_>) {
    let expected = expected(input.stream);
    assert_eq!(taken([input.stream].into_iter()), expected, "as a whole");
    let in_parts = taken(segments(input.stream, input.cuts).into_iter());
    assert_eq!(in_parts.frames, expected.frames, "in parts");
    assert_eq!(in_parts.error, expected.error, "in parts");
    check_conservation(input.stream, &expected);
    check_round_trip(input);
}

/// All frames, by the layout of the header (Modbus Messaging on TCP/IP V1.0b, section 3.1.3).
fn expected(stream: &[u8]) -> Taken {
    let mut frames = Vec::new();
    let mut rest = stream;
    let error = loop {
        let at = |index: usize| rest.get(index).copied();
        let word = |index: usize| Some(u16::from_be_bytes([at(index)?, at(index + 1)?]));
        match (rest, word(2), word(4)) {
            ([b'H', b'T', b'T', b'P', ..], ..) => break Some(StreamError::Http),
            (_, Some(protocol @ 1..), _) => break Some(StreamError::Protocol(protocol)),
            (_, _, Some(length @ (0 | 1 | 255..))) => break Some(StreamError::Length(length)),
            (_, Some(0), Some(length)) if rest.len() >= 6 + usize::from(length) => {
                let (frame, after) = rest.split_at(6 + usize::from(length));
                frames.push(Frame {
                    transaction: u16::from_be_bytes([frame[0], frame[1]]),
                    unit_id: frame[6],
                    pdu: frame[7..].to_vec().into(),
                });
                rest = after;
            }
            _ => break None,
        }
    };
    Taken { frames, error, rest: rest.len() }
}

fn taken<'a>(segments: impl Iterator<Item = &'a [u8]>) -> Taken {
    let mut buffer = BytesMut::new();
    let mut frames = Vec::new();
    for segment in segments {
        buffer.extend_from_slice(segment);
        loop {
            match take_frame(&mut buffer) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return Taken { frames, error: Some(error), rest: buffer.len() },
            }
        }
    }
    Taken { frames, error: None, rest: buffer.len() }
}

fn segments(mut stream: &[u8], cuts: [u8; 8]) -> Vec<&[u8]> {
    let mut sizes = cuts.into_iter().cycle();
    let mut segments = Vec::new();
    while !stream.is_empty() {
        let size = usize::from(sizes.next().unwrap_or_default()) + 1;
        let (segment, rest) = stream.split_at(size.min(stream.len()));
        segments.push(segment);
        stream = rest;
    }
    segments
}

/// No byte is lost and none comes twice: the frames and the rest are the stream.
fn check_conservation(stream: &[u8], taken: &Taken) {
    let mut again = BytesMut::new();
    for frame in &taken.frames {
        put_frame(frame.transaction, frame.unit_id, &frame.pdu, &mut again);
    }
    assert_eq!(again.as_ref(), &stream[..stream.len() - taken.rest]);
}

fn check_round_trip(input: &Input<'_>) {
    let pdu = &input.stream[..input.stream.len().min(253)];
    if pdu.is_empty() {
        return;
    }
    let mut buffer = BytesMut::new();
    put_frame(input.transaction, input.unit_id, pdu, &mut buffer);
    let whole = buffer.clone();
    let end = usize::from(input.cuts[0]) % whole.len();
    let mut part = BytesMut::from(&whole[..end]);
    assert_eq!(take_frame(&mut part), Ok(None), "{end} bytes");
    assert_eq!(part.len(), end, "what is no whole frame stays");
    buffer.extend_from_slice(input.stream);
    let frame = Frame { transaction: input.transaction, unit_id: input.unit_id, pdu: pdu.to_vec().into() };
    assert_eq!(take_frame(&mut buffer), Ok(Some(frame)));
    assert_eq!(buffer.as_ref(), input.stream);
}
