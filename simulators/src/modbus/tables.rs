//! The four tables of one unit, sparse: what is not set does not exist.
//!
//! Knows addresses and values only, no requests.

use std::{collections::BTreeMap, ops::RangeInclusive};

/// One of the four tables of the Modbus data model (application protocol V1.1b3, section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    Coils,
    Discretes,
    Inputs,
    Holdings,
}

/// Coils, discrete inputs, input registers and holding registers of a unit, by zero-based wire address.
///
/// An address exists from the moment that it is set; values that would lie beyond 65535 are left out.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    pub(super) coils: Cells<bool>,
    pub(super) discretes: Cells<bool>,
    pub(super) inputs: Cells<u16>,
    pub(super) holdings: Cells<u16>,
}

impl Tables {
    /// Four empty tables.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets coils from `address` on; those that did not exist do so from now on.
    pub fn set_coils(&mut self, address: u16, values: &[bool]) {
        self.coils.set(address, values);
    }

    /// Sets discrete inputs from `address` on; those that did not exist do so from now on.
    pub fn set_discretes(&mut self, address: u16, values: &[bool]) {
        self.discretes.set(address, values);
    }

    /// Sets input registers from `address` on; those that did not exist do so from now on.
    pub fn set_inputs(&mut self, address: u16, values: &[u16]) {
        self.inputs.set(address, values);
    }

    /// Sets holding registers from `address` on; those that did not exist do so from now on.
    pub fn set_holdings(&mut self, address: u16, values: &[u16]) {
        self.holdings.set(address, values);
    }

    /// The coil at `address`, if it exists.
    #[must_use]
    pub fn coil(&self, address: u16) -> Option<bool> {
        self.coils.get(address)
    }

    /// The discrete input at `address`, if it exists.
    #[must_use]
    pub fn discrete(&self, address: u16) -> Option<bool> {
        self.discretes.get(address)
    }

    /// The input register at `address`, if it exists.
    #[must_use]
    pub fn input(&self, address: u16) -> Option<u16> {
        self.inputs.get(address)
    }

    /// The holding register at `address`, if it exists.
    #[must_use]
    pub fn holding(&self, address: u16) -> Option<u16> {
        self.holdings.get(address)
    }

    /// Makes a hole: the addresses of `range` no longer exist.
    pub fn remove(&mut self, table: Table, range: RangeInclusive<u16>) {
        match table {
            Table::Coils => self.coils.remove(&range),
            Table::Discretes => self.discretes.remove(&range),
            Table::Inputs => self.inputs.remove(&range),
            Table::Holdings => self.holdings.remove(&range),
        }
    }
}

/// One table.
#[derive(Debug, Clone)]
pub(super) struct Cells<T>(BTreeMap<u16, T>);

impl<T> Default for Cells<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Copy> Cells<T> {
    pub(super) fn get(&self, address: u16) -> Option<T> {
        self.0.get(&address).copied()
    }

    /// `quantity` values from `address` on; none if one of them does not exist.
    pub(super) fn read(&self, address: u16, quantity: u16) -> Option<Vec<T>> {
        let last = address.checked_add(quantity.checked_sub(1)?)?;
        let values: Vec<T> = self.0.range(address..=last).map(|(_, value)| *value).collect();
        (values.len() == usize::from(quantity)).then_some(values)
    }

    /// Writes all of `values` and says true, or none if one of the addresses does not exist.
    pub(super) fn write(&mut self, address: u16, values: &[T]) -> bool {
        let last = usize::from(address) + values.len().saturating_sub(1);
        let exists =
            u16::try_from(last).is_ok_and(|last| self.0.range(address..=last).count() == values.len());
        if exists {
            self.set(address, values);
        }
        exists
    }

    fn set(&mut self, address: u16, values: &[T]) {
        self.0.extend((address..=u16::MAX).zip(values.iter().copied()));
    }

    fn remove(&mut self, range: &RangeInclusive<u16>) {
        self.0.retain(|address, _| !range.contains(address));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_only_what_exists_as_a_whole() {
        let mut cells = Cells::default();
        cells.set(10, &[1_u16, 2, 3]);
        assert_eq!(cells.read(10, 3), Some(vec![1, 2, 3]));
        assert_eq!(cells.read(9, 2), None);
        assert_eq!(cells.read(12, 2), None);
        cells.remove(&(11..=11));
        assert_eq!(cells.read(10, 3), None);
        assert_eq!(cells.read(12, 1), Some(vec![3]));
    }

    #[test]
    fn writes_all_or_nothing() {
        let mut cells = Cells::default();
        cells.set(10, &[1_u16, 2]);
        assert!(!cells.write(11, &[7, 8]));
        assert_eq!(cells.get(11), Some(2));
        assert!(cells.write(10, &[7, 8]));
        assert_eq!(cells.read(10, 2), Some(vec![7, 8]));
    }

    #[test]
    fn ends_at_the_last_address() {
        let mut cells = Cells::default();
        cells.set(65_534, &[1_u16, 2, 3]);
        assert_eq!(cells.read(65_534, 2), Some(vec![1, 2]));
        assert_eq!(cells.read(65_534, 3), None);
        assert_eq!(cells.get(0), None);
        assert!(!cells.write(65_534, &[4, 5, 6]));
        assert!(cells.write(65_534, &[4, 5]));
    }
}
