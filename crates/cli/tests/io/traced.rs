//! `weigh io --mechanism ptrace`: all programs, static ones too, without any rights; the same numbers as by the
//! kernel side, with the price told, and the job as it would be without weigh.

use std::path::Path;

use crate::support::io_report::{BYTES, HAS_READ, moved, number, row, rows, source, text};
use crate::support::run::{Scratch, weigh_as};
use crate::support::{is_root, wait_until, workload};
use serde_json::Value;
use weigh_keep::Recording;

const NOBODY: u32 = 65534;
const CHUNK: u64 = 1021;
const CALLS: u64 = 980;

/// What only the kernel side knows, and times.
const NOT_BY_CALLS: [&str; 11] = [
    "readahead_unused_bytes",
    "readahead_doubts_total",
    "cached_reads_total",
    "filled_bytes",
    "device_read_bytes",
    "device_written_bytes",
    "written_by_itself_bytes",
    "written_by_kernel_bytes",
    "written_by_others_bytes",
    "written_first_seconds",
    "written_last_seconds",
];

/// Follows a command as somebody; what was said, and the report.
#[track_caller]
fn io_as(
    user: Option<u32>,
    scratch: &Scratch,
    options: &[&str],
    command: &[&str],
) -> (std::process::Output, Value) {
    let json = text(&scratch.path("io.json"));
    let own = ["io", "-q", "--json", &json];
    let arguments = [&own[..], options, &["--"], command].concat();
    let output = weigh_as(user, scratch, &arguments);
    let report = serde_json::from_str(&scratch.text("io.json"));
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Value = report.unwrap_or_else(|error| panic!("{error}: {}", said()));
    (output, report)
}

/// By a tracer, as nobody.
#[track_caller]
fn traced(scratch: &Scratch, command: &[&str]) -> (std::process::Output, Value) {
    let (output, report) = io_as(Some(NOBODY), scratch, &["--mechanism", "ptrace"], command);
    assert_eq!(report["mechanism"], "ptrace", "{report}");
    (output, report)
}

/// Nothing is wrong with it but what no tracer sees.
#[track_caller]
fn is_whole(report: &Value) {
    for key in ["quality", "notes", "rest"] {
        assert!(report.get(key).is_none(), "{key}: {}", report[key]);
    }
    for key in ["mapped", "filled_bytes", "device_read_bytes", "readahead_unused_bytes"] {
        assert_eq!(report["qualities"][key]["quality"], "unavailable", "{key}");
    }
    assert_eq!(report["qualities"]["read_seconds"]["quality"], "estimated");
}

/// The price: each call that is counted was stopped at twice.
#[track_caller]
fn price(report: &Value, least_stops: u64) -> u64 {
    let price = &report["price"];
    let of = |key: &str| price[key].as_f64().expect("a number");
    let stops = price["stops_total"].as_u64().expect("a number");
    assert!(stops >= least_stops, "{price}");
    assert!(of("stop_seconds") > 1e-7 && of("look_seconds") > 0.0, "{price}");
    let all = stops as f64 * of("stop_seconds") + of("look_seconds");
    assert!((of("seconds") - all).abs() < 1e-9, "{price}");
    stops
}

/// What Go programs do: calls without the C library, in a program that is static.
#[test]
fn a_static_program_is_seen_to_the_byte_and_the_price_is_told() {
    let scratch = Scratch::new();
    let (from, program) = (source(&scratch), workload("io-static"));
    let (reads, writes) = ([BYTES, CALLS, 0, 0], [0, 0, BYTES, CALLS]);
    let kinds: [(&str, &str, bool, bool); 13] = [
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
    ];
    for (kind, transfer, is_read, is_write) in kinds {
        let to = text(&scratch.path(&format!("work/{kind}")));
        let (bytes, chunk) = (BYTES.to_string(), CHUNK.to_string());
        let mut command = vec![program.as_str(), kind, &bytes, &chunk];
        command.extend(is_read.then_some(from.as_str()));
        command.extend(is_write.then_some(to.as_str()));
        let (output, report) = traced(&scratch, &command);
        assert!(output.status.success(), "{output:?}");
        is_whole(&report);
        price(&report, 2 * CALLS);
        for (is, path, expected) in [(is_read, &from, reads), (is_write, &to, writes)] {
            if !is {
                continue;
            }
            let row = row(&report, path);
            assert_eq!(moved(row, transfer), expected, "{kind} {path}");
            assert_eq!(number(row, "placed_total"), CALLS, "{kind}");
            assert_eq!((number(row, "opens_total"), number(row, "highest_bytes")), (1, BYTES));
            let consecutive = ["consecutive_reads_total", "consecutive_writes_total"];
            let consecutive: u64 = consecutive.iter().map(|key| number(row, key)).sum();
            assert_eq!(consecutive, CALLS - 1, "{kind} {path}");
        }
    }
}

