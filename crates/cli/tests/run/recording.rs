//! What a run leaves behind: tables that agree with the summary, samples where they belong, and a
//! summary of the shape that others build on.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::support::run::{Scratch, Weigh, set_surroundings, weigh};
use crate::support::trace::succeeds;
use crate::support::workload;
use serde_json::Value as Json;
use weigh_keep::Recording;
use weigh_schema::recording::files;
use weigh_schema::{Formula, METRICS, Number, Quality};

/// A job that uses a bit of everything.
pub fn mixed() -> Weigh {
    Weigh::bash(&format!(
        "{} 60 2 & {} 30000000 & {} 3 20000000 together; {} write 1000003 1021 {}; wait; {} 5 fork",
        workload("spin"),
        workload("fill-static"),
        workload("children"),
        workload("io"),
        "written",
        workload("procs")
    ))
}

#[test]
fn rows_of_processes_add_up_to_the_job() {
    needs_root!();
    let measured = mixed().measure();
    let rows = measured.processes();
    assert_eq!(rows.len() as f64, measured.number("processes_total"));
    let mut compared = 0;
    for metric in METRICS.iter().filter(|m| matches!(m.formula, Formula::Sum { .. })) {
        let Some(of_job) = measured.value(metric.name).number() else { continue };
        let values: Vec<_> = rows.iter().filter_map(|row| row.metrics.get(metric.name)).collect();
        measured.check(values.len() == rows.len(), || {
            format!("{} is known for {} of {} processes", metric.name, values.len(), rows.len())
        });
        let sum: f64 = values.iter().map(|number| number.as_f64()).sum();
        measured.check((sum - of_job).abs() < 1e-6, || {
            format!("the rows add up to {sum} {}, the job has {of_job}", metric.name)
        });
        compared += usize::from(of_job > 0.0);
    }
    assert!(compared >= 8, "only {compared} metrics had a value");
    let peak = rows.iter().map(|row| row.metrics["memory_peak_process_rss_bytes"].as_f64());
    let peak = peak.fold(0.0, f64::max);
    assert_eq!(peak, measured.number("memory_peak_process_rss_bytes"), "greatest of the rows");
}

#[test]
fn times_are_in_order() {
    needs_root!();
    let measured = mixed().options("--interval 50ms").measure();
    let job = &measured.summary().job;
    let started = job.started.as_nanosecond() as i64;
    let ended = job.ended.expect("it has ended").as_nanosecond() as i64;
    let wall = measured.number("wall_seconds");
    let between = (ended - started) as f64 * 1e-9;
    measured.check((wall - between).abs() < 0.002, || format!("{wall} s, but {between} s between"));
    for row in measured.processes() {
        let end = row.ended_ns.unwrap_or(i64::MAX);
        measured.check(started <= row.started_ns && row.started_ns <= end && end <= ended, || {
            format!("{} ({}) from {} to {end}", row.command, row.pid, row.started_ns)
        });
    }
    for sample in measured.samples() {
        measured.check((started..=ended).contains(&sample.time_ns), || {
            format!("{} s after the end: {sample:?}", (sample.time_ns - ended) as f64 * 1e-9)
        });
    }
}

#[test]
fn every_metric_is_there_and_honest() {
    needs_root!();
    let measured = mixed().measure();
    let names: BTreeSet<_> = measured.summary().metrics.keys().map(String::as_str).collect();
    let declared: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(names, declared);
    for metric in METRICS {
        let value = measured.value(metric.name);
        assert_eq!(value.unit, metric.unit, "{}", metric.name);
        let is_known = value.quality != Quality::Unavailable;
        assert_eq!(value.value.is_some(), is_known, "{}: {value:?}", metric.name);
        assert!(value.quality == Quality::Exact || value.reason.is_some(), "{}", metric.name);
        if let Some(number) = value.value {
            let is_whole = matches!(number, Number::Whole(_));
            assert_eq!(is_whole, metric.unit.is_whole(), "{}: {number:?}", metric.name);
        }
    }
}

#[test]
fn the_directory_holds_what_was_promised() {
    needs_root!();
    let measured = Weigh::run(["true"]).measure();
    let place = measured.scratch.path("recording");
    let found: BTreeSet<_> = fs::read_dir(&place)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    let promised = [files::SUMMARY, files::SERIES, files::PROCESSES, files::FILES, files::REPORT];
    assert_eq!(found, promised.map(String::from).into());
    let page = measured.scratch.text("recording/report.html");
    assert!(page.contains("</html>") && page.contains("wall_seconds"), "no page");
    measured.said(&place.display().to_string());
}

