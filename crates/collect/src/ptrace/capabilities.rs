//! A traced job as weigh follows any job, whatever measures it.
//!
//! Takes signals, limits and how far the end has come; gives events, readings, processes and why something is not
//! known. Refuses to count opened files where calls are not looked at.

use std::os::fd::BorrowedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::os::unix::thread::JoinHandleExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use libc::{SIGCONT, SIGSTOP, SIGTERM};
use rustix::process::Pid;
use weigh_schema::event::{CollectorStatus, Event, FileKey, JobReading, Note, ProcessEnd};
use weigh_schema::limit::OnLimit;
use weigh_schema::summary::Sender;
use weigh_schema::{Group, Mechanism};

use super::rss_sampler::RssSampler;
use super::traced_job::{TracedJob, seize};
use super::{notes, sys, untraced};
use crate::follow::{
    self, Attachment, Children, CommandSetup, Enforcement, FileCounts, JobMechanism, JobReader,
    MechanismError, Members, OpenCounts, PROCESSES, RunningAttachment,
};
use crate::{host, resident_marks, signals};

/// How long the tracer may take to learn that a stop it was just told of is over.
const STALE: Duration = Duration::from_millis(10);

impl TracedJob {
    /// Those who wait because of a limit go on, to meet a signal that they were sent. Only the thread
    /// that traces can let them.
    fn let_held_go(&self) {
        let Some(tracer) = &self.tracer else { return };
        if !self.shared.job().guard.is_set() {
            return;
        }
        self.shared.job().guard.is_release_due = true;
        while self.shared.job().guard.is_release_due && !tracer.is_finished() {
            // SAFETY: the thread is joined in `stop_tracing` only, which takes it away from here.
            unsafe { sys::interrupt(tracer.as_pthread_t()) };
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Whether what a metric counts is known where each call ends. Behind a filter only some calls stop.
    fn counts_at_calls(&self, metric: &str) -> bool {
        let is_of_network = weigh_schema::metric(metric).is_some_and(|m| m.group == Group::Network);
        self.filter.is_none() && (!is_of_network || self.detail.calls && self.detail.network)
    }
}

impl JobReader for TracedJob {
    fn mechanism(&self) -> Mechanism {
        Mechanism::Ptrace
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.shared.wake_fd())
    }

    fn next_look(&self) -> Option<Instant> {
        Some(self.looks.next().min(self.untraced.next()))
    }

    fn events(&mut self) -> Vec<Event> {
        let _ = rustix::io::read(self.shared.wake_fd(), &mut [0u8; 8]);
        self.look(false);
        let mut events: Vec<Event> = std::mem::take(&mut self.shared.job().events).into();
        events.extend(self.events.drain(..));
        events
    }

    fn read(&mut self) -> Result<JobReading, MechanismError> {
        self.look(true);
        let counters = self.counters();
        self.highest = counters.at_least(&self.highest);
        self.told = self.without_librarys_reads();
        self.reading = self.sum_up(self.told.clone());
        Ok(self.reading.clone())
    }

    fn glance(&self) -> JobReading {
        self.sum_up(self.told.clone())
    }

    fn statuses(&self) -> Vec<CollectorStatus> {
        let findings = self.findings();
        let job = self.shared.job();
        let mut reasons = job.warnings.clone();
        reasons.extend(findings.untraced);
        if !findings.hidden.is_empty() {
            let hidden = findings.hidden.join(", ");
            reasons.push(format!("the I/O of these is hidden from this user: {hidden}"));
        }
        if job.unseen_ends > 0 {
            reasons.push(format!(
                "{} threads were killed so soon after another stop that they were not looked at at \
                 their end: their peak of memory is the last one seen, the I/O of {} is lost",
                job.unseen_ends, job.unseen_io
            ));
        }
        let status = CollectorStatus::of_reasons(PROCESSES.name, Mechanism::Ptrace, &reasons);
        vec![CollectorStatus { lost: job.unseen_io, ..status }]
    }

    fn notes(&mut self) -> Vec<Note> {
        let mut notes = notes::notes(&self.findings());
        let threads = self.reading.population.threads_peak;
        resident_marks::qualify(&mut notes, &self.reading.memory, Some(threads));
        notes
    }
}

impl Attachment for TracedJob {
    fn command_setup(&self) -> CommandSetup<'_> {
        CommandSetup { filter: self.filter.as_ref(), ..CommandSetup::default() }
    }

    fn arm(&mut self, pid: u32, _pidfd: BorrowedFd<'_>) -> Result<(), MechanismError> {
        sys::hear_of_ends_only();
        let is_filtered = self.filter.is_some();
        self.start(move |tracer| seize(tracer.shared(), pid, is_filtered))?;
        self.looks = RssSampler::new();
        Ok(())
    }

    fn running(&mut self) -> Result<&mut dyn RunningAttachment, MechanismError> {
        Ok(self)
    }
}

impl RunningAttachment for TracedJob {
    fn join(&mut self, pid: u32) -> Result<(), MechanismError> {
        Ok(TracedJob::join(self, pid)?)
    }
}

