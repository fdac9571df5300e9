//! `weigh top`: the node, the jobs of `weigh run` and of control groups, and the processes of a user, again and again.
//!
//! Reads the collectors of the node and `/proc`; emits a report per interval, and what rules say of it. It needs no agent
//! and no privileges.

mod detail;
mod job_cpu;
mod request;

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use weigh_account::node::NodeView;
use weigh_account::published::{self, MOST_PROGRAMS, MOST_SHOWN};
use weigh_account::rules::{self, RuleInput, RuleMoment, RuleSet, RuleState};
use weigh_collect::clock::Moment;
use weigh_collect::host;
use weigh_collect::node::{NodeCollectors, NodeGroup, NodeStatus};
use weigh_collect::process_list::{ProcessList, ProcessLook};
use weigh_collect::session_watch::{self, SessionWatch};
use weigh_schema::byte_text;
use weigh_schema::event::CollectorState;
use weigh_schema::node_metric::node_cpu_idle_seconds_total;
use weigh_schema::rule::RuleEvent;
use weigh_schema::sample::Sample;
use weigh_schema::top::{
    PublishedValue, TOP, TopCollector, TopJob, TopJobKind, TopProcess, TopProfile, TopReport,
};
use weigh_schema::top_detail::TopDetail;
use weigh_schema::update::Scope;

use super::groups::group_rows;
use super::node::{NodeSource, NodeTick, SampleSink};
use crate::command::Command;
use crate::error::SourceError;
use crate::source::Source;

use detail::DetailReader;
pub use detail::TopFocus;
use job_cpu::UsedCpu;
use request::{JobRequest, JobRequests};

/// Whose processes are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedProcesses {
    /// Nobody's: `/proc` is not gone through.
    Nobody,
    /// The user's.
    Own,
    /// All users'.
    Everybody,
}

impl ListedProcesses {
    /// Everybody's, or the user's own.
    pub fn of(everybody: bool) -> ListedProcesses {
        if everybody { ListedProcesses::Everybody } else { ListedProcesses::Own }
    }
}

/// What is looked at, and how often.
#[derive(Clone, Copy, Debug)]
pub struct TopSettings {
    /// Between two looks.
    pub interval: Duration,
    /// Whose processes are listed, and the jobs that they are of.
    pub listed: ListedProcesses,
}

/// Takes the samples of a tick into the view.
#[derive(Default)]
struct ViewSink {
    view: NodeView,
    at: Option<Moment>,
    before: Option<Moment>,
    /// Whether nobody looks at the view: then it has nothing.
    rests: bool,
}

/// Time after which a value that no collector emits any more is gone; the slowest reads each 5 s.
const LOOKS_KEPT: Duration = Duration::from_secs(6);

impl SampleSink for ViewSink {
    fn take(&mut self, tick: NodeTick<'_>) {
        if !self.rests {
            self.view.take(tick.at.ns(), tick.samples());
        }
        self.before = self.at.replace(tick.at);
    }
}

fn collector(status: &NodeStatus<'_>, now: Moment) -> TopCollector {
    let since = status.last.filter(|_| status.state != CollectorState::Active);
    TopCollector {
        name: status.name.to_string(),
        mechanism: status.mechanism,
        status: status.state,
        reason: status.reason.map(str::to_string),
        no_data_seconds: since.map(|last| now.ns().saturating_sub(last.ns()) as f64 * 1e-9),
        failures: status.failures,
    }
}

