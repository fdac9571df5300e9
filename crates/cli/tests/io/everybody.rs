//! `weigh io --mount`: what everybody does with the files of one file system, and nothing else.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::support::processes::{links_of, signal};
use crate::support::run::{Scratch, set_surroundings, weigh, weigh_as};
use crate::support::{wait_until, weigh_binary, workload};
use serde_json::Value;

const BYTES: u64 = 1_000_003;
const CHUNK: u64 = 1021;
const CALLS: u64 = 980;

/// A file system of its own, in memory.
struct Mounted(PathBuf);

impl Mounted {
    fn new(scratch: &Scratch) -> Mounted {
        let point = scratch.path("mounted here");
        std::fs::create_dir(&point).expect("a folder");
        let done = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&point).status();
        assert!(done.expect("mount").success());
        Mounted(point)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A shell that does it when the gate is there: it runs before anybody is followed.
fn job(scratch: &Scratch, script: &str) -> Child {
    let mut job = Command::new("bash");
    set_surroundings(&mut job, scratch);
    let script = format!("until [ -e ../gate ]; do sleep 0.05; done; {script}");
    job.args(["-ec", &script]).stdout(Stdio::null()).spawn().expect("a job")
}

/// A file of which the page cache holds nothing: more of it is read ahead than anybody wants.
fn make_cold(scratch: &Scratch, name: &str) {
    use rustix::fs::{Advice, fadvise};
    let path = scratch.path(name);
    std::fs::write(&path, vec![7; 1 << 20]).expect("a file");
    let file = std::fs::File::open(&path).expect("it is there");
    file.sync_all().expect("stored");
    fadvise(&file, 0, None, Advice::DontNeed).expect("it leaves the page cache");
}

#[test]
fn everybody_is_followed_on_one_file_system_alone() {
    needs_root!();
    let scratch = Scratch::new();
    let mounted = Mounted::new(&scratch);
    let (there, calls) = (mounted.path("there"), scratch.path("calls.parquet"));
    let io = workload("io");
    // The shell itself writes 11 bytes, into a file that it has opened before.
    let script = format!(
        "exec 5>'{}'; echo 0123456789 >&5; {io} write {BYTES} {CHUNK} '{there}'; {io} write 77 7 elsewhere; head -c 4096 cold; cat '{there}' >copy",
        mounted.path("open before"),
    );
    make_cold(&scratch, "work/cold");
    let mut job = job(&scratch, &script);
    let json = scratch.path("io.json");
    let mut following = Command::new(weigh_binary());
    set_surroundings(&mut following, &scratch);
    following
        .args(["io", "--mount"])
        .arg(&mounted.0)
        .arg("--calls")
        .arg(&calls)
        .arg("--json")
        .arg(&json);
    let following = following.stdout(Stdio::piped()).spawn().expect("weigh");
    wait_until("it follows", 30.0, || links_of(following.id()) >= 8);
    std::thread::sleep(crate::support::patience(0.5));
    std::fs::write(scratch.path("gate"), "").expect("the gate");
    assert!(job.wait().expect("it ends").success());
    signal(following.id(), 2);
    let output = following.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_str(&scratch.text("io.json")).expect("a report");
    let files = report["files"].as_array().expect("files");
    let names: Vec<_> = files.iter().map(|row| row["name"].as_str().expect("a name")).collect();
    assert!(
        !files.is_empty() && names.iter().all(|name| name.starts_with(&mounted.path(""))),
        "{names:?}"
    );
    let sum = |end: &str, key: &str| -> u64 {
        let those =
            files.iter().filter(|row| row["name"].as_str().is_some_and(|name| name.ends_with(end)));
        those.map(|row| row[key].as_u64().unwrap_or(0)).sum()
    };
    assert_eq!((sum("/there", "written_bytes"), sum("/there", "write_calls")), (BYTES, CALLS));
    assert_eq!((sum("/there", "read_bytes"), sum("/open before", "written_bytes")), (BYTES, 11));
    // Who did nothing there is not told, and all together is what was done there.
    let processes = report["processes"].as_array().expect("processes");
    assert!(
        processes.iter().all(|row| files.iter().any(|file| file["pid"] == row["pid"])),
        "{processes:?}"
    );
    assert_eq!(report["totals"]["written_bytes"], BYTES + 11);
    // What was read ahead elsewhere waits in vain, and is not of this file system.
    let ahead = &report["totals"]["numbers"]["readahead_unused_bytes"];
    assert_eq!(ahead.as_u64().unwrap_or(0), 0, "{}", report["totals"]);
    assert_eq!(report["mount"].as_str(), mounted.0.to_str());
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("there"),
        "the table is on standard output"
    );
    let mut rows = 0;
    weigh_keep::each_io_call(&calls, |row| {
        assert!(
            row.path.as_deref().is_some_and(|path| path.starts_with(&mounted.path(""))),
            "{row:?}"
        );
        rows += 1;
    })
    .expect("rows");
    assert!(rows > CALLS, "{rows}");
}

#[test]
fn what_can_not_be_followed_so_is_refused() {
    needs_root!();
    let scratch = Scratch::new();
    let said = |arguments: &[&str]| {
        let output = weigh(&scratch, arguments);
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let missing = said(&["io", "--mount", "no-such-folder"]);
    assert!(missing.contains("no-such-folder") && missing.contains("No such file"), "{missing}");
    let by = said(&["io", "--mechanism", "preload", "--mount", "/"]);
    assert!(by.contains("--mechanism bpf"), "{by}");
    let output = weigh_as(Some(65534), &scratch, &["io", "--mount", "/"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(125) && text.contains("takes root"), "{output:?}");
    assert!(text.contains("weigh io mount"), "{text}");
}
