//! The metrics that the rules of a set use, each with a number; and those that a file declares for what is pushed.

use std::collections::BTreeMap;

use weigh_schema::rule::RuleMetric;
use weigh_schema::{MetricKind, MetricScope, Unit, nearest};

use super::expression::MetricId;

/// A metric that is used.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UsedMetric {
    pub name: String,
    pub unit: Unit,
    pub kind: MetricKind,
    /// What its values are about; none where a file declares it, and any scope may have it.
    pub scope: Option<MetricScope>,
    /// The longest window that is looked at, in nanoseconds; 0: none.
    pub longest_ns: u64,
    /// The shortest one.
    pub shortest_ns: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct MetricTable {
    used: Vec<UsedMetric>,
    by_name: BTreeMap<String, usize>,
    declared: BTreeMap<String, (Unit, MetricKind)>,
}

impl MetricTable {
    /// Metrics that no table of weigh's has: what clients push.
    pub fn declare(&mut self, name: &str, unit: Unit, kind: MetricKind) {
        self.declared.insert(name.to_string(), (unit, kind));
    }

    pub fn declares(&self, name: &str) -> bool {
        self.declared.contains_key(name)
    }

    /// The number of a metric; what is near where there is none of that name.
    pub fn find(&mut self, name: &str) -> Result<MetricId, Vec<String>> {
        if let Some(id) = self.by_name.get(name) {
            return Ok(MetricId(*id));
        }
        let declared = self.declared.get(name).map(|(unit, kind)| (*unit, *kind, None));
        let known = || {
            let metric = RuleMetric::find(name)?;
            Some((metric.unit, metric.kind, Some(metric.scope)))
        };
        let Some((unit, kind, scope)) = declared.or_else(known) else {
            return Err(self.near(name));
        };
        let id = self.used.len();
        let name = name.to_string();
        self.by_name.insert(name.clone(), id);
        self.used.push(UsedMetric { name, unit, kind, scope, longest_ns: 0, shortest_ns: 0 });
        Ok(MetricId(id))
    }

    fn near(&self, name: &str) -> Vec<String> {
        let mut names: Vec<&str> = RuleMetric::names().collect();
        names.extend(self.declared.keys().map(String::as_str));
        nearest(name, names).into_iter().map(str::to_string).collect()
    }

    pub fn get(&self, id: MetricId) -> &UsedMetric {
        &self.used[id.0]
    }

    /// The number of a metric that is used.
    pub fn used(&self, name: &str) -> Option<MetricId> {
        self.by_name.get(name).copied().map(MetricId)
    }

    pub fn all(&self) -> &[UsedMetric] {
        &self.used
    }

    /// Values of so long a time are looked at.
    pub fn keep_window(&mut self, id: MetricId, window_ns: u64) {
        let metric = &mut self.used[id.0];
        metric.shortest_ns = match metric.shortest_ns {
            0 => window_ns,
            shortest => shortest.min(window_ns),
        };
        metric.longest_ns = metric.longest_ns.max(window_ns);
    }
}
