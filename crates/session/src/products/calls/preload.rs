//! Follows the calls that a library in the command's programs marks, and serves these programs as their agent.
//!
//! Emits the same report as following every call does, without what the library does not know: its own counts,
//! and their parts from the accounts that the programs share with the kernel side. Refuses what the
//! library cannot do: rows by file or thread, single calls, programs that run already.
//!
//! `auto` is never this: a user who follows a command wants all of its calls, and what the library cannot
//! see is not known beforehand.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use anyhow::bail;
use weigh_account::{Owners, call_kinds};
use weigh_agent::{Server, Settings};
use weigh_collect::calls::shim::{CallSet, Shim, why_not};
use weigh_collect::calls::{ANYTHING, CallsRequest, Functions, KernelCalls, Telling};
use weigh_collect::job::JobError;
use weigh_collect::spawn::{SpawnError, Waiting, With};
use weigh_schema::Mechanism;
use weigh_schema::call::{CallsReport, Cell, Grouping, REPORT, SubsystemState};
use weigh_schema::subsystem::Account;

use super::overhead;
use super::served_programs::{ServedPrograms, state, undriven_packets};
use super::settings::{CallsOutcome, CallsSettings};
use crate::command::{Command, Launcher};
use crate::engine::Session;
use crate::error::SourceError;
use crate::local_agent::{self, Helper};
use crate::source::Source;

/// What the library can never see.
const UNSEEN: &str = "preload: calls that programs make without a function of the C library, that it \
                      makes inside of its own functions (printf, fopen, readdir, malloc, locks), and \
                      io_uring's requests are not in the table";

/// The part that the library counts itself.
const SOCKETS: &str = "socket";

/// What these counts are.
const PAYLOAD: &str = "preload: what goes by sockets is what calls on them returned; what the kernel sends and \
                       receives by sockets of its own (for a file of NFS) is not in it";

/// No probe is attached for what the library counts, and no kernel lacks one.
fn without_probes(part: SubsystemState) -> SubsystemState {
    match part.name == SOCKETS {
        true => SubsystemState { probes: 0, missing: Vec::new(), ..part },
        false => part,
    }
}

/// Refuses what the library cannot do.
pub(super) fn refuse(settings: &CallsSettings) -> anyhow::Result<()> {
    let Some(command) = settings.command.first() else {
        bail!("--mechanism preload follows a command: a process that runs takes bpf");
    };
    if settings.grouping != Grouping::Call || settings.slowest > 0 {
        bail!("--mechanism preload has rows by call alone: --by and --slowest take bpf");
    }
    if settings.has_sink {
        bail!(
            "--mechanism preload adds calls up, and tells of none by itself: --per-call takes bpf"
        );
    }
    if !settings.counters.is_empty() {
        bail!(
            "--mechanism preload knows the ends of calls outside of the kernel: --counters takes bpf"
        );
    }
    if settings.by_part {
        bail!("--by-part takes --mechanism bpf: what a library marks has no numbers of parts");
    }
    if settings.boundaries.is_some() {
        bail!(
            "--functions takes --mechanism bpf: of calls that a library marks borders are not known"
        );
    }
    CallSet::of(&settings.only)?;
    if let Some(why) = why_not(command) {
        bail!("the library cannot be in {}: {why}; --mechanism bpf", command.display());
    }
    Ok(())
}

