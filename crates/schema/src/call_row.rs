//! The rows of the file that `weigh calls --per-call` writes and `weigh explain` reads: one for each
//! call. Its columns of costs are derived from [`SUBSYSTEMS`], those of rivals from [`RIVALS`].

use serde::{Deserialize, Serialize};

use std::sync::LazyLock;

use crate::call::{Interval, RIVAL_KINDS, Rival, moves_bytes};
use crate::number_names::error_name;
use crate::subsystem::{Account, Field, LATER, Merge, PART, SUBSYSTEMS, Subsystem, later_part};
use crate::unit::Unit;

/// What a call returned: a whole number with a sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned(pub i64);

/// The greatest number that the kernel has for an error.
const MOST_ERROR: u64 = 4095;

impl Returned {
    /// The name of the error that it is: `ENOENT`. None if the call did what it was to do.
    pub fn error(self) -> Option<String> {
        self.error_number().map(error_name)
    }

    /// The number of that error.
    pub fn error_number(self) -> Option<u64> {
        // A greater number is an address in the upper half.
        (self.0 < 0).then(|| self.0.unsigned_abs()).filter(|number| *number <= MOST_ERROR)
    }
}

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
    /// Its bytes in Base64, where they are no UTF-8.
    pub of_base64: Option<String>,
    /// Which of the job's calls it was.
    pub sequence: u64,
    /// What it returned; of an interval, the bytes that its calls moved.
    pub result: Returned,
    /// The interval that its program has opened around it.
    pub interval: Option<Interval>,
    /// The parts of the kernel that were looked into, as a set.
    pub measured: u64,
    /// What it cost, and what came later of it.
    pub account: Account,
    /// Numbers that its file has not, though their part of the kernel was looked into.
    pub absent: Absent,
    /// Those of [`LATER`] that are known, as a set.
    pub known_later: u64,
    /// Who else was in its way, in the order of [`RIVAL_KINDS`].
    pub rivals: [Option<Rival>; RIVAL_KINDS],
}

/// A set of [`COST_COLUMNS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Absent(u128);

impl Absent {
    /// The columns of both.
    pub fn and(self, other: Absent) -> Absent {
        Absent(self.0 | other.0)
    }
}

impl CallRow {
    /// The bytes that it moved, if it is there to move some, and did not fail; of an interval, its calls.
    pub fn moved(&self) -> Option<u64> {
        let is_known = moves_bytes(&self.call) || self.call == INTERVAL;
        u64::try_from(self.result.0).ok().filter(|_| is_known)
    }

    /// To be called when a row has been read: of parts that nobody looked into all is absent, and none of it
    /// is missing.
    pub fn read_whole(&mut self) {
        if self.absent == Absent::default() {
            return;
        }
        let seen = COST_COLUMNS.iter().filter(|column| column.is_seen(self.measured));
        self.absent.0 &= seen.fold(0, |set, column| set | 1 << column.number);
    }
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
    /// What is kept there.
    pub field: &'static Field,
    place: usize,
    /// Where an account tells whether it was seen, of a state.
    seen: Option<usize>,
    /// Its place among [`COST_COLUMNS`].
    number: usize,
}

/// The numbers of each part of the kernel, in their order.
pub static COST_COLUMNS: LazyLock<Vec<CostColumn>> = LazyLock::new(|| {
    let columns = |subsystem: &'static Subsystem| {
        let (parts, fields_start) = (subsystem.part_start(), subsystem.fields_start());
        let parts = PART.iter().enumerate().map(move |(i, field)| (parts + i, field));
        let fields = subsystem.fields.iter().enumerate().map(move |(i, f)| (fields_start + i, f));
        let seen = move |field: &Field| {
            let Merge::Latest { seen } = field.merge else { return None };
            Some(fields_start + subsystem.fields.iter().position(|other| other.name == seen)?)
        };
        parts.chain(fields).map(move |(place, field)| CostColumn {
            seen: seen(field),
            name: format!("{}_{}", subsystem.name, field.key()),
            help: format!("{}: {}", subsystem.name, field.help),
            unit: field.unit,
            subsystem,
            field,
            place,
            number: 0,
        })
    };
    let numbered = |(number, column)| CostColumn { number, ..column };
    SUBSYSTEMS.iter().flat_map(columns).enumerate().map(numbered).collect()
});

