//! The mechanisms that may follow a job, the best first.
//!
//! Reads the settings and the table of mechanisms; refuses what one of them does not allow.

use anyhow::bail;
use weigh_collect::follow::RunningOffer;
use weigh_collect::job::KernelJob;
use weigh_collect::poll::PolledJob;
use weigh_collect::preload::PreloadedJob;
use weigh_collect::ptrace::TracedJob;
use weigh_schema::Mechanism;
use weigh_schema::following::{FOLLOWINGS, Following, Level};

use super::settings::{Collector, RunIoMechanism, RunSettings};

/// A mechanism, at a level.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    /// The mechanism.
    pub following: &'static Following,
    /// The level.
    pub level: Level,
    /// Whether it was asked for, and no other.
    pub is_asked_for: bool,
}

/// Whether a mechanism attaches to a process that runs already; else why not.
pub(super) fn running_offer(mechanism: Mechanism) -> RunningOffer {
    match mechanism {
        Mechanism::Bpf => KernelJob::RUNNING,
        Mechanism::Ptrace => TracedJob::RUNNING,
        Mechanism::Preload => PreloadedJob::RUNNING,
        _ => PolledJob::RUNNING,
    }
}

/// Those that were asked for; refuses a level that they do not have.
pub(super) fn candidates(
    settings: &RunSettings,
    mechanism: Option<Mechanism>,
) -> anyhow::Result<Vec<Candidate>> {
    let mechanism = follower(settings, mechanism)?;
    let is_asked_for = mechanism.is_some();
    let has = |following: &&Following| {
        settings.level.is_none_or(|level| following.levels.contains(&level))
    };
    let without_bpf = !settings.wants(Collector::Bpf);
    let mut candidates: Vec<Candidate> = FOLLOWINGS
        .iter()
        .filter(|following| mechanism.is_none_or(|mechanism| following.mechanism == mechanism))
        .filter(|following| is_asked_for || !without_bpf || following.mechanism != Mechanism::Bpf)
        .filter(has)
        .filter(|following| settings.pid.is_none() || running_offer(following.mechanism).is_ok())
        .map(|following| {
            let level = settings.level.unwrap_or(following.unasked);
            Candidate { following, level, is_asked_for }
        })
        .collect();
    let by_job = settings.io.as_ref().is_some_and(|io| io.mount.is_none());
    let lacks_files = |c: &Candidate| by_job && !c.following.tells_by_file(c.level);
    candidates.sort_by_key(|c| (c.following.is_dear_at(c.level), lacks_files(c)));
    if let (true, Some(level)) = (candidates.is_empty(), settings.level) {
        let able: Vec<_> = FOLLOWINGS.iter().filter(has).map(|f| f.name).collect();
        bail!(
            "--mechanism {} has no level {}; it can be had with {}",
            name(mechanism),
            level.number(),
            able.join(", ")
        );
    }
    check_filter(settings, &candidates)?;
    Ok(candidates)
}

/// What has to follow the job, if only one mechanism can.
fn follower(
    settings: &RunSettings,
    mechanism: Option<Mechanism>,
) -> anyhow::Result<Option<Mechanism>> {
    let Some(io) = &settings.io else { return Ok(mechanism) };
    let tracer = Mechanism::Ptrace;
    let by_tracer = io.mechanism.takes_tracer();
    if by_tracer && mechanism.is_some_and(|mechanism| mechanism != tracer) {
        bail!(
            "--io-mechanism {}: its tracer has to be the one who follows the job, for a process can have one only: \
             leave --mechanism {} out, or say --mechanism {tracer}",
            io.mechanism.name(),
            name(mechanism)
        );
    }
    if settings.seccomp && io.mechanism == RunIoMechanism::PreloadPtrace {
        bail!(
            "--seccomp: not with --io-mechanism preload+ptrace, for a filter could not be taken out of the programs \
             that the library counts in: --io-mechanism ptrace takes it"
        );
    }
    Ok(if by_tracer { Some(tracer) } else { mechanism })
}