/// Makes reports, one per interval; over after so many, if that was asked for. They are judged by the shipped rules.
pub struct TopSource {
    node: NodeSource<ViewSink>,
    settings: TopSettings,
    processes: ProcessList,
    /// CPU time of each process at the look before, and when that was.
    before: HashMap<(u32, u64), UsedCpu>,
    looked_at: Option<Moment>,
    /// Whether there were sessions of `weigh run` at the latest look at processes.
    has_sessions: bool,
    sessions: SessionWatch,
    /// The user of each process at the latest look.
    owners: BTreeMap<u32, u32>,
    latest: Option<TopReport>,
    reports_left: Option<u32>,
    requests: JobRequests,
    rules: RuleState,
    /// What clients of an agent have published.
    published: Vec<PublishedValue>,
    profiles: Vec<TopProfile>,
    /// While nobody reads reports.
    next_unread_look: Instant,
    /// What rules have said since it was last taken; the oldest go.
    events: Vec<RuleEvent>,
    focus: TopFocus,
    details: DetailReader,
    latest_detail: Option<TopDetail>,
}

/// Between looks at jobs and at what is published, while nobody reads reports: rules about jobs take 5 s at least, and a
/// look goes through all processes. Not quite two seconds: ticks come a little early.
const UNREAD_LOOKS: Duration = Duration::from_millis(1950);
/// Events that wait to be taken.
const MOST_EVENTS: usize = 4096;

impl TopSource {
    /// It ends after `reports`, or never.
    pub fn new(settings: TopSettings, reports: Option<u32>) -> TopSource {
        // Before the time of the first tick is set: reading them takes a while.
        let rules = RuleState::new(RuleSet::shipped());
        let node =
            NodeSource::new(NodeCollectors::default(), settings.interval, ViewSink::default());
        TopSource {
            node,
            settings,
            processes: ProcessList::default(),
            before: HashMap::new(),
            looked_at: None,
            has_sessions: false,
            sessions: SessionWatch::new(),
            owners: BTreeMap::new(),
            latest: None,
            reports_left: reports,
            requests: JobRequests::default(),
            rules,
            published: Vec::new(),
            profiles: Vec::new(),
            next_unread_look: Instant::now(),
            events: Vec::new(),
            focus: TopFocus::default(),
            details: DetailReader::default(),
            latest_detail: None,
        }
    }

    /// Judges by these rules in place of the shipped ones, from the next look on.
    pub fn set_rules(&mut self, rules: RuleSet) {
        self.rules = RuleState::new(rules);
    }

    /// Shows these values and regions of programs; rules judge values of metrics that their file declares: nobody publishes in
    /// the place of weigh.
    pub fn set_published(&mut self, published: (Vec<PublishedValue>, Vec<TopProfile>)) {
        (self.published, self.profiles) = published;
    }

    /// What rules have said since this was asked last.
    pub fn take_events(&mut self) -> Vec<RuleEvent> {
        std::mem::take(&mut self.events)
    }

    /// Looks at a job or a process in detail, from the next look on.
    pub fn set_focus(&mut self, focus: TopFocus) {
        (self.focus, self.details) = (focus, DetailReader::default());
        self.latest_detail = None;
    }

    /// The detail of a report that has been taken: at once, without rates.
    pub fn look_in_detail(&mut self, report: &TopReport) -> Option<TopDetail> {
        self.details.look(self.focus, report)
    }

    /// The detail of the latest report, once; none where there is no such process any more.
    pub fn take_detail(&mut self) -> Option<TopDetail> {
        self.latest_detail.take()
    }

    /// The latest report, once.
    pub fn take_report(&mut self) -> Option<TopReport> {
        self.latest.take()
    }

    /// Lists all users' processes, or the user's own, from the next look on.
    pub fn list_everybody(&mut self, everybody: bool) {
        self.settings.listed = ListedProcesses::of(everybody);
    }

    /// Looks at another interval from now on.
    pub fn set_interval(&mut self, interval: Duration) {
        self.settings.interval = interval;
        self.node.set_interval(interval);
    }

    /// Whether it is time, and then looks: for callers without a session.
    pub fn tick_if_due(&mut self) -> bool {
        let is_due = self.node.tick_if_due();
        if is_due {
            self.latest = Some(self.report());
            self.reports_left = self.reports_left.map(|left| left.saturating_sub(1));
        }
        is_due
    }