impl Members for TracedJob {
    fn living(&self) -> Vec<ProcessEnd> {
        let mut living = self.shared.job().living();
        let untraced = self.untraced.living().into_iter();
        living.extend(untraced.map(|pid| ProcessEnd { pid, ..ProcessEnd::default() }));
        for process in &mut living {
            process.name = host::process_name(process.pid).unwrap_or_default();
        }
        living
    }

    fn processes(&mut self) -> Vec<ProcessEnd> {
        let mut rows = self.living();
        let is_traced = |row: &ProcessEnd| self.shared.job().processes.contains_key(&row.pid);
        rows.retain(is_traced);
        for row in &mut rows {
            let threads: Vec<_> = {
                let job = self.shared.job();
                let of_it = job.threads.iter().filter(|(_, thread)| thread.process == row.pid);
                of_it.map(|(tid, thread)| (*tid, thread.clone())).collect()
            };
            for (tid, mut thread) in threads {
                self.files.all(row.pid, tid, &mut thread.seen);
                untraced::add(&mut row.counters, &thread.own_counters());
            }
        }
        rows.extend(self.untraced.remaining());
        rows
    }

    /// At its last stop each thread is read.
    fn unsettled(&self) -> u64 {
        0
    }

    fn ended_ns(&self) -> Option<u64> {
        if self.untraced.processes() > 0 {
            return None;
        }
        self.shared.job().ended_ns.max(self.untraced.ended_ns)
    }

    fn signal(&mut self, to: Option<u32>, list: &[i32]) -> usize {
        let is_meant = |pid: &u32| to.is_none_or(|to| to == *pid);
        // While the job is held nobody is reaped, so no number is given to somebody else.
        let mut job = self.shared.job();
        let pids: Vec<u32> = job.processes.keys().copied().filter(is_meant).collect();
        let reached = pids.iter().filter(|pid| signals::send_in_turn(**pid, list)).count();
        if let Some(first) = list.iter().find(|signal| [SIGTERM, SIGSTOP].contains(*signal)) {
            pids.iter().for_each(|pid| job.guard.tells(*pid, *first));
        }
        drop(job);
        if list.contains(&SIGCONT) {
            self.let_held_go();
        }
        let untraced: Vec<u32> = self.untraced.living().into_iter().filter(is_meant).collect();
        reached + signals::send_to_all(&untraced, list)
    }

    fn sender(&self, pid: u32) -> Option<(i32, Sender)> {
        let job = self.shared.job();
        job.sent.clone().filter(|_| job.main == pid)
    }
}

impl Children for TracedJob {
    fn is_exclusive(&self) -> bool {
        true
    }

    fn next_child(&mut self) -> std::io::Result<Option<(Pid, ExitStatus)>> {
        let change = self.shared.job().changes.pop_front();
        if change.is_none() && self.tracer.is_none() {
            return follow::next_child();
        }
        if let Some((pid, status)) = change
            && ExitStatus::from_raw(status).stopped_signal().is_some()
        {
            // Where weigh was stopped itself, as by Ctrl-Z, the tracer learns of the command's stop
            // only after both were let go on.
            std::thread::sleep(STALE);
            let job = self.shared.job();
            if job.processes.get(&pid).is_none_or(|process| !process.is_stopped) {
                return Ok(None);
            }
        }
        Ok(change.and_then(|(pid, status)| {
            Some((Pid::from_raw(pid as i32)?, ExitStatus::from_raw(status)))
        }))
    }

    fn let_go(&mut self) {
        self.stop_tracing();
    }
}

impl Enforcement for TracedJob {
    fn set_limits(
        &mut self,
        limits: &[(&str, f64, f64)],
        on_limit: OnLimit,
    ) -> Result<Vec<String>, MechanismError> {
        let mut job = self.shared.job();
        let taken = limits.iter().filter(|(metric, most, _)| {
            job.guard.set(metric, *most, on_limit)
                || self.counts_at_calls(metric) && job.guard.set_of_calls(metric, *most, on_limit)
        });
        Ok(taken.map(|(metric, ..)| (*metric).to_owned()).collect())
    }

    fn release(&mut self) -> Result<(), MechanismError> {
        self.shared.job().guard.release();
        self.let_held_go();
        Ok(())
    }

    fn set_ending(&mut self) -> Result<(), MechanismError> {
        self.shared.job().guard.end();
        Ok(())
    }

    fn set_killing(&mut self) -> Result<(), MechanismError> {
        self.shared.job().guard.kill();
        Ok(())
    }
}

impl OpenCounts for TracedJob {
    fn take_opens(&mut self, key: &FileKey) -> Option<u64> {
        self.shared.job().calls.opens.take(key)
    }
}

impl JobMechanism for TracedJob {
    fn enforcement(&mut self) -> Option<&mut dyn Enforcement> {
        Some(self)
    }

    fn children(&mut self) -> Option<&mut dyn Children> {
        Some(self)
    }

    fn file_counts(&mut self) -> Option<&mut dyn FileCounts> {
        Some(self)
    }

    fn open_counts(&mut self) -> Result<&mut dyn OpenCounts, String> {
        match self.detail.calls && self.detail.files {
            true => Ok(self),
            false => Err("only level 3 looks at files".to_owned()),
        }
    }

    fn close(mut self: Box<Self>) {
        self.stop_tracing();
    }
}
