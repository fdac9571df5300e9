//! `weigh io` where files lie on other files: overlayfs, and FUSE with passthrough. What programs did with the file that
//! they name is held against what they know, and no page of the file below is counted again.
//!
//! As in io_device.rs a kernel may pass over a program for once: then it is tried again, and never is it too much.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::io_report::{BYTES, moved, number, row, rows, text};
use crate::support::processes::{links_of, signal};
use crate::support::run::{Scratch, is_stored, set_surroundings, weigh};
use crate::support::{wait_until, weigh_binary, workload};
use serde_json::Value;

const PAGE: u64 = 4096;
/// Whole pages that the bytes lie in.
const PAGES: u64 = 245 * PAGE;
const CHUNK: u64 = 1021;
const CALLS: u64 = 980;

/// A file system that lies on another one: what is made there lies in one folder, what was there in another.
struct Overlay {
    scratch: Scratch,
    at: PathBuf,
}

impl Overlay {
    /// With `cold` in it, which the page cache has nothing of. None, and a line that says so, where the kernel has no
    /// overlayfs, or files are in memory.
    fn new() -> Option<Overlay> {
        if !is_stored() {
            return None;
        }
        let scratch = Scratch::new();
        let [lower, upper, own, at] = ["lower", "upper", "own", "work/at"].map(|name| {
            std::fs::create_dir(scratch.path(name)).expect("a folder");
            scratch.path(name)
        });
        make_cold(&lower.join("cold"));
        let [lower, upper, own] = [lower, upper, own].map(|path| text(&path));
        let options = format!("lowerdir={lower},upperdir={upper},workdir={own}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "overlay", "overlay", "-o", &options]).arg(&at);
        let output = mount.output().expect("mount");
        let systems = std::fs::read_to_string("/proc/filesystems").expect("file systems");
        if !systems.lines().any(|line| line.ends_with("\toverlay")) {
            crate::support::leave_out("this kernel has no overlayfs");
            return None;
        }
        assert!(output.status.success(), "{output:?}");
        Some(Overlay { scratch, at })
    }

    fn path(&self, name: &str) -> String {
        text(&self.at.join(name))
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.at, rustix::mount::UnmountFlags::DETACH);
    }
}

/// A file that the page cache has nothing of.
fn make_cold(path: &Path) {
    let bytes: Vec<u8> = (0..BYTES).map(|i| (i % 251) as u8).collect();
    std::fs::write(path, bytes).expect("a file");
    let file = std::fs::File::open(path).expect("it is there");
    file.sync_all().expect("it is written");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("it leaves");
}

/// Follows a script in the working folder. What programs are made of may come as mapped memory, and under its name.
#[track_caller]
fn io(scratch: &Scratch, script: &str) -> Value {
    let json = text(&scratch.path("io.json"));
    let options = ["io", "-q", "--mechanism", "bpf", "--json", &json];
    let output = weigh(scratch, &[&options[..], &["--", "sh", "-ec", script]].concat());
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_str(&scratch.text("io.json")).expect("a report");
    assert!(report.get("rest").is_none(), "{}", report["rest"]);
    report
}

/// Three times at most, until what a report says holds: whether it does, and the report.
#[track_caller]
fn until_it_holds(attempt: impl Fn() -> (bool, Value)) {
    let mut attempts = (1..=3).map(|number| (number, attempt()));
    let holds = attempts.any(|(number, (holds, report))| {
        if !holds {
            println!("attempt {number}: {report}");
        }
        holds
    });
    assert!(holds, "three times in a row not");
}

/// The same of what a script left in an overlay of its own, where there can be one.
#[track_caller]
fn until_seen(script: impl Fn(&Overlay) -> String, holds: impl Fn(&Overlay, &Value) -> bool) {
    until_it_holds(|| {
        let Some(overlay) = Overlay::new() else { return (true, Value::Null) };
        let report = io(&overlay.scratch, &script(&overlay));
        (holds(&overlay, &report), report)
    });
}

