//! Who may ask: holders of the token, from pages of this server.
//!
//! Reads `Host`, `Origin`, `Cookie`, `Authorization` and the token of a first request; refuses all else before any
//! handler sees the request. Host and Origin stand against DNS rebinding: a name that another site points at 127.0.0.1
//! is not this server's.

use std::net::SocketAddr;

use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, LOCATION, ORIGIN,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::ApiError;

/// What a page may load, and from where: from here alone, and no script or style in its own text.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";
const TOKEN_BYTES: usize = 32;

/// A random secret of 256 bits, as hexadecimal digits.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    /// A new one.
    pub(crate) fn generate() -> std::io::Result<Token> {
        let mut bytes = [0; TOKEN_BYTES];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
        }
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Takes as long for a wrong token as for the right one.
    fn is(&self, other: &str) -> bool {
        let differences = self.0.bytes().zip(other.bytes()).map(|(a, b)| a ^ b);
        self.0.len() == other.len() && differences.fold(0, |all, one| all | one) == 0
    }
}

/// What requests are held to.
pub(crate) struct Access {
    token: Token,
    /// What `Host` may say.
    hosts: Vec<String>,
    /// The cookie's name: ports of one address share their cookies.
    cookie: String,
}

impl Access {
    /// Of a server at this address.
    pub(crate) fn new(token: Token, address: SocketAddr) -> Access {
        let port = address.port();
        let mut names = vec![address.to_string(), format!("localhost:{port}")];
        if port == 80 {
            names.extend([address.ip().to_string(), "localhost".to_string()]);
        }
        Access { token, hosts: names, cookie: format!("weigh-{port}") }
    }

    /// The URL that opens the page.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/?token={}", self.hosts[0], self.token.text())
    }

    fn is_host(&self, host: &str) -> bool {
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }

    /// Whether the request is for this server, and from a page of it if it is from a page.
    fn check_names(&self, request: &Request) -> Result<(), ApiError> {
        const EXPECTED: &str = "the address that `weigh serve` has printed";
        let mut hosts = request.headers().get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        let authority = request.uri().authority().map(|authority| authority.as_str());
        let is_ours = host.is_some_and(|host| self.is_host(host))
            && hosts.next().is_none()
            && authority.is_none_or(|authority| self.is_host(authority));
        if !is_ours {
            let status = StatusCode::MISDIRECTED_REQUEST;
            return Err(ApiError::new(status, "the request is for another host", EXPECTED));
        }
        let is_own = |origin: &HeaderValue| {
            let origin = origin.to_str().ok().and_then(|text| text.strip_prefix("http://"));
            origin.is_some_and(|host| self.is_host(host))
        };
        match request.headers().get_all(ORIGIN).iter().all(is_own) {
            true => Ok(()),
            false => {
                let error = "the request is from a page of another site";
                Err(ApiError::new(StatusCode::FORBIDDEN, error, EXPECTED))
            }
        }
    }

    /// Whether it has the token, in its cookie or as bearer.
    fn is_authorized(&self, headers: &HeaderMap) -> bool {
        let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
        let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.split_once('='));
        let cookies = pairs.filter(|(name, _)| name.trim() == self.cookie);
        bearer.is_some_and(|text| self.token.is(text.trim()))
            || cookies.map(|(_, value)| value.trim()).any(|value| self.token.is(value))
    }

    /// The same URL without the token, if the token is in it.
    fn without_token(&self, uri: &Uri) -> Option<String> {
        let query = uri.query()?;
        let (tokens, rest): (Vec<&str>, Vec<&str>) =
            query.split('&').partition(|pair| pair.starts_with("token="));
        let mut given = tokens.iter().filter_map(|pair| pair.strip_prefix("token="));
        if !given.any(|token| self.token.is(token)) {
            return None;
        }
        // Two slashes at the beginning would name another host.
        let path = format!("/{}", uri.path().trim_start_matches('/'));
        Some(if rest.is_empty() { path } else { format!("{path}?{}", rest.join("&")) })
    }

    /// Sends the browser on, with the token as a cookie.
    fn welcome(&self, location: &str) -> Response {
        let cookie =
            format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie, self.token.text());
        let header = |text: &str| HeaderValue::from_str(text).ok();
        match header(location).zip(header(&cookie)) {
            Some((location, cookie)) => {
                (StatusCode::SEE_OTHER, [(LOCATION, location), (SET_COOKIE, cookie)])
                    .into_response()
            }
            None => StatusCode::BAD_REQUEST.into_response(),
        }
    }

    /// What a request gets that is not let through.
    fn refusal(&self, request: &Request) -> Option<Response> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let error =
                ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "nothing changes here", "GET");
            return Some(error.into_response());
        }
        if let Err(error) = self.check_names(request) {
            return Some(error.into_response());
        }
        if let Some(location) = self.without_token(request.uri()) {
            return Some(self.welcome(&location));
        }
        let is_authorized = self.is_authorized(request.headers());
        (!is_authorized).then(|| self.unauthorized(request.uri()))
    }

    fn unauthorized(&self, uri: &Uri) -> Response {
        let status = StatusCode::UNAUTHORIZED;
        if uri.path().starts_with("/api/") {
            let expected = "the cookie of the page, or Authorization: Bearer TOKEN";
            return ApiError::new(status, "the token is missing or wrong", expected)
                .into_response();
        }
        (status, "Open the URL that `weigh serve` has printed: it has a token.\n").into_response()
    }
}

