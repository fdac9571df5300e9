//! What `weigh io` says is what happened to the files, not what the calls asked for or what the files were called: by
//! every mechanism.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::io_report::{moved, number, row, text};
use crate::support::measured::truths;
use crate::support::run::{Scratch, weigh, weigh_as};
use crate::support::{is_root, workload};
use serde_json::Value;

pub const NOBODY: u32 = 65534;

/// The mechanisms that can be tried here, and by which user. What needs no rights is tried without.
pub fn mechanisms() -> Vec<(&'static str, Option<u32>)> {
    let nobody = Some(NOBODY);
    let all = [("bpf", None), ("ptrace", nobody), ("preload", nobody), ("preload+ptrace", nobody)];
    all.into_iter().filter(|(name, _)| is_root() || *name != "bpf").collect()
}

/// Follows a command; the report. What it says is not looked at.
#[track_caller]
pub fn report(
    scratch: &Scratch,
    (mechanism, user): (&str, Option<u32>),
    options: &[&str],
    command: &[&str],
) -> Value {
    let json = text(&scratch.path("io.json"));
    let own = ["io", "-q", "--mechanism", mechanism, "--json", &json];
    let output = weigh_as(user, scratch, &[&own[..], options, &["--"], command].concat());
    assert!(output.status.success(), "{mechanism}: {output:?}");
    serde_json::from_str(&scratch.text("io.json")).expect("a report")
}

/// The command that appends, and what it says of itself.
fn appends(scratch: &Scratch, kind: &str, path: &str) -> String {
    let truth = text(&scratch.path("truth"));
    format!("TRUTH_FILE={truth} exec {} {kind} {path}", workload("appends"))
}

fn truth_of(scratch: &Scratch) -> (BTreeMap<String, u64>, Vec<u64>) {
    let said = scratch.text("truth");
    std::fs::remove_file(scratch.path("truth")).expect("it was written");
    let places = said.lines().find_map(|line| line.strip_prefix("at=")).expect("places");
    let places = places.split(' ').map(|place| place.parse().expect("a number")).collect();
    (truths(&said), places)
}

#[track_caller]
fn is_as_it_was(row: &Value, truth: &BTreeMap<String, u64>, places: &[u64], who: &str) {
    assert_eq!(row["written_bytes"], truth["io_written_bytes"], "{who}");
    assert_eq!(number(row, "highest_bytes"), truth["highest"], "{who}: {row}");
    assert_eq!(number(row, "rewritten_bytes"), truth["rewritten"], "{who}: {row}");
    // Past a library a program can write by system calls of its own.
    let again = if who.starts_with("preload") { "estimated" } else { "exact" };
    assert_eq!(row["again_quality"], again, "{who}");
    assert_eq!(number(row, "placed_total"), places.len() as u64, "{who}: {row}");
    let backwards = places.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
    assert_eq!(number(row, "random_writes_total"), backwards, "{who}: {row}");
}

#[test]
fn writes_at_an_offset_that_are_appended_lie_at_the_end() {
    for (mechanism, user) in mechanisms() {
        let scratch = Scratch::new();
        let path = text(&scratch.path("work/appended"));
        let script = appends(&scratch, "calls", &path);
        let report = report(&scratch, (mechanism, user), &[], &["sh", "-c", &script]);
        let (truth, places) = truth_of(&scratch);
        is_as_it_was(row(&report, &path), &truth, &places, mechanism);
    }
}

/// By ptrace and by a library requests of AIO are not seen.
#[test]
fn requests_that_are_appended_lie_at_the_end() {
    needs_root!();
    let scratch = Scratch::new();
    let path = text(&scratch.path("work/appended"));
    let script = appends(&scratch, "aio", &path);
    let report = report(&scratch, ("bpf", None), &[], &["sh", "-c", &script]);
    let (truth, places) = truth_of(&scratch);
    is_as_it_was(row(&report, &path), &truth, &places, "AIO");
}

#[test]
fn each_call_is_told_with_the_place_where_it_wrote() {
    for (mechanism, user) in mechanisms().into_iter().filter(|(name, _)| !name.contains("preload"))
    {
        let scratch = Scratch::new();
        let path = text(&scratch.path("work/appended"));
        let table = text(&scratch.path("calls.parquet"));
        let script = appends(&scratch, "calls", &path);
        report(&scratch, (mechanism, user), &["--calls", &table], &["sh", "-c", &script]);
        let (_, places) = truth_of(&scratch);
        let mut found = Vec::new();
        let see = |row: weigh_schema::io::IoCall| {
            if row.deed == "write"
                && row.path.as_deref() == Some(&path)
                && row.error == Default::default()
            {
                found.push(row.offset_bytes);
            }
        };
        weigh_keep::each_io_call(Path::new(&table), see).expect("a table");
        let expected: Vec<Option<u64>> = places.into_iter().map(Some).collect();
        assert_eq!(found, expected, "{mechanism}");
    }
}

