//! Cases D03 (12, 13) and D07 over real sockets.

use std::collections::HashSet;

use serde_json::json;

use super::{
    client::{INITIALIZE, Site},
    plant::Plant,
};
use crate::mcp::{HttpError, bind};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

#[tokio::test]
async fn only_loopback_can_be_bound() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let refused = bind(address.parse().unwrap()).await;
        assert!(matches!(refused, Err(HttpError::NotLoopback(_))), "{address}: {refused:?}");
    }
    let taken = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    assert!(matches!(bind(taken.local_addr()).await, Err(HttpError::Bind { .. })));
}

#[tokio::test]
async fn bodies_that_are_no_message_are_refused() {
    let plant = Plant::new(0);
    let site = Site::new(&plant).await;
    let session = site.session().await;
    let id = ("Mcp-Session-Id", session.as_str());
    for (body, code) in [
        ("[]", -32600),
        (r#" [{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        ("not json", -32700),
        ("", -32600),
        (r#"{"id":3,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
    ] {
        for headers in [&[][..], &[id]] {
            let answer = site.post(headers, body).await;
            assert_eq!(answer.status, 400, "{body}: {answer:?}");
            assert_eq!(answer.json()["error"]["code"], code, "{body}");
            assert!(answer.json()["id"].is_null());
        }
    }
    assert_eq!(site.post(&[id, ("MCP-Protocol-Version", "1999-01-01")], PING).await.status, 400);
    assert_eq!(site.post(&[id, ("Content-Type", "text/plain")], PING).await.status, 415);
    for (spaces, status) in [(200 * 1024, 200), (257 * 1024, 413)] {
        let padded = format!("{PING}{}", " ".repeat(spaces));
        assert_eq!(site.post(&[id], padded).await.status, status, "{spaces}");
    }
    let large = "x".repeat(5 * 1024 * 1024);
    assert_eq!(site.post(&[id], &large).await.status, 413);
    let endless = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\nTransfer-Encoding: chunked\r\n\r\n";
    let endless = format!("{endless}{:x}\r\n{large}\r\n", large.len());
    assert_eq!(site.raw(endless.as_bytes()).await.status, 413);
    assert_eq!(site.post(&[id], PING).await.json()["result"], json!({}));
}

#[tokio::test]
async fn foreign_pages_are_kept_out() {
    let plant = Plant::new(0);
    let site = Site::new(&plant).await;
    for headers in [
        [("Host", "evil.example"), ("Origin", "")],
        [("Host", "127.0.0.1.evil.example:8910"), ("Origin", "")],
        [("Host", "localhost"), ("Origin", "http://evil.example")],
        [("Host", "localhost"), ("Origin", "null")],
        [("Host", "localhost"), ("Origin", "http://localhost.evil.example")],
    ] {
        let answer = site.post(&headers, INITIALIZE).await;
        assert_eq!(answer.status, 403, "{headers:?}");
        assert!(answer.body.contains("must name a loopback address"), "{answer:?}");
        assert_eq!(site.http("GET", &headers, "").await.status, 403);
    }
    for headers in [
        [("Host", "localhost:1"), ("Origin", "http://localhost:3000")],
        [("Host", "[::1]:8910"), ("Origin", "http://[::1]")],
        [("Host", "127.0.0.5"), ("Origin", "https://127.0.0.1:1")],
    ] {
        assert_eq!(site.post(&headers, INITIALIZE).await.status, 200, "{headers:?}");
    }
}

#[tokio::test]
async fn sessions_that_are_gone_are_not_found() {
    let plant = Plant::new(0);
    let site = Site::new(&plant).await;
    let gone = ("Mcp-Session-Id", "11111111-aaaa");
    for method in ["POST", "GET", "DELETE"] {
        assert_eq!(site.http(method, &[gone], PING).await.status, 404, "{method}");
    }
    assert_eq!(site.post(&[], PING).await.status, 400, "no id");
    let renewed = site.post(&[gone], INITIALIZE).await;
    assert_eq!(renewed.status, 200);
    let id = renewed.headers["mcp-session-id"].as_str();
    assert_ne!(id, gone.1);
    assert_eq!(site.post(&[("Mcp-Session-Id", id)], PING).await.status, 200);
    assert_eq!(site.http("DELETE", &[("Mcp-Session-Id", id)], "").await.status, 204);
    for method in ["POST", "GET", "DELETE"] {
        assert_eq!(site.http(method, &[("Mcp-Session-Id", id)], PING).await.status, 404, "{method}");
    }
    let mut ids = HashSet::new();
    for _ in 0..50 {
        let id = site.session().await;
        assert!(id.len() >= 32 && id.chars().all(|c| c.is_ascii_hexdigit()), "128 bits: {id}");
        ids.insert(id);
    }
    assert_eq!(ids.len(), 50);
}

#[tokio::test]
async fn there_is_a_cap_on_sessions() {
    let plant = Plant::new(0);
    let site = Site::bounded(&plant, 2).await;
    let first = site.session().await;
    site.session().await;
    let refused = site.post(&[], INITIALIZE).await;
    assert_eq!(refused.status, 503);
    assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    assert_eq!(site.post(&[("Mcp-Session-Id", &first)], PING).await.status, 200, "live ones go on");
    assert_eq!(site.modern("tools/list", json!({})).await.status, 200, "and requests without a session");
    site.http("DELETE", &[("Mcp-Session-Id", &first)], "").await;
    assert_eq!(site.post(&[], INITIALIZE).await.status, 200);
}

#[tokio::test]
async fn accept_is_taken_for_what_it_means() {
    let plant = Plant::new(0);
    let site = Site::new(&plant).await;
    let session = site.session().await;
    let id = ("Mcp-Session-Id", session.as_str());
    assert_eq!(site.post(&[id, ("Accept", "*/*")], PING).await.status, 200);
    assert_eq!(site.post(&[id, ("Accept", "")], PING).await.status, 200);
    assert_eq!(site.post(&[id, ("Accept", "application/json")], PING).await.status, 406);
    assert_eq!(site.http("GET", &[id, ("Accept", "application/json")], "").await.status, 406);
}

#[tokio::test]
async fn requests_of_2026_need_no_session() {
    let plant = Plant::new(10);
    let site = Site::new(&plant).await;
    let discovered = site.modern("server/discover", json!({})).await.message().await;
    assert!(discovered["result"]["supportedVersions"].is_array(), "{discovered}");
    let listed = site.modern("tools/list", json!({})).await.message().await;
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 5);
    assert_eq!(listed["result"]["resultType"], "complete");
    let call = json!({ "name": "read_tags", "arguments": { "tags": ["boiler/setpoint"] } });
    let mut answer = site.modern("tools/call", call).await;
    assert!(answer.headers["content-type"].starts_with("application/json"));
    assert_eq!(answer.message().await["result"]["structuredContent"]["tags"][0]["quality"], "bad");
    let mut unknown = site.modern("no/such", json!({})).await;
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.message().await["error"]["code"], -32601);
    let mut missing = site.modern("resources/read", json!({ "uri": "fieldbridge://tags/a/b" })).await;
    assert_eq!(missing.message().await["error"]["code"], -32602);
    let version = ("MCP-Protocol-Version", "2026-07-28");
    for method in ["GET", "DELETE"] {
        assert_eq!(site.http(method, &[version, ("Mcp-Session-Id", "x")], "").await.status, 405, "{method}");
    }
    let body = super::client::modern(1, "tools/list", json!({}));
    let mismatch = site.post(&[("MCP-Protocol-Version", "2025-11-25")], body).await;
    assert_eq!((mismatch.status, &mismatch.json()["error"]["code"]), (400, &json!(-32020)));
}

