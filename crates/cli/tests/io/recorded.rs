//! `weigh run --io`: what `weigh io` tells, in a recording, whole or cut short.

use std::collections::BTreeSet;

use crate::support::run::{Weigh, weigh};
use crate::support::{processes, workload};
use weigh_keep::Recording;
use weigh_schema::io::{FileUse, Moment};
use weigh_schema::{Quality, Value};

const BYTES: u64 = 1_000_003;
const CHUNK: u64 = 1021;
const CALLS: u64 = 980;
const PAGE: u64 = 4096;

/// What was done with the one file whose path ends so.
#[track_caller]
fn used(rows: &[FileUse], end: &str) -> FileUse {
    let mut found = rows.iter().filter(|row| row.name.ends_with(end));
    let row = found.next().unwrap_or_else(|| panic!("no row of {end} in {rows:#?}"));
    assert!(found.next().is_none(), "several rows of {end}");
    row.clone()
}

fn found_metrics(recording: &Recording) -> &std::collections::BTreeMap<String, Value> {
    &recording.summary().metrics
}

#[test]
fn a_recording_has_every_file_and_its_sums() {
    needs_root!();
    let script = format!(
        "{io} write {BYTES} {CHUNK} target; {access} sparse hole 77; {access} syncs log 30",
        io = workload("io"),
        access = workload("access"),
    );
    let measured = Weigh::bash(&script).option("--io").measure();
    let rows = measured.files();
    let writer = rows
        .iter()
        .find(|row| row.name.ends_with("/target") && row.totals.by_calls.write_calls > 0);
    let writer = writer.expect("the file was written");
    let by = writer.totals.by_calls;
    assert_eq!((by.written_bytes, by.write_calls, by.read_calls), (BYTES, CALLS, 0));
    // Every row is of this source; none comes a second time by another one.
    assert!(rows.iter().all(FileUse::is_followed), "{rows:#?}");
    let found = measured.summary().io.as_deref().expect("a section of its own");
    assert_eq!(found.uses_total as usize, rows.len());
    assert_eq!(found.wall_seconds, measured.number("wall_seconds"), "both are of the same time");
    let last = |row: &FileUse| row.totals.numbers.get("last_seconds").copied();
    let last = rows.iter().filter_map(last).map(|number| number.as_f64()).fold(0.0, f64::max);
    assert!(last > 0.0 && last <= found.wall_seconds, "{last} {}", found.wall_seconds);
    let sum: u64 = rows.iter().map(|row| row.totals.by_calls.written_bytes).sum();
    assert_eq!(sum, found.totals.by_calls.written_bytes);
    assert!(found.advice.iter().any(|advice| advice.rule == "fsync_each_write"), "{found:#?}");
    let hole = used(&rows, "/hole").totals.by_kind.get("mapped").copied().unwrap_or_default();
    assert_eq!(hole.read_bytes, 77 * PAGE);
    let mapped = rows.iter().filter_map(|row| row.totals.by_kind.get("mapped"));
    let mapped: u64 = mapped.map(|kind| kind.read_bytes).sum();
    assert_eq!(measured.number("mmap_read_bytes_total"), mapped as f64);
    // Some of it came from a hole, of which nobody knows how much was read.
    assert_eq!(measured.value("mmap_read_bytes_total").quality, Quality::Estimated);
    let shown = weigh(
        &measured.scratch,
        &["show", "--details", &measured.scratch.path("recording").display().to_string()],
    );
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("[fsync_each_write]") && shown.contains("written by"), "{shown}");
    let page = measured.scratch.text("recording/report.html");
    assert!(page.contains("fsync_each_write"), "the page has the advice");
}

