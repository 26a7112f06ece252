//! Certificates for Modbus/TCP Security: an authority, and what it vouches for.
//!
//! For simulators and tests: keys lie unprotected in memory and in files. Knows no Modbus.

use std::{fs, io, path::Path, sync::Arc};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::WebPkiClientVerifier,
    },
};

/// The files of [`Authority::write`].
pub const FILES: [&str; 5] = ["ca.pem", "server.pem", "server.key", "client.pem", "client.key"];

/// An authority of its own: what another one vouched for is not accepted.
#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key, and the authority that peers must have theirs from; all in PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    pub ca: String,
    pub certificate: String,
    pub key: String,
}

impl Authority {
    /// A new authority.
    pub fn new() -> io::Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "simulated plant");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(io::Error::other)?;
        CertifiedIssuer::self_signed(params, key).map(Self).map_err(io::Error::other)
    }

    /// For a device that is reached by these names and addresses.
    pub fn server(&self, names: &[&str]) -> io::Result<Identity> {
        self.vouch(names, "simulated device", ExtendedKeyUsagePurpose::ServerAuth, None)
    }

    /// For a client.
    pub fn client(&self) -> io::Result<Identity> {
        self.vouch(&[], "client", ExtendedKeyUsagePurpose::ClientAuth, None)
    }

    /// For a device, and out of date since 2001.
    pub fn expired(&self, names: &[&str]) -> io::Result<Identity> {
        self.vouch(names, "simulated device", ExtendedKeyUsagePurpose::ServerAuth, Some(2001))
    }

    fn vouch(
        &self,
        names: &[&str],
        name: &str,
        purpose: ExtendedKeyUsagePurpose,
        until: Option<i32>,
    ) -> io::Result<Identity> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).map_err(io::Error::other)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        if let Some(year) = until {
            params.not_before = rcgen::date_time_ymd(year - 1, 1, 1);
            params.not_after = rcgen::date_time_ymd(year, 1, 1);
        }
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.signed_by(&key, &self.0).map_err(io::Error::other)?;
        Ok(Identity { ca: self.0.pem(), certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// Writes the authority's certificate, and certificate and key of a device and of a client, see [`FILES`].
    ///
    /// # Errors
    /// What the file system says; one of the files exists: keys are never overwritten.
    pub fn write(&self, folder: &Path, names: &[&str]) -> io::Result<()> {
        let (server, client) = (self.server(names)?, self.client()?);
        let texts = [&server.ca, &server.certificate, &server.key, &client.certificate, &client.key];
        fs::create_dir_all(folder)?;
        for (file, text) in FILES.into_iter().zip(texts) {
            create(&folder.join(file), text)?;
        }
        Ok(())
    }
}

impl Identity {
    /// The device's part of what [`Authority::write`] wrote.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let read = |file: &str| {
            let path = folder.join(file);
            fs::read_to_string(&path)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
        };
        Ok(Self { ca: read("ca.pem")?, certificate: read("server.pem")?, key: read("server.key")? })
    }

    /// Takes clients with a certificate of its authority only.
    pub(super) fn acceptor(&self) -> io::Result<TlsAcceptor> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(self.ca.as_bytes()) {
            let certificate = certificate.map_err(|error| invalid(error.to_string()))?;
            roots.add(certificate).map_err(|error| invalid(error.to_string()))?;
        }
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .map_err(|error| invalid(error.to_string()))?;
        let chain = CertificateDer::pem_slice_iter(self.certificate.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|error| invalid(error.to_string()))?;
        let key =
            PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|error| invalid(error.to_string()))?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid(error.to_string()))?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, key)
            .map_err(|error| invalid(error.to_string()))?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// A new file that only its owner reads.
fn create(path: &Path, text: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options
        .open(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    io::Write::write_all(&mut file, text.as_bytes())
}
