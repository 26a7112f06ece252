//! TLS against servers with certificates of our own making.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, net::SocketAddr, path::Path};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig, SupportedProtocolVersion,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::WebPkiClientVerifier,
        version::{TLS12, TLS13},
    },
};

use super::*;

/// Generous: no test waits for it to pass.
const LIMIT: Duration = Duration::from_secs(30);

/// A folder with the files of both sides.
struct Files(TempDir);

/// An authority that signs certificates.
type Authority = CertifiedIssuer<'static, KeyPair>;

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// An authority, its certificate in `name`.pem.
    fn authority(&self, name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        self.put(&format!("{name}.pem"), &authority.pem());
        authority
    }

    /// A certificate of `authority` in `name`.pem, its key in `name`.key.
    fn signed(&self, name: &str, authority: &Authority, params: &CertificateParams) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, authority).unwrap();
        self.pair(name, &certificate.pem(), &key)
    }

    /// As [`Self::signed`], by nobody but itself.
    fn self_signed(&self, name: &str, params: &CertificateParams) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        self.pair(name, &params.self_signed(&key).unwrap().pem(), &key)
    }

    fn pair(&self, name: &str, certificate: &str, key: &KeyPair) -> (PathBuf, PathBuf) {
        (
            self.put(&format!("{name}.pem"), certificate),
            self.put(&format!("{name}.key"), &key.serialize_pem()),
        )
    }

    fn security(&self) -> Security {
        Security { ca: self.0.path().join("plant.pem"), identity: None, server_name: None }
    }

    /// A problem without the folder, which is another one each time.
    fn told(&self, error: &LinkError) -> String {
        error.problem.replace(&format!("{}/", self.0.path().display()), "")
    }
}

fn names(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).unwrap()
}

/// A device that answers each byte with the next one; with `clients`, only to those with a certificate of theirs.
async fn device(
    (certificate, key): &(PathBuf, PathBuf),
    clients: Option<&Path>,
    version: &'static SupportedProtocolVersion,
) -> SocketAddr {
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[version])
        .unwrap();
    let config = match clients {
        None => config.with_no_client_auth(),
        Some(file) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_file(file).unwrap()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            config.with_client_cert_verifier(verifier)
        }
    };
    let chain = vec![CertificateDer::from_pem_file(certificate).unwrap()];
    let config = config.with_single_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap()).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            while let Ok(byte) = stream.read_u8().await {
                if stream.write_u8(byte + 1).await.is_err() || stream.flush().await.is_err() {
                    break;
                }
            }
        }
    });
    address
}

async fn exchange(address: SocketAddr, security: &Security) -> io::Result<u8> {
    let (mut stream, _) = connect(&address.to_string(), LIMIT, security).await.unwrap();
    stream.write_u8(6).await?;
    stream.flush().await?;
    stream.read_u8().await
}

async fn refused(files: &Files, address: SocketAddr, security: &Security) -> String {
    let error = connect(&address.to_string(), LIMIT, security).await.unwrap_err();
    assert_eq!(error.address, address.to_string());
    files.told(&error)
}

