//! `weigh io`, against what the programs themselves know, to the byte (of mapped memory to the page).

use std::collections::HashSet;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::io_report::{moved, number, row, rows, text};
use crate::support::run::{Scratch, set_surroundings, weigh};
use crate::support::{weigh_binary, workload, worth_the_time};
use serde_json::Value;

const BYTES: u64 = 1_000_003;
const CHUNK: u64 = 1021;
const CALLS: u64 = 980;
const PAGE: u64 = 4096;

/// Follows a command; what it ended with, and the report.
#[track_caller]
pub fn io(scratch: &Scratch, options: &[&str], command: &[&str]) -> (Output, Value) {
    let json = scratch.path("io.json").display().to_string();
    let arguments = [&["io", "--json", &json][..], options, &["--"], command].concat();
    let output = weigh(scratch, &arguments);
    let report = serde_json::from_str(&scratch.text("io.json"));
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Value = report.unwrap_or_else(|error| panic!("{error}: {}", said()));
    assert_eq!(
        report.get("notes").is_none(),
        report["mechanism"] != "preload",
        "{}",
        report["notes"]
    );
    assert!(report.get("rest").is_none(), "{}", report["rest"]);
    (output, report)
}

/// A file to read, of odd length, of which the page cache holds nothing.
pub fn source(scratch: &Scratch) -> String {
    let path = scratch.path("work/source");
    let bytes: Vec<u8> = (0..BYTES).map(|i| (i % 251) as u8).collect();
    std::fs::write(&path, bytes).expect("a file");
    text(&path)
}

/// Its pages are written, and leave the page cache.
fn make_cold(path: &str) {
    let file = std::fs::File::open(path).expect("it is there");
    file.sync_all().expect("it is written");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("it leaves");
}

#[test]
fn every_kind_is_counted_to_the_byte() {
    needs_root!();
    let scratch = Scratch::new();
    let (from, to) = (source(&scratch), text(&scratch.path("work/target")));
    let (reads, writes) = ([BYTES, CALLS, 0, 0], [0, 0, BYTES, CALLS]);
    let kinds: [(&str, &str, bool, bool); 21] = [
        ("read", "plain", true, false),
        ("pread", "positioned", true, false),
        ("readv", "vectored", true, false),
        ("preadv", "vectored", true, false),
        ("preadv2", "vectored", true, false),
        ("write", "plain", false, true),
        ("pwrite", "positioned", false, true),
        ("writev", "vectored", false, true),
        ("pwritev", "vectored", false, true),
        ("pwritev2", "vectored", false, true),
        ("sendfile", "copied", true, true),
        ("splice", "copied", true, true),
        ("copy_file_range", "copied", true, true),
        ("aio-read", "aio", true, false),
        ("aio-write", "aio", false, true),
        ("uring-read", "uring", true, false),
        ("uring-readv", "uring", true, false),
        ("uring-async-read", "uring", true, false),
        ("uring-sqpoll-read", "uring", true, false),
        ("uring-write", "uring", false, true),
        ("uring-writev", "uring", false, true),
    ];
    // One job: what is wrong is told by the process that it is of.
    for program in worth_the_time(&["io", "io-static"], 1) {
        let program = workload(program);
        let line = |(kind, _, is_read, is_write): &(&str, &str, bool, bool)| {
            let paths = [(is_read, &from), (is_write, &to)].into_iter().filter(|(is, _)| **is);
            let paths: Vec<&str> = paths.map(|(_, path)| path.as_str()).collect();
            // The last one in a shell may be executed in its place: the PID is told before.
            format!(
                "sh -c 'echo $$ >&5; exec {program} {kind} {BYTES} {CHUNK} {}'\n",
                paths.join(" ")
            )
        };
        let script: String = kinds.iter().map(line).collect();
        let pids = text(&scratch.path("pids"));
        let script = format!("set -e; exec 5>{pids}\n{script}");
        let (output, report) = io(&scratch, &["-q"], &["bash", "-c", &script]);
        assert!(output.status.success(), "{output:?}");
        let pids = scratch.text("pids");
        let pids: Vec<u64> = pids.lines().map(|pid| pid.parse().expect("a PID")).collect();
        assert_eq!(pids.len(), kinds.len());
        for (pid, (kind, transfer, is_read, is_write)) in pids.iter().zip(kinds) {
            for (is, path, expected) in [(is_read, &from, reads), (is_write, &to, writes)] {
                let row = rows(&report, path).into_iter().find(|row| row["pid"] == *pid);
                let Some(row) = row.filter(|_| is) else {
                    assert!(!is, "{program} {kind}: no row of {path}");
                    continue;
                };
                assert_eq!(moved(row, transfer), expected, "{program} {kind} {path}");
                assert_eq!(row["by_kind"].as_object().expect("kinds").len(), 1, "{kind}: {row}");
                let sizes = if path == &from { &row["read_sizes"] } else { &row["write_sizes"] };
                assert_eq!((&sizes["512"], &sizes["256"]), (&979.into(), &1.into()), "{kind}");
            }
        }
    }
}

