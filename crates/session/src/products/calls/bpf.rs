//! Follows the calls by the kernel's own tracepoints.
//!
//! Starts the command or takes in the process, and reads what the kernel side has sent; emits the report, and rows to a
//! sink.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use anyhow::Context as _;
use weigh_account::{Owners, Slowest, is_idle_call};
use weigh_agent::Server;
use weigh_collect::calls::{KernelCalls, Telling, name};
use weigh_collect::notice;
use weigh_collect::spawn::{SpawnError, Waiting, With};
use weigh_schema::availability::Availability;
use weigh_schema::call::{Call, CounterState};

use super::recorder::{CallRecorder, CallSink};
use super::report::{CallsSubject, report};
use super::served_programs::{INTERVAL, ServedPrograms};
use super::settings::{CallsMeasurement, CallsOutcome};
use crate::command::{Command, Launcher, must_run};
use crate::engine::Session;
use crate::error::SourceError;
use crate::local_agent::{self, SocketFolder};
use crate::source::Source;

/// Follows until the last thread has ended, the time is over, or somebody interrupts.
pub(super) fn follow(
    measurement: CallsMeasurement<'_>,
    sink: Option<Box<dyn CallSink>>,
) -> anyhow::Result<Result<CallsOutcome, SpawnError>> {
    let CallsMeasurement { settings, wanted, functions, left_out } = measurement;
    let telling = match (&sink, settings.slowest) {
        (Some(_), _) => Telling::EVERY,
        (None, 0) => Telling::PLAIN,
        (None, _) => Telling::SLOWEST,
    };
    let mut calls = KernelCalls::open_with(&wanted, telling, &functions)?;
    if !settings.is_quiet {
        say_unavailable_counters(calls.counters());
    }
    let single = SingleCalls {
        slowest: Slowest::new(settings.slowest),
        has_idle: settings.has_idle || settings.slowest == 0,
        owners: Owners::new(wanted.grouping),
        recorder: sink.map(|sink| CallRecorder::new(sink, &calls)),
    };
    if settings.slowest > 0 || single.recorder.is_some() {
        calls.tell_from(0);
    }
    let served = match settings.pid {
        // It runs already, and knows no other place than the agent's.
        Some(_) => None,
        None => SocketFolder::make(),
    };
    let (place, listener) = served.unzip();
    let mut server = listener.map(|at| Server::at(at, local_agent::settings())).transpose()?;
    if let Some(server) = &mut server {
        server.leave_out(left_out);
    }
    let variables: Vec<_> = place.iter().map(SocketFolder::variable).collect();
    let launcher = Launcher::prepare()?;
    let began = Instant::now();
    let began_ns = weigh_collect::clock::monotonic_ns();
    let command = match settings.pid {
        Some(pid) => {
            must_run(pid)?;
            calls.join(pid).with_context(|| format!("--pid {pid}"))?;
            launcher.stay()
        }
        None => {
            let arm = |waiting: &Waiting| calls.arm(waiting.pidfd());
            let with = With { variables: &variables, ..With::default() };
            match launcher.start(&settings.command, &with, arm)? {
                Ok(command) => command,
                Err(error) => return Ok(Err(error)),
            }
        }
    };
    let end = settings.duration.map(|duration| began + duration);
    let mut session = Session::new(command, end);
    let mut source = CallsSource { served: ServedPrograms { calls, server }, single };
    session.run(&mut source)?;
    let CallsSource { mut served, mut single } = source;
    let calls = &mut served.calls;
    let wall_seconds = began.elapsed().as_secs_f64();
    let ended_ns = weigh_collect::clock::kernel_monotonic_ns();
    calls.detach();
    let under_way = calls.under_way(ended_ns)?;
    calls.count_hits();
    single.take_in_the_rest(calls);
    let subject = CallsSubject {
        command: &settings.command,
        pid: settings.pid,
        wall_seconds,
        grouping: wanted.grouping,
        owners: &single.owners,
        under_way,
    };
    let mut report = report(calls, subject)?;
    report.slowest = single.slowest.told(began_ns, &single.owners, &name);
    let recorded = match single.recorder.map(|recorder| recorder.finish(calls.tally())) {
        Some(Err(error)) => Err(error),
        Some(Ok(unknown)) => {
            report.notes.splice(0..0, unknown);
            Ok(())
        }
        None => Ok(()),
    };
    report.notes.extend(session.command.why_to_stop());
    let rest = Box::new(move || {
        // Where its programs find weigh.
        let _place = place;
        // No call is followed any more; its programs are served still, for they wait for an answer.
        session.run_until_reaped(&mut served)?;
        Ok(session.command.status())
    });
    Ok(Ok(CallsOutcome { report, recorded, rest }))
}

/// Says which counters cannot be had, before the command starts: a user who wanted them alone need not wait.
fn say_unavailable_counters(counters: &[CounterState]) {
    for CounterState { name, unavailable } in counters {
        if let Some(why) = unavailable {
            notice!("{}", Availability::unavailable(name, why));
        }
    }
}

/// The calls that are followed, and what is taken from them.
struct CallsSource {
    served: ServedPrograms,
    single: SingleCalls,
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
        self.single.take_in(&mut self.served.calls);
        Ok(())
    }

    fn is_over(&mut self, command: &Command) -> bool {
        self.served.is_over(command)
    }
}

/// Single calls, taken in while the calls are followed.
struct SingleCalls {
    slowest: Slowest,
    /// Whether calls that only waited for somebody else are among the slowest.
    has_idle: bool,
    owners: Owners,
    recorder: Option<CallRecorder>,
}

impl SingleCalls {
    /// Takes in what has come, but for no longer than until somebody should look elsewhere.
    fn take_in(&mut self, calls: &mut KernelCalls) {
        let until = Instant::now() + INTERVAL;
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
        if let Some(recorder) = &mut self.recorder {
            recorder.record(&told, &self.owners);
            recorder.record_deferred(&later);
            recorder.check_losses(calls);
        }
        let is_wanted = |call: &Call| self.has_idle || !is_idle_call(call, &self.owners, &name);
        let bar = self.slowest.add(told.into_iter().filter(is_wanted));
        if let Some(bar) = bar.filter(|_| self.recorder.is_none()) {
            calls.tell_from(bar);
        }
        is_something
    }
}