/// Two witnesses: what this counts by file, and what the kernel has counted for the same processes.
#[test]
fn a_recording_has_the_files_and_the_kernels_count_beside_them() {
    let scratch = Scratch::new();
    let (to, program) = (text(&scratch.path("work/out")), workload("io-static"));
    for options in [&[][..], &["--level", "3"], &["--level", "3", "--seccomp"], &["--seccomp"]] {
        let recording = text(&scratch.path("recording"));
        let _ = std::fs::remove_dir_all(&recording);
        let own = ["run", "-q", "--io", "--mechanism", "ptrace", "-o", &recording];
        let (bytes, chunk) = (BYTES.to_string(), CHUNK.to_string());
        let command = ["--", &program, "write", &bytes, &chunk, &to];
        let output = weigh_as(Some(NOBODY), &scratch, &[&own[..], options, &command].concat());
        assert!(output.status.success(), "{output:?}");
        let recording = Recording::open(&scratch.path("recording")).expect("it can be read");
        let found = recording.summary().io.as_deref().expect("it was told by file");
        let said = found.totals.by_calls.written_bytes - BYTES;
        assert!(said < 1000, "what the workload says of itself: {said}");
        let price = found.price.expect("it has a price");
        assert!(price.stops_total >= 2 * CALLS && price.seconds > 0.0, "{price:?}");
        let metric = |name: &str| recording.summary().metrics[name].value.expect("known").as_f64();
        assert_eq!(metric("io_written_bytes_total") as u64, BYTES + said, "{options:?}");
        let calls = found.totals.by_calls.write_calls;
        assert_eq!(metric("io_write_calls_total") as u64, calls, "{options:?}");
    }
}

/// A row without times, process numbers, and what only the kernel side sees.
fn comparable(row: &Value) -> Option<String> {
    let mut row = row.clone();
    let fields = row.as_object_mut()?;
    for key in ["pid", "slowest", "device", "inode", "generation", "readahead_quality", "states"] {
        fields.remove(key);
    }
    fields.get_mut("by_kind")?.as_object_mut()?.remove("mapped");
    let numbers = fields.get_mut("numbers")?.as_object_mut()?;
    numbers.retain(|key, _| !NOT_BY_CALLS.contains(&key.as_str()) && !key.ends_with("_seconds"));
    let is_mapped_alone = numbers.is_empty() && fields["by_kind"] == serde_json::json!({});
    let name = fields["name"].as_str()?.to_string();
    // Pipes and pseudo files have numbers of their own each time.
    let name = name.split([':', '[']).next().unwrap_or_default().to_string();
    let is_by_number = name.starts_with("/proc/");
    fields.insert("name".to_string(), name.into());
    (!is_mapped_alone && !is_by_number).then(|| row.to_string())
}

fn comparables(report: &Value) -> Vec<String> {
    let files = report["files"].as_array().expect("files");
    let mut rows: Vec<String> = files.iter().filter_map(comparable).collect();
    rows.sort();
    rows
}

/// Static and dynamic programs, threads, children, streams, a shell: row by row what root is told by BPF.
#[test]
fn each_row_is_the_one_that_the_kernel_side_tells() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let from = source(&scratch);
    let to = |name: &str| text(&scratch.path(&format!("work/{name}")));
    let mut script = String::from("set -e; ");
    for kind in ["", "-static"] {
        let (io, access) = (workload(&format!("io{kind}")), workload(&format!("access{kind}")));
        for way in ["read", "pread", "readv", "preadv", "preadv2"] {
            script += &format!("{io} {way} {BYTES} 10007 {from}; ");
        }
        for way in ["write", "pwrite", "writev", "pwritev", "pwritev2"] {
            script += &format!("{io} {way} {BYTES} 10007 {}; ", to(way));
        }
        for way in ["sendfile", "splice", "copy_file_range"] {
            script += &format!("{io} {way} {BYTES} 10007 {from} {}; ", to(way));
        }
        script += &format!(
            "{access} opens {from} 23; {access} strided {from} 101 5003; {access} again {from} 3; \
             {access} reopened {from} 3; {access} syncs {} 30; {access} deleted {}; \
             {access} metadata {}; {access} map {from}; {access} many {} 50; \
             {access} shared {from} 9; {access} each {} 7; ",
            to("syncs"),
            to("gone"),
            to("meta"),
            to("f"),
            to("e")
        );
    }
    script +=
        &format!("exec 3<{from}; read -n 10 x <&3 || true; exec 4<&3 3<&-; cat <&4 >{}", to("c"));
    let command = ["bash", "-c", &script];
    let [bpf, ptrace] = ["bpf", "ptrace"].map(|mechanism| {
        let (output, report) = io_as(None, &scratch, &["--mechanism", mechanism], &command);
        assert!(output.status.success(), "{mechanism}: {output:?}");
        // What it has written is there again for the other.
        for file in std::fs::read_dir(scratch.path("work")).expect("a folder").flatten() {
            if file.path() != Path::new(&from) {
                std::fs::remove_file(file.path()).expect("it is there");
            }
        }
        std::fs::remove_file(scratch.path("truth")).expect("they have told what they did");
        comparables(&report)
    });
    let only = |these: &[String], those: &[String]| {
        these.iter().filter(|row| !those.contains(row)).cloned().collect::<Vec<_>>()
    };
    assert_eq!(only(&bpf, &ptrace), Vec::<String>::new(), "only by bpf");
    assert_eq!(only(&ptrace, &bpf), Vec::<String>::new(), "only by ptrace");
    assert_eq!(bpf.len(), ptrace.len());
    assert!(bpf.len() > 200, "{}", bpf.len());
}