#[tokio::test]
async fn a_device_of_the_authority_is_spoken_to_by_address_or_name() {
    let files = Files::new();
    let plant = files.authority("plant");
    let by_address = files.signed("address", &plant, &names(&["127.0.0.1"]));
    let by_name = files.signed("name", &plant, &names(&["plc.plant.example"]));
    for version in [&TLS12, &TLS13] {
        let address = device(&by_address, None, version).await;
        assert_eq!(exchange(address, &files.security()).await.unwrap(), 7);
        let named = Security { server_name: Some("plc.plant.example".to_owned()), ..files.security() };
        let address = device(&by_name, None, version).await;
        assert_eq!(exchange(address, &named).await.unwrap(), 7);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connection_ends_with_a_reset_as_all_do() {
    let files = Files::new();
    let plant = files.authority("plant");
    let pair = files.signed("device", &plant, &names(&["127.0.0.1"]));
    let address = device(&pair, None, &TLS13).await;
    let (mut stream, delivery) = connect(&address.to_string(), LIMIT, &files.security()).await.unwrap();
    stream.write_u8(1).await.unwrap();
    stream.flush().await.unwrap();
    stream.read_u8().await.unwrap();
    let socket = socket2::SockRef::from(stream.stream.get_ref().0);
    assert_eq!(socket.linger().unwrap(), Some(Duration::ZERO));
    assert!(socket.tcp_nodelay().unwrap());
    // An answer acknowledges what was asked.
    assert!(!delivery.is_open());
}

#[tokio::test]
async fn both_sides_show_their_certificates() {
    let files = Files::new();
    let plant = files.authority("plant");
    let pair = files.signed("device", &plant, &names(&["127.0.0.1"]));
    let us = files.signed("us", &plant, &names(&["fieldbridge"]));
    let ca = files.security().ca;
    for version in [&TLS12, &TLS13] {
        let address = device(&pair, Some(&ca), version).await;
        let known = Security { identity: Some(us.clone()), ..files.security() };
        assert_eq!(exchange(address, &known).await.unwrap(), 7);
    }
}

#[tokio::test]
async fn a_device_that_does_not_know_us_says_so() {
    let files = Files::new();
    let plant = files.authority("plant");
    let pair = files.signed("device", &plant, &names(&["127.0.0.1"]));
    let ca = files.security().ca;
    let address = device(&pair, Some(&ca), &TLS12).await;
    insta::assert_snapshot!(
        refused(&files, address, &files.security()).await,
        @"the server wants a client certificate, and none is configured (CertificateRequired)"
    );
    let strange = files.authority("strange");
    let us = files.signed("us", &strange, &names(&["fieldbridge"]));
    let unknown = Security { identity: Some(us), ..files.security() };
    insta::assert_snapshot!(refused(&files, address, &unknown).await, @"the server refuses our certificate, us.pem (UnknownCA)");
    // By TLS 1.3 the server says so only after the handshake, so that the session ends.
    let address = device(&pair, Some(&ca), &TLS13).await;
    let (mut stream, _) = connect(&address.to_string(), LIMIT, &files.security()).await.unwrap();
    let error = stream.read_u8().await.unwrap_err();
    insta::assert_snapshot!(error, @"the server wants a client certificate, and none is configured (CertificateRequired)");
}

#[tokio::test]
async fn a_device_that_cannot_be_verified_is_not_spoken_to() {
    let files = Files::new();
    let plant = files.authority("plant");
    let strange = files.authority("strange");
    let mut expired = names(&["127.0.0.1"]);
    expired.not_after = date_time_ymd(2020, 2, 1);
    let mut early = names(&["127.0.0.1"]);
    early.not_before = date_time_ymd(2999, 2, 1);
    let mut client = names(&["127.0.0.1"]);
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let mut told = Vec::new();
    for pair in [
        files.signed("strange_one", &strange, &names(&["127.0.0.1"])),
        files.signed("renamed", &plant, &names(&["plc.plant.example", "10.0.0.1"])),
        files.signed("nameless", &plant, &names(&[])),
        files.signed("expired", &plant, &expired),
        files.signed("client", &plant, &client),
        files.self_signed("alone", &names(&["127.0.0.1"])),
    ] {
        let address = device(&pair, None, &TLS13).await;
        told.push(refused(&files, address, &files.security()).await);
    }
    insta::assert_snapshot!("tls_peers", told.join("\n"));
    let address = device(&files.signed("early", &plant, &early), None, &TLS13).await;
    let told = refused(&files, address, &files.security()).await;
    assert!(
        told.starts_with("the server's certificate is not valid before 2999-02-01 00:00:00 UTC"),
        "{told}"
    );
}

/// What small devices have: a certificate that nobody but itself vouches for.
#[tokio::test]
async fn a_self_signed_certificate_may_be_its_own_authority() {
    let files = Files::new();
    let own = files.self_signed("own", &names(&["127.0.0.1"]));
    let mut explicit = names(&["127.0.0.1"]);
    explicit.is_ca = IsCa::ExplicitNoCa;
    let explicit = files.self_signed("explicit", &explicit);
    for pair in [&own, &explicit] {
        let address = device(pair, None, &TLS13).await;
        let security = Security { ca: pair.0.clone(), ..files.security() };
        assert_eq!(exchange(address, &security).await.unwrap(), 7);
    }
    // Trust in one such device is not trust in the other.
    let address = device(&own, None, &TLS13).await;
    let other = Security { ca: explicit.0, ..files.security() };
    connect(&address.to_string(), LIMIT, &other).await.unwrap_err();
    // `openssl req -x509` makes these.
    let mut authority = names(&["127.0.0.1"]);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pair = files.self_signed("authority", &authority);
    let address = device(&pair, None, &TLS13).await;
    let security = Security { ca: pair.0.clone(), ..files.security() };
    insta::assert_snapshot!(
        refused(&files, address, &security).await,
        @"the server's certificate is an authority's (CA:TRUE), which may not be a server's own: give the server one that an authority in authority.pem signed, or a self-signed one with basicConstraints CA:FALSE"
    );
}

#[tokio::test]
async fn a_peer_that_speaks_no_tls_is_told_of() {
    let files = Files::new();
    files.authority("plant");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let plain = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        // Until the other side goes.
        while stream.read(&mut [0; 512]).await.is_ok_and(|length| length > 0) {}
        let (stream, _) = listener.accept().await.unwrap();
        drop(stream);
    });
    insta::assert_snapshot!(
        refused(&files, address, &files.security()).await,
        @"the server answers something that is no TLS: is this its port for TLS?"
    );
    let told = refused(&files, address, &files.security()).await;
    assert!(told.starts_with("the server ended the connection during the TLS handshake ("), "{told}");
    plain.await.unwrap();
}

