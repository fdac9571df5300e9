//! What a recording says of the machine: load and memory, and the room on file systems; limits on that room.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use weigh_schema::summary::{ExitKind, FileSystemPurpose, FileSystemRoom};
use weigh_schema::{HOST_METRICS, Quality};

use crate::support::leave_out;
use crate::support::measured::Measured;
use crate::support::run::{Scratch, Weigh};

const ORDINARY: u32 = 65_534;
const BYTES: &str = "node_filesystem_available_bytes";
const INODES: &str = "node_filesystem_inodes_available";

/// A number of `/proc/meminfo`, in bytes.
fn meminfo(key: &str) -> f64 {
    let text = fs::read_to_string("/proc/meminfo").expect("it is there");
    let line = text.lines().find_map(|line| line.strip_prefix(key)).expect("the key");
    let words = line.trim_start_matches(':').split_whitespace().next().expect("a number");
    words.parse::<f64>().expect("a number") * 1024.0
}

fn uptime() -> f64 {
    let text = fs::read_to_string("/proc/uptime").expect("it is there");
    text.split(' ').next().expect("two numbers").parse().expect("a number")
}

/// By every mechanism, for root and an ordinary user. The kernel's own files, read before and after, hold it from both
/// sides.
#[test]
fn the_machine_is_told_at_the_start_and_at_the_end() {
    let (by_root, all) = (crate::support::is_root(), ["bpf", "ptrace", "preload", "poll"]);
    let ways = all.iter().map(|mechanism| (*mechanism, None)).filter(|_| by_root);
    let ways = ways.chain(all[1..].iter().map(|mechanism| (*mechanism, Some(ORDINARY))));
    for (mechanism, user) in ways {
        let run = Weigh::run(["sleep", "0.3"]).options(&format!("--mechanism {mechanism}"));
        let run = user.into_iter().fold(run, Weigh::run_by);
        let before = uptime();
        let measured = run.end();
        let after = uptime();
        assert!(measured.status.success(), "{mechanism}: {}", measured.everything());
        let host = &measured.summary().host;
        for state in [&host.at_start, &host.at_end] {
            let names: Vec<_> = state.keys().map(String::as_str).collect();
            let mut wanted: Vec<_> = HOST_METRICS.iter().map(|metric| metric.name).collect();
            wanted.sort_unstable();
            assert_eq!(names, wanted, "{mechanism}");
            let number = |name: &str| state[name].number().expect("it is known");
            assert_eq!(number("node_memory_total_bytes"), meminfo("MemTotal"));
            assert_eq!(number("node_memory_total_bytes"), host.memory_bytes as f64);
            let used = number("node_memory_total_bytes") - number("node_memory_available_bytes");
            assert_eq!(number("node_memory_used_bytes"), used);
            assert!(number("node_threads_running") >= 1.0, "weigh itself runs");
            let read = number("node_uptime_seconds");
            assert!((before..=after + 0.02).contains(&(read + 0.01)), "{before} {read} {after}");
            assert_eq!(state["node_load_1m_threads"].quality, Quality::Sampled);
        }
        let uptime = |state: &std::collections::BTreeMap<String, weigh_schema::Value>| {
            state["node_uptime_seconds"].number().expect("it is known")
        };
        assert!(uptime(&host.at_end) - uptime(&host.at_start) >= 0.3, "{mechanism}");
    }
}

/// A file system in memory, of a size.
struct Memory(PathBuf);

impl Memory {
    fn mount(scratch: &Scratch, name: &str, options: &str) -> Option<Memory> {
        let point = scratch.path(name);
        fs::create_dir(&point).expect("a folder");
        let options = format!("mode=1777,{options}");
        let mut mount = Command::new("mount");
        let made = mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&point).status();
        made.is_ok_and(|status| status.success()).then_some(Memory(point))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn room<'a>(measured: &'a Measured, point: &Path) -> &'a FileSystemRoom {
    let systems = &measured.summary().file_systems;
    let found = systems.iter().find(|system| Path::new(&system.mount) == point);
    found.unwrap_or_else(|| panic!("{} is not in {systems:?}", point.display()))
}

