//! What jobs are busy with whose recordings the caller has found: for `weigh top`.
//!
//! Reads their journals as they grow; emits a report of those that were read to their end. As long as it is there their
//! `weigh run` knows that somebody watches.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::broadcast;
use weigh_schema::busiest::BusiestReport;

use crate::api::JobRow;
use crate::busiest::{BusiestBuilder, BusiestFilter};
use crate::folder::RecordingsFolder;
use crate::live_job::LiveJob;

/// Jobs by the PID of their `weigh run`.
#[derive(Default)]
pub struct BusyJobs {
    jobs: BTreeMap<u32, BusyJob>,
}

struct BusyJob {
    folder: PathBuf,
    row: JobRow,
    live: LiveJob,
    /// Held as long as it is watched.
    _viewer: broadcast::Receiver<Bytes>,
}

impl BusyJobs {
    /// Reads on in the recordings in these folders, for so long at most: a journal that is not read to its end by then is
    /// read on at the next look. Others are forgotten.
    pub fn look(
        &mut self,
        recordings: &BTreeMap<u32, PathBuf>,
        patience: Duration,
    ) -> BusiestReport {
        self.jobs.retain(|pid, job| recordings.get(pid) == Some(&job.folder));
        for (pid, folder) in recordings {
            let job = (!self.jobs.contains_key(pid)).then(|| BusyJob::open(*pid, folder));
            self.jobs.extend(job.flatten().map(|job| (*pid, job)));
        }
        let until = Instant::now() + patience;
        let filter = BusiestFilter::default();
        let mut builder = BusiestBuilder::new(&filter);
        for job in self.jobs.values_mut() {
            job.live.pass_on_watching();
            if job.live.catch_up(until).unwrap_or(false) {
                builder.add(&job.row, &job.live.activity);
            }
        }
        builder.finish()
    }
}

impl BusyJob {
    /// None where there is no journal that this user may read.
    fn open(pid: u32, folder: &Path) -> Option<BusyJob> {
        let found = RecordingsFolder::open(folder).ok()?.open_job(None).ok()?;
        let mut live = LiveJob::open(found).ok()??;
        let row = JobRow::new(pid.to_string(), (String::new(), None));
        let _viewer = live.subscribe();
        Some(BusyJob { folder: folder.to_path_buf(), row, live, _viewer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{begun, samples};
    use weigh_schema::region::PhaseRow;
    use weigh_schema::update::Update;

    #[test]
    fn journals_are_read_as_they_grow_and_forgotten_with_their_jobs() {
        let dir = tempfile::tempdir().unwrap();
        let folders = ["one", "two"].map(|name| dir.path().join(name));
        let [mut one, _two] = folders.clone().map(|folder| begun(&folder, "job", 3));
        let phase = |second: i64| {
            let (started_ns, ended_ns) = (second * 1_000_000_000, (second + 2) * 1_000_000_000);
            let name = "step".to_string();
            Update::Phase(Box::new(PhaseRow { name, started_ns, ended_ns, ..PhaseRow::default() }))
        };
        one.append(&phase(7));
        one.flush();
        let mut recordings = BTreeMap::from([(41, folders[0].clone()), (43, folders[1].clone())]);
        recordings.insert(47, dir.path().join("none"));
        let mut jobs = BusyJobs::default();
        let report = jobs.look(&recordings, Duration::from_secs(9));
        assert_eq!((report.jobs, report.phases.rows_total, report.phases.jobs_without), (2, 1, 1));
        let row = &report.phases.rows[0];
        assert_eq!((row.job.as_str(), row.name.as_str(), row.total.seconds), ("41", "step", 2.0));
        one.append(&samples(10_000, 1.0));
        one.append(&phase(9));
        one.flush();
        assert_eq!(
            jobs.look(&recordings, Duration::from_secs(9)).phases.rows[0].total.seconds,
            4.0
        );
        recordings.remove(&41);
        assert_eq!(jobs.look(&recordings, Duration::from_secs(9)).phases.rows_total, 0);
    }
}