/// The files that have no name: of what programs are made there is none in these tests.
fn nameless(report: &Value) -> Vec<&Value> {
    let files = report["files"].as_array().expect("files").iter();
    files
        .filter(|row| row["name"].as_str().is_some_and(|name| name.starts_with("(inode")))
        .collect()
}

/// A number of all rows of a file.
fn all(report: &Value, name: &str, key: &str) -> u64 {
    rows(report, name).into_iter().map(|row| number(row, key)).sum()
}

#[test]
fn calls_are_no_mapped_memory_and_have_what_devices_did() {
    needs_root!();
    let program = workload("io");
    let script = |_: &Overlay| {
        format!(
            "{program} read {BYTES} {CHUNK} at/cold; \
             {program} write {BYTES} {BYTES} at/made; sync at/made"
        )
    };
    until_seen(script, |overlay, report| {
        let [cold, made] = ["cold", "made"].map(|name| overlay.path(name));
        let (from, to) = (row(report, &cold), row_of_writer(report, &made));
        assert_eq!(moved(from, "plain"), [BYTES, CALLS, 0, 0]);
        assert_eq!(moved(to, "plain"), [0, 0, BYTES, 1]);
        assert_eq!((moved(from, "mapped"), moved(to, "mapped")), ([0; 4], [0; 4]));
        assert_eq!(nameless(report), [] as [&Value; 0]);
        assert_eq!(number(from, "readahead_unused_bytes"), 0, "{from}");
        let seen = [
            (number(from, "filled_bytes"), PAGES),
            (number(from, "device_read_bytes"), PAGES),
            (number(to, "device_written_bytes"), PAGES),
        ];
        assert!(seen.iter().all(|(seen, most)| seen <= most), "{seen:?}: {report}");
        assert!(number(from, "cached_reads_total") < CALLS, "{from}");
        seen.iter().all(|(seen, expected)| seen == expected)
    });
}

/// The file system below gives the number of a file that is gone to the next one.
#[test]
fn files_that_have_one_number_after_another_are_several() {
    needs_root!();
    let sizes = [("first", 100), ("second", 20), ("third", 3)];
    let line = |(name, size): &(&str, u32)| {
        format!(
            "head -c {size} /dev/zero > at/{name}; stat -c %i at/{name} >> numbers; rm at/{name}"
        )
    };
    let script = sizes.iter().map(line).collect::<Vec<_>>().join("; ");
    let mut numbers = String::new();
    for _ in 0..20 {
        let Some(overlay) = Overlay::new() else { return };
        let report = io(&overlay.scratch, &script);
        numbers = overlay.scratch.text("work/numbers");
        let mut different: Vec<&str> = numbers.lines().collect();
        different.dedup();
        if different.len() > 1 {
            continue;
        }
        for (name, size) in sizes {
            let rows = rows(&report, &overlay.path(name)).into_iter();
            let written: u64 = rows.filter_map(|row| row["written_bytes"].as_u64()).sum();
            assert_eq!(written, u64::from(size), "{name}: {report}");
        }
        return;
    }
    crate::support::leave_out(&format!("no number is given again: {numbers}"));
}

/// One that is copied up is one file, before and after.
#[test]
fn a_file_that_is_copied_up_is_the_same() {
    needs_root!();
    let access = "dd if=at/cold of=/dev/null bs=1000 count=1 status=none; \
                  dd if=/dev/zero of=at/cold bs=100 count=1 conv=notrunc status=none; \
                  dd if=at/cold of=/dev/null bs=1000 count=2 status=none";
    let Some(overlay) = Overlay::new() else { return };
    let report = io(&overlay.scratch, &format!("exec 5<at/cold; {access}"));
    let rows = rows(&report, &overlay.path("cold"));
    // What is written of the copy by itself has the copy's number, on the file system below.
    let used = rows.iter().filter(|row| row["read_bytes"] != 0 || row["written_bytes"] != 0);
    let identity = |row: &&Value| (row["inode"].clone(), row["generation"].clone());
    let mut identities: Vec<_> = used.map(identity).collect();
    assert_eq!(identities.len(), 3, "{report}");
    identities.dedup();
    assert_eq!(identities.len(), 1, "{report}");
    let read: u64 = rows.iter().filter_map(|row| row["read_bytes"].as_u64()).sum();
    assert_eq!(read, 3000, "{report}");
}

