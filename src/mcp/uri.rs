//! Resource URIs: `fieldbridge://tags/{+path}` and `fieldbridge://devices/{device}`, compared decoded.

use crate::store::Target;

pub(super) const TAG_TEMPLATE: &str = "fieldbridge://tags/{+path}";
pub(super) const DEVICE_TEMPLATE: &str = "fieldbridge://devices/{device}";

/// The plain spelling of a tag's URI. Names hold only characters that need no encoding.
pub(super) fn tag(path: &str) -> String {
    format!("fieldbridge://tags/{path}")
}

pub(super) fn device(name: &str) -> String {
    format!("fieldbridge://devices/{name}")
}

/// What a URI names, whether or not there is such a tag or device; `None` where it is no URI of ours.
pub(super) fn parse(uri: &str) -> Option<Target> {
    let (scheme, rest) = uri.split_once("://")?;
    let (kind, name) = rest.split_once('/')?;
    if !scheme.eq_ignore_ascii_case("fieldbridge") || name.contains(['?', '#']) {
        return None;
    }
    let name = decode(name)?;
    if name.is_empty() {
        None
    } else if kind.eq_ignore_ascii_case("tags") {
        Some(Target::Tag(name))
    } else if kind.eq_ignore_ascii_case("devices") {
        Some(Target::Device(name))
    } else {
        None
    }
}

/// Undoes percent-encoding (RFC 3986, section 2.1); `None` where an escape is broken or not UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (high, low) = (rest.next()?, rest.next()?);
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push(u8::try_from(digit(high)? * 16 + digit(low)?).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_tag_are_equal_decoded() {
        let wanted = Some(Target::Tag("boiler/temperature".into()));
        for uri in [
            "fieldbridge://tags/boiler/temperature",
            "fieldbridge://tags/boiler%2Ftemperature",
            "fieldbridge://tags/boiler/%74emp%65rature",
            "FIELDBRIDGE://Tags/boiler/temperature",
        ] {
            assert_eq!(parse(uri), wanted, "{uri}");
        }
        assert_eq!(parse(&device("plc")), Some(Target::Device("plc".into())));
        assert_eq!(parse(&tag("a/b")), Some(Target::Tag("a/b".into())));
    }

    #[test]
    fn foreign_and_broken_uris_name_nothing() {
        for uri in [
            "",
            "file:///etc/passwd",
            "fieldbridge://tags",
            "fieldbridge://tags/",
            "fieldbridge://other/a",
            "fieldbridge://tags/a%2",
            "fieldbridge://tags/a%zz",
            "fieldbridge://tags/%ff",
            "fieldbridge://tags/a/b?x=1",
        ] {
            assert_eq!(parse(uri), None, "{uri}");
        }
    }
}
