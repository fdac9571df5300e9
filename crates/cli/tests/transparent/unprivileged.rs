//! An ordinary user without capabilities: weigh measures what it can and says what it cannot, why,
//! and how to get it. Started as root, the tests become that user.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;

use crate::support::measured::Measured;
use crate::support::run::{Scratch, Weigh, weigh_as};
use crate::support::{is_root, patience, processes, slowness};
use weigh_schema::Quality;
use weigh_schema::event::CollectorState;
use weigh_schema::summary::ExitKind;

const NOBODY: u32 = 65534;

/// Without rights, and only looked at: what every kernel allows everybody.
fn nobody(line: &str) -> Weigh {
    Weigh::workload(line).run_by(NOBODY).options("--mechanism poll")
}

/// A number that is not known is said not to be, with the reason; it is never 0.
#[track_caller]
fn is_right_or_unknown(measured: &Measured, metric: &str, truth: u64) {
    let value = measured.value(metric);
    let right = value.number() == Some(truth as f64);
    let unknown = value.value.is_none() && value.reason.is_some();
    measured.check(right || unknown, || {
        format!("{metric} is {value:?}; it should be {truth}, or not known")
    });
}

#[test]
fn the_command_runs_as_ever() {
    let measured = Weigh::bash("echo out; echo err >&2; exit 7").run_by(NOBODY).end();
    measured.check(measured.status.code() == Some(7), || "expected 7".to_string());
    assert_eq!(measured.stdout, b"out\n");
    measured.said("err\n");
    measured.check(measured.recording().is_complete(), || "the recording is cut".to_string());

    let killed = Weigh::run(["sh", "-c", "kill -USR1 $$"]).run_by(NOBODY).end();
    killed.check(killed.status.signal() == Some(10), || "expected signal 10".to_string());
    let absent = Weigh::run(["/no/such/command"]).run_by(NOBODY).end();
    absent.check(absent.status.code() == Some(127), || "expected 127".to_string());
}

#[test]
fn it_says_what_is_missing_and_how_to_get_it() {
    let measured = Weigh::workload("spin 50").run_by(NOBODY).options("--details").measure();
    for words in ["CAP_BPF", "CAP_PERFMON", "root", "weigh-grant on"] {
        measured.said(words);
    }
    let collectors = &measured.summary().collectors;
    let works_fully = collectors
        .iter()
        .filter(|c| c.mechanism == weigh_schema::Mechanism::Bpf)
        .any(|c| c.status == CollectorState::Active);
    measured.check(!works_fully, || "BPF counts as active".to_string());
    let explained = measured.summary().metrics.values().filter_map(|value| value.reason.as_ref());
    let names_it = explained.filter(|reason| reason.contains("BPF")).count();
    measured.check(names_it > 0, || "no value says that it needs BPF".to_string());
    for (name, value) in &measured.summary().metrics {
        let honest = (value.quality == Quality::Unavailable) == value.value.is_none()
            && (value.quality == Quality::Exact || value.reason.is_some());
        measured.check(honest, || format!("{name}: {value:?}"));
    }
}

#[test]
fn cpu_time_of_what_was_waited_for() {
    let measured = nobody("spin 300 2").measure();
    let truth = measured.truth("cpu_ns") as f64 * 1e-9;
    // wait4(2) tells it in microseconds; what /proc has is in ticks of 10 ms.
    let slack = 0.02 * f64::from(slowness());
    measured.is_between("cpu_seconds", truth - slack, truth + slack);
    let wall = measured.number("wall_seconds");
    let least = measured.truth("wall_ns") as f64 * 1e-9;
    measured.check(wall >= least && wall < least + patience(1.0).as_secs_f64(), || {
        format!("wall_seconds is {wall}, the program ran for {least}")
    });
}

#[test]
fn a_peak_that_lasts_is_seen() {
    let measured = nobody("spike 257000000 600").measure();
    let truth = measured.truth("peak_rss_bytes");
    for metric in
        ["memory_peak_bytes", "memory_peak_rss_sum_bytes", "memory_peak_process_rss_bytes"]
    {
        measured.is_near(metric, truth, 0.01);
    }
    let quality = measured.value("memory_peak_bytes").quality;
    measured.check(quality != Quality::Exact, || "what was looked at is called exact".to_string());
}

#[test]
fn children_that_last_are_seen() {
    let measured = nobody("children 3 50000000 together 800").measure();
    measured.is("processes_total", 4);
    measured.is("processes_peak", 4);
    measured.is_near("memory_peak_rss_sum_bytes", measured.truth("rss_sum_peak_bytes"), 0.02);
    let rows = measured.processes();
    measured.check(rows.len() == 4, || format!("{} rows, expected 4", rows.len()));
}

