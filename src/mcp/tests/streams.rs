//! Streams of notifications over HTTP: read, not read, opened late, replaced, ended.

use std::collections::HashSet;

use serde_json::json;

use super::{
    client::{Site, Stream},
    plant::Plant,
};
use crate::model::Value;

fn uri(number: usize) -> String {
    format!("fieldbridge://tags/many/line-1/t{number:05}")
}

/// A session that is subscribed to `many` tags.
async fn subscribed(site: &Site, many: usize) -> String {
    let session = site.session().await;
    for number in 0..many {
        let answer = site.request(&session, "resources/subscribe", json!({ "uri": uri(number) })).await;
        assert!(answer["result"].is_object(), "{answer}");
    }
    session
}

async fn listen(site: &Site, session: &str) -> Stream {
    let stream = site.open("GET", &[("Mcp-Session-Id", session)], "").await;
    assert_eq!(stream.status, 200);
    stream
}

async fn uris(stream: &mut Stream, many: usize) -> HashSet<String> {
    let mut seen = HashSet::new();
    while seen.len() < many {
        let event = stream.event().await.expect("the stream is open");
        assert_eq!(event["method"], "notifications/resources/updated");
        seen.insert(event["params"]["uri"].as_str().unwrap().to_owned());
    }
    seen
}

#[tokio::test]
async fn a_stream_that_opens_late_is_told_of_every_tag() {
    let plant = Plant::new(100);
    let site = Site::new(&plant).await;
    let session = subscribed(&site, 40).await;
    for round in 0..100 {
        plant.publish_all(&Value::I64(round));
    }
    let call = json!({ "name": "read_tags", "arguments": { "tags": ["many/line-1/t00003"] } });
    let read = site.request(&session, "tools/call", call).await;
    assert_eq!(read["result"]["structuredContent"]["tags"][0]["value"], 99, "calls go on without a stream");
    let mut stream = listen(&site, &session).await;
    let seen = uris(&mut stream, 40).await;
    assert_eq!(seen, (0..40).map(uri).collect());
    // And from then on of each change, once.
    plant.publish("many/line-1/t00007", Value::I64(7));
    assert_eq!(stream.event().await.unwrap()["params"]["uri"], uri(7));
}

#[tokio::test]
async fn a_client_that_does_not_read_its_stream_blocks_nothing() {
    let plant = Plant::new(200);
    let site = Site::new(&plant).await;
    let session = subscribed(&site, 200).await;
    let mut deaf = listen(&site, &session).await;
    let other = subscribed(&site, 1).await;
    let mut heard = listen(&site, &other).await;
    uris(&mut heard, 1).await;
    // Far more than the sockets' buffers would hold.
    for round in 0..2000 {
        plant.publish_all(&Value::I64(round));
        tokio::task::yield_now().await;
    }
    let call = json!({ "name": "read_tags", "arguments": { "tags": ["many/line-1/t00003"] } });
    for session in [&session, &other] {
        let read = site.request(session, "tools/call", call.clone()).await;
        assert_eq!(read["result"]["structuredContent"]["tags"][0]["value"], 1999);
    }
    uris(&mut heard, 1).await;
    // Once it reads it finds every tag.
    assert_eq!(uris(&mut deaf, 200).await.len(), 200);
}

#[tokio::test]
async fn a_second_stream_takes_the_place_of_the_first() {
    let plant = Plant::new(10);
    let site = Site::new(&plant).await;
    let session = subscribed(&site, 1).await;
    let mut first = listen(&site, &session).await;
    uris(&mut first, 1).await;
    let mut second = listen(&site, &session).await;
    while first.event().await.is_some() {}
    uris(&mut second, 1).await;
    plant.publish("many/line-1/t00000", Value::I64(7));
    uris(&mut second, 1).await;
    // A client that comes back with the id of an event gets a stream as well.
    drop(second);
    let resume = [("Mcp-Session-Id", session.as_str()), ("Last-Event-ID", "7")];
    let mut third = site.open("GET", &resume, "").await;
    uris(&mut third, 1).await;
}

#[tokio::test]
async fn streams_end_with_their_session_and_with_the_server() {
    let plant = Plant::new(10);
    let site = Site::new(&plant).await;
    let session = subscribed(&site, 1).await;
    let mut stream = listen(&site, &session).await;
    uris(&mut stream, 1).await;
    assert_eq!(site.http("DELETE", &[("Mcp-Session-Id", &session)], "").await.status, 204);
    while stream.event().await.is_some() {}
    let session = subscribed(&site, 1).await;
    let mut stream = listen(&site, &session).await;
    uris(&mut stream, 1).await;
    site.finish().await.expect("it stopped well");
    while stream.event().await.is_some() {}
}

#[tokio::test]
async fn listening_over_http_needs_no_session() {
    let plant = Plant::new(10);
    let site = Site::new(&plant).await;
    let filter =
        json!({ "notifications": { "resourceSubscriptions": [uri(3)], "resourcesListChanged": true } });
    let mut stream = site.modern("subscriptions/listen", filter).await;
    assert_eq!(stream.status, 200);
    let accepted = stream.event().await.unwrap();
    assert_eq!(accepted["method"], "notifications/subscriptions/acknowledged", "{accepted}");
    assert_eq!(accepted["params"]["notifications"]["resourceSubscriptions"], json!([uri(3)]));
    uris(&mut stream, 1).await;
    plant.publish("many/line-1/t00004", Value::I64(7));
    plant.publish("many/line-1/t00003", Value::I64(7));
    uris(&mut stream, 1).await;
    plant.reload(11);
    let mut methods = HashSet::new();
    while !methods.contains("notifications/resources/list_changed") {
        methods.insert(stream.event().await.unwrap()["method"].as_str().unwrap().to_owned());
    }
    site.finish().await.expect("it stopped well");
    while stream.event().await.is_some() {}
}