#[test]
fn pipes_and_sockets_are_objects_of_their_own() {
    needs_root!();
    let scratch = Scratch::new();
    let of = |report: &Value, object: &str| -> Vec<[u64; 4]> {
        let files = report["files"].as_array().expect("files").iter();
        let kinds = ["plain", "message", "copied"];
        let sum = |row: &Value| {
            kinds
                .map(|kind| moved(row, kind))
                .into_iter()
                .fold([0; 4], |sum, kind| std::array::from_fn(|i| sum[i] + kind[i]))
        };
        let mut all: Vec<_> = files.filter(|row| row["object"] == object).map(sum).collect();
        all.sort_unstable();
        all
    };
    let bytes = BYTES.to_string();
    for kind in ["send", "sendto", "sendmsg", "sendmmsg", "socket-write"] {
        let (_, report) =
            io(&scratch, &["-q"], &[&workload("io"), kind, &bytes, &CHUNK.to_string()]);
        let ends = of(&report, "socket");
        assert_eq!(ends, [[0, 0, BYTES, CALLS], [BYTES, CALLS, 0, 0]], "{kind}");
    }
    let (_, report) = io(&scratch, &["-q"], &[&workload("io"), "vmsplice", &bytes, "1021"]);
    assert_eq!(of(&report, "pipe"), [[BYTES, CALLS, BYTES, CALLS]]);
}

#[test]
fn opens_metadata_and_failures_are_counted() {
    needs_root!();
    let scratch = Scratch::new();
    let from = source(&scratch);
    let access = workload("access");
    let (_, report) = io(&scratch, &["-q"], &[&access, "opens", &from, "23"]);
    let file = row(&report, &from);
    assert_eq!((number(file, "opens_total"), number(file, "closes_total")), (23, 23));
    assert_eq!(moved(file, "plain"), [161, 23, 0, 0]);
    // After the first open each byte is read again.
    assert_eq!(number(file, "reread_bytes"), 161 - 7);
    let (_, report) = io(&scratch, &["-q"], &[&access, "metadata", &from]);
    let file = row(&report, &from);
    let seen = ["seeks_total", "metadata_calls_total", "truncates_total", "failed_total"];
    assert_eq!(seen.map(|key| number(file, key)), [23, 19, 3, 5]);
    assert_eq!(moved(file, "plain"), [0; 4]);
}

#[test]
fn the_order_of_reads_is_known() {
    needs_root!();
    let scratch = Scratch::new();
    let from = source(&scratch);
    let access = workload("access");
    let patterns = ["consecutive", "strided", "sequential", "random"];
    let of = |row: &Value| patterns.map(|kind| number(row, &format!("{kind}_reads_total")));
    let (_, report) = io(&scratch, &["-q"], &[&access, "strided", &from, "200", "4999"]);
    let file = row(&report, &from);
    assert_eq!(of(file), [0, 198, 1, 0]);
    let stride = &file["read_strides"];
    assert_eq!(stride, &serde_json::json!([{ "bytes": 4999, "times": 199 }]));
    assert_eq!(number(file, "lowest_bytes"), 0);
    assert_eq!(number(file, "highest_bytes"), 199 * 4999 + 100);
    let (_, report) = io(&scratch, &["-q"], &[&workload("io"), "read", "1000003", "1021", &from]);
    assert_eq!(of(row(&report, &from)), [CALLS - 1, 0, 0, 0]);
}

#[test]
fn what_is_read_again_is_known_to_the_byte() {
    needs_root!();
    let scratch = Scratch::new();
    let from = source(&scratch);
    for way in ["again", "reopened"] {
        let (_, report) = io(&scratch, &["-q"], &[&workload("access"), way, &from, "3"]);
        let file = row(&report, &from);
        assert_eq!(moved(file, "plain")[0], 3 * BYTES, "{way}");
        assert_eq!(number(file, "reread_bytes"), 2 * BYTES, "{way}");
        assert_eq!(file["again_quality"], "exact");
    }
}

