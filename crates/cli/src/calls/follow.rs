//! Follows the calls from beginning to end: starts the command or takes in the process, and empties
//! what the kernel side has told now and then.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use weigh_account::{Owners, Slowest, call_kinds};
use weigh_collect::calls::{KernelCalls, Wanted, name};
use weigh_collect::spawn::SpawnError;
use weigh_schema::Mechanism;
use weigh_schema::call::{CallsReport, REPORT, SubsystemState};

use crate::arguments::CallsArguments;
use crate::foreground::{Foreground, Started};

/// How often single calls are taken in: 8 MiB of them must not come in between.
pub const LOOK: Duration = Duration::from_millis(50);

/// What came of it.
pub struct Followed {
    /// What was found.
    pub report: CallsReport,
    /// How the command ended.
    pub status: Option<ExitStatus>,
}

/// Follows until the last thread has ended, the time is over, or somebody interrupts.
pub fn follow(
    arguments: &CallsArguments,
    wanted: &Wanted,
) -> anyhow::Result<Result<Followed, SpawnError>> {
    let mut calls = KernelCalls::open(wanted)?;
    let mut kept =
        Kept { slowest: Slowest::new(arguments.slowest), owners: Owners::new(wanted.grouping) };
    if arguments.slowest > 0 {
        calls.tell_from(0);
    }
    let foreground = Foreground::prepare()?;
    let began = Instant::now();
    let began_ns = weigh_collect::clock::monotonic_ns();
    let started = match arguments.pid {
        Some(pid) => {
            calls.join(pid).with_context(|| format!("--pid {pid}"))?;
            foreground.stay()
        }
        None => {
            let arm = |waiting: &weigh_collect::spawn::Waiting| Ok(calls.arm(waiting.pidfd())?);
            match foreground.start(&arguments.command, arm)? {
                Ok(started) => started,
                Err(error) => return Ok(Err(error)),
            }
        }
    };
    let end = arguments.duration.map(|duration| began + duration);
    let status = until_over(started, &mut calls, &mut kept, end)?;
    let wall_seconds = began.elapsed().as_secs_f64();
    calls.detach();
    kept.take_in(&mut calls);
    let (cells, tally) = (calls.cells(), calls.tally());
    let report = CallsReport {
        schema: REPORT.to_string(),
        command: arguments.command.iter().map(|a| a.to_string_lossy().into_owned()).collect(),
        pid: arguments.pid,
        wall_seconds,
        grouping: wanted.grouping,
        mechanism: Mechanism::Bpf,
        subsystems: calls.attached().iter().map(state).collect(),
        calls: call_kinds(&cells, &kept.owners, &name),
        slowest: kept.slowest.told(began_ns, &name),
        calls_total: cells.iter().map(|cell| cell.account.calls()).sum(),
        threads_total: tally.threads,
        lost_total: tally.lost,
        notes: Vec::new(),
    };
    Ok(Ok(Followed { report, status }))
}

/// A part of the kernel, as it is told.
pub fn state(attached: &weigh_collect::calls::Attached) -> SubsystemState {
    SubsystemState {
        name: attached.subsystem.to_string(),
        probes: attached.probes,
        missing: attached.missing.clone(),
    }
}

fn until_over(
    mut started: Started,
    calls: &mut KernelCalls,
    kept: &mut Kept,
    end: Option<Instant>,
) -> anyhow::Result<Option<ExitStatus>> {
    loop {
        let now = Instant::now();
        let look = now + LOOK;
        started.wait(end.map_or(look, |end| end.min(look)), &[])?;
        started.attend(&|pid| calls.is_member(pid))?;
        kept.take_in(calls);
        let is_time = end.is_some_and(|end| Instant::now() >= end);
        if calls.tally().living == 0 || started.is_interrupted() || is_time {
            return Ok(started.status());
        }
    }
}

/// What is taken in while the calls are followed.
struct Kept {
    slowest: Slowest,
    owners: Owners,
}

impl Kept {
    fn take_in(&mut self, calls: &mut KernelCalls) {
        self.owners.learn(calls.names());
        if let Some(bar) = self.slowest.add(calls.told()) {
            calls.tell_from(bar);
        }
    }
}
