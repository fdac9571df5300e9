//! The user's side: whether the agent attaches his probes, and what it is asked for.

use anyhow::{Context as _, bail};
use weigh_agent::RemoteError;
use weigh_collect::trace::{self, Missing};

use super::super::control::Conversation;
use super::super::wishes::Wish;
use super::{Open, OpenEvent, VERSION};
use crate::arguments::TraceArguments;

/// Somebody of the agent's who attaches probes for this user; none if he may do so himself, or there is no agent: then
/// his own refusal says what is missing.
pub fn agent() -> anyhow::Result<Option<Conversation>> {
    let Err(Missing::Capability { missing }) = trace::check() else { return Ok(None) };
    match weigh_agent::stream(&weigh_agent::socket()) {
        Ok(stream) => Ok(Some(Conversation::new(stream).context("the agent")?)),
        Err(RemoteError::NoAgent(..)) => Ok(None),
        Err(error) => bail!("{missing} missing, and {error}"),
    }
}

/// What the agent is asked for.
pub fn wanted(arguments: &TraceArguments, wishes: &[Wish]) -> Open {
    let event = |wish: &Wish| OpenEvent {
        text: wish.text.clone(),
        more: wish.more.clone(),
        is_of_set: wish.is_of_set,
    };
    let is_of_all = arguments.command.is_empty() && arguments.pid.is_none();
    Open {
        version: VERSION,
        events: wishes.iter().map(event).collect(),
        filters: arguments.filters.clone(),
        sampling: arguments.sampling.clone(),
        follows: !is_of_all && !arguments.system,
        buffer: arguments.buffer,
        total_order: arguments.total_order,
        per_cpu: arguments.per_cpu,
        wake: arguments.wake,
    }
}
