//! What a run of weigh left behind, and what a test can say of it.

use std::collections::BTreeMap;
use std::fs;
use std::process::ExitStatus;
use std::time::Duration;

use weigh_keep::Recording;
use weigh_schema::event::{CollectorState, CollectorStatus};
use weigh_schema::io::FileUse;
use weigh_schema::recording::{ProcessRow, SampleRow};
use weigh_schema::summary::Summary;
use weigh_schema::{Mechanism, Quality, Value};

use super::run::Scratch;

/// What a run left behind.
pub struct Measured {
    pub scratch: Scratch,
    pub status: ExitStatus,
    /// From the start of weigh to its end.
    pub took: Duration,
    pub stdout: Vec<u8>,
    pub stderr: String,
    summary: Option<Summary>,
}

impl Measured {
    pub fn new(scratch: Scratch, status: ExitStatus, took: Duration) -> Measured {
        let stdout = fs::read(scratch.path("stdout")).unwrap_or_default();
        let stderr = scratch.text("stderr");
        let summary = serde_json::from_str(&scratch.text("recording/summary.json")).ok();
        Measured { scratch, status, took, stdout, stderr, summary }
    }

    /// All that is known, for the message of a failed test.
    pub fn everything(&self) -> String {
        let summary = self.summary.as_ref().map_or("there is no summary\n".to_string(), in_short);
        format!(
            "weigh ended with: {} after {:?}\n--- truth\n{}--- summary\n{summary}--- standard error\n{}---",
            self.status,
            self.took,
            self.scratch.text("truth"),
            self.remarks()
        )
    }

    /// Fails if weigh made do with less than it has as root.
    #[track_caller]
    pub fn was_followed_by_the_kernel(&self) {
        let works = |c: &&CollectorStatus| {
            c.mechanism == Mechanism::Bpf
                && c.name == "processes"
                && c.status == CollectorState::Active
        };
        let found = self.summary().collectors.iter().find(works);
        self.check(found.is_some(), || "the kernel did not follow the job".to_string());
    }

    /// What weigh and the job said on standard error, without the table for people.
    pub fn remarks(&self) -> &str {
        let table = self.stderr.find("weigh  ");
        &self.stderr[..table.unwrap_or(self.stderr.len())]
    }

    /// The summary.
    #[track_caller]
    pub fn summary(&self) -> &Summary {
        match &self.summary {
            Some(summary) => summary,
            None => panic!("the run left no summary\n{}", self.everything()),
        }
    }

    /// The recording.
    #[track_caller]
    pub fn recording(&self) -> Recording {
        let recording = Recording::open(&self.scratch.path("recording"));
        recording.unwrap_or_else(|error| panic!("{error}\n{}", self.everything()))
    }

    /// The rows of the table of processes.
    #[track_caller]
    pub fn processes(&self) -> Vec<ProcessRow> {
        self.recording().processes(None).expect("the table of processes can be read").rows
    }

    /// The row of the one process with that command.
    #[track_caller]
    pub fn process(&self, command: &str) -> ProcessRow {
        let mut rows = self.processes();
        let commands: Vec<_> = rows.iter().map(|row| row.command.clone()).collect();
        rows.retain(|row| row.command == command);
        self.check(rows.len() == 1, || {
            format!("{} rows are of '{command}', expected 1: {commands:#?}", rows.len())
        });
        rows.remove(0)
    }

    /// The rows of the table of samples.
    #[track_caller]
    pub fn samples(&self) -> Vec<SampleRow> {
        self.recording().samples(None).expect("the table of samples can be read").rows
    }

    /// The rows of the table of files.
    #[track_caller]
    pub fn files(&self) -> Vec<FileUse> {
        self.recording().files(None).expect("the table of files can be read").rows
    }

    /// A metric's value and quality.
    #[track_caller]
    pub fn value(&self, metric: &str) -> &Value {
        match self.summary().metrics.get(metric) {
            Some(value) => value,
            None => panic!("the summary has no {metric}\n{}", self.everything()),
        }
    }

