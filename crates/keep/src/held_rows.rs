//! What a journal holds besides samples, in memory: rows by their table, without those that later ones have taken the place of.

use std::collections::BTreeMap;

use weigh_schema::call::CallsReport;
use weigh_schema::recording::files;
use weigh_schema::update::Update;

use crate::latest_rows::Latest;

/// A table is gone through for what is superseded when it has grown to twice its size, and to so many rows.
const ROWS_BEFORE_PRUNING: usize = 1024;

/// Rows of a journal.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldRows {
    tables: BTreeMap<&'static str, HeldTable>,
    /// What system calls cost, as it was said last.
    pub(crate) calls: Option<Box<CallsReport>>,
}

#[derive(Clone, Debug, Default)]
struct HeldTable {
    /// With the length of its line.
    rows: Vec<(Update, usize)>,
    rows_after_pruning: usize,
}

impl HeldRows {
    /// Keeps an entry if it is a row; its line has so many bytes.
    pub(crate) fn push(&mut self, entry: Update, line_bytes: usize) {
        if let Update::SyscallTotals(report) = entry {
            self.calls = Some(report);
            return;
        }
        let Some(table) = table_of(&entry) else { return };
        let table = self.tables.entry(table).or_default();
        table.rows.push((entry, line_bytes));
        let bound = ROWS_BEFORE_PRUNING.max(2 * table.rows_after_pruning);
        if table.rows.len() >= bound {
            table.prune();
        }
    }

    /// The entries of a table, in their order.
    pub(crate) fn entries(&self, table: &str) -> impl Iterator<Item = &Update> {
        let rows = self.tables.get(table).into_iter().flat_map(|table| &table.rows);
        rows.map(|(entry, _)| entry)
    }

    /// Memory that they take, nearly.
    pub(crate) fn bytes(&self) -> usize {
        let rows = self.tables.values().flat_map(|table| &table.rows);
        rows.map(|(_, line_bytes)| line_bytes + size_of::<Update>()).sum()
    }
}

impl HeldTable {
    fn prune(&mut self) {
        let mut latest = Latest::default();
        self.rows.iter().for_each(|(entry, _)| latest.show(entry));
        let mut place = 0;
        self.rows.retain(|(entry, _)| {
            place += 1;
            latest.holds(place - 1, entry)
        });
        self.rows_after_pruning = self.rows.len();
    }
}

/// The table that an entry is a row of.
fn table_of(entry: &Update) -> Option<&'static str> {
    match entry {
        Update::Process(_) => Some(files::PROCESSES),
        Update::FileUse(_) | Update::FileUseSoFar(_) => Some(files::FILES),
        Update::IoInterval(_) => Some(files::IO_SERIES),
        Update::OffsetHistogram(_) => Some(files::IO_PLACES),
        Update::Syscall(_) => Some(files::IO_CALLS),
        Update::Region(_) | Update::RegionSoFar(_) => Some(files::REGIONS),
        Update::Phase(_) => Some(files::PHASES),
        Update::Started(_)
        | Update::Samples { .. }
        | Update::IoTotals(_)
        | Update::SyscallTotals(_)
        | Update::Snapshot(_)
        | Update::Summary(_)
        | Update::Unknown => None,
    }
}
