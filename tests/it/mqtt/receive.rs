//! What comes in: once each, whatever the broker repeats.

use fieldbridge::model::{Quality, Reason, Value};

use super::{
    Log, PERSISTENT, device, number,
    script::{SUBSCRIBE, Script, VERSIONS, Version},
    start,
};

/// A tag of QoS 2 on `cmd/ack`.
fn command() -> String {
    device("d", "", "name = 'n'\ntype = 'int64'\ntopic = 'cmd/ack'\npath = 'n'\nqos = 2")
}

/// PUBLISH of QoS 2 and id 301: `{"n":1}`; the same with the DUP bit; and `{"n":2}`.
const FIRST: &str = "34120007636D642F61636B012D7B226E223A317D";
const AGAIN: &str = "3C120007636D642F61636B012D7B226E223A317D";
const SECOND: &str = "34120007636D642F61636B012D7B226E223A327D";

#[tokio::test]
async fn a_repeated_message_of_qos_2_is_one_event() {
    let script = Script::new(Version::V311).await;
    let plant = start(&script, PERSISTENT, &command());
    let mut peer = script.serve().await;
    let (log, _observed) = Log::of(&plant, "d/n");
    for packet in [FIRST, AGAIN, AGAIN] {
        peer.send_hex(packet).await;
        assert_eq!(peer.next_hex().await, "5002012D");
    }
    peer.send_hex("6202012D").await;
    assert_eq!(peer.next_hex().await, "7002012D");
    assert_eq!(log.values(), [Value::I64(1)]);
    // The id is free again: a new message.
    peer.send_hex(SECOND).await;
    assert_eq!(peer.next_hex().await, "5002012D");
    peer.send_hex("6202012D").await;
    assert_eq!(peer.next_hex().await, "7002012D");
    assert_eq!(log.values(), [Value::I64(1), Value::I64(2)]);
    // A release of nothing that we know is confirmed all the same.
    peer.send_hex("6202004D").await;
    assert_eq!(peer.next_hex().await, "7002004D");
    plant.app.stop().await;
}

