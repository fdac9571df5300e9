//! What was read ahead and never used, against what the job was made to read of files that the page cache had
//! nothing of: to the page.

use std::path::Path;

use crate::support::run::{Scratch, weigh};
use crate::support::workload;
use serde_json::Value;

const BYTES: u64 = 1_000_003;
const PAGE: u64 = 4096;
/// Whole pages that the bytes lie in.
const PAGES: u64 = 245 * PAGE;

/// A file that the page cache has nothing of: made by who is not followed.
fn make_cold(folder: &Path) {
    std::fs::create_dir(folder).expect("a folder");
    let path = folder.join("cold");
    let bytes: Vec<u8> = (0..BYTES).map(|i| (i % 251) as u8).collect();
    std::fs::write(&path, bytes).expect("a file");
    let file = std::fs::File::open(&path).expect("it is there");
    file.sync_all().expect("it is written");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("it leaves");
}

/// Whether the page cache takes in more than is asked for, and lets it go again.
fn reads_ahead() -> bool {
    const TMPFS: i64 = 0x0102_1994;
    let scratch = Scratch::new();
    let magic = rustix::fs::statfs(scratch.mark()).expect("a file system").f_type;
    if magic == TMPFS {
        crate::support::leave_out("the tests' folder is in memory");
    }
    magic != TMPFS
}

/// What was found of the file `cold` in one of the folders.
struct Found {
    script: String,
    rows: Vec<Value>,
}

impl Found {
    /// A number of all processes together.
    fn number(&self, key: &str) -> u64 {
        self.rows.iter().map(|row| row["numbers"][key].as_u64().unwrap_or(0)).sum()
    }

    fn filled(&self) -> u64 {
        self.number("filled_bytes")
    }

    fn unused(&self) -> u64 {
        self.number("readahead_unused_bytes")
    }

    /// Whether each row's number is exact: that is not said.
    fn is_exact(&self) -> bool {
        self.rows.iter().all(|row| row.get("readahead_quality").is_none())
    }
}

/// Follows scripts as one job, each in a folder of its own, where a file is that is cold.
#[track_caller]
fn io(scripts: &[String], options: &[&str]) -> (Vec<Found>, Value) {
    let scratch = Scratch::new();
    let mut all = String::new();
    for (place, script) in scripts.iter().enumerate() {
        make_cold(&scratch.path(&format!("work/{place}")));
        all += &format!("cd {place}; {script}; cd ..\n");
    }
    let json = scratch.path("io.json").display().to_string();
    let arguments = [&["io", "-q", "--json", &json][..], options, &["--", "sh", "-ec", &all]];
    let output = weigh(&scratch, &arguments.concat());
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_str(&scratch.text("io.json")).expect("a report");
    let found = scripts.iter().enumerate().map(|(place, script)| {
        let end = format!("/{place}/cold");
        let is_it = |row: &&Value| row["name"].as_str().is_some_and(|name| name.ends_with(&end));
        let rows = report["files"].as_array().expect("files").iter().filter(is_it);
        Found { script: script.clone(), rows: rows.cloned().collect() }
    });
    (found.collect(), report)
}

/// By the kernel side, which lacks nothing.
#[track_caller]
fn followed(scripts: &[String]) -> Vec<Found> {
    let (found, report) = io(scripts, &[]);
    assert!(report.get("notes").is_none(), "{}", report["notes"]);
    found
}

/// By its path: a shell that is busybox would take its own.
const DD: &str = "/bin/dd of=/dev/null if=cold status=none bs=4096";
/// What is in the page cache of the file leaves it.
const DROP: &str = "/bin/dd of=cold oflag=nocache conv=notrunc,fdatasync count=0 status=none";

#[test]
fn what_is_all_read_is_all_used() {
    needs_root!();
    if !reads_ahead() {
        return;
    }
    let program = workload("io");
    let reading = ["read", "pread", "readv", "preadv2"];
    let copying = ["sendfile", "splice", "copy_file_range"];
    let scripts: Vec<String> = reading
        .iter()
        .map(|kind| format!("{program} {kind} {BYTES} 1021 cold"))
        .chain(copying.iter().map(|kind| format!("{program} {kind} {BYTES} 1021 cold target")))
        .collect();
    for found in followed(&scripts) {
        assert_eq!(found.filled(), PAGES, "{}", found.script);
        assert_eq!(found.unused(), 0, "{}", found.script);
        assert!(found.is_exact(), "{}", found.script);
    }
}

