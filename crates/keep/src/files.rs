//! The table of files: who opened what, and, where `--io` has followed it, all that was done with it. And
//! the same rows in a journal, where one that is not final yet is followed by others of its file and process.

use weigh_schema::io::FileUse;
use weigh_schema::recording::{FileRow, files};
use weigh_schema::update::Update;
use weigh_schema::{Number, Quality};

use crate::column::{Column, column};
use crate::latest_rows::Latest;
use crate::table::Row;

/// Columns of [`FileUse`] that a row of a recording has already, by these names or others.
const KNOWN: [&str; 4] = ["path", "path_base64", "pid", "opens_total"];

/// The columns with, or without, what was done with files beyond opening them.
pub(crate) fn file_columns(has_uses: bool) -> Vec<Column<FileRow>> {
    let mut columns: Vec<Column<FileRow>> = vec![
        column!(pid, "the process"),
        column!(path, "the file, as the process saw it"),
        column!(path_base64, "its bytes in Base64, where they are no UTF-8"),
        column!(opened_total, "how often the process opened it"),
        column!(quality, "whether every open is counted"),
    ];
    if has_uses {
        let more = FileUse::columns().into_iter().filter(|column| !KNOWN.contains(&column.name));
        columns.extend(more.map(|column| column.within(used, used_mut)));
    }
    columns
}

fn used(row: &FileRow) -> Option<&FileUse> {
    row.used.as_deref()
}

fn used_mut(row: &mut FileRow) -> &mut FileUse {
    let (pid, name, opens) = (row.pid, row.path.clone(), row.opened_total);
    let name_base64 = row.path_base64.clone();
    row.used.get_or_insert_with(|| {
        let mut used = FileUse { pid, name, name_base64, ..FileUse::blank() };
        if opens > 0 {
            used.totals.numbers.insert("opens_total".to_string(), Number::Whole(opens));
        }
        Box::new(used)
    })
}

impl Row for FileRow {
    const FILE: &'static str = files::FILES;
    /// It has several times the columns of other tables.
    const GROUP_ROWS: usize = 16 * 1024;

    fn columns() -> Vec<Column<Self>> {
        file_columns(true)
    }

    fn blank() -> Self {
        FileRow {
            pid: 0,
            path: String::new(),
            path_base64: None,
            opened_total: 0,
            quality: Quality::Unavailable,
            used: None,
        }
    }

    fn from_entry(entry: Update, emit: &mut dyn FnMut(Self)) {
        if let Update::FileUse(row) | Update::FileUseSoFar(row) = entry {
            emit(row);
        }
    }

    fn latest() -> Option<Latest> {
        Some(Latest::default())
    }
}
