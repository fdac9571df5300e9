//! What the API answers, besides the types of `schema`: names are those of summary.json.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use weigh_schema::region::{PhaseRow, RegionRow};
use weigh_schema::summary::{Exit, LimitOutcome, Summary};
use weigh_schema::top::{PublishedValue, TopProfile};
use weigh_schema::{METRICS, Metric, Number, Quality, Unit};
use weigh_show::report::Page;

/// Bytes of a row's command and labels, each: what a list shows of them.
const TEXT_BYTES: usize = 4096;
/// Labels and limits of a row.
const ITEMS_MOST: usize = 64;

/// What clients of the agent have published lately.
#[derive(Debug, Serialize)]
pub(crate) struct PublishedList<'a> {
    pub(crate) schema: &'static str,
    pub(crate) published: &'a [PublishedValue],
    /// Values that there was no room for.
    pub(crate) left_out: u64,
}

/// Programs that publish their regions to the agent.
#[derive(Debug, Serialize)]
pub(crate) struct ProfileList<'a> {
    pub(crate) schema: &'static str,
    pub(crate) profiles: &'a [TopProfile],
    /// Programs that there was no room for.
    pub(crate) left_out: u64,
}

/// How a recording fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub(crate) enum JobState {
    /// Its job is being measured.
    Running,
    /// It is complete.
    Ended,
    /// It cannot be read, or was cut short.
    Broken,
}

/// A value of a job, as lists have it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct JobValue {
    value: Option<Number>,
    unit: Unit,
    pub(crate) quality: Quality,
}

/// Values by metric.
pub(crate) type JobMetrics = BTreeMap<String, JobValue>;

/// One job of the list.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct JobRow {
    /// What the API finds it by.
    pub(crate) id: String,
    /// The recording's folder.
    pub(crate) folder: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) folder_base64: Option<String>,
    pub(crate) command: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    command_base64: Vec<String>,
    pub(crate) user: String,
    node: String,
    pub(crate) category: Option<String>,
    labels: BTreeMap<String, String>,
    pub(crate) state: Option<JobState>,
    /// Why it is broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    started: Option<Timestamp>,
    ended: Option<Timestamp>,
    exit: Option<Exit>,
    pub(crate) metrics: JobMetrics,
    limits: Vec<LimitOutcome>,
}

impl JobRow {
    /// A row of a folder of which nothing else is known.
    pub(crate) fn new(id: String, (folder, folder_base64): (String, Option<String>)) -> JobRow {
        JobRow { id, folder, folder_base64, ..JobRow::default() }
    }

    /// Whether it has a label, as `NAME=VALUE`.
    pub(crate) fn has_label(&self, label: &str) -> bool {
        self.labels.iter().any(|(name, value)| {
            label.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('=')) == Some(value)
        })
    }

    /// Takes over what a summary says. Long texts are cut: the job's own page has them.
    pub(crate) fn set_summary(&mut self, summary: &Summary) {
        let job = &summary.job;
        self.command = first_words(&job.command);
        self.command_base64 = match self.command.len() == job.command.len() {
            true => first_words(&job.command_base64),
            false => Vec::new(),
        };
        self.user = cut(&job.user);
        self.node = cut(&job.node);
        self.category = job.category.as_deref().map(cut);
        let labels = job.labels.iter().take(ITEMS_MOST);
        self.labels = labels.map(|(name, value)| (cut(name), cut(value))).collect();
        self.started = Some(job.started);
        self.ended = job.ended;
        self.exit = summary.exit.clone();
        self.metrics = metrics(summary);
        self.limits = summary.limits.iter().take(ITEMS_MOST).cloned().collect();
    }
}

/// The values of a summary that weigh declares.
pub(crate) fn metrics(summary: &Summary) -> JobMetrics {
    let value = |metric: &Metric| {
        let known = summary.metrics.get(metric.name)?;
        let value = JobValue { value: known.value, unit: known.unit, quality: known.quality };
        Some((metric.name.to_string(), value))
    };
    METRICS.iter().filter_map(value).collect()
}

