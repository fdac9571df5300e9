//! TLS: a certificate with its chain, and its key.
//!
//! Reads both as PEM; refuses what is no certificate, a key of another one, and a certificate that is for no name by which
//! the server could be asked for.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

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
    /// It has another name than the one before.
    #[error(
        "the certificate is not for {0}, by which the page is known: expected one that is, or a restart"
    )]
    Renamed(String),
}

/// What a server says it is, and proves; all copies are renewed together.
#[derive(Clone)]
pub struct TlsIdentity(Arc<Renewable>);

struct Renewable {
    proof: RwLock<Arc<Proof>>,
    /// The name or address that URLs have.
    announced: OnceLock<String>,
}

struct Proof {
    config: Arc<ServerConfig>,
    certificate: CertificateDer<'static>,
}

impl Proof {
    fn read(&self) -> Option<EndEntityCert<'_>> {
        EndEntityCert::try_from(&self.certificate).ok()
    }
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
        let proof = RwLock::new(Arc::new(Proof { config: Arc::new(config), certificate }));
        Ok(TlsIdentity(Arc::new(Renewable { proof, announced: OnceLock::new() })))
    }

    fn proof(&self) -> Arc<Proof> {
        // It is whole between any two statements.
        self.0.proof.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the place of this one, for connections that come from now on. Errors: it is not for the name that URLs have; this one stays.
    pub fn renew(&self, fresh: &TlsIdentity) -> Result<(), TlsError> {
        if let Some(host) = self.0.announced.get().filter(|host| !fresh.is_for(host)) {
            return Err(TlsError::Renamed(host.clone()));
        }
        *self.0.proof.write().unwrap_or_else(PoisonError::into_inner) = fresh.proof();
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.proof().config.clone())
    }

    /// Whether it is for that host: a name, or an address without brackets.
    pub(crate) fn is_for(&self, host: &str) -> bool {
        let proof = self.proof();
        let (Ok(name), Some(certificate)) = (ServerName::try_from(host), proof.read()) else {
            return false;
        };
        certificate.verify_is_valid_for_subject_name(&name).is_ok()
    }

    /// The name and port by which a server at this address is reached.
    pub fn authority(&self, address: SocketAddr) -> Result<String, TlsError> {
        let ip = address.ip().to_string();
        let is_for_address = self.is_for(&ip);
        let host = if is_for_address { Some(ip) } else { self.own_name() };
        let host = host.ok_or(TlsError::Name(address))?;
        let authority = match is_for_address {
            true => address.to_string(),
            false => format!("{host}:{}", address.port()),
        };
        self.0.announced.get_or_init(|| host);
        Ok(authority)
    }

    fn own_name(&self) -> Option<String> {
        let proof = self.proof();
        let names: Vec<String> = proof.read()?.valid_dns_names().map(own_name).collect();
        names.into_iter().find(|name| self.is_for(name))
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
    fn all_copies_are_renewed_but_not_by_one_of_another_name() {
        let served = identity();
        let copy = served.clone();
        assert_eq!(served.authority(at("0.0.0.0:8443")).unwrap(), "node.example:8443");
        let before = served.proof();
        let nameless = TlsIdentity::parse(NAMELESS, KEY).unwrap();
        let error = served.renew(&nameless).unwrap_err().to_string();
        assert!(error.starts_with("the certificate is not for node.example, by which"), "{error}");
        assert!(Arc::ptr_eq(&before, &copy.proof()));
        served.renew(&identity()).unwrap();
        assert!(!Arc::ptr_eq(&before, &copy.proof()));
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