/// Where two stretches have become one, the others that are remembered are still looked at.
#[test]
fn what_is_read_again_is_known_after_stretches_have_met() {
    needs_root!();
    let scratch = Scratch::new();
    let from = source(&scratch);
    for mechanism in ["bpf", "ptrace", "preload"] {
        let options = ["-q", "--mechanism", mechanism];
        let (_, report) = io(&scratch, &options, &[&workload("access"), "joined", &from]);
        let file = row(&report, &from);
        assert_eq!(moved(file, "positioned")[0], 1200, "{mechanism}");
        assert_eq!(number(file, "reread_bytes"), 100, "{mechanism}");
    }
}

/// A request that receives again and again is seen each time; one that is to say nothing makes the rest a lower bound.
#[test]
fn io_uring_repeated_and_hidden() {
    needs_root!();
    let scratch = Scratch::new();
    let (bytes, chunk, to) =
        (BYTES.to_string(), CHUNK.to_string(), text(&scratch.path("work/target")));
    let (_, report) =
        io(&scratch, &["-q"], &[&workload("io-static"), "uring-again", &bytes, &chunk]);
    assert_eq!(report["totals"]["by_kind"]["uring"]["read_bytes"], BYTES, "{}", report["totals"]);
    assert!(report.get("quality").is_none(), "{}", report["quality"]);

    let json = text(&scratch.path("hidden.json"));
    let hidden = [&workload("io-static"), "uring-hidden-write", &bytes, &chunk, &to];
    let output = weigh(&scratch, &[&["io", "-q", "--json", &json, "--"][..], &hidden].concat());
    let report: Value = serde_json::from_str(&scratch.text("hidden.json")).expect("a report");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(report["quality"], "estimated");
    let note = report["notes"][0].as_str().expect("a note");
    assert!(note.starts_with(&format!("{CALLS} requests of io_uring")), "{note}");
}

#[test]
fn mapped_memory_is_seen_to_the_page() {
    needs_root!();
    let scratch = Scratch::new();
    let from = source(&scratch);
    let access = workload("access-static");
    let pages = BYTES.div_ceil(PAGE) * PAGE;
    let (_, report) = io(&scratch, &["-q"], &[&access, "map", &from]);
    assert_eq!(moved(row(&report, &from), "mapped")[..1], [0], "the page cache has all of it");
    make_cold(&from);
    let (_, report) = io(&scratch, &["-q"], &[&access, "map", &from]);
    let file = row(&report, &from);
    assert_eq!(moved(file, "mapped")[0], pages);
    assert_eq!((number(file, "maps_total"), moved(file, "plain")), (1, [0; 4]));
    // Every third of 300 pages; where the file system has large folios, all pages of each.
    let to = text(&scratch.path("work/target"));
    let (_, report) = io(&scratch, &["-q"], &[&access, "store", &to, "300"]);
    let [_, _, dirtied, folios] = moved(row(&report, &to), "mapped");
    assert!((100 * PAGE..=300 * PAGE).contains(&dirtied), "{dirtied}");
    assert!(dirtied == folios * PAGE || folios < 100, "{dirtied} in {folios}");
    let hole = text(&scratch.path("work/hole"));
    let (_, report) = io(&scratch, &["-q"], &[&access, "sparse", &hole, "77"]);
    assert_eq!(moved(row(&report, &hole), "mapped")[0], 77 * PAGE);
}

#[test]
fn what_calls_bring_into_the_page_cache_is_no_mapped_memory() {
    needs_root!();
    let scratch = Scratch::new();
    let from = source(&scratch);
    make_cold(&from);
    let (_, report) = io(&scratch, &["-q"], &[&workload("io"), "read", "1000003", "1021", &from]);
    let file = row(&report, &from);
    assert_eq!(number(file, "filled_bytes"), BYTES.div_ceil(PAGE) * PAGE);
    assert_eq!(moved(file, "mapped"), [0; 4]);
}

