//! Exporters against servers that answer by script, as real ones have answered, or not at all.
#![allow(clippy::unwrap_used)]

mod files;
mod promtool;
mod replay;
mod search;
mod server;
mod statsd;
mod write;

use weigh_schema::top::TopReport;

/// Two reports of one node, ten seconds apart; every value of the second differs.
fn reports() -> Vec<TopReport> {
    let lines = include_str!("data/reports.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The first report as one of the moment so many seconds later.
fn later(seconds: i64) -> TopReport {
    let mut report = reports().remove(0);
    report.time += jiff::SignedDuration::from_secs(seconds);
    report
}

/// The values of a report that exporters have a form for.
fn values(report: &TopReport) -> u64 {
    weigh_export::metrics::BatchBuilder::default().build(report).points.len() as u64
}