#[tokio::test]
async fn a_message_of_qos_2_is_one_event_across_a_reconnect() {
    for version in VERSIONS {
        let script = Script::new(version).await;
        let plant = start(&script, PERSISTENT, &command());
        let mut peer = script.serve().await;
        let (log, _observed) = Log::of(&plant, "d/n");
        peer.publish_with(0x34, "cmd/ack", Some(301), &[], r#"{"n":1}"#).await;
        assert_eq!(peer.next_hex().await, "5002012D");
        peer.cut();
        let mut peer = script.accept().await;
        assert!(!peer.connect.is_clean());
        peer.greet(true).await;
        peer.publish_with(0x3C, "cmd/ack", Some(301), &[], r#"{"n":1}"#).await;
        assert_eq!(peer.next_hex().await, "5002012D");
        peer.send_hex("6202012D").await;
        assert_eq!(peer.next_hex().await, "7002012D");
        // Twice: when it came, and when the broker's session brought its quality back.
        let values = log.values();
        assert!(values.iter().all(|value| *value == Value::I64(1)), "{values:?}");
        peer.publish_with(0x34, "cmd/ack", Some(301), &[], r#"{"n":2}"#).await;
        assert_eq!(peer.next_hex().await, "5002012D");
        assert_eq!(log.values().last(), Some(&Value::I64(2)), "its id was free again");
        plant.app.stop().await;
    }
}

#[tokio::test]
async fn what_was_received_of_qos_2_is_forgotten_with_the_session() {
    let script = Script::new(Version::V5).await;
    let plant = start(&script, PERSISTENT, &command());
    let mut peer = script.serve().await;
    let (log, _observed) = Log::of(&plant, "d/n");
    peer.publish_with(0x34, "cmd/ack", Some(301), &[], r#"{"n":1}"#).await;
    assert_eq!(peer.next_hex().await, "5002012D");
    peer.cut();
    let mut peer = script.accept().await;
    peer.greet(false).await;
    peer.grant().await;
    // The same id in a new session is a new message.
    peer.publish_with(0x34, "cmd/ack", Some(301), &[], r#"{"n":2}"#).await;
    assert_eq!(peer.next_hex().await, "5002012D");
    assert_eq!(log.values(), [Value::I64(1), Value::I64(2)]);
    plant.app.stop().await;
}

#[tokio::test]
async fn a_repeated_message_of_qos_1_is_acknowledged_each_time() {
    let script = Script::new(Version::V311).await;
    let plant = start(&script, "", &number("d", "c/e", ""));
    let mut peer = script.serve().await;
    for packet in ["32080003632F65000531", "3A080003632F65000531"] {
        peer.send_hex(packet).await;
        assert_eq!(peer.next_hex().await, "40020005");
    }
    assert_eq!(plant.until_good("d/v").await.sample.value, Value::F64(1.0));
    plant.app.stop().await;
}

#[tokio::test]
async fn the_retain_bit_alone_makes_a_value_old() {
    for version in VERSIONS {
        let script = Script::new(version).await;
        let plant = start(&script, "", &number("d", "s/1", ""));
        let mut peer = script.serve().await;
        peer.publish_with(0x31, "s/1", None, &[], "99").await;
        let kept = plant.until("d/v", |reading| reading.sample.value == Value::F64(99.0)).await;
        assert_eq!(kept.sample.quality, Quality::Uncertain(Reason::Retained));
        assert_eq!((kept.age, kept.sample.source_time), (None, None));
        peer.publish_with(0x30, "s/1", None, &[], "100").await;
        assert_eq!(plant.until_good("d/v").await.sample.value, Value::F64(100.0));
        plant.app.stop().await;
    }
}

#[tokio::test]
async fn a_filter_that_another_covers_is_not_subscribed() {
    for version in VERSIONS {
        let script = Script::new(version).await;
        let devices = number("d", "s/1", "") + &number("e", "s/+", "");
        let plant = start(&script, "", &devices);
        let mut peer = script.accept_new().await;
        assert_eq!(peer.grant().await, ["s/+"]);
        peer.publish("s/1", "5").await;
        for path in ["d/v", "e/v"] {
            assert_eq!(plant.until_good(path).await.sample.value, Value::F64(5.0));
        }
        plant.app.stop().await;
    }
}

#[tokio::test]
async fn a_message_that_comes_by_two_subscriptions_counts_once() {
    let devices = number("d", "s/1/+", "") + &number("e", "s/+/x", "");
    let script = Script::new(Version::V5).await;
    let plant = start(&script, "", &devices);
    let mut peer = script.accept_new().await;
    let mut identifiers = Vec::new();
    for _ in 0..2 {
        let packet = peer.expect(SUBSCRIBE).await;
        let (id, filters) = packet.subscription();
        // Subscription Identifier (MQTT 5.0, section 3.8.2.1.2), the only property.
        assert_eq!((packet.body[2], packet.body[3]), (2, 0x0B));
        identifiers.push(packet.body[4]);
        peer.suback(id, &vec![1; filters.len()]).await;
    }
    let logs = ["d/v", "e/v"].map(|path| Log::of(&plant, path));
    for (id, identifier) in (1..).zip(&identifiers) {
        peer.publish_with(0x32, "s/1/x", Some(id), &[0x0B, *identifier], "5").await;
        assert_eq!(peer.next().await.id(), id);
    }
    // A broker may send one copy that names both.
    let both = [0x0B, identifiers[0], 0x0B, identifiers[1]];
    peer.publish_with(0x32, "s/1/x", Some(3), &both, "6").await;
    assert_eq!(peer.next().await.id(), 3);
    for (log, _observed) in logs {
        assert_eq!(log.values(), [Value::F64(5.0), Value::F64(6.0)]);
    }
    plant.app.stop().await;
}

#[tokio::test]
async fn a_refused_filter_takes_nothing_from_one_that_was_granted() {
    let devices = number("d", "s/1/+", "") + &number("e", "s/+/x", "");
    let script = Script::new(Version::V5).await;
    let plant = start(&script, "", &devices);
    let mut peer = script.accept_new().await;
    let mut granted = 0;
    for _ in 0..2 {
        let packet = peer.expect(SUBSCRIBE).await;
        let (id, filters) = packet.subscription();
        let is_refused = filters[0].0 == "s/1/+";
        if !is_refused {
            granted = packet.body[4];
        }
        peer.suback(id, &[if is_refused { 0x87 } else { 1 }]).await;
    }
    plant.until("d/v", |reading| reading.sample.quality == Quality::Bad(Reason::DeviceRefused)).await;
    peer.publish_with(0x32, "s/1/x", Some(1), &[0x0B, granted], "5").await;
    assert_eq!(plant.until_good("e/v").await.sample.value, Value::F64(5.0));
    plant.app.stop().await;
}
