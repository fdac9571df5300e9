//! The agent: serves programs with libweigh, users' `weigh run`, and streams of what the node does, until it is told to
//! end. Where the kernel's programs do not load it serves the streams alone, and says why.
//!
//! Reads requests at a socket, and the file of a configuration; emits notices of what it does. Refuses to
//! start where that file is wrong, another agent serves at that socket already, or the parent of its folder is missing.

mod node_thread;
mod page_pem;
mod page_process;
mod page_settings;
mod profile_thread;
mod readiness;
mod state_file;

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weigh_account::rules::RuleSet;
use weigh_agent::{
    LeftOut, PROGRAMS, PageAccess, PlainServer, Server, Settings, SlotQuota, StreamDoor,
    StreamSettings,
};
use weigh_collect::calls::{Attached, CallsRequest, Counters, KernelCalls, Telling};
use weigh_collect::{code_pages, memory_reserve, message, notice, standing_threads};
use weigh_schema::call::{Grouping, Sharing};
use weigh_schema::printable::in_words;

use self::node_thread::{NodeRules, NodeThread};
use self::page_process::PageProcess;
use super::calls::parts::{Parts, PartsSettings};
use super::rules::read_trusted;
use crate::command::{Command, Launcher};
use crate::engine::Session;
use crate::error::SourceError;
use crate::source::{SessionEnd, Source};

pub use self::page_pem::PagePem;
pub use self::page_settings::{PageSettings, RenewedPem};

/// What programs do not wait for is done by as many at once: the kernel holds a thread that puts a page in its place, or
/// attaches, for ten milliseconds and more.
const THREADS: usize = 16;

/// What is served, to how many, and where.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// Where programs find it.
    pub socket: PathBuf,
    /// The parts of the kernel that programs may ask for, by their names; none: all.
    pub subsystems: Vec<String>,
    /// The file of a configuration of parts.
    pub config: Option<PathBuf>,
    /// The parts whose borders are probed by functions while programs want them.
    pub functions: Vec<String>,
    /// Whether every system call is followed.
    pub every_call: bool,
    /// How those who wrote to one page share what it costs to write it.
    pub sharing: Sharing,
    /// How many programs of a user, root apart, are served at once.
    pub programs_per_user: usize,
    /// How often the node is read.
    pub interval: Duration,
    /// Where streams are kept while no agent runs.
    pub state: Option<PathBuf>,
    /// Where datagrams of StatsD are taken.
    pub statsd: Option<SocketAddr>,
    /// Where metrics of OpenTelemetry are taken.
    pub otlp: Option<SocketAddr>,
    /// The page that is served of it.
    pub page: Option<PageSettings>,
    /// Whether a process apart runs the commands of rules.
    pub commands_are_apart: bool,
    /// A file of rules beside the shipped ones, or in their place.
    pub rules: Option<PathBuf>,
}

/// Serves until TERM or INT.
pub fn serve(settings: &AgentSettings) -> anyhow::Result<()> {
    let launcher = Launcher::prepare()?;
    let rules = settings.rules.as_deref().map_or_else(|| Ok(RuleSet::shipped()), read_trusted)?;
    raise_descriptor_limit();
    let mut parts = Parts::choose(&PartsSettings {
        names: &settings.subsystems,
        config: settings.config.as_deref(),
        // Those of an analysis are too many to come and go while programs wait: docs/subsystems.md says how long that takes.
        boundaries: None,
        config_owner: "the agent's configuration",
        by_functions: "for programs --functions or a --config can define such a part",
    })?;
    parts.add_listed(&settings.functions)?;
    make_folder(&settings.socket)?;
    let wanted = CallsRequest {
        subsystems: parts.built_in,
        grouping: Grouping::Call,
        sharing: settings.sharing,
        every_call: settings.every_call,
        counters: Counters::all(),
        by_part: true,
    };
    let loaded = KernelCalls::load_on_request(&wanted, Telling::PLAIN, &parts.functions);
    let why_no_jobs = loaded.as_ref().err().map(|error| in_words(error.to_string()));
    let (interval, statsd, otlp) = (settings.interval, settings.statsd, settings.otlp);
    let streams = StreamSettings { interval, why_no_jobs, statsd, otlp };
    let access = settings.page.as_ref().map(PageSettings::access);
    let rules = NodeRules { rules, commands_are_apart: settings.commands_are_apart };
    let node = NodeThread::start(streams, settings.state.as_deref(), rules, access.clone())?;
    let door = node.door.clone();
    match loaded {
        Ok(calls) => {
            let source = agent_source(settings, calls, parts.left_out, door)?;
            let _page = start_page(settings, access)?;
            serve_with(source, launcher)
        }
        Err(error) => serve_node_alone(settings, &error, (door, access), launcher),
    }
}

/// What functions at borders cost, before anybody wants them.
fn say_functions(wanted: &[String], calls: &KernelCalls) {
    for part in calls.attached().iter().filter(|part| wanted.contains(&part.subsystem)) {
        let Some(functions) = part.functions else { continue };
        let (name, cost) = (&part.subsystem, calls.functions_cost());
        let price = cost.map_or_else(
            || "what one costs could not be tried out".to_string(),
            |cost| {
                format!(
                    "each costs every process {:.2} µs a call, tried out here",
                    1e6 * cost.others_seconds
                )
            },
        );
        notice!(
            "--functions {name}: {} of {} functions, probed while a program wants them, after {:.2} s at most; {price}",
            functions.probed,
            functions.chosen,
            calls.functions_take().as_secs_f64()
        );
    }
}

