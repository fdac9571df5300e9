//! The table of files of a recording, and the file of `weigh io --parquet`, which has no recording around it: one row for
//! each file and process.
//!
//! Writes rows a row group at a time, and gives the file its name when it is whole. A file that was taken
//! out of memory to make room, and used again later, has several rows: they add up. In a journal a row that is not final
//! yet is followed by others of its file and process.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::LazyLock;

use weigh_schema::io::{
    FIELDS, FileState, FileStates, FileUse, Object, Transfer, Transferred, Unseen,
};
use weigh_schema::recording::files;
use weigh_schema::update::Update;
use weigh_schema::{Number, Quality, Unit};

use crate::column::{Column, column};
use crate::error::KeepError;
use crate::file_access::FileAccess;
use crate::io_lists;
use crate::latest_rows::Latest;
use crate::table::Row;
use crate::table_reader::read_columns;
use crate::table_writer::TableWriter;

/// A file of uses that is being written.
pub struct IoWriter {
    table: TableWriter<FileUse>,
}

impl IoWriter {
    /// Makes the file under a temporary name beside its own.
    pub fn create(path: &Path) -> Result<IoWriter, KeepError> {
        Ok(IoWriter { table: TableWriter::create_of_at(path, use_columns())? })
    }

    /// Takes one row in.
    pub fn push(&mut self, row: &FileUse) -> Result<(), KeepError> {
        self.table.push(row)
    }

    /// Writes what is left, and gives the file its name; returns how many rows it has.
    pub fn finish(mut self, command: &str) -> Result<u64, KeepError> {
        self.table.note("weigh.command", command.to_string());
        self.table.finish()
    }
}

/// Shows every row of a file; returns how many there are.
pub fn each_use(path: &Path, mut visit: impl FnMut(FileUse)) -> Result<u64, KeepError> {
    let columns = use_columns().into_iter().map(|column| column.within(followed, followed_mut));
    read_columns(FileAccess::Named, path, columns.collect(), &mut |row| {
        visit(row);
        ControlFlow::Continue(())
    })
}

/// A number of one kind of transfer.
struct KindColumn {
    name: String,
    help: String,
    unit: Unit,
    kind: &'static str,
    place: usize,
}

static KINDS: LazyLock<Vec<KindColumn>> = LazyLock::new(|| {
    let numbers = [
        ("read_bytes", "bytes read", Unit::Bytes),
        ("read_calls_total", "calls that read", Unit::Count),
        ("written_bytes", "bytes written", Unit::Bytes),
        ("write_calls_total", "calls that write", Unit::Count),
    ];
    let of_kind = |kind: &Transfer| {
        let kind = kind.name();
        numbers.into_iter().enumerate().map(move |(place, (name, help, unit))| KindColumn {
            name: format!("{kind}_{name}"),
            help: format!("{help}: {kind}"),
            unit,
            kind,
            place,
        })
    };
    Transfer::ALL.iter().flat_map(of_kind).collect()
});

static KEYS: LazyLock<Vec<String>> = LazyLock::new(|| FIELDS.iter().map(|f| f.key()).collect());

fn place(kind: &mut Transferred, place: usize) -> &mut u64 {
    match place {
        0 => &mut kind.read_bytes,
        1 => &mut kind.read_calls,
        2 => &mut kind.written_bytes,
        _ => &mut kind.write_calls,
    }
}

/// A number, unless its direction is not seen.
fn known(mut of: Transferred, at: usize) -> Option<u64> {
    (!is_unseen(of.unseen, at)).then(|| *place(&mut of, at))
}

