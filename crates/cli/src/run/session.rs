//! One run from start to end: the loop that waits for whatever comes next.
//!
//! Wakes for signals, for the end of the command, for what the kernel side will not leave to the
//! next tick, and for ticks; for nothing else.

mod conclusion;
mod limits;
mod moments;
mod page_looks;
mod rest;
mod ticks;

use std::collections::HashSet;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;
use weigh_account::{LimitWatch, Tick};
use weigh_collect::follow::{Follow, Hold};
use weigh_collect::io::FollowIo;
use weigh_collect::signals::{self, Received, SignalReader};
use weigh_collect::spawn::{SignalMask, SpawnError, With, spawn_with};
use weigh_collect::{message, notice};
use weigh_keep::{Entry, RecordingWriter};
use weigh_schema::event::{Event, JobReading};
use weigh_schema::limit::{Limit, OnLimit};
use weigh_schema::quality::Quality;
use weigh_schema::summary::{Exit, ExitKind, Summary};
use weigh_schema::{Mechanism, Printable};

use self::rest::Rest;
use self::ticks::Ticks;
use super::announce::Announcer;
use super::collectors::{self, Findings};
use super::cpu_wait::{self, CpuWait};
use super::enforce::Enforcer;
use super::facts;
use super::follow;
use super::live_line::LiveLine;
use super::looks::Looks;
use super::oom::OomKills;
use super::opened::Opened;
use super::outcome::Conclusion;
use super::recorder::Recorder;
use super::settings::Settings;
use super::snapshots::Snapshots;
use crate::arguments::{Collector, WaitFor};
use crate::foreground::{JOB_CONTROL, command, take_signals};
use crate::io::mount::recorded::Wanted;
use crate::serving::Helper;
use limits::{LimitLooks, is_of_calls, tell_price_of_calls};

/// Looks for the sake of limits take up to a fifth of a CPU.
const WAIT_PER_LOOK: u32 = 4;

/// How long left-over processes may run before a line says that they are waited for.
const PATIENCE: Duration = Duration::from_millis(1500);

/// A run that is ready to start.
pub struct Session {
    settings: Settings,
    announcer: Announcer,
    job: Box<dyn Follow>,
    /// Who tells of reads and writes, where the user has said who is to.
    io: Option<Box<dyn FollowIo>>,
    writer: RecordingWriter,
    summary: Summary,
    mask: SignalMask,
    signals: SignalReader,
}

