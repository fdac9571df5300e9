//! Formats of other programs: records of `weigh trace` as they come, and whole recordings.
//!
//! Each format is one file, and one line in a table: [`stream::FORMATS`] for what implements
//! [`RecordSink`](weigh_trace::sink::RecordSink), [`recording::FORMATS`] for what is made from the rows of a recording.
//! What weigh itself reads again (Parquet), the pages and the terminal are not here.
#![cfg_attr(test, allow(clippy::unwrap_used))]
#![deny(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

pub mod recording;
pub mod stream;
