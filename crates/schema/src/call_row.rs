//! The rows of the file that `weigh calls --per-call` writes and `weigh explain` reads: one for each
//! call. Its columns of costs are derived from [`SUBSYSTEMS`], those of rivals from [`RIVALS`].

use std::sync::LazyLock;

use crate::call::{RIVAL_KINDS, Rival};
use crate::metric::Unit;
use crate::subsystem::{Account, PART, SUBSYSTEMS, Subsystem};

/// What a call returned: a whole number with a sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Returned(pub i64);

/// One call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallRow {
    /// When it began: nanoseconds since the Unix epoch, UTC.
    pub time_ns: i64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The call's name.
    pub call: String,
    /// The file, connection or thread it is about, if calls were grouped so.
    pub of: Option<String>,
    /// Which of the job's calls it was.
    pub sequence: u64,
    /// What it returned.
    pub result: Returned,
    /// The parts of the kernel that were looked into, as a set.
    pub measured: u64,
    /// What it cost.
    pub account: Account,
    /// Who else was in its way, in the order of [`RIVAL_KINDS`].
    pub rivals: [Option<Rival>; RIVAL_KINDS],
}

/// One number of an account as a column.
#[derive(Debug)]
pub struct CostColumn {
    /// `block_device_seconds`.
    pub name: String,
    /// What it counts.
    pub help: String,
    /// In which unit.
    pub unit: Unit,
    /// Whose it is.
    pub subsystem: &'static Subsystem,
    place: usize,
}

/// The numbers of each part of the kernel, in their order.
pub static COST_COLUMNS: LazyLock<Vec<CostColumn>> = LazyLock::new(|| {
    let columns = |subsystem: &'static Subsystem| {
        let (parts, fields) = (subsystem.part_start(), subsystem.fields_start());
        let parts = PART.iter().enumerate().map(move |(i, field)| (parts + i, field));
        let fields = subsystem.fields.iter().enumerate().map(move |(i, f)| (fields + i, f));
        parts.chain(fields).map(move |(place, field)| CostColumn {
            name: format!("{}_{}", subsystem.name, field.key()),
            help: format!("{}: {}", subsystem.name, field.help),
            unit: field.unit,
            subsystem,
            place,
        })
    };
    SUBSYSTEMS.iter().flat_map(columns).collect()
});

impl CostColumn {
    /// The number as the account holds it; none if its part of the kernel was not looked into.
    pub fn raw(&self, row: &CallRow) -> Option<u64> {
        let measured = row.measured & self.subsystem.bit() != 0;
        measured.then(|| row.account.number(self.place))
    }

    /// Puts such a number into a row.
    pub fn set_raw(&self, row: &mut CallRow, raw: u64) {
        row.measured |= self.subsystem.bit();
        row.account.set_number(self.place, raw);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_number_has_one_column_and_what_was_not_looked_into_has_none() {
        let names: HashSet<&str> = COST_COLUMNS.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names.len(), COST_COLUMNS.len());
        for name in ["kernel_time_seconds", "block_device_seconds", "sched_run_queue_seconds"] {
            assert!(names.contains(name), "{name}");
        }
        let mut row = CallRow::default();
        assert!(COST_COLUMNS.iter().all(|column| column.raw(&row).is_none()));
        for (number, column) in COST_COLUMNS.iter().enumerate() {
            column.set_raw(&mut row, number as u64);
        }
        for (number, column) in COST_COLUMNS.iter().enumerate() {
            assert_eq!(column.raw(&row), Some(number as u64), "{}", column.name);
        }
    }
}
