//! What a job had written to storage: `weigh run --written` and `weigh calls` have it from the same
//! accounts, to the byte.

use std::sync::{Mutex, PoisonError};

use crate::support::agent::Agent;
use crate::support::measured::Measured;
use crate::support::run::{Scratch, Weigh, is_stored, weigh};
use crate::support::{patience, wait_until};
use serde_json::Value;
use weigh_schema::Quality;
use weigh_schema::event::{CollectorState, CollectorStatus};

/// Who has everything flushed has pages of the others written that they are about to change.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Pages that 1,000,003 bytes lie in.
const PAGES: u64 = 245 * 4096;

/// By `weigh calls`: all of it, and what of it was in memory still.
#[track_caller]
fn by_calls(script: &str) -> (u64, u64) {
    let scratch = Scratch::new();
    let json = scratch.path("calls.json").display().to_string();
    let options = ["calls", "-q", "-s", "pagecache,block", "--json", &json, "--"];
    let output = weigh(&scratch, &[&options, &["sh", "-ec", script][..]].concat());
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_str(&scratch.text("calls.json")).expect("JSON");
    assert_eq!(report["lost_total"], 0);
    let number = |key: &str| report[key].as_u64().unwrap_or_else(|| panic!("{key} of {report}"));
    (number("storage_written_bytes_total"), number("storage_to_come_bytes"))
}

/// By `weigh run`.
#[track_caller]
fn by_run(script: &str) -> Value {
    let scratch = Scratch::new();
    let recording = scratch.path("recording").display().to_string();
    let options = ["run", "--written", "-o", &recording, "--"];
    let output = weigh(&scratch, &[&options, &["sh", "-ec", script][..]].concat());
    assert!(output.status.success(), "{output:?}");
    let summary = scratch.text("recording/summary.json");
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    let collectors = summary["collectors"].as_array().expect("collectors");
    let collector = collectors.iter().find(|collector| collector["name"] == "written");
    assert_eq!(collector.expect("it is named")["status"], "active", "{summary}");
    let written = &summary["metrics"]["storage_written_bytes_total"];
    assert_eq!(written["quality"], "exact", "{written}");
    written.clone()
}

/// Both, for a script that says how it is done in the present folder. A kernel may run no program at
/// an interrupt that comes while another one runs, or on behalf of a thread it keeps for itself: then
/// a completion is not seen, and what it carried is missing. That is rare, and never too much.
#[track_caller]
fn both(script: &str, expected: u64) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    until_seen(expected, || {
        let (written, to_come) = by_calls(script);
        (written, format!("weigh calls: {script}, {to_come} of it to come"))
    });
    until_seen(expected, || {
        let written = by_run(script);
        let value = written["value"].as_u64().expect("a number");
        (value, format!("weigh run: {script}: {written}"))
    });
}

#[track_caller]
fn until_seen(expected: u64, mut written: impl FnMut() -> (u64, String)) {
    for attempt in 1..=3 {
        let (bytes, what) = written();
        assert!(bytes <= expected, "{bytes} for {expected}: {what}");
        if bytes == expected {
            return;
        }
        println!("attempt {attempt}: {bytes} for {expected}: {what}");
    }
    panic!("three times in a row not {expected} bytes");
}

const WRITE: &str = "head -c 1000003 /dev/zero >written-file";

#[test]
fn what_somebody_else_flushes_is_the_writers() {
    needs_root!();
    if is_stored() {
        // The command that flushes is of the job, but wrote nothing; a kernel thread may be faster.
        both(&format!("{WRITE}; sync written-file; {WRITE}; sync"), 2 * PAGES);
    }
}

#[test]
fn what_is_in_memory_at_the_end_is_counted_and_said() {
    needs_root!();
    if is_stored() {
        both(WRITE, PAGES);
    }
}

#[test]
fn what_is_deleted_before_it_is_flushed_is_not_written() {
    needs_root!();
    if is_stored() {
        both(&format!("{WRITE}; rm written-file; {WRITE}; : >written-file"), 0);
    }
}

#[test]
fn each_time_that_a_page_is_written_counts() {
    needs_root!();
    if is_stored() {
        // `env` finds the real one where the shell has a smaller one in itself.
        let direct = "env dd if=/dev/zero of=direct bs=4096 count=123 oflag=direct status=none";
        // 10,007 bytes each, three pages, at once on the device.
        let at_once =
            format!("TRUTH_FILE=/dev/null {} synced .", crate::support::workload("writers"));
        let again = format!("{WRITE}; sync written-file");
        let pages = 3 * PAGES + (123 + 100 * 3) * 4096;
        both(&format!("{again}; {again}; {again}; {direct}; {at_once}"), pages);
    }
}

/// Threads that the kernel makes for it do the writing: for the one who asks, at his wish, or all of it.
#[test]
fn what_threads_of_io_uring_write_is_the_jobs() {
    needs_root!();
    if is_stored() {
        let io = crate::support::workload("io");
        let kinds = "uring-write uring-async-write uring-sqpoll-write";
        let each = format!("TRUTH_FILE=/dev/null {io} $kind 1000003 4099 $kind; sync $kind");
        both(&format!("for kind in {kinds}; do {each}; done"), 3 * PAGES);
    }
}

