//! The side of `weigh control`: finds the `weigh run` that holds a process or a job, hands requests over, and sees whether
//! the programs take them.
//!
//! Reads the abstract addresses in `/proc/net/unix`; speaks with runs of this user, or as root with all. What a run
//! answers is held to its bounds: it may be another user's.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};
use rustix::process::geteuid;
use weigh_schema::control::{
    ADDRESS_PREFIX, ControlAnswer, ControlAsk, ControlRequest, ControlTarget, ControlledProcess,
    MOST_BYTES,
};

/// For an answer of a run: it may be stopped.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is asked how far the programs have come.
const PACE: Duration = Duration::from_millis(10);
/// No line of the list is longer that is read.
const SOCKETS: &str = "/proc/net/unix";

/// What became of the requests in one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlOutcome {
    /// The program has taken them.
    Taken,
    /// It has not yet.
    Waiting,
    /// It has ended, and was not seen to take them before.
    Ended,
    /// They were not sent, or not all.
    Refused(String),
}

/// What came of asking.
#[derive(Debug)]
pub struct Controlled {
    /// Each process, as it was last.
    pub processes: Vec<(ControlledProcess, ControlOutcome)>,
    /// How long that took.
    pub took: Duration,
}

/// Sends requests, and waits at most so long for the programs to take them.
///
/// # Errors
/// If nothing was sent: no run has the target, it is another user's, or no program of it names regions.
pub fn control(
    target: &ControlTarget,
    requests: Vec<ControlRequest>,
    wait: Duration,
) -> anyhow::Result<Controlled> {
    let begun = Instant::now();
    let is_question = requests.is_empty();
    let (run, states) = find(&ControlAsk { target: target.clone(), requests })?;
    if states.is_empty() {
        bail!("no program of the job names regions now: nothing can be sent to it");
    }
    let sent: Vec<ControlledProcess> = states.clone();
    let ask = ControlAsk { target: target.clone(), requests: Vec::new() };
    let mut processes = outcomes(&sent, &states);
    while !is_question && is_waiting(&processes) && begun.elapsed() < wait {
        std::thread::sleep(PACE.min(wait.saturating_sub(begun.elapsed())));
        // A run that has ended has read its programs to their end.
        let states = match run.ask(&ask) {
            Ok(ControlAnswer::Processes(states)) => states,
            _ => Vec::new(),
        };
        processes = outcomes(&sent, &states);
    }
    Ok(Controlled { processes, took: begun.elapsed() })
}

fn is_waiting(processes: &[(ControlledProcess, ControlOutcome)]) -> bool {
    processes.iter().any(|(_, outcome)| *outcome == ControlOutcome::Waiting)
}

/// What became of what was sent.
fn outcomes(
    sent: &[ControlledProcess],
    states: &[ControlledProcess],
) -> Vec<(ControlledProcess, ControlOutcome)> {
    let outcome = |sent: &ControlledProcess| {
        let state = states.iter().find(|state| state.pid == sent.pid);
        let outcome = match (&sent.refused, state) {
            (Some(why), _) => ControlOutcome::Refused(why.clone()),
            (None, None) => ControlOutcome::Ended,
            (None, Some(state)) if state.taken >= sent.sent => ControlOutcome::Taken,
            (None, Some(_)) => ControlOutcome::Waiting,
        };
        (state.unwrap_or(sent).clone(), outcome)
    };
    sent.iter().map(outcome).collect()
}

/// The run that has the target, and how its processes stand after it was asked.
fn find(ask: &ControlAsk) -> anyhow::Result<(RunConnection, Vec<ControlledProcess>)> {
    let (mut refused, mut silent) = (None, None);
    for address in addresses()? {
        let Some(run) = RunConnection::open(&address) else { continue };
        match run.ask(ask) {
            Ok(ControlAnswer::Processes(states)) => return Ok((run, states)),
            Ok(ControlAnswer::NotHere) => {}
            Ok(ControlAnswer::Refused(why)) => refused = Some(why),
            Err(error) => silent = Some(error),
        }
    }
    if let Some(why) = refused {
        bail!("{why}");
    }
    let error = anyhow::anyhow!("{}", why_not_found(&ask.target));
    Err(match silent {
        Some(silent) => error.context(format!("a `weigh run` did not answer ({silent:#})")),
        None => error,
    })
}

fn addresses() -> anyhow::Result<Vec<String>> {
    let list = std::fs::read(SOCKETS).with_context(|| format!("reading {SOCKETS}"))?;
    let list = String::from_utf8_lossy(&list);
    let names = list.lines().filter_map(|line| Some(line.rsplit_once(" @")?.1));
    let mut names: Vec<String> =
        names.filter(|name| name.starts_with(ADDRESS_PREFIX)).map(str::to_string).collect();
    // Each connection has a line with its address, too.
    names.sort();
    names.dedup();
    Ok(names)
}

fn why_not_found(target: &ControlTarget) -> String {
    match target {
        ControlTarget::Pid(pid) => match std::fs::metadata(format!("/proc/{pid}")) {
            Err(_) => format!("there is no process {pid}"),
            Ok(process) if is_others(&process) => {
                format!("process {pid} is another user's: only root and its own user may ask")
            }
            Ok(_) => format!(
                "process {pid} names no regions to a `weigh run`: start it under `weigh run`, and have it use \
                 weigh_region.h (docs/regions-api.md)"
            ),
        },
        ControlTarget::Job(id) => format!("no `weigh run` of this user has a job of the name {id}"),
        ControlTarget::Directory(path) => match std::fs::metadata(Path::new(path)) {
            Ok(directory) if is_others(&directory) => format!("{path}: another user's recording"),
            _ => format!("{path}: no `weigh run` records there now"),
        },
    }
}

fn is_others(file: &std::fs::Metadata) -> bool {
    !geteuid().is_root() && file.uid() != geteuid().as_raw()
}

/// A run that is asked.
struct RunConnection {
    connection: OwnedFd,
}

impl RunConnection {
    /// None if nobody is there, or another user.
    fn open(address: &str) -> Option<RunConnection> {
        let kind = SocketType::SEQPACKET;
        let connection = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).ok()?;
        for which in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&connection, which, Some(PATIENCE)).ok()?;
        }
        let name = SocketAddrUnix::new_abstract_name(address.as_bytes()).ok()?;
        connect(&connection, &name).ok()?;
        let peer = socket_peercred(&connection).ok()?;
        let is_own = geteuid().is_root() || peer.uid.is_root() || peer.uid == geteuid();
        is_own.then_some(RunConnection { connection })
    }

    fn ask(&self, ask: &ControlAsk) -> anyhow::Result<ControlAnswer> {
        let bytes = serde_json::to_vec(ask)?;
        send(&self.connection, &bytes, SendFlags::NOSIGNAL)?;
        let mut buffer = vec![0; MOST_BYTES];
        let (_, length) = recv(&self.connection, &mut buffer[..], RecvFlags::empty())?;
        Ok(serde_json::from_slice(&buffer[..length])?)
    }
}
