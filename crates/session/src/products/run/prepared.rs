//! A run before its command is executed: settings are checked, then everything is opened that can be, then the command's
//! process is made, which waits until all is armed.
//!
//! Refuses what it can before the command is started; from then on nothing that goes wrong in weigh ends the command.

use std::collections::HashSet;
use std::time::Instant;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use weigh_account::LimitWatch;
use weigh_collect::allowed::AllowedGroups;
use weigh_collect::follow::{CommandSetup, JobMechanism};
use weigh_collect::io::RowScope;
use weigh_collect::spawn::{SpawnError, With};
use weigh_collect::{message, notice};
use weigh_schema::Mechanism;
use weigh_schema::event::JobReading;
use weigh_schema::following::FOLLOWINGS;
use weigh_schema::limit::Limit;
use weigh_schema::metric_name;
use weigh_schema::sink::Sink;
use weigh_schema::summary::{Exit, ExitKind, Summary};
use weigh_schema::update::Update;

use super::candidates::{self, Candidate, candidates};
use super::collectors::{self, ActiveCollector, Findings, OpenedCollectors, Subject};
use super::conventions::Tools;
use super::cpu_wait::{self, CpuWait};
use super::enforce::Enforcer;
use super::event_hook::EventHook;
use super::job_info;
use super::mechanism;
use super::oom::OomKills;
use super::open_files::OpenFiles;
use super::outcome::{RunFailure, RunOutcome};
use super::page_scan::PageScan;
use super::recorder::Recorder;
use super::regions::Regions;
use super::settings::{RunIoMechanism, RunSettings};
use super::snapshots::Snapshots;
use super::source::{
    Cutoff, LimitLooks, RunSource, Ticks, is_of_calls, tell_lower_bounds, tell_price_of_calls,
};
use super::view::RunView;
use crate::command::{Command, CpuNotice, Launcher, PendingCommand, must_run};
use crate::engine::Session;
use crate::local_agent::Helper;
use crate::products::io::mount::{JobMount, MountSpec};
use crate::unwritable::go_without;

/// A run whose settings have been checked.
pub struct RunPlan {
    settings: RunSettings,
    /// What may follow the job, the best first.
    candidates: Vec<Candidate>,
    /// What is to be mounted for the job.
    mount: Option<MountSpec>,
}

impl RunPlan {
    /// Refuses settings that cannot go together.
    pub fn new(settings: RunSettings) -> anyhow::Result<RunPlan> {
        if settings.duration.is_some() && settings.pid.is_none() {
            bail!("--for is for --pid only: a command is followed to its end");
        }
        check_running(&settings)?;
        let candidates = candidates(&settings, settings.mechanism)?;
        let folder = settings.io.as_ref().and_then(|io| io.mount.as_ref());
        let mount = folder.map(MountSpec::check).transpose()?;
        check_rows(&settings)?;
        Ok(RunPlan { settings, candidates, mount })
    }

    /// Opens everything that can be opened before the command runs.
    pub fn prepare(self, hook: EventHook) -> anyhow::Result<PreparedRun> {
        let RunPlan { mut settings, candidates, mount } = self;
        if let Some(pid) = settings.pid {
            must_run(pid)?;
            settings.command = job_info::command_of(pid);
        }
        let mut job = mechanism::open(&settings, &candidates)?;
        let opened = OpenedCollectors::open(&settings, &mut *job)?;
        let (allowed, groups) = match settings.pid {
            Some(pid) => weigh_collect::allowed::begin_of(pid),
            None => weigh_collect::allowed::begin(),
        };
        let mut summary = job_info::provisional(&settings, job.statuses(), allowed)?;
        summary.metrics = job_info::not_known(&job.notes());
        let marks = LimitWatch::marks(&settings.limits);
        let taken = match job.enforcement() {
            Some(enforcement) => enforcement.set_limits(&marks, settings.on_limit)?,
            None => Vec::new(),
        };
        for limit in summary.limits.iter_mut().filter(|l| taken.contains(&l.metric)) {
            limit.enforced_by = job.mechanism().to_string();
        }
        tell_price_of_calls(&taken, job.mechanism());
        tell_lower_bounds(&settings.limits, &mut *job);
        cpu_wait::tell_price(&*job);
        let waits_alone = job.children().is_some_and(|children| children.is_exclusive());
        let launcher = Launcher::prepare_with(!waits_alone, CpuNotice::Not)?;
        let run = OpenRun { settings, hook, job, summary, groups, tools: None };
        Ok(PreparedRun { run, mount, opened, launcher })
    }
}

