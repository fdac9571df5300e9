//! What a job that runs is busy with: its files, connections, phases and syscalls, each with sums and present rates.
//!
//! Reads the entries of its journal in their order; emits rows. Holds so many rows of a kind: beyond them those with
//! least time go, which come back whole when they are told of again.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use weigh_schema::busiest::Amounts;
use weigh_schema::call::CallsReport;
use weigh_schema::io::{FileUse, Object};
use weigh_schema::region::{PhaseRow, RegionKind, RegionRow};
use weigh_schema::update::{Scope, Update};

use crate::part_totals::PartTotals;

/// Rows of one kind and job: beyond them half of them go.
const ROWS_MOST: usize = 1024;
/// A rate is over so long at least, in nanoseconds of the job's samples.
const WINDOW_NS: i64 = 2_000_000_000;
/// What was not told of for so long rests.
const REST_NS: i64 = 5_000_000_000;
/// A longer name is cut: it is the page's to show, and not to open anything by.
const NAME_BYTES: usize = 512;

/// One thing that a job is busy with, or a part of it: what one process does.
#[derive(Clone, Debug)]
struct ActivityRow {
    name: String,
    total: Amounts,
    /// What the total was, and when: what the rate is over.
    base: (Amounts, i64),
    /// When it was told of last.
    told_ns: i64,
    /// Whether it is told of only now and then, and goes on meanwhile.
    is_so_far: bool,
}

impl ActivityRow {
    /// The growth in a second, now; none where that is not known.
    fn rate(&self, now_ns: i64) -> Option<Amounts> {
        let (base, base_ns) = self.base;
        let until_ns = if self.is_so_far { self.told_ns } else { now_ns };
        let span_ns = until_ns - base_ns;
        if span_ns <= 0 || now_ns - self.told_ns > REST_NS {
            return (!self.is_so_far).then(Amounts::default);
        }
        let seconds = span_ns as f64 / 1e9;
        Some(self.total.zip(base, |total, base| (total - base).max(0.0) / seconds))
    }

    fn set(&mut self, total: Amounts, now_ns: i64) {
        // What is told of at one time, part by part, is one step.
        if now_ns - self.base.1 > WINDOW_NS && self.told_ns < now_ns {
            self.base = (self.total, self.told_ns);
        }
        (self.total, self.told_ns) = (total, now_ns);
    }
}

/// All that a job does of one kind.
#[derive(Debug, Default)]
pub(crate) struct ActivityTable {
    rows: HashMap<u64, ActivityRow>,
    /// Whether any were let go.
    is_cut: bool,
    /// When the table was told of anything before, and now.
    told_ns: [i64; 2],
    /// Of names that are told of part by part: what their parts have done.
    parts: PartTotals,
    /// Whether all that has changed is told of at once, now and then.
    is_by_parts: bool,
}

/// Sums and rates of one name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NamedActivity {
    pub(crate) total: Amounts,
    /// None where it is not known of one of them.
    pub(crate) rate: Option<Amounts>,
}

impl ActivityTable {
    /// Something is told of it now, or that nothing has changed.
    fn tell(&mut self, now_ns: i64) {
        if self.told_ns[1] != now_ns {
            self.told_ns = [self.told_ns[1], now_ns];
        }
    }

    /// The total of a row is this now.
    fn set(&mut self, key: u64, name: &str, total: Amounts, now_ns: i64) {
        self.tell(now_ns);
        if let Some(row) = self.rows.get_mut(&key) {
            return row.set(total, now_ns);
        }
        self.make_room();
        // A row that was let go has done most of its total long ago; a new one all of it since the last time.
        let base = match (self.is_cut, self.told_ns[0]) {
            (false, before) if before > 0 => (Amounts::default(), before),
            _ => (total, now_ns),
        };
        let name = crate::api::first_bytes(name, NAME_BYTES).to_string();
        let (told_ns, is_so_far) = (now_ns, false);
        self.rows.insert(key, ActivityRow { name, total, base, told_ns, is_so_far });
    }