/// That stores are missed says nothing of reads, and what was seen of stores is a lower bound.
#[test]
fn what_mapped_memory_has_read_is_known_where_it_was_written_too() {
    needs_root!();
    let access = workload("access");
    let script = format!("{access} sparse hole 77; {access} store stored 30");
    let measured = Weigh::bash(&script).option("--io").measure();
    let read = measured.value("mmap_read_bytes_total");
    // Holes are no reads, and nothing tells of which pages they are.
    assert_eq!(read.quality, Quality::Estimated, "{read:?}");
    assert!(read.reason.as_deref().is_some_and(|r| r.contains("less storage")), "{read:?}");
    assert!(measured.number("mmap_read_bytes_total") >= (77 * PAGE) as f64, "{read:?}");
    let written = measured.value("mmap_written_bytes_total");
    assert_eq!(written.quality, Quality::Estimated, "{written:?}");
    assert_eq!(measured.number("mmap_written_bytes_total"), (10 * PAGE) as f64, "{written:?}");
    let reason = written.reason.as_deref().unwrap_or_default();
    assert!(reason.contains("mapped shared and writable (once)"), "{written:?}");
}

/// The rows of all intervals add up to what the job did, in its order, and each byte has its place.
/// What the program says of its pieces is the witness: all of one size, but for the last.
#[test]
fn a_recording_has_sizes_and_the_slowest_call_and_shows_them() {
    needs_root!();
    let script = format!("{} write {BYTES} {CHUNK} target", workload("io"));
    let measured = Weigh::bash(&script).option("--io").measure();
    let rows = measured.files();
    let wrote =
        |row: &&FileUse| row.name.ends_with("/target") && row.totals.by_calls.write_calls > 0;
    let writer = rows.iter().find(wrote).cloned().expect("it was written");
    assert_eq!(BYTES - (CALLS - 1) * CHUNK, 444);
    assert_eq!(writer.totals.write_sizes, [(256, 1), (512, CALLS - 1)].into());
    let slowest = writer.slowest.expect("a call was the slowest");
    assert!(slowest.seconds > 0.0 && !slowest.call.is_empty(), "{slowest:?}");
    let recording = measured.scratch.path("recording").display().to_string();
    let shown = weigh(&measured.scratch, &["show", "--details", &recording]);
    let shown = String::from_utf8(shown.stdout).expect("text");
    let sizes = format!("256 B to 512 B: 1, 512 B to 1.0 KiB: {}", CALLS - 1);
    assert!(shown.contains(&sizes), "{shown}");
    assert!(shown.contains(&format!("slowest {} took", slowest.call)), "{shown}");
}

#[test]
fn what_was_done_over_time_adds_up() {
    needs_root!();
    let script = format!(
        "{io} write {BYTES} {CHUNK} target; sleep {pause}; {io} read {BYTES} {CHUNK} target; {access} sparse hole 77",
        io = workload("io"),
        access = workload("access"),
        pause = crate::support::patience(0.6).as_secs_f64(),
    );
    let measured = Weigh::bash(&script).option("--io").option("--interval=100ms").measure();
    let recording = Recording::open(&measured.scratch.path("recording")).expect("it can be read");
    let (mut moments, mut places) = (Vec::new(), Vec::new());
    recording.each_io_moment(|row| moments.push(row)).expect("rows");
    recording.each_io_place(|row| places.push(row)).expect("rows");
    let target: Vec<_> = moments.iter().filter(|row| row.path.ends_with("/target")).collect();
    let sum =
        |of: fn(&Moment) -> Option<u64>| target.iter().map(|row| of(row)).sum::<Option<u64>>();
    assert_eq!(
        [sum(|row| row.written_bytes), sum(|row| row.write_calls_total)],
        [Some(BYTES), Some(CALLS)]
    );
    assert_eq!(
        [sum(|row| row.read_bytes), sum(|row| row.read_calls_total)],
        [Some(BYTES), Some(CALLS)]
    );
    let times = |of: fn(&Moment) -> Option<u64>| {
        target.iter().filter(move |row| of(row) > Some(0)).map(|row| row.time_ns)
    };
    let last_write = times(|row| row.written_bytes).max().expect("it was written");
    let first_read = times(|row| row.read_bytes).min().expect("it was read");
    assert!(first_read > last_write, "{last_write} {first_read}");
    let found = recording.summary().io.as_deref().expect("a section of its own");
    let by = found.totals.by_calls;
    let all = |of: fn(&Moment) -> Option<u64>| moments.iter().map(of).sum::<Option<u64>>();
    assert_eq!(all(|row| row.read_bytes), Some(by.read_bytes));
    assert_eq!(all(|row| row.written_bytes), Some(by.written_bytes));
    assert_eq!(all(|row| row.write_calls_total), Some(by.write_calls));
    let of = |end: &'static str| places.iter().filter(move |row| row.path.ends_with(end));
    let target =
        of("/target").fold((0, 0), |(r, w), row| (r + row.read_bytes, w + row.written_bytes));
    assert_eq!(target, (BYTES, BYTES));
    assert!(
        of("/target")
            .all(|row| row.read_bytes <= row.to_bytes - row.from_bytes && row.from_bytes < BYTES)
    );
    assert!(of("/target").map(|row| row.from_bytes).collect::<BTreeSet<_>>().len() > 16);
    assert_eq!(of("/hole").map(|row| row.read_bytes).sum::<u64>(), 77 * PAGE);
    let page = measured.scratch.text("recording/report.html");
    assert!(!page.contains("\"io_over_time\":null"), "the page has them");
}

