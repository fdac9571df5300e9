//! The end of a run: the last threads are waited for, what is left is read, and the summary made.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use weigh_account::{Crossed, Tick, job_value};
use weigh_collect::host_state::host_state;
use weigh_schema::event::JobReading;
use weigh_schema::limit::Limit;
use weigh_schema::summary::{Exit, ExitKind, Sender, SenderKind};
use weigh_schema::update::Update;
use weigh_schema::{Group, Quality, Value, metric_name};

use super::joined;
use super::run_source::RunSource;
use crate::engine::Session;
use crate::products::run::outcome::RunOutcome;
use crate::products::run::overshoot::{LookSpacing, overshoot};
use crate::products::run::settings::Collector;
use crate::products::run::snapshots::Snapshots;

/// How long to wait at the end for the next of the last threads to be reaped: several of the
/// kernel's grace periods.
const SETTLE: Duration = Duration::from_millis(120);

impl RunSource<'_> {
    /// Waits for the last threads to be reaped, so that their own exit is accounted for; on a
    /// busy machine the kernel takes its time, but it goes on.
    fn settle(&mut self, session: &mut Session) {
        let mut left = self.job.unsettled();
        let mut until = Instant::now() + SETTLE;
        while left > 0
            && self.job.glance().population.processes == 0
            && Instant::now() < until
            && session.settle(self, until.min(Instant::now() + SETTLE / 10)).is_ok()
        {
            self.events();
            let now_left = self.job.unsettled();
            if now_left < left {
                until = Instant::now() + SETTLE;
                left = now_left;
            }
        }
    }

    /// The rows of processes that have not been reaped, or not ended. One that is reaped while
    /// the others are read is told of by its own event.
    fn remaining(&mut self, now_ns: u64) {
        let kept = self.job.processes();
        self.events();
        for process in kept.iter().filter(|p| !self.written.contains(&(p.pid, p.started_ns))) {
            self.recorder.process(process, now_ns);
        }
    }

    /// The longest time between two looks at each metric that is limited.
    fn looks_apart(&self) -> impl Fn(&str) -> Duration + use<> {
        // The job may have ended long after the last one.
        let apart = self.limits.apart();
        let of_collector = |name| {
            let live = self.others.iter().filter_map(|other| other.collector.live_values());
            live.filter_map(|values| values.looks_apart(name)).next()
        };
        let limits = self.settings.limits.iter().map(|limit| limit.metric.name);
        let further: BTreeMap<_, _> =
            limits.filter_map(|name| Some((name, of_collector(name)?))).collect();
        move |name| apart + further.get(name).copied().unwrap_or_default()
    }

    pub(super) fn conclude(mut self, mut session: Session) -> anyhow::Result<RunOutcome> {
        self.settle(&mut session);
        self.take_snapshots(Snapshots::last_look)?;
        self.announce();
        self.is_concluding = true;
        let reading = self.job.read()?;
        self.summary.host.at_end = host_state();
        let ended_ns = self.job.ended_ns().unwrap_or(reading.at_ns);
        self.look_at_groups(ended_ns);
        let mut last = reading.clone();
        last.at_ns = ended_ns;
        self.note_unknown();
        let mut samples = self.recorder.known_samples(&last);
        samples.extend(self.sample_others(Tick::Window));
        self.recorder.end_window();
        self.remaining(reading.at_ns);
        let mut findings = std::mem::take(&mut self.cutoff.findings);
        let wall_seconds = ended_ns as f64 * 1e-9;
        let mut statuses = self.job.statuses();
        statuses.append(&mut self.cutoff.statuses);
        let apart = self.looks_apart();
        for other in self.others.drain(..) {
            statuses.push(other.collector.finish(&mut findings, &mut self.recorder));
        }
        let regions = self.regions.take().and_then(|regions| regions.finish(&mut self.recorder));
        self.open_files.finish(&mut *self.job, &mut self.recorder);
        findings.take_notes(self.job.notes());
        let mechanism = self.job.mechanism();
        self.oom.finish(mechanism, &mut findings);
        let (cpus, delays) = (self.summary.host.cpus, self.settings.delays);
        self.cpu_wait.finish(&*self.job, delays, &reading, cpus, &mut findings);
        if self.settings.wants(Collector::Pages) {
            statuses.push(self.page_scan.status());
        }
        let summary = &mut self.summary;
        summary.job.ended = Timestamp::from_nanosecond(self.recorder.epoch(ended_ns).into()).ok();
        summary.metrics = weigh_account::metrics(&weigh_account::Measured {
            wall_seconds,
            reading: &reading,
            source: self.job.mechanism(),
            looks: self.recorder.looks(),
            cores_peak: self.recorder.cores_peak(),
            given: findings.given,
            notes: &findings.notes,
        });
        self.cutoff.qualify(&mut summary.metrics);
        if let Some(pid) = self.settings.pid {
            joined::qualify(&mut summary.metrics, pid);
        }
        self.recorder.last_samples(ended_ns, samples, &summary.metrics);
        let memory = &reading.memory;
        if summary
            .metrics
            .get(metric_name::memory_peak_bytes)
            .is_some_and(|peak| peak.value.is_some())
        {
            self.recorder.peak(
                memory.rss_sum_peak_at_ns,
                memory.rss_sum_peak,
                memory.floor_peak,
                memory.spaces_at_peak,
            );
        }
        if let Some(snapshots) = self.snapshots {
            let (taken, status) = snapshots.finish();
            summary.snapshots = taken;
            statuses.push(status);
        }
        // What is told of files is told of the same time.
        if let Some(io) = &mut findings.io {
            io.wall_seconds = wall_seconds;
        }
        summary.io = findings.io;
        summary.file_systems = findings.file_systems;
        summary.gpus = findings.gpus;
        if let Some(calls) = &findings.calls {
            self.recorder.sink.emit(&Update::SyscallTotals(calls.clone()));
        }
        summary.regions = regions.map(Box::new);
        summary.collectors = statuses;
        self.limits.tell_of_rest(&self.settings.limits, &summary.metrics);
        let held = held_to(&self.settings.limits, &summary.metrics, &reading);
        self.enforcer.compare_at_end(&crossed(&self.settings.limits, &held), ended_ns);
        for happening in self.enforcer.happened() {
            let recording = self.settings.directory.clone();
            self.hook.tell(&summary.job, &recording, happening);
        }
        let ended_by = self.enforcer.ended_by();
        let cpus = summary.host.cpus;
        summary.limits = self.enforcer.into_outcomes(
            &|name| Some(weigh_schema::metric(name)?.unit.number(*held.get(name)?)),
            &|outcome| {
                let name = outcome.metric.as_str();
                let step = self.limits.watch.greatest_step(name, held.get(name).copied());
                overshoot(outcome, &LookSpacing { apart: apart(name), cpus, step })
            },
        );
        let command = &session.command;
        let sent = self.job.sender(self.pid);
        let exit = match self.settings.pid {
            Some(_) => exit_of_joined(self.joined_status, ended_by),
            None => exit(command.status(), ended_by, command.is_interrupted()),
        };
        let is_of_job = |sender: u32| self.written.iter().any(|(pid, _)| *pid == sender);
        let sender = sender(&exit, sent, command.passed_on(), is_of_job);
        summary.exit = Some(Exit { sender, ..exit });
        self.job.close();
        let (calls, summary) = (findings.calls, self.summary);
        self.recorder.sink.finish(&summary);
        Ok(RunOutcome { hook: self.hook, calls, summary, has_begun: true })
    }
}

