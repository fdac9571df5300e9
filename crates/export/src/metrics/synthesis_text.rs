//! What several events say together, in OpenMetrics 1.0 and the older text format of Prometheus.
//!
//! Each thing that was asked for is a value of the label `asked`; the parts of keys are labels of their own. Numbers grow
//! from the stream's beginning on; quantiles, too, are of all until now. What was lost stands with it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use weigh_schema::synthesis::{
    Distribution, KeyPart, Pairs, Row, SynthesisReport, SynthesisResult, Table, What,
};

use super::openmetrics::{TextFormat, escaped};

/// What a family is.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
}

const fn gauge(name: &'static str, help: &'static str) -> Family {
    Family { name, kind: "gauge", help }
}

const fn counter(name: &'static str, help: &'static str) -> Family {
    Family { name, kind: "counter", help }
}

const fn summary(name: &'static str, help: &'static str) -> Family {
    Family { name, kind: "summary", help }
}

const SECONDS: Family = gauge("weigh_trace_followed_seconds", "how long events are followed");
const EVENTS: Family = counter("weigh_trace_events", "events that were looked at");
const LATE: Family =
    counter("weigh_trace_late_events", "events that came too late for their place");
const LOST: Family =
    counter("weigh_trace_lost_events", "events that were lost, of those that this looks at");
const SWITCHES: Family =
    counter("weigh_trace_switches", "changes of the stream by its own conditions");
const FIRSTS: Family = counter(
    "weigh_trace_first_events",
    "first events, by what became of them; those that wait can still become another",
);
const UNMATCHED: Family =
    counter("weigh_trace_unmatched_events", "second events that no first one waited for");
const LATENCY: Family = summary(
    "weigh_trace_latency_seconds",
    "the time between two events; quantiles are at most a sixteenth too large",
);
const LATENCY_MOST: Family =
    gauge("weigh_trace_latency_most_seconds", "the greatest of these times");
const KEY_EVENTS: Family = counter("weigh_trace_key_events", "events of a key");
const KEY_LAST: Family =
    gauge("weigh_trace_key_last_second_events", "events of a key in the last second that is over");
const KEY_VALUES: Family = summary(
    "weigh_trace_key_values",
    "values of a field, by key; quantiles are at most a sixteenth too large",
);
const OTHERS: Family = counter(
    "weigh_trace_other_events",
    "events of keys that are not told, for there are too many, or that have no key",
);

/// A report in the format that a client accepts, and the type of that.
pub fn synthesis_text(report: &SynthesisReport, accept: Option<&str>) -> (&'static str, String) {
    let format = TextFormat::accepted(accept);
    let mut text = Text { format, out: String::new() };
    text.write(report);
    if format == TextFormat::OpenMetrics {
        text.out.push_str("# EOF\n");
    }
    (format.content_type(), text.out)
}

type Labels = Vec<(String, String)>;

struct Text {
    format: TextFormat,
    out: String,
}

impl Text {
    fn write(&mut self, report: &SynthesisReport) {
        self.family(&SECONDS);
        self.sample(&SECONDS, "", &[], report.seconds);
        for (family, count) in [
            (&EVENTS, report.events_total),
            (&LATE, report.late_total),
            (&SWITCHES, report.switches_total),
        ] {
            self.family(family);
            self.count(family, &[], count);
        }
        self.each(&LOST, report, |text, found, asked| text.count(&LOST, asked, found.lost_total));
        self.each_pair(report);
        self.each_table(report);
    }

    fn each_pair(&mut self, report: &SynthesisReport) {
        let pairs = |what: &What| match what {
            What::Latency(pairs) | What::Sequence(pairs) => Some(pairs.clone()),
            _ => None,
        };
        if !report.found.iter().any(|found| pairs(&found.what).is_some()) {
            return;
        }
        self.each(&FIRSTS, report, |text, found, asked| {
            let Some(pairs) = pairs(&found.what) else { return };
            for (outcome, count) in outcomes(&pairs) {
                let labels = with(asked, "outcome", outcome);
                text.count(&FIRSTS, &labels, count);
            }
        });
        self.each(&UNMATCHED, report, |text, found, asked| {
            if let Some(pairs) = pairs(&found.what) {
                text.count(&UNMATCHED, asked, pairs.unmatched_total);
            }
        });
        self.each(&LATENCY, report, |text, found, asked| {
            let seconds = pairs(&found.what).and_then(|pairs| pairs.seconds);
            text.summary(&LATENCY, asked, seconds.as_ref());
        });
        self.each(&LATENCY_MOST, report, |text, found, asked| {
            if let Some(seconds) = pairs(&found.what).and_then(|pairs| pairs.seconds) {
                text.sample(&LATENCY_MOST, "", asked, seconds.max);
            }
        });
    }

