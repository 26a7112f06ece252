//! Numbers that look drawn and are the same every time.

/// `SplitMix64`: the same numbers on every platform and with every version of every library.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Near to a normal distribution of mean 0 and deviation 1, never beyond ±3.5.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..4).map(|_| self.uniform() - 0.5).sum::<f64>() * 3.0_f64.sqrt()
    }

    /// From 0 to 1.
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let [a, b, c, d, ..] = (bits ^ (bits >> 31)).to_be_bytes();
        f64::from(u32::from_be_bytes([a, b, c, d])) / f64::from(u32::MAX)
    }
}
