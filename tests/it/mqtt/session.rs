//! Sessions: what is subscribed again, what a refusal tells, and what is told of the bridge itself.

use fieldbridge::model::{DeviceState, LinkState, Quality, Reason, Value};

use super::{
    PERSISTENT, device, number,
    script::{DISCONNECT, Packet, Peer, SUBSCRIBE, Script, VERSIONS, Version},
    site, start,
};
/// Drives a peer until its client closes, and tells what came.
async fn rest(mut peer: Peer) -> Vec<Packet> {
    let mut packets = Vec::new();
    while let Some(packet) = peer.read().await {
        packets.push(packet);
    }
    packets
}

#[tokio::test]
async fn it_subscribes_again_where_the_broker_has_no_session() {
    for version in VERSIONS {
        let script = Script::new(version).await;
        let plant = start(&script, PERSISTENT, &number("d", "s/1", ""));
        script.serve().await.cut();
        let mut peer = script.accept().await;
        assert!(!peer.connect.is_clean());
        let none = if version == Version::V5 { "2003000000" } else { "20020000" };
        peer.send_hex(none).await;
        assert_eq!(peer.grant().await, ["s/1"]);
        peer.publish("s/1", "4").await;
        assert_eq!(plant.until_good("d/v").await.sample.value, Value::F64(4.0));
        plant.app.stop().await;
    }
}

#[tokio::test]
async fn a_kept_session_brings_back_what_no_message_can_be_missing_of() {
    for version in VERSIONS {
        let script = Script::new(version).await;
        let both = number("d", "s/1", "") + &number("e", "s/0", "qos = 0");
        let plant = start(&script, PERSISTENT, &both);
        let mut peer = script.serve().await;
        peer.publish_with(0x32, "s/1", Some(1), &[], "4").await;
        assert_eq!(peer.next().await.id(), 1);
        peer.publish("s/0", "5").await;
        for path in ["d/v", "e/v"] {
            plant.until_good(path).await;
        }
        peer.cut();
        let mut peer = script.accept().await;
        for path in ["d/v", "e/v"] {
            assert_eq!(plant.read(path).sample.quality, Quality::Bad(Reason::NotConnected));
        }
        peer.greet(true).await;
        assert_eq!(plant.until_good("d/v").await.sample.value, Value::F64(4.0));
        let stale = |reading: &fieldbridge::store::Reading| {
            reading.sample.quality == Quality::Uncertain(Reason::Stale)
        };
        plant.until("e/v", stale).await;
        // What the broker kept comes in its order, once each.
        for (id, payload) in [(2, "6"), (3, "7")] {
            peer.publish_with(0x32, "s/1", Some(id), &[], payload).await;
            let packet = peer.next().await;
            assert_ne!(packet.kind, SUBSCRIBE, "nothing is to be subscribed");
            assert_eq!(packet.id(), id);
        }
        assert_eq!(plant.value("d/v"), Value::F64(7.0));
        plant.app.stop().await;
    }
}

#[tokio::test]
async fn a_clean_session_is_new_each_time() {
    for version in VERSIONS {
        let script = Script::new(version).await;
        let plant = start(&script, "", &number("d", "s/1", ""));
        script.serve().await.cut();
        let mut peer = script.accept().await;
        assert!(peer.connect.is_clean());
        peer.greet(false).await;
        assert_eq!(peer.grant().await, ["s/1"]);
        plant.app.stop().await;
    }
}

#[tokio::test]
async fn a_refused_login_is_named_and_not_repeated_soon() {
    for (version, answer, said) in [
        (Version::V311, "20020005", "not authorized"),
        (Version::V311, "20020004", "bad user name or password"),
        (Version::V5, "2003008600", "bad user name or password"),
        (Version::V5, "2003008700", "not authorized"),
    ] {
        let script = Script::new(version).await;
        let plant =
            start(&script, "reconnect_max_ms = 3600000\nusername = 'bridge'", &number("d", "s/1", ""));
        let mut peer = script.accept().await;
        peer.send_hex(answer).await;
        plant
            .until_device("d", |reading| {
                reading.link_detail.as_deref().is_some_and(|detail| detail.contains(said))
            })
            .await;
        assert_eq!(plant.read("d/v").sample.quality, Quality::Bad(Reason::NotConnected));
        plant.app.stop().await;
    }
}

