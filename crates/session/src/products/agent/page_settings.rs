//! Where the agent's page is, and who serves it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use weigh_agent::PageAccess;
use weigh_wire::Token;

use super::page_pem::PagePem;

/// Looks whether there is another certificate.
#[derive(Clone)]
pub struct RenewedPem(pub Arc<dyn Fn() -> Option<PagePem> + Send + Sync>);

impl fmt::Debug for RenewedPem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RenewedPem")
    }
}

/// The page of the agent's node.
#[derive(Clone, Debug)]
pub struct PageSettings {
    /// Where it is.
    pub address: SocketAddr,
    /// Where somebody else serves it, as another unit does: how its URLs begin. Else the agent starts a process for it.
    pub origin_apart: Option<String>,
    /// What that process proves by TLS who it is; none: it has none.
    pub pem: Option<PagePem>,
    /// What it is now, where it is another one than when this was asked last.
    pub renewed_pem: Option<RenewedPem>,
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
