//! Who tells of a job's reads and writes: the best of the mechanisms that were asked for and work here.
//!
//! Emits one who is ready to follow; says on standard error why it is not a better one. Refuses if the
//! mechanism that the user named does not work.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::{Context as _, bail};
use weigh_agent::{RemoteError, RemoteIo};
use weigh_collect::follow::FollowError;
use weigh_collect::io::{
    Apart, BesideTracedIo, FileSystem, FollowIo, KernelIo, LibraryIo, Telling, TracedIo,
};
use weigh_collect::job::JobError;
use weigh_collect::notice;
use weigh_collect::preload::{PreloadError, why_blind_in};
use weigh_collect::ptrace::Stops;

use super::settings::{IoMechanism, IoSettings};

/// The library adds up in memory that it shares with weigh: there is no room in it for each call.
const ONLY_BPF: &str = "--calls: only --mechanism bpf and ptrace tell of each call";

/// It keeps one place for each file and process: threads that share a file share it.
const NO_THREADS: &str = "--by thread: only --mechanism bpf and ptrace tell threads apart";

/// The first that works.
pub fn open(settings: &IoSettings) -> anyhow::Result<Box<dyn FollowIo>> {
    let telling = if settings.each_call { Telling::Each } else { Telling::Sums };
    let apart = settings.apart;
    if settings.seccomp && settings.mechanism != IoMechanism::Ptrace {
        bail!("--seccomp is for --mechanism ptrace only: no other puts a filter into the job");
    }
    if settings.mechanism == IoMechanism::PreloadBpf {
        tell_bpf_instead("--mechanism", settings.is_quiet);
    }
    if let Some(folder) = &settings.mount {
        return by_file_system(settings.mechanism, folder, telling, apart);
    }
    match settings.mechanism {
        IoMechanism::Bpf | IoMechanism::PreloadBpf => Ok(by_kernel(telling, apart)?),
        IoMechanism::Preload if telling == Telling::Each => bail!(ONLY_BPF),
        IoMechanism::Preload if apart == Apart::Threads => bail!(NO_THREADS),
        IoMechanism::Preload => {
            by_library(settings).or_else(|error| by_tracer_instead((settings, "preload"), error))
        }
        IoMechanism::PreloadPtrace if telling == Telling::Each => bail!(ONLY_BPF),
        IoMechanism::PreloadPtrace if apart == Apart::Threads => bail!(NO_THREADS),
        IoMechanism::PreloadPtrace => {
            let command = started(settings)?;
            match BesideTracedIo::open(command) {
                Ok(both) => Ok(Box::new(both)),
                Err(error) => by_tracer_instead((settings, "preload+ptrace"), error.into()),
            }
        }
        IoMechanism::Ptrace => {
            // A filter stays where it is when weigh goes, as it does before it meets a limit of its CPU time.
            let is_filtered = settings.seccomp && weigh_collect::cpu_limit::limit().is_none();
            let stops = stops(is_filtered, settings.is_quiet);
            let traced = TracedIo::open(stops, telling, apart);
            Ok(Box::new(traced.context("--mechanism ptrace does not work here")?))
        }
        IoMechanism::Auto => match by_kernel(telling, apart) {
            Ok(kernel) => Ok(kernel),
            Err(error) if telling == Telling::Each => Err(error).context(ONLY_BPF),
            Err(error) if apart == Apart::Threads => Err(error).context(NO_THREADS),
            Err(error) if settings.command.is_empty() => Err(error.into()),
            Err(error) => without_kernel(settings, &error),
        },
    }
}

/// What stops under a tracer. A filter in the job has its harm told: it outlives weigh.
pub fn stops(is_filtered: bool, quiet: bool) -> Stops {
    if is_filtered && !quiet {
        notice!(
            "--seccomp leaves a filter in the job: if weigh is killed, its opens, reads and writes fail (ENOSYS)"
        );
    }
    if is_filtered { Stops::Filtered } else { Stops::All }
}

/// Once both counted in one job; the name is still taken.
pub fn tell_bpf_instead(option: &str, quiet: bool) {
    if !quiet {
        notice!("{option} preload+bpf: measured by bpf alone, which sees the same calls");
    }
}

