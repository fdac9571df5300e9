//! What the job's system calls cost in each part of the kernel: as `weigh calls` has it, for the recording.
//!
//! Reads the kernel side of `weigh calls`, which is the one that `--written` has, too, and is loaded before the command's process is made; emits its report, the
//! first ones often and later ones seldom, so that a recording that is cut short has it up to a tenth of its time.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use weigh_collect::calls::INFO;
use weigh_collect::job::JobError;
use weigh_collect::notice;
use weigh_schema::Mechanism;
use weigh_schema::call::{CallsReport, SubsystemState};
use weigh_schema::event::{CollectorState, CollectorStatus};
use weigh_schema::update::Update;

use super::collector::{
    ActiveCollector, Claim, CollectorSource, Findings, MissingCollector, Subject, Wakers,
};
use super::written::{self, WRITTEN};
use crate::products::calls::JobCalls;
use crate::products::run::recorder::Recorder;
use crate::products::run::settings::RunSettings;

/// The journal has a report at least so long after the one before it.
const PACE: Duration = Duration::from_secs(1);
/// The same as a part of the time since the command began: a report takes many thousand bytes.
const PACE_OF_TIME: u32 = 10;

/// What follows the calls, if they are wanted: refuses what does not work here.
pub(super) fn open(settings: &RunSettings) -> anyhow::Result<Option<JobCalls>> {
    let Some(parts) = &settings.calls else { return Ok(None) };
    JobCalls::open(parts).map(Some).context("--calls does not work here")
}

/// Starts it on the job.
pub(super) fn start(
    mut calls: JobCalls,
    settings: &RunSettings,
    subject: Subject<'_>,
) -> ActiveCollector {
    let followed = match subject {
        Subject::Command(waiting) => calls.arm(&settings.command, waiting.pidfd()),
        Subject::Process(pid) => calls.join(pid),
    };
    let mechanism = Mechanism::Bpf;
    // What was written to storage is asked of one kernel side, not of two.
    let claimed: &'static [&'static str] = match settings.written && calls.counts_writes() {
        true => &[WRITTEN],
        false => &[],
    };
    let collector: Box<dyn CollectorSource> = match followed {
        Ok(()) => {
            let now = Instant::now();
            Box::new(SyscallTotals { calls, claimed, began: now, recorded: now })
        }
        Err(error) => {
            let reason = error.to_string();
            notice!("--calls: nothing is known of system calls: {reason}");
            Box::new(MissingCollector {
                name: INFO.name.to_string(),
                mechanism,
                state: CollectorState::Unavailable,
                reason,
                metrics: claimed,
            })
        }
    };
    ActiveCollector { metrics: &[], mechanism, collector }
}

struct SyscallTotals {
    calls: JobCalls,
    /// The metrics that follow from the calls.
    claimed: &'static [&'static str],
    began: Instant,
    recorded: Instant,
}

impl CollectorSource for SyscallTotals {
    fn begin(&mut self) {
        self.calls.begin();
        self.began = Instant::now();
    }

    fn claim(&self) -> Claim<'_> {
        Claim { metrics: self.claimed, refusal: None }
    }

    fn wakers(&self) -> Wakers<'_> {
        vec![self.calls.wake_fd()]
    }

    fn attend(&mut self, _: &mut Recorder<'_>) {
        self.calls.attend();
    }

    fn record(&mut self, recorder: &mut Recorder<'_>) {
        let now = Instant::now();
        // Who looks at the job sees what its calls are now.
        let pace = match recorder.sink.is_watched() {
            true => PACE,
            false => PACE.max((self.recorded - self.began) / PACE_OF_TIME),
        };
        if now < self.recorded + pace {
            return;
        }
        // What cannot be read now is told of in the end.
        if let Ok(report) = self.calls.so_far() {
            recorder.sink.emit(&Update::SyscallTotals(Box::new(report)));
        }
        self.recorded = now;
    }

    fn finish(
        mut self: Box<Self>,
        findings: &mut Findings,
        _: &mut Recorder<'_>,
    ) -> CollectorStatus {
        let report = self.calls.finish();
        let status = status(&report);
        self.give(report.as_ref().ok(), findings);
        findings.calls = report.ok().map(Box::new);
        status
    }
}

impl SyscallTotals {
    /// What was written to storage, where that is asked for.
    fn give(&self, report: Option<&CallsReport>, findings: &mut Findings) {
        let total = report.and_then(|report| report.storage_written_bytes_total);
        match report.zip(total) {
            _ if self.claimed.is_empty() => {}
            Some((report, total)) => {
                let to_come = report.storage_to_come_bytes.unwrap_or(0);
                let value = written::value(total, to_come, report.lost_total);
                findings.given.insert(WRITTEN.to_string(), value);
            }
            None => {
                findings.unavailable(self.claimed, "the accounts of system calls were not read")
            }
        }
    }
}

/// How it fared. A part of the kernel that this one does not show is missing in the report.
fn status(report: &Result<CallsReport, JobError>) -> CollectorStatus {
    match report {
        Ok(report) => {
            let status = CollectorStatus::of_reasons(INFO.name, Mechanism::Bpf, &missing(report));
            CollectorStatus { lost: report.lost_total, ..status }
        }
        Err(error) => CollectorStatus::of_trial(INFO.name, Mechanism::Bpf, Err(error)),
    }
}

fn missing(report: &CallsReport) -> Vec<String> {
    let of_part = |part: &SubsystemState| {
        (!part.missing.is_empty()).then(|| format!("{}: {}", part.name, part.missing.join(", ")))
    };
    report.subsystems.iter().filter_map(of_part).chain(report.notes.iter().cloned()).collect()
}
