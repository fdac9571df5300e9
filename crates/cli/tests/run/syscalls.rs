//! `weigh run --calls`: what `weigh calls` tells, in the recording of a run, whole or cut short.

use crate::support::agent::NOBODY;
use crate::support::run::{Scratch, Weigh, is_stored, set_surroundings, weigh, weigh_as};
use crate::support::{leave_out, processes, wait_until, weigh_binary, workload};
use weigh_keep::Recording;
use weigh_schema::call::CallsReport;
use weigh_schema::event::CollectorState;
use weigh_schema::summary::ExitKind;

fn report(scratch: &Scratch) -> CallsReport {
    let recording = Recording::open(&scratch.path("recording")).expect("it can be read");
    recording.calls().expect("it can be read").expect("system calls were followed")
}

fn shown(scratch: &Scratch, options: &[&str]) -> String {
    let place = scratch.path("recording").display().to_string();
    let output = weigh(scratch, &[&["show"], options, &[&place]].concat());
    String::from_utf8(output.stdout).expect("text").replace('\u{202f}', " ")
}

fn calls_of(report: &CallsReport, call: &str) -> u64 {
    report.calls.iter().filter(|kind| kind.call == call).map(|kind| kind.calls_total).sum()
}

/// The program syncs 31 times, of which the kernel's own count of written bytes is the witness: both sources saw one job.
#[test]
fn one_session_has_the_run_and_its_calls() {
    needs_root!();
    let script = format!("{} syncs log 31; exit 7", workload("access"));
    let measured =
        Weigh::bash(&script).option("--calls").option("--limit=processes_total=50").end();
    assert_eq!(measured.status.code(), Some(7), "{}", measured.everything());
    let found = report(&measured.scratch);
    assert_eq!(calls_of(&found, "fsync"), 31);
    assert_eq!((&found.command[..2], found.lost_total), (&["bash".into(), "-c".into()][..], 0));
    assert_eq!(measured.number("io_written_bytes_total"), 31.0 * 100.0);
    let of_calls: u64 = found.calls.iter().map(|kind| kind.calls_total).sum();
    assert_eq!(found.calls_total, of_calls);
    // All threads of the job, as the run counts them.
    assert_eq!(found.threads_total as f64, measured.number("processes_total"));
    let rest = measured.number("wall_seconds") - found.wall_seconds;
    assert!(rest.abs() < 0.5, "both are of the same time: {rest}");
    let summary = measured.summary();
    let status = summary.collectors.iter().find(|one| one.name == "syscalls").expect("a status");
    assert!(
        matches!(status.status, CollectorState::Active | CollectorState::Degraded),
        "{status:?}"
    );
    // At the end, by `weigh show`, and on the page.
    let said = measured.scratch.text("stderr");
    for text in [said, shown(&measured.scratch, &[]), shown(&measured.scratch, &["--details"])] {
        assert!(text.contains("\nCalls  ") && text.contains("fsync"), "{text}");
    }
    let page = measured.scratch.text("recording/report.html");
    assert!(page.contains(r#"{"call":"fsync","calls":31,"#), "the page has the row");
}

/// One kernel side has both: what the calls had written to storage, and the metric of `--written`.
#[test]
fn what_was_written_to_storage_is_of_the_same_accounts() {
    needs_root!();
    let script = format!("{} syncs log 7", workload("access"));
    let measured = Weigh::bash(&script).options("--calls --written").measure();
    let found = report(&measured.scratch);
    let value = measured.value("storage_written_bytes_total");
    assert_eq!(value.number(), found.storage_written_bytes_total.map(|bytes| bytes as f64));
    if is_stored() {
        assert!(value.number() >= Some(7.0 * 4096.0), "each sync writes a page: {value:?}");
    }
    let of_writes = measured.summary().collectors.iter().find(|one| one.name == "written");
    assert_eq!(of_writes, None, "there is no second one");
}

/// The parts are those that are named; an unknown one is refused before the command begins, and leaves no recording.
#[test]
fn parts_of_the_kernel_are_named_and_unknown_ones_are_refused() {
    needs_root!();
    let measured = Weigh::workload("access syncs log 3").option("--calls=fs,block").measure();
    let found = report(&measured.scratch);
    let names: Vec<_> = found.subsystems.iter().map(|part| part.name.as_str()).collect();
    // The first two are always there.
    assert_eq!(names, ["sched", "irq", "fs", "block"]);
    assert_eq!(calls_of(&found, "fsync"), 3);
    let refused = Weigh::run(["touch", "touched"]).option("--calls=blok").end();
    assert_eq!(refused.status.code(), Some(125));
    refused.said("did you mean block?");
    assert!(!refused.scratch.path("work/touched").exists());
    assert!(!refused.scratch.path("recording").exists());
}

/// Limits, and how the run ends, are those of any run; the call that the job sat in is told.
#[test]
fn a_limit_ends_the_job_and_the_call_under_way_is_told() {
    needs_root!();
    let measured =
        Weigh::run(["sleep", "1117"]).options("--calls --limit wall_seconds=1s --grace 1s").end();
    assert_eq!(measured.status.code(), Some(124), "{}", measured.everything());
    let exit = measured.summary().exit.as_ref().map(|exit| exit.kind);
    assert_eq!(exit, Some(ExitKind::Limit));
    let found = report(&measured.scratch);
    let slept = found.calls.iter().find(|kind| kind.call.ends_with("nanosleep"));
    let slept = slept.map(|kind| kind.time_seconds);
    let under_way = found.under_way.iter().filter(|call| call.call.ends_with("nanosleep"));
    let longest = under_way.filter_map(|call| call.time_seconds).chain(slept).fold(0.0, f64::max);
    assert!(longest > 0.5, "{found:#?}");
}

/// Whatever ends weigh, the journal has what was known a tenth of the time before.
#[test]
fn a_recording_that_is_cut_short_has_the_calls_so_far() {
    needs_root!();
    let script = format!("{} syncs log 31; touch done; sleep 1117", workload("access"));
    let options = "--calls --interval 100ms";
    let mut running = Weigh::bash(&script).options(options).start();
    let journal = running.scratch.path("recording/journal.jsonl");
    let done = running.scratch.path("work/done");
    running.wait_until("the calls are in the journal", 30.0, || {
        let text = std::fs::read_to_string(&journal).unwrap_or_default();
        done.exists() && text.contains("\"entry\":\"calls\"") && text.contains("\"call\":\"fsync\"")
    });
    processes::signal(running.pid(), 9);
    running.child.wait().expect("weigh ends");
    assert_eq!(calls_of(&report(&running.scratch), "fsync"), 31);
    let text = shown(&running.scratch, &[]);
    assert!(text.contains("\nCalls  ") && text.contains("incomplete"), "{text}");
}

#[test]
fn a_process_that_runs_is_joined_by_both() {
    needs_root!();
    let scratch = Scratch::new();
    let mut job = std::process::Command::new("bash");
    set_surroundings(&mut job, &scratch);
    let script = "until [ -e gate ]; do sleep 0.05; done; for i in {1..23}; do mkdir d$i; done";
    let mut job = job.args(["-c", script]).spawn().expect("a job");
    let mut weigh = std::process::Command::new(weigh_binary());
    set_surroundings(&mut weigh, &scratch);
    weigh.args(["run", "-q", "--calls", "--interval=100ms", "--pid", &job.id().to_string(), "-o"]);
    let mut weigh = weigh.arg(scratch.path("recording")).spawn().expect("weigh");
    let journal = scratch.path("recording/journal.jsonl");
    let text = || std::fs::read_to_string(&journal).unwrap_or_default();
    wait_until("it follows", 30.0, || text().contains("\"entry\":\"samples\""));
    std::fs::write(scratch.path("work/gate"), "").expect("the gate");
    job.wait().expect("the job ends");
    assert!(weigh.wait().expect("weigh ends").success());
    let found = report(&scratch);
    assert_eq!((found.pid, calls_of(&found, "mkdir")), (Some(job.id()), 23));
}

/// It was asked for: a run without it would not be what was asked for.
#[test]
fn without_rights_it_is_refused_before_the_command_begins() {
    if !crate::support::is_root() {
        return leave_out("without root nobody else is to be had");
    }
    let scratch = Scratch::new();
    let place = scratch.path("recording").display().to_string();
    let arguments = ["run", "--calls", "-o", &place, "--", "touch", "touched"];
    let output = weigh_as(Some(NOBODY), &scratch, &arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("--calls does not work here: not enough rights: CAP_BPF"), "{said}");
    assert!(said.contains("`weigh agent` does not follow system calls"), "{said}");
    assert!(!scratch.path("work/touched").exists() && !scratch.path("recording").exists());
}
