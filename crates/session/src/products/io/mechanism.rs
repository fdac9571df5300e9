//! Who tells of a job's reads and writes: the best of the mechanisms that were asked for and work here.
//!
//! Emits one who is ready to follow; says on standard error why it is not a better one. Refuses if the
//! mechanism that the user named does not work.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use weigh_agent::{RemoteError, RemoteIo};
use weigh_collect::follow::{FileMechanism, MechanismError};
use weigh_collect::io::{
    BesideTracedIo, FileSystem, KernelIo, LibraryIo, RowScope, Telling, TracedIo,
};
use weigh_collect::notice;
use weigh_collect::preload::why_blind_in;
use weigh_collect::ptrace::Stops;
use weigh_schema::Mechanism;

use super::settings::{IoMechanism, IoSettings};
use crate::choice::{Choice, Plan, Refusal, choose, is_kept_out, own_or_agent};

/// The library adds up in memory that it shares with weigh: there is no room in it for each call.
const ONLY_BPF: &str = "--calls: only --mechanism bpf and ptrace tell of each call";

/// It keeps one place for each file and process: threads that share a file share it.
const NO_THREADS: &str = "--by thread: only --mechanism bpf and ptrace tell threads apart";

/// Why no other than the kernel's side will do, if that is so: the library and what stands in for it have sums alone.
fn only_kernel(settings: &IoSettings) -> Option<&'static str> {
    match (settings.each_call, settings.apart) {
        (true, _) => Some(ONLY_BPF),
        (false, RowScope::Threads) => Some(NO_THREADS),
        (false, RowScope::Processes) => None,
    }
}

/// What may be tried; refuses what the mechanism that was named cannot do.
fn plan(settings: &IoSettings) -> anyhow::Result<Plan<Mechanism>> {
    use Mechanism::{Bpf, Preload, PreloadPtrace, Ptrace};
    let asked = settings.mechanism;
    if settings.seccomp && asked != IoMechanism::Ptrace {
        bail!("--seccomp is for --mechanism ptrace only: no other puts a filter into the job");
    }
    if settings.mount.is_some() {
        return match asked {
            IoMechanism::Auto | IoMechanism::Bpf | IoMechanism::PreloadBpf => Ok(Plan::only(Bpf)),
            _ => bail!("--mount: only --mechanism bpf sees what others do"),
        };
    }
    Ok(match (asked, only_kernel(settings)) {
        (IoMechanism::Bpf | IoMechanism::PreloadBpf, _) => Plan::only(Bpf),
        (IoMechanism::Ptrace, _) => Plan::only(Ptrace),
        (IoMechanism::Preload | IoMechanism::PreloadPtrace, Some(why)) => bail!(why),
        (IoMechanism::Preload, None) => Plan::only_or(Preload, [Ptrace]),
        (IoMechanism::PreloadPtrace, None) => {
            command(settings)?;
            Plan::only_or(PreloadPtrace, [Ptrace])
        }
        (IoMechanism::Auto, Some(_)) => Plan::only(Bpf),
        (IoMechanism::Auto, None) if settings.command.is_empty() => Plan::only(Bpf),
        (IoMechanism::Auto, None) => Plan::any_of([Bpf, Preload, Ptrace]),
    })
}

/// The first of the plan that works.
pub fn open(settings: &IoSettings) -> anyhow::Result<Box<dyn FileMechanism>> {
    let plan = plan(settings)?;
    if settings.mechanism == IoMechanism::PreloadBpf {
        tell_bpf_instead("--mechanism", settings.is_quiet);
    }
    let open = |mechanism, _: &[_]| open_one(settings, mechanism);
    match choose(&plan, open, is_kept_out) {
        Ok(choice) => {
            explain(settings, &choice);
            Ok(choice.opened)
        }
        Err(refusals) => Err(failure(settings, refusals)),
    }
}

fn open_one(settings: &IoSettings, mechanism: Mechanism) -> anyhow::Result<Box<dyn FileMechanism>> {
    let telling = if settings.each_call { Telling::Each } else { Telling::Sums };
    match (mechanism, &settings.mount) {
        (Mechanism::Bpf, Some(folder)) => by_file_system(folder, telling, settings.apart),
        (Mechanism::Bpf, None) => Ok(by_kernel(telling, settings.apart)?),
        (Mechanism::Preload, _) => by_library(settings),
        (Mechanism::PreloadPtrace, _) => Ok(Box::new(BesideTracedIo::open(command(settings)?)?)),
        _ => {
            // A filter stays where it is when weigh goes, as it does before it meets a limit of its CPU time.
            let is_filtered = settings.seccomp && weigh_collect::cpu_limit::limit().is_none();
            let stops = stops(is_filtered, settings.is_quiet);
            Ok(Box::new(TracedIo::open(stops, telling, settings.apart)?))
        }
    }
}

