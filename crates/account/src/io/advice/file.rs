//! A file and all who used it, as rules look at it.

use std::collections::{BTreeMap, BTreeSet};

use weigh_schema::io::{Field, Numbers, Object};

use crate::io::file_use::seconds;
use crate::io::usage_table::RowState;

/// So many processes, in words.
pub(super) fn processes(count: usize) -> String {
    match count {
        1 => "1 process".to_string(),
        many => format!("{many} processes"),
    }
}

/// A file and all who used it.
#[derive(Default)]
pub(super) struct File {
    pub(super) object: Object,
    pub(super) numbers: Numbers,
    /// Bytes that each process read by calls.
    pub(super) read: Vec<u64>,
    /// How many processes read it, and how many wrote it.
    pub(super) movers: [usize; 2],
    /// How many processes opened it.
    pub(super) openers: usize,
}

impl File {
    pub(super) fn of(rows: &[(u32, &RowState)]) -> File {
        let object = rows.iter().map(|(_, row)| row.object).max().unwrap_or_default();
        let mut file = File { object, ..File::default() };
        let mut read: BTreeMap<u32, u64> = BTreeMap::new();
        let (mut movers, mut openers) = ([BTreeSet::new(), BTreeSet::new()], BTreeSet::new());
        for (pid, row) in rows.iter().map(|(pid, row)| (*pid, row.amounts())) {
            file.numbers.fold(&row.numbers);
            *read.entry(pid).or_default() += row.numbers.bytes_by_calls(0);
            for (way, movers) in movers.iter_mut().enumerate() {
                movers.extend((row.numbers.calls_of(way) > 0).then_some(pid));
            }
            openers.extend((row.numbers.get(Field::Opens) > 0).then_some(pid));
        }
        (file.movers, file.openers) = (movers.map(|pids| pids.len()), openers.len());
        file.read = read.into_values().collect();
        file
    }

    pub(super) fn get(&self, field: Field) -> u64 {
        self.numbers.get(field)
    }

    /// Time in a kind of calls, in seconds.
    pub(super) fn seconds(&self, field: Field) -> f64 {
        seconds(self.get(field))
    }

    pub(super) fn is_of_disk(&self) -> bool {
        matches!(self.object, Object::Regular | Object::Disk)
    }
}

/// Whether a part is so many of a hundred, or more.
pub(super) fn is_share(part: u64, whole: u64, share: u64) -> bool {
    whole > 0 && 100 * u128::from(part) >= u128::from(share) * u128::from(whole)
}