#[tokio::test]
async fn writes_over_http_win_in_their_order_of_arrival() {
    let plant = Plant::new(0);
    let site = Site::new(&plant).await;
    let session = site.session().await;
    let arguments = json!({ "tag": "boiler/setpoint", "value": 45 });
    let call = json!({ "name": "write_tag", "arguments": arguments });
    let answer = site.request(&session, "tools/call", call.clone()).await;
    assert_eq!(answer["result"]["structuredContent"]["outcome"], "confirmed", "{answer}");
    let answer = site.modern("tools/call", call).await.message().await;
    assert_eq!(answer["result"]["structuredContent"]["outcome"], "confirmed", "{answer}");
    assert_eq!(plant.written.lock().len(), 2);
}

#[tokio::test]
async fn a_cancelled_call_ends_without_an_answer() {
    let plant = Plant::new(0);
    plant.turns.forget_permits(1000);
    let site = Site::new(&plant).await;
    let session = site.session().await;
    let id = ("Mcp-Session-Id", session.as_str());
    let arguments = json!({ "tag": "boiler/setpoint", "value": 45 });
    let call = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {
        "name": "write_tag", "arguments": arguments } });
    let mut waiting = site.open("POST", &[id], &call.to_string()).await;
    let twice = site.post(&[id], &call).await;
    assert_eq!(twice.json()["error"]["code"], -32600, "one id cannot be in flight twice");
    for cancelled in
        [json!({ "requestId": "9" }), json!({ "requestId": 77 }), json!({}), json!({ "requestId": 9 })]
    {
        let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled });
        assert_eq!(site.post(&[id], cancel).await.status, 202);
    }
    assert!(waiting.event().await.is_none(), "no answer after the cancellation");
    plant.turns.add_permits(1);
    assert_eq!(site.post(&[id], PING).await.json()["result"], json!({}));
}

