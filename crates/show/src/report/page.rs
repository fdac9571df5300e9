//! The data of the page, in the shape that the page wants: words already chosen, tables by
//! column, times in seconds since the start.
//!
//! The TypeScript side's types are derived from these (see `tests/rendering/generated_types.rs`).

use serde::Serialize;
use std::collections::BTreeMap;

use weigh_schema::amount::show_amount;
use weigh_schema::event::CollectorStatus;
use weigh_schema::io::FileUse;
use weigh_schema::metric_name;
use weigh_schema::recording::ProcessRow;
use weigh_schema::summary::{Exit, FileSystemRoom, GpuUse, Host, Job, LimitOutcome, Summary};
use weigh_schema::{Group, METRICS, Mechanism, MetricKind, Number, Quality, Unit, Value};

use super::calls::CallsPage;
use super::columns::{Texts, seconds_since};
use super::io::{IoPage, io_page};
use super::io_details::FileDetails;
use super::io_time::IoOverTime;
use super::regions::RegionsPage;
use super::series::{JobSeries, SeriesRows};
use crate::digest::{advice, labelled};
use crate::document::{Bundle, bundle, document};
use crate::io::{Fold, device, mapped, pattern};
use crate::moments::{Moment, SHOWN, moment};
use crate::outcome::{Outcome, limit_words, outcome, show_signal};
use crate::text::shell_words;

/// The longest command a page carries, in characters.
const COMMAND_LENGTH: usize = 2_000;

const BUNDLE: Bundle = bundle!("report");

/// All that the page shows.
#[derive(Clone, Debug, Serialize)]
pub struct Page {
    /// The command, quoted for a shell.
    pub command: String,
    /// How it ended, in words.
    pub outcome: Outcome,
    /// What `weigh run` says of it.
    pub digest: Vec<DigestRow>,
    /// What limits it, if that can be said.
    pub advice: Option<String>,
    /// What was measured.
    pub job: Job,
    /// How it ended; null if no end was recorded.
    pub exit: Option<Exit>,
    /// Seconds from the start to the end of what was recorded.
    pub duration: f64,
    /// The headings, in order.
    pub groups: Vec<GroupTitle>,
    /// Every metric, in the order of its declaration.
    pub metrics: Vec<MetricRow>,
    /// The limits that were set.
    pub limits: Vec<LimitRow>,
    /// The metrics that are shown of each snapshot.
    pub snapshot_metrics: Vec<&'static str>,
    /// The snapshots.
    pub snapshots: Vec<Moment>,
    /// The collectors that were used.
    pub collectors: Vec<CollectorStatus>,
    /// What processes did with GPUs.
    pub gpus: Vec<GpuUse>,
    /// Where it ran.
    pub host: Host,
    /// The room on the file systems that it used.
    pub file_systems: Vec<FileSystemRoom>,
    /// Samples of the whole job, by the name of the series.
    pub series: BTreeMap<String, SeriesRows>,
    /// The processes.
    pub processes: Processes,
    /// The files.
    pub files: Files,
    /// What was read and written; null unless `--io` followed it.
    pub io: Option<IoPage>,
    /// The same over time; null where nothing was.
    pub io_over_time: Option<IoOverTime>,
    /// Regions that programs name; null where none did.
    pub regions: Option<RegionsPage>,
    /// What system calls cost; null unless `--calls` followed them.
    pub calls: Option<CallsPage>,
}

impl Page {
    /// The page, as one file.
    pub fn html(&self) -> String {
        let title = format!("{} · weigh", self.command);
        let instead = "This page draws itself with a script. The numbers are in summary.json beside it, \
                       and `weigh show` prints them.";
        document(&BUNDLE, &title, instead, &self.host.weigh, self)
    }

    /// Has it told which tables could not be read.
    pub fn set_unreadable(&mut self, sentence: Option<String>) {
        let row = |text| DigestRow { label: "damaged".to_string(), text };
        self.digest.extend(sentence.map(row));
    }

