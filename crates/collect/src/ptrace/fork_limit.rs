//! Limits on processes and threads, held where they are crossed: at a birth; and those on what calls move, at the end
//! of a call.
//!
//! Takes the population after each birth, and what a thread has moved; says what is to become of those who are at that
//! point, and which limits were crossed for the first time. Knows no system call.
//!
//! A held thread waits in a stop that the tracer does not end. That lasts until the job is told to
//! end, and then until there is room; if weigh dies the kernel lets all threads go on.

use std::collections::HashMap;

use weigh_schema::CounterValues;
use weigh_schema::event::Population;
use weigh_schema::metric_name;

use super::call_limits::CallLimits;
use weigh_schema::limit::OnLimit;

/// What a job that is told to end may have beyond its limit, to clean up.
const LAST_WISH: u64 = 16;

type Count = fn(&Population) -> u64;

/// What a limit can be set on.
const LIMITED: [(&str, Count); 3] = [
    (metric_name::processes_peak, |population| population.processes),
    (metric_name::processes_total, |population| population.processes_total),
    (metric_name::threads_peak, |population| population.threads),
];

/// How far the end of the job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing was crossed, or nobody was told of it yet.
    Before,
    /// The job was stopped, and is its user's now.
    Released,
    /// All were told to end.
    Ending,
    /// All are being killed.
    Killing,
}

/// What becomes of a birth, or of a thread at the end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Those at it go on.
    GoOn,
    /// They wait.
    Hold,
    /// They are killed.
    Kill,
}

struct Limit {
    metric: &'static str,
    value: Count,
    most: u64,
    is_crossed: bool,
}

/// The limits of one job.
pub struct Guard {
    limits: Vec<Limit>,
    calls: CallLimits,
    on_limit: OnLimit,
    phase: Phase,
    /// Whether those who wait are to go on, to meet a signal that they were sent.
    pub is_release_due: bool,
    /// Processes that were sent a signal they have not met yet: a child that one of them makes before
    /// that is sent the same.
    told: HashMap<u32, i32>,
}

impl Guard {
    /// Without any limit.
    pub fn new() -> Guard {
        Guard {
            limits: Vec::new(),
            calls: CallLimits::default(),
            on_limit: OnLimit::Warn,
            phase: Phase::Before,
            is_release_due: false,
            told: HashMap::new(),
        }
    }

    /// Sets a limit on births; false if it is on something else.
    pub fn set(&mut self, metric: &str, most: f64, on_limit: OnLimit) -> bool {
        let Some((metric, value)) = LIMITED.iter().find(|(name, _)| *name == metric) else {
            return false;
        };
        self.on_limit = on_limit;
        let (value, most) = (*value, most as u64);
        self.limits.push(Limit { metric, value, most, is_crossed: false });
        true
    }

    /// Sets a limit on what calls move, which stops their threads; false if it is on something else.
    pub fn set_of_calls(&mut self, metric: &str, most: f64, on_limit: OnLimit) -> bool {
        self.on_limit = on_limit;
        on_limit != OnLimit::Warn && self.calls.set(metric, most)
    }

    /// Whether births have to be asked for.
    pub fn is_set(&self) -> bool {
        !self.limits.is_empty() || self.calls.is_set() || self.phase == Phase::Killing
    }

    /// Whether threads have to stop at their calls.
    pub fn looks_at_calls(&self) -> bool {
        self.phase == Phase::Before && self.calls.is_set()
    }

    /// Whether a held one would be one too many still.
    pub fn has_room(&self, population: &Population) -> bool {
        self.phase == Phase::Ending && !self.is_past(population, LAST_WISH)
    }

    fn is_past(&self, population: &Population, more: u64) -> bool {
        self.limits.iter().any(|limit| (limit.value)(population) > limit.most + more)
    }

