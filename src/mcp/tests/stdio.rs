//! Case D03, and what else a client on stdio can do to us.

use serde_json::{Value as Json, json};

use super::{
    client::{INITIALIZE, Pipes, modern},
    plant::Plant,
};
use crate::model::Value;

/// Pipes a file of the cases into a server and collects all that it says until it ends.
async fn replay(file: &str) -> Vec<Json> {
    let path = format!("{}/tests/cases/files/{file}", env!("CARGO_MANIFEST_DIR"));
    let input = std::fs::read(path).unwrap();
    let plant = Plant::new(10);
    let mut client = Pipes::new(&plant.mcp);
    client.send_bytes(&input).await;
    let (messages, ended) = client.finish().await;
    ended.expect("it ended well");
    messages
}

fn by_id(messages: &[Json], id: impl Into<Json>) -> &Json {
    let id = id.into();
    let mut with_id = messages.iter().filter(|message| message["id"] == id);
    let message = with_id.next().unwrap_or_else(|| panic!("no answer to {id}: {messages:?}"));
    assert!(with_id.next().is_none(), "{id} is answered once: {messages:?}");
    message
}

fn has_tools(message: &Json) -> bool {
    message["result"]["tools"].as_array().is_some_and(|tools| tools.len() == 5)
}

#[tokio::test]
async fn d01_every_byte_is_protocol() {
    let messages = replay("D01_stdio.jsonl").await;
    assert_eq!(messages.len(), 4);
    assert!(has_tools(by_id(&messages, 2)));
    assert!(by_id(&messages, 3)["result"]["resources"].is_array());
    assert_eq!(by_id(&messages, 4)["result"], json!({}));
}

#[tokio::test]
async fn d03_1_log_level_before_initialized() {
    let messages = replay("D03_early_setlevel.jsonl").await;
    assert_eq!(messages.len(), 3);
    assert_eq!(by_id(&messages, 2)["error"]["code"], -32601);
    assert!(has_tools(by_id(&messages, 3)));
}

#[tokio::test]
async fn d03_2_list_before_initialized() {
    let messages = replay("D03_list_before_initialized.jsonl").await;
    assert!(has_tools(by_id(&messages, 2)));
    assert!(has_tools(by_id(&messages, 3)));
}

#[tokio::test]
async fn d03_3_discover_after_initialize() {
    let messages = replay("D03_discover_after_initialize.jsonl").await;
    assert_eq!(messages.len(), 3);
    assert_eq!(by_id(&messages, 2)["error"]["code"], -32601);
    assert!(has_tools(by_id(&messages, 3)));
}

#[tokio::test]
async fn d03_4_discover_first() {
    let messages = replay("D03_discover_first.jsonl").await;
    let versions = &by_id(&messages, 1)["result"]["supportedVersions"];
    assert!(versions.as_array().unwrap().contains(&"2026-07-28".into()), "{versions}");
    assert_eq!(by_id(&messages, 2)["result"]["protocolVersion"], "2025-11-25");
    assert!(has_tools(by_id(&messages, 3)));
}

#[tokio::test]
async fn d03_5_modern() {
    let messages = replay("D03_modern.jsonl").await;
    assert!(by_id(&messages, 1)["result"]["supportedVersions"].is_array());
    assert!(has_tools(by_id(&messages, 2)));
    assert_eq!(by_id(&messages, 2)["result"]["resultType"], "complete");
    let error = &by_id(&messages, 3)["error"];
    assert_eq!(error["code"], -32022);
    assert!(error["data"]["supported"].is_array(), "{error}");
}

#[tokio::test]
async fn d03_6_unknown_version() {
    let messages = replay("D03_unknown_version.jsonl").await;
    assert_eq!(by_id(&messages, 1)["result"]["protocolVersion"], "2025-11-25");
    assert!(has_tools(by_id(&messages, 2)));
}

