//! Which tokens open the page, and what each shows.
//!
//! The server's own token, one that collects metrics, and those that somebody else knows of ([`TokenAuthority`]): each of
//! these is asked about once, and forgotten when its values end. Wrong tokens wait for each other.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weigh_wire::Token;

use crate::feed::FeedOpener;
use crate::node::NodeBoard;

/// Tokens that are remembered; the oldest is asked about again beyond that.
const MOST_REMEMBERED: usize = 256;
/// From one wrong token to the next.
const PAUSE: Duration = Duration::from_millis(50);

/// What a token opens, as somebody else says.
pub struct TokenGrant {
    /// Whether it is for programs that collect the node's metrics, and opens no page.
    pub is_for_metrics: bool,
    /// The node as its holder may see it. It ends when the token opens nothing any more.
    pub feed: FeedOpener,
}

/// Who knows whom tokens are of.
pub trait TokenAuthority: Send + Sync {
    /// What a token opens; none if nothing, or if nobody can say now. Blocks.
    fn grant(&self, token: &str) -> Option<TokenGrant>;
}

/// What the holder of a token gets.
#[derive(Clone)]
pub(crate) struct Grant {
    pub(crate) node: Arc<NodeBoard>,
    pub(crate) is_for_metrics: bool,
}

/// The tokens that open something.
#[derive(Default)]
pub(crate) struct TokenTable {
    fixed: Vec<(Token, Grant)>,
    authority: Option<Arc<dyn TokenAuthority>>,
    remembered: Mutex<Vec<(Token, Grant)>>,
    turn: tokio::sync::Mutex<()>,
}

impl TokenTable {
    /// Nobody's, but of those whom somebody else knows.
    pub(crate) fn of_authority(authority: Arc<dyn TokenAuthority>) -> TokenTable {
        TokenTable { authority: Some(authority), ..TokenTable::default() }
    }

    /// This one, too.
    pub(crate) fn with(mut self, token: Token, grant: Grant) -> TokenTable {
        self.fixed.push((token, grant));
        self
    }

    /// The one that opens the page, where there is one.
    pub(crate) fn page_token(&self) -> Option<&Token> {
        self.fixed.iter().find(|(_, grant)| !grant.is_for_metrics).map(|(token, _)| token)
    }

    /// What a text opens.
    pub(crate) async fn find(&self, text: &str) -> Option<Grant> {
        if let Some(grant) = self.known(text) {
            return Some(grant);
        }
        let (authority, token) = (self.authority.clone()?, Token::parse(text)?);
        let _turn = self.turn.lock().await;
        if let Some(grant) = self.known(text) {
            return Some(grant);
        }
        let asked = token.clone();
        let asking = tokio::task::spawn_blocking(move || authority.grant(asked.text()));
        let granted = asking.await.ok().flatten();
        let Some(TokenGrant { is_for_metrics, feed }) = granted else {
            tokio::time::sleep(PAUSE).await;
            return None;
        };
        let grant = Grant { node: NodeBoard::start(feed).ok()?.into(), is_for_metrics };
        self.remember(token, grant.clone());
        Some(grant)
    }

    /// All are compared, whichever it is.
    fn known(&self, text: &str) -> Option<Grant> {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.retain(|(_, grant)| !grant.node.is_over());
        let all = self.fixed.iter().chain(remembered.iter());
        let found = all.fold(None, |found, (token, grant)| match token.is(text) {
            true => Some(grant),
            false => found,
        });
        found.cloned()
    }

    fn remember(&self, token: Token, grant: Grant) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= MOST_REMEMBERED {
            remembered.remove(0);
        }
        remembered.push((token, grant));
    }
}
