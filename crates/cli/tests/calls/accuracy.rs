//! `weigh calls`, against what else is known of the same calls: by the program's own clocks, and by
//! what the kernel counts elsewhere; and of those that have not ended, or cannot fail.

#[path = "../../../../tests/workloads/costs.rs"]
mod costs;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::support::mortal::Mortal;
use crate::support::run::{Scratch, weigh};
use crate::support::{slowness, wait_until, workload};
use costs::{ROWS, Row};
use serde_json::Value;
use weigh_schema::call::CallsReport;

/// A time that an ordinary run on a busy machine does not exceed: what lies between a call and the
/// program's clock is not the call's.
const BUSY: f64 = 2.0;

/// One at a time: their times say more when they do not wait for each other.
static ALONE: Mutex<()> = Mutex::new(());

/// A kernel may pass over a program, the more often the more is going on beside. That is no rule: it has to
/// agree in one of so many runs.
const RUNS: usize = 3;

#[track_caller]
fn agrees(program: &str, mechanism: &str) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut said = Vec::new();
    for _ in 0..RUNS {
        match disagreement(program, mechanism) {
            None => return,
            Some(wrong) => said.push(wrong),
        }
    }
    panic!("{}", said.join("\n"));
}

/// What does not agree in a run.
#[track_caller]
fn disagreement(program: &str, mechanism: &str) -> Option<String> {
    let scratch = Scratch::new();
    let [json, file] = ["calls.json", "work/file"].map(|name| scratch.path(name));
    let options = ["calls", "-q", "--mechanism", mechanism, "--json"];
    let [json, file] = [&json, &file].map(|path| path.to_str().expect("text"));
    let command = [json, "--", &workload(program), file];
    let output = weigh(&scratch, &[&options[..], &command].concat());
    assert!(output.status.success(), "{output:?}");
    let report: CallsReport = serde_json::from_str(&scratch.text("calls.json")).expect("JSON");
    assert_eq!(report.lost_total, 0);
    let (worst, kinds) = costs::worst_sum(&report);
    assert!(worst < 1e-4 && kinds > 20, "{worst} % of {kinds}");
    let truth = scratch.text("truth");
    let both = |row: &'static Row| Some((row, row.both(&report, &truth)?));
    let known: Vec<_> = ROWS.iter().filter_map(both).collect();
    // The library does not see two of the calls; a kernel may lack parts (6.1 the bytes of sockets).
    assert!(known.len() * 3 >= ROWS.len() * 2, "only {} rows", known.len());
    let slowness = BUSY * f64::from(slowness());
    let wrong = known.iter().filter(|(row, both)| !row.holds(*both, slowness));
    let wrong: Vec<String> = wrong
        .map(|(row, both)| format!("{}, {} by {}: {both:?}", row.what, row.call, row.witness))
        .collect();
    (!wrong.is_empty()).then(|| format!("{wrong:#?}\n{truth}"))
}

#[test]
fn a_dynamic_program_by_bpf() {
    needs_root!();
    agrees("costs", "bpf");
}

#[test]
fn a_static_program_by_bpf() {
    needs_root!();
    agrees("costs-static", "bpf");
}

#[test]
fn a_dynamic_program_by_the_library() {
    needs_root!();
    agrees("costs", "preload");
}

/// Follows a command; the report.
#[track_caller]
fn followed(scratch: &Scratch, options: &[&str], command: &[&str]) -> Value {
    let json = scratch.path("calls.json").display().to_string();
    let output =
        weigh(scratch, &[&["calls", "--json", &json][..], options, &["--"], command].concat());
    let report = serde_json::from_str(&scratch.text("calls.json"));
    report.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// What a call had cost when it was followed last is told, though it has no row.
#[test]
fn a_call_that_has_not_ended_is_told_with_its_time_so_far() {
    needs_root!();
    let scratch = Scratch::new();
    let json = scratch.path("calls.json").display().to_string();
    // By a name that is no UTF-8.
    let named = OsStr::from_bytes(b"sleep\xff");
    std::os::unix::fs::symlink("/bin/sleep", scratch.path("work").join(named)).expect("a link");
    let program = scratch.path("work").join(named);
    let mut sleeper = Mortal::of(Command::new(program).arg("600").spawn());
    let pid = sleeper.id().to_string();
    let is_asleep = || {
        let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        let number = call.split(' ').next().and_then(|word| word.parse().ok());
        number.is_some_and(|number: i64| number > 0) && !call.starts_with("running")
    };
    wait_until("it sleeps", 10.0, is_asleep);
    let words = ["calls", "--pid", &pid, "--for", "1s", "--json", &json];
    let output = weigh(&scratch, &words);
    let report: Value = serde_json::from_str(&scratch.text("calls.json")).expect("a report");
    let of_it = &report["under_way"][0];
    let told = ["call", "command", "command_base64"].map(|key| of_it[key].as_str());
    let bytes = weigh_schema::base64::encode(b"sleep\xff");
    assert_eq!(told, [Some("clock_nanosleep"), Some("sleep\u{fffd}"), Some(bytes.as_str())]);
    let (seconds, wall) = (of_it["time_seconds"].as_f64(), report["wall_seconds"].as_f64());
    // It was joined a moment after the time began.
    assert!(seconds >= Some(0.9) && seconds <= wall, "{report}");
    assert_eq!(report["calls_total"], 0);
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(said.contains("under way, and in no row: clock_nanosleep, ≥ "), "{said}");
    sleeper.kill().and_then(|()| sleeper.wait()).expect("it can be ended");

    // A call whose entry was seen; and what has ended is nowhere under way.
    let script = "sleep 600 >/dev/null 2>&1 & echo $! >asleep; exec sleep 0.2";
    for (mechanism, is_timed) in [("bpf", true), ("preload", false)] {
        let options = ["--mechanism", mechanism, "--for", "2s"];
        let report = followed(&scratch, &options, &["sh", "-c", script]);
        let asleep: u64 = scratch.text("work/asleep").trim().parse().expect("a number");
        let under_way = report["under_way"].as_array().expect("a list");
        assert_eq!(under_way.len(), 1, "{report}");
        let of_it = &under_way[0];
        assert_eq!((&of_it["pid"], &of_it["call"]), (&asleep.into(), &"clock_nanosleep".into()));
        let seconds = of_it["time_seconds"].as_f64();
        assert_eq!(seconds.is_some(), is_timed, "{report}");
        assert!(seconds.is_none_or(|seconds| seconds > 0.5 && seconds < 60.0), "{report}");
        let pid = rustix::process::Pid::from_raw(asleep as i32).expect("a process");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is there");
    }
    let report = followed(&scratch, &[], &["sleep", "0.1"]);
    assert!(report.get("under_way").is_none(), "{report}");
}

#[test]
fn the_return_from_a_signals_handler_has_not_failed() {
    needs_root!();
    let scratch = Scratch::new();
    // The sleep that each signal ends has failed with EINTR, which the return from the handler restores.
    let script = "trap : USR1; for i in 1 2 3; do sleep 9 & p=$!; (sleep 0.2; kill -USR1 $$) & \
                  wait $p; kill $p; done";
    let report = followed(&scratch, &[], &["sh", "-c", script]);
    let mut rows = report["calls"].as_array().expect("rows").iter();
    let row = rows.find(|row| row["call"] == "rt_sigreturn").expect("a row");
    assert!(row["calls_total"].as_u64() >= Some(3), "{report}");
    assert_eq!(row["errors_total"], 0, "{report}");
}
