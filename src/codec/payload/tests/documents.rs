//! What is read of a payload as a whole.

use super::*;

fn malformed(encoding: Encoding, payload: &[u8]) -> String {
    encoding.parse(payload, BOUNDS).unwrap_err().to_string()
}

#[test]
fn what_is_no_json_is_named() {
    let payloads = [
        "",
        " ",
        "{",
        "[1,",
        "[1 2]",
        "{\"v\":1",
        "{\"v\" 1}",
        "{v:1}",
        "{\"v\":1,}",
        "[1,]",
        "{\"v\":1}x",
        "\"a",
        "\"\\x\"",
        "01",
        "1.",
        "-",
        "nano",
        "+1",
        "tru",
        "OPEN",
        "'a'",
        "{\"v\":21,7}",
        "{\"v\":None}",
        "1 2",
    ];
    let shown =
        payloads.map(|payload| format!("{payload}: {}", malformed(Encoding::Json, payload.as_bytes())));
    insta::assert_snapshot!(shown.join("\n"));
    assert_eq!(
        malformed(Encoding::Json, b"\xEF\xBB\xBF[1,"),
        "the payload is not JSON at byte 6: there must be a value"
    );
    assert_eq!(malformed(Encoding::Text, b"21.7\xB0C"), "the payload is not UTF-8 at byte 4");
}

#[test]
fn depth_counts_arrays_and_objects() {
    let nested =
        |open: &str, close: &str, times: usize| format!("{}1{}", open.repeat(times), close.repeat(times));
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        Encoding::Json.parse(nested(open, close, 64).as_bytes(), BOUNDS).unwrap();
        let error = Encoding::Json.parse(nested(open, close, 65).as_bytes(), BOUNDS).unwrap_err();
        assert_eq!(error, Malformed::Depth { most: 64 });
    }
    for (encoding, array, map) in
        [(Encoding::Cbor, 0x81, [0xA1, 0x61, b'a']), (Encoding::MessagePack, 0x91, [0x81, 0xA1, b'a'])]
    {
        for levels in [[array].as_slice(), &map] {
            for innermost in
                [&[0x01][..], if encoding == Encoding::Cbor { &[0x61, b'x'] } else { &[0xA1, b'x'] }]
            {
                let nested = |times: usize| [levels.repeat(times), innermost.to_vec()].concat();
                let payload = nested(64);
                let result = encoding.parse(&payload, BOUNDS);
                assert!(result.is_ok(), "{encoding} {levels:?}: {result:?}");
                let error = encoding.parse(&nested(10_000), BOUNDS).unwrap_err();
                assert_eq!(error, Malformed::Depth { most: 64 }, "{encoding}");
            }
        }
    }
}

