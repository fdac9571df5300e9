//! `weigh calls --per-call` and `weigh explain`: single calls, against what is known of them.

#[path = "../../../keep/tests/support/older.rs"]
mod older;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::{run::Scratch, weigh_binary, workload};
use weigh_schema::call::{CallsReport, Interval, RIVALS};
use weigh_schema::call_row::{COST_COLUMNS, CallRow, LATER_COLUMNS, Returned};
use weigh_schema::explain::{ExplainReport, ExplainedKind, REPORT, Verdict};

/// `weigh calls --per-call FILE OPTIONS -- COMMAND`: what it found, and the rows.
fn per_call(scratch: &Scratch, options: &str, command: &[&str]) -> (CallsReport, Vec<CallRow>) {
    let (file, json) = (scratch.path("calls.parquet"), scratch.path("calls.json"));
    let mut weigh = Command::new(weigh_binary());
    weigh.arg("calls").arg("--per-call").arg(&file).arg("--json").arg(&json);
    weigh.args(options.split_whitespace()).arg("--").args(command);
    let output = weigh.output().expect("weigh starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = serde_json::from_slice(&std::fs::read(json).expect("JSON")).expect("a report");
    (report, rows(&file))
}

fn rows(file: &Path) -> Vec<CallRow> {
    let mut rows = Vec::new();
    let total = weigh_keep::each_call(file, |row| rows.push(row)).expect("a file of calls");
    assert_eq!(total, rows.len() as u64);
    rows
}

#[test]
fn each_call_has_a_row_of_its_own() {
    needs_root!();
    let scratch = Scratch::new();
    let data = scratch.path("data").display().to_string();
    let (report, rows) = per_call(&scratch, "--by file", &[&workload("calls"), &data, "70003"]);
    let count = |call: &str| rows.iter().filter(|row| row.call == call).count();
    // More than there would be room for, if nobody came to read and each had all of its account.
    assert_eq!(count("getppid"), 70_003);
    let reads: Vec<&CallRow> =
        rows.iter().filter(|row| row.call == "read" && row.result.0 == 4099).collect();
    assert_eq!(reads.len(), 23);
    assert!(reads.iter().all(|row| row.of.as_deref() == Some(data.as_str())), "{:?}", reads[0].of);
    assert_eq!((count("fsync"), count("clock_nanosleep")), (5, 7));
    assert_eq!((report.untold_total, report.lost_total), (0, 0));
    assert_eq!(rows.len() as u64, report.calls_total);
    // No call twice, and all in their time.
    let mut sequences: Vec<u64> = rows.iter().map(|row| row.sequence).collect();
    sequences.sort_unstable();
    sequences.dedup();
    assert_eq!(sequences.len(), rows.len());
    let now = jiff::Timestamp::now().as_nanosecond() as i64;
    assert!(rows.iter().all(|row| row.time_ns < now && row.time_ns > now - 120_000_000_000));
    let slept = rows.iter().filter(|row| row.call == "clock_nanosleep");
    assert!(slept.clone().all(|row| row.account.time_ns() >= 20_000_000));
    let total: u64 = rows.iter().map(|row| row.account.time_ns()).sum();
    let table: f64 = report.calls.iter().map(|kind| kind.time_seconds).sum();
    assert!((total as f64 / 1e9 - table).abs() < 1e-6, "{total} ns, {table} s");
}

/// Another command that runs meanwhile; ended with the test.
struct Beside(std::process::Child);

impl Beside {
    fn start(command: &[&str]) -> Beside {
        let mut other = Command::new(command[0]);
        other.args(&command[1..]).stdout(Stdio::null()).stderr(Stdio::null());
        Beside(other.spawn().expect("it starts"))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("it can be waited for").is_some()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How many of the calls met this process in that way.
fn met(rows: &[CallRow], kind: &str, pid: u32) -> usize {
    let place = RIVALS.iter().position(|rival| rival.name == kind).expect("a kind of rival");
    let is_met = |row: &&CallRow| row.rivals[place].as_ref().is_some_and(|r| r.pid == pid);
    rows.iter().filter(is_met).count()
}

fn names(rows: &[CallRow]) -> String {
    let mut met: BTreeMap<(usize, u32, &str), usize> = BTreeMap::new();
    for row in rows {
        for (place, rival) in row.rivals.iter().enumerate() {
            if let Some(rival) = rival {
                *met.entry((place, rival.pid, &rival.name)).or_default() += 1;
            }
        }
    }
    format!("{met:?}")
}

#[test]
fn who_has_the_cpu_meanwhile_is_named() {
    needs_root!();
    let scratch = Scratch::new();
    // Greedier than whatever else has the CPU on this machine.
    let spin = workload("spin");
    let spinner = Beside::start(&["nice", "-n", "-10", "taskset", "-c", "0", &spin, "120000"]);
    // Each read is longer than a turn on the CPU.
    let reads = ["taskset", "-c", "0", "dd", "if=/dev/zero", "of=/dev/null", "bs=64M", "count=40"];
    // On a busy machine the longest wait of each read may be one for somebody else.
    let mut others = Vec::new();
    let rows = loop {
        let (_, rows) = per_call(&scratch, "--slowest 3", &reads);
        if met(&rows, "behind", spinner.pid()) > 0 {
            break rows;
        }
        others.push(names(&rows));
        assert!(others.len() < 4, "nobody waited for {}: {others:?}", spinner.pid());
    };
    let run_queue = COST_COLUMNS.iter().find(|c| c.name == "sched_run_queue_seconds");
    let run_queue = run_queue.expect("a column");
    for row in &rows {
        let Some(rival) = &row.rivals[0] else { continue };
        assert!(rival.time_ns <= run_queue.raw(row).expect("it is measured"), "{row:?}");
        assert!(!rival.name.is_empty() && rival.pid != 0, "{row:?}");
    }
}

/// A file on a real disk, and a command that appends to it past the page cache: it holds the file's
/// lock while the disk writes.
fn appending(file: &str, count: &str) -> Vec<String> {
    let dd = ["dd", "if=/dev/zero", "bs=256k", "oflag=append,direct", "conv=notrunc"];
    let own = [format!("of={file}"), format!("count={count}")];
    dd.into_iter().map(String::from).chain(own).collect()
}

/// Runs such a command beside another on `other`; what the calls met in that way.
fn append_beside(other: &str, kind: &str) {
    let scratch = Scratch::new();
    let (ours, other) = (scratch.path("ours"), scratch.path(other));
    let command = |file: &Path, count| appending(&file.display().to_string(), count);
    let beside = command(&other, "100000");
    let mut beside = Beside::start(&beside.iter().map(String::as_str).collect::<Vec<_>>());
    crate::support::wait_until("the other writes", 10.0, || {
        std::fs::metadata(&other).is_ok_and(|file| file.len() > 0) || beside.has_ended()
    });
    if beside.has_ended() {
        crate::support::leave_out("this file system does not write past the page cache");
        return;
    }
    let ours = command(&ours, "150");
    let (_, rows) = per_call(&scratch, "", &ours.iter().map(String::as_str).collect::<Vec<_>>());
    let requests = COST_COLUMNS.iter().find(|c| c.name == "block_requests_total");
    let requests = requests.expect("a column");
    if rows.iter().all(|row| requests.raw(row).unwrap_or(0) == 0) {
        crate::support::leave_out("no disk is seen below this file system");
        return;
    }
    assert!(met(&rows, kind, beside.pid()) > 0, "nobody met {}: {}", beside.pid(), names(&rows));
}

#[test]
fn who_writes_to_the_same_disk_is_named() {
    needs_root!();
    append_beside("other", "disk_rival");
}

#[test]
fn who_holds_the_lock_of_the_same_file_is_named() {
    needs_root!();
    append_beside("ours", "lock_holder");
}

fn explain(arguments: &[&str]) -> Output {
    Command::new(weigh_binary()).arg("explain").args(arguments).output().expect("weigh starts")
}

#[test]
fn what_is_slow_is_explained_and_what_is_wrong_is_named() {
    needs_root!();
    let scratch = Scratch::new();
    let (_, rows) = per_call(&scratch, "", &[&workload("switches"), "300"]);
    let file = scratch.path("calls.parquet").display().to_string();
    let (json, page) = (scratch.path("e.json"), scratch.path("e.html"));
    let arguments = [&file, "--slow", "1ms", "--call", "clock_nanosleep"];
    let outputs = ["--json", json.to_str().expect("text"), "--page", page.to_str().expect("text")];
    let told = explain(&[&arguments[..], &outputs[..]].concat());
    assert!(told.status.success(), "{told:?}");
    let text = String::from_utf8_lossy(&told.stdout);
    assert!(text.contains("clock_nanosleep: most of 300 calls took so long"), "{text}");
    let report: ExplainReport =
        serde_json::from_slice(&std::fs::read(json).expect("JSON")).expect("a report");
    assert_eq!((report.schema.as_str(), report.calls_total), (REPORT, 300));
    assert_eq!(report.kinds[0].verdict, Verdict::AllSlow);
    assert!(std::fs::read_to_string(page).expect("a page").contains("clock_nanosleep"));
    let all: u64 = {
        let told = explain(&[&file, "--json", "-", "--quiet"]);
        let report: ExplainReport = serde_json::from_slice(&told.stdout).expect("a report");
        report.kinds.iter().map(|kind| kind.calls_total).sum()
    };
    assert_eq!(all, rows.len() as u64);
    // A reader of standard output gets JSON alone, and people the text beside it.
    let told = explain(&[&file, "--json", "-"]);
    let _: ExplainReport = serde_json::from_slice(&told.stdout).expect("JSON and nothing else");
    assert!(String::from_utf8_lossy(&told.stderr).contains("clock_nanosleep"), "{told:?}");
    for (wrong, named) in [
        (&[&file, "--call", "clock_nanoslep"][..], "did you mean clock_nanosleep?"),
        (&[&file, "--slow", "often"], "'often'"),
        (&["/dev/null"], "/dev/null"),
        (&["/proc/none"], "/proc/none"),
    ] {
        let told = explain(wrong);
        let error = String::from_utf8_lossy(&told.stderr);
        assert!(told.status.code() == Some(125) && error.contains(named), "{wrong:?}: {error}");
    }
}

#[test]
fn what_slow_calls_have_more_of_is_named_with_how_much() {
    needs_root!();
    let scratch = Scratch::new();
    // In memory: 300 writes of one page each, and three of 8 MiB.
    let data = format!("/dev/shm/weigh-explain-{}", std::process::id());
    let script = format!(
        "dd if=/dev/zero of={data} bs=4k count=300; dd if=/dev/zero of={data} bs=8M count=3; rm {data}"
    );
    per_call(&scratch, "", &["sh", "-c", &script]);
    let file = scratch.path("calls.parquet").display().to_string();
    let json = scratch.path("explained.json").display().to_string();
    let told = explain(&[&file, "--call", "write", "--slow", "1%", "--json", &json]);
    let text = String::from_utf8_lossy(&told.stdout);
    let report: ExplainReport =
        serde_json::from_slice(&std::fs::read(json).expect("JSON")).expect("a report");
    let counters = &report.kinds[0].counters;
    let pages = counters
        .iter()
        .find(|counter| {
            counter.subsystem.as_deref() == Some("memory") && counter.name == "pages_total"
        })
        .unwrap_or_else(|| panic!("{text}\n{counters:?}"));
    // 8 MiB are 2,048 pages.
    assert!((1500.0..2300.0).contains(&pages.slow), "{pages:?}");
    assert!(pages.ordinary < 8.0, "{pages:?}");
    assert!(text.contains(" pages: "), "{text}");
}

/// What is said, in one line, and the first kind of the JSON.
fn explained(arguments: &[&str], scratch: &Scratch) -> (String, ExplainedKind) {
    let json = scratch.path("explained.json").display().to_string();
    let told = explain(&[arguments, &["--json", &json]].concat());
    assert!(told.status.success(), "{told:?}");
    let text = String::from_utf8_lossy(&told.stdout);
    let mut report: ExplainReport =
        serde_json::from_slice(&std::fs::read(json).expect("JSON")).expect("a report");
    (text.split_whitespace().collect::<Vec<_>>().join(" "), report.kinds.remove(0))
}

#[test]
fn that_slow_calls_moved_more_is_said_with_how_much() {
    needs_root!();
    let scratch = Scratch::new();
    let script = "dd if=/dev/zero of=/dev/null bs=100 count=1980; \
                  dd if=/dev/zero of=/dev/null bs=4000000 count=20";
    let (_, rows) = per_call(&scratch, "", &["sh", "-c", script]);
    let great = rows.iter().filter(|row| row.call == "read" && row.result.0 == 4_000_000);
    assert_eq!(great.clone().count(), 20);
    // What a great one takes at least: a small one that lost the CPU is no slow one then, or the only one.
    let least = great.map(|row| row.account.time_ns()).min().expect("one");
    let slow = format!("{least}ns");
    let file = scratch.path("calls.parquet").display().to_string();
    let (text, kind) = explained(&[&file, "--call", "read", "--slow", &slow], &scratch);
    let moved = kind.moved.as_ref().unwrap_or_else(|| panic!("{text}"));
    assert_eq!(moved.beyond_calls_total, 20, "{text}");
    // A program's own libraries are read, too, by some hundred bytes.
    assert!((100.0..200.0).contains(&moved.ordinary_bytes), "{moved:?}");
    assert!(moved.slow_bytes > 3e6 && kind.outcome.is_none(), "{kind:?}");
    assert!(text.contains(" MiB (1") && text.contains(" slow ones more than any"), "{text}");
}

#[test]
fn that_slow_calls_succeeded_where_ordinary_ones_failed_is_said_with_the_error() {
    needs_root!();
    let scratch = Scratch::new();
    // Who opens a pipe waits until the other end is opened, too.
    let pipe = scratch.path("pipe").display().to_string();
    let script = format!(
        "mkfifo {pipe}; (sleep 0.3; : > {pipe}) & cat $(seq -f /no/such/%g 1 300) {pipe}; wait"
    );
    per_call(&scratch, "", &["sh", "-c", &script]);
    let file = scratch.path("calls.parquet").display().to_string();
    let (text, kind) = explained(&[&file, "--call", "openat", "--slow", "200ms"], &scratch);
    let outcome = kind.outcome.as_ref().unwrap_or_else(|| panic!("{text}"));
    assert_eq!((kind.slow.calls_total, outcome.slow_failed_total), (1, 0), "{text}");
    let failed = outcome.ordinary_errors["ENOENT"];
    assert!(failed * 10 > kind.ordinary.calls_total * 9, "{outcome:?} of {:?}", kind.ordinary);
    let said = format!("1 of 1 slow ones succeeded, where {failed} of ");
    assert!(text.contains(&said) && text.contains(" ordinary ones failed (ENOENT)"), "{text}");
}

/// What a call had of one of the numbers of what came later.
fn later(row: &CallRow, name: &str) -> u64 {
    let column = LATER_COLUMNS.iter().find(|column| column.name == name).expect("a column");
    column.raw(row).unwrap_or_else(|| panic!("{name} is not known"))
}

#[test]
fn what_slow_calls_cause_later_is_theirs_to_the_byte() {
    needs_root!();
    let scratch = Scratch::new();
    let data = scratch.path("data").display().to_string();
    // A hundred writes of 64 KiB and twelve of 4 MiB, which only an fsync sends on their way; one is left dirty.
    let script = format!(
        "dd if=/dev/zero of={data} bs=64k count=100; \
         dd if=/dev/zero of={data} bs=4M count=12 seek=2 conv=notrunc,fsync; \
         dd if=/dev/zero of={data} bs=64k count=1 seek=1000 conv=notrunc"
    );
    let written = |row: &CallRow| later(row, "later_block_written_bytes_total");
    // A kernel may run no program at a completion: then bytes are missing, and pend. There are never too many.
    let all = (100 * 65536 + 12 * (4 << 20)) as u64;
    let mut attempts = (0..3).map(|_| per_call(&scratch, "", &["sh", "-c", &script]));
    let (report, rows) = attempts
        .find(|(_, rows)| rows.iter().map(written).sum::<u64>() >= all)
        .unwrap_or_else(|| per_call(&scratch, "", &["sh", "-c", &script]));
    let of =
        |bytes: i64| rows.iter().filter(move |row| row.call == "write" && row.result.0 == bytes);
    // The table says so, which is not made of what is told of single calls.
    let table: u64 = report
        .calls
        .iter()
        .filter_map(|call| call.later.get("block_written_bytes_total"))
        .map(|number| number.as_f64() as u64)
        .sum();
    if table == 0 {
        crate::support::leave_out("no disk is seen below this file system");
        return;
    }
    assert_eq!((of(65536).count(), of(4 << 20).count()), (101, 12));
    let settled: Vec<u64> = of(65536).take(100).map(written).collect();
    assert_eq!(settled, vec![65536; 100]);
    assert_eq!(of(4 << 20).map(written).collect::<Vec<_>>(), vec![4 << 20; 12]);
    // Where nothing else was dirty a write has set the timer of the kernel's writers.
    let set = COST_COLUMNS.iter().find(|column| column.name == "timer_started_total");
    let timers = |row: &CallRow| {
        let set = set.and_then(|column| column.raw(row)).expect("timers are looked into");
        set - later(row, "later_timers_total")
    };
    for row in of(4 << 20) {
        // Somebody else may set it anew, or stop it.
        assert!(later(row, "later_pending_total") <= timers(row), "{row:?}");
    }
    // What is dirty still has caused nothing yet: it is told as open.
    let last = of(65536).next_back().expect("a write");
    let open = 16 + timers(last);
    assert_eq!((later(last, "later_pending_total"), written(last)), (open, 0), "{last:?}");
    // The rows and the table are of the same.
    assert_eq!(rows.iter().map(written).sum::<u64>(), table);
    let file = scratch.path("calls.parquet").display().to_string();
    let told = explain(&[&file, "--call", "write", "--slow", "10%"]);
    let text = String::from_utf8_lossy(&told.stdout);
    // Those that lost the CPU meanwhile may be among the slowest.
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("later, ") && words.contains("written to block devices: "), "{text}");
}

/// Slow fsyncs for another's pages, in a file as an older weigh has made it: what it does not have is told with the
/// reason, in each of the three forms, and is nowhere compared.
#[test]
fn what_an_older_file_does_not_have_is_told_and_not_taken_for_0() {
    let scratch = Scratch::new();
    let (whole, older, page) =
        (scratch.path("calls.parquet"), scratch.path("older.parquet"), scratch.path("page.html"));
    let mut writer = weigh_keep::CallsWriter::create(&whole).expect("a file");
    for sequence in 0..1000 {
        let (mut row, slow) =
            (CallRow { call: "fsync".into(), sequence, ..CallRow::default() }, sequence % 100 == 7);
        row.account.set_time_ns(if slow { 9_000_000 } else { 1_000_000 + sequence });
        for column in COST_COLUMNS.iter() {
            let is_told = slow && column.name.starts_with("block_foreign_");
            column.set_raw(&mut row, if is_told { 3 } else { 0 });
        }
        let waiting = COST_COLUMNS.iter().find(|c| c.name == "block_waiting_seconds").expect("it");
        let time = row.account.time_ns();
        waiting.set_raw(&mut row, time);
        writer.push(&row).expect("room");
    }
    writer.finish(&weigh_keep::CallsNote::default()).expect("a file");
    let taken_out = [
        "block_foreign_requests_total",
        "block_foreign_bytes_total",
        "later_lost_total",
        "weigh.unknown_later",
    ];
    older::without(&whole, &older, &taken_out, "weigh 0.0.1");
    let explain = |file: &Path, options: &[&str]| {
        let mut weigh = Command::new(weigh_binary());
        let output = weigh.arg("explain").arg(file).args(options).output().expect("weigh starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (String::from_utf8_lossy(&output.stdout).into_owned(), said, output.status.success())
    };
    let report = |file: &Path| -> ExplainReport {
        let (json, said, is_well) = explain(file, &["--quiet", "--json", "-"]);
        assert!(is_well, "{said}");
        serde_json::from_str(&json).expect("a report")
    };
    let of_whole = report(&whole);
    let counters = |report: &ExplainReport| -> Vec<String> {
        let counters = report.kinds[0].counters.iter();
        counters.map(|counter| counter.name.clone()).collect()
    };
    assert_eq!(counters(&of_whole), ["foreign_requests_total", "foreign_bytes_total"]);
    assert!(of_whole.unavailable.is_empty(), "{:?}", of_whole.unavailable);
    let of_older = report(&older);
    assert_eq!(of_older.kinds[0].verdict, Verdict::Differ);
    assert!(counters(&of_older).is_empty(), "{:?}", counters(&of_older));
    let reason = "the file was made by an older weigh (weigh 0.0.1)";
    let names: Vec<&str> = of_older.unavailable.iter().map(|lack| lack.name.as_str()).collect();
    assert_eq!(names, [&taken_out[..3], &["unknown_later_total"]].concat());
    assert!(of_older.unavailable.iter().all(|lack| lack.reason == reason));
    let (text, said, _) = explain(&older, &["--page", &page.display().to_string()]);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = format!("not known, for {reason}: {}", names.join(", "));
    assert!(text.contains(&told), "{text} {said}");
    assert!(scratch.text("page.html").contains(&told));
    // Which calls are of an interval is not said, which is not the same as that none is.
    older::without(&whole, &older, &["interval", "token"], "weigh 0.0.1");
    let (_, said, is_well) = explain(&older, &["--by", "interval"]);
    assert!(!is_well && said.contains("no column interval") && said.contains(reason), "{said}");
}

/// A file of 120 intervals of two reads each, of tokens 0 to 59, two of each; and one of the text req-2, which
/// computes for 9 ms between its calls, and reads more.
fn of_intervals(file: &Path) {
    // What Python's hashlib makes of req-2.
    const REQ_2: u64 = 3835346158826075702;
    let mut writer = weigh_keep::CallsWriter::create(file).expect("a file");
    let requests = (0..120).map(|i| (i % 60, 1_000_000 + i as i64 * 1_000, 100));
    for (number, (token, between, bytes)) in
        requests.chain([(REQ_2, 9_000_000, 50_000)]).enumerate()
    {
        let began = number as i64 * 100_000_000;
        let interval = Some(Interval { number: number as u64, token });
        for time_ns in [began, began + between] {
            let (sequence, result) = ((time_ns / 1_000) as u64, Returned(bytes));
            let call = "read".to_string();
            let mut row =
                CallRow { call, sequence, time_ns, interval, result, ..CallRow::default() };
            let kernel = COST_COLUMNS.iter().find(|c| c.name == "kernel_time_seconds").expect("it");
            kernel.set_raw(&mut row, 500);
            row.account.set_time_ns(500);
            writer.push(&row).expect("room");
        }
    }
    writer.finish(&weigh_keep::CallsNote::default()).expect("a file");
}

#[test]
fn intervals_that_are_asked_for_by_their_tokens_are_compared_with_all_others() {
    let scratch = Scratch::new();
    of_intervals(&scratch.path("calls.parquet"));
    let file = scratch.path("calls.parquet").display().to_string();
    let (text, kind) = explained(&[&file, "--token", "req-2", "--token", "30"], &scratch);
    let asked = kind.asked.as_ref().expect("it was asked for");
    assert_eq!((asked.token, asked.given.as_str()), (3835346158826075702, "req-2"));
    assert_eq!((kind.verdict, kind.slow.calls_total, kind.calls_total), (Verdict::Differ, 1, 121));
    let named = "token req-2 (3835346158826075702): 1 of 121 intervals took 9.0 ms (1.1 ms)";
    assert!(text.contains(named), "{text}");
    let moved = "moved: 97.7 KiB (200 B), 1 of 1 asked ones more than any ordinary one";
    assert!(text.contains(moved) && text.contains("7.9 ms more in the program itself"), "{text}");
    // 1,030 us and 1,090 us, among times from 1,000 us to 1,119 us.
    let usual = "token 30: 2 of 121 intervals took 1.1 ms, as is usual: ordinary ones took 1.1 ms, from 1.0 ms";
    assert!(text.contains(usual), "{text}");
    assert!(text.contains("asked for: token req-2 (3835346158826075702), token 30;"), "{text}");
}

#[test]
fn a_token_that_is_in_no_interval_is_refused_and_so_is_what_asks_for_something_else_too() {
    let scratch = Scratch::new();
    of_intervals(&scratch.path("calls.parquet"));
    let file = scratch.path("calls.parquet").display().to_string();
    let none = format!("{file} holds no interval of token 60: it has 121 intervals of 61 tokens");
    for (wrong, named) in [
        (&["--token", "1", "--token", "60"][..], none.as_str()),
        (&["--token", "req-3"], "no interval of token req-3 ("),
        (&["--token", "18446744073709551616"], "expected a number below 2^64, or a text"),
        (&["--token", "1", "--by", "token"], "say --by interval"),
        (&["--token", "1", "--by", "call"], "say --by interval"),
        (&["--token", "1", "--call", "read"], "--call"),
        (&["--token", "1", "--slow", "1ms"], "--slow"),
    ] {
        let told = explain(&[&[file.as_str()], wrong].concat());
        let error = String::from_utf8_lossy(&told.stderr);
        assert!(told.status.code() == Some(125) && error.contains(named), "{wrong:?}: {error}");
    }
    assert!(explain(&[&file, "--token", "1", "--by", "interval"]).status.success());
}
