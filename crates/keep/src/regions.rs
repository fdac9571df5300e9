//! The tables of regions and phases.

use weigh_schema::call_row::{COST_COLUMNS, CostColumn, LATER_COLUMNS, LaterColumn};
use weigh_schema::recording::files;
use weigh_schema::region::{KernelCosts, PhaseRow, RegionRow};
use weigh_schema::subsystem::{CPU_COUNTERS, CpuCounter};
use weigh_schema::update::Update;
use weigh_schema::{Number, Quality, Unit};

use crate::column::{Column, column};
use crate::latest_rows::Latest;
use crate::table::Row;

impl Row for RegionRow {
    const FILE: &'static str = files::REGIONS;
    /// It has several times the columns of other tables.
    const GROUP_ROWS: usize = 16 * 1024;

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
        let columns = columns.into_iter().map(Column::in_its_unit);
        let costs = kernel_costs().into_iter().map(|column| column.within(costs_of, costs_of_mut));
        columns.chain(costs).collect()
    }

    fn blank() -> Self {
        RegionRow::default()
    }

    fn from_entry(entry: Update, emit: &mut dyn FnMut(Self)) {
        if let Update::Region(row) | Update::RegionSoFar(row) = entry {
            emit(*row);
        }
    }

    fn latest() -> Option<Latest> {
        Some(Latest::default())
    }
}

fn costs_of(row: &RegionRow) -> Option<&KernelCosts> {
    row.kernel_costs.as_ref()
}

fn costs_of_mut(row: &mut RegionRow) -> &mut KernelCosts {
    row.kernel_costs.get_or_insert_default()
}

/// What system calls of a region cost: all of it is null where no account is bound to it.
fn kernel_costs() -> Vec<Column<KernelCosts>> {
    let mut columns = vec![
        Column::computed(
            "kernel_costs_quality",
            "how far all that follows can be trusted; null where no account of calls is bound to the region",
            None,
            |costs: &KernelCosts| Some(costs.quality),
            |costs, quality: Quality| costs.quality = quality,
        ),
        Column::computed(
            "kernel_costs_reason",
            "why it is not exact",
            None,
            |costs: &KernelCosts| costs.reason.clone(),
            |costs, reason| costs.reason = Some(reason),
        ),
    ];
    columns.extend(CPU_COUNTERS.iter().map(counter));
    columns.extend(COST_COLUMNS.iter().map(cost));
    columns.extend(LATER_COLUMNS.iter().map(later));
    columns
}

/// A column of numbers in their unit.
fn number(
    (name, help, unit): (&'static str, &'static str, Unit),
    get: impl Fn(&KernelCosts) -> Option<Number> + 'static,
    set: impl Fn(&mut KernelCosts, f64) + 'static,
) -> Column<KernelCosts> {
    let whole = |number| match number {
        Number::Whole(number) => number,
        Number::Real(number) => number as u64,
    };
    match unit.is_whole() {
        true => Column::computed(
            name,
            help,
            Some(unit),
            move |costs| get(costs).map(whole),
            move |costs, n| set(costs, n as f64),
        ),
        false => Column::computed(
            name,
            help,
            Some(unit),
            move |costs| get(costs).map(Number::as_f64),
            set,
        ),
    }
}

fn counter(counter: &'static CpuCounter) -> Column<KernelCosts> {
    number(
        (counter.key, counter.help, Unit::Count),
        move |costs| costs.counters.get(counter.key).copied(),
        move |costs, n| {
            costs.counters.insert(counter.key.to_string(), Unit::Count.number(n));
        },
    )
}

/// A number of a part of the kernel: null where that was not looked into.
fn cost(column: &'static CostColumn) -> Column<KernelCosts> {
    let CostColumn { name, help, unit, subsystem, field, .. } = column;
    number(
        (name.as_str(), help.as_str(), *unit),
        move |costs| costs.number(subsystem, field),
        move |costs, n| costs.set_number(subsystem, field, n),
    )
}

/// A number of what came later, the same.
fn later(column: &'static LaterColumn) -> Column<KernelCosts> {
    let LaterColumn { name, help, field, .. } = column;
    number(
        (name.as_str(), help.as_str(), field.unit),
        move |costs| costs.later_number(field),
        move |costs, n| costs.set_later(field, n),
    )
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
    use weigh_schema::Quality;
    use weigh_schema::region::RegionKind;

    use super::*;
    use crate::column::Cell;
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
        let refused =
            RegionRow { kernel_costs: Some(KernelCosts::unavailable("x")), ..row.clone() };
        let bound = RegionRow { kernel_costs: Some(costs()), ..row.clone() };
        let dir = tempfile::tempdir().unwrap();
        let mut table = TableWriter::create(dir.path()).unwrap();
        table.push(&row).unwrap();
        table.push(&thread).unwrap();
        table.push(&refused).unwrap();
        table.push(&bound).unwrap();
        table.finish().unwrap();
        let mut rows: Vec<RegionRow> = Vec::new();
        let mut visit = |row| {
            rows.push(row);
            std::ops::ControlFlow::Continue(())
        };
        read_table(&dir.path().join(files::REGIONS), &mut visit).unwrap();
        assert_eq!(rows, [row, thread, refused, bound]);
    }

    fn costs() -> KernelCosts {
        let number = |key: &str, number| (key.to_string(), number);
        let socket = [
            number("time_seconds", Number::Real(0.25)),
            number("sent_bytes_total", Number::Whole(411)),
        ];
        KernelCosts {
            quality: Quality::Estimated,
            reason: Some("1 things that it caused had not come to their end".into()),
            measured: ["socket".to_string(), "tcp".to_string()].into(),
            parts: [("socket".to_string(), socket.into())].into(),
            later: [number("pending_total", Number::Whole(1))].into(),
            ..KernelCosts::default()
        }
    }

    #[test]
    fn what_was_looked_into_and_not_found_is_0_and_what_was_not_is_null() {
        let row = RegionRow { kernel_costs: Some(costs()), ..RegionRow::default() };
        let columns = RegionRow::columns();
        let cell =
            |name: &str| columns.iter().find(|column| column.name == name).unwrap().get(&row);
        assert_eq!(cell("socket_sent_bytes_total"), Some(Cell::Int(411)));
        assert_eq!(cell("socket_received_bytes_total"), Some(Cell::Int(0)));
        assert_eq!(cell("block_requests_total"), None);
    }
}
