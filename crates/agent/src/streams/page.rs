//! The page of the node: where another process serves it, and the tokens that open it.
//!
//! Each user has a token, made when it first asks for the address; it is in the memory of the agent and of the page's
//! process alone. A connection that shows a token sees what its holder may see, whichever process has connected, and can
//! change nothing.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weigh_schema::stream::{PageStatus, PageViewer};
use weigh_wire::Token;

/// Users with a token at once.
const MOST_TOKENS: usize = 4096;

/// The page, for the thread that looks after its process and the one that serves streams.
#[derive(Clone, Debug, Default)]
pub struct PageAccess(Arc<Mutex<PageState>>);

#[derive(Debug, Default)]
struct PageState {
    status: PageStatus,
    tokens: BTreeMap<u32, Token>,
    /// Of programs that collect the node's metrics.
    collectors: Option<Token>,
}

impl PageAccess {
    /// A page that is not served yet. With this token programs collect the node's metrics.
    pub fn new(collectors: Option<Token>) -> PageAccess {
        let state = PageState { collectors, ..PageState::default() };
        PageAccess(Arc::new(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, PageState> {
        // What it guards is whole between any two statements.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process that is to serve it was started.
    pub fn set_started(&self, pid: u32) {
        let status = &mut self.state().status;
        status.pid = Some(pid);
        status.starts += 1;
    }

    /// It is served there, under URLs that begin with `origin`: by the process that was started, or by one that this agent
    /// knows nothing of.
    pub fn set_served(&self, address: SocketAddr, origin: &str) {
        let status = &mut self.state().status;
        (status.address, status.is_served, status.reason) = (Some(address), true, None);
        status.origin = Some(origin.to_string());
    }

    /// It is not served, and why.
    pub fn set_ended(&self, reason: String) {
        let status = &mut self.state().status;
        (status.pid, status.is_served, status.reason) = (None, false, Some(reason));
    }

    /// How it stands.
    pub fn status(&self) -> PageStatus {
        self.state().status.clone()
    }

    /// Whether a process is the one that was started to serve it.
    pub(super) fn is_server(&self, pid: u32) -> bool {
        pid != 0 && self.state().status.pid == Some(pid)
    }

    /// Its address, with the token of a user. Errors: it is not served; too many users have one.
    pub(super) fn url(&self, uid: u32) -> Result<String, String> {
        let mut state = self.state();
        let origin = match (&state.status.origin, state.status.is_served) {
            (Some(origin), true) => origin.clone(),
            _ => {
                let reason = state.status.reason.as_deref();
                return Err(format!("the page is not served: {}", reason.unwrap_or("it starts")));
            }
        };
        if state.tokens.len() >= MOST_TOKENS && !state.tokens.contains_key(&uid) {
            return Err("as many users have a token as there may be".to_string());
        }
        let token = match state.tokens.get(&uid) {
            Some(token) => token.clone(),
            None => Token::generate().map_err(|error| error.to_string())?,
        };
        let url = format!("{origin}/?token={}", token.text());
        state.tokens.insert(uid, token);
        Ok(url)
    }

    /// Whom a token is of; none if it is nobody's.
    pub(super) fn viewer(&self, token: &str) -> Option<PageViewer> {
        let state = self.state();
        let of_user = |(uid, own): (&u32, &Token)| own.is(token).then_some(Some(*uid));
        let uid = state.tokens.iter().find_map(of_user);
        let is_collector = || state.collectors.as_ref().is_some_and(|own| own.is(token));
        uid.or_else(|| is_collector().then_some(None)).map(|uid| PageViewer { uid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_a_token_that_stays_and_nobody_has_one_of_a_page_that_is_not_there() {
        let collectors = Token::generate().unwrap();
        let page = PageAccess::new(Some(collectors.clone()));
        assert!(page.url(7).unwrap_err().contains("it starts"));
        page.set_started(41);
        page.set_served("127.0.0.1:4000".parse().unwrap(), "http://127.0.0.1:4000");
        let token = |uid: u32| {
            let url = page.url(uid).unwrap();
            url.strip_prefix("http://127.0.0.1:4000/?token=").unwrap().to_string()
        };
        assert_eq!(token(7), token(7));
        assert_ne!(token(7), token(8));
        assert_eq!(page.viewer(&token(8)), Some(PageViewer { uid: Some(8) }));
        assert_eq!(page.viewer(collectors.text()), Some(PageViewer { uid: None }));
        assert_eq!(page.viewer(&"0".repeat(64)), None);
        assert!(page.is_server(41) && !page.is_server(0) && !page.is_server(42));
        page.set_ended("killed".to_string());
        assert!(page.url(7).unwrap_err().ends_with("killed") && !page.is_server(41));
        // It comes back, and the token is the same.
        let before = page.viewer(&"1".repeat(64));
        page.set_served("127.0.0.1:4000".parse().unwrap(), "http://127.0.0.1:4000");
        assert_eq!((before, page.status().starts), (None, 1));
        assert_eq!(page.viewer(&token(7)), Some(PageViewer { uid: Some(7) }));
    }
}
