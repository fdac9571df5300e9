//! A job while it runs: its journal as far as it was read, its series, and who watches.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::broadcast;
use weigh_keep::{JournalParts, JournalTail, KeepError, OverviewReading, ScannedSample};
use weigh_schema::region::{PhaseRow, RegionRow};
use weigh_schema::summary::Summary;
use weigh_schema::update::Update;

use crate::activity::JobActivity;
use crate::api::{JobEvent, JobMetrics, JobRow, JobSamples, JobState, JobValue, ProfileEvent};
use crate::event::event;
use crate::folder::JobFolder;

/// Read of a journal at once.
const STEP_BYTES: u64 = 8 * 1024 * 1024;
/// Events that wait for the slowest of a job's viewers.
const EVENTS_KEPT: usize = 64;
/// Samples of one event; all are in the series.
const SAMPLES_SENT: usize = 1000;
/// Regions, and phases, of one event; all are in the recording.
const ROWS_SENT: usize = 1000;
/// A request waits so long for a journal to be read.
const PATIENCE: Duration = Duration::from_secs(20);
/// Series that nobody has asked for for so long are forgotten.
const SERIES_KEPT: Duration = Duration::from_secs(60);

/// The series of a job, from its beginning on.
struct LiveSeries {
    reading: OverviewReading,
    used: Instant,
}

/// A job that runs.
pub(crate) struct LiveJob {
    pub(crate) folder: JobFolder,
    tail: JournalTail,
    /// Kept while somebody asks for them: of many long jobs they take much memory.
    series: Option<LiveSeries>,
    /// What it is busy with.
    pub(crate) activity: JobActivity,
    sender: broadcast::Sender<Bytes>,
    /// For those who want to know of regions.
    profiles: broadcast::Sender<Bytes>,
    /// What those who watch know of its values; nothing where they are to be told all.
    sent: JobMetrics,
    /// Whether its journal was read to its end: before that there is too much to send.
    is_caught_up: bool,
    /// Whether the job's weigh was told that somebody watches.
    is_told: bool,
    /// Whether something was read since the summary was taken.
    has_news: bool,
}

impl LiveJob {
    /// Opens the journal in the folder; none if there is none.
    pub(crate) fn open(folder: JobFolder) -> Result<Option<LiveJob>, KeepError> {
        let Some(tail) = JournalTail::open_found(&folder.path())? else { return Ok(None) };
        let (sender, _) = broadcast::channel(EVENTS_KEPT);
        let (profiles, _) = broadcast::channel(EVENTS_KEPT);
        Ok(Some(LiveJob {
            folder,
            tail,
            series: None,
            activity: JobActivity::default(),
            sender,
            profiles,
            sent: JobMetrics::new(),
            is_caught_up: false,
            is_told: false,
            has_news: false,
        }))
    }

    /// The same journal read from its beginning to its present end, with its series.
    pub(crate) fn with_series(folder: JobFolder) -> Result<Option<LiveJob>, KeepError> {
        let Some(mut job) = LiveJob::open(folder)? else { return Ok(None) };
        job.series = Some(LiveSeries { reading: OverviewReading::fine(), used: Instant::now() });
        // A journal that grows as fast as it is read is left where it is then.
        job.catch_up(Instant::now() + PATIENCE)?;
        Ok(Some(job))
    }

    /// Reads what is new, until the journal's end or that time is reached; whether its end ever was.
    pub(crate) fn catch_up(&mut self, until: Instant) -> Result<bool, KeepError> {
        self.read_on()?;
        while !self.is_caught_up && Instant::now() < until {
            self.read_on()?;
        }
        Ok(self.is_caught_up)
    }

    /// Goes on from another reading of the same journal, with the viewers that it has.
    pub(crate) fn become_fresh(&mut self, mut fresh: LiveJob) {
        (fresh.sender, fresh.is_told) = (self.sender.clone(), self.is_told);
        fresh.profiles = self.profiles.clone();
        *self = fresh;
    }

    /// Whether its series are kept.
    pub(crate) fn has_series(&self) -> bool {
        self.series.is_some()
    }

    /// Its series, if they are kept: they are used now.
    pub(crate) fn series(&mut self) -> Option<&OverviewReading> {
        if let Some(series) = &mut self.series {
            series.used = Instant::now();
        }
        self.series.as_ref().map(|series| &series.reading)
    }

    /// Where the samples of an interval are in its journal.
    pub(crate) fn parts(&self, from_ns: i64, to_ns: i64) -> JournalParts {
        self.tail.parts(from_ns..=to_ns)
    }

    fn forget_series_unless_used(&mut self) {
        let is_watched = self.is_watched();
        self.series.take_if(|series| !is_watched && series.used.elapsed() > SERIES_KEPT);
    }

