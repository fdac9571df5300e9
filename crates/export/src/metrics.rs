//! Exporters of the node's metrics: each takes [`TopReport`](weigh_schema::top::TopReport)s and hands them to a server or a file.
//! Jobs that are in a report, and what clients of the agent have published, are exported, too; [`JobBound`] and [`PublishedBound`]
//! say how many there are.
//!
//! An exporter is a module here that says what it is called and how it is opened, and a line in [`EXPORTERS`]. Values that
//! are unavailable are left out by all of them.

mod backoff;
mod batch;
mod csv;
mod delivery;
mod elasticsearch;
mod exporter;
pub mod grafana;
mod http;
mod jobs;
mod jsonl;
mod openmetrics;
mod otlp;
mod point;
mod published;
mod remote_write;
pub(crate) mod scope_label;
mod span_sender;
mod statsd;
mod synthesis_text;
mod target;
#[cfg(test)]
mod test_report;
mod text_file;
mod thread;

pub use batch::{Batch, BatchBuilder};
pub use exporter::{ExportError, ExporterKind, ExporterStatus, MetricExporter};
pub use jobs::JobBound;
pub use openmetrics::{TextFormat, metrics_text, openmetrics};
pub use point::Point;
pub use published::PublishedBound;
pub use scope_label::ScopeLabels;
pub use span_sender::SpanSender;
pub use synthesis_text::synthesis_text;
pub use thread::ExportThread;

/// All of them, in the order in which people are told of them.
pub const EXPORTERS: &[ExporterKind] = &[
    remote_write::KIND,
    otlp::KIND,
    elasticsearch::KIND,
    statsd::KIND,
    statsd::TAGGED_KIND,
    csv::KIND,
    jsonl::KIND,
];

/// Opens the exporter that `target` names, as `prometheus=http://127.0.0.1:9090`. Nothing is sent yet.
pub fn exporter(target: &str) -> Result<Box<dyn MetricExporter>, ExportError> {
    let (name, address) = target.split_once('=').unwrap_or((target, ""));
    let refused = |problem| ExportError::Target { exporter: target::shown(name), problem };
    let kind =
        EXPORTERS.iter().find(|kind| kind.name == name).ok_or_else(|| refused(expected()))?;
    match address {
        "" => Err(refused(format!("give it as {}", kind.usage))),
        _ => (kind.open)(address).map_err(refused),
    }
}

fn expected() -> String {
    let usages: Vec<&str> = EXPORTERS.iter().map(|kind| kind.usage).collect();
    format!("no such exporter; there are {}", usages.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(target: &str) -> String {
        exporter(target).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_target_that_is_wrong_is_refused_with_what_is_right() {
        assert!(refusal("influx=http://x").contains("prometheus=http://HOST:PORT"));
        assert!(refusal("otlp").contains("otlp=http://HOST:PORT"));
        assert!(refusal("otlp=").contains("otlp=http://HOST:PORT"));
        assert!(refusal("otlp=ftp://x").contains("http://"));
        let wrong = refusal("elasticsearch=https://user:secret@search:9200?a");
        assert!(wrong.contains("https://HOST:PORT") && !wrong.contains("secret"), "{wrong}");
        assert!(refusal("statsd=nowhere").contains("HOST:PORT"));
        assert!(refusal("csv=/nonexistent/folder/a.csv").contains("/nonexistent/folder/a.csv"));
        assert!(!refusal("\u{1b}[31m=x").contains('\u{1b}'));
    }

    #[test]
    fn each_has_a_name_of_its_own_and_a_usage_that_begins_with_it() {
        for (number, kind) in EXPORTERS.iter().enumerate() {
            assert!(EXPORTERS[number + 1..].iter().all(|other| other.name != kind.name));
            assert!(kind.usage.starts_with(&format!("{}=", kind.name)), "{}", kind.name);
        }
    }
}