/// Numbers of inodes are given again at once, and times of birth are kept by ticks of milliseconds.
#[test]
fn files_that_were_made_in_one_tick_are_told_apart() {
    const SCRIPT: &str = "
import os
for name, length in (('ra', 100), ('rb', 20), ('rc', 3)):
    file = os.open(name, os.O_CREAT | os.O_WRONLY)
    os.write(file, b'x' * length)
    os.close(file)
    os.unlink(name)";
    for (mechanism, user) in mechanisms().into_iter().filter(|(name, _)| !name.contains("preload"))
    {
        let scratch = Scratch::new();
        let report = report(&scratch, (mechanism, user), &[], &["python3", "-c", SCRIPT]);
        let written = ["ra", "rb", "rc"].map(|name| {
            let row = row(&report, &text(&scratch.path(&format!("work/{name}"))));
            row["written_bytes"].as_u64().expect("a number")
        });
        assert_eq!(written, [100, 20, 3], "{mechanism}");
    }
}

/// One write(2) of 1 GiB, and the end of its process when a little of it is done.
const KILLED: &str = "
import os, signal, sys, time
child = os.fork()
if not child:
    file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
    os.write(file, b'head')
    os.write(file, bytes(1 << 30))
    time.sleep(1000)
while not (os.path.exists(sys.argv[1]) and os.stat(sys.argv[1]).st_size > 1 << 22):
    time.sleep(0.001)
os.kill(child, signal.SIGKILL)
assert os.waitpid(child, 0)[1] == signal.SIGKILL";

#[test]
fn what_a_call_had_done_when_its_process_was_killed_is_counted() {
    for (mechanism, user) in mechanisms().into_iter().filter(|(name, _)| !name.contains("preload"))
    {
        let scratch = Scratch::new();
        let path = scratch.path("work/cut");
        let command = ["python3", "-c", KILLED, &text(&path)];
        let report = report(&scratch, (mechanism, user), &[], &command);
        let size = path.metadata().expect("it is there").len();
        let row = row(&report, &text(&path));
        assert_eq!(row["written_bytes"], size, "{mechanism}: {}", report["notes"]);
        assert_eq!(number(row, "highest_bytes"), size, "{mechanism}");
    }
}

/// Pages of a file of holes are read from nowhere, and nothing tells which they are: their number is no exact one.
#[test]
fn holes_are_not_told_as_exact_reads() {
    needs_root!();
    let scratch = Scratch::new();
    let program = "import mmap, os, sys
file = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
os.ftruncate(file, 64 * 4096)
if sys.argv[2] == 'allocated':
    os.posix_fallocate(file, 0, 64 * 4096)
else:
    os.pwrite(file, b'x' * 4096 * int(sys.argv[2]), 0)
os.fsync(file)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
memory = mmap.mmap(file, 64 * 4096)
for page in range(8, 18):
    memory[page * 4096] = 1";
    let is_on_device = crate::names::finds_by_inode(&scratch.path("work"));
    let read = |name: &str, written: &str| {
        let path = text(&scratch.path(&format!("work/{name}")));
        let command = ["python3", "-c", program, &path, written];
        let report = report(&scratch, ("bpf", None), &[], &command);
        let bytes = moved(row(&report, &path), "mapped")[0];
        (bytes, report["qualities"]["mapped_read_bytes"]["quality"].clone())
    };
    for written in ["0", "1"] {
        let (bytes, quality) = read(written, written);
        assert!(bytes == 0 || quality == "estimated", "{written}: {bytes} bytes, {quality}");
    }
    // Of what is allocated, and was never written, no device reads anything either.
    if is_on_device {
        let (bytes, quality) = read("allocated", "allocated");
        assert!(bytes == 0 || quality == "estimated", "{bytes} bytes, {quality}");
    }
    let (bytes, quality) = read("whole", "64");
    assert!(quality.is_null(), "{bytes} bytes of a file without holes are {quality}");
}

/// The mechanisms and verbs that follow what runs already, as far as the user can.
fn ways_to_join() -> Vec<&'static [&'static str]> {
    let ways: [&[&str]; 6] = [
        &["io", "--mechanism", "ptrace"],
        &["run", "-q", "--mechanism", "ptrace"],
        &["io", "--mechanism", "bpf"],
        &["run", "-q", "--mechanism", "bpf"],
        &["calls"],
        &["trace", "-e", "sched:sched_switch"],
    ];
    ways.into_iter().filter(|way| is_root() || way.contains(&"ptrace")).collect()
}

/// What `--pid` says of such a number.
fn refusal(way: &[&str], pid: &str) -> String {
    let output = weigh(&Scratch::new(), &[way, &["--pid", pid]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{way:?}: {said}");
    said
}

#[test]
fn a_thread_is_followed_with_its_process_alone() {
    let own = std::fs::read_link("/proc/thread-self").expect("a thread of this test");
    let tid = own.file_name().and_then(|name| name.to_str()).expect("its number");
    let process = std::process::id();
    assert_ne!(tid, process.to_string(), "tests run in threads of their own");
    for way in ways_to_join() {
        let said = refusal(way, tid);
        assert!(said.contains(&format!("is a thread of process {process}")), "{way:?}: {said}");
    }
}

/// Nobody ever says of it that it ends.
#[test]
fn a_process_that_has_ended_is_not_waited_for() {
    let mut child = std::process::Command::new("true").spawn().expect("it starts");
    let pid = child.id().to_string();
    crate::support::wait_until("it has ended", 20.0, || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
        stat.contains(") Z ")
    });
    for way in ways_to_join() {
        let said = refusal(way, &pid);
        assert!(said.contains("it is a zombie"), "{way:?}: {said}");
    }
    child.wait().expect("it has ended");
}