impl CostColumn {
    /// The number as the account holds it; none if its part of the kernel was not looked into, or its file does
    /// not have it. Of some parts the scheduler knows that they are waited for, even where nothing looks into them.
    pub fn raw(&self, row: &CallRow) -> Option<u64> {
        if row.absent.0 & 1 << self.number != 0 {
            return None;
        }
        if self.seen.is_some_and(|seen| row.account.number(seen) == 0) {
            return None;
        }
        let number = row.account.number(self.place);
        (self.is_seen(row.measured) || number != 0).then_some(number)
    }

    /// Whether it is seen where these parts of the kernel are looked into.
    fn is_seen(&self, measured: u64) -> bool {
        measured & self.subsystem.bit() != 0 && self.field.is_known_beside(measured)
    }

    /// The row's file does not have it.
    pub fn set_absent(&self, row: &mut CallRow) {
        row.absent.0 |= 1 << self.number;
    }

    /// Puts such a number into a row. A part that was looked into has all of its counts.
    pub fn set_raw(&self, row: &mut CallRow, raw: u64) {
        if self.unit != Unit::Seconds {
            row.measured |= self.subsystem.bit();
        }
        row.account.set_number(self.place, raw);
    }
}

/// One number of what came later as a column.
#[derive(Debug)]
pub struct LaterColumn {
    /// `later_block_device_seconds`.
    pub name: String,
    /// What it counts.
    pub help: String,
    /// What is kept.
    pub field: &'static Field,
    /// Whose it is; none of what is pending or was lost.
    pub subsystem: Option<&'static Subsystem>,
    place: usize,
}

/// The numbers of [`LATER`], in their order.
pub static LATER_COLUMNS: LazyLock<Vec<LaterColumn>> = LazyLock::new(|| {
    let column = |(place, field): (usize, &'static Field)| LaterColumn {
        name: format!("later_{}", field.key()),
        help: format!("after it had returned: {}", field.help),
        field,
        subsystem: later_part(field),
        place,
    };
    LATER.iter().enumerate().map(column).collect()
});

impl LaterColumn {
    /// The number as the account holds it; none if it is not known.
    pub fn raw(&self, row: &CallRow) -> Option<u64> {
        let is_known = row.known_later & 1 << self.place != 0;
        is_known.then(|| row.account.later()[self.place])
    }

    /// Puts such a number into a row.
    pub fn set_raw(&self, row: &mut CallRow, raw: u64) {
        row.known_later |= 1 << self.place;
        row.account.later_mut()[self.place] = raw;
    }

    /// Whether it is seen where these parts of the kernel are looked into.
    pub fn is_seen(&self, measured: u64) -> bool {
        self.subsystem.is_none_or(|subsystem| measured & subsystem.bit() != 0)
            && self.field.is_known_beside(measured)
    }

    /// The number among those of a call.
    pub fn of(&self, numbers: &[u64]) -> u64 {
        numbers.get(self.place).copied().unwrap_or(0)
    }
}

/// How many things that a call caused had not come to their end; none if that is not known.
pub fn pending(row: &CallRow) -> Option<u64> {
    LATER_COLUMNS.iter().find(|column| column.field.name == "pending")?.raw(row)
}

