//! From the bytes of a file to its text.
//!
//! Owns which character set a file has. Must not know what the text says.

use std::borrow::Cow;

use can_dbc::encodings::{Encoding, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// UTF-8, else Windows code page 1252, and UTF-16 where a byte order mark tells; without the mark. `None` for bytes that
/// are no text.
pub(super) fn decode(bytes: &[u8]) -> Option<Cow<'_, str>> {
    let text = match Encoding::for_bom(bytes) {
        Some((utf16, mark)) if utf16 == UTF_16LE || utf16 == UTF_16BE => {
            utf16.decode_without_bom_handling_and_without_replacement(bytes.get(mark..)?)?
        }
        mark => {
            let bytes = bytes.get(mark.map_or(0, |(_, length)| length)..)?;
            match str::from_utf8(bytes) {
                Ok(text) => text.into(),
                Err(_) => WINDOWS_1252.decode_without_bom_handling(bytes).0,
            }
        }
    };
    (!text.contains('\0')).then_some(text)
}
