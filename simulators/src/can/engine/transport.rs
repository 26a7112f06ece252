//! Messages of more than 8 bytes to all: the broadcast of SAE J1939-21.
//!
//! Owns the packets and the pause between them; knows nothing of what they hold.

use std::{collections::VecDeque, time::Duration};

use super::message::{GLOBAL, broadcast};
use crate::can::frame::Frame;

/// Announcement of a message.
pub const ANNOUNCE: u32 = 0xEC00;
/// A packet of it.
pub const PACKET: u32 = 0xEB00;

/// Between two packets, 50 to 200 ms.
const PAUSE: Duration = Duration::from_millis(50);
/// Control byte of an announcement to all.
const BROADCAST: u8 = 32;
/// Bytes of a packet.
const SIZE: usize = 7;
/// The longest message, 255 packets.
pub(super) const LONGEST: usize = 1785;
/// Messages that may wait; there are no more kinds of them.
const WAITING: usize = 4;

/// What is being sent, one message after the other, as a node may send only one at a time.
#[derive(Debug, Clone, Default)]
pub(super) struct Transport {
    waiting: VecDeque<(u32, Vec<u8>)>,
    packets: VecDeque<[u8; 8]>,
    /// Parameter group of the message on its way.
    current: Option<u32>,
    pause: Duration,
}

impl Transport {
    /// Sends it after the others; one of the same parameter group that waits still is replaced.
    pub(super) fn send(&mut self, pgn: u32, mut bytes: Vec<u8>) {
        bytes.truncate(LONGEST);
        if let Some((_, waiting)) = self.waiting.iter_mut().find(|(waiting, _)| *waiting == pgn) {
            *waiting = bytes;
        } else if self.waiting.len() < WAITING {
            self.waiting.push_back((pgn, bytes));
        }
    }

    /// Whether a message of this parameter group is on its way or waits.
    pub(super) fn has(&self, pgn: u32) -> bool {
        self.current == Some(pgn) || self.waiting.iter().any(|(waiting, _)| *waiting == pgn)
    }

    /// Lets `passed` pass; at most one frame is due.
    pub(super) fn advance(&mut self, passed: Duration, source: u8) -> Option<Frame> {
        self.pause = self.pause.saturating_sub(passed);
        if !self.pause.is_zero() {
            return None;
        }
        if let Some(packet) = self.packets.pop_front() {
            self.pause = PAUSE;
            return Some(broadcast(7, PACKET | u32::from(GLOBAL), source, packet));
        }
        self.current = None;
        let (pgn, bytes) = self.waiting.pop_front()?;
        self.current = Some(pgn);
        self.packets = packets(&bytes);
        self.pause = PAUSE;
        let [low, high] = u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_le_bytes();
        let count = u8::try_from(self.packets.len()).unwrap_or(u8::MAX);
        let [a, b, c, _] = pgn.to_le_bytes();
        let bytes = [BROADCAST, low, high, count, 0xFF, a, b, c];
        Some(broadcast(7, ANNOUNCE | u32::from(GLOBAL), source, bytes))
    }
}

/// Numbered from 1, the last one filled up.
fn packets(bytes: &[u8]) -> VecDeque<[u8; 8]> {
    let packet = |(number, chunk): (u8, &[u8])| {
        let mut packet = [0xFF; 8];
        packet.iter_mut().zip(std::iter::once(&number).chain(chunk)).for_each(|(to, from)| *to = *from);
        packet
    };
    (1..=u8::MAX).zip(bytes.chunks(SIZE)).map(packet).collect()
}
