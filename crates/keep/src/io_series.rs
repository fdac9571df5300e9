//! The tables of what was read and written over time: by file and process, and by place in the file.

use weigh_schema::io::{Moment, PlaceMoment};
use weigh_schema::recording::files;
use weigh_schema::update::Update;

use crate::column::{Column, column};
use crate::table::Row;

impl Row for Moment {
    const FILE: &'static str = files::IO_SERIES;

    fn columns() -> Vec<Column<Self>> {
        let columns: Vec<Column<Self>> = vec![
            column!("time" = time_ns, "the end of the interval"),
            column!(seconds, "its length"),
            column!(
                uses_total,
                "how many files, each with one process, the row stands for: one, or all that have no row of their own"
            ),
            column!(pid, "the process; 0 where the row stands for several"),
            column!(tid, "the thread, where threads are told apart"),
            column!(process, "the kernel's name for the process"),
            column!(process_base64, "its bytes in Base64, where they are no UTF-8"),
            column!(path, "the file, as in files.parquet; empty where the row stands for several"),
            column!(path_base64, "its bytes in Base64, where they are no UTF-8"),
            column!(device, "the file system's device: major * 2^20 + minor"),
            column!(inode, "the inode"),
            column!(read_bytes, "bytes read by calls; null where they are not seen"),
            column!(read_calls_total, "calls that read; null where they are not seen"),
            column!(written_bytes, "bytes written by calls; null where they are not seen"),
            column!(write_calls_total, "calls that write; null where they are not seen"),
            column!(
                mapped_read_bytes,
                "pages of mapped memory that came into the page cache; null where that is not seen"
            ),
            column!(
                mapped_written_bytes,
                "pages of mapped memory that became dirty; null where that is not seen"
            ),
            column!(
                device_read_bytes,
                "bytes that devices read for it; null where that is not seen"
            ),
            column!(
                device_written_bytes,
                "bytes of it that devices wrote, of pages that the process made dirty; null where that is not seen"
            ),
            column!(call_seconds, "time in all calls on the file that ended in the interval"),
        ];
        columns.into_iter().map(Column::in_its_unit).collect()
    }

    fn blank() -> Self {
        Moment::default()
    }

    fn from_entry(entry: Update, emit: &mut dyn FnMut(Self)) {
        if let Update::IoInterval(row) = entry {
            emit(row);
        }
    }
}

impl Row for PlaceMoment {
    const FILE: &'static str = files::IO_PLACES;

    fn columns() -> Vec<Column<Self>> {
        let columns: Vec<Column<Self>> = vec![
            column!("time" = time_ns, "the end of the interval, as in io_series.parquet"),
            column!(pid, "the process"),
            column!(tid, "the thread, where threads are told apart"),
            column!(path, "the file"),
            column!(path_base64, "its bytes in Base64, where they are no UTF-8"),
            column!(device, "the file system's device: major * 2^20 + minor"),
            column!(inode, "the inode"),
            column!(from_bytes, "where the place begins in the file"),
            column!(to_bytes, "where it ends"),
            column!(read_bytes, "bytes read there, by calls and mapped memory"),
            column!(written_bytes, "bytes written there"),
        ];
        columns.into_iter().map(Column::in_its_unit).collect()
    }

    fn blank() -> Self {
        PlaceMoment::default()
    }

    fn from_entry(entry: Update, emit: &mut dyn FnMut(Self)) {
        if let Update::OffsetHistogram(row) = entry {
            emit(row);
        }
    }
}
