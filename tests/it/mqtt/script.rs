//! A broker of which each packet is written in the test: bytes as they stand in MQTT 3.1.1 and 5.0.

use std::{fmt::Write as _, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

pub(crate) const CONNECT: u8 = 1;
pub(crate) const PUBLISH: u8 = 3;
pub(crate) const PUBREL: u8 = 6;
pub(crate) const SUBSCRIBE: u8 = 8;
pub(crate) const PINGREQ: u8 = 12;
pub(crate) const DISCONNECT: u8 = 14;

/// When to give up on the client.
const PATIENCE: Duration = Duration::from_secs(20);

/// A protocol level, as it stands in CONNECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V311,
    V5,
}

pub(crate) const VERSIONS: [Version; 2] = [Version::V5, Version::V311];

/// The listening broker.
pub(crate) struct Script {
    listener: TcpListener,
    pub(crate) version: Version,
}

/// One connection of the client.
pub(crate) struct Peer {
    stream: TcpStream,
    version: Version,
    pub(crate) connect: Packet,
}

/// A packet from the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) body: Vec<u8>,
    is_v5: bool,
}

/// What a PUBLISH says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Publish {
    pub(crate) topic: String,
    pub(crate) payload: String,
    pub(crate) qos: u8,
    pub(crate) dup: bool,
    pub(crate) retain: bool,
    pub(crate) id: Option<u16>,
    pub(crate) properties: Vec<u8>,
}

impl Version {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::V311 => "3.1.1",
            Self::V5 => "5",
        }
    }
}

impl Script {
    pub(crate) async fn new(version: Version) -> Self {
        Self { listener: TcpListener::bind(("127.0.0.1", 0)).await.unwrap(), version }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// The next connection, with its CONNECT read.
    pub(crate) async fn accept(&self) -> Peer {
        let (stream, _) = timeout(PATIENCE, self.listener.accept()).await.unwrap().unwrap();
        stream.set_nodelay(true).unwrap();
        let empty = Packet { kind: 0, flags: 0, body: Vec::new(), is_v5: false };
        let mut peer = Peer { stream, version: self.version, connect: empty };
        peer.connect = peer.expect(CONNECT).await;
        let level = if self.version == Version::V5 { 5 } else { 4 };
        assert_eq!(peer.connect.body[..7], [0, 4, b'M', b'Q', b'T', b'T', level]);
        peer
    }

    /// The next connection, received; its subscriptions are granted as asked.
    pub(crate) async fn serve(&self) -> Peer {
        let mut peer = self.accept_new().await;
        peer.grant().await;
        peer
    }

    /// The next connection, which asks for a new session, and is received. With version 3.1.1 a session that is to be
    /// kept takes a connection of its own to throw the former one away.
    pub(crate) async fn accept_new(&self) -> Peer {
        let mut peer = self.accept().await;
        assert!(peer.connect.is_clean(), "a session that nobody knows is nothing to rely on");
        peer.greet(false).await;
        let mut head = [0];
        peer.stream.peek(&mut head).await.unwrap();
        if head[0] >> 4 == DISCONNECT {
            assert_eq!(self.version, Version::V311);
            peer = self.accept().await;
            assert!(!peer.connect.is_clean());
            peer.greet(false).await;
        }
        peer
    }
}

impl Peer {
    /// CONNACK, success.
    pub(crate) async fn greet(&mut self, session_present: bool) {
        let present = u8::from(session_present);
        match self.version {
            Version::V311 => self.send(&[0x20, 2, present, 0]).await,
            Version::V5 => self.send(&[0x20, 3, present, 0, 0]).await,
        }
    }

    /// CONNACK of version 5, success, with properties.
    pub(crate) async fn greet_with(&mut self, properties: &[u8]) {
        let length = u8::try_from(properties.len()).unwrap();
        let mut packet = vec![0x20, 3 + length, 0, 0, length];
        packet.extend_from_slice(properties);
        self.send(&packet).await;
    }

    /// Answers the next SUBSCRIBE with the qualities of service that it asks for.
    pub(crate) async fn grant(&mut self) -> Vec<String> {
        let packet = self.expect(SUBSCRIBE).await;
        let (id, filters) = packet.subscription();
        let codes = filters.iter().map(|(_, qos)| *qos).collect::<Vec<_>>();
        self.suback(id, &codes).await;
        filters.into_iter().map(|(filter, _)| filter).collect()
    }

    pub(crate) async fn suback(&mut self, id: u16, codes: &[u8]) {
        self.answer(0x90, id, codes, true).await;
    }

    /// A packet with an id: in version 5 with properties before the codes, where it has codes or has to have them.
    async fn answer(&mut self, head: u8, id: u16, codes: &[u8], has_properties: bool) {
        let mut body = id.to_be_bytes().to_vec();
        if self.version == Version::V5 && has_properties {
            body.push(0);
        }
        body.extend_from_slice(codes);
        let mut packet = vec![head, u8::try_from(body.len()).unwrap()];
        packet.append(&mut body);
        self.send(&packet).await;
    }

    pub(crate) async fn puback(&mut self, id: u16) {
        self.answer(0x40, id, &[], false).await;
    }

    /// PUBACK with a reason, of version 5.
    pub(crate) async fn puback_with(&mut self, id: u16, code: u8) {
        self.answer(0x40, id, &[code], false).await;
    }

    pub(crate) async fn pubrec(&mut self, id: u16) {
        self.answer(0x50, id, &[], false).await;
    }

    pub(crate) async fn pubcomp(&mut self, id: u16) {
        self.answer(0x70, id, &[], false).await;
    }