#[test]
fn no_bounds_allow_what_stacks_do_not() {
    let wide = Bounds { size: usize::MAX, depth: usize::MAX };
    for (encoding, level) in [(Encoding::Json, b'['), (Encoding::Cbor, 0x81), (Encoding::MessagePack, 0x91)] {
        let error = encoding.parse(&vec![level; 1 << 20], wide).unwrap_err();
        assert_eq!(error, Malformed::Depth { most: 128 });
    }
    assert!(size_of::<document::Node<'_>>() <= 32);
}

#[test]
fn normal_payloads_are_not_copied() {
    let payload = r#"{"a":{"b":21.7},"c":"text","d":[1,2]}"#;
    let within = |text: &str| payload.as_bytes().as_ptr_range().contains(&text.as_ptr());
    let document = json(payload);
    let document::Node::Object(members) = &document.root else { panic!("{document:?}") };
    assert!(members.iter().all(|(key, _)| matches!(key, std::borrow::Cow::Borrowed(key) if within(key))));
    let document::Node::Text(std::borrow::Cow::Borrowed(text)) = &members[1].1 else {
        panic!("{document:?}")
    };
    assert!(within(text));
}

#[test]
fn cbor_and_message_pack_say_the_same() {
    // {"t": 21.5, "n": -7, "big": 9007199254740993, "on": true, "none": null, "w": "OPEN", "a": [1, 2], 5: "five"}
    let cbor = b"\xA8\x61t\xF9\x4D\x60\x61n\x26\x63big\x1B\x00\x20\x00\x00\x00\x00\x00\x01\x62on\xF5\x64none\xF6\x61w\x64OPEN\x61a\x82\x01\x02\x05\x64five";
    let pack = b"\x88\xA1t\xCA\x41\xAC\x00\x00\xA1n\xF9\xA3big\xCF\x00\x20\x00\x00\x00\x00\x00\x01\xA2on\xC3\xA4none\xC0\xA1w\xA4OPEN\xA1a\x92\x01\x02\x05\xA4five";
    for (encoding, payload) in [(Encoding::Cbor, &cbor[..]), (Encoding::MessagePack, pack)] {
        let document = encoding.parse(payload, BOUNDS).unwrap();
        let read = |at: &str, kind| tell(&field(at, kind).read(&document));
        assert_eq!(read("t", Kind::Float32), "21.5", "{encoding}");
        assert_eq!(read("n", Kind::Int16), "-7");
        assert_eq!(read("big", Kind::Int64), "9007199254740993");
        assert_eq!(read("on", Kind::Bool), "true");
        assert_eq!(read("none", Kind::Float64), "not available");
        assert_eq!(read("w", Kind::Text), "OPEN");
        assert_eq!(read("a[1]", Kind::Uint8), "2");
        assert_eq!(read("[5]", Kind::Text), "five");
        assert_eq!(read("gone", Kind::Text), "absent");
        for end in 0..payload.len() {
            encoding.parse(&payload[..end], BOUNDS).unwrap_err();
        }
        let longer = [payload, b"\x00"].concat();
        assert!(malformed(encoding, &longer).ends_with("1 bytes stand behind its end"));
    }
}

#[test]
fn lengths_that_lie_take_no_memory() {
    for payload in [
        &b"\x9A\xFF\xFF\xFF\xFF"[..],
        b"\xBA\xFF\xFF\xFF\xFF",
        b"\x5A\xFF\xFF\xFF\xFF",
        b"\x7B\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
    ] {
        assert!(malformed(Encoding::Cbor, payload).starts_with("the payload is not CBOR"));
    }
    for payload in [
        &b"\xDD\xFF\xFF\xFF\xFF"[..],
        b"\xDF\xFF\xFF\xFF\xFF",
        b"\xC6\xFF\xFF\xFF\xFF",
        b"\xDB\xFF\xFF\xFF\xFF",
    ] {
        assert_eq!(malformed(Encoding::MessagePack, payload), "the payload is not MessagePack: it is cut");
    }
}

#[test]
fn cbor_numbers() {
    let read =
        |payload: &[u8], kind| tell(&field("", kind).read(&Encoding::Cbor.parse(payload, BOUNDS).unwrap()));
    // A float32 is the float32 that it is; NaN and infinities are none.
    assert_eq!(read(b"\xFA\x41\xAD\x99\x9A", Kind::Float32), "21.7");
    assert_eq!(read(b"\xF9\x7E\x00", Kind::Float32), "the payload: `NaN` is not finite");
    assert_eq!(read(b"\xF9\x7C\x00", Kind::Float64), "the payload: `inf` is not finite");
    // -2^64, and a bignum of 2^64.
    assert!(read(b"\x3B\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", Kind::Int64).contains("does not fit int64"));
    assert_eq!(read(b"\xC2\x49\x01\x00\x00\x00\x00\x00\x00\x00\x00", Kind::Float64), "18446744073709552000");
    assert_eq!(read(b"\xC3\x42\x01\x00", Kind::Int64), "-257");
    let far = [&b"\xC2\x51"[..], &[0xFF; 17]].concat();
    assert_eq!(read(&far, Kind::Float64), "the payload: bytes where a number was expected");
    // A tagged time, and undefined.
    assert_eq!(read(b"\xC1\x1A\x51\x4B\x67\xB0", Kind::Uint32), "1363896240");
    assert_eq!(read(b"\xF7", Kind::Float64), "not available");
}

#[test]
fn unknown_payloads_are_listed() {
    let document = json(r#"{"t":21.7,"s":{"on":true,"a.b":[1,"x"]},"n":null}"#);
    let leaves: Vec<String> =
        document.leaves(10).iter().map(|(path, shape)| format!("{path}: {shape}")).collect();
    assert_eq!(
        leaves,
        ["t: a number", "s.on: a boolean", "s[\"a.b\"][0]: a number", "s[\"a.b\"][1]: a text", "n: null"]
    );
    assert_eq!(document.leaves(2).len(), 2);
    assert_eq!(json("5").leaves(9), [(Path::default(), Shape::Number)]);
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            proptest::collection::hash_map(any::<String>(), inner, 0..6)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_not(payload in proptest::collection::vec(any::<u8>(), 0..200)) {
        for encoding in Encoding::ALL {
            if let Ok(document) = encoding.parse(&payload, BOUNDS) {
                for kind in [Kind::Bool, Kind::Int64, Kind::Float32, Kind::Text] {
                    for at in ["", "a", "[0]", "a.b[1]"] {
                        let reading = field(at, kind).read(&document);
                        if let Reading::Value(value) = &reading {
                            prop_assert!(value.as_f64().is_none_or(f64::is_finite) || kind == Kind::Text, "{:?}", value);
                        }
                    }
                }
                drop(document.leaves(100));
            }
        }
    }

    #[test]
    fn nearly_json_is_read_or_not(payload in r#"[\[\]{}",:0-9a-fntrlu.eE+\- \\]{0,60}"#) {
        let ours = Encoding::Json.parse(payload.as_bytes(), BOUNDS);
        let theirs = serde_json::from_str::<serde_json::Value>(&payload);
        // Theirs refuses numbers beyond doubles, and lone surrogates are in neither.
        if let Ok(value) = theirs {
            prop_assert!(ours.is_ok(), "{}: {:?}", value, ours);
        } else if ours.is_ok() {
            let word = ["nan", "NaN", "inf", "Inf"].iter().any(|word| payload.to_lowercase().contains(&word.to_lowercase()));
            prop_assert!(word || payload.contains(['e', 'E']), "{}", payload);
        }
    }

    #[test]
    fn any_json_is_read_alike_in_every_encoding(value in any_json()) {
        let written = value.to_string();
        let mut cbor = Vec::new();
        ciborium::into_writer(&value, &mut cbor).unwrap();
        let one = json(&written);
        let other = Encoding::Cbor.parse(&cbor, BOUNDS).unwrap();
        let leaves = one.leaves(100);
        let known: std::collections::HashSet<_> = other.leaves(100).into_iter().collect();
        prop_assert_eq!(leaves.iter().cloned().collect::<std::collections::HashSet<_>>(), known);
        for (path, shape) in leaves {
            let kind = match shape {
                Shape::Number => Kind::Float64,
                Shape::Bool => Kind::Bool,
                _ => Kind::Text,
            };
            let field = Field::new(Spec::new(path, kind)).unwrap();
            prop_assert_eq!(field.read(&one), field.read(&other));
        }
    }
}