    /// The total of a part of the row of that name is this now.
    fn set_part(&mut self, key: u64, name: &str, total: Amounts, now_ns: i64) {
        self.is_by_parts = true;
        let of_name = key_of(name);
        let more = self.parts.grow(key, of_name, total, now_ns);
        let known = self.rows.get(&of_name).map(|row| row.total);
        let sum = match known {
            Some(sum) => sum.plus(more),
            // It was let go, maybe, and comes back whole.
            None if self.is_cut => self.parts.total(of_name),
            None => more,
        };
        self.set(of_name, name, sum, now_ns);
        let before = self.told_ns[0];
        if let Some(row) = self.rows.get_mut(&of_name).filter(|_| known.is_none() && before > 0) {
            row.base = (sum.zip(more, |sum, more| sum - more), before);
        }
    }

    /// The growth of a row in a second: now, or as it was told of last; none where that is not known.
    fn rate(&self, row: &ActivityRow, now_ns: i64) -> Option<Amounts> {
        if !self.is_by_parts {
            return row.rate(now_ns);
        }
        let [before, told] = self.told_ns;
        let span_ns = told - row.base.1;
        if now_ns - told > REST_NS.max(2 * (told - before)) || span_ns <= 0 {
            return None;
        }
        let is_resting = told - row.told_ns > REST_NS;
        let seconds = span_ns as f64 / 1e9;
        let grown = row.total.zip(row.base.0, |total, base| (total - base).max(0.0) / seconds);
        Some(if is_resting { Amounts::default() } else { grown })
    }

    /// So much more is in the row of that name.
    fn add(&mut self, name: &str, more: Amounts, now_ns: i64) {
        let key = key_of(name);
        let before = self.rows.get(&key).map_or(Amounts::default(), |row| row.total);
        self.set(key, name, before.plus(more), now_ns);
    }

    /// So much more was done in the row of that name, over a time that is not known: it is in no rate.
    fn add_old(&mut self, name: &str, more: Amounts, now_ns: i64) {
        let key = key_of(name);
        let is_new = !self.rows.contains_key(&key);
        self.add(name, more, now_ns);
        if let Some(row) = self.rows.get_mut(&key) {
            row.base.0 = if is_new { row.total } else { row.base.0.plus(more) };
        }
    }

    /// The total of a row is this now. Of a new one nobody knows over which time: it is in no rate.
    fn set_so_far(&mut self, key: u64, name: &str, total: Amounts, now_ns: i64) {
        let is_new = !self.rows.contains_key(&key);
        self.set(key, name, total, now_ns);
        if let Some(row) = self.rows.get_mut(&key).filter(|_| is_new) {
            (row.base, row.is_so_far) = ((total, now_ns), true);
        }
    }

    /// A row that stood alone is over with this total: it is in the row of its name from now on.
    fn close(&mut self, key: u64, name: &str, total: Amounts, now_ns: i64) {
        self.rows.remove(&key);
        self.add_old(name, total, now_ns);
    }

    fn make_room(&mut self) {
        if self.rows.len() < ROWS_MOST {
            return;
        }
        self.is_cut = true;
        let mut seconds: Vec<f64> = self.rows.values().map(|row| row.total.seconds).collect();
        let (_, median, _) = seconds.select_nth_unstable_by(ROWS_MOST / 2, f64::total_cmp);
        let median = *median;
        let mut left = ROWS_MOST / 2;
        self.rows.retain(|_, row| {
            let stays = left > 0 && row.total.seconds >= median;
            left -= usize::from(stays);
            stays
        });
    }

    /// Sums by name.
    pub(crate) fn by_name(&self, now_ns: i64) -> HashMap<&str, NamedActivity> {
        let mut found: HashMap<&str, NamedActivity> = HashMap::new();
        for row in self.rows.values() {
            let nothing = Amounts::default();
            let first = NamedActivity { total: nothing, rate: Some(nothing) };
            let sum = found.entry(&row.name).or_insert(first);
            sum.total = sum.total.plus(row.total);
            let rates = sum.rate.zip(self.rate(row, now_ns));
            sum.rate = rates.map(|(sum, rate)| sum.plus(rate));
        }
        found
    }

    /// Whether rows were let go.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }
}

fn amounts_of(used: &FileUse) -> Amounts {
    let moved = &used.totals.by_calls;
    Amounts {
        seconds: used.totals.seconds(),
        calls: (moved.read_calls + moved.write_calls) as f64,
        read_bytes: moved.read_bytes as f64,
        written_bytes: moved.written_bytes as f64,
    }
}

