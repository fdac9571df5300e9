//! What calls send to a device that nobody who is followed has written: to the byte, and never in the place of
//! what somebody followed wrote.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::process::{Child, Command, Stdio};

use crate::support::run::{Scratch, is_stored, set_surroundings};
use crate::support::{is_slow, wait_until, weigh_binary, workload};
use serde_json::Value;
use weigh_schema::call_row::{COST_COLUMNS, CallRow, LATER_COLUMNS};

const PAGE: usize = 4096;
/// Pages that are written from outside of the job, at the file's beginning.
const OTHERS: usize = 23;
/// Pages that the job writes, behind them.
const OWN: u64 = 7;

/// What `weigh calls` says, in words and as JSON.
struct Told {
    text: String,
    report: Value,
}

impl Told {
    fn row(&self, call: &str) -> &Value {
        let mut rows = self.report["calls"].as_array().expect("rows").iter();
        rows.find(|row| row["call"] == call).unwrap_or_else(|| panic!("no {call}: {}", self.text))
    }

    /// A number of `block` of all calls of a kind.
    fn block(&self, call: &str, key: &str) -> u64 {
        self.row(call)["parts"]["block"][key].as_u64().unwrap_or(0)
    }

    fn later(&self, call: &str, key: &str) -> u64 {
        self.row(call)["later"][key].as_u64().unwrap_or(0)
    }
}