    /// A PUBLISH of QoS 0 that is not retained.
    pub(crate) async fn publish(&mut self, topic: &str, payload: &str) {
        self.publish_with(0x30, topic, None, &[], payload).await;
    }

    pub(crate) async fn publish_with(
        &mut self,
        head: u8,
        topic: &str,
        id: Option<u16>,
        properties: &[u8],
        payload: &str,
    ) {
        let mut body = text(topic);
        body.extend(id.into_iter().flat_map(u16::to_be_bytes));
        if self.version == Version::V5 {
            body.push(u8::try_from(properties.len()).unwrap());
            body.extend_from_slice(properties);
        }
        body.extend_from_slice(payload.as_bytes());
        let mut packet = vec![head, u8::try_from(body.len()).unwrap()];
        assert!(body.len() < 128, "one byte tells the length");
        packet.append(&mut body);
        self.send(&packet).await;
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Sends a packet that is written in hexadecimal digits.
    pub(crate) async fn send_hex(&mut self, digits: &str) {
        let bytes = (0..digits.len()).step_by(2);
        let bytes = bytes.map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect::<Vec<_>>();
        self.send(&bytes).await;
    }

    /// The next packet; pings are answered.
    pub(crate) async fn next(&mut self) -> Packet {
        self.read().await.unwrap_or_else(|| panic!("the client closed the connection"))
    }

    /// The next packet, or the end of the connection; pings are answered.
    pub(crate) async fn read(&mut self) -> Option<Packet> {
        let next = async {
            loop {
                let packet = self.packet().await?;
                if packet.kind != PINGREQ {
                    return Some(packet);
                }
                self.send(&[0xD0, 0]).await;
            }
        };
        timeout(PATIENCE, next).await.unwrap()
    }

    async fn packet(&mut self) -> Option<Packet> {
        let head = self.stream.read_u8().await.ok()?;
        let (mut length, mut shift) = (0_usize, 0);
        loop {
            let byte = self.stream.read_u8().await.ok()?;
            length |= usize::from(byte & 0x7F) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.ok()?;
        Some(Packet { kind: head >> 4, flags: head & 0xF, body, is_v5: self.version == Version::V5 })
    }

    pub(crate) async fn expect(&mut self, kind: u8) -> Packet {
        let packet = self.next().await;
        assert_eq!(packet.kind, kind, "{packet:?}");
        packet
    }

    /// The next packet, in hexadecimal digits.
    pub(crate) async fn next_hex(&mut self) -> String {
        let packet = self.next().await;
        let mut digits = format!("{:02X}{:02X}", packet.kind << 4 | packet.flags, packet.body.len());
        for byte in packet.body {
            write!(digits, "{byte:02X}").unwrap();
        }
        digits
    }

    /// The next packet, which is a PUBLISH.
    pub(crate) async fn published(&mut self) -> Publish {
        self.expect(PUBLISH).await.publish()
    }

    /// Ends the connection without a word, with what the client sent until now read: nothing of it is lost to a reset.
    pub(crate) fn cut(self) {
        drop(self.stream);
    }
}

impl Packet {
    pub(crate) fn id(&self) -> u16 {
        u16::from_be_bytes([self.body[0], self.body[1]])
    }

    /// Packet id, filters and the qualities of service that are asked for.
    pub(crate) fn subscription(&self) -> (u16, Vec<(String, u8)>) {
        let mut rest = &self.body[2..];
        if self.is_v5 {
            let length = usize::from(rest[0]);
            assert!(length < 128);
            rest = &rest[1 + length..];
        }
        let mut filters = Vec::new();
        while !rest.is_empty() {
            let (filter, after) = take_text(rest);
            filters.push((filter, after[0] & 3));
            rest = &after[1..];
        }
        (self.id(), filters)
    }

    pub(crate) fn publish(&self) -> Publish {
        let (topic, mut rest) = take_text(&self.body);
        let qos = self.flags >> 1 & 3;
        let id = (qos > 0).then(|| u16::from_be_bytes([rest[0], rest[1]]));
        if id.is_some() {
            rest = &rest[2..];
        }
        let mut properties = Vec::new();
        if self.is_v5 {
            let length = usize::from(rest[0]);
            assert!(length < 128);
            properties = rest[1..=length].to_vec();
            rest = &rest[1 + length..];
        }
        Publish {
            topic,
            payload: String::from_utf8(rest.to_vec()).unwrap(),
            qos,
            dup: self.flags & 8 != 0,
            retain: self.flags & 1 != 0,
            id,
            properties,
        }
    }

    /// Whether a CONNECT asks for a new session.
    pub(crate) fn is_clean(&self) -> bool {
        self.body[7] & 2 != 0
    }

    /// The properties of a CONNECT of version 5.
    pub(crate) fn connect_properties(&self) -> &[u8] {
        let length = usize::from(self.body[10]);
        assert!(length < 128);
        &self.body[11..11 + length]
    }
}

impl Publish {
    /// Message Expiry Interval, in seconds (MQTT 5.0, section 3.3.2.3.3).
    pub(crate) fn expiry(&self) -> Option<u32> {
        let at = self.properties.iter().position(|byte| *byte == 0x02)?;
        Some(u32::from_be_bytes(self.properties[at + 1..at + 5].try_into().unwrap()))
    }
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = u16::try_from(text.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

fn take_text(bytes: &[u8]) -> (String, &[u8]) {
    let length = usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
    let (text, rest) = bytes[2..].split_at(length);
    (String::from_utf8(text.to_vec()).unwrap(), rest)
}
