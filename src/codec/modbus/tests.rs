#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use serde_json::Value as Json;
use tokio_modbus::{ExceptionCode, Request, Response};

use super::*;

fn hex(text: &str) -> Vec<u8> {
    assert_eq!(text.len() % 2, 0, "{text}");
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(text.get(at..at + 2).unwrap(), 16).unwrap())
        .collect()
}

fn pdu(request: &Request<'_>) -> Vec<u8> {
    let mut out = BytesMut::new();
    encode_request(request, &mut out).unwrap();
    out.to_vec()
}

fn answer(request: &Request<'_>, bytes: &str) -> Result<Answer, Misfit> {
    decode_answer(request, &Bytes::from(hex(bytes)))
}

fn cases() -> Json {
    serde_json::from_str(include_str!("../../../tests/cases/cases.json")).unwrap()
}

fn steps(id: &str) -> Vec<Json> {
    let cases = cases();
    let case =
        cases.get("cases").unwrap().as_array().unwrap().iter().find(|case| case.get("id").unwrap() == id);
    case.unwrap().get("steps").unwrap().as_array().unwrap().clone()
}

fn text<'a>(json: &'a Json, key: &str) -> &'a str {
    json.get(key).unwrap().as_str().unwrap()
}

/// Feeds segments as they arrive; all frames, or the error that ended the stream.
fn frames(segments: &[Vec<u8>]) -> Result<Vec<Frame>, StreamError> {
    let (mut buffer, mut frames) = (BytesMut::new(), Vec::new());
    for segment in segments {
        buffer.extend_from_slice(segment);
        while let Some(frame) = take_frame(&mut buffer)? {
            frames.push(frame);
        }
    }
    Ok(frames)
}

#[test]
fn requests_of_a05() {
    let cases = cases();
    let vectors = cases.get("vectors").unwrap().as_array().unwrap();
    let requests: Vec<_> = vectors
        .iter()
        .filter(|vector| vector.get("case").unwrap() == "A05" && vector.get("op").unwrap() == "request")
        .collect();
    assert_eq!(requests.len(), 4);
    for vector in requests {
        let count = u16::try_from(vector.get("count").unwrap().as_u64().unwrap()).unwrap();
        let notation = text(vector, "notation");
        let address: u16 = notation.get(1..).unwrap().parse::<u16>().unwrap() - 1;
        let request = match notation.as_bytes().first().unwrap() {
            b'0' => Request::ReadCoils(address, count),
            b'1' => Request::ReadDiscreteInputs(address, count),
            b'3' => Request::ReadInputRegisters(address, count),
            _ => Request::ReadHoldingRegisters(address, count),
        };
        let pdu = pdu(&request);
        assert_eq!(pdu, hex(text(vector, "expected_pdu")));
        let unit = u8::try_from(vector.get("unit").unwrap().as_u64().unwrap()).unwrap();
        let mut frame = BytesMut::new();
        put_frame(1, unit, &pdu, &mut frame);
        assert_eq!(frame.as_ref(), hex(text(vector, "expected_tcp")));
    }
}

