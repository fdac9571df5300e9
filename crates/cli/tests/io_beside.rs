//! `weigh io --mechanism preload+bpf`: the library counts what goes through it, the kernel side all else, of one job,
//! and nothing is counted by both.

mod support;

use serde_json::Value;
use support::run::{Scratch, Weigh, weigh_as};
use support::told::{moved, number, rows, text};
use support::workload;
use weigh_schema::event::CollectorState;
use weigh_schema::io::FileUse;
use weigh_schema::{Mechanism, Quality};

const CHUNK: u64 = 1021;

/// Follows a script.
#[track_caller]
fn io(scratch: &Scratch, mechanism: &str, script: &str) -> Value {
    let json = text(&scratch.path("io.json"));
    let options = ["io", "-q", "--mechanism", mechanism, "--json", &json, "--"];
    let output = weigh_as(None, scratch, &[&options[..], &["sh", "-c", script]].concat());
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}", said());
    let report = serde_json::from_str(&scratch.text("io.json"));
    let report: Value = report.unwrap_or_else(|error| panic!("{error}: {}", said()));
    assert_eq!(report["mechanism"], mechanism, "{report}");
    assert!(report.get("quality").is_none(), "exact: {} {}", report["quality"], report["notes"]);
    assert!(report.get("rest").is_none(), "{}", report["rest"]);
    report
}

fn file(scratch: &Scratch, name: &str, bytes: u64) -> String {
    let path = scratch.path(&format!("work/{name}"));
    std::fs::write(&path, vec![7; bytes as usize]).expect("a file");
    text(&path)
}

fn sources(row: &Value) -> Vec<&str> {
    row["sources"].as_array().expect("who has counted").iter().flat_map(Value::as_str).collect()
}

fn told(truth: &str, key: &str) -> u64 {
    let numbers = truth.lines().filter_map(|line| line.strip_prefix(&format!("{key}=")));
    numbers.map(|number| number.parse::<u64>().expect("a number")).sum()
}

/// The same program, once dynamic and once static, that reads in turn by the C library, by number, and by an
/// instruction of its own, in threads, children of both kinds, and a signal's handler. It notes what it did.
fn mixed(scratch: &Scratch, path: &str) -> String {
    let script = ["mixed", "mixed-static"].map(|program| {
        let truth = text(&scratch.path(&format!("{program}.truth")));
        format!("TRUTH_FILE={truth} {} {path} {CHUNK}", workload(program))
    });
    script.join("; ")
}

/// The rows of what was read have what both programs say that they did.
#[track_caller]
fn has_each_call_once(rows: &[&Value], scratch: &Scratch) {
    for (program, is_static) in [("mixed", false), ("mixed-static", true)] {
        let truth = scratch.text(&format!("{program}.truth"));
        let own: Vec<&Value> =
            rows.iter().copied().filter(|row| row["process"] == program).collect();
        let sum = |key: usize| own.iter().map(|row| moved(row, "positioned")[key]).sum::<u64>();
        assert!(told(&truth, "calls") > 1000, "{truth}");
        assert_eq!([sum(0), sum(1)], [told(&truth, "bytes"), told(&truth, "calls")], "{own:?}");
        for (key, of) in [("opens_total", "opens"), ("closes_total", "closes")] {
            let all: u64 = own.iter().map(|row| number(row, key)).sum();
            assert_eq!(all, told(&truth, of), "{program} {key}: {own:?}");
        }
        for row in &own {
            let has_library = sources(row).contains(&"preload");
            assert!(sources(row).contains(&"bpf"), "{row}");
            // What a child by vfork reads by the library is its parent's, whose memory it has.
            assert!(!(is_static && has_library), "{row}");
        }
        assert_eq!(own.iter().any(|row| sources(row).len() == 2), !is_static, "{own:?}");
    }
}

#[test]
fn each_call_is_counted_once_whoever_makes_it_and_however() {
    let scratch = Scratch::new();
    let path = file(&scratch, "read", CHUNK + 3);
    let report = io(&scratch, "preload+bpf", &mixed(&scratch, &path));
    has_each_call_once(&rows(&report, &path), &scratch);
    // One read of a pipe waited while the handler read.
    let pipes = report["files"].as_array().expect("files").iter();
    let pipes: Vec<[u64; 4]> =
        pipes.filter(|row| row["object"] == "pipe").map(|row| moved(row, "plain")).collect();
    assert_eq!(pipes, [[7, 1, 7, 1]; 2], "{report}");
}

