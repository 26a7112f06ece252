//! Physical values as the raw integers of signals, and the bytes of those in a row.

/// Raw value of a physical one, rounded.
pub(in crate::can) fn scale(value: f64, factor: f64, offset: f64) -> f64 {
    ((value - offset) / factor).round()
}

/// The nearest value that there is.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range before")]
pub(in crate::can) fn clip_u8(raw: f64) -> u8 {
    raw.clamp(0.0, 255.0) as u8
}

/// The nearest value that there is.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range before")]
pub(in crate::can) fn clip_u16(raw: f64) -> u16 {
    raw.clamp(0.0, 65_535.0) as u16
}

/// The nearest value that there is.
#[expect(clippy::cast_possible_truncation, reason = "clamped to the range before")]
pub(in crate::can) fn clip_i16(raw: f64) -> i16 {
    raw.clamp(-32_768.0, 32_767.0) as i16
}

/// The nearest value that there is.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range before")]
pub(in crate::can) fn clip_u32(raw: f64) -> u32 {
    raw.clamp(0.0, 4_294_967_295.0) as u32
}

/// The first bytes, with zeros behind where there are fewer.
pub(in crate::can) fn pack<const N: usize>(bytes: impl IntoIterator<Item = u8>) -> [u8; N] {
    let mut packed = [0; N];
    packed.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    packed
}
