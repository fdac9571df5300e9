//! Formats of other programs: records of `weigh trace` as they come, whole recordings, and metrics of the node.
//!
//! Each format is one file, and one line in a table: [`stream::FORMATS`] for what implements
//! [`RecordSink`](weigh_trace::sink::RecordSink), [`recording::FORMATS`] for what is made from the rows of a recording,
//! [`metrics::EXPORTERS`] for what takes the node's metrics.
//! What weigh itself reads again (Parquet), the pages and the terminal are not here.
#![cfg_attr(test, allow(clippy::unwrap_used))]
#![deny(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

pub mod metrics;
mod protobuf;
pub mod recording;
pub mod stream;
