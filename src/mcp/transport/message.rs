//! JSON-RPC messages as bytes: what is one, and how the others are answered.
//!
//! The SDK's own reading is lenient (a request with a fractional id passes as a notification), so the envelope is
//! looked at first.

use rmcp::model::{
    CallToolRequestMethod, ClientJsonRpcMessage, ClientRequest, ConstString, ErrorCode, RequestId,
};
use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::json;

/// What a piece of text is.
#[derive(Debug)]
pub(super) enum Incoming {
    Message(Box<ClientJsonRpcMessage>),
    /// Nothing, or something that wants no answer.
    Nothing,
    Bad(Fault),
}

/// Why a text is no message.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fault {
    pub(super) code: ErrorCode,
    pub(super) message: &'static str,
    /// Of the request, where it can be told.
    pub(super) id: Option<RequestId>,
}

impl Fault {
    pub(super) fn invalid(message: &'static str) -> Self {
        Self { code: ErrorCode::INVALID_REQUEST, message, id: None }
    }

    /// The answer to it: an error with an id, which is null where there is none.
    pub(super) fn answer(&self) -> Vec<u8> {
        let id = self.id.clone().map_or(serde_json::Value::Null, RequestId::into_json_value);
        let error = json!({ "code": self.code.0, "message": self.message });
        json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string().into_bytes()
    }
}

/// Reads one message.
pub(super) fn parse(text: &[u8]) -> Incoming {
    let text = text.trim_ascii();
    if text.is_empty() {
        return Incoming::Nothing;
    }
    if text.first() == Some(&b'[') {
        return Incoming::Bad(match serde_json::from_slice::<IgnoredAny>(text) {
            Ok(_) => Fault::invalid("batches are not supported: send one message at a time"),
            Err(_) => not_json(),
        });
    }
    let envelope = match serde_json::from_slice::<Envelope>(text) {
        Ok(envelope) => envelope,
        Err(error) if error.is_data() => return Incoming::Bad(Fault::invalid("not a JSON-RPC message")),
        Err(_) => return Incoming::Bad(not_json()),
    };
    if !envelope.is_2_0 {
        return Incoming::Bad(Fault::invalid("`jsonrpc` must be \"2.0\""));
    }
    match (envelope.method.as_deref(), envelope.id) {
        // We ask clients nothing, so an answer from one is a stray.
        (None, _) if envelope.has_outcome => Incoming::Nothing,
        (None, _) => Incoming::Bad(Fault::invalid("neither a request, a notification nor a response")),
        (Some(_), Id::Wrong) => Incoming::Bad(Fault::invalid("`id` must be a string or an integer")),
        (Some(_), Id::Missing) => match serde_json::from_slice(text) {
            Ok(message) => Incoming::Message(Box::new(message)),
            Err(_) => Incoming::Nothing,
        },
        (Some(method), Id::Given(id)) => match request(text, method, &id) {
            Ok(message) => Incoming::Message(Box::new(message)),
            Err(_) => Incoming::Bad(Fault {
                code: ErrorCode::INVALID_PARAMS,
                message: "the params of this request cannot be read",
                id: Some(id),
            }),
        },
    }
}

/// Calls are most of all requests: read as what they are, they spare the SDK's trying of one kind after the other,
/// which takes a fifth of the whole call.
fn request(text: &[u8], method: &str, id: &RequestId) -> serde_json::Result<ClientJsonRpcMessage> {
    if method == CallToolRequestMethod::VALUE {
        let call = ClientRequest::CallToolRequest(serde_json::from_slice(text)?);
        return Ok(ClientJsonRpcMessage::request(call, id.clone()));
    }
    serde_json::from_slice(text)
}

fn not_json() -> Fault {
    Fault { code: ErrorCode::PARSE_ERROR, message: "not JSON", id: None }
}

/// The members that tell what kind of message this is.
#[derive(Debug)]
struct Envelope {
    is_2_0: bool,
    method: Option<String>,
    has_outcome: bool,
    id: Id,
}

#[derive(Debug)]
enum Id {
    Missing,
    Given(RequestId),
    /// Null, a fraction, an object.
    Wrong,
}

