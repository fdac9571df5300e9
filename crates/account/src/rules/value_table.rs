//! The values of the present look, by metric and scope, as far as rules use them.
//!
//! Values of collectors come in tables: which of their places rules use is found once per layout, and values that were not
//! read again stay. Single values are known for the look at which they were given.

use std::collections::BTreeMap;

use weigh_schema::sample::SampleTable;
use weigh_schema::update::Scope;

use super::expression::MetricId;
use super::input::RuleInput;
use super::metric_table::MetricTable;
use super::rule::LONGEST_PACE_NS;
use super::series::Series;

/// The most scopes of a metric: what is pushed may have any.
const MOST_SCOPES: usize = 4096;

/// Which places of a table rules use.
#[derive(Debug, Default)]
struct BoundTable {
    /// The layout that this is of; none: it was not looked at yet.
    layout: Option<u64>,
    places: Vec<(usize, MetricId)>,
    /// CPUs that it has values of.
    cores: u32,
}

/// How often values of a metric are taken, where they come more often.
#[derive(Clone, Copy, Debug)]
struct MetricPace {
    pace_ns: u64,
    next_ns: u64,
    is_due: bool,
}

/// A look may come a little early: a tenth of the pace.
pub(super) fn next_look(at_ns: u64, pace_ns: u64) -> u64 {
    at_ns.saturating_add(pace_ns - pace_ns / 10)
}

#[derive(Debug, Default)]
pub(super) struct ValueTable {
    series: Vec<BTreeMap<Scope, Series>>,
    /// By metric: whether a value has come or gone at this look.
    is_changed: Vec<bool>,
    paces: Vec<MetricPace>,
    tables: Vec<BoundTable>,
    /// Metrics of single values.
    single: Vec<MetricId>,
    look: u64,
    /// CPUs that there are single values of, at this look and at the one before.
    cores: u32,
    cores_before: u32,
    last_core: Option<u32>,
    /// Whether any rule is judged for single CPUs.
    has_core_rules: bool,
}

impl ValueTable {
    pub fn new(metrics: &MetricTable, has_core_rules: bool) -> ValueTable {
        let count = metrics.all().len();
        let (series, is_changed) = (vec![BTreeMap::new(); count], vec![false; count]);
        let pace = MetricPace { pace_ns: LONGEST_PACE_NS, next_ns: 0, is_due: true };
        let paces = vec![pace; count];
        ValueTable { series, is_changed, paces, has_core_rules, ..ValueTable::default() }
    }

    /// A rule looks at a metric so often.
    pub fn keep_pace(&mut self, id: MetricId, pace_ns: u64) {
        let pace = &mut self.paces[id.0].pace_ns;
        *pace = pace_ns.min(*pace);
    }

    /// Begins a look.
    pub fn begin(&mut self, at_ns: u64) {
        self.look += 1;
        self.is_changed.fill(false);
        self.paces.iter_mut().for_each(|pace| pace.is_due = at_ns >= pace.next_ns);
    }

    /// Takes what collectors have read, as often as rules look at it; each table has its number at all looks.
    pub fn take_table(
        &mut self,
        at_ns: u64,
        number: usize,
        table: &dyn SampleTable,
        metrics: &MetricTable,
    ) {
        if self.tables.len() <= number {
            self.tables.resize_with(number + 1, BoundTable::default);
        }
        if self.tables[number].layout != Some(table.layout()) {
            self.bind(number, table, metrics);
        }
        if !table.is_fresh() {
            return;
        }
        for (place, id) in &self.tables[number].places {
            let (sample, pace) = (table.sample(*place), &mut self.paces[id.0]);
            // That a value is not known any more is said once.
            if !pace.is_due && sample.value.is_some() {
                continue;
            }
            let Some(series) = self.series[id.0].get_mut(sample.scope) else { continue };
            let value = sample.value.map(|value| value.as_f64());
            if pace.is_due || series.value().is_some() {
                series.take(at_ns, value, None, metrics.get(*id));
                self.is_changed[id.0] = true;
                pace.next_ns = next_look(at_ns, pace.pace_ns);
            }
        }
    }