/// A job takes exactly so many pages and inodes of a file system of its own, and gives them back.
#[test]
fn the_room_on_the_jobs_file_systems() {
    needs_root!();
    let hold = crate::support::patience(1.0).as_secs_f64();
    let script = format!("head -c 5000003 /dev/zero > $TMPDIR/a; sleep {hold}; rm $TMPDIR/a");
    for (mechanism, user) in [
        ("bpf", None),
        ("ptrace", None),
        ("preload", None),
        ("poll", None),
        ("ptrace", Some(ORDINARY)),
        ("poll", Some(ORDINARY)),
    ] {
        let run = Weigh::bash(&script).options(&format!("--mechanism {mechanism}"));
        let run = user.into_iter().fold(run, Weigh::run_by);
        let Some(memory) = Memory::mount(run.scratch(), "memory", "size=8m,nr_inodes=100") else {
            return leave_out("no file system can be mounted here");
        };
        let measured = run.env("TMPDIR", &memory.0).end();
        assert!(measured.status.success(), "{mechanism}: {}", measured.everything());
        let room = room(&measured, &memory.0);
        assert!(room.used_for.contains(&FileSystemPurpose::Temporary), "{room:?}");
        let numbers = |of: &std::collections::BTreeMap<String, weigh_schema::Value>| {
            [BYTES, INODES].map(|name| of[name].number().expect("it is known"))
        };
        let [at_start, least, at_end] = [&room.at_start, &room.least, &room.at_end].map(numbers);
        // What weigh itself has there (a library, regions) comes and goes.
        let pages = 5_000_003_f64.div_euclid(4096.0) + 1.0;
        let own = 2e6;
        assert!(least[0] <= at_start[0] - pages * 4096.0, "{mechanism}: {room:?}");
        assert!(least[0] >= at_start[0] - pages * 4096.0 - own, "{mechanism}: {room:?}");
        assert!(least[1] < at_start[1] && at_end[0] > least[0], "{mechanism}: {room:?}");
        assert_eq!(room.at_start["node_filesystem_total_bytes"].number(), Some(8_388_608.0));
        assert_eq!(room.at_start[BYTES].quality, Quality::Exact, "{room:?}");
        assert_eq!(room.least[BYTES].quality, Quality::Sampled);
        assert_eq!(measured.number("disk_free_least_bytes"), least[0], "{mechanism}");
    }
}

/// "Enough space to run the task": a limit on what is left ends the job, or warns.
#[test]
fn a_limit_on_free_space_is_held() {
    needs_root!();
    let script = "sleep 0.2; head -c 5000003 /dev/zero > $TMPDIR/a; sleep 60";
    for mechanism in ["bpf", "ptrace", "poll"] {
        for (limit, metric) in [
            ("disk_free_least_bytes=4MB", "disk_free_least_bytes"),
            ("disk_free_inodes_least=99", "disk_free_inodes_least"),
        ] {
            let run = Weigh::bash(script)
                .options(&format!("--mechanism {mechanism} --grace 1s --limit {limit}"));
            let Some(memory) = Memory::mount(run.scratch(), "memory", "size=8m,nr_inodes=100")
            else {
                return leave_out("no file system can be mounted here");
            };
            let measured = run.env("TMPDIR", &memory.0).end();
            assert_eq!(measured.status.code(), Some(124), "{mechanism}\n{}", measured.everything());
            let exit = measured.summary().exit.clone().expect("it has ended");
            assert_eq!((exit.kind, exit.limit.as_deref()), (ExitKind::Limit, Some(metric)));
            let outcome = &measured.summary().limits[0];
            assert!(outcome.exceeded && outcome.observed.is_some(), "{outcome:?}");
            measured.said("limit of at least");
        }
    }
}

#[test]
fn enough_free_space_is_no_crossing() {
    needs_root!();
    let run = Weigh::bash("head -c 5000003 /dev/zero > $TMPDIR/a; sleep 1.3");
    let run = run.options("--on-limit warn --limit disk_free_least_bytes=3MB");
    let Some(memory) = Memory::mount(run.scratch(), "memory", "size=8m") else {
        return leave_out("no file system can be mounted here");
    };
    let measured = run.env("TMPDIR", &memory.0).measure();
    let outcome = &measured.summary().limits[0];
    let left = outcome.observed.expect("it was looked at").as_f64();
    assert!(!outcome.exceeded && (3e6..8e6).contains(&left), "{outcome:?}");
    measured.said("warning: disk_free_least_bytes is 3.4MB, near its limit of at least 3MB");
}

