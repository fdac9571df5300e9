//! The source that follows a job, and its state.

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::Pid;
use weigh_account::Tick;
use weigh_collect::allowed::AllowedGroups;
use weigh_collect::follow::{JobMechanism, next_child};
use weigh_collect::notice;
use weigh_schema::event::{Event, JobReading};
use weigh_schema::summary::Summary;
use weigh_schema::{Mechanism, Printable, Quality, metric_name};

use super::cutoff::Cutoff;
use super::limits::LimitLooks;
use super::ticks::Ticks;
use crate::command::Command;
use crate::engine::{Session, SessionEnd};
use crate::error::SourceError;
use crate::local_agent::Helper;
use crate::products::run::collectors::ActiveCollector;
use crate::products::run::conventions::Tools;
use crate::products::run::cpu_wait::CpuWait;
use crate::products::run::enforce::Enforcer;
use crate::products::run::event_hook::EventHook;
use crate::products::run::oom::OomKills;
use crate::products::run::open_files::OpenFiles;
use crate::products::run::outcome::RunOutcome;
use crate::products::run::page_scan::PageScan;
use crate::products::run::recorder::Recorder;
use crate::products::run::regions::Regions;
use crate::products::run::settings::{Collector, RunSettings, WaitFor};
use crate::products::run::snapshots::Snapshots;
use crate::products::run::view::{RunState, RunView};
use crate::source::{Reaper, Source};

/// Looks for the sake of limits take up to a fifth of a CPU.
const WAIT_PER_LOOK: u32 = 4;

/// Limits of control groups are looked at so often.
const GROUPS_PACE: Duration = Duration::from_secs(10);

/// How long left-over processes may run before a line says that they are waited for.
const PATIENCE: Duration = Duration::from_millis(1500);

/// A job that runs.
pub(in crate::products::run) struct RunSource<'a> {
    pub settings: RunSettings,
    pub summary: Summary,
    pub groups: AllowedGroups,
    pub groups_looked_at: Instant,
    pub job: Box<dyn JobMechanism>,
    pub recorder: Recorder<'a>,
    pub view: &'a mut dyn RunView,
    /// What serves programs with libweigh.
    pub helper: Option<Helper>,
    /// The library for annotated programs, as long as the job may load it.
    pub _tools: Option<Tools>,
    /// What takes the profiles of programs that name regions.
    pub regions: Option<Regions>,
    /// The command.
    pub pid: u32,
    /// How a process that ran before weigh has ended, if that was seen.
    pub joined_status: Option<ExitStatus>,
    /// Whether it was taken note of that the command has ended.
    pub has_noted_end: bool,
    pub others: Vec<ActiveCollector>,
    pub snapshots: Option<Snapshots>,
    pub hook: EventHook,
    pub page_scan: PageScan,
    pub oom: OomKills,
    pub cpu_wait: CpuWait,
    pub open_files: OpenFiles,
    pub limits: LimitLooks,
    pub enforcer: Enforcer,
    pub begun: Instant,
    pub ticks: Ticks,
    pub next_look: Instant,
    pub told_of_leftovers: bool,
    pub cutoff: Cutoff,
    pub is_concluding: bool,
    /// Processes whose end was told of while what remained was read.
    pub written: HashSet<(u32, u64)>,
}

impl Source for RunSource<'_> {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let snapshots = self.snapshots.as_ref().and_then(Snapshots::wake_fd);
        let programs = self.helper.as_ref().and_then(Helper::wake_fd);
        let regions = self.regions.as_ref().map(Regions::wake_fd);
        let others = self.others.iter().flat_map(|other| other.collector.wakers());
        let own = [self.job.wake_fd(), snapshots, programs, regions].into_iter().flatten();
        own.chain(others).collect()
    }

    fn deadline(&self) -> Option<Instant> {
        let look = (!self.limits.watch.is_empty()).then_some(self.next_look);
        let snapshots = self.snapshots.as_ref().and_then(Snapshots::next);
        let due =
            [look, self.enforcer.next(), self.page_scan.next(), self.job.next_look(), snapshots];
        let others = self.others.iter().map(|other| other.collector.deadline());
        let regions = self.regions.as_ref().and_then(Regions::next);
        due.into_iter().chain(others).chain([regions]).flatten().chain([self.ticks.next()]).min()
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
        if let Some(regions) = &mut self.regions {
            let members = || self.job.living().iter().map(|p| p.pid).collect();
            let _ = regions.attend(&mut self.recorder, &members);
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
            self.ticks.sampled(now, cost, self.recorder.sink.is_watched());
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
        match end {
            SessionEnd::CpuTime => self.may_let_go(command),
            _ => self.may_leave_joined(),
        }
    }
}

impl Reaper for RunSource<'_> {
    fn next_child(&mut self) -> Result<Option<(Pid, ExitStatus)>, SourceError> {
        let changed = match self.job.children() {
            Some(children) => children.next_child(),
            None => next_child(),
        };
        Ok(changed.context("waiting for the command")?)
    }

    fn looks_at_zombies(&mut self) -> bool {
        self.job.zombie_reader().is_some()
    }

    fn look_at_zombie(&mut self) -> Result<(), SourceError> {
        let Some(reader) = self.job.zombie_reader() else { return Ok(()) };
        Ok(reader.read_zombie()?)
    }

    fn is_holding(&self) -> bool {
        self.enforcer.is_holding()
    }
}

