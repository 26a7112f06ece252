//! Decimal numbers as devices print them.

use std::borrow::Cow;

/// The JSON number that a decimal number is, which may have a `+`, zeros in front, or nothing on one side of its dot.
pub(super) fn decimal(text: &str) -> Option<Cow<'_, str>> {
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'-' => ("-", text.get(1..)?),
        b'+' => ("", text.get(1..)?),
        _ => ("", text),
    };
    let end = unsigned.find(['e', 'E']).unwrap_or(unsigned.len());
    let (mantissa, exponent) = unsigned.split_at(end);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let power = exponent.strip_prefix(['e', 'E']).map(|text| text.strip_prefix(['+', '-']).unwrap_or(text));
    let is_number = digits(whole)
        && digits(fraction)
        && whole.len() + fraction.len() > 0
        && power.is_none_or(|power| !power.is_empty() && digits(power));
    if !is_number {
        return None;
    }
    let is_json = !text.starts_with('+')
        && (whole == "0" || !whole.is_empty() && !whole.starts_with('0'))
        && (mantissa.len() == whole.len() || !fraction.is_empty());
    if is_json {
        return Some(text.into());
    }
    let whole = Some(whole.trim_start_matches('0')).filter(|whole| !whole.is_empty()).unwrap_or("0");
    let dot = if fraction.is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{dot}{fraction}{exponent}").into())
}

/// A NUL as well: devices in C send their texts with it.
pub(super) fn is_space(character: char) -> bool {
    character.is_ascii_whitespace() || character == '\0'
}
