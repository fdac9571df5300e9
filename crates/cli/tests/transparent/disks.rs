//! A disk that is full, or becomes so: the job goes on, and what could not be written is named.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::errors::{refused, says};
use crate::support::run::{Scratch, set_surroundings, weigh};
use crate::support::{weigh_binary, worth_the_time};
use weigh_keep::Recording;

/// A file system in memory, of that size.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn new(scratch: &Scratch, bytes: u64) -> SmallDisk {
        let place = scratch.path("disk");
        fs::create_dir(&place).expect("a directory");
        let options = std::ffi::CString::new(format!("size={bytes}")).expect("no NUL");
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("tmpfs", &place, "tmpfs", flags, options.as_c_str()).expect("a tmpfs");
        SmallDisk(place)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn a_disk_that_is_full() {
    needs_root!();
    let scratch = Scratch::new();
    let disk = SmallDisk::new(&scratch, 65_536);
    fs::write(disk.path("filler"), vec![0; 65_536]).expect("it fits exactly");
    let place = disk.path("recording");
    let said = refused(&scratch, &["-o", &place, "--require-recording"]);
    says(&said, &[&place, "No space left"]);
    assert!(!Path::new(&place).exists(), "it left something behind");
    // Without that the command runs, and the table is its record.
    let said = runs(&scratch, &["run", "-q", "-o", &place], &[]);
    says(&said, &[&place, "No space left", "the recording is lost", "no recording: it could not"]);
    assert!(!Path::new(&place).exists(), "it left something behind");
}

/// A command below weigh that runs, and whose status is weigh's, is refused where a recording is required; what weigh
/// said of the first.
#[track_caller]
fn runs(scratch: &Scratch, way: &[&str], before: &[&str]) -> String {
    let run = |options: &[&str]| {
        let _ = fs::remove_file(scratch.path("work/job-has-run"));
        let mut command = Command::new(before.first().copied().unwrap_or("env"));
        command.args(before.iter().skip(1)).arg(weigh_binary()).args(way).args(options);
        set_surroundings(&mut command, scratch);
        let output = command.args(["--", "sh", "-c", "echo 1 | tee job-has-run; exit 3"]).output();
        let output = output.expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, said) = run(&["--require-recording"]);
    assert_eq!(status, Some(125), "{way:?}, {before:?}: {said}");
    assert!(!scratch.path("work/job-has-run").exists(), "{way:?}, {before:?}: it ran: {said}");
    let (status, said) = run(&[]);
    assert_eq!(status, Some(3), "{way:?}, {before:?}: {said}");
    assert!(scratch.path("work/job-has-run").exists(), "{way:?}, {before:?}: it did not: {said}");
    says(&said, &["; the rest is measured all the same"]);
    said
}

/// Every output of every verb, on a file system that is read-only; what there is of other outputs is whole.
#[test]
fn a_medium_that_takes_nothing_leaves_the_command_to_run() {
    needs_root!();
    let scratch = Scratch::new();
    let disk = SmallDisk::new(&scratch, 65_536);
    let read_only = rustix::mount::MountFlags::RDONLY;
    rustix::mount::mount_remount(&disk.0, read_only, c"size=65536").expect("a tmpfs");
    let (file, parquet) = (disk.path("a.json"), disk.path("b.parquet"));
    let recording = scratch.path("recording").display().to_string();
    let said = "Read-only file system";
    let run = runs(&scratch, &["run", "-q", "-o", &disk.path("recording")], &[]);
    says(&run, &[said, "no recording: it could not be written", "processes  "]);
    says(&runs(&scratch, &["run", "-q", "-o", &recording, "--json", &file], &[]), &[said, &file]);
    assert!(Recording::open(Path::new(&recording)).expect("a recording").is_complete());
    let io = ["io", "-q", "--json", &file, "--parquet", &parquet];
    says(&runs(&scratch, &io, &[]), &[said, &file, &format!("--parquet: cannot write {parquet}")]);
    let calls = runs(&scratch, &["calls", "-q", "--json", &file, "--per-call", &parquet], &[]);
    says(&calls, &[said, &file, &format!("--per-call: cannot write {parquet}")]);
    says(&runs(&scratch, &["trace", "-q", "-e", "sched_switch", "-o", &parquet], &[]), &[said]);
    // One output that fails does not take the others.
    let json = scratch.path("told.json").display().to_string();
    runs(&scratch, &["calls", "-q", "--json", &json, "--per-call", &parquet], &[]);
    let told: serde_json::Value = serde_json::from_str(&scratch.text("told.json")).expect("JSON");
    assert!(told["calls_total"].as_u64().is_some_and(|calls| calls > 0), "{told}");
}