impl RunSource<'_> {
    /// Follows the job to its end.
    pub(in crate::products::run) fn follow(
        mut self,
        mut session: Session,
    ) -> anyhow::Result<RunOutcome> {
        self.note_unknown();
        if session.run(&mut self)? == SessionEnd::CpuTime {
            self.let_go(&mut session)?;
        }
        self.conclude(session)
    }

    /// The command may have been the last: what looks now and then should not find out later.
    fn note_end(&mut self, command: &Command) {
        if command.status().is_some() && !self.has_noted_end {
            self.has_noted_end = true;
            if self.job.mechanism() != Mechanism::Bpf {
                let _ = self.job.read();
            }
        }
    }

    pub(super) fn events(&mut self) {
        for event in self.job.events() {
            match event {
                Event::Exec { pid, at_ns, command, .. } => {
                    if let Some(regions) = &mut self.regions {
                        regions.executes(pid, self.recorder.epoch(at_ns));
                    }
                    self.recorder.exec(pid, command);
                }
                Event::ProcessEnd(process) => {
                    let now = process.ended_ns.unwrap_or(0);
                    self.recorder.process(&process, now);
                    self.note_joined_end(&process);
                    self.oom.ended(&process);
                    self.open_files.ended(process.pid, &mut *self.job, &mut self.recorder);
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
                        self.page_scan.peak(rss_sum, floor);
                    }
                }
                Event::Limit(crossing) => {
                    if crossing.metric == metric_name::memory_peak_bytes {
                        if crossing.held {
                            self.look_at_what_is_held();
                        }
                        self.page_scan.limit_is_crossed();
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
                    self.open_files.first(if pid == 0 { self.pid } else { pid }, key, path);
                }
                Event::Empty => {}
            }
        }
    }

    pub(super) fn sample_others(&mut self, tick: Tick) -> Vec<(&'static str, f64)> {
        let living = || self.job.living().iter().map(|p| p.pid).collect();
        let samplers = self.others.iter_mut().filter_map(|other| other.collector.sampler());
        let due = samplers.filter(|sampler| tick == Tick::Window || !sampler.is_of_windows());
        due.flat_map(|sampler| sampler.samples(&living)).collect()
    }

    /// What the follower does not know, or a collector knows better, is nothing in what is recorded of
    /// its readings: not 0.
    pub(super) fn note_unknown(&mut self) {
        let notes = self.job.notes();
        let by_note = notes.iter().filter(|note| note.quality == Quality::Unavailable);
        let by_note = by_note.filter_map(|note| Some(weigh_schema::metric(&note.metric)?.name));
        let by_others =
            self.others.iter().flat_map(|other| other.collector.claim().metrics.iter().copied());
        self.recorder.set_unknown(by_note.chain(by_others).collect());
    }

    pub(super) fn sample(&mut self, tick: Tick) -> anyhow::Result<()> {
        let mut reading = self.job.read()?;
        if let Some(ended) = self.job.ended_ns() {
            reading.at_ns = reading.at_ns.min(ended);
        }
        // What is not known changes only where another process may be lost.
        if tick == Tick::Window || self.job.is_remote() {
            self.note_unknown();
        }
        let more = self.sample_others(tick);
        for other in &mut self.others {
            other.collector.record(&mut self.recorder);
        }
        if let Some(regions) = &mut self.regions {
            regions.record(&mut self.recorder);
        }
        self.recorder.tick(&reading, more);
        if tick == Tick::Window {
            self.end_window(reading)?;
        }
        Ok(())
    }

    pub(super) fn end_window(&mut self, reading: JobReading) -> anyhow::Result<()> {
        self.recorder.end_window();
        let living = || self.job.living().iter().map(|p| p.pid).collect();
        let (limits, living) = (&self.settings.limits[..], &living);
        self.view.draw(&RunState { reading: &reading, limits, living });
        if self.groups_looked_at.elapsed() >= GROUPS_PACE {
            self.look_at_groups(reading.at_ns);
        }
        // Not every file system tells of what happens to a file.
        self.take_snapshots(Snapshots::look)
    }

    /// Somebody may have changed what the job is allowed.
    pub(super) fn look_at_groups(&mut self, at_ns: u64) {
        self.groups_looked_at = Instant::now();
        self.summary.allowed.changes.extend(self.groups.changes(at_ns as f64 * 1e-9));
    }

    fn has_ended(&self, command: &Command) -> bool {
        if self.settings.pid.is_some() {
            return self.joined_has_ended();
        }
        if command.status().is_none() {
            return false;
        }
        command.is_interrupted()
            || self.settings.wait_for == WaitFor::Main && !self.enforcer.is_ending()
            || self.job.glance().population.processes == 0
    }

    /// Whether nobody needs weigh any more, or somebody interrupts.
    fn may_end(&mut self, command: &Command) -> bool {
        let mut rows = self.others.iter_mut().filter_map(|other| other.collector.file_rows());
        command.is_interrupted() || rows.all(|rows| rows.may_end())
    }

    fn tell_of_leftovers(&mut self, command: &Command) {
        let Some(ended) = command.ended() else { return };
        if self.told_of_leftovers || ended.elapsed() < PATIENCE || self.settings.is_quiet {
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
