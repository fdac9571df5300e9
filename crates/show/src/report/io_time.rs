//! What was read and written over time, in the shape that the page wants: few enough columns for a screen,
//! a row for each of the processes that moved most, and a map of each of the files that were used most.
//!
//! Reads the rows of the recording's tables twice: once to see what there is ([`Survey`]), once to add it up
//! ([`OverTime`]). What it holds does not grow with the number of rows, but for one entry for each interval,
//! process and file.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use weigh_schema::io::{Moment, PlaceMoment};

/// So many columns fit beside each other.
const COLUMNS: usize = 160;
/// So many processes are shown.
const PROCESSES: usize = 16;
/// So many files are shown.
const FILES: usize = 8;

/// What was read and written over time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct IoOverTime {
    /// Where each column begins, in seconds since the start.
    pub from: Vec<f64>,
    /// Where it ends.
    pub to: Vec<f64>,
    /// Of all processes together.
    pub all: IoHeat,
    /// How many processes there are.
    pub processes_total: u64,
    /// Those that moved most.
    pub processes: Vec<ProcessHeat>,
    /// How many files there are whose places are known.
    pub files_total: u64,
    /// Those that were used most.
    pub files: Vec<FileHeat>,
}

/// A number for each column.
#[derive(Clone, Debug, Default, Serialize)]
pub struct IoHeat {
    /// Bytes read, by calls and mapped memory.
    pub read: Vec<u64>,
    /// Bytes written.
    pub written: Vec<u64>,
    /// Time in calls, in seconds, of all threads together.
    pub seconds: Vec<f64>,
}

/// A process.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessHeat {
    /// The process.
    pub pid: u32,
    /// The kernel's name for it.
    pub name: String,
    /// What it did.
    pub heat: IoHeat,
}

/// A file.
#[derive(Clone, Debug, Serialize)]
pub struct FileHeat {
    /// Its path.
    pub path: String,
    /// How many bytes of it each place has.
    pub place_bytes: u64,
    /// How many places there are, up to the last that was used.
    pub places: u32,
    /// Bytes read, place after place, all columns of each.
    pub read: Vec<u64>,
    /// Bytes written.
    pub written: Vec<u64>,
}

/// Which process: PIDs are given again, but seldom to one of the same name.
type Who = (u32, String);
/// Which file.
type Which = (u32, u64, String);

/// The first time through: what there is.
#[derive(Debug, Default)]
pub struct Survey {
    /// How long each interval was, by its end.
    intervals: BTreeMap<i64, f64>,
    processes: HashMap<Who, u64>,
    /// Bytes, the widest place, the furthest end of one.
    files: HashMap<Which, (u64, u64, u64)>,
}

impl Survey {
    /// Takes note of a row.
    pub fn moment(&mut self, row: &Moment) {
        self.intervals.insert(row.time_ns, row.seconds);
        if row.pid != 0 {
            *self.processes.entry(who(row)).or_default() += read(row) + written(row);
        }
    }

    /// Takes note of a place.
    pub fn place(&mut self, row: &PlaceMoment) {
        let (bytes, width, end) = self.files.entry(which(row)).or_default();
        *bytes += row.read_bytes + row.written_bytes;
        *width = (*width).max(row.to_bytes.saturating_sub(row.from_bytes));
        *end = (*end).max(row.to_bytes);
    }

