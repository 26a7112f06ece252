//! Frames as slcan, socketcand and candump write them.
//!
//! A stream means the same however it is cut, and what is read of it is written and read again.

use arbitrary::Arbitrary;
use fieldbridge::codec::can::{Frame, candump, slcan, socketcand};

#[derive(Debug, PartialEq, Arbitrary)]
pub struct Input<'a> {
    pub kind: u8,
    /// Bytes of each piece, less one.
    pub cut: u8,
    pub data: &'a [u8],
}

pub fn check(input: &Input<'_>) {
    let size = usize::from(input.cut) + 1;
    match input.kind % 3 {
        0 => adapters(input.data, size),
        1 => servers(input.data, size),
        _ => logs(input.data),
    }
}

fn adapters(data: &[u8], size: usize) {
    let told = |size: usize| {
        let mut reader = slcan::Reader::new();
        let mut told = Vec::new();
        for piece in data.chunks(size) {
            reader.push(piece);
            told.extend(reader.by_ref());
        }
        told
    };
    let whole = told(data.len().max(1));
    assert_eq!(whole, told(size), "however it is cut");
    for told in whole {
        let slcan::Told::Frame(frame, _) = told else { continue };
        let mut bytes = Vec::new();
        assert!(slcan::put(&mut bytes, &frame), "{frame:?}");
        let mut reader = slcan::Reader::new();
        reader.push(&bytes);
        assert_eq!(reader.next(), Some(slcan::Told::Frame(frame, None)));
        assert_eq!(reader.next(), None);
    }
}

fn servers(data: &[u8], size: usize) {
    let told = |size: usize| {
        let mut reader = socketcand::Reader::new();
        let mut told = Vec::new();
        for piece in data.chunks(size) {
            reader.push(piece);
            told.extend(reader.by_ref());
        }
        // Garbage is told once a piece, so only what is none must be the same.
        told.retain(|told| !matches!(told, socketcand::Told::Garbled(_)));
        told
    };
    let whole = told(data.len().max(1));
    assert_eq!(whole, told(size), "however it is cut");
    for told in whole {
        if let socketcand::Told::Frame(frame @ Frame::Data(_), _) = told {
            assert!(socketcand::put(&mut Vec::new(), &frame), "{frame:?}");
        }
    }
}

fn logs(data: &[u8]) {
    for line in String::from_utf8_lossy(data).lines() {
        let Ok(Some(entry)) = candump::parse(line) else { continue };
        let time = entry.time.unwrap_or_default();
        let mut text = String::new();
        candump::write(&mut text, time, "can0", &entry.frame);
        let again = candump::parse(&text).expect("a line").expect("a frame");
        assert_eq!((again.frame, again.channel), (entry.frame, "can0"), "{text:?}");
        let micros = again.time.expect("a time").as_micros();
        assert_eq!(micros, time.as_micros());
    }
}