    /// Finds the places that rules use. What the table has no more is gone.
    fn bind(&mut self, number: usize, table: &dyn SampleTable, metrics: &MetricTable) {
        let mut bound = BoundTable { layout: Some(table.layout()), ..BoundTable::default() };
        let mut last_core = None;
        for place in 0..table.places() {
            let sample = table.sample(place);
            if let Scope::Core(core) = *sample.scope {
                // All of a CPU come one after the other.
                bound.cores += u32::from(last_core.replace(core) != Some(core));
                if !self.has_core_rules {
                    continue;
                }
            }
            let Some(id) = metrics.used(sample.metric.name) else { continue };
            if let Some(series) = room(&mut self.series[id.0], sample.scope) {
                (series.table, series.look) = (Some(number), self.look);
                bound.places.push((place, id));
                self.paces[id.0].is_due = true;
            }
        }
        let look = self.look;
        let is_there = |series: &Series| series.table != Some(number) || series.look == look;
        self.series.iter_mut().for_each(|series| series.retain(|_, series| is_there(series)));
        self.tables[number] = bound;
        self.is_changed.fill(true);
    }

    /// Takes single values, all of a look. What they do not have is not known from now on.
    pub fn take_values<'a>(
        &mut self,
        at_ns: u64,
        values: impl Iterator<Item = RuleInput<'a>>,
        metrics: &MetricTable,
    ) {
        (self.cores_before, self.cores, self.last_core) = (self.cores, 0, None);
        for input in values {
            self.put(at_ns, input, metrics);
        }
        let ValueTable { single, series, is_changed, look, .. } = self;
        single.retain(|id| {
            let series = &mut series[id.0];
            let before = series.len();
            series.retain(|_, series| series.table.is_some() || series.look == *look);
            is_changed[id.0] |= series.len() != before;
            !series.is_empty()
        });
        if self.cores != self.cores_before {
            self.is_changed.fill(true);
        }
    }

    fn put(&mut self, at_ns: u64, input: RuleInput<'_>, metrics: &MetricTable) {
        if let Scope::Core(core) = *input.scope {
            self.cores += u32::from(self.last_core.replace(core) != Some(core));
            if !self.has_core_rules {
                return;
            }
        }
        let Some(id) = metrics.used(input.metric) else { return };
        let Some(series) = room(&mut self.series[id.0], &input.scope) else { return };
        // Nobody gives values in the place of a collector.
        if series.table.is_some() {
            return;
        }
        series.look = self.look;
        series.take(at_ns, input.value, input.per_second, metrics.get(id));
        self.is_changed[id.0] = true;
        if !self.single.contains(&id) {
            self.single.push(id);
        }
    }

    /// Whether any value has come or gone at this look.
    pub fn has_changed(&self) -> bool {
        self.is_changed.contains(&true)
    }

    /// Whether a value of the metric has come or gone at this look.
    pub fn is_changed(&self, id: MetricId) -> bool {
        self.is_changed[id.0]
    }

    pub fn cores(&self) -> Option<f64> {
        let cores = self.cores + self.tables.iter().map(|table| table.cores).sum::<u32>();
        (cores > 0).then_some(f64::from(cores))
    }

    pub fn get(&self, id: MetricId, scope: &Scope) -> Option<&Series> {
        self.series.get(id.0)?.get(scope)
    }

    /// The scopes that have values of a metric.
    pub fn scopes(&self, id: MetricId) -> impl Iterator<Item = &Scope> {
        self.series.get(id.0).into_iter().flat_map(BTreeMap::keys)
    }
}

/// The series of a scope, made where there is room for one more.
fn room<'s>(series: &'s mut BTreeMap<Scope, Series>, scope: &Scope) -> Option<&'s mut Series> {
    if !series.contains_key(scope) {
        if series.len() >= MOST_SCOPES {
            return None;
        }
        series.insert(scope.clone(), Series::default());
    }
    series.get_mut(scope)
}