    /// A metric's number; fails if it is unavailable.
    #[track_caller]
    pub fn number(&self, metric: &str) -> f64 {
        let value = self.value(metric);
        value.number().unwrap_or_else(|| {
            panic!("{metric} is not available: {:?}\n{}", value.reason, self.everything())
        })
    }

    /// What the workload said of itself.
    #[track_caller]
    pub fn truth(&self, key: &str) -> u64 {
        let text = self.scratch.text("truth");
        match truths(&text).get(key) {
            Some(value) => *value,
            None => panic!("the workload did not tell {key}\n{}", self.everything()),
        }
    }

    /// Fails unless a metric is a number, to the last digit.
    #[track_caller]
    pub fn is(&self, metric: &str, expected: u64) {
        let found = self.number(metric);
        assert!(
            found == expected as f64,
            "{metric} is {found}, expected {expected}, {:+} off\n{}",
            found - expected as f64,
            self.everything()
        );
    }

    /// Fails unless a metric is a number, give or take `ratio` of it.
    #[track_caller]
    pub fn is_near(&self, metric: &str, expected: u64, ratio: f64) {
        let slack = expected as f64 * ratio;
        self.is_between(metric, expected as f64 - slack, expected as f64 + slack);
    }

    /// Fails unless a metric lies between two numbers.
    #[track_caller]
    pub fn is_between(&self, metric: &str, low: f64, high: f64) {
        let found = self.number(metric);
        self.check((low..=high).contains(&found), || {
            format!("{metric} is {found}, expected {low} to {high}")
        });
    }

    /// Fails, with all that is known, unless something is so.
    #[track_caller]
    pub fn check(&self, is_so: bool, otherwise: impl FnOnce() -> String) {
        if !is_so {
            panic!("{}\n{}", otherwise(), self.everything());
        }
    }

    /// Fails unless weigh said this on standard error.
    #[track_caller]
    pub fn said(&self, part: &str) {
        self.check(self.stderr.contains(part), || format!("weigh did not say '{part}'"));
    }
}

/// What nobody counts here: sums that lack it are estimates, whether or not the job had any. And what a mark of the
/// kernel's may lack, whether or not it does.
const UNCOUNTED: [&str; 6] = [
    "without splice, tee, vmsplice and AIO",
    "without what the kernel does not count",
    "without what programs send, receive or splice by system calls of their own",
    "of all processes that were waited for",
    "of the time watched",
    "by the kernel's own mark, which may be off",
];

/// Whether a value is exact for a job that makes none of the calls that nobody counts here.
pub fn is_exact_but_for_uncounted(value: &Value) -> bool {
    let reason = value.reason.as_deref().unwrap_or_default();
    let is_known = |part: &str| UNCOUNTED.iter().any(|words| part.starts_with(words));
    value.quality == Quality::Exact
        || value.quality == Quality::Estimated && reason.split("; ").all(is_known)
}

/// A summary, one metric a line.
fn in_short(summary: &Summary) -> String {
    let json = |part: &dyn Fn() -> serde_json::Result<String>| part().expect("JSON");
    let mut text = String::new();
    for (name, value) in &summary.metrics {
        let number = value.number().map_or("-".to_string(), |number| number.to_string());
        let reason = value.reason.as_deref().unwrap_or("");
        text += &format!("{name} = {number} {} {reason}\n", value.quality);
    }
    text += &format!("exit: {}\n", json(&|| serde_json::to_string(&summary.exit)));
    for limit in &summary.limits {
        text += &format!("limit: {}\n", json(&|| serde_json::to_string(limit)));
    }
    for collector in &summary.collectors {
        text += &format!("collector: {}\n", json(&|| serde_json::to_string(collector)));
    }
    text
}

/// Reads `key=value` lines; of several with one key the last counts. Others are passed over.
pub fn truths(text: &str) -> BTreeMap<String, u64> {
    text.lines()
        .filter_map(|line| line.split_once('='))
        .filter_map(|(key, value)| Some((key.to_string(), value.parse().ok()?)))
        .collect()
}