fn kind_column(column: &'static KindColumn) -> Column<FileUse> {
    Column::computed(
        &column.name,
        &column.help,
        Some(column.unit),
        |row: &FileUse| {
            let unseen = unseen_of_kind(row, column);
            let absent = Transferred { unseen, ..Transferred::default() };
            known(row.totals.by_kind.get(column.kind).copied().unwrap_or(absent), column.place)
        },
        |row, number| {
            // A kind that did not happen is not there; but where others are not seen it has to say that it is.
            let is_odd = is_unseen(unseen_of_kind(row, column), column.place);
            if number > 0 || is_odd || row.totals.by_kind.contains_key(column.kind) {
                *place(kind_of(row, column), column.place) = number;
            }
        },
    )
    .or_absent(|row| {
        // As with all kinds, where that is so.
        let is_odd = !is_unseen(unseen_of_kind(row, column), column.place);
        if is_odd || row.totals.by_kind.contains_key(column.kind) {
            *unseen(kind_of(row, column), column.place) = true;
        }
    })
}

/// What is not seen of a kind that is not there. Mapped memory is moved by no call: of it that is nothing.
fn unseen_of_kind(row: &FileUse, column: &KindColumn) -> Unseen {
    match column.kind == Transfer::Mapped.name() {
        true => Unseen::default(),
        false => row.totals.by_calls.unseen,
    }
}

/// What there is of a kind. Reads come before writes: if nothing is there yet when it comes to these, then all
/// kinds were seen alike, or not.
fn kind_of<'a>(row: &'a mut FileUse, column: &KindColumn) -> &'a mut Transferred {
    let reads = column.place >= 2 && unseen_of_kind(row, column).reads;
    let unseen = Unseen { reads, writes: false };
    let blank = Transferred { unseen, ..Transferred::default() };
    row.totals.by_kind.entry(column.kind.to_string()).or_insert(blank)
}

fn is_unseen(of: Unseen, place: usize) -> bool {
    if place < 2 { of.reads } else { of.writes }
}

fn unseen(of: &mut Transferred, place: usize) -> &mut bool {
    if place < 2 { &mut of.unseen.reads } else { &mut of.unseen.writes }
}

/// A number of [`FIELDS`]; absent where it is nothing.
fn field_columns() -> impl Iterator<Item = Column<FileUse>> {
    FIELDS.iter().zip(KEYS.iter()).map(|(field, key)| {
        let (help, unit) = (field.help(), Some(field.unit()));
        let set = |row: &mut FileUse, number| {
            row.totals.numbers.insert(key.clone(), number);
        };
        match field.unit() {
            Unit::Seconds => Column::computed(
                key,
                help,
                unit,
                |row: &FileUse| row.totals.numbers.get(key).map(|number| number.as_f64()),
                move |row, x| set(row, Number::Real(x)),
            ),
            _ => Column::computed(
                key,
                help,
                unit,
                |row: &FileUse| row.totals.numbers.get(key).map(|number| number.as_f64() as u64),
                move |row, n| set(row, Number::Whole(n)),
            ),
        }
    })
}

fn by_calls(name: &'static str, help: &'static str, unit: Unit, at: usize) -> Column<FileUse> {
    Column::computed(
        name,
        help,
        Some(unit),
        move |row: &FileUse| known(row.totals.by_calls, at),
        move |row, number| *place(&mut row.totals.by_calls, at) = number,
    )
    .or_absent(move |row| *unseen(&mut row.totals.by_calls, at) = true)
}

/// One of the two moments at which a file's state is told.
struct StateAt {
    get: fn(&FileStates) -> &Option<FileState>,
    get_mut: fn(&mut FileStates) -> &mut Option<FileState>,
}

static BEFORE: StateAt = StateAt { get: |of| &of.before, get_mut: |of| &mut of.before };
static AFTER: StateAt = StateAt { get: |of| &of.after, get_mut: |of| &mut of.after };

impl StateAt {
    fn of<'r>(&self, row: &'r FileUse) -> Option<&'r FileState> {
        (self.get)(&row.states).as_ref()
    }

    fn set<'r>(&self, row: &'r mut FileUse) -> &'r mut FileState {
        (self.get_mut)(&mut row.states).get_or_insert_default()
    }
}

fn size_of(at: &'static StateAt, name: &'static str, help: &'static str) -> Column<FileUse> {
    let get = |row: &FileUse| Some(at.of(row)?.size_bytes);
    Column::computed(name, help, Some(Unit::Bytes), get, |row, n| at.set(row).size_bytes = n)
}

