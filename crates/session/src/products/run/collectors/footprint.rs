//! The disk footprint of the watched directories, and its growth since the command began.
//!
//! Emits the greatest values of all scans. What weigh itself writes (the recording, its JSON, the folder that it
//! shares with programs of the job) is no part of them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use weigh_collect::footprint::{
    Baseline, FileIdentity, FootprintReport, FootprintScanner, Peak, ScanRate,
};
use weigh_collect::notice;
use weigh_schema::event::CollectorStatus;
use weigh_schema::io::{ReportBasis, Tally};
use weigh_schema::{Mechanism, Quality, Unit, Value, metric, metric_name};

use super::collector::{
    CollectorSource, CollectorSpec, Findings, LiveValues, Sampler, StartContext,
};
use crate::products::run::recorder::Recorder;
use crate::products::run::settings::Collector;

/// How long the command waits for the first scan, which finds what was there before.
const FIRST_SCAN: Duration = Duration::from_millis(5);

/// What a last scan may cost at the end of a job: a tenth of its time, within these bounds.
const LAST_SCAN: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(50));

const BYTES: &str = metric_name::disk_footprint_peak_bytes;
const GROWTH: &str = metric_name::disk_growth_peak_bytes;
const FILES: &str = metric_name::disk_files_peak;
const ALL: &[&str] = &[BYTES, GROWTH, FILES];

pub(super) const SPEC: CollectorSpec = CollectorSpec {
    collector: Collector::Footprint,
    mechanism: Mechanism::Stat,
    metrics: ALL,
    start,
};

fn start(with: &mut StartContext<'_>) -> Result<Box<dyn CollectorSource>, String> {
    let watched = &with.settings.footprint;
    if watched.is_empty() && with.runs_already {
        return Err(
            "of a process that runs already no folder is measured by itself; --watch DIR names one"
                .into(),
        );
    }
    let roots = if watched.is_empty() { vec![PathBuf::from(".")] } else { watched.clone() };
    let is_limited = with.settings.limits.iter().any(|limit| ALL.contains(&limit.metric.name));
    let pace = if is_limited { ScanRate::Limited } else { ScanRate::Relaxed };
    let scanner = FootprintScanner::start(&roots, &own_files(with), pace);
    let scanner = scanner.map_err(|error| {
        // Of a folder that was asked for by name it is said at once.
        if !watched.is_empty() {
            notice!("--watch: {error}; no watched folder is measured");
        }
        error.to_string()
    })?;
    Ok(Box::new(Footprint { scanner, begun: Instant::now() }))
}

/// What weigh writes, wherever the user has it written.
fn own_files(with: &StartContext<'_>) -> Vec<FileIdentity> {
    let settings = with.settings;
    let folders = with.own_folders.iter().chain([&settings.directory]);
    let identities = folders.filter_map(|folder| std::fs::metadata(folder).ok());
    let own_files = settings.own_files.iter().cloned();
    identities.chain(own_files).map(|metadata| FileIdentity::of(&metadata)).collect()
}

struct Footprint {
    scanner: FootprintScanner,
    begun: Instant,
}

impl CollectorSource for Footprint {
    fn begin(&mut self) {
        self.scanner.begin(FIRST_SCAN);
        self.begun = Instant::now();
    }

    fn sampler(&mut self) -> Option<&mut dyn Sampler> {
        Some(self)
    }

    fn live_values(&self) -> Option<&dyn LiveValues> {
        Some(self)
    }

    fn finish(self: Box<Self>, findings: &mut Findings, _: &mut Recorder<'_>) -> CollectorStatus {
        let budget = (self.begun.elapsed() / 10).clamp(LAST_SCAN.0, LAST_SCAN.1);
        let report = self.scanner.finish(budget);
        let (Some(peak), Some(before)) = (report.peak, report.baseline) else {
            let reason = "the job ended before the watched directories were scanned once";
            findings.unavailable(ALL, reason);
            return report.status;
        };
        let scans = scans(&report, &peak);
        findings.grew_until_the_end = report.ends_at_its_peak() && report.is_freed_by_calls;
        for name in ALL {
            let unit = metric(name).map_or(Unit::Count, |m| m.unit);
            let reason = match *name {
                BYTES => format!("{} bytes of it were there before; {scans}", before.bytes),
                GROWTH => growth(&before, &scans),
                _ => scans.clone(),
            };
            let Some(value) = value_of(&peak, name) else { continue };
            let quality = if *name == GROWTH { Quality::Estimated } else { Quality::Sampled };
            let value = Value::whole(unit, value, Mechanism::Stat);
            findings.given.insert((*name).to_string(), value.qualified(quality, reason));
        }
        report.status
    }
}