#[test]
fn children_that_share_a_position_each_have_their_own() {
    needs_root!();
    let scratch = Scratch::new();
    let from = source(&scratch);
    let (_, report) = io(&scratch, &["-q"], &[&workload("access"), "shared", &from, "9"]);
    let mut seen: Vec<_> = rows(&report, &from)
        .into_iter()
        .map(|row| (number(row, "lowest_bytes"), moved(row, "plain")[0]))
        .filter(|(_, bytes)| *bytes > 0)
        .collect();
    seen.sort_unstable();
    let expected: Vec<_> = (0..9).map(|child| (child * 10_090, 10_090)).collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_file_without_a_name_and_one_that_many_read() {
    needs_root!();
    let scratch = Scratch::new();
    let (from, gone) = (source(&scratch), text(&scratch.path("work/gone")));
    let access = workload("access");
    let script = format!(
        "{access} deleted {gone}; for i in 1 2 3 4 5; do {access} reader {from} & done; wait"
    );
    let (_, report) = io(&scratch, &["-q"], &["bash", "-c", &script]);
    let file = row(&report, &gone);
    assert_eq!((&file["is_deleted"], moved(file, "plain")[2]), (&true.into(), 12_347));
    let readers = rows(&report, &from);
    assert_eq!(readers.len(), 5);
    assert!(readers.iter().all(|row| moved(row, "plain")[0] == BYTES), "{readers:?}");
    assert!(readers.iter().all(|row| row.get("is_deleted").is_none()), "{readers:?}");
}

#[test]
fn who_wrote_what_others_read() {
    needs_root!();
    let scratch = Scratch::new();
    let to = text(&scratch.path("work/between"));
    let io_program = workload("io");
    let script =
        format!("{io_program} write {BYTES} 4099 {to}; {io_program} read 500009 4099 {to}");
    let (_, report) = io(&scratch, &["-q"], &["bash", "-c", &script]);
    let flows = report["flows"].as_array().expect("flows").iter();
    let flows: Vec<_> = flows.filter(|flow| flow["name"] == to.as_str()).collect();
    assert_eq!(flows.len(), 1, "{flows:?}");
    assert_eq!((&flows[0]["bytes"], &flows[0]["writer_name"]), (&500_009.into(), &"io".into()));
    assert_ne!(flows[0]["writer"], flows[0]["reader"]);
}

/// By mapped memory and io_uring nobody knows which bytes of a file went where: no more than so many.
#[test]
fn what_is_written_and_read_by_no_call_is_a_flow_with_an_upper_bound() {
    needs_root!();
    let scratch = Scratch::new();
    let path = |name: &str| text(&scratch.path(&format!("work/{name}")));
    let (stored, asked, loaded) = (path("stored"), path("asked"), path("loaded"));
    let (io_program, access) = (workload("io"), workload("access"));
    let script = format!(
        "{access} store {stored} 30; cat {stored} | wc -c; \
         {io_program} uring-write {BYTES} 4099 {asked}; cat {asked} | wc -c; \
         {io_program} write {BYTES} 4099 {loaded}; {access} map {loaded}"
    );
    let (_, report) = io(&scratch, &["-q"], &["bash", "-c", &script]);
    let last = |row: &Value| row["numbers"]["last_seconds"].as_f64().unwrap_or(0.0);
    let last = report["files"].as_array().expect("files").iter().map(last).fold(0.0, f64::max);
    assert!(last > 0.0 && report["wall_seconds"].as_f64() >= Some(last), "{last}");
    // Of 30 pages each third was stored into; where they are read what lies between them is not taken for it.
    for (name, writer, reader, most) in [
        (&stored, "access", "cat", 10 * 4096),
        (&asked, "io", "cat", BYTES),
        (&loaded, "io", "access", BYTES),
    ] {
        let flows = report["flows"].as_array().expect("flows").iter();
        let flows: Vec<_> = flows.filter(|flow| flow["name"] == name.as_str()).collect();
        assert_eq!(flows.len(), 1, "{name} {report:#}");
        assert_eq!(
            [&flows[0]["bytes"], &flows[0]["writer_name"], &flows[0]["reader_name"]],
            [&most.into(), &writer.into(), &serde_json::Value::from(reader)]
        );
        assert_eq!(flows[0]["is_upper_bound"], true);
    }
}

#[test]
fn ten_thousand_files_open_at_once_are_all_there() {
    needs_root!();
    let scratch = Scratch::new();
    let base = text(&scratch.path("work/f"));
    for (way, files) in [("many", 10_000), ("each", 10_000)] {
        let files_text = files.to_string();
        let (output, report) =
            io(&scratch, &["-q"], &[&workload("access-static"), way, &base, &files_text]);
        assert!(output.status.success(), "{output:?}");
        let found = report["files"].as_array().expect("files").iter();
        let found = found.filter(|row| {
            let is_one = row["name"].as_str().is_some_and(|name| name.starts_with(&base));
            is_one && moved(row, "plain")[2] == 11
        });
        assert_eq!(found.count(), files, "{way}");
    }
}

/// The greatest resident size that a program had, looked at until it ended.
fn peak_of(mut child: std::process::Child) -> u64 {
    let mut peak_kb = 0;
    let place = format!("/proc/{}/status", child.id());
    while child.try_wait().expect("its state").is_none() {
        let status = std::fs::read_to_string(&place).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kb = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        peak_kb = peak_kb.max(kb.unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(3));
    }
    assert!(child.wait().expect("it has ended").success());
    peak_kb * 1024
}

/// More files than are kept apart at once: weigh takes little memory, all bytes are there, and each file has its name.
#[test]
fn many_files_take_little_memory() {
    needs_root!();
    const FILES: u64 = 17_000;
    const BOUND: u64 = 120 << 20;
    let scratch = Scratch::new();
    let base = text(&scratch.path("work/f"));
    let parquet = text(&scratch.path("io.parquet"));
    let program = workload("access-static");
    let mut command = Command::new(weigh_binary());
    set_surroundings(&mut command, &scratch);
    command.args(["io", "-q", "--json", "/dev/null", "--parquet", &parquet, "--"]);
    command.args([&program, "many", &base, &FILES.to_string()]);
    let peak = peak_of(command.spawn().expect("weigh"));
    assert!(peak < BOUND, "{peak} bytes");
    let mut written = 0;
    let rows = weigh_keep::each_use(Path::new(&parquet), |row| {
        written += row.totals.by_calls.written_bytes;
        assert!(row.name.starts_with('/') || row.object.name() != "regular", "{}", row.name);
    });
    assert!(rows.expect("a table") >= FILES);
    assert_eq!(written, 11 * FILES);
}

/// Each thread has rows of its own, and they add up to those of the process: the same command, told both ways.
#[test]
fn rows_of_threads_add_up_to_those_of_their_process() {
    needs_root!();
    const THREADS: u64 = 7;
    const PIECE: u64 = 4099;
    let scratch = Scratch::new();
    let from = source(&scratch);
    let parquet = scratch.path("threads.parquet");
    let command = [&workload("access"), "threads", &from, &THREADS.to_string()].map(String::from);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let options = ["-q", "--by", "thread", "--parquet", &text(&parquet)];
    let (_, apart) = io(&scratch, &options, &command);
    let (_, together) = io(&scratch, &["-q"], &command);
    let process = row(&together, &from);
    let threads = rows(&apart, &from);
    let by_threads = THREADS * (THREADS + 1) / 2;
    let bytes = PIECE * by_threads + 7 * THREADS;
    assert_eq!(moved(process, "positioned")[..2], [PIECE * by_threads, by_threads]);
    assert_eq!(process["read_bytes"], bytes);
    assert!(process.get("tid").is_none(), "{process}");
    // The main thread opened and closed it, and read nothing.
    assert_eq!(threads.len() as u64, THREADS + 1, "{apart}");
    let sum = |key: &str| threads.iter().map(|row| number(row, key)).sum::<u64>();
    for key in ["opens_total", "closes_total", "metadata_calls_total", "filled_bytes"] {
        assert_eq!(sum(key), number(process, key), "{key}");
    }
    for key in ["read_bytes", "read_calls"] {
        let sum: u64 = threads.iter().map(|row| row[key].as_u64().expect("a number")).sum();
        assert_eq!(sum, process[key].as_u64().expect("a number"), "{key}");
    }
    let mut calls: Vec<u64> = threads.iter().map(|row| moved(row, "positioned")[1]).collect();
    calls.sort_unstable();
    assert_eq!(calls, (0..=THREADS).collect::<Vec<u64>>());
    let tids: HashSet<u64> =
        threads.iter().map(|row| row["tid"].as_u64().expect("a thread")).collect();
    assert_eq!(tids.len(), threads.len());
    assert!(threads.iter().all(|row| row["pid"] == threads[0]["pid"]), "{apart}");
    // All of it, of all files, is the same but for what the loader's files had in the page cache.
    let all = |report: &Value, key: &str| report["totals"][key].as_u64().expect("a number");
    for key in ["read_bytes", "read_calls", "written_bytes"] {
        assert_eq!(all(&apart, key), all(&together, key), "{key}");
    }
    let mut kept = HashSet::new();
    weigh_keep::each_use(&parquet, |row| {
        if row.name == from {
            kept.insert(u64::from(row.tid.expect("a thread")));
        }
    })
    .expect("a table");
    assert_eq!(kept, tids);
}

/// A file that one thread is done with as another opens it is kept and handed over thousands of times, and each call is in
/// one of these.
#[test]
fn a_file_that_many_open_and_close_at_once_has_all_their_calls() {
    needs_root!();
    const TIMES: u64 = 3001;
    let scratch = Scratch::new();
    let from = source(&scratch);
    let (_, report) =
        io(&scratch, &["-q"], &[&workload("access"), "storm", &from, &TIMES.to_string()]);
    let row = row(&report, &from);
    for key in ["opens_total", "closes_total"] {
        assert_eq!(number(row, key), 4 * TIMES, "{key} {row}");
    }
    assert_eq!(moved(row, "plain")[..2], [4 * 7 * TIMES, 4 * TIMES]);
}

#[test]
fn advice_has_its_figures() {
    needs_root!();
    let scratch = Scratch::new();
    let to = text(&scratch.path("work/log"));
    let (output, report) = io(&scratch, &[], &[&workload("access"), "syncs", &to, "30"]);
    let advice = report["advice"].as_array().expect("advice").iter();
    let advice: Vec<_> = advice.filter(|advice| advice["file"] == to.as_str()).collect();
    assert_eq!(advice.len(), 1, "{advice:?}");
    assert_eq!(advice[0]["rule"], "fsync_each_write");
    assert_eq!(advice[0]["figures"]["small_syncs_total"], 30);
    assert_eq!(number(row(&report, &to), "syncs_total"), 30);
    assert!(String::from_utf8_lossy(&output.stderr).contains("fsync_each_write"), "{output:?}");
}

#[test]
fn rows_of_the_parquet_file_are_those_of_the_report() {
    needs_root!();
    let scratch = Scratch::new();
    let from = source(&scratch);
    let parquet = scratch.path("files.parquet");
    let (_, report) = io(
        &scratch,
        &["-q", "--parquet", &text(&parquet)],
        &[&workload("access"), "again", &from, "2"],
    );
    let mut found = Vec::new();
    weigh_keep::each_use(&parquet, |row| found.push(row)).expect("a table");
    assert_eq!(found.len(), report["files"].as_array().expect("files").len());
    let own = found.iter().find(|row| row.name == from).expect("a row");
    assert_eq!(own.totals.by_calls.read_bytes, 2 * BYTES);
    let again = own.totals.numbers["reread_bytes"];
    assert_eq!(again.as_f64() as u64, BYTES);
}

/// Stores into pages that are dirty already, or into a file of tmpfs, are told by nothing: what is known is a lower
/// bound of what is written wherever a file was mapped to be written, and nowhere else.
#[test]
fn mapped_memory_is_a_lower_bound_where_files_were_mapped_to_be_written() {
    needs_root!();
    let scratch = Scratch::new();
    let (from, access) = (source(&scratch), workload("access"));
    let (_, read) = io(&scratch, &[], &[&access, "map", &from, "40960"]);
    assert!(read["qualities"].as_object().is_none_or(|keys| keys.is_empty()), "{read:#}");
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let in_memory = text(&folder.path().join("stored"));
    let (_, written) = io(&scratch, &[], &[&access, "store", &in_memory, "10"]);
    assert!(written["qualities"].get("mapped").is_none(), "what is read is known");
    let trust = &written["qualities"]["mapped_written_bytes"];
    assert_eq!(trust["quality"], "estimated", "{trust}");
    let reason = trust["reason"].as_str().expect("a reason");
    assert!(reason.contains("(once)") && reason.contains("tmpfs have (1 of"), "{reason}");
}

/// It is in no folder, and has the same name for every observer.
#[test]
fn memory_that_is_a_file_has_its_name() {
    needs_root!();
    let scratch = Scratch::new();
    let json = scratch.path("io.json").display().to_string();
    let program = "import os; os.write(os.memfd_create('of-memory'), b'x' * 1237)";
    for mechanism in ["bpf", "preload", "ptrace"] {
        let options = ["io", "-q", "--mechanism", mechanism, "--json", &json];
        let output = weigh(&scratch, &[&options[..], &["--", "python3", "-c", program]].concat());
        assert!(output.status.success(), "{output:?}");
        let report: Value = serde_json::from_str(&scratch.text("io.json")).expect("a report");
        let row = row(&report, "/memfd:of-memory");
        assert_eq!(moved(row, "plain"), [0, 0, 1237, 1], "{mechanism}: {row}");
        assert_eq!(row["is_deleted"], true, "{mechanism}: {row}");
    }
}
