//! `report.html`: one file that shows a recording and needs nothing else, no network either.
//!
//! Reads the summary and the rows of the recording's tables; emits HTML with the bundle of
//! `dashboard/` and all data in it.

mod calls;
mod columns;
mod io;
mod io_calls;
mod io_details;
mod io_time;
mod page;
mod regions;
mod series;
mod thin;

pub use calls::{CallKindRow, CallsPage, calls_page};
pub use io_calls::SlowestCalls;
pub use io_time::{FileHeat, IoHeat, IoOverTime, OverTime, ProcessHeat, Survey};
pub use page::{
    DigestRow, FileColumns, Files, GroupTitle, LimitRow, MetricRow, Page, Processes, page,
};
pub use regions::{CounterSeries, PhaseBands, RegionTree, RegionsBuilder, RegionsPage};
pub use series::{JobSeries, SeriesRows};
