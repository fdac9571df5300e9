//! How rules stand: which hold, since when, and which cannot be judged.
//!
//! Takes the values of one look after the other; emits what has begun and ended. A rule begins after its condition has
//! been true for its time without a break, and ends when it has not been for as long: values that go up and down about a
//! threshold make one event, not many.

use jiff::Timestamp;
use weigh_schema::rule::{RuleEvent, RuleStanding, RuleStatus};
use weigh_schema::sample::SampleTable;
use weigh_schema::update::Scope;

use super::evaluate::Unknown;
use super::expression::MetricId;
use super::input::{RuleInput, RuleMoment};
use super::rule::Rule;
use super::rule_set::RuleSet;
use super::standing::{Standings, Verdict};
use super::value_table::{ValueTable, next_look};

/// When what is true is judged again, whatever comes.
#[derive(Debug)]
struct RulePace {
    pace_ns: u64,
    next_ns: u64,
}

/// How rules stand.
#[derive(Debug)]
pub struct RuleState {
    set: RuleSet,
    values: ValueTable,
    /// By the number of the rule, as what follows.
    standings: Vec<Standings>,
    /// What a rule is judged by: it is judged again when a value of these has come.
    metrics: Vec<Vec<MetricId>>,
    paces: Vec<RulePace>,
    /// Why no scope of a rule can be judged.
    unknown: Vec<Option<Unknown>>,
    at: RuleMoment,
    look: u64,
}

impl RuleState {
    /// Nothing has been judged yet.
    pub fn new(set: RuleSet) -> RuleState {
        let has_core_rules = set.rules().iter().flat_map(Rule::scopes).any(is_of_cores);
        let mut values = ValueTable::new(&set.metrics, has_core_rules);
        let metrics: Vec<Vec<MetricId>> = set.rules().iter().map(Rule::judged_by).collect();
        let pace = |rule: &Rule| RulePace { pace_ns: rule.pace_ns(), next_ns: 0 };
        let paces: Vec<RulePace> = set.rules().iter().map(pace).collect();
        for (pace, metrics) in paces.iter().zip(&metrics) {
            metrics.iter().for_each(|id| values.keep_pace(*id, pace.pace_ns));
        }
        RuleState {
            values,
            standings: vec![Standings::new(); set.rules().len()],
            paces,
            unknown: vec![None; set.rules().len()],
            metrics,
            set,
            at: RuleMoment { ns: 0, time: Timestamp::UNIX_EPOCH },
            look: 0,
        }
    }

    /// The rules.
    pub fn rules(&self) -> &[Rule] {
        self.set.rules()
    }

    /// Whether the file of the rules declares this metric, and weigh has none of that name.
    pub fn declares(&self, metric: &str) -> bool {
        self.set.metrics.declares(metric)
    }

    /// Takes all values that are known at a moment, and says what has begun and ended by them.
    pub fn take(
        &mut self,
        at: RuleMoment,
        values: &mut dyn Iterator<Item = RuleInput<'_>>,
    ) -> Vec<RuleEvent> {
        self.take_tick(at, std::iter::empty::<&dyn SampleTable>(), values)
    }

    /// The same of a tick of collectors, whose tables come in the same order at each, and of single values beside them: of
    /// jobs, and what is published. Rules are judged by values that were read again, and while they are true; of values that
    /// come in far less than a rule's shortest time, a tenth of it apart.
    pub fn take_tick<T: SampleTable>(
        &mut self,
        at: RuleMoment,
        tables: impl Iterator<Item = T>,
        values: &mut dyn Iterator<Item = RuleInput<'_>>,
    ) -> Vec<RuleEvent> {
        self.take_tables(at, tables);
        self.values.take_values(at.ns, values, &self.set.metrics);
        self.judge_due()
    }

    /// The same where nobody has looked for single values: those of the look before stay.
    pub fn take_collected<T: SampleTable>(
        &mut self,
        at: RuleMoment,
        tables: impl Iterator<Item = T>,
    ) -> Vec<RuleEvent> {
        self.take_tables(at, tables);
        self.judge_due()
    }

