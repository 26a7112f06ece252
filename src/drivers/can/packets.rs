//! J1939 messages of several packets, announced to all (SAE J1939-21, section 5.10.3, BAM).

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use crate::codec::can::j1939::{GLOBAL, Header};

/// Parameter groups that carry the packets of others.
const CONNECTION: u32 = 0xEC00;
const TRANSFER: u32 = 0xEB00;
/// The control byte of a broadcast announce message.
const ANNOUNCE: u8 = 32;
/// Bytes of the longest message.
const LONGEST: usize = 1785;
/// Longest pause between two packets (T1).
const PAUSE: Duration = Duration::from_millis(750);

/// Messages that are on their way, by who sends them: one a sender.
#[derive(Debug, Default)]
pub(super) struct Packets(HashMap<u8, Transfer>);

#[derive(Debug)]
struct Transfer {
    pgn: u32,
    size: usize,
    packets: u8,
    payload: Vec<u8>,
    /// Number of the next packet, from 1.
    next: u8,
    last: Instant,
}

/// What a frame of several means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It carries no packets.
    Other,
    /// More is to come, or it is for somebody else.
    Taken,
    /// A message is whole: its parameter group and payload.
    Whole(u32, Vec<u8>),
    /// A message that was on its way is lost.
    Broken,
}

impl Packets {
    /// Takes a frame.
    pub(super) fn take(&mut self, header: Header, payload: &[u8], now: Instant) -> Step {
        match (header.pgn, header.destination) {
            (CONNECTION, Some(GLOBAL)) => self.announce(header.source, payload, now),
            (TRANSFER, Some(GLOBAL)) => self.packet(header.source, payload, now),
            (CONNECTION | TRANSFER, _) => Step::Taken,
            _ => Step::Other,
        }
    }

    fn announce(&mut self, source: u8, payload: &[u8], now: Instant) -> Step {
        let &[ANNOUNCE, low, high, packets, _, pgn0, pgn1, pgn2] = payload else { return Step::Taken };
        let size = usize::from(u16::from_le_bytes([low, high]));
        let broken = self.0.remove(&source).is_some();
        if !(9..=LONGEST).contains(&size) || usize::from(packets) != size.div_ceil(7) {
            return Step::Broken;
        }
        let pgn = u32::from_le_bytes([pgn0, pgn1, pgn2, 0]);
        let payload = Vec::with_capacity(size);
        self.0.insert(source, Transfer { pgn, size, packets, payload, next: 1, last: now });
        if broken { Step::Broken } else { Step::Taken }
    }

    fn packet(&mut self, source: u8, payload: &[u8], now: Instant) -> Step {
        let Some(transfer) = self.0.get_mut(&source) else { return Step::Taken };
        let [number, data @ ..] = payload else { return Step::Taken };
        if *number != transfer.next || data.len() != 7 || now.duration_since(transfer.last) > PAUSE {
            self.0.remove(&source);
            return Step::Broken;
        }
        let rest = transfer.size - transfer.payload.len();
        transfer.payload.extend(data.iter().take(rest));
        (transfer.next, transfer.last) = (number.wrapping_add(1), now);
        if *number < transfer.packets {
            return Step::Taken;
        }
        match self.0.remove(&source) {
            Some(transfer) => Step::Whole(transfer.pgn, transfer.payload),
            None => Step::Broken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::can::Id;

    fn header(id: u32) -> Header {
        Id::extended(id).and_then(Header::of).unwrap_or(Header {
            pgn: 0,
            source: 0,
            destination: None,
            priority: 0,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn packets_make_a_message() {
        let (mut packets, now) = (Packets::default(), Instant::now());
        let announce = [32, 10, 0, 2, 0xFF, 0xCA, 0xFE, 0];
        assert_eq!(packets.take(header(0x18EC_FF21), &announce, now), Step::Taken);
        assert_eq!(packets.take(header(0x18EB_FF21), &[1, 1, 2, 3, 4, 5, 6, 7], now), Step::Taken);
        let last = packets.take(header(0x18EB_FF21), &[2, 8, 9, 10, 0xFF, 0xFF, 0xFF, 0xFF], now);
        assert_eq!(last, Step::Whole(0xFECA, (1..=10).collect()));
        assert_eq!(packets.take(header(0x18FE_CA21), &[0; 8], now), Step::Other);
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_lacks_a_packet_is_none() {
        let (mut packets, now) = (Packets::default(), Instant::now());
        let announce = [32, 20, 0, 3, 0xFF, 0xCA, 0xFE, 0];
        let packet = |number: u8| [number, 1, 2, 3, 4, 5, 6, 7];
        let (control, data) = (header(0x18EC_FF21), header(0x18EB_FF21));
        for (second, at) in [(3, now), (1, now), (2, now + PAUSE + Duration::from_millis(1))] {
            assert_eq!(packets.take(control, &announce, now), Step::Taken);
            assert_eq!(packets.take(data, &packet(1), now), Step::Taken);
            assert_eq!(packets.take(data, &packet(second), at), Step::Broken);
            assert_eq!(packets.take(data, &packet(3), at), Step::Taken, "nothing is on its way");
        }
        assert_eq!(packets.take(control, &announce, now), Step::Taken);
        assert_eq!(packets.take(control, &announce, now), Step::Broken, "a second one ends the first");
        assert_eq!(packets.take(control, &[32, 8, 0, 2, 0xFF, 0xCA, 0xFE, 0], now), Step::Broken);
        // Of two senders each has its own.
        assert_eq!(packets.take(control, &announce, now), Step::Taken);
        assert_eq!(packets.take(header(0x18EC_FF22), &announce, now), Step::Taken);
        for number in 1..=2 {
            assert_eq!(packets.take(data, &packet(number), now), Step::Taken);
        }
        assert!(
            matches!(packets.take(data, &packet(3), now), Step::Whole(0xFECA, payload) if payload.len() == 20)
        );
    }
}