#[test]
fn opens_order_metadata_and_failures_are_counted() {
    let scratch = Scratch::new();
    let (from, access) = (source(&scratch), workload("access-static"));
    let target = |name: &str| text(&scratch.path(&format!("work/{name}")));
    let script = format!(
        "{access} opens {from} 23; {access} strided {from} 101 5003; {access} again {from} 3; \
         {access} syncs {} 30; {access} deleted {}; {access} metadata {}; {access} many {} 50; true",
        target("syncs"),
        target("gone"),
        target("meta"),
        target("f")
    );
    let (output, report) = traced(&scratch, &["bash", "-c", &script]);
    assert!(output.status.success(), "{output:?}");
    is_whole(&report);
    let with = |key: &str, expected: u64| {
        let all = rows(&report, &from);
        let found = all.iter().filter(|row| number(row, key) == expected).count();
        assert_eq!(found, 1, "{key} {expected}: {all:?}");
        all.into_iter().find(|row| number(row, key) == expected).expect("counted above")
    };
    let opened = with("opens_total", 23);
    assert_eq!((moved(opened, "plain"), number(opened, "closes_total")), ([161, 23, 0, 0], 23));
    let strided = with("strided_reads_total", 99);
    assert_eq!(moved(strided, "positioned")[1], 101);
    assert_eq!(strided["read_strides"][0]["bytes"], 5003);
    assert_eq!(moved(with("reread_bytes", 2 * BYTES), "plain")[0], 3 * BYTES);
    let synced = row(&report, &target("syncs"));
    assert_eq!((number(synced, "syncs_total"), number(synced, "small_syncs_total")), (30, 30));
    let gone = row(&report, &target("gone"));
    assert_eq!((&gone["is_deleted"], moved(gone, "plain")[2]), (&true.into(), 12_347));
    let facts = row(&report, &target("meta"));
    let told = ["seeks_total", "metadata_calls_total", "truncates_total", "failed_total"];
    assert_eq!(told.map(|key| number(facts, key)), [23, 19, 3, 5]);
    for file in 0..50 {
        let one = row(&report, &format!("{}.{file}", target("f")));
        assert_eq!((moved(one, "plain")[2], number(one, "closes_total")), (11, 1));
    }
}

/// Threads apart add up to their process; of each call there is a row.
#[test]
fn threads_and_single_calls_are_told_apart() {
    let scratch = Scratch::new();
    let (from, calls) = (source(&scratch), text(&scratch.path("calls.parquet")));
    let access = workload("access-static");
    let command = [access.as_str(), "threads", &from, "5"];
    let together = traced(&scratch, &command).1;
    let apart = ["--mechanism", "ptrace", "--by", "thread", "--calls", &calls];
    let (_, apart) = io_as(Some(NOBODY), &scratch, &apart, &command);
    let one = row(&together, &from);
    let (all, threads) = (rows(&apart, &from), 5);
    let mut tids: Vec<u64> = all.iter().filter_map(|row| row["tid"].as_u64()).collect();
    tids.dedup();
    assert_eq!(tids.len(), threads + 1, "and the one that opens: {all:?}");
    for way in 0..2 {
        let sum: u64 = all.iter().map(|row| moved(row, "positioned")[way]).sum();
        assert_eq!(sum, moved(one, "positioned")[way]);
        assert!(sum > 0);
    }
    let size = std::fs::metadata(&calls).expect("it was written").len();
    assert!(size > 1000, "{size}");
}

