//! The page of a recording: what `report.html` shows, and the live page of one that runs.
//!
//! Reads the tables of a recording, row by row; emits the page's data. Tables that cannot be read are left out, and
//! named.

use weigh_account::regions::{FlatRegions, RegionTreeSum, TreeLine};
use weigh_keep::{KeepError, Recording, UnreadableTables};
use weigh_schema::{Value, metric_name};
use weigh_show::regions::RegionLine;
use weigh_show::report::{
    FileColumns, Files, IoOverTime, JobSeries, Page, RegionsBuilder, RegionsPage, SlowestCalls,
    Survey, calls_page, page,
};

/// Rows of each table that are read for the page, which says how many there are in all: what nobody
/// would look through should take nobody's memory while weigh ends.
const PAGE_ROWS: usize = 10_000;

/// All of it.
pub fn recording_page(recording: &Recording) -> Page {
    let start_ns = start_ns(recording);
    let mut series = JobSeries::new(start_ns);
    let mut counters = RegionsBuilder::new(start_ns);
    let mut unreadable = UnreadableTables::new(recording);
    unreadable.take(recording.each_sample(|row| {
        series.push(&row);
        counters.sample(&row);
    }));
    with_rows(recording, series, counters, unreadable)
}

/// The same without its series, which may be longer than all the rest and are not read.
pub(crate) fn page_without_series(recording: &Recording) -> Page {
    let start_ns = start_ns(recording);
    let (series, counters) = (JobSeries::new(start_ns), RegionsBuilder::new(start_ns));
    with_rows(recording, series, counters, UnreadableTables::new(recording))
}

fn start_ns(recording: &Recording) -> i64 {
    recording.summary().job.started.as_nanosecond() as i64
}

fn with_rows(
    recording: &Recording,
    series: JobSeries,
    counters: RegionsBuilder,
    mut unreadable: UnreadableTables,
) -> Page {
    let start_ns = start_ns(recording);
    let processes = unreadable.take(recording.processes(Some(PAGE_ROWS)));
    let files = unreadable.take(files(recording));
    let mut slowest = SlowestCalls::default();
    if files.total > 0 && recording.has_io_calls() {
        unreadable.take(recording.each_file(|row| {
            if row.object.is_waited_at() {
                slowest.waits_at((row.device, row.inode));
            }
        }));
    }
    unreadable.take(recording.each_io_call(|call| slowest.push(call)));
    let mut page = page(recording.summary(), series, &processes.rows, files, processes.total);
    page.io_over_time = unreadable.take(io_over_time(recording));
    page.set_slowest(slowest.lines(start_ns));
    page.regions = regions(recording, counters, &mut unreadable);
    page.calls = unreadable.take(recording.calls()).as_ref().map(calls_page);
    page.set_unreadable(unreadable.sentence());
    page
}

fn files(recording: &Recording) -> Result<Files, KeepError> {
    let mut files = FileColumns::default();
    let total = recording.first_files(PAGE_ROWS, |row| files.push(&row))?;
    Ok(files.finish(total))
}

/// What was read and written over time: the rows are read twice, and never all in memory.
fn io_over_time(recording: &Recording) -> Result<Option<IoOverTime>, KeepError> {
    let mut survey = Survey::default();
    recording.each_io_moment(|row| survey.moment(&row))?;
    recording.each_io_place(|row| survey.place(&row))?;
    let summary = recording.summary();
    let start_ns = start_ns(recording);
    let duration = summary.metrics.get(metric_name::wall_seconds).and_then(Value::number);
    let Some(mut over_time) = survey.choose(start_ns, duration) else { return Ok(None) };
    recording.each_io_moment(|row| over_time.moment(&row))?;
    recording.each_io_place(|row| over_time.place(&row))?;
    Ok(Some(over_time.finish()))
}

/// What the page shows of them. Rows are read one by one: a recording may hold a million.
fn regions(
    recording: &Recording,
    mut builder: RegionsBuilder,
    unreadable: &mut UnreadableTables,
) -> Option<RegionsPage> {
    let (mut tree, mut flat) = (RegionTreeSum::new(false), FlatRegions::default());
    unreadable.take(recording.each_region(|row| {
        tree.add(&row);
        flat.add(&row);
    }));
    unreadable.take(recording.each_phase(|row| builder.phase(&row)));
    let lines = tree.finish();
    let lines: Vec<RegionLine<'_>> = lines.iter().map(region_line).collect();
    builder.finish(recording.summary().regions.as_deref(), &lines, flat.finish())
}

fn region_line(line: &TreeLine) -> RegionLine<'_> {
    RegionLine { depth: line.depth, row: &line.row, threads: line.threads }
}