#[test]
fn a_run_that_does_not_ask_for_it_has_the_plain_table() {
    let measured = Weigh::bash("true").measure();
    assert!(measured.summary().io.is_none());
    assert!(!measured.files().iter().any(FileUse::is_followed));
    let parquet =
        std::fs::read(measured.scratch.path("recording/files.parquet")).expect("it is there");
    let holds = |name: &[u8]| parquet.windows(name.len()).any(|part| part == name);
    assert!(holds(b"opened_total") && !holds(b"reread_bytes"));
}

/// Killed at any moment weigh leaves a journal, that has each file once and as it was at the last tick.
#[test]
fn a_recording_that_is_cut_short_has_what_was_done_so_far() {
    needs_root!();
    // One process, that waits by reading what nobody writes.
    let script = "for i in {1..40}; do echo > short$i; done; mkfifo never; exec 3>log 4<>never; \
                  for i in {1..600}; do echo 123456789 >&3; read -t 0.05 -u 4; done; true";
    let mut running = Weigh::bash(script).option("--io").option("--interval=100ms").start();
    let recording = running.scratch.path("recording");
    let journal = recording.join("journal.jsonl");
    let lines = || std::fs::read_to_string(&journal).unwrap_or_default();
    let told = || lines().matches("\"entry\":\"io\"").count() >= 10 && lines().contains("/log\"");
    running.wait_until("some ticks are over", 30.0, told);
    let log = running.scratch.path("work/log");
    let log = || std::fs::metadata(&log).map_or(0, |found| found.len());
    let before = log();
    running.wait_until("more was written", 20.0, || log() > before + 20);
    std::thread::sleep(crate::support::patience(1.0));
    processes::signal(running.pid(), 9);
    let measured = running.end();
    let most = log();
    let read = Recording::open(&recording).expect("it can be read");
    assert!(!read.is_complete());
    let rows = read.files(None).expect("rows").rows;
    let written = used(&rows, "/log").totals.by_calls;
    assert!(
        written.written_bytes > before && written.written_bytes <= most,
        "{before} {written:?} {most}"
    );
    assert_eq!(written.write_calls * 10, written.written_bytes);
    let mut so_far = 0;
    let add = |row: Moment| {
        so_far += row.written_bytes.filter(|_| row.path.ends_with("/log")).unwrap_or(0)
    };
    read.each_io_moment(add).expect("rows");
    // Killed within a tick it may have the one and not yet the other.
    assert!(so_far > 0 && so_far <= written.written_bytes, "{so_far} {written:?}");
    let found = read.summary().io.clone().expect("the sums so far");
    assert!(found.totals.by_calls.written_bytes >= written.written_bytes, "{found:#?}");
    let shown = weigh(&measured.scratch, &["show", "--details", &recording.display().to_string()]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("log  ") && shown.contains("incomplete"), "{shown}");
    assert!(shown.contains(" more, in journal.jsonl\n"), "{shown}");
    // What is not counted is not 0: the last value of a whole recording has the same reason.
    let whole = Weigh::bash("true").option("--io").measure();
    let opened = &found_metrics(&read)["files_opened_total"];
    assert_eq!(opened.value.is_none(), whole.value("files_opened_total").value.is_none());
    assert!(opened.value.is_some() || opened.reason.is_some(), "{opened:?}");
    // It is a recording as any other.
    let place = recording.display().to_string();
    let page = measured.scratch.path("page.html").display().to_string();
    let reported = weigh(&measured.scratch, &["report", &place, "-o", &page]);
    assert!(reported.status.success(), "{reported:?}");
    assert!(measured.scratch.text("page.html").contains("/log"));
    for format in ["darshan-parser", "wfformat", "dot"] {
        let exported = weigh(&measured.scratch, &["export", &place, "--format", format]);
        assert!(exported.status.success(), "{exported:?}");
        let text = String::from_utf8_lossy(&exported.stdout).into_owned();
        assert!(text.contains("/log") && !text.contains("POSIX\t-1"), "{format}: {text}");
        let elsewhere = ["export", &place, "--format", format, "--under", "no-such-folder"];
        let elsewhere = weigh(&measured.scratch, &elsewhere);
        assert_eq!((elsewhere.status.code(), elsewhere.stdout.len()), (Some(125), 0), "{format}");
        let said = String::from_utf8_lossy(&elsewhere.stderr);
        assert!(said.contains("/no-such-folder)"), "it says which folder that is: {said}");
    }
}

