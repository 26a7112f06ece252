//! Requests, and bytes that may answer them.

use arbitrary::Arbitrary;
use bytes::{Bytes, BytesMut};
use fieldbridge::codec::modbus::{Answer, Misfit, Unfit, decode_answer, encode_request};
use tokio_modbus::{ExceptionCode, Request, Response};

use crate::ask::Ask;

#[derive(Debug, PartialEq, Arbitrary)]
pub struct Input<'a> {
    pub ask: Ask,
    /// The byte of the right answer that is changed, and how.
    pub at: u8,
    pub flip: u8,
    /// Answers, and what the right one holds.
    pub bytes: &'a [u8],
}

pub fn check(input: &Input<'_>) {
    let request = input.ask.request();
    check_request(&input.ask, &request);
    check_answer(&input.ask, &request, input.bytes);
    // Deeper in: the first bytes are as they should be.
    let head = [&[input.ask.function], input.bytes].concat();
    check_answer(&input.ask, &request, &head);
    if !input.ask.is_fit() {
        return;
    }
    let owed = input.ask.owed(input.bytes);
    assert!(check_answer(&input.ask, &request, &owed), "the right answer is taken");
    let mut changed = owed.to_vec();
    let at = usize::from(input.at) % changed.len();
    changed[at] ^= input.flip;
    check_answer(&input.ask, &request, &changed);
    check_answer(&input.ask, &request, &changed[..at]);
    check_answer(&input.ask, &request, &[&owed, input.bytes].concat());
}

/// What fits is encoded so that a server reads it back; nothing of anything else is.
fn check_request(ask: &Ask, request: &Request<'static>) {
    let mut out = BytesMut::from(&b"before"[..]);
    match encode_request(request, &mut out) {
        Ok(()) => {
            assert!(ask.is_fit(), "{request:?}");
            let pdu = out.split_off(6).freeze();
            assert!(pdu.len() <= 253, "{} bytes", pdu.len());
            assert_eq!(&Request::try_from(pdu).expect("a server reads it"), request);
        }
        Err(Unfit::Function(function)) => {
            assert_eq!(function, ask.function);
            assert!(matches!(ask.function, 17 | 0x41));
        }
        Err(Unfit::Quantity { .. } | Unfit::Address { .. }) => assert!(!ask.is_fit(), "{request:?}"),
    }
    assert_eq!(out.as_ref(), b"before");
}

/// Whether `pdu` is taken as a response; if so, it is one to this request in every byte.
fn check_answer(ask: &Ask, request: &Request<'_>, pdu: &[u8]) -> bool {
    let function = pdu.first().copied();
    match decode_answer(request, &Bytes::copy_from_slice(pdu)) {
        Ok(Answer::Exception(code)) => {
            assert_eq!(pdu.len(), 2);
            assert_eq!(function, Some(ask.function | 0x80));
            assert_eq!(code, ExceptionCode::new(pdu[1]));
            false
        }
        Ok(Answer::Response(response)) => {
            assert_eq!(function, Some(ask.function));
            if !matches!(ask.function, 17 | 0x41) {
                assert_eq!(bytes(ask, &response, pdu), pdu);
            }
            true
        }
        Err(Misfit::Function { asked, got }) => {
            assert_eq!((asked, Some(got)), (ask.function, function));
            assert!(got != ask.function && got != ask.function | 0x80);
            false
        }
        Err(misfit) => {
            assert!(!misfit.to_string().is_empty());
            false
        }
    }
}

/// The PDU that holds `response`, where that is what `ask` asks for. Of bits that no one asked for `pdu` knows more.
fn bytes(ask: &Ask, response: &Response, pdu: &[u8]) -> Vec<u8> {
    let words = |words: &[u16]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let counted = |data: Vec<u8>| [vec![u8::try_from(data.len()).expect("one byte")], data].concat();
    let rest = match response {
        Response::ReadCoils(bits) | Response::ReadDiscreteInputs(bits) => {
            assert_eq!(bits.len(), usize::from(ask.quantity()));
            let mut data = vec![0; bits.len().div_ceil(8)];
            for (at, bit) in bits.iter().enumerate() {
                data[at / 8] |= u8::from(*bit) << (at % 8);
            }
            if let (Some(last), Some(got)) = (data.last_mut(), pdu.last()) {
                *last |= u8::try_from(u16::from(*got) & 0xFF << ((bits.len() - 1) % 8 + 1) & 0xFF)
                    .expect("a byte");
            }
            counted(data)
        }
        Response::ReadHoldingRegisters(data) | Response::ReadInputRegisters(data) => {
            assert_eq!(data.len(), usize::from(ask.quantity()));
            counted(words(data))
        }
        Response::WriteSingleCoil(address, on) => {
            assert_eq!(*on, ask.content[0] % 2 == 1);
            assert_eq!(*address, ask.address);
            words(&[*address, if *on { 0xFF00 } else { 0 }])
        }
        Response::WriteSingleRegister(address, word) => {
            assert_eq!([*address, *word], [ask.address, ask.content[0]]);
            words(&[*address, *word])
        }
        Response::WriteMultipleCoils(address, count) | Response::WriteMultipleRegisters(address, count) => {
            assert_eq!([*address, *count], [ask.address, ask.quantity()]);
            words(&[*address, *count])
        }
        Response::MaskWriteRegister(address, and, or) => {
            assert_eq!([*address, *and, *or], [ask.address, ask.content[0], ask.content[1]]);
            words(&[*address, *and, *or])
        }
        Response::ReadDeviceIdentification(answer) => {
            // Of this byte the library tells only whether it is 0xFF.
            let more = if answer.more_follows { 0xFF } else { pdu.get(4).copied().unwrap_or_default() };
            let objects = &answer.device_id_objects;
            let mut data = vec![
                0x0E,
                answer.read_code.value(),
                answer.conformity_level.value(),
                more,
                answer.next_object_id,
            ];
            data.push(u8::try_from(objects.len()).expect("one byte"));
            for object in objects {
                data.push(object.id);
                data.extend(counted(object.value.to_vec()));
            }
            data
        }
        other => panic!("{other:?} answers nothing that was asked"),
    };
    [vec![ask.function], rest].concat()
}