#[tokio::test]
async fn a_client_that_took_over_is_left_alone() {
    let script = Script::new(Version::V5).await;
    let plant = start(&script, "reconnect_max_ms = 3600000", &number("d", "s/1", ""));
    let mut peer = script.serve().await;
    peer.send_hex("E0028E00").await;
    plant
        .until_device("d", |reading| {
            reading.link != LinkState::Connected
                && reading.link_detail.as_deref().is_some_and(|detail| detail.contains("taken over"))
        })
        .await;
    plant.app.stop().await;
}

#[tokio::test]
async fn a_refused_subscription_is_named_on_the_tags_that_it_hits() {
    for (version, code) in [(Version::V5, 0x87), (Version::V311, 0x80)] {
        let script = Script::new(version).await;
        let both = number("d", "s/1", "") + &number("e", "s/2", "");
        let plant = start(&script, "", &both);
        let mut peer = script.accept().await;
        peer.greet(false).await;
        let (id, filters) = peer.expect(SUBSCRIBE).await.subscription();
        let codes = filters.iter().map(|(filter, qos)| if filter == "s/2" { code } else { *qos });
        peer.suback(id, &codes.collect::<Vec<_>>()).await;
        let refused =
            plant.until("e/v", |reading| reading.sample.quality == Quality::Bad(Reason::DeviceRefused)).await;
        let detail = refused.sample.detail.unwrap();
        let said = if version == Version::V5 { "not authorized (0x87)" } else { "0x80" };
        assert!(detail.contains("s/2") && detail.contains(said), "{detail}");
        plant.until_device("e", |reading| reading.state == DeviceState::Refused).await;
        peer.publish("s/1", "3").await;
        assert_eq!(plant.until_good("d/v").await.sample.value, Value::F64(3.0));
        plant.app.stop().await;
    }
}

#[tokio::test]
async fn the_largest_packet_is_announced() {
    let script = Script::new(Version::V5).await;
    let plant = start(&script, "max_payload_bytes = 300000", &number("d", "s/1", ""));
    let mut peer = script.serve().await;
    let properties = peer.connect.connect_properties();
    // Maximum Packet Size (MQTT 5.0, section 3.1.2.11.4).
    let at = properties.iter().position(|byte| *byte == 0x27).unwrap();
    let size = u32::from_be_bytes(properties[at + 1..at + 5].try_into().unwrap());
    assert!(size >= 300_000, "{size}");
    peer.publish("s/1", "3").await;
    plant.until_good("d/v").await;
    plant.app.stop().await;
}

#[tokio::test]
async fn it_says_that_it_comes_and_that_it_goes() {
    for version in VERSIONS {
        let script = Script::new(version).await;
        let announce = r#"announce = { topic = "b/s", online = "here", offline = "gone", qos = 1 }"#;
        let plant = start(&script, announce, &number("d", "s/1", ""));
        let mut peer = script.accept().await;
        // The will: retained, QoS 1.
        assert_eq!(peer.connect.body[7] & 0b11_1100, 0b10_1100, "{:?}", peer.connect);
        let body = String::from_utf8_lossy(&peer.connect.body).into_owned();
        assert!(body.contains("b/s") && body.contains("gone"), "{body}");
        peer.greet(false).await;
        peer.grant().await;
        let birth = peer.published().await;
        assert_eq!((birth.topic.as_str(), birth.payload.as_str()), ("b/s", "here"));
        assert_eq!((birth.qos, birth.retain), (1, true));
        peer.puback(birth.id.unwrap()).await;
        let gone = async {
            let last = peer.published().await;
            assert_eq!((last.topic.as_str(), last.payload.as_str()), ("b/s", "gone"));
            peer.puback(last.id.unwrap()).await;
            rest(peer).await
        };
        let (packets, ()) = tokio::join!(gone, plant.app.stop());
        assert_eq!(packets.iter().map(|packet| packet.kind).collect::<Vec<_>>(), [DISCONNECT]);
    }
}

/// A device `d` with a number on `s/1` and a sign on `d/LWT`.
fn watched() -> String {
    device("d", SIGN, "name = 'v'\ntype = 'float64'\ntopic = 's/1'")
}

const SIGN: &str = "availability = [{ topic = 'd/LWT', online = ['on'], offline = ['off'] }]";