    /// Reads what is new, for those who watch.
    pub(crate) fn read_on(&mut self) -> Result<JobNews, KeepError> {
        self.forget_series_unless_used();
        let (series, mut news) = (&mut self.series, JobNews::default());
        let has_profile_viewers = self.profiles.receiver_count() > 0;
        let progress = self.tail.read_on(STEP_BYTES, &mut |entry| {
            self.activity.take(entry);
            if let (Update::Samples { time_ns, scope, values }, Some(series)) =
                (entry, &mut *series)
            {
                take_samples(&mut series.reading, &scope.to_string(), *time_ns, values);
            }
            if self.is_caught_up {
                news.take(entry, has_profile_viewers);
            }
        })?;
        self.is_caught_up |= progress.is_at_end;
        self.has_news |= progress.bytes > 0;
        Ok(news)
    }

    /// How the job is now; none where nothing is new since this was asked last. It is dearer than to read on.
    pub(crate) fn take_summary(&mut self) -> Option<Summary> {
        std::mem::take(&mut self.has_news).then(|| self.tail.summary()).flatten()
    }

    /// Whether its weigh still writes.
    pub(crate) fn is_running(&self) -> bool {
        self.tail.is_being_written()
    }

    /// Whether anybody watches it.
    pub(crate) fn is_watched(&self) -> bool {
        self.sender.receiver_count() + self.profiles.receiver_count() > 0
    }

    /// Lets the job's weigh know whether anybody watches.
    pub(crate) fn pass_on_watching(&mut self) {
        match (self.is_watched(), self.is_told) {
            (true, _) => self.tail.watch(),
            (false, true) => self.tail.unwatch(),
            (false, false) => {}
        }
        self.is_told = self.is_watched();
    }

    /// Nobody watches any more. What its end is then is found when it is read again.
    pub(crate) fn rest(&mut self) {
        self.pass_on_watching();
        self.is_caught_up = false;
    }

    /// What will be new from now on.
    pub(crate) fn subscribe(&mut self) -> broadcast::Receiver<Bytes> {
        if !self.is_watched() {
            self.sent.clear();
        }
        self.sender.subscribe()
    }

    /// What will be new of its regions from now on.
    pub(crate) fn subscribe_to_profiles(&self) -> broadcast::Receiver<Bytes> {
        self.profiles.subscribe()
    }

    /// Tells those who want to know of regions what is new of them.
    pub(crate) fn send_profile(&self, row: &JobRow, news: &JobNews) {
        if !news.regions.is_empty() || !news.phases.is_empty() {
            let JobNews { regions, phases, .. } = news;
            // Nobody may have stayed.
            let _ = self
                .profiles
                .send(event("profile", &ProfileEvent { id: &row.id, regions, phases }));
        }
    }

    /// Tells those who watch all of it, as at its end.
    pub(crate) fn send_whole(&mut self, row: &JobRow) {
        self.sent.clear();
        self.send(row, &[]);
    }

    /// Tells those who watch what is new.
    pub(crate) fn send(&mut self, row: &JobRow, samples: &[JobSamples]) {
        let is_new = |(name, value): &(&String, &JobValue)| self.sent.get(*name) != Some(*value);
        let news = row.metrics.iter().filter(is_new);
        let news: JobMetrics = news.map(|(name, value)| (name.clone(), *value)).collect();
        // Nobody may have stayed.
        let _ = self.sender.send(event_of(row, &news, samples));
        self.sent.extend(news);
    }
}

/// What is new in a job's journal, as much as is sent.
#[derive(Default)]
pub(crate) struct JobNews {
    pub(crate) samples: Vec<JobSamples>,
    regions: Vec<RegionRow>,
    phases: Vec<PhaseRow>,
}

impl JobNews {
    fn take(&mut self, entry: &Update, with_profiles: bool) {
        match entry {
            Update::Samples { time_ns, scope, values } if self.samples.len() < SAMPLES_SENT => {
                let (scope, values) = (scope.to_string(), values.clone());
                self.samples.push(JobSamples { time_ns: *time_ns, scope, values });
            }
            Update::Region(row) | Update::RegionSoFar(row)
                if with_profiles && self.regions.len() < ROWS_SENT =>
            {
                self.regions.push((**row).clone());
            }
            Update::Phase(row) if with_profiles && self.phases.len() < ROWS_SENT => {
                self.phases.push((**row).clone());
            }
            _ => {}
        }
    }
}

/// How a job is.
pub(crate) fn job_event(row: &JobRow) -> Bytes {
    event_of(row, &row.metrics, &[])
}

fn event_of(row: &JobRow, metrics: &JobMetrics, samples: &[JobSamples]) -> Bytes {
    let state = row.state.unwrap_or(JobState::Broken);
    event("job", &JobEvent { id: &row.id, state, metrics, samples })
}

fn take_samples(
    series: &mut OverviewReading,
    scope: &str,
    time_ns: i64,
    values: &BTreeMap<String, f64>,
) {
    for (metric, value) in values {
        series.push(ScannedSample { time_ns, scope, metric, value: *value });
    }
}