/// The page at the end is made of the summary that is still in memory; `weigh report` reads it from its file.
#[test]
fn the_page_at_the_end_is_that_of_the_files() {
    needs_root!();
    for options in ["--label odd=\u{201c}<&>", "--io --interval 20ms"] {
        let measured =
            Weigh::bash("cat /etc/hostname > copy; sleep 0.1").options(options).measure();
        let place = measured.scratch.path("recording").display().to_string();
        let output = weigh(&measured.scratch, &["report", "-o", "-", &place]);
        assert!(output.status.success(), "{output:?}");
        let later = String::from_utf8(output.stdout).expect("a text");
        let page = measured.scratch.text("recording/report.html");
        measured.check(page == later, || format!("{options}: another page"));
    }
}

#[test]
fn without_a_place_it_is_under_the_state_directory() {
    needs_root!();
    let scratch = crate::support::run::Scratch::new();
    for _ in 0..2 {
        let output = weigh(&scratch, &["run", "-q", "--", "true"]);
        assert!(output.status.success(), "{output:?}");
    }
    let recordings: Vec<_> = fs::read_dir(scratch.path("state/weigh"))
        .expect("it was made")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    assert_eq!(recordings.len(), 2, "{recordings:?}");
    for recording in recordings {
        let found = Recording::open(&recording).expect("a recording");
        let name = recording.file_name().and_then(|name| name.to_str());
        assert_eq!(Some(found.summary().job.id.as_str()), name);
    }
}

#[test]
fn the_summary_goes_where_it_is_wanted() {
    needs_root!();
    let run = Weigh::run(["echo", "hello"]).options("-q --json -");
    let measured = run.measure();
    let said = String::from_utf8_lossy(&measured.stdout);
    let json = said.strip_prefix("hello\n").expect("the command's own comes first");
    let written: Json = serde_json::from_str(json).expect("JSON");
    let kept: Json =
        serde_json::from_str(&measured.scratch.text("recording/summary.json")).expect("JSON");
    assert_eq!(written, kept);

    let run = Weigh::run(["true"]).options("-q");
    let path = run.scratch().path("wanted.json");
    let measured = run.option("--json").option(&path).measure();
    let kept = measured.scratch.text("recording/summary.json");
    let parse = |text: &str| serde_json::from_str::<Json>(text).expect("JSON");
    assert_eq!(parse(&measured.scratch.text("wanted.json")), parse(&kept));

    let measured = Weigh::run(["true"]).options("-q --json fd:2").measure();
    let kept = measured.scratch.text("recording/summary.json");
    assert_eq!(parse(&measured.stderr), parse(&kept));
}

#[test]
fn show_and_report_read_it_again() {
    needs_root!();
    let measured = mixed().measure();
    let place = measured.scratch.path("recording").display().to_string();
    let output = weigh(&measured.scratch, &["show", "--details", &place]);
    assert!(output.status.success(), "{output:?}");
    let shown = String::from_utf8_lossy(&output.stdout);
    for metric in ["wall_seconds", "memory_peak_bytes", "processes_total"] {
        assert!(shown.contains(metric), "no {metric}:\n{shown}");
    }
    assert!(!shown.contains('\x1b') && !shown.contains("incomplete"), "{shown}");

    let output = weigh(&measured.scratch, &["show", &place, "--json"]);
    let parse = |text: &[u8]| serde_json::from_slice::<Json>(text).expect("JSON");
    let kept = measured.scratch.text("recording/summary.json");
    assert_eq!(parse(&output.stdout), parse(kept.as_bytes()));

    let page = measured.scratch.path("page.html").display().to_string();
    let output = weigh(&measured.scratch, &["report", &place, "-o", &page]);
    assert!(output.status.success(), "{output:?}");
    assert!(measured.scratch.text("page.html").contains("</html>"));
}

#[test]
fn labels_and_category_are_kept() {
    needs_root!();
    let measured =
        Weigh::run(["true"]).options("--label a=1 --label b=x=y --category test").measure();
    let job = &measured.summary().job;
    let labels: Vec<_> = job.labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(labels, [("a", "1"), ("b", "x=y")]);
    assert_eq!(job.category.as_deref(), Some("test"));
    assert_eq!(job.command, ["true"]);
    assert_eq!(job.cwd, measured.scratch.path("work").display().to_string());
}

#[test]
fn two_jobs_beside_each_other_are_kept_apart() {
    needs_root!();
    let small = Weigh::workload("spike 40000000 700").start();
    let large = Weigh::workload("spike 160000000 700").start();
    for running in [small, large] {
        let measured = running.end();
        measured.is("processes_total", 1);
        // The kernel's own mark is off by what a CPU has not told yet: 256 KiB were seen.
        measured.is_near("memory_peak_bytes", measured.truth("peak_rss_bytes"), 0.01);
    }
}

