//! CSV (RFC 4180), one line per value: time, node, scope, metric, value, unit, quality.

use weigh_schema::top::TopReport;

use super::exporter::{ExporterKind, MetricExporter};
use super::jobs::job_points;
use super::openmetrics::number_text;
use super::point::Point;
use super::scope_label::label_value;
use super::text_file::{LineFormat, TextExporter};

/// This exporter.
pub const KIND: ExporterKind = ExporterKind {
    name: "csv",
    usage: "csv=FILE",
    open: |path| {
        TextExporter::open(FORMAT, path)
            .map(|exporter| Box::new(exporter) as Box<dyn MetricExporter>)
    },
};

const FORMAT: LineFormat =
    LineFormat { exporter: "csv", head: "time,node,scope,metric,value,unit,quality\n", lines };

fn lines(report: &TopReport) -> (String, u64) {
    let (mut text, mut values) = (String::new(), 0);
    let [time, node] = [report.time.to_string(), quoted(&label_value(&report.node))];
    for (scope, metrics) in &report.metrics {
        let scope = quoted(&label_value(&scope.to_string()));
        for (metric, found) in metrics {
            let Some(value) = found.value.filter(|value| value.as_f64().is_finite()) else {
                continue;
            };
            let metric = quoted(&label_value(metric));
            let [value, unit, quality] =
                [number_text(value), found.unit.to_string(), found.quality.to_string()];
            text += &format!("{time},{node},{scope},{metric},{value},{unit},{quality}\n");
            values += 1;
        }
    }
    for point in job_points(report) {
        let scope = quoted(&format!("{}:{}", point.scope.kind, point.scope.instance()));
        let Point { metric, value, quality, .. } = point;
        let value = number_text(value);
        text +=
            &format!("{time},{node},{scope},{},{value},{},{quality}\n", metric.name, metric.unit);
        values += 1;
    }
    (text, values)
}

fn quoted(text: &str) -> String {
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_text_with_commas_and_quotes_is_one_field() {
        assert_eq!(quoted("mount:/a,\"b\""), "\"mount:/a,\"\"b\"\"\"");
        assert_eq!(quoted("disk:sda"), "disk:sda");
    }
}