    fn report(&mut self) -> TopReport {
        let collectors = self.collectors();
        let groups: Vec<NodeGroup> = self.node.groups().cloned().collect();
        self.forget_old_values();
        let sink = &self.node.sink;
        let interval = seconds_between(sink.before, sink.at);
        let (metrics, cores) = (sink.view.values(), sink.view.cores());
        let own = rustix::process::getuid().as_raw();
        let everybody = self.settings.listed == ListedProcesses::Everybody;
        // Weigh's sessions may be others': their processes are only shown with everybody's.
        let (looks, unreadable) = match self.settings.listed {
            ListedProcesses::Nobody => (Vec::new(), 0),
            _ => self.processes.look(&|uid| everybody || uid == own),
        };
        let (mut jobs, processes) = self.rows(&looks, cores.len());
        let time = Timestamp::now();
        self.judge(time, &jobs);
        let (mut published, published_left_out) = published::shown(&self.published, MOST_SHOWN);
        let (mut profiles, profiles_left_out) =
            published::shown_programs(&self.profiles, MOST_PROGRAMS);
        published::set_jobs((&mut published, &mut profiles), &jobs, &processes);
        jobs.extend(group_rows(&groups, &metrics, &looks, &processes));
        let report = TopReport {
            schema: TOP.to_string(),
            node: host::node(),
            time,
            interval_seconds: interval,
            user: (!everybody).then(host::current_user),
            metrics,
            cores,
            collectors,
            rules: self.rules.statuses(),
            jobs,
            processes,
            processes_left_out: 0,
            processes_unreadable: unreadable,
            published,
            published_left_out,
            profiles,
            profiles_left_out,
            busiest: None,
        };
        self.latest_detail = self.details.look(self.focus, &report);
        report
    }

    /// Judges the latest tick, once, and the jobs that were found at it.
    fn judge(&mut self, time: Timestamp, jobs: &[TopJob]) {
        let Some(at) = self.node.sink.at else { return };
        let moment = RuleMoment { ns: at.ns(), time };
        let is_judged = |value: &&PublishedValue| self.rules.declares(&value.metric);
        let published = self.published.iter().filter(is_judged).map(RuleInput::from);
        let published: Vec<RuleInput<'_>> = published.collect();
        let mut values = rules::job_inputs(jobs).chain(published);
        let events = self.rules.take_tick(moment, self.node.blocks(), &mut values);
        drop(values);
        self.keep_events(events);
    }

    fn keep_events(&mut self, events: Vec<RuleEvent>) {
        self.events.extend(events);
        let oldest = self.events.len().saturating_sub(MOST_EVENTS);
        self.events.drain(..oldest);
    }

    fn forget_old_values(&mut self) {
        let looks = LOOKS_KEPT.as_secs_f64() / self.settings.interval.as_secs_f64().max(0.001);
        self.node.sink.view.forget_older_than(looks.ceil() as u64);
    }

    fn rows(&mut self, looks: &[ProcessLook], node_cpus: usize) -> (Vec<TopJob>, Vec<TopProcess>) {
        let jobs = job_of_each(looks);
        // Processes may not have been looked at for many ticks.
        let at = self.node.sink.at;
        let interval = seconds_between(std::mem::replace(&mut self.looked_at, at), at);
        let before = std::mem::take(&mut self.before);
        let mut rows: Vec<TopProcess> = looks
            .iter()
            .map(|look| {
                let used = before.get(&look.identity()).map(|b| look.cpu_seconds - b.own);
                let cores = used.zip(interval).filter(|(_, interval)| *interval > 0.0);
                process(look, cores.map(|(used, interval)| used.max(0.0) / interval), &jobs)
            })
            .collect();
        let cores = job_cpu::job_cores(&before, looks, &jobs, interval);
        self.before =
            looks.iter().map(|look| (look.identity(), UsedCpu::of(look, &jobs))).collect();
        self.owners = looks.iter().map(|look| (look.stat.pid, look.uid)).collect();
        let by_use = |row: &TopProcess| (row.cpu_cores.unwrap_or_default(), row.cpu_seconds);
        rows.sort_by(|a, b| by_use(b).partial_cmp(&by_use(a)).unwrap_or(std::cmp::Ordering::Equal));
        let jobs = job_rows(&rows, looks, &cores, &mut |job| self.requests.find(job, node_cpus));
        self.requests.keep(|job| self.before.contains_key(job));
        self.has_sessions = !jobs.is_empty();
        (jobs, rows)
    }
}