#[tokio::test]
async fn signs_are_asked_for_again_in_a_kept_session() {
    let script = Script::new(Version::V5).await;
    let plant = start(&script, PERSISTENT, &watched());
    let mut peer = script.serve().await;
    peer.publish_with(0x32, "s/1", Some(1), &[], "4").await;
    assert_eq!(peer.next().await.id(), 1);
    peer.publish("d/LWT", "on").await;
    plant.until_good("d/v").await;
    peer.cut();
    let mut peer = script.accept().await;
    peer.greet(true).await;
    // A will of QoS 0 came meanwhile: the broker only kept it.
    assert_eq!(peer.grant().await, ["d/LWT"]);
    peer.publish_with(0x31, "d/LWT", None, &[], "off").await;
    let bad =
        plant.until("d/v", |reading| reading.sample.quality == Quality::Bad(Reason::DeviceOffline)).await;
    assert_eq!(bad.sample.value, Value::F64(4.0));
    // And away, and back in a new session: nothing says any more that it is not there.
    peer.cut();
    let mut peer = script.accept().await;
    peer.greet(false).await;
    peer.grant().await;
    plant.until("d/v", |reading| reading.sample.quality == Quality::Uncertain(Reason::Stale)).await;
    plant.app.stop().await;
}

#[tokio::test]
async fn signs_that_tell_nothing_are_told_of() {
    let script = Script::new(Version::V5).await;
    let plant = start(&script, "", &watched());
    let mut peer = script.accept().await;
    peer.greet(false).await;
    let (id, filters) = peer.expect(SUBSCRIBE).await.subscription();
    let codes = filters.iter().map(|(filter, qos)| if filter == "d/LWT" { 0x87 } else { *qos });
    peer.suback(id, &codes.collect::<Vec<_>>()).await;
    let says = |words: &'static str| {
        move |reading: &fieldbridge::store::DeviceReading| {
            reading.detail.as_deref().is_some_and(|detail| detail.contains(words))
        }
    };
    plant.until_device("d", says("refuses the subscription to d/LWT")).await;
    peer.cut();
    let mut peer = script.serve().await;
    peer.publish("d/LWT", "Off").await;
    plant.until_device("d", says("d/LWT says \"Off\", which is none of its words")).await;
    peer.publish("d/LWT", "off").await;
    plant.until_device("d", |reading| reading.state == DeviceState::Offline).await;
    plant.app.stop().await;
}

#[tokio::test]
async fn a_try_that_fails_keeps_the_session() {
    for version in VERSIONS {
        let script = Script::new(version).await;
        let plant = start(&script, PERSISTENT, &number("d", "s/1", ""));
        script.serve().await.cut();
        let peer = script.accept().await;
        assert!(!peer.connect.is_clean());
        // Closed before CONNACK.
        peer.cut();
        let peer = script.accept().await;
        assert!(!peer.connect.is_clean());
        drop(peer);
        plant.app.stop().await;
    }
}

#[tokio::test]
async fn a_command_that_comes_back_is_no_sign_of_life() {
    for version in VERSIONS {
        let script = Script::new(version).await;
        let tag =
            "name = 't'\ntype = 'float64'\ntopic = 's/1'\naccess = 'read-write'\nwrite = { topic = 's/1' }";
        let plant = start(&script, "", &device("d", SIGN, tag));
        let mut peer = script.serve().await;
        peer.publish("d/LWT", "off").await;
        plant.until_device("d", |reading| reading.state == DeviceState::Offline).await;
        peer.publish("s/1", "5").await;
        let bad = plant.until("d/t", |reading| reading.sample.value == Value::F64(5.0)).await;
        assert_eq!(bad.sample.quality, Quality::Bad(Reason::DeviceOffline));
        plant.app.stop().await;
    }
}

#[tokio::test]
async fn a_value_from_before_a_reload_is_stale_and_not_never_read() {
    let script = Script::new(Version::V5).await;
    let mut plant = start(&script, "", &number("d", "s/1", ""));
    let mut peer = script.serve().await;
    peer.publish("s/1", "4").await;
    plant.until_good("d/v").await;
    let both = number("d", "s/1", "") + &number("e", "s/2", "");
    plant.app.reload(crate::plant::site(&site(&script, "", &both))).await;
    let _peer = script.serve().await;
    let stale =
        plant.until("d/v", |reading| reading.sample.quality == Quality::Uncertain(Reason::Stale)).await;
    assert_eq!(stale.sample.value, Value::F64(4.0));
    assert_eq!(plant.read("e/v").sample.quality, Quality::Bad(Reason::NeverRead));
    plant.app.stop().await;
}
