//! A client that keeps what it gets.

use mqtt5::{
    ConnectOptions, ConnectResult, Message, MqttClient, ProtocolVersion, PublishOptions, QoS,
    SubscribeOptions,
};
use serde_json::Value;
use simulators::mqtt::{Broker, Device, Model, Settings};
use tokio::sync::mpsc;

use crate::raw::{ANY, soon};

pub(super) const BOTH: [ProtocolVersion; 2] = [ProtocolVersion::V311, ProtocolVersion::V5];

pub(super) async fn broker() -> Broker {
    soon(Broker::start(ANY.into())).await.unwrap()
}

/// A device that speaks by hand only, connected.
pub(super) async fn device<M: Model>(broker: &Broker, model: M) -> Device<M> {
    let device = Device::start(&broker.url(), model, Settings::by_hand());
    soon(device.wait_for(Device::connected)).await;
    device
}

pub(super) struct Client {
    pub(super) mqtt: MqttClient,
    inbox: mpsc::UnboundedReceiver<Message>,
    sender: mpsc::UnboundedSender<Message>,
}

impl Client {
    pub(super) async fn connect(broker: &Broker, name: &str, version: ProtocolVersion) -> Self {
        let options = ConnectOptions::new(name).with_protocol_version(version);
        Self::with(broker, options).await.unwrap().0
    }

    pub(super) async fn with(
        broker: &Broker,
        options: ConnectOptions,
    ) -> Result<(Self, ConnectResult), mqtt5::MqttError> {
        let options = options.with_automatic_reconnect(false);
        let client = MqttClient::with_options(options.clone());
        let result = soon(client.connect_with_options(&broker.url(), options)).await?;
        let (sender, inbox) = mpsc::unbounded_channel();
        Ok((Self { mqtt: client, inbox, sender }, result))
    }

    pub(super) async fn subscribe(&self, filter: &str) -> Result<QoS, mqtt5::MqttError> {
        let sender = self.sender.clone();
        let options = SubscribeOptions { qos: QoS::AtLeastOnce, ..SubscribeOptions::default() };
        let take = move |message| {
            let _ended = sender.send(message);
        };
        soon(self.mqtt.subscribe_with_options(filter, options, take)).await.map(|(_, granted)| granted)
    }

    pub(super) async fn publish(&self, topic: &str, payload: &str) {
        let options = PublishOptions { qos: QoS::AtLeastOnce, ..PublishOptions::default() };
        soon(self.mqtt.publish_with_options(topic, payload, options)).await.unwrap();
    }

    pub(super) async fn next(&mut self) -> Message {
        soon(self.inbox.recv()).await.unwrap()
    }

    /// The next message for a topic; those for others are dropped.
    pub(super) async fn next_at(&mut self, topic: &str) -> Message {
        loop {
            let message = self.next().await;
            if message.topic == topic {
                return message;
            }
        }
    }

    pub(super) async fn text_at(&mut self, topic: &str) -> String {
        String::from_utf8(self.next_at(topic).await.payload).unwrap()
    }

    pub(super) async fn json_at(&mut self, topic: &str) -> Value {
        serde_json::from_slice(&self.next_at(topic).await.payload).unwrap()
    }
}
