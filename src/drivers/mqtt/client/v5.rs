//! MQTT 5.

use std::sync::Arc;

use futures_util::{FutureExt, future::BoxFuture};
use rumqttc_v5::{
    AsyncClient, Broker, ConnAck, ConnAckProperties, ConnectReturnCode, ConnectionError, Error, EventLoop,
    LastWill, MqttOptions, Packet, PubCompReason, PublishOptions, PublishProperties, PublishResult, QoS,
    StateError, SubscribeFilterInput, SubscribeProperties, SubscribeReasonCode, Transport,
};

use super::{
    Ack, BoxStream, CLOSED, Code, Connected, Event, Events, Failure, Granted, HEADERS, IN_FLIGHT, Limits,
    Message, NO_PING, Once, Outgoing, QUEUE, Sender, Welcome, place,
};
use crate::{config::MqttEndpoint, profile::mqtt::Qos};

super::kept::kept!(rumqttc_v5);

#[derive(Debug, Default)]
pub(in crate::drivers::mqtt) struct Client {
    kept: Kept,
    /// Whether the broker's session is one that we know.
    is_resumable: bool,
}

impl Client {
    pub(super) async fn connect(
        &mut self,
        endpoint: &MqttEndpoint,
        login: Option<(&str, &str)>,
        stream: BoxStream,
    ) -> Result<Connected, Failure> {
        let resumes = self.is_resumable && !self.kept.has_unreleased();
        if !resumes {
            self.is_resumable = false;
            self.kept.forget();
        }
        let mut options = options(endpoint, login, stream)?;
        options.set_clean_start(!resumes);
        if endpoint.session_expiry.is_some() {
            options.set_session_store(self.kept.clone());
        }
        let (client, mut events) = AsyncClient::builder(options).capacity(QUEUE).build();
        let ConnAck { session_present, properties, .. } = loop {
            match events.poll().await {
                Ok(rumqttc_v5::Event::Incoming(Packet::ConnAck(ack))) => break ack,
                Ok(_) => {}
                Err(error) if is_end(&error) => return Err(Failure::passing(NO_ANSWER)),
                Err(error) => return Err(failure(&error)),
            }
        };
        // From here on this session is one to come back to.
        self.is_resumable = endpoint.session_expiry.is_some();
        if self.is_resumable {
            events.options.set_clean_start(false);
        }
        let identifiers =
            properties.as_ref().and_then(|properties| properties.subscription_identifiers_available);
        let has_identifiers = identifiers != Some(0);
        let limits = properties.as_ref().map(limits).unwrap_or_default();
        let welcome = Welcome { session_present, has_identifiers, limits };
        Ok(Connected::Session(welcome, Sender::V5(client), Events::V5(Box::new(events))))
    }
}

fn limits(properties: &ConnAckProperties) -> Limits {
    let usual = Limits::default();
    Limits {
        window: properties.receive_max.map_or(usual.window, |most| usual.window.min(most.into())),
        qos: properties.max_qos.map_or(usual.qos, Qos::from_level),
        retains: properties.retain_available != Some(0),
        size: properties.max_packet_size,
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
        .set_connect_timeout(endpoint.timeout)
        .set_max_packet_size(Some(endpoint.max_payload.saturating_add(HEADERS)))
        .set_outgoing_inflight_upper_limit(IN_FLIGHT);
    if let Some(expiry) = endpoint.session_expiry {
        options.set_session_expiry_interval(Some(u32::try_from(expiry.as_secs()).unwrap_or(u32::MAX)));
    }
    match login {
        Some((user, "")) => options.set_username(user),
        Some((user, password)) => options.set_credentials(user.to_owned(), password.to_owned()),
        None => &mut options,
    };
    if let Some(announce) = &endpoint.announce {
        let (topic, offline) = (announce.topic.as_str(), announce.offline.as_str());
        options.set_last_will(LastWill::new(topic, offline, qos(announce.qos), announce.retain, None));
    }
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
    let Outgoing { topic, payload, qos: level, retain, expiry, reply } = message;
    let properties = PublishProperties {
        message_expiry_interval: expiry,
        response_topic: reply.map(|(topic, _)| topic.to_owned()),
        correlation_data: reply.map(|(_, number)| number.to_be_bytes().to_vec().into()),
        ..PublishProperties::default()
    };
    let options = PublishOptions::new(qos(level)).retain(retain).properties(properties);
    let notice = client.try_publish_tracked(topic, payload, options).map_err(|error| error.to_string())?;
    Ok(async move { notice.wait_async().await.map_or(Ack::Lost, |result| ack(&result)) }.boxed())
}

fn ack(result: &PublishResult) -> Ack {
    let number = match result {
        PublishResult::Qos0Flushed => return Ack::Flushed,
        PublishResult::Qos1(ack) => ack.reason as u8,
        PublishResult::Qos2PubRecRejected(ack) => ack.reason as u8,
        // The broker had it, and has forgotten its number: it was released before.
        PublishResult::Qos2Completed(ack) if ack.reason == PubCompReason::PacketIdentifierNotFound => 0,
        PublishResult::Qos2Completed(ack) => ack.reason as u8,
    };
    if number == 0 { Ack::Taken } else { Ack::Refused(Code::v5(number)) }
}

pub(super) fn subscribe(
    client: &AsyncClient,
    filters: &[(String, Qos)],
    identifier: Option<usize>,
) -> Result<BoxFuture<'static, Option<Vec<Granted>>>, String> {
    // What we publish ourselves is nobody's state.
    let wanted = filters
        .iter()
        .map(|(filter, level)| SubscribeFilterInput::new(filter.as_str(), qos(*level)).no_local(true));
    let wanted = wanted.collect::<Vec<_>>();
    let notice = match identifier {
        Some(_) => {
            let properties = SubscribeProperties { id: identifier, user_properties: Vec::new() };
            client.try_subscribe_many_with_properties_tracked(wanted, properties)
        }
        None => client.try_subscribe_many_tracked(wanted),
    };
    let notice = notice.map_err(|error| error.to_string())?;
    let granted = |code: &SubscribeReasonCode| {
        Err(Code::v5(match code {
            SubscribeReasonCode::Success(level) => return Ok(level_of(*level)),
            SubscribeReasonCode::Failure | SubscribeReasonCode::Unspecified => 0x80,
            SubscribeReasonCode::ImplementationSpecific => 0x83,
            SubscribeReasonCode::NotAuthorized => 0x87,
            SubscribeReasonCode::TopicFilterInvalid => 0x8F,
            SubscribeReasonCode::PkidInUse => 0x91,
            SubscribeReasonCode::QuotaExceeded => 0x97,
            SubscribeReasonCode::SharedSubscriptionsNotSupported => 0x9E,
            SubscribeReasonCode::SubscriptionIdNotSupported => 0xA1,
            SubscribeReasonCode::WildcardSubscriptionsNotSupported => 0xA2,
        }))
    };
    let answer = async move {
        let ack = notice.wait_async().await.ok()?;
        Some(ack.return_codes.iter().map(granted).collect())
    };
    Ok(answer.boxed())
}

