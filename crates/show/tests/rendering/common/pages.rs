//! Pages of jobs with all that can be in them, for the types of the page and of the API.

use weigh_schema::event::CollectorState;
use weigh_schema::program_profile::ProgramState;
use weigh_schema::region::RegionKind;
use weigh_schema::rule::{RuleStanding, Severity};
use weigh_schema::summary::{ExitKind, FileSystemPurpose, Sender, SenderKind};
use weigh_schema::top::TopJobKind;
use weigh_schema::{Group, Mechanism, MetricKind, Quality, Unit};
use weigh_show::io::Fold;
use weigh_show::outcome::Tone;
use weigh_show::report::{CallKindRow, CallsPage, FileColumns, page};

use super::sample::{self, Recording};
use super::sample_moments::{io_over_time, regions, series};
use super::typescript::Types;

/// Declares the enums that stand in pages and in reports of the node.
pub fn declare_enums(types: &mut Types) {
    types.declare::<CollectorState>();
    types.declare::<ExitKind>();
    types.declare::<FileSystemPurpose>();
    types.declare::<Fold>();
    types.declare::<Group>();
    types.declare::<MetricKind>();
    types.declare::<Mechanism>();
    types.declare::<ProgramState>();
    types.declare::<Quality>();
    types.declare::<RegionKind>();
    types.declare::<RuleStanding>();
    types.declare::<SenderKind>();
    types.declare::<Severity>();
    types.declare::<Tone>();
    types.declare::<TopJobKind>();
    types.declare::<Unit>();
}

/// A recording that has all that can be present.
pub fn full() -> Recording {
    let mut first = sample::limited(40);
    first.summary.job.command_base64.push("/w==".into());
    first.summary.job.cwd_base64 = Some("/w==".into());
    first.summary.file_systems[0].mount_base64 = Some("/w==".into());
    for offender in first.summary.limits.iter_mut().filter_map(|limit| limit.offender.as_mut()) {
        offender.name_base64 = Some("/w==".into());
        offender.command_base64.push("/w==".into());
        offender.stack_base64.push("/w==".into());
        offender.open_files_base64.push("/w==".into());
        offender.mappings[0].name_base64 = Some("/w==".into());
    }
    if let Some(exit) = &mut first.summary.exit {
        exit.sender = Some(Sender {
            kind: SenderKind::Other,
            pid: Some(7),
            name: Some("kill".into()),
            name_base64: Some("/w==".into()),
            uid: Some(0),
            source: Mechanism::Bpf,
            quality: Quality::Exact,
        });
    }
    first
}

/// A recording that has as little as there can be.
fn bare() -> Recording {
    let mut bare = sample::build(4);
    let summary = &mut bare.summary;
    (summary.host.at_start, summary.host.at_end) = Default::default();
    (summary.exit, summary.io, summary.regions) = (None, None, None);
    (summary.job.category, summary.job.ended) = (None, None);
    summary.allowed = Default::default();
    (summary.limits, summary.snapshots, summary.collectors) = Default::default();
    summary.file_systems.clear();
    summary.gpus.clear();
    summary.metrics.clear();
    Recording { samples: Vec::new(), processes: Vec::new(), files: Vec::new(), ..bare }
}

/// A recording with values that are exact, which have no reason.
fn exact() -> Recording {
    let mut exact = sample::build(4);
    exact.summary.host.at_start.values_mut().for_each(|value| value.reason = None);
    exact.summary.metrics.values_mut().for_each(|value| value.reason = None);
    exact
}

/// Learns the page of a job: the first recording has all, the others lack what can be absent.
pub fn learn_pages(types: &mut Types) {
    for recording in [full(), sample::cut_short(), exact(), sample::build(4), bare()] {
        let mut files = FileColumns::default();
        recording.files.iter().for_each(|row| files.push(row));
        let series = series(&recording.summary, &recording.samples);
        let mut page = page(&recording.summary, series, &recording.processes, files.finish(0), 0);
        page.regions = page.io.as_ref().and_then(|_| regions());
        page.io_over_time = io_over_time(&recording.summary);
        page.io.iter_mut().for_each(|io| io.slowest.push("1.0 ms in read".into()));
        page.calls = page.io.as_ref().map(|_| calls());
        page.advice = page.io.as_ref().map(|_| "limited by one CPU".into());
        types.learn(&page);
    }
}

fn calls() -> CallsPage {
    let row = CallKindRow {
        call: "fsync".into(),
        calls: 7,
        errors: 0,
        bytes: 0,
        total: 0.7,
        p50: 0.1,
        p99: 0.1,
        max: 0.1,
        later: 0.0,
        parts: "block wait 97 %".into(),
    };
    CallsPage { headline: "7 calls".into(), total: 1, rows: vec![row], notes: vec!["none".into()] }
}
