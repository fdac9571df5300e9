//! By which names the server is asked for: what `Host` and `Origin` may say.

use std::net::SocketAddr;

use crate::tls::{TlsError, TlsIdentity};

/// The names of a server.
pub(crate) enum ServerNames {
    /// Of loopback, without TLS: its address, and `localhost`.
    Loopback(SocketAddr),
    /// Those that its certificate is for.
    Certificate { identity: TlsIdentity, authority: String, port: u16 },
}

impl ServerNames {
    /// Of a server at this address. Errors: the certificate is for no name.
    pub(crate) fn new(
        address: SocketAddr,
        identity: Option<TlsIdentity>,
    ) -> Result<ServerNames, TlsError> {
        let Some(identity) = identity else { return Ok(ServerNames::Loopback(address)) };
        let authority = identity.authority(address)?;
        Ok(ServerNames::Certificate { identity, authority, port: address.port() })
    }

    fn scheme(&self) -> &'static str {
        match self {
            ServerNames::Loopback(_) => "http",
            ServerNames::Certificate { .. } => "https",
        }
    }

    fn default_port(&self) -> u16 {
        match self {
            ServerNames::Loopback(_) => 80,
            ServerNames::Certificate { .. } => 443,
        }
    }

    fn port(&self) -> u16 {
        match self {
            ServerNames::Loopback(address) => address.port(),
            ServerNames::Certificate { port, .. } => *port,
        }
    }

    /// What URLs of it begin with.
    pub(crate) fn origin(&self) -> String {
        match self {
            ServerNames::Loopback(address) => format!("http://{address}"),
            ServerNames::Certificate { authority, .. } => format!("https://{authority}"),
        }
    }

    /// Whether `Host` names it.
    pub(crate) fn is_host(&self, host: &str) -> bool {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
            _ => (host, Some(self.default_port())),
        };
        port == Some(self.port()) && self.is_name(name)
    }

    fn is_name(&self, name: &str) -> bool {
        let inner = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        match self {
            ServerNames::Loopback(address) => {
                name.eq_ignore_ascii_case("localhost")
                    || inner.unwrap_or(name) == address.ip().to_string()
            }
            ServerNames::Certificate { identity, .. } => identity.is_for(inner.unwrap_or(name)),
        }
    }

    /// Whether a page of that origin is one of its own.
    pub(crate) fn is_origin(&self, origin: &str) -> bool {
        let rest = origin.strip_prefix(self.scheme()).and_then(|rest| rest.strip_prefix("://"));
        rest.is_some_and(|host| self.is_host(host))
    }

    /// The name of its cookie, and what browsers hold it to: ports of one address share their cookies.
    pub(crate) fn cookie(&self) -> (String, &'static str) {
        let port = self.port();
        match self {
            ServerNames::Loopback(_) => (format!("weigh-{port}"), ""),
            ServerNames::Certificate { .. } => (format!("__Host-weigh-{port}"), " Secure;"),
        }
    }
}
