//! `report.html`: one file that shows a recording and needs nothing else, no network either.
//!
//! Reads the summary and the rows of the recording's tables; emits HTML with the bundle of
//! `dashboard/` and all data in it.

mod columns;
mod io;
mod io_calls;
mod io_details;
mod io_time;
mod page;
mod regions;
mod series;
mod thin;

pub use io_calls::SlowestCalls;
pub use io_time::{FileHeat, IoHeat, IoOverTime, OverTime, ProcessHeat, Survey};
pub use page::{
    DigestRow, FileColumns, Files, GroupTitle, LimitRow, MetricRow, Page, Processes, page,
};
pub use regions::{CounterSeries, PhaseBands, RegionTree, RegionsBuilder, RegionsPage};
pub use series::{JobSeries, SeriesRows};

use weigh_schema::recording::ProcessRow;
use weigh_schema::summary::Summary;

use crate::document::{Bundle, bundle, document};
use crate::text::shell_words;

const BUNDLE: Bundle = bundle!("report");

/// What only some recordings have.
#[derive(Default)]
pub struct Extras {
    /// What was read and written over time.
    pub io_over_time: Option<IoOverTime>,
    /// The slowest calls that were about files, in words.
    pub slowest: Vec<String>,
    /// Regions that programs name.
    pub regions: Option<RegionsPage>,
}

/// The data of the page. `processes_total` says how many there are in all, where the caller passes fewer.
pub fn page_with(
    summary: &Summary,
    series: JobSeries,
    processes: &[ProcessRow],
    files: Files,
    processes_total: u64,
    extras: Extras,
) -> Page {
    let mut page = page(summary, series, processes, files, processes_total);
    page.io_over_time = extras.io_over_time;
    page.regions = extras.regions;
    page.io.iter_mut().for_each(|io| io.slowest = extras.slowest.clone());
    page
}

/// The page, as one file.
pub fn render(
    summary: &Summary,
    series: JobSeries,
    processes: &[ProcessRow],
    files: Files,
    processes_total: u64,
    extras: Extras,
) -> String {
    let page = page_with(summary, series, processes, files, processes_total, extras);
    let title = format!("{} · weigh", shell_words(&summary.job.command));
    let instead = "This page draws itself with a script. The numbers are in summary.json beside it, \
                   and `weigh show` prints them.";
    document(&BUNDLE, &title, instead, &summary.host.weigh, &page)
}
