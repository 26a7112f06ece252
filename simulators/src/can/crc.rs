//! The check sum of safety-related automotive messages.

/// CRC-8 SAE J1850: polynomial 0x1D, initial value 0xFF, inverted at the end.
#[must_use]
pub fn j1850(bytes: &[u8]) -> u8 {
    let crc = bytes.iter().fold(0xFF_u8, |crc, byte| {
        (0..8).fold(crc ^ byte, |crc, _| if crc & 0x80 == 0 { crc << 1 } else { crc << 1 ^ 0x1D })
    });
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalogue_check_value() {
        assert_eq!(j1850(b"123456789"), 0x4B);
        // Test data of AUTOSAR's CRC library.
        assert_eq!(j1850(&[0, 0, 0, 0]), 0x59);
        assert_eq!(j1850(&[0xF2, 0x01, 0x83]), 0x37);
    }
}
