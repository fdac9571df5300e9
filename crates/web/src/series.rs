//! Series of recordings: an overview of each is made once and kept a while; a zoom that it does not resolve reads the
//! samples of the interval, and no others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weigh_keep::{
    JournalParts, KeepError, RecordingOverview, SampleVisit, ScannedSample, SeriesKey,
    SeriesOverview,
};

use crate::api;
use crate::api::SeriesRow;
use crate::decimate::{self, ColumnBuilder, Columns, Grid};
use crate::error::ApiError;
use crate::folder::{JobPlace, Stamp, without_descriptor};
use crate::jobs::{FoundJob, JobTable};
use crate::live_job::LiveJob;
use crate::zoom::{ZoomKey, ZoomStore};

/// Columns where none are asked for, and at most.
const POINTS: usize = 1000;
const POINTS_MOST: usize = 20_000;
/// Memory for overviews that are kept.
const CACHE_BYTES: usize = 32 * 1024 * 1024;

/// Which columns of which series.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeriesRequest {
    pub(crate) scope: String,
    pub(crate) metric: String,
    pub(crate) from_ns: Option<i64>,
    pub(crate) to_ns: Option<i64>,
    pub(crate) points: Option<usize>,
}

impl SeriesRequest {
    /// The columns, where the series is so long.
    pub(crate) fn grid(&self, interval: (i64, i64)) -> Result<Grid, ApiError> {
        let from_ns = self.from_ns.unwrap_or(interval.0);
        let to_ns = self.to_ns.unwrap_or(interval.1);
        let points = self.points.unwrap_or(POINTS);
        if from_ns > to_ns {
            return Err(ApiError::parameter("from is behind to", "from ≤ to, in nanoseconds"));
        }
        if points == 0 || points > POINTS_MOST {
            return Err(ApiError::parameter("too many points, or none", "points from 1 to 20000"));
        }
        Ok(Grid { from_ns, to_ns, points })
    }

    fn is_of(&self, sample: &ScannedSample<'_>) -> bool {
        sample.metric == self.metric && sample.scope == self.scope
    }
}

fn rows(overview: &RecordingOverview) -> Vec<SeriesRow> {
    let series = overview.series.iter().map(|(key, series)| (key, series.samples()));
    let others = overview.others.iter().map(|(key, samples)| (key, *samples));
    series.chain(others).map(|(key, samples)| series_row(key, samples)).collect()
}

/// The memory that an overview takes, nearly.
fn bytes(overview: &RecordingOverview) -> usize {
    let series: usize = overview.series.values().map(SeriesOverview::bytes).sum();
    series + overview.others.len() * size_of::<(SeriesKey, u64)>()
}

fn series_row((scope, metric): &(String, String), samples: u64) -> SeriesRow {
    let unit = api::metric_of_series(metric).map(|metric| metric.unit);
    SeriesRow { metric: metric.clone(), scope: scope.clone(), unit, samples }
}

struct CachedOverview {
    place: JobPlace,
    stamp: Stamp,
    overview: Arc<RecordingOverview>,
}

