//! TLS over TCP: a peer that is not verified is not spoken to, and there is no way to switch that off.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use chrono::DateTime;
use tokio::{
    net::TcpStream,
    task::spawn_blocking,
    time::{Instant, timeout_at},
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        AlertDescription, CertificateError, ClientConfig, Error,
        pki_types::{ServerName, UnixTime},
    },
};

use super::{Delivery, tcp};
use crate::{link::LinkError, tls};

/// How the peer is known, and how it knows us. The files are in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Security {
    /// Certificates of the authorities that may vouch for the peer.
    pub ca: PathBuf,
    /// Our certificate with its chain, and its private key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name that the peer's certificate must have; `None` takes the host of the address.
    pub server_name: Option<String>,
}

/// Opens `host:port` and verifies who is there; connecting and the handshake together take `limit` at most.
///
/// The files are read anew, so that certificates can be renewed while the program runs. The delivery is that of the TCP
/// connection, which ends as [`tcp`] says. A peer that speaks TLS 1.3 refuses our certificate only after the handshake:
/// then the first read fails.
pub async fn connect(
    address: &str,
    limit: Duration,
    security: &Security,
) -> Result<(TlsStream<TcpStream>, Delivery), LinkError> {
    let fail = |problem: String, lasting| LinkError { address: address.to_owned(), problem, lasting };
    let config = client(security.clone()).await.map_err(|problem| fail(problem, true))?;
    let name = tls::server_name(address, security.server_name.as_deref()).ok_or_else(|| {
        fail(
            "no certificate can have such a name: set `server_name` to the one in the device's".to_owned(),
            true,
        )
    })?;
    let until = Instant::now() + limit;
    let stream = tcp::connect(address, limit).await?;
    let delivery = Delivery::of(&stream);
    match timeout_at(until, TlsConnector::from(Arc::new(config)).connect(name.clone(), stream)).await {
        Ok(Ok(stream)) => Ok((stream, delivery)),
        Ok(Err(error)) => Err(fail(explain(&error, security, &name), is_lasting(&error))),
        Err(_elapsed) => Err(fail(format!("no TLS handshake within {} ms", limit.as_millis()), false)),
    }
}

/// Whether a handshake failed by what the two sides are, and not by what carried it.
fn is_lasting(error: &io::Error) -> bool {
    error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()).is_some()
}

/// Reads the files off the threads that serve the links: a disk may be slow.
async fn client(security: Security) -> Result<ClientConfig, String> {
    let read = move || {
        let identity = security.identity.as_ref();
        let identity = identity.map(|(certificate, key)| (certificate.as_path(), key.as_path()));
        tls::client(&security.ca, identity).map_err(|error| error.to_string())
    };
    spawn_blocking(read).await.map_err(|error| error.to_string())?
}

/// A failed handshake in words, with what helps.
fn explain(error: &io::Error, security: &Security, name: &ServerName<'_>) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(Error::InvalidCertificate(problem)) => certificate(problem, security, name),
        Some(Error::AlertReceived(alert)) => refusal(*alert, security),
        Some(Error::InvalidMessage(_)) => {
            "the device answers something that is no TLS: is this its port for TLS?".to_owned()
        }
        Some(Error::PeerIncompatible(problem)) => {
            format!("the device offers no TLS 1.2 or 1.3 that is safe ({problem:?})")
        }
        Some(error) => format!("TLS: {error}"),
        None => format!("the device ended the connection during the TLS handshake ({error})"),
    }
}

/// What is wrong with the peer's certificate.
fn certificate(problem: &CertificateError, security: &Security, name: &ServerName<'_>) -> String {
    let ca = security.ca.display();
    match problem {
        CertificateError::UnknownIssuer => {
            format!("the device's certificate is not signed by an authority in {ca}")
        }
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("the device's certificate expired on {}", date(*not_after))
        }
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "the device's certificate is not valid before {}, and by the clock of this machine it is {}",
            date(*not_before),
            date(*time)
        ),
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            "the device's certificate has no subjectAltName, so it is valid for no host".to_owned()
        }
        CertificateError::NotValidForNameContext { presented, .. } => format!(
            "the device's certificate is valid for {}, not for {}: where it is the right device, set `server_name` to \
             a name that it has",
            presented.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", "),
            name.to_str()
        ),
        CertificateError::Other(other)
            if matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity)) =>
        {
            format!(
                "the device's certificate is an authority's (CA:TRUE), which may not be a device's own: give the \
                 device one that an authority in {ca} signed, or a self-signed one with basicConstraints CA:FALSE"
            )
        }
        problem => format!("the device's certificate: {problem}"),
    }
}

/// A name of a certificate without its kind: the library tells `DnsName("plc")`.
fn plain(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, inner)| inner.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

/// Why the peer ended the handshake.
fn refusal(alert: AlertDescription, security: &Security) -> String {
    use AlertDescription as A;
    match (alert, &security.identity) {
        (A::CertificateRequired | A::BadCertificate | A::AccessDenied, None) => {
            format!("the device wants a client certificate, and none is configured ({alert:?})")
        }
        (
            A::BadCertificate
            | A::UnsupportedCertificate
            | A::CertificateRevoked
            | A::CertificateExpired
            | A::CertificateUnknown
            | A::UnknownCA
            | A::AccessDenied
            | A::DecryptError,
            Some((file, _)),
        ) => format!("the device refuses our certificate, {} ({alert:?})", file.display()),
        (A::HandshakeFailure, None) => {
            "the device refuses: it has no cipher in common with us, or wants a client certificate \
             (HandshakeFailure)"
                .to_owned()
        }
        (A::HandshakeFailure | A::ProtocolVersion, _) => {
            format!("the device has no TLS 1.2 or 1.3 cipher in common with us ({alert:?})")
        }
        (alert, _) => format!("the device refuses TLS ({alert:?})"),
    }
}

fn date(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    seconds.map_or_else(|| format!("{} s", time.as_secs()), |time| time.format("%F %T UTC").to_string())
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
