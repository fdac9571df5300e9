//! The table of jobs: recordings in the folders that the server was given, each under an id.
//!
//! Reads folders at most once in a second and while somebody asks, summaries when their folder has changed, journals
//! as they grow. An id is looked up here and never becomes a path.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{broadcast, watch};
use weigh_keep::Recording;
use weigh_schema::byte_text;
use weigh_schema::recording::files;

use crate::api::{JOBS, JobList, JobRow, JobState, first_bytes};
use crate::busiest::{BusiestBuilder, BusiestFilter};
use crate::error::ApiError;
use crate::folder::{JobFolder, JobPlace, RecordingsFolder, Stamp, without_descriptor};
use crate::live_job::{LiveJob, job_event};

/// The folders are looked at so often, and no oftener.
const SCAN: Duration = Duration::from_secs(1);
/// Jobs that are listed, the newest ones.
const JOBS_MOST: usize = 2000;
/// Journals that are followed at once.
const LIVE_MOST: usize = 500;
/// An id stands in URLs.
const ID_BYTES: usize = 200;

/// All recordings that are served.
pub(crate) struct JobTable {
    folders: Vec<RecordingsFolder>,
    state: Mutex<TableState>,
    version: watch::Sender<u64>,
}

#[derive(Default)]
struct TableState {
    /// By place; none where there is no recording.
    jobs: HashMap<JobPlace, (Stamp, Option<Job>)>,
    ids: HashMap<String, JobPlace>,
    scanned: Option<Instant>,
    left_out: u64,
    /// The list as JSON, as long as it is as the jobs are.
    list: Option<Bytes>,
    /// What was answered last to those who ask what is busiest, until the next scan.
    busiest: Option<(BusiestFilter, Bytes)>,
}

struct Job {
    row: JobRow,
    live: Option<Box<LiveJob>>,
}

/// A recording that was found by its id, to be read.
pub(crate) struct FoundJob {
    pub(crate) place: JobPlace,
    pub(crate) stamp: Stamp,
    pub(crate) folder: JobFolder,
    pub(crate) row: JobRow,
}

impl FoundJob {
    /// Opens its recording.
    pub(crate) fn recording(&self) -> Result<Recording, ApiError> {
        let path = self.folder.path();
        Recording::open_found(&path).map_err(|error| {
            ApiError::recording(without_descriptor(&error, &path, &self.row.folder))
        })
    }
}

impl JobTable {
    pub(crate) fn new(folders: Vec<RecordingsFolder>) -> JobTable {
        let (version, _) = watch::channel(0);
        JobTable { folders, state: Mutex::default(), version }
    }