fn key_of(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// The kinds of activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActivityKind {
    Files,
    Connections,
    Phases,
    Syscalls,
}

impl ActivityKind {
    pub(crate) const ALL: [ActivityKind; 4] = [
        ActivityKind::Files,
        ActivityKind::Connections,
        ActivityKind::Phases,
        ActivityKind::Syscalls,
    ];
}

/// What a job is busy with.
#[derive(Debug, Default)]
pub(crate) struct JobActivity {
    tables: [ActivityTable; ActivityKind::ALL.len()],
    /// Of which kinds the recording holds anything.
    is_recorded: [bool; ActivityKind::ALL.len()],
    /// The time of its latest sample.
    now_ns: i64,
}

impl JobActivity {
    /// Takes in an entry of the journal.
    pub(crate) fn take(&mut self, entry: &Update) {
        match entry {
            Update::Samples { time_ns, scope: Scope::Job, .. } => {
                self.now_ns = self.now_ns.max(*time_ns);
            }
            Update::IoTotals(_) => {
                // It stands behind the rows of all files that have changed.
                let now_ns = self.now_ns;
                self.table(ActivityKind::Files).tell(now_ns);
                self.table(ActivityKind::Connections).tell(now_ns);
            }
            Update::FileUse(row) | Update::FileUseSoFar(row) => self.take_file(row),
            Update::Phase(row) => self.take_phase(row),
            Update::Region(row) => self.take_region(row, ActivityTable::close),
            Update::RegionSoFar(row) => self.take_region(row, ActivityTable::set_so_far),
            Update::SyscallTotals(report) => self.take_syscalls(report),
            _ => {}
        }
    }

    fn take_file(&mut self, used: &FileUse) {
        let kind = match used.object {
            _ if !used.is_followed() => return,
            Object::Socket | Object::Pipe => ActivityKind::Connections,
            Object::Terminal | Object::Anonymous => return,
            _ => ActivityKind::Files,
        };
        let key = key_of((used.pid, used.tid, used.device, used.inode, used.generation));
        let name = used.later_name.as_deref().unwrap_or(&used.name);
        let now_ns = self.now_ns;
        self.table(kind).set_part(key, name, amounts_of(used), now_ns);
    }

    fn take_phase(&mut self, row: &PhaseRow) {
        self.now_ns = self.now_ns.max(row.ended_ns);
        let seconds = (row.ended_ns - row.started_ns).max(0) as f64 / 1e9;
        let more = Amounts { seconds, calls: 1.0, ..Amounts::default() };
        let now_ns = self.now_ns;
        self.table(ActivityKind::Phases).add(&row.name, more, now_ns);
    }

    /// At one place in the call tree of one thread. Phases are told of one by one.
    fn take_region(
        &mut self,
        row: &RegionRow,
        take: fn(&mut ActivityTable, u64, &str, Amounts, i64),
    ) {
        if row.kind != RegionKind::Region {
            return;
        }
        let (seconds, calls) = (row.exclusive_seconds, row.calls as f64);
        let total = Amounts { seconds, calls, ..Amounts::default() };
        let key = key_of((row.process, row.thread, &row.path));
        let now_ns = self.now_ns;
        take(self.table(ActivityKind::Phases), key, &row.name, total, now_ns);
    }

    fn take_syscalls(&mut self, report: &CallsReport) {
        for call in &report.calls {
            let total = Amounts {
                seconds: call.time_seconds,
                calls: call.calls_total as f64,
                read_bytes: 0.0,
                written_bytes: 0.0,
            };
            let (key, now_ns) = (key_of((&call.call, &call.of)), self.now_ns);
            self.table(ActivityKind::Syscalls).set_part(key, &call.call, total, now_ns);
        }
    }

    /// The table of a kind, which is recorded then.
    fn table(&mut self, kind: ActivityKind) -> &mut ActivityTable {
        self.is_recorded[kind as usize] = true;
        &mut self.tables[kind as usize]
    }

    /// What it does of a kind; none where its recording holds nothing of it.
    pub(crate) fn recorded(&self, kind: ActivityKind) -> Option<&ActivityTable> {
        self.is_recorded[kind as usize].then(|| &self.tables[kind as usize])
    }

    /// The time of its latest sample, nanoseconds since the Unix epoch.
    pub(crate) fn now_ns(&self) -> i64 {
        self.now_ns
    }
}
