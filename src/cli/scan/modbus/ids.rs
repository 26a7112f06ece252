//! Lists of unit ids, tables and addresses, as they are written in arguments.

use crate::profile::modbus::Table;

/// Unit ids, in order, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Units(pub Vec<u8>);

/// First and last address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses(pub (u16, u16));

/// Why an argument is no list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ListError {
    #[error("allowed are unit ids from 0 to 255 and ranges of them, such as 1-10,17,255")]
    Units,
    #[error("allowed are coil, discrete, input and holding")]
    Table,
    #[error("allowed is a range of 0 to 65535, such as 0-999")]
    Addresses,
}

pub(super) fn units(text: &str) -> Result<Units, ListError> {
    let mut units = Vec::new();
    for part in text.split(',') {
        let (first, last) = range::<u8>(part).ok_or(ListError::Units)?;
        units.extend(first..=last);
    }
    units.sort_unstable();
    units.dedup();
    Ok(Units(units))
}

pub(super) fn addresses(text: &str) -> Result<Addresses, ListError> {
    range(text).map(Addresses).ok_or(ListError::Addresses)
}

pub(super) fn table(text: &str) -> Result<Table, ListError> {
    let tables = [Table::Coil, Table::Discrete, Table::Input, Table::Holding];
    tables.into_iter().find(|table| table.name() == text.trim()).ok_or(ListError::Table)
}

/// `first-last`, or one number.
fn range<T: std::str::FromStr + PartialOrd + Copy>(text: &str) -> Option<(T, T)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_in_every_form() {
        assert_eq!(units("1-3,17, 2,255"), Ok(Units(vec![1, 2, 3, 17, 255])));
        for text in ["", "1-", "-3", "3-1", "256", "1;2", "a", "1,,2"] {
            assert_eq!(units(text), Err(ListError::Units), "{text}");
        }
        assert_eq!(addresses("0-999"), Ok(Addresses((0, 999))));
        assert_eq!(addresses("65535"), Ok(Addresses((65_535, 65_535))));
        for text in ["", "0-65536", "9-1", "0x10"] {
            assert_eq!(addresses(text), Err(ListError::Addresses), "{text}");
        }
        assert_eq!(table("coil"), Ok(Table::Coil));
        assert_eq!(table("coils"), Err(ListError::Table));
    }
}