impl Session {
    /// Opens everything that can be opened before the command runs.
    pub fn prepare(settings: Settings) -> anyhow::Result<Session> {
        weigh_collect::requirements::check_proc()?;
        // Before orphans are adopted: the helper is to be nobody's child but the system's.
        let announcer = Announcer::start(settings.arguments.on_event.as_ref())?;
        let writer = RecordingWriter::create(&settings.directory);
        let writer = match settings.arguments.output {
            Some(_) => writer?,
            None => writer.context("no place to keep the recording; -o DIR names another")?,
        };
        let opened = follow::open(&settings)
            .and_then(|mut job| Ok((collectors::open_io(&settings, &mut *job)?, job)));
        let (io, mut job) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                writer.discard();
                return Err(error);
            }
        };
        let mut summary = facts::provisional(&settings, job.statuses())?;
        summary.metrics = facts::not_known(&job.notes());
        let marks = LimitWatch::marks(&settings.limits);
        let taken = job.set_limits(
            &marks,
            match settings.on_limit {
                OnLimit::Kill => Hold::Kill,
                OnLimit::Stop => Hold::Stop,
                OnLimit::Warn => Hold::Not,
            },
        )?;
        for limit in summary.limits.iter_mut().filter(|l| taken.contains(&l.metric)) {
            limit.enforced_by = job.mechanism().to_string();
        }
        tell_price_of_calls(&taken, job.mechanism());
        cpu_wait::tell_price(&*job);
        let (mask, signals) = take_signals(!job.waits_for_children())?;
        Ok(Session { settings, announcer, job, io, writer, summary, mask, signals })
    }

    /// Runs the command to its end.
    pub fn run(mut self) -> anyhow::Result<Conclusion> {
        self.writer.append(&Entry::Started(Box::new(self.summary.clone())));
        self.writer.flush();
        if let Some(error) = self.writer.error() {
            let error = anyhow::anyhow!(
                "the recording can not be written to {}: {error}; the command was not run",
                self.settings.directory.display()
            );
            self.writer.discard();
            return Err(error);
        }
        // Kept to the end of the run.
        let _delays = collectors::turn_on_delays(self.settings.arguments.delays)?;
        let mut variables = self.job.variables();
        variables.extend(self.io.iter().flat_map(|io| io.variables()));
        let helper = Helper::prepare(self.job.mechanism());
        variables.extend(helper.iter().map(Helper::variable));
        let words = &self.settings.arguments.command;
        let group = collectors::make_group(&self.settings, &*self.job);
        let with = With {
            variables: &variables,
            filter: self.job.filter(),
            group: group.as_ref().ok().and_then(|group| group.descriptor()),
        };
        let waiting = match spawn_with(words, &self.mask, &with) {
            Ok(waiting) => waiting,
            Err(error) => return self.failed_to_start(error),
        };
        let pid = waiting.pid;
        let number = pid.as_raw_nonzero().get() as u32;
        let snapshots = match self.settings.watched.is_empty() {
            true => None,
            false => Some(Snapshots::start(self.settings.watched.clone())),
        };
        let mount = match self.settings.mount.take().map(Wanted::mount).transpose() {
            Ok(mount) => mount,
            Err(error) => {
                // It would run where its files are not.
                drop(waiting);
                self.writer.discard();
                return Err(error.into());
            }
        };
        let mut own_folders = self.job.own_folders();
        own_folders.extend(helper.iter().map(|helper| helper.folder().to_path_buf()));
        let mut others = collectors::start(
            &self.settings,
            &waiting,
            group,
            &*self.job,
            mount,
            self.io.take(),
            &own_folders,
        );
        // What was said stands before what the command writes.
        message::settle();
        if let Err(error) = self.job.arm(number, waiting.pidfd()) {
            // The command has not run: nothing is lost by not starting it.
            drop(waiting);
            self.writer.discard();
            return Err(error.into());
        }
        others.iter_mut().for_each(|other| other.collector.begin());
        let (oom, cpu_wait) = (OomKills::begin(), CpuWait::begin(number));
        let (pid, pidfd) = match waiting.go() {
            Ok(started) => started,
            Err(error) => return self.failed_to_start(error),
        };
        command::has_begun(pid);
        let started = Timestamp::now();
        self.announcer.begins(started);
        let reading = self.job.glance();
        let epoch_ns = started.as_nanosecond() as i64 - reading.at_ns as i64;
        self.summary.job.started = Timestamp::from_nanosecond(i128::from(epoch_ns))?;
        // A tracer does not see whom it had to let go: these are looked at as well.
        let kernel_limits: Vec<String> = self
            .summary
            .limits
            .iter()
            .filter(|l| l.enforced_by == Mechanism::Bpf.to_string() && !is_of_calls(&l.metric))
            .map(|l| l.metric.clone())
            .collect();
        let watched = self
            .settings
            .limits
            .iter()
            .filter(|l| !kernel_limits.iter().any(|k| k == l.metric.name));
        let is_memory = |l: &&Limit| l.metric.name == "memory_peak_bytes";
        let memory_limit = self.settings.limits.iter().find(is_memory).map(|l| l.value as u64);
        let with_uses = others.iter().any(|other| other.collector.tells_of_files());
        let live = LiveLine::new(&self.settings.arguments);
        let mut running = Running {
            limits: LimitLooks::new(LimitWatch::new(watched.cloned())),
            enforcer: Enforcer::new(
                std::mem::take(&mut self.summary.limits),
                self.settings.on_limit,
                self.settings.grace,
            ),
            recorder: Recorder::new(self.writer, epoch_ns, reading.at_ns, with_uses),
            job: self.job,
            signals: self.signals,
            helper,
            main: Main { pid, pidfd, status: None, ended: None },
            others,
            snapshots,
            announcer: self.announcer,
            looks: Looks::new(memory_limit),
            oom,
            cpu_wait,
            opened: Opened::default(),
            begun: Instant::now(),
            live,
            told_of_leftovers: false,
            interrupted: false,
            is_short_of_cpu: false,
            rest: Rest::default(),
            is_concluding: false,
            written: HashSet::new(),
            settings: self.settings,
            summary: self.summary,
        };
        running.note_unknown();
        running.follow()
    }

    fn failed_to_start(mut self, error: SpawnError) -> anyhow::Result<Conclusion> {
        let status = error.exit_status();
        self.summary.job.ended = Some(Timestamp::now());
        self.summary.exit = Some(Exit {
            kind: ExitKind::FailedToStart,
            code: Some(i32::from(status)),
            signal: None,
            limit: None,
            error: Some(error.to_string()),
        });
        let reading = JobReading::default();
        let mut findings = Findings::default();
        let names: Vec<&str> = weigh_schema::METRICS.iter().map(|m| m.name).collect();
        findings.unavailable(&names, "the command was not executed");
        self.summary.metrics = weigh_account::metrics(&weigh_account::Measured {
            wall_seconds: 0.0,
            reading: &reading,
            source: weigh_schema::Mechanism::None,
            looks: &[],
            cores_peak: None,
            given: findings.given,
            notes: &[],
        });
        notice!("{error}");
        Ok(Conclusion {
            settings: self.settings,
            announcer: self.announcer,
            writer: self.writer,
            summary: self.summary,
            live: LiveLine::default(),
            quiet: true,
        })
    }
}

