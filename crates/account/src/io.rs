//! What a job read and wrote: adds up what the kernel side tells by file and process, finds who wrote what
//! others read, and what could be better.
//!
//! Reads [`Event`]s; emits an [`IoReport`](weigh_schema::io::IoReport), at the end or at any time before.
//! Keeps a bounded number of files apart: what is beyond is added up in the rest, and counted there.

mod advice;
mod call_row;
mod checkpoint;
mod extents;
mod file_use;
mod flow;
mod report;
mod series;
mod usage_table;

pub use advice::{RULES, Rule};
pub use call_row::io_call;
pub use checkpoint::Checkpoint;
pub use file_use::{Files, file_use};
pub use report::{Run, found, found_at_end, report};
pub use series::{IoSeries, Step};
pub use usage_table::{IoBook, RowState};
