//! The table of every call that was about a file: of a recording, and of `weigh io --calls`, whose file stands
//! alone.

use std::ops::ControlFlow;
use std::path::Path;

use weigh_schema::io::{IoCall, Untold};
use weigh_schema::recording::files;
use weigh_schema::update::Update;

use crate::column::{Column, column};
use crate::error::KeepError;
use crate::table::Row;
use crate::table_reader::{read_notes, read_table};
use crate::table_writer::TableWriter;

/// What was followed.
const COMMAND: &str = "weigh.command";
/// What is not seen, in words.
const NOTES: &str = "weigh.notes";
/// Calls that have no row, and bytes that they moved: with them the rows add up to what was counted.
const UNTOLD: [&str; 3] = ["weigh.untold", "weigh.untold_read_bytes", "weigh.untold_written_bytes"];

/// A file of calls that is being written.
pub struct IoCallsWriter {
    table: TableWriter<IoCall>,
}

impl IoCallsWriter {
    /// Makes the file under a temporary name beside its own.
    pub fn create(path: &Path) -> Result<IoCallsWriter, KeepError> {
        Ok(IoCallsWriter { table: TableWriter::create_at(path)? })
    }

    /// Takes one call in.
    pub fn push(&mut self, row: &IoCall) -> Result<(), KeepError> {
        self.table.push(row)
    }

    /// Writes what is left, and gives the file its name; returns how many rows it has.
    /// `notes` say which calls have none for other reasons than that they came too fast.
    pub fn finish(
        mut self,
        command: &str,
        untold: Untold,
        notes: &[String],
    ) -> Result<u64, KeepError> {
        self.table.note(COMMAND, command.to_string());
        self.table.note(NOTES, notes.join("; "));
        let numbers = [untold.calls_total, untold.read_bytes, untold.written_bytes];
        for (key, number) in UNTOLD.into_iter().zip(numbers) {
            self.table.note(key, number.to_string());
        }
        self.table.finish()
    }
}

/// Shows every call of a file; returns what has no row there.
pub fn each_io_call(path: &Path, mut visit: impl FnMut(IoCall)) -> Result<Untold, KeepError> {
    read_table(path, &mut |row| {
        visit(row);
        ControlFlow::Continue(())
    })?;
    let notes = read_notes(path)?;
    let number = |key: &str| {
        let number = notes.get(key).and_then(|text| text.parse().ok());
        number.ok_or_else(|| KeepError::damaged(path, format!("it has no number {key}")))
    };
    let [calls_total, read_bytes, written_bytes] = UNTOLD;
    let (calls_total, read_bytes, written_bytes) =
        (number(calls_total)?, number(read_bytes)?, number(written_bytes)?);
    Ok(Untold { calls_total, read_bytes, written_bytes })
}

impl Row for IoCall {
    const FILE: &'static str = files::IO_CALLS;

    fn columns() -> Vec<Column<Self>> {
        let columns: Vec<Column<Self>> = vec![
            column!("time" = time_ns, "when it began"),
            column!(pid, "the process"),
            column!(tid, "the thread"),
            column!(call, "the call's name; (none) of mapped memory and io_uring"),
            column!(
                deed,
                "what was done: read, write, open, close, seek, metadata, sync, truncate, map, fill (the page cache took in what it lacked for a call), path (a call that names a file and opens nothing)"
            ),
            column!(kind, "the kind of transfer, of reads and writes"),
            column!(path, "the file, as in files.parquet; absent where none is known"),
            column!(path_base64, "its bytes in Base64, where they are no UTF-8"),
            column!(device, "the file system's device: major * 2^20 + minor"),
            column!(inode, "the inode"),
            column!(offset_bytes, "where in the file it began, if that is known"),
            column!(
                asked_bytes,
                "how much was asked for; absent of messages, io_uring, mapped memory"
            ),
            column!(bytes, "how much was moved"),
            column!(
                calls_total,
                "how many calls it counts for: 0 of a read or write that failed, several of several messages"
            ),
            column!(error, "the number of an error, below 0; or 0"),
            column!(
                time_seconds,
                "how long it took; 0 where that is not known, and of a copy's second end"
            ),
        ];
        columns.into_iter().map(Column::in_its_unit).collect()
    }

    fn blank() -> Self {
        IoCall::default()
    }

    fn from_entry(entry: Update, emit: &mut dyn FnMut(Self)) {
        if let Update::Syscall(row) = entry {
            emit(*row);
        }
    }
}
