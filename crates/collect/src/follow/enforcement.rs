//! Limits that a mechanism checks where they are crossed.

use weigh_schema::limit::OnLimit;
use weigh_schema::metric_name;

use super::error::MechanismError;

/// Holds the job to limits.
pub trait Enforcement {
    /// Sets limits and warning marks: (metric, limit, mark). Returns those that the mechanism looks after by itself; the
    /// others are left to the reader of the job. Processes that cross one are stopped, unless only a warning is wanted;
    /// with [`OnLimit::Kill`] one that goes on growing is killed.
    fn set_limits(
        &mut self,
        limits: &[(&str, f64, f64)],
        on_limit: OnLimit,
    ) -> Result<Vec<String>, MechanismError>;

    /// Why limits on sums of memory are held against lower bounds alone; none if they are not.
    fn why_lower_bounds(&self) -> Option<String> {
        None
    }

    /// From now on no process is stopped any more.
    fn release(&mut self) -> Result<(), MechanismError>;

    /// From now on a process that grows past a limit is killed, not stopped.
    fn set_ending(&mut self) -> Result<(), MechanismError>;

    /// From now on a process that forks is killed, where forks can be seen as they begin.
    fn set_killing(&mut self) -> Result<(), MechanismError> {
        Ok(())
    }
}

/// Checks a limit on memory against a lower bound, which a closer look raises.
pub trait MemoryBound {
    /// Address spaces that were given up so far.
    fn departures(&self) -> u64;

    /// A look at the pages, begun after so many departures, has found so many bytes beyond the lower bound. They are
    /// added to it where a limit is checked, until the next departure.
    fn set_unseen(&mut self, bytes: u64, departures: u64) -> Result<(), MechanismError>;
}

/// With more processes than that a job is to be stopped.
pub(crate) fn process_limit(limits: &[(&str, f64, f64)], on_limit: OnLimit) -> Option<u64> {
    let limit = limits.iter().find(|(metric, ..)| *metric == metric_name::processes_peak);
    limit.filter(|_| on_limit != OnLimit::Warn).map(|(_, most, _)| *most as u64)
}