fn mode_of(at: &'static StateAt, name: &'static str, help: &'static str) -> Column<FileUse> {
    let get = |row: &FileUse| Some(at.of(row)?.mode);
    Column::computed(name, help, None, get, |row, mode| at.set(row).mode = mode)
}

fn modified_of(at: &'static StateAt, name: &'static str, help: &'static str) -> Column<FileUse> {
    let get = |row: &FileUse| Some(at.of(row)?.modified_ns);
    Column::computed(name, help, None, get, |row, at_ns| at.set(row).modified_ns = at_ns)
}

fn was_there() -> Column<FileUse> {
    Column::computed(
        "was_there",
        "1 if it was there before the job began; absent where that is not known",
        None,
        |row: &FileUse| row.states.was_there.map(u32::from),
        |row, was: u32| row.states.was_there = Some(was != 0),
    )
}

fn state_reason() -> Column<FileUse> {
    Column::computed(
        "state_reason",
        "why size, permissions and time before or after the job are not known",
        None,
        |row: &FileUse| row.states.reason.clone(),
        |row, reason: String| row.states.reason = Some(reason),
    )
}

/// Columns of [`use_columns`] that the table of a recording has already, by these names or others.
const KNOWN: [&str; 4] = ["path", "path_base64", "pid", "opens_total"];

/// The columns of a recording, with, or without, what was done with files beyond opening them.
pub(crate) fn file_columns(has_uses: bool) -> Vec<Column<FileUse>> {
    let opened = Column::computed(
        "opened_total",
        "how often the process opened it",
        None,
        |row: &FileUse| Some(row.opens()),
        FileUse::set_opens,
    );
    let quality = Column::computed(
        "quality",
        "whether every open is counted",
        None,
        |row: &FileUse| Some(row.opens_quality.unwrap_or(Quality::Exact)),
        |row, quality| row.opens_quality = Some(quality),
    );
    let mut columns: Vec<Column<FileUse>> = vec![
        column!(pid, "the process"),
        column!("path" = name, "the file, as the process saw it"),
        column!("path_base64" = name_base64, "its bytes in Base64, where they are no UTF-8"),
        opened.always(),
        quality.always(),
    ];
    if has_uses {
        let more = use_columns().into_iter().filter(|column| !KNOWN.contains(&column.name));
        columns.extend(more.map(|column| column.within(followed, followed_mut)));
    }
    columns
}

fn followed(row: &FileUse) -> Option<&FileUse> {
    row.is_followed().then_some(row)
}

/// What is read of a row that was followed begins with nothing done.
fn followed_mut(row: &mut FileUse) -> &mut FileUse {
    if !row.is_followed() {
        let opened = std::mem::take(row);
        *row = FileUse::followed(opened.pid, opened.name);
        row.name_base64 = opened.name_base64;
        row.totals.numbers = opened.totals.numbers;
    }
    row
}

fn moves_unseen() -> Column<FileUse> {
    Column::computed(
        "moves_unseen",
        "1 if it is known that the process moved bytes that are not counted, 0 if that is only possible",
        None,
        |row: &FileUse| row.moves_unseen.map(u32::from),
        |row, is: u32| row.moves_unseen = Some(is != 0),
    )
}