struct Main {
    pid: Pid,
    pidfd: OwnedFd,
    status: Option<ExitStatus>,
    ended: Option<Instant>,
}

/// A job that runs.
struct Running {
    settings: Settings,
    summary: Summary,
    job: Box<dyn Follow>,
    recorder: Recorder,
    signals: SignalReader,
    /// Who serves programs with libweigh.
    helper: Option<Helper>,
    main: Main,
    others: Vec<collectors::Started>,
    snapshots: Option<Snapshots>,
    announcer: Announcer,
    looks: Looks,
    oom: OomKills,
    cpu_wait: CpuWait,
    opened: Opened,
    limits: LimitLooks,
    enforcer: Enforcer,
    begun: Instant,
    live: LiveLine,
    told_of_leftovers: bool,
    interrupted: bool,
    /// Weigh's own CPU time is nearly used up.
    is_short_of_cpu: bool,
    rest: Rest,
    is_concluding: bool,
    /// Processes whose end was told of while what remained was read.
    written: HashSet<(u32, u64)>,
}

impl Running {
    fn follow(mut self) -> anyhow::Result<Conclusion> {
        let mut ticks = Ticks::new(&*self.job, self.settings.arguments.interval, self.begun);
        let mut next_look = self.begun;
        loop {
            let mut until = ticks.next();
            if !self.limits.watch.is_empty() {
                until = until.min(next_look);
            }
            let snapshots = self.snapshots.as_ref().and_then(Snapshots::next);
            let due = [self.enforcer.next(), self.looks.next(), self.job.next_look(), snapshots];
            let others = self.others.iter().map(|other| other.collector.next());
            for moment in due.into_iter().chain(others) {
                until = moment.map_or(until, |m| until.min(m));
            }
            self.wait(until)?;
            while let Some(signal) = self.signals.receive() {
                self.signal(signal);
            }
            self.reap()?;
            if self.is_short_of_cpu && self.may_rest() {
                self.rest()?;
                return self.conclude();
            }
            if let Some(helper) = &mut self.helper {
                helper.serve_if_asked();
            }
            self.events();
            for other in &mut self.others {
                other.collector.attend(&mut self.recorder);
            }
            self.notice_peaks();
            self.look_at_pages();
            self.take_snapshots(Snapshots::look_if_due)?;
            let now = Instant::now();
            if !self.limits.watch.is_empty() && now >= next_look {
                self.look_at_limits()?;
                let next = self.limits.watch.next_look().max(now.elapsed() * WAIT_PER_LOOK);
                next_look = Instant::now() + next;
            }
            self.enforcer.pursue(&mut *self.job)?;
            self.announce();
            if let Some(tick) = ticks.due(now) {
                let cost = ticks.begin_sample();
                self.sample(tick)?;
                ticks.sampled(now, cost);
            }
            if self.is_over() && self.may_end() {
                return self.conclude();
            }
            self.tell_of_leftovers();
        }
    }

