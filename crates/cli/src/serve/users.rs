//! `weigh serve --for-users`: a page for all users of an agent, each with a token of the agent's.
//!
//! It runs beside the agent, or as its child, and may less than any of its users: it sees of each what the agent shows to
//! the holder of that token.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use rustix::process::{
    DumpableBehavior, Pid, Signal, getpid, getppid, kill_process, set_dumpable_behavior,
};
use rustix::thread::{CapabilitySet, capabilities};
use weigh_agent::{StreamClient, give_way_to_agent};
use weigh_web::{PageAudience, TlsIdentity, TokenAuthority, TokenGrant};

use super::node_feed::{AgentFeed, INTERVAL};
use super::tls_files::renew_by_input;

/// The agent, which has made the tokens.
struct AgentTokens(PathBuf);

impl TokenAuthority for AgentTokens {
    fn grant(&self, token: &str) -> Option<TokenGrant> {
        let client = StreamClient::connect(&self.0).ok()?;
        let viewer = client.login(token).ok()??;
        let (socket, token) = (self.0.clone(), token.to_string());
        Some(TokenGrant {
            is_for_metrics: viewer.uid.is_none(),
            feed: Box::new(move || Box::new(AgentFeed::of_holder(socket, INTERVAL, token))),
        })
    }
}

/// The holders of the tokens of an agent.
pub fn audience(socket: PathBuf) -> PageAudience {
    PageAudience::Users(Arc::new(AgentTokens(socket)))
}

/// It has no rights, and as the agent's child it ends with that. Errors: it has some; the agent has ended.
pub fn confine(agent: Option<u32>, identity: Option<&TlsIdentity>) -> anyhow::Result<()> {
    let held = capabilities(None).map(|held| held.permitted);
    if rustix::process::geteuid().is_root() || held != Ok(CapabilitySet::empty()) {
        bail!("--for-users: it is served by a user without any rights, not by root");
    }
    agent.into_iter().for_each(|_| give_way_to_agent());
    // Tokens are in its memory.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let Some(agent) = agent else { return Ok(()) };
    match getppid().map(Pid::as_raw_nonzero) {
        Some(parent) if u32::try_from(parent.get()) == Ok(agent) => {
            end_with_input(identity.cloned())
        }
        _ => bail!("the agent that has started it has ended"),
    }
}

/// It ends when its agent closes its standard input; until then certificates may come there.
fn end_with_input(identity: Option<TlsIdentity>) -> anyhow::Result<()> {
    let wait = move || {
        renew_by_input(identity.as_ref());
        // What is served for nobody can be cut short.
        let _ = kill_process(getpid(), Signal::KILL);
    };
    let thread = std::thread::Builder::new().name("agent".into()).spawn(wait);
    thread.map(drop).context("cannot start a thread")
}