impl Sampler for Footprint {
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

    fn is_of_windows(&self) -> bool {
        false
    }
}

impl LiveValues for Footprint {
    fn value(&self, name: &str) -> Option<f64> {
        value_of(&self.scanner.peak()?, name).map(|value| value as f64)
    }

    fn looks_apart(&self, name: &str) -> Option<Duration> {
        ALL.contains(&name).then(|| self.scanner.peak().unwrap_or_default().apart)
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

/// The peak is no less than what was seen.
const AT_LEAST: &str = "at least: what comes and goes between two scans is not in it";

fn growth(before: &Baseline, scans: &str) -> String {
    let scans = format!("{scans}; {AT_LEAST}");
    match before.is_before {
        // As of the number of files.
        true if before.bytes == 0 => scans,
        true => format!("beyond the {} bytes that were there before; {scans}", before.bytes),
        false => format!(
            "beyond {} bytes of files that are older than the command, scanned while it ran already; {scans}",
            before.bytes
        ),
    }
}

/// Makes the growth exact where the files can only have grown: no call of the job can have freed space, so the last
/// scan, after its end, is the greatest. Else says why it is not.
pub(super) fn settle_growth(findings: &mut Findings, tally: &Tally, grounds: &ReportBasis) {
    let grew = findings.grew_until_the_end;
    let Some(value) = findings.given.get_mut(GROWTH).filter(|v| v.value.is_some()) else { return };
    match why_not_seen(tally, grounds) {
        None if grew => (value.quality, value.reason) = (Quality::Exact, None),
        None => {}
        Some(why) => {
            let reason = value.reason.take();
            value.reason = Some(Vec::from_iter(reason.into_iter().chain([why])).join("; "));
        }
    }
}

/// Why space may have been freed that no scan knows of.
fn why_not_seen(tally: &Tally, grounds: &ReportBasis) -> Option<String> {
    match tally.freeing_calls {
        None => Some(format!("calls that free space are not looked at by {}", grounds.mechanism)),
        Some(calls @ 1..) => Some(format!("{calls} calls may have freed space")),
        Some(0) if tally.lost_threads > 0 || grounds.quality != Quality::Exact => {
            Some("not all calls of the job were seen".to_string())
        }
        Some(0) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(grew: bool, tally: Tally, quality: Quality) -> (Quality, String) {
        let mut findings = Findings { grew_until_the_end: grew, ..Findings::default() };
        let value =
            Value::exact(Unit::Bytes, 5.0, Mechanism::Stat).qualified(Quality::Estimated, "scans");
        findings.given.insert(GROWTH.to_string(), value);
        settle_growth(&mut findings, &tally, &ReportBasis { quality, ..ReportBasis::default() });
        let value = &findings.given[GROWTH];
        (value.quality, value.reason.clone().unwrap_or_default())
    }

    #[test]
    fn growth_is_exact_where_nothing_can_have_been_freed_and_all_was_seen() {
        let of = |freeing_calls| Tally { freeing_calls, ..Tally::default() };
        assert_eq!(settled(true, of(Some(0)), Quality::Exact).0, Quality::Exact);
        let lost = Tally { lost_threads: 1, ..of(Some(0)) };
        for (grew, tally, quality, why) in [
            (false, of(Some(0)), Quality::Exact, "scans"),
            (true, of(Some(2)), Quality::Exact, "2 calls may have freed"),
            (true, of(None), Quality::Exact, "not looked at by bpf"),
            (true, of(Some(0)), Quality::Estimated, "not all calls"),
            (true, lost, Quality::Exact, "not all calls"),
        ] {
            let (quality, reason) = settled(grew, tally, quality);
            assert_eq!(quality, Quality::Estimated, "{reason}");
            assert!(reason.starts_with("scans") && reason.contains(why), "{reason}");
        }
    }
}
