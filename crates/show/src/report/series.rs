//! Samples over time for the page: each series thinned while it is read, so that memory is bounded however long a job ran.

use std::collections::BTreeMap;

use serde::Serialize;
use weigh_schema::recording::SampleRow;

use super::columns::seconds_since;
use super::thin::{Sample, thin};

/// The most samples of one series that a page carries.
const SAMPLES_PER_SERIES: usize = 4_000;

/// The samples of one series.
#[derive(Clone, Debug, Serialize)]
pub struct SeriesRows {
    /// How many samples there are in the recording.
    pub total: u64,
    /// Seconds since the start.
    pub at: Vec<f64>,
    /// The values.
    pub value: Vec<f64>,
}

/// One series while it is read.
#[derive(Default)]
pub(super) struct SeriesSamples {
    total: u64,
    samples: Vec<Sample>,
}

impl SeriesSamples {
    pub(super) fn push(&mut self, at: f64, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.total += 1;
        self.samples.push((at, value));
        if self.samples.len() >= 2 * SAMPLES_PER_SERIES {
            self.thin();
        }
    }

    fn thin(&mut self) {
        self.samples.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.samples = thin(std::mem::take(&mut self.samples), SAMPLES_PER_SERIES);
    }

    pub(super) fn finish(mut self) -> SeriesRows {
        self.thin();
        let (at, value) = self.samples.into_iter().unzip();
        SeriesRows { total: self.total, at, value }
    }
}

/// Samples of the whole job.
pub struct JobSeries {
    start_ns: i64,
    by_name: BTreeMap<String, SeriesSamples>,
}

impl JobSeries {
    /// Of a job that began then: nanoseconds since the Unix epoch.
    pub fn new(start_ns: i64) -> JobSeries {
        JobSeries { start_ns, by_name: BTreeMap::new() }
    }

    /// Takes a sample in, if it is of the whole job.
    pub fn push(&mut self, row: &SampleRow) {
        if row.scope != "job" {
            return;
        }
        let at = seconds_since(self.start_ns, row.time_ns);
        match self.by_name.get_mut(&row.metric) {
            Some(series) => series.push(at, row.value),
            None => self.by_name.entry(row.metric.clone()).or_default().push(at, row.value),
        }
    }

    pub(super) fn finish(self) -> BTreeMap<String, SeriesRows> {
        let with_samples = self.by_name.into_iter().filter(|(_, series)| series.total > 0);
        with_samples.map(|(name, series)| (name, series.finish())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job of a day has as many samples as seconds, of each series.
    #[test]
    fn a_long_series_reaches_to_its_end() {
        let mut series = JobSeries::new(0);
        for i in 0..86_400i64 {
            for metric in ["memory_bytes", "processes"] {
                let value = if i == 43_211 { 1e9 } else { 1.0 };
                let row = SampleRow {
                    time_ns: i * 1_000_000_000,
                    scope: "job".into(),
                    metric: metric.into(),
                    value,
                };
                series.push(&row);
            }
        }
        for (_, rows) in series.finish() {
            assert!((2_000..=SAMPLES_PER_SERIES).contains(&rows.at.len()), "{}", rows.at.len());
            assert_eq!((rows.total, rows.at.last()), (86_400, Some(&86_399.0)));
            assert!(rows.value.contains(&1e9), "the peak is lost");
        }
    }
}