impl<'de> Deserialize<'de> for Envelope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = Envelope;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON-RPC message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope, A::Error> {
        let mut envelope = Envelope { is_2_0: false, method: None, has_outcome: false, id: Id::Missing };
        while let Some(key) = map.next_key::<std::borrow::Cow<'_, str>>()? {
            match key.as_ref() {
                "jsonrpc" => envelope.is_2_0 = map.next_value::<Scalar>()?.is("2.0"),
                "method" => {
                    envelope.method = match map.next_value::<Scalar>()? {
                        Scalar::Text(method) => Some(method),
                        _ => None,
                    };
                }
                "id" => {
                    if !matches!(envelope.id, Id::Missing) {
                        return Err(de::Error::custom("two ids"));
                    }
                    envelope.id = map.next_value::<Scalar>()?.into();
                }
                "result" | "error" => {
                    envelope.has_outcome = true;
                    map.next_value::<IgnoredAny>()?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(envelope)
    }
}

/// A member's value, as far as it matters.
#[derive(Debug)]
enum Scalar {
    Text(String),
    Integer(i64),
    Other,
}

impl Scalar {
    fn is(&self, text: &str) -> bool {
        matches!(self, Self::Text(own) if own == text)
    }
}

impl From<Scalar> for Id {
    fn from(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Text(text) => Self::Given(RequestId::String(text.into())),
            Scalar::Integer(number) => Self::Given(RequestId::Number(number)),
            Scalar::Other => Self::Wrong,
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar::Integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
        Ok(i64::try_from(number).map_or(Scalar::Other, Scalar::Integer))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Scalar, E> {
        Ok(Scalar::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Scalar, E> {
        Ok(Scalar::Other)
    }

    fn visit_unit<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Scalar, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Scalar, A::Error> {
        while items.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }
}

#[cfg(test)]
#[expect(clippy::expect_used, clippy::panic, reason = "tests")]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        match parse(text.as_bytes()) {
            Incoming::Bad(fault) => String::from_utf8(fault.answer()).expect("UTF-8"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn garbage_is_answered_with_a_null_id() {
        for (text, code) in [
            ("not json", -32700),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping""#, -32700),
            ("[", -32700),
            ("[]", -32600),
            (
                r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#,
                -32600,
            ),
            ("7", -32600),
            ("null", -32600),
            ("{}", -32600),
            (r#"{"id":3,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"1.0","id":3,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":9.5,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600),
        ] {
            let answer = fault(text);
            assert!(answer.contains(&format!("\"code\":{code}")), "{text}: {answer}");
            assert!(answer.contains("\"id\":null"), "{text}: {answer}");
        }
        assert!(matches!(parse(b"\xff\xfe{"), Incoming::Bad(Fault { code: ErrorCode::PARSE_ERROR, .. })));
    }

    #[test]
    fn calls_are_read_as_the_sdk_reads_them() {
        let plain = r#"{"name":"write_tag","arguments":{"tag":"a/b","value":0.1}}"#;
        let meta = r#"{"_meta":{"progressToken":7,"x":"y"},"name":"read_tags"}"#;
        for params in [plain, meta, "{}", "[]", r#"{"name":7}"#, r#"{"name":"x","arguments":[]}"#] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{params}}}"#);
            let sdk = match serde_json::from_str::<ClientJsonRpcMessage>(&text) {
                Ok(ClientJsonRpcMessage::Request(request)) => match request.request {
                    ClientRequest::CallToolRequest(call) => Some(call),
                    _ => None,
                },
                _ => None,
            };
            let ours = match parse(text.as_bytes()) {
                Incoming::Message(message) => match *message {
                    ClientJsonRpcMessage::Request(request) => match request.request {
                        ClientRequest::CallToolRequest(call) => Some(call),
                        _ => None,
                    },
                    _ => None,
                },
                _ => None,
            };
            let shown = |call: Option<_>| call.map(|call: rmcp::model::CallToolRequest| format!("{call:?}"));
            assert_eq!(shown(ours), shown(sdk), "{params}");
        }
    }

    #[test]
    fn blank_lines_and_stray_responses_are_nothing() {
        for text in
            ["", "   \r", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, r#"{"jsonrpc":"2.0","id":1,"error":{}}"#]
        {
            assert!(matches!(parse(text.as_bytes()), Incoming::Nothing), "{text}");
        }
    }

    #[test]
    fn messages_are_read_with_their_ids() {
        for (text, id) in [
            (r#"{"jsonrpc":"2.0","id":"abc","method":"ping"}"#, RequestId::String("abc".into())),
            ("{\"jsonrpc\":\"2.0\",\"id\":-7,\"method\":\"ping\"}\r", RequestId::Number(-7)),
        ] {
            match parse(text.as_bytes()) {
                Incoming::Message(message) => match *message {
                    ClientJsonRpcMessage::Request(request) => assert_eq!(request.id, id),
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            }
        }
        let notification = br#"{"jsonrpc":"2.0","method":"foo/bar"}"#;
        match parse(notification) {
            Incoming::Message(message) => assert!(matches!(*message, ClientJsonRpcMessage::Notification(_))),
            other => panic!("{other:?}"),
        }
    }
}