    /// Changes whenever the list does.
    pub(crate) fn version(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    fn state(&self) -> MutexGuard<'_, TableState> {
        // A panic leaves a table that the next scan brings up to date.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The list as JSON, made once for all who ask between two scans.
    pub(crate) fn list(&self) -> Result<Bytes, ApiError> {
        self.scan();
        let mut state = self.state();
        if let Some(list) = &state.list {
            return Ok(list.clone());
        }
        state.bring_up_to_date();
        let list = Bytes::from(state.to_json().map_err(ApiError::internal)?);
        state.list = Some(list.clone());
        Ok(list)
    }

    /// What the jobs that run are busy with, as JSON.
    pub(crate) fn busiest(&self, filter: &BusiestFilter) -> Result<Bytes, ApiError> {
        self.scan();
        let mut state = self.state();
        if let Some((known, busiest)) = &state.busiest
            && known == filter
        {
            return Ok(busiest.clone());
        }
        let mut builder = BusiestBuilder::new(filter);
        for (_, job) in state.jobs.values() {
            if let Some(Job { row, live: Some(live) }) = job {
                builder.add(row, &live.activity);
            }
        }
        let json = serde_json::to_vec(&builder.finish()).map_err(ApiError::internal)?;
        let busiest = Bytes::from(json);
        state.busiest = Some((filter.clone(), busiest.clone()));
        Ok(busiest)
    }

    /// Finds a job; looks into the folders again if it is not known.
    pub(crate) fn find(&self, id: &str) -> Result<FoundJob, ApiError> {
        if !self.state().ids.contains_key(id) {
            self.scan();
        }
        let mut state = self.state();
        let place = state.ids.get(id).ok_or_else(ApiError::no_job)?.clone();
        let Some((stamp, Some(job))) = state.jobs.get_mut(&place) else {
            return Err(ApiError::no_job());
        };
        job.bring_up_to_date();
        let folder = self.open(&place).map_err(ApiError::recording)?;
        Ok(FoundJob { stamp: *stamp, folder, row: job.row.clone(), place })
    }

    /// Reads of the series of a job that runs; none where it does not, or is not known.
    pub(crate) fn with_live_series<T>(
        &self,
        place: &JobPlace,
        read: impl FnOnce(&mut LiveJob) -> T,
    ) -> Option<T> {
        if !self.state().live(place)?.has_series() {
            // Without the table's lock: it takes as long as the journal is long.
            let mut fresh = LiveJob::with_series(self.open(place).ok()?).ok()??;
            let mut state = self.state();
            // Those who watch get what is new of the old reading, the series get it of the fresh one.
            self.read_on(&mut state, place);
            fresh.read_on().ok()?;
            state.live(place)?.become_fresh(fresh);
        }
        self.state().live(place).map(read)
    }

    /// How a job is, and what will be new of it, of its regions too where they are wanted.
    pub(crate) fn subscribe(
        &self,
        id: &str,
        with_profiles: bool,
    ) -> Result<(Bytes, Vec<broadcast::Receiver<Bytes>>), ApiError> {
        let place = self.find(id)?.place;
        let mut state = self.state();
        self.read_on(&mut state, &place);
        match state.jobs.get_mut(&place) {
            Some((_, Some(job))) => {
                job.bring_up_to_date();
                let mut events = Vec::new();
                if let Some(live) = &mut job.live {
                    events.push(live.subscribe());
                    events.extend(with_profiles.then(|| live.subscribe_to_profiles()));
                }
                Ok((job_event(&job.row), events))
            }
            _ => Err(ApiError::no_job()),
        }
    }

    /// Reads on in the journals of jobs that are watched.
    pub(crate) fn read_on_watched(&self) {
        let mut state = self.state();
        let is_watched = |job: &Job| job.live.as_ref().is_some_and(|live| live.is_watched());
        let places: Vec<JobPlace> = state
            .jobs
            .iter()
            .filter(|(_, (_, job))| job.as_ref().is_some_and(is_watched))
            .map(|(place, _)| place.clone())
            .collect();
        places.iter().for_each(|place| self.read_on(&mut state, place));
    }

    /// Looks for what has come, changed and gone, if that was not done just now.
    pub(crate) fn scan(&self) {
        let mut state = self.state();
        if state.scanned.is_some_and(|scanned| scanned.elapsed() < SCAN) {
            return;
        }
        let is_changed = self.scan_now(&mut state);
        (state.scanned, state.list, state.busiest) = (Some(Instant::now()), None, None);
        drop(state);
        if is_changed {
            self.version.send_modify(|version| *version += 1);
        }
    }

    /// Whether the list is another now.
    fn scan_now(&self, state: &mut TableState) -> bool {
        let folders = self.folders.iter().enumerate();
        // A folder that cannot be read now has no jobs now.
        let places = folders.flat_map(|(number, folder)| folder.places(number).unwrap_or_default());
        let mut places: Vec<(JobPlace, Stamp)> = places.collect();
        places.sort_by_key(|(_, stamp)| Reverse(*stamp));
        state.left_out = places.len().saturating_sub(JOBS_MOST) as u64;
        places.truncate(JOBS_MOST);
        let mut is_changed = state.forget_all_but(&places);
        // The oldest first: ids stay the same from one server to the next.
        for (place, stamp) in places.into_iter().rev() {
            let known = state.jobs.get(&place);
            let is_same = known.is_some_and(|(known, _)| *known == stamp && !stamp.is_young());
            let is_live = matches!(known, Some((_, Some(Job { live: Some(_), .. }))));
            if is_live {
                self.read_on(state, &place);
            } else if !is_same {
                is_changed |= self.load(state, place, stamp);
            }
        }
        is_changed
    }

    /// Reads what lies at a place; whether it is another than before.
    fn load(&self, state: &mut TableState, place: JobPlace, stamp: Stamp) -> bool {
        let live = state.jobs.values().filter_map(|(_, job)| job.as_ref()?.live.as_ref()).count();
        let folder = self.open(&place).ok().filter(JobFolder::is_recording);
        let Some(folder) = folder else {
            return state.jobs.insert(place, (stamp, None)).is_some_and(|(_, job)| job.is_some());
        };
        let mut job = self.read_job(&place, folder, live < LIVE_MOST);
        job.row.id = state.id_of(&place, &job.row.id);
        let before = state.jobs.get(&place).and_then(|(_, job)| Some(job.as_ref()?.row.state));
        let is_changed = before != Some(job.row.state);
        state.ids.insert(job.row.id.clone(), place.clone());
        state.jobs.insert(place, (stamp, Some(job)));
        is_changed
    }

    fn read_job(&self, place: &JobPlace, folder: JobFolder, may_follow: bool) -> Job {
        let mut row = self.empty_row(place);
        if folder.has(files::SUMMARY) || !may_follow {
            set_recording(&mut row, &folder);
            return Job { row, live: None };
        }
        let path = folder.path();
        match LiveJob::open(folder) {
            Ok(Some(live)) if live.is_running() => {
                row.state = Some(JobState::Running);
                let mut job = Job { row, live: Some(Box::new(live)) };
                job.read_on();
                if let Some(id) = job.bring_up_to_date() {
                    job.row.id = id;
                }
                return job;
            }
            Ok(Some(live)) => set_recording(&mut row, &live.folder),
            Ok(None) => set_broken(&mut row, "its journal has gone".to_string()),
            Err(error) => {
                let reason = without_descriptor(&error, &path, &row.folder);
                set_broken(&mut row, reason);
            }
        }
        Job { row, live: None }
    }

    fn empty_row(&self, place: &JobPlace) -> JobRow {
        let path = self.folders[place.folder].shown_path(place.name.as_deref());
        let kept = byte_text::keep(path.as_os_str().as_bytes());
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        JobRow::new(name.into_owned(), byte_text::shown_with_base64(&kept))
    }

    fn open(&self, place: &JobPlace) -> std::io::Result<JobFolder> {
        self.folders[place.folder].open_job(place.name.as_deref())
    }

    /// Reads on in the journal of a job that runs; when it has ended, its recording.
    fn read_on(&self, state: &mut TableState, place: &JobPlace) {
        let Some((stamp, Some(job))) = state.jobs.get_mut(place) else { return };
        let Some(live) = &job.live else { return };
        let is_finished = live.folder.has(files::SUMMARY);
        job.read_on();
        if !is_finished && job.live.as_ref().is_some_and(|live| live.is_running()) {
            return;
        }
        let stamp = *stamp;
        let live = job.live.take();
        self.load(state, place.clone(), stamp);
        state.list = None;
        self.version.send_modify(|version| *version += 1);
        if let (Some(mut live), Some((_, Some(job)))) = (live, state.jobs.get(place)) {
            live.send_whole(&job.row);
        }
    }
}

impl TableState {
    /// A job that runs.
    fn live(&mut self, place: &JobPlace) -> Option<&mut LiveJob> {
        self.jobs.get_mut(place)?.1.as_mut()?.live.as_deref_mut()
    }

