//! A report as values that an agent's stream `pushed` takes: few, with names that every reader can write as they are; and the
//! metrics that they are exported as.

use crate::metric::{Formula, Group, Metric, MetricKind, MetricScope};
use crate::scope::Scope;
use crate::stream::{MOST_NAME_BYTES, MOST_PUSHED, MOST_QUERY_BYTES, PushedSample, TraceQuery};
use crate::synthesis::{Distribution, KeyPart, SynthesisReport, SynthesisResult, What};
use crate::unit::Unit;

/// Keys of each table.
const MOST_KEYS: usize = 10;
/// How the scope of a stream of `weigh trace` begins.
const TRACE: &str = "trace:";

const fn metric(
    name: &'static str,
    unit: Unit,
    kind: MetricKind,
    help: &'static str,
    counts: &'static str,
) -> Metric {
    Metric {
        name,
        unit,
        kind,
        scope: MetricScope::Node,
        group: Group::Processes,
        help,
        counts,
        formula: Formula::NotMeasured(
            "it is known while its client publishes it, and in no summary",
        ),
        series: None,
    }
}

/// The metrics that streams of `weigh trace` publish.
pub static TRACE_METRICS: [Metric; 9] = [
    metric(
        "trace_lost_events_total",
        Unit::Count,
        MetricKind::Counter,
        "events lost",
        "Events that the stream has lost: where there are any, its values are incomplete.",
    ),
    metric(
        "trace_pairs_total",
        Unit::Count,
        MetricKind::Counter,
        "pairs of events",
        "Pairs of `--latency` or `--sequence`.",
    ),
    metric(
        "trace_unanswered_total",
        Unit::Count,
        MetricKind::Counter,
        "first events without a second",
        "First events of a pair that no second one followed in time.",
    ),
    metric(
        "trace_latency_p50_seconds",
        Unit::Seconds,
        MetricKind::Gauge,
        "median of the time between two events",
        "Median of the time from the first event of a pair to the second, of all pairs until now; at most a sixteenth too large.",
    ),
    metric(
        "trace_latency_p99_seconds",
        Unit::Seconds,
        MetricKind::Gauge,
        "99th percentile of the time between two events",
        "99th percentile of that time, at most a sixteenth too large.",
    ),
    metric(
        "trace_latency_most_seconds",
        Unit::Seconds,
        MetricKind::Gauge,
        "longest time between two events",
        "The longest such time.",
    ),
    metric(
        "trace_key_events_total",
        Unit::Count,
        MetricKind::Counter,
        "events of a key",
        "Events of a key of `--rate`, `--top` or `--histogram`, of ten keys of each at most.",
    ),
    metric(
        "trace_key_last_second_events",
        Unit::Count,
        MetricKind::Gauge,
        "events of a key in the last second",
        "Events of a key of `--rate` in the last whole second.",
    ),
    metric(
        "trace_key_value_p99",
        Unit::Count,
        MetricKind::Gauge,
        "99th percentile of a field",
        "99th percentile of the values of a field of `--histogram`, of a key.",
    ),
];

/// Any other value that a client publishes: what it calls it is a label.
pub static PUBLISHED_VALUE: Metric = metric(
    "published_value",
    Unit::Count,
    MetricKind::Gauge,
    "value that a client has published",
    "The latest value that a client has published by the name, for the scope and with the unit that it says.",
);

/// The stream's `PID/N`, and the key, of a scope of a stream of `weigh trace`.
pub fn trace_stream(scope: &Scope) -> Option<(&str, &str)> {
    let Scope::Other(text) = scope else { return None };
    let stream = text.strip_prefix(TRACE)?;
    Some(stream.split_once(':').unwrap_or((stream, "")))
}

/// The values of a report of that process's stream, which follows that process. The scope is `trace:PID/N`, N being the number
/// of what was asked for, counted from 0, and `:KEY` behind it where a key is meant. What there is no room for in one request
/// is left out, the keys of the last tables first.
pub fn published(report: &SynthesisReport, pid: u32, followed: Option<u32>) -> Vec<PushedSample> {
    let mut all = Vec::new();
    for (number, found) in report.found.iter().enumerate() {
        let scope = format!("{TRACE}{pid}/{number}");
        let query = Some(Box::new(query(&found.asked, followed)));
        let mut tell = |scope: &str, name: &str, unit: Unit, value: f64| {
            let (scope, metric) = (Scope::Other(scope.to_string()), name.to_string());
            all.push(PushedSample { scope, metric, value, unit: Some(unit), query: query.clone() });
        };
        tell(&scope, "trace_lost_events_total", Unit::Count, found.lost_total as f64);
        values(found, &scope, &mut tell);
    }
    all.retain(|sample| sample.check().is_ok());
    all.truncate(MOST_PUSHED);
    all
}

fn query(asked: &str, followed_pid: Option<u32>) -> TraceQuery {
    let ends = asked.char_indices().map(|(at, letter)| at + letter.len_utf8());
    let end = ends.take_while(|end| *end <= MOST_QUERY_BYTES).last().unwrap_or(0);
    TraceQuery { asked: asked[..end].to_string(), followed_pid }
}

