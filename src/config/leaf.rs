//! The single values of site and profile files: how each is read, and the same rule as JSON Schema.

use std::{
    borrow::Cow,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
};

use rust_decimal::Decimal;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{
    problem::Findings,
    read::{Node, Read},
    site::WriteMode,
};
use crate::model::is_segment;

/// A whole number from `LO` to `HI`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole<const LO: i64, const HI: i64>(pub(crate) i64);

/// Yes or no.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag(pub(crate) bool);

/// A text that is not empty.
#[derive(Debug, Clone)]
pub(crate) struct Text(pub(crate) String);

/// One segment of a path: the name of a connection or device.
#[derive(Debug, Clone)]
pub(crate) struct Name(pub(crate) String);

/// The part of a tag's path below its device.
#[derive(Debug, Clone)]
pub(crate) struct TagName(pub(crate) String);

/// Path of a profile below `devices/`, without `.toml`.
#[derive(Debug, Clone)]
pub(crate) struct ProfileName(pub(crate) String);

/// `host:port`.
#[derive(Debug, Clone)]
pub(crate) struct HostPort {
    /// As it was written.
    pub(crate) written: String,
    /// The same for every way to write one address.
    pub(crate) normal: String,
}

/// Where HTTP may listen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HttpAddress(pub(crate) SocketAddr);

/// A decimal number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number(pub(crate) Decimal);

/// A number that is at least 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amount(pub(crate) Decimal);

/// A factor: any number but 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Factor(pub(crate) Decimal);

/// `[low, high]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) low: Decimal,
    pub(crate) high: Decimal,
}

/// One of a closed list of words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice<T>(pub(crate) T);

/// What has a closed list of words.
pub(crate) trait Words: Copy + 'static {
    const WORDS: &'static [(&'static str, Self)];
}

impl Words for WriteMode {
    const WORDS: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("confirm", Self::Confirm), ("allow", Self::Allow)];
}

/// Why HTTP cannot listen at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("allowed is {}", self.allowed())]
pub enum HttpAddressError {
    Syntax,
    NotLoopback,
}

impl HttpAddressError {
    fn allowed(self) -> &'static str {
        match self {
            Self::Syntax => "an IP address and port, such as 127.0.0.1:8910 or [::1]:8910",
            Self::NotLoopback => {
                "a loopback address, such as 127.0.0.1:8910 or [::1]:8910, since authentication for others does not \
                 exist yet"
            }
        }
    }
}

/// Reads where HTTP shall listen: loopback only, as long as nobody can be authenticated.
pub fn http_address(text: &str) -> Result<SocketAddr, HttpAddressError> {
    let Ok(address) = text.parse::<SocketAddr>() else {
        return Err(HttpAddressError::Syntax);
    };
    if address.ip().to_canonical().is_loopback() { Ok(address) } else { Err(HttpAddressError::NotLoopback) }
}

/// Implements [`JsonSchema`] for a single value, in place.
macro_rules! leaf_schema {
    ($type:ty, $name:literal, $schema:expr) => {
        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $schema
            }
        }
    };
}
pub(crate) use leaf_schema;

impl<const LO: i64, const HI: i64> Read for Whole<LO, HI> {
    fn allowed() -> String {
        format!("a whole number from {LO} to {HI}")
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let number = node.integer().filter(|number| (LO..=HI).contains(number));
        node.accept(number.map(Self), found)
    }
}

impl<const LO: i64, const HI: i64> JsonSchema for Whole<LO, HI> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Whole".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": LO, "maximum": HI })
    }
}

impl Read for Flag {
    fn allowed() -> String {
        "true or false".to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        node.accept(node.boolean().map(Self), found)
    }
}
leaf_schema!(Flag, "Flag", json_schema!({ "type": "boolean" }));

impl Read for Text {
    fn allowed() -> String {
        "a text, not empty".to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let text = node.text().filter(|text| !text.is_empty());
        node.accept(text.map(|text| Self(text.to_owned())), found)
    }
}
leaf_schema!(Text, "Text", json_schema!({ "type": "string", "minLength": 1 }));

impl Read for Name {
    fn allowed() -> String {
        "a name of 1 to 64 of `A-Z a-z 0-9 _ -`".to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let text = node.text().filter(|text| is_segment(text));
        node.accept(text.map(|text| Self(text.to_owned())), found)
    }
}
leaf_schema!(Name, "Name", json_schema!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$" }));

impl Read for TagName {
    fn allowed() -> String {
        "a name such as `temperature` or `pump/speed`: segments of 1 to 64 of `A-Z a-z 0-9 _ -` with `/` between \
         them"
            .to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let text = node.text().filter(|text| text.split('/').all(is_segment));
        node.accept(text.map(|text| Self(text.to_owned())), found)
    }
}
leaf_schema!(
    TagName,
    "TagName",
    json_schema!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}(/[A-Za-z0-9_-]{1,64})*$" })
);

