//! Who may ask: holders of the token, from pages of this server.
//!
//! Reads `Host`, `Origin`, `Cookie`, `Authorization` and the token of a first request; refuses all else before any
//! handler sees the request. Host and Origin stand against DNS rebinding: a name that another site points at 127.0.0.1
//! is not this server's.

use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, LOCATION, ORIGIN,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::error::ApiError;
use crate::names::ServerNames;
use crate::tokens::{Grant, TokenTable};

/// What a page may load, and from where: from here alone, and no script or style in its own text.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";
/// Values of one cookie that are looked at.
const COOKIES_MOST: usize = 4;
/// Where programs collect the node's metrics.
pub(crate) const METRICS: &str = "/metrics";

/// What requests are held to.
pub(crate) struct Access {
    tokens: TokenTable,
    names: ServerNames,
    /// The cookie's name.
    cookie: String,
    /// What browsers hold it to, besides what they always do.
    cookie_attributes: &'static str,
}

impl Access {
    /// Of a server that is asked for by these names.
    pub(crate) fn new(tokens: TokenTable, names: ServerNames) -> Access {
        let (cookie, cookie_attributes) = names.cookie();
        Access { tokens, names, cookie, cookie_attributes }
    }

    /// The URL that opens the page, with the token where all have the same.
    pub(crate) fn url(&self) -> String {
        let token = self.tokens.page_token();
        let query = token.map_or_else(String::new, |token| format!("?token={}", token.text()));
        format!("{}/{query}", self.names.origin())
    }

    /// Whether the request is for this server, and from a page of it if it is from a page.
    fn check_names(&self, request: &Parts) -> Result<(), ApiError> {
        const EXPECTED: &str = "the address that `weigh serve` has printed";
        let mut hosts = request.headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        let authority = request.uri.authority().map(|authority| authority.as_str());
        let is_ours = host.is_some_and(|host| self.names.is_host(host))
            && hosts.next().is_none()
            && authority.is_none_or(|authority| self.names.is_host(authority));
        if !is_ours {
            let status = StatusCode::MISDIRECTED_REQUEST;
            return Err(ApiError::new(status, "the request is for another host", EXPECTED));
        }
        let is_own =
            |origin: &HeaderValue| origin.to_str().is_ok_and(|origin| self.names.is_origin(origin));
        match request.headers.get_all(ORIGIN).iter().all(is_own) {
            true => Ok(()),
            false => {
                let error = "the request is from a page of another site";
                Err(ApiError::new(StatusCode::FORBIDDEN, error, EXPECTED))
            }
        }
    }

    /// What its token opens, in its cookie or as bearer.
    async fn grant(&self, headers: &HeaderMap) -> Option<Grant> {
        let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
        if let Some(token) = bearer
            && let Some(grant) = self.tokens.find(token.trim()).await
        {
            return Some(grant);
        }
        for token in self.cookies(headers) {
            let grant = self.tokens.find(token).await;
            if let Some(grant) = grant.filter(|grant| !grant.is_for_metrics) {
                return Some(grant);
            }
        }
        None
    }

