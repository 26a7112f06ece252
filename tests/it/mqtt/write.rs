//! Writes: once on the wire, whatever becomes of the link, and told as what they are.

use std::sync::Arc;

use fieldbridge::model::{LinkState, Outcome, Party, Report, Value};
use tokio::task::JoinHandle;

use super::{
    PERSISTENT, WORDS, device,
    script::{PUBREL, Peer, Script, VERSIONS, Version},
    start, switch, switch_of,
};
use crate::plant::Plant;

/// Starts a write; its stamp is taken now.
fn write(plant: &Plant, path: &str, value: &str) -> JoinHandle<Report> {
    let (control, request) = (Arc::clone(plant.app.control()), plant.request(path, value));
    tokio::spawn(async move { control.write(request).await })
}

/// Sees that the next PUBLISH is that of a new write: nothing older waits before it.
async fn is_next(plant: &Plant, peer: &mut Peer) {
    plant.until_device("plug", |reading| reading.link == LinkState::Connected).await;
    let report = write(plant, "plug/on", "off");
    let published = peer.published().await;
    assert_eq!((published.payload.as_str(), published.dup), ("OFF", false));
    match published.qos {
        1 => peer.puback(published.id.unwrap()).await,
        2 => {
            let id = published.id.unwrap();
            peer.pubrec(id).await;
            assert_eq!(peer.expect(PUBREL).await.id(), id);
            peer.pubcomp(id).await;
        }
        _ => {}
    }
    let report = report.await.unwrap();
    assert!(matches!(report.outcome, Outcome::Written | Outcome::Sent), "{report:?}");
}

#[tokio::test]
async fn a_write_is_confirmed_by_its_state() {
    for version in VERSIONS {
        let script = Script::new(version).await;
        let plant = start(&script, "", &switch("confirm_ms = 20000"));
        let mut peer = script.serve().await;
        let report = write(&plant, "plug/on", "on");
        let published = peer.published().await;
        assert_eq!((published.topic.as_str(), published.payload.as_str()), ("cmnd/plug/POWER", "ON"));
        assert_eq!((published.qos, published.retain, published.dup), (1, false, false));
        peer.puback(published.id.unwrap()).await;
        // What the broker kept says nothing of this write.
        peer.publish_with(0x31, "stat/plug/POWER", None, &[], "ON").await;
        plant.until("plug/on", |reading| reading.sample.value == Value::Bool(true)).await;
        peer.publish("stat/plug/POWER", "OFF").await;
        plant.until("plug/on", |reading| reading.sample.value == Value::Bool(false)).await;
        assert!(!report.is_finished());
        peer.publish("stat/plug/POWER", "ON").await;
        let report = report.await.unwrap();
        assert_eq!((report.outcome, report.acknowledged_by), (Outcome::Confirmed, Some(Party::Broker)));
        assert_eq!(plant.read("plug/on").sample.value, Value::Bool(true));
        plant.app.stop().await;
    }
}

#[tokio::test]
async fn a_state_before_the_acknowledgement_confirms_as_well() {
    let script = Script::new(Version::V5).await;
    let plant = start(&script, "", &switch("confirm_ms = 20000"));
    let mut peer = script.serve().await;
    let report = write(&plant, "plug/on", "on");
    let id = peer.published().await.id.unwrap();
    peer.publish("stat/plug/POWER", "ON").await;
    plant.until_good("plug/on").await;
    assert!(!report.is_finished());
    peer.puback(id).await;
    assert_eq!(report.await.unwrap().outcome, Outcome::Confirmed);
    plant.app.stop().await;
}

#[tokio::test]
async fn another_state_differs_and_none_is_written() {
    for (state, outcome) in [(Some("OFF"), Outcome::Differs), (None, Outcome::Written)] {
        let script = Script::new(Version::V5).await;
        let plant = start(&script, "", &switch("confirm_ms = 100"));
        let mut peer = script.serve().await;
        let report = write(&plant, "plug/on", "on");
        let id = peer.published().await.id.unwrap();
        if let Some(state) = state {
            peer.publish("stat/plug/POWER", state).await;
        }
        peer.puback(id).await;
        let report = report.await.unwrap();
        assert_eq!((report.outcome, report.acknowledged_by), (outcome, Some(Party::Broker)), "{report:?}");
        plant.app.stop().await;
    }
}