/// The fields that `darshan-parser` has for each counter, and the keys of its head.
#[test]
fn what_is_exported_has_the_shape_of_darshans_text() {
    needs_root!();
    let io = workload("io");
    let script = format!("{io} write {BYTES} {CHUNK} target; {io} read {BYTES} {CHUNK} target");
    let measured = Weigh::bash(&script).option("--io").measure();
    let recording = measured.scratch.path("recording").display().to_string();
    let export = ["export", "--format", "darshan-parser", &recording];
    let elsewhere = weigh(&measured.scratch, &[&export[..], &["--under", "/nowhere"]].concat());
    assert_eq!((elsewhere.status.code(), elsewhere.stdout.len()), (Some(125), 0), "{elsewhere:?}");
    let output = weigh(&measured.scratch, &export);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let keys = [
        "darshan log version",
        "exe",
        "uid",
        "jobid",
        "start_time",
        "end_time",
        "nprocs",
        "run time",
    ];
    for key in keys {
        let line = text.lines().find(|line| line.starts_with(&format!("# {key}: ")));
        assert!(line.is_some(), "no {key} in {text}");
    }
    let lines: Vec<Vec<&str>> = text
        .lines()
        .filter(|l| !l.starts_with('#') && !l.is_empty())
        .map(|l| l.split('\t').collect())
        .collect();
    assert!(lines.iter().all(|fields| fields.len() == 8 && fields[0] == "POSIX"), "{text}");
    let value = |counter: &str, rank: &str| {
        let mut found =
            lines.iter().filter(|f| f[3] == counter && f[1] == rank && f[5].ends_with("/target"));
        found.next().map(|fields| fields[4].to_string())
    };
    let of_target = lines.iter().filter(|f| f[5].ends_with("/target"));
    let ids: BTreeSet<_> = of_target.clone().map(|fields| fields[2]).collect();
    assert_eq!(ids.len(), 1, "one file has one number");
    let mut ranks: Vec<_> = of_target.map(|fields| fields[1]).collect();
    ranks.dedup();
    let sum = |counter: &str| -> u64 {
        let values = ranks.iter().filter_map(|rank| value(counter, rank)?.parse::<u64>().ok());
        values.sum()
    };
    assert_eq!(
        (ranks.len(), sum("POSIX_BYTES_READ"), sum("POSIX_BYTES_WRITTEN")),
        (2, BYTES, BYTES)
    );
    assert_eq!((sum("POSIX_READS"), sum("POSIX_WRITES")), (CALLS, CALLS));
    assert_eq!((sum("POSIX_SEQ_WRITES"), sum("POSIX_CONSEC_READS")), (CALLS - 1, CALLS - 1));
    assert_eq!((sum("POSIX_MAX_BYTE_READ"), sum("POSIX_MAX_BYTE_WRITTEN")), (BYTES - 1, BYTES - 1));
    assert!(value("POSIX_F_WRITE_TIME", ranks[0]).is_some_and(|v| v.parse::<f64>().is_ok()));
    let plain = Weigh::bash("true").measure();
    let recording = plain.scratch.path("recording").display().to_string();
    let output = weigh(&plain.scratch, &["export", "--format", "darshan-parser", &recording]);
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&output.stderr).contains("weigh run --io"), "{output:?}");
}