#[test]
fn what_the_kernel_does_by_itself_is_named() {
    let scratch = Scratch::new();
    let (from, program) = (source(&scratch), workload("io-static"));
    let (bytes, chunk) = (BYTES.to_string(), CHUNK.to_string());
    let (output, report) = traced(&scratch, &[&program, "uring-read", &bytes, &chunk, &from]);
    if !output.status.success() {
        return; // no io_uring here
    }
    assert_eq!(report["quality"], "estimated");
    let reason = report["qualities"]["uring"]["reason"].as_str().expect("a reason");
    assert!(reason.contains("io-static"), "{reason}");
    let row = row(&report, &from);
    assert!(row.get("read_bytes").is_none() && row.get("read_calls").is_none(), "{row}");
    assert_eq!(row["moved_quality"], "unavailable", "{row}");
}

#[test]
fn the_job_is_as_it_would_be_without_weigh() {
    use std::os::unix::process::ExitStatusExt as _;
    let scratch = Scratch::new();
    let (output, _) = traced(&scratch, &["sh", "-c", "echo out; exit 3"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(3), &b"out\n"[..]));
    let (output, _) = traced(&scratch, &["sh", "-c", "kill -9 $$"]);
    assert_eq!((output.status.signal(), output.stderr.as_slice()), (Some(9), &b""[..]));
    let trap = "trap 'echo got; exit 7' TERM; kill -TERM $$; sleep 9";
    let (output, _) = traced(&scratch, &["sh", "-c", trap]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(7), &b"got\n"[..]));
    let (json, refused) = (text(&scratch.path("none.json")), "/no/such/program");
    let arguments = ["io", "--mechanism", "ptrace", "--json", &json, "--", refused];
    assert_eq!(weigh_as(Some(NOBODY), &scratch, &arguments).status.code(), Some(127));
}

/// Killed at any moment: what was counted is there, and the job outlives weigh.
#[test]
fn who_is_killed_was_counted_and_the_job_outlives_weigh() {
    let scratch = Scratch::new();
    let (from, access) = (source(&scratch), workload("access-static"));
    let script = format!("{access} wait {from} & {HAS_READ}; kill -9 $!; wait");
    let (_, report) = traced(&scratch, &["bash", "-c", &script]);
    assert_eq!(moved(row(&report, &from), "plain"), [100, 10, 0, 0]);

    let script = format!("read x; cat {from} >{}", text(&scratch.path("work/copy")));
    let mut weigh = std::process::Command::new(crate::support::weigh_binary());
    crate::support::run::set_surroundings(&mut weigh, &scratch);
    weigh.args(["io", "-q", "--mechanism", "ptrace", "--", "sh", "-c", &script]);
    let mut weigh = weigh.stdin(std::process::Stdio::piped()).spawn().expect("weigh");
    wait_until("the job runs", 20.0, || scratch.survivors().len() == 1);
    std::thread::sleep(std::time::Duration::from_millis(200));
    let line = weigh.stdin.take().expect("a pipe");
    weigh.kill().expect("it ends");
    let _ = weigh.wait();
    drop(line);
    let length = || std::fs::metadata(scratch.path("work/copy")).map_or(0, |file| file.len());
    wait_until("the job does what it is to do", 20.0, || length() == BYTES);
}

/// All threads of a process that runs, and what they start.
#[test]
fn a_process_that_runs_is_followed_from_then_on() {
    let scratch = Scratch::new();
    let from = source(&scratch);
    let access = workload("access-static");
    let script = format!("while :; do {access} opens {from} 1; sleep 0.05; done");
    let mut job = std::process::Command::new("sh");
    crate::support::run::set_surroundings(&mut job, &scratch);
    let mut job = job.args(["-c", &script]).spawn().expect("sh");
    let (pid, json) = (job.id().to_string(), text(&scratch.path("io.json")));
    let long = format!("{}s", 2 * crate::support::slowness());
    let own = ["io", "-q", "--mechanism", "ptrace", "--pid", &pid, "--for", &long, "--json", &json];
    let output = weigh_as(None, &scratch, &own);
    let still_runs = job.try_wait().expect("a child").is_none();
    job.kill().expect("it ends");
    let _ = job.wait();
    assert!(output.status.success() && still_runs, "{output:?}");
    let report: Value = serde_json::from_str(&scratch.text("io.json")).expect("a report");
    let reads = rows(&report, &from);
    let whole = reads.iter().filter(|row| moved(row, "plain") == [7, 1, 0, 0]).count();
    // Each of them is a process of its own; the last one may be cut short.
    assert!(whole >= 1 && whole + 1 >= reads.len(), "{reads:?}");
    price(&report, 10);
    // Of somebody else's process it is said why not.
    let other = ["io", "--mechanism", "ptrace", "--pid", "1", "--for", "1s"];
    let output = weigh_as(Some(NOBODY), &scratch, &other);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("cannot trace process 1") && said.contains("user 0's"), "{said}");
}
