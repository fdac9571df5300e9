//! The tables of a recording in words, for `docs/recording.md`: derived from the declarations that
//! the files are written by.

use weigh_schema::Unit;
use weigh_schema::call_row::CallRow;
use weigh_schema::io::{FileUse, IoCall, Moment, PlaceMoment};
use weigh_schema::recording::{ProcessRow, SampleRow};
use weigh_schema::region::{PhaseRow, RegionRow};

use crate::column::{Column, Meaning};
use crate::table::Row;

/// A table of a recording.
pub struct TableDescription {
    /// Its file.
    pub file: &'static str,
    /// Its columns, in order.
    pub columns: Vec<ColumnDescription>,
}

/// A column of a table.
pub struct ColumnDescription {
    /// Its name.
    pub name: &'static str,
    /// Its type in Parquet's words.
    pub kind: &'static str,
    /// Whether a row may be without it.
    pub optional: bool,
    /// Its unit, if it is a metric's.
    pub unit: Option<Unit>,
    /// What it holds.
    pub help: &'static str,
}

/// All tables.
pub fn tables() -> Vec<TableDescription> {
    vec![
        table::<SampleRow>(),
        table::<ProcessRow>(),
        table::<FileUse>(),
        table::<Moment>(),
        table::<PlaceMoment>(),
        table::<IoCall>(),
        table::<RegionRow>(),
        table::<PhaseRow>(),
    ]
}

/// The file of `weigh calls --per-call`.
pub fn calls_table() -> TableDescription {
    table::<CallRow>()
}

fn table<R: Row>() -> TableDescription {
    TableDescription { file: R::FILE, columns: R::columns().iter().map(column).collect() }
}

fn column<R>(column: &Column<R>) -> ColumnDescription {
    let kind = match column.meaning {
        Meaning::Time => "INT64, TIMESTAMP(NANOS, UTC)",
        Meaning::Signed => "INT64",
        Meaning::Unsigned => "INT64, INTEGER(64, unsigned)",
        Meaning::Real => "DOUBLE",
        Meaning::Text => "BYTE_ARRAY, STRING",
    };
    let Column { name, help, unit, optional, .. } = *column;
    ColumnDescription { name, kind, optional, unit, help }
}