    /// What is to be added up, of a job that began then and lasted so many seconds, if it has ended; none if there is
    /// nothing.
    pub fn choose(self, start_ns: i64, duration: Option<f64>) -> Option<OverTime> {
        let intervals: Vec<_> = self.intervals.into_iter().collect();
        let together = intervals.len().div_ceil(COLUMNS).max(1);
        let mut out = OverTime::default();
        for group in intervals.chunks(together) {
            let (first, last) = (group.first()?, group.last()?);
            let since_start = |time_ns: i64| time_ns.saturating_sub(start_ns) as f64 / 1e9;
            let from = (since_start(first.0) - first.1).max(0.0);
            out.add_column(rounded(from), rounded(since_start(last.0)), last.0, duration);
        }
        let columns = out.page.from.len();
        if columns == 0 {
            return None;
        }
        out.page.all = IoHeat::new(columns);
        out.page.processes_total = self.processes.len() as u64;
        out.page.files_total = self.files.len() as u64;
        for (who, _) in most(self.processes, PROCESSES, |bytes| *bytes) {
            let (pid, name) = who.clone();
            out.processes.insert(who, out.page.processes.len());
            out.page.processes.push(ProcessHeat { pid, name, heat: IoHeat::new(columns) });
        }
        for (which, (_, width, end)) in most(self.files, FILES, |(bytes, ..)| *bytes) {
            let places = end.div_ceil(width.max(1)) as u32;
            let path = which.2.clone();
            out.files.insert(which, out.page.files.len());
            let none = vec![0; places as usize * columns];
            let (read, written) = (none.clone(), none);
            out.page.files.push(FileHeat { path, place_bytes: width, places, read, written });
        }
        Some(out)
    }
}

/// The `number` that have most.
fn most<K: Ord + Clone, V>(
    all: HashMap<K, V>,
    number: usize,
    of: impl Fn(&V) -> u64,
) -> impl Iterator<Item = (K, V)> {
    let mut all: Vec<_> = all.into_iter().filter(|(_, value)| of(value) > 0).collect();
    all.sort_by_key(|(key, value)| (Reverse(of(value)), key.clone()));
    all.into_iter().take(number)
}

/// The second time through: adds up what was chosen.
#[derive(Debug, Default)]
pub struct OverTime {
    page: IoOverTime,
    /// The end of each column's last interval.
    ends: Vec<i64>,
    processes: HashMap<Who, usize>,
    files: HashMap<Which, usize>,
}

impl OverTime {
    /// Adds a column. What a look after the job's end has found happened before it, and is drawn there.
    fn add_column(&mut self, from: f64, to: f64, end_ns: i64, duration: Option<f64>) {
        let is_after_the_end = duration.is_some_and(|duration| from >= duration);
        match (self.page.to.last_mut(), self.ends.last_mut()) {
            (Some(last), Some(end)) if is_after_the_end => (*last, *end) = (to, end_ns),
            _ => {
                self.page.from.push(from);
                self.page.to.push(to);
                self.ends.push(end_ns);
            }
        }
    }

    /// Adds a row.
    pub fn moment(&mut self, row: &Moment) {
        let column = self.column(row.time_ns);
        self.page.all.add(column, row);
        if let Some(process) = self.processes.get(&who(row)) {
            self.page.processes[*process].heat.add(column, row);
        }
    }

    /// Adds a place.
    pub fn place(&mut self, row: &PlaceMoment) {
        let column = self.column(row.time_ns);
        let Some(file) = self.files.get(&which(row)) else { return };
        let file = &mut self.page.files[*file];
        let place = (row.from_bytes / file.place_bytes.max(1)) as usize;
        let at = place * self.ends.len() + column;
        // A row that came since the survey may lie beyond.
        if let (Some(read), Some(written)) = (file.read.get_mut(at), file.written.get_mut(at)) {
            *read += row.read_bytes;
            *written += row.written_bytes;
        }
    }

    fn column(&self, time_ns: i64) -> usize {
        self.ends.partition_point(|end| *end < time_ns).min(self.ends.len() - 1)
    }

    /// All of it.
    pub fn finish(mut self) -> IoOverTime {
        let heats = self.page.processes.iter_mut().map(|process| &mut process.heat);
        for heat in heats.chain([&mut self.page.all]) {
            heat.seconds.iter_mut().for_each(|seconds| *seconds = rounded(*seconds));
        }
        self.page
    }
}

impl IoHeat {
    fn new(columns: usize) -> IoHeat {
        IoHeat { read: vec![0; columns], written: vec![0; columns], seconds: vec![0.0; columns] }
    }

    fn add(&mut self, column: usize, row: &Moment) {
        self.read[column] += read(row);
        self.written[column] += written(row);
        self.seconds[column] += row.call_seconds;
    }
}

