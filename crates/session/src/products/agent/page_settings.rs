//! Where the agent's page is, and who serves it.

use std::net::SocketAddr;

use weigh_agent::PageAccess;
use weigh_wire::Token;

use super::page_pem::PagePem;

/// The page of the agent's node.
#[derive(Clone, Debug)]
pub struct PageSettings {
    /// Where it is.
    pub address: SocketAddr,
    /// Where somebody else serves it, as another unit does: how its URLs begin. Else the agent starts a process for it.
    pub origin_apart: Option<String>,
    /// What that process proves by TLS who it is; none: it has none.
    pub pem: Option<PagePem>,
    /// The user of that process, where the agent is root's; none: nobody.
    pub user: Option<String>,
    /// With this token programs collect the node's metrics.
    pub metrics_token: Option<Token>,
}

impl PageSettings {
    /// What the agent knows of it.
    pub(super) fn access(&self) -> PageAccess {
        let access = PageAccess::new(self.metrics_token.clone());
        if let Some(origin) = &self.origin_apart {
            access.set_served(self.address, origin);
        }
        access
    }
}
