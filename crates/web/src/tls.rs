//! TLS: a certificate with its chain, and its key.
//!
//! Reads both as PEM; refuses what is no certificate, a key of another one, and a certificate that is for no name by which
//! the server could be asked for.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use webpki::EndEntityCert;

/// Why a certificate and a key cannot be served with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// There is none, or it is broken.
    #[error("the certificate: {0}; expected one in PEM, before those that have signed it")]
    Certificate(String),
    /// There is none, or it is broken.
    #[error("the key: {0}; expected one in PEM, without a passphrase")]
    Key(String),
    /// They do not go together.
    #[error("the certificate and the key: {0}")]
    Pair(String),
    /// It has no DNS name, and the address is none of its own.
    #[error(
        "the certificate is for no DNS name, and not for {0}: expected one with a subject alternative name by which this \
         machine is reached, or the address that it is for"
    )]
    Name(SocketAddr),
}

/// What a server says it is, and proves.
#[derive(Clone)]
pub struct TlsIdentity {
    config: Arc<ServerConfig>,
    certificate: CertificateDer<'static>,
}

impl TlsIdentity {
    /// Of a certificate with its chain, and its key.
    pub fn parse(certificates: &[u8], key: &[u8]) -> Result<TlsIdentity, TlsError> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<_, _>>()
            .map_err(|error| TlsError::Certificate(error.to_string()))?;
        let certificate = chain.first().cloned();
        let certificate =
            certificate.ok_or_else(|| TlsError::Certificate("there is none".to_string()))?;
        let read = EndEntityCert::try_from(&certificate);
        read.map_err(|error| TlsError::Certificate(error.to_string()))?;
        let key = PrivateKeyDer::from_pem_slice(key);
        let key = key.map_err(|error| TlsError::Key(error.to_string()))?;
        let pair = |error: &dyn Display| TlsError::Pair(error.to_string());
        let mut config = ServerConfig::builder_with_provider(default_provider().into())
            .with_safe_default_protocol_versions()
            .map_err(|error| pair(&error))?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| pair(&error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsIdentity { config: Arc::new(config), certificate })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.clone())
    }

    /// Whether it is for that host: a name, or an address without brackets.
    pub(crate) fn is_for(&self, host: &str) -> bool {
        let (Ok(name), Some(certificate)) = (ServerName::try_from(host), self.read()) else {
            return false;
        };
        certificate.verify_is_valid_for_subject_name(&name).is_ok()
    }

    fn read(&self) -> Option<EndEntityCert<'_>> {
        EndEntityCert::try_from(&self.certificate).ok()
    }

    /// The name and port by which a server at this address is reached.
    pub fn authority(&self, address: SocketAddr) -> Result<String, TlsError> {
        if self.is_for(&address.ip().to_string()) {
            return Ok(address.to_string());
        }
        let names =
            self.read().map(|read| read.valid_dns_names().map(own_name).collect::<Vec<_>>());
        let names = names.unwrap_or_default();
        let host = names.into_iter().find(|name| self.is_for(name));
        let host = host.ok_or(TlsError::Name(address))?;
        Ok(format!("{host}:{}", address.port()))
    }
}

/// A name of a certificate; of a pattern, this machine's own name in it.
fn own_name(name: &str) -> String {
    let Some(domain) = name.strip_prefix("*.") else { return name.to_string() };
    let uname = rustix::system::uname();
    let node = uname.nodename().to_string_lossy();
    format!("{}.{domain}", node.split('.').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::ServerNames;

    const SERVER: &[u8] = include_bytes!("../../../tests/tls/server.pem");
    const KEY: &[u8] = include_bytes!("../../../tests/tls/server.key");
    const NAMELESS: &[u8] = include_bytes!("../../../tests/tls/nameless.pem");
    const OTHER_KEY: &[u8] = include_bytes!("../../../tests/tls/other.key");

    fn identity() -> TlsIdentity {
        TlsIdentity::parse(SERVER, KEY).unwrap()
    }

    fn at(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    #[test]
    fn what_is_no_certificate_with_its_key_is_refused_with_what_is_expected() {
        let refused = |certificate: &[u8], key: &[u8]| {
            TlsIdentity::parse(certificate, key).err().map(|error| error.to_string()).unwrap()
        };
        assert!(
            refused(b"", KEY).starts_with("the certificate: there is none; expected one in PEM")
        );
        assert!(refused(KEY, KEY).starts_with("the certificate: "));
        let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(refused(broken, KEY).starts_with("the certificate: "));
        assert!(refused(SERVER, SERVER).contains("without a passphrase"));
        assert!(refused(SERVER, OTHER_KEY).starts_with("the certificate and the key: "));
    }

    #[test]
    fn urls_have_a_name_that_the_certificate_is_for() {
        let authority = |address: &str| identity().authority(at(address)).unwrap();
        assert_eq!(authority("127.0.0.1:8443"), "127.0.0.1:8443");
        assert_eq!(authority("[::1]:8443"), "[::1]:8443");
        assert_eq!(authority("0.0.0.0:8443"), "node.example:8443");
        let nameless = TlsIdentity::parse(NAMELESS, KEY).unwrap();
        let error = nameless.authority(at("0.0.0.0:8443")).unwrap_err().to_string();
        assert!(error.contains("for no DNS name, and not for 0.0.0.0:8443"), "{error}");
        let own = own_name("*.cluster.example");
        assert!(own.ends_with(".cluster.example") && !own.starts_with(['*', '.']), "{own}");
    }

    #[test]
    fn hosts_and_origins_are_names_of_the_certificate() {
        let names = ServerNames::new(at("0.0.0.0:8443"), Some(identity())).unwrap();
        assert_eq!(names.origin(), "https://node.example:8443");
        for host in [
            "node.example:8443",
            "NODE.example:8443",
            "127.0.0.1:8443",
            "[::1]:8443",
            "n7.cluster.example:8443",
        ] {
            assert!(names.is_host(host) && names.is_origin(&format!("https://{host}")), "{host}");
        }
        for host in [
            "node.example",
            "node.example:443",
            "evil.example:8443",
            "a.b.cluster.example:8443",
            "cluster.example:8443",
            "localhost:8443",
            "0.0.0.0:8443",
            "node.example.:8444",
            "",
            ":8443",
            "node.example:8443:8443",
        ] {
            assert!(!names.is_host(host), "{host}");
        }
        assert!(!names.is_origin("http://node.example:8443") && !names.is_origin("null"));
        let (cookie, attributes) = names.cookie();
        assert_eq!((cookie.as_str(), attributes), ("__Host-weigh-8443", " Secure;"));
        let usual = ServerNames::new(at("0.0.0.0:443"), Some(identity())).unwrap();
        assert!(usual.is_host("node.example") && usual.is_host("node.example:443"));
        assert!(ServerNames::new(at("0.0.0.0:1"), TlsIdentity::parse(NAMELESS, KEY).ok()).is_err());
    }
}
