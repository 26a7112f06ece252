//! Where the bits of a signal lie in a payload.

/// Order of the bytes of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first, as Intel's; DBC files write `@1`.
    Intel,
    /// Most significant byte first, as Motorola's; DBC files write `@0`.
    Motorola,
}

/// 1 to 64 bits of a payload.
///
/// Bits are counted as in DBC files: bit 0 is the least significant of byte 0, bit 8 that of byte 1. `start` is the least
/// significant bit of an Intel signal, and the most significant one of a Motorola signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    start: u16,
    length: u8,
    order: ByteOrder,
    /// The first byte that holds bits of it.
    first: u16,
    /// How many bytes hold bits of it: 1 to 9.
    bytes: u8,
    /// Bits below the least significant one in the number that the bytes make.
    shift: u8,
}

impl Place {
    /// `None` for a length that is not 1 to 64 bits.
    #[must_use]
    pub fn new(start: u16, length: u8, order: ByteOrder) -> Option<Self> {
        if !(1..=64).contains(&length) {
            return None;
        }
        let first = start / 8;
        let bit = u8::try_from(start % 8).ok()?;
        // Bits before the signal in the direction in which it grows.
        let before = match order {
            ByteOrder::Intel => bit,
            ByteOrder::Motorola => 7 - bit,
        };
        let bytes = (before + length).div_ceil(8);
        let shift = match order {
            ByteOrder::Intel => bit,
            ByteOrder::Motorola => bytes * 8 - before - length,
        };
        Some(Self { start, length, order, first, bytes, shift })
    }

    #[must_use]
    pub fn start(self) -> u16 {
        self.start
    }

    /// How many bits it takes.
    #[must_use]
    pub fn length(self) -> u8 {
        self.length
    }

    #[must_use]
    pub fn order(self) -> ByteOrder {
        self.order
    }

    /// How many bytes a payload must have to hold all of it.
    #[must_use]
    pub fn end(self) -> usize {
        usize::from(self.first) + usize::from(self.bytes)
    }

    /// The bits, the least significant one lowest; `None` where the payload is too short.
    #[must_use]
    #[inline]
    pub fn read(self, payload: &[u8]) -> Option<u64> {
        let bytes = payload.get(self.first.into()..self.end())?;
        let bits = if let Some(bits) = self.read_word(payload) {
            bits
        } else {
            let join = |number, byte: &u8| number << 8 | u128::from(*byte);
            let number = match self.order {
                ByteOrder::Intel => bytes.iter().rev().fold(0, join),
                ByteOrder::Motorola => bytes.iter().fold(0, join),
            };
            u64::try_from(number >> self.shift & u128::from(self.mask())).ok()?
        };
        Some(bits & self.mask())
    }

    /// The bits, and others above them, where eight bytes that the payload has hold all of them.
    #[inline]
    fn read_word(self, payload: &[u8]) -> Option<u64> {
        let from = usize::from(self.first).min(payload.len().checked_sub(8)?);
        let word = *payload.get(from..)?.first_chunk::<8>()?;
        let (before, behind) = (usize::from(self.first) - from, (from + 8).checked_sub(self.end())?);
        let (word, bytes) = match self.order {
            ByteOrder::Intel => (u64::from_le_bytes(word), before),
            ByteOrder::Motorola => (u64::from_be_bytes(word), behind),
        };
        Some(word >> (8 * bytes + usize::from(self.shift)))
    }

    /// Puts the low bits of `bits` there and leaves all others as they are; `false` where the payload is too short.
    #[must_use]
    pub fn write(self, payload: &mut [u8], bits: u64) -> bool {
        let end = self.end();
        let Some(bytes) = payload.get_mut(self.first.into()..end) else { return false };
        let mask = u128::from(self.mask()) << self.shift;
        let bits = u128::from(bits & self.mask()) << self.shift;
        let put = |(place, byte): (usize, &mut u8)| {
            let part = |number: u128| number.to_le_bytes().get(place).copied().unwrap_or_default();
            *byte = *byte & !part(mask) | part(bits);
        };
        match self.order {
            ByteOrder::Intel => bytes.iter_mut().enumerate().for_each(put),
            ByteOrder::Motorola => bytes.iter_mut().rev().enumerate().for_each(put),
        }
        true
    }

    /// The bytes in which it has bits, each with the mask of these bits there.
    pub fn masks(self) -> impl Iterator<Item = (usize, u8)> {
        let mask = (u128::from(self.mask()) << self.shift).to_le_bytes();
        let bytes = usize::from(self.bytes);
        (0..bytes).map(move |place| {
            let from = if self.order == ByteOrder::Intel { place } else { bytes - 1 - place };
            (usize::from(self.first) + place, mask.get(from).copied().unwrap_or_default())
        })
    }

    /// Whether some bit is of both.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.masks().any(|(byte, mask)| other.masks().any(|(at, bits)| at == byte && bits & mask != 0))
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.length)
    }
}