#[tokio::test]
async fn qos_0_is_sent_and_qos_2_is_taken() {
    for version in VERSIONS {
        let script = Script::new(version).await;
        let plant = start(&script, "", &switch("qos = 0, confirm_ms = 0"));
        let mut peer = script.serve().await;
        let report = write(&plant, "plug/on", "on");
        assert_eq!(peer.published().await.qos, 0);
        let report = report.await.unwrap();
        assert_eq!((report.outcome, report.acknowledged_by), (Outcome::Sent, None));
        plant.app.stop().await;

        let script = Script::new(version).await;
        let plant = start(&script, "", &switch("qos = 2, confirm_ms = 0, retain = true"));
        let mut peer = script.serve().await;
        let report = write(&plant, "plug/on", "on");
        let published = peer.published().await;
        let id = published.id.unwrap();
        assert_eq!((published.qos, published.retain), (2, true));
        peer.pubrec(id).await;
        assert_eq!(peer.expect(PUBREL).await.id(), id);
        assert!(!report.is_finished());
        peer.pubcomp(id).await;
        let report = report.await.unwrap();
        assert_eq!((report.outcome, report.acknowledged_by), (Outcome::Written, Some(Party::Broker)));
        plant.app.stop().await;
    }
}

#[tokio::test]
async fn what_a_broker_refuses_is_told_with_its_code() {
    for (code, said) in [
        (0x87, "not authorized (0x87)"),
        (0x97, "quota exceeded (0x97)"),
        (0x99, "payload format invalid (0x99)"),
        (0x90, "topic name invalid (0x90)"),
        (0x10, "nobody listens on cmnd/plug/POWER"),
    ] {
        let script = Script::new(Version::V5).await;
        let plant = start(&script, "", &switch("confirm_ms = 20000"));
        let mut peer = script.serve().await;
        let report = write(&plant, "plug/on", "on");
        let id = peer.published().await.id.unwrap();
        peer.puback_with(id, code).await;
        let report = report.await.unwrap();
        assert_eq!((report.outcome, report.code), (Outcome::Refused, Some(code)), "{report:?}");
        assert!(report.message.contains(said), "{}", report.message);
        is_next_after_refusal(&plant, &mut peer).await;
        plant.app.stop().await;
    }
}

/// A refusal leaves no trace: the next write goes its way.
async fn is_next_after_refusal(plant: &Plant, peer: &mut Peer) {
    let report = write(plant, "plug/on", "off");
    let published = peer.published().await;
    assert_eq!(published.payload, "OFF");
    peer.puback(published.id.unwrap()).await;
    peer.publish("stat/plug/POWER", "OFF").await;
    assert_eq!(report.await.unwrap().outcome, Outcome::Confirmed);
}

#[tokio::test]
async fn a_write_expires_with_its_deadline() {
    let script = Script::new(Version::V5).await;
    let plant = start(&script, "", &switch("confirm_ms = 0, timeout_ms = 60000"));
    let mut peer = script.serve().await;
    let report = write(&plant, "plug/on", "on");
    let published = peer.published().await;
    let expiry = published.expiry().unwrap();
    assert!((50..=60).contains(&expiry), "{expiry}");
    peer.puback(published.id.unwrap()).await;
    assert_eq!(report.await.unwrap().outcome, Outcome::Written);
    plant.app.stop().await;
}

#[tokio::test]
async fn what_the_broker_did_not_acknowledge_is_unknown_and_never_repeated() {
    for version in VERSIONS {
        for qos in [1, 2] {
            let script = Script::new(version).await;
            let keys = format!("qos = {qos}, confirm_ms = 0");
            let plant = start(&script, PERSISTENT, &switch(&keys));
            let mut peer = script.serve().await;
            let report = write(&plant, "plug/on", "on");
            assert_eq!(peer.published().await.payload, "ON");
            peer.cut();
            let report = report.await.unwrap();
            assert_eq!(report.outcome, Outcome::Unknown, "{report:?}");
            let mut peer = if qos == 2 {
                // The broker may hold the message unreleased; its number would be taken for that of a later write.
                script.serve().await
            } else {
                let mut peer = script.accept().await;
                assert!(!peer.connect.is_clean());
                peer.greet(true).await;
                peer
            };
            is_next(&plant, &mut peer).await;
            plant.app.stop().await;
        }
    }
}

