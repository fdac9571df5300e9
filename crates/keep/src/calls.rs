//! The file of `weigh calls --per-call`: one row for each call, no recording around it.
//!
//! Writes rows a row group at a time, and gives the file its name when it is whole; reads them back
//! one by one. What came later of calls is known at the end only: until then rows are in a file beside
//! it, whose columns are taken over as they are (`widened`), and what came later is in memory, or in another
//! one (`later`). What is to be known of the file as a whole stands in its key-value metadata.

use std::fs::File;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use weigh_schema::Unit;
use weigh_schema::call::{Interval, RIVALS, Rival, RivalKind};
use weigh_schema::call_row::{COST_COLUMNS, CallRow, CostColumn, LATER_COLUMNS, LaterColumn};
use weigh_schema::subsystem::{CPU_COUNTERS, CpuCounter, LaterNumbers};
use weigh_schema::update::Update;

use crate::atomic::full_name;
use crate::calls_later::{LaterOfCalls, Losses};
pub use crate::calls_note::CallsNote;
use crate::calls_note::{
    COMMAND, COMMAND_BASE64, LOST, MERGED_LATER, NUMBERS, UNKNOWN_LATER, UNTOLD, UNTOLD_LATER,
};
use crate::column::{Column, column};
use crate::deferred_costs::LaterByCall;
use crate::error::KeepError;
use crate::late_columns;
use crate::stream_reader::StreamReader;
use crate::table::Row;
use crate::table_reader::{lacking, read_notes, read_table};
use crate::table_writer::TableWriter;

/// What every Parquet file begins with.
const MAGIC: &[u8] = b"PAR1";

/// What a file of calls lacks of what weigh writes: nothing of it is known, and nothing of it is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lacking {
    /// Columns.
    pub columns: Vec<&'static str>,
    /// Numbers of a [`CallsNote`], by the names that reports have for them.
    pub numbers: Vec<&'static str>,
    /// Who made the file, as it says.
    pub maker: String,
}

/// A file of calls that is being written.
pub struct CallsWriter {
    path: PathBuf,
    table: TableWriter<CallRow>,
    later: LaterByCall,
    losses: Losses,
    measured: u64,
}

/// What is in a file of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallsWritten {
    /// How many calls.
    pub calls: u64,
    /// Those of them of which what came later is not known.
    pub unknown_later: u64,
}

impl CallsWriter {
    /// Makes the file under a temporary name beside its own.
    pub fn create(path: &Path) -> Result<CallsWriter, KeepError> {
        let table = TableWriter::create_of_at(path, known_at_the_end())?;
        let (later, losses) = (LaterByCall::new(), Losses::default());
        Ok(CallsWriter { path: full_name(path)?, table, later, losses, measured: 0 })
    }

    /// Takes one call in.
    pub fn push(&mut self, row: &CallRow) -> Result<(), KeepError> {
        self.measured |= row.measured;
        self.table.push(row)
    }

    /// Takes in what came later of a call, a bit of it or all, whether the call has come already or not.
    pub fn push_later(&mut self, sequence: u64, growth: &LaterNumbers) -> Result<(), KeepError> {
        self.later.add(&self.path, sequence, growth)
    }

    /// From one time to another, since the Unix epoch, bits of what came later were lost. Times come in their
    /// order.
    pub fn lost_later(&mut self, from_ns: i64, to_ns: i64) {
        self.losses.add(from_ns, to_ns);
    }

    /// Writes what is left, with what came later, and gives the file its name.
    pub fn finish(self, note: &CallsNote) -> Result<CallsWritten, KeepError> {
        let (rows, calls) = self.table.finish_unnamed()?;
        let mut completion = LaterOfCalls {
            later: &self.later,
            losses: &self.losses,
            measured: self.measured,
            note,
            unknown: 0,
        };
        late_columns::write::<CallRow, _>(&rows, &self.path, &mut completion)?;
        Ok(CallsWritten { calls, unknown_later: completion.unknown })
    }
}

/// The columns of a call that has just returned.
fn known_at_the_end() -> Vec<Column<CallRow>> {
    let mut columns = CallRow::columns();
    columns.truncate(columns.len() - LATER_COLUMNS.len());
    columns
}

