//! Addresses of servers, as they are typed.

use weigh_schema::base64;
use weigh_schema::printable::printable;

/// An address `http://[USER:PASSWORD@]HOST[:PORT][/PATH]`, or `https://`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpTarget {
    /// `http://HOST:PORT` or `https://HOST:PORT`, without credentials.
    pub origin: String,
    /// The path, without a slash at its end; empty where none was given.
    pub path: String,
    /// The value of `Authorization`, where credentials were given.
    pub authorization: Option<String>,
}

impl HttpTarget {
    /// Reads an address, or says what is wrong with it; the words hold no password.
    pub fn parse(address: &str) -> Result<HttpTarget, String> {
        let schemes = ["http://", "https://"];
        let found =
            schemes.iter().find_map(|scheme| Some((*scheme, address.strip_prefix(scheme)?)));
        let (scheme, rest) = found.ok_or("the address has to begin with http:// or https://")?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (credentials, host) = match authority.rsplit_once('@') {
            Some((credentials, host)) => (Some(credentials), host),
            None => (None, authority),
        };
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let has_more = [host, path].iter().any(|part| part.contains(['?', '#']));
        if host.is_empty() || !is_plain(host) || !is_plain(path) || has_more {
            return Err(format!("the address has to be {scheme}HOST:PORT, with a path at most"));
        }
        let basic = |text: &str| format!("Basic {}", base64::encode(&percent_decoded(text)));
        Ok(HttpTarget {
            origin: format!("{scheme}{host}"),
            path: path.trim_end_matches('/').to_string(),
            authorization: credentials.map(basic),
        })
    }

    /// Whether it is reached by TLS.
    pub fn has_tls(&self) -> bool {
        self.origin.starts_with("https://")
    }

    /// The address of a path below the one that was given.
    pub fn url(&self, below: &str) -> String {
        format!("{}{}{below}", self.origin, self.path)
    }

    /// The address itself, or that of this path where none was given.
    pub fn url_or(&self, path: &str) -> String {
        match self.path.is_empty() {
            true => format!("{}{path}", self.origin),
            false => self.url(""),
        }
    }
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
            .filter(|_| *first == b'%')
        {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

/// A word as it was typed, for a message: printable and short.
pub fn shown(word: &str) -> String {
    printable(word).chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_no_part_of_the_address() {
        let target = HttpTarget::parse("http://us%65r:p%40ss@host:9200/a/b/").unwrap();
        assert_eq!(target.authorization.as_deref(), Some("Basic dXNlcjpwQHNz"));
        assert_eq!(target.url("/_bulk"), "http://host:9200/a/b/_bulk");
        assert_eq!(target.url_or("/write"), "http://host:9200/a/b");
        assert!(!target.has_tls());
        let secure = HttpTarget::parse("https://u:p@search:9200/a").unwrap();
        assert_eq!(secure.url("/_bulk"), "https://search:9200/a/_bulk");
        assert!(secure.has_tls() && secure.authorization.is_some());
        let bare = HttpTarget::parse("http://[::1]:9090/").unwrap();
        assert_eq!(
            (bare.url_or("/write"), bare.authorization),
            ("http://[::1]:9090/write".into(), None)
        );
    }

    #[test]
    fn an_address_that_would_break_a_request_is_refused() {
        for wrong in
            ["host:1", "http://", "http://u@", "http://h\r\nX: y", "http://h/a b", "http://h/?q"]
        {
            assert!(HttpTarget::parse(wrong).is_err(), "{wrong}");
        }
    }
}
