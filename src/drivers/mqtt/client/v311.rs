//! MQTT 3.1.1.

use std::sync::Arc;

use futures_util::{FutureExt, future::BoxFuture};
use rumqttc_v4::{
    AsyncClient, Broker, ConnectReturnCode, ConnectionError, Error, EventLoop, LastWill, MqttOptions,
    NetworkOptions, Packet, PublishOptions, PublishResult, QoS, StateError, SubscribeFilter,
    SubscribeReasonCode, Transport,
};

use super::{
    Ack, BoxStream, CLOSED, Code, Connected, Event, Events, Failure, Granted, HEADERS, IN_FLIGHT, Limits,
    Message, NO_PING, Once, Outgoing, QUEUE, Sender, Welcome, place,
};
use crate::{config::MqttEndpoint, profile::mqtt::Qos};

/// This version cannot tell the broker what is too large, and a message that the library refuses comes again on every
/// connection: all sizes are taken, and what is too large is thrown away behind.
const LARGEST: usize = 268_435_455 + 5;

super::kept::kept!(rumqttc_v4);

#[derive(Debug, Default)]
pub(in crate::drivers::mqtt) struct Client {
    kept: Kept,
    /// Whether the broker's session is one that we know, if only as empty.
    is_resumable: bool,
}

impl Client {
    pub(super) async fn connect(
        &mut self,
        endpoint: &MqttEndpoint,
        login: Option<(&str, &str)>,
        stream: BoxStream,
    ) -> Result<Connected, Failure> {
        let is_persistent = endpoint.session_expiry.is_some();
        let resumes = self.is_resumable && !self.kept.has_unreleased();
        if !resumes {
            self.is_resumable = false;
            self.kept.forget();
        }
        // A clean session of this version ends with its connection: one only to clear goes before a persistent one.
        let clears = is_persistent && !resumes;
        let mut options = options(endpoint, login, stream)?;
        let clean = options.try_set_clean_session(!is_persistent || clears);
        clean.map_err(|error| Failure::passing(error.to_string()))?;
        if is_persistent && !clears {
            options.set_session_store(self.kept.clone());
        }
        if let Some(announce) = endpoint.announce.as_ref().filter(|_| !clears) {
            let (topic, offline) = (announce.topic.as_str(), announce.offline.as_str());
            options.set_last_will(LastWill::new(topic, offline, qos(announce.qos), announce.retain));
        }
        let (client, mut events) = AsyncClient::builder(options).capacity(QUEUE).build();
        let mut network = NetworkOptions::new();
        network.set_connection_timeout(endpoint.timeout.as_secs().max(1));
        events.set_network_options(network);
        let session_present = loop {
            match events.poll().await {
                Ok(rumqttc_v4::Event::Incoming(Packet::ConnAck(ack))) => break ack.session_present,
                Ok(_) => {}
                Err(error) => return Err(failure(&error)),
            }
        };
        self.is_resumable = is_persistent;
        if clears {
            drop(client.try_disconnect_now());
            while events.poll().await.is_ok() {}
            return Ok(Connected::Cleared);
        }
        let welcome = Welcome { session_present, has_identifiers: false, limits: Limits::default() };
        Ok(Connected::Session(welcome, Sender::V311(client), Events::V311(Box::new(events))))
    }
}

fn options(
    endpoint: &MqttEndpoint,
    login: Option<(&str, &str)>,
    stream: BoxStream,
) -> Result<MqttOptions, Failure> {
    let (host, port) = place(&endpoint.address);
    let (broker, transport) = match &endpoint.websocket {
        None => (Broker::tcp(host, port), Transport::tcp()),
        Some(path) => {
            let url = format!("ws://{}{path}", endpoint.address);
            let broker = Broker::websocket(url).map_err(|error| Failure::passing(error.to_string()))?;
            (broker, Transport::ws())
        }
    };
    let mut options = MqttOptions::new(endpoint.client_id.as_str(), broker);
    options
        .set_transport(transport)
        .set_keep_alive(u16::try_from(endpoint.keep_alive.as_secs()).unwrap_or(u16::MAX))
        .set_max_packet_size(
            LARGEST,
            usize::try_from(endpoint.max_payload.saturating_add(HEADERS)).unwrap_or(LARGEST),
        );
    options.try_set_inflight(IN_FLIGHT).map_err(|error| Failure::passing(error.to_string()))?;
    match login {
        Some((user, "")) => options.set_username(user),
        Some((user, password)) => options.set_credentials(user.to_owned(), password.to_owned()),
        None => &mut options,
    };
    let stream = Arc::new(Once::new(stream));
    options.set_socket_connector(move |_address, _options| {
        let stream = stream.take();
        async move { stream }
    });
    Ok(options)
}

