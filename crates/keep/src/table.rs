//! The tables of a recording (that of files is in [`crate::io`]): which rows they hold, in which columns, under which file name.

use weigh_schema::recording::{ProcessRow, SampleRow, files};
use weigh_schema::update::Update;
use weigh_schema::{METRICS, Metric, Number};

use crate::column::{Column, column};
use crate::latest_rows::Latest;

/// Rows that are kept in a table of their own.
pub(crate) trait Row: Sized + 'static {
    /// The table's file in the recording directory.
    const FILE: &'static str;

    /// A row group ends at so many rows.
    const GROUP_ROWS: usize = 64 * 1024;

    /// The columns, in order.
    fn columns() -> Vec<Column<Self>>;

    /// A row that columns can be read into.
    fn blank() -> Self;

    /// Hands over the rows of this table that a journal entry holds.
    fn from_entry(entry: Update, emit: &mut dyn FnMut(Self));

    /// Where a journal holds rows that later ones take the place of: who tells them apart.
    fn latest() -> Option<Latest> {
        None
    }

    /// What a reader of the file should know besides, as keys and values.
    fn notes() -> Vec<(String, String)> {
        notes_of(&Self::columns())
    }
}

/// Help and unit of each column.
pub(crate) fn notes_of<R>(columns: &[Column<R>]) -> Vec<(String, String)> {
    let mut notes = Vec::new();
    for column in columns {
        notes.push((format!("{}.help", column.name), column.help.to_string()));
        if let Some(unit) = column.unit {
            notes.push((format!("{}.unit", column.name), unit.to_string()));
        }
    }
    notes
}

impl Row for SampleRow {
    const FILE: &'static str = files::SERIES;

    fn columns() -> Vec<Column<Self>> {
        vec![
            column!("time" = time_ns, "when the value was taken"),
            column!(scope, "what the value is about: job, or process:PID"),
            column!(metric, "which series it belongs to"),
            column!(value, "the value, in the unit that the key METRIC.unit gives"),
        ]
    }

    fn blank() -> Self {
        SampleRow { time_ns: 0, scope: String::new(), metric: String::new(), value: 0.0 }
    }

    fn from_entry(entry: Update, emit: &mut dyn FnMut(Self)) {
        if let Update::Samples { time_ns, scope, values } = entry {
            let scope = scope.to_string();
            for (metric, value) in values {
                emit(SampleRow { time_ns, scope: scope.clone(), metric, value });
            }
        }
    }

    fn notes() -> Vec<(String, String)> {
        let columns = Self::columns().into_iter();
        let help = columns.map(|column| (format!("{}.help", column.name), column.help.to_string()));
        let series = METRICS.iter().filter_map(|metric| Some((metric.series?, metric)));
        let series = series.flat_map(|(name, metric)| {
            [
                (format!("{name}.unit"), metric.unit.to_string()),
                (format!("{name}.help"), format!("{}: {}", metric.name, metric.help)),
            ]
        });
        help.chain(series).collect()
    }
}

impl Row for ProcessRow {
    const FILE: &'static str = files::PROCESSES;

    fn columns() -> Vec<Column<Self>> {
        let mut columns: Vec<Column<Self>> = vec![
            column!(pid, "PID in the initial PID namespace"),
            column!(parent, "PID of the process that started it"),
            column!(name, "the kernel's name for it"),
            column!(name_base64, "its bytes in Base64, where they are no UTF-8"),
            column!(command, "arguments of its last exec, joined for a shell"),
            column!(
                command_base64,
                "their bytes in Base64, each argument ended by a NUL byte, where they are no UTF-8"
            ),
            column!(uid, "the user it belonged to"),
            column!("started" = started_ns, "when it was started"),
            column!("ended" = ended_ns, "when it ended; absent if it was still alive"),
            column!(exit_code, "its exit code, if it exited"),
            column!(exit_signal, "the signal that ended it, if one did"),
        ];
        columns.extend(ProcessRow::metric_columns().map(metric_column));
        columns
    }

    fn blank() -> Self {
        ProcessRow::default()
    }

    fn from_entry(entry: Update, emit: &mut dyn FnMut(Self)) {
        if let Update::Process(row) = entry {
            emit(row);
        }
    }
}

/// A process's own value of one metric: whole numbers where the unit is whole.
fn metric_column(metric: &'static Metric) -> Column<ProcessRow> {
    let Metric { name, help, unit, .. } = *metric;
    let set = move |row: &mut ProcessRow, number| {
        row.metrics.insert(name.to_string(), number);
    };
    let get = move |row: &ProcessRow| row.metrics.get(name).copied();
    if unit.is_whole() {
        let whole = move |row: &ProcessRow| match get(row)? {
            Number::Whole(n) => Some(n),
            Number::Real(x) => match unit.number(x) {
                Number::Whole(n) => Some(n),
                Number::Real(_) => None,
            },
        };
        Column::computed(name, help, Some(unit), whole, move |row, n| set(row, Number::Whole(n)))
    } else {
        let real = move |row: &ProcessRow| get(row).map(Number::as_f64);
        Column::computed(name, help, Some(unit), real, move |row, x| set(row, Number::Real(x)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Meaning;
    use std::collections::HashSet;

    fn names<R: Row>() -> Vec<&'static str> {
        R::columns().iter().map(|column| column.name).collect()
    }

    #[test]
    fn column_names_are_unique_and_every_process_metric_has_one() {
        let names = names::<ProcessRow>();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        for metric in ProcessRow::metric_columns() {
            assert!(names.contains(&metric.name), "{}", metric.name);
        }
    }

    #[test]
    fn the_notes_give_unit_and_help_of_every_metric() {
        let process = ProcessRow::notes();
        for metric in ProcessRow::metric_columns() {
            assert!(process.contains(&(format!("{}.unit", metric.name), metric.unit.to_string())));
            assert!(process.contains(&(format!("{}.help", metric.name), metric.help.to_string())));
        }
        let series = SampleRow::notes();
        for (name, metric) in METRICS.iter().filter_map(|m| Some((m.series?, m))) {
            assert!(series.contains(&(format!("{name}.unit"), metric.unit.to_string())));
        }
    }

    /// A column of text has one of its bytes beside it, or is of weigh's own words, or the kernel's name of a process.
    #[test]
    fn every_text_from_outside_has_its_bytes_beside_it() {
        const OWN: [&str; 11] = [
            "scope",
            "metric",
            "call",
            "deed",
            "kind",
            "object",
            "quality",
            "sources",
            "slowest_call",
            "state_reason",
            "transfer",
        ];
        fn check<R: Row>() {
            let columns = R::columns();
            let names: HashSet<&str> = columns.iter().map(|column| column.name).collect();
            for column in columns.iter().filter(|column| column.meaning == Meaning::Text) {
                let name = column.name;
                let is_plain =
                    ["_quality", "_sizes", "_strides"].iter().any(|end| name.ends_with(end));
                let is_known = name.ends_with("_base64") || OWN.contains(&name) || is_plain;
                let has_bytes = names.contains(format!("{name}_base64").as_str());
                assert!(is_known || has_bytes, "{}: {name}", R::FILE);
            }
        }
        check::<SampleRow>();
        check::<ProcessRow>();
        check::<weigh_schema::io::FileUse>();
        check::<weigh_schema::io::IoCall>();
        check::<weigh_schema::io::Moment>();
        check::<weigh_schema::io::PlaceMoment>();
        check::<weigh_schema::call_row::CallRow>();
    }
}