pub(super) async fn next(events: &mut EventLoop) -> Result<Event, Failure> {
    match events.poll().await {
        Ok(rumqttc_v5::Event::Incoming(Packet::Publish(message))) => {
            let properties = message.properties.unwrap_or_default();
            Ok(Event::Message(Message {
                topic: message.topic,
                payload: message.payload,
                qos: level_of(message.qos),
                retain: message.retain,
                identifiers: properties.subscription_identifiers,
                correlation: properties.correlation_data,
            }))
        }
        Ok(_) => Ok(Event::Other),
        Err(error) => Err(failure(&error)),
    }
}

const NO_ANSWER: &str = "the broker closed the connection instead of answering our CONNECT: if it speaks MQTT 3.1.1 \
                         only, set version = \"3.1.1\"";

fn is_end(error: &ConnectionError) -> bool {
    match error {
        ConnectionError::Io(error) | ConnectionError::MqttState(StateError::Io(error)) => {
            super::is_end(error)
        }
        ConnectionError::MqttState(StateError::ConnectionAborted) => true,
        _ => false,
    }
}

fn failure(error: &ConnectionError) -> Failure {
    match error {
        ConnectionError::ConnectionRefused(code) => Failure::refused(Code::v5(connect_code(*code))),
        ConnectionError::MqttState(StateError::ServerDisconnect { reason_code, reason_string }) => {
            let code = Code::v5(*reason_code as u8);
            let text = reason_string.as_ref().map_or_else(String::new, |text| format!(", {text:?}"));
            let help = if code.is_taken_over() { ": another client came with our client id" } else { "" };
            Failure {
                problem: format!("the broker sent us away: {code}{text}{help}"),
                lasting: code.is_lasting(),
            }
        }
        ConnectionError::Io(error)
        | ConnectionError::MqttState(StateError::Io(error) | StateError::Deserialization(Error::Io(error))) => {
            Failure::broken(error)
        }
        ConnectionError::MqttState(StateError::ConnectionAborted) => Failure::passing(CLOSED),
        ConnectionError::MqttState(StateError::AwaitPingResp) => Failure::passing(NO_PING),
        ConnectionError::Timeout(_) => Failure::passing("the broker does not answer our connect"),
        error => Failure::passing(error.to_string()),
    }
}

fn connect_code(code: ConnectReturnCode) -> u8 {
    use ConnectReturnCode as C;
    match code {
        C::Success => 0,
        C::UnspecifiedError => 0x80,
        C::MalformedPacket => 0x81,
        C::ProtocolError => 0x82,
        C::ImplementationSpecificError => 0x83,
        C::RefusedProtocolVersion | C::UnsupportedProtocolVersion => 0x84,
        C::BadClientId | C::ClientIdentifierNotValid => 0x85,
        C::BadUserNamePassword => 0x86,
        C::NotAuthorized => 0x87,
        C::ServiceUnavailable | C::ServerUnavailable => 0x88,
        C::ServerBusy => 0x89,
        C::Banned => 0x8A,
        C::BadAuthenticationMethod => 0x8C,
        C::TopicNameInvalid => 0x90,
        C::PacketTooLarge => 0x95,
        C::QuotaExceeded => 0x97,
        C::PayloadFormatInvalid => 0x99,
        C::RetainNotSupported => 0x9A,
        C::QoSNotSupported => 0x9B,
        C::UseAnotherServer => 0x9C,
        C::ServerMoved => 0x9D,
        C::ConnectionRateExceeded => 0x9F,
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