/// The columns of `weigh io --parquet`.
fn use_columns() -> Vec<Column<FileUse>> {
    let object = Column::computed(
        "object",
        "what it is: regular, directory, pipe, socket, terminal, device, disk, anonymous",
        None,
        |row: &FileUse| Some(row.object.name().to_string()),
        |row, name: String| {
            let named = serde_json::from_value(serde_json::Value::String(name));
            row.object = named.unwrap_or(Object::Unknown);
        },
    );
    let deleted = Column::computed(
        "is_deleted",
        "1 if it had no name any more in the end; absent where that is not known",
        None,
        |row: &FileUse| {
            (row.deleted_quality != Quality::Unavailable).then_some(u32::from(row.is_deleted))
        },
        |row, is: u32| row.is_deleted = is != 0,
    )
    .or_absent(|row| row.deleted_quality = Quality::Unavailable);
    let sources = Column::computed(
        "sources",
        "who has counted what is in the row, where several do in one job: preload, ptrace, with a space between",
        None,
        |row: &FileUse| {
            let names: Vec<String> = row.sources.iter().map(ToString::to_string).collect();
            (!names.is_empty()).then(|| names.join(" "))
        },
        |row, names: String| {
            let named = |name: &str| serde_json::from_value(name.into()).ok();
            row.sources = names.split(' ').filter_map(named).collect();
        },
    );
    let mut columns: Vec<Column<FileUse>> = vec![
        column!("path" = name, "the path by which it was first seen, or addresses"),
        column!("path_base64" = name_base64, "its bytes in Base64, where they are no UTF-8"),
        object.always(),
        column!(pid, "the process, in the initial PID namespace"),
        column!(tid, "the thread, where threads are told apart"),
        column!(process, "the kernel's name for it"),
        column!(process_base64, "its bytes in Base64, where they are no UTF-8"),
        column!(device, "the file system's device: major * 2^20 + minor"),
        column!(inode, "the inode"),
        column!(
            generation,
            "what tells the file from others that have had this inode: its generation, or a mark of its birth"
        ),
        column!(
            "later_path" = later_name,
            "the last path by which it was known, if that is another: it was renamed, or has another link"
        ),
        column!(
            "later_path_base64" = later_name_base64,
            "its bytes in Base64, where they are no UTF-8"
        ),
        deleted,
        was_there(),
        size_of(&BEFORE, "size_before_bytes", "its size before the job, if it was there"),
        mode_of(&BEFORE, "mode_before", "its permissions before the job"),
        modified_of(&BEFORE, "modified_before", "when its content had been changed last then"),
        size_of(&AFTER, "size_after_bytes", "its size after the job, if it is there still"),
        mode_of(&AFTER, "mode_after", "its permissions after the job"),
        modified_of(&AFTER, "modified_after", "when its content had been changed last then"),
        state_reason(),
        by_calls("read_bytes", "bytes read by calls: of all kinds but mapped", Unit::Bytes, 0),
        by_calls("read_calls_total", "calls that read", Unit::Count, 1),
        by_calls("written_bytes", "bytes written by calls", Unit::Bytes, 2),
        by_calls("write_calls_total", "calls that write", Unit::Count, 3),
    ];
    columns.extend(KINDS.iter().map(kind_column));
    columns.extend(field_columns());
    columns.push(column!(
        moved_quality,
        "how far bytes and calls of the row are known: estimated is a lower bound"
    ));
    columns.push(moves_unseen());
    columns.push(column!(again_quality, "how far reread_bytes and rewritten_bytes are known"));
    columns.push(column!(readahead_quality, "how far readahead_unused_bytes is known"));
    columns.push(sources);
    columns.extend(io_lists::columns());
    columns
}

impl Row for FileUse {
    const FILE: &'static str = files::FILES;
    /// It has several times the columns of other tables.
    const GROUP_ROWS: usize = 16 * 1024;

    fn columns() -> Vec<Column<Self>> {
        file_columns(true)
    }

    fn blank() -> Self {
        FileUse::opened(0, "", 0, Quality::Unavailable)
    }

    fn from_entry(entry: Update, emit: &mut dyn FnMut(Self)) {
        if let Update::FileUse(row) | Update::FileUseSoFar(row) = entry {
            emit(*row);
        }
    }

