//! The tables of regions and phases.

use weigh_schema::recording::files;
use weigh_schema::region::{PhaseRow, RegionRow};
use weigh_schema::update::Update;

use crate::column::{Column, column};
use crate::table::Row;

impl Row for RegionRow {
    const FILE: &'static str = files::REGIONS;

    fn columns() -> Vec<Column<Self>> {
        let columns: Vec<Column<Self>> = vec![
            column!(name, "its name; of a thread the kernel's name for it"),
            column!(name_base64, "its bytes in Base64, where they are no UTF-8"),
            names(
                "path",
                "the names from the outermost region to this one, as a JSON array",
                |row| &row.path,
                |row| &mut row.path,
            ),
            names(
                "path_base64",
                "all of them in Base64, where one is no UTF-8",
                |row| &row.path_base64,
                |row| &mut row.path_base64,
            ),
            column!(
                kind,
                "region, phase, range (in nobody's exclusive time), or thread: there inclusive is the wall time and exclusive what lies outside of regions"
            ),
            column!(process, "PID in weigh's PID namespace"),
            column!(thread, "the thread, as the process sees it"),
            column!(rank, "rank of the process in its MPI job"),
            column!("calls_total" = calls, "calls that have ended"),
            column!(
                "timed_calls_total" = timed_calls,
                "of these, how many were timed; null where all were"
            ),
            column!(inclusive_seconds, "their time; an estimate where not all were timed"),
            column!(exclusive_seconds, "their time without that of regions inside"),
            column!(
                error_seconds,
                "standard error of the inclusive time; null where all calls were timed"
            ),
            column!(min_seconds, "the shortest timed call"),
            column!(max_seconds, "the longest timed call"),
            column!(
                "unbalanced_calls_total" = unbalanced_calls,
                "calls that were ended by the end of one around them or of the thread, and ends without a begin"
            ),
            column!(
                "open_calls_total" = open_calls,
                "calls that were open when the profile was read last; they are in no other number"
            ),
            column!(open_seconds, "their time until then"),
            column!(quality, "how far the times can be trusted"),
        ];
        columns.into_iter().map(Column::in_its_unit).collect()
    }

    fn blank() -> Self {
        RegionRow::default()
    }

    fn from_entry(entry: Update, emit: &mut dyn FnMut(Self)) {
        if let Update::Region(row) = entry {
            emit(*row);
        }
    }
}

/// A list of names, as JSON: a name may hold anything that could stand between them. Absent where there is none.
fn names(
    name: &'static str,
    help: &'static str,
    of: fn(&RegionRow) -> &Vec<String>,
    of_mut: fn(&mut RegionRow) -> &mut Vec<String>,
) -> Column<RegionRow> {
    Column::computed(
        name,
        help,
        None,
        move |row: &RegionRow| {
            let names = of(row);
            if names.is_empty() { None } else { serde_json::to_string(names).ok() }
        },
        move |row, text: String| *of_mut(row) = serde_json::from_str(&text).unwrap_or_default(),
    )
}

impl Row for PhaseRow {
    const FILE: &'static str = files::PHASES;

    fn columns() -> Vec<Column<Self>> {
        vec![
            column!(name, "its name"),
            column!(name_base64, "its bytes in Base64, where they are no UTF-8"),
            column!(process, "PID in weigh's PID namespace"),
            column!(thread, "the thread, as the process sees it"),
            column!(iteration, "as the program numbers them"),
            column!("started" = started_ns, "when it began"),
            column!("ended" = ended_ns, "when it ended"),
        ]
    }

    fn blank() -> Self {
        PhaseRow::default()
    }

    fn from_entry(entry: Update, emit: &mut dyn FnMut(Self)) {
        if let Update::Phase(row) = entry {
            emit(*row);
        }
    }
}

#[cfg(test)]
mod tests {
    use weigh_schema::quality::Quality;
    use weigh_schema::region::RegionKind;

    use super::*;
    use crate::table_reader::read_table;
    use crate::table_writer::TableWriter;

    #[test]
    fn a_row_comes_back_as_it_was() {
        let row = RegionRow {
            name: "b/\"c\"".into(),
            path: vec!["a".into(), "b/\"c\"".into()],
            kind: RegionKind::Phase,
            process: 12,
            rank: Some(3),
            calls: 41,
            inclusive_seconds: 0.25,
            max_seconds: Some(0.125),
            quality: Quality::Sampled,
            ..RegionRow::default()
        };
        let thread = RegionRow { kind: RegionKind::Thread, ..RegionRow::default() };
        let dir = tempfile::tempdir().unwrap();
        let mut table = TableWriter::create(dir.path()).unwrap();
        table.push(&row).unwrap();
        table.push(&thread).unwrap();
        table.finish().unwrap();
        let mut rows: Vec<RegionRow> = Vec::new();
        let mut visit = |row| {
            rows.push(row);
            std::ops::ControlFlow::Continue(())
        };
        read_table(&dir.path().join(files::REGIONS), &mut visit).unwrap();
        assert_eq!(rows, [row, thread]);
    }
}
