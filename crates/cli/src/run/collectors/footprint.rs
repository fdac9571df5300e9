//! The disk footprint of the watched directories.

use std::path::PathBuf;
use std::time::Duration;

use weigh_collect::footprint::{FootprintScanner, Pace};
use weigh_schema::event::CollectorStatus;
use weigh_schema::quality::{Mechanism, Quality, Value};
use weigh_schema::{Unit, metric};

use super::{Findings, JobCollector, Kind, Recorder, Start};
use crate::arguments::Collector;

/// What a last scan may cost at the end of a job.
const LAST_SCAN: Duration = Duration::from_millis(50);

const BYTES: &str = "disk_footprint_peak_bytes";
const FILES: &str = "disk_files_peak";

pub(super) const KIND: Kind = Kind {
    collector: Collector::Footprint,
    mechanism: Mechanism::Stat,
    metrics: &[BYTES, FILES],
    start,
};

fn start(with: &mut Start<'_>) -> Result<Box<dyn JobCollector>, String> {
    let watched = &with.settings.arguments.watch;
    let roots = if watched.is_empty() { vec![PathBuf::from(".")] } else { watched.clone() };
    let pace = Pace { at_least: with.settings.arguments.interval, ..Pace::default() };
    let scanner = FootprintScanner::start(&roots, pace).map_err(|e| e.to_string())?;
    Ok(Box::new(Footprint(scanner)))
}

struct Footprint(FootprintScanner);

impl JobCollector for Footprint {
    fn samples(&mut self, _: &dyn Fn() -> Vec<u32>) -> Vec<(&'static str, f64)> {
        self.0.latest().map_or_else(Vec::new, |latest| {
            vec![
                ("disk_footprint_bytes", latest.scan.bytes as f64),
                ("disk_files", latest.scan.files as f64),
            ]
        })
    }

    fn value(&self, name: &str) -> Option<f64> {
        let peak = self.0.peak()?;
        match name {
            BYTES => Some(peak.bytes as f64),
            FILES => Some(peak.files as f64),
            _ => None,
        }
    }

    fn finish(self: Box<Self>, findings: &mut Findings, _: &mut Recorder) -> CollectorStatus {
        let report = self.0.finish(LAST_SCAN);
        let Some(peak) = report.peak else {
            let reason = "the job ended before the watched directories were scanned once";
            findings.unavailable(&[BYTES, FILES], reason);
            return report.status;
        };
        let mut reason = format!("greatest of {} scans", peak.scans);
        if !report.is_final {
            reason.push_str(", the last before the end of the job");
        }
        if let Some(unreadable) = &report.status.reason {
            reason.push_str("; ");
            reason.push_str(unreadable);
        }
        for (name, value) in [(BYTES, peak.bytes), (FILES, peak.files)] {
            let unit = metric(name).map_or(Unit::Count, |m| m.unit);
            let value = Value {
                value: Some(unit.number(value as f64)),
                unit,
                source: Mechanism::Stat,
                quality: Quality::Sampled,
                reason: Some(reason.clone()),
            };
            findings.given.insert(name.to_string(), value);
        }
        report.status
    }
}
