//! The same units over every transport, asked by a client that is not ours.

use std::sync::Arc;

use simulators::modbus::{
    Server,
    tls::{Authority, FILES, Identity},
};
use tokio::net::TcpStream;
use tokio_modbus::{client, prelude::*};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};

use crate::raw::{ANY, Client, rtu, server, soon};

/// Reads and writes all four tables.
pub(crate) async fn exercise(mut context: client::Context) {
    context.set_slave(Slave(1));
    assert_eq!(soon(context.read_holding_registers(0x6B, 3)).await.unwrap().unwrap(), [0x022B, 0, 100]);
    assert_eq!(soon(context.read_input_registers(8, 1)).await.unwrap().unwrap(), [10]);
    let coils = soon(context.read_coils(0x13, 4)).await.unwrap().unwrap();
    assert_eq!(coils, [true, false, true, true]);
    let inputs = soon(context.read_discrete_inputs(0xC4, 4)).await.unwrap().unwrap();
    assert_eq!(inputs, [false, false, true, true]);
    soon(context.write_single_register(1, 7)).await.unwrap().unwrap();
    soon(context.write_multiple_registers(1, &[8, 9])).await.unwrap().unwrap();
    soon(context.masked_write_register(4, 0xF2, 0x25)).await.unwrap().unwrap();
    soon(context.write_single_coil(0x13, false)).await.unwrap().unwrap();
    soon(context.write_multiple_coils(0x14, &[true, false])).await.unwrap().unwrap();
    let both = soon(context.read_write_multiple_registers(1, 2, 2, &[6])).await.unwrap().unwrap();
    assert_eq!(both, [8, 6]);
    let missing = soon(context.read_holding_registers(0x70, 1)).await.unwrap();
    assert_eq!(missing, Err(ExceptionCode::IllegalDataAddress));
    context.set_slave(Slave(2));
    assert_eq!(soon(context.read_holding_registers(0, 1)).await.unwrap().unwrap(), [0x0202]);
}

#[tokio::test]
async fn serves_tcp() {
    let server = server();
    let stream = TcpStream::connect(server.local_addr()).await.unwrap();
    exercise(client::tcp::attach(stream)).await;
    assert_eq!(server.handle().unit(1).unwrap().holding(4), Some(0x17));
}

#[tokio::test]
async fn serves_rtu_over_tcp() {
    let units = server();
    let server = Server::rtu_over_tcp(ANY.into(), units.handle()).unwrap();
    let stream = TcpStream::connect(server.local_addr()).await.unwrap();
    exercise(client::rtu::attach(stream)).await;
    assert_eq!(server.handle().accepted(), 1);
    soon(server.stop()).await;
    assert_eq!(units.handle().open(), 0);
}

#[tokio::test]
async fn finds_rtu_requests_in_noise_and_keeps_quiet_for_others() {
    let units = server();
    let server = Server::rtu_over_tcp(ANY.into(), units.handle()).unwrap();
    let mut client = Client::connect(server.local_addr()).await;
    client.send(&[0x00; 40]).await;
    client.send(&rtu(9, &[3, 0, 0, 0, 1])).await;
    let request = rtu(2, &[3, 0, 0, 0, 1]);
    for byte in &request {
        client.send(&[*byte]).await;
    }
    assert_eq!(client.bytes(7).await, rtu(2, &[3, 2, 2, 2]));
    client.send(&rtu(1, &[0x41, 1, 2])).await;
    assert_eq!(client.bytes(5).await, rtu(1, &[0xC1, 1]));
    client.send(&rtu(1, &[16, 0, 1, 0, 2, 2, 0, 1])).await;
    assert_eq!(client.bytes(5).await, rtu(1, &[0x90, 3]));
    assert_eq!((units.handle().count(9, 3), units.handle().malformed()), (1, 1));
}

async fn tls(
    server: &Server,
    trusted: &str,
    identity: Option<&Identity>,
    name: &'static str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match identity {
        None => config.with_no_client_auth(),
        Some(identity) => {
            let chain = vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let stream = TcpStream::connect(server.local_addr()).await.unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    soon(connector.connect(ServerName::try_from(name).unwrap(), stream)).await
}

#[tokio::test]
async fn serves_tls_to_those_it_knows() {
    let units = server();
    let authority = Authority::new().unwrap();
    let own = authority.server(&["localhost", "127.0.0.1"]).unwrap();
    let server = Server::tls(ANY.into(), units.handle(), &own).unwrap();
    let client = authority.client().unwrap();
    let stream = tls(&server, &own.ca, Some(&client), "localhost").await.unwrap();
    exercise(client::tcp::attach(stream)).await;

    let accepted = units.handle().accepted();
    let stranger = Authority::new().unwrap().client().unwrap();
    for identity in [None, Some(&stranger)] {
        // In TLS 1.3 the client's handshake may end before the server has judged its certificate.
        if let Ok(mut stream) = tls(&server, &own.ca, identity, "localhost").await {
            let read = soon(tokio::io::AsyncReadExt::read(&mut stream, &mut [0])).await;
            assert!(read.is_err(), "{read:?}");
        }
    }
    assert_eq!(units.handle().accepted(), accepted, "nobody else got in");
    assert!(tls(&server, &stranger.ca, Some(&client), "localhost").await.is_err(), "another authority");
    assert!(tls(&server, &own.ca, Some(&client), "elsewhere").await.is_err(), "another name");
    let expired = authority.expired(&["localhost"]).unwrap();
    let server = Server::tls(ANY.into(), units.handle(), &expired).unwrap();
    assert!(tls(&server, &own.ca, Some(&client), "localhost").await.is_err(), "out of date");
}

#[test]
fn writes_certificates_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("tls");
    let authority = Authority::new().unwrap();
    authority.write(&folder, &["localhost"]).unwrap();
    let written: Vec<_> =
        FILES.iter().map(|file| std::fs::read_to_string(folder.join(file)).unwrap()).collect();
    let identity = Identity::read(&folder).unwrap();
    assert_eq!([&identity.ca, &identity.certificate, &identity.key], [&written[0], &written[1], &written[2]]);
    let error = authority.write(&folder, &["localhost"]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    std::fs::remove_file(folder.join("server.key")).unwrap();
    let error = Identity::read(&folder).unwrap_err();
    assert!(error.to_string().contains("server.key"), "{error}");
}
