//! Follows the calls that a library in the command's programs marks, and serves them as their agent.
//!
//! Emits the same report as following every call does, with what is not in it: the library's counts,
//! and their parts from the accounts that the programs share with the kernel side. Refuses what the
//! library can not do: rows by file or thread, single calls, programs that run already.
//!
//! `auto` is never this: who follows a command wants all of its calls, and what the library can not
//! see can not be told beforehand.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use anyhow::bail;
use weigh_account::{Owners, call_kinds};
use weigh_agent::{Server, Settings};
use weigh_collect::calls::shim::{CallSet, Shim, why_not};
use weigh_collect::calls::{ANYTHING, Functions, KernelCalls, Telling, Wanted};
use weigh_collect::job::JobError;
use weigh_collect::spawn::{SpawnError, Waiting, With};
use weigh_schema::Mechanism;
use weigh_schema::call::{CallsReport, Cell, Grouping, REPORT, SubsystemState};
use weigh_schema::subsystem::Account;
use weigh_session::local_agent::{self, Helper};
use weigh_session::{Command, Launcher, Session, Source, SourceError};

use super::follow::{Followed, ServedPrograms, state};
use super::price;
use crate::arguments::CallsArguments;

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
fn by_the_library(part: SubsystemState) -> SubsystemState {
    match part.name == SOCKETS {
        true => SubsystemState { probes: 0, missing: Vec::new(), ..part },
        false => part,
    }
}

/// Why the command's calls can not be followed so.
pub fn refuse(arguments: &CallsArguments) -> anyhow::Result<()> {
    let Some(command) = arguments.command.first() else {
        bail!("--mechanism preload follows a command: a process that runs takes bpf");
    };
    if Grouping::from(arguments.by) != Grouping::Call || arguments.slowest > 0 {
        bail!("--mechanism preload has rows by call alone: --by and --slowest take bpf");
    }
    if arguments.per_call.is_some() {
        bail!(
            "--mechanism preload adds calls up, and tells of none by itself: --per-call takes bpf"
        );
    }
    if !arguments.counters.is_empty() {
        bail!(
            "--mechanism preload knows the ends of calls outside of the kernel: --counters takes bpf"
        );
    }
    if arguments.functions {
        bail!(
            "--functions takes --mechanism bpf: of calls that a library marks borders are not known"
        );
    }
    CallSet::of(&arguments.only)?;
    if let Some(why) = why_not(command) {
        bail!("the library can not be in {}: {why}; --mechanism bpf", command.display());
    }
    Ok(())
}

/// Follows until the last thread has ended, the time is over, or somebody interrupts.
pub fn follow(
    arguments: &CallsArguments,
    wanted: &Wanted,
) -> anyhow::Result<Result<Followed, SpawnError>> {
    let wanted = Wanted { every_call: false, ..wanted.clone() };
    let chosen = CallSet::of(&arguments.only)?;
    let shim = Shim::new()?;
    let mut calls = KernelCalls::load(&wanted, Telling::PLAIN, &Functions::default())?;
    // Who is of the job is seen from the beginning; parts are when a program with the library comes.
    calls.hold(ANYTHING);
    calls.attach_only(ANYTHING)?;
    let cost = price::try_out(&mut calls);
    shim.mark(chosen);
    let of_sockets = wanted.subsystems.iter().any(|part| part.name == SOCKETS);
    if of_sockets {
        shim.count_sockets();
    }
    let settings = Settings { adds_up: true, ..local_agent::settings() };
    let server = Server::new(&shim.socket(), settings)?;
    // Who uses libweigh as well has accounts of his own, which the kernel side keeps apart.
    let helper = Helper::prepare(Mechanism::Bpf);
    let mut variables = shim.variables(&arguments.command[0]);
    variables.extend(helper.as_ref().map(Helper::variable));
    let launcher = Launcher::prepare()?;
    let began = Instant::now();
    let arm = |waiting: &Waiting| calls.arm(waiting.pidfd());
    let with = With { variables: &variables, ..With::default() };
    let command = match launcher.start(&arguments.command, &with, arm)? {
        Ok(command) => command,
        Err(error) => return Ok(Err(error)),
    };
    let end = arguments.duration.map(|duration| began + duration);
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
        command: arguments.command.iter().map(|a| a.to_string_lossy().into_owned()).collect(),
        command_base64: weigh_schema::base64::of_words(&arguments.command),
        pid: None,
        wall_seconds,
        grouping: Grouping::Call,
        mechanism: Mechanism::Preload,
        cost,
        subsystems: calls.attached().iter().map(state).map(by_the_library).collect(),
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
    Ok(Ok(Followed { report, rest }))
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
    notes.extend(super::not_driven(calls));
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
