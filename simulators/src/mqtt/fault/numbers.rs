//! Numbers in a text of JSON, replaced without reading the JSON: the result is to be none.

use bytes::Bytes;

/// Replaces every number, or every number that directly follows `key`, by `nan`.
pub(super) fn to_nan(payload: &[u8], key: Option<&str>) -> Bytes {
    let mut out = Vec::with_capacity(payload.len());
    let mut last: &[u8] = &[];
    let mut rest = payload;
    while let Some(&byte) = rest.first() {
        let length = match byte {
            b'"' => text(rest),
            b'-' | b'0'..=b'9' => number(rest),
            _ => 1,
        };
        let (token, after) = rest.split_at(length.min(rest.len()));
        rest = after;
        match byte {
            b'"' => last = token.trim_ascii().strip_prefix(b"\"").unwrap_or_default(),
            b'{' | b'}' | b',' => last = &[],
            _ => {}
        }
        let wanted = key.is_none_or(|key| last.strip_suffix(b"\"") == Some(key.as_bytes()));
        let is_number = matches!(byte, b'-' | b'0'..=b'9');
        out.extend_from_slice(if is_number && wanted { b"nan" } else { token });
    }
    out.into()
}

/// Bytes of the text at the start, with its quotes.
fn text(bytes: &[u8]) -> usize {
    let mut escaped = false;
    for (at, &byte) in bytes.iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    bytes.len()
}

/// Bytes of the number at the start.
fn number(bytes: &[u8]) -> usize {
    let of_number = |byte: &&u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
    bytes.iter().take_while(of_number).count()
}
