//! The file of `weigh calls --per-call`: one row for each call, no recording around it.
//!
//! Writes rows a row group at a time, and gives the file its name when it is whole; reads them back
//! one by one. What is to be known of the file as a whole stands in its key-value metadata.

use std::ops::ControlFlow;
use std::path::Path;

use weigh_schema::Unit;
use weigh_schema::call::{Interval, RIVALS, Rival, RivalKind};
use weigh_schema::call_row::{COST_COLUMNS, CallRow, CostColumn};
use weigh_schema::subsystem::{CPU_COUNTERS, CpuCounter};

use crate::column::{Column, column};
use crate::error::KeepError;
use crate::journal::Entry;
use crate::table::Row;
use crate::table_reader::{read_notes, read_table};
use crate::table_writer::TableWriter;

/// Calls that were not told one by one, and so have no row.
const UNTOLD: &str = "weigh.untold";
/// Calls, or what they left behind, for which the kernel side had no room.
const LOST: &str = "weigh.lost";
/// What was followed.
const COMMAND: &str = "weigh.command";

/// What is known of all calls together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallsNote {
    /// What was followed, in words.
    pub command: String,
    /// Calls that have no row, for they came too fast.
    pub untold: u64,
    /// Calls, or what they left behind, for which the kernel side had no room.
    pub lost: u64,
}

/// A file of calls that is being written.
pub struct CallsWriter {
    table: TableWriter<CallRow>,
}

impl CallsWriter {
    /// Makes the file under a temporary name beside its own.
    pub fn create(path: &Path) -> Result<CallsWriter, KeepError> {
        if path.is_dir() {
            return Err(KeepError::write(path, std::io::ErrorKind::IsADirectory.into()));
        }
        Ok(CallsWriter { table: TableWriter::create_at(path)? })
    }

    /// Takes one call in.
    pub fn push(&mut self, row: &CallRow) -> Result<(), KeepError> {
        self.table.push(row)
    }

    /// Writes what is left, and gives the file its name; returns how many rows it has.
    pub fn finish(mut self, note: &CallsNote) -> Result<u64, KeepError> {
        self.table.note(COMMAND, note.command.clone());
        self.table.note(UNTOLD, note.untold.to_string());
        self.table.note(LOST, note.lost.to_string());
        self.table.finish()
    }
}

/// What is known of all calls of a file together.
pub fn calls_note(path: &Path) -> Result<CallsNote, KeepError> {
    let notes = read_notes(path)?;
    let text = |key: &str| notes.get(key).cloned().unwrap_or_default();
    let number = |key: &str| text(key).parse().unwrap_or(0);
    Ok(CallsNote { command: text(COMMAND), untold: number(UNTOLD), lost: number(LOST) })
}

/// Shows every call of a file; returns how many there are.
pub fn each_call(path: &Path, mut visit: impl FnMut(CallRow)) -> Result<u64, KeepError> {
    read_table(path, &mut |row| {
        visit(row);
        ControlFlow::Continue(())
    })
}

impl Row for CallRow {
    const FILE: &'static str = "calls.parquet";
    /// It has several times the columns of other tables.
    const GROUP_ROWS: usize = 16 * 1024;

    fn columns() -> Vec<Column<Self>> {
        let mut columns: Vec<Column<Self>> = vec![
            column!("time" = time_ns, "when the call began"),
            column!(pid, "the process"),
            column!(tid, "the thread"),
            column!(call, "the call's name"),
            column!(of, "the file, connection or thread it is about, with --by"),
            column!(sequence, "which of the job's calls it was, as they began"),
            column!(result, "what it returned; below 0 the number of an error"),
            interval(
                "interval",
                "of libweigh, around the call: the thread's others have others",
                |i| &mut i.number,
            ),
            interval("token", "of that interval: the program's own number", |i| &mut i.token),
            Column::computed(
                "time_seconds",
                "from its entry to its exit",
                Some(Unit::Seconds),
                |row: &CallRow| Some(seconds(row.account.time_ns())),
                |row, seconds| row.account.set_time_ns(nanoseconds(seconds)),
            )
            .always(),
        ];
        columns.extend(CPU_COUNTERS.iter().map(counter));
        columns.extend(COST_COLUMNS.iter().map(cost));
        columns.extend(RIVALS.iter().enumerate().flat_map(rival));
        columns
    }

    fn blank() -> Self {
        CallRow::default()
    }

    /// No journal holds calls.
    fn from_entry(_: Entry, _: &mut dyn FnMut(Self)) {}
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// A number of a part of the kernel: absent where that was not looked into.
fn cost(column: &'static CostColumn) -> Column<CallRow> {
    let CostColumn { name, help, unit, .. } = column;
    match unit {
        Unit::Seconds => Column::computed(
            name,
            help,
            Some(*unit),
            |row| column.raw(row).map(seconds),
            |row, seconds| column.set_raw(row, nanoseconds(seconds)),
        ),
        _ => Column::computed(
            name,
            help,
            Some(*unit),
            |row| column.raw(row),
            |row, raw| {
                column.set_raw(row, raw);
            },
        ),
    }
}

/// A counter of the CPU: absent where it was not asked for, or had no turn.
fn counter(counter: &'static CpuCounter) -> Column<CallRow> {
    Column::computed(
        counter.key,
        counter.help,
        Some(Unit::Count),
        |row: &CallRow| row.account.counter(counter),
        |row, count: u64| row.account.set_counter(counter, count),
    )
}

/// What the program says that a call is part of: absent where it says nothing.
fn interval(
    name: &'static str,
    help: &'static str,
    number: fn(&mut Interval) -> &mut u64,
) -> Column<CallRow> {
    Column::computed(
        name,
        help,
        None,
        move |row: &CallRow| row.interval.map(|mut interval| *number(&mut interval)),
        move |row, raw: u64| *number(row.interval.get_or_insert_default()) = raw,
    )
}

/// Who was in the call's way: absent where nobody was.
fn rival((place, kind): (usize, &'static RivalKind)) -> [Column<CallRow>; 3] {
    let [pid, name, time] = &kind.columns();
    let known = move |row: &mut CallRow, set: &dyn Fn(&mut Rival)| {
        set(row.rivals[place].get_or_insert_default());
    };
    let get = move |row: &CallRow| row.rivals[place].clone();
    [
        Column::computed(
            pid,
            kind.help,
            None,
            move |row| Some(get(row)?.pid),
            move |row, pid| known(row, &|rival| rival.pid = pid),
        ),
        Column::computed(
            name,
            "the kernel's name for it",
            None,
            move |row| Some(get(row)?.name),
            move |row, name: String| known(row, &|rival| rival.name.clone_from(&name)),
        ),
        Column::computed(
            time,
            "how long the call waited for it",
            Some(Unit::Seconds),
            move |row| Some(get(row)?.time_ns).filter(|time| *time > 0).map(seconds),
            move |row, time| known(row, &|rival| rival.time_ns = nanoseconds(time)),
        ),
    ]
}
