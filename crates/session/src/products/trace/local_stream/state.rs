//! What a stream that runs holds.

use std::rc::Rc;

use weigh_collect::trace::KernelTrace;
use weigh_schema::synthesis::SynthesisReport;
use weigh_schema::trace::Origin;
use weigh_trace::generate::Slot;
use weigh_trace::sink::Meaning;
use weigh_trace::state::State;

use super::super::buffer::StreamBuffer;
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
    /// Of the CPU, that fields ask for.
    pub(super) cpu_counters: counters::OpenCounters,
    pub(super) origin: Origin,
    pub(super) meaning: Meaning,
    /// What several events said together, when the buffer was removed whose events they were.
    pub(super) found_last: Option<SynthesisReport>,
    pub(super) failed: Option<anyhow::Error>,
}
