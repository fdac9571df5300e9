//! Reports for tests.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weigh_schema::top::{TOP, TopReport, TopValue};
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

/// Any report: scopes of every kind with any names, metrics that are declared and others, any numbers.
pub fn any_report() -> impl Strategy<Value = TopReport> {
    let values = proptest::collection::btree_map(any_metric(), any_value(), 0..8);
    let metrics = proptest::collection::btree_map(any_scope(), values, 0..8);
    let time = (0i64..4_000_000_000, 0i32..1_000_000_000);
    (time, any::<String>(), metrics).prop_map(|((second, nanosecond), node, metrics)| {
        with_metrics(jiff::Timestamp::new(second, nanosecond).unwrap(), node, metrics)
    })
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
