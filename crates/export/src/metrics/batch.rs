//! A report as points: value, metric, labels. Points of a metric stand together, in the order of the metrics' declaration.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use weigh_schema::top::{TopReport, TopValue};
use weigh_schema::update::Scope;
use weigh_schema::{METRICS, Metric, MetricKind, MetricScope, NODE_METRICS, Number, Quality};

use super::jobs::job_points;
use super::point::Point;
use super::published::published_points;
use super::scope_label::{ScopeLabels, is_of, label_value};

/// Scopes of one report that are exported: a machine has no more, whatever it is told.
const SCOPES: usize = 8192;

/// The points of one report.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The node's name, as the value of a label.
    pub node: String,
    /// When they were taken: nanoseconds since 1970; 0 for what was before.
    pub time_ns: u64,
    /// The points, by metric in the order of their declaration, then by scope; those of jobs, and what clients have published, are the last.
    pub points: Vec<Point>,
    /// Values of the report that are not among them, though it has them.
    pub left_out: u64,
}

impl Batch {
    /// Milliseconds since 1970.
    pub fn time_ms(&self) -> u64 {
        self.time_ns / 1_000_000
    }

    /// Runs of points of the same metric.
    pub fn families(&self) -> impl Iterator<Item = &[Point]> {
        self.points.chunk_by(|a, b| std::ptr::eq(a.metric, b.metric))
    }
}

/// Makes batches; labels of scopes are kept from one report to the next.
#[derive(Default)]
pub struct BatchBuilder {
    scopes: HashMap<Scope, Arc<ScopeLabels>>,
}

impl BatchBuilder {
    /// The points of a report.
    pub fn build(&mut self, report: &TopReport) -> Batch {
        self.replace_scopes(report);
        let has_cores = report.metrics.keys().any(|scope| matches!(scope, Scope::Core(_)));
        let mut points: Vec<(usize, Point)> = Vec::new();
        let mut left_out = 0;
        for (scope, values) in &report.metrics {
            for (name, value) in values.iter().filter(|(_, value)| is_available(value)) {
                match self.point(scope, name, value) {
                    // A sum over the cores beside the cores would be counted twice in any sum over the metric.
                    Some((_, point)) if has_cores && is_sum_of_cores(scope, point.metric) => {}
                    Some(numbered) => points.push(numbered),
                    None => left_out += 1,
                }
            }
        }
        points.sort_by_key(|(number, _)| *number);
        let of_node = points.into_iter().map(|(_, point)| point);
        Batch {
            node: label_value(&report.node),
            time_ns: u64::try_from(report.time.as_nanosecond()).unwrap_or(0),
            points: of_node.chain(job_points(report)).chain(published_points(report)).collect(),
            left_out,
        }
    }

    fn point(&self, scope: &Scope, name: &str, value: &TopValue) -> Option<(usize, Point)> {
        let (number, metric) = *BY_NAME.get(name)?;
        let labels = self.scopes.get(scope).filter(|_| is_of(scope, metric.scope))?.clone();
        let found = value.value.filter(|value| is_exportable(metric, *value))?;
        Some((number, Point { metric, scope: labels, value: found, quality: value.quality }))
    }

    /// Labels of this report's scopes, those of the one before where they are the same. Of scopes whose labels are
    /// equal the first has them: a receiver could not tell them apart.
    fn replace_scopes(&mut self, report: &TopReport) {
        let previous = std::mem::take(&mut self.scopes);
        let mut used = HashSet::new();
        for scope in report.metrics.keys().take(SCOPES) {
            let labels = match previous.get(scope) {
                Some(labels) => Some(labels.clone()),
                None => ScopeLabels::new(scope).map(Arc::new),
            };
            if let Some(labels) = labels.filter(|labels| used.insert(labels.clone())) {
                self.scopes.insert(scope.clone(), labels);
            }
        }
    }
}

fn is_available(value: &TopValue) -> bool {
    value.value.is_some() && value.quality != Quality::Unavailable
}

fn is_sum_of_cores(scope: &Scope, metric: &Metric) -> bool {
    *scope == Scope::Node && metric.scope == MetricScope::Core
}

fn is_exportable(metric: &Metric, value: Number) -> bool {
    let value = value.as_f64();
    value.is_finite() && (metric.kind != MetricKind::Counter || value >= 0.0)
}

/// Every metric that is of the node, with its number in the order of declaration.
static BY_NAME: LazyLock<BTreeMap<&'static str, (usize, &'static Metric)>> = LazyLock::new(|| {
    let of_node = NODE_METRICS.iter().copied().chain(METRICS.iter());
    let of_node = of_node.filter(|metric| metric.is_of_node());
    of_node.enumerate().map(|(number, metric)| (metric.name, (number, metric))).collect()
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::test_report::{exact, report, value};
    use weigh_schema::node_metric::{
        node_cpu_user_seconds_total as cpu, node_forks_total as forks, node_load_1m_threads as load,
    };

    #[test]
    fn what_is_unavailable_is_absent_and_what_is_no_number_is_counted() {
        let mut found = report(
            1_767_323_045,
            &[
                ("node", load.name, exact(Number::Real(-1.5))),
                ("node", forks.name, exact(Number::Whole(u64::MAX))),
                ("node", cpu.name, exact(Number::Real(30.0))),
                ("core:1", cpu.name, exact(Number::Real(10.0))),
                ("core:0", cpu.name, value(None, Quality::Unavailable)),
                ("core:2", cpu.name, exact(Number::Real(f64::NAN))),
                ("core:3", cpu.name, exact(Number::Real(-1.0))),
                ("disk:sda", cpu.name, exact(Number::Real(1.0))),
                ("node", "node_of_next_year", exact(Number::Whole(1))),
                ("process:7", cpu.name, exact(Number::Real(1.0))),
            ],
        );
        found.node = "n\u{1b}1".to_string();
        let batch = BatchBuilder::default().build(&found);
        let found: Vec<_> =
            batch.points.iter().map(|p| (p.metric.name, p.scope.instance())).collect();
        let expected =
            [(cpu.name, "1"), (forks.name, ""), (load.name, "")].map(|(m, s)| (m, s.to_string()));
        assert_eq!(found, expected);
        assert_eq!((batch.left_out, batch.time_ms()), (5, 1_767_323_045_000));
        assert_eq!(batch.node, "n\\u{1b}1");
    }

    #[test]
    fn of_scopes_that_look_the_same_one_is_exported() {
        let celsius = &weigh_schema::node_metric::node_sensor_celsius;
        let degrees = exact(Number::Real(-3.5));
        let batch = BatchBuilder::default().build(&report(
            7,
            &[
                ("sensor:a\u{1b}", celsius.name, degrees),
                ("sensor:a\\u{1b}", celsius.name, degrees),
            ],
        ));
        assert_eq!((batch.points.len(), batch.left_out), (1, 1));
    }

    #[test]
    fn without_cores_the_sum_of_the_node_is_exported() {
        let seconds = value(Some(Number::Real(30.0)), Quality::Sampled);
        let batch = BatchBuilder::default().build(&report(7, &[("node", cpu.name, seconds)]));
        assert_eq!(batch.points.len(), 1);
    }
}
