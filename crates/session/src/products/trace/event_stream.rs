//! The contract of a stream that runs. Its probes may be attached by this weigh itself, by the agent, or by another
//! weigh whose stream is read along.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use weigh_schema::synthesis::SwitchNote;
use weigh_trace::sink::{ProbeCounts, Totals};

use super::adaptation_plan::PlannedAdaptation;
use super::control::{ControlTarget, RuleEntry};

/// What weigh does with a stream while it runs.
pub trait EventStream: ControlTarget {
    /// This process, which waits for its exec, is followed from then on.
    fn arm(&mut self, pidfd: BorrowedFd<'_>) -> anyhow::Result<()>;

    /// All threads of a process are followed from now on, and what they make.
    fn join(&mut self, pid: u32) -> anyhow::Result<()>;

    /// Whether a process is followed.
    fn is_member(&self, pid: u32) -> bool;

    /// Threads that are followed and live; none where everybody is.
    fn living(&self) -> Option<u64>;

    /// Ready when there is something to take in.
    fn wakers(&self) -> Vec<BorrowedFd<'_>>;

    /// How long it may be left alone, if it says so itself.
    fn pause(&self) -> Option<Duration> {
        None
    }

    /// Whether names of functions are wanted of processes, who may soon be gone.
    fn wants_names(&self) -> bool;

    /// Hands on records that are there; returns whether that was all.
    fn take_in(&mut self) -> bool;

    /// Draws what several events say together on the terminal, when it is time.
    fn draw(&mut self);

    /// What was counted of each event so far, by its number.
    fn event_counts(&mut self) -> Vec<ProbeCounts>;

    /// Puts the change of a condition in force, or takes it back: the condition of that number.
    fn adapt(
        &mut self,
        place: usize,
        planned: &PlannedAdaptation,
        is_on: bool,
    ) -> anyhow::Result<()>;

    /// That was done: for reports, and the register.
    fn note_switch(&mut self, note: SwitchNote, rules: Vec<RuleEntry>);

    /// Whether nothing more will come.
    fn is_over(&self) -> bool {
        false
    }

    /// Whether nothing more can be handed on: all that records go to has failed.
    fn has_failed(&self) -> bool;

    /// Nothing is attached any more, and all that came was taken in.
    fn stop(&mut self);

    /// What was taken is where it belongs. It was stopped then, by the records' clock, after so many seconds.
    fn finish(self: Box<Self>, ended: (u64, f64)) -> (Totals, Option<anyhow::Error>);
}