    /// Has the slowest calls that were about files told, in words.
    pub fn set_slowest(&mut self, slowest: Vec<String>) {
        self.io.iter_mut().for_each(|io| io.slowest.clone_from(&slowest));
    }
}

/// A line of the digest.
#[derive(Clone, Debug, Serialize)]
pub struct DigestRow {
    /// What it is about; empty if that is what the one before it is about.
    pub label: String,
    /// The numbers, in words.
    pub text: String,
}

/// A heading.
#[derive(Clone, Debug, Serialize)]
pub struct GroupTitle {
    /// The group.
    pub group: Group,
    /// Its title.
    pub title: &'static str,
}

/// A metric: its declaration and its value.
#[derive(Clone, Debug, Serialize)]
pub struct MetricRow {
    /// Its name.
    pub name: &'static str,
    /// One line about it.
    pub help: &'static str,
    /// What exactly it counts.
    pub counts: &'static str,
    /// Its heading.
    pub group: Group,
    /// How it behaves.
    pub kind: MetricKind,
    /// Its unit.
    pub unit: Unit,
    /// The name of its series, if it has one.
    pub series: Option<&'static str>,
    /// The number; null if it is not known.
    pub value: Option<Number>,
    /// The number for people; null if it is not known.
    pub text: Option<String>,
    /// How it was got.
    pub source: Mechanism,
    /// How far it can be trusted.
    pub quality: Quality,
    /// Why it is not exact.
    pub reason: Option<String>,
}

/// A limit.
#[derive(Clone, Debug, Serialize)]
pub struct LimitRow {
    /// What became of it, in words.
    pub words: String,
    /// What became of it.
    pub outcome: LimitOutcome,
}

/// The processes, by column.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Processes {
    /// How many there are in the recording.
    pub total: u64,
    /// Names and commands, each once; other columns point here.
    pub texts: Vec<String>,
    /// The PIDs.
    pub pid: Vec<u32>,
    /// The parents' PIDs.
    pub parent: Vec<u32>,
    /// The users.
    pub uid: Vec<u32>,
    /// The kernel's names, as indices into `texts`.
    pub name: Vec<u32>,
    /// The commands, as indices into `texts`.
    pub command: Vec<u32>,
    /// Start, in seconds since the job's start.
    pub start: Vec<f64>,
    /// End, in seconds since the job's start; null if it was alive at the end.
    pub end: Vec<Option<f64>>,
    /// How each ended, in words; as indices into `texts`.
    pub ended: Vec<u32>,
    /// Whether each ended by a signal or with an exit code other than 0.
    pub failed: Vec<bool>,
    /// Their metrics by name; null where one is not known.
    pub metrics: BTreeMap<&'static str, Vec<Option<Number>>>,
}

/// The files, by column: one row for each file and process.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Files {
    /// How many rows there are in the recording.
    pub total: u64,
    /// Paths, each once.
    pub paths: Vec<String>,
    /// The path, as an index into `paths`.
    pub path: Vec<u32>,
    /// The process.
    pub pid: Vec<u32>,
    /// How often it opened the file.
    pub opened: Vec<u64>,
    /// Whether every open is in it.
    pub quality: Vec<Quality>,
    /// Whether it has a row of its own, as in `weigh io`.
    pub fold: Vec<Fold>,
    /// Whether a call on it waits for another process: a pipe, a socket, a terminal.
    pub is_waited_at: Vec<bool>,
    /// What else was done with them; null unless `--io` followed it.
    pub used: Option<FilesUsed>,
}

