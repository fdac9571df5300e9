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
use std::os::fd::BorrowedFd;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jiff::Timestamp;
use rustix::process::Pid;
use weigh_account::{LimitWatch, Tick};
use weigh_collect::allowed::AllowedGroups;
use weigh_collect::follow::{Follow, Hold};
use weigh_collect::io::FollowIo;
use weigh_collect::spawn::{SpawnError, With};
use weigh_collect::{message, notice};
use weigh_keep::RecordingWriter;
use weigh_schema::event::{Event, JobReading};
use weigh_schema::limit::{Limit, OnLimit};
use weigh_schema::quality::Quality;
use weigh_schema::summary::{Exit, ExitKind, Summary};
use weigh_schema::update::Update;
use weigh_schema::{Mechanism, Printable};
use weigh_session::local_agent::Helper;
use weigh_session::products::io::mount::JobMount;
use weigh_session::{Command, CpuNotice, Launcher, Reaper, SessionEnd, Source, SourceError};

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
use limits::{LimitLooks, is_of_calls, tell_price_of_calls};

/// Looks for the sake of limits take up to a fifth of a CPU.
const WAIT_PER_LOOK: u32 = 4;

/// Limits of control groups are looked at so often.
const GROUPS_PACE: Duration = Duration::from_secs(10);

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
    groups: AllowedGroups,
    launcher: Launcher,
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
        let (allowed, groups) = weigh_collect::allowed::begin();
        let mut summary = facts::provisional(&settings, job.statuses(), allowed)?;
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
        let launcher = Launcher::prepare_with(!job.waits_for_children(), CpuNotice::Not)?;
        Ok(Session { settings, announcer, job, io, writer, summary, groups, launcher })
    }

    /// Runs the command to its end.
    pub fn run(mut self) -> anyhow::Result<Conclusion> {
        self.writer.append(&Update::Started(Box::new(self.summary.clone())));
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
        let pending = match self.launcher.spawn(words, &with) {
            Ok(pending) => pending,
            Err(error) => {
                return Ok(NotStarted(self.settings, self.announcer, self.writer, self.summary)
                    .conclude(&error));
            }
        };
        let waiting = &pending.waiting;
        let pid = waiting.pid;
        let number = pid.as_raw_nonzero().get() as u32;
        let snapshots = match self.settings.watched.is_empty() {
            true => None,
            false => Some(Snapshots::start(self.settings.watched.clone())),
        };
        let mount = match self.settings.mount.take().map(JobMount::new).transpose() {
            Ok(mount) => mount,
            Err(error) => {
                // It would run where its files are not.
                drop(pending);
                self.writer.discard();
                return Err(error);
            }
        };
        let mut own_folders = self.job.own_folders();
        own_folders.extend(helper.iter().map(|helper| helper.folder().to_path_buf()));
        let mut others = collectors::start(
            &self.settings,
            waiting,
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
            drop(pending);
            self.writer.discard();
            return Err(error.into());
        }
        others.iter_mut().for_each(|other| other.collector.begin());
        let (oom, cpu_wait) = (OomKills::begin(), CpuWait::begin(number));
        let command = match pending.go() {
            Ok(command) => command,
            Err(error) => {
                return Ok(NotStarted(self.settings, self.announcer, self.writer, self.summary)
                    .conclude(&error));
            }
        };
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
        let begun = Instant::now();
        let ticks = Ticks::new(&*self.job, self.settings.arguments.interval, begun);
        let mut running = Running {
            limits: LimitLooks::new(LimitWatch::new(watched.cloned())),
            enforcer: Enforcer::new(
                std::mem::take(&mut self.summary.limits),
                self.settings.on_limit,
                self.settings.grace,
            ),
            recorder: Recorder::new(self.writer, epoch_ns, reading.at_ns, with_uses),
            job: self.job,
            helper,
            pid: number,
            has_noted_end: false,
            others,
            snapshots,
            announcer: self.announcer,
            looks: Looks::new(memory_limit),
            oom,
            cpu_wait,
            opened: Opened::default(),
            ticks,
            next_look: begun,
            begun,
            live,
            told_of_leftovers: false,
            rest: Rest::default(),
            is_concluding: false,
            written: HashSet::new(),
            settings: self.settings,
            summary: self.summary,
            groups: self.groups,
            groups_looked_at: begun,
        };
        running.note_unknown();
        let mut session = weigh_session::Session::new(command, None);
        if session.run(&mut running)? == SessionEnd::CpuTime {
            running.rest(&mut session)?;
        }
        running.conclude(session)
    }
}

/// What there is of a run whose command could not be executed.
struct NotStarted(Settings, Announcer, RecordingWriter, Summary);

impl NotStarted {
    fn conclude(self, error: &SpawnError) -> Conclusion {
        let NotStarted(settings, announcer, writer, mut summary) = self;
        let status = error.exit_status();
        summary.job.ended = Some(Timestamp::now());
        summary.exit = Some(Exit {
            kind: ExitKind::FailedToStart,
            code: Some(i32::from(status)),
            signal: None,
            sender: None,
            limit: None,
            error: Some(error.to_string()),
        });
        let reading = JobReading::default();
        let mut findings = Findings::default();
        let names: Vec<&str> = weigh_schema::METRICS.iter().map(|m| m.name).collect();
        findings.unavailable(&names, "the command was not executed");
        summary.metrics = weigh_account::metrics(&weigh_account::Measured {
            wall_seconds: 0.0,
            reading: &reading,
            source: weigh_schema::Mechanism::None,
            looks: &[],
            cores_peak: None,
            given: findings.given,
            notes: &[],
        });
        notice!("{error}");
        Conclusion { settings, announcer, writer, summary, live: LiveLine::default(), quiet: true }
    }
}

