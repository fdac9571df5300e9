//! Reports for tests.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weigh_schema::top::{TOP, TopGroup, TopJob, TopJobKind, TopReport, TopValue};
use weigh_schema::update::Scope;
use weigh_schema::{METRICS, Metric, NODE_METRICS, Number, Quality, Unit};

/// A report of these values: scope, metric, value.
pub fn report(second: i64, values: &[(&str, &str, TopValue)]) -> TopReport {
    let mut metrics: BTreeMap<Scope, BTreeMap<String, TopValue>> = BTreeMap::new();
    for (scope, metric, value) in values {
        let scope = metrics.entry(Scope::from(scope.to_string())).or_default();
        scope.insert(metric.to_string(), *value);
    }
    with_metrics(jiff::Timestamp::from_second(second).unwrap(), "n1".to_string(), metrics)
}

/// An exact value.
pub fn exact(number: Number) -> TopValue {
    value(Some(number), Quality::Exact)
}

/// A value; units of reports are not looked at, but those of the declaration.
pub fn value(value: Option<Number>, quality: Quality) -> TopValue {
    TopValue { value, unit: Unit::Count, quality, per_second: None }
}

fn with_metrics(
    time: jiff::Timestamp,
    node: String,
    metrics: BTreeMap<Scope, BTreeMap<String, TopValue>>,
) -> TopReport {
    TopReport { schema: TOP.to_string(), node, time, metrics, ..TopReport::default() }
}

/// A session of `weigh run`.
pub fn session(pid: u32, cores: f64) -> TopJob {
    TopJob {
        pid,
        user: "u".to_string(),
        processes: 2,
        cpu_cores: Some(cores),
        memory_rss_sum_bytes: 4096,
        ..TopJob::default()
    }
}

/// A job that is a control group.
pub fn group_job(pid: u32, kind: TopJobKind, path: &str, cores: f64) -> TopJob {
    let group = TopGroup {
        scope: Scope::Group(path.to_string()),
        name: path.rsplit('/').next().unwrap_or_default().to_string(),
        name_base64: None,
        manager: "m".to_string(),
        missing: BTreeMap::new(),
    };
    TopJob { kind, group: Some(Box::new(group)), ..session(pid, cores) }
}

/// Any report: scopes of every kind with any names, metrics that are declared and others, any numbers.
pub fn any_report() -> impl Strategy<Value = TopReport> {
    let values = proptest::collection::btree_map(any_metric(), any_value(), 0..8);
    let metrics = proptest::collection::btree_map(any_scope(), values, 0..8);
    let time = (0i64..4_000_000_000, 0i32..1_000_000_000);
    let jobs = proptest::collection::vec(any_job(), 0..4);
    (time, any::<String>(), metrics, jobs).prop_map(
        |((second, nanosecond), node, metrics, jobs)| {
            let time = jiff::Timestamp::new(second, nanosecond).unwrap();
            TopReport { jobs, ..with_metrics(time, node, metrics) }
        },
    )
}

fn any_job() -> impl Strategy<Value = TopJob> {
    let kinds = proptest::sample::select(&[TopJobKind::Slurm, TopJobKind::Container][..]);
    let group = (kinds, any::<String>()).prop_map(|(kind, path)| group_job(1, kind, &path, 0.5));
    let job = prop_oneof![any::<u32>().prop_map(|pid| session(pid, 1.5)), group];
    (job, any::<String>(), any::<f64>(), proptest::option::of(any::<u64>())).prop_map(
        |(job, user, cores, limit)| TopJob {
            user,
            cpu_cores: Some(cores),
            memory_limit_bytes: limit,
            ..job
        },
    )
}

fn any_scope() -> impl Strategy<Value = Scope> {
    const KINDS: &[&str] =
        &["group:", "disk:", "interface:", "mount:", "sensor:", "power:", "operation:READ:", ""];
    prop_oneof![
        Just(Scope::Node),
        (0u32..4).prop_map(Scope::Core),
        any::<u32>().prop_map(Scope::Gpu),
        (proptest::sample::select(KINDS), any::<String>())
            .prop_map(|(kind, name)| Scope::from(format!("{kind}{name}"))),
        (proptest::sample::select(KINDS), "[\"\\\\\n\u{1b}\u{202e},={}a-z]{0,300}")
            .prop_map(|(kind, name)| Scope::from(format!("{kind}{name}"))),
    ]
}

fn any_metric() -> impl Strategy<Value = String> {
    let declared: Vec<&'static Metric> = NODE_METRICS.iter().copied().chain(METRICS).collect();
    prop_oneof![
        9 => proptest::sample::select(declared).prop_map(|metric| metric.name.to_string()),
        1 => any::<String>(),
    ]
}

fn any_value() -> impl Strategy<Value = TopValue> {
    let number = prop_oneof![
        any::<u64>().prop_map(Number::Whole),
        any::<f64>().prop_map(Number::Real),
        Just(Number::Real(f64::NAN)),
        Just(Number::Real(f64::INFINITY)),
    ];
    const QUALITIES: &[Quality] = &[Quality::Exact, Quality::Estimated, Quality::Unavailable];
    (proptest::option::of(number), proptest::sample::select(QUALITIES))
        .prop_map(|(number, quality)| value(number, quality))
}