    fn each_table(&mut self, report: &SynthesisReport) {
        if !report.found.iter().any(|found| table(found).is_some()) {
            return;
        }
        self.each_row(&KEY_EVENTS, report, |text, row, labels| {
            text.count(&KEY_EVENTS, labels, row.events_total);
        });
        self.each_row(&KEY_LAST, report, |text, row, labels| {
            if let Some(rate) = row.rate {
                text.sample(&KEY_LAST, "", labels, rate.last as f64);
            }
        });
        self.each_row(&KEY_VALUES, report, |text, row, labels| {
            text.summary(&KEY_VALUES, labels, row.values.as_ref());
        });
        self.each(&OTHERS, report, |text, found, asked| {
            let Some(table) = table(found) else { return };
            for (why, count) in [
                ("not_told", table.rest_events_total),
                ("no_room", table.others_total),
                ("no_key", table.without_key_total),
            ] {
                text.count(&OTHERS, &with(asked, "why", why), count);
            }
        });
    }

    fn each_row(
        &mut self,
        family: &Family,
        report: &SynthesisReport,
        mut write: impl FnMut(&mut Text, &Row, &[(String, String)]),
    ) {
        self.each(family, report, |text, found, asked| {
            let Some(table) = table(found) else { return };
            let names = key_names(&table.by);
            for row in &table.rows {
                let parts = names.iter().cloned().zip(row.key.iter().map(key_text));
                let labels: Labels = asked.iter().cloned().chain(parts).collect();
                write(text, row, &labels);
            }
        });
    }

    /// The family's head, and its samples of each thing that was asked for.
    fn each(
        &mut self,
        family: &Family,
        report: &SynthesisReport,
        mut write: impl FnMut(&mut Text, &SynthesisResult, &[(String, String)]),
    ) {
        self.family(family);
        // The same may have been asked for by two options, or twice.
        let mut seen = BTreeSet::new();
        for found in &report.found {
            let kind = kind_of(&found.what);
            if seen.insert((kind, found.asked.as_str())) {
                let asked = [("asked", found.asked.as_str()), ("kind", kind)];
                write(
                    self,
                    found,
                    &asked.map(|(name, value)| (name.to_string(), value.to_string())),
                );
            }
        }
    }

    fn family(&mut self, family: &Family) {
        let Family { name, kind, help } = family;
        let name = match (self.format, *kind) {
            (TextFormat::Prometheus, "counter") => format!("{name}_total"),
            _ => (*name).to_string(),
        };
        // A text has no way to fail.
        let _ = writeln!(self.out, "# HELP {name} {}\n# TYPE {name} {kind}", escaped(help));
        if name.ends_with("_seconds") && self.format == TextFormat::OpenMetrics {
            let _ = writeln!(self.out, "# UNIT {name} seconds");
        }
    }

    fn count(&mut self, family: &Family, labels: &[(String, String)], count: u64) {
        self.line(family, "_total", labels, &count.to_string());
    }

    fn sample(&mut self, family: &Family, end: &str, labels: &[(String, String)], value: f64) {
        self.line(family, end, labels, &format!("{value:?}"));
    }

    fn summary(&mut self, family: &Family, labels: &[(String, String)], of: Option<&Distribution>) {
        let Some(of) = of else { return };
        for (quantile, value) in [("0.5", of.p50), ("0.99", of.p99)] {
            self.sample(family, "", &with(labels, "quantile", quantile), value);
        }
        self.sample(family, "_sum", labels, of.mean * of.count as f64);
        self.line(family, "_count", labels, &of.count.to_string());
    }

    fn line(&mut self, family: &Family, end: &str, labels: &[(String, String)], value: &str) {
        let _ = write!(self.out, "{}{end}", family.name);
        for (number, (name, value)) in labels.iter().enumerate() {
            let before = if number == 0 { '{' } else { ',' };
            let _ = write!(self.out, "{before}{name}=\"{}\"", escaped(value));
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.out, "{close} {value}");
    }
}

fn table(found: &SynthesisResult) -> Option<&Table> {
    match &found.what {
        What::Rate(table) | What::Top(table) | What::Histogram(table) => Some(table),
        What::Latency(_) | What::Sequence(_) => None,
    }
}

fn kind_of(what: &What) -> &'static str {
    match what {
        What::Latency(_) => "latency",
        What::Sequence(_) => "sequence",
        What::Rate(_) => "rate",
        What::Top(_) => "top",
        What::Histogram(_) => "histogram",
    }
}

