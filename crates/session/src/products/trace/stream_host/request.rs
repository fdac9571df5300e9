//! The user's side: whether the agent attaches the probes, and what it is asked for.

use anyhow::{Context as _, bail};
use weigh_agent::RemoteError;
use weigh_collect::trace::{self, Missing};

use super::super::control::Conversation;
use super::super::resolve::ResolvedEvent;
use super::super::settings::TraceSettings;
use super::wire::{OpenEvent, OpenRequest, VERSION};

/// The agent's process that attaches probes for this user; none if the user may do so itself, or there is no agent: then
/// the kernel's refusal says what is missing.
pub fn agent() -> anyhow::Result<Option<Conversation>> {
    let Err(Missing::Capability { missing }) = trace::check() else { return Ok(None) };
    match weigh_agent::stream(&weigh_agent::socket()) {
        Ok(stream) => Ok(Some(Conversation::new(stream).context("the agent")?)),
        Err(RemoteError::NoAgent(..)) => Ok(None),
        Err(error) => bail!("{missing} missing, and {error}"),
    }
}

/// What the agent is asked for.
pub fn open_request(settings: &TraceSettings, events: &[ResolvedEvent]) -> OpenRequest {
    let event = |event: &ResolvedEvent| OpenEvent {
        text: event.text.clone(),
        more: event.more.clone(),
        is_of_set: event.is_of_set,
    };
    OpenRequest {
        version: VERSION,
        events: events.iter().map(event).collect(),
        filters: settings.filters.clone(),
        sampling: settings.sampling.clone(),
        follows: settings.follows_some(),
        buffer: settings.ring_bytes,
        total_order: settings.total_order,
        per_cpu: settings.per_cpu,
        wake: settings.wake_bytes,
    }
}
