//! Files of rules (TOML; docs/rules.md has the form).
//!
//! Reads the text of a file; emits a checked set: the shipped rules, and those of the file beside them or in the place of
//! one of the same name. Refuses what is not of the form.

use toml::de::DeTable;
use weigh_schema::rule::RuleMetric;
use weigh_schema::{MetricKind, Unit, nearest};

use super::error::RuleError;
use super::metric_table::MetricTable;
use super::rule::Rule;
use super::source::{Answer, Item, Source};

/// The shipped rules, as a file that can be copied.
pub const SHIPPED_RULES: &str = include_str!("../../data/rules.toml");

/// The most rules of a file.
const MOST_RULES: usize = 256;
/// The largest file, in bytes.
const LARGEST_FILE: usize = 1 << 20;

/// Rules, checked.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    pub(super) rules: Vec<Rule>,
    pub(super) metrics: MetricTable,
}

impl RuleSet {
    /// The rules that weigh brings along.
    pub fn shipped() -> RuleSet {
        // Invariant: it is read. The test `the_shipped_rules_are_read` parses this very text.
        RuleSet::parse(SHIPPED_RULES, "the shipped rules").unwrap_or_default()
    }

    /// Reads the file of that path. The shipped rules are in the set as well, unless it says `shipped = false`; one of the
    /// same name stands in the place of the shipped one.
    ///
    /// # Errors
    /// Where the text is no file of rules: the line, what is wrong, what was expected, what is near.
    pub fn parse(text: &str, path: &str) -> Result<RuleSet, RuleError> {
        let source = Source { text, path };
        if text.len() > LARGEST_FILE {
            let message = format!("it has {} bytes: expected {LARGEST_FILE} at most", text.len());
            return Err(RuleError::new(source.at("", 0..0), message));
        }
        let table = DeTable::parse(text).map_err(|error| {
            let at = source.at("", error.span().unwrap_or_default());
            RuleError::new(at, format!("not TOML: {}", error.message()))
        })?;
        RuleSet::read(&source, table.get_ref())
    }

    fn read<'a>(source: &Source<'a>, table: &'a DeTable<'a>) -> Answer<RuleSet> {
        let root = source.items(table, "", &["shipped", "remove", "metric", "rule"])?;
        let key = |name: &str| root.iter().find(|item| item.name == name);
        let is_added = key("shipped").map(Item::boolean).transpose()?.unwrap_or(true);
        let mut set = if is_added { RuleSet::shipped() } else { RuleSet::default() };
        key("remove").map(|item| set.remove(item)).transpose()?;
        // Rules use metrics that may be declared behind them.
        key("metric").map(|item| set.declare(source, item)).transpose()?;
        key("rule").map(|item| set.add(source, item)).transpose()?;
        Ok(set)
    }

    /// The rules, in the order of the file.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    fn add<'a>(&mut self, source: &Source<'a>, item: &Item<'a>) -> Answer<()> {
        let items = source.items(item.table("tables, such as [rule.memory_low]")?, "rule", &[])?;
        if let Some(item) = items.get(MOST_RULES) {
            let message = format!("expected {MOST_RULES} rules at most, found {}", items.len());
            return Err(RuleError::new(item.at.clone(), message));
        }
        for item in &items {
            let rule = Rule::read(source, item, &mut self.metrics)?;
            match self.rules.iter_mut().find(|known| known.name == rule.name) {
                Some(known) => *known = rule,
                None => self.rules.push(rule),
            }
        }
        Ok(())
    }

    fn declare<'a>(&mut self, source: &Source<'a>, item: &Item<'a>) -> Answer<()> {
        let table = item.table("tables, such as [metric.queue_length]")?;
        for metric in source.items(table, "metric", &[])? {
            metric.check_name()?;
            if RuleMetric::find(metric.name).is_some() {
                let message =
                    format!("weigh itself has a metric {}: expected another name", metric.name);
                return Err(RuleError::new(metric.at.clone(), message));
            }
            let (mut unit, mut kind) = (Unit::Count, MetricKind::Gauge);
            let table = metric.table("a table with unit and kind")?;
            for key in source.items(table, &metric.at.key, &["unit", "kind"])? {
                match key.name {
                    "unit" => unit = key.choice(&UNITS)?,
                    _ => kind = key.choice(&KINDS)?,
                }
            }
            self.metrics.declare(metric.name, unit, kind);
        }
        Ok(())
    }

    fn remove(&mut self, item: &Item<'_>) -> Answer<()> {
        for name in item.words("a list of names of rules, such as [\"gpu_idle\"]")? {
            let Some(at) = self.rules.iter().position(|rule| rule.name == name) else {
                let near = nearest(&name, self.rules.iter().map(|rule| rule.name.as_str()));
                let near = near.into_iter().map(str::to_string).collect();
                let message = format!("there is no shipped rule '{name}' to remove");
                return Err(RuleError::new(item.at.clone(), message).near(near));
            };
            self.rules.remove(at);
        }
        Ok(())
    }
}

const KINDS: [(&str, MetricKind); 2] =
    [("counter", MetricKind::Counter), ("gauge", MetricKind::Gauge)];

const UNITS: [(&str, Unit); 9] = [
    ("count", Unit::Count),
    ("bytes", Unit::Bytes),
    ("seconds", Unit::Seconds),
    ("ratio", Unit::Ratio),
    ("cores", Unit::Cores),
    ("threads", Unit::Threads),
    ("celsius", Unit::Celsius),
    ("watts", Unit::Watts),
    ("joules", Unit::Joules),
];