    fn bring_up_to_date(&mut self) {
        self.jobs.values_mut().filter_map(|(_, job)| job.as_mut()).for_each(|job| {
            job.bring_up_to_date();
        });
    }

    fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        let known = self.jobs.values().filter_map(|(stamp, job)| Some((stamp, job.as_ref()?)));
        let mut jobs: Vec<(&Stamp, &Job)> = known.collect();
        jobs.sort_by_key(|(stamp, _)| Reverse(**stamp));
        let jobs = jobs.into_iter().map(|(_, job)| &job.row).collect();
        serde_json::to_vec(&JobList { schema: JOBS, jobs, jobs_left_out: self.left_out })
    }

    /// Whether anything has gone.
    fn forget_all_but(&mut self, places: &[(JobPlace, Stamp)]) -> bool {
        let known = self.jobs.len();
        let there: HashSet<&JobPlace> = places.iter().map(|(place, _)| place).collect();
        self.jobs.retain(|place, _| there.contains(place));
        self.ids.retain(|_, place| there.contains(place));
        self.jobs.len() != known
    }

    /// The id that a place has, or gets.
    fn id_of(&self, place: &JobPlace, wanted: &str) -> String {
        let wanted = match first_bytes(wanted, ID_BYTES) {
            "" => "job",
            wanted => wanted,
        };
        let is_free = |id: &String| self.ids.get(id).is_none_or(|known| known == place);
        let numbered = (2..).map(|number| format!("{wanted}~{number}"));
        let mut ids = std::iter::once(wanted.to_string()).chain(numbered);
        ids.find(is_free).unwrap_or_default()
    }
}

impl Job {
    /// Takes in what is new in its journal, and tells those who watch.
    fn read_on(&mut self) {
        let Some(live) = &mut self.live else { return };
        live.pass_on_watching();
        match live.read_on() {
            Ok(news) if live.is_watched() => {
                if self.bring_up_to_date().is_some()
                    && let Some(live) = &mut self.live
                {
                    live.send(&self.row, &news.samples);
                    live.send_profile(&self.row, &news);
                }
            }
            Ok(_) => {}
            Err(error) => {
                self.row.reason =
                    Some(without_descriptor(&error, &live.folder.path(), &self.row.folder));
            }
        }
    }

    /// Brings its row up to date with what was read: the job's own id, if anything is new.
    fn bring_up_to_date(&mut self) -> Option<String> {
        let summary = self.live.as_mut()?.take_summary()?;
        self.row.set_summary(&summary);
        Some(summary.job.id)
    }
}

fn set_recording(row: &mut JobRow, folder: &JobFolder) {
    match Recording::open_found(&folder.path()) {
        Ok(recording) => {
            row.id = recording.summary().job.id.clone();
            row.set_summary(recording.summary());
            row.reason = recording.incomplete_because().map(str::to_string);
            row.state = Some(match (recording.is_complete(), recording.is_running()) {
                (true, _) => JobState::Ended,
                (_, true) => JobState::Running,
                _ => JobState::Broken,
            });
        }
        Err(error) => {
            let reason = without_descriptor(&error, &folder.path(), &row.folder);
            set_broken(row, reason);
        }
    }
}

fn set_broken(row: &mut JobRow, reason: String) {
    row.state = Some(JobState::Broken);
    row.reason = Some(reason);
}