/// The kernel side follows the job, and both count in it.
#[test]
fn a_recording_has_the_same() {
    let scratch = Scratch::new();
    let path = file(&scratch, "read", CHUNK + 3);
    // A process that nobody of the job waits for, and one that writes, besides.
    let script = format!("(sleep 0.1 &); {}; echo 1234567 >{path}.written", mixed(&scratch, &path));
    let measured = Weigh::bash(&script)
        .option("--io")
        .option("--io-mechanism=preload+bpf")
        .option("--interval=50ms")
        .measure();
    let found = measured.summary().io.as_deref().expect("a section of its own");
    assert_eq!(found.mechanism, Mechanism::PreloadBpf);
    assert!(found.notes.is_empty(), "{:?}", found.notes);
    let collectors = &measured.summary().collectors;
    let own = collectors.iter().find(|collector| collector.name == "io").expect("a collector");
    assert_eq!(
        (own.mechanism, own.status.clone(), own.lost),
        (Mechanism::PreloadBpf, CollectorState::Active, 0)
    );
    // Whoever follows the job is one thing, and who tells of its files another.
    let processes = &measured.summary().metrics["processes_total"];
    assert_eq!((processes.source, processes.quality), (Mechanism::Bpf, Quality::Exact));
    let rows: Vec<FileUse> =
        measured.files().into_iter().filter_map(|row| row.used).map(|used| *used).collect();
    let named = |name: &str| -> Vec<Value> {
        let rows = rows.iter().filter(|row| row.name == name);
        rows.map(|row| serde_json::to_value(row).expect("words")).collect()
    };
    let read = named(&path);
    has_each_call_once(&read.iter().collect::<Vec<_>>(), &scratch);
    let written = named(&format!("{path}.written"));
    assert_eq!(written.len(), 1, "{written:?}");
    assert_eq!(moved(&written[0], "plain"), [0, 0, 8, 1], "{written:?}");
    let by: u64 = rows.iter().map(|row| row.totals.by_calls.read_bytes).sum();
    assert_eq!(by, found.totals.by_calls.read_bytes);
    let recording = text(&measured.scratch.path("recording"));
    let shown = weigh_as(None, &scratch, &["show", "--details", &recording]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("seen by preload+bpf"), "{shown}");
}

/// Static programs, and requests that are no calls of the C library.
#[test]
fn what_the_library_does_not_see_the_kernel_side_counts() {
    let scratch = Scratch::new();
    let path = file(&scratch, "read", 1_000_003);
    let (dynamic, fixed) = (workload("io"), workload("io-static"));
    let jobs = [
        ("read", 99_991, format!("{dynamic} read 99991 {CHUNK} {path}"), "plain", "preload"),
        ("static", 70_001, format!("{fixed} read 70001 {CHUNK} {path}"), "plain", "bpf"),
        ("aio", 90_001, format!("{dynamic} aio-read 90001 {CHUNK} {path}"), "aio", "bpf"),
        ("uring", 80_021, format!("{dynamic} uring-read 80021 {CHUNK} {path}"), "uring", "bpf"),
    ];
    let line = |(_, _, command, _, _): &(&str, u64, String, &str, &str)| {
        format!("sh -c 'echo $$ >&5; exec {command}'\n")
    };
    let script: String = jobs.iter().map(line).collect();
    let pids = text(&scratch.path("pids"));
    let report = io(&scratch, "preload+bpf", &format!("set -e; exec 5>{pids}\n{script}"));
    let pids = scratch.text("pids");
    let all = rows(&report, &path);
    for (pid, (name, bytes, _, kind, source)) in pids.lines().zip(&jobs) {
        let row = all.iter().find(|row| row["pid"].as_u64() == pid.parse().ok()).expect("a row");
        let expected = [*bytes, bytes.div_ceil(CHUNK), 0, 0];
        assert_eq!(moved(row, kind), expected, "{name}: {row}");
        assert!(sources(row).contains(source), "{name}: {row}");
        assert_eq!(number(row, "opens_total"), 1, "{name}: {row}");
        // Nothing of it was counted as anything else.
        let kinds = row["by_kind"].as_object().expect("kinds");
        assert!(kinds.keys().all(|other| other == kind || other == "mapped"), "{name}: {row}");
    }
    assert_eq!(all.len(), jobs.len(), "{all:?}");
}

