//! The end of a run: the last threads are waited for, what is left is read, and the summary made.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use weigh_schema::summary::{Exit, ExitKind};

use super::Running;
use crate::arguments::Collector;
use crate::run::collectors::Findings;
use crate::run::outcome::Conclusion;
use crate::run::snapshots::Snapshots;

/// How long to wait at the end for the next of the last threads to be reaped: several of the
/// kernel's grace periods.
const SETTLE: Duration = Duration::from_millis(120);

impl Running {
    /// Waits for the last threads to be reaped, so that their own exit is accounted for; on a
    /// busy machine the kernel takes its time, but it goes on.
    fn settle(&mut self) {
        let mut left = self.job.unsettled();
        let mut until = Instant::now() + SETTLE;
        while left > 0
            && self.job.glance().population.processes == 0
            && Instant::now() < until
            && self.wait(until.min(Instant::now() + SETTLE / 10)).is_ok()
        {
            while self.signals.receive().is_some() {}
            // Who can not be waited for now is so a little later.
            let _ = self.reap();
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

    pub(super) fn conclude(mut self) -> anyhow::Result<Conclusion> {
        self.settle();
        self.take_snapshots(Snapshots::last_look)?;
        self.announce();
        self.is_concluding = true;
        let reading = self.job.read()?;
        let ended_ns = self.job.ended_ns().unwrap_or(reading.at_ns);
        let mut last = reading.clone();
        last.at_ns = ended_ns;
        let more = self.sample_others();
        self.recorder.tick(&last, more);
        self.remaining(reading.at_ns);
        let mut findings = Findings::default();
        let wall_seconds = ended_ns as f64 * 1e-9;
        let mut statuses = self.job.statuses();
        for other in self.others.drain(..) {
            statuses.push(other.collector.finish(&mut findings, &mut self.recorder));
        }
        self.opened.finish(&mut *self.job, &mut self.recorder);
        findings.notes.extend(self.job.notes());
        let mechanism = self.job.mechanism();
        self.oom.finish(mechanism, &mut findings);
        self.cpu_wait.finish(mechanism, &reading, self.summary.host.cpus, &mut findings);
        if self.settings.wants(Collector::Pages) {
            statuses.push(self.looks.status());
        }
        let memory = &reading.memory;
        self.recorder.peak(
            memory.rss_sum_peak_at_ns,
            memory.rss_sum_peak,
            memory.floor_peak,
            memory.spaces_at_peak,
        );

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
        summary.collectors = statuses;
        let ended_by = self.enforcer.ended_by();
        summary.limits = self.enforcer.into_outcomes(&summary.metrics);
        summary.exit = Some(exit(self.main.status, ended_by, self.interrupted));
        self.job.close();
        Ok(Conclusion {
            settings: self.settings,
            announcer: self.announcer,
            writer: self.recorder.writer,
            summary: self.summary,
            quiet: false,
        })
    }
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
    Exit { kind, code, signal, limit, error: None }
}
