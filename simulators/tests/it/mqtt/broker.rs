//! The broker alone.

use std::io::ErrorKind;

use mqtt5::{ConnectOptions, ConnectionEvent, QoS};
use simulators::{
    modbus::tls::Authority,
    mqtt::{Broker, Listen},
};
use tokio::sync::mpsc;

use super::client::{BOTH, Client, broker};
use crate::raw::{ANY, soon};

#[tokio::test]
async fn takes_both_versions_on_one_port() {
    let broker = broker().await;
    for (name, version) in ["old", "new"].into_iter().zip(BOTH) {
        let mut client = Client::connect(&broker, name, version).await;
        assert_eq!(client.subscribe("a/#").await.unwrap(), QoS::AtLeastOnce);
        client.publish("a/b", name).await;
        let message = client.next().await;
        assert_eq!((message.topic.as_str(), message.payload.as_slice()), ("a/b", name.as_bytes()));
        assert!(broker.handle().connected(name));
        assert_eq!(broker.handle().subscriptions(name).keys().collect::<Vec<_>>(), ["a/#"]);
        client.mqtt.disconnect().await.unwrap();
        soon(broker.handle().wait_for(|handle| !handle.connected(name))).await;
    }
    let handle = broker.handle();
    assert_eq!((handle.accepted(), handle.published(), handle.subscribes()), (2, 2, 2));
    let clients: Vec<_> = handle.log().into_iter().map(|entry| entry.client).collect();
    assert_eq!(clients, ["old", "new"]);
}

#[tokio::test]
async fn keeps_what_is_retained_and_forgets_it() {
    let broker = broker().await;
    let client = Client::connect(&broker, "a", BOTH[1]).await;
    client.mqtt.publish_retain("s/1", "99").await.unwrap();
    soon(broker.handle().wait_for(|handle| handle.retained("s/1").as_deref() == Some(b"99"))).await;
    let mut late = Client::connect(&broker, "b", BOTH[0]).await;
    late.subscribe("s/+").await.unwrap();
    let message = late.next().await;
    assert!(message.retain && message.payload == b"99");
    client.mqtt.publish_retain("s/1", "").await.unwrap();
    soon(broker.handle().wait_for(|handle| handle.retained("s/1").is_none())).await;
}

#[tokio::test]
async fn asks_for_a_password_where_there_is_one() {
    let broker = broker().await;
    broker.handle().users([("plant", "secret")]);
    for version in BOTH {
        let options = |password: &str| {
            ConnectOptions::new("a").with_protocol_version(version).with_credentials("plant", password)
        };
        Client::with(&broker, options("secret")).await.unwrap();
        for wrong in [options("Secret"), ConnectOptions::new("b").with_protocol_version(version)] {
            assert!(Client::with(&broker, wrong).await.is_err());
        }
    }
    assert_eq!(broker.handle().accepted(), 2);
    broker.handle().users([]);
    Client::with(&broker, ConnectOptions::new("b")).await.unwrap();
}

#[tokio::test]
async fn refuses_what_it_is_told_to() {
    let broker = broker().await;
    broker.handle().refuse_subscriptions(["secret/#"]);
    broker.handle().refuse_publishing(["locked/+"]);
    for version in BOTH {
        let mut client = Client::connect(&broker, "a", version).await;
        assert!(client.subscribe("secret/#").await.is_err());
        client.subscribe("#").await.unwrap();
        assert_eq!(broker.handle().subscriptions("a").keys().collect::<Vec<_>>(), ["#"]);
        let refused = client.mqtt.publish_qos1("locked/1", "x").await;
        assert_eq!(refused.is_err(), version == BOTH[1], "{refused:?}");
        client.publish("open/1", "y").await;
        assert_eq!(client.next().await.topic, "open/1");
    }
}

#[tokio::test]
async fn stops_and_starts_again_on_its_port() {
    let broker = broker().await;
    let addr = broker.local_addr();
    let client = Client::connect(&broker, "a", BOTH[1]).await;
    let (ended, mut end) = mpsc::unbounded_channel();
    let tell = move |event| {
        if matches!(event, ConnectionEvent::Disconnected { .. }) {
            let _late = ended.send(());
        }
    };
    client.mqtt.on_connection_event(tell).await.unwrap();
    let taken = Broker::start(addr).await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    soon(broker.stop()).await;
    soon(end.recv()).await.unwrap();
    assert!(tokio::net::TcpStream::connect(addr).await.is_err());

    let again = soon(Broker::start(addr)).await.unwrap();
    assert_eq!(again.local_addr(), addr);
    Client::connect(&again, "a", BOTH[0]).await;
}

