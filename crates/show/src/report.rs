//! `report.html`: one file that shows a recording and needs nothing else, no network either.
//!
//! Reads the summary and the rows of the recording's tables; emits HTML with the bundle of
//! `dashboard/` and all data in it.

mod io;
mod io_calls;
mod io_details;
mod io_time;
mod page;
mod thin;

pub use io_calls::SlowestCalls;
pub use io_time::{FileHeat, IoHeat, IoOverTime, OverTime, ProcessHeat, Survey};
pub use page::{
    DigestRow, FileColumns, Files, GroupTitle, LimitRow, MetricRow, Page, Processes, SeriesRows,
    page,
};

use weigh_schema::recording::{ProcessRow, SampleRow};
use weigh_schema::summary::Summary;

use crate::document::{Bundle, bundle, document};
use crate::text::shell_words;

const BUNDLE: Bundle = bundle!("report");

/// The page. `processes_total` says how many there are in all, where the caller passes fewer.
pub fn render(
    summary: &Summary,
    samples: &[SampleRow],
    processes: &[ProcessRow],
    files: Files,
    processes_total: u64,
    io_over_time: Option<IoOverTime>,
    slowest: Vec<String>,
) -> String {
    let mut page = page(summary, samples, processes, files, processes_total);
    page.io_over_time = io_over_time;
    page.io.iter_mut().for_each(|io| io.slowest = slowest.clone());
    let title = format!("{} · weigh", shell_words(&summary.job.command));
    let instead = "This page draws itself with a script. The numbers are in summary.json beside it, \
                   and `weigh show` prints them.";
    document(&BUNDLE, &title, instead, &summary.host.weigh, &page)
}
