//! What goes wrong with devices, by what reaches a client.

use simulators::mqtt::{
    Device, Fault, Settings,
    family::{Climate, Meter, Node, Plug, Valve},
};

use super::client::{BOTH, Client, broker, device};
use crate::raw::soon;

fn fault(text: &str) -> Vec<Fault> {
    vec![text.parse().unwrap()]
}

#[tokio::test]
async fn silence_keeps_the_connection() {
    let broker = broker().await;
    let plug = device(&broker, Plug::new("p")).await;
    let before = plug.published();
    plug.faults(fault("silence"));
    soon(plug.beat()).await.unwrap();
    let client = Client::connect(&broker, "bridge", BOTH[1]).await;
    client.publish("cmnd/p/POWER", "ON").await;
    soon(plug.wait_for(|plug| plug.with(|plug| plug.is_on()))).await;
    soon(plug.beat()).await.unwrap();
    assert_eq!(plug.published(), before);
    assert!(plug.connected() && broker.handle().connected("p"));
    plug.faults(vec![]);
    soon(plug.beat()).await.unwrap();
    assert_eq!(plug.published(), before + 2);
}

#[tokio::test]
async fn offline_leaves_the_last_will() {
    for v311 in [false, true] {
        let broker = broker().await;
        let settings = Settings { v311, ..Settings::by_hand() };
        let plug = Device::start(&broker.url(), Plug::new("p"), settings);
        soon(plug.wait_for(Device::connected)).await;
        plug.faults(fault("offline"));
        let will = |text: &'static [u8]| {
            broker.handle().wait_for(move |handle| handle.retained("tele/p/LWT").as_deref() == Some(text))
        };
        soon(will(b"Offline")).await;
        assert!(soon(plug.beat()).await.is_err());
        assert!(!plug.connected());
        plug.faults(vec![]);
        soon(will(b"Online")).await;
        soon(plug.wait_for(Device::connected)).await;
        assert_eq!(plug.connects(), 2);
    }
}

#[tokio::test]
async fn offline_from_the_start_is_a_device_that_has_been_there() {
    let broker = broker().await;
    let node = Device::with_faults(&broker.url(), Node::new("n"), Settings::by_hand(), fault("offline"));
    let state = |text: &'static [u8]| {
        broker.handle().wait_for(move |handle| handle.retained("homie/n/$state").as_deref() == Some(text))
    };
    soon(state(b"lost")).await;
    soon(node.wait_for(|node| node.connects() == 1 && !node.connected())).await;
}

#[tokio::test]
async fn values_are_malformed_and_the_status_is_not() {
    let broker = broker().await;
    let mut client = Client::connect(&broker, "bridge", BOTH[1]).await;
    client.subscribe("#").await.unwrap();
    let node = Device::with_faults(&broker.url(), Node::new("n"), Settings::by_hand(), fault("nan"));
    assert_eq!(client.text_at("homie/n/tank/temp/$format").await, "0:80");
    assert_eq!(client.text_at("homie/n/tank/temp").await, "nan");
    assert_eq!(client.text_at("homie/n/tank/mode").await, "eco");
    assert_eq!(client.text_at("homie/n/$state").await, "ready");
    soon(node.stop()).await;

    let room =
        Device::with_faults(&broker.url(), Climate::new("r"), Settings::by_hand(), fault("nan=temperature"));
    let text = client.text_at("zigbee2mqtt/r").await;
    assert!(text.contains(r#""temperature":nan"#) && text.contains(r#""battery":97"#), "{text}");
    room.faults(fault("cut-json"));
    soon(room.beat()).await.unwrap();
    let text = client.text_at("zigbee2mqtt/r").await;
    assert!(text.starts_with('{') && !text.ends_with('}'), "{text}");
    room.faults(fault("pad=70000"));
    soon(room.beat()).await.unwrap();
    let padded = client.json_at("zigbee2mqtt/r").await;
    assert_eq!(padded["pad"].as_str().unwrap().len(), 70_000 - 9);
    room.faults(vec![]);
    soon(room.beat()).await.unwrap();
    assert_eq!(client.json_at("zigbee2mqtt/r").await["battery"], 97);
}

#[tokio::test]
async fn a_flood_comes_in_order_and_ends_with_the_last_value() {
    let broker = broker().await;
    let meter = device(&broker, Meter::new("m")).await;
    let mut client = Client::connect(&broker, "bridge", BOTH[1]).await;
    client.subscribe("meters/m/data").await.unwrap();
    soon(meter.flood(2_000)).await.unwrap();
    let last = meter.with(|meter| meter.count()) - 1;
    for expected in last - 1_999..=last {
        assert_eq!(client.json_at("meters/m/data").await["seq"], expected);
    }
    meter.faults(fault("flood=5000"));
    soon(meter.wait_for(|meter| meter.with(|meter| meter.count()) > last + 500)).await;
    meter.faults(vec![]);
    soon(meter.beat()).await.unwrap();
}

#[tokio::test]
async fn garbage_is_kept_while_values_come_live() {
    let broker = broker().await;
    let node =
        Device::with_faults(&broker.url(), Node::new("n"), Settings::by_hand(), fault("retained-garbage"));
    soon(node.wait_for(Device::connected)).await;
    let mut client = Client::connect(&broker, "bridge", BOTH[1]).await;
    client.subscribe("homie/n/tank/temp").await.unwrap();
    let kept = client.next().await;
    assert!(kept.retain && std::str::from_utf8(&kept.payload).is_err());
    soon(node.beat()).await.unwrap();
    let live = client.next().await;
    assert!(!live.retain && live.payload == b"48.25");
    assert_eq!(broker.handle().retained("homie/n/$state").as_deref(), Some(&b"ready"[..]));
}

#[tokio::test]
async fn a_slow_device_confirms_late_and_in_order() {
    let broker = broker().await;
    let valve = device(&broker, Valve::new("v")).await;
    let mut client = Client::connect(&broker, "bridge", BOTH[1]).await;
    valve.faults(fault("slow-confirm=3600s"));
    client.publish("valves/v/set", "1").await;
    soon(valve.wait_for(|valve| valve.commands().len() == 1)).await;
    soon(valve.beat()).await.unwrap();
    assert!((valve.with(|valve| valve.setpoint()) - 50.0).abs() < f64::EPSILON, "not yet");
    drop(valve);

    let valve = device(&broker, Valve::new("w")).await;
    valve.faults(fault("slow-confirm=1ms"));
    client.subscribe("valves/w/state").await.unwrap();
    client.publish("valves/w/set", "10").await;
    client.publish("valves/w/set", "20").await;
    let mut seen = Vec::new();
    while seen.last() != Some(&20.0) {
        seen.push(client.json_at("valves/w/state").await["setpoint"].as_f64().unwrap());
    }
    assert_eq!(seen, [50.0, 10.0, 20.0]);
}

#[tokio::test]
async fn ignored_commands_are_seen_all_the_same() {
    let broker = broker().await;
    let plug = device(&broker, Plug::new("p")).await;
    plug.faults(fault("ignore-commands"));
    let client = Client::connect(&broker, "bridge", BOTH[1]).await;
    client.publish("cmnd/p/POWER", "ON").await;
    soon(plug.wait_for(|plug| plug.commands().len() == 1)).await;
    soon(plug.beat()).await.unwrap();
    assert!(!plug.with(|plug| plug.is_on()));
}
