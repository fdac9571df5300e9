//! What a row of a file and process has several of, in one column each: sizes, strides, and the slowest call.
//!
//! Lists are texts, `KEY:COUNT` with spaces between: each reader of tables splits them, and a table has no more columns
//! for it. What is no such text when it is read is left out.

use std::collections::BTreeMap;
use std::str::FromStr;

use weigh_schema::Unit;
use weigh_schema::io::{FileUse, Slowest, Stride};

use crate::column::Column;

/// The columns.
pub(crate) fn columns() -> Vec<Column<FileUse>> {
    vec![
        sizes(
            "read_sizes",
            "reads by size, `BYTES:READS` with spaces between: so many of so many bytes up to less than twice that",
            |row| &row.totals.read_sizes,
            |row| &mut row.totals.read_sizes,
        ),
        sizes(
            "write_sizes",
            "the same of writes",
            |row| &row.totals.write_sizes,
            |row| &mut row.totals.write_sizes,
        ),
        strides(
            "read_strides",
            "the commonest distances from one read's beginning to the next one's, of those that are not consecutive: \
             `BYTES:TIMES` with spaces between",
            |row| &row.read_strides,
            |row| &mut row.read_strides,
        ),
        strides(
            "write_strides",
            "the same of writes",
            |row| &row.write_strides,
            |row| &mut row.write_strides,
        ),
        Column::computed(
            "slowest_call",
            "the slowest call on it",
            None,
            |row: &FileUse| Some(row.slowest.as_ref()?.call.clone()),
            |row, call: String| slowest(row).call = call,
        ),
        Column::computed(
            "slowest_seconds",
            "how long that took",
            Some(Unit::Seconds),
            |row: &FileUse| Some(row.slowest.as_ref()?.seconds),
            |row, seconds| slowest(row).seconds = seconds,
        ),
        Column::computed(
            "slowest_at_seconds",
            "when that ended, since the following began",
            Some(Unit::Seconds),
            |row: &FileUse| Some(row.slowest.as_ref()?.at_seconds),
            |row, at| slowest(row).at_seconds = at,
        ),
    ]
}

fn slowest(row: &mut FileUse) -> &mut Slowest {
    let blank = || Slowest { call: String::new(), seconds: 0.0, at_seconds: 0.0 };
    row.slowest.get_or_insert_with(blank)
}

fn sizes(
    name: &'static str,
    help: &'static str,
    of: fn(&FileUse) -> &BTreeMap<u64, u64>,
    of_mut: fn(&mut FileUse) -> &mut BTreeMap<u64, u64>,
) -> Column<FileUse> {
    Column::computed(
        name,
        help,
        None,
        move |row: &FileUse| joined(of(row).iter().map(|(size, calls)| (*size, *calls))),
        move |row, text: String| *of_mut(row) = pairs(&text).collect(),
    )
}

fn strides(
    name: &'static str,
    help: &'static str,
    of: fn(&FileUse) -> &Vec<Stride>,
    of_mut: fn(&mut FileUse) -> &mut Vec<Stride>,
) -> Column<FileUse> {
    Column::computed(
        name,
        help,
        None,
        move |row: &FileUse| joined(of(row).iter().map(|stride| (stride.bytes, stride.times))),
        move |row, text: String| {
            *of_mut(row) = pairs(&text).map(|(bytes, times)| Stride { bytes, times }).collect();
        },
    )
}

/// Absent where there is none.
fn joined<T: ToString>(pairs: impl Iterator<Item = (T, u64)>) -> Option<String> {
    let texts: Vec<String> =
        pairs.map(|(key, count)| format!("{}:{count}", key.to_string())).collect();
    (!texts.is_empty()).then(|| texts.join(" "))
}

fn pairs<T: FromStr>(text: &str) -> impl Iterator<Item = (T, u64)> {
    text.split(' ').filter_map(|pair| {
        let (key, count) = pair.split_once(':')?;
        Some((key.parse().ok()?, count.parse().ok()?))
    })
}
