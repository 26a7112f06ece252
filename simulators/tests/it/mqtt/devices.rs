//! Devices in operation: what goes over the wire, and what a test can do with them.

use std::time::{Duration, UNIX_EPOCH};

use mqtt5::{PublishOptions, QoS};
use simulators::mqtt::{
    Broker, Device, Message, Settings,
    family::{Climate, Meter, Node, Plug, Switch, Valve},
};

use super::client::{BOTH, Client, broker, device};
use crate::raw::{ANY, soon};

#[tokio::test]
async fn a_plug_is_switched_and_confirms() {
    for v311 in [false, true] {
        let broker = broker().await;
        let settings = Settings { v311, ..Settings::by_hand() };
        let plug = Device::start(&broker.url(), Plug::new("shed"), settings);
        soon(plug.wait_for(Device::connected)).await;
        assert_eq!(broker.handle().retained("tele/shed/LWT").as_deref(), Some(&b"Online"[..]));
        let mut client = Client::connect(&broker, "bridge", BOTH[1]).await;
        client.subscribe("stat/shed/#").await.unwrap();
        client.publish("cmnd/shed/POWER", "ON").await;
        assert_eq!(client.text_at("stat/shed/POWER").await, "ON");
        assert!(plug.with(|plug| plug.is_on()));
        let commands = plug.commands();
        assert_eq!(commands, [Message::new("cmnd/shed/POWER", "ON")]);
        client.subscribe("tele/shed/SENSOR").await.unwrap();
        soon(plug.beat()).await.unwrap();
        assert_ne!(client.json_at("tele/shed/SENSOR").await["ENERGY"]["Power"], 0.0);
    }
}

#[tokio::test]
async fn a_switch_answers_with_correlation_data() {
    let broker = broker().await;
    let switch = device(&broker, Switch::new("pm-5")).await;
    let mut client = Client::connect(&broker, "bridge", BOTH[1]).await;
    client.subscribe("answers/#").await.unwrap();
    let mut options = PublishOptions { qos: QoS::AtLeastOnce, ..PublishOptions::default() };
    options.properties.response_topic = Some("answers/7".into());
    options.properties.correlation_data = Some(vec![1, 2, 3]);
    let request = r#"{"id":1,"src":"bridge","method":"Switch.Set","params":{"id":0,"on":true}}"#;
    client.mqtt.publish_with_options("pm-5/rpc", request, options).await.unwrap();
    let answer = client.next().await;
    assert_eq!(answer.properties.correlation_data, Some(vec![1, 2, 3]));
    assert!(switch.with(|switch| switch.is_on()));
    assert_eq!(switch.commands()[0].response_topic.as_deref(), Some("answers/7"));
}

#[tokio::test]
async fn a_node_stops_in_good_order() {
    let broker = broker().await;
    let node = device(&broker, Node::new("boiler")).await;
    let kept = |topic: &str| {
        broker.handle().retained(topic).map(|payload| String::from_utf8(payload.into()).unwrap())
    };
    assert_eq!(kept("homie/boiler/$state").as_deref(), Some("ready"));
    assert_eq!(kept("homie/boiler/tank/temp").as_deref(), Some("48.25"));
    let client = Client::connect(&broker, "bridge", BOTH[0]).await;
    client.publish("homie/boiler/tank/temp/set", "50").await;
    soon(broker.handle().wait_for(|_| kept("homie/boiler/tank/temp").as_deref() == Some("50"))).await;
    soon(node.stop()).await;
    soon(broker.handle().wait_for(|handle| !handle.connected("boiler"))).await;
    assert_eq!(kept("homie/boiler/$state").as_deref(), Some("disconnected"));
}

#[tokio::test]
async fn a_clock_of_its_own_goes_by_beats() {
    let broker = broker().await;
    let settings = Settings { clock: Some(UNIX_EPOCH), ..Settings::by_hand() };
    let meter = Device::start(&broker.url(), Meter::new("m"), settings);
    soon(meter.wait_for(Device::connected)).await;
    let mut client = Client::connect(&broker, "bridge", BOTH[1]).await;
    client.subscribe("meters/m/data").await.unwrap();
    soon(meter.pass(Duration::from_secs(90))).await.unwrap();
    soon(meter.beat()).await.unwrap();
    for expected in ["1970-01-01T00:01:30.000Z", "1970-01-01T00:01:31.000Z"] {
        assert_eq!(client.json_at("meters/m/data").await["ts"], expected);
    }
}

#[tokio::test]
async fn beats_come_by_themselves_where_they_are_asked_for() {
    let broker = broker().await;
    let settings = Settings::every(Duration::from_millis(5));
    let valve = Device::start(&broker.url(), Valve::new("v"), settings);
    let client = Client::connect(&broker, "bridge", BOTH[1]).await;
    soon(valve.wait_for(Device::connected)).await;
    client.publish("valves/v/set", "51").await;
    soon(valve.wait_for(|valve| valve.with(|valve| valve.position()) >= 51.0)).await;
}

#[tokio::test]
async fn messages_by_hand_go_out_as_they_are() {
    let broker = broker().await;
    let room = device(&broker, Climate::new("r")).await;
    let message = Message::new("zigbee2mqtt/r", &b"\xFF{"[..]).retained();
    soon(room.publish(message.clone())).await.unwrap();
    assert_eq!(broker.handle().messages("zigbee2mqtt/r").last(), Some(&message));
    broker.handle().refuse_publishing(["zigbee2mqtt/#"]);
    assert!(soon(room.publish(message)).await.is_err());
    assert!(soon(room.beat()).await.is_err());
    broker.handle().refuse_publishing([]);
    soon(room.beat()).await.unwrap();
    assert_eq!(room.connects(), 1, "a refusal is no end");
}

#[tokio::test]
async fn comes_back_after_the_broker() {
    let broker = broker().await;
    let addr = broker.local_addr();
    let room = device(&broker, Climate::new("r")).await;
    soon(broker.stop()).await;
    soon(room.wait_for(|room| !room.connected())).await;
    assert!(soon(room.beat()).await.is_err());
    let broker = soon(Broker::start(addr)).await.unwrap();
    soon(room.wait_for(Device::connected)).await;
    assert_eq!(room.connects(), 2);
    assert!(broker.handle().connected("r"));
}

#[tokio::test]
async fn tries_until_its_password_is_right() {
    let broker = broker().await;
    broker.handle().users([("plant", "secret")]);
    let settings = Settings { user: Some(("plant".into(), "old".into())), ..Settings::by_hand() };
    let room = Device::start(&broker.url(), Climate::new("r"), settings);
    let stranger =
        Device::start(&format!("mqtt://{}", broker.local_addr()), Climate::new("s"), Settings::by_hand());
    assert!(soon(room.beat()).await.is_err());
    assert!(soon(stranger.beat()).await.is_err());
    broker.handle().users([("plant", "old")]);
    soon(room.wait_for(Device::connected)).await;
    assert!(!stranger.connected());
}

#[tokio::test]
async fn starts_before_its_broker() {
    let free = Broker::start(ANY.into()).await.unwrap();
    let addr = free.local_addr();
    soon(free.stop()).await;
    let room = Device::start(&format!("mqtt://{addr}"), Climate::new("r"), Settings::by_hand());
    assert!(soon(room.beat()).await.is_err());
    let _broker = soon(Broker::start(addr)).await.unwrap();
    soon(room.wait_for(Device::connected)).await;
}
