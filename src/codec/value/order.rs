//! Orders of bytes and words, and where in its registers the bits of a value lie.

use super::{Part, is_byte, registers};
use crate::model::Kind;

/// Order in which the bytes of a value arrive, as exchanges against the plain big-endian order.
///
/// The four names with letters for 32 bits hold for every width: `CDAB` turns the words of a value around, `BADC` the
/// bytes in each word, `DCBA` both. So 64-bit values are ABCDEFGH, GHEFCDAB, BADCFEHG, HGFEDCBA; with `words` or `dwords`
/// alone they are CDABGHEF and EFGHABCD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Order {
    /// The bytes of each word are exchanged.
    pub bytes: bool,
    /// The words of each double word are exchanged; of a 48-bit value the first and the last.
    pub words: bool,
    /// The double words of a 64-bit value are exchanged.
    pub dwords: bool,
}

/// Where the bits of one value lie in its registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) order: Order,
    /// Registers of one value.
    pub(super) width: u16,
    /// The bits of a register that it takes, moved down to the least significant ones.
    pub(super) mask: u16,
    /// How far they are moved.
    shift: u8,
}

impl Order {
    /// Plain Modbus.
    pub const ABCD: Self = Self { bytes: false, words: false, dwords: false };
    /// Words turned around.
    pub const CDAB: Self = Self { bytes: false, words: true, dwords: true };
    /// Bytes exchanged in each word.
    pub const BADC: Self = Self { bytes: true, words: false, dwords: false };
    /// Both.
    pub const DCBA: Self = Self { bytes: true, words: true, dwords: true };

    /// The order as far as it makes a difference to `kind`: one register has no order of words, and up to three
    /// registers have none of double words.
    #[must_use]
    pub fn of(self, kind: Kind) -> Self {
        match (kind, registers(kind)) {
            (Kind::Text, _) | (_, 1) => Self { bytes: self.bytes, words: false, dwords: false },
            (_, 2 | 3) => Self { dwords: self.words, ..self },
            _ => self,
        }
    }

    /// The name for values of `kind`, such as `CDAB`: letters name the bytes of the big-endian value.
    #[must_use]
    pub fn name(self, kind: Kind) -> &'static str {
        let [one, two, three, four] = match registers(kind) {
            1 => ["AB", "BA", "AB", "BA"],
            2 => ["ABCD", "BADC", "CDAB", "DCBA"],
            3 => ["ABCDEF", "BADCFE", "EFCDAB", "FEDCBA"],
            _ if self.dwords && self.words => ["", "", "GHEFCDAB", "HGFEDCBA"],
            _ if self.dwords => ["EFGHABCD", "FEHGBADC", "", ""],
            _ => ["ABCDEFGH", "BADCFEHG", "CDABGHEF", "DCBAHGFE"],
        };
        match (self.words, self.bytes) {
            (false, false) => one,
            (false, true) => two,
            (true, false) => three,
            (true, true) => four,
        }
    }

    /// The double word that two registers hold, the first one first.
    #[inline]
    pub(super) fn pair(self, first: u16, second: u16) -> u32 {
        let (high, low) = if self.words { (second, first) } else { (first, second) };
        u32::from(self.word(high)) << 16 | u32::from(self.word(low))
    }

    #[inline]
    pub(super) fn word(self, word: u16) -> u16 {
        if self.bytes { word.swap_bytes() } else { word }
    }

    /// Brings the words of one value from the order of the wire to the plain one, or back: each exchange is its own
    /// inverse.
    fn exchange(self, words: &mut [u16]) {
        match words {
            [a, b] if self.words => std::mem::swap(a, b),
            [a, _, c] if self.words => std::mem::swap(a, c),
            [a, b, c, d] => {
                if self.words {
                    std::mem::swap(a, b);
                    std::mem::swap(c, d);
                }
                if self.dwords {
                    std::mem::swap(a, c);
                    std::mem::swap(b, d);
                }
            }
            _ => {}
        }
        if self.bytes {
            for word in words {
                *word = word.swap_bytes();
            }
        }
    }
}

impl Layout {
    pub(super) fn new(kind: Kind, order: Order, part: Part) -> Self {
        let (shift, bits) = match part {
            Part::Whole | Part::Narrow(_) if is_byte(kind) => (0, 8),
            Part::Whole | Part::Narrow(_) => (0, 16),
            Part::Bit(bit) => (bit.min(15), 1),
            Part::Bits { low, high } => (low.min(15), high.min(15).saturating_sub(low) + 1),
            Part::High => (8, 8),
            Part::Low => (0, 8),
        };
        Self { order: order.of(kind), width: registers(kind), mask: u16::MAX >> (16 - bits), shift }
    }

    /// The bits of the value in `words`; `None` where these are not as many as it takes.
    pub(super) fn gather(self, words: &[u16]) -> Option<u64> {
        let Order { words: turned, dwords, .. } = self.order;
        let pair = |a: u16, b: u16| u64::from(self.order.pair(a, b));
        match words {
            _ if words.len() != usize::from(self.width) => None,
            [a] => Some(u64::from(self.order.word(*a) >> self.shift & self.mask)),
            [a, b] => Some(pair(*a, *b)),
            [a, b, c] => {
                let (first, last) = if turned { (*c, *a) } else { (*a, *c) };
                let word = |word: u16| u64::from(self.order.word(word));
                Some(word(first) << 32 | word(*b) << 16 | word(last))
            }
            [a, b, c, d] => {
                let (one, two) = (pair(*a, *b), pair(*c, *d));
                Some(if dwords { two << 32 | one } else { one << 32 | two })
            }
            _ => None,
        }
    }

    /// Appends the registers that hold the value's bits, where it takes whole ones.
    pub(super) fn scatter(self, bits: u64, words: &mut Vec<u16>) {
        let start = words.len();
        words.extend((0..self.width).rev().map(|at| low_word(bits >> (16 * at))));
        self.order.exchange(words.get_mut(start..).unwrap_or_default());
    }

    /// The mask of a part of a register and its bits there, as they are on the wire.
    pub(super) fn masked(self, bits: u64) -> (u16, u16) {
        let at = |bits: u16| self.order.word(bits << self.shift);
        (at(self.mask), at(low_word(bits) & self.mask))
    }
}

pub(super) fn low_word(bits: u64) -> u16 {
    u16::try_from(bits & 0xFFFF).unwrap_or_default()
}