/// Where the file system has folios of several pages, one becomes dirty as a whole, with interrupts off: at the first
/// store to it, in the order of the file and against it, by several at once.
#[test]
fn stores_to_what_was_written_in_large_parts_are_all_seen() {
    needs_root!();
    if !is_stored() {
        return;
    }
    const BYTES: u64 = 8_000_021;
    let each = BYTES.div_ceil(4096) * 4096;
    let stores = format!("TRUTH_FILE=/dev/null {}", crate::support::workload("blocks"));
    let file = |n: u32| {
        format!(
            "env dd if=/dev/zero of=file{n} bs={BYTES} count=1 conv=fsync status=none; \
             {stores} store file{n} {BYTES} 4093 1; sync file{n}"
        )
    };
    both(&file(1), 2 * each);
    let all: String = (1..=3).map(|n| format!("({}) & ", file(n))).collect();
    both(&format!("{all} wait"), 3 * 2 * each);
}

/// The first that a job does, and more than a CPU has at hand.
#[test]
fn a_job_s_first_write_is_seen_however_large() {
    needs_root!();
    if is_stored() {
        let pages = |bytes: u64| bytes.div_ceil(4096) * 4096;
        let dd = "exec env dd if=/dev/zero of=file conv=fsync status=none";
        both(&format!("{dd} bs=1000003 count=3"), pages(3 * 1_000_003));
        both(&format!("{dd} bs=16777259 count=1"), pages(16_777_259));
    }
}

/// Without being asked it is the kernel's own counter, as before: nobody else pays for it.
#[test]
fn unasked_it_is_the_kernel_s_counter() {
    needs_root!();
    let scratch = Scratch::new();
    let recording = scratch.path("recording").display().to_string();
    let script = format!("{WRITE}; sync written-file");
    let output = weigh(&scratch, &["run", "-o", &recording, "--", "sh", "-ec", &script]);
    assert!(output.status.success(), "{output:?}");
    let summary: Value =
        serde_json::from_str(&scratch.text("recording/summary.json")).expect("JSON");
    let named = |c: &Value| c["name"] == "written";
    assert!(!summary["collectors"].as_array().expect("collectors").iter().any(named));
    let written = summary["metrics"]["storage_written_bytes_total"]["value"].as_u64();
    assert!(written.is_some_and(|bytes| bytes >= PAGES), "{written:?}");
}

/// Who asks for it without the rights has the kernel's counter, and is told so beside the value.
#[test]
fn without_rights_it_says_why_it_is_another_number() {
    needs_root!();
    let folder = crate::support::library::folder();
    let recording = folder.path().join("recording");
    let mut run = std::process::Command::new("setpriv");
    run.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    run.arg(crate::support::weigh_for_everybody())
        .args(["run", "-q", "--written", "-o"])
        .arg(&recording);
    crate::support::library::must(run.args(["--", "true"]));
    let summary = std::fs::read(recording.join("summary.json")).expect("a summary");
    let summary: Value = serde_json::from_slice(&summary).expect("JSON");
    let written = &summary["metrics"]["storage_written_bytes_total"];
    assert_eq!(written["quality"], "estimated", "{written}");
    let reason = written["reason"].as_str().expect("a reason");
    assert!(reason.contains("--written") && reason.contains("CAP_BPF"), "{reason}");
}

/// By `weigh run` of a user without rights, whom an agent serves.
fn by_agent(agent: &Agent, script: &str) -> Weigh {
    agent.asked_by(Weigh::bash(script)).options("--written")
}

#[track_caller]
fn collector(measured: &Measured) -> &CollectorStatus {
    let mut collectors = measured.summary().collectors.iter();
    collectors.find(|collector| collector.name == "written").expect("it is named")
}

/// Charged to the job whatever flushes it, to the byte; what others of the machine write is charged to no one.
#[test]
fn a_user_without_rights_has_it_through_the_agent() {
    needs_root!();
    if !is_stored() {
        return;
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let agent = Agent::start();
    let script = format!("{WRITE}; sync written-file; {WRITE}; sync; {WRITE}");
    until_seen(3 * PAGES, || {
        let measured = by_agent(&agent, &script).measure();
        let collector = collector(&measured);
        assert_eq!(collector.status, CollectorState::Active, "{collector:?}");
        assert_eq!(collector.reason.as_deref(), Some("through the agent"));
        let value = measured.value("storage_written_bytes_total");
        assert_eq!(value.quality, Quality::Exact, "{value:?}");
        let said = format!("{script}: {value:?}");
        let written = measured.number("storage_written_bytes_total") as u64;
        (written, said)
    });
    wait_until("nobody is followed any more", 5.0, || agent.sessions().is_empty());
}

/// No number is made up of what was told before: the kernel's own counter has to do, and says why.
#[test]
fn if_the_agent_dies_it_is_said_beside_the_other_number() {
    needs_root!();
    let mut agent = Agent::start();
    let mut running = by_agent(&agent, &format!("{WRITE}; : >running; sleep 2")).start();
    let mark = running.scratch.path("work/running");
    running.wait_until("the job runs", 20.0, || mark.exists());
    assert_eq!(agent.sessions().len(), 2);
    std::thread::sleep(patience(0.2));
    agent.process.kill().expect("it is there");
    agent.process.wait().expect("it is there");
    let measured = running.end();
    measured.check(measured.status.success(), || "expected 0".to_string());
    assert_eq!(collector(&measured).status, CollectorState::Unavailable);
    let value = measured.value("storage_written_bytes_total");
    assert_eq!(value.quality, Quality::Estimated, "{value:?}");
    let reason = value.reason.as_deref().expect("a reason");
    assert!(reason.contains("--written") && reason.contains("the agent has gone"), "{reason}");
}
