//! OpenMetrics 1.0 text of a report, and the older text format of Prometheus (0.0.4).
//!
//! Values have no times: the one who scrapes sets them. `instance` and `job` are labels of the scraper, too.

use std::fmt::Write as _;

use weigh_schema::top::TopReport;
use weigh_schema::{Metric, MetricKind, Number, Unit};

use super::batch::{Batch, BatchBuilder};
use super::point::Point;

/// A text format that is scraped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus text 0.0.4.
    Prometheus,
}

impl TextFormat {
    /// What a client wants that sends this `Accept`: OpenMetrics where it names it.
    pub fn accepted(accept: Option<&str>) -> TextFormat {
        match accept.is_some_and(|types| types.contains("application/openmetrics-text")) {
            true => TextFormat::OpenMetrics,
            false => TextFormat::Prometheus,
        }
    }

    /// The value of `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            TextFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            TextFormat::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Appends the report as OpenMetrics text, its `# EOF` included.
pub fn openmetrics(report: &TopReport, out: &mut String) {
    metrics_text(report, TextFormat::OpenMetrics, out);
}

/// Appends the report in a format.
pub fn metrics_text(report: &TopReport, format: TextFormat, out: &mut String) {
    write_batch(&BatchBuilder::default().build(report), format, out);
}

fn write_batch(batch: &Batch, format: TextFormat, out: &mut String) {
    for family in batch.families() {
        write_head(family[0].metric, format, out);
        family.iter().for_each(|point| write_point(point, out));
    }
    if format == TextFormat::OpenMetrics {
        out.push_str("# EOF\n");
    }
}

fn write_head(metric: &Metric, format: TextFormat, out: &mut String) {
    let name = family_name(metric, format);
    let help = escaped(metric.help);
    // A text has no way to fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {}", type_name(metric));
    let unit = unit_suffix(metric.unit).filter(|unit| name.ends_with(&format!("_{unit}")));
    if let Some(unit) = unit.filter(|_| format == TextFormat::OpenMetrics) {
        let _ = writeln!(out, "# UNIT {name} {unit}");
    }
}

/// `counter` only where the name ends as OpenMetrics wants it of counters.
pub fn type_name(metric: &Metric) -> &'static str {
    match metric.kind {
        MetricKind::Counter if metric.name.ends_with("_total") => "counter",
        _ => "gauge",
    }
}

fn family_name(metric: &Metric, format: TextFormat) -> &'static str {
    match format {
        TextFormat::OpenMetrics => metric.name.strip_suffix("_total").unwrap_or(metric.name),
        TextFormat::Prometheus => metric.name,
    }
}

/// The unit as names of metrics end in it; counts have none.
pub fn unit_suffix(unit: Unit) -> Option<String> {
    (unit != Unit::Count).then(|| unit.to_string())
}

fn write_point(point: &Point, out: &mut String) {
    out.push_str(point.metric.name);
    for (number, (name, value)) in point.scope.labels.iter().enumerate() {
        let before = if number == 0 { '{' } else { ',' };
        let _ = write!(out, "{before}{name}=\"{}\"", escaped(value));
    }
    let end = if point.scope.labels.is_empty() { " " } else { "} " };
    let _ = writeln!(out, "{end}{}", number_text(point.value));
}

