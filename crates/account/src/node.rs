//! The node as a view shows it: latest values, growth of counters, use of CPUs.
//!
//! Reads samples; emits rates between two looks. A value that is not known, or was not at the look before, has none.

use std::collections::BTreeMap;

use weigh_schema::node_metric::*;
use weigh_schema::sample::Sample;
use weigh_schema::top::{CoreUse, TopValue};
use weigh_schema::update::Scope;
use weigh_schema::{Metric, MetricKind, Number};

/// A value, and the one before it.
#[derive(Clone, Copy, Debug)]
struct Point {
    at_ns: u64,
    value: TopValue,
    look: u64,
}

/// The latest values of the node.
#[derive(Debug, Default)]
pub struct NodeView {
    points: BTreeMap<Scope, BTreeMap<&'static str, Point>>,
    looks: u64,
}

impl NodeView {
    /// Takes what a look has found.
    pub fn take<'a>(&mut self, at_ns: u64, samples: impl Iterator<Item = Sample<'a>>) {
        self.looks += 1;
        self.take_earlier(at_ns, samples);
    }

    /// Takes what was found before the first look: growth is counted from it on.
    pub fn take_earlier<'a>(&mut self, at_ns: u64, samples: impl Iterator<Item = Sample<'a>>) {
        for sample in samples {
            if !self.points.contains_key(sample.scope) {
                self.points.insert(sample.scope.clone(), BTreeMap::new());
            }
            let Some(points) = self.points.get_mut(sample.scope) else { continue };
            let before = points.get(sample.metric.name).copied();
            let point = Point { at_ns, value: top_value(&sample, at_ns, before), look: self.looks };
            points.insert(sample.metric.name, point);
        }
    }

    /// Forgets what has not been seen for so many looks: disks and interfaces go.
    pub fn forget_older_than(&mut self, looks: u64) {
        let oldest = self.looks.saturating_sub(looks);
        for points in self.points.values_mut() {
            points.retain(|_, point| point.look >= oldest);
        }
        self.points.retain(|_, points| !points.is_empty());
    }

    /// All values.
    pub fn values(&self) -> BTreeMap<Scope, BTreeMap<String, TopValue>> {
        let named = |points: &BTreeMap<&'static str, Point>| {
            points.iter().map(|(name, point)| (name.to_string(), point.value)).collect()
        };
        self.points.iter().map(|(scope, points)| (scope.clone(), named(points))).collect()
    }

    /// Use of each CPU between the last two looks.
    pub fn cores(&self) -> Vec<CoreUse> {
        let core = |(scope, points): (&Scope, &BTreeMap<&'static str, Point>)| match scope {
            Scope::Core(core) => Some(core_use(*core, points)),
            _ => None,
        };
        self.points.iter().filter_map(core).collect()
    }
}

fn top_value(sample: &Sample<'_>, at_ns: u64, before: Option<Point>) -> TopValue {
    let growth = || {
        let before = before?;
        let seconds = at_ns.checked_sub(before.at_ns).filter(|ns| *ns > 0)? as f64 * 1e-9;
        // A counter that fell has begun again.
        let grown = grown(before.value.value?, sample.value?)?;
        Some(grown / seconds)
    };
    let is_counter = sample.metric.kind == MetricKind::Counter;
    TopValue {
        value: sample.value,
        unit: sample.metric.unit,
        quality: sample.quality,
        per_second: is_counter.then(growth),
    }
}

fn grown(before: Number, now: Number) -> Option<f64> {
    match (before, now) {
        (Number::Whole(before), Number::Whole(now)) => {
            now.checked_sub(before).map(|grown| grown as f64)
        }
        (before, now) => Some(now.as_f64() - before.as_f64()).filter(|grown| *grown >= 0.0),
    }
}

/// States of a CPU that are work for this node; guests are in two of them.
static WORK: [&Metric; 5] = [
    &node_cpu_user_seconds_total,
    &node_cpu_nice_seconds_total,
    &node_cpu_system_seconds_total,
    &node_cpu_irq_seconds_total,
    &node_cpu_softirq_seconds_total,
];
/// States without work; the kernel's own count of the second may fall.
static REST: [&Metric; 2] = [&node_cpu_idle_seconds_total, &node_cpu_iowait_seconds_total];