/// Refuses what does not begin as Parquet does: that is not damaged, it is something else.
fn refuse_what_is_no_table(path: &Path) -> Result<(), KeepError> {
    let no_calls = |is| Err(KeepError::NoCalls { path: path.to_path_buf(), is });
    if path.is_dir() {
        return no_calls("a directory");
    }
    let mut beginning = Vec::new();
    let file = File::open(path).map_err(|error| KeepError::read(path, error))?;
    let reading = file.take(MAGIC.len() as u64).read_to_end(&mut beginning);
    reading.map_err(|error| KeepError::read(path, error))?;
    match beginning == MAGIC {
        true => Ok(()),
        false => no_calls("no Parquet file"),
    }
}

/// Refuses a table without the columns that every call has: it is another one.
fn refuse_other_tables(path: &Path) -> Result<(), KeepError> {
    let table = StreamReader::open(path)?;
    match ["call", "tid"].iter().all(|column| table.has_column(column)) {
        true => Ok(()),
        false => {
            Err(KeepError::NoCalls { path: path.to_path_buf(), is: "a table of something else" })
        }
    }
}

/// What is known of all calls of a file together, and what is not.
pub fn calls_note(path: &Path) -> Result<(CallsNote, Lacking), KeepError> {
    refuse_what_is_no_table(path)?;
    refuse_other_tables(path)?;
    let notes = read_notes(path)?;
    let (columns, maker) = lacking::<CallRow>(path)?;
    let numbers = NUMBERS.into_iter().filter(|(key, _)| !notes.contains_key(*key));
    let numbers = numbers.map(|(_, name)| name).collect();
    let number = |key: &str| match notes.get(key).map(|text| text.parse()) {
        None => Ok(0),
        Some(Ok(number)) => Ok(number),
        Some(Err(_)) => Err(KeepError::damaged(path, format!("{key} is no number"))),
    };
    let note = CallsNote {
        command: notes.get(COMMAND).cloned().unwrap_or_default(),
        command_base64: notes.get(COMMAND_BASE64).cloned(),
        untold: number(UNTOLD)?,
        lost: number(LOST)?,
        untold_later: number(UNTOLD_LATER)?,
        merged_later: number(MERGED_LATER)?,
        unknown_later: number(UNKNOWN_LATER)?,
    };
    Ok((note, Lacking { columns, numbers, maker }))
}

/// Shows every call of a file; returns how many there are. What a file lacks, no row of it has.
pub fn each_call(path: &Path, mut visit: impl FnMut(CallRow)) -> Result<u64, KeepError> {
    let (columns, _) = lacking::<CallRow>(path)?;
    // A rival is known whole or not at all.
    let is_lacking = |name: &String| columns.contains(&name.as_str());
    let is_unknown = |kind: &RivalKind| {
        let [pid, name, _, seconds] = kind.columns();
        [pid, name, seconds].into_iter().any(is_lacking)
    };
    let unknown: Vec<usize> =
        RIVALS.iter().enumerate().filter(|(_, kind)| is_unknown(kind)).map(|(i, _)| i).collect();
    read_table(path, &mut |mut row: CallRow| {
        row.read_whole();
        unknown.iter().for_each(|place| row.rivals[*place] = None);
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
            column!(of_base64, "its bytes in Base64, where they are no UTF-8"),
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
        columns.extend(LATER_COLUMNS.iter().map(later));
        columns
    }

    fn blank() -> Self {
        CallRow::default()
    }

    /// No journal holds calls.
    fn from_entry(_: Update, _: &mut dyn FnMut(Self)) {}
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
    let declared = match unit {
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
    };
    declared.or_absent(|row| column.set_absent(row))
}

/// A number of what came later: absent where that was not looked into. The last columns are these.
fn later(column: &'static LaterColumn) -> Column<CallRow> {
    let LaterColumn { name, help, field, .. } = column;
    match field.unit {
        Unit::Seconds => Column::computed(
            name,
            help,
            Some(field.unit),
            |row| column.raw(row).map(seconds),
            |row, seconds| column.set_raw(row, nanoseconds(seconds)),
        ),
        _ => Column::computed(
            name,
            help,
            Some(field.unit),
            |row| column.raw(row),
            |row, raw| column.set_raw(row, raw),
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

/// The rival of a call: absent where there was none.
fn rival((place, kind): (usize, &'static RivalKind)) -> [Column<CallRow>; 4] {
    let [pid, name, name_base64, time] = &kind.columns();
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
            name_base64,
            "its bytes in Base64, where they are no UTF-8",
            None,
            move |row| get(row)?.name_base64,
            move |row, bytes: String| {
                known(row, &|rival| rival.name_base64 = Some(bytes.clone()));
            },
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