/// A filter needs a tracer that was asked for, and sees calls.
fn check_filter(settings: &RunSettings, candidates: &[Candidate]) -> anyhow::Result<()> {
    let has_calls = |c: &Candidate| {
        c.following.mechanism == Mechanism::Ptrace
            && (settings.io.is_some() || c.level == Level::Interposition)
    };
    let can_filter = candidates.iter().all(|c| c.is_asked_for && has_calls(c));
    if settings.seccomp && !can_filter {
        bail!("--seccomp is for --mechanism ptrace, with --level 3 or --io, only");
    }
    Ok(())
}

/// The name of a mechanism, as in options.
pub(super) fn name(mechanism: Option<Mechanism>) -> &'static str {
    let following = mechanism.and_then(|m| FOLLOWINGS.iter().find(|f| f.mechanism == m));
    following.map_or("auto", |following| following.name)
}

/// Those that are left, without privileges, where the library has no place.
pub(super) fn without_library(settings: &RunSettings) -> anyhow::Result<Vec<Candidate>> {
    let mut left = candidates(settings, None)?;
    left.retain(|c| !matches!(c.following.mechanism, Mechanism::Bpf | Mechanism::Preload));
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::products::run::settings::tests::settings;

    /// Names and levels, the best first; else the refusal.
    fn listed(settings: &RunSettings, mechanism: Option<Mechanism>) -> String {
        let name = |c: &Candidate| format!("{}{}", c.following.name, c.level.number());
        match candidates(settings, mechanism) {
            Ok(candidates) => candidates.iter().map(name).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_best_that_may_be_comes_first() {
        use Mechanism::{Bpf, Proc, Ptrace};
        let plain = settings;
        let level = |level| RunSettings { level: Some(level), ..settings() };
        let joins = || RunSettings { pid: Some(7), ..settings() };
        let io = || settings().with_io(RunIoMechanism::Auto);
        let without_bpf = || RunSettings { without: vec![Collector::Bpf], ..settings() };
        for (settings, mechanism, expected) in [
            (plain(), None, "bpf3 ptrace2 preload3 poll1"),
            (plain(), Some(Ptrace), "ptrace2"),
            (without_bpf(), None, "ptrace2 preload3 poll1"),
            (without_bpf(), Some(Bpf), "bpf3"),
            (level(Level::Query), None, "poll1"),
            (level(Level::Notification), None, "bpf2 ptrace2 preload2"),
            (level(Level::Interposition), None, "bpf3 preload3 ptrace3"),
            (io(), None, "bpf3 preload3 ptrace2 poll1"),
            (joins(), None, "bpf3 ptrace2"),
            (joins(), Some(Ptrace), "ptrace2"),
            (RunSettings { pid: Some(7), ..without_bpf() }, None, "ptrace2"),
            (settings().with_io(RunIoMechanism::Ptrace), None, "ptrace2"),
            (
                level(Level::Query),
                Some(Ptrace),
                "--mechanism ptrace has no level 1; it can be had with poll",
            ),
            (
                level(Level::Interposition),
                Some(Proc),
                "--mechanism poll has no level 3; it can be had with bpf, ptrace, preload",
            ),
        ] {
            assert_eq!(listed(&settings, mechanism), expected, "{settings:?}");
        }
    }

    #[test]
    fn what_cannot_go_together_is_refused() {
        let beside = settings().with_io(RunIoMechanism::PreloadPtrace);
        assert!(listed(&beside, Some(Mechanism::Bpf)).contains("leave --mechanism bpf out"));
        let filtered = RunSettings { seccomp: true, ..beside };
        assert!(listed(&filtered, None).starts_with("--seccomp: not with"));
        let filtered = RunSettings { seccomp: true, ..settings() };
        assert!(listed(&filtered, Some(Mechanism::Ptrace)).starts_with("--seccomp is for"));
        let filtered = RunSettings { level: Some(Level::Interposition), ..filtered };
        assert_eq!(listed(&filtered, Some(Mechanism::Ptrace)), "ptrace3");
    }
}
