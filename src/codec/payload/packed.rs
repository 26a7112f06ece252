//! CBOR and `MessagePack` → tree.

use std::borrow::Cow;

use rmpv::ValueRef;

use super::document::{Encoding, Malformed, Node};

/// RFC 8949, section 3.4.3: tags of bytes that are a number, and of those that are -1 minus a number.
const BIG: u64 = 2;
const BIG_NEGATIVE: u64 = 3;

/// RFC 8949. Tags are passed over, but for those of big numbers up to 127 bits.
pub(super) fn cbor(mut payload: &[u8], depth: usize) -> Result<Node<'static>, Malformed> {
    use ciborium::de::Error;
    let value = ciborium::de::from_reader_with_recursion_limit(&mut payload, depth);
    let value: ciborium::Value = value.map_err(|error| match error {
        Error::RecursionLimitExceeded => Malformed::Depth { most: depth },
        Error::Io(_) => packed(Encoding::Cbor, "it is cut"),
        Error::Syntax(at) => packed(Encoding::Cbor, format!("invalid at byte {at}")),
        Error::Semantic(_, problem) => packed(Encoding::Cbor, problem),
    })?;
    trailing(Encoding::Cbor, payload)?;
    Ok(from_cbor(value))
}

fn from_cbor(value: ciborium::Value) -> Node<'static> {
    use ciborium::Value;
    match value {
        Value::Bool(value) => Node::Bool(value),
        Value::Integer(value) => Node::Integer(value.into()),
        Value::Float(value) => Node::Float(value),
        Value::Text(text) => Node::Text(text.into()),
        Value::Bytes(bytes) => Node::Bytes(bytes.into()),
        Value::Tag(tag, inner) => match *inner {
            Value::Bytes(bytes) => big(tag, &bytes).map_or(Node::Bytes(bytes.into()), Node::Integer),
            inner => from_cbor(inner),
        },
        Value::Array(values) => Node::Array(values.into_iter().map(from_cbor).collect()),
        Value::Map(members) => {
            let named = members.into_iter().filter_map(|(key, value)| {
                let key = match key {
                    Value::Text(text) => text,
                    Value::Integer(number) => i128::from(number).to_string(),
                    _ => return None,
                };
                Some((Cow::Owned(key), from_cbor(value)))
            });
            Node::Object(named.collect())
        }
        // The library's values may become more.
        _ => Node::Null,
    }
}

fn big(tag: u64, bytes: &[u8]) -> Option<i128> {
    let digit = |number: i128, byte: &u8| number.checked_mul(256)?.checked_add(i128::from(*byte));
    let number = bytes.iter().try_fold(0, digit)?;
    match tag {
        BIG => Some(number),
        BIG_NEGATIVE => Some(-1 - number),
        _ => None,
    }
}

/// An extension is its bytes.
pub(super) fn message_pack(mut payload: &[u8], depth: usize) -> Result<Node<'_>, Malformed> {
    use rmpv::decode::Error;
    // The library counts two for each level and three for what lies in the innermost one.
    let most = depth.saturating_mul(2).saturating_add(3);
    let value = rmpv::decode::read_value_ref_with_max_depth(&mut payload, most);
    let value = value.map_err(|error| match error {
        Error::DepthLimitExceeded => Malformed::Depth { most: depth },
        Error::InvalidMarkerRead(_) | Error::InvalidDataRead(_) => packed(Encoding::MessagePack, "it is cut"),
    })?;
    trailing(Encoding::MessagePack, payload)?;
    from_message_pack(value)
}

fn from_message_pack(value: ValueRef<'_>) -> Result<Node<'_>, Malformed> {
    Ok(match value {
        ValueRef::Nil => Node::Null,
        ValueRef::Boolean(value) => Node::Bool(value),
        ValueRef::Integer(number) => integer(number),
        ValueRef::F32(value) => Node::Float(value.into()),
        ValueRef::F64(value) => Node::Float(value),
        ValueRef::String(text) => match text.into_str() {
            Some(text) => Node::Text(text.into()),
            None => return Err(packed(Encoding::MessagePack, "a text is not UTF-8")),
        },
        ValueRef::Binary(bytes) | ValueRef::Ext(_, bytes) => Node::Bytes(bytes.into()),
        ValueRef::Array(values) => {
            Node::Array(values.into_iter().map(from_message_pack).collect::<Result<_, _>>()?)
        }
        ValueRef::Map(members) => {
            let mut named = Vec::with_capacity(members.len());
            for (key, value) in members {
                let key = match key {
                    ValueRef::String(text) => text.into_str().map(Cow::Borrowed),
                    ValueRef::Integer(number) => Some(number.to_string().into()),
                    _ => None,
                };
                if let Some(key) = key {
                    named.push((key, from_message_pack(value)?));
                }
            }
            Node::Object(named)
        }
    })
}

fn integer(number: rmpv::Integer) -> Node<'static> {
    let signed = number.as_i64().map(i128::from);
    signed.or_else(|| number.as_u64().map(i128::from)).map_or(Node::Null, Node::Integer)
}

fn trailing(encoding: Encoding, rest: &[u8]) -> Result<(), Malformed> {
    match rest.len() {
        0 => Ok(()),
        more => Err(packed(encoding, format!("{more} bytes stand behind its end"))),
    }
}

fn packed(encoding: Encoding, problem: impl Into<String>) -> Malformed {
    Malformed::Packed { encoding, problem: problem.into() }
}