/// Refuses a mechanism that was named and does not attach to a process that runs already.
fn check_running(settings: &RunSettings) -> anyhow::Result<()> {
    let (Some(_), Some(mechanism)) = (settings.pid, settings.mechanism) else { return Ok(()) };
    let name = |mechanism| candidates::name(Some(mechanism));
    if let Err(why) = candidates::running_offer(mechanism) {
        let able = FOLLOWINGS.iter().map(|following| following.mechanism);
        let able = able.filter(|able| candidates::running_offer(*able).is_ok()).map(name);
        let able = able.collect::<Vec<_>>().join(" and ");
        bail!("--pid: only --mechanism {able} attach to it: {} {why}", name(mechanism));
    }
    Ok(())
}

/// What a library in the job's programs cannot tell of reads and writes.
fn check_rows(settings: &RunSettings) -> anyhow::Result<()> {
    let Some(io) = settings.io.as_ref().filter(|io| io.mount.is_none()) else { return Ok(()) };
    let by_library = settings.mechanism == Some(Mechanism::Preload)
        || io.mechanism == RunIoMechanism::PreloadPtrace;
    if io.each_call && by_library {
        bail!("--io-calls: only --mechanism bpf and ptrace tell of each call");
    }
    if io.apart == RowScope::Threads && by_library {
        bail!("--io-by thread: only --mechanism bpf and ptrace tell threads apart");
    }
    Ok(())
}

/// What every run has from when all is open.
struct OpenRun {
    settings: RunSettings,
    hook: EventHook,
    job: Box<dyn JobMechanism>,
    summary: Summary,
    groups: AllowedGroups,
    /// The library for annotated programs: it stays as long as the job may load it.
    tools: Option<Tools>,
}

/// A run that is ready to start.
pub struct PreparedRun {
    run: OpenRun,
    mount: Option<MountSpec>,
    opened: OpenedCollectors,
    launcher: Launcher,
}

impl PreparedRun {
    /// Runs the command, or follows the process, to its end. What is recorded goes to `sink`, and `view` shows it
    /// meanwhile.
    pub fn run(
        self,
        sink: &mut dyn Sink,
        view: &mut dyn RunView,
    ) -> Result<RunOutcome, RunFailure> {
        sink.emit(&Update::Started(Box::new(self.run.summary.clone())));
        sink.flush();
        if let Some(error) = sink.error() {
            // Its place was found to be one: what fails is the medium.
            go_without(anyhow::anyhow!("{error}"))?;
        }
        let ended = |sink: &mut dyn Sink, outcome: RunOutcome| {
            sink.finish(&outcome.summary);
            outcome
        };
        // Kept to the end of the run.
        let _delays = collectors::turn_on_delays(self.run.settings.delays)?;
        let (armed, command) = match self.run.settings.pid {
            Some(pid) => self.join(pid)?,
            None => {
                let (armed, pending) = match self.arm()? {
                    Ok(armed) => armed,
                    Err(outcome) => return Ok(ended(sink, outcome)),
                };
                match pending.go() {
                    Ok(command) => (armed, command),
                    Err(error) => return Ok(ended(sink, not_started(armed.run, &error))),
                }
            }
        };
        let end = armed.run.settings.duration.map(|duration| Instant::now() + duration);
        let has_begun = |error| RunFailure { error, has_begun: true };
        let source = armed.begin(sink, view).map_err(has_begun)?;
        source.follow(Session::new(command, end)).map_err(has_begun)
    }

