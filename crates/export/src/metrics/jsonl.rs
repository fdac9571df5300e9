//! JSON lines: one `weigh.top/1` object per report, as `weigh top --once --json` prints it, without processes.

use weigh_schema::top::TopReport;

use super::exporter::{ExporterKind, MetricExporter};
use super::text_file::{LineFormat, TextExporter};

/// This exporter.
pub const KIND: ExporterKind = ExporterKind {
    name: "jsonl",
    usage: "jsonl=FILE",
    open: |path| {
        TextExporter::open(FORMAT, path)
            .map(|exporter| Box::new(exporter) as Box<dyn MetricExporter>)
    },
};

const FORMAT: LineFormat = LineFormat { exporter: "jsonl", head: "", lines };

fn lines(report: &TopReport) -> (String, u64) {
    let available = report.metrics.values().flat_map(|metrics| metrics.values());
    let values = available.filter(|value| value.value.is_some()).count() as u64;
    let node = TopReport { processes: Vec::new(), ..report.clone() };
    // A map with keys of texts and numbers is always written.
    let text = serde_json::to_string(&node).unwrap_or_default();
    (text + "\n", values)
}
