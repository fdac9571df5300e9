//! What jobs are busy with whose recordings the caller has found: for `weigh top`.
//!
//! Reads their journals as they grow; emits a report of those that were read to their end. From a look to the next rest
//! their `weigh run` knows that somebody watches.

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
    /// While it is watched.
    viewer: Option<broadcast::Receiver<Bytes>>,
}

impl BusyJobs {
    /// Reads on in the recordings in these folders, or in that of one job, for so long at most: a journal that is not read
    /// to its end by then is read on at the next look. What is in other folders is forgotten.
    pub fn look(
        &mut self,
        recordings: &BTreeMap<u32, PathBuf>,
        only: Option<u32>,
        patience: Duration,
    ) -> BusiestReport {
        self.jobs.retain(|pid, job| recordings.get(pid) == Some(&job.folder));
        let is_wanted = |pid: u32| only.is_none_or(|only| only == pid);
        for (pid, folder) in recordings.iter().filter(|(pid, _)| is_wanted(**pid)) {
            let job = (!self.jobs.contains_key(pid)).then(|| BusyJob::open(*pid, folder));
            self.jobs.extend(job.flatten().map(|job| (*pid, job)));
        }
        let until = Instant::now() + patience;
        let filter = BusiestFilter::default();
        let mut builder = BusiestBuilder::new(&filter);
        for (pid, job) in &mut self.jobs {
            match is_wanted(*pid) {
                false => job.rest(),
                true if job.look(until) => builder.add(&job.row, &job.live.activity),
                true => {}
            }
        }
        builder.finish()
    }

    /// Nobody watches until the next look, which reads on where this one has ended.
    pub fn rest(&mut self) {
        self.jobs.values_mut().for_each(BusyJob::rest);
    }
}

impl BusyJob {
    /// None where there is no journal that this user may read.
    fn open(pid: u32, folder: &Path) -> Option<BusyJob> {
        let found = RecordingsFolder::open(folder).ok()?.open_job(None).ok()?;
        let live = LiveJob::open(found).ok()??;
        let row = JobRow::new(pid.to_string(), (String::new(), None));
        Some(BusyJob { folder: folder.to_path_buf(), row, live, viewer: None })
    }

    /// Watches it, and reads on; whether to its end.
    fn look(&mut self, until: Instant) -> bool {
        self.viewer.get_or_insert_with(|| self.live.subscribe());
        self.live.pass_on_watching();
        self.live.catch_up(until).unwrap_or(false)
    }

    fn rest(&mut self) {
        if self.viewer.take().is_some() {
            self.live.rest();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{begun, samples};
    use std::os::unix::fs::FileExt as _;
    use weigh_schema::region::PhaseRow;
    use weigh_schema::update::Update;

    const PATIENCE: Duration = Duration::from_secs(9);

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
        let report = jobs.look(&recordings, None, PATIENCE);
        assert_eq!((report.jobs, report.phases.rows_total, report.phases.jobs_without), (2, 1, 1));
        let row = &report.phases.rows[0];
        assert_eq!((row.job.as_str(), row.name.as_str(), row.total.seconds), ("41", "step", 2.0));
        one.append(&samples(10_000, 1.0));
        one.append(&phase(9));
        one.flush();
        let seconds = |report: &BusiestReport| report.phases.rows[0].total.seconds;
        assert_eq!(seconds(&jobs.look(&recordings, None, PATIENCE)), 4.0);
        // Where it is read from its beginning again, nothing is there: what was read is known without.
        let journal = folders[0].join(weigh_schema::recording::files::JOURNAL);
        let length = journal.metadata().unwrap().len() as usize;
        let file = std::fs::File::options().write(true).open(&journal).unwrap();
        file.write_all_at(&vec![b'\n'; length], 0).unwrap();
        jobs.rest();
        assert!(jobs.jobs.values().all(|job| !job.live.is_watched()));
        one.append(&phase(11));
        one.flush();
        assert_eq!(jobs.look(&recordings, Some(43), PATIENCE).jobs, 1);
        assert!(!jobs.jobs[&41].live.is_watched() && jobs.jobs[&43].live.is_watched());
        assert_eq!(seconds(&jobs.look(&recordings, None, PATIENCE)), 6.0);
        recordings.remove(&41);
        assert_eq!(jobs.look(&recordings, None, PATIENCE).phases.rows_total, 0);
    }
}