#[tokio::test]
async fn d03_7_old_version() {
    let messages = replay("D03_old_version.jsonl").await;
    assert_eq!(by_id(&messages, 1)["result"]["protocolVersion"], "2024-11-05");
    assert!(has_tools(by_id(&messages, 2)));
}

#[tokio::test]
async fn d03_8_no_handshake() {
    let messages = replay("D03_no_handshake.jsonl").await;
    by_id(&messages, 1);
    assert_eq!(by_id(&messages, 2)["result"], json!({}));
    assert!(by_id(&messages, 3)["result"]["serverInfo"].is_object());
    assert!(has_tools(by_id(&messages, 4)));
}

#[tokio::test]
async fn d03_9_unknown_notifications() {
    let messages = replay("D03_unknown_notification.jsonl").await;
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_eq!(by_id(&messages, 2)["result"], json!({}));
}

#[tokio::test]
async fn d03_10_double_initialize() {
    let messages = replay("D03_double_init.jsonl").await;
    assert_eq!(by_id(&messages, 2)["result"]["protocolVersion"], "2025-11-25");
    assert!(has_tools(by_id(&messages, 3)));
}

#[tokio::test]
async fn d03_11_garbage() {
    let messages = replay("D03_garbage.txt").await;
    let codes = messages.iter().filter(|message| message["error"].is_object());
    let codes = codes.inspect(|message| assert!(message["id"].is_null() && message.get("id").is_some()));
    let codes = codes.map(|message| message["error"]["code"].as_i64().unwrap()).collect::<Vec<_>>();
    assert_eq!(codes, [-32700, -32700, -32600, -32600, -32600, -32600, -32600]);
    assert_eq!(by_id(&messages, "abc")["result"], json!({}));
    assert!(by_id(&messages, 10)["result"]["serverInfo"].is_object());
    assert!(has_tools(by_id(&messages, 11)));
    assert_eq!(messages.len(), 10);
}

#[tokio::test]
async fn garbage_after_the_handshake_and_crlf() {
    let plant = Plant::new(0);
    let mut client = Pipes::open(&plant.mcp).await;
    client.send_bytes(b"\xff\xfe\x00\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n").await;
    assert_eq!(client.receive().await["error"]["code"], -32700);
    client.send("{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\"}\r").await;
    assert_eq!(client.receive().await, json!({ "jsonrpc": "2.0", "id": 5, "result": {} }));
    client.send_bytes(&vec![b'x'; 5 * 1024 * 1024]).await;
    client.send("").await;
    let error = client.receive().await;
    assert_eq!(error["error"]["code"], -32600);
    assert_eq!(client.request("ping", json!({})).await["result"], json!({}));
    client.finish().await.1.expect("it ended well");
}

#[tokio::test]
async fn notifications_before_initialize_do_not_end_the_session() {
    let plant = Plant::new(0);
    let mut client = Pipes::new(&plant.mcp);
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#).await;
    client.send(r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"?"}}"#).await;
    client.send(INITIALIZE).await;
    assert!(client.receive().await["result"]["serverInfo"].is_object());
}

#[tokio::test]
async fn unreadable_params_and_unknown_methods_are_told_apart() {
    let plant = Plant::new(0);
    let mut client = Pipes::open(&plant.mcp).await;
    let code = |answer: &Json| answer["error"]["code"].as_i64().unwrap();
    assert_eq!(code(&client.request("tools/call", json!({ "arguments": {} })).await), -32602);
    assert_eq!(
        code(&client.request("tools/call", json!({ "name": "list_tags", "arguments": [] })).await),
        -32602
    );
    assert_eq!(code(&client.request("resources/read", json!({})).await), -32602);
    assert_eq!(code(&client.request("resources/move", json!({})).await), -32601);
    assert_eq!(code(&client.request("prompts/list", json!({})).await), -32601);
    let unknown = client.request("tools/call", json!({ "name": "read_tag" })).await;
    assert_eq!(code(&unknown), -32602);
    assert!(unknown["error"]["message"].as_str().unwrap().contains("read_tags"), "{unknown}");
}

