//! A client that knows only how to frame bytes, so that nothing of the server's library checks that library.

use std::{future::Future, net::SocketAddr, time::Duration};

use simulators::modbus::{Server, Tables};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

pub(crate) const ANY: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// Turns a hang into a failure; no test succeeds by it.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what).await.unwrap()
}

/// A connection to a server.
pub(crate) struct Client(pub(crate) TcpStream);

impl Client {
    pub(crate) async fn connect(addr: SocketAddr) -> Self {
        Self(TcpStream::connect(addr).await.unwrap())
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    /// The next frame, as its length field says.
    pub(crate) async fn receive(&mut self) -> Vec<u8> {
        let mut frame = vec![0; 6];
        soon(self.0.read_exact(&mut frame)).await.unwrap();
        let length = usize::from(u16::from_be_bytes(frame[4..].try_into().unwrap()));
        frame.resize(6 + length, 0);
        soon(self.0.read_exact(&mut frame[6..])).await.unwrap();
        frame
    }

    /// The next `count` bytes, whatever they mean.
    pub(crate) async fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        soon(self.0.read_exact(&mut bytes)).await.unwrap();
        bytes
    }

    /// Sends a PDU to a unit and returns the PDU of the answer, which must bear the same transaction and unit.
    pub(crate) async fn ask(&mut self, unit: u8, pdu: &[u8]) -> Vec<u8> {
        self.send(&adu(0x1501, unit, pdu)).await;
        let frame = self.receive().await;
        assert_eq!(frame[..4], [0x15, 0x01, 0, 0]);
        assert_eq!(frame[6], unit);
        frame[7..].to_vec()
    }

    /// Waits for the server to close; nothing more may come before.
    pub(crate) async fn closed(&mut self) {
        let mut rest = Vec::new();
        soon(self.0.read_to_end(&mut rest)).await.unwrap();
        assert!(rest.is_empty(), "{rest:02X?}");
    }
}

/// MBAP header (messaging on TCP/IP V1.0b, section 3.1.3) and PDU.
pub(crate) fn adu(transaction: u16, unit: u8, pdu: &[u8]) -> Vec<u8> {
    let mut bytes = transaction.to_be_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(u16::try_from(pdu.len() + 1).unwrap().to_be_bytes());
    bytes.push(unit);
    bytes.extend(pdu);
    bytes
}

/// Unit, PDU and check sum (Modbus over serial line V1.02, section 6.2.2).
pub(crate) fn rtu(unit: u8, pdu: &[u8]) -> Vec<u8> {
    let mut bytes = vec![unit];
    bytes.extend(pdu);
    let mut crc = 0xFFFF_u16;
    for byte in &bytes {
        crc ^= u16::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xA001 } else { crc >> 1 };
        }
    }
    bytes.extend(crc.to_le_bytes());
    bytes
}

/// Unit 1 with a little of everything at the addresses of the specification's examples; unit 2 with one register.
pub(crate) fn server() -> Server {
    let mut one = Tables::new();
    // Section 6.1: coils 20 to 38 are CD 6B 05.
    one.set_coils(0x13, &bits(&[0xCD, 0x6B, 0x05])[..19]);
    // Section 6.2: discrete inputs 197 to 218 are AC DB 35.
    one.set_discretes(0xC4, &bits(&[0xAC, 0xDB, 0x35])[..22]);
    one.set_holdings(0x6B, &[0x022B, 0x0000, 0x0064]);
    one.set_holdings(0x01, &[0, 0]);
    one.set_holdings(0x04, &[0x12]);
    one.set_inputs(0x08, &[0x000A]);
    let mut two = Tables::new();
    two.set_holdings(0, &[0x0202]);
    Server::start(ANY.into(), [(1, one), (2, two)]).unwrap()
}

fn bits(bytes: &[u8]) -> Vec<bool> {
    bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1)).collect()
}