/// Whatever a program does with its files, both together have what the kernel side alone has.
#[test]
fn all_numbers_are_those_of_the_kernel_side_alone() {
    let scratch = Scratch::new();
    let path = file(&scratch, "read", 1_000_003);
    let access = workload("access");
    let target = |name: &str| text(&scratch.path(&format!("work/{name}")));
    let program = workload("io");
    let script = format!(
        "{access} opens {path} 23; {access} strided {path} 101 5003; {access} again {path} 3; \
         {access} syncs {} 30; {access} metadata {}; {access} map {path}; {access} many {} 50; \
         {program} sendfile 50021 333 {path} {}; {program} copy_file_range 40009 {CHUNK} {path} {}; \
         {program} writev 30011 {CHUNK} {}; {program} sendmmsg 9001 333; true",
        target("syncs"),
        target("meta"),
        target("f"),
        target("sent"),
        target("copied"),
        target("written")
    );
    let keys = [
        "opens_total",
        "closes_total",
        "seeks_total",
        "metadata_calls_total",
        "syncs_total",
        "truncates_total",
        "maps_total",
        "failed_calls_total",
        "consecutive_reads_total",
        "strided_reads_total",
        "reread_bytes",
        "highest_bytes",
    ];
    let work = text(&scratch.path("work/"));
    let of = |mechanism: &str| {
        let report = io(&scratch, mechanism, &script);
        let mut all = std::collections::BTreeMap::new();
        for row in report["files"].as_array().expect("files") {
            let name = row["name"].as_str().expect("a name").to_string();
            if name.starts_with(&work) {
                let kinds = row["by_kind"].as_object().expect("kinds").clone();
                let calls: Vec<_> =
                    kinds.into_iter().filter(|(kind, _)| kind != "mapped").collect();
                let numbers = keys.map(|key| number(row, key));
                all.entry(name).or_insert_with(Vec::new).push(format!("{calls:?} {numbers:?}"));
            }
        }
        all.values_mut().for_each(|rows| rows.sort());
        all
    };
    let (alone, both) = (of("bpf"), of("preload+bpf"));
    assert!(alone.len() > 50, "{alone:?}");
    assert_eq!(both, alone);
}

/// The table says it, too.
#[test]
fn each_line_says_who_has_counted() {
    let scratch = Scratch::new();
    let path = file(&scratch, "read", 50_021);
    let script = ["io", "io-static"]
        .map(|program| format!("{} read 50021 {CHUNK} {path}", workload(program)));
    let options = ["io", "--mechanism", "preload+bpf", "--rows", "100", "--", "sh", "-c"];
    let output = weigh_as(None, &scratch, &[&options[..], &[&script.join("; ")]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // `read  io-static 4711 by bpf   1.2 ms …`: the path from the folder of the job, then whose row it is.
    let lines = said.lines().filter(|line| line.starts_with("read  ")).map(str::split_whitespace);
    let sources: Vec<_> =
        lines.filter_map(|line| line.skip_while(|word| *word != "by").nth(1)).collect();
    let by = |source: &str| sources.iter().filter(|found| **found == source).count();
    assert_eq!((by("preload") + by("preload+bpf"), by("bpf")), (1, 1), "{said}");
}

/// Programs get the library when they begin, and it adds up.
#[test]
fn what_takes_one_of_them_alone_is_refused() {
    let scratch = Scratch::new();
    let calls = text(&scratch.path("calls.parquet"));
    let refused: [(&[&str], &str); 3] = [
        (&["--pid", "1"], "takes --mechanism bpf"),
        (&["--by", "thread", "--", "true"], "only --mechanism bpf and ptrace tell threads apart"),
        (&["--calls", &calls, "--", "true"], "only --mechanism bpf and ptrace tell of each call"),
    ];
    for (arguments, why) in refused {
        let options = [&["io", "--mechanism", "preload+bpf"], arguments].concat();
        let output = weigh_as(None, &scratch, &options);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(why), "{said}");
    }
    let refused: [(&[&str], &str); 4] = [
        (&["--io-by", "thread"], "only --mechanism bpf and ptrace tell threads apart"),
        (&["--io-calls"], "only --mechanism bpf and ptrace tell of each call"),
        (&["--mechanism", "poll"], "only beside --mechanism bpf"),
        (&["--mechanism", "preload"], "only beside --mechanism bpf"),
    ];
    for (arguments, why) in refused {
        let recording = text(&scratch.path("refused"));
        let options = ["run", "-o", &recording, "--io", "--io-mechanism", "preload+bpf"];
        let options = [&options[..], arguments, &["--", "true"]].concat();
        let output = weigh_as(None, &scratch, &options);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(why), "{said}");
        assert!(!scratch.path("refused").exists(), "{said}");
    }
}
