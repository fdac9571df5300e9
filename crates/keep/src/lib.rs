#![cfg_attr(test, allow(clippy::unwrap_used))]
#![deny(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]
//! Recordings on disk.
//!
//! A recording is a directory. While the job runs it holds a journal and nothing else, so that
//! what was recorded can be read if weigh is killed at any moment ([`journal`]). When the job has
//! ended, [`RecordingWriter::finish`] makes of it the tables (Parquet) and `summary.json`, and
//! removes the journal. [`Recording`] reads both kinds.
//!
//! The files of `weigh calls --per-call`, `weigh io --parquet` and `weigh trace` are tables of the same make, and no
//! recordings.
//!
//! Takes rows and summaries from the schema crate and gives them back; knows nothing of how they
//! were measured. Refuses a directory that is taken, and files that are not what they should be.

mod atomic;
mod calls;
mod calls_later;
mod calls_note;
mod column;
mod deferred_costs;
mod describe;
mod docs;
mod error;
mod file_access;
mod growing_recording;
mod held_rows;
mod io;
mod io_calls;
mod io_lists;
mod io_series;
pub mod journal;
mod journal_file;
mod journal_index;
mod journal_rows;
mod journal_tail;
mod json_floats;
mod late_columns;
mod latest_rows;
mod overview;
mod overview_table;
mod page_header;
mod parquet_file;
mod parquet_reader;
mod parquet_source;
mod paths;
mod recording;
mod recording_rows;
mod recovery;
mod regions;
mod replacement;
mod sample_line;
mod sample_scan;
mod stream;
mod stream_reader;
mod syscall_totals;
mod table;
mod table_reader;
mod table_writer;
mod trace_recording;
mod trace_writer;
mod unreadable;

pub use atomic::place_of_file;
pub use calls::{CallsNote, CallsWriter, CallsWritten, Lacking, calls_note, each_call};
pub use docs::recording_markdown;
pub use error::KeepError;
pub use growing_recording::GrowingRecording;
pub use io::{IoWriter, each_use};
pub use io_calls::{IoCallsWriter, each_io_call};
pub use journal_index::JournalParts;
pub use journal_tail::{JournalTail, TailProgress};
pub use overview::{OverviewReading, OverviewSlot, RecordingOverview, SeriesKey, SeriesOverview};
pub use paths::{default_directory, new_job_id};
pub use recording::{Finished, Recording, RecordingWriter};
pub use recording_rows::Rows;
pub use replacement::remove_recording;
pub use sample_scan::{SampleVisit, ScannedSample};
pub use stream::{Closed, StreamColumn, StreamKind, StreamWriter, count_rows};
pub use stream_reader::{StreamBatch, StreamReader, Values};
pub use trace_recording::TraceRecording;
pub use trace_writer::TraceWriter;
pub use unreadable::UnreadableTables;
