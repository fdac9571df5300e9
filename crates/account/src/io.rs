//! What a job read and wrote: adds up what the kernel side tells by file and process, finds who wrote what
//! others read, and what could be better.
//!
//! Reads [`Event`]s; emits an [`IoReport`](weigh_schema::io::IoReport), at the end or at any time before.
//! Keeps a bounded number of files apart: what is beyond is added up in the rest, and counted there.

mod advice;
mod book;
mod called;
mod flow;
mod kept;
mod numbers;
mod report;
mod saved;
mod seen;
mod series;

pub use advice::{RULES, Rule};
pub use book::{IoBook, Row};
pub use called::io_call;
pub use kept::Kept;
pub use report::{Files, Run, file_use, found, report};
pub use saved::Saved;
pub use series::{IoSeries, Step};