#[test]
fn frames_of_a15() {
    let steps = steps("A15");
    assert_eq!(steps.len(), 9);
    let request = Request::ReadHoldingRegisters(0, 4);
    for step in steps {
        let name = text(&step, "name");
        let segments = step.get("server_sends_segments").unwrap().as_array().unwrap();
        let segments: Vec<_> = segments.iter().map(|segment| hex(segment.as_str().unwrap())).collect();
        match name {
            "protocol id 1" => assert_eq!(frames(&segments), Err(StreamError::Protocol(1))),
            "length 0" => assert_eq!(frames(&segments), Err(StreamError::Length(0))),
            "length 65535" => {
                assert_eq!(frames(&segments), Err(StreamError::Length(65535)));
                // At once: nothing after the header is waited for.
                let header = vec![hex("00210000FFFF")];
                assert_eq!(frames(&header), Err(StreamError::Length(65535)));
            }
            "HTTP server on the port" => assert_eq!(frames(&segments), Err(StreamError::Http)),
            "first half, then close" => assert_eq!(frames(&segments), Ok(Vec::new())),
            _ => {
                let frames = frames(&segments).unwrap();
                assert_eq!(frames.len(), 1, "{name}");
                let frame = frames.first().unwrap();
                assert_eq!((frame.transaction, frame.unit_id), (0x21, 1), "{name}");
                let expected = vec![0x0102, 0x0304, 0x0506, 0x0708];
                assert_eq!(
                    decode_answer(&request, &frame.pdu),
                    Ok(Answer::Response(Response::ReadHoldingRegisters(expected))),
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn every_request_in_bytes() {
    // Modbus Application Protocol V1.1b3, the examples of sections 6.1 to 6.6, 6.11 and 6.12.
    let coils = [true, false, true, true, false, false, true, true, true, false];
    for (request, expected) in [
        (Request::ReadCoils(0x13, 0x13), "0100130013"),
        (Request::ReadDiscreteInputs(0xC4, 0x16), "0200C40016"),
        (Request::ReadHoldingRegisters(0x6B, 3), "03006B0003"),
        (Request::ReadInputRegisters(8, 1), "0400080001"),
        (Request::WriteSingleCoil(0xAC, true), "0500ACFF00"),
        (Request::WriteSingleCoil(0xAC, false), "0500AC0000"),
        (Request::WriteSingleRegister(1, 3), "0600010003"),
        (Request::WriteMultipleCoils(0x13, Cow::Borrowed(&coils)), "0F0013000A02CD01"),
        (Request::WriteMultipleRegisters(1, Cow::Borrowed(&[0x0A, 0x0102])), "100001000204000A0102"),
        // A17, steps 1 and 6.
        (Request::WriteMultipleRegisters(0x190, Cow::Borrowed(&[0xD7])), "10019000010200D7"),
        (Request::WriteSingleRegister(0x190, 61680), "060190F0F0"),
    ] {
        assert_eq!(pdu(&request), hex(expected), "{request:?}");
        let back = Request::try_from(Bytes::from(hex(expected))).unwrap();
        assert_eq!(back, request);
    }
}

#[test]
fn unfit_requests_are_not_encoded() {
    let mut out = BytesMut::new();
    for request in [
        Request::ReadHoldingRegisters(0, 0),
        Request::ReadHoldingRegisters(0, 126),
        Request::ReadCoils(0, 2001),
        Request::ReadHoldingRegisters(0xFFFF, 2),
        Request::WriteMultipleRegisters(0, Cow::Owned(vec![0; 124])),
        Request::WriteMultipleRegisters(0, Cow::Owned(Vec::new())),
        Request::WriteMultipleCoils(0, Cow::Owned(vec![false; 1969])),
        Request::ReportServerId,
    ] {
        encode_request(&request, &mut out).unwrap_err();
        assert!(out.is_empty(), "{request:?}");
    }
    assert_eq!(pdu(&Request::ReadHoldingRegisters(0xFFFF, 1)), hex("03FFFF0001"));
}

#[test]
fn answers_must_fit_the_request() {
    let read = Request::ReadHoldingRegisters(0, 2);
    assert_eq!(
        answer(&read, "030400010002"),
        Ok(Answer::Response(Response::ReadHoldingRegisters(vec![1, 2])))
    );
    assert_eq!(answer(&read, "03020001"), Err(Misfit::ByteCount { expected: 4, got: 2 }), "fewer");
    assert_eq!(answer(&read, "0306000100020003"), Err(Misfit::ByteCount { expected: 4, got: 6 }), "more");
    assert_eq!(answer(&read, "0304000100"), Err(Misfit::Size { expected: 6, got: 5 }), "cut");
    assert_eq!(answer(&read, "03040001000200"), Err(Misfit::Size { expected: 6, got: 7 }), "too long");
    assert_eq!(answer(&read, "03"), Err(Misfit::Size { expected: 6, got: 1 }));
    assert_eq!(answer(&read, "040400010002"), Err(Misfit::Function { asked: 3, got: 4 }));
    assert_eq!(answer(&read, "8402"), Err(Misfit::Function { asked: 3, got: 0x84 }));
    let bits = Request::ReadCoils(0, 3);
    assert_eq!(answer(&bits, "01010D"), Ok(Answer::Response(Response::ReadCoils(vec![true, false, true]))));
    assert_eq!(answer(&bits, "01020D00"), Err(Misfit::ByteCount { expected: 1, got: 2 }));
}

#[test]
fn echoes_must_be_what_was_sent() {
    let write = Request::WriteSingleRegister(0x190, 0xD7);
    assert_eq!(
        answer(&write, "06019000D7"),
        Ok(Answer::Response(Response::WriteSingleRegister(0x190, 0xD7)))
    );
    assert_eq!(
        answer(&write, "06019000D6").unwrap_err().to_string(),
        "the device echoed 0x00D6 at address 400 where 0x00D7 at address 400 was sent"
    );
    answer(&write, "06019100D7").unwrap_err();
    answer(&write, "06019000").unwrap_err();
    let write = Request::WriteSingleCoil(1, true);
    assert_eq!(answer(&write, "050001FF00"), Ok(Answer::Response(Response::WriteSingleCoil(1, true))));
    answer(&write, "0500010000").unwrap_err();
    answer(&write, "0500010001").unwrap_err();
    let write = Request::WriteMultipleRegisters(1, Cow::Borrowed(&[1, 2]));
    assert_eq!(answer(&write, "1000010002"), Ok(Answer::Response(Response::WriteMultipleRegisters(1, 2))));
    answer(&write, "1000010001").unwrap_err();
    let write = Request::WriteMultipleCoils(1, Cow::Borrowed(&[true, false]));
    assert_eq!(answer(&write, "0F00010002"), Ok(Answer::Response(Response::WriteMultipleCoils(1, 2))));
    answer(&write, "0F00020002").unwrap_err();
}

#[test]
fn exceptions_of_every_code() {
    let read = Request::ReadHoldingRegisters(0, 2);
    assert_eq!(answer(&read, "8302"), Ok(Answer::Exception(ExceptionCode::IllegalDataAddress)));
    assert_eq!(answer(&read, "83C8"), Ok(Answer::Exception(ExceptionCode::Custom(0xC8))));
    assert_eq!(answer(&read, "83"), Err(Misfit::Size { expected: 2, got: 1 }));
    assert_eq!(answer(&read, "830200"), Err(Misfit::Size { expected: 2, got: 3 }));
    assert_eq!(exception_text(ExceptionCode::IllegalDataAddress), "exception 0x02 (illegal data address)");
    assert_eq!(exception_text(ExceptionCode::Custom(0xC8)), "exception 0xC8 (not in the specification)");
}

fn any_request() -> impl Strategy<Value = Request<'static>> {
    let word = any::<u16>;
    prop_oneof![
        (word(), 1_u16..=2000).prop_map(|(at, count)| Request::ReadCoils(at, count)),
        (word(), 1_u16..=2000).prop_map(|(at, count)| Request::ReadDiscreteInputs(at, count)),
        (word(), 1_u16..=125).prop_map(|(at, count)| Request::ReadHoldingRegisters(at, count)),
        (word(), 1_u16..=125).prop_map(|(at, count)| Request::ReadInputRegisters(at, count)),
        (word(), any::<bool>()).prop_map(|(at, on)| Request::WriteSingleCoil(at, on)),
        (word(), word()).prop_map(|(at, value)| Request::WriteSingleRegister(at, value)),
        (word(), proptest::collection::vec(any::<bool>(), 1..=1968))
            .prop_map(|(at, coils)| Request::WriteMultipleCoils(at, coils.into())),
        (word(), proptest::collection::vec(word(), 1..=123))
            .prop_map(|(at, words)| Request::WriteMultipleRegisters(at, words.into())),
    ]
}

proptest! {
    #[test]
    fn requests_read_back_by_the_library(request in any_request()) {
        let mut out = BytesMut::new();
        if encode_request(&request, &mut out).is_ok() {
            prop_assert!(out.len() <= 253);
            prop_assert_eq!(Request::try_from(out.freeze()).unwrap(), request);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        request in any_request(),
        bytes in proptest::collection::vec(any::<u8>(), 0..260),
        matching in any::<bool>(),
    ) {
        let mut bytes = bytes;
        if let (true, Some(first)) = (matching, bytes.first_mut()) {
            *first = request.function_code().value();
        }
        if let Ok(Answer::Response(response)) = decode_answer(&request, &Bytes::from(bytes)) {
            prop_assert_eq!(response.function_code(), request.function_code());
            let count = match (&response, &request) {
                (Response::ReadHoldingRegisters(got), Request::ReadHoldingRegisters(_, asked))
                | (Response::ReadInputRegisters(got), Request::ReadInputRegisters(_, asked)) => Some((got.len(), *asked)),
                (Response::ReadCoils(got), Request::ReadCoils(_, asked))
                | (Response::ReadDiscreteInputs(got), Request::ReadDiscreteInputs(_, asked)) => Some((got.len(), *asked)),
                _ => None,
            };
            if let Some((got, asked)) = count {
                prop_assert_eq!(got, usize::from(asked));
            }
        }
    }

    #[test]
    fn arbitrary_streams_never_panic(segments in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..8)) {
        drop(frames(&segments));
    }

    #[test]
    fn frames_survive_any_cut(
        sent in proptest::collection::vec((any::<u16>(), any::<u8>(), proptest::collection::vec(any::<u8>(), 1..=253)), 1..5),
        cuts in proptest::collection::vec(1_usize..300, 1..20),
    ) {
        let mut stream = BytesMut::new();
        for (transaction, unit_id, pdu) in &sent {
            put_frame(*transaction, *unit_id, pdu, &mut stream);
        }
        let (mut rest, mut segments, mut cuts) = (stream.to_vec(), Vec::new(), cuts.into_iter().cycle());
        while !rest.is_empty() {
            let tail = rest.split_off(cuts.next().unwrap().min(rest.len()));
            segments.push(std::mem::replace(&mut rest, tail));
        }
        let expected: Vec<_> = sent
            .into_iter()
            .map(|(transaction, unit_id, pdu)| Frame { transaction, unit_id, pdu: pdu.into() })
            .collect();
        prop_assert_eq!(frames(&segments), Ok(expected));
    }
}