    fn wait(&self, until: Instant) -> anyhow::Result<()> {
        let timeout = until.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        let wake = self.job.wake_fd();
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        fds.extend(wake.iter().map(|wake| PollFd::new(wake, PollFlags::IN)));
        let files = self.snapshots.as_ref().and_then(Snapshots::wake_fd);
        fds.extend(files.iter().map(|files| PollFd::new(files, PollFlags::IN)));
        let asked = self.helper.as_ref().and_then(Helper::wake_fd);
        fds.extend(asked.iter().map(|asked| PollFd::new(asked, PollFlags::IN)));
        if self.main.status.is_none() && !self.job.waits_for_children() {
            fds.push(PollFd::new(&self.main.pidfd, PollFlags::IN));
        }
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("waiting for events"),
        }
    }

    fn signal(&mut self, received: Received) {
        self.is_short_of_cpu |= received.is_cpu_notice();
        if self.main.status.is_some() {
            // The command is gone: this is for weigh, which waits for what was left over.
            self.interrupted |= received.is_ending();
        } else if received
            .is_for_command(|sender| self.job.living().iter().any(|p| p.pid == sender))
        {
            let _ = received.pass_on(self.main.pidfd.as_fd());
        }
    }

    fn reap(&mut self) -> anyhow::Result<()> {
        if self.job.is_last_look_due() && self.main.status.is_none() && self.main_has_ended() {
            // What is told of it is gone once it is waited for.
            self.job.last_look()?;
        }
        // Without BPF weigh adopts orphans of the job, and so has to wait for them.
        while let Some((pid, status)) = self.job.next_child().context("waiting for the command")? {
            if pid == self.main.pid {
                self.main_changed(status);
            }
        }
        Ok(())
    }

    fn main_has_ended(&self) -> bool {
        let mut fds = [PollFd::new(&self.main.pidfd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }

    fn main_changed(&mut self, status: ExitStatus) {
        let by = status.stopped_signal();
        if by.is_none() {
            command::has_ended(status);
            self.main.status = Some(status);
            self.main.ended = Some(Instant::now());
            if self.job.mechanism() != Mechanism::Bpf {
                // It may have been the last; whoever looks now and then should not find out later.
                let _ = self.job.read();
            }
            return;
        }
        // Stopped as a shell's job is: stop too, so that the shell has its terminal back.
        let job_control = JOB_CONTROL.map(Some).contains(&by);
        if job_control && !self.enforcer.is_holding() {
            signals::stop_self();
        }
    }

    fn events(&mut self) {
        for event in self.job.events() {
            match event {
                Event::Exec { pid, command, .. } => self.recorder.exec(pid, command),
                Event::ProcessEnd(process) => {
                    let now = process.ended_ns.unwrap_or(0);
                    self.recorder.process(&process, now);
                    self.oom.ended(&process);
                    self.opened.ended(process.pid, &mut *self.job, &mut self.recorder);
                    if !self.limits.watch.is_empty() {
                        self.limits.usage.ended(&process);
                    }
                    if self.is_concluding {
                        self.written.insert((process.pid, process.started_ns));
                    }
                }
                Event::Peak { at_ns, rss_sum, floor } => {
                    let spaces = self.job.glance().memory.spaces;
                    self.recorder.peak(at_ns, rss_sum, floor, spaces);
                    if self.settings.wants(Collector::Pages) {
                        self.looks.peak(rss_sum, floor);
                    }
                }
                Event::Limit(crossing) => {
                    if crossing.metric == "memory_peak_bytes" {
                        if crossing.held {
                            self.look_at_what_is_held();
                        }
                        self.looks.limit_is_crossed();
                    }
                    self.enforcer.crossed(crossing, &mut *self.job);
                }
                Event::Warning(crossing) => {
                    self.enforcer.warn(&crossing.metric, crossing.observed);
                    // From here on the kernel side looks at each page, of those who take any.
                    let _ = self.job.read();
                }
                Event::File { pid, path, key } => {
                    // What the exec of the command itself opens comes before it is known by PID.
                    let main = self.main.pid.as_raw_nonzero().get() as u32;
                    self.opened.first(if pid == 0 { main } else { pid }, key, path);
                }
                Event::Empty => {}
            }
        }
    }

    fn sample_others(&mut self, tick: Tick) -> Vec<(&'static str, f64)> {
        let living = || self.job.living().iter().map(|p| p.pid).collect();
        let others = self.others.iter_mut().map(|other| &mut other.collector);
        let others = others.filter(|o| tick == Tick::Window || !o.samples_windows_only());
        others.flat_map(|other| other.samples(&living)).collect()
    }

    /// What the follower does not know, or a collector knows better, is nothing in what is recorded of
    /// its readings: not 0.
    fn note_unknown(&mut self) {
        let notes = self.job.notes();
        let by_note = notes.iter().filter(|note| note.quality == Quality::Unavailable);
        let by_note = by_note.filter_map(|note| Some(weigh_schema::metric(&note.metric)?.name));
        let by_others =
            self.others.iter().flat_map(|other| other.collector.takes_over().iter().copied());
        self.recorder.set_unknown(by_note.chain(by_others).collect());
    }

    fn sample(&mut self, tick: Tick) -> anyhow::Result<()> {
        let mut reading = self.job.read()?;
        if let Some(ended) = self.job.ended_ns() {
            reading.at_ns = reading.at_ns.min(ended);
        }
        // What is not known changes only where another process may be lost.
        if tick == Tick::Window || self.job.reads_elsewhere() {
            self.note_unknown();
        }
        let more = self.sample_others(tick);
        for other in &mut self.others {
            other.collector.record(&mut self.recorder);
        }
        self.recorder.tick(&reading, more);
        if tick == Tick::Window {
            self.end_window(reading)?;
        }
        Ok(())
    }

    fn end_window(&mut self, reading: JobReading) -> anyhow::Result<()> {
        self.recorder.end_window();
        self.live.draw(&reading, &self.settings.limits, &*self.job);
        // Not every file system tells of what happens to a file.
        self.take_snapshots(Snapshots::look)
    }

    fn is_over(&self) -> bool {
        if self.main.status.is_none() {
            return false;
        }
        self.interrupted
            || self.settings.arguments.wait_for == WaitFor::Main && !self.enforcer.is_ending()
            || self.job.glance().population.processes == 0
    }

    /// Whether nobody needs weigh any more, or somebody interrupts.
    fn may_end(&mut self) -> bool {
        let mut all = self.others.iter_mut();
        self.interrupted || all.all(|other| other.collector.may_end())
    }

    fn tell_of_leftovers(&mut self) {
        let Some(ended) = self.main.ended else { return };
        if self.told_of_leftovers || ended.elapsed() < PATIENCE || self.settings.arguments.quiet {
            return;
        }
        self.told_of_leftovers = true;
        let living = self.job.living();
        let names: Vec<_> = living
            .iter()
            .take(3)
            .map(|p| format!("{} (PID {})", Printable(&p.name), p.pid))
            .collect();
        notice!(
            "the command has ended; waiting for {} of its descendants: {}{}. Ctrl-C stops waiting, not them (see --wait-for)",
            living.len(),
            names.join(", "),
            if living.len() > 3 { ", …" } else { "" }
        );
    }
}