/// Overviews of the recordings that were asked for last.
#[derive(Default)]
pub(crate) struct SeriesStore {
    /// The latest used is the last.
    cache: Mutex<Vec<CachedOverview>>,
    /// One recording is read at a time.
    reading: Mutex<()>,
    zooms: ZoomStore,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What it guards is whole between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SeriesStore {
    /// The series that a job has.
    pub(crate) fn list(
        &self,
        table: &JobTable,
        job: &FoundJob,
    ) -> Result<Vec<SeriesRow>, ApiError> {
        let live = table.with_live_series(&job.place, |live| {
            let rows =
                |(key, series): (&SeriesKey, &SeriesOverview)| series_row(key, series.samples());
            live.series().map(|series| series.all().map(rows).collect())
        });
        match live.flatten() {
            Some(rows) => Ok(rows),
            None => Ok(rows(&*self.overview(job)?)),
        }
    }

    /// Columns of one of them.
    pub(crate) fn columns(
        &self,
        table: &JobTable,
        job: &FoundJob,
        request: &SeriesRequest,
    ) -> Result<Columns, ApiError> {
        let key = (request.scope.clone(), request.metric.clone());
        if let Some(live) =
            table.with_live_series(&job.place, |live| live_columns(live, &key, request))
        {
            return match live? {
                LiveColumns::Made(columns) => Ok(columns),
                LiveColumns::ToRead(parts, grid) => {
                    let scan = |visit: &mut SampleVisit<'_>| parts.scan(visit);
                    self.zoomed(job, &key, (grid, parts.end()), scan)
                }
            };
        }
        let overview = self.overview(job)?;
        if overview.others.contains_key(&key) {
            return read_unknown(job, request);
        }
        let series = overview.series.get(&key).ok_or_else(no_series)?;
        let grid = request.grid(series.interval().ok_or_else(no_series)?)?;
        match decimate::resolves(series, grid) {
            true => Ok(decimate::columns(series, grid)),
            false => {
                let recording = job.recording()?;
                let interval = grid.from_ns..=grid.to_ns;
                let scan =
                    |visit: &mut SampleVisit<'_>| recording.scan_samples(interval.clone(), visit);
                self.zoomed(job, &key, (grid, 0), scan)
            }
        }
    }

    /// Columns of a stretch that no overview resolves: the samples of the interval are read.
    fn zoomed(
        &self,
        job: &FoundJob,
        series: &SeriesKey,
        (grid, journal_end): (Grid, u64),
        scan: impl Fn(&mut SampleVisit<'_>) -> Result<(), KeepError>,
    ) -> Result<Columns, ApiError> {
        let read =
            |visit: &mut SampleVisit<'_>| scan(visit).map_err(|error| unreadable(job, &error));
        let key = ZoomKey { place: job.place.clone(), stamp: job.stamp, journal_end, grid };
        if let Some(columns) = self.zooms.columns(key, series, read)? {
            return Ok(columns);
        }
        let mut columns = ColumnBuilder::new(grid);
        read(&mut |sample| {
            if sample.scope == series.0 && sample.metric == series.1 {
                columns.push(sample.time_ns, sample.value);
            }
        })?;
        Ok(columns.finish())
    }

    fn overview(&self, job: &FoundJob) -> Result<Arc<RecordingOverview>, ApiError> {
        if let Some(known) = self.cached(job) {
            return Ok(known);
        }
        let _one = locked(&self.reading);
        if let Some(known) = self.cached(job) {
            return Ok(known);
        }
        let overview = job.recording()?.series_overview();
        let overview = Arc::new(overview.map_err(|error| unreadable(job, &error))?);
        self.keep(job, overview.clone());
        Ok(overview)
    }

    fn cached(&self, job: &FoundJob) -> Option<Arc<RecordingOverview>> {
        let mut cache = locked(&self.cache);
        let is_it = |known: &CachedOverview| known.place == job.place && known.stamp == job.stamp;
        let at = cache.iter().position(is_it)?;
        let known = cache.remove(at);
        let overview = known.overview.clone();
        cache.push(known);
        Some(overview)
    }

    fn keep(&self, job: &FoundJob, overview: Arc<RecordingOverview>) {
        let mut cache = locked(&self.cache);
        cache.retain(|known| known.place != job.place);
        cache.push(CachedOverview { place: job.place.clone(), stamp: job.stamp, overview });
        let mut taken: usize = cache.iter().map(|known| bytes(&known.overview)).sum();
        while taken > CACHE_BYTES && cache.len() > 1 {
            taken -= bytes(&cache.remove(0).overview);
        }
    }
}

/// Columns of a job that runs: made while the table of jobs is held, or to be read from the journal without it.
enum LiveColumns {
    Made(Columns),
    ToRead(JournalParts, Grid),
}

fn live_columns(
    live: &mut LiveJob,
    key: &SeriesKey,
    request: &SeriesRequest,
) -> Result<LiveColumns, ApiError> {
    let series = live.series().and_then(|series| series.series(key)).ok_or_else(no_series)?;
    let grid = request.grid(series.interval().ok_or_else(no_series)?)?;
    match decimate::resolves(series, grid) {
        true => Ok(LiveColumns::Made(decimate::columns(series, grid))),
        false => Ok(LiveColumns::ToRead(live.parts(grid.from_ns, grid.to_ns), grid)),
    }
}

/// Reads a series that has no overview.
fn read_unknown(job: &FoundJob, request: &SeriesRequest) -> Result<Columns, ApiError> {
    let interval = request.from_ns.unwrap_or(i64::MIN)..=request.to_ns.unwrap_or(i64::MAX);
    let mut series = SeriesOverview::default();
    let read = job.recording()?.scan_samples(interval, &mut |sample| {
        if request.is_of(&sample) {
            series.push(sample.time_ns, sample.value);
        }
    });
    read.map_err(|error| unreadable(job, &error))?;
    let grid = request.grid(series.interval().ok_or_else(no_series)?)?;
    Ok(decimate::columns(&series, grid))
}

fn unreadable(job: &FoundJob, error: &weigh_keep::KeepError) -> ApiError {
    ApiError::recording(without_descriptor(error, &job.folder.path(), &job.row.folder))
}

/// There is no such series.
pub(crate) fn no_series() -> ApiError {
    let expected = "a metric and scope of /api/v1/series?job=ID";
    ApiError::new(axum::http::StatusCode::NOT_FOUND, "there is no such series", expected)
}