#[test]
fn a_run_inside_a_run() {
    needs_root!();
    let binary = crate::support::weigh_binary().display().to_string();
    let fill = workload("fill");
    let run = Weigh::run([&binary, "run", "-q", "-o", "inner", "--", &fill, "100000000"]);
    let measured = run.measure();
    let inner = Recording::open(&measured.scratch.path("work/inner")).expect("a recording");
    let of_inner = |metric: &str| inner.summary().metrics[metric].number();
    assert_eq!(of_inner("processes_total"), Some(1.0));
    let truth = measured.truth("peak_rss_bytes") as f64;
    let peak = of_inner("memory_peak_bytes").expect("known");
    assert!((peak - truth).abs() < truth * 0.005, "{peak}, expected {truth}");
    // The outer one has both, and whatever the inner weigh starts for itself.
    measured.is_between("processes_total", 2.0, 4.0);
    measured.is_between("memory_peak_bytes", truth, truth + 200e6);
}

/// The path of each value in a document and the kinds of values found there. Names that are data,
/// such as metrics and labels, become `*`.
fn shape(json: &Json, path: &str, found: &mut BTreeMap<String, BTreeSet<&'static str>>) {
    let kind = match json {
        Json::Null => "null",
        Json::Bool(_) => "true or false",
        Json::Number(number) if number.is_f64() => "real",
        Json::Number(_) => "whole",
        Json::String(_) => "text",
        Json::Array(items) => {
            items.iter().for_each(|item| shape(item, &format!("{path}[]"), found));
            "list"
        }
        Json::Object(fields) => {
            let is_of_machine =
                [".at_start", ".least", ".at_end"].iter().any(|end| path.ends_with(end));
            let is_map = is_of_machine || ["metrics", "job.labels"].contains(&path);
            for (name, value) in fields {
                let name = if is_map { "*" } else { name };
                let below = if path.is_empty() { name.into() } else { format!("{path}.{name}") };
                shape(value, &below, found);
            }
            "object"
        }
    };
    if !path.is_empty() {
        found.entry(path.to_string()).or_default().insert(kind);
    }
}

/// `summary.json` has the keys, and values of the types, that `tests/golden` has; others build on
/// them. Metrics' names are checked against their declarations, elsewhere.
#[test]
fn the_shape_of_the_summary() {
    needs_root!();
    let golden = include_str!("../../../../tests/golden/summary-shape.txt");
    let run = Weigh::workload("grow step 1000000 1000 2000000000").options(
        "--limit memory_peak_bytes=50MB --limit wall_seconds=60s --label a=b --category test",
    );
    let crossed = run.end();
    let plain = Weigh::run(["true"]).options("--without hardware").measure();
    let failed = Weigh::run(["no-such-command-anywhere"]).end();
    let mut found = BTreeMap::new();
    for measured in [&crossed, &plain, &failed] {
        measured.summary();
        let text = measured.scratch.text("recording/summary.json");
        shape(&serde_json::from_str(&text).expect("JSON"), "", &mut found);
    }
    let mut declared = BTreeMap::new();
    let mut may_be_missing = BTreeSet::new();
    for line in golden.lines().filter(|line| !line.starts_with('#')) {
        let (path, kinds) = line.split_once(": ").expect("PATH: KINDS");
        if let Some(path) = path.strip_suffix('?') {
            may_be_missing.insert(path);
        }
        let path = path.trim_end_matches('?').to_string();
        declared.insert(path, kinds.split(", ").collect::<BTreeSet<_>>());
    }
    let describe = || {
        let line = |(path, kinds): (&String, &BTreeSet<_>)| {
            format!("{path}: {}\n", kinds.iter().copied().collect::<Vec<_>>().join(", "))
        };
        found.iter().map(line).collect::<String>()
    };
    for (path, kinds) in &found {
        let allowed = declared.get(path);
        assert!(
            allowed.is_some_and(|allowed| allowed.is_superset(kinds)),
            "{path} is {kinds:?}, expected {allowed:?}; all that was found:\n{}",
            describe()
        );
    }
    for path in declared.keys().filter(|path| !may_be_missing.contains(path.as_str())) {
        assert!(found.contains_key(path), "{path} is missing; found:\n{}", describe());
    }
}

/// A number that follows from the one before, the same in each run.
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

