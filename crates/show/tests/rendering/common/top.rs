//! Reports of the node, for the types of the live page.

use std::collections::BTreeMap;

use weigh_schema::busiest::{Amounts, BusiestKind, BusiestReport, BusiestRow};
use weigh_schema::event::CollectorState;
use weigh_schema::program_profile::ProgramState;
use weigh_schema::region::FlatRegion;
use weigh_schema::rule::{RuleStanding, RuleStatus, Severity};
use weigh_schema::stream::TraceQuery;
use weigh_schema::top::{
    CoreUse, PublishedValue, TOP, TopCollector, TopGroup, TopJob, TopJobKind, TopProcess,
    TopProfile, TopReport, TopValue,
};
use weigh_schema::{Mechanism, Number, Quality, Unit};

fn group() -> TopGroup {
    TopGroup {
        scope: "group:/machine/a".to_string().into(),
        name: "a".into(),
        name_base64: Some("/w==".into()),
        manager: "docker".into(),
        missing: BTreeMap::from([("node_forks_total".to_string(), "no such file".to_string())]),
    }
}

fn rule() -> RuleStatus {
    RuleStatus {
        rule: "swap".into(),
        state: RuleStanding::Holds,
        severity: Severity::Warning,
        scope: Some("node".to_string().into()),
        metric: "node_forks_total".into(),
        value: Some(3.5),
        unit: Unit::Bytes,
        per_second: true,
        true_seconds: Some(2.0),
        for_seconds: 1.0,
        text: "it swaps".into(),
        paste: "free".into(),
        reason: Some("no such file".into()),
    }
}

/// Has all that can be present.
pub fn full() -> TopReport {
    let value = TopValue {
        value: Some(Number::Whole(7)),
        unit: Unit::Bytes,
        quality: Quality::Exact,
        per_second: Some(Some(1.5)),
    };
    let values = BTreeMap::from([("node_forks_total".to_string(), value)]);
    TopReport {
        rules: vec![rule()],
        schema: TOP.into(),
        node: "n1".into(),
        time: "2026-01-02T03:04:05Z".parse().expect("a time"),
        interval_seconds: Some(1.0),
        user: Some("ada".into()),
        metrics: BTreeMap::from([("node".to_string().into(), values)]),
        cores: vec![CoreUse { core: 0, busy_ratio: Some(0.5), steal_ratio: Some(0.0) }],
        collectors: vec![TopCollector {
            name: "disks".into(),
            mechanism: Mechanism::Proc,
            status: CollectorState::Degraded,
            reason: Some("no such file".into()),
            no_data_seconds: Some(2.0),
            failures: 2,
        }],
        jobs: vec![TopJob {
            kind: TopJobKind::Container,
            group: Some(Box::new(group())),
            cpus_requested: Some(2.0),
            memory_limit_bytes: Some(1 << 30),
            time_left_seconds: Some(1234.5),
            pid: 7,
            user: "ada".into(),
            command: vec!["weigh".into()],
            command_base64: vec!["/w==".into()],
            processes: 1,
            cpu_cores: Some(1.0),
            memory_rss_sum_bytes: 4096,
        }],
        processes: vec![TopProcess {
            pid: 8,
            parent_pid: 7,
            user: "ada".into(),
            name: "a".into(),
            name_base64: Some("/w==".into()),
            command: vec!["a".into()],
            command_base64: vec!["/w==".into()],
            state: "R".into(),
            threads: 1,
            cpu_cores: Some(1.0),
            cpu_seconds: 2.0,
            memory_rss_bytes: 4096,
            job: Some(7),
        }],
        processes_unreadable: 0,
        processes_left_out: 3,
        published: vec![published()],
        published_left_out: 1,
        profiles: vec![profile()],
        profiles_left_out: 1,
        busiest: Some(Box::new(busiest())),
    }
}

fn profile() -> TopProfile {
    TopProfile {
        uid: 1001,
        user: "ada".into(),
        pid: Some(8),
        told_pid: Some(8),
        name: "solver".into(),
        name_base64: Some("/w==".into()),
        state: ProgramState::Running,
        job: Some(7),
        time: "2026-01-02T03:04:05Z".parse().expect("a time"),
        calls_total: 17,
        publishes_total: 3,
        regions: vec![FlatRegion { name: "solve".into(), ..FlatRegion::default() }],
        regions_left_out: 2,
    }
}

fn busiest() -> BusiestReport {
    let row = BusiestRow { per_second: Some(Amounts::default()), ..BusiestRow::default() };
    let files = BusiestKind { rows: vec![row, BusiestRow::default()], ..BusiestKind::default() };
    BusiestReport { files, ..BusiestReport::default() }
}

fn published() -> PublishedValue {
    let query = TraceQuery { asked: "a -> b by tid".into(), followed_pid: Some(8) };
    PublishedValue {
        scope: "trace:9/0".to_string().into(),
        metric: "trace_pairs_total".into(),
        value: 3.0,
        unit: Some(Unit::Count),
        query: Some(query.into()),
        user: Some("ada".into()),
        pid: Some(9),
        job: Some(7),
        time: "2026-01-02T03:04:05Z".parse().expect("a time"),
    }
}

/// The first look, which lacks what can be absent or null.
pub fn first() -> TopReport {
    let mut report = full();
    report.interval_seconds = None;
    report.user = None;
    report.processes_left_out = 0;
    report.published_left_out = 0;
    report.profiles_left_out = 0;
    for profile in &mut report.profiles {
        (profile.pid, profile.told_pid, profile.job) = (None, None, None);
        profile.name_base64 = None;
    }
    report.busiest = None;
    for value in &mut report.published {
        (value.unit, value.query, value.user, value.pid, value.job) =
            (None, None, None, None, None);
    }
    for value in report.metrics.values_mut().flat_map(|values| values.values_mut()) {
        (value.value, value.per_second) = (None, None);
    }
    for core in &mut report.cores {
        (core.busy_ratio, core.steal_ratio) = (None, None);
    }
    for collector in &mut report.collectors {
        (collector.reason, collector.no_data_seconds) = (None, None);
    }
    for job in &mut report.jobs {
        (job.cpu_cores, job.command_base64, job.group) = (None, Vec::new(), None);
        (job.cpus_requested, job.memory_limit_bytes, job.time_left_seconds) = (None, None, None);
    }
    for rule in &mut report.rules {
        (rule.scope, rule.value, rule.true_seconds, rule.reason) = (None, None, None, None);
        rule.per_second = false;
    }
    for process in &mut report.processes {
        (process.cpu_cores, process.name_base64, process.job) = (None, None, None);
        process.command_base64.clear();
    }
    report
}
