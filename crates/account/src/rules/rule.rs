//! One rule: its condition, its scopes, its times and its texts.
//!
//! Reads a table of the file; emits a checked rule. Refuses what is missing, and metrics of two kinds of scopes.

use weigh_schema::rule::Severity;
use weigh_schema::update::Scope;
use weigh_schema::{MetricScope, nearest};

use super::dimension::Dimension;
use super::error::RuleError;
use super::expression::{MetricId, MetricUse, Number, Truth};
use super::metric_table::MetricTable;
use super::parser;
use super::scope_pattern::{KINDS, ScopePattern, kinds_of};
use super::source::{Answer, Item, Source};
use super::template::Template;

/// Looks at values in the shortest time that a rule is about, at least.
const LOOKS_OF_TIME: u64 = 10;
/// Rules wait no longer than this for values that are there.
pub(super) const LONGEST_PACE_NS: u64 = 1_000_000_000;

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its name.
    pub name: String,
    /// How much it matters.
    pub severity: Severity,
    /// The words of the command that is run when it begins and ends; empty: none.
    pub command: Vec<String>,
    /// The first metric of its condition.
    pub metric: String,
    /// Its text, as it was written.
    pub text: String,
    /// Its line to paste, as it was written.
    pub paste: String,
    pub(super) scopes: Vec<ScopePattern>,
    pub(super) metric_id: MetricId,
    /// The metric for whose scopes it is judged; none: for the node alone.
    pub(super) scoped: Option<MetricId>,
    pub(super) when: Truth,
    pub(super) until: Option<Truth>,
    pub(super) for_ns: u64,
    pub(super) keep_ns: u64,
    pub(super) words: Template,
    pub(super) line: Template,
}

impl Rule {
    /// How long the condition has to be true before the rule holds, in seconds.
    pub fn for_seconds(&self) -> f64 {
        self.for_ns as f64 * 1e-9
    }

    /// The scopes that it is judged for: `disk:*`.
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.scopes.iter().map(ScopePattern::text)
    }

    /// What its value is of: the left side of its first comparison.
    pub(super) fn value(&self) -> (&Number, Dimension) {
        self.when.first_number()
    }

    /// The metrics that its conditions and its scopes come from, each once.
    pub(super) fn judged_by(&self) -> Vec<MetricId> {
        let mut used = Vec::new();
        self.when.metrics(&mut used);
        self.until.iter().for_each(|until| until.metrics(&mut used));
        let mut found: Vec<MetricId> = self.scoped.into_iter().collect();
        for metric in used {
            if !found.contains(&metric.id) {
                found.push(metric.id);
            }
        }
        found
    }

    /// Nanoseconds between two looks at its values, where they come more often: a tenth of the shortest time that it is
    /// about. 0: each value counts.
    pub(super) fn pace_ns(&self) -> u64 {
        let of_for = Some(self.for_ns).filter(|time| *time > 0);
        let until = self.until.as_ref().and_then(Truth::shortest_window);
        let times = [of_for, self.when.shortest_window(), until];
        let shortest = times.into_iter().flatten().min().unwrap_or(0);
        (shortest / LOOKS_OF_TIME).min(LONGEST_PACE_NS)
    }

    pub(super) fn matches(&self, scope: &Scope) -> bool {
        self.scopes.iter().any(|pattern| pattern.matches(scope))
    }

    /// Reads the table of a rule.
    pub(super) fn read(
        source: &Source<'_>,
        item: &Item<'_>,
        metrics: &mut MetricTable,
    ) -> Answer<Rule> {
        item.check_name()?;
        let table = item.table("a table, such as [rule.memory_low]")?;
        let keys = source.items(table, &item.at.key, &KEYS)?;
        let scope = keys.iter().find(|key| key.name == "scope");
        let patterns = scope.map(scopes).transpose()?;
        RuleReader { item, keys, patterns, metrics, used: Vec::new() }.rule()
    }
}

const KEYS: [&str; 9] =
    ["severity", "scope", "when", "for", "until", "keep", "text", "paste", "command"];

const A_CONDITION: &str = "a condition, such as \"node_load_1m_threads > 2 * cores\"";

struct RuleReader<'a, 'm> {
    item: &'a Item<'a>,
    keys: Vec<Item<'a>>,
    patterns: Option<Vec<ScopePattern>>,
    metrics: &'m mut MetricTable,
    /// All metrics that the rule uses.
    used: Vec<MetricUse>,
}