fn values(found: &SynthesisResult, scope: &str, tell: &mut dyn FnMut(&str, &str, Unit, f64)) {
    match &found.what {
        What::Latency(pairs) | What::Sequence(pairs) => {
            tell(scope, "trace_pairs_total", Unit::Count, pairs.pairs_total as f64);
            tell(scope, "trace_unanswered_total", Unit::Count, pairs.unanswered_total as f64);
            if let Some(Distribution { p50, p99, max, .. }) = &pairs.seconds {
                tell(scope, "trace_latency_p50_seconds", Unit::Seconds, *p50);
                tell(scope, "trace_latency_p99_seconds", Unit::Seconds, *p99);
                tell(scope, "trace_latency_most_seconds", Unit::Seconds, *max);
            }
        }
        What::Rate(table) | What::Top(table) | What::Histogram(table) => {
            for row in table.rows.iter().take(MOST_KEYS) {
                let key: Vec<String> = row.key.iter().map(key_text).collect();
                let mut scope = format!("{scope}:{}", key.join("/"));
                scope.truncate(MOST_NAME_BYTES);
                tell(&scope, "trace_key_events_total", Unit::Count, row.events_total as f64);
                if let Some(rate) = row.rate {
                    tell(&scope, "trace_key_last_second_events", Unit::Count, rate.last as f64);
                }
                if let Some(Distribution { p99, .. }) = &row.values {
                    tell(&scope, "trace_key_value_p99", Unit::Count, *p99);
                }
            }
        }
    }
}

/// Of letters that a scope has.
fn key_text(part: &KeyPart) -> String {
    let text = match part {
        KeyPart::Bool(value) => value.to_string(),
        KeyPart::Unsigned(number) => number.to_string(),
        KeyPart::Signed(number) => number.to_string(),
        KeyPart::Text(text) => text.clone(),
    };
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_.:/@-".contains(c) { c } else { '_' };
    text.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthesis::{Pairs, REPORT, Row, Table};

    #[test]
    fn values_are_such_as_an_agent_takes_whatever_keys_are() {
        let row = |key: &str| Row {
            key: vec![KeyPart::Text(key.into()), KeyPart::Signed(-7)],
            events_total: 3,
            rate: None,
            values: None,
        };
        let mut rows = vec![row("a b\u{1b}[31m/\u{e4}"), row(&"x".repeat(300))];
        rows.extend((0..100).map(|number| row(&format!("k{number}"))));
        let seconds = Distribution {
            count: 2,
            mean: 1.0,
            min: 0.5,
            p50: 0.5,
            p99: f64::INFINITY,
            max: 1.5,
            buckets: Vec::new(),
        };
        let pairs = Pairs { pairs_total: 2, seconds: Some(seconds), ..Pairs::default() };
        let result = |what| SynthesisResult {
            asked: "\u{e4}".repeat(150),
            lost_total: 5,
            sampled: Vec::new(),
            what,
        };
        let table = || What::Top(Table { rows: rows.clone(), ..Table::default() });
        let found = [What::Latency(pairs), table(), table(), table(), table(), table(), table()];
        let report = SynthesisReport {
            schema: REPORT.into(),
            seconds: 1.0,
            events_total: 9,
            late_total: 0,
            reports_missed_total: 0,
            switches_total: 0,
            switches: Vec::new(),
            found: found.map(result).into(),
        };
        let all = published(&report, 42, Some(7));
        assert_eq!(all.len(), MOST_PUSHED);
        assert!(all.iter().all(|sample| sample.check().is_ok()));
        assert!(all.iter().all(|sample| TRACE_METRICS.iter().any(|one| one.name == sample.metric)));
        let query = TraceQuery { asked: "\u{e4}".repeat(100), followed_pid: Some(7) };
        assert!(all.iter().all(|sample| sample.query.as_deref() == Some(&query)));
        let scope = |text: &str| Scope::from(text.to_string());
        assert_eq!(trace_stream(&scope("trace:42/1:a:b")), Some(("42/1", "a:b")));
        assert_eq!(trace_stream(&scope("trace:42/0")), Some(("42/0", "")));
        assert_eq!(trace_stream(&scope("queue:42/0")), None);
        let value = |scope: &str, name: &str| {
            let is =
                |sample: &&PushedSample| sample.scope.to_string() == scope && sample.metric == name;
            all.iter().find(is).map(|sample| sample.value)
        };
        assert_eq!(value("trace:42/0", "trace_lost_events_total"), Some(5.0));
        assert_eq!(value("trace:42/0", "trace_latency_most_seconds"), Some(1.5));
        assert_eq!(value("trace:42/0", "trace_latency_p99_seconds"), None);
        assert_eq!(value("trace:42/1:a_b__31m/_/-7", "trace_key_events_total"), Some(3.0));
        assert_eq!(value("trace:42/1:k7/-7", "trace_key_events_total"), Some(3.0));
        assert_eq!(value("trace:42/1:k8/-7", "trace_key_events_total"), None);
    }
}