/// By a library; where there is no room for what its programs share, by a tracer.
fn without_kernel(settings: &IoSettings, error: &FollowError) -> anyhow::Result<Box<dyn FollowIo>> {
    let no_library = match by_library(settings) {
        Ok(library) => {
            tell_choice(settings, "a library in the programs (preload)", error);
            return Ok(library);
        }
        Err(no_library) => no_library,
    };
    let traced = TracedIo::open(Stops::All, Telling::Sums, settings.apart)
        .with_context(|| format!("{error}; {no_library}"))?;
    tell_choice(settings, "a tracer (ptrace), whose price is told", error);
    Ok(Box::new(traced))
}

/// One line; with --all the reason, too.
fn tell_choice(settings: &IoSettings, by: &str, error: &FollowError) {
    if settings.is_quiet {
        return;
    }
    if settings.is_verbose {
        notice!("seen by {by}, not by the kernel: {error}");
    } else {
        notice!("seen by {by}, not by the kernel: `weigh doctor` says what is missing");
    }
}

/// Where the library that was asked for has no place for a limit that is meant for the job.
fn by_tracer_instead(
    (settings, name): (&IoSettings, &str),
    error: anyhow::Error,
) -> anyhow::Result<Box<dyn FollowIo>> {
    if PreloadError::of_file_size(&*error).is_none() {
        return Err(error.context(format!("--mechanism {name} does not work here")));
    }
    let traced = TracedIo::open(Stops::All, Telling::Sums, settings.apart)
        .with_context(|| format!("--mechanism {name} does not work here: {error}"))?;
    notice!(
        "--mechanism {name} does not work here: {error}; by ptrace instead, whose price is told"
    );
    Ok(Box::new(traced))
}

/// The kernel side alone sees everybody.
fn by_file_system(
    mechanism: IoMechanism,
    folder: &Path,
    telling: Telling,
    apart: Apart,
) -> anyhow::Result<Box<dyn FollowIo>> {
    if !matches!(mechanism, IoMechanism::Auto | IoMechanism::Bpf | IoMechanism::PreloadBpf) {
        bail!("--mount: only --mechanism bpf sees what others do");
    }
    let place = FileSystem::of(folder).context("--mount")?;
    let kernel = KernelIo::open_file_system(telling, apart, &place).context(
        "--mount takes root; without it `weigh io mount SOURCE MOUNTPOINT` sees what is done at MOUNTPOINT",
    )?;
    Ok(Box::new(kernel))
}

/// The kernel side: weigh's own, or, for who has no rights, the agent's.
pub fn by_kernel(telling: Telling, apart: Apart) -> Result<Box<dyn FollowIo>, FollowError> {
    let own = match KernelIo::open(telling, apart) {
        Ok(kernel) => return Ok(Box::new(kernel)),
        Err(own) => own,
    };
    match RemoteIo::open(&weigh_agent::socket(), telling, apart) {
        Ok(remote) => Ok(Box::new(remote)),
        Err(RemoteError::NoAgent(..)) => Err(own.into()),
        Err(remote) => Err(FollowError::Elsewhere(Box::new(Neither { own, remote }))),
    }
}

/// Why the kernel does not tell, and the agent neither.
#[derive(Debug, thiserror::Error)]
#[error("{own}; {remote}")]
struct Neither {
    own: JobError,
    remote: RemoteError,
}

/// Programs get the library when they begin.
fn started(settings: &IoSettings) -> anyhow::Result<&OsString> {
    settings.command.first().context(
        "a process that runs already takes --mechanism bpf or ptrace: programs get the library when they begin",
    )
}

fn by_library(settings: &IoSettings) -> anyhow::Result<Box<dyn FollowIo>> {
    let command = started(settings)?;
    tell_if_blind(command, "--mechanism", settings.is_quiet);
    Ok(Box::new(LibraryIo::open(command)?))
}

/// Says so if the library can not be in the command, and by which option it is seen.
pub fn tell_if_blind(command: &OsStr, option: &str, quiet: bool) {
    if let Some(why) = why_blind_in(command).filter(|_| !quiet) {
        notice!(
            "the library can not be in {}: {why}. {option} preload+ptrace sees such programs, too; a call takes \
             some 10 us more in them at least, and what that came to is told.",
            command.display()
        );
    }
}