#[test]
fn a_daemon_is_waited_for() {
    let measured = nobody("daemon 1500 daemon-output").measure();
    measured.is_between("wall_seconds", 1.5, 1.5 + patience(2.0).as_secs_f64());
    let size = measured.scratch.path("work/daemon-output").metadata().expect("a file").len();
    assert_eq!(size, 1_000_003, "weigh ended before the daemon");
}

#[test]
fn what_nobody_can_see_is_not_zero() {
    let measured = nobody("net 1000003 2 tcp").measure();
    let sent = measured.truth("net_sent_bytes");
    is_right_or_unknown(&measured, "net_sent_bytes_total", sent);
    is_right_or_unknown(
        &measured,
        "net_received_bytes_total",
        measured.truth("net_received_bytes"),
    );
    is_right_or_unknown(&measured, "net_connections_total", 4);

    let measured = nobody("open 23 opened").measure();
    let value = measured.value("files_opened_total");
    let opened = measured.truth("opens_total") as f64;
    let fair = value.number().map_or(value.reason.is_some(), |number| number >= opened);
    measured.check(fair, || format!("files_opened_total is {value:?}"));
}

#[test]
fn limits_are_kept_as_well_as_can_be() {
    let measured = nobody("grow step 1000000 5000 2000000000")
        .options("--limit memory_peak_bytes=100MB --grace 500ms")
        .end();
    measured.check(measured.status.code() == Some(124), || "expected 124".to_string());
    let outcome = &measured.summary().limits[0];
    measured
        .check(outcome.exceeded && outcome.enforced_by == "interval", || format!("{outcome:?}"));
    measured.is_between("memory_peak_bytes", 100e6, 400e6);
    let left = measured.scratch.survivors();
    measured.check(left.is_empty(), || format!("alive: {left:?}"));

    let measured =
        Weigh::run(["sleep", "60"]).run_by(NOBODY).options("--limit wall_seconds=500ms").end();
    measured.check(measured.status.code() == Some(124), || "expected 124".to_string());
    assert_eq!(measured.summary().exit.as_ref().map(|exit| exit.kind), Some(ExitKind::Limit));
}

#[test]
fn signals_are_passed_on() {
    let mut running = Weigh::run(["sleep", "60"]).run_by(NOBODY).start();
    running.process("sleep 60");
    assert!(processes::signal(running.pid(), 15));
    let measured = running.end();
    measured.check(measured.status.signal() == Some(15), || "another end".to_string());
    measured.check(measured.recording().is_complete(), || "the recording is cut".to_string());
}

#[test]
fn a_place_of_somebody_else() {
    let scratch = Scratch::new();
    let place = scratch.path("closed");
    std::fs::create_dir(&place).expect("a directory");
    let nobodys = std::fs::Permissions::from_mode(if is_root() { 0o755 } else { 0o555 });
    std::fs::set_permissions(&place, nobodys).expect("permissions");
    let recording = place.join("recording").display().to_string();
    let marker = scratch.path("work/ran").display().to_string();
    let output =
        weigh_as(Some(NOBODY), &scratch, &["run", "-o", &recording, "--", "touch", &marker]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains(&recording) && said.contains("ermission denied"), "{said}");
    assert!(!std::path::Path::new(&marker).exists(), "the job was started");
}

#[test]
fn doctor_says_the_same() {
    let scratch = Scratch::new();
    let output = weigh_as(Some(NOBODY), &scratch, &["doctor"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    for words in ["bpf", "CAP_BPF", "weigh-grant on"] {
        assert!(said.contains(words), "no {words} in:\n{said}");
    }
    let output = weigh_as(Some(NOBODY), &scratch, &["doctor", "--json"]);
    let findings: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mechanisms = findings["mechanisms"].as_array().expect("mechanisms");
    let bpf = mechanisms.iter().find(|m| m["name"] == "bpf").expect("bpf");
    assert!(bpf.to_string().contains("CAP_BPF and CAP_PERFMON missing"), "{bpf}");
}

#[test]
fn show_needs_no_rights() {
    let measured = nobody("spin 20").measure();
    let place = measured.scratch.path("recording").display().to_string();
    let output = weigh_as(Some(NOBODY), &measured.scratch, &["show", "--keys", &place]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("cpu_seconds"), "{output:?}");
}