impl<'a> RuleReader<'a, '_> {
    fn rule(mut self) -> Answer<Rule> {
        let when = self.condition("when")?.ok_or_else(|| self.missing("when"))?;
        let Some(metric) = self.used.first().copied() else {
            let at = self.key("when").unwrap_or(self.item).at.clone();
            return Err(RuleError::new(at, "expected a metric in the condition, found none"));
        };
        let until = self.condition("until")?;
        let (words, text) = self.words()?.ok_or_else(|| self.missing("text"))?;
        let (line, paste) = self.line()?;
        let scoped = self.scoped()?;
        let scopes = self.patterns.take().unwrap_or_else(|| self.usual_scopes(scoped));
        let for_ns = self.duration_ns("for")?.unwrap_or_default();
        let severity = self.key("severity").map(|key| key.choice(&Severity::NAMES)).transpose()?;
        const WORDS: &str = "a list of words, such as [\"mail\", \"-s\", \"weigh\", \"root\"]";
        let command = self.key("command").map(|key| key.words(WORDS)).transpose()?;
        Ok(Rule {
            name: self.item.name.to_string(),
            severity: severity.unwrap_or_default(),
            command: command.unwrap_or_default(),
            text,
            paste,
            scopes,
            metric: self.metrics.get(metric.id).name.clone(),
            metric_id: metric.id,
            scoped,
            when,
            until,
            for_ns,
            keep_ns: self.duration_ns("keep")?.unwrap_or(for_ns),
            words,
            line,
        })
    }

    fn key(&self, name: &str) -> Option<&Item<'a>> {
        self.keys.iter().find(|key| key.name == name)
    }

    fn missing(&self, name: &str) -> RuleError {
        let message = format!("expected the key '{name}', which is missing");
        RuleError::new(self.item.at.clone(), message)
    }

    fn duration_ns(&self, name: &str) -> Answer<Option<u64>> {
        self.key(name).map(Item::duration_ns).transpose()
    }

    fn condition(&mut self, name: &str) -> Answer<Option<Truth>> {
        let Some(item) = self.keys.iter().find(|key| key.name == name) else { return Ok(None) };
        let text = item.text(A_CONDITION)?;
        let patterns = self.patterns.as_deref();
        let scope = |metrics: &MetricTable, id| is_of_node(metrics, id, patterns);
        let truth = parser::condition(text, self.metrics, &scope)
            .map_err(|error| RuleError::in_text(&item.at, text, error))?;
        truth.metrics(&mut self.used);
        Ok(Some(truth))
    }

    fn words(&mut self) -> Answer<Option<(Template, String)>> {
        let Some(item) = self.keys.iter().find(|key| key.name == "text") else { return Ok(None) };
        let text = item.text("a text")?;
        let patterns = self.patterns.as_deref();
        let scope = |metrics: &MetricTable, id| is_of_node(metrics, id, patterns);
        let metrics = &mut *self.metrics;
        let mut number = |text: &str| parser::number(text, metrics, &scope);
        let template = Template::parse(text, Some(&mut number))
            .map_err(|error| RuleError::in_text(&item.at, text, error))?;
        template.metrics(&mut self.used);
        Ok(Some((template, text.to_string())))
    }

    fn line(&self) -> Answer<(Template, String)> {
        let Some(item) = self.key("paste") else { return Ok(Default::default()) };
        let text = item.text("a line to paste")?;
        let template = Template::parse(text, None)
            .map_err(|error| RuleError::in_text(&item.at, text, error))?;
        Ok((template, text.to_string()))
    }

    /// The metric for whose scopes it is judged. Metrics of two kinds of scopes meet in none.
    fn scoped(&self) -> Answer<Option<MetricId>> {
        let mut scoped = self.used.iter().filter(|metric| !metric.is_of_node);
        let Some(first) = scoped.next() else { return Ok(None) };
        let kind = |metric: &MetricUse| self.metrics.get(metric.id).scope.map(kinds_of);
        let other =
            scoped.find(|metric| kind(metric).zip(kind(first)).is_some_and(|(a, b)| a != b));
        let Some(other) = other else { return Ok(Some(first.id)) };
        let (a, b) = (self.metrics.get(first.id), self.metrics.get(other.id));
        let message = format!(
            "{} and {} are of different scopes: expected metrics of one kind of scope, and of the node",
            a.name, b.name
        );
        Err(RuleError::new(self.item.at.clone(), message))
    }

    fn usual_scopes(&self, scoped: Option<MetricId>) -> Vec<ScopePattern> {
        match scoped.map(|id| self.metrics.get(id).scope) {
            None => vec![ScopePattern::new("node")],
            Some(Some(scope)) => ScopePattern::of_metric(scope),
            // What is pushed may be about anything.
            Some(None) => vec![ScopePattern::new("*")],
        }
    }
}

fn scopes(item: &Item<'_>) -> Answer<Vec<ScopePattern>> {
    const EXPECTED: &str = "a scope or a list of them, such as \"disk:*\"";
    let words = match item.text(EXPECTED) {
        Ok(text) => vec![text.to_string()],
        Err(_) => item.words(EXPECTED)?,
    };
    let pattern = |word: &String| {
        let pattern = ScopePattern::new(word);
        match KINDS.contains(&pattern.kind()) || word == "*" {
            true => Ok(pattern),
            false => {
                let near = nearest(pattern.kind(), KINDS).into_iter().map(str::to_string).collect();
                let message = format!(
                    "there is no kind of scope '{}': expected {}, and behind most of them a colon and a name or *",
                    pattern.kind(),
                    KINDS.join(", ")
                );
                Err(RuleError::new(item.at.clone(), message).near(near))
            }
        }
    };
    let patterns = words.iter().map(pattern).collect::<Answer<Vec<_>>>()?;
    match patterns.is_empty() {
        true => Err(RuleError::new(item.at.clone(), format!("expected {EXPECTED}"))),
        false => Ok(patterns),
    }
}

/// Whether a metric is read of the node while a rule is judged for these scopes.
fn is_of_node(
    metrics: &MetricTable,
    id: MetricId,
    patterns: Option<&[ScopePattern]>,
) -> Result<bool, String> {
    let metric = metrics.get(id);
    let Some(scope) = metric.scope else { return Ok(false) };
    let kinds = kinds_of(scope);
    let Some(patterns) = patterns else { return Ok(kinds[0] == "node") };
    let fits = |pattern: &ScopePattern| kinds.contains(&pattern.kind()) || pattern.text() == "*";
    match patterns.iter().all(fits) {
        true => Ok(patterns.iter().all(|pattern| pattern.kind() == "node")),
        // Beside values of other scopes there are those of the whole node.
        false if matches!(scope, MetricScope::Node | MetricScope::Core) => Ok(true),
        false => {
            let usual: Vec<String> = ScopePattern::of_metric(scope)
                .iter()
                .map(|pattern| pattern.text().to_string())
                .collect();
            Err(format!("{} has no such scope: expected scope = \"{}\"", metric.name, usual[0]))
        }
    }
}
