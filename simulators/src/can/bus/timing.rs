//! How long frames are on the wire.
//!
//! Pure over frames and bit rates: ISO 11898-1 for the fields, an average for the stuff bits.

use std::time::Duration;

use crate::can::frame::{Frame, Kind};

/// Bits around the data of a classic frame, from its start to the end of the space behind it.
const CLASSIC: u64 = 47;
/// What an identifier of 29 bits adds.
const EXTENDED: u64 = 20;
/// Bits of a classic frame that are not stuffed: delimiters, acknowledgement, end and space.
const PLAIN: u64 = 13;
/// One stuff bit in so many. Random data need one in 31, and long runs of zeros one in 5.
const STUFFED: u64 = 16;
/// Bits of a CAN FD frame that are always sent at the nominal bit rate.
const NOMINAL: u64 = 30;
/// Bits of a CAN FD frame around its data that follow the switch: ESI, DLC, stuff count and their fixed stuff bits.
const SWITCHED: u64 = 10;
/// An error flag, its echo, its delimiter and the space behind it.
const ERROR: u64 = 23;

/// Bit rates of a bus in bit/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) nominal: u32,
    pub(super) data: u32,
}

/// Bits at the nominal bit rate, and bits at the data bit rate.
pub(super) fn bits(frame: &Frame) -> (u64, u64) {
    let bytes = u64::try_from(frame.bytes.len()).unwrap_or(u64::MAX);
    let extended = if frame.extended { EXTENDED } else { 0 };
    match (frame.kind, frame.fd) {
        (Kind::Error { .. }, _) => (ERROR, 0),
        (_, None) => {
            let bits = CLASSIC + extended + 8 * bytes;
            (bits + (bits - PLAIN) / STUFFED, 0)
        }
        (_, Some(fd)) => {
            // The check sum has a fixed stuff bit before every fourth bit.
            let check = if bytes > 16 { 21 + 6 } else { 17 + 5 };
            let switched = SWITCHED + 8 * bytes + 8 * bytes / STUFFED + check;
            let nominal = NOMINAL + extended;
            if fd.brs { (nominal, switched) } else { (nominal + switched, 0) }
        }
    }
}

impl Rate {
    pub(super) fn time(self, frame: &Frame) -> Duration {
        let (nominal, data) = bits(frame);
        let time = |bits: u64, rate: u32| bits.saturating_mul(1_000_000_000) / u64::from(rate.max(1));
        Duration::from_nanos(time(nominal, self.nominal) + time(data, self.data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::can::frame::Fd;

    #[test]
    fn frames_take_the_time_of_their_fields() {
        let rate = Rate { nominal: 500_000, data: 2_000_000 };
        // 111 bits and 98 / 16 stuff bits of 2 µs.
        assert_eq!(rate.time(&Frame::standard(1, [0; 8])), Duration::from_micros(2 * (111 + 6)));
        assert_eq!(rate.time(&Frame::extended(1, [])), Duration::from_micros(2 * (67 + 3)));
        let fast = Frame::full(1, [0; 64], Fd { brs: true, esi: false });
        assert_eq!(rate.time(&fast), Duration::from_nanos(30 * 2_000 + (10 + 512 + 32 + 27) * 500));
        let slow = Frame::full(1, [0; 64], Fd::default());
        assert_eq!(rate.time(&slow), Duration::from_micros((30 + 10 + 512 + 32 + 27) * 2));
    }
}