#[tokio::test]
async fn one_id_cannot_be_in_flight_twice() {
    let plant = Plant::new(0);
    plant.turns.forget_permits(1000);
    let mut client = Pipes::open(&plant.mcp).await;
    let write = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
        "name": "write_tag", "arguments": { "tag": "boiler/setpoint", "value": 50 } } });
    client.send(&write).await;
    client.send(&write).await;
    let refused = client.receive().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(7), &json!(-32600)));
    plant.turns.add_permits(1);
    assert_eq!(client.receive().await["result"]["structuredContent"]["outcome"], "confirmed");
}

#[tokio::test]
async fn the_end_of_input_waits_for_the_calls_in_flight() {
    let plant = Plant::new(0);
    plant.turns.forget_permits(1000);
    let mut client = Pipes::open(&plant.mcp).await;
    client
        .send(json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
            "name": "write_tag", "arguments": { "tag": "boiler/setpoint", "value": 50 } } }))
        .await;
    client.end_input();
    plant.turns.add_permits(1);
    let (messages, ended) = client.finish().await;
    ended.expect("it ended well");
    assert_eq!(by_id(&messages, 7)["result"]["structuredContent"]["outcome"], "confirmed");
}

#[tokio::test]
async fn a_stop_waits_for_the_calls_in_flight() {
    let plant = Plant::new(0);
    plant.turns.forget_permits(1000);
    let mut client = Pipes::open(&plant.mcp).await;
    client
        .send(json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
            "name": "write_tag", "arguments": { "tag": "boiler/setpoint", "value": 50 } } }))
        .await;
    plant.reached.acquire().await.unwrap().forget();
    client.stop.cancel();
    // The server sees the stop before the device goes on.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    plant.turns.add_permits(1);
    let (messages, ended) = client.finish().await;
    ended.expect("it ended well");
    assert_eq!(by_id(&messages, 7)["result"]["structuredContent"]["outcome"], "confirmed");
}

#[tokio::test]
async fn d09_a_cancelled_call_has_no_answer() {
    let plant = Plant::new(0);
    plant.turns.forget_permits(1000);
    let path = format!("{}/tests/cases/files/D09_cancel.jsonl", env!("CARGO_MANIFEST_DIR"));
    let input = std::fs::read_to_string(path).unwrap();
    let input = input.replace("WRITE_TOOL", "write_tag").replace("slow.sp", "boiler/setpoint");
    let mut client = Pipes::new(&plant.mcp);
    client.send_bytes(input.as_bytes()).await;
    let mut answered = Vec::new();
    for _ in 0..3 {
        answered.push(client.receive().await["id"].clone());
    }
    plant.turns.add_permits(1);
    let (rest, ended) = client.finish().await;
    ended.expect("it ended well");
    answered.sort_by_key(Json::to_string);
    assert_eq!(answered, [1, 3, 4]);
    assert!(rest.is_empty(), "{rest:?}");
}

#[tokio::test]
async fn a_stop_ends_the_session() {
    let plant = Plant::new(0);
    let client = Pipes::open(&plant.mcp).await;
    client.stop.cancel();
    client.finish().await.1.expect("it ended well");
    let client = Pipes::new(&plant.mcp);
    client.stop.cancel();
    client.finish().await.1.expect("also before the handshake");
}

