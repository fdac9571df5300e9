//! What clients of the agent have published: its points, and the bound of how many there are.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use weigh_schema::published::{PUBLISHED_VALUE, TRACE_METRICS, trace_stream};
use weigh_schema::top::{PublishedValue, TopReport};
use weigh_schema::{Metric, MetricKind, Number, Quality};

use super::point::Point;
use super::scope_label::ScopeLabels;

/// Leaves as many published values in reports as are to be exported; one that is exported is so while it is there.
pub struct PublishedBound {
    most: usize,
    exported: HashSet<ScopeLabels>,
}

impl PublishedBound {
    /// So many at most.
    pub fn new(most: usize) -> PublishedBound {
        PublishedBound { most, exported: HashSet::new() }
    }

    /// Takes those out of the report that are too many; how many these are.
    pub fn apply(&mut self, report: &mut TopReport) -> usize {
        let all = std::mem::take(&mut report.published);
        let (known, new): (Vec<_>, Vec<_>) = all
            .iter()
            .map(|value| (labels(value), value))
            .partition(|(labels, _)| self.exported.contains(labels));
        let chosen: Vec<_> = known.into_iter().chain(new).take(self.most).collect();
        report.published = chosen.iter().map(|(_, value)| (*value).clone()).collect();
        self.exported = chosen.into_iter().map(|(labels, _)| labels).collect();
        all.len() - report.published.len()
    }
}

/// The metric that a value is exported as: one of `weigh trace`, or the one for all others.
fn metric(value: &PublishedValue) -> &'static Metric {
    let is_of_trace = trace_stream(&value.scope).is_some();
    let of_trace = TRACE_METRICS.iter().find(|one| is_of_trace && one.name == value.metric);
    of_trace.unwrap_or(&PUBLISHED_VALUE)
}

fn labels(value: &PublishedValue) -> ScopeLabels {
    ScopeLabels::of_published(value, !std::ptr::eq(metric(value), &PUBLISHED_VALUE))
}

/// The points of what was published, by metric. Of values that look the same the first has them. They are what somebody says.
pub(super) fn published_points(report: &TopReport) -> Vec<Point> {
    let mut scopes: HashMap<ScopeLabels, Arc<ScopeLabels>> = HashMap::new();
    let mut families: BTreeMap<usize, Vec<Point>> = BTreeMap::new();
    let mut used = HashSet::new();
    for value in &report.published {
        let (metric, labels) = (metric(value), labels(value));
        if !is_exportable(metric, value.value) || !used.insert((metric.name, labels.clone())) {
            continue;
        }
        let scope = scopes.entry(labels.clone()).or_insert_with(|| Arc::new(labels)).clone();
        let (value, quality) = (Number::Real(value.value), Quality::Sampled);
        let of_metric = families.entry(number(metric)).or_default();
        of_metric.push(Point { metric, scope, value, quality });
    }
    families.into_values().flatten().collect()
}

fn is_exportable(metric: &Metric, value: f64) -> bool {
    value.is_finite() && (metric.kind != MetricKind::Counter || value >= 0.0)
}

/// The place in the order of declaration.
fn number(metric: &Metric) -> usize {
    let of_trace = TRACE_METRICS.iter().position(|one| std::ptr::eq(one, metric));
    of_trace.unwrap_or(TRACE_METRICS.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::Unit;
    use weigh_schema::stream::TraceQuery;
    use weigh_schema::update::Scope;

    fn value(scope: &str, metric: &str, value: f64) -> PublishedValue {
        let query = TraceQuery { asked: "a -> b by tid".into(), followed_pid: None };
        PublishedValue {
            scope: Scope::from(scope.to_string()),
            metric: metric.into(),
            value,
            unit: Some(Unit::Seconds),
            query: scope.starts_with("trace:").then(|| query.into()),
            user: Some("ann".into()),
            pid: Some(7),
            job: None,
            time: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    fn report(published: Vec<PublishedValue>) -> TopReport {
        TopReport { published, ..TopReport::default() }
    }

    fn text(published: Vec<PublishedValue>) -> String {
        let mut text = String::new();
        crate::metrics::openmetrics(&report(published), &mut text);
        text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn names_of_clients_are_values_of_labels() {
        let found = text(vec![
            value("queue", "x_total", -2.5),
            value("trace:7/0", "trace_latency_p99_seconds", 0.25),
            value("trace:7/1:k/9", "trace_key_events_total", 3.0),
            value("trace:7/0", "trace_pairs_total", 17.0),
            // Nobody has these: a counter below 0, a name of weigh's that says nothing of a stream, the same again.
            value("trace:7/0", "trace_unanswered_total", -1.0),
            value("node", "trace_pairs_total", 5.0),
            value("queue", "x_total", 99.0),
            value("trace:7/0", "node_forks_total", 6.0),
            value("queue", "nan", f64::NAN),
        ]);
        let expected = r#"trace_pairs_total{asked="a -> b by tid",stream="7/0",user="ann"} 17.0
trace_latency_p99_seconds{asked="a -> b by tid",stream="7/0",user="ann"} 0.25
trace_key_events_total{asked="a -> b by tid",key="k/9",stream="7/1",user="ann"} 3.0
published_value{metric="x_total",scope="queue",unit="seconds",user="ann"} -2.5
published_value{metric="trace_pairs_total",scope="node",unit="seconds",user="ann"} 5.0
published_value{metric="node_forks_total",scope="trace:7/0",unit="seconds",user="ann"} 6.0"#;
        assert_eq!(found, expected);
    }

    #[test]
    fn what_was_asked_steers_no_terminal_and_ends_no_label() {
        let mut evil = value("trace:7/0", "trace_pairs_total", 1.0);
        let asked = "\"} 1\n# EOF\u{1b}[2J\\".to_string() + &"x".repeat(900);
        evil.query = Some(Box::new(TraceQuery { asked, followed_pid: None }));
        let found = text(vec![evil]);
        assert_eq!(found.lines().count(), 1);
        assert!(
            found.starts_with("trace_pairs_total{asked=\"\\\"} 1\\\\n# EOF\\\\u{1b}"),
            "{found}"
        );
        assert!(found.len() < 400 && found.ends_with("\"} 1.0"), "{found}");
    }

    #[test]
    fn a_value_that_is_exported_stays_whatever_comes() {
        let mut bound = PublishedBound::new(2);
        let named = |names: &[&str]| report(names.iter().map(|n| value("node", n, 1.0)).collect());
        let names = |report: &TopReport| -> Vec<String> {
            report.published.iter().map(|value| value.metric.clone()).collect()
        };
        let mut first = named(&["c", "d"]);
        assert_eq!((bound.apply(&mut first), names(&first)), (0, vec!["c".into(), "d".into()]));
        let mut second = named(&["a", "b", "c", "d"]);
        assert_eq!((bound.apply(&mut second), names(&second)), (2, vec!["c".into(), "d".into()]));
        let mut third = named(&["a", "b", "d"]);
        assert_eq!((bound.apply(&mut third), names(&third)), (1, vec!["d".into(), "a".into()]));
        let mut none = named(&["a"]);
        assert_eq!((PublishedBound::new(0).apply(&mut none), none.published.len()), (1, 0));
    }
}