#[tokio::test]
async fn a_peer_that_never_answers_the_handshake_is_given_up() {
    let files = Files::new();
    files.authority("plant");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let error = connect(&address, Duration::from_millis(50), &files.security()).await.unwrap_err();
    assert_eq!(error.problem, "no TLS handshake within 50 ms");
    // It was there, and asked once.
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut hello = Vec::new();
    let end = stream.read_to_end(&mut hello).await.unwrap_err();
    assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn files_that_cannot_be_used_are_told_of_before_anything_is_sent() {
    let files = Files::new();
    let plant = files.authority("plant");
    let us = files.signed("us", &plant, &names(&["fieldbridge"]));
    let other = files.signed("other", &plant, &names(&["fieldbridge"]));
    let at = |name: &str| files.0.path().join(name);
    let broken = files.put("broken.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let cut = files.put("cut.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n");
    let locked = files.put(
        "locked.key",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    let odd = files.put("odd.key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    let large = files.put("large.pem", &"x".repeat(1_048_577));
    let ca = |ca: PathBuf| Security { ca, ..files.security() };
    let identity = |certificate: &Path, key: &Path| Security {
        identity: Some((certificate.to_owned(), key.to_owned())),
        ..files.security()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut told = Vec::new();
    for security in [
        ca(at("nowhere.pem")),
        ca(files.0.path().to_owned()),
        ca(us.1.clone()),
        ca(broken.clone()),
        ca(cut),
        ca(large),
        identity(&at("nowhere.pem"), &us.1),
        identity(&us.0, &at("nowhere.key")),
        identity(&us.1, &us.1),
        identity(&broken, &us.1),
        identity(&us.0, &us.0),
        identity(&us.0, &other.1),
        identity(&us.0, &locked),
        identity(&us.0, &odd),
    ] {
        let problem = refused(&files, address, &security).await;
        told.push(problem.replace(&files.0.path().display().to_string(), "(folder)"));
    }
    insta::assert_snapshot!("tls_files", told.join("\n"));
    let nameless = Security { server_name: Some("a plc".to_owned()), ..files.security() };
    insta::assert_snapshot!(
        refused(&files, address, &nameless).await,
        @"no certificate can have such a name: set `server_name` to the one in the server's"
    );
    assert!(futures_util::FutureExt::now_or_never(listener.accept()).is_none());
}

#[test]
fn the_name_is_the_host_of_the_address() {
    let name = |address, name| tls::server_name(address, name).map(|name| name.to_str().into_owned());
    for (address, expected) in [
        ("10.0.0.1:802", "10.0.0.1"),
        ("[2001:db8::1]:802", "2001:db8::1"),
        ("plc.plant.example.:802", "plc.plant.example"),
        ("plc_1:802", "plc_1"),
    ] {
        assert_eq!(name(address, None).as_deref(), Some(expected));
    }
    assert_eq!(name("10.0.0.1:802", Some("plc")).as_deref(), Some("plc"));
    assert_eq!(name("10.0.0.1:802", Some("a plc")), None);
}