/// Damages a recording's files: a bit, an end that is missing, a stretch of noise, one in place of another.
fn damage(files: &[(PathBuf, Vec<u8>)], state: &mut u64) -> String {
    let (path, bytes) = &files[next(state) % files.len()];
    let mut damaged = bytes.clone();
    // What a file says of itself stands at its end: there a bit changes most.
    let stretch = if next(state).is_multiple_of(2) { bytes.len() } else { bytes.len().min(2048) };
    let at = bytes.len() - 1 - next(state) % stretch;
    let how = match next(state) % 6 {
        0..3 => {
            let bit = next(state) % 8;
            damaged[at] ^= 1 << bit;
            format!("bit {bit} of byte {at}")
        }
        3 => {
            damaged.truncate(at);
            format!("cut at {at}")
        }
        4 => {
            let end = damaged.len().min(at + 1 + next(state) % 64);
            damaged[at..end].fill_with(|| next(state) as u8);
            format!("noise from {at} to {end}")
        }
        _ => {
            let (other, bytes) = &files[next(state) % files.len()];
            damaged.clone_from(bytes);
            format!("{} in its place", other.display())
        }
    };
    fs::write(path, damaged).expect("it can be written");
    format!("{}: {how}", path.display())
}

#[track_caller]
fn is_told_plainly(damage: &str, words: &[&str], output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    let status = output.status;
    let is_ended = status.code().is_some_and(|code| code != 101 && code != 134);
    assert!(is_ended && !said.contains("panicked"), "{damage}: {words:?}: {status}: {said}");
    let is_raw = |c: char| c.is_control() && c != '\n';
    let shown = String::from_utf8_lossy(&output.stdout);
    for text in [said, shown] {
        assert!(!text.contains(is_raw), "{damage}: {words:?}: {text:?}");
    }
}

#[test]
fn a_damaged_recording_is_refused_or_read_and_nothing_worse() {
    let job = Weigh::bash("for i in 1 2 3; do /bin/true; done; head -c 5000 /dev/zero >written");
    let measured = job.options("--interval 20ms --io").measure();
    let scratch = &measured.scratch;
    let (recording, events) = (scratch.path("recording"), scratch.path("events.parquet"));
    let page = scratch.path("page.html").display().to_string();
    let root = crate::support::is_root();
    if root {
        let event = "sched:sched_process_exec{file=str(bprm->filename), old_pid, stack(3)}";
        let path = events.display().to_string();
        let words = ["trace", "-q", "-e", event, "-o", &path, "--", "sh", "-c", "/bin/true; :"];
        succeeds(&weigh(scratch, &words));
    }
    let of_recording = fs::read_dir(&recording).expect("a folder").flatten().map(|e| e.path());
    let paths = of_recording.chain(root.then(|| events.clone()));
    let mut files: Vec<_> = paths.map(|p| (p.clone(), fs::read(p).expect("a file"))).collect();
    files.sort();
    let (place, events) = (recording.display().to_string(), events.display().to_string());
    let verbs: [&[&str]; 5] = [
        &["show", &place],
        &["show", "--details", &place],
        &["report", &place, "-o", &page],
        &["export", "--format", "wfformat", &place],
        &["trace", "read", &events, "--rate", "by event"],
    ];
    let mut state = 19;
    // More are tried by hand.
    let times = std::env::var("WEIGH_DAMAGED").ok().and_then(|times| times.parse().ok());
    for _ in 0..times.unwrap_or_else(|| crate::support::amount(48)) {
        let damage = damage(&files, &mut state);
        let is_of_trace = damage.starts_with(&events);
        let verbs = verbs.iter().filter(|words| (words[0] == "trace") == is_of_trace);
        for words in verbs {
            is_told_plainly(&damage, words, &weigh(scratch, words));
        }
        for (path, bytes) in &files {
            fs::write(path, bytes).expect("it can be written");
        }
    }
}

/// How many processes there were is known while the job runs, and a limit on it says so.
#[test]
fn processes_are_counted_while_the_job_runs() {
    for by in ["bpf", "ptrace", "preload", "poll"] {
        if by == "bpf" && !crate::support::is_root() {
            continue;
        }
        let script =
            "mkfifo gate; for i in 1 2 3; do /bin/sleep 0.3; done; touch ready; read line <gate; :";
        let options = format!("--mechanism {by} --interval 20ms --limit processes_total=1000");
        let mut job = Weigh::bash(script).options(&options).start();
        let ready = job.scratch.path("work/ready");
        job.wait_until("it is ready", 20.0, || ready.exists());
        let place = job.scratch.path("recording").display().to_string();
        let mut shown = Json::Null;
        // What comes and goes between two looks is not in it.
        let least = if by == "poll" { 4.0 } else { 6.0 };
        let is_known = |shown: &Json| {
            let total = shown["metrics"]["processes_total"]["value"].as_f64();
            total >= Some(least) && total == shown["limits"][0]["observed"].as_f64()
        };
        let until = Instant::now() + Duration::from_secs(20);
        while !is_known(&shown) && Instant::now() < until {
            let output = weigh(&job.scratch, &["show", "--json", &place]);
            shown = serde_json::from_slice(&output.stdout).expect("JSON");
        }
        fs::write(job.scratch.path("work/gate"), "\n").expect("the gate");
        let measured = job.end();
        measured.check(is_known(&shown), || format!("{by}: {shown:#}"));
        measured.is_between("processes_total", least, 6.0);
    }
}

