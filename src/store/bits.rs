//! A growing set of small numbers.

#[derive(Debug, Clone, Default)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn insert(&mut self, number: u32) {
        let (word, bit) = place(number);
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        if let Some(word) = self.0.get_mut(word) {
            *word |= bit;
        }
    }

    pub(super) fn remove(&mut self, number: u32) {
        let (word, bit) = place(number);
        if let Some(word) = self.0.get_mut(word) {
            *word &= !bit;
        }
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        let (word, bit) = place(number);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Members in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0_u32..).step_by(64).zip(&self.0).flat_map(|(base, &word)| {
            std::iter::successors((word != 0).then_some(word), |rest| {
                let rest = rest & (rest - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |rest| base + rest.trailing_zeros())
        })
    }
}

fn place(number: u32) -> (usize, u64) {
    (usize::try_from(number / 64).unwrap_or(usize::MAX), 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use super::Bits;

    #[test]
    fn holds_what_was_inserted() {
        let mut bits = Bits::default();
        for number in [0, 63, 64, 1000] {
            bits.insert(number);
        }
        bits.remove(64);
        bits.remove(5000);
        assert_eq!(bits.iter().collect::<Vec<_>>(), [0, 63, 1000]);
        assert!(bits.contains(63) && !bits.contains(64) && !bits.contains(5000));
    }
}
