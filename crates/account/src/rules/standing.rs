//! One rule for one scope: from true to holding, and back.

use std::collections::BTreeMap;

use weigh_schema::Unit;
use weigh_schema::amount::show_seconds;
use weigh_schema::rule::{RULE_EVENT, RuleChange, RuleEvent, RuleStanding, RuleStatus};
use weigh_schema::update::Scope;

use super::evaluate::{Judge, Unknown};
use super::input::RuleMoment;
use super::rule::Rule;
use super::template::bounded;
use super::value_table::ValueTable;

/// A rule for one scope, as long as its condition is true, or it holds.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    /// Since when its condition has been true.
    since: RuleMoment,
    /// When it was last true, where the rule holds.
    held_ns: Option<u64>,
    /// What was said when it began.
    text: String,
    /// The look at which it was last judged.
    pub look: u64,
}

/// The scopes for which a rule is true or holds.
pub(super) type Standings = BTreeMap<Scope, Standing>;

/// A rule, judged at a look.
#[derive(Clone, Copy)]
pub(super) struct Verdict<'a> {
    pub rule: &'a Rule,
    pub values: &'a ValueTable,
    pub at: RuleMoment,
    pub look: u64,
}

impl<'a> Verdict<'a> {
    fn judge<'s>(&self, scope: &'s Scope) -> Judge<'s>
    where
        'a: 's,
    {
        Judge { values: self.values, scope }
    }

    /// Judges it for a scope, and says what has begun or ended; or why that is not known.
    pub fn pass(
        &self,
        scope: &Scope,
        standings: &mut Standings,
        events: &mut Vec<RuleEvent>,
    ) -> Result<(), Unknown> {
        let truth = self.judge(scope).truth(&self.rule.when);
        let is_true = truth == Ok(true);
        match standings.get_mut(scope) {
            None if is_true => {
                let mut standing = Standing::new(self.at, self.look);
                events.extend(self.began(scope, &mut standing));
                standings.insert(scope.clone(), standing);
            }
            None => {}
            Some(standing) => {
                standing.look = self.look;
                let goes_on = match standing.held_ns {
                    None if is_true => {
                        events.extend(self.began(scope, standing));
                        true
                    }
                    None => false,
                    Some(held_ns) if self.holds_on(scope, truth) => {
                        standing.held_ns = Some(held_ns.max(self.at.ns));
                        true
                    }
                    Some(held_ns) => self.at.ns.saturating_sub(held_ns) < self.rule.keep_ns,
                };
                if !goes_on && let Some(standing) = standings.remove(scope) {
                    events.extend(self.ended(scope, &standing));
                }
            }
        }
        truth.map(|_| ())
    }

    /// Whether what holds goes on: until another condition is true, if it has one. What is not known holds nothing.
    fn holds_on(&self, scope: &Scope, truth: Result<bool, Unknown>) -> bool {
        let is_over = |until| self.judge(scope).truth(until) == Ok(true);
        match (truth, &self.rule.until) {
            (Ok(true), _) => true,
            (Ok(false), Some(until)) => !is_over(until),
            _ => false,
        }
    }

    /// It begins if it has been true for long enough.
    fn began(&self, scope: &Scope, standing: &mut Standing) -> Option<RuleEvent> {
        if self.at.ns.saturating_sub(standing.since.ns) < self.rule.for_ns {
            return None;
        }
        standing.held_ns = Some(self.at.ns);
        standing.text = self.words(scope);
        Some(self.event(scope, standing, RuleChange::Began, standing.text.clone()))
    }

    /// Nothing is said of what has not held.
    fn ended(&self, scope: &Scope, standing: &Standing) -> Option<RuleEvent> {
        standing.held_ns?;
        let lasted = self.at.ns.saturating_sub(standing.since.ns) as f64 * 1e-9;
        let text = bounded(format!("over after {}: {}", show_seconds(lasted), standing.text));
        Some(self.event(scope, standing, RuleChange::Ended, text))
    }

    fn event(
        &self,
        scope: &Scope,
        standing: &Standing,
        state: RuleChange,
        text: String,
    ) -> RuleEvent {
        let (value, unit, per_second) = self.value(scope);
        RuleEvent {
            schema: RULE_EVENT.to_string(),
            rule: self.rule.name.clone(),
            state,
            severity: self.rule.severity,
            scope: scope.clone(),
            metric: self.rule.metric.clone(),
            value,
            unit,
            per_second,
            at: self.at.time,
            since: standing.since.time,
            text,
            paste: self.rule.line.line(scope),
        }
    }

    fn value(&self, scope: &Scope) -> (Option<f64>, Unit, bool) {
        let (number, dimension) = self.rule.value();
        let value = self.judge(scope).number(number).ok().filter(|value| value.is_finite());
        (value, dimension.unit.unwrap_or(Unit::Count), dimension.per_second)
    }

    fn words(&self, scope: &Scope) -> String {
        self.rule.words.words(scope, &|number| self.judge(scope).number(number).ok())
    }

    /// How it stands for a scope.
    pub fn status(&self, scope: &Scope, standing: &Standing) -> RuleStatus {
        let (value, unit, per_second) = self.value(scope);
        RuleStatus {
            scope: Some(scope.clone()),
            value,
            unit,
            per_second,
            true_seconds: Some(self.at.ns.saturating_sub(standing.since.ns) as f64 * 1e-9),
            // While nobody looks at what it is about, it says what it said.
            text: match value {
                None if !standing.text.is_empty() => standing.text.clone(),
                _ => self.words(scope),
            },
            paste: self.rule.line.line(scope),
            ..self.unavailable(standing.state(), None)
        }
    }

    /// How it stands where it cannot be judged, and why.
    pub fn unavailable(&self, state: RuleStanding, reason: Option<String>) -> RuleStatus {
        let (_, dimension) = self.rule.value();
        RuleStatus {
            rule: self.rule.name.clone(),
            state,
            severity: self.rule.severity,
            scope: None,
            metric: self.rule.metric.clone(),
            value: None,
            unit: dimension.unit.unwrap_or(Unit::Count),
            per_second: dimension.per_second,
            true_seconds: None,
            for_seconds: self.rule.for_seconds(),
            text: String::new(),
            paste: String::new(),
            reason,
        }
    }
}

impl Standing {
    fn new(since: RuleMoment, look: u64) -> Standing {
        Standing { since, held_ns: None, text: String::new(), look }
    }

    fn state(&self) -> RuleStanding {
        match self.held_ns {
            Some(_) => RuleStanding::Holds,
            None => RuleStanding::Pending,
        }
    }
}