/// Of those who used a file that one that wrote to it.
#[track_caller]
fn row_of_writer<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mut rows = rows(report, name).into_iter();
    let wrote = |row: &Value| ["plain", "mapped"].iter().any(|kind| moved(row, kind)[2] > 0);
    rows.find(|row| wrote(row)).unwrap_or_else(|| panic!("{report}"))
}

#[test]
fn every_kind_of_copy_has_its_two_files() {
    needs_root!();
    for kind in ["sendfile", "splice", "copy_file_range"] {
        let line = format!("{} {kind} {BYTES} {CHUNK} at/cold at/made", workload("io"));
        until_seen(
            |_| line.clone(),
            |overlay, report| {
                let [from, to] =
                    ["cold", "made"].map(|name| row(report, &text(&overlay.at.join(name))));
                assert_eq!(moved(from, "copied")[0], BYTES, "{kind}");
                assert_eq!(moved(to, "copied")[2], BYTES, "{kind}");
                assert_eq!((moved(from, "mapped"), moved(to, "mapped")), ([0; 4], [0; 4]));
                assert_eq!(nameless(report), [] as [&Value; 0], "{kind}");
                assert!(number(from, "filled_bytes") <= PAGES, "{kind}: {from}");
                number(from, "filled_bytes") == PAGES
            },
        );
    }
}

/// Of the process that has mapped it, and of a child that has it from there.
#[test]
fn mapped_memory_has_the_name_of_the_file_above() {
    needs_root!();
    let access = workload("access-static");
    for way in ["map", "inherit"] {
        until_seen(
            |_| format!("{access} {way} at/cold"),
            |overlay, report| {
                let rows = rows(report, &overlay.path("cold"));
                let read: u64 = rows.iter().map(|row| moved(row, "mapped")[0]).sum();
                assert!(read <= PAGES, "{way}: {report}");
                read == PAGES && nameless(report).is_empty()
            },
        );
    }
    until_seen(
        |_| format!("{access} store at/made 30; sync at/made"),
        |overlay, report| {
            let made = overlay.path("made");
            let [_, _, dirtied, _] = moved(row_of_writer(report, &made), "mapped");
            assert!((10 * PAGE..=30 * PAGE).contains(&dirtied), "{dirtied}");
            assert_eq!(nameless(report), [] as [&Value; 0]);
            all(report, &made, "device_written_bytes") == dirtied
        },
    );
}

/// What a call writes lies in memory that is mapped to another file: touched in the call, and by no call on that file.
#[test]
fn what_a_call_touches_of_mapped_memory_is_mapped_memory() {
    needs_root!();
    let access = workload("access");
    for to in ["at/made", "made", "/dev/null"] {
        // To /dev/null nothing is read: the pages are not touched.
        let pages = if to == "/dev/null" { 0 } else { PAGES };
        until_seen(
            |_| format!("{access} hand at/cold {to}"),
            |overlay, report| {
                let cold = overlay.path("cold");
                assert_eq!(all(report, &cold, "filled_bytes"), 0, "{to}: {report}");
                assert_eq!(nameless(report), [] as [&Value; 0], "{to}");
                moved(row(report, &cold), "mapped")[0] == pages
            },
        );
    }
    until_it_holds(|| {
        let scratch = Scratch::new();
        make_cold(&scratch.path("work/cold"));
        let report = io(&scratch, &format!("{access} hand cold made"));
        let from = row(&report, &text(&scratch.path("work/cold")));
        assert_eq!(number(from, "filled_bytes"), 0);
        (moved(from, "mapped")[0] == PAGES, report)
    });
}