/// Follows a shell's script. Just before it this process, which is not followed, makes pages of its file dirty.
fn follow(scratch: &Scratch, options: &[&str], script: &str) -> Told {
    let (file, ready, go) =
        (scratch.path("work/file"), scratch.path("work/ready"), scratch.path("work/go"));
    nix::unistd::mkfifo(&go, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    // Open at both ends: nobody waits for the other.
    let mut go = OpenOptions::new().read(true).write(true).open(go).expect("a FIFO");
    let script = format!(": >file; : >ready; read go <go; {script}");
    let mut command = Command::new(weigh_binary());
    command.arg("calls").args(options).args(["--json", "calls.json", "--", "sh", "-ec", &script]);
    set_surroundings(&mut command, scratch);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("weigh");
    let has_ended = |child: &mut Child| child.try_wait().expect("weigh").is_some();
    wait_until("the job to be followed", 60.0, || ready.exists() || has_ended(&mut child));
    let file = OpenOptions::new().write(true).open(file).expect("the file");
    file.write_all_at(&[b'o'; OTHERS * PAGE], 0).expect("pages");
    go.write_all(b"go\n").expect("room in the FIFO");
    let output = child.wait_with_output().expect("weigh");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let report = serde_json::from_str(&scratch.text("work/calls.json")).expect("JSON");
    Told { text, report }
}

/// Until all is as it must be if nobody else has the kernel write the file, and no program was passed over: see
/// tests/written.rs. Too much is never right.
#[track_caller]
fn until_seen<const N: usize>(
    expected: [u64; N],
    mut seen: impl FnMut() -> ([u64; N], Told),
) -> Told {
    for attempt in 1..=3 {
        let (numbers, told) = seen();
        let is_too_much = numbers.iter().zip(&expected).any(|(seen, expected)| seen > expected);
        assert!(!is_too_much, "{numbers:?} for {expected:?}: {}", told.text);
        if numbers == expected {
            assert_eq!(told.report["lost_total"], 0);
            return told;
        }
        println!("attempt {attempt}: {numbers:?} for {expected:?}: {}", told.text);
    }
    panic!("three times in a row not {expected:?}");
}

/// Seven pages from the 64th on, and an fsync by the same process.
const WRITE_AND_SYNC: &str =
    "env dd if=/dev/zero of=file bs=4096 seek=64 count=7 conv=notrunc,fsync status=none";

const EACH: u64 = PAGE as u64;

#[test]
fn an_fsync_says_what_nobody_followed_wrote_and_what_was_written_by_the_job() {
    needs_root!();
    if !is_stored() {
        return;
    }
    let told = until_seen([OTHERS as u64 * EACH, OWN * EACH, OWN * EACH], || {
        let scratch = Scratch::new();
        // Enough for all calls: on a busy machine others are slower.
        let told = follow(&scratch, &["--slowest", "500"], WRITE_AND_SYNC);
        let block = |key| told.block("fsync", key);
        let own = told.later("write", "block_written_bytes_total");
        ([block("foreign_bytes_total"), block("carried_bytes_total"), own], told)
    });
    let (foreign, all) =
        (told.block("fsync", "foreign_requests_total"), told.block("fsync", "requests_total"));
    assert!((1..=all).contains(&foreign), "{foreign} of {all}");
    let transferred = told.block("fsync", "transferred_bytes_total");
    assert!(transferred >= (OTHERS as u64 + OWN) * EACH, "{transferred}");
    // No other call has any.
    for row in told.report["calls"].as_array().expect("rows") {
        let is_fsync = row["call"] == "fsync";
        assert_eq!(row["parts"]["block"]["foreign_bytes_total"].is_u64(), is_fsync, "{row}");
        assert!(row["later"]["block_foreign_bytes_total"].is_null(), "{row}");
    }
    // Where the processor is emulated the wait for the device is too small a part of the call to be told in words.
    if is_slow() {
        return;
    }
    let text = told.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = format!("; {foreign} of {all} requests, with 92.0 KiB, caused by nobody followed");
    assert!(text.contains(&words), "no {words}: {text}");
}

/// A write that waits for its own bytes has only those of others that lie in the same requests: none.
#[test]
fn what_is_written_at_once_or_past_the_page_cache_is_nobody_else_s() {
    needs_root!();
    if !is_stored() {
        return;
    }
    let direct = "env dd if=/dev/zero of=direct bs=4096 count=5 oflag=direct status=none";
    // 10,007 bytes each, three pages, at once on the device.
    let synced = format!("mkdir apart; TRUTH_FILE=/dev/null {} synced apart", workload("writers"));
    let told = until_seen([5 * EACH, 300 * EACH], || {
        let scratch = Scratch::new();
        let told = follow(&scratch, &[], &format!("{direct}; {synced}"));
        let written = |call| told.block(call, "written_bytes_total");
        ([written("write"), written("pwrite64")], told)
    });
    assert!(!told.report.to_string().contains("foreign"), "{}", told.report);
}

#[test]
fn what_somebody_followed_wrote_is_not_foreign() {
    needs_root!();
    if !is_stored() {
        return;
    }
    // The same 23 pages again, but one, by another process of the job.
    let again = "env dd if=/dev/zero of=file bs=4096 count=22 conv=notrunc status=none";
    until_seen([EACH, (22 + OWN) * EACH], || {
        let scratch = Scratch::new();
        let told = follow(&scratch, &[], &format!("{again}; {WRITE_AND_SYNC}"));
        let block = |key| told.block("fsync", key);
        ([block("foreign_bytes_total"), block("carried_bytes_total")], told)
    });
}

#[test]
fn what_completes_when_the_call_has_returned_is_told_later() {
    needs_root!();
    if !is_stored() {
        return;
    }
    let start = format!("TRUTH_FILE=/dev/null {} started .; sleep 1", workload("writers"));
    until_seen([OTHERS as u64 * EACH], || {
        let scratch = Scratch::new();
        let told = follow(&scratch, &[], &start);
        let sum = told.block("sync_file_range", "foreign_bytes_total")
            + told.later("sync_file_range", "block_foreign_bytes_total");
        ([sum], told)
    });
}

/// The caller of `sync` writes the pages of the device itself, which hold the file system's maps of blocks.
#[test]
fn what_a_file_system_keeps_for_itself_is_nobody_s() {
    needs_root!();
    if !is_stored() {
        return;
    }
    let attempt = |_| follow(&Scratch::new(), &[], "mkdir apart; : >apart/more; sync; sync");
    // Somebody else's sync may come first.
    let is_written = |told: &Told| told.block("sync", "transferred_bytes_total") > 0;
    let told = (0..10).map(attempt).find(is_written).expect("a sync that writes");
    assert!(told.row("sync")["parts"]["block"]["foreign_bytes_total"].is_null(), "{}", told.text);
}

/// Without the page cache nobody knows whose pages they are: that is not told, and is not 0.
#[test]
fn without_the_page_cache_it_is_not_known() {
    needs_root!();
    let scratch = Scratch::new();
    let told = follow(&scratch, &["-s", "block", "--per-call", "calls.parquet"], WRITE_AND_SYNC);
    assert!(!told.report.to_string().contains("foreign"), "{}", told.report);
    let known = |row: &CallRow, name: &str| {
        let cost = COST_COLUMNS.iter().find(|c| c.name == name).map(|c| c.raw(row));
        cost.unwrap_or_else(|| LATER_COLUMNS.iter().find(|c| c.name == name).expect(name).raw(row))
    };
    let mut syncs = 0;
    weigh_keep::each_call(&scratch.path("work/calls.parquet"), |row| {
        if row.call == "fsync" {
            syncs += 1;
            assert!(known(&row, "block_requests_total").is_some());
        }
        for name in ["block_foreign_requests_total", "later_block_foreign_bytes_total"] {
            assert_eq!(known(&row, name), None, "{name} of {}", row.call);
        }
    })
    .expect("rows");
    assert_eq!(syncs, 1);
}

/// A file system of its own on a file, taken away with the test.
struct Xfs {
    at: std::path::PathBuf,
    device: String,
}

impl Xfs {
    /// None where the machine has none: its kernel, or who makes one.
    fn mount(scratch: &Scratch) -> Option<Xfs> {
        for module in ["libcrc32c", "loop", "xfs"] {
            // Loaded already, built in, or not there: what follows tells.
            let _ = Command::new("insmod").arg(format!("/modules/{module}.ko")).output();
        }
        if !std::fs::read_to_string("/proc/filesystems")
            .is_ok_and(|known| known.contains("\txfs\n"))
        {
            return None;
        }
        let (image, at) = (scratch.path("image"), scratch.path("xfs"));
        std::fs::File::create(&image).and_then(|file| file.set_len(400 << 20)).expect("an image");
        Command::new("mkfs.xfs").arg("-q").arg(&image).status().ok().filter(|s| s.success())?;
        std::fs::create_dir(&at).expect("a folder");
        let free = Command::new("losetup").arg("-f").output().ok()?;
        let device = String::from_utf8_lossy(&free.stdout).trim().to_string();
        must(Command::new("losetup").arg(&device).arg(&image));
        let mounted = Xfs { at, device };
        must(Command::new("mount").args(["-t", "xfs", &mounted.device]).arg(&mounted.at));
        Some(mounted)
    }
}

impl Drop for Xfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.at).status();
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
    }
}

