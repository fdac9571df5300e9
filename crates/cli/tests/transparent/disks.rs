//! A disk that is full, or becomes so: the job goes on, and what could not be written is named.

use std::fs;
use std::path::{Path, PathBuf};

use super::errors::{refused, says};
use crate::support::run::{Scratch, weigh};
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
    let said = refused(&scratch, &["-o", &place]);
    says(&said, &[&place, "No space left"]);
    assert!(!Path::new(&place).exists(), "it left something behind");
}

#[test]
fn a_disk_that_fills_while_the_job_runs() {
    needs_root!();
    let scratch = Scratch::new();
    let disk = SmallDisk::new(&scratch, 65_536);
    let place = disk.path("recording");
    let script = format!(
        "for ((i = 0; i < 300; i++)); do /bin/true; done; cat /dev/zero > {}; echo done > job-is-done; exit 3",
        disk.path("filler")
    );
    let output = weigh(&scratch, &["run", "-q", "-o", &place, "--", "bash", "-c", &script]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(scratch.text("work/job-is-done"), "done\n", "{said}");
    assert_eq!(output.status.code(), Some(3), "{said}");
    // Without a recording the table is printed in spite of -q.
    says(&said, &["processes  302", "No space left", &place, "no tables and no summary"]);
    assert!(!said.contains("is lost"), "{said}");
    let recording = Recording::open(Path::new(&place)).expect("what there was room for");
    assert!(!recording.is_complete());
    // There was room for the end.
    let summary = recording.summary();
    assert_eq!(summary.exit.as_ref().and_then(|exit| exit.code), Some(3));
    assert_eq!(summary.metrics["processes_total"].number(), Some(302.0));
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