/// The words that fit.
fn first_words(words: &[String]) -> Vec<String> {
    let mut left = TEXT_BYTES;
    let fits = |word: &&String| {
        let is_first = left == TEXT_BYTES;
        left = left.saturating_sub(word.len() + 1);
        left > 0 || is_first
    };
    words.iter().take_while(fits).map(|word| cut(word)).collect()
}

fn cut(text: &str) -> String {
    match text.len() <= TEXT_BYTES {
        true => text.to_string(),
        false => format!("{}…", first_bytes(text, TEXT_BYTES)),
    }
}

/// So many bytes of a text at most, whole characters.
pub(crate) fn first_bytes(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// The answer of `/api/v1/jobs`.
#[derive(Serialize)]
pub(crate) struct JobList<'a> {
    pub(crate) schema: &'static str,
    pub(crate) jobs: Vec<&'a JobRow>,
    /// Recordings that are not listed because there are too many.
    pub(crate) jobs_left_out: u64,
}

/// The name and version of [`JobList`].
pub(crate) const JOBS: &str = "weigh.jobs/1";
/// The same of what is published.
pub(crate) const PUBLISHED: &str = "weigh.published/1";
/// The same of programs that publish their regions.
pub(crate) const PROFILES: &str = "weigh.profiles/1";

/// The answer of `/api/v1/jobs/ID`.
#[derive(Serialize)]
pub(crate) struct JobPage {
    pub(crate) state: JobState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(flatten)]
    pub(crate) page: Page,
}

/// What is new in a job's journal: `event: job` of the stream.
#[derive(Serialize)]
pub(crate) struct JobEvent<'a> {
    pub(crate) id: &'a str,
    pub(crate) state: JobState,
    pub(crate) metrics: &'a JobMetrics,
    pub(crate) samples: &'a [JobSamples],
}

/// What is new of the regions that a job's programs name: `event: profile` of the stream.
#[derive(Serialize)]
pub(crate) struct ProfileEvent<'a> {
    pub(crate) id: &'a str,
    /// Rows that have changed: each takes the place of the one before it of this process, thread, kind and path.
    pub(crate) regions: &'a [RegionRow],
    /// Phases that have ended.
    pub(crate) phases: &'a [PhaseRow],
}

/// Values of several series, taken at one time.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct JobSamples {
    pub(crate) time_ns: i64,
    pub(crate) scope: String,
    pub(crate) values: BTreeMap<String, f64>,
}

/// One series that there is: a row of `/api/v1/series?job=ID`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SeriesRow {
    pub(crate) metric: String,
    pub(crate) scope: String,
    /// Null where only the program knows it.
    pub(crate) unit: Option<Unit>,
    pub(crate) samples: u64,
}

/// A series as JSON.
#[derive(Serialize)]
pub(crate) struct SeriesColumns<'a> {
    pub(crate) schema: &'static str,
    pub(crate) metric: &'a str,
    pub(crate) scope: &'a str,
    pub(crate) unit: Option<Unit>,
    pub(crate) quality: Option<Quality>,
    /// When the last value of each column was taken: seconds since the Unix epoch.
    pub(crate) time: &'a [f64],
    pub(crate) min: &'a [f64],
    pub(crate) max: &'a [f64],
    pub(crate) last: &'a [f64],
}

/// The name and version of [`SeriesColumns`].
pub(crate) const SERIES: &str = "weigh.series/1";

/// The metric whose samples are in the series of that name.
pub(crate) fn metric_of_series(series: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.series == Some(series))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let text = "é".repeat(TEXT_BYTES);
        assert_eq!(cut(&text).len(), TEXT_BYTES + "…".len());
        assert_eq!(cut("short"), "short");
        let words = vec!["word".to_string(); TEXT_BYTES];
        assert_eq!(first_words(&words).len(), (TEXT_BYTES - 1) / 5);
        assert_eq!(first_words(&[text]).len(), 1);
    }
}
