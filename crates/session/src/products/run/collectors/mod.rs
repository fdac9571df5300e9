//! The collectors beside the BPF programs, each behind the same small interface.
//!
//! To add one: a file here, and a line in [`SPECS`].

mod cgroup;
mod collector;
mod delays;
mod files;
mod footprint;
mod gpu;
mod hardware;
mod io;
mod pressure;
mod space;
mod syscalls;
mod written;

use std::path::PathBuf;

use weigh_collect::cgroup::JobCgroup;
use weigh_collect::collectors;
use weigh_collect::follow::{FileMechanism, JobMechanism};
use weigh_schema::availability::CollectorInfo;
use weigh_schema::event::CollectorState;
use weigh_schema::recording::RECORDING;

use collector::{CollectorSource, CollectorSpec, MissingCollector, StartContext};

pub(super) use cgroup::make as make_group;
pub(super) use collector::{ActiveCollector, Findings, Subject};
pub(super) use delays::turn_on as turn_on_delays;

use super::settings::RunSettings;
use super::{regions, snapshots};
use crate::products::calls::JobCalls;
use crate::products::io::mount::JobMount;

/// All collectors of a run and what they are for. `weigh doctor` walks this list.
pub(crate) fn infos() -> impl Iterator<Item = CollectorInfo> {
    let own = [pressure::INFO, regions::INFO, snapshots::INFO, RECORDING, weigh_mount::INFO];
    collectors::COLLECTORS.iter().copied().chain(own)
}

const SPECS: &[CollectorSpec] =
    &[hardware::SPEC, footprint::SPEC, files::SPEC, cgroup::SPEC, delays::SPEC, gpu::SPEC];

/// What is opened before the command's process is made.
pub(super) struct OpenedCollectors {
    /// What tells of reads and writes, where it was asked for by name.
    pub io: Option<Box<dyn FileMechanism>>,
    /// What follows system calls.
    calls: Option<JobCalls>,
}

impl OpenedCollectors {
    /// Refuses what was asked for and does not work here.
    pub fn open(
        settings: &RunSettings,
        follower: &mut dyn JobMechanism,
    ) -> anyhow::Result<OpenedCollectors> {
        Ok(OpenedCollectors { io: io::open(settings, follower)?, calls: syscalls::open(settings)? })
    }
}

/// Starts all collectors on a job. `own_folders` are those that weigh has made.
pub(super) fn start(
    settings: &RunSettings,
    subject: Subject<'_>,
    group: Result<JobCgroup, String>,
    follower: &mut dyn JobMechanism,
    mount: Option<JobMount>,
    opened: OpenedCollectors,
    own_folders: &[PathBuf],
) -> Vec<ActiveCollector> {
    let (waiting, is_in_group) = match subject {
        Subject::Command(waiting) => (Some(waiting), waiting.is_in_group),
        Subject::Process(_) => (None, false),
    };
    let (pid, runs_already, group) = (subject.pid(), waiting.is_none(), Some((group, is_in_group)));
    let counts_writes = opened.calls.as_ref().is_some_and(JobCalls::counts_writes);
    let written = waiting.filter(|_| settings.written && !counts_writes).map(written::start);
    let by_file = settings.io.as_ref().map(|wanted| match mount {
        Some(mount) => io::start_at(mount),
        None => io::start((settings, wanted), subject, follower, opened.io),
    });
    let calls = opened.calls.map(|calls| syscalls::start(calls, settings, subject));
    let asked_for = written.into_iter().chain(by_file).chain(calls);
    let mut start = StartContext { settings, pid, runs_already, group, follower, own_folders };
    let listed = SPECS
        .iter()
        .map(|spec| {
            let absent = |state, reason| -> Box<dyn CollectorSource> {
                Box::new(MissingCollector {
                    name: spec.collector.name().to_string(),
                    mechanism: spec.mechanism,
                    state,
                    reason,
                    metrics: spec.metrics,
                })
            };
            if !settings.wants(spec.collector) {
                let reason = format!("turned off by --without {}", spec.collector.name());
                return absent(CollectorState::Disabled, reason);
            }
            (spec.start)(&mut start)
                .unwrap_or_else(|reason| absent(CollectorState::Unavailable, reason))
        })
        .zip(SPECS)
        .map(|(collector, spec)| ActiveCollector {
            metrics: spec.metrics,
            mechanism: spec.mechanism,
            collector,
        });
    // The last to finish: rows of files say where the job wrote.
    listed.chain(asked_for).chain([pressure::start(), space::start(settings)]).collect()
}
