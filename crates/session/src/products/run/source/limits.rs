//! Limits that are looked at now and then, and what it costs to have others checked at each call.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weigh_account::LimitWatch;
use weigh_collect::follow::JobMechanism;
use weigh_collect::notice;
use weigh_schema::limit::Limit;
use weigh_schema::record::Limited;
use weigh_schema::{Group, Mechanism, Quality, Value};

use super::run_source::RunSource;
use crate::products::run::offender::UsageWatch;

/// What is known of the limits that weigh itself looks at.
pub(in crate::products::run) struct LimitLooks {
    pub watch: LimitWatch,
    pub usage: UsageWatch,
    last: Instant,
    apart: Duration,
    /// The limits of which it was said that they are not held.
    unheld: Option<Vec<&'static str>>,
}

impl LimitLooks {
    /// The job begins.
    pub fn new(watch: LimitWatch) -> LimitLooks {
        let last = Instant::now();
        let usage = UsageWatch::default();
        LimitLooks { watch, usage, last, apart: Duration::ZERO, unheld: None }
    }

    /// The longest time between two looks, up to now.
    pub fn apart(&self) -> Duration {
        self.apart.max(self.last.elapsed())
    }

    fn looked(&mut self) {
        self.apart = self.apart();
        self.last = Instant::now();
    }
}

impl RunSource<'_> {
    pub(super) fn look_at_limits(&mut self) -> anyhow::Result<()> {
        let mut reading = self.job.read()?;
        // What has ended goes no further.
        if let Some(ended) = self.job.ended_ns() {
            reading.at_ns = reading.at_ns.min(ended);
        }
        // A process that was caught at the very point is known better than by the look.
        self.events();
        let wall = reading.at_ns as f64 * 1e-9;
        let others = &self.others;
        let known = |name: &str| others.iter().find_map(|other| other.value(name));
        let found = self.limits.watch.look(&reading, wall, &known);
        self.limits.looked();
        if self.limits.unheld.is_none() {
            self.tell_of_unheld();
        }
        for crossed in found {
            if crossed.fully {
                let usage = &self.limits.usage;
                let offender = |job: &dyn JobMechanism| usage.greatest(crossed.metric, job);
                self.enforcer.found(&crossed, reading.at_ns, &mut *self.job, offender);
            } else {
                self.enforcer.warn(crossed.metric, crossed.observed);
            }
        }
        match self.limits.watch.is_near() {
            true => self.limits.usage.remember(&*self.job),
            false => self.limits.usage.forget(),
        }
        Ok(())
    }

    /// A limit on what nobody knows here is no limit: its user is told while the job is young.
    fn tell_of_unheld(&mut self) {
        let notes = self.job.notes();
        let mut unheld = Vec::new();
        for metric in self.settings.limits.iter().map(|limit| limit.metric) {
            let known = self.others.iter().any(|o| o.value(metric.name).is_some());
            let refused = self.others.iter().find_map(|other| {
                let claim = other.collector.claim();
                claim.refusal.filter(|_| claim.metrics.contains(&metric.name))
            });
            let noted = notes
                .iter()
                .find(|note| note.metric == metric.name && note.quality == Quality::Unavailable);
            let why = refused.or(noted.map(|note| note.reason.as_str()));
            if let Some(why) = why.filter(|_| !known) {
                tell_unheld(metric.name, why);
                unheld.push(metric.name);
            }
        }
        self.limits.unheld = Some(unheld);
    }
}

impl LimitLooks {
    /// At the end: limits on what has turned out not to be known, of which nothing was said yet.
    pub fn tell_of_rest(&self, limits: &[Limit], metrics: &BTreeMap<String, Value>) {
        for metric in limits.iter().map(|limit| limit.metric) {
            let value = metrics.get(metric.name).filter(|value| value.value.is_none());
            let is_told = self.unheld.iter().flatten().any(|told| *told == metric.name);
            if let Some(value) = value.filter(|_| !is_told) {
                tell_unheld(metric.name, value.reason.as_deref().unwrap_or("no reason is known"));
            }
        }
    }
}

fn tell_unheld(metric: &str, why: &str) {
    notice!("the limit on {metric} is not held, for its value is not known: {why}");
}

/// Whether a limit is checked at the end of each system call, if the kernel side checks it. What is moved without a
/// call is looked for besides.
pub(in crate::products::run) fn is_of_calls(metric: &str) -> bool {
    Limited::of_metric(metric).is_some_and(Limited::is_of_calls)
}

/// That limits on sums of memory are held against lower bounds, if they are.
pub(in crate::products::run) fn tell_lower_bounds(limits: &[Limit], job: &mut dyn JobMechanism) {
    let is_memory = |limit: &Limit| limit.metric.group == Group::Memory;
    let why = job.enforcement().and_then(|enforcement| enforcement.why_lower_bounds());
    if let Some(why) = why.filter(|_| limits.iter().any(is_memory)) {
        notice!(
            "limits on memory are held against lower bounds, in which forks that execute no program of their own count with their parent once: {why}"
        );
    }
}

/// What it costs, and whom, that limits are checked at the end of each system call.
pub(in crate::products::run) fn tell_price_of_calls(checked: &[String], by: Mechanism) {
    let of_calls: Vec<_> = checked.iter().filter(|metric| is_of_calls(metric)).cloned().collect();
    let price = match by {
        Mechanism::Ptrace => "each system call of the job takes some 20 to 60 µs longer",
        _ => "each system call of every process of this machine takes up to 0.3 µs longer",
    };
    if !of_calls.is_empty() {
        notice!(
            "while the job runs {price}, so that {} passes its limit by one call of each thread at most",
            of_calls.join(", ")
        );
    }
}