/// A table that cannot be read takes nothing with it but its own rows.
#[test]
fn the_rest_of_a_damaged_recording_is_shown() {
    let job = Weigh::bash("head -c 5000 /dev/zero >written; sleep 0.2");
    let measured = job.options("--interval 20ms --io").measure();
    let scratch = &measured.scratch;
    let recording = scratch.path("recording");
    let place = recording.display().to_string();
    let page = scratch.path("page.html").display().to_string();
    let tables = fs::read_dir(&recording).expect("a folder").flatten().map(|entry| entry.path());
    let tables: Vec<_> = tables.filter(|p| p.extension().is_some_and(|e| e == "parquet")).collect();
    assert!(tables.len() >= 4, "{tables:?}");
    let whole = weigh(scratch, &["show", &place]);
    assert!(whole.status.success(), "{whole:?}");
    for path in tables {
        let bytes = fs::read(&path).expect("a table");
        fs::write(&path, &bytes[..bytes.len() / 2]).expect("it can be cut");
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let shown = weigh(scratch, &["show", &place]);
        let told = String::from_utf8_lossy(&shown.stderr).contains(&format!("{name} is damaged"));
        let is_read = name == "files.parquet";
        assert_eq!((told, shown.status.success()), (is_read, !is_read), "{name}: {shown:?}");
        let text = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(
            text.contains("written    5000 B") || text.contains("written    4.9 KiB"),
            "{text}"
        );
        let report = weigh(scratch, &["report", &place, "-o", &page]);
        assert!(report.status.success(), "{name}: {report:?}");
        let page = fs::read_to_string(&page).expect("a page");
        assert!(page.contains(&format!("not all of it can be shown: {name} is damaged")), "{name}");
        fs::write(&path, &bytes).expect("it can be written");
    }
}

#[test]
fn words_that_are_no_text_are_kept_byte_by_byte() {
    needs_root!();
    let scratch = Scratch::new();
    let json = |name: &str| scratch.path(name).display().to_string();
    let ways: [(&str, &[&str], &str); 3] = [
        ("calls.json", &["calls", "-q", "--json"], "/"),
        ("io.json", &["io", "-q", "--json"], "/"),
        ("run.json", &["run", "-q", "-o", "recording", "--json"], "/job/"),
    ];
    for (name, words, place) in ways {
        for (word, expected) in [(&b"\xff\xfe"[..], Some("//4=")), (b"text", None)] {
            let mut command = Command::new(crate::support::weigh_binary());
            set_surroundings(&mut command, &scratch);
            command.args(words).arg(json(name)).args(["--", "true"]).arg(OsStr::from_bytes(word));
            assert!(command.output().expect("it starts").status.success(), "{words:?}");
            let report: Json = serde_json::from_str(&scratch.text(name)).expect("JSON");
            let found = report.pointer(&format!("{place}command_base64"));
            assert_eq!(found.and_then(|all| all[1].as_str()), expected, "{name}");
            let _ = std::fs::remove_dir_all(scratch.path("work/recording"));
        }
    }
}

/// As scratch folders of a job do. The place was given from there.
#[test]
fn a_working_directory_that_goes_does_not_take_the_recording_along() {
    let gone = |options: &[&str]| {
        let scratch = Scratch::new();
        let command = ["--", "sh", "-c", "rm -r ../work; exit 5"];
        let output = weigh(&scratch, &[options, &command].concat());
        assert_eq!(output.status.code(), Some(5), "{output:?}");
        assert!(!scratch.path("work").exists(), "the script has removed it");
        scratch
    };
    let scratch = gone(&["run", "-q", "-o", "../recording"]);
    assert!(scratch.path("recording").join(files::REPORT).exists());
    let recording = Recording::open(&scratch.path("recording")).expect("a recording");
    assert!(recording.is_complete());
    if crate::support::is_root() {
        let scratch = gone(&["calls", "-q", "--per-call", "../calls.parquet"]);
        assert!(scratch.path("calls.parquet").exists());
    }
}