/// Three programs, one after the other: what each took in and made, and whose child it is.
#[test]
fn a_job_is_exported_as_a_workflow() {
    needs_root!();
    let io = workload("io");
    let script = format!(
        "{io} write {BYTES} {CHUNK} made; cat made >copied; cat copied | {io} read {BYTES} {CHUNK} /dev/stdin"
    );
    let measured = Weigh::bash(&script).option("--io").measure();
    let recording = measured.scratch.path("recording").display().to_string();
    let work = measured.scratch.path("work").display().to_string();
    let export = |format: &str, under: &str| {
        let output =
            weigh(&measured.scratch, &["export", "--format", format, "--under", under, &recording]);
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), output.stderr)
    };
    let (status, text, _) = export("wfformat", &work);
    assert_eq!(status, Some(0));
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let specified = &document["workflow"]["specification"];
    let tasks = specified["tasks"].as_array().expect("tasks");
    let list = |task: &serde_json::Value, key: &str| -> Vec<String> {
        let names = task[key].as_array().expect("a list").iter();
        names.map(|name| name.as_str().expect("a text").replace(&work, "")).collect()
    };
    let made: Vec<_> = tasks
        .iter()
        .filter(|task| task["name"] != "bash")
        .map(|task| (list(task, "inputFiles"), list(task, "outputFiles")))
        .collect();
    let files = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    assert_eq!(
        made,
        [
            (files(&[]), files(&["/made"])),
            (files(&["/made"]), files(&["/copied"])),
            (files(&["/copied"]), files(&[])),
            (files(&[]), files(&[])),
        ],
        "{text}"
    );
    let others: Vec<_> = tasks.iter().filter(|task| task["name"] != "bash").collect();
    for pair in others.windows(2) {
        let [before, after] =
            [pair[0]["id"].as_str(), pair[1]["id"].as_str()].map(|id| id.expect("a name"));
        assert_eq!(list(pair[1], "parents"), [before], "{text}");
        assert_eq!(list(pair[0], "children"), [after], "{text}");
    }
    let sizes: Vec<_> = specified["files"].as_array().expect("files").iter().collect();
    assert!(sizes.len() == 2 && sizes.iter().all(|file| file["sizeInBytes"] == BYTES), "{text}");
    let ran = document["workflow"]["execution"]["tasks"].as_array().expect("tasks that ran");
    assert_eq!(ran.len(), tasks.len());
    let (status, text, _) = export("dot", &work);
    assert!(status == Some(0) && text.contains(&format!("\"{work}/made\" -> p")), "{text}");
    let (status, text, said) = export("dot", "/nowhere");
    // A graph of pipes alone is not what was asked for.
    assert!(status == Some(125) && text.is_empty(), "{text} {}", String::from_utf8_lossy(&said));
}
