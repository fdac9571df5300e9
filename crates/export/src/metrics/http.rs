//! Requests by HTTP/1.1, over TLS where the address says so: no redirects, no proxy, bounded in time and size.

use std::io::Read as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use weigh_schema::printable::{in_words, printable};

use super::target::HttpTarget;

/// How long a request may take, from the connection to the last byte of the answer.
pub const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// What is read of an answer; more of it is not looked at.
const ANSWER_BYTES: u64 = 8 << 20;
/// What is shown of an answer.
const SHOWN_CHARACTERS: usize = 200;

/// A client for one server; it keeps its connection.
pub struct HttpClient {
    agent: ureq::Agent,
    /// Where the server is.
    pub target: HttpTarget,
}

/// A request with a body.
pub struct Request {
    /// `GET`, `POST`, `PUT`.
    pub method: &'static str,
    /// The whole address.
    pub url: String,
    /// Headers besides Authorization and User-Agent.
    pub headers: Vec<(&'static str, &'static str)>,
    /// The body; empty for none.
    pub body: Vec<u8>,
}

/// What came back.
#[derive(Debug, Default)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// How long the server wants to be left alone.
    pub retry_after: Option<Duration>,
    /// `X-Prometheus-Remote-Write-Samples-Written`.
    pub samples_written: Option<u64>,
    /// The body, up to its bound.
    pub body: Vec<u8>,
}

impl HttpClient {
    /// A client; it does not connect yet. Errors: no authorities are known that could have signed the server's certificate.
    pub fn new(target: HttpTarget) -> Result<HttpClient, String> {
        let mut config = ureq::Agent::config_builder();
        if target.has_tls() {
            config = config.tls_config(tls()?);
        }
        let config = config
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(TIMEOUT))
            .user_agent(concat!("weigh/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(HttpClient { agent: config.into(), target })
    }

    /// Sends a request and reads the answer, of whatever status; an error is one of the connection, in words.
    pub fn send(&self, request: Request) -> Result<Answer, String> {
        let mut builder = ureq::http::Request::builder().method(request.method).uri(&request.url);
        for (name, value) in &request.headers {
            builder = builder.header(*name, *value);
        }
        if let Some(authorization) = &self.target.authorization {
            builder = builder.header("Authorization", authorization);
        }
        let failed = |error: &dyn std::fmt::Display| {
            format!("{}: {}", self.target.origin, in_words(error.to_string()))
        };
        let http_request = builder.body(request.body).map_err(|error| failed(&error))?;
        let response = self.agent.run(http_request).map_err(|error| failed(&error))?;
        read_answer(response).map_err(|error| failed(&error))
    }
}

/// Servers are believed that an authority vouches for whom this machine trusts.
fn tls() -> Result<TlsConfig, String> {
    let found = rustls_native_certs::load_native_certs();
    let roots: Vec<_> =
        found.certs.iter().map(|root| Certificate::from_der(root).to_owned()).collect();
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(String::new, |why| format!(" ({why})"));
        return Err(format!(
            "https needs the certificates of authorities, and this machine has none{why}: install ca-certificates, or name a \
             file of them: SSL_CERT_FILE=FILE"
        ));
    }
    // The version of the library whose provider this is stands in its own name for it.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&roots));
    Ok(config.unversioned_rustls_crypto_provider(provider).build())
}

fn read_answer(response: ureq::http::Response<ureq::Body>) -> std::io::Result<Answer> {
    let (head, body) = response.into_parts();
    let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
    let mut answer = Answer {
        status: head.status.as_u16(),
        retry_after: header("retry-after").and_then(|text| retry_after(text, SystemTime::now())),
        samples_written: header("x-prometheus-remote-write-samples-written")
            .and_then(|text| text.trim().parse().ok()),
        body: Vec::new(),
    };
    body.into_reader().take(ANSWER_BYTES).read_to_end(&mut answer.body)?;
    Ok(answer)
}

/// `Retry-After`: seconds, or a date of HTTP.
fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text.trim()).ok()?.timestamp();
    let now = Timestamp::try_from(now).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

impl Answer {
    /// Whether the server has done what it was asked for.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Status and the beginning of the body, for a message.
    pub fn words(&self) -> String {
        let text = String::from_utf8_lossy(&self.body[..self.body.len().min(4 * SHOWN_CHARACTERS)]);
        let text: String = printable(text.trim()).chars().take(SHOWN_CHARACTERS).collect();
        match text.is_empty() {
            true => format!("the server answered {}", self.status),
            false => format!("the server answered {}: {text}", self.status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_read_in_seconds_and_as_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_445_412_480 - 90);
        let wait = |text| retry_after(text, now);
        assert_eq!(wait("120"), Some(Duration::from_secs(120)));
        assert_eq!(wait("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::from_secs(90)));
        assert_eq!(wait("Wed, 21 Oct 2015 07:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(wait("soon"), None);
        assert_eq!(wait("-3"), None);
    }

    #[test]
    fn an_answer_is_told_in_few_printable_characters() {
        let answer =
            Answer { status: 400, body: b"bad\x1b[31m\xff".repeat(1000), ..Answer::default() };
        let words = answer.words();
        assert!(words.starts_with("the server answered 400: bad\\u{1b}[31m\u{fffd}bad"), "{words}");
        assert!(words.chars().count() < 240);
    }
}