fn write(id: u64, value: u64) -> serde_json::Value {
    let arguments = json!({ "tag": "boiler/setpoint", "value": value });
    let params = json!({ "name": "write_tag", "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

#[tokio::test]
async fn a_stop_waits_for_the_calls_of_sessions_and_not_for_streams() {
    let plant = Plant::new(0);
    plant.turns.forget_permits(1000);
    let site = Site::new(&plant).await;
    let session = site.session().await;
    let id = ("Mcp-Session-Id", session.as_str());
    let mut stream = site.open("GET", &[id], "").await;
    let mut waiting = site.open("POST", &[id], &write(9, 45).to_string()).await;
    let left = site.open("POST", &[id], &write(10, 46).to_string()).await;
    plant.reached.acquire().await.unwrap().forget();
    // A client that leaves takes nothing back.
    drop(left);
    site.stop.cancel();
    assert!(stream.event().await.is_none(), "the stream ended while calls were running");
    plant.turns.add_permits(2);
    let answer = waiting.event().await.expect("an answer");
    assert_eq!(answer["id"], 9);
    site.finish().await.expect("it stopped well");
    assert_eq!(plant.written.lock().last(), Some(&crate::model::Value::F64(46.0)));
}

#[tokio::test]
async fn a_stop_waits_for_calls_without_a_session() {
    let plant = Plant::new(0);
    plant.turns.forget_permits(1000);
    let site = Site::new(&plant).await;
    let arguments = json!({ "tag": "boiler/setpoint", "value": 45 });
    let call = site.modern("tools/call", json!({ "name": "write_tag", "arguments": arguments }));
    let stop = async {
        plant.reached.acquire().await.unwrap().forget();
        let mut listener = site.modern("subscriptions/listen", json!({ "notifications": {} })).await;
        site.stop.cancel();
        while listener.event().await.is_some() {}
        plant.turns.add_permits(1);
    };
    let (mut answer, ()) = tokio::join!(call, stop);
    assert_eq!(answer.status, 200);
    let answer = answer.message().await;
    assert_eq!(answer["result"]["structuredContent"]["outcome"], "confirmed", "{answer}");
    site.finish().await.expect("it stopped well");
}

#[tokio::test]
async fn a_stop_does_not_wait_for_ever() {
    let plant = Plant::new(0);
    plant.turns.forget_permits(1000);
    let site = Site::impatient(&plant).await;
    let session = site.session().await;
    let mut waiting = site.open("POST", &[("Mcp-Session-Id", &session)], &write(9, 45).to_string()).await;
    plant.reached.acquire().await.unwrap().forget();
    site.finish().await.expect("it stopped well");
    let answer = waiting.event().await.expect("an answer");
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(9), &json!(-32603)), "{answer}");
    assert!(plant.written.lock().is_empty());
}

#[tokio::test]
async fn the_end_of_a_session_answers_what_still_waits() {
    let plant = Plant::new(0);
    plant.turns.forget_permits(1000);
    let site = Site::new(&plant).await;
    let session = site.session().await;
    let id = ("Mcp-Session-Id", session.as_str());
    let mut waiting = site.open("POST", &[id], &write(9, 45).to_string()).await;
    assert_eq!(site.http("DELETE", &[id], "").await.status, 204);
    let answer = waiting.event().await.expect("an answer");
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(9), &json!(-32603)), "{answer}");
}