/// What intervals are called where calls have their name.
pub const INTERVAL: &str = "interval";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    #[allow(clippy::unwrap_used)]
    fn time_that_was_waited_for_a_part_is_kept_whoever_looks_into_it() {
        let block = |name| COST_COLUMNS.iter().find(|c| c.name == name).unwrap();
        let (waiting, requests) = (block("block_waiting_seconds"), block("block_requests_total"));
        let mut row = CallRow::default();
        waiting.set_raw(&mut row, 7);
        assert_eq!((waiting.raw(&row), requests.raw(&row), row.measured), (Some(7), None, 0));
        requests.set_raw(&mut row, 0);
        assert_eq!((requests.raw(&row), row.measured), (Some(0), requests.subsystem.bit()));
    }

    #[test]
    fn what_a_call_returned_is_bytes_of_those_that_move_some_and_below_0_an_error() {
        let moved = |call: &str, result| {
            CallRow { call: call.into(), result: Returned(result), ..CallRow::default() }.moved()
        };
        assert_eq!((moved("read", 100), moved("read (32-bit)", 0)), (Some(100), Some(0)));
        assert_eq!((moved("read", -11), moved("openat", 3)), (None, None));
        let error = |result| Returned(result).error();
        assert_eq!(
            (error(-2).as_deref(), error(-512).as_deref()),
            (Some("ENOENT"), Some("ERESTARTSYS"))
        );
        assert_eq!(
            (error(-41).as_deref(), error(-4095).as_deref()),
            (Some("error 41"), Some("error 4095"))
        );
        assert_eq!((error(0), error(-4096), error(i64::MIN)), (None, None, None));
    }

    #[test]
    #[allow(clippy::unwrap_used)]
    fn whose_pages_were_written_is_not_known_without_the_page_cache() {
        let foreign = COST_COLUMNS.iter().find(|c| c.name == "block_foreign_bytes_total").unwrap();
        let parts = |names: &[&str]| names.iter().map(|n| Subsystem::named(n).unwrap().bit()).sum();
        let known =
            |names: &[&str]| foreign.raw(&CallRow { measured: parts(names), ..CallRow::default() });
        assert_eq!((known(&["block"]), known(&["pagecache"])), (None, None));
        assert_eq!(known(&["block", "pagecache"]), Some(0));
    }

    #[test]
    #[allow(clippy::unwrap_used)]
    fn what_a_file_has_not_is_not_0_and_of_parts_that_nobody_looked_into_nothing_is_missing() {
        let named = |name| COST_COLUMNS.iter().find(|c| c.name == name).unwrap();
        let (queue, foreign) = (named("block_queue_seconds"), named("block_foreign_bytes_total"));
        let mut row =
            CallRow { measured: Subsystem::named("block").unwrap().bit(), ..CallRow::default() };
        assert_eq!(queue.raw(&row), Some(0));
        for column in [queue, foreign, named("udp_sent_bytes_total")] {
            column.set_absent(&mut row);
        }
        row.read_whole();
        let mut expected = CallRow { absent: Absent::default(), ..row.clone() };
        queue.set_absent(&mut expected);
        assert_eq!((queue.raw(&row), &row), (None, &expected));
        // Of several calls some of which have it not the sum is not known.
        row.account.set_number(queue.place, 7);
        assert_eq!(queue.raw(&row), None);
    }

    #[test]
    fn every_number_has_one_column_and_what_was_not_looked_into_has_none() {
        let names: HashSet<&str> = COST_COLUMNS.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names.len(), COST_COLUMNS.len());
        assert!(names.len() <= u128::BITS as usize, "a set has room for all");
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

    #[test]
    #[allow(clippy::unwrap_used)]
    fn what_came_later_is_of_a_part_each_but_what_pends_or_is_lost_and_known_where_it_was_put() {
        let nobodys: Vec<&str> =
            LATER_COLUMNS.iter().filter(|c| c.subsystem.is_none()).map(|c| c.field.name).collect();
        assert_eq!(nobodys, ["pending", "lost"]);
        let named = |name| LATER_COLUMNS.iter().find(|c| c.name == name).unwrap();
        let (written, work) =
            (named("later_block_written_bytes_total"), named("later_work_seconds"));
        let mut row = CallRow::default();
        written.set_raw(&mut row, 4096);
        assert_eq!((written.raw(&row), work.raw(&row), pending(&row)), (Some(4096), None, None));
        assert_eq!(written.of(row.account.later()), 4096);
        let block = Subsystem::named("block").unwrap().bit();
        let (foreign, pagecache) = (
            named("later_block_foreign_bytes_total"),
            Subsystem::named("pagecache").unwrap().bit(),
        );
        assert!(!foreign.is_seen(block) && foreign.is_seen(block | pagecache));
        assert!(
            written.is_seen(block)
                && !work.is_seen(block)
                && named("later_pending_total").is_seen(0)
        );
    }
}