    /// The first few values of this server's cookie.
    fn cookies<'a>(&self, headers: &'a HeaderMap) -> Vec<&'a str> {
        let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.split_once('='));
        let own = pairs.filter(|(name, _)| name.trim() == self.cookie);
        own.map(|(_, value)| value.trim()).take(COOKIES_MOST).collect()
    }

    /// Sends the browser on, with the token as a cookie, where the URL has one that opens the page.
    async fn welcome(&self, uri: &Uri) -> Option<Response> {
        let (location, token) = without_token(uri)?;
        let grant = self.tokens.find(token).await?;
        (!grant.is_for_metrics).then(|| self.send_on(&location, token))
    }

    fn send_on(&self, location: &str, token: &str) -> Response {
        let (name, attributes) = (&self.cookie, self.cookie_attributes);
        let cookie = format!("{name}={token}; Path=/;{attributes} HttpOnly; SameSite=Strict");
        let header = |text: &str| HeaderValue::from_str(text).ok();
        match header(location).zip(header(&cookie)) {
            Some((location, cookie)) => {
                (StatusCode::SEE_OTHER, [(LOCATION, location), (SET_COOKIE, cookie)])
                    .into_response()
            }
            None => StatusCode::BAD_REQUEST.into_response(),
        }
    }

    /// What the holder of the request's token gets, or the answer to a request that is not let through.
    async fn admit(&self, request: &Parts) -> Result<Grant, Box<Response>> {
        let refused = |error: ApiError| Box::new(error.into_response());
        if !matches!(request.method, Method::GET | Method::HEAD) {
            let error = "nothing changes here";
            return Err(refused(ApiError::new(StatusCode::METHOD_NOT_ALLOWED, error, "GET")));
        }
        self.check_names(request).map_err(refused)?;
        if let Some(response) = self.welcome(&request.uri).await {
            return Err(Box::new(response));
        }
        let grant = self.grant(&request.headers).await;
        let grant = grant.ok_or_else(|| Box::new(unauthorized(&request.uri)))?;
        if grant.is_for_metrics && request.uri.path() != METRICS {
            let error = "this token is for metrics alone";
            return Err(refused(ApiError::new(StatusCode::FORBIDDEN, error, METRICS)));
        }
        Ok(grant)
    }
}

/// A URL without the token that is in it, and that token.
fn without_token(uri: &Uri) -> Option<(String, &str)> {
    let query = uri.query()?;
    let (tokens, rest): (Vec<&str>, Vec<&str>) =
        query.split('&').partition(|pair| pair.starts_with("token="));
    let token = tokens.first()?.strip_prefix("token=")?;
    // Two slashes at the beginning would name another host.
    let path = format!("/{}", uri.path().trim_start_matches('/'));
    Some((if rest.is_empty() { path } else { format!("{path}?{}", rest.join("&")) }, token))
}

fn unauthorized(uri: &Uri) -> Response {
    let status = StatusCode::UNAUTHORIZED;
    if uri.path().starts_with("/api/") {
        let expected = "the cookie of the page, or Authorization: Bearer TOKEN";
        return ApiError::new(status, "the token is missing or wrong", expected).into_response();
    }
    let text =
        "Open the URL that `weigh serve` has printed, or `weigh agent url`: it has a token.\n";
    (status, text).into_response()
}