fn outcomes(pairs: &Pairs) -> [(&'static str, u64); 5] {
    [
        ("pair", pairs.pairs_total),
        ("overwritten", pairs.overwritten_total),
        ("unanswered", pairs.unanswered_total),
        ("not_kept", pairs.not_kept_total),
        ("no_key", pairs.without_key_total),
    ]
}

fn with(labels: &[(String, String)], name: &str, value: &str) -> Vec<(String, String)> {
    labels.iter().cloned().chain([(name.to_string(), value.to_string())]).collect()
}

/// Names of labels for the parts of a key: of letters, digits and `_`, none twice, and none that means something else.
fn key_names(by: &[String]) -> Vec<String> {
    let mut taken: BTreeSet<String> =
        ["asked", "kind", "quantile", "outcome", "why"].map(String::from).into();
    let name = |part: &String| {
        let plain: String = part.replace("->", "_").chars().map(as_label).collect();
        let plain = plain.trim_matches('_').to_string();
        let is_first = |c: char| c.is_ascii_alphabetic();
        let mut name = if plain.starts_with(is_first) { plain } else { format!("key_{plain}") };
        while !taken.insert(name.clone()) {
            name.push_str("_2");
        }
        name
    };
    by.iter().map(name).collect()
}

fn as_label(c: char) -> char {
    if c.is_ascii_alphanumeric() { c } else { '_' }
}

fn key_text(part: &KeyPart) -> String {
    match part {
        KeyPart::Bool(value) => value.to_string(),
        KeyPart::Unsigned(number) => number.to_string(),
        KeyPart::Signed(number) => number.to_string(),
        KeyPart::Text(text) => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::synthesis::{REPORT, Rate};

    fn distribution() -> Distribution {
        Distribution {
            count: 4,
            mean: 0.5,
            min: 0.25,
            p50: 0.5,
            p99: 1.0,
            max: 0.75,
            buckets: Vec::new(),
        }
    }

    fn report(found: Vec<SynthesisResult>) -> SynthesisReport {
        SynthesisReport {
            schema: REPORT.into(),
            seconds: 2.5,
            events_total: 17,
            late_total: 1,
            reports_missed_total: 0,
            switches_total: 3,
            switches: Vec::new(),
            found,
        }
    }

    fn result(asked: &str, what: What) -> SynthesisResult {
        SynthesisResult { asked: asked.into(), lost_total: 5, sampled: Vec::new(), what }
    }

    #[test]
    fn all_of_a_report_is_there_with_what_was_lost() {
        let pairs = Pairs {
            pairs_total: 4,
            unanswered_total: 2,
            seconds: Some(distribution()),
            ..Pairs::default()
        };
        let row = Row {
            key: vec![KeyPart::Text("a\"b\\\n".into()), KeyPart::Signed(-2)],
            events_total: 9,
            rate: Some(Rate { per_second: 1.5, last: 3, most: 4 }),
            values: None,
        };
        let by = vec!["comm".into(), "p->pid".into()];
        let table = Table { by, rows: vec![row], rest_events_total: 6, ..Table::default() };
        let report = report(vec![
            result("A -> B by tid", What::Latency(pairs)),
            result("of A by comm, p->pid", What::Rate(table)),
        ]);
        let (kind, text) = synthesis_text(&report, Some("application/openmetrics-text"));
        assert!(kind.starts_with("application/openmetrics-text; version=1.0.0"));
        for line in [
            "# TYPE weigh_trace_events counter",
            "weigh_trace_events_total 17",
            "weigh_trace_followed_seconds 2.5",
            "weigh_trace_switches_total 3",
            "weigh_trace_lost_events_total{asked=\"A -> B by tid\",kind=\"latency\"} 5",
            "weigh_trace_first_events_total{asked=\"A -> B by tid\",kind=\"latency\",outcome=\"unanswered\"} 2",
            "weigh_trace_latency_seconds{asked=\"A -> B by tid\",kind=\"latency\",quantile=\"0.99\"} 1.0",
            "weigh_trace_latency_seconds_sum{asked=\"A -> B by tid\",kind=\"latency\"} 2.0",
            "weigh_trace_latency_seconds_count{asked=\"A -> B by tid\",kind=\"latency\"} 4",
            "weigh_trace_key_events_total{asked=\"of A by comm, p->pid\",kind=\"rate\",comm=\"a\\\"b\\\\\\n\",p_pid=\"-2\"} 9",
            "weigh_trace_key_last_second_events{asked=\"of A by comm, p->pid\",kind=\"rate\",comm=\"a\\\"b\\\\\\n\",p_pid=\"-2\"} 3.0",
            "weigh_trace_other_events_total{asked=\"of A by comm, p->pid\",kind=\"rate\",why=\"not_told\"} 6",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n--\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        let (_, older) = synthesis_text(&report, None);
        assert!(
            older
                .contains("# TYPE weigh_trace_events_total counter\nweigh_trace_events_total 17\n")
        );
        assert!(!older.contains("EOF"));
    }

    #[test]
    fn a_family_and_a_sample_come_once_and_names_of_keys_are_labels() {
        let twice = vec![result("of A by x", What::Top(Table::default())); 2];
        let (_, text) = synthesis_text(&report(twice), Some("application/openmetrics-text"));
        let mut lines: Vec<&str> = text.lines().collect();
        let all = lines.len();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), all, "{text}");
        let names =
            key_names(&["a->b".into(), "a.b".into(), "asked".into(), "3".into(), "ä".into()]);
        assert_eq!(names, ["a_b", "a_b_2", "asked_2", "key_3", "key_"]);
    }
}