#[tokio::test]
async fn what_the_broker_received_of_qos_2_is_released_and_not_repeated() {
    for version in VERSIONS {
        let script = Script::new(version).await;
        let plant = start(&script, PERSISTENT, &switch("qos = 2, confirm_ms = 0"));
        let mut peer = script.serve().await;
        let report = write(&plant, "plug/on", "on");
        let id = peer.published().await.id.unwrap();
        peer.pubrec(id).await;
        assert_eq!(peer.expect(PUBREL).await.id(), id);
        peer.cut();
        let outcome = report.await.unwrap().outcome;
        assert!(matches!(outcome, Outcome::Unknown | Outcome::Written), "{outcome:?}");
        let mut peer = script.accept().await;
        assert!(!peer.connect.is_clean());
        peer.greet(true).await;
        let release = peer.expect(PUBREL).await;
        assert_eq!((release.id(), release.flags), (id, 2));
        peer.pubcomp(id).await;
        is_next(&plant, &mut peer).await;
        plant.app.stop().await;
    }
}

#[tokio::test]
async fn a_write_while_the_link_is_down_is_not_sent_ever() {
    for version in VERSIONS {
        let script = Script::new(version).await;
        let plant = start(&script, PERSISTENT, &switch("confirm_ms = 0"));
        script.serve().await.cut();
        let mut peer = script.accept().await;
        // Connected, but not received.
        let report = plant.write("plug/on", "on").await;
        assert_eq!(report.outcome, Outcome::NotSent, "{report:?}");
        peer.greet(true).await;
        is_next(&plant, &mut peer).await;
        plant.app.stop().await;
    }
}

/// A device that answers on a topic: by the correlation data of MQTT 5, or by a number in its JSON.
fn answering(response: &str) -> String {
    let payload = r#"'{"id": "{id}", "on": "{value}"}'"#;
    let keys = format!("confirm_ms = 0, payload = {payload}, response = {{ {response} }}");
    switch_of("plug", "path = 'on'", &keys)
}

