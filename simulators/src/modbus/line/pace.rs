//! How fast bytes go over a serial line, by the clock of its own.
//!
//! Pure over instants that it is told: knows no thread and no port.

use std::time::{Duration, Instant};

/// Bytes are handed over in portions of about so long: each at the time of its last byte.
const PORTION: Duration = Duration::from_millis(4);

/// The speed of a line and of the devices on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Bits a second; 0 is no pace at all.
    pub baud: u32,
    /// Bits of a character with start, parity and stop bits.
    pub bits: u32,
    /// From the end of a request to the start of its answer.
    pub turnaround: Duration,
}

impl Pace {
    /// Everything at once.
    #[must_use]
    pub const fn none() -> Self {
        Self { baud: 0, bits: 11, turnaround: Duration::ZERO }
    }

    /// Characters of 11 bits, as Modbus asks for, and devices that answer after 5 ms.
    #[must_use]
    pub const fn baud(baud: u32) -> Self {
        Self { baud, bits: 11, turnaround: Duration::from_millis(5) }
    }

    /// Devices that answer after so long.
    #[must_use]
    pub const fn turnaround(self, turnaround: Duration) -> Self {
        Self { turnaround, ..self }
    }

    /// How long so many characters take.
    #[must_use]
    pub fn time(&self, characters: usize) -> Duration {
        if self.baud == 0 {
            return Duration::ZERO;
        }
        let bits = u64::try_from(characters).unwrap_or(u64::MAX).saturating_mul(u64::from(self.bits));
        Duration::from_nanos(bits.saturating_mul(1_000_000_000) / u64::from(self.baud))
    }

    /// When each portion of `bytes` has left, if the first one starts at `start`.
    pub(super) fn portions(&self, start: Instant, bytes: &[u8]) -> Vec<(Instant, Vec<u8>)> {
        let one = self.time(1);
        let size = if one.is_zero() { bytes.len() } else { portion(one) };
        let ends = (1..).map(|count| start + self.time((count * size).min(bytes.len())));
        ends.zip(bytes.chunks(size.max(1)).map(<[u8]>::to_vec)).collect()
    }
}

fn portion(character: Duration) -> usize {
    usize::try_from(PORTION.as_nanos() / character.as_nanos().max(1)).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_has_eleven_bits() {
        // 8 characters of 11 bits at 19200 baud.
        assert_eq!(Pace::baud(19_200).time(8), Duration::from_nanos(4_583_333));
        assert_eq!(Pace::baud(9_600).time(256), Duration::from_nanos(293_333_333));
        assert_eq!(Pace::none().time(256), Duration::ZERO);
    }

    #[test]
    fn portions_hold_all_bytes_and_none_is_early() {
        let start = Instant::now();
        let bytes: Vec<u8> = (0..=255).collect();
        for baud in [300, 9_600, 19_200, 115_200] {
            let pace = Pace::baud(baud);
            let portions = pace.portions(start, &bytes);
            let mut passed = 0;
            for (due, portion) in &portions {
                passed += portion.len();
                assert_eq!(*due, start + pace.time(passed), "{baud} baud after {passed} bytes");
            }
            assert_eq!(portions.into_iter().flat_map(|(_, portion)| portion).collect::<Vec<_>>(), bytes);
        }
        assert_eq!(Pace::none().portions(start, &bytes), [(start, bytes)]);
    }
}