impl Source for TopSource {
    fn deadline(&self) -> Option<Instant> {
        self.node.deadline()
    }

    fn poll(&mut self, _: &mut Command) -> Result<(), SourceError> {
        self.tick_if_due();
        Ok(())
    }

    fn is_over(&mut self, _: &Command) -> bool {
        self.reports_left == Some(0)
    }
}

/// For the agent, which makes a report only where somebody reads it.
impl TopSource {
    /// Reads the collectors if it is time: then there can be a [`TopSource::make_report`].
    pub fn read_if_due(&mut self) -> bool {
        self.node.tick_if_due()
    }

    /// What the latest tick has found, and the processes.
    pub fn make_report(&mut self) -> TopReport {
        self.report()
    }

    /// When the next tick is.
    pub fn next_tick(&self) -> Option<Instant> {
        self.node.deadline()
    }

    /// Reads a collector from now on, or not. Whether there is one of that name.
    pub fn switch_collector(&mut self, name: &str, is_on: bool) -> bool {
        self.node.collectors().switch(name, is_on)
    }

    /// How each collector fares.
    pub fn collectors(&self) -> Vec<TopCollector> {
        let now = Moment::now();
        self.node.statuses().map(|status| collector(&status, now)).collect()
    }

    /// Judges the latest tick where there is no report of it; what clients have published and jobs, now and then. Processes
    /// are looked at only if there are sessions.
    pub fn judge_unread(&mut self, published: impl FnOnce() -> Vec<PublishedValue>) {
        let now = Instant::now();
        if now >= self.next_unread_look {
            self.next_unread_look = now + UNREAD_LOOKS;
            self.published = published();
            let jobs = self.unread_jobs();
            return self.judge(Timestamp::now(), &jobs);
        }
        let Some(at) = self.node.sink.at else { return };
        let moment = RuleMoment { ns: at.ns(), time: Timestamp::now() };
        let events = self.rules.take_collected(moment, self.node.blocks());
        self.keep_events(events);
    }

    fn unread_jobs(&mut self) -> Vec<TopJob> {
        if !self.has_sessions && self.sessions.is_due(Instant::now()) {
            self.has_sessions = session_watch::is_there_any(&is_weigh_run);
        }
        if !self.has_sessions {
            self.before.clear();
            return Vec::new();
        }
        let (mut looks, _) = self.processes.look(&|_| true);
        let members = job_of_each(&looks);
        looks.retain(|look| members.contains_key(&look.stat.pid) || is_weigh_run(&look.command));
        let is_idle = |sample: &Sample<'_>| {
            matches!(sample.scope, Scope::Core(_))
                && std::ptr::eq(sample.metric, &node_cpu_idle_seconds_total)
        };
        let cpus = self.node.blocks().flat_map(|block| block.samples()).filter(is_idle).count();
        self.rows(&looks, cpus).0
    }

    /// Whether nobody looks at reports: from now on, or no more. Growth is known at the first one all the same.
    pub fn set_resting(&mut self, rests: bool) {
        if std::mem::replace(&mut self.node.sink.rests, rests) == rests {
            return;
        }
        self.node.collectors().set_resting(rests);
        let mut view = NodeView::default();
        for block in self.node.blocks().filter(|_| !rests) {
            let at_ns = block.last.map_or(0, Moment::ns);
            view.take_earlier(at_ns, block.samples());
        }
        self.node.sink.view = view;
    }

    /// The user of each process of the latest report.
    pub fn owners(&self) -> &BTreeMap<u32, u32> {
        &self.owners
    }
}

