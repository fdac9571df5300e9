//! What happens when a limit is crossed.
//!
//! With `kill`: the offender, stopped at that very point by the kernel side, is looked at; then
//! the whole job gets TERM (and CONT), and after the grace KILL, again and again until nothing of
//! it is left. Where the limit is one of memory the others go on only when the offender is gone,
//! so that what they need to clean up does not come on top of what it holds. With `stop` the whole
//! job is stopped. With `warn` a line is written.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use weigh_account::Crossed;
use weigh_collect::follow::JobMechanism;
use weigh_collect::inspect::{add_stack, inspect};
use weigh_collect::notice;
use weigh_schema::announcement::Happening;
use weigh_schema::event::Crossing;
use weigh_schema::limit::OnLimit;
use weigh_schema::summary::{LimitOutcome, Offender};
use weigh_schema::{Group, MetricKind, Number, ShellWords, metric};

use super::offender::holds_most;
use super::overshoot::Overshoot;

const SIGKILL: i32 = Signal::KILL.as_raw();
const SIGTERM: i32 = Signal::TERM.as_raw();
const SIGCONT: i32 = Signal::CONT.as_raw();
const SIGSTOP: i32 = Signal::STOP.as_raw();

/// Time between attempts to end what is still left.
const AGAIN: Duration = Duration::from_millis(5);

/// How long the others wait for the offender to be gone, at most.
const WAY_OUT: Duration = Duration::from_millis(500);

enum Stage {
    Quiet,
    /// All have TERM, but only the offender runs.
    Parting {
        offender: u32,
        look_at: Instant,
        until: Instant,
        kill_at: Instant,
    },
    Ending {
        kill_at: Instant,
    },
    Killing {
        again_at: Instant,
    },
    Stopped,
}

/// Carries out what limits demand.
pub(super) struct Enforcer {
    outcomes: Vec<LimitOutcome>,
    on_limit: OnLimit,
    grace: Duration,
    stage: Stage,
    ended_by: Option<String>,
    happened: Vec<Happening>,
}

impl Enforcer {
    /// For these limits.
    pub fn new(outcomes: Vec<LimitOutcome>, on_limit: OnLimit, grace: Duration) -> Enforcer {
        Enforcer {
            outcomes,
            on_limit,
            grace,
            stage: Stage::Quiet,
            ended_by: None,
            happened: Vec::new(),
        }
    }

    /// The kernel side saw a limit crossed.
    pub fn crossed(&mut self, crossing: Crossing, job: &mut dyn JobMechanism) {
        let offender = match crossing.pid {
            Some(pid) => Some(look_at(pid, &crossing)),
            // It was found while the counters were brought up to date, not at a step of the job.
            None if holds_memory(&crossing.metric) => holds_most(job),
            None => None,
        };
        if self.record(&crossing.metric, crossing.observed, crossing.at_ns, offender) {
            self.act(&crossing.metric, crossing.observed, job);
        }
    }

    /// A reading was found past a limit. `offender` finds the process that it is laid to, while the job
    /// stands still if it is to be stopped or ended anyway: to look closely takes time.
    pub fn found(
        &mut self,
        crossed: &Crossed,
        at_ns: u64,
        job: &mut dyn JobMechanism,
        offender: impl FnOnce(&dyn JobMechanism) -> Option<Offender>,
    ) {
        if !self.is_new(crossed) {
            return;
        }
        let is_anybodys = metric(crossed.metric)
            .is_some_and(|metric| !matches!(metric.group, Group::Time | Group::Gpu));
        if is_anybodys && self.on_limit != OnLimit::Warn && matches!(self.stage, Stage::Quiet) {
            job.signal(None, &[SIGSTOP]);
        }
        let offender = offender(job);
        if self.record(crossed.metric, crossed.observed, at_ns, offender) {
            self.is_found_by_look(crossed.metric);
            self.act(crossed.metric, crossed.observed, job);
        }
    }

    /// A look at the pages found more than a limit on memory allows: the offender is the process
    /// that holds most.
    pub fn found_by_look(&mut self, crossed: &Crossed, at_ns: u64, job: &mut dyn JobMechanism) {
        if self.record(crossed.metric, crossed.observed, at_ns, holds_most(job)) {
            self.act(crossed.metric, crossed.observed, job);
        }
    }