impl Read for ProfileName {
    fn allowed() -> String {
        "`vendor/model`: the path of a profile below `devices/`, without `.toml`".to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let text = node.text().filter(|text| text.contains('/') && text.split('/').all(is_profile_segment));
        node.accept(text.map(|text| Self(text.to_owned())), found)
    }
}
leaf_schema!(
    ProfileName,
    "ProfileName",
    json_schema!({
        "type": "string",
        "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$"
    })
);

/// A dot may not come first, so that no path leaves `devices/`.
pub(crate) fn is_profile_segment(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('.')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

impl Read for HostPort {
    fn allowed() -> String {
        "`host:port`, such as 192.168.1.10:502".to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        node.accept(node.text().and_then(host_port), found)
    }
}
leaf_schema!(
    HostPort,
    "HostPort",
    json_schema!({ "type": "string", "pattern": "^([A-Za-z0-9._-]+|\\[[0-9A-Fa-f:.]+\\]):[0-9]{1,5}$" })
);

/// Reads `host:port`; `None` where it is none.
pub(crate) fn host_port(text: &str) -> Option<HostPort> {
    let (host, port) = text.rsplit_once(':')?;
    let digits = (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse::<u16>().ok().filter(|port| digits && *port > 0)?;
    let host = match host.strip_prefix('[') {
        Some(rest) => {
            let address = rest.strip_suffix(']')?.parse::<Ipv6Addr>().ok()?;
            match address.to_canonical() {
                std::net::IpAddr::V4(address) => address.to_string(),
                std::net::IpAddr::V6(address) => format!("[{address}]"),
            }
        }
        None => host_name(host)?,
    };
    Some(HostPort { written: text.to_owned(), normal: format!("{host}:{port}") })
}

/// A host's name or IPv4 address, in one spelling.
fn host_name(host: &str) -> Option<String> {
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    if !name.split('.').all(is_label) {
        return None;
    }
    if name == "localhost" {
        return Some(Ipv4Addr::LOCALHOST.to_string());
    }
    // Only digits and dots, yet no IPv4 address: a slip, and nobody's name.
    let numeric = name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if numeric { name.parse::<Ipv4Addr>().ok().map(|address| address.to_string()) } else { Some(name) }
}

impl Read for HttpAddress {
    fn allowed() -> String {
        HttpAddressError::Syntax.allowed().to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        match node.text().map(http_address) {
            Some(Ok(address)) => Some(Self(address)),
            Some(Err(error)) => {
                node.refuse(found, error.allowed());
                None
            }
            None => node.accept(None, found),
        }
    }
}
leaf_schema!(
    HttpAddress,
    "HttpAddress",
    json_schema!({
        "type": "string",
        "pattern": "^(127\\.[0-9]+\\.[0-9]+\\.[0-9]+|\\[[0-9A-Fa-f:.]+\\]):[0-9]{1,5}$"
    })
);

impl Read for Number {
    fn allowed() -> String {
        "a number of at most 15 significant digits and 28 digits in all".to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        node.accept(node.number().map(Self), found)
    }
}
leaf_schema!(Number, "Number", json_schema!({ "type": "number" }));

impl Read for Amount {
    fn allowed() -> String {
        "a number of at least 0, of at most 15 significant digits".to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        node.accept(node.limit().filter(|number| *number >= Decimal::ZERO).map(Self), found)
    }
}
leaf_schema!(Amount, "Amount", json_schema!({ "type": "number", "minimum": 0 }));

impl Read for Factor {
    fn allowed() -> String {
        "a number of at most 15 significant digits and 28 digits in all, not 0".to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        node.accept(node.number().filter(|number| !number.is_zero()).map(Self), found)
    }
}
leaf_schema!(Factor, "Factor", json_schema!({ "type": "number", "not": { "const": 0 } }));

impl Read for Span {
    fn allowed() -> String {
        "[low, high], two numbers of at most 15 significant digits with low below high".to_owned()
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let span = match node.items().as_deref() {
            Some([low, high]) => low.limit().zip(high.limit()).map(|(low, high)| Self { low, high }),
            _ => None,
        };
        node.accept(span.filter(|span| span.low < span.high), found)
    }
}
leaf_schema!(
    Span,
    "Span",
    json_schema!({ "type": "array", "items": { "type": "number" }, "minItems": 2, "maxItems": 2 })
);

impl<T: Words> Read for Choice<T> {
    fn allowed() -> String {
        let words: Vec<String> = T::WORDS.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        match words.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => words.concat(),
        }
    }

    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let known = |text: &str| T::WORDS.iter().find(|(word, _)| *word == text);
        node.accept(node.text().and_then(known).map(|(_, value)| Self(*value)), found)
    }
}

impl<T: Words> JsonSchema for Choice<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Choice".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
        json_schema!({ "type": "string", "enum": words })
    }
}