#[test]
fn what_nobody_reads_is_unused_to_the_page() {
    needs_root!();
    if !reads_ahead() {
        return;
    }
    // How many pages are used of those that came in. The first page of a file has the kernel read some more.
    let cases = [
        (format!("{DD} count=1"), 1),
        // Dropped, deleted, looked at past the page cache.
        (format!("{DD} count=1; {DROP}"), 1),
        (format!("{DD} count=1; rm cold"), 1),
        (format!("{DD} count=1; {DD} skip=1 count=2 iflag=direct"), 1),
        // Another process reads of it, or writes.
        (format!("{DD} count=1; {DD} skip=2 count=1"), 2),
        (
            format!(
                "{DD} count=1; /bin/dd if=/dev/zero of=cold conv=notrunc bs=4096 seek=1 count=1 status=none"
            ),
            2,
        ),
        // It leaves, and comes again.
        (format!("{DD} count=1; {DROP}; {DD} count=1"), 2),
        // All of it, after all.
        (format!("{DD} count=1; {DD}"), PAGES / PAGE),
    ];
    let scripts: Vec<String> = cases.iter().map(|(script, _)| script.clone()).collect();
    let all = followed(&scripts);
    for (found, (script, used)) in all.iter().zip(&cases) {
        let (filled, unused) = (found.filled(), found.unused());
        assert_eq!(unused, filled - used * PAGE, "{script}: {filled} came in");
        assert!(found.is_exact(), "{script}");
    }
    let unused: Vec<u64> = all.iter().map(Found::unused).collect();
    assert!(unused[0] > 0 && unused[6] == 2 * unused[0] && unused[7] == 0, "{unused:?}");
}

/// Requests read and write where they are done, in calls that do not say at which place.
#[test]
fn requests_use_what_they_read_and_what_they_write() {
    needs_root!();
    if !reads_ahead() {
        return;
    }
    let program = workload("io");
    let mut scripts = Vec::new();
    for kind in ["aio-read", "uring-read", "uring-readv", "uring-async-read", "uring-sqpoll-read"] {
        scripts.push(format!("{program} {kind} {BYTES} 1021 cold"));
        // Whatever has come in before for another process.
        scripts.push(format!("{DD} count=1; {program} {kind} {BYTES} 1021 cold"));
    }
    for kind in ["aio-write", "aio-append", "uring-write", "uring-writev"] {
        // Into a file that they make anew, page by page, and several pages at once.
        scripts.push(format!("rm cold; {program} {kind} {BYTES} 1021 cold"));
        scripts.push(format!("rm cold; {program} {kind} {BYTES} 65536 cold"));
    }
    for found in followed(&scripts) {
        assert_eq!(found.unused(), 0, "{}: {} came in", found.script, found.filled());
        assert!(found.is_exact(), "{}", found.script);
    }
    // What they did not read was read in vain, as by a call.
    let kinds = ["pread", "aio-read", "uring-read"];
    let scripts = kinds.map(|kind| format!("{program} {kind} 4096 1021 cold"));
    let all = followed(&scripts);
    for found in &all {
        assert!(found.is_exact() && found.unused() > 0, "{}", found.script);
        assert_eq!(found.unused(), found.filled() - PAGE, "{}", found.script);
    }
}

/// Where pages may be used unseen, the number is an upper bound, and says so.
#[test]
fn what_may_have_been_used_unseen_is_a_bound() {
    needs_root!();
    if !reads_ahead() {
        return;
    }
    let access = workload("access");
    // A program is mapped without a call.
    let scripts = [
        format!("{DD} count=1; {access} map cold"),
        format!(
            "cat {access} >cold; chmod +x cold; {DROP}; {DD} count=1; ./cold opens /dev/zero 1"
        ),
    ];
    for found in followed(&scripts) {
        let (script, unused) = (&found.script, found.unused());
        assert!(unused > 0 && unused <= found.filled(), "{script}: {unused}");
        let has_it = |row: &&Value| row["numbers"].get("readahead_unused_bytes").is_some();
        let mut rows = found.rows.iter().filter(has_it);
        assert!(rows.all(|row| row["readahead_quality"] == "estimated"), "{script}");
    }
}

#[test]
fn without_the_kernel_side_it_is_not_known() {
    let script = format!("{} read {BYTES} 1021 cold", workload("io"));
    let (found, report) = io(&[script], &["--mechanism", "preload"]);
    assert_eq!(found[0].rows[0]["readahead_quality"], "unavailable");
    assert_eq!(report["qualities"]["readahead_unused_bytes"]["quality"], "unavailable");
}