    fn latest() -> Option<Latest> {
        Some(Latest::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::Mechanism;
    use weigh_schema::io::{Slowest, Stride};

    fn blank() -> FileUse {
        FileUse::followed(0, String::new())
    }

    #[test]
    fn a_kind_that_is_not_seen_has_no_number() {
        let unseen = weigh_schema::io::Unseen { reads: true, writes: true };
        let mut row = blank();
        let hidden = Transferred { unseen, ..Transferred::default() };
        row.totals.by_kind.insert("mapped".into(), hidden);
        let columns = use_columns();
        let cell =
            |name: &str| columns.iter().find(|column| column.name == name).unwrap().get(&row);
        assert_eq!(cell("mapped_read_bytes"), None);
        assert_eq!(cell("plain_read_bytes"), Some(crate::column::Cell::Int(0)));
    }

    #[test]
    fn states_come_back_as_they_were() {
        let state = |size_bytes| FileState { size_bytes, mode: 0o640, modified_ns: -7 };
        let (before, after) = (Some(state(0)), Some(state(4099)));
        let whole = FileStates { was_there: Some(true), before, after, reason: None };
        let made = FileStates { was_there: Some(false), before: None, ..whole.clone() };
        for states in [whole, made, FileStates::unknown("gone"), FileStates::default()] {
            let row = FileUse { states, ..blank() };
            assert_eq!(read_back(&[&row])[0].states, row.states);
        }
    }

    fn read_back(rows: &[&FileUse]) -> Vec<FileUse> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("files.parquet");
        let mut writer = IoWriter::create(&path).unwrap();
        rows.iter().for_each(|row| writer.push(row).unwrap());
        writer.finish("cat a").unwrap();
        let mut read = Vec::new();
        each_use(&path, |row| read.push(row)).unwrap();
        read
    }

    #[test]
    fn what_was_not_seen_is_not_seen_when_it_is_read() {
        let of = |reads, writes, number| {
            let unseen = Unseen { reads, writes };
            let (mut of, [read, written]) = (Transferred::default(), [!reads, !writes]);
            (of.unseen, of.read_bytes, of.read_calls) =
                (unseen, u64::from(read) * number, u64::from(read) * number);
            (of.written_bytes, of.write_calls) =
                (u64::from(written) * number, u64::from(written) * number);
            of
        };
        // A library in the programs: of some kinds nothing is known, of others all.
        let mut by_library = blank();
        by_library.totals.by_calls = of(false, false, 7);
        by_library.totals.by_kind.insert("plain".into(), of(false, false, 7));
        by_library.totals.by_kind.insert("mapped".into(), of(true, true, 0));
        // A mount: what it reads it does not see, but for copies.
        let mut plain_mount = blank();
        plain_mount.totals.by_calls = of(true, false, 5);
        plain_mount.totals.by_kind.insert("positioned".into(), of(true, false, 3));
        plain_mount.totals.by_kind.insert("copied".into(), of(false, false, 2));
        plain_mount.totals.by_kind.insert("mapped".into(), of(true, false, 4));
        let mut passing_mount = blank();
        passing_mount.totals.by_calls = of(true, true, 0);
        passing_mount.totals.by_kind.insert("copied".into(), of(false, false, 2));
        passing_mount.totals.by_kind.insert("mapped".into(), of(true, true, 0));
        let rows = [&by_library, &plain_mount, &passing_mount];
        let read = read_back(&rows);
        assert_eq!(read, rows.map(Clone::clone));
    }

    #[test]
    fn rows_come_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("files.parquet");
        let mut row = FileUse { name: "/a".into(), pid: 7, object: Object::Pipe, ..blank() };
        row.sources = vec![Mechanism::Preload, Mechanism::Bpf];
        row.totals.by_calls.read_bytes = 1_000_003;
        row.totals.by_kind.insert("vectored".into(), row.totals.by_calls);
        row.totals.numbers.insert("opens_total".into(), Number::Whole(23));
        row.totals.numbers.insert("read_seconds".into(), Number::Real(0.5));
        row.totals.read_sizes = [(0, 1), (4096, 99)].into();
        row.read_strides =
            vec![Stride { bytes: -65_536, times: 30 }, Stride { bytes: 0, times: 2 }];
        row.slowest = Some(Slowest { call: "pread64".into(), seconds: 0.25, at_seconds: 1.5 });
        let mut writer = IoWriter::create(&path).unwrap();
        writer.push(&row).unwrap();
        writer.push(&blank()).unwrap();
        assert_eq!(writer.finish("cat a").unwrap(), 2);
        let mut rows = Vec::new();
        each_use(&path, |row| rows.push(row)).unwrap();
        assert_eq!(rows, [row, blank()]);
    }
}
