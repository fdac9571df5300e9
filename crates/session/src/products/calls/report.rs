//! The report of calls that the kernel side has followed: of `weigh calls`, and of a run.

use std::ffi::OsString;

use weigh_account::{Owners, call_kinds};
use weigh_collect::calls::{KernelCalls, name};
use weigh_collect::job::JobError;
use weigh_schema::Mechanism;
use weigh_schema::call::{CallsReport, Grouping, REPORT, UnderWay};

use super::served_programs::{state, undriven_packets};

/// What was followed, and for how long.
pub(super) struct CallsSubject<'a> {
    /// The command; empty where a process is followed that runs.
    pub command: &'a [OsString],
    /// That process.
    pub pid: Option<u32>,
    /// For how long it was followed so far.
    pub wall_seconds: f64,
    /// What has a row of its own.
    pub grouping: Grouping,
    /// What rows are about.
    pub owners: &'a Owners,
    /// Calls that have not ended.
    pub under_way: Vec<UnderWay>,
}

/// The table as it stands, without single calls.
pub(super) fn report(
    calls: &KernelCalls,
    subject: CallsSubject<'_>,
) -> Result<CallsReport, JobError> {
    let CallsSubject { command, pid, wall_seconds, grouping, owners, under_way } = subject;
    let (cells, tally, written) = (calls.cells()?, calls.tally(), calls.written()?);
    Ok(CallsReport {
        schema: REPORT.to_string(),
        command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        command_base64: weigh_schema::base64::of_words(command),
        pid,
        wall_seconds,
        grouping,
        mechanism: Mechanism::Bpf,
        cost: calls.cost(),
        subsystems: calls.attached().iter().map(state).collect(),
        counters: calls.counters().to_vec(),
        calls: call_kinds(&cells, owners, &name),
        slowest: Vec::new(),
        under_way,
        calls_total: cells.iter().map(|cell| cell.account.calls()).sum(),
        threads_total: tally.threads,
        storage_written_bytes_total: written.map(|written| written.total()),
        storage_to_come_bytes: written.map(|written| written.to_come),
        lost_total: tally.lost,
        untold_total: tally.untold,
        missed_returns_total: calls.missed_returns(),
        missed_arrivals_total: calls.missed_arrivals(),
        functions: calls.functions().cloned(),
        notes: undriven_packets(calls).into_iter().collect(),
    })
}