fn seconds_between(before: Option<Moment>, now: Option<Moment>) -> Option<f64> {
    let ns = now?.ns().saturating_sub(before?.ns());
    Some(Duration::from_nanos(ns).as_secs_f64())
}

/// Whether a command line is a session of `weigh run`.
fn is_weigh_run(command: &[String]) -> bool {
    let program = command.first().and_then(|word| word.rsplit('/').next());
    program == Some("weigh") && command.get(1).is_some_and(|verb| verb == "run")
}

/// The session of `weigh run` that each process descends from. One whose parent ended before it belongs to none that can
/// be found here.
fn job_of_each(looks: &[ProcessLook]) -> BTreeMap<u32, u32> {
    let parents: HashMap<u32, &ProcessLook> =
        looks.iter().map(|look| (look.stat.pid, look)).collect();
    let job = |look: &ProcessLook| {
        if is_weigh_run(&look.command) {
            return None;
        }
        let mut at = look;
        // A chain is no longer than there are processes.
        for _ in 0..looks.len() {
            let parent = parents.get(&at.stat.parent_pid);
            let is_session = is_weigh_run(&at.command) && at.stat.pid != look.stat.pid;
            // Helpers of weigh are forks of it, with its command line.
            if is_session && !parent.is_some_and(|parent| is_weigh_run(&parent.command)) {
                return Some(at.stat.pid);
            }
            at = parent?;
        }
        None
    };
    looks.iter().filter_map(|look| Some((look.stat.pid, job(look)?))).collect()
}

fn process(look: &ProcessLook, cpu_cores: Option<f64>, jobs: &BTreeMap<u32, u32>) -> TopProcess {
    TopProcess {
        pid: look.stat.pid,
        parent_pid: look.stat.parent_pid,
        user: look.user.clone(),
        name: byte_text::shown(&look.stat.name),
        name_base64: byte_text::base64(&look.stat.name),
        command: look.command.iter().map(|word| byte_text::shown(word)).collect(),
        command_base64: byte_text::base64_of_each(&look.command),
        state: look.stat.state.to_string(),
        threads: look.stat.threads,
        cpu_cores,
        cpu_seconds: look.cpu_seconds,
        memory_rss_bytes: look.rss_bytes,
        job: jobs.get(&look.stat.pid).copied(),
    }
}

fn job_rows(
    rows: &[TopProcess],
    looks: &[ProcessLook],
    cores: &HashMap<u32, f64>,
    request: &mut dyn FnMut((u32, u64)) -> JobRequest,
) -> Vec<TopJob> {
    let now = Timestamp::now().as_duration().as_secs_f64();
    let row = |weigh: &ProcessLook| {
        let asked = request(weigh.identity());
        let members: Vec<&TopProcess> =
            rows.iter().filter(|row| row.job == Some(weigh.stat.pid)).collect();
        TopJob {
            kind: TopJobKind::Weigh,
            group: None,
            pid: weigh.stat.pid,
            user: weigh.user.clone(),
            command: weigh.command.iter().map(|word| byte_text::shown(word)).collect(),
            command_base64: byte_text::base64_of_each(&weigh.command),
            processes: members.len() as u64,
            cpu_cores: cores.get(&weigh.stat.pid).copied(),
            memory_rss_sum_bytes: members.iter().map(|row| row.memory_rss_bytes).sum(),
            cpus_requested: asked.cpus,
            memory_limit_bytes: asked.memory_bytes,
            time_left_seconds: asked.ends_seconds.map(|end| end as f64 - now),
        }
    };
    // Helpers of weigh that are forks of it have its command line, and no process of the job.
    let is_session = |look: &&ProcessLook| {
        is_weigh_run(&look.command)
            && !looks.iter().any(|parent| {
                parent.stat.pid == look.stat.parent_pid && is_weigh_run(&parent.command)
            })
    };
    looks.iter().filter(is_session).map(row).collect()
}