/// XFS, most often a module, has large folios. Before Linux 6.6 it writes one as a whole, pages and all that nobody
/// wrote to: on behalf of who made it dirty.
#[test]
fn pages_of_a_large_folio_are_his_who_made_it_dirty() {
    needs_root!();
    let scratch = Scratch::new();
    let Some(xfs) = Xfs::mount(&scratch) else {
        assert!(std::env::var_os("WEIGH_TEST_MODULES").is_none(), "the guest has one");
        crate::support::leave_out("no XFS here");
        return;
    };
    let (file, json) = (xfs.at.join("file"), scratch.path("calls.json"));
    // Read at once from the device it comes in large folios.
    let fresh = || {
        std::fs::write(&file, vec![b'o'; 4 << 20]).expect("a file");
        rustix::fs::sync();
        std::fs::write("/proc/sys/vm/drop_caches", "3").expect("the caches dropped");
        std::fs::read(&file).expect("the file");
    };
    // The 21st page, and an fsync.
    let follow = || -> [u64; 3] {
        let mut weigh = Command::new(weigh_binary());
        weigh.args(["calls", "-q", "-s", "pagecache,block", "--json"]).arg(&json);
        weigh.args([
            "--",
            "env",
            "dd",
            "if=/dev/zero",
            "bs=4096",
            "seek=20",
            "count=1",
            "status=none",
        ]);
        must(weigh.arg("conv=notrunc,fsync").arg(format!("of={}", file.display())));
        let report = serde_json::from_slice(&std::fs::read(&json).expect("JSON")).expect("JSON");
        let told = Told { text: String::new(), report };
        let block = |key| told.block("fsync", key);
        let own = told.later("write", "block_written_bytes_total");
        [own, block("carried_bytes_total"), block("foreign_bytes_total")]
    };
    // A process that has the machine's files written meanwhile, as another test, takes away what is to be seen.
    let is_seen = (0..5).any(|attempt| {
        fresh();
        let [folio, carried, foreign] = follow();
        // Another one has made a page beside it dirty: the folio, but for the page, is his.
        fresh();
        let another = OpenOptions::new().write(true).open(&file).expect("the file");
        another.write_all_at(&[b'a'; PAGE], 21 * EACH).expect("a page");
        let shared = follow();
        println!("attempt {attempt}: {folio}, {carried}, {foreign}; {shared:?}");
        let is_whole = folio >= EACH && folio.is_multiple_of(EACH);
        let others = folio.saturating_sub(EACH).max(EACH);
        is_whole && (carried, foreign) == (folio, 0) && shared == [EACH, EACH, others]
    });
    assert!(is_seen, "in none of five attempts");
    // What takes more rights than to follow takes is named where it is lacking.
    if std::path::Path::new("/sys/kernel/btf/xfs").exists() {
        let mut weigh = Command::new("setpriv");
        weigh.args(["--bounding-set", "-all,+bpf,+perfmon"]).arg(weigh_binary());
        weigh.args(["calls", "-q", "-s", "pagecache", "--json"]).arg(&json).args(["--", "true"]);
        must(&mut weigh);
        let text = std::fs::read_to_string(&json).expect("JSON");
        assert!(text.contains("of the module xfs takes CAP_SYS_ADMIN"), "{text}");
    }
}

fn must(command: &mut Command) {
    assert!(command.status().expect("it starts").success(), "{command:?}");
}