/// What was done with files, by column: as many rows as the files have.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FilesUsed {
    /// Time in calls, in seconds.
    pub seconds: Vec<f64>,
    /// Bytes read by calls; none where they are not known.
    pub read: Vec<Option<u64>>,
    /// Calls that read.
    pub reads: Vec<Option<u64>>,
    /// Bytes written by calls.
    pub written: Vec<Option<u64>>,
    /// Calls that write.
    pub writes: Vec<Option<u64>>,
    /// Whether these are lower bounds.
    pub is_bound: Vec<bool>,
    /// Bytes moved by mapped memory.
    pub mapped: Vec<u64>,
    /// Bytes that devices read for it.
    pub from_device: Vec<u64>,
    /// Bytes of it that devices wrote.
    pub to_device: Vec<u64>,
    /// The thread; 0 where threads are not told apart.
    pub tid: Vec<u32>,
    /// The commonest way through the file, and its share.
    pub pattern: Vec<String>,
    /// What else is known of each.
    pub details: FileDetails,
}

/// The data of the page, without what only some recordings have. `processes_total` says how many there are in all,
/// where the caller passes fewer.
pub fn page(
    summary: &Summary,
    series: JobSeries,
    processes: &[ProcessRow],
    files: Files,
    processes_total: u64,
) -> Page {
    let start_ns = i64::try_from(summary.job.started.as_nanosecond()).unwrap_or(i64::MAX);
    let series = series.finish();
    let processes = process_columns(processes, start_ns, processes_total);
    Page {
        command: shell_words(&summary.job.command),
        outcome: outcome(summary),
        digest: labelled(summary)
            .into_iter()
            .map(|[label, text]| DigestRow { label, text })
            .collect(),
        advice: advice(summary),
        job: summary.job.clone(),
        exit: summary.exit.clone(),
        duration: duration(summary, &series, &processes),
        groups: Group::ALL.iter().map(|g| GroupTitle { group: *g, title: g.title() }).collect(),
        metrics: metric_rows(summary),
        limits: summary
            .limits
            .iter()
            .map(|l| LimitRow { words: limit_words(l), outcome: l.clone() })
            .collect(),
        snapshot_metrics: SHOWN.to_vec(),
        snapshots: summary.snapshots.iter().map(moment).collect(),
        collectors: summary.collectors.clone(),
        gpus: summary.gpus.clone(),
        host: summary.host.clone(),
        file_systems: summary.file_systems.clone(),
        series,
        processes,
        files,
        io: summary.io.as_deref().map(io_page),
        io_over_time: None,
        regions: None,
        calls: None,
    }
}

fn metric_rows(summary: &Summary) -> Vec<MetricRow> {
    METRICS
        .iter()
        .map(|m| {
            let missing = || Value::unavailable(m.unit, "not in this recording");
            let value = summary.metrics.get(m.name).cloned().unwrap_or_else(missing);
            MetricRow {
                name: m.name,
                help: m.help,
                counts: m.counts,
                group: m.group,
                kind: m.kind,
                unit: m.unit,
                series: m.series,
                text: value.number().map(|n| show_amount(n, m.unit)),
                value: value.value,
                source: value.source,
                quality: value.quality,
                reason: value.reason,
            }
        })
        .collect()
}

/// How long what was recorded lasted. A series or a process may reach further than the wall time
/// (a daemon that is left over), and a recording that was cut short has no wall time.
fn duration(
    summary: &Summary,
    series: &BTreeMap<String, SeriesRows>,
    processes: &Processes,
) -> f64 {
    let wall = summary.metrics.get(metric_name::wall_seconds).and_then(Value::number);
    let samples = series.values().filter_map(|s| s.at.last().copied());
    let ends = processes.end.iter().flatten().copied();
    let starts = processes.start.iter().copied();
    wall.into_iter().chain(samples).chain(ends).chain(starts).fold(0.0, f64::max)
}