fn read(row: &Moment) -> u64 {
    row.read_bytes.unwrap_or(0) + row.mapped_read_bytes.unwrap_or(0)
}

fn written(row: &Moment) -> u64 {
    row.written_bytes.unwrap_or(0) + row.mapped_written_bytes.unwrap_or(0)
}

fn who(row: &Moment) -> Who {
    (row.pid, row.process.clone())
}

fn which(row: &PlaceMoment) -> Which {
    (row.device, row.inode, row.path.clone())
}

fn rounded(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn row(time_s: i64, pid: u32, read_bytes: u64) -> Moment {
        let process = format!("p{pid}");
        Moment {
            time_ns: time_s * SECOND,
            seconds: 1.0,
            pid,
            process,
            read_bytes: Some(read_bytes),
            call_seconds: 0.25,
            ..Moment::default()
        }
    }

    fn place(time_s: i64, from_bytes: u64, to_bytes: u64, written_bytes: u64) -> PlaceMoment {
        PlaceMoment {
            time_ns: time_s * SECOND,
            path: "/a".into(),
            from_bytes,
            to_bytes,
            written_bytes,
            ..PlaceMoment::default()
        }
    }

    fn drawn(rows: &[Moment], places: &[PlaceMoment]) -> IoOverTime {
        let mut survey = Survey::default();
        rows.iter().for_each(|row| survey.moment(row));
        places.iter().for_each(|row| survey.place(row));
        let mut over_time = survey.choose(100 * SECOND, Some(2000.0)).expect("something");
        rows.iter().for_each(|row| over_time.moment(row));
        places.iter().for_each(|row| over_time.place(row));
        over_time.finish()
    }

    #[test]
    fn nothing_makes_no_picture() {
        assert!(Survey::default().choose(0, None).is_none());
    }

    #[test]
    fn columns_are_intervals_and_rows_processes() {
        let page = drawn(&[row(101, 7, 10), row(101, 8, 30), row(103, 7, 5)], &[]);
        assert_eq!((page.from, page.to), (vec![0.0, 2.0], vec![1.0, 3.0]));
        assert_eq!(page.all.read, [40, 5]);
        assert_eq!(page.all.seconds, [0.5, 0.25]);
        let pids: Vec<_> = page.processes.iter().map(|process| process.pid).collect();
        assert_eq!((pids, page.processes_total), (vec![8, 7], 2));
        assert_eq!(page.processes[1].heat.read, [10, 5]);
    }

    #[test]
    fn what_a_look_after_the_end_has_found_is_drawn_before_it() {
        let rows = [row(101, 7, 10), row(102, 7, 5), row(103, 7, 3)];
        let mut survey = Survey::default();
        rows.iter().for_each(|row| survey.moment(row));
        let mut over_time = survey.choose(100 * SECOND, Some(1.5)).expect("something");
        rows.iter().for_each(|row| over_time.moment(row));
        let page = over_time.finish();
        assert_eq!((page.from, page.to), (vec![0.0, 1.0], vec![1.0, 3.0]));
        assert_eq!(page.all.read, [10, 8]);
    }

    #[test]
    fn many_intervals_share_columns_and_nothing_is_lost() {
        let rows: Vec<Moment> = (1..=1000).map(|i| row(100 + i, 7, i as u64)).collect();
        let page = drawn(&rows, &[]);
        assert!(page.from.len() <= COLUMNS && page.from.len() > COLUMNS / 2);
        assert_eq!(page.all.read.iter().sum::<u64>(), 1000 * 1001 / 2);
        assert_eq!((page.from[0], page.to[page.to.len() - 1]), (0.0, 1000.0));
    }

    #[test]
    fn places_that_grew_wider_fall_together() {
        let places =
            [place(101, 0, 4096, 1), place(101, 8192, 12288, 2), place(102, 8192, 16384, 4)];
        let page = drawn(&[row(101, 7, 0), row(102, 7, 0)], &places);
        let file = &page.files[0];
        assert_eq!((file.place_bytes, file.places), (8192, 2));
        assert_eq!(file.written, [1, 0, 2, 4]);
    }
}