    /// After a birth: what becomes of it, and what was crossed by it.
    pub fn at_birth(&mut self, population: &Population) -> (Verdict, Vec<(&'static str, u64)>) {
        let mut crossed = Vec::new();
        for limit in &mut self.limits {
            let value = (limit.value)(population);
            if value > limit.most && !limit.is_crossed {
                limit.is_crossed = true;
                crossed.push((limit.metric, value));
            }
        }
        let verdict = match self.phase {
            Phase::Killing => Verdict::Kill,
            _ if self.on_limit == OnLimit::Warn => Verdict::GoOn,
            Phase::Before if self.is_past(population, 0) => Verdict::Hold,
            Phase::Ending if self.is_past(population, LAST_WISH) => Verdict::Hold,
            _ => Verdict::GoOn,
        };
        (verdict, crossed)
    }

    /// At the end of a call by which a thread has moved so much more: what becomes of the thread, and what was crossed.
    pub fn at_call(&mut self, more: &CounterValues) -> (Verdict, Vec<(&'static str, u64)>) {
        self.calls.moves(more);
        let crossed = self.calls.crossed();
        let is_held = self.phase == Phase::Before && self.calls.is_past();
        (if is_held { Verdict::Hold } else { Verdict::GoOn }, crossed)
    }

    /// The job is its user's now.
    pub fn release(&mut self) {
        self.phase = Phase::Released;
    }

    /// The job is told to end.
    pub fn end(&mut self) {
        self.phase = Phase::Ending;
    }

    /// The job is killed.
    pub fn kill(&mut self) {
        self.phase = Phase::Killing;
    }

    /// A process was sent a signal.
    pub fn tells(&mut self, pid: u32, signal: i32) {
        if self.is_set() {
            self.told.insert(pid, signal);
        }
    }

    /// It has met that signal.
    pub fn meets(&mut self, pid: u32, signal: i32) {
        if self.told.get(&pid) == Some(&signal) {
            self.told.remove(&pid);
        }
    }

    /// It has ended.
    pub fn forget(&mut self, pid: u32) {
        self.told.remove(&pid);
    }

    /// The signal that a child is to get because its parent was sent it meanwhile.
    pub fn inherited(&mut self, parent: u32, child: u32) -> Option<i32> {
        let signal = self.told.get(&parent).copied()?;
        self.told.insert(child, signal);
        Some(signal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn population(processes: u64) -> Population {
        Population { processes, processes_total: processes, ..Population::default() }
    }

    fn guard(on_limit: OnLimit) -> Guard {
        let mut guard = Guard::new();
        assert!(guard.set("processes_peak", 10.0, on_limit));
        assert!(!guard.set("memory_peak_bytes", 10.0, on_limit));
        guard
    }

    #[test]
    fn a_birth_past_the_limit_waits_and_is_told_of_once() {
        let mut guard = guard(OnLimit::Kill);
        assert_eq!(guard.at_birth(&population(10)), (Verdict::GoOn, vec![]));
        let crossed = vec![("processes_peak", 11)];
        assert_eq!(guard.at_birth(&population(11)), (Verdict::Hold, crossed));
        assert_eq!(guard.at_birth(&population(12)), (Verdict::Hold, vec![]));
    }

    #[test]
    fn a_limit_that_warns_holds_nobody() {
        let mut guard = guard(OnLimit::Warn);
        assert_eq!(guard.at_birth(&population(11)), (Verdict::GoOn, vec![("processes_peak", 11)]));
    }

    #[test]
    fn who_is_told_to_end_may_clean_up_until_he_is_killed() {
        let mut guard = guard(OnLimit::Kill);
        guard.at_birth(&population(11));
        assert!(!guard.has_room(&population(5)), "nobody was told to end yet");
        guard.end();
        assert_eq!(guard.at_birth(&population(26)).0, Verdict::GoOn);
        assert_eq!(guard.at_birth(&population(27)).0, Verdict::Hold);
        assert!(!guard.has_room(&population(27)) && guard.has_room(&population(26)));
        guard.kill();
        assert_eq!(guard.at_birth(&population(1)).0, Verdict::Kill);
    }

    #[test]
    fn a_stopped_job_is_left_to_its_user() {
        let mut guard = guard(OnLimit::Stop);
        assert_eq!(guard.at_birth(&population(11)).0, Verdict::Hold);
        guard.release();
        assert_eq!(guard.at_birth(&population(12)).0, Verdict::GoOn);
    }

    #[test]
    fn a_child_gets_the_signal_that_its_parent_has_not_met() {
        let mut guard = guard(OnLimit::Kill);
        guard.tells(1, 15);
        assert_eq!(guard.inherited(1, 2), Some(15));
        assert_eq!(guard.inherited(2, 3), Some(15), "nor has it met its own");
        guard.meets(1, 18);
        assert_eq!(guard.inherited(1, 4), Some(15), "another signal");
        guard.meets(1, 15);
        assert_eq!(guard.inherited(1, 5), None);
        guard.forget(2);
        assert_eq!(guard.inherited(2, 6), None);
    }

    #[test]
    fn past_a_limit_on_calls_each_thread_waits_at_the_end_of_its_call() {
        let mut guard = Guard::new();
        assert!(!guard.set_of_calls("io_written_bytes_total", 10.0, OnLimit::Warn));
        assert!(!guard.looks_at_calls(), "a limit that warns stops nobody");
        assert!(guard.set_of_calls("io_written_bytes_total", 10.0, OnLimit::Kill));
        assert!(guard.looks_at_calls() && guard.is_set());
        let mut more = CounterValues::default();
        more.set(weigh_schema::Counter::WriteChars, 6);
        assert_eq!(guard.at_call(&more), (Verdict::GoOn, vec![]));
        assert_eq!(guard.at_call(&more), (Verdict::Hold, vec![("io_written_bytes_total", 12)]));
        assert_eq!(guard.at_call(&CounterValues::default()), (Verdict::Hold, vec![]));
        guard.end();
        assert_eq!(guard.at_call(&more).0, Verdict::GoOn, "it may clean up");
        assert!(!guard.looks_at_calls());
    }
}