/// When the agent listens at its socket.
fn start_page(
    settings: &AgentSettings,
    access: Option<PageAccess>,
) -> anyhow::Result<Option<PageProcess>> {
    let Some((page, access)) = settings.page.as_ref().zip(access) else { return Ok(None) };
    if page.origin_apart.is_some() {
        return Ok(None);
    }
    PageProcess::start(page, &settings.socket, access).map(Some)
}

fn agent_source(
    settings: &AgentSettings,
    calls: KernelCalls,
    left_out: LeftOut,
    door: StreamDoor,
) -> anyhow::Result<AgentSource> {
    let programs = SlotQuota { of_a_user: settings.programs_per_user, ..PROGRAMS };
    let serving = Settings { programs, follows: true, ..Settings::default() };
    let mut server = Server::new(&settings.socket, serving)?;
    message::stay();
    standing_threads::start(THREADS);
    server.leave_out(left_out);
    server.set_door(door);
    notice!("serves at {}", settings.socket.display());
    calls.attached().iter().for_each(say_missing_probes);
    say_functions(&settings.functions, &calls);
    say_slow_functions(calls.functions_take());
    Ok(AgentSource { server, calls })
}

fn serve_with(mut source: impl Source, launcher: Launcher) -> anyhow::Result<()> {
    // The thread that says it has begun.
    message::settle();
    memory_reserve::hold();
    readiness::tell();
    Session::new(launcher.stay(), None).run(&mut source)?;
    Ok(())
}

/// The kernel refuses, or the rights are missing: what needs neither is served.
fn serve_node_alone(
    settings: &AgentSettings,
    error: &dyn std::error::Error,
    (door, access): (StreamDoor, Option<PageAccess>),
    launcher: Launcher,
) -> anyhow::Result<()> {
    let why = in_words(error.to_string());
    let server = PlainServer::new(&settings.socket, door, format!("{NODE_ALONE}: {why}"))?;
    message::stay();
    notice!("serves at {}", settings.socket.display());
    notice!("{NODE_ALONE}, and programs with libweigh and jobs are turned away: {why}");
    // Nothing else has to be small where the kernel's programs are loaded.
    code_pages::release();
    let _page = start_page(settings, access)?;
    serve_with(PlainSource(server), launcher)
}

const NODE_ALONE: &str = "this agent serves the node alone";

/// The programs and jobs that are served.
struct AgentSource {
    server: Server,
    calls: KernelCalls,
}

impl Source for AgentSource {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.server.descriptor()]
    }

    fn poll(&mut self, _: &mut Command) -> Result<(), SourceError> {
        Ok(self.server.handle(&mut self.calls)?)
    }

    fn is_over(&mut self, _: &Command) -> bool {
        false
    }

    /// What is left of the CPU time is theirs.
    fn may_stop(&mut self, _: &mut Command, end: SessionEnd) -> bool {
        end != SessionEnd::CpuTime
    }
}

/// Nobody but clients of streams.
struct PlainSource(PlainServer);

impl Source for PlainSource {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.0.descriptor()]
    }

    fn poll(&mut self, _: &mut Command) -> Result<(), SourceError> {
        Ok(self.0.handle()?)
    }

    fn is_over(&mut self, _: &Command) -> bool {
        false
    }

    fn may_stop(&mut self, _: &mut Command, end: SessionEnd) -> bool {
        end != SessionEnd::CpuTime
    }
}

/// Makes the folder of the socket, as /run/weigh after a start of the machine. Its parent has to exist: else the path is
/// probably mistyped, and programs look for the agent elsewhere.
fn make_folder(socket: &Path) -> anyhow::Result<()> {
    let Some(folder) = socket.parent().filter(|f| !f.as_os_str().is_empty()) else { return Ok(()) };
    if folder.is_dir() {
        return Ok(());
    }
    let refused = || format!("--socket {}: the folder {}", socket.display(), folder.display());
    match std::fs::create_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("{} lies in one that is not there; at most the last one is made", refused())
        }
        made => made.with_context(|| format!("{} cannot be made", refused())),
    }
}

fn say_missing_probes(attached: &Attached) {
    let how = if attached.probes > 0 { "is seen in part" } else { "cannot be seen" };
    for missing in &attached.missing {
        notice!("{} {how}: {missing}", attached.subsystem);
    }
}

/// libweigh waits two seconds for an answer.
const LONG: Duration = Duration::from_secs(1);

fn say_slow_functions(take: Duration) {
    if take >= LONG {
        notice!(
            "a part of the configuration takes {:.1} s to attach here, for it has so many functions; the first \
             program that wants it waits so long, and so do programs that want other parts meanwhile: fewer functions do better",
            take.as_secs_f64()
        );
    }
}

/// Each program takes four descriptors, and the default limit is often 1,024.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