    /// Makes the command's process, and has everything follow it. If it could not be made: the outcome.
    fn arm(self) -> anyhow::Result<Result<(ArmedRun, PendingCommand), RunOutcome>> {
        let PreparedRun { mut run, mount, mut opened, launcher } = self;
        let CommandSetup { mut variables, mut own_folders, filter } = run.job.command_setup();
        let by_file = opened.io.as_mut().and_then(|io| io.attachment());
        variables.extend(by_file.iter().flat_map(|io| io.command_setup().variables));
        let helper = Helper::prepare(run.job.mechanism());
        variables.extend(helper.iter().map(Helper::variable));
        let directory = run.settings.directory.as_path();
        let tools = Tools::prepare(run.settings.conventions.as_ref(), directory);
        let hears_spans = tools
            .as_ref()
            .is_some_and(|t| t.add_variables(&run.settings.command[0], &mut variables));
        // Where there is no socket the job's programs are not told of one, and measure nothing.
        let mut regions = Regions::prepare(&run.settings.id, directory).ok();
        variables.extend(regions.iter().map(Regions::variable));
        if let Some(regions) = regions.as_mut().filter(|_| hears_spans) {
            match regions.listen_for_spans() {
                Ok(more) => variables.extend(more),
                Err(error) => notice!("--regions: otlp: {error}; it stands aside"),
            }
        }
        let group = collectors::make_group(&run.settings, &*run.job);
        let mount_over = mount.as_ref().map(MountSpec::mount_over).transpose()?.flatten();
        let with = With {
            variables: &variables,
            filter,
            mount_over: mount_over.as_ref(),
            group: group.as_ref().ok().and_then(|group| group.descriptor()),
        };
        let pending = match launcher.spawn(&run.settings.command, &with) {
            Ok(pending) => pending,
            Err(error @ SpawnError::Create { .. }) => return Err(error.into()),
            Err(error) => return Ok(Err(not_started(run, &error))),
        };
        let waiting = &pending.waiting;
        let pid = waiting.pid.as_raw_nonzero().get() as u32;
        let snapshots = snapshots(&run.settings);
        // If it fails the command would run where its files are not.
        let mount = mount.map(JobMount::new).transpose()?;
        own_folders.extend(helper.iter().map(|helper| helper.folder().to_path_buf()));
        own_folders.extend(tools.iter().map(Tools::folder));
        let others = collectors::start(
            &run.settings,
            Subject::Command(waiting),
            group,
            &mut *run.job,
            mount,
            opened,
            &own_folders,
        );
        // What was said stands before what the command writes.
        message::settle();
        run.job.arm(pid, waiting.pidfd())?;
        run.tools = tools;
        let armed = ArmedRun::new(run, pid, helper, snapshots, others);
        Ok(Ok((ArmedRun { regions, ..armed }, pending)))
    }

    /// Has everything follow a process that runs already.
    fn join(self, pid: u32) -> anyhow::Result<(ArmedRun, Command)> {
        let PreparedRun { mut run, opened, launcher, .. } = self;
        let snapshots = snapshots(&run.settings);
        let group = collectors::make_group(&run.settings, &*run.job);
        let subject = Subject::Process(pid);
        let others =
            collectors::start(&run.settings, subject, group, &mut *run.job, None, opened, &[]);
        let attached = run.job.running().and_then(|running| running.join(pid));
        attached.with_context(|| format!("--pid {pid}"))?;
        Ok((ArmedRun::new(run, pid, None, snapshots, others), launcher.stay()))
    }
}

fn snapshots(settings: &RunSettings) -> Option<Snapshots> {
    match settings.snapshots.is_empty() {
        true => None,
        false => Some(Snapshots::start(settings.snapshots.clone())),
    }
}

/// A run whose process is followed; a command has not executed anything.
struct ArmedRun {
    run: OpenRun,
    pid: u32,
    helper: Option<Helper>,
    regions: Option<Regions>,
    snapshots: Option<Snapshots>,
    others: Vec<ActiveCollector>,
    oom: OomKills,
    cpu_wait: CpuWait,
}