/// The same for a place that the user did not name, whatever is wrong with it.
#[test]
fn a_default_place_that_is_none_leaves_the_command_to_run() {
    let scratch = Scratch::new();
    let nowhere = ["env", "-u", "XDG_STATE_HOME", "-u", "HOME"];
    let said = runs(&scratch, &["run", "-q"], &nowhere);
    says(&said, &["no recording can be made (-o DIR", "neither XDG_STATE_HOME nor HOME"]);
    says(&said, &["no recording: it could not be written"]);
    let no_folder = ["env", "XDG_STATE_HOME=/dev/null"];
    says(&runs(&scratch, &["run", "-q"], &no_folder), &["Not a directory", "/dev/null/weigh"]);
}

/// A limit on the size of files from nothing to where the beginning of a recording fits, by every mechanism.
#[test]
fn no_limit_of_files_is_too_small_for_the_command() {
    needs_root!();
    let sizes = ["0", "1", "2", "3", "4", "6", "8"];
    for mechanism in ["bpf", "ptrace", "preload", "poll"] {
        for size in worth_the_time(&sizes, 2) {
            let scratch = Scratch::new();
            let place = scratch.path("recording").display().to_string();
            let script = format!("ulimit -f {size}; \"$@\"; exit $?");
            let mut command = Command::new("bash");
            command.args(["-c", &script, "bash"]).arg(weigh_binary());
            command.args(["run", "-q", "--mechanism", mechanism, "-o", &place]);
            set_surroundings(&mut command, &scratch);
            let output = command.args(["--", "sh", "-c", "echo ran; exit 3"]).output();
            let output = output.expect("it runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(3), "{mechanism}, {size}: {said}");
            assert_eq!(output.stdout, b"ran\n", "{mechanism}, {size}: {said}");
            says(&said, &["File too large", "weigh      exited 3"]);
            let is_left = Path::new(&place).exists();
            let is_read = Recording::open(Path::new(&place)).is_ok();
            assert_eq!(is_left, is_read, "{mechanism}, {size}: what is left says nothing: {said}");
        }
    }
}

#[test]
fn a_disk_that_fills_while_the_job_runs() {
    needs_root!();
    let scratch = Scratch::new();
    let disk = SmallDisk::new(&scratch, 65_536);
    let place = disk.path("recording");
    // Entries go on coming when the disk is full.
    let script = format!(
        "for ((i = 0; i < 300; i++)); do /bin/true; done; cat /dev/zero > {}; sleep 1.5; echo done > job-is-done; exit 3",
        disk.path("filler")
    );
    let output = weigh(&scratch, &["run", "-q", "-o", &place, "--", "bash", "-c", &script]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(scratch.text("work/job-is-done"), "done\n", "{said}");
    assert_eq!(output.status.code(), Some(3), "{said}");
    // Without a recording the table is printed in spite of -q.
    says(&said, &["processes  303", "No space left", &place, "no tables and no summary"]);
    assert!(!said.contains("is lost"), "{said}");
    let recording = Recording::open(Path::new(&place)).expect("what there was room for");
    assert!(!recording.is_complete());
    // There was room for the end.
    let summary = recording.summary();
    assert_eq!(summary.exit.as_ref().and_then(|exit| exit.code), Some(3));
    assert_eq!(summary.metrics["processes_total"].number(), Some(303.0));
    let missing = summary.collectors.iter().find(|c| c.name == "recording").expect("its own");
    assert!(missing.lost > 0, "{missing:?}");
    let shown = weigh(&scratch, &["show", &place]);
    let shown = String::from_utf8_lossy(&shown.stdout);
    says(&shown, &["exited 3", "not all of it could be written"]);
}

/// The same with a row for each call, which needs more room; and of `weigh io`, whose files are whole or not there.
#[test]
fn a_disk_that_fills_while_reads_and_writes_are_followed() {
    needs_root!();
    let scratch = Scratch::new();
    let disk = SmallDisk::new(&scratch, 200_000);
    let place = disk.path("recording");
    let script = "for ((i = 0; i < 9000; i++)); do echo 0123456789; done > written; echo done > job-is-done; exit 3";
    let run = ["run", "-q", "-o", &place, "--interval", "50ms", "--io", "--io-calls"];
    let output = weigh(&scratch, &[&run[..], &["--", "bash", "-c", script]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(scratch.text("work/job-is-done"), "done\n", "{said}");
    assert_eq!(scratch.text("work/written").len(), 9000 * 11, "{said}");
    assert_eq!(output.status.code(), Some(3), "{said}");
    says(&said, &["written by 9", "No space left", &place, "no tables and no summary"]);
    let recording = Recording::open(Path::new(&place)).expect("what there was room for");
    assert!(!recording.is_complete());
    fs::remove_dir_all(&place).expect("it is removed");
    fs::remove_file(scratch.path("work/job-is-done")).expect("it is removed");

    fs::write(disk.path("filler"), vec![0; 170_000]).expect("there is room");
    let (calls, json) = (disk.path("calls.parquet"), scratch.path("io.json").display().to_string());
    let parquet = scratch.path("files.parquet");
    let files = parquet.display().to_string();
    let io = ["io", "-q", "--calls", &calls, "--parquet", &files, "--json", &json];
    let output = weigh(&scratch, &[&io[..], &["--", "bash", "-c", script]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(scratch.text("work/job-is-done"), "done\n", "{said}");
    assert_eq!(output.status.code(), Some(3), "{said}");
    // The table is there in spite of -q, and so is all that there was room for.
    says(&said, &["written by 9", "No space left", &calls]);
    assert!(!Path::new(&calls).exists(), "{said}");
    let report: serde_json::Value = serde_json::from_str(&scratch.text("io.json")).expect("JSON");
    assert_eq!(report["mechanism"], "bpf", "{report}");
    let mut written = 0;
    let add = |row: weigh_schema::io::FileUse| {
        if row.name.ends_with("/written") {
            written += row.totals.by_calls.written_bytes;
        }
    };
    weigh_keep::each_use(&parquet, add).expect("rows");
    assert_eq!(written, 9000 * 11);
}

/// Each file that could not be written is named, and none of them is there cut short.
#[test]
fn every_file_that_a_full_disk_does_not_take_is_named() {
    needs_root!();
    let scratch = Scratch::new();
    let disk = SmallDisk::new(&scratch, 65_536);
    fs::write(disk.path("filler"), vec![0; 65_536]).expect("it fits exactly");
    let (parquet, json) = (disk.path("files.parquet"), disk.path("io.json"));
    let io = ["io", "-q", "--parquet", &parquet, "--json", &json];
    let output = weigh(&scratch, &[&io[..], &["--", "sh", "-c", "exit 3"]].concat());
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let output = weigh(&scratch, &[&io[..], &["--require-recording", "--", "true"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    says(&said, &["seen by bpf", &format!("--json {json}: No space left")]);
    says(&said, &["weigh: --parquet: ", &parquet]);
    let left: Vec<_> = fs::read_dir(disk.path("")).expect("a folder").collect();
    assert_eq!(left.len(), 1, "{left:?}");
    // Nor is there one of what could not be followed.
    let json = scratch.path("never.json").display().to_string();
    let output = weigh(&scratch, &["io", "-q", "--json", &json, "--", "./no-such-program"]);
    assert_eq!(output.status.code(), Some(127), "{output:?}");
    assert!(!Path::new(&json).exists());
}