/// Follows until the last thread has ended, the time is over, or somebody interrupts.
pub(super) fn follow(
    settings: &CallsSettings,
    wanted: &CallsRequest,
) -> anyhow::Result<Result<CallsOutcome, SpawnError>> {
    let wanted = CallsRequest { every_call: false, ..wanted.clone() };
    let chosen = CallSet::of(&settings.only)?;
    let shim = Shim::new()?;
    let mut calls = KernelCalls::load(&wanted, Telling::PLAIN, &Functions::default())?;
    // Membership is followed from the beginning; parts are attached when a program with the library comes.
    calls.hold(ANYTHING);
    calls.attach_only(ANYTHING)?;
    let cost = overhead::measure(&mut calls);
    shim.mark(chosen);
    let of_sockets = wanted.subsystems.iter().any(|part| part.name == SOCKETS);
    if of_sockets {
        shim.count_sockets();
    }
    let serving = Settings { adds_up: true, ..local_agent::settings() };
    let server = Server::new(&shim.socket(), serving)?;
    // A program that uses libweigh itself has accounts of its own, which the kernel side keeps apart.
    let helper = Helper::prepare(Mechanism::Bpf);
    let mut variables = shim.variables(&settings.command[0]);
    variables.extend(helper.as_ref().map(Helper::variable));
    let launcher = Launcher::prepare()?;
    let began = Instant::now();
    let arm = |waiting: &Waiting| calls.arm(waiting.pidfd());
    let with = With { variables: &variables, ..With::default() };
    let command = match launcher.start(&settings.command, &with, arm)? {
        Ok(command) => command,
        Err(error) => return Ok(Err(error)),
    };
    let end = settings.duration.map(|duration| began + duration);
    let mut source =
        MarkedCalls { served: ServedPrograms { calls, server: Some(server) }, helper, shim };
    let mut session = Session::new(command, end);
    session.run(&mut source)?;
    source.shim.mark(CallSet::none());
    let wall_seconds = began.elapsed().as_secs_f64();
    let ended_ns = weigh_collect::clock::monotonic_ns();
    let sums = source.end();
    let (calls, shim) = (&source.served.calls, &source.shim);
    let under_way = calls.under_way(ended_ns)?;
    let tally = calls.tally();
    let cells = shim.cells(&sums);
    let mut notes = notes(calls, of_sockets, total(&cells), shim)?;
    notes.extend(session.command.why_to_stop());
    let report = CallsReport {
        schema: REPORT.to_string(),
        command: settings.command.iter().map(|a| a.to_string_lossy().into_owned()).collect(),
        command_base64: weigh_schema::base64::of_words(&settings.command),
        pid: None,
        wall_seconds,
        grouping: Grouping::Call,
        mechanism: Mechanism::Preload,
        cost,
        subsystems: calls.attached().iter().map(state).map(without_probes).collect(),
        counters: Vec::new(),
        calls: call_kinds(&cells, &Owners::new(Grouping::Call), &Shim::name),
        slowest: Vec::new(),
        under_way,
        calls_total: total(&cells),
        threads_total: tally.threads,
        storage_written_bytes_total: None,
        storage_to_come_bytes: None,
        lost_total: tally.lost,
        untold_total: 0,
        missed_returns_total: 0,
        missed_arrivals_total: calls.missed_arrivals(),
        functions: None,
        notes,
    };
    let rest = Box::new(move || {
        session.run_until_reaped(&mut source)?;
        Ok(session.command.status())
    });
    Ok(Ok(CallsOutcome { report, recorded: Ok(()), rest }))
}

fn total(cells: &[Cell]) -> u64 {
    cells.iter().map(|cell| cell.account.calls()).sum()
}

/// The calls that the library in the command's programs marks, and the programs, which are served.
struct MarkedCalls {
    /// The programs with the library: no server when no call is followed any more.
    served: ServedPrograms,
    /// For programs that use libweigh themselves, if no agent serves them.
    helper: Option<Helper>,
    shim: Shim,
}

impl MarkedCalls {
    /// Follows no longer. What the accounts of all programs come to, by token.
    fn end(&mut self) -> BTreeMap<u64, Account> {
        let sums = self.served.server.as_ref().map(Server::sums).unwrap_or_default();
        // Else it would attach again what the library in them asks for.
        self.served.server = None;
        self.served.calls.detach();
        sums
    }
}

impl Source for MarkedCalls {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let mut descriptors = self.served.descriptors();
        descriptors.extend(self.helper.as_ref().and_then(Helper::wake_fd));
        descriptors
    }

    fn deadline(&self) -> Option<Instant> {
        self.served.deadline()
    }

    fn is_member(&self, pid: u32) -> bool {
        self.served.is_member(pid)
    }

    fn poll(&mut self, command: &mut Command) -> Result<(), SourceError> {
        self.served.poll(command)?;
        if self.served.server.is_some() {
            self.shim.keep_time();
        }
        if let Some(helper) = &mut self.helper {
            helper.serve_if_asked();
        }
        Ok(())
    }

    fn is_over(&mut self, command: &Command) -> bool {
        self.served.is_over(command)
    }
}

fn notes(
    calls: &KernelCalls,
    of_sockets: bool,
    seen: u64,
    shim: &Shim,
) -> Result<Vec<String>, JobError> {
    let mut notes = vec![UNSEEN.to_string()];
    notes.extend(undriven_packets(calls));
    if of_sockets {
        notes.push(PAYLOAD.to_string());
    }
    let unheard: Vec<String> = calls
        .unheard()?
        .into_iter()
        .map(|(program, times)| match times {
            1 => program,
            _ => format!("{program} ({times} times)"),
        })
        .collect();
    if !unheard.is_empty() {
        notes.push(format!(
            "preload: the library was not in {}: static, of other rights, with a sanitizer's runtime \
             that must be the first library, or started without LD_PRELOAD; none of their calls is in the table",
            unheard.join(", ")
        ));
    }
    let (not_split, refused) = (shim.not_split(), shim.refused());
    if refused > 0 {
        notes.push(format!(
            "preload: {refused} calls are not in the table: the file that programs count in found no more room on \
             its file system"
        ));
    }
    if not_split > 0 {
        notes.push(format!(
            "preload: the time of {not_split} of {seen} calls was not split, and is in the remainder: calls of \
             signal handlers while another one was open, or of programs that weigh could not serve"
        ));
    }
    Ok(notes)
}