impl ArmedRun {
    fn new(
        run: OpenRun,
        pid: u32,
        helper: Option<Helper>,
        snapshots: Option<Snapshots>,
        mut others: Vec<ActiveCollector>,
    ) -> ArmedRun {
        others.iter_mut().for_each(|other| other.collector.begin());
        let (oom, cpu_wait) = (OomKills::begin(), CpuWait::begin(pid));
        ArmedRun { run, pid, helper, regions: None, snapshots, others, oom, cpu_wait }
    }

    /// The job has begun.
    fn begin<'a>(
        self,
        sink: &'a mut dyn Sink,
        view: &'a mut dyn RunView,
    ) -> anyhow::Result<RunSource<'a>> {
        let OpenRun { settings, mut hook, job, mut summary, groups, tools } = self.run;
        let started = Timestamp::now();
        hook.begins(started);
        let reading = job.glance();
        let epoch_ns = started.as_nanosecond() as i64 - reading.at_ns as i64;
        summary.job.started = Timestamp::from_nanosecond(i128::from(epoch_ns))?;
        let watch = LimitWatch::new(limits_to_look_at(&settings, &summary));
        let memory_limit =
            settings.limits.iter().find(|l| l.metric.name == metric_name::memory_peak_bytes);
        let page_scan = PageScan::new(memory_limit.map(|l| l.value as u64));
        let outcomes = std::mem::take(&mut summary.limits);
        let mut others = self.others;
        let with_uses = others.iter_mut().any(|other| other.collector.file_rows().is_some());
        let mut recorder = Recorder::new(sink, epoch_ns, reading.at_ns, with_uses);
        if let Some(pid) = settings.pid {
            recorder.exec(pid, job_info::words(&settings.command));
        }
        view.begin();
        let begun = Instant::now();
        Ok(RunSource {
            limits: LimitLooks::new(watch),
            enforcer: Enforcer::new(outcomes, settings.on_limit, settings.grace),
            recorder,
            view,
            ticks: Ticks::new(&*job, settings.interval, begun),
            job,
            helper: self.helper,
            _tools: tools,
            regions: self.regions,
            pid: self.pid,
            joined_status: None,
            has_noted_end: false,
            others,
            snapshots: self.snapshots,
            hook,
            page_scan,
            oom: self.oom,
            cpu_wait: self.cpu_wait,
            open_files: OpenFiles::default(),
            next_look: begun,
            begun,
            told_of_leftovers: false,
            cutoff: Cutoff::default(),
            is_concluding: false,
            written: HashSet::new(),
            settings,
            summary,
            groups,
            groups_looked_at: begun,
        })
    }
}

/// Those that the kernel does not hold by itself. A tracer does not see whom it had to let go: what it holds is looked
/// at as well.
fn limits_to_look_at(settings: &RunSettings, summary: &Summary) -> Vec<Limit> {
    let by_kernel = Mechanism::Bpf.to_string();
    let is_kernels = |limit: &&Limit| {
        summary.limits.iter().any(|l| {
            l.metric == limit.metric.name && l.enforced_by == by_kernel && !is_of_calls(&l.metric)
        })
    };
    settings.limits.iter().filter(|limit| !is_kernels(limit)).cloned().collect()
}

/// What there is of a run whose command could not be executed.
fn not_started(run: OpenRun, error: &SpawnError) -> RunOutcome {
    let OpenRun { hook, mut summary, .. } = run;
    summary.job.ended = Some(Timestamp::now());
    summary.exit = Some(Exit {
        kind: ExitKind::FailedToStart,
        code: Some(i32::from(error.exit_status())),
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
        source: Mechanism::None,
        looks: &[],
        cores_peak: None,
        given: findings.given,
        notes: &[],
    });
    notice!("{error}");
    RunOutcome { summary, calls: None, hook, has_begun: false }
}