/// The shortest text that is read as the same number again.
pub fn number_text(value: Number) -> String {
    match value {
        Number::Whole(number) => number.to_string(),
        Number::Real(number) => format!("{number:?}"),
    }
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::test_report::{any_report, exact, report};
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};
    use weigh_schema::node_metric::{
        node_disk_read_bytes_total as read, node_load_1m_threads as load,
        node_sensor_celsius as celsius,
    };

    type Labels = Vec<(String, String)>;

    /// A strict reader of what OpenMetrics allows here: values by name and labels.
    fn parse(text: &str) -> BTreeMap<(String, Labels), f64> {
        let mut lines: Vec<&str> = text.split('\n').collect();
        assert_eq!(lines.split_off(lines.len() - 2), ["# EOF", ""]);
        let (mut families, mut values, mut family) = (BTreeSet::new(), BTreeMap::new(), None);
        for line in lines {
            if let Some(head) = line.strip_prefix("# ") {
                let mut words = head.splitn(3, ' ');
                let (keyword, name) = (words.next().unwrap(), words.next().unwrap());
                match keyword {
                    "HELP" => assert!(families.insert(name.to_string()), "{name} comes twice"),
                    "TYPE" => family = Some((name, words.next().unwrap())),
                    "UNIT" => assert!(name.ends_with(&format!("_{}", words.next().unwrap()))),
                    other => panic!("{other}"),
                }
                continue;
            }
            let (name, labels, value) = parse_sample(line);
            let (of, kind) = family.unwrap();
            assert_eq!(
                name,
                if kind == "counter" { format!("{of}_total") } else { of.to_string() }
            );
            assert!(values.insert((name, labels), value).is_none(), "{line} comes twice");
        }
        values
    }

    fn parse_sample(line: &str) -> (String, Labels, f64) {
        let end = line.find(['{', ' ']).unwrap();
        let (name, mut rest) = line.split_at(end);
        let mut labels = Vec::new();
        while let Some(inner) = rest.strip_prefix(['{', ',']) {
            let (label, after) = inner.split_once("=\"").unwrap();
            let (value, after) = parse_quoted(after);
            labels.push((label.to_string(), value));
            rest = after;
        }
        let number = rest.strip_prefix('}').unwrap_or(rest).strip_prefix(' ').unwrap();
        (name.to_string(), labels, number.parse().unwrap())
    }

    fn parse_quoted(text: &str) -> (String, &str) {
        let (mut value, mut characters) = (String::new(), text.chars());
        loop {
            match characters.next().unwrap() {
                '"' => return (value, characters.as_str()),
                '\\' => value.push(match characters.next().unwrap() {
                    'n' => '\n',
                    other => other,
                }),
                other => value.push(other),
            }
        }
    }

    #[test]
    fn the_text_is_as_openmetrics_wants_it() {
        let report = report(
            7,
            &[
                ("node", load.name, exact(Number::Real(0.5))),
                ("disk:sd\"a\\", read.name, exact(Number::Whole(9_007_199_254_740_993))),
                ("sensor:b", celsius.name, exact(Number::Real(-3.5))),
            ],
        );
        let mut text = String::new();
        openmetrics(&report, &mut text);
        let expected = "# HELP node_load_1m_threads load of 1 minute\n\
            # TYPE node_load_1m_threads gauge\n\
            # UNIT node_load_1m_threads threads\n\
            node_load_1m_threads 0.5\n\
            # HELP node_disk_read_bytes bytes read\n\
            # TYPE node_disk_read_bytes counter\n\
            # UNIT node_disk_read_bytes bytes\n\
            node_disk_read_bytes_total{disk=\"sd\\\"a\\\\\"} 9007199254740993\n\
            # HELP node_sensor_celsius temperature\n\
            # TYPE node_sensor_celsius gauge\n\
            # UNIT node_sensor_celsius celsius\n\
            node_sensor_celsius{sensor=\"b\"} -3.5\n\
            # EOF\n";
        assert_eq!(text, expected);
        let mut older = String::new();
        metrics_text(&report, TextFormat::Prometheus, &mut older);
        assert!(
            older
                .contains("# TYPE node_disk_read_bytes_total counter\nnode_disk_read_bytes_total{")
        );
        assert!(!older.contains("UNIT") && !older.contains("EOF"));
    }

    #[test]
    fn a_client_gets_the_format_that_it_names() {
        let of_prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2";
        assert_eq!(TextFormat::accepted(Some(of_prometheus)), TextFormat::OpenMetrics);
        assert_eq!(TextFormat::accepted(Some("*/*")), TextFormat::Prometheus);
        assert_eq!(TextFormat::accepted(None), TextFormat::Prometheus);
    }

    proptest! {
        #[test]
        fn any_report_is_read_again_with_the_same_numbers(report in any_report()) {
            let mut text = String::new();
            openmetrics(&report, &mut text);
            let batch = BatchBuilder::default().build(&report);
            let labels = |point: &Point| -> Labels {
                point.scope.labels.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
            };
            let expected: BTreeMap<(String, Labels), f64> = batch.points.iter()
                .map(|point| ((point.metric.name.to_string(), labels(point)), point.value.as_f64()))
                .collect();
            prop_assert_eq!(expected.len(), batch.points.len());
            prop_assert_eq!(parse(&text), expected);
        }
    }
}