fn process_columns(rows: &[ProcessRow], start_ns: i64, total: u64) -> Processes {
    let mut texts = Texts::default();
    let mut out = Processes { total: total.max(rows.len() as u64), ..Processes::default() };
    for row in rows {
        out.pid.push(row.pid);
        out.parent.push(row.parent);
        out.uid.push(row.uid);
        out.name.push(texts.add(&row.name));
        out.command.push(texts.add(&shortened(&row.command)));
        out.start.push(seconds_since(start_ns, row.started_ns));
        out.end.push(row.ended_ns.map(|end| seconds_since(start_ns, end)));
        out.ended.push(texts.add(&ended(row)));
        out.failed.push(row.exit_signal.is_some() || row.exit_code.is_some_and(|c| c != 0));
    }
    for metric in ProcessRow::metric_columns() {
        let column: Vec<_> = rows.iter().map(|r| r.metrics.get(metric.name).copied()).collect();
        if column.iter().any(Option::is_some) {
            out.metrics.insert(metric.name, column);
        }
    }
    out.texts = texts.into_list();
    out
}

fn shortened(command: &str) -> String {
    match command.char_indices().nth(COMMAND_LENGTH) {
        Some((end, _)) => format!("{}…", &command[..end]),
        None => command.to_string(),
    }
}

fn ended(row: &ProcessRow) -> String {
    match (row.ended_ns, row.exit_code, row.exit_signal) {
        (None, _, _) => "alive at the end".to_string(),
        (_, _, Some(signal)) => {
            format!("ended by {}", show_signal(i32::try_from(signal).unwrap_or(0)))
        }
        (_, Some(code), None) => format!("exited {code}"),
        (_, None, None) => "ended".to_string(),
    }
}

/// The columns of the files, filled row by row: a row takes many times the room that it takes here.
#[derive(Default)]
pub struct FileColumns {
    paths: Texts,
    files: Files,
    used: FilesUsed,
    is_used: bool,
}

impl FileColumns {
    /// Takes a row in.
    pub fn push(&mut self, row: &FileUse) {
        self.files.path.push(self.paths.add(&row.name));
        self.files.pid.push(row.pid);
        self.files.opened.push(row.opens());
        self.files.quality.push(row.opens_quality.unwrap_or(Quality::Exact));
        self.files.fold.push(Fold::of_use(row));
        self.files.is_waited_at.push(row.object.is_waited_at());
        self.used.push(row);
        self.is_used |= row.is_followed();
    }

    /// The columns; what was done with files is among them if any of them was followed.
    pub fn finish(self, total: u64) -> Files {
        let FileColumns { paths, files, used, is_used } = self;
        let total = total.max(files.path.len() as u64);
        Files { total, paths: paths.into_list(), used: is_used.then_some(used), ..files }
    }
}

impl FilesUsed {
    fn push(&mut self, used: &FileUse) {
        let totals = &used.totals;
        let [from_device, to_device] = device(totals);
        self.from_device.push(from_device);
        self.to_device.push(to_device);
        self.tid.push(used.tid.unwrap_or(0));
        let by = totals.by_calls;
        self.seconds.push((totals.seconds() * 1e6).round() / 1e6);
        let (reads, writes) = (!by.unseen.reads, !by.unseen.writes);
        self.read.push(reads.then_some(by.read_bytes));
        self.reads.push(reads.then_some(by.read_calls));
        self.written.push(writes.then_some(by.written_bytes));
        self.writes.push(writes.then_some(by.write_calls));
        self.is_bound.push(used.is_bound());
        self.mapped.push(mapped(totals));
        self.pattern.push(pattern(totals));
        self.details.push(used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What is not known of a file is no zero on the page.
    #[test]
    fn what_is_not_known_of_a_file_is_none() {
        let used = json!({
            "name": "/a", "object": "regular", "pid": 7, "process": "cat", "device": 1, "inode": 2,
            "written_bytes": 5, "write_calls": 1, "by_kind": {}, "numbers": {},
            "moved_quality": "estimated", "moves_unseen": true, "again_quality": "estimated",
        });
        let used: FileUse = serde_json::from_value(used).expect("a row");
        let mut files = FilesUsed::default();
        files.push(&used);
        assert_eq!((files.read, files.written), (vec![None], vec![Some(5)]));
        assert_eq!(files.is_bound, [true]);
    }
}