fn core_use(core: u32, points: &BTreeMap<&'static str, Point>) -> CoreUse {
    let rate = |metric: &Metric| points.get(metric.name)?.value.per_second.flatten();
    let work = WORK.iter().map(|metric| rate(metric)).sum::<Option<f64>>();
    let rest = rate(REST[0]).map(|idle| idle + rate(REST[1]).unwrap_or_default());
    // Old kernels do not count it.
    let steal = rate(&node_cpu_steal_seconds_total);
    let all = work.zip(rest).map(|(work, rest)| work + rest + steal.unwrap_or_default());
    let of_all = |part: f64| all.filter(|all| *all > 0.0).map(|all| (part / all).clamp(0.0, 1.0));
    CoreUse { core, busy_ratio: work.and_then(of_all), steal_ratio: steal.and_then(of_all) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::Quality;

    fn look(view: &mut NodeView, at_ns: u64, values: &[(&Scope, &'static Metric, Option<Number>)]) {
        let sample =
            |(scope, metric, value): &(&'static Scope, &'static Metric, Option<Number>)| Sample {
                scope,
                metric,
                value: *value,
                quality: Quality::Exact,
            };
        let values: Vec<_> = values
            .iter()
            .map(|(scope, metric, value)| {
                (&*Box::leak(Box::new((*scope).clone())), *metric, *value)
            })
            .collect();
        view.take(at_ns, values.iter().map(sample));
    }

    fn rate(view: &NodeView, scope: &Scope, metric: &Metric) -> Option<f64> {
        view.values()[scope][metric.name].per_second.expect("a counter")
    }

    #[test]
    fn counters_have_rates_and_absence_has_none() {
        let disk = Scope::Disk("sda".into());
        let mut view = NodeView::default();
        let read = &node_disk_read_bytes_total;
        look(&mut view, 0, &[(&disk, read, Some(Number::Whole(100)))]);
        assert_eq!(rate(&view, &disk, read), None, "nothing before it");
        look(&mut view, 500_000_000, &[(&disk, read, Some(Number::Whole(1101)))]);
        assert_eq!(rate(&view, &disk, read), Some(2002.0));
        look(&mut view, 1_000_000_000, &[(&disk, read, None)]);
        assert_eq!(rate(&view, &disk, read), None);
        look(&mut view, 2_000_000_000, &[(&disk, read, Some(Number::Whole(5)))]);
        assert_eq!(rate(&view, &disk, read), None, "what was before is not known");
        look(&mut view, 3_000_000_000, &[(&disk, read, Some(Number::Whole(4)))]);
        assert_eq!(rate(&view, &disk, read), None, "it has begun again");
        look(&mut view, 4_000_000_000, &[]);
        view.forget_older_than(1);
        assert!(view.values().contains_key(&disk));
        view.forget_older_than(0);
        assert!(!view.values().contains_key(&disk), "it is gone");
    }

    #[test]
    fn growth_is_known_at_the_first_look_by_what_was_found_before_it() {
        let (scope, metric) = (Scope::Disk("sda".into()), &node_disk_read_bytes_total);
        let sample = |value| {
            let value = Some(Number::Whole(value));
            std::iter::once(Sample { scope: &scope, metric, value, quality: Quality::Exact })
        };
        let mut view = NodeView::default();
        view.take_earlier(1_000_000_000, sample(100));
        view.take(3_000_000_000, sample(1101));
        assert_eq!(rate(&view, &scope, metric), Some(500.5));
    }

    #[test]
    fn use_of_a_cpu_is_work_of_all_time() {
        let core = Scope::Core(3);
        let mut view = NodeView::default();
        let states = |user: f64, idle: f64, steal: f64| {
            [
                (&core, &node_cpu_user_seconds_total, Some(Number::Real(user))),
                (&core, &node_cpu_nice_seconds_total, Some(Number::Real(0.0))),
                (&core, &node_cpu_system_seconds_total, Some(Number::Real(0.0))),
                (&core, &node_cpu_irq_seconds_total, Some(Number::Real(0.0))),
                (&core, &node_cpu_softirq_seconds_total, Some(Number::Real(0.0))),
                (&core, &node_cpu_idle_seconds_total, Some(Number::Real(idle))),
                (&core, &node_cpu_iowait_seconds_total, Some(Number::Real(0.0))),
                (&core, &node_cpu_steal_seconds_total, Some(Number::Real(steal))),
            ]
        };
        look(&mut view, 0, &states(10.0, 50.0, 0.0));
        assert_eq!(view.cores(), [CoreUse { core: 3, busy_ratio: None, steal_ratio: None }]);
        look(&mut view, 1_000_000_000, &states(10.5, 50.25, 0.25));
        assert_eq!(
            view.cores(),
            [CoreUse { core: 3, busy_ratio: Some(0.5), steal_ratio: Some(0.25) }]
        );
    }
}