#[tokio::test]
async fn remembers_sessions_on_disk_only() {
    let folder = tempfile::tempdir().unwrap();
    for (storage, remembers) in [(None, false), (Some(folder.path().join("broker")), true)] {
        let listen = Listen { tcp: Some(ANY.into()), storage, ..Listen::default() };
        let options = || {
            ConnectOptions::new("a")
                .with_clean_start(false)
                .with_session_expiry_interval(3600)
                .with_resume_existing_session(true)
        };
        let broker = soon(Broker::listen(listen.clone())).await.unwrap();
        let (client, result) = Client::with(&broker, options()).await.unwrap();
        assert!(!result.session_present);
        client.subscribe("a").await.unwrap();
        client.mqtt.publish_retain("kept", "1").await.unwrap();
        soon(broker.handle().wait_for(|handle| handle.retained("kept").is_some())).await;
        soon(broker.stop()).await;

        let broker = soon(Broker::listen(listen)).await.unwrap();
        let (mut client, result) = Client::with(&broker, options()).await.unwrap();
        assert_eq!(result.session_present, remembers);
        client.subscribe("#").await.unwrap();
        client.publish("end", "").await;
        assert_eq!(client.next().await.topic, if remembers { "kept" } else { "end" });
    }
}

#[tokio::test]
async fn cuts_a_connection_and_keeps_its_session() {
    let broker = broker().await;
    let options = |version| {
        let options = ConnectOptions::new("a").with_protocol_version(version).with_clean_start(false);
        options.with_session_expiry_interval(3600).with_resume_existing_session(true)
    };
    for version in BOTH {
        let (client, _) = Client::with(&broker, options(version)).await.unwrap();
        client.subscribe("a").await.unwrap();
        soon(broker.cut("a")).await;
        soon(broker.handle().wait_for(|handle| !handle.connected("a"))).await;
        let other = Client::connect(&broker, "other", version).await;
        other.publish("a", "while it was away").await;
        let (mut client, result) = Client::with(&broker, options(version)).await.unwrap();
        assert!(result.session_present);
        client.subscribe("a").await.unwrap();
        assert_eq!(client.next().await.payload, b"while it was away");
        client.mqtt.disconnect().await.unwrap();
    }
}

#[tokio::test]
async fn speaks_tls_with_certificates_of_an_authority() {
    let folder = tempfile::tempdir().unwrap();
    Authority::new().unwrap().write(folder.path(), &["localhost", "127.0.0.1"]).unwrap();
    let listen = Listen {
        tls: Some(ANY.into()),
        folder: folder.path().to_owned(),
        client_certificates: true,
        ..Listen::default()
    };
    let broker = soon(Broker::listen(listen)).await.unwrap();
    let addr = broker.tls_addr().unwrap();
    assert_eq!(broker.local_addr(), addr);
    let tls = || {
        let mut tls = mqtt5::transport::tls::TlsConfig::new(addr, "localhost");
        tls.load_ca_cert_pem(folder.path().join("ca.pem").to_str().unwrap()).unwrap();
        tls.use_system_roots = false;
        tls
    };
    let client = mqtt5::MqttClient::with_options(ConnectOptions::new("a").with_automatic_reconnect(false));
    let mut own = tls();
    own.load_client_cert_pem(folder.path().join("client.pem").to_str().unwrap()).unwrap();
    own.load_client_key_pem(folder.path().join("client.key").to_str().unwrap()).unwrap();
    soon(client.connect_with_tls(own)).await.unwrap();
    assert!(broker.handle().connected("a"));
    let stranger = mqtt5::MqttClient::with_options(ConnectOptions::new("b").with_automatic_reconnect(false));
    assert!(soon(stranger.connect_with_tls(tls())).await.is_err());
    assert!(!broker.handle().connected("b"));
}