pub(super) fn publish(
    client: &AsyncClient,
    message: Outgoing<'_>,
) -> Result<BoxFuture<'static, Ack>, String> {
    let options = PublishOptions::new(qos(message.qos)).retain(message.retain);
    let notice = client
        .try_publish_tracked(message.topic, message.payload, options)
        .map_err(|error| error.to_string())?;
    let answer = async move {
        match notice.wait_async().await {
            Ok(PublishResult::Qos0Flushed) => Ack::Flushed,
            Ok(PublishResult::Qos1(_) | PublishResult::Qos2Completed(_)) => Ack::Taken,
            Err(_) => Ack::Lost,
        }
    };
    Ok(answer.boxed())
}

pub(super) fn subscribe(
    client: &AsyncClient,
    filters: &[(String, Qos)],
) -> Result<BoxFuture<'static, Option<Vec<Granted>>>, String> {
    let wanted = filters.iter().map(|(filter, level)| SubscribeFilter::new(filter.clone(), qos(*level)));
    let notice =
        client.try_subscribe_many_tracked(wanted.collect::<Vec<_>>()).map_err(|error| error.to_string())?;
    let granted = |code: &SubscribeReasonCode| match code {
        SubscribeReasonCode::Success(level) => Ok(level_of(*level)),
        SubscribeReasonCode::Failure => Err(Code::v311(0x80)),
    };
    let answer = async move {
        let ack = notice.wait_async().await.ok()?;
        Some(ack.return_codes.iter().map(granted).collect())
    };
    Ok(answer.boxed())
}

pub(super) async fn next(events: &mut EventLoop) -> Result<Event, Failure> {
    match events.poll().await {
        Ok(rumqttc_v4::Event::Incoming(Packet::Publish(message))) => Ok(Event::Message(Message {
            topic: message.topic,
            payload: message.payload,
            qos: level_of(message.qos),
            retain: message.retain,
            identifiers: Vec::new(),
            correlation: None,
        })),
        Ok(_) => Ok(Event::Other),
        Err(error) => Err(failure(&error)),
    }
}

fn failure(error: &ConnectionError) -> Failure {
    match error {
        ConnectionError::ConnectionRefused(code) => Failure::refused(Code::v311(match code {
            ConnectReturnCode::Success => 0,
            ConnectReturnCode::RefusedProtocolVersion => 1,
            ConnectReturnCode::BadClientId => 2,
            ConnectReturnCode::ServiceUnavailable => 3,
            ConnectReturnCode::BadUserNamePassword => 4,
            ConnectReturnCode::NotAuthorized => 5,
        })),
        ConnectionError::Io(error)
        | ConnectionError::MqttState(StateError::Io(error) | StateError::Deserialization(Error::Io(error))) => {
            Failure::broken(error)
        }
        ConnectionError::MqttState(StateError::ConnectionAborted) => Failure::passing(CLOSED),
        ConnectionError::MqttState(StateError::AwaitPingResp) => Failure::passing(NO_PING),
        ConnectionError::NetworkTimeout => Failure::passing("the broker does not answer our connect"),
        error => Failure::passing(error.to_string()),
    }
}

fn qos(level: Qos) -> QoS {
    match level {
        Qos::AtMostOnce => QoS::AtMostOnce,
        Qos::AtLeastOnce => QoS::AtLeastOnce,
        Qos::ExactlyOnce => QoS::ExactlyOnce,
    }
}

fn level_of(level: QoS) -> Qos {
    match level {
        QoS::AtMostOnce => Qos::AtMostOnce,
        QoS::AtLeastOnce => Qos::AtLeastOnce,
        QoS::ExactlyOnce => Qos::ExactlyOnce,
    }
}