    fn take_tables<T: SampleTable>(&mut self, at: RuleMoment, tables: impl Iterator<Item = T>) {
        (self.at, self.look) = (at, self.look + 1);
        self.values.begin(at.ns);
        for (number, table) in tables.enumerate() {
            self.values.take_table(at.ns, number, &table, &self.set.metrics);
        }
    }

    fn judge_due(&mut self) -> Vec<RuleEvent> {
        let mut events = Vec::new();
        let is_any_due = self.look == 1 || self.values.has_changed();
        if !is_any_due && self.standings.iter().all(Standings::is_empty) {
            return events;
        }
        for number in 0..self.set.rules().len() {
            if self.is_due(number) {
                self.judge(number, &mut events);
            }
        }
        events
    }

    /// Time passes for what is true.
    fn is_due(&self, number: usize) -> bool {
        let is_changed = |id: &MetricId| self.values.is_changed(*id);
        self.look == 1
            || (!self.standings[number].is_empty() && self.at.ns >= self.paces[number].next_ns)
            || self.metrics[number].iter().any(is_changed)
    }

    fn judge(&mut self, number: usize, events: &mut Vec<RuleEvent>) {
        let RuleState { set, values, standings, paces, look, at, .. } = self;
        let (rule, values, standings) = (&set.rules()[number], &*values, &mut standings[number]);
        paces[number].next_ns = next_look(at.ns, paces[number].pace_ns);
        let verdict = Verdict { rule, values, at: *at, look: *look };
        let mut outcomes = Outcomes::default();
        match rule.scoped {
            None => outcomes.add(verdict.pass(&Scope::Node, standings, events)),
            Some(id) => {
                let scopes = values.scopes(id).filter(|scope| rule.matches(scope));
                scopes.for_each(|scope| outcomes.add(verdict.pass(scope, standings, events)));
            }
        }
        // What they are about has no values any more.
        let is_left = |scope: &&Scope| standings[*scope].look != *look;
        let left: Vec<Scope> = standings.keys().filter(is_left).cloned().collect();
        for scope in &left {
            outcomes.add(verdict.pass(scope, standings, events));
        }
        let no_value = Unknown::NoValue(rule.scoped.unwrap_or(rule.metric_id));
        self.unknown[number] = outcomes.unknown(no_value);
    }

    /// The rules that hold, those that are true but not for long enough, and those that cannot be judged, in this order; of
    /// each what matters most first.
    pub fn statuses(&self) -> Vec<RuleStatus> {
        let mut found = Vec::new();
        for (number, rule) in self.set.rules().iter().enumerate() {
            let verdict = Verdict { rule, values: &self.values, at: self.at, look: self.look };
            let standings = &self.standings[number];
            found.extend(standings.iter().map(|(scope, standing)| verdict.status(scope, standing)));
            if let (Some(unknown), true) = (self.unknown[number], standings.is_empty()) {
                let reason = Some(unknown.reason(&self.set.metrics));
                found.push(verdict.unavailable(RuleStanding::Unavailable, reason));
            }
        }
        found.sort_by_key(|status| (status.state, status.severity));
        found
    }
}

fn is_of_cores(scope: &str) -> bool {
    scope == "*" || scope.starts_with("core")
}

/// What judging a rule for all of its scopes has come to.
#[derive(Default)]
struct Outcomes {
    is_judged: bool,
    unknown: Option<Unknown>,
}

impl Outcomes {
    fn add(&mut self, outcome: Result<(), Unknown>) {
        match outcome {
            Ok(()) => self.is_judged = true,
            Err(unknown) => self.unknown = self.unknown.or(Some(unknown)),
        }
    }

    fn unknown(self, no_scope: Unknown) -> Option<Unknown> {
        (!self.is_judged).then(|| self.unknown.unwrap_or(no_scope))
    }
}
