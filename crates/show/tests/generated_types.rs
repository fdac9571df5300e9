//! `dashboard/src/generated.ts` is what the page's data is in Rust.
//! `WEIGH_BLESS=1 cargo test -p weigh-show` writes it anew.

mod common {
    pub mod events;
    pub mod explained;
    pub mod golden;
    pub mod sample;
    pub mod sample_moments;
    pub mod top;
    pub mod typescript;
}

use common::golden::check;
use common::sample_moments::{io_over_time, regions, series};
use common::typescript::Types;
use common::{events, explained, sample, top};
use weigh_schema::event::CollectorState;
use weigh_schema::region::RegionKind;
use weigh_schema::rule::{RuleStanding, Severity};
use weigh_schema::summary::{ExitKind, Sender, SenderKind};
use weigh_schema::top::TopJobKind;
use weigh_schema::{Group, METRICS, Mechanism, Metric, MetricKind, NODE_METRICS, Quality, Unit};
use weigh_show::io::Fold;
use weigh_show::outcome::Tone;
use weigh_show::report::{CallKindRow, CallsPage, FileColumns, page};

const HEAD: &str = "\
// Derived from crates/schema and crates/show/src/*/page.rs; do not edit by hand.
// `WEIGH_BLESS=1 cargo test -p weigh-show` writes it anew.

";

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

#[test]
fn the_pages_types_are_current() {
    let mut types = Types::default();
    types.declare::<CollectorState>();
    types.declare::<ExitKind>();
    types.declare::<Fold>();
    types.declare::<Group>();
    types.declare::<MetricKind>();
    types.declare::<Mechanism>();
    types.declare::<Quality>();
    types.declare::<RegionKind>();
    types.declare::<RuleStanding>();
    types.declare::<SenderKind>();
    types.declare::<Severity>();
    types.declare::<Tone>();
    types.declare::<TopJobKind>();
    types.declare::<Unit>();
    // The first has all that can be present; the others lack what can be absent.
    let mut first = sample::limited(40);
    first.summary.job.command_base64.push("/w==".into());
    first.summary.job.cwd_base64 = Some("/w==".into());
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
    for recording in [first, sample::cut_short(), sample::build(4)] {
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
    for report in
        [explained::slow(), explained::requests(), explained::asked(), explained::nothing()]
    {
        types.learn(&weigh_show::explain::page::page(&report));
    }
    types.learn(&events::page());
    types.learn(&top::full());
    types.learn(&top::first());
    let names: Vec<_> = METRICS.iter().map(|m| format!("  | \"{}\"", m.name)).collect();
    let metric_name = format!("export type MetricName =\n{};\n\n", names.join("\n"));
    check("../../dashboard/src/generated.ts", &(HEAD.to_string() + &metric_name + &types.text()));
}

const NODE_HEAD: &str = "\
// Derived from crates/schema/src/node_metric.rs; do not edit by hand.
// `WEIGH_BLESS=1 cargo test -p weigh-show` writes it anew.

/** What each metric of the node is, in a few words. */
export const NODE_METRICS = {
";

#[test]
fn the_metrics_of_the_node_are_current() {
    let line = |m: &&Metric| {
        let help = serde_json::to_string(m.help).expect("a string");
        format!("  {}: {help},\n", m.name)
    };
    let lines: String = NODE_METRICS.iter().map(line).collect();
    check("../../dashboard/src/node-metrics.ts", &format!("{NODE_HEAD}{lines}}} as const;\n"));
}
