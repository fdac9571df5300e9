//! The disk footprint of the watched directories, and its growth since the command began.
//!
//! Emits the greatest values of all scans. What weigh itself writes (the recording, its JSON, the folder that it
//! shares with programs of the job) is no part of them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use weigh_collect::footprint::{
    Baseline, FileIdentity, FootprintReport, FootprintScanner, Pace, Peak,
};
use weigh_schema::event::CollectorStatus;
use weigh_schema::quality::{Mechanism, Quality, Value};
use weigh_schema::{Unit, metric};

use super::{Findings, JobCollector, Kind, Recorder, Start};
use crate::arguments::Collector;

/// How long the command waits for the first scan, which finds what was there before.
const FIRST_SCAN: Duration = Duration::from_millis(5);

/// What a last scan may cost at the end of a job: a tenth of its time, within these bounds.
const LAST_SCAN: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(50));

const BYTES: &str = "disk_footprint_peak_bytes";
const GROWTH: &str = "disk_growth_peak_bytes";
const FILES: &str = "disk_files_peak";
const ALL: &[&str] = &[BYTES, GROWTH, FILES];

pub(super) const KIND: Kind =
    Kind { collector: Collector::Footprint, mechanism: Mechanism::Stat, metrics: ALL, start };

fn start(with: &mut Start<'_>) -> Result<Box<dyn JobCollector>, String> {
    let watched = &with.settings.arguments.watch;
    let roots = if watched.is_empty() { vec![PathBuf::from(".")] } else { watched.clone() };
    let is_limited = with.settings.limits.iter().any(|limit| ALL.contains(&limit.metric.name));
    let pace = if is_limited { Pace::Limited } else { Pace::Relaxed };
    let scanner = FootprintScanner::start(&roots, &own_files(with), pace);
    let scanner = scanner.map_err(|e| e.to_string())?;
    Ok(Box::new(Footprint { scanner, begun: Instant::now() }))
}

/// What weigh writes, wherever the user has it written.
fn own_files(with: &Start<'_>) -> Vec<FileIdentity> {
    let settings = with.settings;
    let folders = with.own_folders.iter().chain([&settings.directory]);
    let identities = folders.filter_map(|folder| std::fs::metadata(folder).ok());
    let json = settings.json.as_ref().and_then(|json| json.metadata());
    identities.chain(json).map(|metadata| FileIdentity::of(&metadata)).collect()
}

struct Footprint {
    scanner: FootprintScanner,
    begun: Instant,
}

impl JobCollector for Footprint {
    fn begin(&mut self) {
        self.scanner.begin(FIRST_SCAN);
        self.begun = Instant::now();
    }

    fn samples(&mut self, _: &dyn Fn() -> Vec<u32>) -> Vec<(&'static str, f64)> {
        let (Some(latest), Some(before)) = (self.scanner.latest(), self.scanner.baseline()) else {
            return Vec::new();
        };
        let growth = latest.scan.bytes.saturating_sub(before.bytes);
        vec![
            ("disk_footprint_bytes", latest.scan.bytes as f64),
            ("disk_growth_bytes", growth as f64),
            ("disk_files", latest.scan.files as f64),
        ]
    }

    fn value(&self, name: &str) -> Option<f64> {
        value_of(&self.scanner.peak()?, name).map(|value| value as f64)
    }

    fn looks_apart(&self, name: &str) -> Option<Duration> {
        ALL.contains(&name).then(|| self.scanner.peak().unwrap_or_default().apart)
    }

    fn finish(self: Box<Self>, findings: &mut Findings, _: &mut Recorder) -> CollectorStatus {
        let budget = (self.begun.elapsed() / 10).clamp(LAST_SCAN.0, LAST_SCAN.1);
        let report = self.scanner.finish(budget);
        let (Some(peak), Some(before)) = (report.peak, report.baseline) else {
            let reason = "the job ended before the watched directories were scanned once";
            findings.unavailable(ALL, reason);
            return report.status;
        };
        let scans = scans(&report, &peak);
        for name in ALL {
            let unit = metric(name).map_or(Unit::Count, |m| m.unit);
            let reason = match *name {
                BYTES => format!("{} bytes of it were there before; {scans}", before.bytes),
                GROWTH => growth(&before, &scans),
                _ => scans.clone(),
            };
            let value = Value {
                value: value_of(&peak, name).map(|value| unit.number(value as f64)),
                unit,
                source: Mechanism::Stat,
                quality: Quality::Sampled,
                reason: Some(reason),
            };
            findings.given.insert((*name).to_string(), value);
        }
        report.status
    }
}

fn value_of(peak: &Peak, name: &str) -> Option<u64> {
    match name {
        BYTES => Some(peak.bytes),
        GROWTH => Some(peak.growth),
        FILES => Some(peak.files),
        _ => None,
    }
}

/// What the values rest on.
fn scans(report: &FootprintReport, peak: &Peak) -> String {
    let mut reason = format!(
        "greatest of {} scans, up to {:.0} ms apart",
        peak.scans,
        (peak.apart.as_secs_f64() * 1e3).ceil()
    );
    if !report.is_final {
        reason.push_str("; the last was before the end of the job");
    }
    if let Some(unreadable) = &report.status.reason {
        reason.push_str("; ");
        reason.push_str(unreadable);
    }
    reason
}

fn growth(before: &Baseline, scans: &str) -> String {
    match before.is_before {
        // As of the number of files.
        true if before.bytes == 0 => scans.to_owned(),
        true => format!("beyond the {} bytes that were there before; {scans}", before.bytes),
        false => format!(
            "beyond {} bytes of files that are older than the command, scanned while it ran already; {scans}",
            before.bytes
        ),
    }
}