/// Lets a request through, or answers it; every answer has the same policy.
pub(crate) async fn guard(
    State(access): State<std::sync::Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match access.refusal(&request) {
        None => next.run(request).await,
        Some(response) => response,
    };
    let headers = response.headers_mut();
    let fixed = |value: &'static str| HeaderValue::from_static(value);
    headers.insert(CONTENT_SECURITY_POLICY, fixed(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, fixed("nosniff"));
    headers.insert(X_FRAME_OPTIONS, fixed("DENY"));
    headers.insert(REFERRER_POLICY, fixed("no-referrer"));
    for name in ["cross-origin-opener-policy", "cross-origin-resource-policy"] {
        headers.insert(HeaderName::from_static(name), fixed("same-origin"));
    }
    // What says nothing of its own is kept nowhere.
    headers.entry(CACHE_CONTROL).or_insert(fixed("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn access() -> Access {
        Access::new(Token::generate().unwrap(), "127.0.0.1:4000".parse().unwrap())
    }

    fn request(uri: &str, headers: &[(HeaderName, &str)]) -> Request {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    #[test]
    fn tokens_are_256_bits_and_each_is_another() {
        let (one, other) = (Token::generate().unwrap(), Token::generate().unwrap());
        assert_eq!(one.text().len(), 2 * TOKEN_BYTES);
        assert_ne!(one.text(), other.text());
        assert!(
            one.is(one.text()) && !one.is(other.text()) && !one.is("") && !one.is(&one.text()[1..])
        );
    }

    #[test]
    fn only_names_of_the_server_pass() {
        let access = access();
        let status = |headers: &[(HeaderName, &str)]| {
            access.check_names(&request("/", headers)).map_err(|error| error.status().as_u16())
        };
        for host in ["127.0.0.1:4000", "localhost:4000", "LOCALHOST:4000"] {
            assert_eq!(status(&[(HOST, host)]), Ok(()));
            assert_eq!(status(&[(HOST, host), (ORIGIN, &format!("http://{host}"))]), Ok(()));
        }
        for host in ["evil.example", "127.0.0.1", "127.0.0.1:4001", "localhost", ""] {
            assert_eq!(status(&[(HOST, host)]), Err(421), "{host}");
        }
        assert_eq!(status(&[]), Err(421));
        assert_eq!(status(&[(HOST, "localhost:4000"), (HOST, "localhost:4000")]), Err(421));
        for origin in ["http://evil.example", "null", "https://localhost:4000", "http://localhost"]
        {
            assert_eq!(status(&[(HOST, "localhost:4000"), (ORIGIN, origin)]), Err(403), "{origin}");
        }
    }

    #[test]
    fn the_token_comes_as_a_cookie_or_bearer_and_goes_from_the_url() {
        let access = access();
        let token = access.token.text().to_string();
        let is_known = |name: HeaderName, value: String| {
            access.is_authorized(request("/", &[(name, &value)]).headers())
        };
        assert!(is_known(AUTHORIZATION, format!("Bearer {token}")));
        assert!(is_known(COOKIE, format!("a=b; weigh-4000={token}; c=d")));
        assert!(!is_known(AUTHORIZATION, "Bearer ".to_string()));
        assert!(!is_known(COOKIE, format!("weigh-4001={token}")));
        let without =
            |uri: &str| access.without_token(&uri.replace("TOKEN", &token).parse().unwrap());
        assert_eq!(without("/?token=TOKEN").as_deref(), Some("/"));
        assert_eq!(without("/job?a=1&token=TOKEN&b=2").as_deref(), Some("/job?a=1&b=2"));
        assert_eq!(without("//evil.example/?token=TOKEN").as_deref(), Some("/evil.example/"));
        assert_eq!(without("/?token=x"), None);
        assert_eq!(without("/"), None);
    }
}
