//! Certificates and keys for TLS, in PEM files: what is trusted, and who we are.
//!
//! Reads files, for the configuration to check and for transports to use. Opens no sockets, and has no way to trust a
//! peer unseen.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio_rustls::rustls::{
    ClientConfig, Error, InconsistentKeys, RootCertStore,
    client::WebPkiServerVerifier,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem, pem::PemObject},
    sign::{CertifiedKey, SingleCertAndKey},
};

/// Most bytes of a file: a bundle of every public authority has a quarter of it.
const LARGEST: u64 = 1 << 20;

/// Which of the files of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    Authorities,
    Certificate,
    Key,
}

/// Why a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", file.display())]
pub struct FileError {
    pub part: Part,
    pub file: PathBuf,
    pub problem: String,
}

/// How a client trusts the authorities in `ca`, and shows the certificate of `identity` with its key to who asks.
///
/// TLS 1.2 and 1.3, no early data: that could arrive twice.
pub fn client(ca: &Path, identity: Option<(&Path, &Path)>) -> Result<ClientConfig, FileError> {
    let provider = Arc::new(ring::default_provider());
    let fail = |error: &dyn std::fmt::Display| FileError {
        part: Part::Authorities,
        file: ca.to_owned(),
        problem: error.to_string(),
    };
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(authorities(ca)?), Arc::clone(&provider))
            .build()
            .map_err(|error| fail(&error))?;
    let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| fail(&error))?
        .with_webpki_verifier(verifier);
    Ok(match identity {
        None => client.with_no_client_auth(),
        Some((certificate, key)) => {
            let certified = certified(certificate, key, &provider)?;
            client.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))
        }
    })
}

/// Whether `ca` can be used.
pub fn check_authorities(ca: &Path) -> Result<(), FileError> {
    authorities(ca).map(|_| ())
}

/// Everything that keeps a certificate and its key from being used.
#[must_use]
pub fn check_identity(certificate: &Path, key: &Path) -> Vec<FileError> {
    let files = [certificates(Part::Certificate, certificate).err(), private_key(key).err()];
    let errors: Vec<FileError> = files.into_iter().flatten().collect();
    if errors.is_empty() {
        certified(certificate, key, &ring::default_provider()).err().into_iter().collect()
    } else {
        errors
    }
}

/// Whether every user of this machine can read `file`, as far as its mode tells.
#[must_use]
pub fn is_public(file: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(file).is_ok_and(|about| about.permissions().mode() & 0o004 != 0)
    }
    #[cfg(not(unix))]
    {
        let _unknown = file;
        false
    }
}

/// The name that a peer's certificate must have: `name`, else the host of `address` (`host:port`); `None` where no
/// certificate can have it.
#[must_use]
pub fn server_name(address: &str, name: Option<&str>) -> Option<ServerName<'static>> {
    let host = || address.rsplit_once(':').map_or(address, |(host, _)| host);
    let name = name.unwrap_or_else(host);
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    ServerName::try_from(bare.strip_suffix('.').unwrap_or(bare)).ok().map(|name| name.to_owned())
}

fn authorities(file: &Path) -> Result<RootCertStore, FileError> {
    let mut roots = RootCertStore::empty();
    for (index, certificate) in certificates(Part::Authorities, file)?.into_iter().enumerate() {
        roots.add(certificate).map_err(|error| FileError {
            part: Part::Authorities,
            file: file.to_owned(),
            problem: format!("certificate {} in it cannot be used: {}", index + 1, plain(&error)),
        })?;
    }
    Ok(roots)
}

fn certified(certificate: &Path, key: &Path, provider: &CryptoProvider) -> Result<CertifiedKey, FileError> {
    let fail = |problem| FileError { part: Part::Key, file: key.to_owned(), problem };
    let chain = certificates(Part::Certificate, certificate)?;
    let secret = provider
        .key_provider
        .load_private_key(private_key(key)?)
        .map_err(|error| fail(format!("the key in it cannot be used: {error}")))?;
    let certified = CertifiedKey::new(chain, secret);
    match certified.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(Error::InconsistentKeys(_)) => {
            Err(fail(format!("it is not the key of the first certificate in {}", certificate.display())))
        }
        Err(error) => Err(FileError {
            part: Part::Certificate,
            file: certificate.to_owned(),
            problem: format!("the first certificate in it cannot be used: {}", plain(&error)),
        }),
    }
}

fn certificates(part: Part, file: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let fail = |problem| FileError { part, file: file.to_owned(), problem };
    let text = read(part, file)?;
    let found = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    match found {
        Ok(found) if found.is_empty() => {
            Err(fail("no certificate in it: PEM is text with a line -----BEGIN CERTIFICATE-----".to_owned()))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(fail(damage(&error))),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    const ENCRYPTED: [&[u8]; 2] = [b"-----BEGIN ENCRYPTED PRIVATE KEY-----", b"Proc-Type: 4,ENCRYPTED"];
    let fail = |problem| FileError { part: Part::Key, file: file.to_owned(), problem };
    let text = read(Part::Key, file)?;
    let is_encrypted = || ENCRYPTED.iter().any(|mark| text.windows(mark.len()).any(|part| part == *mark));
    if is_encrypted() {
        let problem = "the key in it is encrypted: nobody is there to enter its password, so store it decrypted, \
                       readable to this program alone";
        return Err(fail(problem.to_owned()));
    }
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            fail("no private key in it: PEM is text with a line -----BEGIN PRIVATE KEY-----".to_owned())
        }
        error => fail(damage(&error)),
    })
}

/// What is wrong with a certificate, which the library takes for a peer's.
fn plain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(problem) => problem.to_string(),
        error => error.to_string(),
    }
}

fn damage(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "damaged: a part of it has no -----END line".to_owned(),
        pem::Error::IllegalSectionStart { .. } => "damaged: a -----BEGIN line is cut".to_owned(),
        pem::Error::Base64Decode(_) => "damaged: a part of it is no base64".to_owned(),
        error => error.to_string(),
    }
}

fn read(part: Part, file: &Path) -> Result<Vec<u8>, FileError> {
    let fail = |problem| FileError { part, file: file.to_owned(), problem };
    let about = fs::metadata(file).map_err(|error| fail(error.to_string()))?;
    // A pipe or a device would be read for ever.
    if !about.is_file() {
        return Err(fail("not a file".to_owned()));
    }
    if about.len() > LARGEST {
        return Err(fail(format!("{} bytes, where {LARGEST} are allowed", about.len())));
    }
    fs::read(file).map_err(|error| fail(error.to_string()))
}
