//! The thread that reads the node and serves the agent's streams, so that neither takes time from programs that wait.
//!
//! It wakes once per tick, and for clients. Processes are looked at only while somebody reads the stream of the node, or
//! there are sessions of `weigh run`, for the rules about jobs.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use weigh_account::rules::RuleSet;
use weigh_agent::{NodeControl, PageAccess, StreamDoor, StreamServer, StreamSettings, Visibility};
use weigh_collect::host::hides_processes;
use weigh_collect::{code_pages, free_memory, notice};
use weigh_schema::rule::pid_of_job;
use weigh_schema::update::Scope;

use super::profile_thread::ProfileThread;
use super::state_file::StateFile;
use crate::error::in_full;
use crate::products::rules::{CommandSettings, RuleCommands};
use crate::products::top::{ListedProcesses, TopSettings, TopSource};

/// It waits no longer for what does not come.
const PAUSE: Duration = Duration::from_secs(60);

/// What the node is judged by.
pub struct NodeRules {
    /// The rules.
    pub rules: RuleSet,
    /// Whether somebody else runs their commands.
    pub commands_are_apart: bool,
}

impl NodeRules {
    fn commands(&self) -> anyhow::Result<Option<RuleCommands>> {
        if self.commands_are_apart {
            return Ok(None);
        }
        RuleCommands::start(self.rules.rules(), CommandSettings::default())
            .context("cannot start a thread for the commands of rules")
    }
}

/// The thread; it ends when this is dropped.
pub struct NodeThread {
    /// The way to its streams.
    pub door: StreamDoor,
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// It ends first, and tells the streams what it knows then.
    profiles: Option<ProfileThread>,
}

impl NodeThread {
    /// Starts it; streams go on from a file, and are left there in the end. Errors: no descriptors or no threads are left;
    /// the file cannot be read.
    pub fn start(
        settings: StreamSettings,
        state: Option<&Path>,
        rules: NodeRules,
        page: Option<PageAccess>,
    ) -> anyhow::Result<NodeThread> {
        let interval = settings.interval;
        let commands = rules.commands()?;
        let (mut server, mut door) = StreamServer::new(settings).context("cannot serve streams")?;
        let profiles = server.profile_server(&mut door).context("cannot read profiles")?;
        let state = state.map(StateFile::new);
        page.into_iter().for_each(|page| server.set_page(page));
        restore(&mut server, state.as_ref())?;
        let is_ending = Arc::new(AtomicBool::new(false));
        let is_over = is_ending.clone();
        let thread = std::thread::Builder::new().name("node".into()).spawn(move || {
            let listed = ListedProcesses::Everybody;
            let mut top = TopSource::new(TopSettings { interval, listed }, None);
            top.set_rules(rules.rules);
            let mut node = NodeStreams { server, top, interval, commands, unread_ticks: 0 };
            allow_late_wakes(interval);
            while !is_over.load(Ordering::Relaxed) {
                if let Err(error) = node.turn() {
                    notice!("the node is served no more: {error}");
                    break;
                }
            }
            let left = state.map_or(Ok(()), |state| state.leave(&node.server.checkpoint()));
            if let Err(error) = left {
                notice!("the streams' records are lost: {}", in_full(&error));
            }
        });
        let thread = Some(thread.context("cannot start a thread for the node")?);
        let profiles = Some(ProfileThread::start(profiles, door.clone())?);
        Ok(NodeThread { door, is_ending, thread, profiles })
    }
}

impl Drop for NodeThread {
    fn drop(&mut self) {
        drop(self.profiles.take());
        self.is_ending.store(true, Ordering::Relaxed);
        self.door.wake();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Goes on from what an agent has left.
fn restore(server: &mut StreamServer, state: Option<&StateFile>) -> anyhow::Result<()> {
    let Some(bytes) = state.map(StateFile::take).transpose()?.flatten() else { return Ok(()) };
    // Whose processes they were is not known any more.
    let visibility = visibility(BTreeMap::new());
    let (_, missing) = server.restore(&bytes, &visibility);
    if missing > 0 {
        notice!("{missing} records of an earlier agent cannot be read");
    }
    Ok(())
}

/// Of what is another user's, as much as `/proc` shows, and never what was typed.
fn visibility(owners: BTreeMap<u32, u32>) -> Visibility {
    match hides_processes() {
        true => Visibility::Owners(owners),
        false => Visibility::OwnersInFull(owners),
    }
}

struct NodeStreams {
    server: StreamServer,
    top: TopSource,
    interval: Duration,
    commands: Option<RuleCommands>,
    /// Ticks since somebody last read the node.
    unread_ticks: u64,
}

/// By then a tick has used what each tick uses: the rest is given back.
const TICKS_TO_REST: u64 = 3;

impl NodeStreams {
    /// Serves clients, and reads the node if it is time.
    fn turn(&mut self) -> std::io::Result<()> {
        self.top.set_resting(!self.server.wants_node());
        if self.top.read_if_due() {
            self.write();
            self.write_events();
        }
        let until = self.top.next_tick().unwrap_or_else(|| Instant::now() + PAUSE);
        let top = &self.top;
        self.server.handle(until, &|| top.collectors())?;
        for control in self.server.take_controls() {
            self.control(&control);
        }
        let interval = self.server.interval();
        if std::mem::replace(&mut self.interval, interval) != interval {
            self.top.set_interval(interval);
            allow_late_wakes(interval);
        }
        Ok(())
    }

    fn write(&mut self) {
        if !self.server.wants_node() {
            self.top.judge_unread(|| self.server.published());
            self.server.skip_node();
            return self.rest();
        }
        self.unread_ticks = 0;
        self.top.set_published((self.server.published(), self.server.profiles()));
        let report = self.top.make_report();
        self.server.write_node(report, &visibility(self.top.owners().clone()));
    }

    /// What was needed for readers, or for the start, is given back.
    fn rest(&mut self) {
        self.unread_ticks += 1;
        if self.unread_ticks == TICKS_TO_REST {
            free_memory::release();
            code_pages::release();
        }
    }

    /// What rules have said; of jobs, where processes are hidden, to their commands alone.
    fn write_events(&mut self) {
        for event in self.top.take_events() {
            self.commands.iter().for_each(|commands| commands.take(&event));
            if !(is_of_job(&event.scope) && hides_processes()) {
                self.server.write_event(event);
            }
        }
    }

    fn control(&mut self, control: &NodeControl) {
        match control {
            NodeControl::Interval(interval) => {
                notice!("reads the node each {} s", interval.as_secs_f64());
            }
            NodeControl::Collector(switch) => {
                self.top.switch_collector(&switch.collector, switch.is_on);
                let state = if switch.is_on { "on" } else { "off" };
                notice!("the collector {} is {state}", switch.collector);
            }
        }
    }
}

/// Clients that wait for a time wait no longer than this for a wake with others.
const MOST_SLACK: Duration = Duration::from_millis(20);

/// Lets the kernel wake this thread up to a fiftieth of an interval late, together with others: a value has the time at which
/// it was read.
fn allow_late_wakes(interval: Duration) {
    let slack = (interval / 50).min(MOST_SLACK);
    let slack = u64::try_from(slack.as_nanos()).ok().and_then(NonZeroU64::new);
    // Without it the thread is woken on its own.
    let _ = rustix::thread::set_current_timer_slack(slack);
}

fn is_of_job(scope: &Scope) -> bool {
    pid_of_job(scope).is_some()
}
