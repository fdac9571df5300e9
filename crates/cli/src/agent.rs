//! `weigh agent`: serves programs with libweigh, and users' `weigh run`, in the foreground, until it
//! is told to end.
//!
//! Reads requests at a socket, and the file of `--config`; emits what it does on standard error. Refuses to
//! start where that file is wrong, the kernel's programs do not load, somebody serves at that socket already, or
//! what its folder would lie in is not there.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weigh_agent::{PROGRAMS, Places, Server, Settings};
use weigh_collect::calls::{Attached, Counters, KernelCalls, Telling, Wanted};
use weigh_collect::{memory_reserve, notice};
use weigh_schema::call::Grouping;
use weigh_session::{Command, Launcher, Session, SessionEnd, Source, SourceError};

use crate::arguments::AgentArguments;
use crate::calls::parts::{Choice, Parts};

/// Serves until TERM or INT.
pub fn agent(arguments: &AgentArguments) -> anyhow::Result<ExitCode> {
    let launcher = Launcher::prepare()?;
    allow_descriptors();
    let parts = Parts::chosen(&Choice::of_agent(arguments))?;
    make_folder(&arguments.socket)?;
    let wanted = Wanted {
        subsystems: parts.built_in,
        grouping: Grouping::Call,
        sharing: arguments.share.into(),
        every_call: arguments.every_call,
        counters: Counters::all(),
    };
    let calls = KernelCalls::load_on_request(&wanted, Telling::PLAIN, &parts.functions)?;
    let programs = Places { of_a_user: arguments.per_user, ..PROGRAMS };
    let settings = Settings { programs, follows: true, ..Settings::default() };
    let mut server = Server::new(&arguments.socket, settings)?;
    memory_reserve::hold();
    server.leave_out(parts.left_out);
    notice!("serves at {}", arguments.socket.display());
    for attached in calls.attached() {
        tell_what_is_missing(attached);
    }
    tell_of_slow_functions(calls.functions_take());
    Session::new(launcher.stay(), None).run(&mut Programs { server, calls })?;
    Ok(ExitCode::SUCCESS)
}

/// The programs and jobs that are served.
struct Programs {
    server: Server,
    calls: KernelCalls,
}

impl Source for Programs {
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

/// Where the socket is to lie, as /run/weigh after a start of the machine. What that would lie in has to be there:
/// else it is a slip of the pen, and programs look for the agent elsewhere.
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
        made => made.with_context(|| format!("{} can not be made", refused())),
    }
}

fn tell_what_is_missing(attached: &Attached) {
    let how = if attached.probes > 0 { "is seen in part" } else { "can not be seen" };
    for missing in &attached.missing {
        notice!("{} {how}: {missing}", attached.subsystem);
    }
}

/// libweigh waits two seconds for an answer.
const LONG: Duration = Duration::from_secs(1);

fn tell_of_slow_functions(take: Duration) {
    if take >= LONG {
        notice!(
            "a part of the configuration takes {:.1} s to attach here, for it has so many functions; the first \
             program that wants it waits so long, and so do programs that want other parts meanwhile: fewer functions do better",
            take.as_secs_f64()
        );
    }
}

/// Each program takes four descriptors, and many a system allows 1,024 unless asked.
fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
