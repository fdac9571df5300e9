//! What a stream that runs holds.

use std::rc::Rc;

use weigh_collect::trace::{KernelTrace, SparePrograms};
use weigh_schema::synthesis::SynthesisReport;
use weigh_schema::trace::Origin;
use weigh_trace::generate::Slot;
use weigh_trace::sink::Meaning;
use weigh_trace::state::State;

use super::super::buffer::StreamBuffer;
use super::super::control::RuleEntry;
use super::super::counters;
use super::super::outputs::RecordOutputs;
use super::super::resolve::{ResolvedEvent, Resolver};

/// An event that is followed, or was.
pub(super) struct TracedProbe {
    pub(super) resolved: ResolvedEvent,
    pub(super) slot: Slot,
    /// The bank of constants that is told to hold.
    pub(super) holding: usize,
    pub(super) is_removed: bool,
    /// Its programs are loaded, and attached nowhere for now.
    pub(super) is_paused: bool,
    /// Rises whenever its programs, or constants, are changed.
    pub(super) generation: u64,
    /// Changes that were in force for some of the time, and when.
    pub(super) adaptations: Vec<String>,
}

impl TracedProbe {
    /// One that is loaded.
    pub(super) fn new(resolved: ResolvedEvent, slot: Slot) -> TracedProbe {
        TracedProbe {
            resolved,
            slot,
            holding: 0,
            is_removed: false,
            is_paused: true,
            generation: 0,
            adaptations: Vec::new(),
        }
    }

    /// The rules by which not every event was taken, now or for some of the time.
    pub(super) fn sampling_text(&self) -> Option<String> {
        let now = self.resolved.probe.sampling.map(|rule| rule.to_string());
        let is_told =
            |now: &String| !self.adaptations.iter().any(|told| told.starts_with(now.as_str()));
        let all: Vec<String> =
            now.filter(is_told).into_iter().chain(self.adaptations.clone()).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

/// What one condition changes.
pub(super) struct Standby {
    pub(super) variants: Vec<Variant>,
}

/// A probe as it is, and as it is while the condition holds.
pub(super) struct Variant {
    pub(super) number: usize,
    /// Of the probe when these were made.
    pub(super) generation: u64,
    pub(super) usual: Prepared,
    pub(super) adapted: Prepared,
}

pub(super) struct Prepared {
    pub(super) resolved: ResolvedEvent,
    pub(super) slot: Slot,
    pub(super) programs: SparePrograms,
}

/// A stream that runs.
pub struct LocalStream {
    /// The kernel side.
    pub kernel: KernelTrace,
    pub(super) resolver: Resolver,
    pub(super) state: State,
    pub(super) buffers: Vec<StreamBuffer>,
    /// Whether buffers have one ring for all CPUs if nothing else is said.
    pub(super) is_one: bool,
    /// The watermark of buffers, if nothing else is said and it is not more than they hold.
    pub(super) usual_wake: u64,
    pub(super) outputs: Option<Rc<dyn RecordOutputs>>,
    pub(super) output: Option<String>,
    pub(super) traced: Vec<TracedProbe>,
    /// What conditions change, in their order.
    pub(super) standbys: Vec<Standby>,
    /// The conditions, as the register has them.
    pub(super) rules: Vec<RuleEntry>,
    /// Of the CPU, that fields ask for.
    pub(super) cpu_counters: counters::OpenCounters,
    pub(super) origin: Origin,
    pub(super) meaning: Meaning,
    /// What several events said together, when the buffer was removed whose events they were.
    pub(super) found_last: Option<SynthesisReport>,
    pub(super) failed: Option<anyhow::Error>,
}
