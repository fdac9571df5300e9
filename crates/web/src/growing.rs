//! Recordings of jobs that run, read on from one request to the next: of those that were asked for last, in bounded memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weigh_keep::{GrowingRecording, KeepError, Recording};

use crate::api::JobState;
use crate::error::ApiError;
use crate::folder::JobPlace;
use crate::jobs::FoundJob;

/// Memory for rows of all of them, and how many there are.
const MOST_BYTES: usize = 64 << 20;
const MOST_JOBS: usize = 64;

/// One at a time reads a journal on.
type Slot = Arc<Mutex<Option<GrowingRecording>>>;

struct GrowingJob {
    place: JobPlace,
    slot: Slot,
    bytes: usize,
}

/// Recordings that grow.
#[derive(Default)]
pub(crate) struct GrowingStore {
    /// The latest used is the last.
    jobs: Mutex<Vec<GrowingJob>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What it guards is whole between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GrowingStore {
    /// Opens a job's recording; of one that runs what is new is read, and no more.
    pub(crate) fn recording(&self, job: &FoundJob) -> Result<Recording, ApiError> {
        if job.row.state != Some(JobState::Running) {
            return job.recording();
        }
        let slot = self.slot(&job.place);
        let (found, bytes) = {
            let mut growing = locked(&slot);
            let found = read_on(&mut growing, job);
            (found, growing.as_ref().map_or(0, GrowingRecording::bytes))
        };
        self.keep(&job.place, bytes);
        // Where it cannot be read on, the whole says why.
        found.ok().flatten().map_or_else(|| job.recording(), Ok)
    }

    /// That of the job, which is the latest used from now on.
    fn slot(&self, place: &JobPlace) -> Slot {
        let mut jobs = locked(&self.jobs);
        let at = jobs.iter().position(|job| job.place == *place);
        let job = match at {
            Some(at) => jobs.remove(at),
            None => GrowingJob { place: place.clone(), slot: Slot::default(), bytes: 0 },
        };
        let slot = job.slot.clone();
        jobs.push(job);
        slot
    }

    /// It takes so much memory; those that were used longest ago are forgotten for it.
    fn keep(&self, place: &JobPlace, bytes: usize) {
        let mut jobs = locked(&self.jobs);
        jobs.iter_mut().filter(|job| job.place == *place).for_each(|job| job.bytes = bytes);
        let mut left: usize = jobs.iter().map(|job| job.bytes).sum();
        while left > MOST_BYTES || jobs.len() > MOST_JOBS {
            left -= jobs.remove(0).bytes;
        }
    }
}

/// None where the recording is to be read whole.
fn read_on(
    growing: &mut Option<GrowingRecording>,
    job: &FoundJob,
) -> Result<Option<Recording>, KeepError> {
    let dir = job.folder.path();
    if growing.is_none() {
        *growing = GrowingRecording::open_found(&dir)?;
    }
    let found = growing.as_mut().map(|growing| growing.read_on(&dir)).transpose();
    let is_over = !matches!(found, Ok(Some(Some(_))));
    growing.take_if(|growing| is_over && !growing.is_too_large());
    found.map(Option::flatten)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::RecordingsFolder;
    use crate::jobs::JobTable;
    use crate::tests::{begun, end, ended, samples};

    fn is_held(store: &GrowingStore) -> bool {
        locked(&store.jobs).iter().any(|job| locked(&job.slot).is_some())
    }

    #[test]
    fn what_is_read_on_is_what_is_read_whole_until_the_job_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = begun(&dir.path().join("job"), "job", 3);
        let table = JobTable::new(vec![RecordingsFolder::open(dir.path()).unwrap()]);
        table.list().unwrap();
        let store = GrowingStore::default();
        for round in 0..4 {
            let job = table.find("job").unwrap();
            let (found, whole) = (store.recording(&job).unwrap(), job.recording().unwrap());
            assert_eq!(found.summary(), whole.summary());
            assert_eq!(found.incomplete_because(), whole.incomplete_because());
            assert!(found.is_running() && is_held(&store));
            writer.append(&samples(10_000 + round, round as f64));
            writer.flush();
        }
        let job = table.find("job").unwrap();
        end(writer, &ended("job")).unwrap();
        assert!(store.recording(&job).unwrap().is_complete());
        assert!(!is_held(&store), "it takes no memory any more");
    }

    #[test]
    fn of_many_jobs_those_that_were_asked_for_last_are_held() {
        let store = GrowingStore::default();
        let place = |number: usize| JobPlace { folder: number, name: None };
        for number in 0..MOST_JOBS + 10 {
            store.slot(&place(number));
            store.keep(&place(number), 1);
        }
        assert_eq!(locked(&store.jobs).len(), MOST_JOBS);
        store.slot(&place(40));
        store.keep(&place(40), MOST_BYTES);
        let left = locked(&store.jobs);
        assert_eq!((left.len(), left[0].place.folder), (1, 40));
    }
}