/// A job that runs.
struct Running {
    settings: Settings,
    summary: Summary,
    groups: AllowedGroups,
    groups_looked_at: Instant,
    job: Box<dyn Follow>,
    recorder: Recorder,
    /// Who serves programs with libweigh.
    helper: Option<Helper>,
    /// The command.
    pid: u32,
    /// Whether it was taken note of that the command has ended.
    has_noted_end: bool,
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
    ticks: Ticks,
    next_look: Instant,
    live: LiveLine,
    told_of_leftovers: bool,
    rest: Rest,
    is_concluding: bool,
    /// Processes whose end was told of while what remained was read.
    written: HashSet<(u32, u64)>,
}

impl Source for Running {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let snapshots = self.snapshots.as_ref().and_then(Snapshots::wake_fd);
        let programs = self.helper.as_ref().and_then(Helper::wake_fd);
        [self.job.wake_fd(), snapshots, programs].into_iter().flatten().collect()
    }

    fn deadline(&self) -> Option<Instant> {
        let look = (!self.limits.watch.is_empty()).then_some(self.next_look);
        let snapshots = self.snapshots.as_ref().and_then(Snapshots::next);
        let due = [look, self.enforcer.next(), self.looks.next(), self.job.next_look(), snapshots];
        let others = self.others.iter().map(|other| other.collector.next());
        due.into_iter().chain(others).flatten().chain([self.ticks.next()]).min()
    }

    fn is_member(&self, pid: u32) -> bool {
        self.job.living().iter().any(|process| process.pid == pid)
    }

    /// Without BPF weigh adopts orphans of the job, and so has to wait for them.
    fn reaper(&mut self) -> Option<&mut dyn Reaper> {
        Some(self)
    }

    fn poll(&mut self, command: &mut Command) -> Result<(), SourceError> {
        self.note_end(command);
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
        if !self.limits.watch.is_empty() && now >= self.next_look {
            self.look_at_limits()?;
            let next = self.limits.watch.next_look().max(now.elapsed() * WAIT_PER_LOOK);
            self.next_look = Instant::now() + next;
        }
        self.enforcer.pursue(&mut *self.job)?;
        self.announce();
        if let Some(tick) = self.ticks.due(now) {
            let cost = self.ticks.begin_sample();
            self.sample(tick)?;
            self.ticks.sampled(now, cost);
        }
        Ok(())
    }

    fn is_over(&mut self, command: &Command) -> bool {
        let is_over = self.has_ended(command) && self.may_end(command);
        if !is_over {
            self.tell_of_leftovers(command);
        }
        is_over
    }

    /// An interrupt ends the wait for what the command has left over, which is over then.
    fn may_stop(&mut self, command: &mut Command, end: SessionEnd) -> bool {
        end == SessionEnd::CpuTime && self.may_rest(command)
    }
}

impl Reaper for Running {
    fn next_child(&mut self) -> Result<Option<(Pid, ExitStatus)>, SourceError> {
        Ok(self.job.next_child().context("waiting for the command")?)
    }

    fn looks_at_zombies(&self) -> bool {
        self.job.is_last_look_due()
    }

    fn look_at_zombie(&mut self) -> Result<(), SourceError> {
        Ok(self.job.last_look()?)
    }

    fn is_holding(&self) -> bool {
        self.enforcer.is_holding()
    }
}

impl Running {
    /// The command may have been the last: what looks now and then should not find out later.
    fn note_end(&mut self, command: &Command) {
        if command.status().is_some() && !self.has_noted_end {
            self.has_noted_end = true;
            if self.job.mechanism() != Mechanism::Bpf {
                let _ = self.job.read();
            }
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
                    self.opened.first(if pid == 0 { self.pid } else { pid }, key, path);
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
        if self.groups_looked_at.elapsed() >= GROUPS_PACE {
            self.look_at_groups(reading.at_ns);
        }
        // Not every file system tells of what happens to a file.
        self.take_snapshots(Snapshots::look)
    }

    /// Somebody may have changed what the job is allowed.
    fn look_at_groups(&mut self, at_ns: u64) {
        self.groups_looked_at = Instant::now();
        self.summary.allowed.changes.extend(self.groups.changes(at_ns as f64 * 1e-9));
    }

    fn has_ended(&self, command: &Command) -> bool {
        if command.status().is_none() {
            return false;
        }
        command.is_interrupted()
            || self.settings.arguments.wait_for == WaitFor::Main && !self.enforcer.is_ending()
            || self.job.glance().population.processes == 0
    }

    /// Whether nobody needs weigh any more, or somebody interrupts.
    fn may_end(&mut self, command: &Command) -> bool {
        let mut all = self.others.iter_mut();
        command.is_interrupted() || all.all(|other| other.collector.may_end())
    }

    fn tell_of_leftovers(&mut self, command: &Command) {
        let Some(ended) = command.ended() else { return };
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