/// What each limit is held to at the end. An estimate of memory may be above what is certain: nothing is
/// held against a job that is not.
fn held_to(
    limits: &[Limit],
    metrics: &BTreeMap<String, Value>,
    reading: &JobReading,
) -> BTreeMap<&'static str, f64> {
    let held = |limit: &Limit| {
        let value = metrics.get(limit.metric.name)?;
        let number = value.number()?;
        let is_uncertain =
            value.quality == Quality::Estimated && limit.metric.group == Group::Memory;
        let certain = job_value(limit.metric, reading, 0.0).filter(|_| is_uncertain);
        let is_past = number > limit.value;
        Some((limit.metric.name, certain.filter(|_| is_past).map_or(number, |c| c.min(number))))
    };
    limits.iter().filter_map(held).collect()
}

/// The limits that such values are past.
fn crossed(limits: &[Limit], held: &BTreeMap<&'static str, f64>) -> Vec<Crossed> {
    let values = limits.iter().filter_map(|l| Some((l, *held.get(l.metric.name)?)));
    let past = values.filter(|(limit, value)| limit.metric.is_past(*value, limit.value));
    past.map(|(l, observed)| Crossed { metric: l.metric.name, observed, fully: true }).collect()
}

fn exit(status: Option<ExitStatus>, limit: Option<String>, interrupted: bool) -> Exit {
    let code = status.and_then(|s| s.code());
    let signal = status.and_then(|s| s.signal());
    let kind = match (&limit, interrupted, signal) {
        (Some(_), _, _) => ExitKind::Limit,
        (_, true, _) => ExitKind::Interrupted,
        (_, _, Some(_)) => ExitKind::Signaled,
        _ => ExitKind::Exited,
    };
    Exit { kind, code, signal, sender: None, limit, error: None }
}

/// The same of a process that ran before weigh.
fn exit_of_joined(status: Option<ExitStatus>, limit: Option<String>) -> Exit {
    let is_known = status.is_some() || limit.is_some();
    let exit = exit(status, limit, false);
    let kind = if is_known { exit.kind } else { ExitKind::Detached };
    Exit { kind, ..exit }
}

/// Who sent the signal that ended the main process. What weigh has passed on is from where weigh has it.
fn sender(
    exit: &Exit,
    sent: Option<(i32, Sender)>,
    passed_on: Option<(i32, Sender)>,
    is_of_job: impl Fn(u32) -> bool,
) -> Option<Sender> {
    let of_the_end = |(signal, sender)| {
        (exit.kind == ExitKind::Signaled && exit.signal == Some(signal)).then_some(sender)
    };
    let sender = sent.and_then(of_the_end)?;
    if sender.pid != Some(std::process::id()) {
        return Some(sender);
    }
    // It may have ended before weigh had it.
    let sender = passed_on.and_then(of_the_end)?;
    Some(match sender.pid.is_some_and(is_of_job) {
        true => Sender { kind: SenderKind::Job, ..sender },
        false => sender,
    })
}