/// Rows of files say where the job wrote, by each mechanism that has such rows.
#[test]
fn where_files_are_written_is_watched() {
    needs_root!();
    for mechanism in ["bpf", "ptrace", "preload"] {
        let run = Weigh::bash("head -c 1000003 /dev/zero > $PLACE/a")
            .options(&format!("--mechanism {mechanism} --io"));
        let Some(memory) = Memory::mount(run.scratch(), "memory", "size=8m") else {
            return leave_out("no file system can be mounted here");
        };
        let measured = run.env("PLACE", &memory.0).end();
        assert!(measured.status.success(), "{mechanism}: {}", measured.everything());
        let room = room(&measured, &memory.0);
        assert_eq!(room.used_for, [FileSystemPurpose::Output], "{mechanism}");
        let left = room.at_end[BYTES].number().expect("it is known");
        assert_eq!(left, 8_388_608.0 - 245.0 * 4096.0, "{mechanism}: {room:?}");
    }
}

/// Where nobody tells what is written, the user says where it will be; a name of a folder may be a link to another place.
#[test]
fn the_room_where_watched_folders_are() {
    needs_root!();
    for (mechanism, user) in [("bpf", None), ("poll", Some(ORDINARY))] {
        let run = Weigh::bash("head -c 1000003 /dev/zero > $PLACE/a");
        let link = run.scratch().path("link");
        let run = run.options(&format!("--mechanism {mechanism} --watch {}", link.display()));
        let run = user.into_iter().fold(run, Weigh::run_by);
        let Some(memory) = Memory::mount(run.scratch(), "memory", "size=8m") else {
            return leave_out("no file system can be mounted here");
        };
        std::os::unix::fs::symlink("memory", &link).expect("a link");
        let measured = run.env("PLACE", &link).end();
        assert!(measured.status.success(), "{mechanism}: {}", measured.everything());
        let room = room(&measured, &memory.0);
        assert_eq!(room.used_for, [FileSystemPurpose::Watched], "{mechanism}");
        let left = room.at_end[BYTES].number().expect("it is known");
        assert_eq!(left, 8_388_608.0 - 245.0 * 4096.0, "{mechanism}: {room:?}");
    }
}

/// A file system whose server never answers: neither the job nor weigh waits for it.
#[test]
fn a_file_system_that_hangs_is_waited_for_by_nobody() {
    needs_root!();
    for mechanism in ["poll", "bpf"] {
        runs_beside_a_file_system_that_hangs(mechanism);
    }
}

fn runs_beside_a_file_system_that_hangs(mechanism: &str) {
    use std::os::fd::AsRawFd as _;
    let run = Weigh::run(["true"]).options(&format!("--mechanism {mechanism}"));
    let Ok(device) = fs::File::options().read(true).write(true).open("/dev/fuse") else {
        return leave_out("there is no /dev/fuse");
    };
    let point = run.scratch().path("hangs");
    fs::create_dir(&point).expect("a folder");
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
    let options = std::ffi::CString::new(options).expect("no NUL byte");
    let flags = rustix::mount::MountFlags::empty();
    if rustix::mount::mount("hangs", &point, "fuse", flags, options.as_c_str()).is_err() {
        return leave_out("no file system can be mounted here");
    }
    let mounted = Memory(point.clone());
    let began = std::time::Instant::now();
    let measured = run.env("TMPDIR", &point).end();
    let took = began.elapsed();
    // From here on whatever waits is refused.
    drop(device);
    drop(mounted);
    assert!(measured.status.success(), "{}", measured.everything());
    assert!(took < crate::support::patience(15.0), "{took:?}");
    let room = room(&measured, &point);
    for moment in [&room.at_start, &room.least, &room.at_end] {
        let value = &moment[BYTES];
        let reason = value.reason.as_deref().unwrap_or_default();
        assert_eq!(value.quality, Quality::Unavailable);
        assert!(reason.contains("not answered"), "{reason}");
    }
    assert!(measured.value("disk_free_least_bytes").value.is_some(), "the others are known");
}