    /// Whether a value is past a limit that was not crossed before.
    pub fn is_new(&self, crossed: &Crossed) -> bool {
        let is_past =
            |limit| metric(crossed.metric).is_some_and(|m| m.is_past(crossed.observed, limit));
        self.outcome(crossed.metric).is_some_and(|(o, _)| !o.exceeded && is_past(o.limit.as_f64()))
    }

    /// A value is near its limit.
    pub fn warn(&mut self, name: &str, observed: f64) {
        if let Some((outcome, unit)) = self.outcome(name) {
            let limit = outcome.limit;
            let (seen, allowed) = (outcome.show(unit.number(observed)), outcome.allowed());
            match is_floor(name) {
                true => notice!("warning: {name} is {seen}, near its limit of at least {allowed}"),
                false => {
                    notice!("warning: {name} is {seen}, more than 80 % of its limit of {allowed}");
                }
            }
            let (metric, observed) = (name.to_string(), unit.number(observed));
            self.happened.push(Happening::Warning { metric, observed, limit, unit });
        }
    }

    /// What has happened since this was asked last.
    pub fn happened(&mut self) -> Vec<Happening> {
        std::mem::take(&mut self.happened)
    }

    /// The check at the very point has missed it.
    fn is_found_by_look(&mut self, name: &str) {
        if let Some(outcome) = self.outcomes.iter_mut().find(|o| o.metric == name) {
            outcome.enforced_by = "interval".to_string();
        }
    }

    fn outcome(&self, name: &str) -> Option<(&LimitOutcome, weigh_schema::Unit)> {
        let outcome = self.outcomes.iter().find(|o| o.metric == name)?;
        Some((outcome, metric(name)?.unit))
    }

    /// Whether it was crossed for the first time.
    fn record(
        &mut self,
        name: &str,
        observed: f64,
        at_ns: u64,
        offender: Option<Offender>,
    ) -> bool {
        let unit = metric(name).map(|m| m.unit);
        let outcome = self.outcomes.iter_mut().find(|o| o.metric == name && !o.exceeded);
        let Some(outcome) = outcome else { return false };
        outcome.exceeded = true;
        outcome.observed = unit.map(|u| u.number(observed));
        outcome.at_seconds = Some(at_ns as f64 * 1e-9);
        outcome.offender = offender;
        true
    }

    fn tell_of_crossing(&mut self, name: &str, observed: f64, done: &str) {
        let Some((outcome, unit)) = self.outcome(name) else { return };
        let by = outcome.offender.as_ref().map_or_else(String::new, |o| {
            format!(" by {} (PID {})", ShellWords(&o.command), o.pid)
        });
        let at_least = if is_floor(name) { "at least " } else { "" };
        notice!(
            "{name} has passed its limit of {at_least}{} ({}){by}{done}",
            outcome.allowed(),
            outcome.show(unit.number(observed)),
        );
        let limit = Box::new(outcome.clone());
        self.happened.push(Happening::Limit { limit });
    }

    fn act(&mut self, name: &str, observed: f64, job: &mut dyn JobMechanism) {
        let done = match self.on_limit {
            OnLimit::Kill => "; ending the job",
            OnLimit::Warn => "",
            OnLimit::Stop => {
                "; the job is stopped. `kill -CONT` its processes to let it go on, or end it"
            }
        };
        let Some((outcome, _)) = self.outcome(name) else { return };
        let offender = outcome.offender.as_ref().map(|o| o.pid);
        match (self.on_limit, &self.stage) {
            (OnLimit::Kill, Stage::Quiet) => {
                // Who grows from here on is killed at once by the kernel side.
                if let Some(enforcement) = job.enforcement() {
                    let _ = enforcement.set_ending();
                }
                self.stage = self.tell_to_end(offender.filter(|_| holds_memory(name)), job);
                self.ended_by = Some(name.to_string());
            }
            (OnLimit::Stop, Stage::Quiet) => {
                job.signal(None, &[SIGSTOP]);
                // A user who continues it wants it to go on.
                if let Some(enforcement) = job.enforcement() {
                    let _ = enforcement.release();
                }
                self.stage = Stage::Stopped;
            }
            _ => {}
        }
        // After the signals: they wait for nothing.
        self.tell_of_crossing(name, observed, done);
    }

