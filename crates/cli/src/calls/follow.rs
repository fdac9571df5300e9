//! Follows the calls from beginning to end: starts the command or takes in the process, and empties
//! what the kernel side has told now and then.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use weigh_account::{Owners, Slowest, call_kinds, is_idle_call};
use weigh_agent::{LeftOut, Server};
use weigh_collect::calls::{Functions, KernelCalls, Telling, Wanted, name};
use weigh_collect::notice;
use weigh_collect::spawn::{SpawnError, Waiting, With};
use weigh_keep::CallsWriter;
use weigh_schema::Mechanism;
use weigh_schema::call::{Call, CallsReport, CounterState, REPORT, SubsystemState};
use weigh_session::local_agent::{self, Place};
use weigh_session::{Command, CommandWait, Launcher, Session, Source, SourceError, must_run};

use super::each::Each;
use crate::arguments::CallsArguments;

/// How often single calls are taken in, unless there are many.
const LOOK: Duration = Duration::from_millis(50);

/// What came of it.
pub struct Followed {
    /// What was found.
    pub report: CallsReport,
    /// What is to be waited for when it has been told.
    pub rest: CommandWait,
}

/// Follows until the last thread has ended, the time is over, or somebody interrupts.
pub fn follow(
    arguments: &CallsArguments,
    wanted: &Wanted,
    functions: &Functions,
    left_out: LeftOut,
) -> anyhow::Result<Result<Followed, SpawnError>> {
    let per_call = arguments.per_call.as_deref().map(CallsWriter::create).transpose();
    let per_call = per_call.context("--per-call")?;
    let telling = match (&per_call, arguments.slowest) {
        (Some(_), _) => Telling::EVERY,
        (None, 0) => Telling::PLAIN,
        (None, _) => Telling::SLOWEST,
    };
    let mut calls = KernelCalls::open_with(wanted, telling, functions)?;
    if !arguments.quiet {
        tell_of_counters(calls.counters());
    }
    let kept = Kept {
        slowest: Slowest::new(arguments.slowest),
        has_idle: arguments.idle || arguments.slowest == 0,
        owners: Owners::new(wanted.grouping),
        each: per_call.map(|file| Each::new(file, &calls)),
    };
    if arguments.slowest > 0 || kept.each.is_some() {
        calls.tell_from(0);
    }
    let served = match arguments.pid {
        // It runs already, and knows no other place than the agent's.
        Some(_) => None,
        None => Place::make(),
    };
    let (place, listener) = served.unzip();
    let mut server = listener.map(|at| Server::at(at, local_agent::settings())).transpose()?;
    if let Some(server) = &mut server {
        server.leave_out(left_out);
    }
    let variables: Vec<_> = place.iter().map(Place::variable).collect();
    let launcher = Launcher::prepare()?;
    let began = Instant::now();
    let began_ns = weigh_collect::clock::monotonic_ns();
    let command = match arguments.pid {
        Some(pid) => {
            must_run(pid)?;
            calls.join(pid).with_context(|| format!("--pid {pid}"))?;
            launcher.stay()
        }
        None => {
            let arm = |waiting: &Waiting| calls.arm(waiting.pidfd());
            let with = With { variables: &variables, ..With::default() };
            match launcher.start(&arguments.command, &with, arm)? {
                Ok(command) => command,
                Err(error) => return Ok(Err(error)),
            }
        }
    };
    let end = arguments.duration.map(|duration| began + duration);
    let mut session = Session::new(command, end);
    let mut source = CallsSource { served: ServedPrograms { calls, server }, kept };
    session.run(&mut source)?;
    let CallsSource { mut served, mut kept } = source;
    let calls = &mut served.calls;
    let wall_seconds = began.elapsed().as_secs_f64();
    let ended_ns = weigh_collect::clock::monotonic_ns();
    calls.detach();
    let under_way = calls.under_way(ended_ns)?;
    calls.count_hits();
    kept.take_in_the_rest(calls);
    let (cells, tally, written) = (calls.cells()?, calls.tally(), calls.written()?);
    let unknown_later = match kept.each {
        Some(each) => each.finish(arguments, tally).context("--per-call")?,
        None => None,
    };
    let report = CallsReport {
        schema: REPORT.to_string(),
        command: arguments.command.iter().map(|a| a.to_string_lossy().into_owned()).collect(),
        command_base64: weigh_schema::base64::of_words(&arguments.command),
        pid: arguments.pid,
        wall_seconds,
        grouping: wanted.grouping,
        mechanism: Mechanism::Bpf,
        cost: calls.cost(),
        subsystems: calls.attached().iter().map(state).collect(),
        counters: calls.counters().to_vec(),
        calls: call_kinds(&cells, &kept.owners, &name),
        slowest: kept.slowest.told(began_ns, &kept.owners, &name),
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
        notes: unknown_later
            .into_iter()
            .chain(super::not_driven(calls))
            .chain(session.command.why_to_stop())
            .collect(),
    };
    let rest = Box::new(move || {
        // Where its programs find weigh.
        let _place = place;
        // No call is followed any more; its programs are served still, for they wait for an answer.
        session.run_until_reaped(&mut served)?;
        Ok(session.command.status())
    });
    Ok(Ok(Followed { report, rest }))
}

