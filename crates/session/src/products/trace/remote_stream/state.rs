//! What a reader of a stream of somebody else's holds.

use std::cell::Cell;
use std::fs::File;
use std::os::fd::OwnedFd;

use anyhow::bail;
use weigh_collect::trace::{Follower, Reader};
use weigh_schema::trace::Origin;
use weigh_trace::probe::Probe;
use weigh_trace::replay::filter::RecordedFilter;
use weigh_trace::sink::Meaning;

use super::super::control::{Conversation, Description, RuleEntry, StreamPosition};
use super::super::pipeline::Pipeline;

/// How often it is tried to say what was lost while the stream runs on.
pub(super) const TRIES: usize = 4;

/// How the rings are read: by their owner, or along.
pub(super) enum RingReading {
    Owner(Box<Reader>),
    Along(Follower),
}

/// The stream's events, as far as they are known.
pub(super) struct Probes {
    pub(super) description: Description,
    pub(super) read: Vec<Option<Probe>>,
}

impl Probes {
    pub(super) fn new(description: Description) -> anyhow::Result<Probes> {
        let mut probes = Probes { description, read: Vec::new() };
        for event in &probes.description.events {
            if event.id >= MOST_EVENTS {
                bail!("the stream says that it has too many events");
            }
            if probes.read.len() <= event.id {
                probes.read.resize(event.id + 1, None);
            }
            probes.read[event.id] = Some(event.as_read()?);
        }
        Ok(probes)
    }

    pub(super) fn get(&self, event: u32) -> Option<&Probe> {
        self.read.get(event as usize)?.as_ref()
    }
}

/// Who reads along may have read more than the owner, who passes over what is damaged.
pub(super) fn at_least_none(difference: u64) -> u64 {
    if difference.cast_signed() < 0 { 0 } else { difference }
}

/// As libweigh has it.
const MOST_EVENTS: usize = 1024;

pub(super) fn count(counts: &mut Vec<u64>, event: u32, by: u64) {
    let event = event as usize;
    if event >= MOST_EVENTS {
        return;
    }
    if counts.len() <= event {
        counts.resize(event + 1, 0);
    }
    counts[event] = counts[event].wrapping_add(by);
}

/// What a change has taken the place of.
pub(super) enum Switched {
    /// A rule of sampling, or none, of an event.
    Sampling(usize, Option<String>),
    /// A filter, or none.
    Filter(usize, Option<String>),
    /// Nothing: an event was added, which stays and is followed no more for now.
    Event(usize),
}

/// A stream of somebody else's.
pub struct RemoteStream {
    pub(super) talk: Conversation,
    pub(super) reading: RingReading,
    pub(super) rings: OwnedFd,
    /// What it is waked by, and tells how far it is in, when it reads along.
    pub(super) along: Option<(OwnedFd, File)>,
    pub(super) probes: Probes,
    /// What this reader wants of what it reads, as it is written and as it was read for the events that there are.
    pub(super) wanted: Vec<String>,
    pub(super) filters: Vec<RecordedFilter>,
    pub(super) pipeline: Pipeline,
    pub(super) origin: Origin,
    pub(super) meaning: Meaning,
    /// What the stream had seen when this reader came, what it has seen since, and what it was overtaken by;
    /// less than nothing is what it has had and the stream itself could not read any more.
    pub(super) first: StreamPosition,
    pub(super) seen: Vec<u64>,
    pub(super) overtaken: Vec<u64>,
    /// What was written of each event and could not be read, where this is the rings' owner.
    pub(super) unread: Vec<u64>,
    /// The last that the stream said of itself.
    pub(super) last: Option<StreamPosition>,
    pub(super) taken: u64,
    /// How many of them the filter let through.
    pub(super) passed: u64,
    pub(super) output: Option<String>,
    pub(super) look_after: Cell<u64>,
    /// Conditions, as the register has them; what each has taken the place of; and by what of each event not every one
    /// was taken.
    pub(super) rules: Vec<RuleEntry>,
    pub(super) switched: Vec<Vec<Switched>>,
    pub(super) sampled: Vec<Option<String>>,
    pub(super) is_over: bool,
    pub(super) is_stopped: bool,
    pub(super) failed: Option<anyhow::Error>,
}