    /// TERM for all; if there is one who holds what the others may need, he goes first.
    fn tell_to_end(&self, offender: Option<u32>, job: &mut dyn JobMechanism) -> Stage {
        let now = Instant::now();
        let kill_at = now + self.grace;
        match offender.filter(|pid| job.living().iter().any(|p| p.pid != *pid)) {
            Some(offender) => {
                job.signal(None, &[SIGSTOP]);
                job.signal(None, &[SIGTERM]);
                job.signal(Some(offender), &[SIGCONT]);
                let until = now + WAY_OUT.min(self.grace);
                Stage::Parting { offender, look_at: now + AGAIN, until, kill_at }
            }
            None => {
                job.signal(None, &[SIGTERM, SIGCONT]);
                Stage::Ending { kill_at }
            }
        }
    }

    /// When there is something to do next.
    pub fn next(&self) -> Option<Instant> {
        match self.stage {
            Stage::Parting { look_at, .. } => Some(look_at),
            Stage::Ending { kill_at } => Some(kill_at),
            Stage::Killing { again_at } => Some(again_at),
            Stage::Quiet | Stage::Stopped => None,
        }
    }

    /// Goes on ending the job, if it is time.
    pub fn pursue(&mut self, job: &mut dyn JobMechanism) -> anyhow::Result<()> {
        let now = Instant::now();
        match self.stage {
            Stage::Parting { offender, look_at, until, kill_at } if now >= look_at => {
                if now < until && job.living().iter().any(|p| p.pid == offender) {
                    self.stage = Stage::Parting { offender, look_at: now + AGAIN, until, kill_at };
                } else {
                    job.signal(None, &[SIGCONT]);
                    self.stage = Stage::Ending { kill_at };
                }
                return Ok(());
            }
            Stage::Ending { kill_at } if now >= kill_at => {
                if let Some(enforcement) = job.enforcement() {
                    enforcement.set_killing()?;
                }
            }
            Stage::Killing { again_at } if now >= again_at => {}
            _ => return Ok(()),
        }
        job.signal(None, &[SIGKILL]);
        self.stage = Stage::Killing { again_at: now + AGAIN };
        Ok(())
    }

    /// Whether processes may be stopped on weigh's account.
    pub fn is_holding(&self) -> bool {
        self.outcomes.iter().any(|o| o.exceeded) && self.on_limit != OnLimit::Warn
    }

    /// Whether the job is being ended.
    pub fn is_ending(&self) -> bool {
        !matches!(self.stage, Stage::Quiet | Stage::Stopped)
    }

    /// The metric whose limit ended the job.
    pub fn ended_by(&self) -> Option<String> {
        self.ended_by.clone()
    }

    /// The job has ended: values that are known only now, or have grown since the last look, are held
    /// against their limits too.
    pub fn compare_at_end(&mut self, found: &[Crossed], at_ns: u64) {
        for crossed in found {
            if self.record(crossed.metric, crossed.observed, at_ns, None) {
                self.is_found_by_look(crossed.metric);
                self.tell_of_crossing(crossed.metric, crossed.observed, "");
                if self.on_limit == OnLimit::Kill && self.ended_by.is_none() {
                    self.ended_by = Some(crossed.metric.to_string());
                }
            }
        }
    }

    /// What became of the limits; those that were not crossed show the last value, as it was `observed`.
    /// `overshoot` says by how
    /// much a metric can have passed its limit before anybody acted.
    pub fn into_outcomes(
        mut self,
        observed: &dyn Fn(&str) -> Option<Number>,
        overshoot: &dyn Fn(&LimitOutcome) -> Overshoot,
    ) -> Vec<LimitOutcome> {
        for outcome in &mut self.outcomes {
            if !outcome.exceeded {
                outcome.observed = observed(&outcome.metric);
            }
            let Overshoot { words, at_most } = overshoot(outcome);
            (outcome.overshoot, outcome.overshoot_at_most) = (Some(words), at_most);
        }
        self.outcomes
    }
}

/// Whether a limit on it is one on what a process gives back by ending.
fn holds_memory(name: &str) -> bool {
    metric(name).is_some_and(|m| m.group == Group::Memory)
}

/// Whether a limit on it is the least that is allowed.
fn is_floor(name: &str) -> bool {
    metric(name).is_some_and(|m| m.kind == MetricKind::Floor)
}

/// What the process was doing; it is stopped at that point if the kernel side could stop it.
fn look_at(pid: u32, crossing: &Crossing) -> Offender {
    let mut offender = inspect(pid, crossing.tid);
    add_stack(&mut offender, &crossing.stack);
    offender
}