type IoRefusal = Refusal<Mechanism, anyhow::Error>;

/// Says why it is not a better one.
fn explain(
    settings: &IoSettings,
    choice: &Choice<Mechanism, Box<dyn FileMechanism>, anyhow::Error>,
) {
    let Some(Refusal { mechanism, error }) = choice.refusals.first() else { return };
    match (settings.mechanism, choice.mechanism) {
        (IoMechanism::Auto, Mechanism::Preload) => {
            tell_choice(settings, "a library in the programs (preload)", error);
        }
        (IoMechanism::Auto, _) => {
            tell_choice(settings, "a tracer (ptrace), whose price is told", error);
        }
        // There was no room for what was named.
        _ => notice!(
            "--mechanism {mechanism} does not work here: {error}; by ptrace instead, whose price is told"
        ),
    }
}

/// Why none works.
fn failure(settings: &IoSettings, mut refusals: Vec<IoRefusal>) -> anyhow::Error {
    let Some(last) = refusals.pop() else { return anyhow!("no mechanism works here") };
    let reasons: Vec<String> = refusals.iter().map(|refusal| refusal.error.to_string()).collect();
    let named = |mechanism| format!("--mechanism {mechanism} does not work here");
    match (settings.mechanism, refusals.first()) {
        (IoMechanism::Auto, Some(_)) => last.error.context(reasons.join("; ")),
        (IoMechanism::Auto, None) if settings.mount.is_none() => match only_kernel(settings) {
            Some(why) => last.error.context(why),
            None => last.error,
        },
        (IoMechanism::Auto | IoMechanism::Bpf | IoMechanism::PreloadBpf, _) => last.error,
        (_, None) => last.error.context(named(last.mechanism)),
        (_, Some(first)) => {
            last.error.context(format!("{}: {}", named(first.mechanism), reasons.join("; ")))
        }
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

/// One line; with --all the reason, too.
fn tell_choice(settings: &IoSettings, by: &str, error: &anyhow::Error) {
    if settings.is_quiet {
        return;
    }
    if settings.is_verbose {
        notice!("seen by {by}, not by the kernel: {error}");
    } else {
        notice!("seen by {by}, not by the kernel: `weigh doctor` says what is missing");
    }
}

/// The kernel side alone sees everybody.
fn by_file_system(
    folder: &Path,
    telling: Telling,
    apart: RowScope,
) -> anyhow::Result<Box<dyn FileMechanism>> {
    let place = FileSystem::of(folder).context("--mount")?;
    let kernel = KernelIo::open_file_system(telling, apart, &place).context(
        "--mount takes root; without it `weigh io mount SOURCE MOUNTPOINT` sees what is done at MOUNTPOINT",
    )?;
    Ok(Box::new(kernel))
}

/// The kernel side: weigh's own, or, without the rights for that, the agent's.
pub fn by_kernel(
    telling: Telling,
    apart: RowScope,
) -> Result<Box<dyn FileMechanism>, MechanismError> {
    let own = KernelIo::open(telling, apart).map(|own| Box::new(own) as Box<dyn FileMechanism>);
    let agent = || -> Result<Box<dyn FileMechanism>, RemoteError> {
        Ok(Box::new(RemoteIo::open(&weigh_agent::socket(), telling, apart)?))
    };
    Ok(own_or_agent(own, agent)?)
}

/// Programs get the library when they begin.
fn command(settings: &IoSettings) -> anyhow::Result<&OsString> {
    settings.command.first().context(
        "a process that runs already takes --mechanism bpf or ptrace: programs get the library when they begin",
    )
}

fn by_library(settings: &IoSettings) -> anyhow::Result<Box<dyn FileMechanism>> {
    let command = command(settings)?;
    tell_if_blind(command, "--mechanism", settings.is_quiet);
    Ok(Box::new(LibraryIo::open(command)?))
}

/// Says so if the library cannot be in the command, and by which option it is seen.
pub fn tell_if_blind(command: &OsStr, option: &str, quiet: bool) {
    if let Some(why) = why_blind_in(command).filter(|_| !quiet) {
        notice!(
            "the library cannot be in {}: {why}. {option} preload+ptrace sees such programs, too; a call takes \
             some 10 us more in them at least, and what that came to is told.",
            command.display()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(mechanism: IoMechanism) -> IoSettings {
        IoSettings {
            command: vec!["true".into()],
            pid: None,
            mount: None,
            mechanism,
            apart: RowScope::Processes,
            each_call: false,
            seccomp: false,
            duration: None,
            is_quiet: false,
            is_verbose: false,
        }
    }

    /// What is planned by each mechanism, if so much is wanted.
    fn planned(change: fn(&mut IoSettings)) -> [Result<Plan<Mechanism>, String>; 6] {
        use IoMechanism::*;
        [Auto, Bpf, PreloadBpf, Preload, PreloadPtrace, Ptrace].map(|mechanism| {
            let mut settings = settings(mechanism);
            change(&mut settings);
            plan(&settings).map_err(|error| error.to_string())
        })
    }

    #[test]
    fn what_is_tried_follows_from_what_is_asked_for() {
        use Mechanism::{Bpf, Preload, PreloadPtrace, Ptrace};
        let bpf = || Ok(Plan::only(Bpf));
        let ptrace = || Ok(Plan::only(Ptrace));
        let library = || Ok(Plan::only_or(Preload, [Ptrace]));
        let both = || Ok(Plan::only_or(PreloadPtrace, [Ptrace]));
        let any = || Ok(Plan::any_of([Bpf, Preload, Ptrace]));
        let no = |why: &str| Err(why.to_string());
        assert_eq!(planned(|_| ()), [any(), bpf(), bpf(), library(), both(), ptrace()]);
        assert_eq!(
            planned(|settings| settings.each_call = true),
            [bpf(), bpf(), bpf(), no(ONLY_BPF), no(ONLY_BPF), ptrace()]
        );
        assert_eq!(
            planned(|settings| settings.apart = RowScope::Threads),
            [bpf(), bpf(), bpf(), no(NO_THREADS), no(NO_THREADS), ptrace()]
        );
        let begun = "a process that runs already takes --mechanism bpf or ptrace: programs get the library when they \
                     begin";
        let join = |settings: &mut IoSettings| {
            (settings.command, settings.pid) = (Vec::new(), Some(7));
        };
        assert_eq!(planned(join), [bpf(), bpf(), bpf(), library(), no(begun), ptrace()]);
        let unseen = || no("--mount: only --mechanism bpf sees what others do");
        let mount = |settings: &mut IoSettings| settings.mount = Some("/".into());
        assert_eq!(planned(mount), [bpf(), bpf(), bpf(), unseen(), unseen(), unseen()]);
        let filter =
            || no("--seccomp is for --mechanism ptrace only: no other puts a filter into the job");
        assert_eq!(
            planned(|settings| settings.seccomp = true),
            [filter(), filter(), filter(), filter(), filter(), ptrace()]
        );
    }

    #[test]
    fn why_none_works_names_what_was_asked_for() {
        let refusals = |mechanisms: &[Mechanism]| {
            let refusal = |mechanism: &Mechanism| Refusal {
                mechanism: *mechanism,
                error: anyhow!("no {mechanism}"),
            };
            mechanisms.iter().map(refusal).collect::<Vec<_>>()
        };
        let said = |settings: &IoSettings, mechanisms: &[Mechanism]| {
            format!("{:#}", failure(settings, refusals(mechanisms)))
        };
        use Mechanism::{Bpf, Preload, PreloadPtrace, Ptrace};
        let of = |mechanism, mechanisms: &[Mechanism]| said(&settings(mechanism), mechanisms);
        assert_eq!(of(IoMechanism::Bpf, &[Bpf]), "no bpf");
        assert_eq!(
            of(IoMechanism::Ptrace, &[Ptrace]),
            "--mechanism ptrace does not work here: no ptrace"
        );
        assert_eq!(
            of(IoMechanism::Preload, &[Preload]),
            "--mechanism preload does not work here: no preload"
        );
        assert_eq!(
            of(IoMechanism::PreloadPtrace, &[PreloadPtrace, Ptrace]),
            "--mechanism preload+ptrace does not work here: no preload+ptrace: no ptrace"
        );
        assert_eq!(of(IoMechanism::Auto, &[Bpf, Preload, Ptrace]), "no bpf; no preload: no ptrace");
        let each = IoSettings { each_call: true, ..settings(IoMechanism::Auto) };
        assert_eq!(said(&each, &[Bpf]), format!("{ONLY_BPF}: no bpf"));
        let mount = IoSettings { mount: Some("/".into()), ..each };
        assert_eq!(said(&mount, &[Bpf]), "no bpf");
    }
}
