//! The values of the present look, by metric and scope, as far as rules use them.

use std::collections::BTreeMap;

use weigh_schema::update::Scope;

use super::expression::MetricId;
use super::input::RuleInput;
use super::metric_table::MetricTable;
use super::series::Series;

/// The most scopes of a metric: what is pushed may have any.
const MOST_SCOPES: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct ValueTable {
    series: Vec<BTreeMap<Scope, Series>>,
    look: u64,
    /// CPUs that the node has values of.
    cores: u32,
    last_core: Option<u32>,
    /// Whether any rule is judged for single CPUs.
    has_core_rules: bool,
}

impl ValueTable {
    pub fn new(metrics: &MetricTable, has_core_rules: bool) -> ValueTable {
        let series = vec![BTreeMap::new(); metrics.all().len()];
        ValueTable { series, has_core_rules, ..ValueTable::default() }
    }

    /// Takes all values of a look. What it does not have is not known from now on.
    pub fn take<'a>(
        &mut self,
        at_ns: u64,
        values: impl Iterator<Item = RuleInput<'a>>,
        metrics: &MetricTable,
    ) {
        self.look += 1;
        (self.cores, self.last_core) = (0, None);
        for input in values {
            self.put(at_ns, input, metrics);
        }
        let look = self.look;
        self.series.iter_mut().for_each(|series| series.retain(|_, series| series.look == look));
    }

    fn put(&mut self, at_ns: u64, input: RuleInput<'_>, metrics: &MetricTable) {
        if let Scope::Core(core) = *input.scope {
            // All of a CPU come one after the other.
            self.cores += u32::from(self.last_core.replace(core) != Some(core));
            if !self.has_core_rules {
                return;
            }
        }
        let Some(id) = metrics.used(input.metric) else { return };
        let series = &mut self.series[id.0];
        if !series.contains_key(&*input.scope) {
            if series.len() >= MOST_SCOPES {
                return;
            }
            series.insert(input.scope.clone().into_owned(), Series::default());
        }
        let Some(series) = series.get_mut(&*input.scope) else { return };
        series.look = self.look;
        series.take(at_ns, input.value, input.per_second, metrics.get(id));
    }

    pub fn cores(&self) -> Option<f64> {
        (self.cores > 0).then_some(f64::from(self.cores))
    }

    pub fn get(&self, id: MetricId, scope: &Scope) -> Option<&Series> {
        self.series.get(id.0)?.get(scope)
    }

    /// The scopes that have values of a metric.
    pub fn scopes(&self, id: MetricId) -> impl Iterator<Item = &Scope> {
        self.series.get(id.0).into_iter().flat_map(BTreeMap::keys)
    }
}