/// Lets a request through, or answers it; every answer has the same policy.
pub(crate) async fn guard(
    State(access): State<std::sync::Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    let (mut head, body) = request.into_parts();
    let mut response = match access.admit(&head).await {
        Ok(grant) => {
            head.extensions.insert(grant);
            next.run(Request::from_parts(head, body)).await
        }
        Err(response) => *response,
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use super::*;
    use crate::feed::FeedOpener;
    use crate::node::NodeBoard;
    use crate::tests::ScriptedFeed;
    use crate::tokens::{TokenAuthority, TokenGrant};
    use axum::body::Body;
    use weigh_wire::Token;

    fn board() -> Arc<NodeBoard> {
        let open: FeedOpener = Box::new(|| Box::new(ScriptedFeed::new().0));
        NodeBoard::start(open).unwrap().into()
    }

    fn access() -> (Access, Token, Token) {
        let (page, metrics) = (Token::generate().unwrap(), Token::generate().unwrap());
        let grant = |is_for_metrics| Grant { node: board(), is_for_metrics };
        let tokens = TokenTable::default().with(page.clone(), grant(false));
        let tokens = tokens.with(metrics.clone(), grant(true));
        let names = ServerNames::Loopback("127.0.0.1:4000".parse().unwrap());
        (Access::new(tokens, names), page, metrics)
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    /// The status of what a request gets that is not let through.
    fn refused(access: &Access, uri: &str, headers: &[(HeaderName, &str)]) -> Option<u16> {
        let headers = [&[(HOST, "localhost:4000")], headers].concat();
        let admitted = block_on(access.admit(&request(uri, &headers)));
        admitted.err().map(|response| response.status().as_u16())
    }

    fn request(uri: &str, headers: &[(HeaderName, &str)]) -> Parts {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        request.body(Body::empty()).unwrap().into_parts().0
    }

    #[test]
    fn only_names_of_the_server_pass() {
        let (access, ..) = access();
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
        let (access, token, _) = access();
        let token = token.text();
        let status = |name: HeaderName, value: String| refused(&access, "/", &[(name, &value)]);
        assert_eq!(status(AUTHORIZATION, format!("Bearer {token}")), None);
        assert_eq!(status(COOKIE, format!("a=b; weigh-4000={token}; c=d")), None);
        assert_eq!(status(AUTHORIZATION, "Bearer ".to_string()), Some(401));
        assert_eq!(status(COOKIE, format!("weigh-4001={token}")), Some(401));
        assert_eq!(refused(&access, &format!("/?token={token}"), &[]), Some(303));
        assert_eq!(refused(&access, "/?token=x", &[]), Some(401));
        let without = |uri: &str| {
            let uri: Uri = uri.parse().unwrap();
            without_token(&uri).map(|(location, token)| format!("{location} {token}"))
        };
        assert_eq!(without("/?token=T").as_deref(), Some("/ T"));
        assert_eq!(without("/job?a=1&token=T&b=2").as_deref(), Some("/job?a=1&b=2 T"));
        assert_eq!(without("//evil.example/?token=T").as_deref(), Some("/evil.example/ T"));
        assert_eq!(without("/?a=1"), None);
        assert_eq!(without("/"), None);
    }

    #[test]
    fn a_token_for_metrics_opens_nothing_else() {
        let (access, _, token) = access();
        let bearer = format!("Bearer {}", token.text());
        let status = |uri: &str| refused(&access, uri, &[(AUTHORIZATION, &bearer)]);
        assert_eq!(status("/metrics"), None);
        for path in ["/", "/api/v1/node", "/api/v1/stream?node=1", "/metrics/", "//metrics"] {
            assert_eq!(status(path), Some(403), "{path}");
        }
        let cookie = format!("weigh-4000={}", token.text());
        assert_eq!(refused(&access, "/metrics", &[(COOKIE, &cookie)]), Some(401));
        assert_eq!(refused(&access, &format!("/?token={}", token.text()), &[]), Some(401));
        assert!(!access.url().contains(token.text()));
    }

    /// Knows one token, as long as that holds.
    struct OneToken(Token, AtomicU32);

    impl TokenAuthority for OneToken {
        fn grant(&self, token: &str) -> Option<TokenGrant> {
            self.1.fetch_add(1, SeqCst);
            let (mut feed, _) = ScriptedFeed::new();
            feed.reports_left = 1;
            let feed: FeedOpener = Box::new(|| Box::new(feed));
            self.0.is(token).then(|| TokenGrant { is_for_metrics: false, feed })
        }
    }

    #[test]
    fn who_knows_tokens_is_asked_once_and_again_when_the_values_have_ended() {
        let token = Token::generate().unwrap();
        let authority = Arc::new(OneToken(token.clone(), AtomicU32::new(0)));
        let tokens = TokenTable::of_authority(authority.clone());
        assert!(block_on(tokens.find("no token")).is_none());
        assert!(block_on(tokens.find(Token::generate().unwrap().text())).is_none());
        assert_eq!(authority.1.load(SeqCst), 1, "what is no token is asked about nowhere");
        let grant = block_on(tokens.find(token.text())).unwrap();
        assert!(block_on(tokens.find(token.text())).is_some());
        assert_eq!(authority.1.load(SeqCst), 2);
        assert!(block_on(grant.node.look()).is_err(), "it has one report, which is left out");
        while !grant.node.is_over() {
            std::thread::yield_now();
        }
        assert!(block_on(tokens.find(token.text())).is_some());
        assert_eq!(authority.1.load(SeqCst), 3);
    }
}
