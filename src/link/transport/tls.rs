//! TLS over TCP: a peer that is not verified is not spoken to, and there is no way to switch that off.

use std::{
    io,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use chrono::DateTime;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
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

/// A verified peer.
#[derive(Debug)]
pub struct Secured {
    stream: TlsStream<TcpStream>,
    security: Security,
}

/// Opens `host:port` and verifies who is there; connecting and the handshake together take `limit` at most.
///
/// The files are read anew, so that certificates can be renewed while the program runs. The delivery is that of the TCP
/// connection, which ends as [`tcp`] says. A peer that speaks TLS 1.3 refuses our certificate only after the handshake:
/// then the first read fails, and tells why.
pub async fn connect(
    address: &str,
    limit: Duration,
    security: &Security,
) -> Result<(Secured, Delivery), LinkError> {
    let fail = |problem: String, lasting| LinkError { address: address.to_owned(), problem, lasting };
    let config = client(security.clone()).await.map_err(|problem| fail(problem, true))?;
    let name = tls::server_name(address, security.server_name.as_deref()).ok_or_else(|| {
        fail(
            "no certificate can have such a name: set `server_name` to the one in the server's".to_owned(),
            true,
        )
    })?;
    let until = Instant::now() + limit;
    let stream = tcp::connect(address, limit).await?;
    let delivery = Delivery::of(&stream);
    match timeout_at(until, TlsConnector::from(Arc::new(config)).connect(name.clone(), stream)).await {
        Ok(Ok(stream)) => Ok((Secured { stream, security: security.clone() }, delivery)),
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
            "the server answers something that is no TLS: is this its port for TLS?".to_owned()
        }
        Some(Error::PeerIncompatible(problem)) => {
            format!("the server offers no TLS 1.2 or 1.3 that is safe ({problem:?})")
        }
        Some(error) => format!("TLS: {error}"),
        None => format!("the server ended the connection during the TLS handshake ({error})"),
    }
}

/// What is wrong with the peer's certificate.
fn certificate(problem: &CertificateError, security: &Security, name: &ServerName<'_>) -> String {
    let ca = security.ca.display();
    match problem {
        CertificateError::UnknownIssuer => {
            format!("the server's certificate is not signed by an authority in {ca}")
        }
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("the server's certificate expired on {}", date(*not_after))
        }
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "the server's certificate is not valid before {}, and by the clock of this machine it is {}",
            date(*not_before),
            date(*time)
        ),
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            "the server's certificate has no subjectAltName, so it is valid for no host".to_owned()
        }
        CertificateError::NotValidForNameContext { presented, .. } => format!(
            "the server's certificate is valid for {}, not for {}: where it is the right server, set `server_name` to \
             a name that it has",
            presented.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", "),
            name.to_str()
        ),
        CertificateError::Other(other)
            if matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity)) =>
        {
            format!(
                "the server's certificate is an authority's (CA:TRUE), which may not be a server's own: give the \
                 server one that an authority in {ca} signed, or a self-signed one with basicConstraints CA:FALSE"
            )
        }
        problem => format!("the server's certificate: {problem}"),
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
            format!("the server wants a client certificate, and none is configured ({alert:?})")
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
        ) => format!("the server refuses our certificate, {} ({alert:?})", file.display()),
        (A::HandshakeFailure, None) => {
            "the server refuses: it has no cipher in common with us, or wants a client certificate \
             (HandshakeFailure)"
                .to_owned()
        }
        (A::HandshakeFailure | A::ProtocolVersion, _) => {
            format!("the server has no TLS 1.2 or 1.3 cipher in common with us ({alert:?})")
        }
        (alert, _) => format!("the server refuses TLS ({alert:?})"),
    }
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        read.map_err(|error| match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            Some(Error::AlertReceived(alert)) => {
                io::Error::new(error.kind(), refusal(*alert, &self.security))
            }
            _ => error,
        })
    }
}

impl AsyncWrite for Secured {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

fn date(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    seconds.map_or_else(|| format!("{} s", time.as_secs()), |time| time.format("%F %T UTC").to_string())
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