/// What can not be had is told before the command starts: whoever wanted that alone need not wait.
fn tell_of_counters(counters: &[CounterState]) {
    for CounterState { name, unavailable } in counters {
        if let Some(why) = unavailable {
            notice!("{name} unavailable: {why}");
        }
    }
}

/// A part of the kernel, as it is told.
pub fn state(attached: &weigh_collect::calls::Attached) -> SubsystemState {
    SubsystemState {
        name: attached.subsystem.clone(),
        probes: attached.probes,
        functions: attached.functions,
        missing: attached.missing.clone(),
    }
}

/// Programs with libweigh, served by the kernel side that follows the calls.
pub struct ServedPrograms {
    /// The kernel side.
    pub calls: KernelCalls,
    /// None where they find another agent.
    pub server: Option<Server>,
}

impl Source for ServedPrograms {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.server.iter().map(|server| server.descriptor()).collect()
    }

    fn deadline(&self) -> Option<Instant> {
        Some(Instant::now() + LOOK)
    }

    fn is_member(&self, pid: u32) -> bool {
        self.calls.is_member(pid)
    }

    fn poll(&mut self, _: &mut Command) -> Result<(), SourceError> {
        if let Some(server) = &mut self.server {
            server.handle(&mut self.calls).context("serving the command's programs")?;
        }
        Ok(())
    }

    fn is_over(&mut self, command: &Command) -> bool {
        self.calls.tally().living == 0 && command.is_reaped()
    }
}

/// The calls that are followed, with what is kept of them.
struct CallsSource {
    served: ServedPrograms,
    kept: Kept,
}

impl Source for CallsSource {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let mut descriptors = self.served.descriptors();
        descriptors.extend([self.served.calls.wake_fd(), self.served.calls.attention_fd()]);
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
        self.served.calls.adapt()?;
        self.kept.take_in(&mut self.served.calls);
        Ok(())
    }

    fn is_over(&mut self, command: &Command) -> bool {
        self.served.is_over(command)
    }
}

/// What is taken in while the calls are followed.
struct Kept {
    slowest: Slowest,
    /// Whether calls that only waited for somebody else are among the slowest.
    has_idle: bool,
    owners: Owners,
    each: Option<Each>,
}

impl Kept {
    /// Takes in what has come, but for no longer than until somebody should look elsewhere.
    fn take_in(&mut self, calls: &mut KernelCalls) {
        let until = Instant::now() + LOOK;
        while self.take_in_a_batch(calls) && Instant::now() < until {}
    }

    fn take_in_the_rest(&mut self, calls: &mut KernelCalls) {
        while self.take_in_a_batch(calls) {}
    }

    /// Whether there was anything.
    fn take_in_a_batch(&mut self, calls: &mut KernelCalls) -> bool {
        let (told, later) = (calls.told(), calls.later());
        // A name is told before the calls about it: so it is taken in after them at the latest.
        self.owners.learn(calls.names());
        let is_something = !told.is_empty() || !later.is_empty();
        if let Some(each) = &mut self.each {
            each.write(&told, &self.owners);
            each.add_later(&later);
            each.look_for_losses(calls);
        }
        let is_wanted = |call: &Call| self.has_idle || !is_idle_call(call, &self.owners, &name);
        let bar = self.slowest.add(told.into_iter().filter(is_wanted));
        if let Some(bar) = bar.filter(|_| self.each.is_none()) {
            calls.tell_from(bar);
        }
        is_something
    }
}
