//! What is told of the job while it runs: snapshots, and what the user's command is to know.

use std::collections::BTreeMap;

use jiff::Timestamp;
use weigh_account::{Mark, Measured, metrics};
use weigh_schema::announcement::Happening;
use weigh_schema::summary::Snapshot;
use weigh_schema::{Value, byte_text};

use super::run_source::RunSource;
use crate::products::run::snapshots::Snapshots;

/// What is known of the job at one moment.
struct JobState {
    taken: Timestamp,
    at_seconds: f64,
    metrics: BTreeMap<String, Value>,
}

impl RunSource<'_> {
    /// Takes the snapshots that a look at the watched files calls for.
    pub(super) fn take_snapshots(
        &mut self,
        look: impl FnOnce(&mut Snapshots) -> Vec<Mark>,
    ) -> anyhow::Result<()> {
        let Some(mut snapshots) = self.snapshots.take() else { return Ok(()) };
        let marks = look(&mut snapshots);
        if !marks.is_empty() {
            let now = self.job_state()?;
            for mark in marks {
                let file = snapshots.file(mark.file);
                let snapshot = Snapshot {
                    file: byte_text::shown(&file),
                    file_base64: byte_text::base64(&file),
                    label: mark.label,
                    cause: mark.cause,
                    line: mark.line.as_deref().map(byte_text::shown),
                    line_base64: mark.line.as_deref().and_then(byte_text::base64),
                    count: mark.count,
                    taken: now.taken,
                    at_seconds: now.at_seconds,
                    metrics: now.metrics.clone(),
                };
                if snapshots.keep(&snapshot) {
                    self.recorder.snapshot(snapshot.clone());
                    self.tell(Happening::Snapshot { snapshot: Box::new(snapshot) });
                }
            }
        }
        snapshots.are_taken();
        self.snapshots = Some(snapshots);
        Ok(())
    }

    /// All metrics as they are known now.
    fn job_state(&mut self) -> anyhow::Result<JobState> {
        let mut reading = self.job.read()?;
        if let Some(ended) = self.job.ended_ns() {
            reading.at_ns = reading.at_ns.min(ended);
        }
        let at_seconds = reading.at_ns as f64 * 1e-9;
        let taken = i128::from(self.recorder.epoch(reading.at_ns));
        Ok(JobState {
            taken: Timestamp::from_nanosecond(taken)?,
            at_seconds,
            metrics: metrics(&Measured {
                wall_seconds: at_seconds,
                reading: &reading,
                source: self.job.mechanism(),
                looks: self.recorder.looks(),
                cores_peak: self.recorder.cores_peak(),
                given: self.others.iter().flat_map(|other| other.so_far()).collect(),
                notes: &self.job.notes(),
            }),
        })
    }

    /// Tells what limits have given cause to tell.
    pub(super) fn announce(&mut self) {
        for happening in self.enforcer.happened() {
            self.tell(happening);
        }
    }

    fn tell(&mut self, happening: Happening) {
        let recording = self.settings.directory.clone();
        self.hook.tell(&self.summary.job, &recording, happening);
    }
}
