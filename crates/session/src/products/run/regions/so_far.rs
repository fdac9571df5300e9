//! Regions of programs that run: which rows are recorded before their process has ended, and when.
//!
//! Once a second while somebody watches the recording, else the rarer the longer the job runs; never for more than 1 % of
//! a CPU. Takes rows; emits those that have changed, so many at a time.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use weigh_collect::clock;
use weigh_schema::region::RegionRow;

/// From one look to the next while somebody watches.
const WATCHED: Duration = Duration::from_secs(1);
/// While nobody does, at least; and at least this part of the time that the job has taken.
const UNWATCHED: Duration = Duration::from_secs(10);
const UNWATCHED_PART: u32 = 10;
/// A look takes so small a part of the time until the next one.
const REST: u32 = 100;
/// Rows of one look, and of a recording.
const ROWS_AT_ONCE: usize = 1_000;
const ROWS: u64 = 1_000_000;
/// Places whose rows are known.
const PLACES: usize = 100_000;

/// What was recorded of programs that run.
pub(super) struct RegionsSoFar {
    begun: Instant,
    looked: Instant,
    cost: Duration,
    /// By place and thread: the row that was recorded last.
    known: HashMap<u64, u64>,
    rows: u64,
}

impl RegionsSoFar {
    pub fn new() -> RegionsSoFar {
        let now = Instant::now();
        let (cost, known) = (Duration::ZERO, HashMap::new());
        RegionsSoFar { begun: now, looked: now, cost, known, rows: 0 }
    }

    /// Whether to look now.
    pub fn is_due(&self, is_watched: bool) -> bool {
        let apart = match is_watched {
            true => WATCHED,
            false => UNWATCHED.max(self.begun.elapsed() / UNWATCHED_PART),
        };
        self.rows < ROWS && self.looked.elapsed() >= apart.max(self.cost * REST)
    }

    /// A look that begins now.
    pub fn begin(&mut self) -> Look<'_> {
        if self.known.len() > PLACES {
            self.known.clear();
        }
        Look { began_ns: clock::thread_cpu_ns(), left: ROWS_AT_ONCE, so_far: self }
    }
}

/// One look at all processes.
pub(super) struct Look<'a> {
    so_far: &'a mut RegionsSoFar,
    began_ns: u64,
    left: usize,
}

impl Look<'_> {
    /// Whether a row is another one than was recorded last, and there is room for it: it is recorded then.
    pub fn takes(&mut self, row: &RegionRow) -> bool {
        if self.left == 0 {
            return false;
        }
        let is_new = self.so_far.known.insert(place(row), values(row)) != Some(values(row));
        self.left -= usize::from(is_new);
        self.so_far.rows += u64::from(is_new);
        is_new
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        let cost = clock::thread_cpu_ns().saturating_sub(self.began_ns);
        (self.so_far.looked, self.so_far.cost) = (Instant::now(), Duration::from_nanos(cost));
    }
}

fn place(row: &RegionRow) -> u64 {
    let mut hasher = DefaultHasher::new();
    (row.process, row.thread, row.kind.name(), &row.path).hash(&mut hasher);
    hasher.finish()
}

fn values(row: &RegionRow) -> u64 {
    let mut hasher = DefaultHasher::new();
    let open = row.open_seconds.map(f64::to_bits);
    (row.calls, row.inclusive_seconds.to_bits(), row.open_calls, open).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(thread: u32, calls: u64) -> RegionRow {
        RegionRow { thread, calls, ..RegionRow::default() }
    }

    #[test]
    fn what_has_not_changed_is_not_recorded_again() {
        let mut so_far = RegionsSoFar::new();
        let mut look = so_far.begin();
        assert!(look.takes(&row(1, 7)) && look.takes(&row(2, 7)) && !look.takes(&row(1, 7)));
        drop(look);
        let mut look = so_far.begin();
        assert!(!look.takes(&row(2, 7)) && look.takes(&row(2, 8)));
        drop(look);
        assert_eq!(so_far.rows, 3);
    }

    #[test]
    fn a_look_has_so_many_rows_and_others_come_next_time() {
        let mut so_far = RegionsSoFar::new();
        let rows: Vec<RegionRow> = (0..1500).map(|thread| row(thread, 1)).collect();
        let taken = |so_far: &mut RegionsSoFar| {
            let mut look = so_far.begin();
            rows.iter().filter(|row| look.takes(row)).count()
        };
        assert_eq!((taken(&mut so_far), taken(&mut so_far), taken(&mut so_far)), (1000, 500, 0));
    }

    #[test]
    fn it_is_looked_more_often_while_somebody_watches() {
        let mut so_far = RegionsSoFar::new();
        assert!(!so_far.is_due(true) && !so_far.is_due(false));
        so_far.looked -= WATCHED;
        assert!(so_far.is_due(true) && !so_far.is_due(false));
        so_far.looked -= UNWATCHED;
        assert!(so_far.is_due(false));
        so_far.begun -= 100 * UNWATCHED;
        assert!(!so_far.is_due(false), "a long job: more rarely");
        so_far.cost = UNWATCHED;
        assert!(!so_far.is_due(true), "it is dear");
        (so_far.cost, so_far.rows) = (Duration::ZERO, ROWS);
        assert!(!so_far.is_due(true), "there are enough");
    }
}