#[tokio::test]
async fn an_answer_by_correlation_data_is_the_devices_own() {
    let script = Script::new(Version::V5).await;
    let plant = start(&script, "", &answering("topic = '{client}/answer', error = 'error'"));
    let mut peer = script.serve().await;
    for (payload, outcome) in [
        ("{}", Outcome::Written),
        (r#"{"error":{"code":-103,"message":"no such switch"}}"#, Outcome::Refused),
    ] {
        let report = write(&plant, "plug/on", "on");
        let published = peer.published().await;
        let text = String::from_utf8_lossy(&published.properties).into_owned();
        assert!(text.contains("bridge/answer"), "{text}");
        let at = published.properties.iter().position(|byte| *byte == 0x09).unwrap();
        let correlation = published.properties[at..].to_vec();
        peer.puback(published.id.unwrap()).await;
        // Another's answer is none.
        peer.publish_with(0x30, "bridge/answer", None, &[0x09, 0, 1, 7], r#"{"error":1}"#).await;
        peer.publish_with(0x30, "bridge/answer", None, &correlation, payload).await;
        let report = report.await.unwrap();
        assert_eq!((report.outcome, report.acknowledged_by), (outcome, Some(Party::Device)), "{report:?}");
        if outcome == Outcome::Refused {
            assert!(report.message.contains("no such switch"), "{}", report.message);
        }
    }
    plant.app.stop().await;
}

#[tokio::test]
async fn an_answer_by_a_number_is_the_devices_own() {
    for version in VERSIONS {
        let script = Script::new(version).await;
        let plant = start(&script, "", &answering("topic = '{client}/rpc', id = 'id', error = 'error'"));
        let mut peer = script.serve().await;
        let report = write(&plant, "plug/on", "on");
        let published = peer.published().await;
        let sent: serde_json::Value = serde_json::from_str(&published.payload).unwrap();
        assert_eq!(sent["on"], true);
        let id = sent["id"].as_u64().unwrap();
        peer.puback(published.id.unwrap()).await;
        peer.publish("bridge/rpc", &format!(r#"{{"id":{},"error":1}}"#, id + 1)).await;
        // What the broker kept is an answer to another.
        peer.publish_with(0x31, "bridge/rpc", None, &[], &format!(r#"{{"id":{id},"error":1}}"#)).await;
        peer.publish("bridge/rpc", &format!(r#"{{"id":{id},"result":{{}}}}"#)).await;
        let report = report.await.unwrap();
        assert_eq!((report.outcome, report.acknowledged_by), (Outcome::Written, Some(Party::Device)));
        plant.app.stop().await;
    }
}

#[tokio::test]
async fn no_more_leaves_than_the_broker_acknowledges() {
    let script = Script::new(Version::V5).await;
    let both =
        ["plug", "two"].map(|name| switch_of(name, WORDS, "confirm_ms = 0, timeout_ms = 300")).concat();
    let plant = start(&script, "", &both);
    let mut peer = script.accept().await;
    // Receive Maximum 1 (MQTT 5.0, section 3.2.2.3.3).
    peer.greet_with(&[0x21, 0, 1]).await;
    peer.grant().await;
    plant.until_device("plug", |reading| reading.link == LinkState::Connected).await;
    let first = write(&plant, "plug/on", "on");
    let published = peer.published().await;
    let second = write(&plant, "two/on", "on");
    assert_eq!(first.await.unwrap().outcome, Outcome::Unknown);
    // It had no place before its deadline, and has none after it.
    assert_eq!(second.await.unwrap().outcome, Outcome::NotSent);
    peer.puback(published.id.unwrap()).await;
    is_next(&plant, &mut peer).await;
    plant.app.stop().await;
}

#[tokio::test]
async fn what_the_broker_does_not_take_never_leaves() {
    // Maximum QoS 0; Retain Available 0; Maximum Packet Size 60.
    for (properties, keys, said) in [
        (&[0x24, 0][..], "confirm_ms = 0", "at most QoS 0"),
        (&[0x25, 0], "confirm_ms = 0, retain = true", "keeps no messages"),
        (&[0x27, 0, 0, 0, 60], "confirm_ms = 0", "packets of 60"),
    ] {
        let script = Script::new(Version::V5).await;
        let plant = start(&script, "", &switch(keys));
        let mut peer = script.accept().await;
        peer.greet_with(properties).await;
        peer.grant().await;
        plant.until_device("plug", |reading| reading.link == LinkState::Connected).await;
        let report = plant.write("plug/on", "on").await;
        assert_eq!(report.outcome, Outcome::NotSent, "{report:?}");
        assert!(report.message.contains(said), "{}", report.message);
        peer.publish("stat/plug/POWER", "ON").await;
        plant.until_good("plug/on").await;
        plant.app.stop().await;
    }
}

#[tokio::test]
async fn nothing_is_confirmed_that_is_not_waited_for() {
    let script = Script::new(Version::V311).await;
    let plant = start(&script, "", &switch("confirm_ms = 0"));
    let mut peer = script.serve().await;
    for state in ["ON", "OFF"] {
        let report = write(&plant, "plug/on", "on");
        let published = peer.published().await;
        peer.publish("stat/plug/POWER", state).await;
        plant.until("plug/on", |reading| reading.sample.value == Value::Bool(state == "ON")).await;
        peer.puback(published.id.unwrap()).await;
        assert_eq!(report.await.unwrap().outcome, Outcome::Written);
    }
    plant.app.stop().await;
}

#[tokio::test]
async fn a_state_that_is_older_than_the_write_confirms_nothing() {
    let script = Script::new(Version::V5).await;
    let reading = format!("{WORDS}\npath = 'on'\ntime = {{ path = 'ts', clock = 'rfc3339' }}");
    let timed = switch_of("plug", &reading, "confirm_ms = 200");
    let plant = start(&script, "", &timed);
    let mut peer = script.serve().await;
    let report = write(&plant, "plug/on", "on");
    let published = peer.published().await;
    peer.publish("stat/plug/POWER", r#"{"on":"ON","ts":"2020-01-01T00:00:00Z"}"#).await;
    peer.puback(published.id.unwrap()).await;
    assert_eq!(report.await.unwrap().outcome, Outcome::Written);
    plant.app.stop().await;
}

#[tokio::test]
async fn a_text_cannot_change_what_a_template_in_json_says() {
    let script = Script::new(Version::V5).await;
    let tag = "name = 'mode'\ntype = 'text'\ntopic = 's'\naccess = 'read-write'\n\
               write = { topic = 'c', confirm_ms = 0, payload = '{\"mode\":\"{value}\"}' }";
    let plant = start(&script, "", &device("d", "", tag));
    let mut peer = script.serve().await;
    let value = r#"eco","boiler":"off"#;
    let report = write(&plant, "d/mode", value);
    let published = peer.published().await;
    let sent: serde_json::Value = serde_json::from_str(&published.payload).unwrap();
    assert_eq!(sent, serde_json::json!({ "mode": value }));
    peer.puback(published.id.unwrap()).await;
    assert_eq!(report.await.unwrap().outcome, Outcome::Written);
    plant.app.stop().await;
}