/// An open to write makes a copy of the whole file above: neither mapped memory, nor read ahead in vain.
#[test]
fn what_an_open_copies_up_has_the_name_of_its_file() {
    needs_root!();
    let script = "env dd if=/dev/zero of=at/cold bs=100 count=1 conv=notrunc,fsync status=none";
    until_seen(
        |_| script.to_string(),
        |overlay, report| {
            let cold = overlay.path("cold");
            let all = |key| all(report, &cold, key);
            assert!(rows(report, &cold).iter().all(|row| moved(row, "mapped") == [0; 4]));
            assert_eq!(nameless(report), [] as [&Value; 0]);
            assert_eq!(all("readahead_unused_bytes"), 0, "{report}");
            // The copy, and the folio that was written after it.
            let [read, wrote] = [all("device_read_bytes"), all("device_written_bytes")];
            assert!(read <= PAGES && wrote <= 2 * PAGES, "{read}, {wrote}: {report}");
            read == PAGES && wrote >= PAGES + PAGE
        },
    );
}

/// Who has opened a file to read it reads the copy that another one has had made since.
#[test]
fn what_was_copied_up_since_it_was_opened_is_the_calls() {
    needs_root!();
    let change = "env dd if=/dev/zero of=at/cold bs=100 count=1 conv=notrunc,fsync status=none";
    let cool = "/bin/dd of=at/cold oflag=nocache conv=notrunc,fdatasync count=0 status=none";
    until_seen(
        |_| format!("exec 5<at/cold; {change}; {cool}; cat <&5 >/dev/null"),
        |overlay, report| {
            let rows = rows(report, &overlay.path("cold"));
            assert!(rows.iter().all(|row| moved(row, "mapped") == [0; 4]), "{report}");
            assert_eq!(nameless(report), [] as [&Value; 0]);
            let reader = rows.into_iter().find(|row| row["process"] == "cat").expect("cat");
            assert_eq!(reader["read_bytes"], BYTES, "{reader}");
            assert_eq!(number(reader, "readahead_unused_bytes"), 0, "{reader}");
            number(reader, "filled_bytes") == PAGES
        },
    );
}

/// By its path, as by its descriptor: one page is blanked from where the file ends then.
#[test]
fn what_truncate_touches_is_no_mapped_memory() {
    needs_root!();
    if !is_stored() {
        return;
    }
    let access = workload("access");
    for way in ["cut", "cut-mapped"] {
        until_it_holds(|| what_cutting_touches(&access, way));
    }
}

/// Whether all pages that are left are read anew.
#[track_caller]
fn what_cutting_touches(access: &str, way: &str) -> (bool, Value) {
    let scratch = Scratch::new();
    make_cold(&scratch.path("work/cold"));
    let report = io(&scratch, &format!("{access} {way} cold 500007; cat cold >/dev/null"));
    let rows = rows(&report, &text(&scratch.path("work/cold")));
    assert!(rows.iter().all(|row| moved(row, "mapped") == [0; 4]), "{way}: {report}");
    let files = report["files"].as_array().expect("files").iter();
    let written: u64 = files.map(|row| moved(row, "mapped")[2]).sum();
    assert_eq!(written, 0, "{way}: {report}");
    let filled: u64 = rows.iter().map(|row| number(row, "filled_bytes")).sum();
    let left = 500_007_u64.div_ceil(PAGE) * PAGE;
    assert!(filled <= left, "{way}: {filled}: {report}");
    (filled == left, report)
}

/// Who follows everybody on the file system above sees what came into the page cache, and what devices did.
#[test]
fn everybody_is_followed_on_the_file_system_above() {
    needs_root!();
    until_it_holds(|| {
        let Some(overlay) = Overlay::new() else { return (true, Value::Null) };
        let report = followed_on(&overlay);
        let [cold, made] = ["cold", "made"].map(|name| overlay.path(name));
        let seen = [
            all(&report, &cold, "filled_bytes"),
            all(&report, &cold, "device_read_bytes"),
            all(&report, &made, "device_written_bytes"),
        ];
        assert_eq!(moved(row(&report, &cold), "plain")[0], BYTES);
        assert!(seen.iter().all(|seen| *seen <= PAGES), "{seen:?}: {report}");
        assert!(report["totals"]["by_kind"].get("mapped").is_none(), "{report}");
        assert_eq!(nameless(&report), [] as [&Value; 0]);
        (seen == [PAGES; 3], report)
    });
}