#[tokio::test]
async fn subscribers_are_told_and_nobody_else() {
    let plant = Plant::new(10);
    let mut client = Pipes::open(&plant.mcp).await;
    let mut other = Pipes::open(&plant.mcp).await;
    // The spelling is the client's own.
    let uri = "fieldbridge://tags/boiler%2Ftemperature";
    assert!(client.request("resources/subscribe", json!({ "uri": uri })).await["result"].is_object());
    plant.publish("boiler/frequency", Value::F32(49.98));
    plant.publish("boiler/temperature", Value::F64(71.5));
    let told = client.receive().await;
    assert_eq!(told["method"], "notifications/resources/updated");
    assert_eq!(told["params"]["uri"], uri);
    let read = client.request("resources/read", json!({ "uri": uri })).await;
    assert_eq!(read["result"]["contents"][0]["uri"], uri);
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(
        text.contains(r#""tag":"boiler/temperature","value":71.5,"unit":"°C","quality":"good""#),
        "{text}"
    );
    client.request("resources/unsubscribe", json!({ "uri": "fieldbridge://tags/boiler/temperature" })).await;
    plant.publish("boiler/temperature", Value::F64(72.5));
    assert_eq!(client.request("ping", json!({})).await["result"], json!({}));
    assert!(client.finish().await.0.is_empty(), "told after unsubscribing");
    assert_eq!(other.request("ping", json!({})).await["result"], json!({}));
    assert!(other.finish().await.0.is_empty(), "told without subscribing");
}

#[tokio::test]
async fn a_reload_changes_the_list_of_resources() {
    let plant = Plant::new(10);
    let mut client = Pipes::open(&plant.mcp).await;
    assert_eq!(client.request("ping", json!({})).await["result"], json!({}));
    plant.reload(11);
    assert_eq!(client.receive().await["method"], "notifications/resources/list_changed");
}

#[tokio::test]
async fn listening_is_the_modern_subscription() {
    let plant = Plant::new(10);
    let mut client = Pipes::new(&plant.mcp);
    let known = "fieldbridge://tags/boiler/%74emperature";
    let filter = json!({ "notifications": {
        "resourceSubscriptions": [known, "fieldbridge://tags/boiler/nothing"],
        "resourcesListChanged": true,
        "toolsListChanged": true } });
    client.send(modern(5, "subscriptions/listen", filter)).await;
    let accepted = client.receive().await;
    assert_eq!(accepted["method"], "notifications/subscriptions/acknowledged", "{accepted}");
    let filter = &accepted["params"]["notifications"];
    assert_eq!(*filter, json!({ "resourceSubscriptions": [known], "resourcesListChanged": true }));
    // What may have changed before the store knew of the subscription.
    assert_eq!(client.receive().await["params"]["uri"], known);
    plant.publish("boiler/temperature", Value::F64(71.5));
    let told = client.receive().await;
    assert_eq!(told["params"]["uri"], known);
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 5, "{told}");
    plant.reload(11);
    let (mut rest, ended) = client.finish().await;
    ended.expect("it ended well");
    let last = rest.pop().unwrap();
    assert_eq!((&last["id"], last["result"].is_object()), (&json!(5), true), "{last}");
}

#[tokio::test]
async fn a_client_that_does_not_read_blocks_nobody() {
    let plant = Plant::new(2000);
    let mut deaf = Pipes::open(&plant.mcp).await;
    for n in 0..2000 {
        let uri = format!("fieldbridge://tags/many/line-1/t{n:05}");
        assert!(deaf.request("resources/subscribe", json!({ "uri": uri })).await["result"].is_object());
    }
    let mut other = Pipes::open(&plant.mcp).await;
    for round in 0..50 {
        plant.publish_all(&Value::I64(round));
        tokio::task::yield_now().await;
    }
    let read = other.call("read_tags", json!({ "tags": ["many/line-1/t00007"] })).await;
    assert_eq!(read["structuredContent"]["tags"][0]["value"], 49);
    // It lost changes on the way, but of no tag the last one.
    let mut seen = std::collections::HashSet::new();
    while seen.len() < 2000 {
        seen.insert(deaf.receive().await["params"]["uri"].as_str().unwrap().to_owned());
    }
    deaf.stop.cancel();
    let (rest, _) = deaf.finish().await;
    assert!(rest.len() < 20_000, "they were coalesced: {}", rest.len());
}