/// What `weigh io --mount` tells of a job that reads and writes there.
#[track_caller]
fn followed_on(overlay: &Overlay) -> Value {
    let (scratch, program) = (&overlay.scratch, workload("io"));
    let mut job = Command::new("bash");
    set_surroundings(&mut job, scratch);
    job.args([
        "-ec",
        &format!(
            "until [ -e ../gate ]; do sleep 0.05; done; {program} read {BYTES} {CHUNK} at/cold; \
         exec env dd if=/dev/zero of=at/made bs={BYTES} count=1 conv=fsync status=none"
        ),
    ]);
    let mut job = job.stdout(Stdio::null()).spawn().expect("a job");
    let mut following = Command::new(weigh_binary());
    set_surroundings(&mut following, scratch);
    following.args(["io", "-q", "--json"]).arg(scratch.path("io.json"));
    following.arg("--mount").arg(&overlay.at).stdout(Stdio::null());
    let mut following = following.spawn().expect("weigh");
    wait_until("it follows", 30.0, || links_of(following.id()) >= 8);
    std::thread::sleep(crate::support::patience(0.5));
    std::fs::write(scratch.path("gate"), "").expect("the gate");
    assert!(job.wait().expect("it ends").success());
    signal(following.id(), 2);
    assert!(following.wait().expect("it ends").success());
    serde_json::from_str(&scratch.text("io.json")).expect("a report")
}

/// `weigh io mount` lets the kernel read and write by the file below.
#[test]
fn a_mount_with_passthrough_is_seen_as_the_file_above() {
    needs_root!();
    if is_stored() && can_pass_through() {
        until_it_holds(what_is_seen_above_a_mount);
    }
}

/// Whether all pages are seen to come, by a call and by mapped memory.
#[track_caller]
fn what_is_seen_above_a_mount() -> (bool, Value) {
    let (program, access) = (workload("io"), workload("access-static"));
    let scratch = Scratch::new();
    for name in ["below", "work/at"] {
        std::fs::create_dir(scratch.path(name)).expect("a folder");
    }
    for name in ["cold", "cold too"] {
        make_cold(&scratch.path("below").join(name));
    }
    let (json, served) = (text(&scratch.path("io.json")), text(&scratch.path("served.json")));
    let itself = text(&weigh_binary());
    let script = format!(
        "{program} read {BYTES} {CHUNK} at/cold; {program} write {BYTES} {CHUNK} at/made; \
         {access} map 'at/cold too'"
    );
    let arguments = [
        "io",
        "mount",
        "-q",
        "--json",
        &served,
        "../below",
        "at",
        "--",
        &itself,
        "io",
        "-q",
        "--mechanism",
        "bpf",
        "--json",
        &json,
        "--",
        "sh",
        "-ec",
        &script,
    ];
    let output = weigh(&scratch, &arguments);
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_str(&scratch.text("io.json")).expect("a report");
    let of = |name: &str| row(&report, &text(&scratch.path("work/at").join(name)));
    let (from, to) = (of("cold"), of("made"));
    assert_eq!(moved(from, "plain")[0], BYTES);
    assert_eq!((moved(from, "mapped"), moved(to, "mapped")), ([0; 4], [0; 4]));
    assert_eq!(nameless(&report), [] as [&Value; 0]);
    let seen = [number(from, "filled_bytes"), moved(of("cold too"), "mapped")[0]];
    assert!(seen.iter().all(|seen| *seen <= PAGES), "{seen:?}: {report}");
    (seen == [PAGES; 2], report)
}

/// Since Linux 6.9, where there is FUSE.
fn can_pass_through() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map_while(|n| n.parse::<u32>().ok());
    let is_new = (numbers.next(), numbers.next()) >= (Some(6), Some(9));
    let can = is_new && std::fs::File::options().read(true).write(true).open("/dev/fuse").is_ok();
    if !can {
        crate::support::leave_out("this kernel has no FUSE with passthrough");
    }
    can
}
